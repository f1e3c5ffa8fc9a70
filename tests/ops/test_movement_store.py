"""Stores against the reference's text: lines, columns, accumulators with every exit, atomic additions, NZ tensors."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ops.transfer_bench import Call, G, Memories, T, check, fresh, native
from ops.transfer_model import NAN_BITS, c0, get, gm_get, gm_place, gm_put, grid, leave, put, up
from pypto_pro.dtypes import DataType as D
from pypto_pro.enums import AtomicType, CoreKind, ReluPreMode
from pypto_pro.enums import MemorySpace as S
from pypto_pro.enums import TensorLayout as L
from pypto_pro.ops import rules, store

BYTES = [d for d in rules.MOVABLE if not d.is_sub_byte]
RELU = ReluPreMode.NormalRelu
EXITS = [
    (D.DT_FP32, D.DT_FP32, False), (D.DT_FP32, D.DT_FP16, False), (D.DT_FP32, D.DT_BF16, False),
    (D.DT_INT32, D.DT_INT32, False), (D.DT_FP32, D.DT_INT8, True), (D.DT_FP32, D.DT_HF8, True),
    (D.DT_FP32, D.DT_FP8E4M3FN, True), (D.DT_FP32, D.DT_FP16, True), (D.DT_FP32, D.DT_FP32, True),
    (D.DT_INT32, D.DT_INT8, True), (D.DT_INT32, D.DT_FP16, True),
]
"""(accumulator, destination, whether a scale is needed)."""


def values_for(source: D, count: int, seed: int = 3) -> np.ndarray:
    """Accumulator bits: ties, small, large and special values among ordinary ones."""
    rng = np.random.default_rng(seed)
    if source is D.DT_INT32:
        found = rng.integers(-300, 300, count)
        found[:: 7] = rng.integers(-(2**31), 2**31, found[::7].size)
        found[:4] = [2**31 - 1, -(2**31), 0, 16777217]
        return found.astype(np.int32).view(np.uint32)
    found = rng.normal(0, 60, count).astype(np.float32)
    found[:: 5] = (rng.integers(-600, 600, found[::5].size) / 4).astype(np.float32)  # many exact ties
    found[:: 11] = np.exp2(rng.uniform(-30, 30, found[::11].size)).astype(np.float32) * rng.choice([-1, 1])
    found[3:13] = [np.inf, -np.inf, np.nan, -0.0, 0.0, 1e-45, 3e38, 65504.0, 65520.0, 2.0**-23]
    bits = found.view(np.uint32)
    bits[40:43] = 0x7F800001, 0xFFC12345, 0xFFC00000  # NaN of every kind
    return bits


def with_accumulator(call: Call, tile: T, seed: int = 3) -> Memories:
    """Fresh memories whose accumulator tile holds such values."""
    m = fresh(call)
    count = m.spaces[S.Acc].size // 4
    m.spaces[S.Acc][:] = np.tile(values_for(tile.dtype, 4096, seed), count // 4096).view(np.uint8)
    return m


def golden_store(
    m: Memories, tensor: G, tile: T, offsets: tuple[int, ...], order: Any = None, scale: Any = None, relu: bool = False,
    add: bool = False, words: T | None = None,
) -> None:
    rows, cols = tile.extents
    i, j = grid(rows, cols)
    if tile.space is S.Acc:
        pitch = up(rows, 16) if tile.compact == 1 else tile.shape[0]
        factors = scale if words is None else get(m, words, np.zeros_like(j), j)
        bits = leave(get(m, tile, i, j, rows=pitch), tile.dtype, tensor.dtype, factors, relu)
    else:
        bits = get(m, tile, i, j)
    at = gm_place(tensor, offsets, order, i, j)
    if add:
        kind, width = tensor.dtype.numpy, f"u{tensor.dtype.nbytes}"
        old = gm_get(m, "dst_tensor", tensor, at).astype(width).view(kind)
        new = bits.astype(width).view(kind)
        if tensor.dtype is D.DT_INT8:
            total = np.clip(old.astype(int) + new.astype(int), -128, 127).astype(np.int8)
        else:
            with np.errstate(all="ignore"):
                total = (old + new).astype(kind)
        bits = total.view(width).astype(np.uint64)
        if tensor.dtype in NAN_BITS:
            bits = np.where(np.isnan(total.astype(np.float32)), np.uint64(NAN_BITS[tensor.dtype]), bits)
    gm_put(m, "dst_tensor", tensor, at, bits)


def store_call(tensor: G, tile: T, offsets: tuple[int, ...], scale: Any = None, **attrs: Any) -> Call:
    core = CoreKind.VECTOR if tile.space is S.Vec else CoreKind.CUBE
    operands = {"dst_tensor": tensor, "src_tile": tile, "offsets": offsets}
    return Call("store", operands if scale is None else {**operands, "scale": scale}, attrs, core)


def check_store(tensor: G, tile: T, offsets: tuple[int, ...], order: Any = None) -> None:
    check(store_call(tensor, tile, offsets, order=order), lambda m: golden_store(m, tensor, tile, offsets, order))


@pytest.mark.parametrize("dtype", BYTES, ids=lambda d: d.name)
def test_lines_and_columns(dtype: D) -> None:
    cols = 256 // dtype.nbytes
    for valid in ((16, cols), (7, cols // 2 + 3), (1, 1), (0, 3), (3, 0)):
        check_store(G((30, cols + 5), dtype), T((16, cols), dtype, addr=0x40, valid=valid), (3, 4))
    block = c0(dtype)
    check_store(G((3 * block + 9, 1), dtype), T((3 * block, 1), dtype, valid=(2 * block + 1, 1)), (5, 0))
    check_store(G((60,), dtype), T((1, cols), dtype, valid=(1, 33)), (7,))
    check_store(G((4, 9, 77), dtype, (1000, 80, 1)), T((8, 64), dtype, valid=(5, 41)), (2, 1, 3))
    check_store(G((7, 4, 3, 50), dtype), T((8, 64), dtype, valid=(5, 41)), (1, 2, 1, 3), (0, 3))
    check_store(G((40, 60), dtype, transfer=(120, 1)), T((8, 64), dtype, valid=(5, 41)), (2, 3))
    check_store(G((20, 60), dtype), T((block, 64), dtype, addr=4 * dtype.nbytes, valid=(5, 41)), (2, 3))  # a sub-view


@pytest.mark.parametrize("dtype", [D.DT_FP4E2M1, D.DT_FP4E1M2], ids=lambda d: d.name)
def test_four_bit_lines(dtype: D) -> None:
    tensor = G((40, 70), dtype, transfer=(140, 1))
    for valid in ((8, 128), (5, 66), (3, 7), (8, 1), (0, 3)):
        for pitch in (140, 141):
            check_store(replace(tensor, transfer=(pitch, 1)), T((8, 128), dtype, valid=valid), (2, 3))
        check_store(G((200,), dtype), T((8, 128), dtype, valid=valid), (7,))  # rows one apart


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize(("source", "target", "scaled"), EXITS, ids=lambda x: getattr(x, "name", x))
def test_exits(source: D, target: D, scaled: bool, relu: bool) -> None:
    attrs = {"relu_pre_mode": RELU} if relu else {}
    for scale in (0.5, -1.25, 3e-3, 1e10) if scaled else (None,):
        for tile in (
            T((32, 48), source, S.Acc, valid=(20, 35)), T((32, 48), source, S.Acc, valid=(17, 48), compact=1),
            T((32, 48), source, S.Acc, 0x400, (32, 48)),
        ):
            tensor = G((40, 60), target)
            call = store_call(tensor, tile, (2, 5), scale, **attrs)
            single = float(np.float32(scale)) if scale is not None else None
            check(call, lambda m: golden_store(m, tensor, tile, (2, 5), None, single, relu),  # noqa: B023
                  with_accumulator(call, tile))


@pytest.mark.parametrize(("source", "target"), [(s, t) for s, t, scaled in EXITS if scaled], ids=lambda x: x.name)
def test_run_time_scales_are_bits(source: D, target: D) -> None:
    """An INT32/INT64 scalar holds the FP32 pattern in its low half."""
    tile, tensor = T((16, 32), source, S.Acc, valid=(9, 20)), G((20, 40), target)
    bits = int(np.float32(0.75).view(np.int32))
    call = store_call(tensor, tile, (1, 3), bits | 5 << 40)
    check(call, lambda m: golden_store(m, tensor, tile, (1, 3), None, 0.75), with_accumulator(call, tile))


def parameter_words(count: int, seed: int = 8) -> np.ndarray:
    """Scales with more than 10 mantissa bits, offsets of both signs, both ranges."""
    rng = np.random.default_rng(seed)
    scales = rng.uniform(-2, 2, count).astype(np.float32).view(np.uint32).astype(np.uint64)
    offsets = rng.integers(0, 512, count).astype(np.uint64)
    signed = rng.integers(0, 2, count).astype(np.uint64)
    return scales | offsets << np.uint64(37) | signed << np.uint64(46)


@pytest.mark.parametrize(("source", "target"), [(s, t) for s, t, scaled in EXITS if scaled], ids=lambda x: x.name)
def test_scales_by_column(source: D, target: D) -> None:
    words = T((1, 48), D.DT_INT64, S.Scaling, 0x200)
    for valid in ((20, 48), (16, 35), (3, 1)):
        tile, tensor = T((32, 48), source, S.Acc, valid=valid), G((40, 60), target)
        call = store_call(tensor, tile, (2, 5), words)
        start = with_accumulator(call, tile)
        start.spaces[S.Scaling][0x200 : 0x200 + 48 * 8] = parameter_words(48).view(np.uint8)
        check(call, lambda m: golden_store(m, tensor, tile, (2, 5), words=words), start)  # noqa: B023


@pytest.mark.parametrize("dtype", store.ADDED, ids=lambda d: d.name)
def test_atomic_additions(dtype: D) -> None:
    add = {"atomic": AtomicType.AtomicAdd}
    tile, tensor = T((8, 64), dtype, valid=(5, 41)), G((20, 60), dtype)
    rng = np.random.default_rng(1)
    ordinary = rng.integers(-90, 90, 20 * 60).astype(np.float32).astype(dtype.numpy)
    tensor = G((20, 60), dtype, data=ordinary)
    call = store_call(tensor, tile, (2, 3), **add)
    start = fresh(call)
    i, j = grid(*tile.shape)
    put(start, tile, i, j, rng.integers(-120, 120, tile.shape).astype(np.float32).astype(dtype.numpy).view(
        dtype.bits_dtype))
    check(call, lambda m: golden_store(m, tensor, tile, (2, 3), add=True), start)
    source = D.DT_INT32 if dtype is D.DT_INT32 else D.DT_FP32
    if dtype is not D.DT_INT16:
        tile = T((16, 32), source, S.Acc, valid=(9, 20))
        scale = 0.25 if dtype is D.DT_INT8 else None
        call = store_call(tensor, tile, (2, 3), scale, relu_pre_mode=RELU, **add)
        check(call, lambda m: golden_store(m, tensor, tile, (2, 3), None, scale, True, True),
              with_accumulator(call, tile))


def test_the_offset_is_added_before_ties_are_rounded() -> None:
    """2.5 + 1 rounds to 4, not 2 + 1; packed accumulators (compact 1) are read at the pitch of their valid rows."""
    words = T((1, 32), D.DT_INT64, S.Scaling)
    for tile in (T((32, 32), D.DT_FP32, S.Acc), T((32, 32), D.DT_FP32, S.Acc, valid=(9, 20), compact=1)):
        tensor = G((40, 40), D.DT_INT8)
        call = store_call(tensor, tile, (2, 3), words)
        start = fresh(call)
        i, j = grid(32, 32)
        put(start, tile, i, j, ((i * 8 + j).astype(np.float32) / 2 - 60).view(np.uint32))
        offsets = (np.arange(32) - 8) % 512  # odd where values end in a half
        held = np.uint64(1 << 46 | 0x3F800000) | offsets.astype(np.uint64) << np.uint64(37)
        start.spaces[S.Scaling][: 32 * 8] = held.view(np.uint8)
        check(call, lambda m: golden_store(m, tensor, tile, (2, 3), words=words), start)  # noqa: B023


@pytest.mark.parametrize(("source", "target", "scaled"), EXITS, ids=lambda x: getattr(x, "name", x))
def test_nz_tensors(source: D, target: D, scaled: bool) -> None:
    cols = 2 * c0(target)
    tensor, tile = G((32, cols), target, layout=L.NZ), T((32, cols), source, S.Acc, valid=(32, cols))
    scale = 0.5 if scaled else None
    call = store_call(tensor, tile, (0, 0), scale)
    check(call, lambda m: golden_store(m, tensor, tile, (0, 0), None, scale), with_accumulator(call, tile))
    short = store_call(tensor, T((32, cols), source, S.Acc, valid=(16, cols)), (0, 0), scale)
    assert "stored as a whole" in native(short, fresh(short)).refused


def test_a_column_is_stored_at_the_stride_it_has() -> None:
    call = store_call(G((20, 9)), T((16, 1), valid=(13, 1)), (2, 3))
    start = fresh(call)
    wanted = start.copy()
    golden_store(wanted, G((20, 9)), T((16, 1), valid=(13, 1)), (2, 3))
    outcome = native(call, start)
    assert not outcome.called_back
    assert "stride other than 1" in outcome.warnings[0]
    assert (outcome.memories.buffers["dst_tensor"] == wanted.buffers["dst_tensor"]).all()


def test_runs_must_be_contiguous() -> None:
    call = store_call(G((9, 25), strides=(60, 2)), T((8, 64), valid=(3, 5)), (2, 3))
    assert "runs of neighbouring elements" in native(call, fresh(call)).refused
    one = store_call(G((9, 25), strides=(60, 2)), T((8, 64), valid=(3, 1)), (2, 3))  # a run of one element
    assert not native(one, fresh(one)).refused


def test_what_lies_past_the_buffer_is_dropped() -> None:
    tensor, tile = G((6, 64)), T((8, 64))
    call = store_call(tensor, tile, (3, 0))
    start = fresh(call)
    wanted = start.copy()
    golden_store(wanted, tensor, tile, (3, 0))
    outcome = native(call, start)
    assert outcome.warnings
    assert (outcome.memories.buffers["dst_tensor"] == wanted.buffers["dst_tensor"]).all()
