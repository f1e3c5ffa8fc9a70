"""Reads of bytes that nobody wrote, in words: which rows of which tile, and what was written beside them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from pypto_pro.analysis.footprints import union
from pypto_pro.analysis.region_map import Cell
from pypto_pro.diag import Diagnostic, Severity, Span
from pypto_pro.enums import MemorySpace, PipeType
from pypto_pro.interp.checks import words
from pypto_pro.interp.checks.book import Book, Entry, make
from pypto_pro.interp.machine import Core, Instr
from pypto_pro.interp.memory import SimTile
from pypto_pro.interp.sites import NameSite, OpSite, Site
from pypto_pro.layouts import is_fractal
from pypto_pro.ops.operands import tile_geometry

if TYPE_CHECKING:
    from pypto_pro.interp.checks.blame import Blame
    from pypto_pro.interp.checks.touched import Memory


def valueless(book: Book, core: Core, site: NameSite, trips: tuple[int, ...]) -> None:
    """A variable used on a way that never gave it a value, once a variable; `trips` are the values of the loops."""
    rounds = ", ".join(f"{name}={value}" for name, value in zip(site.loops, trips, strict=False))
    book.add("uninitialised_read", (site.name, site.given), lambda: make(
        "uninitialised_read", f"`{site.name}` has no value here: what gives it one did not run",
        site.span.labelled("used here" + (f", at {rounds}" if rounds else "")),
        *(span.labelled("given a value here, in a loop or branch that was not entered") for span in site.given),
        notes=("on the device it is whatever the register held; here it counts as 0, a tile as empty",),
        help=f"give `{site.name}` a value before the loop or branch, or use it inside only",
        core=words.short(core), pipes=("S",),
    ))  # fmt: skip


FILL = "fill the tile first, or narrow its valid shape to what was written"
ADD_UP = "begin the sum with pl.matmul: pl.matmul_acc adds to what the accumulator holds"


class Uninitialised:
    """Findings of kind uninitialised_read."""

    def __init__(self, book: Book, blame: Blame) -> None:
        self.book = book
        self.blame = blame

    def read(self, instr: Instr, cells: list[Cell], beside: list[Span]) -> None:
        """An op used regions with undefined bytes; they count as defined from here on."""
        entry = self.book.add("uninitialised_read", instr.site.span, lambda: self._describe(instr, cells, beside))
        self._blame(instr, entry)
        for cell in cells:
            memory: Memory = cell.store
            for start, end in undefined_ranges(cell):
                assert memory.plane is not None
                memory.plane[start:end] = 0

    def box(self, instr: Instr, cells: list[Cell], beside: list[Span]) -> None:
        """A copy into a fractal tile read bytes that nobody wrote outside the valid rows: it works on whole boxes."""
        tiles = [a for a in instr.args if isinstance(a, SimTile)]
        boxed = any(is_fractal(tile_geometry(t.type).layout) for t in tiles)
        memory: Memory = cells[0].store
        source = next((t for t in tiles if t.addr == cells[0].region.start and memory.store in t.stores), None)
        if not boxed or source is None or source.vr >= source.type.rows:
            return
        self.book.add("stale_box", instr.site.span, lambda: make(
            "stale_box",
            f"`{instr.site.name}` works on whole boxes: it reads rows of `{source.name}` beyond the valid {source.vr},"
            " which nobody wrote",
            instr.site.span.labelled(words.party("read", instr)), *beside,
            notes=("the values only reach places outside the valid shape",),
            core=words.short(instr.core), pipes=(words.pipe(instr),),
        ))  # fmt: skip

    def lanes(self, instr: Instr, site: Site, lanes: int) -> None:
        """A register op or thread used `lanes` undefined values."""
        entry = self.book.add("uninitialised_read", (instr.site.span, site.span), lambda: make(
            "uninitialised_read",
            f"`{site.name}` uses {lanes} active lane{'s' if lanes > 1 else ''} with bytes that nobody wrote",
            site.span.labelled(words.party("used", instr)), instr.site.span.labelled("called here"),
            help="mask the lanes that hold no data, or fill the tile before the call",
            core=words.short(instr.core), pipes=(words.pipe(instr),),
        ))  # fmt: skip
        self._blame(instr, entry)

    def _blame(self, instr: Instr, entry: Entry) -> None:
        cause = self.blame.of(instr)
        if cause is not None and entry.cause is None:
            entry.cause = cause
        if instr.site.pipe is PipeType.S:
            self.blame.taint(instr.core, entry)

    def _describe(self, instr: Instr, cells: list[Cell], beside: list[Span]) -> Diagnostic:
        cell = cells[0]
        memory: Memory = cell.store
        missing = union(r for c in cells for r in undefined_ranges(c))
        size = sum(b - a for a, b in missing)
        name = words.name_of(instr, memory.store, cell.region)
        rows = rows_of(instr, missing)
        stores = isinstance(instr.site, OpSite) and instr.site.entry.copies
        verb = "stores" if stores else "reads"
        where = f"{rows} of {name}" if rows else f"{size} bytes of {name}"
        spans = [instr.site.span.labelled(words.party("stored" if stores else "read", instr)), *beside]
        whole = all(is_all_undefined(c) for c in cells)
        return make(
            "uninitialised_read", f"`{instr.site.name}` {verb} {where}, which nobody wrote in this kernel", *spans,
            notes=(f"{size} undefined bytes: {words.bytes_text(memory.store, missing, ())}",),
            help=ADD_UP if memory.store.space is MemorySpace.Acc and instr.site.pipe is PipeType.M else FILL,
            severity=Severity.WARNING if stores and whole else None,
            core=words.short(instr.core), pipes=(words.pipe(instr),),
        )  # fmt: skip


def undefined_ranges(cell: Cell) -> Iterator[tuple[int, int]]:
    """The undefined bytes of a region."""
    memory: Memory = cell.store
    plane = memory.plane
    if plane is None:
        return
    region = cell.region
    for k in range(region.rows):
        start = region.start + k * region.pitch
        flags = plane[start : start + region.row_bytes] != 0
        edges = np.flatnonzero(np.diff(np.concatenate(([False], flags, [False])).astype(np.int8)))
        for low, high in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            yield start + low, start + high


def is_all_undefined(cell: Cell) -> bool:
    """Whether no byte of a region was ever written."""
    return sum(b - a for a, b in undefined_ranges(cell)) == cell.region.rows * cell.region.row_bytes


def rows_of(instr: Instr, missing: Iterable[tuple[int, int]]) -> str:
    """The rows of a row-major tile operand that hold the bytes: `rows 12..16`; empty when that does not fit."""
    ranges = list(missing)
    for tile in (a for a in instr.args if isinstance(a, SimTile)):
        width = tile.type.cols * tile.type.dtype.bits() // 8
        if tile.type.cols <= 1 or (tile.type.layout is not None and tile.type.layout.name != "ND"):
            continue
        low, high = ranges[0][0] - tile.addr, ranges[-1][1] - tile.addr
        if low >= 0 and high <= tile.type.rows * width:
            first, last = low // width, -(-high // width)
            return f"row {first}" if last - first == 1 else f"rows {first}..{last}"
    return ""


def written_beside(cell: Cell) -> list[Span]:
    """Who wrote a part of a region, or bytes it shares with another."""
    writers: list[Any] = [c.writer for c in (cell, *cell.live) if c.writer is not None]
    spans = dict.fromkeys(w.site.span.labelled(words.party("the rest was written", w)) for w in writers)
    return list(spans)[:2]
