"""Mistakes whose cause lies elsewhere than where they show: what a report names, and that the mended twin is clean."""

from __future__ import annotations

from typing import Any

import numpy as np

import pypto_pro
import pypto_pro.language as pl
from pypto_pro.diag import Diagnostic
from pypto_pro.runtime.checking import Report

F16, F32, I32 = pl.DT_FP16, pl.DT_FP32, pl.DT_INT32
MAT, LEFT, RIGHT, ACC = pl.MemorySpace.Mat, pl.MemorySpace.Left, pl.MemorySpace.Right, pl.MemorySpace.Acc
S, V, M, FIX = pl.PipeType.S, pl.PipeType.V, pl.PipeType.M, pl.PipeType.FIX
MTE1, MTE2, MTE3 = pl.PipeType.MTE1, pl.PipeType.MTE2, pl.PipeType.MTE3
FINAL, PARTIAL = pl.AccPhase.Final, pl.AccPhase.Partial
Y = pl.Tensor[[5, 2, 16, 64], F32]
A, C = pl.Tensor[[64, 64], F16], pl.Tensor[[2, 64, 64], F32]


def only(report: Report, kind: str) -> Diagnostic:
    (found,) = [f for f in report.findings if f.kind == kind]
    return found


def line_with(kernel: Any, text: str) -> int:
    lines = open(__file__, encoding="utf-8").read().splitlines()
    start = next(i for i, line in enumerate(lines) if line == f"def {kernel.__name__}(")
    return next(i for i, line in enumerate(lines) if i > start and text in line) + 1


# --- blocks counted by get_block_idx() in vector code -----------------------------------------------------------------


@pl.jit(auto_mutex=False)
def flattened(
    y: Y, ok: pl.DT_INT32
):
    b = pl.get_block_idx()
    with pl.section_cube():
        for w in pl.range(b, y.shape[0], pl.get_block_num()):
            pl.system.set_cross_core(pipe=S, event_id=0)
            pl.system.wait_cross_core(pipe=S, event_id=1)
    with pl.section_vector():
        t = pl.make_tile(pl.TileType(shape=[16, 64], dtype=F32), addr=0)
        v = b
        if ok == 1:
            v = b // pl.get_subblock_num()
        for w in pl.range(v, y.shape[0], pl.get_block_num()):  # the vector cores
            pl.system.wait_cross_core(pipe=V, event_id=0)
            pl.expands(t, 1.0 * w)
            pl.system.bar_all()
            pl.store(y, t, [w, pl.get_subblock_idx(), 0, 0])
            pl.system.bar_all()
            pl.system.set_cross_core(pipe=MTE3, event_id=1)


def test_the_index_of_a_vector_core_taken_for_that_of_its_block() -> None:
    report = pypto_pro.check(flattened[None, 2], np.zeros((5, 2, 16, 64), np.float32), 0)
    stuck, twice = only(report, "deadlock"), only(report, "identical_write")
    line = line_with(flattened, "# the vector cores")
    assert any(f"the loop of line {line} runs different rounds on the two vector cores" in n for n in stuck.notes)
    for found in (stuck, twice):
        assert any("pl.get_block_idx() counts two cores a block" in n for n in found.notes)
        assert found.help is not None
        assert f"the loop of line {line}" in found.help
        assert "pl.get_block_idx() // pl.get_subblock_num()" in found.help
    assert pypto_pro.check(flattened[None, 2], np.zeros((5, 2, 16, 64), np.float32), 1).clean


@pl.jit(auto_mutex=False)
def divided_and_short(y: Y, ok: pl.DT_INT32):
    b = pl.get_block_idx() // pl.get_subblock_num()
    with pl.section_cube():
        for w in pl.range(b, y.shape[0], pl.get_block_num()):
            pl.system.wait_cross_core(pipe=S, event_id=1)
    with pl.section_vector():
        for w in pl.range(b + pl.get_subblock_idx() * (1 - ok), y.shape[0], pl.get_block_num()):
            pl.system.set_cross_core(pipe=V, event_id=1)


def test_a_divided_index_is_not_blamed() -> None:
    y = np.zeros((5, 2, 16, 64), np.float32)
    stuck = only(pypto_pro.check(divided_and_short[None, 1], y, 0), "deadlock")
    assert stuck.help == "let AIV1 signal as often, or use UNICAST_BLOCK on both sides"
    assert not any("get_block_idx" in n for n in stuck.notes)
    assert pypto_pro.check(divided_and_short[None, 1], y, 1).clean


@pl.jit(auto_mutex=False)
def races_in_uneven_rounds(
    y: Y, ok: pl.DT_INT32
):
    p = pl.make_tile(pl.TileType(shape=[16, 64], dtype=F32), addr=0)
    b = pl.get_block_idx()
    with pl.section_cube():
        c = pl.make_tile(pl.TileType(shape=[32, 64], dtype=F32, target_memory=ACC), addr=0)
        for w in pl.range(b, y.shape[0], pl.get_block_num()):
            pl.move(p, c, acc_to_vec_mode=pl.AccToVecMode.DualModeSplitM)
            pl.system.set_cross_core(pipe=FIX, event_id=0)
    with pl.section_vector():
        v = b
        if ok == 1:
            v = b // pl.get_subblock_num()
        for w in pl.range(v, y.shape[0], pl.get_block_num()):
            pl.system.wait_cross_core(pipe=MTE3, event_id=0)
            pl.store(y, p, [w, pl.get_subblock_idx(), 0, 0])
            pl.system.set_cross_core(pipe=MTE3, event_id=1)


def test_a_race_of_cores_in_uneven_rounds() -> None:
    def races(ok: int) -> list[Diagnostic]:
        report = pypto_pro.check(races_in_uneven_rounds[None, 1], np.zeros((5, 2, 16, 64), np.float32), ok)
        return [f for f in report.findings if f.kind == "race"]

    uneven, even = races(0), races(1)
    assert uneven
    assert even
    assert all(any("runs different rounds on the two vector cores" in n for n in f.notes) for f in uneven)
    assert not any("get_block_idx" in n for f in even for n in f.notes)


# --- a flag that is set before the loop only --------------------------------------------------------------------------


@pl.jit(auto_mutex=False)
def set_before_the_loop(
    x: pl.Tensor[[64, 64], F32], y: pl.Tensor[[64, 64], F32], ok: pl.DT_INT32
):
    with pl.section_vector():
        t = pl.make_tile(pl.TileType(shape=[16, 64], dtype=F32), addr=0)
        u = pl.make_tile(pl.TileType(shape=[16, 64], dtype=F32), addr=0x1000)
        pl.system.sync_src(set_pipe=V, wait_pipe=MTE2, event_id=0)  # the first round
        pl.system.sync_src(set_pipe=MTE3, wait_pipe=V, event_id=0)
        for r in pl.range(0, 64, 16):
            pl.system.sync_dst(set_pipe=V, wait_pipe=MTE2, event_id=0)
            pl.load(t, x, [r, 0])
            pl.system.sync_src(set_pipe=MTE2, wait_pipe=V, event_id=0)
            pl.system.sync_dst(set_pipe=MTE2, wait_pipe=V, event_id=0)
            pl.system.sync_dst(set_pipe=MTE3, wait_pipe=V, event_id=0)
            pl.exp(u, t)
            if ok == 1:
                pl.system.sync_src(set_pipe=V, wait_pipe=MTE2, event_id=0)
            pl.system.sync_src(set_pipe=V, wait_pipe=MTE3, event_id=0)
            pl.system.sync_dst(set_pipe=V, wait_pipe=MTE3, event_id=0)
            pl.store(y, u, [r, 0])
            pl.system.sync_src(set_pipe=MTE3, wait_pipe=V, event_id=0)
        pl.system.sync_dst(set_pipe=V, wait_pipe=MTE2, event_id=0)
        pl.system.sync_dst(set_pipe=MTE3, wait_pipe=V, event_id=0)


def test_a_set_missing_in_the_loop() -> None:
    x = np.ones((64, 64), np.float32)
    stuck = only(pypto_pro.check(set_before_the_loop, x, np.zeros_like(x), 0), "deadlock")
    line = line_with(set_before_the_loop, "# the first round")
    assert stuck.notes[0] == (
        f"flag V -> MTE2 0 is set once, last at line {line}, and waited for 2 times: a set is missing in the loop"
    )
    assert stuck.help is not None
    assert stuck.help.startswith("sync_src(set_pipe=V, wait_pipe=MTE2, event_id=0) in the loop")
    assert not any("MTE3" in note for note in stuck.notes)
    assert pypto_pro.check(set_before_the_loop, x, np.zeros_like(x), 1).clean


@pl.jit(auto_mutex=False)
def credit_before_the_loop(x: pl.Tensor[[64, 64], F32], ok: pl.DT_INT32):
    with pl.section_cube():
        for w in pl.range(3):
            pl.system.wait_cross_core(pipe=FIX, event_id=1)
            pl.system.set_cross_core(pipe=FIX, event_id=0)
        if ok == 1:
            pl.system.wait_cross_core(pipe=FIX, event_id=1)
    with pl.section_vector():
        pl.system.set_cross_core(pipe=V, event_id=1)
        for w in pl.range(3):
            pl.system.wait_cross_core(pipe=V, event_id=0)
            if ok == 1:
                pl.system.set_cross_core(pipe=V, event_id=1)


def test_a_credit_missing_in_the_loop() -> None:
    x = np.zeros((64, 64), np.float32)
    stuck = only(pypto_pro.check(credit_before_the_loop, x, 0), "deadlock")
    assert stuck.notes[0].startswith("it waits in every round of its loop, and no set that reaches it stands in a loop")
    assert stuck.help is not None
    assert stuck.help.startswith("set_cross_core(event_id=1) in the loop of the sender as well")
    assert pypto_pro.check(credit_before_the_loop, x, 1).clean


@pl.jit(auto_mutex=False)
def wrong_pipe_named(x: pl.Tensor[[64, 64], F32], ok: pl.DT_INT32):
    with pl.section_vector():
        if ok == 1:
            pl.system.sync_src(set_pipe=V, wait_pipe=MTE3, event_id=0)
        else:
            pl.system.sync_src(set_pipe=MTE2, wait_pipe=MTE3, event_id=0)
        pl.system.sync_dst(set_pipe=V, wait_pipe=MTE3, event_id=0)


def test_a_set_on_other_pipes_that_nothing_waits_for() -> None:
    x = np.zeros((64, 64), np.float32)
    stuck = only(pypto_pro.check(wrong_pipe_named, x, 0), "deadlock")
    assert "the pipes differ: MTE2 -> MTE3 and V -> MTE3" in stuck.notes[0]
    assert pypto_pro.check(wrong_pipe_named, x, 1).clean


# --- sums of products -------------------------------------------------------------------------------------------------


def group(shape, dtype, space, i):
    kind = pl.TileType(shape=shape, dtype=dtype, target_memory=space)
    return pl.make_tile_group(type=kind, addrs=0, mutex_ids=[i]).current()


@pl.jit
def phases(
    a: A, y: C, ok: pl.DT_INT32
):
    with pl.section_cube():
        am, al = group([64, 64], F16, MAT, 0), group([64, 64], F16, LEFT, 1)
        ar, c = group([64, 64], F16, RIGHT, 2), group([64, 64], F32, ACC, 3)
        pl.load(am, a, [0, 0])
        pl.move(al, am)
        pl.move(ar, am)
        for i in pl.range(2):
            pl.matmul(c, al, ar, phase=PARTIAL)
            pl.matmul_acc(c, c, al, ar, phase=FINAL)
            if ok == 1:
                pl.store(y, c, [i, 0, 0], phase=pl.STPhase.Final)
            else:
                pl.store(y, c, [i, 0, 0])  # no phase


def products(kernel: Any, ok: int) -> Report:
    return pypto_pro.check(kernel, np.ones((64, 64), np.float16), np.zeros((2, 64, 64), np.float32), ok)


def test_a_store_without_the_phase_of_its_sum() -> None:
    (race,) = [f for f in products(phases, 0).findings if str(f.severity) == "error"]
    assert race.kind == "race"
    assert race.help is not None
    assert race.help.startswith(f"phase=pl.STPhase.Final on the `store` of line {line_with(phases, '# no phase')}")
    assert any("waits for unit flag" in text for text in race.consequences)
    assert products(phases, 1).clean


@pl.jit
def never_final(a: A, y: C, ok: pl.DT_INT32):
    with pl.section_cube():
        am, al = group([64, 64], F16, MAT, 0), group([64, 64], F16, LEFT, 1)
        ar, c = group([64, 64], F16, RIGHT, 2), group([64, 64], F32, ACC, 3)
        pl.load(am, a, [0, 0])
        pl.move(al, am)
        pl.move(ar, am)
        pl.matmul(c, al, ar, phase=PARTIAL)
        if ok == 1:
            pl.matmul_acc(c, c, al, ar, phase=FINAL)
        else:
            pl.matmul_acc(c, c, al, ar, phase=PARTIAL)
        pl.store(y, c, [0, 0, 0], phase=pl.STPhase.Final)


def test_a_sum_without_a_last_product() -> None:
    stuck = only(products(never_final, 0), "deadlock")
    assert stuck.help is not None
    assert stuck.help.startswith("phase=pl.AccPhase.Final on the last product of the sum")
    assert products(never_final, 1).clean


@pl.jit
def begins_anew(a: A, y: C, ok: pl.DT_INT32):
    with pl.section_cube():
        am, al = group([64, 64], F16, MAT, 0), group([64, 64], F16, LEFT, 1)
        ar, c = group([64, 64], F16, RIGHT, 2), group([64, 64], F32, ACC, 3)
        pl.load(am, a, [0, 0])
        pl.move(al, am)
        pl.move(ar, am)
        for k in pl.range(2):
            if (k == 0) or (ok == 0):
                pl.matmul(c, al, ar)
            else:
                pl.matmul_acc(c, c, al, ar)
        pl.store(y, c, [0, 0, 0])


def test_a_sum_that_begins_anew_in_every_round() -> None:
    lost = only(products(begins_anew, 0), "lost_load")
    assert lost.help == "add to it with pl.matmul_acc, or take it out before the next product"
    assert products(begins_anew, 1).clean


@pl.jit
def begins_by_adding(a: A, y: C, ok: pl.DT_INT32):
    with pl.section_cube():
        kind = pl.TileType(shape=[64, 64], dtype=F16, target_memory=LEFT, valid_shape=[-1, -1], compact=1)
        sums = pl.TileType(shape=[64, 64], dtype=F32, target_memory=ACC, valid_shape=[-1, -1], compact=1)
        am, ar = group([64, 64], F16, MAT, 0), group([64, 64], F16, RIGHT, 2)
        al = pl.make_tile_group(type=kind, addrs=0, mutex_ids=[1]).current()
        c = pl.make_tile_group(type=sums, addrs=0, mutex_ids=[3]).current()
        pl.load(am, a, [0, 0])
        pl.move(ar, am)
        for i in pl.range(2):
            pl.set_validshape(al, [64 - 32 * i, 64])
            pl.set_validshape(c, [64 - 32 * i, 64])
            pl.move(al, am)
            if ok == 1:
                pl.matmul(c, al, ar)
            else:
                pl.matmul_acc(c, c, al, ar)
            pl.store(y, c, [i, 0, 0])


def test_the_pitch_of_a_sum_that_began_with_old_bytes() -> None:
    report = products(begins_by_adding, 0)
    first = only(report, "uninitialised_read")
    assert first.help is not None
    assert "begin the sum with pl.matmul" in first.help
    assert any("with a row pitch of 32" in text for text in first.consequences)
    assert not [f for f in report.findings if f.kind == "stride_mismatch"]
    assert products(begins_by_adding, 1).clean


# --- ids --------------------------------------------------------------------------------------------------------------


@pl.jit(auto_mutex=False)
def one_id_for_two(
    y: pl.Tensor[[64, 64], F16], ok: pl.DT_INT32
):
    p = pl.make_tile(pl.TileType(shape=[64, 64], dtype=F16, target_memory=MAT), addr=0)
    with pl.section_cube():
        q = pl.make_tile(pl.TileType(shape=[64, 64], dtype=F16, target_memory=LEFT), addr=0)
        pl.system.wait_cross_core(pipe=FIX, event_id=1)
        pl.system.wait_cross_core(pipe=MTE1, event_id=1 + ok)
        pl.move(q, p)
        pl.system.wait_cross_core(pipe=FIX, event_id=1)
    with pl.section_vector():
        h = pl.make_tile(pl.TileType(shape=[32, 64], dtype=F16), addr=0x2000)
        z = pl.make_tile(pl.TileType(shape=[32, 64], dtype=F16, layout=pl.NZ), addr=0)
        pl.system.set_cross_core(pipe=V, event_id=1)
        pl.expands(h, 1.0)
        pl.system.set_cross_core(pipe=V, event_id=1)
        pl.move(z, h)
        pl.system.sync_src(set_pipe=V, wait_pipe=MTE3, event_id=0)
        pl.system.sync_dst(set_pipe=V, wait_pipe=MTE3, event_id=0)
        pl.insert(p, z, [pl.get_subblock_idx() * 32, 0])
        pl.system.set_cross_core(pipe=MTE3, event_id=1 + ok)


def test_two_channels_on_one_id() -> None:
    report = pypto_pro.check(one_id_for_two, np.ones((64, 64), np.float16), 0)
    race = only(report, "race")
    assert "is used from several pipes in no fixed order" in str(report)
    assert any(n.startswith("event id 1 serves two channels from AIV0 to AIC: set on V (line") for n in race.notes)
    assert race.help == "give each of the two channels an event id of its own"
    assert pypto_pro.check(one_id_for_two, np.ones((64, 64), np.float16), 1).clean


# --- caches -----------------------------------------------------------------------------------------------------------


@pl.jit
def cleans_too_late(n: pl.Tensor[[2, 16], I32], y: pl.Tensor[[2, 16], I32], ok: pl.DT_INT32):
    with pl.section_vector():
        t = pl.make_tile_group(type=pl.TileType(shape=[1, 16], dtype=I32), addrs=0, mutex_ids=[0]).current()
        b = pl.get_block_idx()
        n[b, 0] = 5
        if ok == 1:
            pl.system.dcci(n)
        pl.system.sync_all(core_type=pl.SyncCoreType.AIV_ONLY)
        pl.system.dcci(n)
        pl.expands(t, n[1 - b, 0])
        pl.store(y, t, [b, 0])


def test_only_the_missing_dcci_is_named() -> None:
    given = np.zeros((2, 16), np.int32), np.zeros((2, 16), np.int32)
    found = only(pypto_pro.check(cleans_too_late[None, 2], *given, 0), "coherence")
    assert found.message.endswith("a dcci between them is missing: none after the write")
    assert pypto_pro.check(cleans_too_late[None, 2], *given, 1).clean
