"""Sorting (value, index) records in descending order of value: sort32, mrgsort, mrgsort2.

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
from pypto_pro.ops.entry import Access, Box, Effect, Kind, Operand, Requirement, Role, defop
from pypto_pro.ops.extents import choose, least, up
from pypto_pro.ops.operands import (
    Array,
    BoolAttr,
    IntAttr,
    TileArg,
    TileInfo,
    VecIn,
    VecOut,
    VecScratch,
)

D = DataType
GROUP = 32
RECORD_BYTES = 8
MOST_GROUPS = 255
BLOCK_STEP = 64

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


# --- merging ----------------------------------------------------------------------------------------------------------


def records_of(tile: TileArg, elements: int) -> Array:
    """The first `elements` of a one-row tile as records, shape (n, elements of a record)."""
    return tile.bits(1, elements).reshape(-1, per_record(tile.dtype))


@defop("pl.mrgsort", pipe=PipeType.V, family="tile.sort")
def mrgsort(dst: VecOut, src: VecIn, *, block_len: IntAttr) -> None:
    """Merge every four consecutive sorted blocks of `block_len` elements of src into one run at the same place of dst.

    One-row tiles; ties go to the lower-numbered block. The valid columns of src, a multiple of 4 * block_len, govern;
    a rest of fewer than four blocks is not written.
    """
    run = 4 * block_len
    for start in range(0, src.vc // run * run, run):
        records = src.bits(1, run, 0, start).reshape(-1, per_record(src.dtype))
        dst.put_bits(records[descending(records[:, 0])].reshape(1, -1), 0, start)


@mrgsort.rules
def _(dst: TileInfo, src: TileInfo, block_len: int) -> None:
    rules.elementwise(rules.HALF_AND_SINGLE, dst, src)
    rules.one_row(dst, src)
    rules.apart(dst, src)
    if block_len <= 0 or block_len % BLOCK_STEP:
        raise ValueError(f"block_len is a positive multiple of {BLOCK_STEP}, found {block_len}")
    columns = rules.known_valid(src)[1]
    if columns is not None and (columns % (4 * block_len) or not 1 <= columns // (4 * block_len) <= MOST_GROUPS):
        raise ValueError(f"`{src.name}` has {columns} valid columns; 1 to {MOST_GROUPS} times 4 * block_len = "
                         f"{4 * block_len} are needed")


@mrgsort.issue
def _(dst: TileArg, src: TileArg, block_len: int) -> list[Requirement]:
    runs: Any = src.vc // (4 * block_len)
    whole: Any = (src.vc % (4 * block_len) == 0) & (runs >= 1) & (runs <= MOST_GROUPS)
    message = f"`mrgsort` merges 1 to {MOST_GROUPS} groups of 4 * block_len = {4 * block_len} valid columns"
    return [Requirement(whole | (src.vr == 0), message)]


@mrgsort.regions
def _(dst: TileArg, src: TileArg, block_len: int) -> list[Access]:
    length = src.vc // (4 * block_len) * (4 * block_len)
    return [
        Access("src", Effect.READ, Box(0, 0, 1, length)),
        Access("dst", Effect.WRITE, Box(0, 0, 1, length)),
    ]


@defop("pl.mrgsort2", pipe=PipeType.V, family="tile.sort")
def mrgsort2(
    src0: VecIn, src1: VecIn, dst: VecOut, tmp: VecScratch, src2: OptionalIn = None, src3: OptionalIn = None, *,
    exhausted: BoolAttr = False,
) -> None:
    """Merge two to four sorted record lists (one-row tiles, lengths their valid columns) into dst, the third operand.

    Ties go to the lower-numbered list. exhausted=True stops after the record that empties any list. The merged stream
    is written to tmp (what passes its end is dropped), then the valid columns of dst are copied from there.
    """
    lists = [records_of(s, s.vc // per_record(s.dtype) * per_record(s.dtype)) for s in (src0, src1, src2, src3) if s]
    records = np.concatenate(lists)
    order = descending(records[:, 0])
    if exhausted:
        place = np.empty(order.size, np.int64)
        place[order] = np.arange(order.size)
        ends = np.cumsum([len(each) for each in lists]) - 1
        stop = min(int(place[end]) for end, each in zip(ends, lists, strict=True) if len(each)) + 1 if order.size else 0
        order = order[:stop]
    stream = records[order].reshape(1, -1)[:, : tmp.type.cols]
    tmp.put_bits(stream)
    dst.put_bits(tmp.bits(1, dst.vc))


@mrgsort2.rules
def _(
    src0: TileInfo, src1: TileInfo, dst: TileInfo, tmp: TileInfo, src2: TileInfo | None, src3: TileInfo | None,
    exhausted: bool,
) -> None:
    everything = (dst, src0, src1, tmp, src2, src3)
    rules.elementwise(rules.HALF_AND_SINGLE, *everything)
    rules.one_row(*everything)
    if tmp.type.cols < dst.type.cols:
        raise ValueError(f"`{tmp.name}` has {tmp.type.cols} columns, fewer than the {dst.type.cols} of `{dst.name}`")


@mrgsort2.regions
def _(
    src0: TileArg, src1: TileArg, dst: TileArg, tmp: TileArg, src2: TileArg | None, src3: TileArg | None,
    exhausted: bool,
) -> list[Access]:
    given = {"src0": src0, "src1": src1, "src2": src2, "src3": src3}
    sources = {name: s for name, s in given.items() if s is not None}
    step = per_record(dst.type.dtype)
    lengths = [s.vc // step * step for s in sources.values()]
    total: Any = sum(lengths[1:], lengths[0])
    certain = least(least(*lengths) if exhausted else total, dst.vc, tmp.type.cols)
    return [
        *(Access(name, Effect.READ, Box(0, 0, 1, n)) for name, n in zip(sources, lengths, strict=True)),
        Access("tmp", Effect.CLOBBER, Box(0, 0, 1, least(total, tmp.type.cols))),
        Access("dst", Effect.CLOBBER, Box(0, 0, 1, dst.vc)),
        Access("dst", Effect.WRITE, Box(0, 0, 1, certain)),
    ]
