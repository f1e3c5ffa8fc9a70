"""Ops that make values from scalars: expands, fill_index."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from pypto_pro.dtypes import DataType
from pypto_pro.enums import MemorySpace, PipeType
from pypto_pro.layouts import BLOCK_BYTES
from pypto_pro.ops import rules
from pypto_pro.ops.builder import NativeScalar, NativeTile
from pypto_pro.ops.entry import Access, Box, Effect, Role, Section, defop
from pypto_pro.ops.operands import ScalarIn, ScalarInfo, TileArg, TileInfo, VecOut, tile
from pypto_pro.ops.vec_elementwise import element
from pypto_pro.ops.vec_lowering import VectorBuilder, at, guard

D = DataType
VEC = MemorySpace.Vec
MOST_MAT_BLOCKS = 32767


@defop(
    "pl.expands", pipe=PipeType.V, family="tile.fill", aliases=("pl.full",),
    section=lambda out, **_: Section.VECTOR if out.type.space is VEC else Section.CUBE,
)
def expands(out: Annotated[TileArg, tile(Role.OUT, VEC, MemorySpace.Mat)], scalar: ScalarIn) -> None:
    """Fill `out` with a scalar: the valid region of a Vec tile (also [R, 1]), the whole of a Mat tile."""
    rows, cols = (out.vr, out.vc) if out.type.space is VEC else out.type.shape
    out.put(np.full((rows, cols), element(scalar, out.dtype)))


@expands.rules
def _(out: TileInfo, scalar: ScalarInfo) -> None:
    if isinstance(scalar, TileInfo):
        raise TypeError("the value must be a scalar, not a tile")
    rules.one_dtype(rules.NUMBERS, out)
    rules.aligned_rows(out)
    if out.dtype.bits() == 64 and out.type.space is VEC:
        rules.row_major(out)
    if out.type.space is not VEC:
        blocks, rest = divmod(out.type.rows * out.type.cols * out.dtype.nbytes, BLOCK_BYTES)
        if rest or not 1 <= blocks <= MOST_MAT_BLOCKS:
            raise ValueError(f"a Mat tile is filled in 1 to {MOST_MAT_BLOCKS} whole blocks of {BLOCK_BYTES} B; "
                             f"`{out.name}` {list(out.type.shape)} has {blocks}{' and a part' if rest else ''}")


@expands.regions
def _(out: TileArg, scalar: object) -> list[Access]:
    rows, cols = (out.vr, out.vc) if out.type.space is VEC else out.type.shape
    return [Access("out", Effect.WRITE, Box(0, 0, rows, cols))]


@expands.lower
def _(k: VectorBuilder, out: NativeTile, scalar: NativeScalar) -> Any:
    if out.type.space is VEC:
        return k.elementwise(out, (scalar,), lambda x: x)
    size = out.type.rows * out.type.cols  # the whole of a Mat tile, whatever its boxes
    k.require(k.covers(out, size * out.dtype.nbytes))
    count = k.lane_count(out.dtype)
    lanes = k.lanes_of(scalar, out.dtype, count)
    k.vectors(count, k.scalar(size), lambda first, left: k.store(lanes, k.pointer(out, first), out.dtype, left))
    return None


@defop("pl.fill_index", pipe=PipeType.V, family="tile.fill")
def fill_index(out: VecOut, start: ScalarIn) -> None:
    """out[0, j] = start + j over the valid columns of a one-row tile of 16- or 32-bit integers; wraps."""
    out.put(element(start, out.dtype) + np.arange(out.vc).astype(out.dtype.numpy)[None, :])


@fill_index.rules
def _(out: TileInfo, start: ScalarInfo) -> None:
    rules.one_dtype((D.DT_INT32, D.DT_INT16, D.DT_UINT16, D.DT_UINT32), out)
    if start.type.dtype.is_float():
        raise TypeError("the first index must be an integer")
    rules.one_row(out)
    rules.aligned_rows(out)


@fill_index.regions
def _(out: TileArg, start: object) -> list[Access]:
    return [Access("out", Effect.WRITE, Box(0, 0, 1, out.vc))]


@fill_index.lower
def _(k: VectorBuilder, out: NativeTile, start: NativeScalar) -> Any:
    guard(k, out, (), 1, out.vc)
    count = k.lane_count(out.dtype)
    first = k.lanes_of(start, out.dtype, count) + k.iota(count, out.dtype)

    def step(col: NativeScalar, left: Any) -> None:
        k.store(first + col, at(k, out, 0, col), out.dtype, left)

    k.vectors(count, out.vc, step)
