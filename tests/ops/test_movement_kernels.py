"""Whole kernels of transfers, element accesses and phases on both executors: what single ops and rules cannot show."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pypto_pro
import pypto_pro.language as pl
from pypto_pro.diag.errors import ArgumentError

S, F16, F32, I8, I32, I64 = pl.MemorySpace, pl.DT_FP16, pl.DT_FP32, pl.DT_INT8, pl.DT_INT32, pl.DT_INT64
BF16, U8, U16, BOOL = pl.DT_BF16, pl.DT_UINT8, pl.DT_UINT16, pl.DT_BOOL


def tile(shape, dtype, base, lock, space=S.Vec, compact=0, layout=None):
    return pl.make_tile_group(
        type=pl.TileType(shape=shape, dtype=dtype, target_memory=space, compact=compact, layout=layout), addrs=base,
        mutex_ids=[lock]).current()


def on_both(kernel: Any, *args: Any) -> list[list[np.ndarray]]:
    """The arguments as each executor leaves them."""
    found = []
    for executor in ("native", "interp"):
        copies = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        with pypto_pro.options(executor=executor):
            kernel[None, 1](*copies)
        found.append(copies)
    return found


def kinds(kernel: Any, *args: Any) -> list[str]:
    return [str(f.kind) for f in pypto_pro.check(kernel[None, 1], *args).findings if str(f.severity) != "note"]


# --- bits, not values ------------------------------------------------------------------------------------------------


@pl.jit(auto_mutex=True)
def other_dtypes(x: pl.Tensor[[8, 64], F32], h: pl.Tensor[[8, 64], BF16], y: pl.Tensor[[8, 64], F32],
                 g: pl.Tensor[[8, 64], U16]):
    """Both ends need one width, not one dtype."""
    with pl.section_vector():
        a = tile([8, 64], I32, 0, 0)
        b = tile([8, 64], F16, 0x1000, 1)
        if pl.get_subblock_idx() == 0:
            pl.load(a, x, [0, 0])
            pl.load(b, h, [0, 0])
            pl.store(y, a, [0, 0])
            pl.store(g, b, [0, 0])


def test_transfers_copy_bits_between_dtypes_of_one_width() -> None:
    rng = np.random.default_rng(1)
    x, h = rng.normal(size=(8, 64)).astype(np.float32), rng.normal(size=(8, 64)).astype(ml_dtypes.bfloat16)
    for _, _, y, g in on_both(other_dtypes, x, h, np.zeros_like(x), np.zeros((8, 64), np.uint16)):
        assert np.array_equal(y, x)
        assert np.array_equal(g, h.view(np.uint16))


# --- elements --------------------------------------------------------------------------------------------------------


@pl.jit(auto_mutex=True)
def element_conversions(
    f: pl.Tensor[[4], F32], i: pl.Tensor[[4], I64], a: pl.Tensor[[8], I8], b: pl.Tensor[[8], U16],
    c: pl.Tensor[[8], F16], d: pl.Tensor[[8], F32], e: pl.Tensor[[8], I64],
):
    """Values become elements by C rules: floats truncate, integers wrap."""
    with pl.section_vector():
        if pl.get_subblock_idx() == 0:
            for k in pl.range(4):
                u = f[k]
                v = pl.getval(i, k)
                a[k] = u
                a[4 + k] = v
                b[k] = u
                b[4 + k] = v
                c[k] = u
                c[4 + k] = v
                d[k] = u
                d[4 + k] = v
                e[k] = u
                pl.setval(e, 4 + k, v)


def test_elements_convert_by_c_rules() -> None:
    f, i = np.array([1.75, -2.75, 100.5, 0.1], np.float32), np.array([300, -1, 65537, 2049], np.int64)
    outs = [np.zeros(8, t) for t in (np.int8, np.uint16, np.float16, np.float32, np.int64)]
    for _, _, a, b, c, d, e in on_both(element_conversions, f, i, *outs):
        assert a.tolist() == [1, -2, 100, 0, 44, -1, 1, 1]
        assert b[[0, 2, 3, 4, 5, 6, 7]].tolist() == [1, 100, 0, 300, 65535, 1, 2049]
        assert np.array_equal(c, np.array([*f, 300, -1, np.inf, 2049], np.float16))
        assert d.tolist() == [*f.tolist(), 300, -1, 65537, 2049]
        assert e.tolist() == [1, -2, 100, 0, *i.tolist()]


@pl.jit(auto_mutex=True)
def one_element(x: pl.Tensor[[8, 64], F32], y: pl.Tensor[[8, 64], F32], at: pl.DT_INT32):
    """The offset counts stored elements; the tile lies in front of another one."""
    with pl.section_vector():
        t = tile([8, 64], F32, 0, 0)
        behind = tile([8, 64], F32, 0x800, 1)
        if pl.get_subblock_idx() == 0:
            pl.load(t, x, [0, 0])
            pl.load(behind, x, [0, 0])
            pl.setval(y, 0, pl.getval(t, at))
            pl.store(y, behind, [0, 0])


def test_an_element_past_its_tile_is_a_finding() -> None:
    x, y = np.ones((8, 64), np.float32), np.zeros((8, 64), np.float32)
    for at, found in ((511, False), (512, True), (-1, True)):
        assert ("out_of_bounds" in kinds(one_element, x, y, at)) is found


# --- sub-views -------------------------------------------------------------------------------------------------------


@pl.jit(auto_mutex=True)
def parts_of_a_tile(x: pl.Tensor[[16, 64], F32], y: pl.Tensor[[5, 16, 64], F32], a: pl.DT_INT32,
                    b: pl.DT_INT32):
    with pl.section_vector():
        t = tile([16, 64], F32, 0, 0)
        if pl.get_subblock_idx() == 0:
            pl.load(t, x, [0, 0])
            pl.store(y, t[2:6, 16:50], [0, 0, 0])
            pl.store(y, t[a:, :b], [1, 0, 0])
            pl.store(y, t[a:b, 60:99], [2, 0, 0])  # a stop past the tile is its end
            view = t[4:12, 8:]
            pl.set_validshape(view, [2, 3])
            pl.store(y, view, [3, 0, 0])
            pl.set_validshape(t, [6, 20])
            pl.store(y, t[4:16, 16:64], [4, 0, 0])


def test_sub_views_move_what_lies_in_their_bounds_and_in_the_valid_part() -> None:
    x = np.arange(1, 1025, dtype=np.float32).reshape(16, 64)
    wanted = np.zeros((5, 16, 64), np.float32)
    for k, part in enumerate((x[2:6, 16:50], x[9:, :13], x[9:13, 60:], x[4:6, 8:11], x[4:6, 16:20])):
        wanted[k, : part.shape[0], : part.shape[1]] = part
    for _, y, _, _ in on_both(parts_of_a_tile, x, np.zeros_like(wanted), 9, 13):
        assert np.array_equal(y, wanted)


@pl.jit(auto_mutex=True)
def run_time_places(x: pl.Tensor[[32, 64], F16], y: pl.Tensor[[32, 64], F16], rows: pl.DT_INT32, cols: pl.DT_INT32,
                    row: pl.DT_INT32):
    mat = pl.make_tile_group(
        type=pl.TileType(shape=[64, 64], dtype=F16, target_memory=S.Mat), addrs=0, mutex_ids=[9]).current()
    with pl.section_vector():
        t, part = tile([32, 64], F16, 0, 0), tile([16, 64], F16, 0x1000, 1)
        boxes = tile([16, 64], F16, 0x2000, 2, S.Vec, 0, pl.NZ)
        if pl.get_subblock_idx() == 0:
            pl.load(t, x, [0, 0])
            pl.move(part, t, [row, 0])
            pl.move(boxes, part)
            pl.insert(mat, boxes, [row, 0])
            pl.set_validshape(part, [rows, cols])
            pl.load(part, x, [0, 0])
            pl.store(y, part, [0, 0])
    with pl.section_cube():
        pl.set_validshape(mat, [rows, cols])


@pytest.mark.parametrize("extents", [(0, 64), (-3, 64), (16, -1), (-9, -9)], ids=str)
def test_negative_valid_extents_count_as_none(extents: tuple[int, int]) -> None:
    x = np.ones((32, 64), np.float16)
    for _, y, *_ in on_both(run_time_places, x, np.zeros_like(x), *extents, 0):
        assert not y.any()


def test_copies_that_leave_their_memory_are_findings() -> None:
    x = np.ones((32, 64), np.float16)
    for row in (17, 1976, 5000, 1 << 20):  # 1976: half of it lies at the end of UB
        assert "out_of_bounds" in kinds(run_time_places, x, x.copy(), 16, 64, row)


@pytest.mark.parametrize("executor", ["native", "interp"])
def test_negative_offsets_on_chip_are_refused_at_their_line(executor: str) -> None:
    x = np.ones((32, 64), np.float16)
    with pypto_pro.options(executor=executor):
        run_time_places[None, 1](x, x.copy(), 16, 64, 16)
        with pytest.raises(ArgumentError, match="offset is negative") as caught:
            run_time_places[None, 1](x, x.copy(), 16, 64, -16)
    assert "pl.move(part, t, [row, 0])" in str(caught.value)


# --- the accumulator -------------------------------------------------------------------------------------------------


def product_kernel(matmul_phase, store_phase, switch):
    @pl.jit(auto_mutex=True)
    def kernel(a: pl.Tensor[[32, 32], F16], b: pl.Tensor[[32, 32], F16], c: pl.Tensor[[32, 32], F32]):
        with pl.section_cube():
            am, bm = tile([32, 32], F16, 0, 0, S.Mat), tile([32, 32], F16, 0x800, 1, S.Mat)
            left, right = tile([32, 32], F16, 0, 2, S.Left), tile([32, 32], F16, 0, 3, S.Right)
            acc = tile([32, 32], F32, 0, 4, S.Acc)
            pl.load(am, a, [0, 0])
            pl.load(bm, b, [0, 0])
            pl.move(left, am)
            pl.move(right, bm)
            pl.system.set_mm_layout_transform(enabled=switch)
            pl.matmul(acc, left, right, phase=matmul_phase)
            pl.store(c, acc, [0, 0], phase=store_phase)
            pl.system.set_mm_layout_transform(enabled=False)

    return kernel


A, T = pl.AccPhase, pl.STPhase
PHASES = [
    (A.Unspecified, T.Unspecified, []), (A.Final, T.Final, []), (A.Final, T.Unspecified, ["race"]),
    (A.Partial, T.Final, ["deadlock"]), (A.Partial, T.Partial, ["deadlock"]), (A.Final, T.Partial, ["leftover_flag"]),
    (A.Unspecified, T.Final, ["deadlock"]),
]


@pytest.mark.parametrize(("matmul", "store", "wanted"), PHASES, ids=lambda v: getattr(v, "name", None))
def test_phases_order_the_product_and_its_exit(matmul: Any, store: Any, wanted: list[str]) -> None:
    a, b, c = np.ones((32, 32), np.float16), np.ones((32, 32), np.float16), np.zeros((32, 32), np.float32)
    assert sorted(kinds(product_kernel(matmul, store, False), a, b, c)) == sorted(wanted)


def test_the_read_out_order_changes_no_value() -> None:
    rng = np.random.default_rng(2)
    a, b = (rng.normal(size=(32, 32)).astype(np.float16) for _ in range(2))
    c = np.zeros((32, 32), np.float32)
    plain, turned = (on_both(product_kernel(A.Final, T.Final, switch), a, b, c) for switch in (False, True))
    for one, other in zip(plain, turned, strict=True):
        assert np.array_equal(one[2], other[2])
        assert one[2].any()


@pl.jit
def part_of_a_sum(a: pl.Tensor[[32, 64], F16], b: pl.Tensor[[64, 64], F16], c: pl.Tensor[[32, 32], F32],
                  col: pl.DT_INT32, n: pl.DT_INT32):
    """Columns from `col` on leave an accumulator of 64; the bias has 64, the product `n`."""
    with pl.section_cube():
        am, bm = tile([32, 64], F16, 0, 0, S.Mat), tile([64, 64], F16, 0x1000, 1, S.Mat)
        left, right = tile([32, 64], F16, 0, 2, S.Left), tile([64, 64], F16, 0, 3, S.Right, 1)
        bias = tile([1, 32], F32, 0, 5, S.Bias)
        acc = tile([32, 64], F32, 0, 4, S.Acc, 1)
        vec = pl.make_tile(pl.TileType(shape=[32, 32], dtype=F32), addr=0)
        pl.load(am, a, [0, 0])
        pl.load(bm, b, [0, 0])
        pl.system.bar_all()
        pl.move(left, am)
        pl.set_validshape(right, [64, n])
        pl.move(right, bm)
        pl.move(bias, tile([1, 32], F16, 0x1000, 1, S.Mat))
        pl.system.bar_all()
        pl.matmul(acc, left, right, bias)
        pl.set_validshape(acc, [32, 32])
        pl.system.bar_all()
        pl.move(vec, acc, [0, col], acc_to_vec_mode=pl.AccToVecMode.SingleModeVec0)
        pl.system.set_cross_core(pipe=pl.PipeType.FIX, event_id=2)
    with pl.section_vector():
        mine = pl.make_tile(pl.TileType(shape=[32, 32], dtype=F32), addr=0)
        pl.system.wait_cross_core(pipe=pl.PipeType.MTE3, event_id=2)
        if pl.get_subblock_idx() == 0:
            pl.store(c, mine, [0, 0])


def test_parts_stay_inside_the_declared_accumulator_and_bias() -> None:
    a, b, c = np.ones((32, 64), np.float16), np.ones((64, 64), np.float16), np.zeros((32, 32), np.float32)
    assert "out_of_bounds" not in kinds(part_of_a_sum, a, b, c, 0, 32)
    found = pypto_pro.check(part_of_a_sum[None, 1], a, b, c, 48, 32).findings
    assert any("32 x 32 elements from [0, 48] of a tile declared [32, 64]" in f.message for f in found)
    found = pypto_pro.check(part_of_a_sum[None, 1], a, b, c, 0, 64).findings
    assert any("1 x 64 elements from [0, 0] of a tile declared [1, 32]" in f.message for f in found)


@pl.jit
def words_from_vec(a: pl.Tensor[[32, 32], F16], b: pl.Tensor[[32, 64], F16], words: pl.Tensor[[2, 64], I64],
                   c: pl.Tensor[[32, 64], F32]):
    """Scale parameters made in Vec: the words of both rows follow each other in Mat; the second row is used."""
    mat = pl.make_tile(pl.TileType(shape=[2, 64], dtype=I64, target_memory=S.Mat, layout=pl.ND), addr=0x8000)
    with pl.section_vector():
        mine = tile([2, 64], I64, 0, 0)
        if pl.get_subblock_idx() == 0:
            pl.load(mine, words, [0, 0])
            pl.system.bar_all()
            pl.move(mat, mine)
        pl.system.set_cross_core(pipe=pl.PipeType.MTE3, event_id=2)
    with pl.section_cube():
        am, bm = tile([32, 32], F16, 0, 0, S.Mat), tile([32, 64], F16, 0x800, 1, S.Mat)
        left, right = tile([32, 32], F16, 0, 2, S.Left), tile([32, 64], F16, 0, 3, S.Right)
        acc = tile([32, 64], F32, 0, 4, S.Acc)
        table = pl.make_tile(pl.TileType(shape=[1, 64], dtype=I64, target_memory=S.Scaling), addr=0)
        pl.load(am, a, [0, 0])
        pl.load(bm, b, [0, 0])
        pl.system.bar_all()
        pl.move(left, am)
        pl.move(right, bm)
        pl.system.wait_cross_core(pipe=pl.PipeType.FIX, event_id=2)
        pl.move(table, mat, [1, 0])
        pl.system.bar_all()
        pl.matmul(acc, left, right)
        pl.system.bar_all()
        pl.store(c, acc, [0, 0], scale=table)


def test_raw_words_go_from_vec_to_the_parameter_buffer() -> None:
    scale = np.arange(1, 129, dtype=np.float32).reshape(2, 64) / 8
    words = scale.view(np.uint32).astype(np.int64)
    a, b, c = np.ones((32, 32), np.float16), np.ones((32, 64), np.float16), np.zeros((32, 64), np.float32)
    for *_, found in on_both(words_from_vec, a, b, words, c):
        assert np.array_equal(found, np.broadcast_to(32 * scale[1], (32, 64)))
    assert kinds(words_from_vec, a, b, words, c) == []


# --- two vector cores ------------------------------------------------------------------------------------------------


def split_kernel(mode, shape, m, n):
    @pl.jit
    def kernel(a: pl.Tensor[[32, 32], F16], b: pl.Tensor[[32, 64], F16], c: pl.Tensor[[2, 32, 64], F32],
               d: pl.Tensor[[1, 2], I32]):
        with pl.section_cube():
            am, bm = tile([32, 32], F16, 0, 0, S.Mat), tile([32, 64], F16, 0x800, 1, S.Mat)
            left, right = tile([32, 32], F16, 0, 2, S.Left, 1), tile([32, 64], F16, 0, 3, S.Right, 1)
            acc = tile([32, 64], F32, 0, 4, S.Acc, 1)
            vec = pl.make_tile(pl.TileType(shape=shape, dtype=F32), addr=0)
            pl.load(am, a, [0, 0])
            pl.load(bm, b, [0, 0])
            pl.system.bar_all()
            pl.set_validshape(left, [m, 32])
            pl.set_validshape(right, [32, n])
            pl.set_validshape(acc, [m, n])
            pl.move(left, am)
            pl.move(right, bm)
            pl.system.bar_all()
            pl.matmul(acc, left, right)
            pl.system.bar_all()
            pl.move(vec, acc, acc_to_vec_mode=mode)
            d[0, 0] = acc.valid_shape[0]
            d[0, 1] = acc.valid_shape[1]
            pl.system.set_cross_core(pipe=pl.PipeType.FIX, event_id=2)
        with pl.section_vector():
            mine = pl.make_tile(pl.TileType(shape=shape, dtype=F32), addr=0)
            sub = pl.get_subblock_idx()
            if mode == pl.AccToVecMode.DualModeSplitM:
                half = (m + 1) // 2
                pl.set_validshape(mine, [half if sub == 0 else m - half, n])
            else:
                first = pl.min(n, (n + 31) // 32 * 16)
                pl.set_validshape(mine, [m, first if sub == 0 else n - first])
            pl.system.wait_cross_core(pipe=pl.PipeType.MTE3, event_id=2)
            pl.store(c, mine, [sub, 0, 0])

    return kernel


SPLITS = [
    (pl.AccToVecMode.DualModeSplitM, (16, 64), 21, 40), (pl.AccToVecMode.DualModeSplitM, (16, 64), 1, 64),
    (pl.AccToVecMode.DualModeSplitM, (16, 64), 32, 7), (pl.AccToVecMode.DualModeSplitN, (32, 32), 20, 40),
    (pl.AccToVecMode.DualModeSplitN, (32, 32), 32, 16), (pl.AccToVecMode.DualModeSplitN, (32, 32), 9, 3),
]


@pytest.mark.parametrize(("mode", "shape", "m", "n"), SPLITS, ids=lambda v: getattr(v, "name", None))
def test_split_modes_serve_both_vector_cores_and_leave_the_shape_rounded(
    mode: Any, shape: tuple[int, int], m: int, n: int
) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.integers(-4, 5, (32, 32)).astype(np.float16), rng.integers(-4, 5, (32, 64)).astype(np.float16)
    whole = (a.astype(np.float32) @ b.astype(np.float32))[:m, :n]
    down = mode is pl.AccToVecMode.DualModeSplitM
    half = (m + 1) // 2 if down else min(n, -(-n // 32) * 16)
    parts = (whole[:half], whole[half:]) if down else (whole[:, :half], whole[:, half:])
    wanted = np.zeros((2, 32, 64), np.float32)
    for sub, part in enumerate(parts):
        wanted[sub, : part.shape[0], : part.shape[1]] = part
    kernel = split_kernel(mode, list(shape), m, n)
    for _, _, c, d in on_both(kernel, a, b, np.zeros((2, 32, 64), np.float32), np.zeros((1, 2), np.int32)):
        assert np.array_equal(c, wanted)
        assert d.tolist() == [[m + m % 2, n] if down else [m, -(-n // 32) * 32]]
