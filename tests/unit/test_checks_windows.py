"""Windows that leave their tensor, outputs nobody writes, sums nobody begins: what is told, and the mended twin."""

from __future__ import annotations

import numpy as np

import pypto_pro
import pypto_pro.language as pl

F32 = pl.DT_FP32
ROWS = pl.Tensor[[4, 40, 3, 64], F32]
WIDE = pl.Tensor[[40, 96], F32]


def vec(i):
    return pl.make_tile_group(type=pl.TileType(shape=[8, 64], dtype=F32), addrs=i * 2048, mutex_ids=[i]).current()


@pl.jit
def head_past_its_axis(x: ROWS, y: ROWS, n: pl.DT_INT32):
    with pl.section_vector():
        t = vec(0)
        pl.load(t, x, [0, 0, n, 0], order=[1, 3])
        pl.store(y, t, [0, 0, n, 0], order=[1, 3])


def test_an_index_past_an_axis_that_is_not_walked() -> None:
    x, y = np.zeros((4, 40, 3, 64), np.float32), np.zeros((4, 40, 3, 64), np.float32)
    report = pypto_pro.check(head_past_its_axis, x, y, 3)
    assert [str(f.severity) for f in report.findings] == ["note", "note"]
    assert report.clean
    told = [f.message for f in report.findings]
    assert "reads at index 3 of axis 2 of `x`, which has 3" in told[0]
    assert "writes at index 3 of axis 2 of `y`, which has 3" in told[1]
    assert not pypto_pro.check(head_past_its_axis, x, y, 2).findings


@pl.jit
def head_past_the_end(x: ROWS, y: ROWS, n: pl.DT_INT32):
    with pl.section_vector():
        t = vec(0)
        pl.load(t, x, [3, 32, n, 0], order=[1, 3])
        pl.store(y, t, [3, 32, 0, 0], order=[1, 3])


def test_an_index_past_an_axis_that_leads_out_of_the_tensor() -> None:
    x, y = np.zeros((4, 40, 3, 64), np.float32), np.zeros((4, 40, 3, 64), np.float32)
    (found,) = pypto_pro.check(head_past_the_end, x, y, 3).findings
    assert str(found.severity) == "error"
    assert "it stands at index 3 of axis 2 of `x`, which has 3" in found.notes
    assert pypto_pro.check(head_past_the_end, x, y, 2).clean


@pl.jit
def rows_along_the_wrong_axis(x: ROWS, y: ROWS):
    with pl.section_vector():
        t = vec(0)
        pl.load(t, x, [1, 0, 0, 0], order=[1, 3])
        for n in pl.range(3):
            pl.store(y, t, [1, 0, n, 0], order=[2, 3])


@pl.jit
def rows_along_their_axis(x: ROWS, y: ROWS):
    with pl.section_vector():
        t = vec(0)
        pl.load(t, x, [1, 0, 0, 0], order=[1, 3])
        for n in pl.range(3):
            pl.store(y, t, [1, 0, n, 0], order=[1, 3])


def test_stores_that_overlap_since_their_rows_walk_the_wrong_axis() -> None:
    x, y = np.zeros((4, 40, 3, 64), np.float32), np.zeros((4, 40, 3, 64), np.float32)
    (found,) = pypto_pro.check(rows_along_the_wrong_axis, x, y).findings
    assert found.kind == "out_of_bounds"
    assert found.help == "is the order wrong? With order=[1, 3] the window lies inside"
    assert any("writes `y` while the `store` before it on MTE3" in text for text in found.consequences)
    assert pypto_pro.check(rows_along_their_axis, x, y).clean


@pl.jit
def offsets_exchanged(x: WIDE, y: WIDE, ok: pl.DT_INT32):
    with pl.section_vector():
        kind = pl.TileType(shape=[16, 16], dtype=F32, valid_shape=[-1, -1])
        t = pl.make_tile_group(type=kind, addrs=0, mutex_ids=[0]).current()
        for c in pl.range(0, 96, 16):
            for r in pl.range(0, 40, 16):
                pl.set_validshape(t, [pl.min(16, 40 - r), 16])
                pl.load(t, x, [r, c])
                if ok == 1:
                    pl.store(y, t, [r, c])
                else:
                    pl.store(y, t, [c, r])


def test_offsets_that_are_exchanged_are_no_last_step() -> None:
    x, y = np.zeros((40, 96), np.float32), np.zeros((40, 96), np.float32)
    past = [f for f in pypto_pro.check(offsets_exchanged, x, y, 0).findings if str(f.severity) == "error"]
    (found,) = past
    assert found.help is not None
    assert found.help.startswith("are the offsets along axes 0 and 1 exchanged? With ")
    assert pypto_pro.check(offsets_exchanged, x, y, 1).clean


@pl.jit
def no_tail(x: WIDE, y: WIDE, ok: pl.DT_INT32):
    with pl.section_vector():
        kind = pl.TileType(shape=[16, 32], dtype=F32, valid_shape=[-1, -1])
        t = pl.make_tile_group(type=kind, addrs=0, mutex_ids=[0]).current()
        for r in pl.range(0, 40, 16):
            for c in pl.range(0, 96, 32):
                pl.set_validshape(t, [16 - ok * (16 - pl.min(16, 40 - r)), 32])
                pl.load(t, x, [r, c])
                pl.store(y, t, [r, c])


def test_a_last_step_is_told_as_one() -> None:
    x, y = np.zeros((40, 96), np.float32), np.zeros((40, 96), np.float32)
    found = pypto_pro.check(no_tail, x, y, 0).findings
    assert [f.kind for f in found] == ["out_of_bounds", "out_of_bounds"]
    assert all(f.help is not None and "here only 8 x 32 of 16 x 32 are left" in f.help for f in found)
    assert pypto_pro.check(no_tail, x, y, 1).clean


@pl.jit
def into_the_next_row(x: pl.Tensor[[4, 60], F32], y: pl.Tensor[[4, 64], F32], ok: pl.DT_INT32):
    with pl.section_vector():
        kind = pl.TileType(shape=[1, 64], dtype=F32, valid_shape=[-1, -1])
        t = pl.make_tile_group(type=kind, addrs=0, mutex_ids=[0]).current()
        pl.set_validshape(t, [1, 64 - 4 * ok])
        for i in pl.range(4):
            pl.load(t, x, [i, 0])
            pl.store(y, t, [i, 0])


def test_rows_that_run_into_the_next_do_not_hide_the_last_one() -> None:
    x, y = np.zeros((4, 60), np.float32), np.zeros((4, 64), np.float32)
    (found,) = pypto_pro.check(into_the_next_row, x, y, 0).findings
    assert str(found.severity) == "error"
    assert any("beyond them lies the next row (3 times)" in text for text in found.consequences)
    assert pypto_pro.check(into_the_next_row, x, y, 1).clean


# --- outputs ----------------------------------------------------------------------------------------------------------


@pl.jit
def half_of_it(x: pl.Tensor[[40, 64], F32], y: pl.Tensor[[40, 64], F32], s: pl.Tensor[[40, 64], F32], ok: pl.DT_INT32):
    with pl.section_vector():
        t = vec(0)
        for i in pl.range(0, 24 + 16 * ok, 8):
            pl.load(t, x, [i, 0])
            pl.store(y, t, [i, 0])
            if ok == 1:
                pl.store(s, t, [i, 0])


def remarks(ok: int) -> str:
    x = np.zeros((40, 64), np.float32)
    report = pypto_pro.check(half_of_it, x, np.zeros_like(x), np.zeros_like(x), ok)
    assert report.clean
    return str(report)


def test_outputs_nobody_writes() -> None:
    told = remarks(0)
    assert "4096 of 10240 bytes of `y` were not written: rows 24..40" in told
    assert "`s` is never read or written" in told
    assert "never read or written" not in remarks(1)
    assert "not written" not in remarks(1)


@pl.jit
def columns_left_out(y: pl.Tensor[[8, 96], F32]):
    with pl.section_vector():
        t = vec(0)
        pl.expands(t, 1.0)
        pl.store(y, t, [0, 32])


def test_columns_nobody_writes() -> None:
    told = str(pypto_pro.check(columns_left_out, np.zeros((8, 96), np.float32)))
    assert "1024 of 3072 bytes of `y` were not written: bytes 0x0..0x80 of each of rows 0..8" in told


@pl.jit
def heads_left_out(y: ROWS, last: pl.DT_INT32):
    with pl.section_vector():
        t = vec(0)
        pl.expands(t, 1.0)
        for b in pl.range(4):
            for s in pl.range(0, 40, 8):
                for n in pl.range(3):
                    if (b > 0) or (n != last):
                        pl.store(y, t, [b, s, n, 0], order=[1, 3])


def test_a_window_of_a_tensor_nobody_writes() -> None:
    y = np.zeros((4, 40, 3, 64), np.float32)
    told = str(pypto_pro.check(heads_left_out, y, 2))
    assert "10240 of 122880 bytes of `y` were not written: [0..1, 0..40, 2..3, 0..64]" in told
    assert "not written" not in str(pypto_pro.check(heads_left_out, y, 3))


@pl.jit
def adds_up(y: pl.Tensor[[8, 64], F32], ok: pl.DT_INT32):
    with pl.section_vector():
        t = vec(0)
        b = pl.get_block_idx()
        if ok == 1:
            pl.expands(t, 0.0)
            if b == 0:
                pl.store(y, t, [0, 0])
            pl.system.sync_all(core_type=pl.SyncCoreType.AIV_ONLY)
        pl.expands(t, 1.0)
        pl.store(y, t, [0, 0], atomic=pl.AtomicType.AtomicAdd)


def test_a_sum_that_begins_with_what_the_caller_passed() -> None:
    y = np.zeros((8, 64), np.float32)
    report = pypto_pro.check(adds_up[None, 2], y, 0)
    (found,) = report.findings
    assert report.clean
    assert str(found.severity) == "note"
    assert "adds to `y`, where nobody writes a first value in this launch" in found.message
    assert found.help is not None
    assert found.help.startswith("pass zeros")
    assert not pypto_pro.check(adds_up[None, 2], y, 1).findings
