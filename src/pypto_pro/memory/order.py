"""Which accesses of one core are ordered on every path: a must-happens-before over the structured program.

Every loop body is walked twice, branches are joined, and each pipe carries the accesses it cannot be sure are over.
A set flag carries the doubt of its pipe, a wait takes it over; mutexes, barriers and the scalar unit likewise. Limits:
events and slots known only at run time order within one turn of a loop (the proof of a pair adds the ids of its two
slots). Cross-core events stand among the touches, each as an instruction of its pipe; what their credits order is
judged by `cross_core` and `relays`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from enum import IntEnum

from pypto_pro.enums import CoreKind, PipeType
from pypto_pro.hw.a5 import FULLY_ORDERED_PIPES
from pypto_pro.memory.design import (
    Branch,
    Cross,
    Fence,
    Leave,
    Loop,
    Node,
    Program,
    Signal,
    Step,
    TileRecord,
    Use,
    nodes_of,
)

EVENT = -1  # stands for the program point of a cross-core event
TRIPS = 2  # enough to meet every access of one trip with every access of the next


class By(IntEnum):
    """What an order rests on, strongest first; each level also uses those before it."""

    NOTHING = 0
    SAME_PIPE = 1
    MUTEX = 2
    FLAG = 3
    BARRIER = 4


@dataclass(frozen=True)
class Touch:
    """One operand of one step: the unit of ordering."""

    core: CoreKind
    step: Step
    use: Use

    @property
    def pipe(self) -> PipeType:
        """Pipe of the step."""
        return self.step.pipe


Pair = tuple[int, int]
"""Indices of an earlier and a later touch; cross-core events are counted on behind the touches."""
Token = tuple[str, object, object]


@dataclass(frozen=True)
class Order:
    """Touches of one program and, for every level, the pairs (earlier, later) that it leaves unordered.

    `doubt[By.NOTHING]` holds every pair that can execute in this order at all.
    """

    touches: tuple[Touch, ...]
    events: tuple[Cross, ...]
    doubt: tuple[frozenset[Pair], ...]

    def level(self, pair: Pair) -> By | None:
        """The first level that orders a pair, None when none does."""
        return next((by for by in list(By)[1:] if pair not in self.doubt[by]), None)

    def unordered(self, level: By) -> Iterator[tuple[Touch, Touch]]:
        """The accesses that a level leaves unordered, earlier and later one."""
        for i, j in sorted(self.doubt[level]):
            if max(i, j) < len(self.touches):
                yield self.touches[i], self.touches[j]

    def place(self, thing: Touch | Cross) -> int:
        """The index of a touch or of an event."""
        if isinstance(thing, Touch):
            return self.touches.index(thing)
        return len(self.touches) + next(i for i, event in enumerate(self.events) if event is thing)


def find_order(program: Program, tiles: dict[str, TileRecord], tracked: Collection[str]) -> Order:
    """Order of all accesses to the tiles in `tracked`, and of the cross-core events."""
    touches = [
        Touch(program.core, step, use) for step in program.steps() for use in step.uses if use.tile in tracked
    ]  # fmt: skip
    index = {(t.step.point, id(t.use)): i for i, t in enumerate(touches)}
    events = tuple(n for n in nodes_of(program.body) if isinstance(n, Cross))
    index |= {(EVENT, id(event)): len(touches) + i for i, event in enumerate(events)}
    doubt = []
    for level in By:
        walk = _Walk(level, index, tiles)
        walk.block(program.body, _State())
        doubt.append(frozenset(walk.unordered))
    return Order(tuple(touches), events, tuple(doubt))


# --- the walk --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Snapshot:
    """What a release point is unsure of, and what had been issued when it was made (bit masks over touches)."""

    by: PipeType
    unsure: int
    issued: int


@dataclass
class _State:
    """For each pipe, the issued touches that may still run when its next instruction starts."""

    issued: int = 0
    unsure: dict[PipeType, int] = field(default_factory=dict)
    unfenced: dict[PipeType, int] = field(default_factory=dict)
    """DMA writes of the pipe itself that a second write could overtake."""
    flags: dict[Token, _Snapshot] = field(default_factory=dict)
    held: dict[Token, _Snapshot] = field(default_factory=dict)

    def copy(self) -> _State:
        return _State(self.issued, dict(self.unsure), dict(self.unfenced), dict(self.flags), dict(self.held))

    def join(self, other: _State) -> _State:
        """What holds on both paths."""
        return _State(
            self.issued | other.issued,
            _union(self.unsure, other.unsure),
            _union(self.unfenced, other.unfenced),
            _meet(self.flags, other.flags),
            _meet(self.held, other.held),
        )

    def doubts(self, pipe: PipeType) -> int:
        """Touches that may still run when `pipe` starts its next instruction; what S knows is over for every pipe."""
        own = self.unsure.get(pipe, 0)
        return own if pipe is PipeType.S else own & self.unsure.get(PipeType.S, 0)

    def acquire(self, pipe: PipeType, snapshot: _Snapshot) -> None:
        """`pipe` waits for a release: it keeps only the doubts of the release and what was issued after it."""
        open_ = snapshot.unsure | ~snapshot.issued
        self.unsure[pipe] = self.doubts(pipe) & open_
        if snapshot.by is not pipe:  # somebody else saw these writes finished
            self.unfenced[pipe] = self.unfenced.get(pipe, 0) & open_

    def release(self, pipe: PipeType) -> _Snapshot:
        """What a completing instruction of `pipe` passes on."""
        return _Snapshot(pipe, self.doubts(pipe), self.issued)


def _union(a: dict[PipeType, int], b: dict[PipeType, int]) -> dict[PipeType, int]:
    return {k: a.get(k, 0) | b.get(k, 0) for k in a.keys() | b.keys()}


def _meet(a: dict[Token, _Snapshot], b: dict[Token, _Snapshot]) -> dict[Token, _Snapshot]:
    both = a.keys() & b.keys()
    return {k: replace(a[k], unsure=a[k].unsure | b[k].unsure, issued=a[k].issued & b[k].issued) for k in both}


def _join(a: _State | None, b: _State | None) -> _State | None:
    if a is None or b is None:
        return a or b
    return a.join(b)


class _Walk:
    """Runs a program abstractly at one level and notes the pairs that stay unordered."""

    def __init__(self, level: By, index: dict[tuple[int, int], int], tiles: dict[str, TileRecord]) -> None:
        self.level, self.index, self.tiles = level, index, tiles
        self.unordered: set[Pair] = set()
        self.breaks: list[_State | None] = []
        self.continues: list[_State | None] = []

    def block(self, body: tuple[Node, ...], state: _State | None) -> _State | None:
        """The state after a block, None when its end is not reached."""
        for node in body:
            if state is None:
                return None
            state = self.node(node, state)
        return state

    def node(self, node: Node, state: _State) -> _State | None:
        match node:
            case Step():
                self.step(node, state)
            case Cross(pipe=pipe):
                mine = self.index[EVENT, id(node)]
                self.note(mine, pipe, state, writes=False)
                self.issue(mine, pipe, state, writes=False)
            case Signal():
                self.signal(node, state)
            case Fence():
                self.fence(node, state)
            case Branch(arms=arms):
                ends = [self.block(arm, state.copy()) for arm in arms]
                joined: _State | None = None
                for end in ends:
                    joined = _join(joined, end)
                return joined
            case Loop():
                return self.loop(node, state)
            case Leave(how=how):
                if how == "break":
                    self.breaks[-1] = _join(self.breaks[-1], state)
                elif how == "continue":
                    self.continues[-1] = _join(self.continues[-1], state)
                return None
        return state

    def loop(self, loop: Loop, state: _State) -> _State | None:
        leaves: _State | None = None if loop.runs else state.copy()
        current: _State | None = state
        for _ in range(TRIPS):
            if current is None:
                break
            start = current.copy()
            # a new turn, maybe another slot and another event
            start.held = {k: v for k, v in start.held.items() if k[0] != "ref"}
            start.flags = {k: v for k, v in start.flags.items() if k[0] != "turn"}
            self.breaks.append(None)
            self.continues.append(None)
            end = self.block(loop.body, start)
            current = _join(end, self.continues.pop())
            leaves = _join(_join(leaves, self.breaks.pop()), current.copy() if current else None)
        return leaves

    # --- instructions ----------------------------------------------------------------------------------------------

    def step(self, step: Step, state: _State) -> None:
        mine = [(use, self.index.get((step.point, id(use)))) for use in step.uses]
        tokens = [t for use in step.uses for t in self.tokens(use)] if self.level >= By.MUTEX else []
        for token in tokens:
            if token in state.held:
                state.acquire(step.pipe, state.held[token])
        for use, i in mine:
            if i is not None:
                self.note(i, step.pipe, state, writes=use.writes)
        for use, i in mine:
            if i is not None:
                self.issue(i, step.pipe, state, writes=use.writes)
        for token in tokens:
            state.held[token] = state.release(step.pipe)

    def note(self, i: int, pipe: PipeType, state: _State, *, writes: bool) -> None:
        """Every issued touch that may still run meets this one."""
        if self.level is By.NOTHING:
            unsure = state.issued
        else:
            unsure = state.doubts(pipe)
            if writes:
                unsure |= state.unfenced.get(pipe, 0) & state.unsure.get(PipeType.S, 0)
        for j in _bits(unsure):
            self.unordered.add((j, i))

    def issue(self, i: int, pipe: PipeType, state: _State, *, writes: bool) -> None:
        bit = 1 << i
        if state.issued & bit:  # a second trip: earlier releases know nothing of this execution
            state.flags = {k: _forget(v, bit) for k, v in state.flags.items()}
            state.held = {k: _forget(v, bit) for k, v in state.held.items()}
        state.issued |= bit
        for other in PipeType:
            if other is not pipe and pipe is not PipeType.S:
                state.unsure[other] = state.unsure.get(other, 0) | bit
        if pipe not in FULLY_ORDERED_PIPES and writes:
            state.unfenced[pipe] = state.unfenced.get(pipe, 0) | bit

    def tokens(self, use: Use) -> Iterator[Token]:
        """The mutex objects held around an access: ids where the slot is known, else the reference itself."""
        yield from (("id", m, None) for m in use.by_hand)
        tile = self.tiles.get(use.tile)
        if not use.locked or tile is None:
            return
        if use.slot is None:
            yield ("ref", use.tile, use.ref)
        else:
            yield from (("id", m, None) for m in tile.ids(use.slot))

    def signal(self, signal: Signal, state: _State) -> None:
        if self.level < By.FLAG:
            return
        pipes = signal.from_pipe, signal.to_pipe
        token: Token = ("flag", pipes, signal.event) if signal.event is not None else ("turn", pipes, signal.ref)
        if signal.sets:
            state.flags[token] = state.release(signal.from_pipe)
        elif token in state.flags:
            state.acquire(signal.to_pipe, state.flags.pop(token))

    def fence(self, fence: Fence, state: _State) -> None:
        if fence.pipe is PipeType.ALL:
            if self.level >= By.BARRIER:
                state.unsure = dict.fromkeys(PipeType, 0)
                state.unfenced = {}
        else:
            state.unfenced[fence.pipe] = 0


def _forget(snapshot: _Snapshot, bit: int) -> _Snapshot:
    return replace(snapshot, issued=snapshot.issued & ~bit)


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
