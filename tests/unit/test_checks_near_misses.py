"""What a report says beside the mistake: the signal that was meant, where credits came from, whose work it is."""

from __future__ import annotations

from typing import Any

import numpy as np

import pypto_pro
import pypto_pro.language as pl
from pypto_pro.diag import Diagnostic
from pypto_pro.runtime.checking import Report

F32 = pl.DT_FP32
V, S, FIX = pl.PipeType.V, pl.PipeType.S, pl.PipeType.FIX
MTE2, MTE3 = pl.PipeType.MTE2, pl.PipeType.MTE3
BLOCKS, PAIR = pl.CrossCoreSyncMode.INTER_BLOCK, pl.CrossCoreSyncMode.INTER_SUBBLOCK
X = pl.Tensor[[64, 64], F32]


def check(kernel: Any, ok: int, blocks: int = 1) -> Report:
    x, y = np.ones((64, 64), np.float32), np.zeros((64, 64), np.float32)
    return pypto_pro.check(kernel[None, blocks], x, y, ok)


def only(report: Report, kind: str) -> Diagnostic:
    (found,) = [f for f in report.findings if f.kind == kind]
    return found


def rows():
    return pl.TileType(shape=[16, 64], dtype=F32)


@pl.jit
def other_half(x: X, y: X, ok: pl.DT_INT32):
    with pl.section_cube():
        pass
    with pl.section_vector():
        t = pl.make_tile_group(type=rows(), addrs=0, mutex_ids=[0]).current()
        s = pl.get_subblock_idx()
        pl.expands(t, 1.0)
        pl.store(x, t, [s * 16, 0])
        if ok == 1:
            pl.system.set_cross_core(pipe=MTE3, event_id=0, sync_mode=PAIR)
            pl.system.wait_cross_core(pipe=MTE2, event_id=0, sync_mode=PAIR)
        pl.load(t, x, [(1 - s) * 16, 0])
        pl.store(y, t, [s * 16, 0])


def test_the_other_vector_core_s_rows_are_no_work_in_place() -> None:
    race = only(check(other_half, 0), "race")
    assert str(race.severity) == "error"
    assert race.help is not None
    assert "a rendezvous of the two vector cores (INTER_SUBBLOCK set on MTE3, wait on MTE2)" in race.help
    assert check(other_half, 1).clean


@pl.jit
def whole_in_place(x: X, y: X, ok: pl.DT_INT32):
    with pl.section_cube():
        pass
    with pl.section_vector():
        t = pl.make_tile_group(type=rows(), addrs=0, mutex_ids=[0]).current()
        row = pl.get_subblock_idx() * 16 * ok
        pl.load(t, x, [row, 0])
        pl.add(t, t, 1.0)
        pl.store(x, t, [row, 0])


def test_both_vector_cores_in_place_are_a_warning() -> None:
    assert {str(f.severity) for f in check(whole_in_place, 0).findings if f.kind == "race"} == {"warning"}
    assert check(whole_in_place, 1).clean


@pl.jit(auto_mutex=False)
def arrives_on_a_pipe(x: X, y: X, ok: pl.DT_INT32):
    with pl.section_vector():
        t = pl.make_tile(rows(), addr=0)
        b = pl.get_block_idx()
        pl.expands(t, 1.0)
        pl.system.bar_all()
        pl.store(x, t, [b * 16, 0])
        if ok == 1:
            pl.system.set_cross_core(pipe=MTE3, event_id=2, sync_mode=BLOCKS)
        else:
            pl.system.set_cross_core(pipe=V, event_id=2, sync_mode=BLOCKS)
        pl.system.wait_cross_core(pipe=MTE2, event_id=2, sync_mode=BLOCKS)
        pl.system.sync_src(set_pipe=MTE3, wait_pipe=MTE2, event_id=0)
        pl.system.sync_dst(set_pipe=MTE3, wait_pipe=MTE2, event_id=0)
        pl.load(t, x, [(3 - b) * 16, 0])
        pl.system.sync_src(set_pipe=MTE2, wait_pipe=MTE3, event_id=0)
        pl.system.sync_dst(set_pipe=MTE2, wait_pipe=MTE3, event_id=0)
        pl.store(y, t, [b * 16, 0])


def test_an_arrival_on_a_pipe_that_did_not_wait() -> None:
    race = only(check(arrives_on_a_pipe, 0, blocks=4), "race")
    assert any("signals on V, which did not wait for MTE3" in note for note in race.notes)
    assert check(arrives_on_a_pipe, 1, blocks=4).clean


@pl.jit(auto_mutex=False)
def signals_once(x: X, y: X, ok: pl.DT_INT32):
    with pl.section_cube():
        for i in pl.range(0, 4):
            pl.system.wait_cross_core(pipe=FIX, event_id=2)
    with pl.section_vector():
        for i in pl.range(0, 4):
            if (ok == 1) or (i == 3):
                pl.system.set_cross_core(pipe=V, event_id=2)


def test_a_wait_names_where_its_credits_came_from() -> None:
    stuck = only(check(signals_once, 0), "deadlock")
    assert any(s.label == "sent here once by AIV0" for s in stuck.spans)
    assert check(signals_once, 1).clean


@pl.jit(auto_mutex=False)
def unlocks_in_a_branch(x: X, y: X, ok: pl.DT_INT32):
    with pl.section_vector():
        t = pl.make_tile(rows(), addr=0)
        pl.system.mutex_lock(pipe=MTE2, mutex_id=0)
        pl.load(t, x, [0, 0])
        if ok > 0:
            pl.system.mutex_unlock(pipe=MTE2, mutex_id=0)
        pl.system.mutex_lock(pipe=MTE3, mutex_id=0)
        pl.store(y, t, [0, 0])
        pl.system.mutex_unlock(pipe=MTE3, mutex_id=0)


def test_a_mutex_that_one_path_keeps() -> None:
    stuck = only(check(unlocks_in_a_branch, 0), "deadlock")
    assert stuck.help == f"unlock mutex 0 on MTE2 before line {stuck.spans[0].line}, on every path that leads there"
    assert check(unlocks_in_a_branch, 1).clean


@pl.jit
def stored_and_loaded(x: X, y: X, ok: pl.DT_INT32):
    with pl.section_vector():
        t = pl.make_tile_group(type=rows(), addrs=0, mutex_ids=[0]).current()
        u = pl.make_tile_group(type=rows(), addrs=0x1000, mutex_ids=[1]).current()
        pl.expands(t, 1.0)
        pl.store(x, t, [0, 0])
        if ok == 1:
            pl.system.bar_all()
        pl.load(u, x, [0, 0])
        pl.store(y, u, [0, 0])


def test_tiles_in_groups_do_not_order_bytes_of_a_tensor() -> None:
    race = only(check(stored_and_loaded, 0), "race")
    assert race.help is not None
    assert "pl.system.bar_all()" in race.help
    assert "mutex" not in race.help
    assert check(stored_and_loaded, 1).clean
