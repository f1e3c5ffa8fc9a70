"""Placement of L1 blocks some of which shall not meet in a bank: fewest broken wishes, then the lowest end.

As in `search`, blocks are placed in ascending order of address; a block may also start in the upper half, and one whose
wish can be kept further up is tried there too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pypto_pro.hw.a5 import L1_BANK_GROUPS, L1_HALF, L1_ROW_BYTES, l1_banks
from pypto_pro.memory.search import Addresses, Found, Space, end_of

ALL_GROUPS_BYTES = L1_BANK_GROUPS * L1_ROW_BYTES
EXACT_BLOCKS = 12

Wish = tuple[tuple[int, int, int], tuple[int, int, int]]
"""Two slots that want different banks: (block, offset in it, size)."""
Score = tuple[int, int, Addresses]


class Apart:
    """The separation wishes of one space."""

    def __init__(self, wishes: Sequence[Wish]) -> None:
        self.wishes = wishes
        self.of: dict[int, list[Wish]] = {}
        for wish in wishes:
            for block in {wish[0][0], wish[1][0]}:
                self.of.setdefault(block, []).append(wish)

    def broken(self, wish: Wish, placed: Mapping[int, int]) -> bool:
        """Whether both slots are placed and touch a common bank."""
        (i, i_offset, i_size), (j, j_offset, j_size) = wish
        if i not in placed or j not in placed:
            return False
        return not l1_banks(placed[i] + i_offset, i_size).isdisjoint(l1_banks(placed[j] + j_offset, j_size))

    def violations(self, placed: Mapping[int, int]) -> int:
        """Number of broken wishes."""
        return sum(self.broken(w, placed) for w in self.wishes)

    def broken_by(self, i: int, at: int, placed: Mapping[int, int]) -> int:
        """Wishes that break when block `i` is placed at `at`."""
        tried = {**placed, i: at}
        return sum(self.broken(w, tried) for w in self.of.get(i, ()))


def choices(space: Space, apart: Apart, i: int, placed: dict[int, int]) -> list[int]:
    """Addresses worth trying: the lowest, the lowest that breaks no wish, the lowest of the upper half."""
    low = space.lowest(i, placed)
    found = {low}
    if i in apart.of:
        upper = space.lowest(i, placed, L1_HALF)
        found.add(upper)
        at = low
        while apart.broken_by(i, at, placed):
            if at - low >= ALL_GROUPS_BYTES:  # every bank group of this half was tried
                if at >= L1_HALF:
                    break
                at = low = upper
            else:
                at = space.lowest(i, placed, at + 1)
        else:
            found.add(at)
    return sorted(found)


class _Descent:
    """Exhaustive search for the best (violations, highest end, address vector)."""

    def __init__(self, space: Space, apart: Apart, nodes: int) -> None:
        self.space, self.apart, self.left = space, apart, nodes
        self.best: Score | None = None

    def visit(self, placed: dict[int, int], open_: list[int], floor: int, last: int, broken: int) -> None:
        self.left -= 1
        if self.left <= 0:
            return
        if not open_:
            addresses = [placed[i] for i in range(self.space.n)]
            score = (broken, end_of(self.space, addresses), addresses)
            if self.best is None or score < self.best:
                self.best = score
            return
        low = {i: max(self.space.lowest(i, placed), floor) for i in open_}
        if self.best is not None and self.bound(placed, low, broken) >= self.best:
            return
        options = [(at, i) for i in open_ for at in choices(self.space, self.apart, i, placed)]
        for at, i in sorted(options):
            if at < floor or (at == floor and i < last):
                continue
            rest = [j for j in open_ if j != i]
            self.visit({**placed, i: at}, rest, at, i, broken + self.apart.broken_by(i, at, placed))

    def bound(self, placed: dict[int, int], low: dict[int, int], broken: int) -> Score:
        vector = [placed.get(i, low.get(i, 0)) for i in range(self.space.n)]
        return broken, max(self.space.bound(), end_of(self.space, vector)), vector


def separated(space: Space, apart: Apart, nodes: int) -> Found:
    """The best placement under separation wishes; exact when the node limit suffices."""
    descent = _Descent(space, apart, nodes)
    start = _greedy(space, apart)
    descent.best = (apart.violations(dict(enumerate(start))), end_of(space, start), start)
    if space.n <= EXACT_BLOCKS:
        pins = space.pins()
        descent.visit(pins, list(space.free), 0, -1, apart.violations(pins))
    broken, highest, addresses = descent.best
    proved = (space.n <= EXACT_BLOCKS and descent.left > 0) or (broken == 0 and highest <= space.bound())
    return Found(tuple(addresses), highest, proved, nodes - max(descent.left, 0))


def _greedy(space: Space, apart: Apart) -> Addresses:
    """Larger blocks first, each where it breaks the fewest wishes."""
    placed = space.pins()
    for i in sorted(space.free, key=lambda i: (-space.blocks[i].length, i)):
        options = choices(space, apart, i, placed)
        placed[i] = min(options, key=lambda at: (apart.broken_by(i, at, placed), at))
    return [placed[i] for i in range(space.n)]
