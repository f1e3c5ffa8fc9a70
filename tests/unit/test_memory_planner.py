"""The planner against first-fit, brute force, CP-SAT and its validator; and the validator against broken answers."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pypto_pro.dtypes import DataType
from pypto_pro.enums import CoreKind, MemorySpace
from pypto_pro.ir.types import TileType
from pypto_pro.memory import cpsat, planner
from pypto_pro.memory.advice import advise
from pypto_pro.memory.design import Declared, Design, OrderFact, TileRecord
from pypto_pro.memory.machine import Chip
from pypto_pro.memory.planner import first_fit_layout, plan_layout
from pypto_pro.memory.problem import Placement, Problem, Wishes, problem_of
from pypto_pro.memory.search import Block, Space, end_of, first_fit, lowest_end
from pypto_pro.memory.validator import validate

MAT, VEC = MemorySpace.Mat, MemorySpace.Vec
CUBE = frozenset({CoreKind.CUBE})


def tile(name: str, rows: int, cols: int, live: tuple[int, int], **more: object) -> TileRecord:
    space = more.pop("space", VEC)
    return TileRecord(name, "tile", TileType([rows, cols], DataType.DT_FP32, space), declared=Declared(*live), **more)  # type: ignore[arg-type]


@st.composite
def designs(draw: st.DrawFn, most: int = 10) -> Design:
    """Tiles and groups of Vec with lifetimes; some pinned, some views, some shared by both cores."""
    records: list[TileRecord] = []
    views = []
    for i in range(draw(st.integers(1, most))):
        rows, cols = draw(st.sampled_from((1, 3, 8, 16, 20))), draw(st.sampled_from((8, 24, 32, 64)))
        first = draw(st.integers(0, 8))
        depth = draw(st.sampled_from((1, 1, 1, 2, 3)))
        both = draw(st.integers(0, 9)) == 0
        records.append(
            TileRecord(
                f"t{i}", "group" if depth > 1 else "tile", TileType([rows, cols], DataType.DT_FP16, VEC),
                depth=depth if depth > 1 else None, declared=Declared(first, first + draw(st.integers(0, 5))),
                cores=frozenset(CoreKind) if both else frozenset({CoreKind.VECTOR}),
                addrs=0x10000 + 0x2000 * i if draw(st.integers(0, 5)) == 0 and depth == 1 else None,
            )
        )  # fmt: skip
        if i and depth == 1 and draw(st.integers(0, 5)) == 0 and records[i].addrs is None:
            views.append((records[draw(st.integers(0, i - 1))].name, f"t{i}"))
    return Design(tuple(records), views=tuple(v for v in views if fits(records, v)))


def fits(records: list[TileRecord], view: tuple[str, str]) -> bool:
    by_name = {r.name: r for r in records}
    writer, reader = (by_name[n] for n in view)
    size = lambda r: r.type.rows * r.type.cols  # noqa: E731
    return writer.addrs is None and size(reader) <= size(writer)


@settings(max_examples=100, deadline=None)
@given(designs(), st.booleans(), st.booleans())
def test_every_plan_validates_and_is_never_worse_than_first_fit(design: Design, reuse: bool, scatter: bool) -> None:
    problem, _ = problem_of(design, Chip(), Wishes(reuse, scatter=scatter))
    with pytest.MonkeyPatch.context() as patch:  # the promises hold however early the search gives up
        patch.setattr(planner, "EXACT_NODES", 5_000)
        placement = plan_layout(problem, "search")
        again = plan_layout(problem, "search")
    assert validate(problem, placement) == []
    first = first_fit_layout(problem)
    for plan in placement.spaces:
        assert plan.lower_bound <= plan.highest <= first[plan.space]
    assert again.addresses == placement.addresses, "equal problems have equal answers"


@settings(max_examples=60, deadline=None)
@given(designs())
def test_without_reuse_and_pins_the_end_is_at_most_the_aligned_sum(design: Design) -> None:
    free = replace(design, tiles=tuple(replace(t, addrs=None) for t in design.tiles))
    problem, _ = problem_of(free, Chip(), Wishes(reuse=False))
    (plan,) = plan_layout(problem, "search").spaces
    assert plan.highest <= sum(-(-s.size // s.alignment) * s.alignment for s in problem.slots)


blocks = st.lists(
    st.builds(
        lambda units, odd, first, length: Block(32 * units - odd, 32, ((1 << length) - 1) << first),
        st.integers(1, 4), st.sampled_from((0, 0, 8)), st.integers(0, 5), st.integers(1, 4),
    ),
    min_size=1, max_size=5,
)  # fmt: skip


def space_of(found: list[Block]) -> Space:
    return Space(found, [[i != j and bool(a.live & b.live) for j, b in enumerate(found)] for i, a in enumerate(found)])


@settings(max_examples=80, deadline=None)
@given(blocks)
def test_small_spaces_against_all_addresses(found: list[Block]) -> None:
    space = space_of(found)
    result = lowest_end(space, 100_000)
    ceiling = result.highest
    best, best_vector = ceiling, list(result.addresses)
    choices = [range(0, ceiling - b.length + 1, 32) for b in found]
    for vector in itertools.product(*choices):
        clash = any(
            vector[i] < vector[j] + found[j].length and vector[j] < vector[i] + found[i].length
            for i in range(len(found)) for j in space.rivals[i] if i < j
        )  # fmt: skip
        if not clash and (end_of(space, vector), list(vector)) < (best, best_vector):
            best, best_vector = end_of(space, vector), list(vector)
    assert result.optimal
    assert result.highest == best


@settings(max_examples=40, deadline=None)
@given(designs(4))
def test_the_canonical_answer_is_the_first_address_vector(design: Design) -> None:
    """Lowering any one block of the answer breaks it: nothing sits higher than it must."""
    problem, _ = problem_of(design, Chip(), Wishes(scatter=True))
    placement = plan_layout(problem, "search")
    if problem.views:
        return  # room inside a block that a view has made is not looked for
    for slot in problem.slots:
        if slot.pinned is not None or any(slot.name in (v.reader, v.writer) for v in problem.views):
            continue
        for lower in range(0, placement.addresses[slot.name], slot.alignment):
            moved = Placement({**placement.addresses, slot.name: lower}, placement.spaces)
            highest_changed = [d for d in validate(problem, moved) if d.code == "L103"]
            assert len(validate(problem, moved)) > len(highest_changed)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000))
def test_search_and_cp_sat_agree(seed: int) -> None:
    import random

    draw = random.Random(seed)
    found = [
        Block(32 * draw.randint(1, 9), 32, ((1 << draw.randint(1, 5)) - 1) << draw.randint(0, 9)) for _ in range(11)
    ]
    space = space_of(found)
    mine = lowest_end(space, 200_000)
    assert mine.optimal
    theirs = cpsat.solve(space, first_fit(space, space.free), limit=20.0)
    assert theirs.optimal
    assert mine.highest == theirs.highest


# --- special cases ---------------------------------------------------------------------------------------------------


def test_scales_that_need_more_room_push_their_data_apart() -> None:
    data = TileRecord("l", "group", TileType([16, 64], DataType.DT_FP8E4M3FN, MemorySpace.Left), depth=2,
                      declared=Declared(0, 3), cores=CUBE)  # fmt: skip
    scale = TileRecord("s", "group", TileType([64, 8], DataType.DT_FP8E8M0, MemorySpace.ScaleLeft), depth=2,
                       declared=Declared(0, 3), cores=CUBE, scale_of="l")  # fmt: skip
    other = replace(data, name="m")
    other_scale = replace(scale, name="ms", scale_of="m")
    advice = advise(Design((data, scale, other, other_scale)))
    at = advice.placement.addresses
    assert [at[f"{n}#{i}"] >> 4 for n in "lm" for i in (0, 1)] == [at[f"{n}#{i}"] for n in ("s", "ms") for i in (0, 1)]
    starts = sorted(at[f"{n}#{i}"] for n in ("s", "ms") for i in (0, 1))
    assert all(b - a >= 512 for a, b in itertools.pairwise(starts))
    assert not [f for f in advice.findings if f.severity == "error" and f.code != "L112"]


def test_a_pinned_scale_pins_its_data() -> None:
    data = TileRecord("l", "tile", TileType([32, 64], DataType.DT_FP8E4M3FN, MemorySpace.Left),
                      declared=Declared(0, 3), cores=CUBE)  # fmt: skip
    scale = TileRecord("s", "tile", TileType([32, 2], DataType.DT_FP8E8M0, MemorySpace.ScaleLeft), addrs=0x400,
                       declared=Declared(0, 3), cores=CUBE, scale_of="l")  # fmt: skip
    assert advise(Design((data, scale))).placement.addresses == {"l": 0x4000, "s": 0x400}


def test_tiles_of_two_core_kinds_share_only_with_a_declared_edge() -> None:
    a = tile("a", 8, 64, (0, 1), space=MAT, cores=frozenset(CoreKind))
    b = tile("b", 8, 64, (2, 3), space=MAT, cores=CUBE)
    apart = plan_layout(problem_of(Design((a, b)), Chip())[0])
    assert apart.addresses == {"a": 0, "b": 2048}
    edge = OrderFact("a", "b", "cross_core")
    assert plan_layout(problem_of(Design((a, b), orders=(edge,)), Chip())[0]).addresses == {"a": 0, "b": 0}


def test_choices_of_one_key_share_freely() -> None:
    a, b = tile("a", 8, 64, (0, 3), when=(("K", 1),)), tile("b", 8, 64, (0, 3), when=(("K", 2),))
    advice = advise(Design((a, b)))
    assert advice.placement.addresses == {"a": 0, "b": 0}
    assert [r.proof for r in advice.report.reuses] == ["exclusive"]


def test_a_reuse_nobody_orders_is_listed_with_what_it_needs() -> None:
    from pypto_pro.enums import PipeType

    live = [Declared(0, 1, PipeType.MTE2, PipeType.V), Declared(2, 3, PipeType.MTE2, PipeType.V)]
    tiles = tuple(replace(tile(n, 8, 64, (0, 0)), declared=d) for n, d in zip("ab", live, strict=True))
    (needed,) = [f for f in advise(Design(tiles)).findings if f.code == "L122"]
    assert "V->MTE2" in str(needed.facts["needs"])


def test_a_proved_plan_needs_nothing_from_the_author() -> None:
    from pypto_pro.enums import PipeType

    live = [Declared(0, 1, PipeType.MTE2, PipeType.V), Declared(2, 3, PipeType.MTE2, PipeType.V), Declared(4, 5)]
    tiles = tuple(replace(tile(n, 8, 64, (0, 0)), declared=d) for n, d in zip("abc", live, strict=True))
    loose, strict = advise(Design(tiles)), advise(Design(tiles), wishes=Wishes(proved=True))
    assert loose.placement.addresses == {"a": 0, "b": 0, "c": 0}
    assert strict.placement.addresses == {"a": 0, "b": 2048, "c": 0}
    assert not [f for f in strict.findings if f.code == "L122"]


def test_more_than_twelve_separated_tiles_still_get_an_answer() -> None:
    tiles = tuple(tile(f"t{i}", 16, 64, (0, 3), space=MAT, cores=CUBE) for i in range(14))
    wishes = Wishes(separate=tuple((f"t{2 * i}", f"t{2 * i + 1}") for i in range(7)))
    problem, _ = problem_of(Design(tiles), Chip(), wishes)
    (plan,) = plan_layout(problem).spaces
    assert plan.violated == ()


# --- the validator ---------------------------------------------------------------------------------------------------


def case() -> tuple[Problem, Placement]:
    group = TileRecord("g", "group", TileType([8, 64], DataType.DT_FP32, VEC), depth=2, declared=Declared(0, 5))
    pinned = tile("p", 8, 64, (0, 5), addrs=0x4000)
    view = tile("v", 8, 32, (1, 5))
    design = Design((tile("a", 8, 64, (0, 5)), group, pinned, view), views=(("a", "v"),))
    problem, _ = problem_of(design, Chip())
    return problem, plan_layout(problem)


@pytest.mark.parametrize(
    ("moved", "message"),
    [
        ({"a": 8, "v": 8}, "no multiple"),
        ({"a": -32, "v": -32}, "-32"),
        ({"p": 0x5000}, "pinned"),
        ({"v": 0x6000}, "has left"),
        ({"g#1": 0x1800}, "share"),
        ({"a": 0x9000, "v": 0x9000}, "the plan says"),
    ],
)
def test_the_validator_refuses_a_broken_placement(moved: dict[str, int], message: str) -> None:
    problem, placement = case()
    assert validate(problem, placement) == []
    broken = Placement({**placement.addresses, **moved}, placement.spaces)
    if message == "share":
        broken = Placement({**placement.addresses, "g#1": placement.addresses["a"]}, placement.spaces)
    assert any(message in d.message for d in validate(problem, broken))


def test_the_validator_refuses_a_missing_slot_a_false_claim_and_uneven_steps() -> None:
    problem, placement = case()
    missing = Placement({k: v for k, v in placement.addresses.items() if k != "a"}, placement.spaces)
    assert "no address" in validate(problem, missing)[0].message
    boast = Placement(placement.addresses, tuple(replace(s, highest=32) for s in placement.spaces))
    assert "the plan says" in validate(problem, boast)[0].message
    three = replace(problem, slots=(*problem.slots, replace(problem.slots[2], name="g#2", slot=2)))
    uneven = Placement({**placement.addresses, "g#2": 0xA000}, placement.spaces)
    assert any("one step" in d.message for d in validate(three, uneven))
