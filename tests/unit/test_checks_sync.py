"""Ids, meetings, messages and endings that the other tests of the checks leave out."""

from __future__ import annotations

import numpy as np
import pytest
from checked import check

import pypto_pro
import pypto_pro.language as pl
from pypto_pro.runtime.checking import Report

F32, I32 = pl.DT_FP32, pl.DT_INT32
V, S, MTE2, MTE3 = pl.PipeType.V, pl.PipeType.S, pl.PipeType.MTE2, pl.PipeType.MTE3
AIV = pl.SyncCoreType.AIV_ONLY


def kinds(report: Report) -> list[tuple[str, str]]:
    return [(f.kind, str(f.severity)) for f in report.findings]


@pl.jit(auto_mutex=False)
def runtime_ids(n: pl.DT_INT32):
    with pl.section_vector():
        pl.system.mutex_lock(pipe=V, mutex_id=n, mutex_ids=[0, 1])
        pl.system.mutex_unlock(pipe=V, mutex_id=n, mutex_ids=[0, 1])
        pl.system.sync_src(set_pipe=V, wait_pipe=MTE2, event_id=n)
        pl.system.sync_dst(set_pipe=V, wait_pipe=MTE2, event_id=n)


@pytest.mark.parametrize(
    ("number", "found"),
    [(3, []), (9, [("sync_id", "note")]), (20, [("sync_id", "error")]), (40, [("sync_id", "error")] * 2)],
)
def test_ids_out_of_range(number: int, found: list[tuple[str, str]]) -> None:
    assert kinds(check(runtime_ids, number)) == found


@pl.jit(auto_mutex=False)
def signals_nobody(n: pl.DT_INT32):
    with pl.section_vector():
        pl.system.set_cross_core(pipe=S, event_id=n)


def test_a_signal_to_cores_the_kernel_does_not_have() -> None:
    (found,) = check(signals_nobody, 1).findings
    assert found.kind == "mode_mismatch"
    assert "no matrix cores" in found.message


@pl.jit
def soft_meeting(y: pl.Tensor[[64, 64], F32], w: pl.Tensor[[1, 64], I32], meets: pl.DT_INT32):
    with pl.section_vector():
        rows = pl.TileType(shape=[16, 64], dtype=F32)
        g = pl.make_tile_group(type=rows, addrs=0, mutex_ids=[0, 1])
        scratch = pl.make_tile(pl.TileType(shape=[1, 64], dtype=I32), addr=0x8000)
        b = pl.get_block_idx()
        pl.expands(g[0], 1.0)
        pl.store(y, g[0], [b * 16, 0])
        if meets == 1:
            pl.system.sync_all([w, scratch], core_type=AIV, mode=pl.SyncAllMode.SOFT)
        pl.load(g[1], y, [(b + 1) % 4 * 16, 0])
        pl.exp(g[1], g[1])


@pytest.mark.parametrize("schedule", ["in_order", "latest", "random"])
def test_a_meeting_through_a_workspace_orders(schedule: str) -> None:
    for meets in (0, 1):
        arrays = np.zeros((64, 64), np.float32), np.zeros((1, 64), np.int32)
        with pypto_pro.options(schedule=schedule):
            report = check(soft_meeting, *arrays, meets, blocks=4)
        assert report.clean == (meets == 1), str(report)


@pl.jit(auto_mutex=False)
def one_line(n: pl.Tensor[[4, 16], I32], step: pl.DT_INT32):
    with pl.section_vector():
        b = pl.get_block_idx()
        n[b * step, b] = b


def test_scalar_writes_to_one_line() -> None:
    assert kinds(check(one_line, np.zeros((4, 16), np.int32), 0, blocks=2)) == [("race", "error")]
    assert kinds(check(one_line, np.zeros((4, 16), np.int32), 1, blocks=2)) == []


@pl.jit(auto_mutex=False)
def messages(answered: pl.DT_INT32):
    m = pl.struct("Message", a=1, b=2)
    with pl.section_cube():
        pl.ssbuf_store(m, 0)
        pl.system.set_cross_core(pipe=S, event_id=0)
        if answered == 1:
            pl.system.wait_cross_core(pipe=S, event_id=1)
        pl.ssbuf_store(m, 0)
        pl.system.set_cross_core(pipe=S, event_id=0)
    with pl.section_vector():
        pl.system.wait_cross_core(pipe=S, event_id=0)
        pl.ssbuf_load(m, 0)
        if answered == 1:
            pl.system.set_cross_core(pipe=S, event_id=1)
        pl.system.wait_cross_core(pipe=S, event_id=0)
        pl.ssbuf_load(m, 0)


def test_a_second_message_needs_an_answer() -> None:
    assert kinds(check(messages, 1)) == []
    found = check(messages, 0).findings[0]
    assert found.kind == "race"
    assert "`ssbuf_store` of AIC writes" in found.message


@pl.jit
def stops_one_core(n: pl.DT_INT32):
    with pl.section_vector():
        if pl.get_block_idx() == 0:
            pl.trap()
        pl.system.sync_all(core_type=AIV)


def test_a_core_that_never_arrives() -> None:
    (found,) = check(stops_one_core, 0, blocks=2).findings
    assert found.kind == "deadlock"
    assert "AIV, block 0 ended without arriving" in found.message
