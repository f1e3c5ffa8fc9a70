"""transpose and fillpad: bits put elsewhere inside tiles, and padding around them."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from pypto_pro import numerics
from pypto_pro.dtypes import DataType
from pypto_pro.enums import FillPadMode, MemorySpace, PipeType, TensorLayout, TilePad
from pypto_pro.layouts import BLOCK_BYTES, elements_per_block
from pypto_pro.ops import rules
from pypto_pro.ops.builder import NativeTile
from pypto_pro.ops.entry import Access, Box, Effect, Keyword, Role, Section, defop
from pypto_pro.ops.extents import least, most, up
from pypto_pro.ops.operands import TileArg, TileInfo, VecIn, VecOut, tile
from pypto_pro.ops.vec_lowering import (
    RAW,
    VectorBuilder,
    fill_rectangle,
    raw,
    retyped,
)

D = DataType
VEC, MAT = MemorySpace.Vec, MemorySpace.Mat
TRANSPOSED = (*rules.UP_TO_32_BITS, *rules.FLOATS)
MOST_NARROW_ELEMENTS = 1 << 16


@defop("pl.transpose", pipe=PipeType.V, family="tile.layout", copies=True)
def transpose(out: VecOut, src: VecIn) -> None:
    """out[j, i] = src[i, j] over the valid shape of src; bits are copied. Not in place."""
    out.put_bits(np.ascontiguousarray(src.bits().T))


@transpose.rules
def _(out: TileInfo, src: TileInfo) -> None:
    for one in (out, src):
        rules.has_dtype(one, *TRANSPOSED)
    if out.dtype.bits() != src.dtype.bits():
        raise ValueError(f"`{out.name}` and `{src.name}` must have elements of one width, found "
                         f"{rules.names([out.dtype])} and {rules.names([src.dtype])}")
    rules.row_major(out, src)
    rules.aligned_rows(out, src)
    rules.apart(out, src)
    rows, cols = (v if v is not None else 0 for v in rules.known_valid(src))
    if out.type.rows < cols or out.type.cols < rows:
        raise ValueError(f"`{out.name}` {list(out.type.shape)} does not hold the transpose of {rows} x {cols} elements")
    indexed = src if src.type.rows >= src.type.cols else out
    if src.dtype.bits() < 32 and indexed.type.rows * indexed.type.cols > MOST_NARROW_ELEMENTS:
        raise ValueError(f"`{indexed.name}` {list(indexed.type.shape)} has more than {MOST_NARROW_ELEMENTS} elements, "
                         "the reach of the 16-bit indices that 8- and 16-bit data are transposed with")


@transpose.regions
def _(out: TileArg, src: TileArg) -> list[Access]:
    return [
        Access("src", Effect.READ, Box(0, 0, src.vr, src.vc)),
        Access("out", Effect.WRITE, Box(0, 0, src.vc, src.vr)),
    ]


@transpose.lower
def _(k: VectorBuilder, out: NativeTile, src: NativeTile) -> Any:
    """A copy into `out` read as a DN tile of the exchanged shape: the same bytes."""
    rows, cols = out.type.shape
    turned = retyped(out, RAW[out.dtype.nbytes], (cols, rows), TensorLayout.DN)
    box = Box(0, 0, src.vr, src.vc)
    return k.copy_box(turned, box, raw(src), box)


PadMode = Annotated[FillPadMode, Keyword(enum=FillPadMode)]
PadOut = Annotated[TileArg, tile(Role.OUT, VEC, MAT)]
PadIn = Annotated[TileArg, tile(Role.IN, VEC, MAT)]


def pad_of(tile_: Any) -> TilePad:
    """The pad attribute as an enum member."""
    return TilePad(tile_.type.pad or 0)


def pad_boxes(out: Any, src: Any) -> list[Box]:
    """Where padding goes: right of the valid columns of src, and below its rows as far as `out` is valid.

    Mat tiles: below the valid rows in the boxes that hold valid columns, and all boxes right of them.
    """
    rows, cols = out.type.shape
    if out.type.space is VEC:
        return [
            Box(0, src.vc, src.vr, cols - src.vc),
            Box(src.vr, 0, most(out.vr, src.vr) - src.vr, cols),
        ]
    boxed = least(up(src.vc, elements_per_block(out.type.dtype)), cols)
    return [Box(src.vr, 0, rows - src.vr, boxed), Box(0, boxed, rows, cols - boxed)]


@defop(
    "pl.fillpad", pipe=PipeType.V, family="tile.pad", copies=True,
    section=lambda out, **_: Section.VECTOR if out.type.space is VEC else Section.CUBE,
)
def fillpad(out: PadOut, src: PadIn, *, mode: PadMode = FillPadMode.NORMAL) -> None:
    """Copy the valid region of src (not with INPLACE) and fill around it with the pad value of `out`.

    Filled: the columns right of it up to the declared width, and the rows below it up to the valid rows of `out`.
    NORMAL and INPLACE need equal declared shapes, EXPAND an `out` at least as large. Mat tiles (NZ, in place) are
    padded over their whole declared shape.
    """
    if mode is not FillPadMode.INPLACE and out.type.space is VEC:
        out.put_bits(src.bits())
    pattern = numerics.pad_bits(out.dtype, pad_of(out))
    if pattern is None:
        return
    for box in pad_boxes(out, src):
        if box.rows > 0 and box.cols > 0:
            out.put_bits(np.full((box.rows, box.cols), pattern, out.dtype.bits_dtype), box.r0, box.c0)


@fillpad.rules
def _(out: TileInfo, src: TileInfo, mode: FillPadMode) -> None:
    if out.type.space is not src.type.space:
        raise ValueError(f"`{out.name}` is in {out.type.space.name} and `{src.name}` in {src.type.space.name}; one "
                         "space is needed")
    if out.dtype.bits() != src.dtype.bits() or out.dtype.bits() not in (8, 16, 32):
        raise ValueError("padding copies elements of one width, 8, 16 or 32 bits; found "
                         f"{rules.names([out.dtype])} and {rules.names([src.dtype])}")
    larger = all(o >= s for o, s in zip(out.type.shape, src.type.shape, strict=True))
    if not (larger if mode is FillPadMode.EXPAND else out.type.shape == src.type.shape):
        wanted = "at least as large as" if mode is FillPadMode.EXPAND else "of the shape of"
        raise ValueError(f"`{out.name}` {list(out.type.shape)} must be {wanted} `{src.name}` {list(src.type.shape)}")
    if out.type.space is MAT:
        _check_mat(out, src, mode)
        return
    if pad_of(out) is TilePad.null:
        raise ValueError(f"`{out.name}` has no pad value; give its TileType pad=")
    rules.row_major(out, src)
    rules.aligned_rows(out, src)
    if mode is FillPadMode.INPLACE:
        if out.name != src.name and None not in (out.addr, src.addr) and out.addr != src.addr:
            raise ValueError(f"INPLACE pads where the data are; `{out.name}` and `{src.name}` have different addresses")
    else:
        rules.apart(out, src)


def _check_mat(out: TileInfo, src: TileInfo, mode: FillPadMode) -> None:
    """Mat tiles: NZ, one type, one address, zero or no padding."""
    if mode is FillPadMode.EXPAND or out.type != src.type:
        raise ValueError("a Mat tile is padded in place: both operands must be of one type")
    if rules.layout_of(out) is not TensorLayout.NZ:
        raise ValueError(f"`{out.name}` is {rules.layout_of(out).name}; Mat tiles are padded as NZ")
    if pad_of(out) not in (TilePad.null, TilePad.zero):
        raise ValueError(f"a Mat tile is padded with zero, not {pad_of(out).name}")
    if out.name != src.name and None not in (out.addr, src.addr) and out.addr != src.addr:
        raise ValueError(f"a Mat tile is padded in place; `{out.name}` and `{src.name}` have different addresses")


@fillpad.regions
def _(out: TileArg, src: TileArg, mode: FillPadMode) -> list[Access]:
    touched = []
    if mode is not FillPadMode.INPLACE and out.type.space is VEC:
        valid = Box(0, 0, src.vr, src.vc)
        touched = [Access("src", Effect.READ, valid), Access("out", Effect.WRITE, valid)]
    if pad_of(out) is TilePad.null:
        return touched
    return [*touched, *(Access("out", Effect.WRITE, box) for box in pad_boxes(out, src))]


def lower_mat_pad(k: VectorBuilder, out: NativeTile, src: NativeTile) -> None:
    """Zeroes below the valid rows, box column by box column, and in all later ones, which follow in one piece."""
    if pad_of(out) is TilePad.null:
        return
    (rows, cols), boxed = out.type.shape, pad_boxes(out, src)[1].c0
    line = elements_per_block(out.dtype)
    k.require(k.covers(out, rows * cols * out.dtype.nbytes), src.vr <= rows, src.vr >= 0, src.vc >= 0)
    with k.for_range(0, boxed // line) as box:
        k.fill_bytes(k.pointer(out, (box * rows + src.vr) * line), 0, (k.scalar(rows) - src.vr) * BLOCK_BYTES)
    k.fill_bytes(k.pointer(out, boxed * rows), 0, (k.scalar(cols) - boxed) * rows * out.dtype.nbytes)


@fillpad.lower
def _(k: VectorBuilder, out: NativeTile, src: NativeTile, mode: FillPadMode) -> Any:
    if out.type.space is not VEC:
        return lower_mat_pad(k, out, src)
    target, source = raw(out), raw(src)
    rows = most(out.vr, src.vr)
    k.require(k.fits(target, rows, out.type.cols))
    if mode is not FillPadMode.INPLACE:
        box = Box(0, 0, src.vr, src.vc)
        k.copy_box(target, box, source, box)
    pattern = numerics.pad_bits(out.dtype, pad_of(out))
    if pattern is not None:
        for box in pad_boxes(out, src):
            fill_rectangle(k, target, pattern, box.r0, box.c0, box.rows, box.cols)
    return None
