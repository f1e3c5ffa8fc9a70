"""Accesses past the end of a tensor or of a memory on chip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pypto_pro.analysis.accesses import accesses_of
from pypto_pro.diag import Diagnostic, Severity
from pypto_pro.enums import TensorLayout
from pypto_pro.interp.checks import words
from pypto_pro.interp.checks.blame import Blame
from pypto_pro.interp.checks.book import Book, make
from pypto_pro.interp.machine import Instr
from pypto_pro.interp.memory import GM, SimTensor, SimTile, row_major
from pypto_pro.interp.sites import OpSite, Plan, Site
from pypto_pro.ops.entry import Window
from pypto_pro.ops.overrun import Overrun, describe


class Bounds:
    """Findings of kind out_of_bounds."""

    def __init__(self, book: Book, blame: Blame) -> None:
        self.book = book
        self.blame = blame

    def overrun(self, instr: Instr, overrun: Overrun, site: Site) -> None:
        """An operand of `site` (the instruction's own op, or one inside a call) leaves its memory."""
        entry = self.book.add(
            "out_of_bounds", (site.span, overrun.operand), lambda: self._describe(instr, overrun, site)
        )
        cause = self.blame.of_operands(instr)
        if cause is not None and entry.cause is None:
            entry.cause = cause

    def issued(self, instr: Instr, site: OpSite, plan: Plan) -> None:
        """A transfer was issued with operands it was not looked at with before: does it stay inside its tensor's rows?

        One that leaves the tensor's memory is told of when it starts.
        """
        if plan.overruns or not may_leave(site, instr.args):
            return
        tensor = next(p.name for p, a in zip(site.entry.data_params, instr.args, strict=True)
                      if isinstance(a, SimTensor))  # fmt: skip
        moved = moved_window(instr, tensor)
        axis = moved.beyond() if moved is not None else None
        if moved is not None and axis is not None:
            self.book.add("out_of_bounds", (site.span, tensor), lambda: self._wraps(instr, moved, axis))

    @staticmethod
    def _wraps(instr: Instr, moved: Moved, axis: int) -> Diagnostic:
        tensor, start = moved.tensor, moved.window.offsets[axis]
        stores = any(f.store is GM and f.effect.changes for f in instr.plan.footprints) if instr.plan else False
        rounds = f" of {words.trips(instr)}" if words.trips(instr) else ""
        last = axis == len(tensor.dims) - 1
        beyond = "the next row" if last else "other bytes of the same memory"
        return make(
            "out_of_bounds",
            f"`{instr.site.name}`{rounds} {'writes' if stores else 'reads'} {start}..{start + moved.extents[axis]}"
            f" along axis {axis} of `{tensor.name}`, which has {tensor.dims[axis]}: beyond them lies {beyond}",
            instr.site.span.labelled(words.party("written" if stores else "read", instr)),
            notes=(moved.text(),), help=moved.last_step(), severity=Severity.WARNING if stores else Severity.NOTE,
            core=words.short(instr.core), pipes=(words.pipe(instr),),
        )  # fmt: skip

    def _describe(self, instr: Instr, overrun: Overrun, site: Site) -> Diagnostic:
        changes = overrun.effect.changes
        beyond = max(overrun.high - overrun.limit, 0) + max(-overrun.low, 0)
        rounds = f" of {words.trips(instr)}" if words.trips(instr) else ""
        spans = [site.span.labelled(words.party("written" if changes else "read", instr))]
        if site is not instr.site:
            spans.append(instr.site.span.labelled("called here"))
        notes = [f"{beyond} bytes outside; " + ("on the device they overwrite foreign memory, here they are dropped"
                                                if changes else "the device reads foreign memory, here they read as 0")]
        moved = moved_window(instr, overrun.operand) if site is instr.site else None
        if moved is not None:
            notes.append(moved.text())
        return make(
            "out_of_bounds", f"`{site.name}`{rounds} {describe(overrun)}", *spans, notes=tuple(notes),
            help=moved.last_step() if moved is not None else None,
            core=words.short(instr.core), pipes=(words.pipe(instr),),
        )  # fmt: skip


@dataclass(frozen=True)
class Moved:
    """The window of a tensor that a transfer moves, and the tile whose valid shape decides its extents."""

    window: Window
    tensor: SimTensor
    tile: SimTile

    @property
    def extents(self) -> dict[int, int]:
        """Elements moved along each tensor axis the tile walks."""
        rows, cols = self.window.axes
        found = {cols: self.window.cols} if cols is not None else {}
        return found | ({rows: self.window.rows} if rows is not None else {})

    def beyond(self) -> int | None:
        """The tensor axis the window leaves; None when it leaves none, or steps through the tensor in its own way."""
        tensor = self.tensor
        if tensor.transfer is not None or tensor.type.layout is TensorLayout.NZ or tensor.type.dtype.is_sub_byte:
            return None
        found = (a for a, n in self.extents.items() if n > 0 and self.window.offsets[a] + n > tensor.dims[a])
        return next(found, None)

    def text(self) -> str:
        """What is moved, in elements."""
        window = ", ".join(
            f"{o}..{o + self.extents[axis]}" if axis in self.extents else str(o)
            for axis, o in enumerate(self.window.offsets)
        )
        return (
            f"[{window}] of `{self.tensor.name}`, which is {list(self.tensor.dims)}; the valid shape of"
            f" `{self.tile.name}`, {self.tile.vr} x {self.tile.vc}, decides how much is moved"
        )

    def last_step(self) -> str | None:
        """The mend when this is the last, shorter step over a tensor; None when another mistake would look alike.

        Certain when every offset lies inside the tensor and each axis that is left stands at the last multiple of a
        whole tile, which the extent of the tensor is not.
        """
        tile, dims, offsets = self.tile, self.tensor.dims, self.window.offsets
        whole = self.tensor.base == 0 and self.tensor.strides == row_major(dims) and self.tensor.transfer is None
        if not whole or not all(0 <= o < d for o, d in zip(offsets, dims, strict=True)):
            return None
        left: dict[int, int] = {}
        for axis, extent in self.extents.items():
            rest = dims[axis] - offsets[axis]
            if rest < extent:
                left[axis] = rest
                if offsets[axis] % extent or offsets[axis] // extent == 0:
                    return None
        if not left or (tile.vr, tile.vc) != (tile.type.rows, tile.type.cols):
            return None
        rows, cols = (left.get(a, n) if a is not None else n
                      for a, n in zip(self.window.axes, (tile.vr, tile.vc), strict=True))  # fmt: skip
        moves = f"pl.set_validshape({tile.name.split('[')[0]}, ...)"
        return (
            f"the last step is shorter: here only {rows} x {cols} of {tile.vr} x {tile.vc} are left; set that with"
            f" {moves} before the transfer, and the full shape again in the other rounds"
        )


def may_leave(site: OpSite, args: tuple[Any, ...]) -> bool:
    """Whether a transfer may leave its tensor's extents: a look at the usual form, which most of them have."""
    if len(args) < 3 or not site.entry.copies:
        return False
    tile, tensor, offsets = args[:3]
    if isinstance(tensor, SimTile):
        tile, tensor = tensor, tile
    if not isinstance(tensor, SimTensor):
        return False
    usual = isinstance(tile, SimTile) and isinstance(offsets, tuple) and len(offsets) == len(tensor.dims) > 1
    if not usual or site.attrs.get("order") is not None:
        return True
    dims = tensor.dims
    return bool(offsets[-2] + tile.vr > dims[-2] or offsets[-1] + tile.vc > dims[-1])


def moved_window(instr: Instr, operand: str) -> Moved | None:
    """The window of the tensor operand of a transfer; None for other accesses."""
    site = instr.site
    if not isinstance(site, OpSite):
        return None
    named: dict[str, Any] = site.named(instr.args)
    tensor = named.get(operand)
    tile = next((a for a in instr.args if isinstance(a, SimTile)), None)
    if not isinstance(tensor, SimTensor) or tile is None:
        return None
    for access, touched in accesses_of(site.entry, named):
        if touched is tensor and isinstance(access.where, Window):
            return Moved(access.where, tensor, tile)
    return None
