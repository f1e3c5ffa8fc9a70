"""Notes of a check that need no run: ops without a lock, module constants that changed after the compile."""

from __future__ import annotations

import sys
from typing import Any

from pypto_pro.analysis.unlocked import Unlocked, find_unlocked, has_ids
from pypto_pro.diag import BY_KIND, CODES, Diagnostic
from pypto_pro.ir.nodes import Kernel


def notes_of(kernel: Kernel) -> list[Diagnostic]:
    """All of them."""
    return [*stale_captures(kernel), *missing_locks(kernel)]


def _note(kind: str, message: str, kernel: Kernel, *spans: Any, notes: tuple[str, ...] = (), help: str | None = None,
          ) -> Diagnostic:  # fmt: skip
    code = CODES[BY_KIND[kind].code]
    return Diagnostic(code.code, kind, code.severity, message, spans, notes, help, kernel=kernel.name)


def stale_captures(kernel: Kernel) -> list[Diagnostic]:
    """Module constants whose value differs from the one the variant was compiled with."""
    module = next((m for m in list(sys.modules.values()) if getattr(m, "__file__", None) == kernel.span.file), None)
    now: dict[str, Any] = vars(module) if module is not None else {}
    return [
        _note(
            "stale_capture",
            f"global `{name}` is {now[name]!r} now, this variant was compiled with {then}", kernel,
            kernel.span.labelled(f"compiled with {name} = {then}"),
            notes=("a specialisation reads constants once, when it is compiled; the device does the same",),
            help=f"make `{name}` a parameter, a tiling key or tiling data",
        )
        for name, then in kernel.captured
        if name in now and repr(now[name]) != then
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
