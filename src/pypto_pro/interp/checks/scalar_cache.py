"""Scalar accesses to GM go through a data cache of each core: `dcci` must lie between them and anybody else's.

A write through S reaches others only after its core cleans the line; a read through S is fresh only if its core has
dropped the line after it learned of the write. Lines are 64 bytes, counted from the start of the argument's buffer.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

from pypto_pro.analysis.footprints import meets
from pypto_pro.analysis.order import Knowledge, Order, Release
from pypto_pro.analysis.region_map import Cell
from pypto_pro.diag import Diagnostic
from pypto_pro.enums import CacheLine, PipeType
from pypto_pro.interp.cache import LINE
from pypto_pro.interp.checks import words
from pypto_pro.interp.checks.blame import Blame
from pypto_pro.interp.checks.book import Book, make
from pypto_pro.interp.checks.counters import known_of
from pypto_pro.interp.checks.touched import Touched
from pypto_pro.interp.machine import Core, Instr, Machine
from pypto_pro.interp.memory import GM, SimTensor
from pypto_pro.interp.services import ServiceSite

S = PipeType.S.value


class ScalarCaches:
    """Findings of kind coherence, and races on one cache line."""

    def __init__(self, book: Book, blame: Blame, machine: Machine, order: Order) -> None:
        self.book = book
        self.blame = blame
        self.machine = machine
        self.order = order
        buffers = sorted((b.address, b.address + b.mem.size) for b in machine.buffers if b.mem.size)
        self.starts = [start for start, _ in buffers]
        self.dropped_all: dict[int, Release] = {}
        self.dropped: dict[tuple[int, int], Release] = {}
        """What S of a core knew when it last dropped a line (by core and line address)."""
        self.dirty: dict[int, dict[int, list[Cell]]] = {}
        self.lines: dict[int, dict[int, tuple[Instr, Cell]]] = {}
        """The last scalar write of each core to a line."""

    def line(self, address: int) -> int:
        """The address of the line that holds a byte."""
        origin = self.starts[max(bisect_right(self.starts, address) - 1, 0)]
        return address - (address - origin) % LINE

    # --- dcci -------------------------------------------------------------------------------------------------------

    def cleaned(self, instr: Instr, site: ServiceSite) -> None:
        """`dcci`: dirty lines go to memory and are dropped, one of them or all."""
        given: dict[str, Any] = {**dict(zip(site.names, instr.args, strict=True)), **site.attrs}
        target = given["target"]
        core = instr.core.index
        self.order.scalar_acted(core, instr.number)
        if not isinstance(target, SimTensor):
            return
        state = self.order.pipes[core * 7 + S].release(instr.number)
        dirty = self.dirty.get(core, {})
        if given.get("cache_line") is CacheLine.SINGLE_CACHE_LINE:
            line = self.line(self._address(target, given.get("offset")))
            self.dropped[core, line] = state
            cells = dirty.pop(line, [])
        else:
            self.dropped_all[core] = state
            cells = [cell for found in dirty.values() for cell in found]
            dirty.clear()
        for cell in cells:
            cell.flushed = instr.number

    @staticmethod
    def _address(target: SimTensor, offset: Any) -> int:
        if isinstance(offset, tuple):
            element = sum(o * s for o, s in zip(offset, target.strides, strict=True))
        else:
            element = offset or 0
        assert target.buffer is not None
        return int(target.buffer.address + target.base + element * target.type.dtype.nbytes)

    # --- accesses ---------------------------------------------------------------------------------------------------

    def wrote(self, instr: Instr, know: Knowledge, touched: Touched) -> None:
        """S of a core wrote elements of a tensor."""
        for cell in touched.writes:
            if cell.store.store is not GM:
                continue
            cell.flushed = 0
            line = self.line(cell.region.start)
            self.dirty.setdefault(instr.core.index, {}).setdefault(line, []).append(cell)
            writers = self.lines.setdefault(line, {})
            for core, (other, theirs) in writers.items():
                if core != instr.core.index and not meets(theirs.region, cell.region):
                    agent = core * 7 + S
                    if not theirs.flushed or know.of(agent) < theirs.flushed:
                        self._same_line(instr, cell, other, theirs)
            writers[instr.core.index] = (instr, cell)

    def ordered(self, instr: Instr, know: Knowledge, cell: Cell, near: Cell, reads: bool) -> None:
        """Accesses in happens-before order: is the cache in between?"""
        if near.store.store is not GM:
            return
        writer: Instr = near.writer
        by_scalar, to_scalar = writer.site.lane == S, know.lane == S
        if not (by_scalar or to_scalar):
            return
        unflushed = by_scalar and (not near.flushed or know.of(near.writer_agent) < near.flushed)
        stale = to_scalar and reads and not self._fresh(instr.core, cell, near, by_scalar)
        if unflushed or stale:
            self._report(instr, cell, writer, near, unflushed, stale, reads)

    def _fresh(self, core: Core, cell: Cell, near: Cell, by_scalar: bool) -> bool:
        """Whether the reading core dropped the line after it had learned of the write (and its way to memory)."""
        needed = max(near.writer_number, near.flushed) if by_scalar else near.writer_number
        line = self.line(cell.region.start)
        states = (self.dropped_all.get(core.index), self.dropped.get((core.index, line)))
        return any(s is not None and known_of(s, near.writer_agent) >= needed for s in states)

    # --- words ------------------------------------------------------------------------------------------------------

    def _report(
        self, instr: Instr, cell: Cell, writer: Instr, near: Cell, unflushed: bool, stale: bool, reads: bool
    ) -> None:
        key = frozenset((instr.site.span, writer.site.span))

        def describe() -> Diagnostic:
            name = words.name_of(writer, GM, near.region)
            verb = "reads" if reads else "writes"
            by = " through S" if writer.site.lane == S else ""
            to = " through S" if instr.site.lane == S else ""
            where = words.bytes_text(GM, words.overlap(near.region, cell.region), self.machine.buffers)
            missing = [*(["none after the write"] if unflushed else []), *(["none before the read"] if stale else [])]
            calls = [f"pl.system.dcci after line {writer.site.span.line}"] if unflushed else []
            calls += [f"pl.system.dcci before line {instr.site.span.line}"] if stale else []
            return make(
                "coherence",
                f"{words.short(writer.core)} writes {name}{by}, {words.short(instr.core)} {verb} it{to}, and a dcci"
                f" between them is missing: {', '.join(missing)}",
                instr.site.span.labelled(words.party("read" if reads else "written", instr, writer.core)),
                writer.site.span.labelled(words.party("written", writer, instr.core)),
                notes=(f"{where}; the two are ordered, but each core has a data cache for scalar accesses, which"
                       " barriers do not touch",),
                help=" and ".join(calls) + ", on the core that makes the access",
                core=words.short(instr.core), pipes=(words.pipe(instr), words.pipe(writer)),
            )  # fmt: skip

        entry = self.book.add("coherence", key, describe)
        if reads:
            self.blame.taint(instr.core, entry)

    def _same_line(self, instr: Instr, cell: Cell, other: Instr, theirs: Cell) -> None:
        key = frozenset((instr.site.span, other.site.span))

        def describe() -> Diagnostic:
            name = words.name_of(instr, GM, cell.region)
            ranges = [(c.region.start, c.region.start + c.region.row_bytes) for c in (theirs, cell)]
            return make(
                "race",
                f"{words.short(other.core)} and {words.short(instr.core)} write different elements of one {LINE}-byte"
                f" line of {name} through S, in no order",
                instr.site.span.labelled(words.party("written", instr, other.core)),
                other.site.span.labelled(words.party("written", other, instr.core)),
                notes=(f"{words.bytes_text(GM, ranges, self.machine.buffers)}; whole lines go back to memory, so one of"
                       " the writes may be lost",),
                help=f"give each core elements {LINE} bytes apart, or store them with a DMA store",
                core=words.short(instr.core), pipes=(words.pipe(instr), words.pipe(other)),
            )  # fmt: skip

        self.book.add("race", ("line", key), describe)
