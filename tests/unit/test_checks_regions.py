"""Byte regions, the region map and happens-before, against slow and obvious versions of themselves."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from pypto_pro.analysis.footprints import covers, end_of, meets, plain, shared, size_of, union, without
from pypto_pro.analysis.order import LANES, Order
from pypto_pro.analysis.region_map import Cell, RegionMap
from pypto_pro.layouts import Region

PITCHES = (1, 2, 4, 7, 8, 12, 16)
S, V, MTE2, MTE3 = 5, 4, 1, 2


def region_strategy() -> st.SearchStrategy[Region]:
    return st.builds(
        Region, st.integers(0, 40), st.integers(1, 5), st.integers(1, 9), st.sampled_from(PITCHES)
    )


def places(region: Region) -> set[int]:
    return {
        region.start + k * region.pitch + j for k in range(region.rows) for j in range(region.row_bytes)
    }


@given(region_strategy())
def test_plain_keeps_the_bytes(region: Region) -> None:
    made = plain(region)
    assert places(made) == places(region)
    assert size_of(made) == len(places(region))
    assert end_of(made) == max(places(region)) + 1


@settings(max_examples=600)
@given(region_strategy(), region_strategy())
def test_two_regions(one: Region, two: Region) -> None:
    a, b = plain(one), plain(two)
    common = places(a) & places(b)
    assert meets(a, b) == bool(common)
    assert {p for low, high in shared(a, b) for p in range(low, high)} == common
    if covers(a, b):
        assert places(b) <= places(a)


RANGES = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 6)))


@given(RANGES, RANGES)
def test_range_arithmetic(one: list[tuple[int, int]], two: list[tuple[int, int]]) -> None:
    a, b = [(s, s + n) for s, n in one], [(s, s + n) for s, n in two]

    def flat(ranges: list[tuple[int, int]]) -> set[int]:
        return {p for low, high in ranges for p in range(low, high)}

    assert flat(union(a)) == flat(a)
    assert flat(without(a, b)) == flat(a) - flat(b)
    assert all(x[1] < y[0] for x, y in zip(union(a), union(a)[1:], strict=False))


@settings(max_examples=300)
@given(st.lists(region_strategy(), min_size=1, max_size=14), st.integers(-5, 5))
def test_the_map_links_exactly_what_meets(regions: list[Region], origin: int) -> None:
    map_ = RegionMap(origin=origin)
    cells = [map_.cell(region) for region in regions]
    assert all(map_.cell(region) is cell for region, cell in zip(regions, cells, strict=True))
    for cell in set(cells):
        near = {other for other, _ in cell.near}
        assert near == {o for o in set(cells) if o is not cell and places(o.region) & places(cell.region)}
        for other, inside in cell.near:
            assert not inside or places(cell.region) <= places(other.region)


def test_neighbours_are_looked_at_while_they_hold_something() -> None:
    map_ = RegionMap()
    whole, part = map_.cell(Region(0, 1, 64, 64)), map_.cell(Region(16, 1, 16, 16))
    assert not whole.live
    part.writer = object()
    part.appear()
    assert whole.live == {part: True}
    part.forget()
    assert not whole.live
    assert part.is_empty
    late: Cell = map_.cell(Region(20, 1, 4, 4))
    assert {cell for cell, _ in late.near} == {whole, part}


# --- happens-before ---------------------------------------------------------------------------------------------------


def test_a_flag_carries_what_its_pipe_knows() -> None:
    order = Order(1, S)
    load, add, store = order.pipes[MTE2], order.pipes[V], order.pipes[MTE3]
    release = load.release(2)
    assert add.of(MTE2) == 0
    add.acquire(release)
    assert (add.of(MTE2), add.of(V)) == (2, 0)
    store.acquire(add.release(5))
    assert (store.of(MTE2), store.of(V), store.of(MTE3)) == (2, 5, 0)
    add.acquire(load.release(1))
    assert add.of(MTE2) == 2


def test_an_instruction_knows_what_the_scalar_unit_knew_at_issue() -> None:
    order = Order(1, S)
    scalar, add = order.pipes[S], order.pipes[V]
    scalar.acquire(order.pipes[MTE2].release(3))
    order.scalar_acted(0, 4)
    add.catch_up(4)
    assert add.of(MTE2) == 0
    add.catch_up(5)
    assert add.of(MTE2) == 3
    assert add.of(S) == 4


def test_a_barrier_of_the_core() -> None:
    order = Order(1, S)
    order.drained(0, 9)
    for pipe in order.core(0):
        if pipe.lane != S:
            pipe.catch_up(10)
        assert [pipe.of(agent) for agent in range(LANES)] == [9] * LANES


def test_signals_between_cores_come_back() -> None:
    order = Order(3, S)
    there, here = order.pipes[LANES + V], order.pipes[MTE3]
    there.acquire(here.release(4))
    assert there.of(MTE3) == 4
    other = order.pipes[MTE2]
    other.acquire(there.release(6))
    assert other.of(LANES + V) == 6
    assert other.of(MTE3) == 4  # the way round counts inside the first core, too


def test_a_meeting_tells_everybody_everything() -> None:
    order = Order(2, S)
    order.drained(0, 5)
    order.drained(1, 6)
    order.met([(0, 5), (1, 6)])
    late = order.pipes[V]
    late.catch_up(7)
    assert late.of(LANES + MTE3) == 6
    assert late.of(MTE2) == 5


def test_one_fact_is_one_fact() -> None:
    order = Order(2, S)
    pipe = order.pipes[V]
    pipe.learn(LANES + MTE2, 8)
    pipe.learn(MTE2, 3)
    assert (pipe.of(LANES + MTE2), pipe.of(MTE2), pipe.of(LANES + MTE3), pipe.of(MTE3)) == (8, 3, 0, 0)


def test_long_logs_are_trimmed() -> None:
    order = Order(1, S, lambda core, lane: lane != V)
    log = order.logs[0]
    for number in range(1, 2 * log.LONG + 2):
        order.scalar_acted(0, number)
        order.pipes[V].catch_up(number - 10)  # V is ten behind
    assert len(log.entries) < log.LONG + 1
    for pipe in order.core(0):
        pipe.catch_up(number + 1)
        assert pipe.of(S) == number
