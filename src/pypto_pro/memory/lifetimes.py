"""Lifetimes: at which program points each slot holds bytes that somebody still reads.

Declared plans give them; for programs they come from a backward liveness over the structured steps, one bit a
reference. A write ends a lifetime only through the same reference and only when it covers what later readers see.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pypto_pro.memory.cross_core import CrossOrder
from pypto_pro.memory.design import (
    Branch,
    Cross,
    Design,
    Leave,
    Loop,
    Node,
    Program,
    Resize,
    Step,
    TileRecord,
    Use,
    nodes_of,
    placed_steps,
    steps_of,
)

Key = tuple[str, int]
Ref = tuple[str, str, int, bool]
"""A tile, either ("slot", index) or ("ref", reference), and whether a write through it may end the life."""


@dataclass(frozen=True)
class Moment:
    """A program point as a reader sees it: source line (None in a plan), text, and the point itself."""

    point: int
    line: int | None
    label: str


@dataclass(frozen=True)
class Life:
    """Points at which the slot is in use, its first and last access, and a short name for the whole."""

    points: frozenset[int]
    first: Moment | None
    last: Moment | None
    kind: str
    is_read: bool = True

    @property
    def accessed(self) -> bool:
        """Whether anything touches the slot."""
        return self.first is not None

    def meets(self, other: Life) -> bool:
        """Whether both slots are in use at some point."""
        return not self.points.isdisjoint(other.points)


def find_lifetimes(design: Design, storage: Mapping[str, str] | None = None) -> dict[Key, Life]:
    """The life of every slot of every tile.

    `storage` maps the names of views to the tile whose bytes they are: their liveness is computed together, so that a
    value written through one name and read through another lives in between under both.
    """
    if not design.programs:
        return _declared(design)
    storage = storage or {}
    live: dict[Key, set[int]] = defaultdict(set)
    handed = _handed_over(design)
    touched: dict[Key, list[tuple[Step, str, bool]]] = defaultdict(list)
    tiles = {t.name: t for t in design.tiles}
    for program in design.programs:
        for tile in _never_back(design, program, handed):
            for slot in range(tile.slots):
                live[tile.name, slot] |= {s.point for s in program.steps()}
        flow = _Liveness(storage, handed)
        flow.block(program.body, frozenset())
        _spread(program, flow, tiles, storage, live)
        for step, loop in placed_steps(program.body):
            for use in step.uses:
                for slot in use.slots(tiles[use.tile]):
                    touched[use.tile, slot].append((step, loop.label if loop else "", use.reads))
    every = frozenset(s.point for p in design.programs for s in p.steps())
    found = [n for p in design.programs for n in nodes_of(p.body) if isinstance(n, Loop)]
    loops = [(loop, frozenset(s.point for s in steps_of(loop.body))) for loop in found]
    return {
        (t.name, slot): _life(t, slot, frozenset(live[t.name, slot]), touched[t.name, slot], every, loops)
        for t in design.tiles
        for slot in range(t.slots)
    }


def _handed_over(design: Design) -> dict[int, list[tuple[TileRecord, bool]]]:
    """For every cross-core wait (by identity): tiles of both cores it hands over, and whether the other core wrote."""
    shared = {t.name: t for t in design.tiles if len(t.cores) > 1}
    found: dict[int, dict[str, bool]] = {}
    for wait, step in CrossOrder(design.programs).arrivals() if shared else ():
        for use in step.uses:
            if use.tile in shared:
                tiles = found.setdefault(id(wait), {})
                tiles[use.tile] = tiles.get(use.tile, False) or use.writes
    return {wait: [(shared[name], written) for name, written in tiles.items()] for wait, tiles in found.items()}


def _never_back(
    design: Design, program: Program, handed: Mapping[int, list[tuple[TileRecord, bool]]]
) -> Iterator[TileRecord]:
    """Tiles this core fills for the other one and no wait is known to give back: nobody knows when they are free."""
    waits = [id(n) for n in nodes_of(program.body) if isinstance(n, Cross) and not n.sets]
    returned = {tile.name for wait in waits for tile, written in handed.get(wait, ()) if not written}
    filled = {u.tile for s in program.steps() for u in s.uses if u.writes}
    for tile in design.tiles:
        if len(tile.cores) > 1 and tile.name in filled and tile.name not in returned:
            yield tile


def _declared(design: Design) -> dict[Key, Life]:
    """Lives of a plan: the steps it states; a tile without them is in use all the time."""
    stated = [t.declared for t in design.tiles if t.declared is not None]
    every = frozenset(p for d in stated for p in range(d.first, d.last + 1)) or frozenset({0})
    lives: dict[Key, Life] = {}
    for tile in design.tiles:
        if tile.declared is None:
            life = Life(every, None, None, "whole kernel")
        else:
            first, last = tile.declared.first, tile.declared.last
            points = frozenset(range(first, last + 1))
            steps = f"step {first}" if first == last else f"steps {first} to {last}"
            kind = "whole kernel" if points == every else steps
            life = Life(points, Moment(first, None, f"step {first}"), Moment(last, None, f"step {last}"), kind)
        for slot in range(max(tile.slots, 0)):
            lives[tile.name, slot] = life
    return lives


# --- liveness over one program ---------------------------------------------------------------------------------------


def _ref(use: Use | Resize, storage: Mapping[str, str]) -> Ref:
    name = storage.get(use.tile, use.tile)
    return (name, "ref", use.ref, True) if use.slot is None else (name, "slot", use.slot, True)


@dataclass
class _Liveness:
    """Backward analysis; `at[point]` collects the references that hold a value just before or after the step.

    What lives across the back edge of a loop is taken to live throughout it.
    """

    storage: Mapping[str, str]
    handed: Mapping[int, list[tuple[TileRecord, bool]]]
    at: dict[int, set[Ref]] = field(default_factory=lambda: defaultdict(set))
    after_loop: list[frozenset[Ref]] = field(default_factory=list)
    loop_head: list[frozenset[Ref]] = field(default_factory=list)

    def block(self, body: tuple[Node, ...], live: frozenset[Ref]) -> frozenset[Ref]:
        """Live references before a block, given those after it."""
        for node in reversed(body):
            live = self.node(node, live)
        return live

    def node(self, node: Node, live: frozenset[Ref]) -> frozenset[Ref]:
        match node:
            case Step():
                return self.step(node, live)
            case Branch(arms=arms):
                return frozenset().union(*(self.block(arm, live) for arm in arms))
            case Loop():
                return self.loop(node, live)
            case Resize():  # what is read behind it was not all written before it
                ref = _ref(node, self.storage)
                return live - {ref} | {(*ref[:3], False)} if ref in live else live
            case Cross():
                return self.handover(node, live)
            case Leave(how="break"):
                return self.after_loop[-1]
            case Leave(how="continue"):
                return self.loop_head[-1]
            case Leave():
                return frozenset()
        return live

    def step(self, step: Step, live: frozenset[Ref]) -> frozenset[Ref]:
        before = set(live)
        for use in step.uses:
            if use.writes and use.covers and (use.fresh or not use.reads):
                before.discard(_ref(use, self.storage))
        for use in step.uses:
            if use.reads and not use.fresh:
                before.add(_ref(use, self.storage))
        self.at[step.point] |= live | before
        return frozenset(before)

    def handover(self, wait: Cross, live: frozenset[Ref]) -> frozenset[Ref]:
        """A wait for the other core: what it wrote begins to live here, what it read had to live until here."""
        for tile, written in self.handed.get(id(wait), ()):
            name = self.storage.get(tile.name, tile.name)
            if written:
                live = frozenset(r for r in live if r[0] != name)
            else:
                live |= {(name, "slot", i, True) for i in range(tile.slots)}
        return live

    def loop(self, loop: Loop, live: frozenset[Ref]) -> frozenset[Ref]:
        head: frozenset[Ref] = live
        while True:  # the set at the head only grows, so this ends
            self.after_loop.append(live)
            self.loop_head.append(head)
            grown = head | self.block(loop.body, head)
            self.after_loop.pop()
            self.loop_head.pop()
            if grown == head:
                for step in steps_of(loop.body):  # live across the back edge is live throughout the loop
                    self.at[step.point] |= head
                return head
            head = grown


def _spread(
    program: Program, flow: _Liveness, tiles: Mapping[str, TileRecord], storage: Mapping[str, str],
    live: dict[Key, set[int]],
) -> None:  # fmt: skip
    """From references to slots: a rotating reference stands for each slot; slots in flight fill their loop."""
    named: dict[Ref, set[int]] = defaultdict(set)
    for point, refs in flow.at.items():
        for ref in refs:
            named[(*ref[:3], True)].add(point)
    for step, loop in placed_steps(program.body):
        around = frozenset(s.point for s in steps_of(loop.body)) if loop else frozenset()
        for use in step.uses:
            slots = use.slots(tiles[use.tile])
            points = named[_ref(use, storage)] | {step.point}
            if use.slot is None and len(slots) > 1:
                points = points | around
            for slot in slots:
                live[use.tile, slot] |= points


def _life(
    tile: TileRecord, slot: int, points: frozenset[int], accesses: list[tuple[Step, str, bool]],
    every: frozenset[int], loops: list[tuple[Loop, frozenset[int]]],
) -> Life:  # fmt: skip
    """Name a life the way a reader would: whole kernel, a loop, turns of a loop, or from line to line."""
    if not accesses:
        return Life(frozenset(), None, None, "never used", is_read=False)
    ordered = sorted(accesses, key=lambda a: a[0].point)
    (first, first_loop, _), (last, last_loop, _) = ordered[0], ordered[-1]
    kind = f"l.{first.line}" if first.line == last.line else f"l.{first.line} to l.{last.line}"
    if points == every:
        kind = "whole kernel"
    else:
        exact = [loop for loop, inside in loops if inside == points]
        if exact:
            label = exact[0].label
            kind = f"whole loop {label}"
            if tile.slots > 1 and all(loop == label for _, loop, _ in ordered):
                kind = f"loop {label}, turns {tile.slots}k" + (f"+{slot}" if slot else "")
    return Life(points, _moment(first, first_loop), _moment(last, last_loop), kind, any(r for _, _, r in accesses))


def _moment(step: Step, loop: str) -> Moment:
    where = f"l.{step.line}" if step.line is not None else f"step {step.point}"
    return Moment(step.point, step.line, f"{where} (loop {loop})" if loop else where)
