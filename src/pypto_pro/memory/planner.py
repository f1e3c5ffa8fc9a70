"""Chooses addresses: slots become blocks, each space is searched, scales follow their data, the validator has the last
word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from pypto_pro.enums import MemorySpace
from pypto_pro.hw.a5 import scale_address
from pypto_pro.memory import cpsat
from pypto_pro.memory.capacity import merge
from pypto_pro.memory.design import tile_name
from pypto_pro.memory.machine import SPACE_ORDER
from pypto_pro.memory.problem import Placement, Problem, SlotSpec, SpacePlan
from pypto_pro.memory.search import Block, Found, Space, align_up, first_fit, first_vector, lowest_end
from pypto_pro.memory.separation import Apart, Wish, separated
from pypto_pro.memory.validator import validate

Solver = Literal["auto", "search", "cp-sat"]
EXACT_BLOCKS = 12
EXACT_NODES = 200_000
BOUNDED_NODES = 6_000
SCALE_RATIO = 16  # a scale address is its data address >> 4


@dataclass(frozen=True)
class Member:
    """A slot inside a block."""

    spec: SlotSpec
    offset: int


@dataclass(frozen=True)
class Item:
    """What moves as one piece: a tile, a group at a fixed step, or either with the views that lie in it."""

    members: tuple[Member, ...]

    @property
    def length(self) -> int:
        """Bytes from the start to the furthest end."""
        return max(m.offset + m.spec.size for m in self.members)

    @property
    def uniform(self) -> bool:
        """Whether all of it is in use at the same time by the same cores, so that it is as good as one tile."""
        return len({(m.spec.live, m.spec.cores, m.spec.when) for m in self.members}) == 1

    def live_bytes(self, point: int) -> int:
        """Bytes of it in use at a point; the padding between slots of a group belongs to it."""
        live = [m for m in self.members if point in m.spec.live]
        if self.uniform:
            return self.length if live else 0
        return sum(b - a for a, b in merge([(m.offset, m.offset + m.spec.size) for m in live]))


def plan_layout(problem: Problem, solver: Solver = "auto") -> Placement:
    """The best placement found. Raises RuntimeError if the validator rejects it, which is a mistake of ours.

    `solver`: the built-in `search`, `cp-sat` (SolverMissingError without OR-tools), or `auto`: the search, and CP-SAT
    where it is installed and the search leaves a gap. A placement may exceed the capacity: see `plan_findings`.
    """
    addresses: dict[str, int] = {}
    spaces: list[SpacePlan] = []
    steps = 0
    for space in SPACE_ORDER:
        items = _items(problem, space, addresses)
        if items:
            found, plan = _solve(problem, space, items, solver)
            steps += found.nodes
            spaces.append(plan)
            for item, at in zip(items, found.addresses, strict=True):
                addresses |= {m.spec.name: at + m.offset for m in item.members}
    placement = Placement(addresses, tuple(spaces), steps)
    wrong = validate(problem, placement)
    if wrong:
        raise RuntimeError(f"the planner broke its own promise: {wrong[0].message}")
    return placement


def first_fit_layout(problem: Problem) -> Mapping[MemorySpace, int]:
    """Highest end of each space when every block takes its lowest address in declaration order."""
    ends = {}
    addresses: dict[str, int] = {}
    for space in SPACE_ORDER:
        items = _items(problem, space, addresses)
        if items:
            blocks = _space(problem, items)
            placed = first_fit(blocks, blocks.free)
            ends[space] = max(a + b.length for a, b in zip(placed, blocks.blocks, strict=True))
            for item, at in zip(items, placed, strict=True):
                addresses |= {m.spec.name: at + m.offset for m in item.members}
    return ends


# --- blocks ----------------------------------------------------------------------------------------------------------


def _items(problem: Problem, space: MemorySpace, placed: Mapping[str, int]) -> list[Item]:
    """The blocks of a space in declaration order. Scale slots stand where their data, placed before, puts them."""
    follows = {scale: scale_address(placed[data]) for data, scale in problem.scales if data in placed}
    mine = [replace(s, pinned=follows.get(s.name, s.pinned)) for s in problem.slots if s.space is space]
    base: dict[str, tuple[str, int]] = {}  # slot -> (slot of the block's start, offset)
    rigid = {s.tile: _step(problem, s) for s in mine if s.tile in problem.rigid and s.name not in follows}
    for s in mine:
        base[s.name] = (f"{s.tile}#0", s.slot * rigid[s.tile]) if s.tile in rigid else (s.name, 0)
    for view in problem.views:
        if view.writer in base and view.reader in base:
            _hang(base, view.writer, view.reader, view.offset)
    blocks: dict[str, list[Member]] = {}
    for s in mine:
        root, offset = base[s.name]
        blocks.setdefault(root, []).append(Member(s, offset))
    return [_normal(members) for members in blocks.values()]


def _hang(base: dict[str, tuple[str, int]], writer: str, reader: str, offset: int) -> None:
    """Put the block of `reader` into the block of `writer`, unless it is there already."""
    (root, at), (old, inside) = base[writer], base[reader]
    if root == old:
        return
    shift = at + offset - inside
    for name, (name_root, name_at) in list(base.items()):
        if name_root == old:
            base[name] = (root, name_at + shift)


def _normal(members: list[Member]) -> Item:
    lowest = min(m.offset for m in members)
    return Item(tuple(Member(m.spec, m.offset - lowest) for m in members))


def _step(problem: Problem, slot: SlotSpec) -> int:
    """Distance of the slots of a rigid group; scale slots that are larger than data >> 4 push them apart."""
    step = align_up(slot.size, slot.alignment)
    sizes = {s.name: s.size for s in problem.slots}
    for data, scale in problem.scales:
        if tile_name(data) == slot.tile:
            step = max(step, align_up(sizes[scale] * SCALE_RATIO, slot.alignment))
    return step


def _space(problem: Problem, items: list[Item]) -> Space:
    points = sorted({p for i in items for m in i.members for p in m.spec.live})
    bit = {p: 1 << n for n, p in enumerate(points)}
    disjoint = [[i is not j and _keep_apart(problem, i, j) for j in items] for i in items]
    blocks = [_block(problem, item, bit) for item in items]
    for i, block in enumerate(blocks):
        if _shares_nothing(disjoint, i):  # as good as in use all the time, which makes the bounds tighter
            blocks[i] = replace(block, live=sum(bit.values()))
    return Space(blocks, disjoint)


def _shares_nothing(disjoint: list[list[bool]], i: int) -> bool:
    return all(apart for j, apart in enumerate(disjoint[i]) if j != i)


def _block(problem: Problem, item: Item, bit: Mapping[int, int]) -> Block:
    live = 0
    for member in item.members:
        for point in member.spec.live:
            live |= bit[point]
    if not problem.reuse:
        live = sum(bit.values())
    pins = {m.spec.pinned - m.offset for m in item.members if m.spec.pinned is not None}
    scales = dict(problem.scales)
    sizes = {s.name: s.size for s in problem.slots}
    spread = max((m.offset + sizes[scales[m.spec.name]] * SCALE_RATIO for m in item.members if m.spec.name in scales),
                 default=0)  # fmt: skip
    alignment = max(m.spec.alignment for m in item.members)
    return Block(item.length, alignment, live, min(pins, default=None), spread)


def _keep_apart(problem: Problem, a: Item, b: Item) -> bool:
    """Whether two blocks may not share a byte."""
    return any(_rivals(problem, x.spec, y.spec) for x in a.members for y in b.members)


def _rivals(problem: Problem, x: SlotSpec, y: SlotSpec) -> bool:
    choices = dict(x.when)
    if any(name in choices and choices[name] != value for name, value in y.when):
        return False
    if not problem.reuse or not x.live.isdisjoint(y.live):
        return True
    if frozenset({x.name, y.name}) in problem.unproved:
        return True
    return len(x.cores | y.cores) > 1 and frozenset({x.tile, y.tile}) not in problem.crossing


# --- one space -------------------------------------------------------------------------------------------------------


def _solve(problem: Problem, space: MemorySpace, items: list[Item], solver: Solver) -> tuple[Found, SpacePlan]:
    blocks = _space(problem, items)
    small = len(items) <= EXACT_BLOCKS
    nodes = EXACT_NODES if small else BOUNDED_NODES
    wishes = _wishes(problem, items)
    violated: list[tuple[str, str]] = []
    if wishes:
        apart = Apart([w for w, _ in wishes])
        found = separated(blocks, apart, nodes)
        placed = dict(enumerate(found.addresses))
        violated = [names for wish, names in wishes if apart.broken(wish, placed)]
    else:
        found = _improved(blocks, lowest_end(blocks, nodes), solver)
        found = first_vector(blocks, found, nodes if small else BOUNDED_NODES // 10)
    bound = _lower_bound(problem, items, blocks)
    # a view in a larger block may leave room inside it that blocks do not see: only the bound proves such an answer
    proved = found.optimal and (all(i.uniform for i in items) or found.highest <= bound)
    return found, SpacePlan(space, found.highest, bound, proved, tuple(violated))


def _lower_bound(problem: Problem, items: list[Item], blocks: Space) -> int:
    """The most bytes in use at one point: no layout ends lower."""
    if all(i.uniform for i in items) or not problem.reuse:
        return max((blocks.live_bytes(s) for s in blocks.sections), default=0)
    alone = [len(blocks.rivals[i]) == blocks.n - 1 for i in range(blocks.n)]
    always = sum(item.length for item, is_alone in zip(items, alone, strict=True) if is_alone)
    others = [item for item, is_alone in zip(items, alone, strict=True) if not is_alone]
    points = {p for i in others for m in i.members for p in m.spec.live}
    return always + max((sum(i.live_bytes(p) for i in others) for p in points), default=0)


def _improved(blocks: Space, found: Found, solver: Solver) -> Found:
    """The answer of CP-SAT, where it is wanted."""
    if solver == "search" or (solver == "auto" and found.optimal):
        return found
    try:
        return cpsat.solve(blocks, found.addresses)
    except cpsat.SolverMissingError:
        if solver == "cp-sat":
            raise
        return found


def _wishes(problem: Problem, items: list[Item]) -> list[tuple[Wish, tuple[str, str]]]:
    if items[0].members[0].spec.space is not MemorySpace.Mat:
        return []
    where = {m.spec.name: (i, m.offset, m.spec.size) for i, item in enumerate(items) for m in item.members}
    return [((where[a], where[b]), (a, b)) for a, b in problem.separate if a in where and b in where]
