"""Findings of a check that need no run: ops without a lock, constants that changed after the compile, mixed orders."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pypto_pro.analysis.mixed_orders import Mixed, find_mixed_orders
from pypto_pro.analysis.unlocked import Unlocked, find_unlocked, has_ids
from pypto_pro.diag import BY_KIND, CODES, Diagnostic
from pypto_pro.ir.nodes import Kernel
from pypto_pro.runtime.watch import Watched


def notes_of(kernel: Kernel, watched: Iterable[Watched]) -> list[Diagnostic]:
    """All of them. `watched`: the constants from outside that the kernel was compiled with."""
    return [*stale_captures(kernel, watched), *missing_locks(kernel), *mixed_orders(kernel)]


def _note(kind: str, message: str, kernel: Kernel, *spans: Any, notes: tuple[str, ...] = (), help: str | None = None,
          ) -> Diagnostic:  # fmt: skip
    code = CODES[BY_KIND[kind].code]
    return Diagnostic(code.code, kind, code.severity, message, spans, notes, help, kernel=kernel.name)


def stale_captures(kernel: Kernel, watched: Iterable[Watched]) -> list[Diagnostic]:
    """Constants whose value differs from the one the variant was compiled with."""
    return [
        _note(
            "stale_capture",
            f"{constant} is {now} now, this variant was compiled with {constant.printed}", kernel,
            kernel.span.labelled(f"compiled with {constant.text} = {constant.printed}"),
            notes=("a specialisation reads constants once, when it is compiled; the device does the same",),
            help=f"make `{constant.text}` a parameter, a tiling key or tiling data",
        )
        for constant in watched
        if (now := constant.changed()) is not None
    ]


def missing_locks(kernel: Kernel) -> list[Diagnostic]:
    """Ops that `auto_mutex` left without a lock."""
    any_ids = has_ids(kernel)
    return [_missing_lock(kernel, unlocked, any_ids) for unlocked in find_unlocked(kernel)]


def _missing_lock(kernel: Kernel, found: Unlocked, any_ids: bool) -> Diagnostic:
    bare = " and ".join(f"`{name}`" for name in found.bare)
    if found.partly:
        why = f"{bare} carries no mutex ids, and `{found.op}` locks only when all its tiles do"
    elif any_ids:
        why = f"{bare} carries no mutex ids"
    else:
        why = "no tile of this kernel carries mutex ids, so auto_mutex does nothing"
    return _note(
        "no_lock", f"no lock was inserted for this `{found.op}`, because {why}", kernel,
        found.span.labelled("not locked"), notes=("nothing is wrong as long as flags or barriers order it",),
        help="take the tile from pl.make_tile_group(..., mutex_ids=[...]), or set auto_mutex=False",
    )  # fmt: skip


def mixed_orders(kernel: Kernel) -> list[Diagnostic]:
    """Tensor variables walked in orders that one descriptor of the device cannot hold."""
    return [_mixed_order(kernel, mixed) for mixed in find_mixed_orders(kernel)]


def _mixed_order(kernel: Kernel, mixed: Mixed) -> Diagnostic:
    def spelled(order: tuple[int, ...] | None) -> str:
        return "no order" if order is None else f"order {list(order)}"

    name, first, second = f"`{mixed.tensor}`", mixed.first, mixed.second
    return _note(
        "stride_mismatch", f"{name} is moved with {spelled(second.order)} here and with {spelled(first.order)} before",
        kernel, second.span.labelled(f"{spelled(second.order)} here"),
        first.span.labelled(f"{spelled(first.order)} here"),
        notes=("a tensor variable has one transfer descriptor on the device, where one of the two may use that of the "
               "other; here each has its own",),
        help=f"make a second view of {name} with pl.make_tensor for one of the two orders",
    )  # fmt: skip
