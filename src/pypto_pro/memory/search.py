"""Exact and bounded search for addresses in one space (dynamic storage allocation with fixed lifetimes).

The search follows MiniMalloc (M. D. Moffitt, "MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated
Machine Learning", ASPLOS 2023): blocks are placed in ascending order of address, each as low as it goes, a block that
another would fit beneath is not tried, and a branch is cut when some point in time cannot hold what is still to come.
Any solution can be pushed down into this form block by block, so the best one is among them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Addresses = list[int]
REPAIR_ROUNDS = 60


@dataclass(frozen=True)
class Block:
    """Bytes to place as one piece: length, alignment, live points (bit mask), address if it must not move.

    `spread` is the distance to the next block above that also needs it: more than `length` when what hangs on the
    block (its scales, 16 times smaller) needs more room than the block itself.
    """

    length: int
    alignment: int
    live: int
    pinned: int | None = None
    spread: int = 0


@dataclass(frozen=True)
class Found:
    """Addresses in block order, the highest end, whether it is proved best, and the nodes looked at."""

    addresses: tuple[int, ...]
    highest: int
    optimal: bool
    nodes: int


def align_up(n: int, alignment: int) -> int:
    """The next multiple."""
    return -(-n // alignment) * alignment


class Space:
    """The blocks of one space with the pairs that must be disjoint."""

    def __init__(self, blocks: Sequence[Block], disjoint: Sequence[Sequence[bool]]) -> None:
        self.blocks = blocks
        self.n = len(blocks)
        self.rivals = [[j for j in range(self.n) if j != i and disjoint[i][j]] for i in range(self.n)]
        self.fixed = [i for i, b in enumerate(blocks) if b.pinned is not None]
        self.free = [i for i, b in enumerate(blocks) if b.pinned is None]
        self.sections = _sections(blocks, disjoint)
        self.gaps = [[self.gap(i, j) for j in range(self.n)] for i in range(self.n)]
        self.times = [[s for s, members in enumerate(self.sections) if i in members] for i in range(self.n)]

    def gap(self, below: int, above: int) -> int:
        """Distance `above` has to keep from the start of `below`."""
        lower = self.blocks[below]
        return max(lower.length, lower.spread) if self.blocks[above].spread else lower.length

    def lowest(self, i: int, placed: dict[int, int], start: int = 0) -> int:
        """Lowest aligned address >= `start` at which block `i` meets none of its placed rivals."""
        alignment, mine = self.blocks[i].alignment, self.gaps[i]
        at = align_up(start, alignment)
        taken = [(placed[j], j) for j in self.rivals[i] if j in placed]
        taken.sort()
        for address, j in taken:
            if at + mine[j] > address:
                end = address + self.gaps[j][i]
                if at < end:
                    at = align_up(end, alignment)
        return at

    def end(self, placed: dict[int, int]) -> int:
        """Highest end of what is placed."""
        return max((a + self.blocks[i].length for i, a in placed.items()), default=0)

    def pins(self) -> dict[int, int]:
        """The placement that holds only the pinned blocks."""
        return {i: p for i in self.fixed if (p := self.blocks[i].pinned) is not None}

    def bound(self) -> int:
        """No placement ends lower: live bytes with their padding, except that the topmost block needs none."""
        best = max((self.blocks[i].length + (self.blocks[i].pinned or 0) for i in self.fixed), default=0)
        for members in self.sections:
            movable = [b for i in members if (b := self.blocks[i]).pinned is None]
            spare = [align_up(b.length, b.alignment) - b.length for b in movable]
            best = max(best, self.live_bytes(members) + sum(spare) - max(spare, default=0))
        return best

    def live_bytes(self, members: Sequence[int]) -> int:
        """Bytes of some blocks together."""
        return sum(self.blocks[i].length for i in members)


def _sections(blocks: Sequence[Block], disjoint: Sequence[Sequence[bool]]) -> list[list[int]]:
    """Sets of pairwise disjoint blocks in use together at some point; only those that no other set contains."""
    points = max((b.live.bit_length() for b in blocks), default=0)
    found: dict[int, None] = {}
    for point in range(points):
        clique: list[int] = []
        for i in sorted((i for i, b in enumerate(blocks) if b.live >> point & 1), key=lambda i: -blocks[i].length):
            if all(disjoint[i][j] for j in clique):
                clique.append(i)
        found.setdefault(sum(1 << i for i in clique))
    masks = [m for m in found if m and not any(m != o and m & o == m for o in found)]
    return [[i for i in range(len(blocks)) if m >> i & 1] for m in masks]


# --- first-fit -------------------------------------------------------------------------------------------------------


def first_fit(space: Space, order: Sequence[int]) -> Addresses:
    """Every block at its lowest address, in the given order."""
    placed = space.pins()
    for i in order:
        if i not in placed:
            placed[i] = space.lowest(i, placed)
    return [placed[i] for i in range(space.n)]


def fit_orders(space: Space) -> list[list[int]]:
    """Orders worth trying: as declared, by size, by lifetime, by their product, by crowding."""
    blocks, free = space.blocks, space.free
    life = [b.live.bit_count() for b in blocks]
    crowd = [max((sum(blocks[j].length for j in space.sections[s]) for s in times), default=0) for times in space.times]
    keys: list[Callable[[int], tuple[int, ...]]] = [
        lambda i: (-blocks[i].length, -life[i]),
        lambda i: (-life[i], -blocks[i].length),
        lambda i: (-blocks[i].length * life[i],),
        lambda i: (-crowd[i], -blocks[i].length),
        lambda i: (-crowd[i], -life[i], -blocks[i].length),
    ]
    return [list(free), *(sorted(free, key=key) for key in keys)]


def repaired(space: Space, order: Sequence[int], rounds: int) -> Addresses:
    """First-fit whose topmost blocks come earlier in each round; the best placement met."""
    current = list(order)
    best = addresses = first_fit(space, current)
    bound = space.bound()
    for turn in range(rounds):
        highest = end_of(space, addresses)
        if highest <= bound:
            break
        top = [i for i in current if addresses[i] + space.blocks[i].length == highest]
        if not top:  # a pinned block is on top
            break
        for i in top:  # further to the front every time, so that no order is tried for ever
            at = current.index(i)
            current = [*current[:at], *current[at + 1 :]]
            current.insert(max(0, at // 2 - turn % 3), i)
        addresses = first_fit(space, current)
        best = min(best, addresses, key=lambda a: end_of(space, a))
    return best


def end_of(space: Space, addresses: Sequence[int]) -> int:
    """Highest end of a complete placement."""
    return max((a + b.length for a, b in zip(addresses, space.blocks, strict=True)), default=0)


# --- search ----------------------------------------------------------------------------------------------------------


class _Stop(Exception):
    """The node limit is reached, or the answer cannot get better."""


class _Descent:
    """Depth-first search over placements in ascending address order, all ends <= `limit`."""

    def __init__(self, space: Space, limit: int, nodes: int) -> None:
        self.space, self.limit, self.left = space, limit, nodes
        self.best: Addresses | None = None
        self.canonical = False
        self.rest = [sum(space.blocks[i].length for i in members if space.blocks[i].pinned is None)
                     for members in space.sections]  # fmt: skip
        self.height = [0] * len(space.sections)
        self.twin = _twins(space)

    def run(self) -> bool:
        """Search to the end; False when the node limit stopped it."""
        try:
            self.visit(self.space.pins(), list(self.space.free), 0, -1)
        except _Stop:
            return self.left > 0
        return True

    def visit(self, placed: dict[int, int], open_: list[int], floor: int, last: int) -> None:
        self.left -= 1
        if self.left <= 0:
            raise _Stop
        if not open_:
            self.accept(placed)
            return
        space = self.space
        low = {i: space.lowest(i, placed) for i in open_}
        if self.hopeless(low, placed, floor):
            return
        roof = min(low[i] + max(space.blocks[i].length, space.blocks[i].spread) for i in open_)
        for i in self.candidates(open_, low):
            at = low[i]
            # not ascending, beneath it something else would fit, or its equal has to come first
            if at < floor or (at == floor and i < last) or at >= roof or self.twin[i] in low:
                continue
            if at + space.blocks[i].length > self.limit:
                continue
            self.place(i, at, placed, [j for j in open_ if j != i])

    def place(self, i: int, at: int, placed: dict[int, int], rest: list[int]) -> None:
        length, times = self.space.blocks[i].length, self.space.times[i]
        before = [self.height[s] for s in times]
        for s in times:
            self.height[s] = max(self.height[s], at + length)
            self.rest[s] -= length
        if all(max(self.height[s], at) + self.rest[s] <= self.limit for s in times):
            placed[i] = at
            self.visit(placed, rest, at, i)
            del placed[i]
        for s, height in zip(times, before, strict=True):
            self.height[s] = height
            self.rest[s] += length

    def candidates(self, open_: list[int], low: dict[int, int]) -> list[int]:
        if self.canonical:
            return sorted(open_, key=lambda i: (low[i], i))
        blocks = self.space.blocks
        return sorted(open_, key=lambda i: (low[i], -blocks[i].live.bit_count() * blocks[i].length, i))

    def hopeless(self, low: dict[int, int], placed: dict[int, int], floor: int) -> bool:
        """Whether no completion fits, or (canonical) none beats the best address vector."""
        blocks = self.space.blocks
        if any(at + blocks[i].length > self.limit for i, at in low.items()):
            return True
        if self.canonical and self.best is not None:
            bound = [placed[i] if i in placed else max(low[i], floor) for i in range(self.space.n)]
            return bound >= self.best
        return False

    def accept(self, placed: dict[int, int]) -> None:
        found = [placed[i] for i in range(self.space.n)]
        if self.canonical:
            if self.best is None or found < self.best:
                self.best = found
            return
        self.best = found
        self.limit = end_of(self.space, found) - 1
        if self.limit < self.space.bound():
            raise _Stop


def _twins(space: Space) -> list[int]:
    """For each block the one before it that is equal in all respects (-1: none); such blocks keep their order."""
    twins = []
    for i, block in enumerate(space.blocks):
        same = [
            j for j in range(i)
            if space.blocks[j] == block and block.pinned is None and j in space.rivals[i]
            and [k for k in space.rivals[j] if k != i] == [k for k in space.rivals[i] if k != j]
        ]  # fmt: skip
        twins.append(same[-1] if same else -1)
    return twins


def lowest_end(space: Space, nodes: int) -> Found:
    """The placement with the lowest highest end that `nodes` search nodes find, proved best when they suffice."""
    orders = fit_orders(space)
    best = min((first_fit(space, order) for order in orders), key=lambda a: (end_of(space, a), a))
    bound, used = space.bound(), 0
    for order in orders:
        if end_of(space, best) > bound:
            best = min(best, repaired(space, order, REPAIR_ROUNDS), key=lambda a: end_of(space, a))
    if end_of(space, best) > bound:
        for limit, share in ((bound, nodes // 4), (end_of(space, best) - 1, nodes)):
            descent = _Descent(space, limit, share)
            finished = descent.run()
            used += share - max(descent.left, 0)
            if descent.best is not None:
                best = descent.best
            if end_of(space, best) <= bound or (finished and limit != bound):
                return Found(tuple(best), end_of(space, best), True, used)
        return Found(tuple(best), end_of(space, best), False, used)
    return Found(tuple(best), end_of(space, best), True, used)


def first_vector(space: Space, start: Found, nodes: int) -> Found:
    """Among placements no higher than `start`, the one whose address vector comes first, as far as `nodes` go."""
    descent = _Descent(space, start.highest, nodes)
    descent.canonical = True
    descent.best = list(start.addresses)
    descent.run()
    highest = end_of(space, descent.best)  # a start that was not the best may have been undercut on the way
    proved = start.optimal or highest <= space.bound()
    return Found(tuple(descent.best), highest, proved, start.nodes + nodes - max(descent.left, 0))
