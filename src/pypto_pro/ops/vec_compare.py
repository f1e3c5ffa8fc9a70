"""Comparisons into bit-packed masks, and `select`, which reads them.

A mask is a UINT8 tile: the bit of element (r, c) is bit c % 8 of byte c // 8 of row r (the row pitch is that of the
mask tile), one bit an element whatever its width. Rows are written in whole granules; bits past the last valid column
inside the last granule are 0, bytes after it keep their value.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from pypto_pro.dtypes import DataType
from pypto_pro.enums import PipeType
from pypto_pro.ops import rules
from pypto_pro.ops.builder import NativeScalar, NativeTile, Source
from pypto_pro.ops.entry import Access, Box, Effect, OpEntry, defop
from pypto_pro.ops.extents import up
from pypto_pro.ops.operands import Array, ScalarInfo, TileArg, TileInfo, VecIn, VecOrScalar, VecOut, VecScratch
from pypto_pro.ops.vec_elementwise import element, source
from pypto_pro.ops.vec_lowering import VectorBuilder, at, bytes_of, guard, is_tile, raw, rectangle

D = DataType


def granule(dtype: DataType) -> tuple[int, int]:
    """(columns, bytes) of the unit in which mask rows for data of `dtype` are written."""
    return (128, 16) if dtype.bits() in (16, 32) else (256, 32)


def mask_bytes(cols: Any, dtype: DataType) -> Any:
    """Bytes of one mask row for `cols` valid columns of `dtype`; `cols` may be abstract."""
    columns, size = granule(dtype)
    return up(cols, columns) // columns * size


def pack(flags: Array, row_bytes: int) -> Array:
    """Booleans [rows, cols] as mask rows of `row_bytes` bytes."""
    packed = np.zeros((flags.shape[0], row_bytes), np.uint8)
    bits = np.packbits(flags, axis=1, bitorder="little")
    packed[:, : bits.shape[1]] = bits
    return packed


def lower_compare(
    k: VectorBuilder, out: NativeTile, lhs: NativeTile, rhs: Source, holds: Callable[[Any, Any], Any]
) -> None:
    """Mask rows, zeroed and then written by whole vectors; a mask that overlaps its data runs the meaning."""
    rows, cols, size = lhs.vr, lhs.vc, mask_bytes(lhs.vc, lhs.dtype)
    tiles = [t for t in (lhs, rhs) if is_tile(t)]
    k.require(k.fits(out, rows, size), *(k.fits(t, rows, cols) for t in tiles))
    k.require(*(k.disjoint(out, bytes_of(out, rows, size), t, bytes_of(t, rows, cols)) for t in tiles))
    count = max(8, k.lane_count(lhs.dtype))
    other = None if is_tile(rhs) else k.lanes_of(rhs, lhs.dtype, count)

    with k.for_range(0, rows) as row:
        k.fill_bytes(at(k, out, row), 0, size)

        def step(first: NativeScalar, left: Any) -> None:
            a = k.load(at(k, lhs, row, first), lhs.dtype, count, left)
            b = k.load(at(k, rhs, row, first), lhs.dtype, count, left) if is_tile(rhs) else other
            flags = holds(a, b)
            k.store_flags(flags if left is None else flags & k.first(count, left), at(k, out, row, first // 8))

        k.vectors(count, cols, step)


def _compare(
    name: str, symbol: str, holds: Callable[[Array, Any], Any], native: Callable[[Any, Any], Any], nan: str
) -> OpEntry:
    """A comparison `lhs <symbol> rhs` into a mask."""

    @defop(f"pl.{name}", pipe=PipeType.V, family="tile.compare")
    def entry(out: VecOut, lhs: VecIn, rhs: VecOrScalar) -> None:
        other = rhs.over(lhs) if isinstance(rhs, TileArg) else element(rhs, lhs.dtype)
        out.put_bits(pack(holds(lhs.get(), other).astype(np.bool_), mask_bytes(lhs.vc, lhs.dtype)))

    @entry.rules
    def _(out: TileInfo, lhs: TileInfo, rhs: TileInfo | ScalarInfo) -> None:
        rules.need_tile(lhs, "the left operand")
        rules.has_dtype(out, D.DT_UINT8)
        rules.elementwise(rules.NUMBERS, lhs, rhs)
        rules.row_major(out)
        rules.aligned_rows(out)

    @entry.regions
    def _(out: TileArg, lhs: TileArg, rhs: TileArg | float) -> list[Access]:
        domain = Box(0, 0, lhs.vr, lhs.vc)
        mask = Access("out", Effect.WRITE, Box(0, 0, lhs.vr, mask_bytes(lhs.vc, lhs.dtype)))
        read = [Access("lhs", Effect.READ, domain), mask]
        return [Access("rhs", Effect.READ, domain), *read] if hasattr(rhs, "type") else read

    @entry.lower
    def _(k: VectorBuilder, out: NativeTile, lhs: NativeTile, rhs: Source) -> Any:
        return lower_compare(k, out, lhs, rhs, native)

    entry.doc = (
        f"Bit (r, c) of the packed mask `out` = lhs[r, c] {symbol} rhs[r, c] over the valid shape of lhs; rhs is a\n"
        f"tile or a scalar. A comparison with NaN is {nan}. `out` is UINT8; declare it with the shape of lhs."
    )
    return entry


eq = _compare("eq", "==", np.equal, operator.eq, "false")
ne = _compare("ne", "!=", np.not_equal, operator.ne, "true")
lt = _compare("lt", "<", np.less, operator.lt, "false")
le = _compare("le", "<=", np.less_equal, operator.le, "false")
gt = _compare("gt", ">", np.greater, operator.gt, "false")
ge = _compare("ge", ">=", np.greater_equal, operator.ge, "false")

COMPARISONS = (eq, ne, lt, le, gt, ge)
"""In the order of the compare codes 0..5."""


@defop("pl.select", pipe=PipeType.V, family="tile.select")
def select(out: VecOut, mask: VecIn, lhs: VecIn, rhs: VecOrScalar, tmp: VecScratch) -> None:
    """out[r, c] = lhs[r, c] where bit (r, c) of the packed mask is 1, else rhs[r, c] or the scalar rhs.

    The valid shape of out governs; bits are copied. tmp is not accessed.
    """
    packed = mask.bits(out.vr, (out.vc + 7) // 8)
    chosen = np.unpackbits(packed, axis=1, count=out.vc, bitorder="little").astype(np.bool_)
    out.put(np.where(chosen, lhs.over(out), source(rhs, out)))


@select.rules
def _(out: TileInfo, mask: TileInfo, lhs: TileInfo, rhs: TileInfo | ScalarInfo, tmp: TileInfo) -> None:
    rules.need_tile(lhs, "the value where the mask is 1")
    rules.has_dtype(mask, D.DT_UINT8, D.DT_INT8)
    rules.elementwise(rules.NUMBERS, out, lhs, rhs)
    rules.row_major(mask)
    rules.aligned_rows(mask)
    if out.dtype is D.DT_BF16 and not isinstance(rhs, TileInfo):
        raise TypeError("BF16 is selected between two tiles only, not with a scalar")


@select.regions
def _(out: TileArg, mask: TileArg, lhs: TileArg, rhs: TileArg | float, tmp: object) -> list[Access]:
    domain = Box(0, 0, out.vr, out.vc)
    touched = [
        Access("mask", Effect.READ, Box(0, 0, out.vr, up(out.vc, 8) // 8)),
        Access("lhs", Effect.MAY_READ, domain),
        Access("out", Effect.WRITE, domain),
    ]
    return [Access("rhs", Effect.MAY_READ, domain), *touched] if hasattr(rhs, "type") else touched


@select.lower
def _(k: VectorBuilder, out: NativeTile, mask: NativeTile, lhs: NativeTile, rhs: Source, tmp: object) -> Any:
    result, packed = raw(out), raw(mask)
    sources = [raw(t) for t in (lhs, rhs) if is_tile(t)]
    size = up(out.vc, 8) // 8
    guard(k, result, sources, out.vr, out.vc)
    k.require(k.fits(packed, out.vr, size),
              k.disjoint(result, bytes_of(result, out.vr, out.vc), packed, bytes_of(packed, out.vr, size)))
    count = max(8, k.lane_count(result.dtype))
    other = None if is_tile(rhs) else k.lanes_of(k.bits_of(rhs, out.dtype), result.dtype, count)

    def step(row: NativeScalar, first: NativeScalar, left: Any) -> None:
        flags = k.load_flags(at(k, packed, row, first // 8), count)
        chosen = k.load(at(k, sources[0], row, first), result.dtype, count, left)
        rest = k.load(at(k, sources[1], row, first), result.dtype, count, left) if other is None else other
        k.store(flags.select(chosen, rest), at(k, result, row, first), result.dtype, left)

    rectangle(k, count, out.vr, out.vc, step)
