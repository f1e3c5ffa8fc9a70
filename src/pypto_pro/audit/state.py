"""The abstract machine state: scopes, heap and launch count along one path, and how states of several paths meet."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace
from typing import Any

from pypto_pro.audit.values import ClassValue, Value, join, join_all

SATURATED = 2


@dataclass(frozen=True)
class Count:
    """Launches along the paths that lead here: between `low` and `high` (2 means two or more).

    A launch inside a loop is one finding already (W122). `reached` therefore counts it as one for the lower bound, and
    `straight` leaves it out of the upper bound, so that it is not reported again as a missing or second launch.
    """

    low: int = 0
    high: int = 0
    reached: int = 0
    straight: int = 0

    def plus_launch(self, *, in_loop: bool) -> Count:
        """One more launch expression was executed."""
        if in_loop:
            return replace(self, high=SATURATED, reached=min(SATURATED, self.reached + 1))
        return Count(*(min(SATURATED, n + 1) for n in (self.low, self.high, self.reached, self.straight)))

    def plus(self, other: Count) -> Count:
        """First this, then that."""
        pairs = (
            (self.low, other.low),
            (self.high, other.high),
            (self.reached, other.reached),
            (self.straight, other.straight),
        )
        return Count(*(min(SATURATED, a + b) for a, b in pairs))

    def join(self, other: Count) -> Count:
        """One or the other."""
        return Count(
            min(self.low, other.low),
            max(self.high, other.high),
            min(self.reached, other.reached),
            max(self.straight, other.straight),
        )


@dataclass(frozen=True)
class HeapObject:
    """A mutable Python object. `items` are the elements when their positions are known, `rest` describes elements whose
    position or key is not; `entries` are attributes (instance) or constant keys (dict)."""

    kind: str  # list, dict, set, instance
    items: tuple[Value, ...] | None = None
    rest: Value | None = None
    entries: dict[Any, Value] = field(default_factory=dict)
    cls: ClassValue | None = None

    def elements(self) -> list[Value]:
        """Every element or attribute value that may be inside."""
        found = list(self.items or ())
        found += self.entries.values()
        return found if self.rest is None else [*found, self.rest]

    def summarised(self) -> HeapObject:
        """The same object with positions forgotten."""
        if self.items is None:
            return self
        inside = list(self.items) + ([] if self.rest is None else [self.rest])
        return replace(self, items=None, rest=join_all(inside) if inside else None)

    def join(self, other: HeapObject) -> HeapObject:
        """One or the other."""
        if self == other:
            return self
        mine, theirs = self, other
        if mine.items is None or theirs.items is None or len(mine.items) != len(theirs.items):
            mine, theirs = mine.summarised(), theirs.summarised()
            items = None
        else:
            items = tuple(join(a, b) for a, b in zip(mine.items, theirs.items, strict=True))
        rests = [r for r in (mine.rest, theirs.rest) if r is not None]
        entries = dict(mine.entries)
        for key, value in theirs.entries.items():
            entries[key] = join(entries[key], value) if key in entries else value
        return HeapObject(mine.kind, items, join_all(rests) if rests else None, entries, mine.cls or theirs.cls)


class State:
    """Scopes, heap and launch count of one path. Forks share their parts until one of them writes."""

    __slots__ = ("_owned", "count", "frames", "heap")

    def __init__(self) -> None:
        self.frames: dict[int, dict[str, Value]] = {}
        self.heap: dict[int, HeapObject] = {}
        self.count = Count()
        self._owned: set[int] = set()

    def fork(self) -> State:
        """An independent copy of this path."""
        twin = State()
        twin.frames = dict(self.frames)
        twin.heap = dict(self.heap)
        twin.count = self.count
        self._owned = set()
        return twin

    def share(self) -> None:
        """From here on writes copy a scope first, so that a scope dictionary seen now never changes."""
        self._owned = set()

    def bind(self, frame: int, name: str, value: Value) -> None:
        """`name = value` in a scope."""
        self._writable(frame)[name] = value

    def unbind(self, frame: int, name: str) -> None:
        """`del name` in a scope."""
        if name in self.frames.get(frame, {}):
            del self._writable(frame)[name]

    def open_frame(self, frame: int) -> None:
        """A fresh, empty scope."""
        self.frames[frame] = {}
        self._owned.add(frame)

    def close_frame(self, frame: int) -> None:
        """Forget a scope nothing refers to."""
        self.frames.pop(frame, None)
        self._owned.discard(frame)

    def _writable(self, frame: int) -> dict[str, Value]:
        if frame not in self._owned:
            self.frames[frame] = dict(self.frames.get(frame, {}))
            self._owned.add(frame)
        return self.frames[frame]

    def join(self, other: State) -> State:
        """The state where two paths meet: every name may hold what either path gave it."""
        if other is self:
            return self
        met = self.fork()
        met.count = self.count.join(other.count)
        for frame, names in other.frames.items():
            mine = met.frames.get(frame)
            if mine is None:
                met.frames[frame] = names
            elif mine is not names and mine != names:
                met.frames[frame] = _join_names(mine, names)
        for key, theirs in other.heap.items():
            own = met.heap.get(key)
            if own is not theirs:
                met.heap[key] = theirs if own is None else own.join(theirs)
        return met

    def same_as(self, other: State) -> bool:
        """Whether nothing more is learnt by going round a loop again."""
        return self.count == other.count and self.frames == other.frames and self.heap == other.heap


def _join_names(mine: dict[str, Value], theirs: dict[str, Value]) -> dict[str, Value]:
    merged = dict(mine)
    for name, value in theirs.items():
        merged[name] = join(merged[name], value) if name in merged else value
    return merged


def join_states(states: list[State]) -> State | None:
    """The meeting of any number of paths; None when no path gets there."""
    if not states:
        return None
    met = states[0]
    for state in states[1:]:
        met = met.join(state)
    return met


@dataclass(frozen=True)
class Exit:
    """One normal way out of a function: a `return`, or falling off the end. `guard` is the condition that leads
    there.
    """

    state: State
    value: Value
    node: ast.AST
    kind: str  # return, fallthrough, handler
    guard: str


@dataclass
class Flow:
    """How a block of statements ends."""

    normal: State | None = None
    exits: list[Exit] = field(default_factory=list)
    breaks: list[State] = field(default_factory=list)
    continues: list[State] = field(default_factory=list)

    def absorb(self, other: Flow) -> None:
        """Take over every abrupt ending of a nested block."""
        self.exits += other.exits
        self.breaks += other.breaks
        self.continues += other.continues
