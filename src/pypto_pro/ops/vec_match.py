"""The compare form of `gather`: for each row, the list of columns whose score matches the row's threshold."""

from __future__ import annotations

from typing import Any

import numpy as np

from pypto_pro.dtypes import DataType
from pypto_pro.enums import RoundMode
from pypto_pro.numerics import decode, encode
from pypto_pro.ops.builder import NativeScalar, NativeTile
from pypto_pro.ops.extents import least, up
from pypto_pro.ops.operands import Array, TileArg
from pypto_pro.ops.vec_lowering import VectorBuilder, at, bytes_of, raw

D = DataType


def group(dtype: DataType) -> int:
    """Columns the compare form tests at once."""
    return 128 if dtype.bits() == 8 else 64


def tested_columns(src: Any) -> Any:
    """Columns that take part: narrow data tests whole groups, as far as the row goes; 32-bit data the valid ones."""
    if src.type.dtype.bits() == 32:
        return src.vc
    return least(up(src.vc, group(src.type.dtype)), most_columns(src))


def most_columns(src: Any) -> int:
    """Declared columns."""
    return int(src.type.cols)


def list_matches(out: TileArg, src: TileArg, k_value: TileArg, cdst: TileArg, greater: bool, offset: int) -> None:
    """The compare form."""
    pitch = up(src.vc, group(src.dtype))
    scores, limits = comparable(src, k_value)
    hits = scores > limits if greater else scores == limits
    counts = np.zeros((1, src.vr), np.uint32)
    for r in range(src.vr):
        found = np.flatnonzero(hits[r])
        out.put_bits((found + (offset + r * pitch)).astype(np.uint32)[None, :], r0=r)
        counts[0, r] = 4 * found.size
    write_flat(cdst, counts)


def comparable(src: TileArg, k_value: TileArg) -> tuple[Array, Array]:
    """Scores [vr, tested] and thresholds [vr, 1] as numbers that compare as the device does."""
    bits = src.bits(src.vr, tested_columns(src))
    limits = read_flat(k_value, src.vr).astype(np.int64)
    if src.dtype is D.DT_FP16:
        return decode(bits, src.dtype), limits.astype(np.uint16).view(np.int16).astype(np.float32)[:, None]
    if src.dtype is D.DT_FP32:
        whole = encode(decode(bits, src.dtype), D.DT_INT32, RoundMode.CAST_RINT, saturate=True)
        return whole.astype(np.int64), limits[:, None]
    return bits.astype(np.int64), limits[:, None]


def read_flat(tile: TileArg, count: int) -> Array:
    """The first `count` elements of a tile's storage."""
    return tile.mem[tile.addr : tile.addr + count * tile.dtype.nbytes].view(tile.dtype.bits_dtype)


def write_flat(tile: TileArg, bits: Array) -> None:
    """The first elements of a tile's storage."""
    raw = bits.astype(tile.dtype.bits_dtype).view(np.uint8).reshape(-1)
    tile.mem[tile.addr : tile.addr + raw.size] = raw


# --- native code ------------------------------------------------------------------------------------------------------


def lower_matches(
    k: VectorBuilder, out: NativeTile, src: NativeTile, limits: NativeTile, counts: NativeTile, greater: bool,
    offset: int,
) -> None:
    """Row by row, keeping the place of the next index in a variable."""
    rows, cols, pitch = src.vr, tested_columns(src), up(src.vc, group(src.dtype))
    k.require(k.fits(src, rows, cols), k.fits(out, rows, cols), k.covers(limits, rows * limits.dtype.nbytes),
              k.covers(counts, rows * 4))
    listed = bytes_of(out, rows, cols)
    k.require(*(k.disjoint(out, listed, t, size) for t, size in (
        (src, bytes_of(src, rows, cols)), (limits, rows * limits.dtype.nbytes), (counts, rows * 4))))
    k.require(k.disjoint(counts, rows * 4, src, bytes_of(src, rows, cols)),
              k.disjoint(counts, rows * 4, limits, rows * limits.dtype.nbytes))
    raw_limits = raw(limits)
    with k.for_range(0, rows) as row:
        found = k.variable(0)
        limit = threshold(k.load_scalar(k.pointer(raw_limits, row), raw_limits.dtype), src.dtype)
        with k.for_range(0, cols) as col:
            value = score(k, src, row, col)
            with k.if_(value > limit if greater else value == limit):
                place = found.get()
                k.store_scalar((col + (row * pitch + offset)).to(out.dtype), at(k, out, row, place), out.dtype)
                found.set(place + 1)
        k.store_scalar((found.get() * 4).to(D.DT_UINT32), k.pointer(counts, row), D.DT_UINT32)


def threshold(bits: NativeScalar, dtype: DataType) -> NativeScalar:
    """A threshold as scores of `dtype` compare with it."""
    if dtype is D.DT_FP16:
        return bits.to(D.DT_INT16).to(D.DT_FP32)
    return bits.to(D.DT_INDEX)


def score(k: VectorBuilder, src: NativeTile, row: NativeScalar, col: NativeScalar) -> NativeScalar:
    """An element as the compare form reads it."""
    if src.dtype is D.DT_FP16:
        return k.load_scalar(at(k, src, row, col), src.dtype)
    if src.dtype is D.DT_FP32:
        whole = k.integral(k.load(at(k, src, row, col), src.dtype, 1), RoundMode.CAST_RINT)
        assert whole is not None
        return whole.to(D.DT_INT32).lane(0).to(D.DT_UINT32).to(D.DT_INDEX)
    return k.load_scalar(at(k, src, row, col), raw(src).dtype).to(D.DT_INDEX)
