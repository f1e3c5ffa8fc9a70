"""A tiny model of vector cores for exhaustive search: straight-line programs, every legal interleaving.

Written from the execution model and independent of the simulator. An op starts (reads) and completes (writes) in two
steps; V completes before the next starts, transfers of one pipe overlap and may complete in any order, except that one
does not read what an earlier one of its pipe has still to write.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

PIPES = ("MTE2", "V", "MTE3")
"""Pipes of a core besides S."""


@dataclass(frozen=True)
class Step:
    """One statement. `kind`: op, set, wait, lock, unlock, bar, bar_all, arrive, meet.

    op: `reads` and `writes` are places (strings), `value` tells results apart. set and wait: `pair` is (set pipe, wait
    pipe, event). lock and unlock: `mutex`. arrive and meet: set and wait of an INTER_BLOCK signal with `mutex` as id.
    """

    kind: str
    pipe: str
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    value: int = 0
    pair: tuple[str, str, int] = ("", "", 0)
    mutex: int = -1
    text: str = ""


Program = tuple[Step, ...]


@dataclass(frozen=True)
class State:
    """`issued` by core; `heads` by core and pipe; ops in flight with what they read; everything set, held and met."""

    issued: tuple[int, ...]
    heads: tuple[tuple[int, ...], ...]
    flight: tuple[tuple[int, int, tuple[object, ...]], ...] = ()
    flags: tuple[tuple[int, tuple[str, str, int]], ...] = ()
    mutexes: tuple[tuple[tuple[int, int], int, int], ...] = ()
    met: tuple[tuple[int, int, int, int], ...] = ()
    memory: tuple[tuple[str, object], ...] = ()


class Explorer:
    """All outcomes of one program a core: the final GM places, or the word for a state that must not be reached."""

    def __init__(self, programs: tuple[Program, ...], limit: int = 100_000) -> None:
        self.programs = programs
        self.limit = limit
        self.queues = [
            [[i for i, s in enumerate(program) if s.pipe == p] for p in PIPES] for program in programs
        ]
        self.tickets = [self._tickets(program) for program in programs]

    @staticmethod
    def _tickets(program: Program) -> dict[int, int]:
        """Ticket of every lock of a core, in issue order a mutex."""
        given: dict[int, int] = {}
        found = {}
        for i, step in enumerate(program):
            if step.kind == "lock":
                found[i] = given.get(step.mutex, 0)
                given[step.mutex] = found[i] + 1
        return found

    def outcomes(self, until: object = None) -> frozenset[object]:
        """Every way the programs can end, or those up to the first that differs from `until`, when it is given.

        RuntimeError when there are more states than the limit.
        """
        cores = len(self.programs)
        start = self._issue(State((0,) * cores, ((0,) * len(PIPES),) * cores))
        seen = {start}
        pending = [start]
        found: set[object] = set()
        while pending:
            state = pending.pop()
            following = list(self._next(state))
            if not following:
                found.add(self._ending(state))
            for step in following:
                if isinstance(step, str):
                    found.add(step)
                    continue
                after = self._issue(step)
                if after not in seen:
                    seen.add(after)
                    pending.append(after)
            if until is not None and found - {until}:
                break
            if len(seen) > self.limit:
                raise RuntimeError("too many states")
        return frozenset(found)

    def _next(self, state: State) -> Iterator[State | str]:
        for core in range(len(self.programs)):
            for lane in range(len(PIPES)):
                queue = self.queues[core][lane]
                head = state.heads[core][lane]
                if head < len(queue) and queue[head] < state.issued[core]:
                    yield from self._head(state, core, lane, queue[head])
        for entry in state.flight:
            core, index, value = entry
            step = self.programs[core][index]
            kept = dict(state.memory) | dict.fromkeys(step.writes, (value, step.value))
            flight = tuple(e for e in state.flight if e is not entry)
            yield replace(state, flight=flight, memory=tuple(sorted(kept.items(), key=repr)))

    def _issue(self, state: State) -> State:
        """S issues as far as it can: that only allows more, so nothing is lost by doing it at once."""
        issued = list(state.issued)
        for core, program in enumerate(self.programs):
            while issued[core] < len(program):
                if program[issued[core]].pipe == "S" and not self._is_idle(state, core, issued[core]):
                    break
                issued[core] += 1
        return state if tuple(issued) == state.issued else replace(state, issued=tuple(issued))

    def _is_idle(self, state: State, core: int, issued: int) -> bool:
        """Whether everything a core has issued has completed."""
        if any(c == core for c, _, _ in state.flight):
            return False
        heads = state.heads[core]
        return all(heads[k] == sum(i < issued for i in queue) for k, queue in enumerate(self.queues[core]))

    def _head(self, state: State, core: int, lane: int, index: int) -> Iterator[State | str]:
        step = self.programs[core][index]
        mine = [i for c, i, _ in state.flight if c == core and self.programs[core][i].pipe == step.pipe]
        heads = moved(state.heads, core, moved(state.heads[core], lane, state.heads[core][lane] + 1))
        after = replace(state, heads=heads)
        flag = (core, step.pair)
        match step.kind:
            case "op":
                pending = {p for i in mine for p in self.programs[core][i].writes}
                if not ((step.pipe == "V" and mine) or pending & set(step.reads)):
                    values = dict(state.memory)
                    read = tuple(values.get(p, p) for p in step.reads)
                    yield replace(after, flight=tuple(sorted((*state.flight, (core, index, read)), key=repr)))
            case "set" if not mine:
                yield "a flag was set twice" if flag in state.flags else replace(
                    after, flags=tuple(sorted((*state.flags, flag)))
                )
            case "wait" if flag in state.flags:
                yield replace(after, flags=tuple(f for f in state.flags if f != flag))
            case "bar" if not mine:
                yield after
            case "lock" | "unlock":
                yield from self._mutex(after, core, index, mine)
            case "arrive" | "meet":
                yield from self._meeting(after, core, step, mine)

    def _mutex(self, state: State, core: int, index: int, mine: list[int]) -> Iterator[State | str]:
        step = self.programs[core][index]
        held = {m: (holder, done) for m, holder, done in state.mutexes}
        key = (core, step.mutex)
        holder, done = held.get(key, (-1, 0))
        if step.kind == "lock":
            if holder >= 0 or done != self.tickets[core][index]:
                return
            held[key] = (index, done)
        else:
            if mine:
                return
            if holder < 0 or self.programs[core][holder].pipe != step.pipe:
                yield "a mutex was unlocked by a pipe that did not hold it"
                return
            held[key] = (-1, done + 1)
        yield replace(state, mutexes=tuple(sorted((m, h, d) for m, (h, d) in held.items())))

    def _meeting(self, state: State, core: int, step: Step, mine: list[int]) -> Iterator[State]:
        """INTER_BLOCK: everybody's k-th arrival gives everybody a credit."""
        counts = {(event, c): (arrived, taken) for event, c, arrived, taken in state.met}
        arrived, taken = counts.get((step.mutex, core), (0, 0))
        if step.kind == "arrive":
            if mine:
                return
            counts[step.mutex, core] = (arrived + 1, taken)
        else:
            rounds = min(counts.get((step.mutex, c), (0, 0))[0] for c in range(len(self.programs)))
            if rounds <= taken:
                return
            counts[step.mutex, core] = (arrived, taken + 1)
        yield replace(state, met=tuple(sorted((e, c, a, t) for (e, c), (a, t) in counts.items())))

    def _ending(self, state: State) -> object:
        for core, program in enumerate(self.programs):
            whole = state.issued[core] == len(program)
            if not whole or any(state.heads[core][k] < len(q) for k, q in enumerate(self.queues[core])):
                return "stuck"
        if state.flags or any(holder >= 0 for _, holder, _ in state.mutexes):
            return "something is still set at the end"
        if any(arrived != taken for _, _, arrived, taken in state.met):
            return "an arrival or a credit is left"
        return tuple((place, value) for place, value in state.memory if place.startswith("y"))


def moved(values: tuple, at: int, value: object) -> tuple:
    """The tuple with one entry replaced."""
    return (*values[:at], value, *values[at + 1 :])
