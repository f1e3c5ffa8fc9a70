"""Order between the cube and the vector program: READY/RELEASE chains over cross-core events, judged by structure.

A chain from x to y is a set behind x on its pipe and a matching wait before y on its pipe, both executed whenever
their access is. Inside loops the access has to be handed back as well, so chains are needed in both directions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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
    in_loop: bool


class CrossOrder:
    """Finds chains between the programs of a kernel."""

    def __init__(self, programs: tuple[Program, ...]) -> None:
        self._placed = {p.core: list(_flatten(p.body)) for p in programs}
        self._steps = {
            (core, placed.node.point): placed
            for core, found in self._placed.items()
            for placed in found
            if isinstance(placed.node, Step)
        }

    def chain(self, x: Touch, y: Touch) -> Cross | None:
        """The set that starts a chain from `x` to `y` on the other core, None when there is none."""
        first, last = self._steps[x.core, x.step.point], self._steps[y.core, y.step.point]
        for done in self._events(x.core, sets=True):
            if not (done.at > first.at and _encloses(done.path, first.path) and done.node.pipe is x.pipe):
                continue
            for wait in self._events(y.core, sets=False):
                reaches = wait.node.pipe in (y.pipe, PipeType.S)
                if wait.at < last.at and _encloses(wait.path, last.path) and reaches and _match(done, wait):
                    return done.node
        return None

    def in_loops(self, x: Touch, y: Touch) -> bool:
        """Whether both are repeated, so that the bytes have to be handed back as well."""
        return self._steps[x.core, x.step.point].in_loop and self._steps[y.core, y.step.point].in_loop

    def arrivals(self) -> Iterator[tuple[Cross, Step]]:
        """Every wait of one core with each step of the other that is over once the wait is."""
        for core, found in self._placed.items():
            for other in self._placed:
                for wait in self._events(other, sets=False) if other is not core else ():
                    for done in self._events(core, sets=True):
                        for placed in found if _match(done, wait) else ():
                            step = placed.node
                            behind = done.at > placed.at and _encloses(done.path, placed.path)
                            if isinstance(step, Step) and behind and done.node.pipe is step.pipe:
                                yield wait.node, step

    def _events(self, core: CoreKind, *, sets: bool) -> Iterator[_Event]:
        for placed in self._placed.get(core, []):
            if isinstance(placed.node, Cross) and placed.node.sets is sets and placed.node.event is not None:
                yield _Event(placed.node, placed.at, placed.path)


@dataclass(frozen=True)
class _Event:
    node: Cross
    at: int
    path: Path


def _match(done: _Event, wait: _Event) -> bool:
    """Whether a wait takes the credit of a set: same mode, same id (UNICAST: also shifted for AIV1)."""
    a, b = done.node, wait.node
    if a.mode != b.mode or a.event is None or b.event is None:
        return False
    shifted = a.mode == CrossCoreSyncMode.UNICAST_BLOCK.name and abs(a.event - b.event) == UNICAST_AIV1_STEP
    return a.event == b.event or shifted


def _encloses(outer: Path, inner: Path) -> bool:
    return inner[: len(outer)] == outer


def _flatten(body: tuple[Node, ...]) -> Iterator[_Placed]:
    """Steps and cross-core events in program order, each with its enclosing containers."""
    position = serial = 0

    def walk(block: tuple[Node, ...], path: Path, in_loop: bool) -> Iterator[_Placed]:
        nonlocal position, serial
        for node in block:
            match node:
                case Step() | Cross():
                    position += 1
                    yield _Placed(node, position, path, in_loop)
                case Loop(body=inner):
                    serial += 1
                    yield from walk(inner, (*path, (serial, 0)), True)
                case Branch(arms=arms):
                    serial += 1
                    mine = serial
                    for arm, inner in enumerate(arms):
                        yield from walk(inner, (*path, (mine, arm)), in_loop)

    yield from walk(body, (), False)
