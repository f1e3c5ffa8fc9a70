"""Happens-before by vector clocks: what each pipe of each core knows to have completed.

An agent is a pipe of a core (its scalar unit S included). Instructions are numbered in issue order, so that numbers
grow along every pipe, and "agent `a` up to number `n`" names a prefix of what `a` has completed. A pipe knows one such
prefix of every agent: seven numbers for its own core, and one array for all others, which is shared until somebody
learns something across cores.

The edges (execution model, section 12) are made by the callers:

- a signal (set, unlock, cross-core set, end of a phase) is a `Release` of its pipe: everything the pipe knows, and its
  own instructions up to the signal;
- a wait, lock or rendezvous acquires releases;
- an instruction starts knowing what its pipe knew before and what S knew when it was issued (`ScalarLog`).

Numbers are compared only within one agent, so the order does not depend on the schedule that was run. Cost: a release
copies seven numbers; an acquire of something known is one comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

LANES = 7
"""Pipes of a core, S included."""
World: TypeAlias = "NDArray[np.int64] | None"
"""What is known of all cores, by agent; never changed in place. None: nothing."""


def merged(a: World, b: World) -> World:
    """Everything either knows; one of the two when it knows it all."""
    if a is b or b is None:
        return a
    if a is None:
        return b
    both = np.maximum(a, b)
    if np.array_equal(both, b):
        return b
    return a if np.array_equal(both, a) else both


class Release:
    """What whoever waits for a signal learns: the state of a pipe when it had completed instruction `number`."""

    __slots__ = ("core", "lane", "number", "own", "world")

    def __init__(self, core: int, lane: int, number: int, own: list[int], world: World) -> None:
        self.core = core
        self.lane = lane
        self.number = number
        self.own = own
        self.world = world


class Knowledge:
    """What one pipe knows to have completed. `own` is by lane of its core, `world` by agent."""

    __slots__ = ("agent", "agents", "base", "core", "lane", "log", "own", "seen", "signal", "world")

    def __init__(self, core: int, lane: int, agents: int, log: ScalarLog | None) -> None:
        self.core = core
        self.lane = lane
        self.agents = agents
        self.base = core * LANES
        self.agent = self.base + lane
        self.own = [0] * LANES
        self.world: World = None
        self.log = log
        self.seen = 0
        self.signal: Any = None
        """The last signal that taught it something, for reports."""

    def of(self, agent: int) -> int:
        """The highest number of an agent known to have completed."""
        lane = agent - self.base
        if 0 <= lane < LANES:
            return self.own[lane]
        return 0 if self.world is None else int(self.world[agent])

    def catch_up(self, number: int) -> None:
        """Learn what S knew when it issued instruction `number`."""
        log = self.log
        if log is None or self.seen >= len(log.entries):
            return
        entries, at = log.entries, self.seen
        while at < len(entries) and entries[at].number < number:
            at += 1
        if at > self.seen:
            self.seen = at
            self._join(entries[at - 1])

    def release(self, number: int) -> Release:
        """A signal of this pipe: instruction `number` and all before it have completed."""
        own = self.own[:]
        own[self.lane] = number
        return Release(self.core, self.lane, number, own, self.world)

    def finished(self, number: int) -> None:
        """A barrier of this pipe: later instructions start after everything up to `number` has completed."""
        self.own[self.lane] = number

    def acquire(self, release: Release, signal: Any = None) -> None:
        """An instruction of this pipe waited for a signal: learn everything it says."""
        if release.core == self.core:
            if self.own[release.lane] < release.number:
                self._join(release)
                self.signal = signal
        elif self.of(release.core * LANES + release.lane) < release.number:
            self.know(everything(release, self.agents))
            self.signal = signal

    def know(self, world: NDArray[np.int64]) -> None:
        """Learn facts about all agents."""
        self.world = merged(self.world, world)
        self._fold()

    def copy(self) -> Knowledge:
        """What it knows now."""
        twin = Knowledge(self.core, self.lane, self.agents, None)
        twin.own, twin.world = self.own[:], self.world
        return twin

    def absorb(self, other: Knowledge) -> None:
        """Everything another state of this pipe knows."""
        self._join(other.release(other.own[other.lane]))

    def learn(self, agent: int, number: int) -> None:
        """One fact alone, as if somebody had told it."""
        lane = agent - self.base
        if 0 <= lane < LANES:
            self.own[lane] = max(self.own[lane], number)
            return
        world = np.zeros(self.agents, np.int64) if self.world is None else self.world.copy()
        world[agent] = max(number, int(world[agent]))
        self.world = world

    def _join(self, release: Release) -> None:
        self.own = [a if a > b else b for a, b in zip(self.own, release.own, strict=True)]
        if release.world is not self.world:
            self.world = merged(self.world, release.world)
            self._fold()

    def _fold(self) -> None:
        """What others know of this core counts for it as well."""
        if self.world is not None:
            known = self.world[self.base : self.base + LANES].tolist()
            self.own = [a if a > b else b for a, b in zip(self.own, known, strict=True)]


def everything(release: Release, agents: int) -> NDArray[np.int64]:
    """A release as one array over all agents."""
    world = np.zeros(agents, np.int64) if release.world is None else release.world.copy()
    at = release.core * LANES
    world[at : at + LANES] = np.maximum(world[at : at + LANES], release.own)
    return world


class ScalarLog:
    """What S of a core knew after each of its blocking actions, in order; its pipes learn it with what it issues."""

    __slots__ = ("entries",)

    LONG = 4096

    def __init__(self) -> None:
        self.entries: list[Release] = []

    def add(self, release: Release) -> None:
        """A blocking action of S: `release.number` is its place in the issue order."""
        self.entries.append(release)

    def trim(self, pipes: Iterable[Knowledge], is_idle: Iterable[bool]) -> None:
        """Forget entries that every pipe has passed; an idle pipe is brought up to the last one first."""
        if len(self.entries) < self.LONG:
            return
        readers = list(pipes)
        for pipe, idle in zip(readers, is_idle, strict=True):
            if idle:
                pipe.catch_up(self.entries[-1].number + 1)
        passed = min((pipe.seen for pipe in readers), default=len(self.entries))
        del self.entries[:passed]
        for pipe in readers:
            pipe.seen -= passed


class Order:
    """The knowledge of every agent of a launch."""

    def __init__(self, cores: int, scalar: int, is_idle: Callable[[int, int], bool] | None = None) -> None:
        """`is_idle(core, lane)`: whether a pipe holds no issued instruction; then its past need not be kept."""
        self.agents = cores * LANES
        self.is_idle = is_idle
        self.scalar = scalar
        """The lane of S."""
        self.logs = [ScalarLog() for _ in range(cores)]
        self.pipes = [
            Knowledge(core, lane, self.agents, None if lane == scalar else self.logs[core])
            for core in range(cores)
            for lane in range(LANES)
        ]

    def core(self, index: int) -> Iterator[Knowledge]:
        """All pipes of a core."""
        return iter(self.pipes[index * LANES : (index + 1) * LANES])

    def scalar_acted(self, core: int, number: int) -> None:
        """S of a core went through a blocking action: what it issues from now on comes after it."""
        scalar = self.pipes[core * LANES + self.scalar]
        scalar.finished(number)
        log = self.logs[core]
        log.add(scalar.release(number))
        if self.is_idle is not None and len(log.entries) >= log.LONG:
            pipes = [pipe for pipe in self.core(core) if pipe.lane != self.scalar]
            log.trim(pipes, [self.is_idle(core, pipe.lane) for pipe in pipes])

    def drained(self, core: int, number: int) -> None:
        """`bar_all`: everything S of a core issued before `number` has completed, on all its pipes."""
        scalar = self.pipes[core * LANES + self.scalar]
        for pipe in self.core(core):
            scalar.world = merged(scalar.world, pipe.world)
        scalar.own = [number] * LANES
        self.scalar_acted(core, number)

    def met(self, arrivals: Iterable[tuple[int, int]]) -> None:
        """A rendezvous of scalar units, given as (core, number): each learns what all of them knew."""
        known = list(arrivals)
        together = np.zeros(self.agents, np.int64)
        for core, number in known:
            scalar = self.pipes[core * LANES + self.scalar]
            together = np.maximum(together, everything(scalar.release(number), self.agents))
        for core, number in known:
            scalar = self.pipes[core * LANES + self.scalar]
            scalar.know(together)
            self.scalar_acted(core, number)
