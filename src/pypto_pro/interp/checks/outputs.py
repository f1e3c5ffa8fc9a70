"""Output bytes nobody wrote: where a store moved less than its tile because of a valid shape left over from before.

A store with a narrowed tile is a suspect when the valid shape was set in another round of the loops both stand in. At
the end, what the full tile would have written and nobody else did is missing from the output. Other holes are only
counted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pypto_pro.analysis.accesses import touches
from pypto_pro.analysis.footprints import end_of, plain, runs, union, without
from pypto_pro.diag import Diagnostic
from pypto_pro.interp.checks import words
from pypto_pro.interp.checks.book import Book, make
from pypto_pro.interp.memory import GM, Buffer, SimTensor, SimTile
from pypto_pro.interp.sites import OpSite, ShapeSite
from pypto_pro.ir.launch import BufferValue
from pypto_pro.ir.types import TensorType
from pypto_pro.layouts import Region

if TYPE_CHECKING:
    from pypto_pro.analysis.region_map import Cell
    from pypto_pro.interp.checks.touched import Memories
    from pypto_pro.interp.machine import Instr, Machine

MOST_SUSPECTS = 10_000
LARGEST_BUFFER = 256 << 20
"""Bytes up to which the holes of a buffer are counted."""


@dataclass(slots=True, eq=False)
class Suspect:
    """A store whose tile was narrowed in an earlier round, and what the full tile would have touched."""

    instr: Instr
    tensor: SimTensor
    tile: SimTile
    place: ShapeSite
    trips: tuple[int, ...]
    regions: tuple[Region, ...]


class Outputs:
    """Findings of kind unwritten_output."""

    def __init__(self, book: Book, machine: Machine, memories: Memories) -> None:
        self.book = book
        self.machine = machine
        self.memories = memories
        self.suspects: list[Suspect] = []

    def issued(self, instr: Instr, site: OpSite) -> None:
        """A transfer into GM was issued: its operands are as the scalar unit left them."""
        tile = next((a for a in instr.args if isinstance(a, SimTile)), None)
        tensor = words.tensor_of(instr)
        if tile is None or tensor is None or tile.owner is None or len(self.suspects) >= MOST_SUSPECTS:
            return
        rows, cols = tile.type.rows, tile.type.cols
        set_at = tile.owner.set_at
        if set_at is None or (tile.vr, tile.vc) == (rows, cols) or not stale(set_at, instr):
            return
        place, trips = set_at
        named = site.named(instr.args)
        whole = {name: tile.like(tile.addr, rows, cols) if a is tile else a for name, a in named.items()}
        origin = tensor.buffer.address if tensor.buffer is not None else 0
        regions = tuple(
            Region(r.start + origin, r.rows, r.row_bytes, r.pitch)
            for touch in touches(site.entry, whole)
            if whole[touch.operand] is tensor and touch.effect.changes
            for r in touch.regions
        )
        self.suspects.append(Suspect(instr, tensor, tile, place, trips, regions))

    def ended(self) -> None:
        """Report what the suspects left out and nobody else wrote."""
        missing: dict[tuple[Any, Any], list[tuple[int, int]]] = {}
        first: dict[tuple[Any, Any], Suspect] = {}
        for suspect in self.suspects:
            key = (suspect.instr.site.span, suspect.place.span)
            found = self._unwritten(suspect)
            if found:
                missing.setdefault(key, []).extend(found)
                first.setdefault(key, suspect)
        for key, ranges in missing.items():
            self.book.add("unwritten_output", key, partial(self._describe, first[key], union(ranges)))

    def _unwritten(self, suspect: Suspect) -> list[tuple[int, int]]:
        """Bytes the full tile would have written, inside the tensor's memory, that no store wrote."""
        buffer = suspect.tensor.buffer
        assert buffer is not None
        low, high = buffer.address, buffer.address + buffer.mem.size
        wanted = [(max(a, low), min(b, high)) for r in suspect.regions for a, b in runs(r) if a < high and b > low]
        taken: list[tuple[int, int]] = []
        for region in suspect.regions:
            map_ = self.memories.of(GM, low).map
            for cell in map_.meeting(plain(region)):
                if cell.written or cell.added:
                    taken += runs(cell.region)
        return without(wanted, taken)

    def _describe(self, suspect: Suspect, ranges: list[tuple[int, int]]) -> Diagnostic:
        instr, tile, tensor = suspect.instr, suspect.tile, suspect.tensor
        count = sum(b - a for a, b in ranges) * 8 // tensor.type.dtype.bits()
        rows, cols = tile.type.rows, tile.type.cols
        when = words.rounds(suspect.place.loops, suspect.trips)
        return make(
            "unwritten_output",
            f"{count} elements of `{tensor.name}` are never written: this `{instr.site.name}` moves"
            f" {tile.vr} x {tile.vc} of its {rows} x {cols} tile",
            instr.site.span.labelled(words.party(f"used valid shape ({tile.vr}, {tile.vc})", instr)),
            suspect.place.span.labelled(f"set here in {when}" if when else "set here"),
            notes=(f"{words.bytes_text(GM, ranges, self.machine.buffers)}; a valid shape stays with its tile until it"
                   " is set again",),
            help="set the valid shape in every round, not only in the last",
            core=words.short(instr.core), pipes=(words.pipe(instr),),
        )  # fmt: skip

    def holes(self) -> list[str]:
        """Tensors that nobody touched, and written ones with bytes that nobody wrote, one line each."""
        found = []
        for buffer in self.machine.buffers:
            if not buffer.mem.size:
                continue
            cells = self._cells(buffer)
            if not cells:
                found.append(f"`{buffer.name}` is never read or written")
            elif buffer.mem.size <= LARGEST_BUFFER:
                found += self._hole(buffer, cells)
        return found

    def _cells(self, buffer: Buffer) -> list[Cell]:
        """The regions that were touched in a buffer."""
        low, high = buffer.address, buffer.address + buffer.mem.size
        cells = dict.fromkeys(self.memories.of(GM, low).map.cells.values())
        return [c for c in cells if c.region.start < high and end_of(c.region) > low]

    def _hole(self, buffer: Buffer, cells: list[Cell]) -> list[str]:
        low, high = buffer.address, buffer.address + buffer.mem.size
        plane = np.zeros(buffer.mem.size, np.bool_)
        for cell in cells:
            region = cell.region
            if (cell.written or cell.added) and low <= region.start and end_of(region) <= high:
                np.ndarray(
                    (region.rows, region.row_bytes), np.bool_, plane.data, region.start - low, (region.pitch, 1)
                )[...] = True
        missing = int(plane.size - plane.sum())
        if not missing or missing == plane.size:
            return []
        dims = self._extents(buffer)
        whole = len(dims) > 2 and math.prod(dims) > 0 and plane.size % math.prod(dims) == 0
        where = part_text(plane, dims) if whole else holes_text(plane, buffer.row_bytes)
        return [f"{missing} of {plane.size} bytes of `{buffer.name}` were not written: {where}"]


    def _extents(self, buffer: Buffer) -> tuple[int, ...]:
        """The extents of the tensor a buffer holds, when its elements are whole bytes; empty otherwise."""
        for param, value in zip(self.machine.kernel.params, self.machine.launch.args, strict=True):
            if param.name == buffer.name and isinstance(param.type, TensorType) and isinstance(value, BufferValue):
                return () if param.type.dtype.is_sub_byte else tuple(value.dims or ())
        return ()


def part_text(plane: NDArray[np.bool_], dims: tuple[int, ...]) -> str:
    """The smallest window of a tensor that holds all elements with bytes that are False: `[0..2, 24..40, 0..64]`."""
    missing: NDArray[np.bool_] = np.logical_or.reduce((~plane).reshape(*dims, -1), axis=-1)
    axes = range(len(dims))
    along = [np.logical_or.reduce(missing, axis=tuple(a for a in axes if a != axis)) for axis in axes]
    window = ", ".join(listed_rows(runs_of(np.asarray(m))) for m in along)
    whole = bool(missing[np.ix_(*along)].all())
    return f"[{window}]" if whole else f"parts of [{window}]"


def holes_text(plane: NDArray[np.bool_], row_bytes: int) -> str:
    """Which rows of a tensor hold bytes that are False, and which bytes of them when it is the same in each."""
    if not row_bytes or plane.size % row_bytes:
        return f"bytes {words.listed(runs_of(~plane))}"
    rows = plane.reshape(-1, row_bytes)
    lacking = (~rows).any(axis=-1).reshape(-1)
    first = ~rows[lacking][0]
    where = f"rows {listed_rows(runs_of(lacking))}"
    if first.all() and not rows[lacking].any():
        return where
    alike = bool((~rows[lacking] == first).all())
    return f"bytes {words.listed(runs_of(first))} of each of {where}" if alike else f"parts of {where}"


def runs_of(flags: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Half-open ranges of the positions that are True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], flags, [False])).astype(np.int8)))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def listed_rows(ranges: list[tuple[int, int]]) -> str:
    """Half-open ranges of rows, the first few of them."""
    more = len(ranges) - words.MAX_RUNS
    text = ", ".join(f"{a}..{b}" for a, b in ranges[: words.MAX_RUNS])
    return text + (f" and {more} more runs" if more > 0 else "")


def stale(set_at: tuple[ShapeSite, tuple[int, ...]], instr: Instr) -> bool:
    """Whether a valid shape was set in another round of the loops around both the setting and the use."""
    place, trips = set_at
    for mine, own, theirs, other in zip(place.loops, trips, instr.site.loops, instr.trips, strict=False):
        if mine != theirs:
            return False
        if own != other:
            return True
    return False
