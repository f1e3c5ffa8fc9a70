"""Flags, mutexes, barriers, cross-core signals, sync_all: what they order, and when nobody can move."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from machine_runs import EVERY_SCHEDULE, STORE, Outcome, kernel_text, run_text, run_vector

from pypto_pro.interp import Observer
from pypto_pro.ops.overrun import OutOfBoundsWarning

T = "T0 = TileType([4, 32], fp32, Vec)"
X = "x: Tensor([16, 32], fp32)"
Y = "y: Tensor([16, 32], fp32)"


def arrays() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    x = np.arange(16 * 32, dtype=np.float32).reshape(16, 32)
    return x, np.full_like(x, np.nan)


FLAGGED = f"""
t: T0 = make_tile(0, None, 't')
for i in range(4):
    load(t, x, (i * 4, 0), order=None)
    sync_src(MTE2, V, 0)
    sync_dst(MTE2, V, 0)
    mul(t, t, 2.0)
    sync_src(V, MTE3, 1)
    sync_dst(V, MTE3, 1)
    store(y, t, (i * 4, 0), None, {STORE})
    sync_src(MTE3, MTE2, 2)
    sync_dst(MTE3, MTE2, 2)
"""


@pytest.mark.parametrize(("schedule", "seed"), EVERY_SCHEDULE)
def test_flags_order_pipes_under_every_schedule(schedule: str, seed: int) -> None:
    x, y = arrays()
    outcome = run_vector(f"{X}, {Y}", FLAGGED, x, y, types=T, schedule=schedule, seed=seed)
    assert outcome.result.finished
    assert not any(outcome.result.leftovers.values())
    np.testing.assert_array_equal(y, 2 * x)


def test_latest_shows_a_missing_flag() -> None:
    """Without MTE2 -> V the product uses poison: the load has not arrived when V reads."""
    body = FLAGGED.replace("    sync_src(MTE2, V, 0)\n    sync_dst(MTE2, V, 0)\n", "")
    x, y = arrays()
    assert run_vector(f"{X}, {Y}", body, x, y, types=T, schedule="latest").result.finished
    assert np.isnan(y[:4]).all()
    run_vector(f"{X}, {Y}", body, x, y, types=T)
    np.testing.assert_array_equal(y, 2 * x)  # in_order: program order


def test_wait_without_set_is_a_deadlock() -> None:
    x, _ = arrays()
    outcome = run_vector(
        X, "t: T0 = make_tile(0, None, 't')\nsync_dst(MTE2, V, 3)\nmul(t, t, 2.0)", x, types=T
    )
    assert outcome.waits == [("AIV, block 0", "V", "sync_dst")]
    (blocked,) = outcome.result.blocked
    assert blocked.reason == "waits for flag MTE2->V 3, which was set 0 times and waited for 0 times"
    assert [i.site.name for i in blocked.behind] == ["mul"]


def test_leftover_flag_and_credit_are_listed() -> None:
    outcome = run_text(
        kernel_text(
            X, vector="sync_src(V, MTE3, 0)\nset_cross_core(MTE3, 5, INTRA_BLOCK)", cube="n = 0", types=T
        ),
        arrays()[0],
    )
    assert outcome.result.finished
    assert [f.name for f in outcome.result.leftovers["flags"]] == ["flag V->MTE3 0"] * 2
    assert [c.number for c in outcome.result.leftovers["credits"]] == [5, 21]


MUTEX = f"""
t: T0 = make_tile(0, None, 't')
for i in range(4):
    mutex_lock(MTE2, 3, (3,))
    load(t, x, (i * 4, 0), order=None)
    mutex_unlock(MTE2, 3, (3,))
    mutex_lock(V, 3, (3,))
    mul(t, t, 2.0)
    mutex_unlock(V, 3, (3,))
    mutex_lock(MTE3, 3, (3,))
    store(y, t, (i * 4, 0), None, {STORE})
    mutex_unlock(MTE3, 3, (3,))
"""


@pytest.mark.parametrize(("schedule", "seed"), EVERY_SCHEDULE)
def test_mutexes_are_granted_in_issue_order(schedule: str, seed: int) -> None:
    x, y = arrays()
    assert run_vector(f"{X}, {Y}", MUTEX, x, y, types=T, schedule=schedule, seed=seed).result.finished
    np.testing.assert_array_equal(y, 2 * x)


def test_double_lock_hangs_and_foreign_unlock_does_nothing() -> None:
    class Watch(Observer):
        def __init__(self) -> None:
            self.unlocks: list[int | None] = []

        def unlocked(self, instr: Any, mutex: Any, ticket: int | None) -> None:
            self.unlocks.append(ticket)

    twice = run_vector("n: index", "mutex_lock(V, 1, (1,))\nmutex_lock(V, 1, (1,))", 0)
    assert twice.waits == [("AIV, block 0", "V", "mutex_lock")]
    watch = Watch()
    run_vector("n: index", "mutex_lock(V, 1, (1,))\nmutex_unlock(MTE2, 1, (1,))\nmutex_unlock(V, 1, (1,))", 0,
               observer=watch)
    assert watch.unlocks == [None, 0]


@pytest.mark.parametrize(("schedule", "seed"), EVERY_SCHEDULE)
def test_bar_all_holds_the_scalar_unit(schedule: str, seed: int) -> None:
    x, _ = arrays()
    body = """
    t: T0 = make_tile(0, None, 't')
    load(t, x, (4, 0), order=None)
    bar(ALL)
    v: fp32 = getval(t, 1)
    mul(t, t, 3.0)
    sync_src(V, S, 0)
    sync_dst(V, S, 0)
    w: fp32 = getval(t, 1)
    debug('printf', (v, w), format='%.1f %.1f', loc=False)
    """
    assert run_vector(X, body, x, types=T, schedule=schedule, seed=seed).printed == "129.0 387.0"


# --- across cores ---------------------------------------------------------------------------------------------------


def signals(sender: str, receiver: str, *, cube_sends: bool = True, **how: Any) -> Outcome:
    cube, vector = (sender, receiver) if cube_sends else (receiver, sender)
    return run_text(kernel_text("n: index", cube=cube, vector=vector), 0, **how)


def test_intra_block_goes_to_both_vector_cores() -> None:
    outcome = signals("set_cross_core(FIX, 2, INTRA_BLOCK)", "wait_cross_core(MTE2, 2, INTRA_BLOCK)")
    assert outcome.result.finished
    assert not outcome.result.leftovers["credits"]


def test_intra_block_wait_of_the_cube_needs_both_vector_cores() -> None:
    only_one = "if Query('subblock_idx', int32) == Const(0, int32):\n    set_cross_core(MTE3, 2, INTRA_BLOCK)"
    outcome = signals(only_one, "wait_cross_core(MTE1, 2, INTRA_BLOCK)", cube_sends=False)
    assert outcome.waits == [("AIC, block 0", "MTE1", "wait_cross_core")]
    assert outcome.result.blocked[0].reason.startswith("waits for cross-core counter 18 of AIC")


def test_unicast_ids_of_the_second_vector_core_are_higher_on_the_cube_side() -> None:
    second = "if Query('subblock_idx', int32) == Const(1, int32):\n    {}(MTE3, 4, UNICAST_BLOCK)"
    ok = signals(second.format("set_cross_core"), "wait_cross_core(MTE1, 20, UNICAST_BLOCK)", cube_sends=False)
    assert ok.result.finished
    assert signals("set_cross_core(FIX, 20, UNICAST_BLOCK)", second.format("wait_cross_core")).result.finished
    wrong = signals(second.format("set_cross_core"), "wait_cross_core(MTE1, 4, UNICAST_BLOCK)", cube_sends=False)
    assert wrong.waits == [("AIC, block 0", "MTE1", "wait_cross_core")]
    assert [c.number for c in wrong.result.leftovers["credits"]] == [20]


def test_sixteenth_set_waits_for_room() -> None:
    loops = "for i in range({}):\n    {}(S, 0, INTRA_BLOCK)"
    ok = signals(loops.format(40, "set_cross_core"), loops.format(40, "wait_cross_core"))
    assert ok.result.finished
    full = signals(loops.format(16, "set_cross_core"), "n = 0")
    assert full.waits == [("AIC, block 0", "S", "set_cross_core")]
    assert full.result.blocked[0].reason == "signals cross-core counter 0 of AIV0, block 0, which is full"


def test_inter_block_waits_for_every_block() -> None:
    body = """
    b = Convert(Query('block_idx', int32), index)
    if b != skip:
        set_cross_core(MTE3, 1, INTER_BLOCK)
    wait_cross_core(MTE2, 1, INTER_BLOCK)
    """
    assert run_vector("skip: index", body, -1, blocks=3).result.finished
    outcome = run_vector("skip: index", body, 1, blocks=3)
    assert [w[0] for w in outcome.waits] == ["AIV, block 0", "AIV, block 1", "AIV, block 2"]


def test_inter_subblock_pairs_the_vector_cores_of_a_block() -> None:
    both = "set_cross_core(V, 1, INTER_SUBBLOCK)\nwait_cross_core(S, 1, INTER_SUBBLOCK)"
    assert run_text(kernel_text("n: index", cube="n = 0", vector=both), 0, blocks=2).result.finished
    assert run_vector("n: index", both, 0).result.finished  # alone in a vector-only kernel


@pytest.mark.parametrize(("schedule", "seed"), EVERY_SCHEDULE)
@pytest.mark.parametrize("mode", ["HARD", "SOFT"])
def test_sync_all_orders_blocks(mode: str, schedule: str, seed: int) -> None:
    """Each block stores its rows, then reads its neighbour's."""
    x, y = arrays()
    space = np.zeros(64, np.int32)
    scratch = np.empty_like(x)
    call = "sync_all(AIV_ONLY, HARD, (), None)" if mode == "HARD" else "sync_all(AIV_ONLY, SOFT, (w, t), None)"
    body = f"""
    t: T0 = make_tile(0, None, 't')
    b = Convert(Query('block_idx', int32), index)
    load(t, x, (b * 4, 0), order=None)
    sync_src(MTE2, MTE3, 0)
    sync_dst(MTE2, MTE3, 0)
    store(s, t, (b * 4, 0), None, {STORE})
    {call}
    load(t, s, ((b + 1) % 4 * 4, 0), order=None)
    sync_src(MTE2, MTE3, 0)
    sync_dst(MTE2, MTE3, 0)
    store(y, t, (b * 4, 0), None, {STORE})
    """
    params = f"{X}, {Y}, s: Tensor([16, 32], fp32), w: Tensor([64], int32)"
    outcome = run_vector(params, body, x, y, scratch, space, types=T, blocks=4, schedule=schedule, seed=seed)
    assert outcome.result.finished
    np.testing.assert_array_equal(y, np.roll(x, -4, axis=0))


def test_sync_all_of_absent_cores_is_a_deadlock() -> None:
    outcome = run_vector("n: index", "sync_all(MIX, HARD, (), None)", 0)
    assert outcome.waits == [("AIV, block 0", "S", "sync_all")]
    assert "no cores of one kind" in outcome.result.blocked[0].reason


def test_polling_for_ever_is_found() -> None:
    x, _ = arrays()
    poll = """
    while True:
        v: fp32 = getval(x, 5)
        if v > 1000000.0:
            break
    """
    outcome = run_vector(X, poll, x)
    assert not outcome.result.finished
    assert [s.proven for s in outcome.result.spinning] == [True]


def test_polling_ends_when_another_core_writes() -> None:
    """AIV1 polls with dcci-free reads of SSBUF-like GM that AIV0's DMA fills: the line must not be cached first."""
    x = np.zeros((16, 32), np.float32)
    body = f"""
    t: T0 = make_tile(0, None, 't')
    s = Query('subblock_idx', int32)
    if s == Const(0, int32):
        expands(t, 1.0)
        sync_src(V, MTE3, 0)
        sync_dst(V, MTE3, 0)
        store(x, t, (0, 0), None, {STORE})
        n = 0
        while True:
            if n > 20:
                break
            n = n + 1
        set_cross_core(MTE3, 3, INTER_SUBBLOCK)
    else:
        set_cross_core(MTE3, 3, INTER_SUBBLOCK)
    wait_cross_core(S, 3, INTER_SUBBLOCK)
    v: fp32 = getval(x, 5)
    debug('printf', (v,), format='%.1f ', loc=False)
    """
    outcome = run_text(kernel_text(X, cube="n = 0", vector=body, types=T), x)
    assert outcome.result.finished
    assert outcome.printed == "1.0 1.0 "


def test_phases_hand_an_accumulator_over() -> None:
    """matmul Final -> store Final -> matmul: no flag, no mutex."""
    types = "\n".join(
        (
            "L = TileType([16, 16], fp32, Left)", "R = TileType([16, 16], fp32, Right)",
            "A = TileType([16, 16], fp32, Acc)",
        )
    )
    tail = "order=None, atomic=AtomicType.AtomicNone, relu_pre_mode=None, phase=STPhase.Final"
    body = f"""
    l: L = make_tile(0, None, 'l')
    r: R = make_tile(0, None, 'r')
    a: A = make_tile(0, None, 'a')
    for i in range(2):
        matmul(a, l, r, None, phase=AccPhase.Final)
        store(y, a, (0, 0), None, {tail})
    """
    y = np.zeros((16, 16), np.float32)
    for schedule, seed in EVERY_SCHEDULE:
        text = kernel_text("y: Tensor([16, 16], fp32)", cube=body, types=types)
        outcome = run_text(text, y, schedule=schedule, seed=seed)
        assert outcome.result.finished
        assert not outcome.result.leftovers["unit_flags"]
        stuck = run_text(text.replace("STPhase.Final", "STPhase.Partial"), y, schedule=schedule, seed=seed)
        assert [w[1:] for w in stuck.waits] == [("M", "matmul")]


def test_soft_sync_all_without_room_for_its_counter() -> None:
    text = kernel_text("w: Tensor([64], int32)", vector="sync_all(AIV_ONLY, SOFT, (w,), None)")
    assert run_text(text, None, blocks=3).result.finished


def test_accumulator_leaves_for_vector_cores_that_do_not_exist() -> None:
    """A cube-only kernel has no UB: the move is out of bounds and harmless."""
    types = "A = TileType([16, 16], fp32, Acc)\nT = TileType([16, 16], fp32, Vec)"
    move = "acc_to_vec_mode=AccToVecMode.{0}, relu_pre_mode=None"
    for mode in ("SingleModeVec1", "DualModeSplitM"):
        body = f"""
        a: A = make_tile(0, None, 'a')
        t: T = make_tile(0, None, 't')
        move(t, a, None, None, {move.format(mode)})
        """
        with pytest.warns(OutOfBoundsWarning):
            assert run_text(kernel_text("n: index", cube=body, types=types), 0).result.finished
