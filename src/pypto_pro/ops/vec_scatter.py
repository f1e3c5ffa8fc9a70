"""scatter by element index, and histogram."""

from __future__ import annotations

from typing import Any

import numpy as np

from pypto_pro.dtypes import DataType
from pypto_pro.enums import PipeType, TensorLayout
from pypto_pro.ops import rules
from pypto_pro.ops.builder import NativeScalar, NativeTile
from pypto_pro.ops.entry import Access, Box, Effect, defop
from pypto_pro.ops.operands import Array, BoolAttr, TileArg, TileInfo, VecIn, VecOut
from pypto_pro.ops.vec_lowering import VectorBuilder, at, bytes_of, column_step, raw
from pypto_pro.ops.vec_match import write_flat

D = DataType
BINS = 256


@defop("pl.scatter", pipe=PipeType.V, family="tile.gather")
def scatter(out: VecOut, src: VecIn, idx: VecIn) -> None:
    """Zero the whole of `out`, then element idx[i, j] of out (counted over its declared shape) = src[i, j].

    The valid shape of idx governs; indices are unsigned. Of equal indices the last in row order wins; one outside out
    is dropped.
    """
    flat = np.zeros(out.type.rows * out.type.cols, out.dtype.bits_dtype)
    at = idx.bits().reshape(-1).astype(np.int64)
    inside = at < flat.size
    flat[at[inside]] = src.bits(idx.vr, idx.vc).reshape(-1)[inside]
    write_flat(out, flat)


@scatter.rules
def _(out: TileInfo, src: TileInfo, idx: TileInfo) -> None:
    rules.one_dtype(rules.NUMBERS, out, src)
    narrow, wide = (D.DT_INT16, D.DT_UINT16), (D.DT_INT32, D.DT_UINT32)
    rules.has_dtype(idx, *(narrow if out.dtype.bits() <= 16 else wide))
    rules.row_major(out, src, idx)
    rules.aligned_rows(out, src, idx)
    rules.apart(out, src)
    rules.apart(out, idx)


@scatter.regions
def _(out: TileArg, src: TileArg, idx: TileArg) -> list[Access]:
    domain = Box(0, 0, idx.vr, idx.vc)
    return [
        Access("src", Effect.READ, domain),
        Access("idx", Effect.READ, domain),
        Access("out", Effect.WRITE, Box(0, 0, out.type.rows, out.type.cols)),
    ]


@scatter.lower
def _(k: VectorBuilder, out: NativeTile, src: NativeTile, idx: NativeTile) -> Any:
    rows, cols, size = idx.vr, idx.vc, out.type.rows * out.type.cols
    target, source, places = raw(out), raw(src), raw(idx)
    whole = size * out.dtype.nbytes
    k.require(k.fits(source, rows, cols), k.fits(places, rows, cols), k.covers(target, whole))
    k.require(*(k.disjoint(target, whole, t, bytes_of(t, rows, cols)) for t in (source, places)))
    k.fill_bytes(k.pointer(target), 0, whole)
    with k.for_range(0, rows) as row, k.for_range(0, cols) as col:
        place = k.load_scalar(at(k, places, row, col), places.dtype).to(D.DT_INDEX)
        with k.if_(place < size):
            value = k.load_scalar(at(k, source, row, col), source.dtype)
            k.store_scalar(value, k.pointer(target, place), target.dtype)


@defop("pl.histogram", pipe=PipeType.V, family="tile.gather")
def histogram(dst: VecOut, src: VecIn, idx: VecIn, *, is_msb: BoolAttr) -> None:
    """dst[r, b] = how many elements of row r of src have a byte <= b (inclusive sums), b = 0..255.

    UINT16: is_msb=True counts the high byte; False the low byte of elements whose high byte equals idx[r, 0].
    UINT32: True counts the highest byte; False the lowest byte of elements whose upper three bytes equal idx[0, 0],
    idx[1, 0], idx[2, 0], highest first. The valid shape of src governs.
    """
    values = src.bits()
    top = src.dtype.bits() - 8
    counted = values >> (top if is_msb else 0) & 0xFF
    takes_part = np.ones(values.shape, np.bool_) if is_msb else values >> 8 == upper_bytes(src, idx)
    counts = np.zeros((src.vr, BINS), np.uint32)
    for r in range(src.vr):
        counts[r] = np.bincount(counted[r][takes_part[r]], minlength=BINS).cumsum()
    dst.put_bits(counts)


def upper_bytes(src: TileArg, idx: TileArg) -> Array:
    """What all bytes but the lowest must be, one value a row of src or one for all."""
    if src.dtype is D.DT_UINT16:
        return idx.bits(src.vr, 1)
    first, second, third = (int(b) for b in idx.bits(3, 1)[:, 0])
    return np.array([[first << 16 | second << 8 | third]], np.uint32)


@histogram.rules
def _(dst: TileInfo, src: TileInfo, idx: TileInfo, is_msb: bool) -> None:
    rules.has_dtype(src, D.DT_UINT16, D.DT_UINT32)
    rules.has_dtype(idx, D.DT_UINT8)
    rules.has_dtype(dst, D.DT_UINT32)
    rules.row_major(dst, src)
    rules.aligned_rows(dst, src, idx)
    columns = rules.known_valid(dst)[1]
    if min(dst.type.cols, dst.type.cols if columns is None else columns) < BINS:
        raise ValueError(f"`{dst.name}` needs {BINS} columns, one a byte value")
    if src.dtype is D.DT_UINT16:
        if rules.layout_of(idx) is not TensorLayout.DN or idx.type.cols != 1:
            raise ValueError(f"`{idx.name}` must be an [R, 1] tile, one high byte a row, for UINT16 data")
    elif not is_msb and (rules.layout_of(idx) is not TensorLayout.ND or idx.type.shape != (3, src.type.cols)):
        raise ValueError(f"`{idx.name}` must be ND [3, {src.type.cols}], a row for each upper byte of UINT32 data")


@histogram.regions
def _(dst: TileArg, src: TileArg, idx: TileArg, is_msb: bool) -> list[Access]:
    touched: list[Any] = [
        Access("src", Effect.READ, Box(0, 0, src.vr, src.vc)),
        Access("dst", Effect.WRITE, Box(0, 0, src.vr, BINS)),
    ]
    if is_msb:
        return touched
    rows = src.vr if src.type.dtype is D.DT_UINT16 else 3
    return [Access("idx", Effect.READ, Box(0, 0, rows, 1)), *touched]


@histogram.lower
def _(k: VectorBuilder, dst: NativeTile, src: NativeTile, idx: NativeTile, is_msb: bool) -> Any:
    rows, cols, top = src.vr, src.vc, src.dtype.bits() - 8
    filters = src.vr if src.dtype is D.DT_UINT16 else 3
    step = column_step(idx)
    k.require(k.fits(src, rows, cols), k.fits(dst, rows, BINS), k.covers(idx, (filters - 1) * step + 1))
    k.require(k.disjoint(dst, bytes_of(dst, rows, BINS), src, bytes_of(src, rows, cols)),
              k.disjoint(dst, bytes_of(dst, rows, BINS), idx, (filters - 1) * step + 1))
    with k.for_range(0, rows) as row:
        wanted = None if is_msb else filter_of(k, src, idx, row)
        k.fill_bytes(at(k, dst, row), 0, BINS * 4)
        with k.for_range(0, cols) as col:
            value = k.load_scalar(at(k, src, row, col), src.dtype).to(D.DT_INDEX)
            bin_ = (value // (1 << top) if is_msb else value) % BINS
            takes_part = k.scalar(0) == 0 if wanted is None else value // BINS == wanted
            place = at(k, dst, row, bin_)
            with k.if_(takes_part):
                k.store_scalar(k.load_scalar(place, D.DT_UINT32) + 1, place, D.DT_UINT32)
        with k.for_range(1, BINS) as b:
            total = k.load_scalar(at(k, dst, row, b - 1), D.DT_UINT32) + k.load_scalar(at(k, dst, row, b), D.DT_UINT32)
            k.store_scalar(total, at(k, dst, row, b), D.DT_UINT32)


def filter_of(k: VectorBuilder, src: NativeTile, idx: NativeTile, row: NativeScalar) -> NativeScalar:
    """What all bytes but the lowest must be."""
    def byte(n: Any) -> NativeScalar:
        return k.load_scalar(k.pointer(idx, n * column_step(idx)), D.DT_UINT8).to(D.DT_INDEX)

    if src.dtype is D.DT_UINT16:
        return byte(row)
    return (byte(0) * BINS + byte(1)) * BINS + byte(2)
