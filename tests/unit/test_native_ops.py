"""Native op functions against their meanings: dtypes, tails, pitches, in-place use, accesses out of bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from native_harness import Outcome, Tensor, Tile, run

from pypto_pro import numerics
from pypto_pro.dtypes import DataType
from pypto_pro.enums import AccToVecMode, AtomicType, CoreKind, MemorySpace, RoundMode, TensorLayout
from pypto_pro.ir.types import TensorType, TileType

D, S, L = DataType, MemorySpace, TensorLayout
INTS = (D.DT_INT8, D.DT_UINT8, D.DT_INT16, D.DT_UINT16, D.DT_INT32, D.DT_UINT32, D.DT_INT64, D.DT_UINT64)
FLOATS = (D.DT_FP16, D.DT_BF16, D.DT_FP32)
RNG = np.random.default_rng(20)


def noise(dtype: DataType, count: int, special: bool = True) -> np.ndarray:
    """Raw bytes of `count` elements: ordinary values, and some that are not."""
    if not dtype.is_float():
        return RNG.integers(0, 256, count * dtype.nbytes, np.uint8)
    values = (RNG.standard_normal(count) * 10.0 ** RNG.integers(-3, 3, count)).astype(dtype.numpy)
    if special:
        spots = RNG.integers(0, count, max(1, count // 20))
        odd = RNG.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-6, 6e4, -1.0], spots.size)
        values[spots] = odd.astype(dtype.numpy)
    return values.view(np.uint8)


def same(outcome: Outcome, space: MemorySpace, dtype: DataType, ulps: int = 0) -> None:
    """The space holds what the meaning says; NaNs of any kind are equal."""
    got, want = (m[space].view(dtype.numpy) for m in (outcome.spaces, outcome.expected))
    if not dtype.is_float():
        np.testing.assert_array_equal(got, want)
        return
    differs = np.flatnonzero((got.view(dtype.bits_dtype) != want.view(dtype.bits_dtype))
                             & ~(np.isnan(got.astype(np.float32)) & np.isnan(want.astype(np.float32))))
    distance = np.abs(got[differs].view(f"i{dtype.nbytes}").astype(np.int64)
                      - want[differs].view(f"i{dtype.nbytes}").astype(np.int64))
    assert (distance <= ulps).all(), (got[differs][:5], want[differs][:5])


def vec(rows: int, cols: int, dtype: DataType, layout: TensorLayout | None = None, **kw: Any) -> TileType:
    return TileType([rows, cols], dtype, S.Vec, layout=layout, **kw)


def three(dtype: DataType, vr: int, vc: int, cols: int = 64) -> tuple[tuple[Tile, Tile, Tile], dict[Any, Any]]:
    """out, lhs, rhs one behind the other, with noise everywhere."""
    size = 8 * cols * dtype.nbytes
    tiles = tuple(Tile(vec(8, cols, dtype), k * size, vr, vc) for k in range(3))
    return tiles, {S.Vec: noise(dtype, 3 * 8 * cols)}  # type: ignore[return-value]


SHAPES = ((8, 64), (8, 61), (3, 64), (1, 1), (5, 17), (0, 5), (4, 0))


@pytest.mark.parametrize("dtype", [*INTS, *FLOATS], ids=lambda d: d.name)
@pytest.mark.parametrize("op", ["add", "sub", "mul", "div", "maximum", "minimum"])
def test_two_tiles(op: str, dtype: DataType) -> None:
    for vr, vc in SHAPES:
        tiles, memory = three(dtype, vr, vc)
        attrs = (("dim", None),) if op in ("maximum", "minimum") else ()
        outcome = run(op, tiles, memory, attrs)
        assert not outcome.called_back
        if op in ("maximum", "minimum") and dtype.is_float():
            outcome.spaces[S.Vec][:] = _no_negative_zero(outcome.spaces[S.Vec], dtype)
            outcome.expected[S.Vec][:] = _no_negative_zero(outcome.expected[S.Vec], dtype)
        same(outcome, S.Vec, dtype)


def _no_negative_zero(data: np.ndarray, dtype: DataType) -> np.ndarray:
    """max(-0, 0) may be either zero."""
    values = data.view(dtype.numpy).copy()
    values[values == 0] = 0
    return values.view(np.uint8)


@pytest.mark.parametrize("dtype", [D.DT_INT16, D.DT_UINT8, *FLOATS], ids=lambda d: d.name)
def test_tile_and_scalar(dtype: DataType) -> None:
    for value in (3, -2.5, 1e9):
        tiles, memory = three(dtype, 7, 37)
        outcome = run("add", (tiles[0], tiles[1], float(value)), memory)
        assert not outcome.called_back
        same(outcome, S.Vec, dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
def test_in_place_and_overlapping_operands(dtype: DataType) -> None:
    tiles, memory = three(dtype, 8, 64)
    done = run("add", (tiles[0], tiles[0], tiles[1]), memory)
    assert not done.called_back
    same(done, S.Vec, dtype)
    shifted = Tile(tiles[0].type, 32, 6, 50)
    done = run("add", (shifted, tiles[0], tiles[1]), memory)
    assert done.called_back  # streaming would read its own results
    same(done, S.Vec, dtype)


def test_a_tile_past_its_space_reads_zeros_and_drops_writes() -> None:
    end = 248 * 1024
    memory = {S.Vec: noise(D.DT_FP32, end // 4, special=False)}
    inside, outside = Tile(vec(8, 64, D.DT_FP32), 0, 8, 64), Tile(vec(8, 64, D.DT_FP32), end - 1024, 8, 64)
    for tiles in ((inside, outside, inside), (outside, inside, inside)):
        outcome = run_past_the_end(tiles, memory)
        assert outcome.called_back
        assert outcome.warnings
    read = run_past_the_end((inside, outside, inside), memory).spaces[S.Vec].view(np.float32)[: 8 * 64]
    first = memory[S.Vec].view(np.float32)
    np.testing.assert_array_equal(read[256:512], first[256:512])  # second half: 0 + itself


def run_past_the_end(tiles: tuple[Tile, ...], memory: dict[Any, Any]) -> Outcome:
    import native_harness

    kept = native_harness._meaning
    native_harness._meaning = lambda *a: None  # the meaning alone cannot leave its memory
    try:
        return run("add", tiles, memory)
    finally:
        native_harness._meaning = kept


@pytest.mark.parametrize("dtype", [D.DT_FP16, D.DT_FP32], ids=lambda d: d.name)
@pytest.mark.parametrize("op", ["exp", "log", "sqrt", "rsqrt", "recip", "abs", "neg", "relu"])
def test_unary(op: str, dtype: DataType) -> None:
    for vr, vc in SHAPES:
        tiles, memory = three(dtype, vr, vc)
        outcome = run(op, tiles[:2], memory)
        assert not outcome.called_back
        same(outcome, S.Vec, dtype, ulps={"exp": 2, "log": 2}.get(op, 0) if dtype is D.DT_FP32 else 1)


@pytest.mark.parametrize("dtype", [D.DT_INT16, D.DT_INT32, D.DT_FP16, D.DT_FP32], ids=lambda d: d.name)
@pytest.mark.parametrize("op", ["sum", "maximum", "minimum"])
@pytest.mark.parametrize("dim", [0, 1])
def test_reductions(op: str, dtype: DataType, dim: int) -> None:
    for vr, vc in ((8, 192), (8, 150), (3, 1), (1, 192), (2, 129), (7, 64), (0, 3)):
        src = Tile(vec(8, 192, dtype), 8192, vr, vc)
        out = Tile(vec(16, 1, dtype, L.DN), 0, vr, 1) if dim == 0 else Tile(vec(1, 192, dtype), 0, 1, vc)
        outcome = run(op, (out, src, src), {S.Vec: noise(dtype, 16384, special=False)}, (("dim", dim),))
        assert not outcome.called_back
        same(outcome, S.Vec, dtype)


@pytest.mark.parametrize("dtype", [D.DT_INT16, D.DT_BF16, D.DT_FP16, D.DT_FP32], ids=lambda d: d.name)
@pytest.mark.parametrize("op", ["expand_sub", "expand_mul", "expand_div", "expand_max"])
@pytest.mark.parametrize("dim", [0, 1])
def test_broadcasts(op: str, dtype: DataType, dim: int) -> None:
    for vr, vc in SHAPES:
        full, out = Tile(vec(8, 64, dtype), 4096, vr, vc), Tile(vec(8, 64, dtype), 0, vr, vc)
        part = Tile(vec(16, 1, dtype, L.DN), 16384, vr, 1) if dim == 0 else Tile(vec(1, 64, dtype), 16384, 1, vc)
        outcome = run(op, (out, full, part), {S.Vec: noise(dtype, 16384, special=False)}, (("dim", dim),))
        assert not outcome.called_back
        same(outcome, S.Vec, dtype)


NATIVE_CASTS = [
    pair for pair in numerics.TILE_CASTS if all(d in (*INTS, *FLOATS) for d in pair)
]


@pytest.mark.parametrize("pair", NATIVE_CASTS, ids=lambda p: f"{p[0].to_string()}-{p[1].to_string()}")
def test_casts(pair: tuple[DataType, DataType]) -> None:
    source, target = pair
    for mode in (RoundMode.CAST_ROUND, RoundMode.CAST_RINT, RoundMode.CAST_FLOOR, RoundMode.CAST_CEIL,
                 RoundMode.CAST_TRUNC, RoundMode.CAST_ODD):  # fmt: skip
        src, out = Tile(vec(8, 64, source), 8192, 8, 61), Tile(vec(8, 64, target), 0, 8, 61)
        memory = {S.Vec: np.concatenate((np.zeros(8192, np.uint8), _cast_inputs(source, 512)))}
        outcome = run("cast", (out, src), memory, (("mode", mode),))
        assert not outcome.called_back
        same(outcome, S.Vec, target)


def _cast_inputs(dtype: DataType, count: int) -> np.ndarray:
    if not dtype.is_float():
        return noise(dtype, count)
    near = RNG.integers(-300, 300, count) + RNG.choice([0, 0.5, 0.25, 0.75, 1e-3], count)
    wide = RNG.standard_normal(count) * 10.0 ** RNG.integers(-9, 12, count)
    ties = (np.float32(1) + RNG.integers(0, 64, count) * np.float32(2.0**-12)) * 2.0 ** RNG.integers(-20, 20, count)
    values = np.choose(RNG.integers(0, 3, count), (near, wide, ties))
    values[::31] = RNG.choice([np.inf, -np.inf, np.nan, 65504, 65519, 65520, -0.0, 1e-40], values[::31].size)
    with np.errstate(all="ignore"):
        return values.astype(np.float32).astype(dtype.numpy).view(np.uint8)


def test_narrow_float_overflow_and_subnormals_round_as_numpy_does() -> None:
    values = np.array([65519.99, 65520, 1e-8, 5.9e-8, 2.98e-8, 2.99e-8, 6.1e-5, 3.4e38, np.nan] + [1.0] * 7, np.float32)
    for dtype in (D.DT_FP16, D.DT_BF16):
        src, out = Tile(vec(1, 16, D.DT_FP32), 0, 1, 16), Tile(vec(1, 16, dtype), 1024, 1, 16)
        zero = Tile(vec(1, 16, dtype), 2048, 1, 16)
        with np.errstate(all="ignore"):
            rounded = values.astype(dtype.numpy)
        memory = np.zeros(4096, np.uint8)
        memory[1024:1056] = rounded.view(np.uint8)
        outcome = run("add", (out, out, zero), {S.Vec: memory})
        same(outcome, S.Vec, dtype)
        assert src.vc == 16


# --- transfers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [D.DT_INT8, D.DT_FP16, D.DT_FP32, D.DT_INT64], ids=lambda d: d.name)
def test_load_and_store_rows(dtype: DataType) -> None:
    type_ = TensorType(dtype, (None, None))
    tensor = Tensor(type_, noise(dtype, 40 * 100).view(dtype.numpy), 0, (40, 100), (100, 1))
    for vr, vc, offsets in ((16, 64, (3, 7)), (16, 61, (0, 0)), (1, 1, (39, 99)), (5, 33, (20, 60)), (0, 4, (0, 0))):
        tile = Tile(vec(16, 64, dtype), 256, vr, vc)
        memory = {S.Vec: noise(dtype, 4096)}
        outcome = run("load", (tile, tensor, offsets), memory, (("order", None),))
        assert not outcome.called_back
        np.testing.assert_array_equal(outcome.spaces[S.Vec], outcome.expected[S.Vec])
        outcome = run("store", (tensor, tile, offsets, None), memory, STORE)
        assert not outcome.called_back
        np.testing.assert_array_equal(outcome.tensors[0].view(np.uint8), outcome.expected_tensors[0].view(np.uint8))


STORE = (("relu_pre_mode", None), ("order", None), ("atomic", AtomicType.AtomicNone), ("phase", None))
ATOMIC = (("relu_pre_mode", None), ("order", None), ("atomic", AtomicType.AtomicAdd), ("phase", None))


@pytest.mark.parametrize("dtype", [D.DT_INT8, D.DT_INT16, D.DT_INT32, *FLOATS], ids=lambda d: d.name)
def test_atomic_store(dtype: DataType) -> None:
    tensor = Tensor(TensorType(dtype, (None, None)), noise(dtype, 1000, special=False).view(dtype.numpy), 0, (10, 100),
                    (100, 1))
    tile = Tile(vec(8, 64, dtype), 0, 7, 45)
    outcome = run("store", (tensor, tile, (2, 50), None), {S.Vec: noise(dtype, 512, special=False)}, ATOMIC)
    assert not outcome.called_back
    np.testing.assert_array_equal(outcome.tensors[0].view(np.uint8), outcome.expected_tensors[0].view(np.uint8))


def test_a_window_past_the_buffer_reads_zeros_and_drops_writes() -> None:
    tensor = Tensor(TensorType(D.DT_FP32, (None, None)), np.arange(64, dtype=np.float32), 0, (8, 8), (8, 1))
    tile = Tile(vec(8, 8, D.DT_FP32), 0, 8, 8)
    memory = {S.Vec: np.full(256, 1, np.uint8)}
    outcome = run("load", (tile, tensor, (5, 0)), memory, (("order", None),))
    assert outcome.called_back
    assert outcome.warnings
    got = outcome.spaces[S.Vec][:256].view(np.float32)
    np.testing.assert_array_equal(got, np.concatenate((np.arange(40, 64), np.zeros(40))))
    outcome = run("store", (tensor, tile, (5, 0), None), memory, STORE)
    assert outcome.called_back
    np.testing.assert_array_equal(outcome.tensors[0][:40], np.arange(40))


def test_strided_views_and_transfer_strides() -> None:
    data = np.arange(4000, dtype=np.float32)
    type_ = TensorType(D.DT_FP32, (None, None))
    for tensor in (
        Tensor(type_, data, 40, (10, 20), (57, 1)),
        Tensor(type_, data, 0, (10, 20), (20, 1), (100, 1)),
        Tensor(type_, data, 0, (10, 20), (20, 1), (3, 7)),
        Tensor(type_, data, 0, (10, 20), (1, 20)),
    ):
        tile = Tile(vec(16, 16, D.DT_FP32), 0, 6, 13)
        outcome = run("load", (tile, tensor, (1, 2)), {S.Vec: np.zeros(1024, np.uint8)}, (("order", None),))
        if tensor.transfer == (3, 7) or tensor.strides[1] != 1:  # not runs of neighbouring elements
            assert "stride along axis 1" in outcome.refused
            continue
        assert not outcome.called_back
        np.testing.assert_array_equal(outcome.spaces[S.Vec], outcome.expected[S.Vec])


@pytest.mark.parametrize("dtype", [D.DT_INT8, D.DT_FP16, D.DT_FP32], ids=lambda d: d.name)
@pytest.mark.parametrize("layout", [L.NZ, L.ZN], ids=lambda x: x.name)
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_load_into_boxes(dtype: DataType, layout: TensorLayout, order: tuple[int, int]) -> None:
    type_ = TileType([64, 64], dtype, S.Mat, layout=layout)
    tensor = Tensor(TensorType(dtype, (None, None)), noise(dtype, 90 * 80).view(dtype.numpy), 0, (90, 80), (80, 1))
    for vr, vc in ((64, 64), (33, 64), (64, 41), (7, 9)):
        outcome = run("load", (Tile(type_, 512, vr, vc), tensor, (4, 3)), {S.Mat: noise(dtype, 6000)},
                      (("order", order),), CoreKind.CUBE)
        assert not outcome.called_back
        np.testing.assert_array_equal(outcome.spaces[S.Mat], outcome.expected[S.Mat])


MOVE = (("acc_to_vec_mode", None), ("relu_pre_mode", None))


@pytest.mark.parametrize("dtype", [D.DT_INT8, D.DT_FP16, D.DT_FP32], ids=lambda d: d.name)
@pytest.mark.parametrize("target", [S.Left, S.Right], ids=lambda x: x.name)
@pytest.mark.parametrize("layout", [L.NZ, L.ZN], ids=lambda x: x.name)
@pytest.mark.parametrize("compact", [0, 1])
def test_move_to_operands(dtype: DataType, target: MemorySpace, layout: TensorLayout, compact: int) -> None:
    src = Tile(TileType([64, 64], dtype, S.Mat, layout=layout), 1024, 64, 64)
    for vr, vc in ((64, 64), (48, 20)):
        dst = Tile(TileType([64, 64], dtype, target, compact=compact), 0, vr, vc)
        outcome = run("move", (dst, src, None, None), {S.Mat: noise(dtype, 8192)}, MOVE, CoreKind.CUBE)
        assert not outcome.called_back
        np.testing.assert_array_equal(outcome.spaces[target], outcome.expected[target])


@pytest.mark.parametrize("mode", [None, AccToVecMode.SingleModeVec0])
@pytest.mark.parametrize("dtype", [D.DT_FP32, D.DT_FP16, D.DT_BF16], ids=lambda d: d.name)
def test_move_out_of_the_accumulator(mode: AccToVecMode | None, dtype: DataType) -> None:
    src = Tile(TileType([64, 64], D.DT_FP32, S.Acc), 0, 37, 50)
    dst = Tile(vec(64, 64, dtype), 64, 37, 50)
    attrs = (("acc_to_vec_mode", mode), ("relu_pre_mode", None))
    outcome = run("move", (dst, src, None, None), {S.Acc: noise(D.DT_FP32, 4096)}, attrs, CoreKind.CUBE)
    assert not outcome.called_back
    same(outcome, S.Vec, dtype)


@pytest.mark.parametrize("compact", [0, 1, 2])
def test_nz_detour_through_the_vector_core(compact: int) -> None:
    plain = Tile(vec(32, 64, D.DT_FP16), 0, 30, 50)
    boxes = Tile(vec(33 if compact == 2 else 32, 64, D.DT_FP16, L.NZ, compact=compact), 8192, 30, 50)
    outcome = run("move", (boxes, plain, None, None), {S.Vec: noise(D.DT_FP16, 8192)}, MOVE)
    assert not outcome.called_back
    np.testing.assert_array_equal(outcome.spaces[S.Vec], outcome.expected[S.Vec])
    for layout, offset in ((L.NZ, (16, 32)), (L.ZN, (0, 16))):
        mat = Tile(TileType([128, 128], D.DT_FP16, S.Mat, layout=layout), 0, 128, 128)
        outcome = run("insert", (mat, boxes, offset), {S.Vec: noise(D.DT_FP16, 8192), S.Mat: noise(D.DT_FP16, 16384)})
        assert not outcome.called_back
        np.testing.assert_array_equal(outcome.spaces[S.Mat], outcome.expected[S.Mat])


# --- products ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [D.DT_INT8, D.DT_FP16, D.DT_BF16, D.DT_FP32], ids=lambda d: d.name)
@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("extents", [(64, 64, 64), (37, 50, 45), (1, 1, 1), (16, 24, 17), (0, 8, 8), (64, 33, 1)])
def test_products(dtype: DataType, accumulate: bool, extents: tuple[int, int, int]) -> None:
    m, k, n = extents
    result = D.DT_INT32 if dtype is D.DT_INT8 else D.DT_FP32
    acc = Tile(TileType([64, 64], result, S.Acc), 1024, m, n)
    left = Tile(TileType([64, 64], dtype, S.Left, compact=1), 512, m, k)
    right = Tile(TileType([64, 64], dtype, S.Right, compact=1), 0, k, n)
    memory = {S.Left: small(dtype, 9000), S.Right: small(dtype, 9000), S.Acc: small(result, 9000)}
    operands = (acc, acc, left, right) if accumulate else (acc, left, right, None)
    outcome = run("matmul_acc" if accumulate else "matmul", operands, memory, (("phase", None),), CoreKind.CUBE)
    assert not outcome.called_back
    got, want = (x[S.Acc].view(result.numpy) for x in (outcome.spaces, outcome.expected))
    if result is D.DT_INT32:
        np.testing.assert_array_equal(got, want)
    else:
        np.testing.assert_allclose(got, want, rtol=2e-6 * max(k, 1), atol=1e-5)
        untouched = want == small_view(memory[S.Acc], want.size)
        np.testing.assert_array_equal(got[untouched], want[untouched])


def small(dtype: DataType, count: int) -> np.ndarray:
    if not dtype.is_float():
        return noise(dtype, count)
    return RNG.uniform(-1, 1, count).astype(dtype.numpy).view(np.uint8)


def small_view(data: np.ndarray, count: int) -> np.ndarray:
    full = np.zeros(count, np.float32)
    full[: data.size // 4] = data.view(np.float32)
    return full


# --- elements ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*INTS, *FLOATS], ids=lambda d: d.name)
def test_element_access(dtype: DataType) -> None:
    tile = Tile(vec(8, 64, dtype), 128, 8, 64)
    tensor = Tensor(TensorType(dtype, (None,)), noise(dtype, 64, special=False).view(dtype.numpy), 0, (64,), (1,))
    for holder in (tile, tensor):
        memory = {S.Vec: noise(dtype, 1024, special=False)}
        outcome = run("getval", (holder, 13), memory, results=(dtype,))
        assert not outcome.called_back
        assert float(outcome.results[0]) == float(outcome.expected_results[0])
        outcome = run("setval", (holder, 13, 5 if not dtype.is_float() else 1.7), memory)
        assert not outcome.called_back
        np.testing.assert_array_equal(outcome.spaces[S.Vec], outcome.expected[S.Vec])
        for got, want in zip(outcome.tensors, outcome.expected_tensors, strict=True):
            np.testing.assert_array_equal(got.view(np.uint8), want.view(np.uint8))


def test_an_element_outside_its_tensor_reads_zero() -> None:
    tensor = Tensor(TensorType(D.DT_INT32, (None,)), np.arange(1, 9, dtype=np.int32), 0, (8,), (1,))
    for offset in (8, -1, 1 << 40):
        outcome = run("getval", (tensor, offset), {}, results=(D.DT_INT32,))
        assert outcome.called_back
        assert outcome.results == [0]


