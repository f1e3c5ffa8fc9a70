"""Order and lifetimes over programs: flags, mutexes, barriers, loops, branches; every verdict with its broken twin."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pypto_pro.diag import Span
from pypto_pro.dtypes import DataType
from pypto_pro.enums import CoreKind, MemorySpace, PipeType
from pypto_pro.ir.types import TileType
from pypto_pro.memory.check import LayoutReport, check_layout
from pypto_pro.memory.design import (
    Branch,
    Cross,
    Design,
    Fence,
    Leave,
    Loop,
    Node,
    Program,
    Resize,
    Signal,
    Step,
    TileRecord,
    Use,
)
from pypto_pro.memory.lifetimes import find_lifetimes

P = PipeType
TYPE = TileType([8, 64], DataType.DT_FP32, MemorySpace.Vec)


class Writer:
    """Builds steps with ascending points."""

    def __init__(self) -> None:
        self.point = 0

    def step(self, pipe: P, *uses: Use) -> Step:
        self.point += 1
        return Step(self.point, f"op{self.point}", pipe, uses, Span("kernel.py", 10 + self.point))


def put(tile: str, slot: int | None = 0, ref: int = 0, locked: bool = True) -> Use:
    return Use(tile, False, True, slot, ref, covers=True, locked=locked)


def get(tile: str, slot: int | None = 0, ref: int = 0, locked: bool = True) -> Use:
    return Use(tile, True, False, slot, ref, locked=locked)


def group(name: str, addrs: int | tuple[int, ...], ids: Sequence[int], **more: object) -> TileRecord:
    slots = tuple((i,) for i in ids)
    return TileRecord(name, "group", TYPE, addrs, depth=max(1, len(ids)), mutex_ids=slots, **more)  # type: ignore[arg-type]


def report(
    tiles: Sequence[TileRecord], *body: Node, cube: Sequence[Node] = (), auto_mutex: bool = True
) -> LayoutReport:
    programs = [Program(CoreKind.VECTOR, body)]
    if cube:
        programs.append(Program(CoreKind.CUBE, tuple(cube)))
    return check_layout(Design(tuple(tiles), programs=tuple(programs), auto_mutex=auto_mutex))


def verdict(found: LayoutReport) -> tuple[str | None, str | None]:
    (reuse,) = found.reuses
    return reuse.proof, reuse.reason


def load_use_store(w: Writer, tile: str, **more: object) -> list[Node]:
    """Loaded on MTE2, read on V."""
    return [w.step(P.MTE2, put(tile, **more)), w.step(P.V, get(tile, **more))]  # type: ignore[arg-type]


def flag(a: P, b: P, event: int | None = 0) -> list[Node]:
    return [Signal(True, a, b, event), Signal(False, a, b, event)]


def two(ids_a: Sequence[int] = (), ids_b: Sequence[int] = ()) -> list[TileRecord]:
    """Tiles a and b at one address."""
    return [group("a", 0, ids_a), group("b", 0, ids_b)]


# --- straight line ---------------------------------------------------------------------------------------------------


def test_flags_order_and_their_absence_does_not() -> None:
    w = Writer()
    ordered = [w.step(P.MTE2, put("a")), *flag(P.MTE2, P.V), w.step(P.V, get("a")), *flag(P.V, P.MTE2),
               w.step(P.MTE2, put("b")), *flag(P.MTE2, P.V, 1), w.step(P.V, get("b"))]  # fmt: skip
    assert verdict(report(two(), *ordered)) == ("flag", None)
    backward = [n for n in ordered if not (isinstance(n, Signal) and n.from_pipe is P.V)]
    assert verdict(report(two(), *backward)) == (None, "unordered")


@pytest.mark.parametrize(("wait", "found"), [(1, ("flag", None)), (2, (None, "unordered"))])
def test_a_run_time_event_orders_where_set_and_wait_are_known_to_agree(wait: int, found: object) -> None:
    w = Writer()
    signals = [Signal(True, P.V, P.MTE2, None, ref=1), Signal(False, P.V, P.MTE2, None, ref=wait)]
    body = [w.step(P.MTE2, put("a")), *flag(P.MTE2, P.V), w.step(P.V, get("a")), *signals,
            w.step(P.MTE2, put("b")), *flag(P.MTE2, P.V), w.step(P.V, get("b"))]  # fmt: skip
    assert verdict(report(two(), *body)) == found


def test_a_run_time_event_may_be_another_one_in_the_next_turn() -> None:
    w = Writer()
    body = [w.step(P.MTE2, put("a")), *flag(P.MTE2, P.V), w.step(P.V, get("a")), *flag(P.V, P.MTE2),
            w.step(P.MTE2, put("b")), *flag(P.MTE2, P.V), w.step(P.V, get("b"))]  # fmt: skip
    primed = Signal(True, P.V, P.MTE2, None, ref=1)
    loop = Loop("i", (Signal(False, P.V, P.MTE2, None, ref=1), *body, primed))
    assert verdict(report(two(), primed, loop)) == (None, "unordered")


def test_bar_all_orders_and_a_pipe_barrier_does_not() -> None:
    w = Writer()
    first, second = load_use_store(w, "a"), load_use_store(w, "b")
    assert verdict(report(two(), *first, Fence(P.ALL), *second)) == ("barrier", None)
    assert verdict(report(two(), *first, Fence(P.MTE2), *second)) == (None, "unordered")


def test_a_shared_mutex_orders_and_an_unlocked_access_voids_it() -> None:
    w = Writer()
    body = [*load_use_store(w, "a"), *load_use_store(w, "b")]
    assert verdict(report(two([4], [4]), *body)) == ("mutex", None)
    assert verdict(report(two([4], [5]), *body)) == (None, "unordered")
    w = Writer()
    bare = [w.step(P.MTE2, put("a")), w.step(P.V, get("a", locked=False)), *load_use_store(w, "b")]
    found = report(two([4], [4]), *bare)
    assert verdict(found) == (None, "unordered")
    assert any("takes no lock" in note for note in found.reuses[0].notes)


def test_one_pipe_is_ordered_but_for_two_transfers() -> None:
    w = Writer()
    on_v = [w.step(P.V, put("a")), w.step(P.V, get("a")), w.step(P.V, put("b")), w.step(P.V, get("b"))]
    assert verdict(report(two(), *on_v)) == ("same_pipe", None)
    w = Writer()
    loads = [w.step(P.MTE2, put("a")), w.step(P.MTE2, put("b"))]
    assert verdict(report(two(), *loads)) == (None, "unordered")
    w = Writer()
    fenced = [w.step(P.MTE2, put("a")), Fence(P.MTE2), w.step(P.MTE2, put("b"))]
    assert verdict(report(two(), *fenced)) == ("same_pipe", None)


def test_a_wait_on_the_scalar_unit_holds_back_every_pipe() -> None:
    w = Writer()
    first, second = load_use_store(w, "a"), load_use_store(w, "b")
    head = [first[0], *flag(P.MTE2, P.V), first[1]]
    assert verdict(report(two(), *head, *flag(P.V, P.S), second[0], *flag(P.MTE2, P.V, 1), second[1]))[0] == "flag"


# --- loops -----------------------------------------------------------------------------------------------------------


def test_the_return_edge_of_a_loop_needs_an_order_too() -> None:
    w = Writer()
    body = [w.step(P.MTE2, put("a")), *flag(P.MTE2, P.V), w.step(P.V, get("a")), *flag(P.V, P.MTE2),
            w.step(P.MTE2, put("b")), *flag(P.MTE2, P.V, 1), w.step(P.V, get("b"))]  # fmt: skip
    found = report(two(), Loop("i", tuple(body)))
    assert verdict(found) == (None, "unordered")
    assert any("next trip" in note for note in found.reuses[0].notes)
    primed = [*body, Signal(True, P.V, P.MTE2, 2)]
    loop = Loop("i", (Signal(False, P.V, P.MTE2, 2), *primed))
    assert verdict(report(two(), Signal(True, P.V, P.MTE2, 2), loop)) == ("flag", None)


def test_a_mutex_orders_the_return_edge() -> None:
    w = Writer()
    body = (*load_use_store(w, "a"), *load_use_store(w, "b"))
    assert verdict(report(two([4], [4]), Loop("i", body))) == ("mutex", None)


def test_a_barrier_on_one_path_only_proves_nothing() -> None:
    w = Writer()
    first, second = load_use_store(w, "a"), load_use_store(w, "b")
    sometimes = Branch(((Fence(P.ALL),), ()))
    always = Branch(((Fence(P.ALL),), (Fence(P.ALL),)))
    assert verdict(report(two(), *first, sometimes, *second)) == (None, "unordered")
    assert verdict(report(two(), *first, always, *second)) == ("barrier", None)


def test_a_path_that_leaves_the_loop_misses_what_stands_behind() -> None:
    w = Writer()
    first, second = load_use_store(w, "a"), load_use_store(w, "b")
    leave = Branch(((Leave("break"),), ()))
    assert verdict(report(two(), Loop("i", (*first, leave, Fence(P.ALL))), *second)) == (None, "unordered")
    assert verdict(report(two(), Loop("i", (*first, Fence(P.ALL), leave)), *second)) == ("barrier", None)


def test_arms_of_a_branch_never_meet_but_trips_do() -> None:
    w = Writer()
    arms = Branch((tuple(load_use_store(w, "a")), tuple(load_use_store(w, "b"))))
    once = report(two(), arms)
    assert once.reuses[0].reason is None or once.reuses[0].edges == ()
    assert verdict(report(two(), Loop("i", (arms,)))) == (None, "unordered")
    assert verdict(report(two(), Loop("i", (arms, Fence(P.ALL))))) == ("barrier", None)


def test_rotating_slots_in_one_loop_are_in_flight_together() -> None:
    w = Writer()
    body = (*load_use_store(w, "a", slot=None, ref=1), *load_use_store(w, "b", slot=None, ref=2))
    apart = report([group("a", 0, [1, 2]), group("b", 0, [3, 4])], Loop("i", body))
    assert {r.reason for r in apart.reuses} == {"live"}
    names = report([group("a", 0, [1, 2]), group("b", 0, [1, 2])], Loop("i", body))
    assert {(r.kind, r.proof) for r in names.reuses} == {("view", "mutex")}, "one id around both: names of one thing"


def test_rotating_slots_of_two_loops_may_follow_each_other() -> None:
    w = Writer()
    loops = [Loop("i", tuple(load_use_store(w, "a", slot=None, ref=1))),
             Loop("j", tuple(load_use_store(w, "b", slot=None, ref=2)))]  # fmt: skip
    same = report([group("a", 0, [1, 2]), group("b", 0, [1, 2])], *loops)
    assert [(r.a.slot, r.b.slot, r.proof) for r in same.reuses] == [(0, 0, "mutex"), (1, 1, "mutex")]
    crossed = report([group("a", 0, [1, 2]), group("b", 0, [2, 1])], *loops)
    assert {r.reason for r in crossed.reuses} == {"unordered"}


# --- lifetimes -------------------------------------------------------------------------------------------------------


def lives(tiles: Sequence[TileRecord], *body: Node) -> dict[str, list[int]]:
    design = Design(tuple(tiles), programs=(Program(CoreKind.VECTOR, body),))
    return {name: sorted(life.points) for (name, _), life in find_lifetimes(design).items()}


def test_a_covering_write_ends_a_life_and_a_partial_one_does_not() -> None:
    w = Writer()
    body = [w.step(P.V, put("a")), w.step(P.V, get("a")), w.step(P.V), w.step(P.V, put("a")), w.step(P.V, get("a"))]
    assert lives([group("a", 0, [])], *body) == {"a": [1, 2, 4, 5]}
    partial = [body[0], body[1], body[2], Step(4, "part", P.V, (Use("a", False, True),)), body[4]]
    assert lives([group("a", 0, [])], *partial) == {"a": [1, 2, 3, 4, 5]}


def test_what_is_read_in_the_next_trip_lives_throughout_the_loop() -> None:
    w = Writer()
    before = w.step(P.V)
    loop = Loop("i", (w.step(P.V, get("a")), w.step(P.V), w.step(P.V, put("a"))))
    assert lives([group("a", 0, [])], before, loop, w.step(P.V)) == {"a": [1, 2, 3, 4]}
    w = Writer()
    within = Loop("i", (w.step(P.V), w.step(P.V, put("a")), w.step(P.V, get("a"))))
    assert lives([group("a", 0, [])], within) == {"a": [2, 3]}


def test_a_new_valid_shape_keeps_older_bytes_alive() -> None:
    w = Writer()
    first, second, third = w.step(P.V, put("a")), w.step(P.V, put("a")), w.step(P.V, get("a"))
    assert lives([group("a", 0, [])], first, w.step(P.V), second, third)["a"] == [1, 2, 3]
    grown = lives([group("a", 0, [])], first, w.step(P.V), second, Resize("a", 0), third)["a"]
    assert grown == [1, 2, 3, 5]


@pytest.mark.parametrize("arm_reads", [True, False])
def test_a_branch_keeps_what_one_arm_reads(arm_reads: bool) -> None:
    w = Writer()
    write, middle = w.step(P.V, put("a")), w.step(P.V)
    arm = (w.step(P.V, get("a")),) if arm_reads else (w.step(P.V),)
    found = lives([group("a", 0, [])], write, middle, Branch((arm, ())))
    assert found["a"] == ([1, 2, 3] if arm_reads else [1])


# --- two cores -------------------------------------------------------------------------------------------------------


def crossing(release: bool = True, flags: bool = True, early: bool = False) -> LayoutReport:
    """Vector code fills `a`, cube code reads it; `b` belongs to the cube and has the same address.

    `release`: the cube tells when it is done with both; `early`: it tells so before it uses `b`; `flags`: its pipes
    keep the order.
    """
    tiles = [group("a", 0, [], cores=frozenset(CoreKind)), group("b", 0, [], cores=frozenset({CoreKind.CUBE}))]
    w = Writer()
    vector = [Cross(False, P.MTE3, 1, "INTRA_BLOCK")] if release else []
    vector += [w.step(P.MTE3, put("a")), Cross(True, P.MTE3, 0, "INTRA_BLOCK")]
    done = [Cross(True, P.MTE1, 1, "INTRA_BLOCK")] if release else []
    between = flag(P.MTE1, P.MTE2) if flags else []
    cube: list[Node] = [
        Cross(False, P.MTE1, 0, "INTRA_BLOCK"), w.step(P.MTE1, get("a")), *(done if early else ()), *between,
        w.step(P.MTE2, put("b")), *flag(P.MTE2, P.MTE1), w.step(P.MTE1, get("b")), *(() if early else done),
    ]  # fmt: skip
    return report(tiles, Loop("i", tuple(vector)), cube=[Loop("i", tuple(cube))])


def test_a_ready_and_release_pair_proves_a_reuse_between_the_core_kinds() -> None:
    assert verdict(crossing()) == ("cross_core", None)


@pytest.mark.parametrize("missing", [{"release": False}, {"early": True}])
def test_a_missing_or_early_release_does_not(missing: dict[str, bool]) -> None:
    assert verdict(crossing(**missing)) == (None, "cross_core")


def test_the_protocol_does_not_replace_the_order_inside_the_core() -> None:
    assert verdict(crossing(flags=False)) == (None, "unordered")
