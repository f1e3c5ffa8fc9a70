"""Accesses past the end of a tensor or of a memory on chip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pypto_pro.analysis.accesses import accesses_of
from pypto_pro.diag import Diagnostic
from pypto_pro.interp.checks import words
from pypto_pro.interp.checks.blame import Blame
from pypto_pro.interp.checks.book import Book, make
from pypto_pro.interp.machine import Instr
from pypto_pro.interp.memory import SimTensor, SimTile, row_major
from pypto_pro.interp.out_of_bounds import describe
from pypto_pro.interp.sites import OpSite, Overrun, Site
from pypto_pro.ops.entry import Window


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
