"""Accesses that meet: races, transfers of one pipe that may overtake each other, loads and
products nobody read.

Looks at what an instruction touches when it starts, with what its pipe knows then. After a conflict the missing edge is
added as if it were there, so that one missing signal gives one report and not one for everything behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from pypto_pro.analysis.order import LANES, Knowledge
from pypto_pro.analysis.region_map import Cell
from pypto_pro.enums import PipeType
from pypto_pro.hw.a5 import FULLY_ORDERED_PIPES
from pypto_pro.interp.machine import Instr

if TYPE_CHECKING:
    from pypto_pro.interp.checks.touched import Touched

Conflict: TypeAlias = Callable[[Instr, Cell, Instr, Cell, str], None]
OVERTAKING = frozenset(p.value for p in PipeType if p not in FULLY_ORDERED_PIPES and p is not PipeType.ALL)
"""Pipes (as lanes) whose transfers may complete out of order."""


class Conflicts:
    """`report(first, its cell, second, its cell, what)` is called for each conflict.

    `what`: `read`, `write` or `overwrite` (second reads what first writes, both write, second writes what first reads),
    `waw` (same pipe), `lost` (a load or product nobody read), `stale` (a sum goes on after it was read by the exit),
    `pitch` (a fractal tile is read with another pitch than it was written with).
    """

    def __init__(self, report: Conflict) -> None:
        self.report = report
        self.adds_up = PipeType.M.value
        self.exit = PipeType.FIX.value
        self.ordered: Callable[[Instr, Knowledge, Cell, Cell, bool], None] | None = None
        """Called for accesses that are ordered after a write of another agent: (instruction, what its pipe knows, its
        cell, the cell written, whether it reads)."""

    def check(self, instr: Instr, know: Knowledge, touched: Touched) -> None:
        """All accesses of an instruction that starts."""
        for cell in touched.reads:
            self._read(instr, know, cell)
        for cell, pitch in touched.pitches_read:
            self._pitch(instr, cell, pitch)
        for cell in touched.maybe:
            self._read(instr, know, cell)
        for cell in touched.clobbers:
            self._write(instr, know, cell, False)
        for cell in touched.writes:
            self._write(instr, know, cell, True)
            cell.unread = instr if touched.must_be_read else None
        for cell, pitch in touched.pitches_written:
            cell.pitch = pitch
        for cell in touched.adds:
            self._add(instr, know, cell)

    # --- reads ----------------------------------------------------------------------------------------------------

    def _read(self, instr: Instr, know: Knowledge, cell: Cell) -> None:
        agent = know.agent
        if cell.writer is not None and cell.writer_agent != agent:
            self._against_writer(instr, know, cell, cell, "read")
        if cell.adders:
            self._against(instr, know, cell, cell, cell.adders, "read")
        cell.unread = None
        for near in cell.live:
            if near.writer is not None and near.writer_agent != agent:
                self._against_writer(instr, know, cell, near, "read")
            if near.adders:
                self._against(instr, know, cell, near, near.adders, "read")
            near.unread = None
        fresh = not cell.readers and cell.writer is None and not cell.adders
        cell.readers[agent] = (instr.number, instr)
        if fresh:
            cell.appear()

    def _pitch(self, instr: Instr, cell: Cell, pitch: int) -> None:
        """A fractal tile is read with another distance between its columns of boxes than it was written with."""
        here = [n for n in (cell, *cell.live) if n.writer is not None and n.region.start == cell.region.start]
        last = max(here, key=lambda n: n.writer_number, default=None)
        if last is not None and last.pitch and last.pitch != pitch:
            self.report(last.writer, last, instr, cell, "pitch")

    # --- writes ---------------------------------------------------------------------------------------------------

    def _write(self, instr: Instr, know: Knowledge, cell: Cell, defines: bool) -> None:
        fresh = not cell.readers and cell.writer is None and not cell.adders
        self._overwrite(instr, know, cell, cell, defines)
        if cell.live:
            covered = []
            for near, inside in cell.live.items():
                self._overwrite(instr, know, cell, near, defines)
                if inside and near.writer is not instr:
                    covered.append(near)
            for near in covered:  # an op in place asks later what its source held
                cell.facts = None if None in (cell.facts, near.facts) else max(cell.facts, near.facts)
                near.forget()
        if cell.readers:
            cell.readers.clear()
        if cell.adders:
            cell.adders.clear()
        cell.written = True
        cell.before = cell.writer_number if cell.writer_agent == know.agent else 0
        cell.writer = instr
        cell.writer_agent = know.agent
        cell.pitch = 0
        cell.writer_number = instr.number
        if fresh:
            cell.appear()

    def _overwrite(self, instr: Instr, know: Knowledge, cell: Cell, near: Cell, defines: bool) -> None:
        """Against everything recorded in one cell."""
        agent = know.agent
        if near.writer is not None:
            if near.writer_agent != agent:
                self._against_writer(instr, know, cell, near, "write")
            elif know.lane in OVERTAKING and know.own[know.lane] < near.writer_number and near.writer is not instr:
                read = cell.readers or any(c.readers for c in cell.live)
                if defines and not read:  # with a reader between them that one decides
                    self.report(near.writer, near, instr, cell, "waw")
                near.unread = None
        if near.unread is not None and near.unread is not instr and defines:
            self.report(near.unread, near, instr, cell, "lost")
            near.unread = None
        if near.readers:
            self._against(instr, know, cell, near, near.readers, "overwrite")
            if know.lane == self.adds_up and agent in near.readers:
                exit_agent = know.base + self.exit
                if exit_agent in near.readers and near.readers[agent][1] is instr:
                    self.report(near.readers[exit_agent][1], near, instr, cell, "stale")
        if near.adders:
            self._against(instr, know, cell, near, near.adders, "write")

    def _add(self, instr: Instr, know: Knowledge, cell: Cell) -> None:
        """An atomic add: adds commute with each other only."""
        for near in (cell, *cell.live):
            if near.writer is not None and near.writer_agent != know.agent:
                self._against_writer(instr, know, cell, near, "write")
            if near.readers:
                self._against(instr, know, cell, near, near.readers, "overwrite")
        fresh = cell.is_empty
        cell.added = True
        cell.adders[know.agent] = (instr.number, instr)
        if fresh:
            cell.appear()

    # --- order ----------------------------------------------------------------------------------------------------

    def _against_writer(self, instr: Instr, know: Knowledge, cell: Cell, near: Cell, what: str) -> None:
        agent, number = near.writer_agent, near.writer_number
        lane = agent - know.base
        world = know.world
        known = know.own[lane] if 0 <= lane < LANES else 0 if world is None else world[agent]
        if known < number:
            near.unread = None
            self.report(near.writer, near, instr, cell, what)
            know.learn(agent, number)
        elif self.ordered is not None:
            self.ordered(instr, know, cell, near, what == "read")

    def _against(
        self, instr: Instr, know: Knowledge, cell: Cell, near: Cell, others: dict[int, tuple[int, Any]], what: str
    ) -> None:
        for agent, (number, other) in others.items():
            if agent != know.agent and know.of(agent) < number:
                self.report(other, near, instr, cell, what)
                know.learn(agent, number)
