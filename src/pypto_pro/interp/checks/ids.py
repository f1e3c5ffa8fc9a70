"""Ids of flags, mutexes and counters: out of range, reserved for `sync_all`, or more blocks than cores at a meeting."""

from __future__ import annotations

from pypto_pro.diag import Diagnostic, Severity
from pypto_pro.enums import CoreKind, CrossCoreSyncMode, SyncAllMode
from pypto_pro.hw.a5 import (
    A5,
    CROSS_CORE_IDS,
    FLAG_IDS,
    MUTEX_IDS,
    NAMED_FLAG_IDS,
    SYNC_ALL_RESERVED_IDS,
    UNICAST_AIC_IDS,
    UNICAST_AIV1_STEP,
)
from pypto_pro.interp.checks import words
from pypto_pro.interp.checks.book import Book, make
from pypto_pro.interp.machine import Instr, Machine
from pypto_pro.ir import walk
from pypto_pro.ir.nodes import SetCross, SyncAll, WaitCross


class Ids:
    """What may be said about an id alone."""

    def __init__(self, book: Book, machine: Machine) -> None:
        self.book = book
        self.machine = machine
        self.meetings = [
            stmt
            for program in machine.kernel.programs
            for stmt in walk.statements(program.body)
            if isinstance(stmt, SyncAll) and stmt.mode is SyncAllMode.HARD
        ]
        self.seen: set[tuple[int, int]] = set()

    def flag(self, instr: Instr, event: int) -> None:
        """The event id of a flag."""
        if event not in FLAG_IDS:
            self._out_of_range(instr, event, "an event id", FLAG_IDS)
        elif event not in NAMED_FLAG_IDS:
            self.book.add("sync_id", ("note", instr.site.span), lambda: make(
                "sync_id", f"event id {event} is above {NAMED_FLAG_IDS[-1]}: the device library names only"
                f" {len(NAMED_FLAG_IDS)} events of a pipe pair",
                instr.site.span.labelled(f"event id {event} here"), severity=Severity.NOTE,
                core=words.short(instr.core), pipes=(words.pipe(instr),),
            ))  # fmt: skip

    def mutex(self, instr: Instr, number: int) -> None:
        """The id of a mutex."""
        if number not in MUTEX_IDS:
            self._out_of_range(instr, number, "a mutex id", MUTEX_IDS)

    def signal(self, instr: Instr, event: int) -> None:
        """The event id of a cross-core signal or wait; looked at once a place and id."""
        key = (id(instr.site), event)
        if key in self.seen:
            return
        self.seen.add(key)
        node = instr.site.node
        assert isinstance(node, SetCross | WaitCross)
        wide = node.mode is CrossCoreSyncMode.UNICAST_BLOCK and instr.core.kind is CoreKind.CUBE
        legal = UNICAST_AIC_IDS if wide else CROSS_CORE_IDS
        if event not in legal:
            self._out_of_range(instr, event, "a cross-core event id here", legal)
        elif self.meetings and event % UNICAST_AIV1_STEP in SYNC_ALL_RESERVED_IDS:
            self._reserved(instr, event)
        if node.mode is CrossCoreSyncMode.INTER_BLOCK:
            self.residency(instr, "INTER_BLOCK rendezvous")

    def residency(self, instr: Instr, what: str) -> None:
        """A meeting of all cores needs all blocks on a core at once."""
        blocks, room = self.machine.launch.block_dim, resident_blocks(self.machine.kind)
        if blocks <= room:
            return
        self.book.add("residency", instr.site.span, lambda: make(
            "residency", f"{blocks} blocks meet in this {what}, the chip runs {room} at a time",
            instr.site.span.labelled(f"waits for all {blocks} blocks"),
            notes=("the blocks on a core wait here for blocks that get no core before one of them ends",),
            help=f"launch at most {room} blocks and let each stride over the work by get_block_num()",
            core=words.short(instr.core), pipes=(words.pipe(instr),),
        ))  # fmt: skip

    def _out_of_range(self, instr: Instr, number: int, what: str, legal: range) -> None:
        def describe() -> Diagnostic:
            rounds = f" with {words.trips(instr)}" if words.trips(instr) else ""
            return make(
                "sync_id", f"`{instr.site.name}`{rounds} uses id {number}; {what} is from {legal[0]} to {legal[-1]}",
                instr.site.span.labelled(words.party(f"id {number}", instr)),
                notes=("the device does not check ids computed at run time",),
                core=words.short(instr.core), pipes=(words.pipe(instr),),
            )  # fmt: skip

        self.book.add("sync_id", instr.site.span, describe)

    def _reserved(self, instr: Instr, event: int) -> None:
        meeting = self.meetings[0]
        ids = ", ".join(str(i) for i in sorted(SYNC_ALL_RESERVED_IDS))
        self.book.add("reserved_event_id", (instr.site.span, event), lambda: make(
            "reserved_event_id",
            f"`{instr.site.name}` uses event id {event}, which `sync_all` in this kernel uses itself",
            instr.site.span.labelled(f"event id {event} here"), meeting.span.labelled(f"signals on ids {ids}"),
            help=f"use an id outside {ids}, or `sync_all` in mode SOFT",
            core=words.short(instr.core), pipes=(words.pipe(instr),),
        ))  # fmt: skip


def resident_blocks(kind: str) -> int:
    """How many blocks of a kernel kind the chip runs at once."""
    match kind:
        case "vector":
            return A5.aiv_count
        case "cube":
            return A5.aic_count
    return min(A5.aic_count, A5.aiv_count // A5.aivs_per_block)
