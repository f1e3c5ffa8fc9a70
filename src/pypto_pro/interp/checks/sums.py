"""Atomic additions to bytes of GM that nobody wrote in the launch: the sum begins with what the caller passed."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from pypto_pro.analysis.footprints import plain, runs, union, without
from pypto_pro.diag import Diagnostic, Severity
from pypto_pro.interp.checks import words
from pypto_pro.interp.checks.book import Book, make
from pypto_pro.interp.memory import GM

if TYPE_CHECKING:
    from pypto_pro.analysis.region_map import Cell
    from pypto_pro.diag import Span
    from pypto_pro.interp.checks.touched import Memories, Touched
    from pypto_pro.interp.machine import Instr, Machine

MOST_CELLS = 4096


@dataclass(slots=True)
class Addition:
    """The first addition of a place to a tensor, and the regions all of them went to."""

    instr: Instr
    cells: dict[Cell, None] = field(default_factory=dict)


class Sums:
    """Notes of kind uninitialised_read about additions; `issued` is asked about every transfer that adds."""

    def __init__(self, book: Book, machine: Machine, memories: Memories) -> None:
        self.book = book
        self.machine = machine
        self.memories = memories
        self.found: dict[tuple[Span, str], Addition] = {}

    def issued(self, instr: Instr, touched: Touched) -> None:
        """A transfer adds to GM."""
        tensor = words.tensor_of(instr)
        if tensor is None:
            return
        addition = self.found.setdefault((instr.site.span, tensor.name), Addition(instr))
        if len(addition.cells) < MOST_CELLS:
            addition.cells.update(dict.fromkeys(touched.adds))

    def ended(self) -> None:
        """Report additions to bytes that held what the caller had put there."""
        for key, addition in self.found.items():
            ranges = [r for cell in addition.cells for r in self._unwritten(cell)]
            if ranges:
                self.book.add("uninitialised_read", (*key, "sum"), partial(self._describe, addition, key[1], ranges))

    def _unwritten(self, cell: Cell) -> list[tuple[int, int]]:
        """Bytes of a region that no plain write of the launch covers."""
        map_ = self.memories.of(GM, cell.region.start).map
        written = [r for near in (cell, *map_.meeting(plain(cell.region))) if near.written for r in runs(near.region)]
        return without(list(runs(cell.region)), written)

    def _describe(self, addition: Addition, name: str, ranges: list[tuple[int, int]]) -> Diagnostic:
        instr = addition.instr
        return make(
            "uninitialised_read",
            f"`{instr.site.name}` adds to `{name}`, where nobody writes a first value in this launch: the sum begins"
            " with what the caller passed",
            instr.site.span.labelled(words.party("added", instr)),
            notes=(words.bytes_text(GM, union(ranges), self.machine.buffers),),
            help="pass zeros, or store them and let all cores meet before the first addition",
            severity=Severity.NOTE, core=words.short(instr.core), pipes=(words.pipe(instr),),
        )  # fmt: skip
