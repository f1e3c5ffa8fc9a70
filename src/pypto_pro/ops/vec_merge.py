"""Merging sorted record lists: mrgsort (blocks of one tile) and mrgsort2 (two to four tiles). Records: `vec_sort`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pypto_pro.dtypes import DataType
from pypto_pro.enums import PipeType
from pypto_pro.ops import rules
from pypto_pro.ops.builder import NativeScalar, NativeTile, Number
from pypto_pro.ops.entry import Access, Box, Effect, Requirement, defop
from pypto_pro.ops.extents import least, most
from pypto_pro.ops.operands import Array, BoolAttr, IntAttr, TileArg, TileInfo, VecIn, VecOut, VecScratch
from pypto_pro.ops.vec_lowering import RAW, VectorBuilder
from pypto_pro.ops.vec_sort import RECORD_BYTES, OptionalIn, descending, native_key, per_record

D = DataType
MOST_GROUPS = 255
BLOCK_STEP = 64


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


@mrgsort.lower
def _(k: VectorBuilder, dst: NativeTile, src: NativeTile, block_len: int) -> Any:
    size, step = src.dtype.nbytes, 4 * block_len
    runs = src.vc // step
    length = runs * (step * size)
    k.require(k.covers(src, length), k.covers(dst, length), k.disjoint(src, length, dst, length))
    records = block_len * size // RECORD_BYTES
    with k.for_range(0, runs) as run:
        base = run * (step * size)
        starts = [(src, base + n * block_len * size, k.scalar(records)) for n in range(4)]
        merge(k, starts, dst, base, 4 * records, src.dtype, exhausted=False)


Source = tuple[NativeTile, Number, NativeScalar]
"""A sorted list: tile, byte offset of its first record, number of records."""


def merge(
    k: VectorBuilder, sources: Sequence[Source], dst: NativeTile, target: Number, room: Number, dtype: DataType, *,
    exhausted: bool,
) -> None:
    """Write the merged lists to byte `target` of dst, `room` records at most."""
    bits = RAW[dtype.nbytes]
    spent = -(1 << 40)  # below every key
    heads = [k.variable(0) for _ in sources]
    keys = []
    for tile, start, count in sources:
        keys.append(k.variable(spent))
        with k.if_(count > 0):
            keys[-1].set(native_key(k.load_scalar(k.byte(tile, start), bits), bits).to(D.DT_INDEX))
    total = sum((count for _, _, count in sources[1:]), sources[0][2])
    going = k.variable(1)
    with k.for_range(0, total.least(room)) as n, k.if_(going.get() == 1):
        best, winner = keys[0].get(), k.scalar(0)
        for number in range(1, len(sources)):
            key = keys[number].get()
            winner = (key > best).choose(number, winner)
            best = key.most(best)
        for number, (tile, start, count) in enumerate(sources):
            with k.if_(winner == number):
                head = heads[number].get()
                record = k.load_scalar(k.byte(tile, head * RECORD_BYTES + start), D.DT_UINT64)
                k.store_scalar(record, k.byte(dst, n * RECORD_BYTES + target), D.DT_UINT64)
                heads[number].set(head + 1)
                keys[number].set(spent)
                with k.if_(head + 1 < count):
                    after = k.load_scalar(k.byte(tile, (head + 1) * RECORD_BYTES + start), bits)
                    keys[number].set(native_key(after, bits).to(D.DT_INDEX))
                if exhausted:
                    with k.if_(head + 1 == count):
                        going.set(0)


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


@mrgsort2.lower
def _(
    k: VectorBuilder, src0: NativeTile, src1: NativeTile, dst: NativeTile, tmp: NativeTile, src2: NativeTile | None,
    src3: NativeTile | None, exhausted: bool,
) -> Any:
    size, step = dst.dtype.nbytes, per_record(dst.dtype)
    lists = [s for s in (src0, src1, src2, src3) if s is not None]
    room = tmp.type.cols // step
    copied, merged = dst.vc * size, tmp.type.cols * size
    lengths = [s.vc // step * RECORD_BYTES for s in lists]
    used = most(merged, copied)
    k.require(k.covers(dst, copied), k.covers(tmp, used), k.disjoint(dst, copied, tmp, used))
    k.require(*(k.covers(s, n) for s, n in zip(lists, lengths, strict=True)),
              *(k.disjoint(tmp, merged, s, n) for s, n in zip(lists, lengths, strict=True)))
    merge(k, [(s, 0, s.vc // step) for s in lists], tmp, 0, room, dst.dtype, exhausted=exhausted)
    k.copy_bytes(k.byte(dst, 0), k.byte(tmp, 0), copied)
