"""Accesses to L1 that may run at the same time: what no order of the programs separates in a loop.

Loads of the next trip beside the moves of this one, mostly; what runs once is not worth a conflict. The two vector
cores run one program side by side: each of its accesses meets every one of the other core. Limit: what the vector cores
tell each other orders nothing here.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement

from pypto_pro.enums import CoreKind, MemorySpace
from pypto_pro.memory.cross_core import CrossOrder
from pypto_pro.memory.design import Design, Parallel, TileRecord, placed_steps, slot_name
from pypto_pro.memory.order import By, Order, Touch, find_order


def find_parallel(design: Design) -> tuple[Parallel, ...]:
    """Every pair of accesses to different L1 slots that nothing orders, each once."""
    mats = {t.name for t in design.tiles if t.space is MemorySpace.Mat}
    if not mats or not design.programs:
        return ()
    tiles = {t.name: t for t in design.tiles}
    orders = {p.core: find_order(p, tiles, mats) for p in design.programs}
    loop_of = {step.point: id(loop) if loop else 0 for p in design.programs for step, loop in placed_steps(p.body)}
    found: dict[Parallel, None] = {}
    for order in orders.values():
        for x, y in order.unordered(By.BARRIER):
            if x.pipe is not y.pipe and loop_of[x.step.point] == loop_of[y.step.point] != 0:
                found |= dict.fromkeys(_pairs(x, y, tiles))
    for x, y in _between(design, orders):
        if loop_of[x.step.point] and loop_of[y.step.point]:
            found |= dict.fromkeys(_pairs(x, y, tiles))
    ours = orders[CoreKind.VECTOR].touches if CoreKind.VECTOR in orders else ()
    for x, y in combinations_with_replacement([t for t in ours if loop_of[t.step.point]], 2):
        found |= dict.fromkeys(_pairs(x, y, tiles, cores=(" of AIV0", " of AIV1")))
    return tuple(found)


def _between(design: Design, orders: dict[CoreKind, Order]) -> Iterator[tuple[Touch, Touch]]:
    """Accesses of the two core kinds that no cross-core chain separates."""
    if len(orders) < 2:
        return
    cross = CrossOrder(design.programs)
    for x in orders[CoreKind.VECTOR].touches:
        for y in orders[CoreKind.CUBE].touches:
            if cross.chain(x, y) is None and cross.chain(y, x) is None:
                yield x, y


def _pairs(
    x: Touch, y: Touch, tiles: dict[str, TileRecord], cores: tuple[str, str] | None = None
) -> Iterator[Parallel]:
    """The slot pairs of two accesses that share no mutex; the smaller name first, so that each pair shows once.

    `cores`: the accesses are on two cores, which share no mutex, and may be to one slot.
    """
    a, b = tiles[x.use.tile], tiles[y.use.tile]
    on_x, on_y = cores or ("", "")
    for i in x.use.slots(a):
        for j in y.use.slots(b):
            held = (a.ids(i) if x.use.locked else frozenset()) & (b.ids(j) if y.use.locked else frozenset())
            if cores is None and (held or (a is b and i == j)):
                continue
            first = slot_name(a, i), _op(x), f"{x.step.op} on {x.pipe.name}{on_x}", x.use.spans
            second = slot_name(b, j), _op(y), f"{y.step.op} on {y.pipe.name}{on_y}", y.use.spans
            first, second = min(first, second), max(first, second)
            yield Parallel(
                first[0], first[1], second[0], second[1], first[2], second[2], derived=True, a_spans=first[3],
                b_spans=second[3],
            )  # fmt: skip


def _op(touch: Touch) -> str:
    return "write" if touch.use.writes else "read"
