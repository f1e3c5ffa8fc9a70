"""Accesses past the end of a tensor or of a memory on chip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pypto_pro.analysis.accesses import accesses_of
from pypto_pro.diag import Diagnostic, Severity, Span
from pypto_pro.enums import TensorLayout
from pypto_pro.interp.checks import words
from pypto_pro.interp.checks.blame import Blame
from pypto_pro.interp.checks.book import Book, Entry, make
from pypto_pro.interp.machine import Instr
from pypto_pro.interp.memory import GM, SimTensor, SimTile, row_major
from pypto_pro.interp.sites import OpSite, Plan, Site
from pypto_pro.ops.entry import Window
from pypto_pro.ops.overrun import Overrun, describe

SHORTER = "the last step is shorter"


class Bounds:
    """Findings of kind out_of_bounds."""

    def __init__(self, book: Book, blame: Blame) -> None:
        self.book = book
        self.blame = blame

    def overrun(self, instr: Instr, overrun: Overrun, site: Site) -> None:
        """An operand of `site` (the instruction's own op, or one inside a call) leaves its memory."""
        place = (site.span, overrun.operand)
        entry = self.book.add("out_of_bounds", place, lambda: self._describe(instr, overrun, site))
        cause = self.blame.of_operands(instr)
        if cause is not None and entry.cause is None:
            entry.cause = cause
        self._explain(place)
        if site is instr.site and entry.count > 1:
            self._reconsider(entry, instr, overrun.operand)

    def _explain(self, place: tuple[Span, str]) -> None:
        """A window that leaves an axis somewhere and the memory elsewhere is one mistake."""
        past = self.book.entries.get(("out_of_bounds", place))
        beyond = self.book.entries.get(("out_of_bounds", (*place, "axis")))
        if past is not None and beyond is not None and beyond.cause is None:
            beyond.cause = past

    @staticmethod
    def _reconsider(entry: Entry, instr: Instr, operand: str) -> None:
        """Whether what explained the first window of a place also explains this one; otherwise it was no last step."""
        said = entry.diagnostic
        if said.help is None or SHORTER not in said.help:
            return
        moved = moved_window(instr, operand)
        if moved is not None and moved.last_step() is None:
            entry.diagnostic = replace(said, help=moved.exchanged())

    def issued(self, instr: Instr, site: OpSite, plan: Plan) -> None:
        """A transfer was issued with operands it was not looked at with before: does it stay inside its tensor's rows?

        One that leaves the tensor's memory is told of when it starts.
        """
        outside = not plan.overruns and steps_outside(site, instr.args)
        if plan.overruns or not (outside or may_leave(site, instr.args)):
            return
        tensor = next(p.name for p, a in zip(site.entry.data_params, instr.args, strict=True)
                      if isinstance(a, SimTensor))  # fmt: skip
        moved = moved_window(instr, tensor)
        index = moved.index_outside() if outside and moved is not None else None
        if moved is not None and index is not None:
            self.book.add("out_of_bounds", (site.span, tensor, "index"), lambda: self._index(instr, moved, index))
        axis = moved.beyond() if moved is not None else None
        if moved is not None and axis is not None:
            self.book.add("out_of_bounds", (site.span, tensor, "axis"), lambda: self._wraps(instr, moved, axis))
            self._explain((site.span, tensor))

    @staticmethod
    def _wraps(instr: Instr, moved: Moved, axis: int) -> Diagnostic:
        tensor, start = moved.tensor, moved.window.offsets[axis]
        stores = stores_to_gm(instr)
        rounds = f" of {words.trips(instr)}" if words.trips(instr) else ""
        last = axis == len(tensor.dims) - 1
        beyond = "the next row" if last else "other bytes of the same memory"
        return make(
            "out_of_bounds",
            f"`{instr.site.name}`{rounds} {'writes' if stores else 'reads'} {start}..{start + moved.extents[axis]}"
            f" along axis {axis} of `{tensor.name}`, which has {tensor.dims[axis]}: beyond them lies {beyond}",
            instr.site.span.labelled(words.party("written" if stores else "read", instr)),
            notes=(moved.text(),), help=moved.mend(), severity=Severity.WARNING if stores else Severity.NOTE,
            core=words.short(instr.core), pipes=(words.pipe(instr),),
        )  # fmt: skip

    @staticmethod
    def _index(instr: Instr, moved: Moved, axis: int) -> Diagnostic:
        stores = stores_to_gm(instr)
        rounds = f" of {words.trips(instr)}" if words.trips(instr) else ""
        return make(
            "out_of_bounds",
            f"`{instr.site.name}`{rounds} {'writes' if stores else 'reads'} at {moved.index_text(axis)}: that is"
            " another place of the same memory",
            instr.site.span.labelled(words.party("written" if stores else "read", instr)),
            notes=("nothing is wrong when two axes are walked as one", moved.text()), severity=Severity.NOTE,
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
            index = moved.index_outside()
            notes += [moved.text()] if index is None else [moved.text(), f"it stands at {moved.index_text(index)}"]
        return make(
            "out_of_bounds", f"`{site.name}`{rounds} {describe(overrun)}", *spans, notes=tuple(notes),
            help=moved.mend() if moved is not None else None,
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

    def index_outside(self) -> int | None:
        """A tensor axis the window stands still on, at an index it does not have; None when there is none."""
        tensor, window = self.tensor, self.window
        if tensor.transfer is not None or tensor.type.layout is TensorLayout.NZ or not (window.rows and window.cols):
            return None
        found = (a for a, (o, d) in enumerate(zip(window.offsets, tensor.dims, strict=True)) if not 0 <= o < d)
        return next((a for a in found if a not in self.extents), None)

    def index_text(self, axis: int) -> str:
        """The index of the window on one axis, and the extent of that."""
        tensor = self.tensor
        return f"index {self.window.offsets[axis]} of axis {axis} of `{tensor.name}`, which has {tensor.dims[axis]}"

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
            f"{SHORTER}: here only {rows} x {cols} of {tile.vr} x {tile.vc} are left; set that with"
            f" {moves} before the transfer, and the full shape again in the other rounds"
        )


    def mend(self) -> str | None:
        """What keeps the window inside, when that can be told."""
        return self.last_step() or self.exchanged() or self.other_order()

    def exchanged(self) -> str | None:
        """The mend when the window begins outside and the offsets in the other order would hold it."""
        a, b = self.window.axes
        offsets = list(self.window.offsets)
        if a is None or b is None or all(o < d for o, d in zip(offsets, self.tensor.dims, strict=True)):
            return None
        offsets[a], offsets[b] = offsets[b], offsets[a]
        if not self._fits(offsets, a, b):
            return None
        return (
            f"are the offsets along axes {a} and {b} exchanged? With {offsets[a]} along axis {a} and {offsets[b]} along"
            f" axis {b} the window lies inside"
        )

    def other_order(self) -> str | None:
        """The mend when the rows have no room along their axis at all, and have it along exactly one other."""
        a, b = self.window.axes
        offsets, dims = self.window.offsets, self.tensor.dims
        if a is None or b is None or max(self.window.rows - dims[a], self.window.cols - dims[b]) <= 0:
            return None
        if self._fits(offsets, b, a):
            return f"rows and columns of the tile are exchanged: with order=[{b}, {a}] the window lies inside"
        others = [c for c in range(len(dims)) if c not in (a, b) and self._fits(offsets, c, b)]
        if len(others) != 1:
            return None
        return f"is the order wrong? With order=[{others[0]}, {b}] the window lies inside"

    def _fits(self, offsets: Sequence[int], rows_axis: int, cols_axis: int) -> bool:
        """Whether the window, walked along these axes from these offsets, stays inside every extent."""
        extents = {rows_axis: self.window.rows, cols_axis: self.window.cols}
        return all(o >= 0 and o + extents.get(k, 1) <= d
                   for k, (o, d) in enumerate(zip(offsets, self.tensor.dims, strict=True)))  # fmt: skip


def stores_to_gm(instr: Instr) -> bool:
    """Whether an instruction changes bytes of GM."""
    return instr.plan is not None and any(f.store is GM and f.effect.changes for f in instr.plan.footprints)


def steps_outside(site: OpSite, args: tuple[Any, ...]) -> bool:
    """Whether a transfer begins at an index that an axis of its tensor does not have: a look at the offsets alone."""
    if len(args) < 3 or not site.entry.copies or not isinstance(args[2], tuple):
        return False
    tensor = args[1] if isinstance(args[1], SimTensor) else args[0]
    if not isinstance(tensor, SimTensor) or len(args[2]) != len(tensor.dims):
        return False
    return any(not 0 <= o < d for o, d in zip(args[2], tensor.dims, strict=True))


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
