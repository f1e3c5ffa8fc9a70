"""Waits in a circle: named agent by agent, with what opens it, and their mended twins."""

from __future__ import annotations

from checked import check, of_kind, rows_of_64, silent, x64

import pypto_pro.language as pl

F32 = pl.DT_FP32
V, S, FIX = pl.PipeType.V, pl.PipeType.S, pl.PipeType.FIX
MTE2, MTE3 = pl.PipeType.MTE2, pl.PipeType.MTE3
AIV = pl.SyncCoreType.AIV_ONLY
X = pl.Tensor[[64, 64], F32]


@pl.jit(auto_mutex=False)
def ring(x: X, y: X, primed: pl.DT_INT32):
    with pl.section_vector():
        a = pl.make_tile(rows_of_64(), addr=0)
        b = pl.make_tile(rows_of_64(), addr=0x1000)
        if primed == 1:
            pl.system.sync_src(set_pipe=MTE3, wait_pipe=MTE2, event_id=0)
        for i in pl.range(0, 64, 16):
            pl.system.sync_dst(set_pipe=MTE3, wait_pipe=MTE2, event_id=0)
            pl.load(a, x, [i, 0])
            pl.system.sync_src(set_pipe=MTE2, wait_pipe=V, event_id=0)
            pl.system.sync_dst(set_pipe=MTE2, wait_pipe=V, event_id=0)
            pl.exp(b, a)
            pl.system.sync_src(set_pipe=V, wait_pipe=MTE3, event_id=0)
            pl.system.sync_dst(set_pipe=V, wait_pipe=MTE3, event_id=0)
            pl.store(y, b, [i, 0])
            pl.system.sync_src(set_pipe=MTE3, wait_pipe=MTE2, event_id=0)
        if primed == 1:
            pl.system.sync_dst(set_pipe=MTE3, wait_pipe=MTE2, event_id=0)


def test_a_ring_without_its_first_signal() -> None:
    (stuck,) = of_kind(check(ring, x64(), x64(), 0), "deadlock")
    assert stuck.message == "MTE2, MTE3 and V of AIV wait for each other in a circle"
    assert len([n for n in stuck.notes if n.startswith("line ")]) == 3
    assert stuck.help is not None
    assert "one more sync_src(set_pipe=MTE3, wait_pipe=MTE2, event_id=0) before the loop" in stuck.help


def test_a_primed_ring() -> None:
    silent(check(ring, x64(), x64(), 1))


@pl.jit(auto_mutex=False)
def both_wait_first(x: X, primed: pl.DT_INT32):
    with pl.section_cube():
        if primed == 1:
            pl.system.set_cross_core(pipe=FIX, event_id=0)
        for i in pl.range(0, 4):
            pl.system.wait_cross_core(pipe=FIX, event_id=1)
            pl.system.set_cross_core(pipe=FIX, event_id=0)
    with pl.section_vector():
        for i in pl.range(0, 4):
            pl.system.wait_cross_core(pipe=MTE3, event_id=0)
            pl.system.set_cross_core(pipe=MTE3, event_id=1)
        if primed == 1:
            pl.system.wait_cross_core(pipe=MTE3, event_id=0)


def test_cores_that_both_wait_first() -> None:
    (stuck,) = of_kind(check(both_wait_first, x64(), 0), "deadlock")
    assert "wait for each other in a circle" in stuck.message
    assert stuck.help is not None
    assert stuck.help.count("the set_cross_core of line") == 2
    assert "or once more before the loop" in stuck.help


def test_cores_of_which_one_signals_first() -> None:
    silent(check(both_wait_first, x64(), 1))


@pl.jit(auto_mutex=False)
def lock_around_a_wait(x: X, early: pl.DT_INT32):
    with pl.section_vector():
        if early == 1:
            pl.system.sync_src(set_pipe=MTE2, wait_pipe=V, event_id=0)
        pl.system.mutex_lock(pipe=V, mutex_id=1)
        pl.system.sync_dst(set_pipe=MTE2, wait_pipe=V, event_id=0)
        pl.system.mutex_unlock(pipe=V, mutex_id=1)
        pl.system.mutex_lock(pipe=MTE2, mutex_id=1)
        if early == 0:
            pl.system.sync_src(set_pipe=MTE2, wait_pipe=V, event_id=0)
        pl.system.mutex_unlock(pipe=MTE2, mutex_id=1)


def test_a_signal_behind_a_lock_that_its_waiter_holds() -> None:
    (stuck,) = of_kind(check(lock_around_a_wait, x64(), 0), "deadlock")
    lines = {s.label.split()[0]: s.line for s in stuck.spans}
    assert stuck.help == f"signal first: the sync_src of line {lines['MTE2'] + 2} before line {lines['MTE2']}"
    silent(check(lock_around_a_wait, x64(), 1))


@pl.jit(auto_mutex=False)
def scalar_waits_for_itself(x: X, first: pl.DT_INT32):
    with pl.section_vector():
        if first == 1:
            pl.system.sync_src(set_pipe=MTE2, wait_pipe=S, event_id=0)
        pl.system.sync_dst(set_pipe=MTE2, wait_pipe=S, event_id=0)
        if first == 0:
            pl.system.sync_src(set_pipe=MTE2, wait_pipe=S, event_id=0)


def test_the_scalar_unit_never_reaches_the_set() -> None:
    (stuck,) = of_kind(check(scalar_waits_for_itself, x64(), 0), "deadlock")
    assert "which nobody sets before it" in stuck.message
    assert stuck.help is not None
    assert stuck.help.startswith("put the sync_src of line")
    silent(check(scalar_waits_for_itself, x64(), 1))


@pl.jit(auto_mutex=False)
def two_meetings(x: X, alike: pl.DT_INT32):
    with pl.section_vector():
        b = pl.get_block_idx()
        if (b > 0) and (alike == 0):
            pl.system.set_cross_core(pipe=V, event_id=3, sync_mode=pl.CrossCoreSyncMode.INTER_BLOCK)
            pl.system.wait_cross_core(pipe=V, event_id=3, sync_mode=pl.CrossCoreSyncMode.INTER_BLOCK)
            pl.system.sync_all(core_type=AIV)
        else:
            pl.system.sync_all(core_type=AIV)
            pl.system.set_cross_core(pipe=V, event_id=3, sync_mode=pl.CrossCoreSyncMode.INTER_BLOCK)
            pl.system.wait_cross_core(pipe=V, event_id=3, sync_mode=pl.CrossCoreSyncMode.INTER_BLOCK)


def test_meetings_in_another_order() -> None:
    (stuck,) = of_kind(check(two_meetings, x64(), 0, blocks=2), "deadlock")
    assert stuck.help is not None
    assert "in the same order" in stuck.help
    silent(check(two_meetings, x64(), 1, blocks=2))


@pl.jit(auto_mutex=False)
def ids_of_other_parity(x: X, y: X, alike: pl.DT_INT32):
    with pl.section_vector():
        t = pl.make_tile(rows_of_64(), addr=0)
        for i in pl.range(0, 4):
            pl.load(t, x, [i * 16, 0])
            pl.system.sync_src(set_pipe=MTE2, wait_pipe=MTE3, event_id=i % 2)
            pl.system.sync_dst(set_pipe=MTE2, wait_pipe=MTE3, event_id=(i + 1 - alike) % 2)
            pl.store(y, t, [i * 16, 0])
            pl.system.sync_src(set_pipe=MTE3, wait_pipe=MTE2, event_id=4)
            pl.system.sync_dst(set_pipe=MTE3, wait_pipe=MTE2, event_id=4)


def test_a_circle_names_the_set_that_was_meant() -> None:
    (stuck,) = of_kind(check(ids_of_other_parity, x64(), x64(), 0), "deadlock")
    assert any("the ids differ: 0 and 1" in note for note in stuck.notes)
    assert stuck.help == "name the same set_pipe, wait_pipe and event_id in sync_src and sync_dst"
    silent(check(ids_of_other_parity, x64(), x64(), 1))
