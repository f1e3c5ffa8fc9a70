"""Gathers: by element index, by comparison (index lists), by 32-byte block, by column pattern."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from pypto_pro.dtypes import DataType
from pypto_pro.enums import MemorySpace, PipeType
from pypto_pro.layouts import BLOCK_BYTES
from pypto_pro.ops import rules
from pypto_pro.ops.builder import NativeTile
from pypto_pro.ops.entry import Access, Box, Bytes, Effect, Keyword, Kind, Operand, Requirement, Role, defop
from pypto_pro.ops.operands import Array, IntAttr, TileArg, TileInfo, VecIn, VecOut
from pypto_pro.ops.vec_lowering import VectorBuilder, at, bytes_of, guard, raw
from pypto_pro.ops.vec_match import list_matches, lower_matches, tested_columns, write_flat

D = DataType
RAW_BYTES = (D.DT_FP8E4M3FN, D.DT_FP8E5M2, D.DT_HF8)
GATHERED = (*rules.NUMBERS, *RAW_BYTES)
GREATER = 4
"""The compare code that asks for "greater"; any other asks for "equal"."""

OptionalInt = Annotated["int | None", Keyword((int,))]
OptionalTile = Annotated[
    "TileArg | None", Operand(frozenset({Kind.TILE}), Role.INOUT, (MemorySpace.Vec,))
]


# --- by index, or by comparison ---------------------------------------------------------------------------------------


@defop("pl.gather", pipe=PipeType.V, family="tile.gather")
def gather(
    out: VecOut, src: VecIn, idx: VecIn, tmp: OptionalTile = None, extra: OptionalTile = None, *,
    cmp_mode: OptionalInt = None, offset: IntAttr = 0,
) -> None:
    """Index form (out, src, idx, tmp): out[i, j] = element idx[i, j] of src, counted over its declared shape.

    Compare form (out, src, k_value, cdst, tmp, cmp_mode=, offset=0), chosen by giving cmp_mode: row r of out lists
    offset + r * P + c for every column c of src with src[r, c] > k[r] (cmp_mode 4) or == k[r] (any other), P = valid
    columns rounded up to 64 (128 for 8-bit data); cdst[r] = 4 * how many. Scores and thresholds compare as unsigned
    integers; FP16 scores against the low 16 bits of k, signed; FP32 scores rounded to INT32 first. tmp is not accessed.
    An index outside src gives 0.
    """
    if cmp_mode is None:
        flat = flat_bits(src)
        at = idx.bits(out.vr, out.vc).astype(np.int64)
        inside = at < flat.size
        out.put_bits(np.where(inside, flat[np.where(inside, at, 0)], flat.dtype.type(0)))
    else:
        assert tmp is not None
        list_matches(out, src, idx, tmp, cmp_mode == GREATER, offset)


def flat_bits(tile: TileArg) -> Array:
    """All declared elements of an ND tile in a row."""
    return tile.bits(tile.type.rows, tile.type.cols).reshape(-1)


@gather.rules
def _(
    out: TileInfo, src: TileInfo, idx: TileInfo, tmp: TileInfo | None, extra: TileInfo | None, cmp_mode: int | None,
    offset: int,
) -> None:
    if cmp_mode is None and extra is not None:
        raise TypeError("five operands are the compare form, which needs cmp_mode=")
    if cmp_mode is not None and extra is None:
        raise TypeError("with cmp_mode five operands are needed: out, src, k_value, cdst, tmp")
    rules.row_major(out, src)
    rules.aligned_rows(out, src, idx)
    if cmp_mode is not None:
        assert tmp is not None
        rules.has_dtype(src, *rules.UP_TO_32_BITS, *rules.HALF_AND_SINGLE)
        rules.has_dtype(idx, D.DT_UINT16, D.DT_UINT32)
        rules.has_dtype(out, D.DT_INT32, D.DT_UINT32)
        rules.has_dtype(tmp, D.DT_UINT32)
        return
    rules.one_dtype(GATHERED, out, src)
    rules.row_major(idx)
    rules.has_dtype(idx, *index_dtypes(src.dtype))
    rules.apart(out, src)
    rules.apart(idx, src)


def index_dtypes(dtype: DataType) -> tuple[DataType, ...]:
    """Index types of data of a width: 16-bit for bytes, both for 16-bit data, 32-bit beyond."""
    narrow, wide = (D.DT_INT16, D.DT_UINT16), (D.DT_INT32, D.DT_UINT32)
    return narrow if dtype.bits() == 8 else (*narrow, *wide) if dtype.bits() == 16 else wide


@gather.regions
def _(
    out: TileArg, src: TileArg, idx: TileArg, tmp: TileArg | None, extra: TileArg | None, cmp_mode: int | None,
    offset: int,
) -> list[Access]:
    if cmp_mode is None:
        domain = Box(0, 0, out.vr, out.vc)
        return [
            Access("src", Effect.MAY_READ, Box(0, 0, src.type.rows, src.type.cols)),
            Access("idx", Effect.READ, domain),
            Access("out", Effect.WRITE, domain),
        ]
    return [
        Access("src", Effect.READ, Box(0, 0, src.vr, tested_columns(src))),
        Access("idx", Effect.READ, Bytes(0, src.vr * idx.type.dtype.nbytes)),
        Access("out", Effect.MAY_WRITE, Box(0, 0, src.vr, tested_columns(src))),
        Access("tmp", Effect.WRITE, Bytes(0, src.vr * 4)),
    ]


@gather.lower
def _(
    k: VectorBuilder, out: NativeTile, src: NativeTile, idx: NativeTile, tmp: NativeTile | None,
    extra: NativeTile | None, cmp_mode: int | None, offset: int,
) -> Any:
    if cmp_mode is None:
        return lower_gather(k, raw(out), raw(src), raw(idx))
    assert tmp is not None
    return lower_matches(k, out, src, idx, tmp, cmp_mode == GREATER, offset)


def lower_gather(k: VectorBuilder, out: NativeTile, src: NativeTile, idx: NativeTile) -> None:
    """Element by element."""
    rows, cols, size = out.vr, out.vc, src.type.rows * src.type.cols
    guard(k, out, (idx,), rows, cols)
    k.require(k.covers(src, size * src.dtype.nbytes),
              k.disjoint(src, size * src.dtype.nbytes, out, bytes_of(out, rows, cols)))
    with k.for_range(0, rows) as row, k.for_range(0, cols) as col:
        place = k.load_scalar(at(k, idx, row, col), idx.dtype).to(D.DT_INDEX)
        inside = place < size
        value = k.load_scalar(k.pointer(src, inside.choose(place, 0)), src.dtype)
        k.store_scalar(inside.choose(value, 0), at(k, out, row, col), out.dtype)


# --- by block ---------------------------------------------------------------------------------------------------------


@defop("pl.gatherb", pipe=PipeType.V, family="tile.gather")
def gatherb(out: VecOut, src: VecIn, offsets: VecIn) -> None:
    """Every 32-byte block of `out` = the 32 bytes of src at byte offsets[i, k] from its address.

    offsets is UINT32, one a block; a block that would leave the bytes of src is left as it is. The valid shape of out
    governs: whole blocks a row.
    """
    per_block = BLOCK_BYTES // out.dtype.nbytes
    blocks = out.vc // per_block
    starts = offsets.bits(out.vr, blocks).astype(np.int64)
    raw = src.mem[src.addr : src.addr + src.type.rows * src.type.cols * src.dtype.nbytes]
    inside = starts + BLOCK_BYTES <= raw.size
    at = np.where(inside, starts, 0)[:, :, None] + np.arange(BLOCK_BYTES)
    old = out.bits(out.vr, blocks * per_block).view(np.uint8).reshape(out.vr, blocks, BLOCK_BYTES)
    moved = np.where(inside[:, :, None], raw[at], old)
    out.put_bits(moved.reshape(out.vr, blocks * BLOCK_BYTES).view(out.dtype.bits_dtype))


@gatherb.rules
def _(out: TileInfo, src: TileInfo, offsets: TileInfo) -> None:
    rules.has_dtype(offsets, D.DT_UINT32)
    rules.one_dtype(tuple(d for d in rules.MOVABLE if d.bits() in (8, 16, 32)), out, src)
    rules.row_major(out)
    rules.aligned_rows(out, src)
    cols = rules.known_valid(out)[1]
    if cols is not None and cols * out.dtype.nbytes % BLOCK_BYTES:
        raise ValueError(f"the {cols} valid columns of `{out.name}` are no whole number of {BLOCK_BYTES}-byte blocks")


@gatherb.issue
def _(out: TileArg, src: TileArg, offsets: TileArg) -> list[Requirement]:
    per_block = BLOCK_BYTES // out.type.dtype.nbytes
    return [Requirement(out.vc % per_block == 0, f"`gatherb` fills whole {BLOCK_BYTES}-byte blocks of every row")]


@gatherb.regions
def _(out: TileArg, src: TileArg, offsets: TileArg) -> list[Access]:
    per_block = BLOCK_BYTES // out.type.dtype.nbytes
    blocks = out.vc // per_block
    return [
        Access("src", Effect.MAY_READ, Bytes(0, src.type.rows * src.type.cols * src.type.dtype.nbytes)),
        Access("offsets", Effect.READ, Box(0, 0, out.vr, blocks)),
        Access("out", Effect.MAY_WRITE, Box(0, 0, out.vr, blocks * per_block)),
    ]


@gatherb.lower
def _(k: VectorBuilder, out: NativeTile, src: NativeTile, offsets: NativeTile) -> Any:
    per_block = BLOCK_BYTES // out.dtype.nbytes
    rows, blocks, size = out.vr, out.vc // per_block, src.type.rows * src.type.cols * src.dtype.nbytes
    target = raw(out)
    guard(k, target, (), rows, out.vc)
    k.require(k.fits(offsets, rows, blocks), k.covers(src, size))
    written = bytes_of(out, rows, out.vc)
    k.require(k.disjoint(out, written, src, size), k.disjoint(out, written, offsets, bytes_of(offsets, rows, blocks)))
    with k.for_range(0, rows) as row, k.for_range(0, blocks) as block:
        start = k.load_scalar(at(k, offsets, row, block), D.DT_UINT32).to(D.DT_INDEX)
        with k.if_(start + BLOCK_BYTES <= size):
            k.copy_bytes(at(k, target, row, block * per_block), k.byte(src, start), BLOCK_BYTES)


# --- by column pattern ------------------------------------------------------------------------------------------------

PATTERNS = {1: (0, 2), 2: (1, 2), 3: (0, 4), 4: (1, 4), 5: (2, 4), 6: (3, 4), 7: (0, 1)}
"""pattern_mode -> (first column, step)."""


def picked(cols: Any, pattern: int) -> Any:
    """How many of `cols` columns a pattern picks."""
    first, step = PATTERNS[pattern]
    return (cols + (step - 1 - first)) // step


@defop("pl.gathermask", pipe=PipeType.V, family="tile.gather")
def gathermask(out: VecOut, src: VecIn, *, pattern_mode: IntAttr) -> None:
    """The columns a pattern picks from the valid region of src, written to `out` as one row-major stream without gaps.

    pattern_mode: 1 even columns, 2 odd columns, 3 to 6 columns 0 to 3 of every four, 7 all.
    """
    first, step = PATTERNS[pattern_mode]
    write_flat(out, src.bits()[:, first::step])


@gathermask.rules
def _(out: TileInfo, src: TileInfo, pattern_mode: int) -> None:
    if pattern_mode not in PATTERNS:
        raise ValueError(f"pattern_mode is from 1 to 7, found {pattern_mode}")
    for tile in (out, src):
        rules.has_dtype(tile, *GATHERED)
    if out.dtype.bits() != src.dtype.bits():
        raise TypeError(f"`{out.name}` and `{src.name}` must have elements of one width, found "
                        f"{rules.names([out.dtype])} and {rules.names([src.dtype])}")
    rules.row_major(out, src)
    rules.aligned_rows(out, src)


@gathermask.regions
def _(out: TileArg, src: TileArg, pattern_mode: int) -> list[Access]:
    count = src.vr * picked(src.vc, pattern_mode)
    return [
        Access("src", Effect.READ, Box(0, 0, src.vr, src.vc)),
        Access("out", Effect.WRITE, Bytes(0, count * out.type.dtype.nbytes)),
    ]


@gathermask.lower
def _(k: VectorBuilder, out: NativeTile, src: NativeTile, pattern_mode: int) -> Any:
    first, step = PATTERNS[pattern_mode]
    rows, count = src.vr, picked(src.vc, pattern_mode)
    target, source = raw(out), raw(src)
    size = rows * count * out.dtype.nbytes
    k.require(k.fits(source, rows, src.vc), k.covers(target, size))
    k.require(k.disjoint(target, size, source, bytes_of(source, rows, src.vc)))
    with k.for_range(0, rows) as row, k.for_range(0, count) as n:
        value = k.load_scalar(at(k, source, row, n * step + first), source.dtype)
        k.store_scalar(value, k.pointer(target, row * count + n), target.dtype)
