"""Order between the cube and the vector program: READY/RELEASE chains over cross-core events, judged by structure.

A chain from x to y is a set behind x on its pipe and a matching wait before y on its pipe, both executed whenever
their access is. Credits are counted: a wait takes the oldest credit, so credits set before a loop make every wait in it
answer a set of an earlier turn. Inside loops the access has to be handed back as well, so chains are needed in both
directions. Events under branches, in several loops or on several pipes make no chain.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

from pypto_pro.enums import CoreKind, CrossCoreSyncMode, PipeType
from pypto_pro.hw.a5 import UNICAST_AIV1_STEP
from pypto_pro.memory.design import Branch, Cross, Loop, Node, Program, Step
from pypto_pro.memory.order import Touch

Path = tuple[tuple[int, int], ...]
"""Enclosing loops and arms: (serial number, arm)."""


@dataclass(frozen=True)
class _Placed:
    """A step or an event with its position in program order and what encloses it."""

    node: Step | Cross
    at: int
    path: Path
    loops: int


class CrossOrder:
    """Finds chains between the programs of a kernel, and what lies between two steps of one."""

    def __init__(self, programs: tuple[Program, ...]) -> None:
        self._placed = {p.core: list(_flatten(p.body)) for p in programs}
        self._chains: dict[tuple[CoreKind, int, int], Chain | None] = {}
        self._steps = {
            (core, placed.node.point): placed
            for core, found in self._placed.items()
            for placed in found
            if isinstance(placed.node, Step)
        }

    def chain(self, x: Touch, y: Touch) -> Chain | None:
        """The best chain from `x` to `y` on the other core, None when there is none."""
        key = x.core, x.step.point, y.step.point
        if key not in self._chains:
            self._chains[key] = self._find(x, y)
        return self._chains[key]

    def _find(self, x: Touch, y: Touch) -> Chain | None:
        first, last = self._steps[x.core, x.step.point], self._steps[y.core, y.step.point]
        found: list[Chain] = []
        for done in self._events(x.core, sets=True):
            if not (done.at > first.at and encloses(done.path, first.path) and done.node.pipe is x.pipe):
                continue
            for wait in self._events(y.core, sets=False):
                reaches = wait.node.pipe in (y.pipe, PipeType.S)
                if wait.at < last.at and encloses(wait.path, last.path) and reaches and _match(done, wait):
                    turns = self._turns(x.core, done, y.core, wait)
                    if turns is not None:
                        found.append(Chain(done.node, turns))
        return min(found, key=lambda c: c.turns, default=None)

    def apart(self, x: Touch, y: Touch, there: Chain | None, back: Chain | None) -> Chain | None:
        """What keeps `x` and `y` apart, given the chains between them: when both are repeated it takes both."""
        if not self._in_loops(x, y):
            return next((c for c in (there, back) if c is not None and c.turns == 0), None)
        if there is None or back is None or min(there.turns, back.turns) > 0 or max(there.turns, back.turns) > 1:
            return None
        return there

    def hops(self, core: CoreKind) -> Iterator[Hop]:
        """Every set of a core with each wait of the other that takes its credits, where these can be counted."""
        for other in self._placed:
            for done in self._events(core, sets=True) if other is not core else ():
                for wait in self._events(other, sets=False):
                    turns = self._turns(core, done, other, wait) if _match(done, wait) else None
                    if turns is not None:
                        yield Hop(core, done, other, wait, turns)

    def position(self, touch: Touch) -> tuple[int, Path]:
        """Where the step of an access stands in program order, and what encloses it."""
        placed = self._steps[touch.core, touch.step.point]
        return placed.at, placed.path

    def _turns(self, core: CoreKind, done: Event, other: CoreKind, wait: Event) -> int | None:
        """Turns of the loop by which a wait answers earlier than the set of its own turn: 0 for the same one.

        None when the credits cannot be counted, or there is no later turn.
        """
        sets, waits = self._place(core, done), self._place(other, wait)
        if sets is None or waits is None or sets.loops != waits.loops:
            return None
        ahead = sets.before + sets.index - waits.before - waits.index
        if sets.loops == 0:
            return 0 if ahead <= 0 else None
        return max(0, -(-ahead // sets.each)) if sets.each == waits.each else None

    def _place(self, core: CoreKind, event: Event) -> _Count | None:
        """Where an event stands among the events of its core that give or take the same credits."""
        mine = [e for e in self._events(core, sets=event.node.sets)
                if (e.node.event, e.node.mode) == (event.node.event, event.node.mode)]  # fmt: skip
        body, before = [], 0
        for e in mine:
            if e.node.pipe is not event.node.pipe:
                return None  # two pipes need not keep the order of the program
            if e.path == event.path:
                body.append(e)
            elif not encloses(e.path, event.path):
                return None  # under a branch, or in another loop: nobody knows how often
            elif e.at < event.at:
                before += 1
        at = next(i for i, e in enumerate(body) if e.at == event.at)
        return _Count(before, at, len(body), event.loops)

    def _in_loops(self, x: Touch, y: Touch) -> bool:
        """Whether both are repeated, so that the bytes have to be handed back as well."""
        return self._steps[x.core, x.step.point].loops > 0 and self._steps[y.core, y.step.point].loops > 0

    def always_between(self, x: Touch, z: Touch, y: Touch) -> bool:
        """Whether, on one core, `z` runs between `x` and the next `y` whenever both of these run."""
        first, middle, last = (self._steps[t.core, t.step.point] for t in (x, z, y))
        behind = middle.at > first.at and encloses(middle.path, first.path)
        ahead = middle.at < last.at and encloses(middle.path, last.path)
        if first.at < last.at:
            return first.at < middle.at < last.at and (behind or ahead)
        # the way round a loop that holds both, and has to hold z as well
        both = zip(first.path, last.path, strict=False)
        common = tuple(a for a, _ in takewhile(lambda pair: pair[0] == pair[1], both))
        return encloses(common, middle.path) and (behind or ahead)

    def arrivals(self) -> Iterator[tuple[Cross, Step]]:
        """Every wait of one core with each step of the other that is over once the wait is."""
        for core, found in self._placed.items():
            for other in self._placed:
                for wait in self._events(other, sets=False) if other is not core else ():
                    for done in self._events(core, sets=True):
                        for placed in found if _match(done, wait) else ():
                            step = placed.node
                            behind = done.at > placed.at and encloses(done.path, placed.path)
                            if isinstance(step, Step) and behind and done.node.pipe is step.pipe:
                                yield wait.node, step

    def _events(self, core: CoreKind, *, sets: bool) -> Iterator[Event]:
        for placed in self._placed.get(core, []):
            if isinstance(placed.node, Cross) and placed.node.sets is sets and placed.node.event is not None:
                yield Event(placed.node, placed.at, placed.path, placed.loops)


@dataclass(frozen=True)
class Chain:
    """The set that starts a chain, and how many turns of the loop later the wait answers it."""

    start: Cross
    turns: int


@dataclass(frozen=True)
class Event:
    """A set or a wait with its position in program order, what encloses it and how many of these are loops."""

    node: Cross
    at: int
    path: Path
    loops: int


@dataclass(frozen=True)
class Hop:
    """A set on one core that a wait on the other answers `turns` turns of their loops later."""

    core: CoreKind
    done: Event
    other: CoreKind
    wait: Event
    turns: int


@dataclass(frozen=True)
class _Count:
    """Of an event: equal events before its block, its index in the block, those in the block, and enclosing loops."""

    before: int
    index: int
    each: int
    loops: int


def _match(done: Event, wait: Event) -> bool:
    """Whether a wait takes the credit of a set: same mode, same id (UNICAST: also shifted for AIV1)."""
    a, b = done.node, wait.node
    if a.mode != b.mode or a.event is None or b.event is None:
        return False
    shifted = a.mode == CrossCoreSyncMode.UNICAST_BLOCK.name and abs(a.event - b.event) == UNICAST_AIV1_STEP
    return a.event == b.event or shifted


def encloses(outer: Path, inner: Path) -> bool:
    """Whether what stands at `inner` is executed only when what stands at `outer` is."""
    return inner[: len(outer)] == outer


def _flatten(body: tuple[Node, ...]) -> Iterator[_Placed]:
    """Steps and cross-core events in program order, each with its enclosing containers."""
    position = serial = 0

    def walk(block: tuple[Node, ...], path: Path, loops: int) -> Iterator[_Placed]:
        nonlocal position, serial
        for node in block:
            match node:
                case Step() | Cross():
                    position += 1
                    yield _Placed(node, position, path, loops)
                case Loop(body=inner):
                    serial += 1
                    yield from walk(inner, (*path, (serial, 0)), loops + 1)
                case Branch(arms=arms):
                    serial += 1
                    mine = serial
                    for arm, inner in enumerate(arms):
                        yield from walk(inner, (*path, (mine, arm)), loops)

    yield from walk(body, (), 0)
