"""What is known about the use of two slots: pipes, locks, and the edges an overlap has to rest on.

`DeclaredEvidence` reads the statements of a plan, `ProgramEvidence` the programs of a kernel. An edge without `by` is
not ordered by anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from pypto_pro.enums import CoreKind, PipeType
from pypto_pro.hw.a5 import FULLY_ORDERED_PIPES
from pypto_pro.memory.cross_core import Chain, CrossOrder
from pypto_pro.memory.design import Declared, Design, Fence, Node, OrderFact, Signal, nodes_of
from pypto_pro.memory.order import By, Order, Pair, Touch, find_order
from pypto_pro.memory.relays import Relays
from pypto_pro.memory.table import Row

N = TypeVar("N", bound=Node)

STRENGTH = ("same_pipe", "mutex", "flag", "barrier", "cross_core")
"""Kinds of order, strongest first; a pair shows the weakest of its edges."""


@dataclass(frozen=True)
class Edge:
    """An order a reuse needs: accesses on `from_pipe` are over before `to_pipe` starts. `how` is `by` in words."""

    from_line: int | None
    from_pipe: PipeType
    to_line: int | None
    to_pipe: PipeType
    by: str | None
    how: str = ""
    crosses: bool = False
    """Whether the two accesses are on different core kinds."""
    hands_over: bool = False
    """Whether it leads from a read of the tile used first to a write of the other one."""


class Evidence(Protocol):
    """What `proofs` asks."""

    complete: bool
    """Whether every access is known, not only a first and a last one."""

    def pipes(self, row: Row) -> frozenset[PipeType]:
        """Pipes of every known access."""
        ...

    def locks(self, row: Row) -> frozenset[int]:
        """Mutex ids held around every access of the slot; empty when one access is not locked."""
        ...

    def unlocked(self, row: Row) -> str:
        """The first access without a lock, in words; empty when there is none."""
        ...

    def writes(self, row: Row) -> bool:
        """Whether anything writes the slot."""
        ...

    def edges(self, a: Row, b: Row, *, view: bool) -> tuple[Edge, ...]:
        """The edges between the accesses of two slots, `a` used first."""
        ...


# --- plans -----------------------------------------------------------------------------------------------------------


class DeclaredEvidence:
    """Evidence of a plan: a first write, a last read, and the orders it states."""

    complete = False

    def __init__(self, design: Design) -> None:
        self._design = design

    def pipes(self, row: Row) -> frozenset[PipeType]:
        return row.tile.declared.pipes if row.tile.declared else frozenset()

    def locks(self, row: Row) -> frozenset[int]:
        return row.tile.ids(row.slot) if self._design.auto_mutex else frozenset()

    def unlocked(self, row: Row) -> str:
        return ""

    def writes(self, row: Row) -> bool:
        return True

    def edges(self, a: Row, b: Row, *, view: bool) -> tuple[Edge, ...]:
        first, second = a.tile.declared, b.tile.declared
        if first is None or second is None:
            return (Edge(None, PipeType.S, None, PipeType.S, None),)
        if view:  # what a wrote is read through b, then a is written again
            return (
                self._edge(a, b, first.write_pipe, second.read_pipe),
                self._edge(b, a, second.read_pipe, first.write_pipe),
            )
        return (self._edge(a, b, first.read_pipe, second.write_pipe, first),)

    def _edge(self, a: Row, b: Row, start: PipeType, end: PipeType, first: Declared | None = None) -> Edge:
        local = len(a.tile.cores | b.tile.cores) == 1
        # two transfers of one DMA pipe may overtake each other unless somebody else read in between
        only_transfers = first is not None and first.pipes == {start} and start not in FULLY_ORDERED_PIPES
        if local and start is end and not only_transfers:
            return Edge(None, start, None, end, "same_pipe", f"same pipe {start.name}")
        for fact in self._design.orders:
            if fact.kind == "trace" or not (_names(fact.a, a) and _names(fact.b, b)):
                continue
            if not local and fact.kind != "cross_core":
                continue
            if fact.kind != "barrier" and (fact.from_pipe not in (None, start) or fact.to_pipe not in (None, end)):
                continue
            return Edge(None, start, None, end, fact.kind, _fact_text(fact, start, end))
        return Edge(None, start, None, end, None, crosses=not local)


def _names(reference: str, row: Row) -> bool:
    return reference in (row.name, row.tile.name)


def _fact_text(fact: OrderFact, start: PipeType, end: PipeType) -> str:
    match fact.kind:
        case "barrier":
            return "bar_all"
        case "cross_core":
            event = "" if fact.event_id is None else f" {fact.event_id}"
            return f"cross-core event{event} (READY/RELEASE)"
    event = "" if fact.event_id is None else f" (event {fact.event_id})"
    return f"flag {start.name}->{end.name}{event}"


# --- programs --------------------------------------------------------------------------------------------------------


class ProgramEvidence:
    """Evidence of the programs of a kernel; orders are worked out for the tiles of `rows` that overlap anything."""

    complete = True

    def __init__(self, design: Design, rows: tuple[Row, ...]) -> None:
        self._design = design
        tiles = {t.name: t for t in design.tiles}
        tracked = {r.tile.name for r in rows for o in rows if r.shares(o) and r.key != o.key}
        self._orders: dict[CoreKind, Order] = {
            p.core: find_order(p, tiles, tracked) for p in design.programs
        }  # fmt: skip
        self._touches: dict[tuple[str, int], list[Touch]] = {}
        self._place: dict[tuple[str, int], list[tuple[CoreKind, int]]] = {}
        for core, order in self._orders.items():
            for i, touch in enumerate(order.touches):
                for slot in touch.use.slots(tiles[touch.use.tile]):
                    key = touch.use.tile, slot
                    self._touches.setdefault(key, []).append(touch)
                    self._place.setdefault(key, []).append((core, i))
        self._cross = CrossOrder(design.programs)
        self._relays = Relays(design.programs, self._orders, self._cross)

    def _of(self, row: Row) -> list[Touch]:
        return self._touches.get(row.key, [])

    def pipes(self, row: Row) -> frozenset[PipeType]:
        return frozenset(t.pipe for t in self._of(row))

    def locks(self, row: Row) -> frozenset[int]:
        held = [self._held(t, row) for t in self._of(row)]
        return frozenset.intersection(*held) if held else frozenset()

    def _held(self, touch: Touch, row: Row) -> frozenset[int]:
        return (row.tile.ids(row.slot) if touch.use.locked else frozenset()) | touch.use.by_hand

    def unlocked(self, row: Row) -> str:
        bare = next((t for t in self._of(row) if not self._held(t, row)), None)
        return "" if bare is None else f"`{bare.step.op}` at line {bare.step.line} takes no lock on `{row.shown}`"

    def writes(self, row: Row) -> bool:
        return any(t.use.writes for t in self._of(row))

    def edges(self, a: Row, b: Row, *, view: bool) -> tuple[Edge, ...]:
        worst: dict[tuple[object, ...], tuple[tuple[int, ...], Edge]] = {}
        for source, target in ((a, b), (b, a)):
            for edge, core, (i, j) in self._conflicts(source, target):
                key = (source.key, core, edge.from_pipe, edge.to_pipe)
                edge = replace(edge, hands_over=edge.hands_over and source is a)
                # of those that are ordered alike, the last read and the first write say most
                weight = (_rank(edge), 1, i, -j) if edge.hands_over else (_rank(edge), 0)
                if key not in worst or weight > worst[key][0]:
                    worst[key] = weight, edge
        return tuple(edge for _, edge in worst.values())

    def _conflicts(self, a: Row, b: Row) -> Iterator[tuple[Edge, object, Pair]]:
        """Every access of `a` before one of `b` where one of them writes: what orders them, and their indices."""
        for core, i in self._place.get(a.key, []):
            for other, j in self._place.get(b.key, []):
                x, y = self._orders[core].touches[i], self._orders[other].touches[j]
                if not (x.use.writes or y.use.writes) or x.step is y.step:
                    continue
                if core is not other:
                    yield self._crossing(x, y), (core, other), (i, j)
                elif (i, j) in self._orders[core].doubt[By.NOTHING]:
                    yield self._local(x, y, a, b, self._orders[core].level((i, j))), core, (i, j)

    def _local(self, x: Touch, y: Touch, a: Row, b: Row, level: By | None) -> Edge:
        shared = self._held(x, a) & self._held(y, b)
        if level is None and shared and x.pipe is y.pipe:
            relayed = any(self._hands_on(x, z, y, shared) for z in (*self._of(a), *self._of(b)))
            level = By.MUTEX if relayed else None
        if level is not By.SAME_PIPE and shared and (level is By.MUTEX or x.pipe is not y.pipe):
            words: tuple[str | None, str] = "mutex", f"shared mutex {min(shared)}"
        elif level is None and (relay := self._relays.between(x, y)) is not None:
            out, back = (event.event for event in relay)
            words = "cross_core", f"cross-core events {out} and {back} (through the other core)"
        else:
            words = self._words(level, x, y)
        return Edge(x.step.line, x.pipe, y.step.line, y.pipe, *words, hands_over=x.use.reads and y.use.writes)

    def _hands_on(self, x: Touch, z: Touch, y: Touch, shared: frozenset[int]) -> bool:
        """Whether an access on another pipe, under the same id, always lies between two transfers of one pipe."""
        mine = next(
            (o for o in (x, y) if (o.use.tile, o.use.slot, o.use.ref) == (z.use.tile, z.use.slot, z.use.ref)), None
        )
        return (
            mine is not None and z.core is x.core and z.pipe is not x.pipe and z.use.locked and bool(shared)
            and self._cross.always_between(x, z, y)
        )  # fmt: skip

    def _words(self, level: By | None, x: Touch, y: Touch) -> tuple[str | None, str]:
        match level:
            case None | By.NOTHING:
                return None, ""
            case By.SAME_PIPE:
                return "same_pipe", f"same pipe {x.pipe.name}" if x.pipe is y.pipe else f"pipe order of {y.pipe.name}"
            case By.MUTEX:
                return "mutex", "a chain of mutexes"
            case By.FLAG:
                return "flag", self._flag_text(x, y)
        fence = next((f for f in self._nodes(x.core, Fence) if f.pipe is PipeType.ALL), None)
        return "barrier", "bar_all" if fence is None or fence.span is None else f"bar_all l.{fence.span.line}"

    def _flag_text(self, x: Touch, y: Touch) -> str:
        for signal in self._nodes(x.core, Signal):
            if signal.sets and signal.from_pipe is x.pipe and signal.to_pipe is y.pipe:
                event = "run-time event" if signal.event is None else f"event {signal.event}"
                return f"flag {x.pipe.name}->{y.pipe.name} ({event})"
        return f"a chain of flags {x.pipe.name}->{y.pipe.name}"

    def _crossing(self, x: Touch, y: Touch) -> Edge:
        found = self._cross.apart(x, y, self._chain(x, y), self._chain(y, x))
        how = "" if found is None else f"cross-core event {found.start.event} (READY/RELEASE)"
        return Edge(x.step.line, x.pipe, y.step.line, y.pipe, "cross_core" if found else None, how, crosses=True,
                    hands_over=x.use.reads and y.use.writes)  # fmt: skip

    def _chain(self, x: Touch, y: Touch) -> Chain | None:
        """The best chain from x, or an access its core orders behind it, to y, or an access ordered before y."""
        pairs = ((a, b) for a in self._kin(x, later=True) for b in self._kin(y, later=False))
        found = (chain for a, b in pairs if (chain := self._cross.chain(a, b)) is not None)
        return min(found, key=lambda c: c.turns, default=None)

    def _kin(self, touch: Touch, *, later: bool) -> Iterator[Touch]:
        """The access itself, and those that its core orders behind (or before) it in each turn."""
        yield touch
        order = self._orders[touch.core]
        mine = order.touches.index(touch)
        for i, other in enumerate(order.touches):
            pair = (mine, i) if later else (i, mine)
            follows = i != mine and (other.step.point > touch.step.point) is later
            if follows and pair in order.doubt[By.NOTHING] and order.level(pair) is not None:
                yield other

    def _nodes(self, core: CoreKind, kind: type[N]) -> Iterator[N]:
        for program in self._design.programs:
            if program.core is core:
                yield from (n for n in nodes_of(program.body) if isinstance(n, kind))


def _rank(edge: Edge) -> int:
    return len(STRENGTH) if edge.by is None else STRENGTH.index(edge.by)


def weakest(edges: tuple[Edge, ...]) -> Edge | None:
    """The edge a verdict rests on: one without an order if there is one, else the weakest; None without edges."""
    return max(edges, key=_rank, default=None)
