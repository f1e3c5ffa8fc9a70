"""Conflicts in words: races, overtaking transfers, equal writes, loads nobody read, sums that went on."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pypto_pro.analysis.order import LANES, Knowledge, Order, Release
from pypto_pro.analysis.region_map import Cell
from pypto_pro.diag import Diagnostic, Severity, Span
from pypto_pro.enums import CoreKind, MemorySpace, PipeType
from pypto_pro.interp.checks import numbering, words
from pypto_pro.interp.checks.advice import (
    UNREAD,
    barrier,
    equal_rows,
    line_of,
    mend,
    next_round,
    scope_of,
    unphased,
    wrong_pipe,
)
from pypto_pro.interp.checks.blame import Blame
from pypto_pro.interp.checks.book import Book, Entry, make
from pypto_pro.interp.machine import Core, Instr, Machine
from pypto_pro.interp.memory import GM, SimTensor, SimTile, Storage
from pypto_pro.interp.sites import OpSite, Site
from pypto_pro.layouts import is_fractal
from pypto_pro.ops.operands import tile_geometry

if TYPE_CHECKING:
    from pypto_pro.interp.checks.counters import Sent

RECENT = 64
TURNED = {"read": "overwrite", "overwrite": "read", "write": "write"}
VERBS = {"read": ("written", "read"), "write": ("written", "written"), "overwrite": ("read", "written")}


@dataclass(slots=True, eq=False)
class Collision:
    """Two unordered writes, until it is known whether they write the same bytes."""

    first: Instr
    first_cell: Cell
    second: Instr
    second_cell: Cell
    ranges: list[tuple[int, int]]
    after_first: bytes | None = None
    after_second: bytes | None = None
    alike: bool = False


@dataclass(frozen=True, slots=True)
class Pair:
    """A reported race, for whoever asks later what it explains; `reads`: the second one reads."""

    first: Instr
    second: Instr
    entry: Entry
    reads: bool


class Races:
    """Turns conflicts into findings. The `mark` of an op says that it has completed."""

    def __init__(self, book: Book, machine: Machine, order: Order, blame: Blame, sent: Mapping[Any, Sent]) -> None:
        self.book = book
        self.sent = sent
        """The cross-core signals so far, by place."""
        self.blame = blame
        self.machine = machine
        self.order = order
        self.pairs: dict[tuple[Span, Span], Pair] = {}
        self.unphased: dict[Span, Entry] = {}
        """The first race of each exit that lacks the phase its accumulator was made with."""
        self.collisions: list[Collision] = []
        self.waits: dict[int, list[Instr]] = {}
        """The last cross-core waits each core issued."""

    def issued_wait(self, instr: Instr) -> None:
        """A `wait_cross_core` was issued."""
        waits = self.waits.setdefault(instr.core.index, [])
        waits.append(instr)
        if len(waits) > RECENT:
            del waits[: RECENT // 2]

    def report(self, first: Instr, first_cell: Cell, second: Instr, second_cell: Cell, what: str) -> None:
        """One conflict (see `Conflicts`)."""
        match what:
            case "waw":
                self._overtaking(first, first_cell, second, second_cell)
            case "lost":
                self._lost(first, first_cell, second, second_cell)
            case "pitch":
                self._pitch(first, first_cell, second, second_cell)
            case "stale":
                self._stale(first, first_cell, second, second_cell)
            case "write" if not self._atomic(first, second):
                self._collide(first, first_cell, second, second_cell)
            case _:
                self._race(first, first_cell, second, second_cell, what)

    @staticmethod
    def _atomic(first: Instr, second: Instr) -> bool:
        return any(i.plan is not None and i.plan.atomic for i in (first, second))

    # --- unordered writes: equal bytes are no race ------------------------------------------------------------------

    def _collide(self, first: Instr, first_cell: Cell, second: Instr, second_cell: Cell) -> None:
        ranges = words.overlap(first_cell.region, second_cell.region, limit=100_000)
        found = Collision(first, first_cell, second, second_cell, ranges)
        if first.site.pipe is PipeType.S and second.site.pipe is PipeType.S:
            found.alike = _same_scalars(first, second) and first_cell is second_cell
            self._settle(found)
            return
        if first.mark is True or isinstance(first.mark, Release):
            found.after_first = self._bytes(found)
        self.collisions.append(found)

    def completed(self, instr: Instr) -> None:
        """An instruction's effects are in memory: collisions it is part of may be settled."""
        for found in self.collisions[:]:
            if found.first is instr:
                found.after_first = self._bytes(found)
            elif found.second is instr:
                found.after_second = self._bytes(found)
            if found.after_first is not None and found.after_second is not None:
                found.alike = found.after_first == found.after_second
                self.collisions.remove(found)
                self._settle(found)

    def settle_all(self) -> None:
        """The launch has ended: what never completed counts as different."""
        for found in self.collisions:
            self._settle(found)
        self.collisions = []

    def _bytes(self, found: Collision) -> bytes:
        store: Storage = found.second_cell.store.store
        if store is GM:
            return b"".join(ctypes.string_at(a, b - a) for a, b in found.ranges)
        return b"".join(store.mem[a:b].tobytes() for a, b in found.ranges)

    def _settle(self, found: Collision) -> None:
        if found.alike:
            first, second = found.first, found.second
            key = (frozenset((first.site.span, second.site.span)), scope_of(first, second))
            self.book.add("identical_write", key, lambda: self._identical(found))
        else:
            self._race(found.first, found.first_cell, found.second, found.second_cell, "write")

    def _identical(self, found: Collision) -> Diagnostic:
        first, second = found.first, found.second
        name = words.name_of(second, found.second_cell.store.store, found.second_cell.region)
        return make(
            "identical_write",
            f"{self._who(second)} and {self._who(first)} write equal bytes of {name} in no order",
            second.site.span.labelled(words.party("written", second, first.core)),
            first.site.span.labelled(words.party("written", first, second.core)),
            notes=(f"{self._where(found.first_cell, found.second_cell)}; harmless as long as the bytes are equal",
                   *numbering.same_work(first, second)),
            help=self._numbered(first, second)
            or "let one of them write, for example only the block or core with index 0",
            pipes=(words.pipe(second), words.pipe(first)), scope=scope_of(first, second),
        )  # fmt: skip

    @staticmethod
    def _numbered(first: Instr, second: Instr) -> str | None:
        """The mend when both do the same work because of how their cores are counted."""
        return numbering.work_help(first.core.machine) if numbering.same_work(first, second) else None

    # --- races ------------------------------------------------------------------------------------------------------

    def _race(self, first: Instr, first_cell: Cell, second: Instr, second_cell: Cell, what: str) -> None:
        key = (frozenset((first.site.span, second.site.span)), scope_of(first, second))
        if self._is_reversed(first, first_cell, second, second_cell, what):
            first, first_cell, second, second_cell, what = second, second_cell, first, first_cell, TURNED[what]
        entry = self.book.add("race", key, lambda: self._describe(first, first_cell, second, second_cell, what))
        taken = unphased(first, second)
        if taken is not None:
            whole = self.unphased.setdefault(taken.site.span, entry)
            entry.cause = whole if whole is not entry else None
        self.pairs.setdefault((first.site.span, second.site.span), Pair(first, second, entry, what == "read"))
        if what == "read":
            self.blame.raced(second, entry)
            if second.site.pipe is PipeType.S:
                self.blame.taint(second.core, entry)

    def _is_reversed(self, first: Instr, first_cell: Cell, second: Instr, second_cell: Cell, what: str) -> bool:
        """Whether the second was meant to come first.

        Within a core the order of issue decides. Across cores a reader is meant to come behind the writer, unless it
        knows the write before: then it reads the last round, and the way back is missing.
        """
        if first.core is second.core:
            return second.number < first.number
        reads_first = what == "overwrite"
        reader, writer = (first, second) if reads_first else (second, first)
        known = self.order.pipes[reader.core.index * LANES + reader.site.lane].of(
            writer.core.index * LANES + writer.site.lane
        )
        before = second_cell.writer_number if reads_first else first_cell.before
        knows_last_round = 0 < before <= known
        return what != "write" and reads_first is not knows_last_round

    def _describe(
        self, first: Instr, first_cell: Cell, second: Instr, second_cell: Cell, what: str
    ) -> Diagnostic:
        store: Storage = second_cell.store.store
        name = words.name_of(second, store, first_cell.region)
        did, does = VERBS[what]
        verb = "reads" if does == "read" else "writes"
        rounds = f" of {words.trips(second)}" if words.trips(second) else ""
        earlier = f" of {words.trips(first)}" if words.trips(first) else ""
        doing = "writing" if did == "written" else "reading"
        message = (
            f"{self._who(second)}{rounds} {verb} {name} while {self._who(first)}{earlier} may still be {doing} it"
        )
        spans = [
            second.site.span.labelled(words.party(does, second, first.core)),
            first.site.span.labelled(words.party(did, first, second.core)),
        ]
        for instr, cell, writes in ((second, second_cell, does == "written"), (first, first_cell, did == "written")):
            inner = words.inner_span(instr, store, cell.region, writes)
            if inner is not None:
                spans.append(inner.labelled(f"inside `{instr.site.name}`"))
        notes, near = self._near_miss(first, second)
        a, b = line_of(first), line_of(second)
        pair = f"line {a} before line {b}" if a != b else "the two"
        return make(
            "race", message, *spans, *near,
            notes=(f"{self._shared(first, first_cell, second, second_cell)}; nothing orders {pair}", *notes,
                   *numbering.same_work(first, second)),
            help=self._numbered(first, second) or mend(first, second, in_gm=store is GM),
            severity=self._severity(first, first_cell, second, second_cell),
            core=words.short(second.core), pipes=(words.pipe(second), words.pipe(first)),
            scope=scope_of(first, second),
        )  # fmt: skip

    @staticmethod
    def _severity(first: Instr, first_cell: Cell, second: Instr, second_cell: Cell) -> Severity | None:
        """Both vector cores of a block doing the same work in place is only a warning."""
        a, b = first.core, second.core
        twins = a is not b and a.block == b.block and a.kind is b.kind is CoreKind.VECTOR
        in_gm = first_cell.store.store is GM
        alike = twins and in_gm and first_cell is second_cell and _same_work(first, second, first_cell)
        return Severity.WARNING if alike else None

    def _who(self, instr: Instr) -> str:
        cores = len(self.machine.cores) > 1
        return f"`{instr.site.name}`" + (f" of {words.short(instr.core)}" if cores else "")

    def _where(self, first: Cell, second: Cell) -> str:
        store: Storage = second.store.store
        return words.bytes_text(store, words.overlap(first.region, second.region), self.machine.buffers)

    def _shared(self, first: Instr, first_cell: Cell, second: Instr, second_cell: Cell) -> str:
        """The bytes two instructions share, and their names when each calls them differently."""
        store: Storage = second_cell.store.store
        names = [words.name_of(i, store, c.region) for i, c in ((first, second_cell), (second, first_cell))]
        aliases = f", which are {names[0]} and {names[1]}" if names[0] != names[1] else ""
        return self._where(first_cell, second_cell) + aliases

    def _near_miss(self, first: Instr, second: Instr) -> tuple[tuple[str, ...], tuple[Span, ...]]:
        """A wait on the wrong pipe, or a signal from the wrong pipe, that was meant to order the two."""
        mine = self.order.pipes[second.core.index * LANES + second.site.lane]
        if first.core is second.core:
            return (), ()
        waits = [w for w in self.waits.get(second.core.index, ()) if w.number < second.number]
        if waits and waits[-1].pipe is not second.pipe and waits[-1].site.pipe is not PipeType.S:
            held = words.pipe(waits[-1])
            return (f"line {line_of(waits[-1])} waits on {held}, which holds back {held} only, not"
                    f" {words.pipe(second)}",), (waits[-1].site.span.labelled(f"holds back {held} only"),)  # fmt: skip
        meant = self._meant(first, waits[-1]) if waits and waits[-1].pipe is second.pipe else None
        return wrong_pipe(meant, first) if meant is not None else self._wrong_sender(first, second, mine)

    def _meant(self, first: Instr, wait: Instr) -> Site | None:
        """The signal behind an instruction that a wait took, when another pipe sent it."""
        found = (s.site for s in self.sent.values() if s.core is first.core and s.event == wait.args[0]
                 and s.site.pipe is not first.site.pipe and s.site.span.line > line_of(first))  # fmt: skip
        return next(found, None)

    def _wrong_sender(self, first: Instr, second: Instr, mine: Knowledge) -> tuple[tuple[str, ...], tuple[Span, ...]]:
        signal: Instr | None = mine.signal
        if signal is None or signal.core is not first.core or signal.number < first.number:
            return (), ()
        return wrong_pipe(signal.site, first) if signal.pipe is not first.pipe else ((), ())

    # --- other conflicts ---------------------------------------------------------------------------------------------

    def _overtaking(self, first: Instr, first_cell: Cell, second: Instr, second_cell: Cell) -> None:
        pipe = words.pipe(second)
        key = frozenset((first.site.span, second.site.span))
        lost = first_cell.unread is first

        def describe() -> Diagnostic:
            name = words.name_of(second, second_cell.store.store, first_cell.region)
            unread = (UNREAD,) if lost else ()
            return make(
                "waw_hazard",
                f"`{second.site.name}` writes {name} while the `{first.site.name}` before it on {pipe} may still be"
                " writing it",
                second.site.span.labelled(words.party("written", second, first.core)),
                first.site.span.labelled(words.party("written", first, second.core)),
                notes=(f"{self._shared(first, first_cell, second, second_cell)}; {pipe} keeps several transfers in"
                       " flight, so the first may land last", *unread),
                help=barrier(f"pl.system.bar_{pipe.lower()}()", first, second),
                core=words.short(second.core), pipes=(pipe,),
            )  # fmt: skip

        self.book.add("waw_hazard", key, describe)

    def _lost(self, first: Instr, first_cell: Cell, second: Instr, second_cell: Cell) -> None:
        key = frozenset((first.site.span, second.site.span))

        def describe() -> Diagnostic:
            name = words.name_of(first, first_cell.store.store, first_cell.region)
            product = first.site.pipe is PipeType.M
            what = f"the product of this `{first.site.name}` in" if product else (
                f"what this `{first.site.name}` brought into"
            )  # fmt: skip
            return make(
                "lost_load",
                f"{what} {name} is overwritten by `{second.site.name}`{next_round(first, second)} before anything"
                " read it",
                first.site.span.labelled(words.party("multiplied" if product else "loaded", first, second.core)),
                second.site.span.labelled(words.party("overwritten", second, first.core)),
                notes=(self._shared(first, first_cell, second, second_cell),),
                help="add to it with pl.matmul_acc, or take it out before the next product" if product else None,
                core=words.short(second.core), pipes=(words.pipe(first), words.pipe(second)),
            )  # fmt: skip

        self.book.add("lost_load", key, describe)

    def _stale(self, first: Instr, first_cell: Cell, second: Instr, second_cell: Cell) -> None:
        key = frozenset((first.site.span, second.site.span))

        def describe() -> Diagnostic:
            name = words.name_of(second, second_cell.store.store, first_cell.region)
            return make(
                "stale_operand",
                f"`{second.site.name}` goes on adding to {name}, whose sum `{first.site.name}` has already taken out",
                second.site.span.labelled(words.party("continued", second, first.core)),
                first.site.span.labelled(words.party("taken out", first, second.core)),
                notes=(f"{self._where(first_cell, second_cell)}; the next result contains this one",),
                help="begin the next sum with pl.matmul, unless it is meant to contain this one",
                core=words.short(second.core), pipes=(words.pipe(second), words.pipe(first)),
            )  # fmt: skip

        self.book.add("stale_operand", key, describe)


    def _pitch(self, first: Instr, first_cell: Cell, second: Instr, second_cell: Cell) -> None:
        key = frozenset((first.site.span, second.site.span))

        def describe() -> Diagnostic:
            store: Storage = second_cell.store.store
            name = words.name_of(second, store, second_cell.region)
            read = next(p for c, p in second.plan.mark.pitches_read if c is second_cell)  # type: ignore[union-attr]
            unit = box_row_bytes(second, second_cell)
            wrote, reads = first_cell.pitch // unit, read // unit
            acc = store.space is MemorySpace.Acc
            return make(
                "stride_mismatch",
                f"`{second.site.name}` reads {name} with a row pitch of {reads}, `{first.site.name}` wrote it with"
                f" {wrote}",
                second.site.span.labelled(f"read here on {words.pipe(second)}, {reads} rows from one column of boxes to"
                                          " the next"),
                first.site.span.labelled(f"written here on {words.pipe(first)}, with {wrote} rows"),
                notes=("the matrix unit writes with the valid rows of its left operand, rounded up to 16; a tile with"
                       " compact=0 is read with its declared rows",) if acc else (),
                help=equal_rows(first, second) if acc else None,
                core=words.short(second.core), pipes=(words.pipe(second), words.pipe(first)),
            )  # fmt: skip

        self.blame.raced(second, self.book.add("stride_mismatch", key, describe))


def box_row_bytes(instr: Instr, cell: Cell) -> int:
    """Bytes of one row of a box of the fractal tile an instruction reads there."""
    for tile in (a for a in instr.args if isinstance(a, SimTile)):
        geo = tile_geometry(tile.type)
        if is_fractal(geo.layout) and tile.addr == cell.region.start and cell.store.store in tile.stores:
            return geo.box_cols * geo.dtype_bits // 8
    return 1


def _same_work(first: Instr, second: Instr, cell: Cell) -> bool:
    """Whether one of two cores also does to a region what the other did: then both work through the same bytes."""
    return first.site is second.site or _did(first.core, second.site, cell) or _did(second.core, first.site, cell)


def _did(core: Core, site: Site, cell: Cell) -> bool:
    """Whether a core executed a transfer of the text on a region."""
    own = {id(s) for stores in core.stores.values() for s in stores}
    if not isinstance(site, OpSite):
        return False
    return any(
        plan.mark is not None and cell in (*plan.mark.reads, *plan.mark.writes)
        and any(isinstance(a, SimTile) and id(a.stores[0]) in own for a in args)
        for args, plan in site.plans.items()
    )  # fmt: skip


def _same_scalars(first: Instr, second: Instr) -> bool:
    """Whether two scalar writes put the same value at the same place."""
    if not (isinstance(first.site, OpSite) and isinstance(second.site, OpSite)):
        return False
    plain = [tuple(a for a in i.args if not isinstance(a, SimTensor)) for i in (first, second)]
    return first.site.entry is second.site.entry and plain[0] == plain[1]
