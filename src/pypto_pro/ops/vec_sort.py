"""Sorting (value, index) records in descending order of value: what a record is, and sort32.

A record is 8 bytes: FP32 [value][32-bit index], FP16 [value][0][index low half][index high half]. Lengths count tile
elements, 2 (FP32) or 4 (FP16) a record. Equal values keep their order; -0 equals +0; a NaN stands before +inf or, with
its sign bit set, after -inf.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from pypto_pro.dtypes import DataType
from pypto_pro.enums import MemorySpace, PipeType
from pypto_pro.ops import rules
from pypto_pro.ops.builder import Lanes, NativeScalar, NativeTile
from pypto_pro.ops.entry import Access, Box, Effect, Kind, Operand, Requirement, Role, defop
from pypto_pro.ops.extents import choose, least, up
from pypto_pro.ops.operands import (
    Array,
    TileArg,
    TileInfo,
    VecIn,
    VecOut,
)
from pypto_pro.ops.vec_lowering import SIGNED, VectorBuilder, at, bytes_of, raw

D = DataType
GROUP = 32
RECORD_BYTES = 8

_VEC_TILE = (frozenset({Kind.TILE}), (MemorySpace.Vec,))
OptionalScratch = Annotated["TileArg | None", Operand(_VEC_TILE[0], Role.SCRATCH, _VEC_TILE[1])]
OptionalIn = Annotated["TileArg | None", Operand(_VEC_TILE[0], Role.IN, _VEC_TILE[1])]


def per_record(dtype: DataType) -> int:
    """Tile elements of one record."""
    return RECORD_BYTES // dtype.nbytes


def sort_keys(bits: Array) -> Array:
    """Signed integers that order value bits of FP16 or FP32 as described above."""
    width = bits.dtype.itemsize * 8
    signed = bits.view(f"i{bits.dtype.itemsize}").astype(np.int64)
    lowest = -(1 << (width - 1))
    signed[signed == lowest] = 0
    return np.where(signed < 0, signed ^ ((1 << (width - 1)) - 1), signed)


def descending(bits: Array) -> Array:
    """Positions along the last axis that put value bits in descending order, stable."""
    return np.argsort(-sort_keys(bits), axis=-1, kind="stable")


# --- sort32 -----------------------------------------------------------------------------------------------------------


@defop("pl.sort32", pipe=PipeType.V, family="tile.sort")
def sort32(dst: VecOut, src: VecIn, idx: VecIn, tmp: OptionalScratch = None) -> None:
    """Each group of 32 values of a row of src, sorted descending, as (value, idx) records at the same place of dst.

    Rows are the valid ones of dst, columns those of src. idx is UINT32: one row for all, or one a data row. A last
    group of fewer than 32 values needs tmp; only its records are written. src is not modified.
    """
    values = src.bits(dst.vr, src.vc)
    index = np.broadcast_to(idx.bits(1 if idx.vr == 1 else dst.vr, src.vc), values.shape)
    records = np.zeros((dst.vr, src.vc, per_record(src.dtype)), src.dtype.bits_dtype)
    for c in range(0, src.vc, GROUP):
        part = slice(c, min(c + GROUP, src.vc))
        order = descending(values[:, part])
        records[:, part, 0] = np.take_along_axis(values[:, part], order, 1)
        records[:, part, -(4 // src.dtype.nbytes) :] = halves(np.take_along_axis(index[:, part], order, 1), src.dtype)
    dst.put_bits(records.reshape(dst.vr, -1))


def halves(index: Array, dtype: DataType) -> Array:
    """32-bit indices as the elements of `dtype` that hold them, along a new last axis."""
    return np.ascontiguousarray(index)[..., None].view(dtype.bits_dtype)


@sort32.rules
def _(dst: TileInfo, src: TileInfo, idx: TileInfo, tmp: TileInfo | None) -> None:
    rules.has_dtype(idx, D.DT_UINT32)
    rules.elementwise(rules.HALF_AND_SINGLE, dst, src)
    rules.row_major(idx, tmp)
    rules.aligned_rows(idx)
    if tmp is not None:
        rules.one_dtype((src.dtype,), tmp)
    columns = rules.known_valid(src)[1]
    if tmp is None and columns is not None and columns % GROUP:
        raise ValueError(f"the {columns} valid columns of `{src.name}` are no multiple of {GROUP}: {TAIL}")


TAIL = "the last group needs a scratch tile as the fourth operand"


@sort32.issue
def _(dst: TileArg, src: TileArg, idx: TileArg, tmp: TileArg | None) -> list[Requirement]:
    return [Requirement(src.vc % GROUP == 0, f"`sort32`: {TAIL}")] if tmp is None else []


@sort32.regions
def _(dst: TileArg, src: TileArg, idx: TileArg, tmp: TileArg | None) -> list[Access]:
    touched = [
        Access("src", Effect.READ, Box(0, 0, dst.vr, src.vc)),
        Access("idx", Effect.READ, Box(0, 0, choose(idx.vr == 1, least(dst.vr, 1), dst.vr), src.vc)),
        Access("dst", Effect.WRITE, Box(0, 0, dst.vr, src.vc * per_record(src.type.dtype))),
    ]
    if tmp is None:
        return touched
    used = choose(src.vc % GROUP == 0, 0, least(up(src.vc, GROUP), tmp.type.cols))
    return [*touched, Access("tmp", Effect.CLOBBER, Box(0, 0, 1, used))]


@sort32.lower
def _(k: VectorBuilder, dst: NativeTile, src: NativeTile, idx: NativeTile, tmp: NativeTile | None) -> Any:
    """Ranks: a value's place is how many values come before it, counted by 32 lanes at once."""
    rows, cols = dst.vr, src.vc
    index_rows = (idx.vr == 1).choose(rows.least(1), rows)
    width = cols * per_record(src.dtype)
    k.require(k.fits(dst, rows, width), k.fits(src, rows, cols), k.fits(idx, index_rows, cols))
    written = bytes_of(dst, rows, width)
    k.require(k.disjoint(dst, written, src, bytes_of(src, rows, cols)),
              k.disjoint(dst, written, idx, bytes_of(idx, index_rows, cols)))
    values = raw(src)
    with k.for_range(0, rows) as row:
        index_row = (idx.vr == 1).choose(0, row)

        def group_of(first: NativeScalar, left: Any) -> None:
            keys = native_keys(k, values, row, first, left)
            number = k.iota(GROUP, D.DT_INT32)
            with k.for_range(0, (cols - first).least(GROUP)) as n:
                key = native_key(k.load_scalar(at(k, values, row, first + n), values.dtype), values.dtype)
                before = (keys > key) | ((keys == key) & (number < n.to(D.DT_INT32)))
                place = (first + k.count_true(before)) * RECORD_BYTES
                value = k.load_scalar(at(k, values, row, first + n), values.dtype)
                index = k.load_scalar(at(k, idx, index_row, first + n), D.DT_UINT32)
                record = k.byte(dst, row * (dst.type.cols * dst.dtype.nbytes) + place)
                k.store_scalar(packed(value, index), record, D.DT_UINT64)

        k.vectors(GROUP, cols, group_of)


def packed(value: NativeScalar, index: NativeScalar) -> NativeScalar:
    """A record as one word; the two formats are the same bytes, little endian, but for the width of the value."""
    return value.to(D.DT_UINT64) + index.to(D.DT_UINT64) * (1 << 32)


def native_key(bits: NativeScalar, dtype: DataType) -> NativeScalar:
    """`sort_keys` of one value, INT32."""
    signed = bits.to(SIGNED[dtype.nbytes]).to(D.DT_INT32)
    lowest = -(1 << (dtype.bits() - 1))
    turned = (signed < 0).choose(lowest - 1 - signed, signed)  # the magnitude bits inverted
    return (signed == lowest).choose(0, turned)


def native_keys(k: VectorBuilder, values: NativeTile, row: NativeScalar, first: NativeScalar, left: Any) -> Lanes:
    """`sort_keys` of 32 values; places past the end hold the lowest key."""
    dtype = values.dtype
    lowest = -(1 << (dtype.bits() - 1))
    bits = k.load(at(k, values, row, first), dtype, GROUP, left)
    signed = bits.bits_as(SIGNED[dtype.nbytes]).to(D.DT_INT32)
    turned = (signed < 0).select(lowest - 1 - signed, signed)
    keys = (signed == lowest).select(0, turned)
    return keys if left is None else k.first(GROUP, left).select(keys, D.DT_INT32.int_min)
