"""Whole kernels of matrix formats on both executors, and under the checks: what single ops cannot show."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pypto_pro
import pypto_pro.language as pl
from pypto_pro.diag.errors import ArgumentError
from pypto_pro.numerics import decode

S = pl.MemorySpace
F32, F16, I8, I32, I64 = pl.DT_FP32, pl.DT_FP16, pl.DT_INT8, pl.DT_INT32, pl.DT_INT64
F8, F85, HF8, F4, F41, E8 = (
    pl.DT_FP8E4M3FN, pl.DT_FP8E5M2, pl.DT_HF8, pl.DT_FP4E2M1, pl.DT_FP4E1M2, pl.DT_FP8E8M0
)
M, N, K, TK = 40, 64, 192, 64


def group(shape, dtype, space, base, ids, layout, compact):
    return pl.make_tile_group(
        type=pl.TileType(shape=shape, dtype=dtype, target_memory=space, layout=layout, valid_shape=[-1, -1],
                         compact=compact), addrs=base, mutex_ids=ids)


def everywhere(kernel: Any, *args: Any, blocks: int = 1, out: int = -1) -> np.ndarray:
    """The output of a kernel, equal on both executors up to the order of sums, clean under the checks."""
    results = []
    for executor in ("native", "interp"):
        args[out][...] = 0
        with pypto_pro.options(executor=executor):
            kernel[None, blocks](*args)
        results.append(args[out].copy())
    one, other = (r.astype(np.float64) for r in results)
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6 * max(np.abs(one).max(), 1))
    report = pypto_pro.check(kernel[None, blocks], *args)
    assert report.clean, report.render()
    return results[0]


def mx_kernel(dtype: Any, pack: int, transposed: bool) -> Any:
    """K loop with MX scales; `pack` elements a byte; B as [K, N], or [N, K] through a ZN tile."""

    @pl.jit
    def kernel(
        a: pl.Tensor[[M, K // pack], dtype], b: pl.Tensor[[N, K // pack] if transposed else [K, N // pack], dtype],
        sa: pl.Tensor[[M, K // 64, 2], E8], sb: pl.Tensor[[N, K // 64, 2] if transposed else [K // 64, N, 2], E8],
        c: pl.Tensor[[M, N], F32],
    ):
        with pl.section_cube():
            am = group([64, TK], dtype, S.Mat, 0, [0], pl.NZ, 0).current()
            bm = group([TK, N], dtype, S.Mat, 0x4000, [1], pl.ZN if transposed else pl.NZ, 0).current()
            ma = group([64, TK // 32], E8, S.Mat, 0x8000, [2], pl.ZZ, 0).current()
            mb = group([TK // 32, N], E8, S.Mat, 0xA000, [3], pl.NN, 0).current()
            left = group([64, TK], dtype, S.Left, 0, [4], pl.NZ, 1).current()
            right = group([TK, N], dtype, S.Right, 0, [5], pl.ZN, 0).current()
            la = group([64, TK // 32], E8, S.ScaleLeft, 0, [6], pl.ZZ, 1).current()
            lb = group([TK // 32, N], E8, S.ScaleRight, 0, [7], pl.NN, 0).current()
            acc = group([64, N], F32, S.Acc, 0, [8], pl.NZ, 1).current()
            pl.set_stride(a, [K, 1])
            if transposed:
                pl.set_stride(b, [1, K])
            else:
                pl.set_stride(b, [N, 1])
            pl.set_validshape(am, [M, TK])
            pl.set_validshape(ma, [M, TK // 32])
            pl.set_validshape(left, [M, TK])
            pl.set_validshape(la, [M, TK // 32])
            pl.set_validshape(acc, [M, N])
            for k0 in pl.range(0, K, TK):
                pl.load(am, a, [0, k0 // pack])
                pl.load(ma, sa, [0, k0 // 64, 0])
                if transposed:
                    pl.load(bm, b, [0, k0 // pack], order=[1, 0])
                    pl.load(mb, sb, [0, k0 // 64, 0], order=[1, 0])
                else:
                    pl.load(bm, b, [k0, 0])
                    pl.load(mb, sb, [k0 // 64, 0, 0])
                pl.move(left, am)
                pl.move(right, bm)
                pl.move(la, ma)
                pl.move(lb, mb)
                if k0 == 0:
                    pl.matmul_mx(acc, left, right, la, lb)
                else:
                    pl.matmul_mx_acc(acc, acc, left, right, la, lb)
            pl.store(c, acc, [0, 0])

    return kernel


@pytest.mark.parametrize("transposed", [False, True], ids=["kn", "nk"])
@pytest.mark.parametrize("dtype", [F8, F85, F4, F41], ids=lambda d: d.name)
def test_mx(dtype: Any, transposed: bool) -> None:
    rng = np.random.default_rng(3)
    pack = 2 if dtype.bits() == 4 else 1
    top = 16 if pack == 2 else 0x78
    codes = [rng.integers(0, top, shape).astype(np.uint8) for shape in ((M, K), (K, N))]
    values = [decode(c, dtype).astype(np.float64) for c in codes]
    scales = [rng.integers(120, 135, shape).astype(np.uint8) for shape in ((M, K // 32), (K // 32, N))]
    exponents = [2.0 ** (s.astype(int) - 127) for s in scales]
    wanted = (values[0] * np.repeat(exponents[0], 32, 1)) @ (values[1] * np.repeat(exponents[1], 32, 0))

    def stored(array: np.ndarray) -> np.ndarray:
        if pack == 2:
            return np.ascontiguousarray(array[:, 0::2] | array[:, 1::2] << 4)
        return np.ascontiguousarray(array).view(ml_dtypes.float8_e4m3fn if dtype is F8 else ml_dtypes.float8_e5m2)

    a, b = stored(codes[0]), stored(codes[1].T if transposed else codes[1])
    e8 = ml_dtypes.float8_e8m0fnu
    sa = np.ascontiguousarray(scales[0].reshape(M, K // 64, 2)).view(e8)
    pairs = scales[1].reshape(K // 64, 2, N)
    sb = np.ascontiguousarray(pairs.transpose(2, 0, 1) if transposed else pairs.transpose(0, 2, 1)).view(e8)
    c = np.zeros((M, N), np.float32)
    found = everywhere(mx_kernel(dtype, pack, transposed), a, b, sa, sb, c)
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3 * np.abs(wanted).max())


@pl.jit
def quantised(
    a: pl.Tensor[[32, 64], I8], b: pl.Tensor[[64, 64], I8], words: pl.Tensor[[1, 64], I64], c: pl.Tensor[[32, 64], I8]
):
    with pl.section_cube():
        am = group([32, 64], I8, S.Mat, 0, [0], pl.NZ, 0).current()
        bm = group([64, 64], I8, S.Mat, 0x1000, [1], pl.NZ, 0).current()
        left = group([32, 64], I8, S.Left, 0, [2], pl.NZ, 0).current()
        right = group([64, 64], I8, S.Right, 0, [3], pl.ZN, 0).current()
        acc = group([32, 64], I32, S.Acc, 0, [4], pl.NZ, 0).current()
        wm = pl.make_tile(pl.TileType(shape=[1, 64], dtype=I64, target_memory=S.Mat, layout=pl.ND), addr=0x8000)
        table = pl.make_tile(pl.TileType(shape=[1, 64], dtype=I64, target_memory=S.Scaling), addr=0)
        pl.load(am, a, [0, 0])
        pl.load(bm, b, [0, 0])
        pl.load(wm, words, [0, 0])
        pl.system.sync_src(set_pipe=pl.PipeType.MTE2, wait_pipe=pl.PipeType.FIX, event_id=0)
        pl.system.sync_dst(set_pipe=pl.PipeType.MTE2, wait_pipe=pl.PipeType.FIX, event_id=0)
        pl.move(table, wm)
        pl.move(left, am)
        pl.move(right, bm)
        pl.matmul(acc, left, right)
        pl.store(c, acc, [0, 0], scale=table)


def test_scales_by_channel() -> None:
    rng = np.random.default_rng(4)
    a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((32, 64), (64, 64)))
    scale = (rng.uniform(0.5, 2, 64) * 2.0**-9).astype(np.float32)
    offset = rng.integers(-20, 20, 64)
    words = scale.view(np.uint32).astype(np.uint64) | (offset & 511).astype(np.uint64) << np.uint64(37)
    words |= np.uint64(1 << 46)
    short = (scale.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    total = (a.astype(np.int64) @ b.astype(np.int64)).astype(np.float32) * short
    wanted = np.clip(np.rint(total.astype(np.float64) + offset), -128, 127)
    c = np.zeros((32, 64), np.int8)
    assert np.array_equal(everywhere(quantised, a, b, words.view(np.int64)[None, :].copy(), c), wanted)


@pl.jit
def scalar_scales(
    a: pl.Tensor[[16, 64], F16], b: pl.Tensor[[64, 16], F16], c: pl.Tensor[[5, 16, 16], F16], f: pl.DT_FP32,
    bits: pl.DT_INT32, long: pl.DT_INT64,
):
    with pl.section_cube():
        am = group([16, 64], F16, S.Mat, 0, [0], pl.NZ, 0).current()
        bm = group([64, 16], F16, S.Mat, 0x1000, [1], pl.NZ, 0).current()
        left = group([16, 64], F16, S.Left, 0, [2], pl.NZ, 0).current()
        right = group([64, 16], F16, S.Right, 0, [3], pl.ZN, 0).current()
        acc = group([16, 16], F32, S.Acc, 0, [4], pl.NZ, 0).current()
        pl.load(am, a, [0, 0])
        pl.load(bm, b, [0, 0])
        pl.move(left, am)
        pl.move(right, bm)
        pl.matmul(acc, left, right)
        pl.store(c, acc, [0, 0, 0], scale=2)
        pl.store(c, acc, [1, 0, 0], scale=0.1)
        pl.store(c, acc, [2, 0, 0], scale=f)
        pl.store(c, acc, [3, 0, 0], scale=bits)
        pl.store(c, acc, [4, 0, 0], scale=long)


def test_every_kind_of_scalar_scale() -> None:
    """A constant int is that number; a run-time INT32 or INT64 holds the bits of a float."""
    a, b = np.ones((16, 64), np.float16), np.ones((64, 16), np.float16)
    c = np.zeros((5, 16, 16), np.float16)
    bits = int(np.float32(-0.25).view(np.int32))
    for executor in ("native", "interp"):
        c[...] = 0
        with pypto_pro.options(executor=executor):
            scalar_scales[None, 1](a, b, c, 0.5, bits, bits & 0xFFFFFFFF | 3 << 40)
        wanted = [128.0, np.float16(np.float32(64) * np.float32(0.1)), 32.0, -16.0, -16.0]
        assert c[:, 3, 5].tolist() == [float(w) for w in wanted]


@pl.jit
def through_boxes(a: pl.Tensor[[32, 64], F16], b: pl.Tensor[[64, 32], F16, pl.NZ], c: pl.Tensor[[32, 32], F16, pl.NZ]):
    with pl.section_cube():
        am = group([32, 64], F16, S.Mat, 0, [0], pl.NZ, 0).current()
        bm = group([64, 32], F16, S.Mat, 0x1000, [1], pl.NZ, 0).current()
        left = group([32, 64], F16, S.Left, 0, [2], pl.NZ, 0).current()
        right = group([64, 32], F16, S.Right, 0, [3], pl.ZN, 0).current()
        acc = group([32, 32], F32, S.Acc, 0, [4], pl.NZ, 0).current()
        pl.load(am, a, [0, 0])
        pl.load(bm, b, [0, 0])
        pl.move(left, am)
        pl.move(right, bm)
        pl.matmul(acc, left, right)
        pl.store(c, acc, [0, 0], relu_pre_mode=pl.ReluPreMode.NormalRelu)


def boxed(x: np.ndarray) -> np.ndarray:
    """An NZ tensor of a matrix: [C / 16, R, 16] under the shape of the matrix."""
    rows, cols = x.shape
    return np.ascontiguousarray(x.reshape(rows, cols // 16, 16).transpose(1, 0, 2)).reshape(rows, cols)


def test_nz_tensors_in_and_out() -> None:
    rng = np.random.default_rng(5)
    a, b = (rng.normal(size=shape).astype(np.float16) for shape in ((32, 64), (64, 32)))
    c = np.zeros((32, 32), np.float16)
    found = everywhere(through_boxes, a, boxed(b), c)
    wanted = np.maximum(a.astype(np.float32) @ b.astype(np.float32), 0)
    np.testing.assert_allclose(found.astype(np.float32), boxed(wanted), rtol=2e-3, atol=2e-3)


@pl.jit
def transposed_left(a: pl.Tensor[[64, 32], HF8], b: pl.Tensor[[64, 64], HF8], c: pl.Tensor[[32, 64], HF8]):
    """A stored [K, M], as ZN; the exit rounds to HF8."""
    with pl.section_cube():
        am = group([32, 64], HF8, S.Mat, 0, [0], pl.ZN, 0).current()
        bm = group([64, 64], HF8, S.Mat, 0x1000, [1], pl.NZ, 0).current()
        left = group([32, 64], HF8, S.Left, 0, [2], pl.NZ, 0).current()
        right = group([64, 64], HF8, S.Right, 0, [3], pl.ZN, 0).current()
        acc = group([32, 64], F32, S.Acc, 0, [4], pl.NZ, 0).current()
        pl.load(am, a, [0, 0], order=[1, 0])
        pl.load(bm, b, [0, 0])
        pl.move(left, am)
        pl.move(right, bm)
        pl.matmul(acc, left, right)
        pl.store(c, acc, [0, 0], scale=1.0)


def test_transposed_operand_of_hf8() -> None:
    rng = np.random.default_rng(6)
    a, b = (rng.integers(0x08, 0x30, shape).astype(np.uint8) for shape in ((64, 32), (64, 64)))
    c = np.zeros((32, 64), np.uint8)
    found = decode(everywhere(transposed_left, a, b, c), HF8)
    wanted = decode(a, HF8).astype(np.float64).T @ decode(b, HF8).astype(np.float64)
    np.testing.assert_allclose(found, np.minimum(wanted, 32768), rtol=0.26)


# --- what only the run can refuse ------------------------------------------------------------------------------------


@pl.jit
def product_of(a: pl.Tensor[[16, 64], F16], b: pl.Tensor[[64, 16], F16], c: pl.Tensor[[16, 16], F32], k: pl.DT_INT32):
    with pl.section_cube():
        am = group([16, 64], F16, S.Mat, 0, [0], pl.NZ, 0).current()
        bm = group([64, 16], F16, S.Mat, 0x1000, [1], pl.NZ, 0).current()
        left = group([16, 64], F16, S.Left, 0, [2], pl.NZ, 0).current()
        right = group([64, 16], F16, S.Right, 0, [3], pl.ZN, 0).current()
        acc = group([16, 16], F32, S.Acc, 0, [4], pl.NZ, 0).current()
        pl.load(am, a, [0, 0])
        pl.load(bm, b, [0, 0])
        pl.move(left, am)
        pl.move(right, bm)
        pl.set_validshape(left, [16, k])
        pl.matmul(acc, left, right)
        pl.store(c, acc, [0, 0])


@pl.jit
def strided_view(x: pl.Tensor[[16, 64], F32], y: pl.Tensor[[16, 64], F32], step: pl.DT_INT32):
    with pl.section_vector():
        t = pl.make_tile_group(type=pl.TileType(shape=[8, 16], dtype=F32), addrs=0, mutex_ids=[0]).current()
        v = pl.make_tensor(x, [16, 16], [64, step])
        pl.load(t, v, [0, 0])
        pl.store(y, t, [0, 0])


@pl.jit
def shifted(x: pl.Tensor[[16, 64], F32], y: pl.Tensor[[16, 64], F32], first: pl.DT_INT32):
    with pl.section_vector():
        t = pl.make_tile_group(type=pl.TileType(shape=[16, 64], dtype=F32), addrs=0, mutex_ids=[0]).current()
        pl.load(t, x, [0, 0])
        part = t[2:10, first:64]
        pl.exp(part, part)
        pl.store(y, t, [0, 0])


@pytest.mark.parametrize("executor", ["native", "interp"])
def test_refused_at_the_authors_line(executor: str) -> None:
    a, b, c = np.ones((16, 64), np.float16), np.ones((64, 16), np.float16), np.zeros((16, 16), np.float32)
    x, y = np.ones((16, 64), np.float32), np.zeros((16, 64), np.float32)
    with pypto_pro.options(executor=executor):
        product_of[None, 1](a, b, c, 24)
        assert (c == 24).all()
        strided_view[None, 1](x, y, 1)
        shifted[None, 1](x, y, 8)
        for kernel, args, text, line in (
            (product_of, (a, b, c, 0), "(k)", "pl.matmul(acc, left, right)"),
            (strided_view, (x, y, 2), "runs of neighbouring elements", "pl.load(t, v, [0, 0])"),
            (shifted, (x, y, 1), "starts 4 B into a 32 B block", "pl.exp(part, part)"),
        ):
            with pytest.raises(ArgumentError) as caught:
                kernel[None, 1](*args)
            assert text in str(caught.value)
            assert line in str(caught.value)


@pl.jit
def shifted_store(x: pl.Tensor[[16, 64], F32], y: pl.Tensor[[16, 64], F32]):
    with pl.section_vector():
        t = pl.make_tile_group(type=pl.TileType(shape=[16, 64], dtype=F32), addrs=0, mutex_ids=[0]).current()
        pl.load(t, x, [0, 0])
        pl.store(y, t[2:10, 3:40], [1, 5])


def test_transfers_take_any_start() -> None:
    x, y = np.arange(1024, dtype=np.float32).reshape(16, 64), np.zeros((16, 64), np.float32)
    found = everywhere(shifted_store, x, y)
    assert np.array_equal(found[1:9, 5:42], x[2:10, 3:40])


# --- what the checks say ---------------------------------------------------------------------------------------------


@pl.jit
def one_column(x: pl.Tensor[[16, 64], F32], y: pl.Tensor[[16, 1], F32]):
    with pl.section_vector():
        t = pl.make_tile_group(type=pl.TileType(shape=[16, 1], dtype=F32), addrs=0, mutex_ids=[0]).current()
        pl.load(t, x, [0, 5])
        pl.store(y, t, [0, 0])


@pl.jit
def too_far(x: pl.Tensor[[16, 64], F16], c: pl.Tensor[[16, 64], F32]):
    with pl.section_vector():
        t = pl.make_tile_group(type=pl.TileType(shape=[16, 64], dtype=F16), addrs=0, mutex_ids=[0]).current()
        z = pl.make_tile_group(type=pl.TileType(shape=[16, 64], dtype=F16, layout=pl.NZ), addrs=0x2000,
                               mutex_ids=[1]).current()
        dst = pl.make_tile(pl.TileType(shape=[32, 64], dtype=F16, target_memory=S.Mat), addr=0)
        if pl.get_subblock_idx() == 0:
            pl.load(t, x, [0, 0])
            pl.move(z, t)
            pl.insert(dst, z, [24, 0])
    with pl.section_cube():
        acc = pl.make_tile(pl.TileType(shape=[16, 64], dtype=F32, target_memory=S.Acc), addr=0)
        pl.set_validshape(acc, [1, 1])


@pl.jit
def too_tall(x: pl.Tensor[[64, 64], F16], y: pl.Tensor[[64, 64], F16], rows: pl.DT_INT32):
    with pl.section_vector():
        t = pl.make_tile_group(
            type=pl.TileType(shape=[16, 64], dtype=F16, valid_shape=[-1, -1]), addrs=0, mutex_ids=[0]).current()
        pl.set_validshape(t, [rows, 64])
        pl.load(t, x, [0, 0])
        pl.store(y, t, [0, 0])


@pl.jit
def wide_part(a: pl.Tensor[[64, 64], F16], b: pl.Tensor[[64, 64], F16], c: pl.Tensor[[16, 64], F32], k: pl.DT_INT32):
    with pl.section_cube():
        am = group([64, 64], F16, S.Mat, 0, [0], pl.NZ, 0).current()
        bm = group([64, 64], F16, S.Mat, 0x4000, [1], pl.NZ, 0).current()
        left = group([16, 64], F16, S.Left, 0, [2], pl.NZ, 0).current()
        right = group([64, 64], F16, S.Right, 0, [3], pl.ZN, 0).current()
        acc = group([16, 64], F32, S.Acc, 0, [4], pl.NZ, 0).current()
        pl.load(am, a, [0, 0])
        pl.load(bm, b, [0, 0])
        pl.move(left, am, [k, 0])
        pl.move(right, bm)
        pl.matmul(acc, left, right)
        pl.store(c, acc, [0, 0])


def test_what_leaves_the_declared_shape() -> None:
    x, y = np.ones((64, 64), np.float16), np.zeros((64, 64), np.float16)
    assert pypto_pro.check(too_tall[None, 1], x, y, 16).clean
    found = pypto_pro.check(too_tall[None, 1], x, y, 20).findings
    assert {str(f.kind) for f in found} == {"out_of_bounds"}
    assert "20 x 64 elements from [0, 0] of a tile declared [16, 64]" in found[0].message
    c = np.zeros((16, 64), np.float32)
    assert pypto_pro.check(wide_part[None, 1], x, x, c, 48).clean
    found = pypto_pro.check(wide_part[None, 1], x, x, c, 64).findings
    assert "16 x 64 elements from [64, 0] of a tile declared [64, 64]" in found[0].message


def test_findings() -> None:
    x, y = np.arange(1024, dtype=np.float32).reshape(16, 64), np.zeros((16, 1), np.float32)
    found = pypto_pro.check(one_column[None, 1], x, y).findings
    assert [str(f.kind) for f in found] == ["stride_mismatch"]
    assert np.array_equal(y[:, 0], x[:, 5])
    report = pypto_pro.check(too_far[None, 1], x.astype(np.float16), np.zeros((16, 64), np.float32))
    assert "out_of_bounds" in [str(f.kind) for f in report.findings]
    for executor, kind in (("native", RuntimeWarning), ("interp", RuntimeWarning)):
        with pypto_pro.options(executor=executor), pytest.warns(kind, match="past"):
            too_far[None, 1](x.astype(np.float16), np.zeros((16, 64), np.float32))


# --- offsets in tiles ------------------------------------------------------------------------------------------------


@pl.jit
def tile_offsets(
    x: pl.Tensor[[128], F32], y: pl.Tensor[[32, 8, 96], F32], z: pl.Tensor[[64, 96], F32], line: pl.Tensor[[96], F32],
    out: pl.Tensor[[48, 2, 64], F32], flat: pl.Tensor[[512], F32], i: pl.DT_INT32,
):
    """Block numbers on the two selected axes: the smaller axis counts in rows of the tile, the larger in columns."""
    with pl.section_vector():
        a = pl.make_tile_group(type=pl.TileType(shape=[1, 32], dtype=F32), addrs=0, mutex_ids=[0]).current()
        b = pl.make_tile_group(type=pl.TileType(shape=[16, 32], dtype=F32), addrs=0x1000, mutex_ids=[1]).current()
        c = pl.make_tile_group(
            type=pl.TileType(shape=[32, 16], dtype=F32, layout=pl.DN), addrs=0x2000, mutex_ids=[2]).current()
        standing = pl.make_tensor(flat, [32, 16], [1, 32])
        if pl.get_block_idx() == 0:
            pl.load_tile(a, x, [i])
            pl.store_tile(line, a, [1])
            pl.load_tile(b, y, [1, 5, i], order=[0, 2])
            pl.store_tile(out, b, [2, 1, 1], order=[0, 2])
            pl.load_tile(c, z, [1, i], order=[1, 0])
            pl.store_tile(standing, c, [0, 0])


@pytest.mark.filterwarnings("ignore:load_tile with order")  # one tile is turned and not square
def test_offsets_in_tiles() -> None:
    rng = np.random.default_rng(8)
    x, y, z = (rng.normal(size=s).astype(np.float32) for s in ((128,), (32, 8, 96), (64, 96)))
    for executor in ("native", "interp"):
        line, out, flat = np.zeros(96, np.float32), np.zeros((48, 2, 64), np.float32), np.zeros(512, np.float32)
        with pypto_pro.options(executor=executor):
            tile_offsets[None, 1](x, y, z, line, out, flat, 2)
        assert np.array_equal(line[32:64], x[64:96])
        assert np.array_equal(out[32:, 1, 32:], y[16:, 5, 64:])
        assert np.array_equal(flat.reshape(16, 32), z[32:48, 32:64])
        assert np.count_nonzero(out) == 16 * 32
