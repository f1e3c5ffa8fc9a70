"""Orders between two accesses of one core that lead through the other core.

A set behind the first access, a wait for it over there, a set behind that wait, and a wait for this one before the
second access. Credits are counted as in `cross_core`. Limits: one way out and one way back, both of INTRA_BLOCK events
in the same loops, and no jumps out of a loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile

from pypto_pro.enums import CoreKind, CrossCoreSyncMode
from pypto_pro.memory.cross_core import CrossOrder, Hop, encloses
from pypto_pro.memory.design import Cross, Leave, Program, nodes_of
from pypto_pro.memory.order import By, Order, Touch

Relay = tuple[Cross, Cross]
"""The set that leads to the other core, and the one that leads back."""


class Relays:
    """Finds the ways through the other core; `orders` are those of the cores by themselves."""

    def __init__(self, programs: tuple[Program, ...], orders: Mapping[CoreKind, Order], cross: CrossOrder) -> None:
        self._orders, self._cross = orders, cross
        self._ways: dict[CoreKind, list[tuple[Hop, Hop]]] = {}
        jumps = any(isinstance(node, Leave) for program in programs for node in nodes_of(program.body))
        self._cores = () if jumps else tuple(program.core for program in programs)

    def between(self, x: Touch, y: Touch) -> Relay | None:
        """What orders `x` before every later `y` of the same core, None when no way does."""
        if x.core not in self._ways:
            self._ways[x.core] = list(self._find(x.core))
        found = ((out.done.node, back.done.node) for out, back in self._ways[x.core] if self._leads(x, out, back, y))
        return next(found, None)

    def _find(self, core: CoreKind) -> list[tuple[Hop, Hop]]:
        """Every way from a core out and back to it."""
        return [
            (out, back)
            for out in (self._cross.hops(core) if core in self._cores else ())
            for back in self._cross.hops(out.other)
            if back.other is core
            and {out.done.node.mode, back.done.node.mode} == {CrossCoreSyncMode.INTRA_BLOCK.name}
            and out.done.path == back.wait.path
            and out.wait.path == back.done.path
            and out.wait.at < back.done.at
            and self._ordered(out.other, out.wait.node, back.done.node)
        ]

    def _leads(self, x: Touch, out: Hop, back: Hop, y: Touch) -> bool:
        """Whether the way begins behind `x` and ends before the next `y`, of the same turn or of the next one."""
        (first, first_path), (last, last_path) = self._cross.position(x), self._cross.position(y)
        turns = out.turns + back.turns
        if first < last:
            in_time = turns == 0 and out.done.at < back.wait.at
        else:
            both = zip(first_path, last_path, strict=False)
            common = tuple(a for a, _ in takewhile(lambda pair: pair[0] == pair[1], both))
            in_time = turns <= 1 and out.done.path == common != ()
        return (
            in_time and first < out.done.at and back.wait.at < last
            and encloses(out.done.path, first_path) and encloses(back.wait.path, last_path)
            and self._ordered(x.core, x, out.done.node) and self._ordered(x.core, back.wait.node, y)
        )  # fmt: skip

    def _ordered(self, core: CoreKind, first: Touch | Cross, last: Touch | Cross) -> bool:
        """Whether the first is over before every later execution of the last starts, on their core."""
        order = self._orders[core]
        pair = order.place(first), order.place(last)
        return pair in order.doubt[By.NOTHING] and order.level(pair) is not None
