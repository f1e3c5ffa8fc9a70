"""Mistakes beside their mended twins: lost products, scopes of races, tails, small slots, bank conflicts."""

from __future__ import annotations

import numpy as np
import pytest
from checked import check, of_kind, rows_of_64, silent, x64

import pypto_pro.language as pl
from pypto_pro.diag import Diagnostic
from pypto_pro.runtime.checking import Report

F32, F16, I32 = pl.DT_FP32, pl.DT_FP16, pl.DT_INT32
V, S, M, FIX = pl.PipeType.V, pl.PipeType.S, pl.PipeType.M, pl.PipeType.FIX
MTE1, MTE2, MTE3 = pl.PipeType.MTE1, pl.PipeType.MTE2, pl.PipeType.MTE3
MAT, LEFT, RIGHT, ACC = pl.MemorySpace.Mat, pl.MemorySpace.Left, pl.MemorySpace.Right, pl.MemorySpace.Acc
AIV = pl.SyncCoreType.AIV_ONLY
X = pl.Tensor[[64, 64], F32]


# --- products nobody read ---------------------------------------------------------------------------------------------


def group(shape, dtype, space, addr, mutex_id):
    kind = pl.TileType(shape=shape, dtype=dtype, target_memory=space)
    return pl.make_tile_group(type=kind, addrs=addr, mutex_ids=[mutex_id]).current()


@pl.jit
def products(a: pl.Tensor[[16, 128], F16], b: pl.Tensor[[128, 16], F16], c: pl.Tensor[[16, 16], F32],
             adds: pl.DT_INT32, stores: pl.DT_INT32):  # fmt: skip
    with pl.section_cube():
        am = group([16, 64], F16, MAT, 0, 0)
        bm = group([64, 16], F16, MAT, 0x1000, 1)
        left = group([16, 64], F16, LEFT, 0, 2)
        right = group([64, 16], F16, RIGHT, 0, 3)
        acc = group([16, 16], F32, ACC, 0, 4)
        for k in pl.range(0, 128, 64):
            pl.load(am, a, [0, k])
            pl.load(bm, b, [k, 0])
            pl.move(left, am)
            pl.move(right, bm)
            if (k > 0) and (adds == 1):
                pl.matmul_acc(acc, acc, left, right)
            else:
                pl.matmul(acc, left, right)
            if stores == 1:
                pl.store(c, acc, [0, 0])
        if stores == 0:
            pl.store(c, acc, [0, 0])


def check_products(adds: int, stores: int) -> Report:
    a, b = np.ones((16, 128), np.float16), np.ones((128, 16), np.float16)
    return check(products, a, b, np.zeros((16, 16), np.float32), adds, stores)


def test_a_product_that_the_next_one_overwrites() -> None:
    (lost,) = of_kind(check_products(0, 0), "lost_load")
    assert str(lost.severity) == "warning"
    assert "the product of this `matmul` in `acc" in lost.message
    assert "overwritten by `matmul` in the next round" in lost.message


def test_products_that_are_added_or_stored() -> None:
    silent(check_products(1, 0))
    assert not of_kind(check_products(0, 1), "lost_load")


# --- one pair of lines, two scopes ------------------------------------------------------------------------------------


@pl.jit(auto_mutex=False)
def shifted(x: X, y: X, orders: pl.DT_INT32, meets: pl.DT_INT32):
    with pl.section_vector():
        t = pl.make_tile(rows_of_64(), addr=0)
        u = pl.make_tile(rows_of_64(), addr=0x1000)
        b = pl.get_block_idx()
        pl.expands(t, 1.0)
        pl.system.bar_all()
        pl.store(x, t, [16 * b, 0])
        if orders == 1:
            pl.system.bar_all()
        if meets == 1:
            pl.system.sync_all(core_type=AIV)
        pl.load(u, x, [8 * b, 0])
        pl.system.bar_all()
        pl.store(y, u, [16 * b, 0])


def races(orders: int, meets: int) -> list[Diagnostic]:
    report = check(shifted, x64(), x64(), orders, meets, blocks=2)
    return [f for f in report.findings if f.kind == "race"]


def test_a_race_of_one_core_and_one_of_two_blocks_are_two_findings() -> None:
    found = {f.scope: f for f in races(0, 0)}
    assert set(found) == {"one core", "blocks"}
    assert {s.line for s in found["one core"].spans[:2]} == {s.line for s in found["blocks"].spans[:2]}
    assert found["one core"].help is not None
    assert "sync_src(set_pipe=MTE3, wait_pipe=MTE2)" in found["one core"].help
    assert found["blocks"].help is not None
    assert "rendezvous of the blocks" in found["blocks"].help


def test_each_scope_has_its_own_mend() -> None:
    assert [f.scope for f in races(1, 0)] == ["blocks"]
    assert races(1, 1) == []


# --- past the end -----------------------------------------------------------------------------------------------------


@pl.jit
def tail(x: pl.Tensor[[pl.DYNAMIC, 64], F32], y: pl.Tensor[[pl.DYNAMIC, 64], F32], first: pl.DT_INT32,
         count: pl.DT_INT32, narrows: pl.DT_INT32):  # fmt: skip
    with pl.section_vector():
        kind = pl.TileType(shape=[16, 64], dtype=F32, valid_shape=[-1, -1])
        t = pl.make_tile_group(type=kind, addrs=0, mutex_ids=[0]).current()
        for i in pl.range(0, count):
            row = first + i * 16
            if narrows == 1:
                pl.set_validshape(t, [pl.min(16, x.shape[0] - row), 64])
            pl.load(t, x, [row, 0])
            pl.store(y, t, [row, 0])


def past_the_end(rows: int, first: int, count: int, narrows: int = 0) -> Diagnostic | None:
    x, y = np.ones((rows, 64), np.float32), np.zeros((rows, 64), np.float32)
    found = of_kind(check(tail, x, y, first, count, narrows), "out_of_bounds")
    return found[0] if found else None


def test_the_last_step_of_a_loop() -> None:
    found = past_the_end(40, 0, 3)
    assert found is not None
    assert found.help is not None
    assert "only 8 x 64 of 16 x 64 are left" in found.help
    assert any("[32..48, 0..64] of `x`, which is [40, 64]" in note for note in found.notes)
    assert past_the_end(40, 0, 3, 1) is None


@pytest.mark.parametrize(
    ("rows", "first", "count"),
    [(48, 0, 4), (40, 4, 3), (48, 4, 3), (8, 0, 1)],
    ids=["a round too many", "a shifted start", "a shifted start of whole steps", "a tile taller than the tensor"],
)
def test_a_wrong_offset_gets_no_advice_about_the_valid_shape(rows: int, first: int, count: int) -> None:
    found = past_the_end(rows, first, count)
    assert found is not None
    assert found.help is None


# --- overtaking writes of one line ------------------------------------------------------------------------------------


@pl.jit
def one_store(y: X, barred: pl.DT_INT32):
    with pl.section_vector():
        t = pl.make_tile_group(type=rows_of_64(), addrs=0, mutex_ids=[0]).current()
        pl.expands(t, 1.0)
        for i in pl.range(0, 2):
            if barred == 1:
                pl.system.bar_mte3()
            pl.store(y, t, [0, 0])


def test_a_line_that_overtakes_itself() -> None:
    (found,) = of_kind(check(one_store, x64(), 0), "waw_hazard")
    assert found.help == f"put pl.system.bar_mte3() before line {found.spans[0].line}, inside the loop"
    silent(check(one_store, x64(), 1))


# --- what addresses depend on -----------------------------------------------------------------------------------------


@pl.jit
def scales_by_data(x: X, y: X, factor: pl.DT_FP32):
    with pl.section_vector():
        t = pl.make_tile_group(type=rows_of_64(), addrs=0, mutex_ids=[0]).current()
        pl.load(t, x, [0, 0])
        s = t[0, 0]
        pl.mul(t, t, s)
        pl.add(t, t, factor)
        pl.store(y, t, [0, 0])


@pl.jit
def places_by_data(x: X, y: X, n: pl.Tensor[[1, 16], I32]):
    with pl.section_vector():
        t = pl.make_tile_group(type=rows_of_64(), addrs=0, mutex_ids=[0]).current()
        row = n[0, 0] * 16
        pl.load(t, x, [row, 0])
        pl.store(y, t, [0, 0])


def test_only_offsets_from_memory_are_said_to_move_addresses() -> None:
    plain = check(scales_by_data, x64(), x64(), 2.0).looked_at["notes"]
    assert not any("addresses depend" in note for note in plain)
    moved = check(places_by_data, x64(), x64(), np.zeros((1, 16), np.int32)).looked_at["notes"]
    assert any("addresses depend on data read at line" in note for note in moved)


# --- placement --------------------------------------------------------------------------------------------------------


def with_size(size: int) -> Report:
    @pl.jit
    def scratch(x: X, y: X):
        with pl.section_vector():
            t = pl.make_tile_group(type=rows_of_64(), addrs=0, mutex_ids=[0]).current()
            u = pl.make_tile(rows_of_64(), addr=0x1000, size=size)
            pl.load(t, x, [0, 0])
            pl.mul(u, t, 2.0)
            pl.add(t, u, 1.0)
            pl.store(y, t, [0, 0])

    return check(scratch, x64(), x64())


def test_a_size_below_what_the_shape_needs() -> None:
    (found,) = of_kind(with_size(0x800), "short_slot")
    assert (found.code, str(found.severity)) == ("M106", "warning")
    assert found.help == "leave `size` out, or give size=4096"
    silent(with_size(0x1000))


def with_rows(rows: int) -> Report:
    @pl.jit
    def short(x: X, y: pl.Tensor[[16, 64], F16]):
        with pl.section_vector():
            nd = pl.TileType(shape=[rows, 64], dtype=F16)
            nz = pl.TileType(shape=[rows, 64], dtype=F16, layout=pl.NZ)
            t = pl.make_tile_group(type=nd, addrs=0, mutex_ids=[0]).current()
            u = pl.make_tile_group(type=nz, addrs=0x4000, mutex_ids=[1]).current()
            pl.expands(t, 1.0)
            pl.move(u, t)
            pl.store(y, t, [0, 0])

    return check(short, x64(), np.zeros((16, 64), np.float16))


def test_a_group_whose_accesses_reach_past_its_slots() -> None:
    (found,) = of_kind(with_rows(8), "short_slot")
    assert found.help == "declare shape [16, 64]"
    silent(with_rows(16))


@pl.jit
def loads_beside_moves(a: pl.Tensor[[64, 128], F16], c: pl.Tensor[[64, 64], F32], late: pl.DT_INT32):
    with pl.section_cube():
        mat = pl.TileType(shape=[64, 64], dtype=F16, target_memory=MAT)
        xs = pl.make_tile_group(type=mat, addrs=0, mutex_ids=[0, 1])
        ys = pl.make_tile_group(type=mat, addrs=0x8000, mutex_ids=[5, 6])
        left = pl.make_tile(pl.TileType(shape=[64, 64], dtype=F16, target_memory=LEFT), addr=0)
        right = pl.make_tile(pl.TileType(shape=[64, 64], dtype=F16, target_memory=RIGHT), addr=0)
        acc = pl.make_tile(pl.TileType(shape=[64, 64], dtype=F32, target_memory=ACC), addr=0)
        for k in pl.range(0, 128, 64):
            p = xs.next()
            q = ys.next()
            pl.load(p, a, [0, k])
            pl.load(q, a, [0, k])
            pl.move(left, p)
            pl.move(right, q)
            pl.matmul(acc, left, right)
            pl.store(c, acc, [0, 0])
        if late == 1:
            pl.load(xs[0], a, [0, 0])


def test_bank_conflicts_are_one_note_a_pair_and_come_last() -> None:
    found = check(loads_beside_moves, np.ones((64, 128), np.float16), x64(), 0).findings
    notes = [f for f in found if f.code == "M105"]
    pairs = [frozenset(s.line for s in f.spans) for f in notes]
    assert notes
    assert len(set(pairs)) == len(pairs)
    assert any("pairs of accesses to these two tiles meet like this" in n for f in notes for n in f.notes)
    ranks = [f.severity.rank for f in found]
    assert ranks == sorted(ranks)
    assert ranks[0] == 0


# --- outputs written in a `while` loop --------------------------------------------------------------------------------


@pl.jit
def while_tails(x: pl.Tensor[[4, 160], F32], y: pl.Tensor[[4, 160], F32], widens: pl.DT_INT32):
    with pl.section_vector():
        kind = pl.TileType(shape=[1, 64], dtype=F32, valid_shape=[-1, -1])
        t = pl.make_tile_group(type=kind, addrs=0, mutex_ids=[0]).current()
        r = 0
        c = 0
        while r < 4:
            if c + 64 > 160:
                pl.set_validshape(t, [1, 160 - c])
            elif widens == 1:
                pl.set_validshape(t, [1, 64])
            pl.load(t, x, [r, c])
            pl.exp(t, t)
            pl.store(y, t, [r, c])
            c += 64
            if c >= 160:
                c = 0
                r += 1


def test_a_valid_shape_left_over_from_an_earlier_round_of_a_while_loop() -> None:
    x = np.ones((4, 160), np.float32)
    (found,) = of_kind(check(while_tails, x, np.zeros_like(x), 0), "unwritten_output")
    assert found.message.startswith("192 elements of `y` are never written")
    line = found.spans[0].line
    assert any(s.label.startswith("set here in round 2 of the while loop at line") for s in found.spans), found.spans
    assert line > found.spans[1].line
    silent(check(while_tails, x, np.zeros_like(x), 1))


# --- windows that leave the rows of a tensor --------------------------------------------------------------------------


@pl.jit
def columns(x: pl.Tensor[[32, 96], F32], y: pl.Tensor[[32, 96], F32], narrows: pl.DT_INT32):
    with pl.section_vector():
        kind = pl.TileType(shape=[16, 64], dtype=F32, valid_shape=[-1, -1])
        t = pl.make_tile_group(type=kind, addrs=0, mutex_ids=[0]).current()
        for c in pl.range(0, 96, 64):
            if (narrows == 1) and (c > 0):
                pl.set_validshape(t, [16, 32])
            pl.load(t, x, [0, c])
            pl.store(y, t, [0, c])


def test_a_transfer_that_runs_into_the_next_row() -> None:
    x = np.ones((32, 96), np.float32)
    found = of_kind(check(columns, x, np.zeros_like(x), 0), "out_of_bounds")
    assert [str(f.severity) for f in found] == ["warning", "note"]
    assert found[0].message.startswith("`store` of c=64 writes 64..128 along axis 1 of `y`, which has 96")
    assert found[0].help is not None
    assert "only 16 x 32 of 16 x 64 are left" in found[0].help
    silent(check(columns, x, np.zeros_like(x), 1))


# --- what follows from what -------------------------------------------------------------------------------------------


@pl.jit(auto_mutex=False)
def one_flag_for_two(x: X, y: X, apart: pl.DT_INT32):
    with pl.section_vector():
        a = pl.make_tile(rows_of_64(), addr=0)
        b = pl.make_tile(rows_of_64(), addr=0x1000)
        pl.load(a, x, [0, 0])
        pl.system.sync_src(set_pipe=MTE2, wait_pipe=V, event_id=0)
        pl.load(b, x, [16, 0])
        pl.system.sync_src(set_pipe=MTE2, wait_pipe=V, event_id=apart)
        pl.system.sync_dst(set_pipe=MTE2, wait_pipe=V, event_id=0)
        if apart == 1:
            pl.system.sync_dst(set_pipe=MTE2, wait_pipe=V, event_id=1)
        pl.add(a, a, b)
        pl.system.sync_src(set_pipe=V, wait_pipe=MTE3, event_id=0)
        pl.system.sync_dst(set_pipe=V, wait_pipe=MTE3, event_id=0)
        pl.store(y, a, [0, 0])


def test_a_flag_set_twice_explains_that_it_is_left_over() -> None:
    report = check(one_flag_for_two, x64(), x64(), 0)
    (double,) = of_kind(report, "set_of_set_flag")
    assert any("is still set at the end" in text for text in double.consequences)
    assert of_kind(report, "leftover_flag") == []
    silent(check(one_flag_for_two, x64(), x64(), 1))


@pl.jit(auto_mutex=False)
def one_workspace(ws: X, y: pl.Tensor[[4, 2, 8, 64], F32], back: pl.DT_INT32):
    with pl.section_cube():
        acc = pl.make_tile(pl.TileType(shape=[16, 64], dtype=F32, target_memory=ACC), addr=0)
        for i in pl.range(0, 4):
            if back == 1:
                pl.system.wait_cross_core(pipe=FIX, event_id=1)
            pl.store(ws, acc, [0, 0])
            pl.system.set_cross_core(pipe=FIX, event_id=0)
        if back == 1:
            pl.system.wait_cross_core(pipe=FIX, event_id=1)
    with pl.section_vector():
        t = pl.make_tile(pl.TileType(shape=[8, 64], dtype=F32), addr=0)
        s = pl.get_subblock_idx()
        if back == 1:
            pl.system.set_cross_core(pipe=MTE2, event_id=1)
        for i in pl.range(0, 4):
            pl.system.wait_cross_core(pipe=MTE2, event_id=0)
            pl.load(t, ws, [s * 8, 0])
            pl.system.set_cross_core(pipe=MTE2, event_id=1 + 2 * (1 - back))
            pl.system.sync_src(set_pipe=MTE2, wait_pipe=MTE3, event_id=0)
            pl.system.sync_dst(set_pipe=MTE2, wait_pipe=MTE3, event_id=0)
            pl.store(y, t, [i, s, 0, 0])
            pl.system.sync_src(set_pipe=MTE3, wait_pipe=MTE2, event_id=0)
            pl.system.sync_dst(set_pipe=MTE3, wait_pipe=MTE2, event_id=0)


def test_a_workspace_without_the_way_back() -> None:
    y = np.zeros((4, 2, 8, 64), np.float32)
    report = check(one_workspace, x64(), y, 0)
    (found,) = of_kind(report, "race")
    assert found.help is not None
    assert "one more set_cross_core before the loop" in found.help
    assert of_kind(report, "waw_hazard") == []
    mended = check(one_workspace, x64(), y, 1)
    assert [f.kind for f in mended.findings if str(f.severity) != "note"] == ["uninitialised_read"], str(mended)
