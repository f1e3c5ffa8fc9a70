"""Forms of findings besides the one on their page, each with its mended twin: `ok` picks between the two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pypto_pro
import pypto_pro.language as pl
from pypto_pro.language import Vf as vf  # noqa: N813
from pypto_pro.runtime.checking import Report

F32, F16, I32 = pl.DT_FP32, pl.DT_FP16, pl.DT_INT32
V, S, M, FIX = pl.PipeType.V, pl.PipeType.S, pl.PipeType.M, pl.PipeType.FIX
MTE1, MTE2, MTE3 = pl.PipeType.MTE1, pl.PipeType.MTE2, pl.PipeType.MTE3
MAT, LEFT, RIGHT, ACC = pl.MemorySpace.Mat, pl.MemorySpace.Left, pl.MemorySpace.Right, pl.MemorySpace.Acc
AIV = pl.SyncCoreType.AIV_ONLY
BLOCKS, INTRA = pl.CrossCoreSyncMode.INTER_BLOCK, pl.CrossCoreSyncMode.INTRA_BLOCK
UNICAST = pl.CrossCoreSyncMode.UNICAST_BLOCK
X = pl.Tensor[[64, 64], F32]
N = pl.Tensor[[4, 16], I32]

CASES: list[tuple[Any, int, str, str, str]] = []


def case(kind: str, severity: str, says: str, blocks: int = 1) -> Callable[[Any], Any]:
    """A kernel over (x, n, ok): with ok=0 one finding of that kind, severity and wording, with ok=1 a clean report."""

    def note(kernel: Any) -> Any:
        CASES.append((kernel, blocks, kind, severity, says))
        return kernel

    return note


def report_on(kernel: Any, blocks: int, ok: int) -> Report:
    x, n = np.ones((64, 64), np.float32), np.zeros((4, 16), np.int32)
    return pypto_pro.check(kernel[None, blocks], x, n, ok)


def rows():
    return pl.TileType(shape=[16, 64], dtype=F32)


def group(addr, mutex_id):
    return pl.make_tile_group(type=rows(), addrs=addr, mutex_ids=[mutex_id]).current()


# --- what is left at the end ------------------------------------------------------------------------------------------


@case("leftover_flag", "error", "mutex 3 of AIV is still held by V at the end of the kernel")
@pl.jit(auto_mutex=False)
def keeps_a_mutex(x: X, n: N, ok: pl.DT_INT32):
    with pl.section_vector():
        pl.system.mutex_lock(pipe=V, mutex_id=3)
        if ok == 1:
            pl.system.mutex_unlock(pipe=V, mutex_id=3)


@case("leftover_flag", "warning", "cross-core counter 2 of AIV1 ends at 1")
@pl.jit(auto_mutex=False)
def leaves_a_credit(x: X, n: N, ok: pl.DT_INT32):
    with pl.section_cube():
        pl.system.set_cross_core(pipe=FIX, event_id=2)
    with pl.section_vector():
        if (ok == 1) or (pl.get_subblock_idx() == 0):
            pl.system.wait_cross_core(pipe=V, event_id=2)


@case("leftover_flag", "warning", "arrives 1 times more", blocks=2)
@pl.jit(auto_mutex=False)
def arrives_once_more(x: X, n: N, ok: pl.DT_INT32):
    with pl.section_vector():
        pl.system.set_cross_core(pipe=V, event_id=3, sync_mode=BLOCKS)
        pl.system.wait_cross_core(pipe=V, event_id=3, sync_mode=BLOCKS)
        if (ok == 0) and (pl.get_block_idx() == 0):
            pl.system.set_cross_core(pipe=V, event_id=3, sync_mode=BLOCKS)


@case("leftover_flag", "error", "a sum was finished and never taken out")
@pl.jit(auto_mutex=False)
def finishes_a_sum_twice(x: X, n: N, ok: pl.DT_INT32):
    with pl.section_cube():
        left = pl.make_tile(pl.TileType(shape=[16, 64], dtype=F16, target_memory=LEFT), addr=0)
        right = pl.make_tile(pl.TileType(shape=[64, 16], dtype=F16, target_memory=RIGHT), addr=0)
        acc = pl.make_tile(pl.TileType(shape=[16, 16], dtype=F32, target_memory=ACC), addr=0)
        am = pl.make_tile(pl.TileType(shape=[16, 64], dtype=F16, target_memory=MAT), addr=0)
        bm = pl.make_tile(pl.TileType(shape=[64, 16], dtype=F16, target_memory=MAT), addr=0x1000)
        pl.expands(am, 0.0)
        pl.expands(bm, 0.0)
        pl.system.bar_all()
        pl.move(left, am)
        pl.move(right, bm)
        pl.system.bar_all()
        pl.matmul(acc, left, right, phase=pl.AccPhase.Final)
        if ok == 1:
            pl.store(x, acc, [0, 0], phase=pl.STPhase.Final)


# --- mutexes ----------------------------------------------------------------------------------------------------------


@case("mutex", "error", "releases mutex 1 on V, which does not hold it")
@pl.jit(auto_mutex=False)
def unlocks_what_nobody_holds(x: X, n: N, ok: pl.DT_INT32):
    with pl.section_vector():
        if ok == 1:
            pl.system.mutex_lock(pipe=V, mutex_id=1)
        pl.system.mutex_unlock(pipe=V, mutex_id=1)


@case("mutex", "error", "releases mutex 1 on MTE3, which does not hold it")
@pl.jit(auto_mutex=False)
def unlocks_on_another_pipe(x: X, n: N, ok: pl.DT_INT32):
    with pl.section_vector():
        pl.system.mutex_lock(pipe=V, mutex_id=1)
        if ok == 0:
            pl.system.mutex_unlock(pipe=MTE3, mutex_id=1)
        pl.system.mutex_unlock(pipe=V, mutex_id=1)


# --- modes and counters -----------------------------------------------------------------------------------------------


@case("mode_mismatch", "warning", "the two modes are the same operation")
@pl.jit(auto_mutex=False)
def waits_in_the_twin_mode(x: X, n: N, ok: pl.DT_INT32):
    with pl.section_cube():
        pl.system.set_cross_core(pipe=FIX, event_id=2)
    with pl.section_vector():
        if ok == 1:
            pl.system.wait_cross_core(pipe=V, event_id=2)
        else:
            pl.system.wait_cross_core(pipe=V, event_id=2, sync_mode=UNICAST)


@case("mode_mismatch", "error", "the wait passes for the wrong reason", blocks=2)
@pl.jit(auto_mutex=False)
def waits_in_a_wrong_mode(x: X, n: N, ok: pl.DT_INT32):
    with pl.section_vector():
        pl.system.set_cross_core(pipe=V, event_id=3, sync_mode=BLOCKS)
        if ok == 1:
            pl.system.wait_cross_core(pipe=V, event_id=3, sync_mode=BLOCKS)
        else:
            pl.system.wait_cross_core(pipe=V, event_id=3)


@case("counter_overflow", "error", "this set would be credit 16")
@pl.jit(auto_mutex=False)
def sends_too_many(x: X, n: N, ok: pl.DT_INT32):
    with pl.section_cube():
        for i in pl.range(0, 16):
            pl.system.set_cross_core(pipe=S, event_id=0)
            if (ok == 1) and (i == 7):
                pl.system.wait_cross_core(pipe=S, event_id=1)
        pl.system.wait_cross_core(pipe=S, event_id=2)
    with pl.section_vector():
        if ok == 0:
            pl.system.wait_cross_core(pipe=S, event_id=3)
        for i in pl.range(0, 16):
            pl.system.wait_cross_core(pipe=S, event_id=0)
            if (ok == 1) and (i == 7):
                pl.system.set_cross_core(pipe=S, event_id=1)
        pl.system.set_cross_core(pipe=S, event_id=2)


@case("counter_overflow", "warning", "up to 20 credits can be outstanding")
@pl.jit(auto_mutex=False)
def runs_ahead(x: X, n: N, ok: pl.DT_INT32):
    with pl.section_cube():
        for i in pl.range(0, 20):
            pl.system.set_cross_core(pipe=S, event_id=0)
            if ok == 1:
                pl.system.wait_cross_core(pipe=S, event_id=1)
    with pl.section_vector():
        for i in pl.range(0, 20):
            pl.system.wait_cross_core(pipe=S, event_id=0)
            if ok == 1:
                pl.system.set_cross_core(pipe=S, event_id=1)


# --- threads, vector functions, the scalar cache ----------------------------------------------------------------------


@pl.simt.function(max_threads=64)
def neighbours(n, ok):
    k = pl.simt.linear_thread_idx()
    n[0, k] = k
    if ok == 0:
        n[1, k] = n[0, (k + 1) % 16]


@case("race", "error", "nothing orders threads")
@pl.jit
def threads(x: X, n: N, ok: pl.DT_INT32):
    with pl.section_vector():
        pl.simt.launch(neighbours, threads=(16,), args=(n, ok))


@pl.vector_function
def through_memory(src, work, dst, ok: pl.DT_INT32):
    on = vf.create_mask(dtype=F32)
    a = vf.load_align(src, 0)
    a = vf.add(a, a, on)
    vf.store_align(work, a, on, 0)
    if ok == 1:
        vf.mem_bar(mode=pl.MemBarMode.VST_VLD)
    else:
        vf.mem_bar(mode=pl.MemBarMode.VLD_VST)
    b = vf.load_align(work, 0)
    vf.store_align(dst, b, on, 0)


@case("mem_bar", "warning", "may overtake the `store_align` before it")
@pl.jit
def barrier_of_another_mode(x: X, n: N, ok: pl.DT_INT32):
    with pl.section_vector():
        a = group(0, 0)
        w = group(0x1000, 1)
        b = group(0x2000, 2)
        pl.load(a, x, [0, 0])
        pl.expands(b, 0.0)
        through_memory(a, w, b, ok)
        pl.store(x, b, [0, 0])


@pl.vector_function
def first_lanes(src, dst, lanes: pl.DT_INT32):
    on = vf.update_mask(lanes, dtype=F32)
    a = vf.load_align(src, 0)
    a = vf.add(a, a, on)
    vf.store_align(dst, a, on, 0)


@case("uninitialised_read", "error", "uses 24 active lanes with bytes that nobody wrote")
@pl.jit
def lanes_nobody_wrote(x: X, n: N, ok: pl.DT_INT32):
    with pl.section_vector():
        kind = pl.TileType(shape=[16, 64], dtype=F32, valid_shape=[-1, -1])
        a = pl.make_tile_group(type=kind, addrs=0, mutex_ids=[0]).current()
        b = group(0x1000, 1)
        pl.set_validshape(a, [16, 40])
        pl.load(a, x, [0, 0])
        pl.expands(b, 0.0)
        first_lanes(a, b, 64 - 24 * ok)
        pl.store(x, b, [0, 0])


@case("uninitialised_read", "warning", "stores rows 0..16 of `a[0]`, which nobody wrote")
@pl.jit
def stores_what_nobody_wrote(x: X, n: N, ok: pl.DT_INT32):
    with pl.section_vector():
        a = group(0, 0)
        if ok == 1:
            pl.expands(a, 0.0)
        pl.store(x, a, [0, 0])


@case("coherence", "error", "none before the read", blocks=2)
@pl.jit
def reads_a_stale_line(x: X, n: N, ok: pl.DT_INT32):
    with pl.section_vector():
        a = group(0, 0)
        b = pl.get_block_idx()
        seen = n[0, 0]
        pl.system.sync_all(core_type=AIV)
        if b == 0:
            n[1, 0] = 2
            pl.system.dcci(n)
        pl.system.sync_all(core_type=AIV)
        if b == 1:
            if ok == 1:
                pl.system.dcci(n)
            pl.expands(a, 1.0 + n[1, 0] + seen)
            pl.store(x, a, [0, 0])


@case("residency", "error", "blocks meet in this INTER_BLOCK rendezvous", blocks=200)
@pl.jit(auto_mutex=False)
def too_many_meet(x: X, n: N, ok: pl.DT_INT32):
    with pl.section_vector():
        if ok == 0:
            pl.system.set_cross_core(pipe=V, event_id=3, sync_mode=BLOCKS)
            pl.system.wait_cross_core(pipe=V, event_id=3, sync_mode=BLOCKS)


@case("reserved_event_id", "error", "which `sync_all` in this kernel uses itself", blocks=2)
@pl.jit(auto_mutex=False)
def uses_a_reserved_id(x: X, n: N, ok: pl.DT_INT32):
    with pl.section_vector():
        pl.system.sync_all(core_type=AIV)
        if ok == 0:
            pl.system.set_cross_core(pipe=V, event_id=14, sync_mode=BLOCKS)
            pl.system.wait_cross_core(pipe=V, event_id=14, sync_mode=BLOCKS)


# --- bytes past the end -----------------------------------------------------------------------------------------------


@case("out_of_bounds", "error", "on the device they overwrite foreign memory")
@pl.jit
def stores_past_the_end(x: X, n: N, ok: pl.DT_INT32):
    with pl.section_vector():
        a = group(0, 0)
        pl.expands(a, 0.0)
        pl.store(x, a, [56 - 8 * ok, 0])


@pl.vector_function
def a_row(src, dst, row: pl.DT_INT32):
    on = vf.create_mask(dtype=F32)
    r = vf.load_align(src, [row, 0])
    vf.store_align(dst, r, on, 0)


@case("out_of_bounds", "error", "past the end of UB")
@pl.jit
def loads_past_the_buffer(x: X, n: N, ok: pl.DT_INT32):
    with pl.section_vector():
        a = group(0, 0)
        b = group(0x1000, 1)
        pl.expands(a, 0.0)
        pl.expands(b, 0.0)
        a_row(a, b, 2000 - 1990 * ok)
        pl.store(x, b, [0, 0])


# --- polling ----------------------------------------------------------------------------------------------------------


@case("livelock", "error", "polls in this loop for ever")
@pl.jit(auto_mutex=False)
def polls(x: X, n: N, ok: pl.DT_INT32):
    with pl.section_vector():
        if ok == 1:
            n[0, 0] = 1
        while n[0, 0] == 0:
            pl.system.dcci(n)


@pytest.mark.parametrize(
    ("kernel", "blocks", "kind", "severity", "says"), CASES, ids=[c[0].source.name for c in CASES]
)
def test_found(kernel: Any, blocks: int, kind: str, severity: str, says: str) -> None:
    report = report_on(kernel, blocks, 0)
    found = [f for f in report.findings if (f.kind, str(f.severity)) == (kind, severity)]
    assert found, str(report)
    assert any(says in text for f in found for text in (f.message, *f.notes)), str(report)
    others = [f for f in report.findings if f.kind != kind and str(f.severity) != "note"]
    assert not others, str(report)


@pytest.mark.parametrize(("kernel", "blocks"), [c[:2] for c in CASES], ids=[c[0].source.name for c in CASES])
def test_mended(kernel: Any, blocks: int) -> None:
    report = report_on(kernel, blocks, 1)
    assert report.clean, str(report)
