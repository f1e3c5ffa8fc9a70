"""`insert`: a Vec tile into a part of a Mat tile, on MTE3. Other bytes of the destination stay.

Rows past the destination's last row walk into its next column block, as the hardware counts; what would land past the
end of the destination is left out and reported (decision 28).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

from pypto_pro import layouts
from pypto_pro.dtypes import DataType
from pypto_pro.enums import MemorySpace, PipeType, TensorLayout
from pypto_pro.ops import rules
from pypto_pro.ops.builder import Builder, NativeTile
from pypto_pro.ops.entry import Access, Box, Effect, Requirement, Role, Section, defop
from pypto_pro.ops.extents import least, most, up
from pypto_pro.ops.operands import Offsets, ScalarInfo, TileArg, TileInfo, tile, tile_geometry

D, L = DataType, TensorLayout
InsertTarget = Annotated[TileArg, tile(Role.INOUT, MemorySpace.Mat)]
InsertSource = Annotated[TileArg, tile(Role.IN, MemorySpace.Vec)]

INSERTED = (
    D.DT_FP16, D.DT_BF16, D.DT_FP32, D.DT_INT32, D.DT_INT8, D.DT_FP8E4M3FN, D.DT_FP8E5M2, D.DT_FP8E8M0, D.DT_HF8,
    D.DT_FP4E2M1, D.DT_FP4E1M2,
)
LAYOUTS = {(L.NZ, L.NZ), (L.ZN, L.ZN), (L.NZ, L.ZN), (L.ZN, L.NZ), (L.ND, L.ND)}
"""(source, destination)."""


class Part(NamedTuple):
    """A box of the source and where it lands; `transposed`: target[j, i] = source[i, j]."""

    source: Box
    target: Box
    transposed: bool


def layout(tile_: Any) -> TensorLayout:
    """The layout a tile really has."""
    return layouts.effective_layout(tile_.type.layout, tile_.type.cols)


def source_box(src: Any) -> Box:
    """What an insert reads: the valid shape, whole blocks along the box axis, at the pitch `compact` says."""
    type_, rows, cols = src.type, src.vr, src.vc
    c0 = layouts.elements_per_block(type_.dtype)
    match layout(src):
        case L.NZ:
            pitch = layouts.compact_extent(type_.rows, rows, type_.compact)
            return Box(0, 0, rows, up(cols, c0), row_extent=pitch)
        case L.ZN:
            pitch = layouts.compact_extent(type_.cols, cols, type_.compact)
            return Box(0, 0, up(rows, c0), cols, col_extent=pitch)
    return Box(0, 0, rows, cols)


def whole(dst: Any, src: Any, offset: tuple[Any, Any]) -> Part:
    """An insert as one box, which may reach past the destination. `offset` follows the orientation of the source.

    NZ[R, C] and ZN[C, R] are equal bytes, so between the two the source appears transposed.
    """
    row, col = offset
    source = source_box(src)
    crossed = {layout(src), layout(dst)} == {L.NZ, L.ZN}
    place = (col, row, source.cols, source.rows) if crossed else (row, col, source.rows, source.cols)
    return Part(source, Box(*place), crossed)


def parts(dst: Any, src: Any, offset: tuple[Any, Any]) -> list[Part]:
    """An insert as boxes inside the destination: all blocks but its last with all their lines, then the last."""
    part = whole(dst, src, offset)
    target, (rows, cols) = part.target, dst.type.shape
    if not layouts.is_fractal(layout(dst)):
        return [_cut(part, False, 0, _inside(target.cols, cols - target.c0), _inside(target.rows, rows - target.r0))]
    step, across = layouts.elements_per_block(dst.type.dtype), layout(dst) is L.ZN
    # blocks follow each other along columns (NZ) or rows (ZN); the other axis counts the lines of a block
    if across:
        first, along, extent, start, count, lines = target.r0, target.rows, rows, target.c0, target.cols, cols
    else:
        first, along, extent, start, count, lines = target.c0, target.cols, cols, target.r0, target.rows, rows
    before = _inside(along, extent - step - first)
    last = _inside(along, extent - first) - before
    return [
        _cut(part, across, 0, before, least(count, lines)),
        _cut(part, across, before, last, _inside(count, lines - start)),
    ]


def _inside(extent: Any, room: Any) -> Any:
    return least(extent, most(room, 0))


def _cut(part: Part, across: bool, skip: Any, along: Any, count: Any) -> Part:
    """A part from block element `skip` on: `along` elements where blocks follow, `count` lines."""
    source, target = part.source, part.target
    if across:
        placed = Box(target.r0 + skip, target.c0, along, count)
    else:
        placed = Box(target.r0, target.c0 + skip, count, along)
    by_rows = across != part.transposed  # the axis of the source that runs along the blocks
    pitch = {"row_extent": source.row_extent, "col_extent": source.col_extent}
    taken = Box(skip, 0, along, count, **pitch) if by_rows else Box(0, skip, count, along, **pitch)
    return Part(taken, placed, part.transposed)


def copy_part(dst: TileArg, src: TileArg, part: Part) -> None:
    """Carry out one part."""
    source, target = part.source, part.target
    if source.rows <= 0 or source.cols <= 0:
        return
    bits = src.bits(
        source.rows, source.cols, source.r0, source.c0, row_extent=source.row_extent, col_extent=source.col_extent
    )
    dst.put_bits(bits.T if part.transposed else bits, target.r0, target.c0)


def touched(dst: Any, src: Any, offset: tuple[Any, Any]) -> list[Access]:
    """What an insert reads and writes."""
    part = whole(dst, src, offset)
    read = [Access("src_tile", Effect.READ, p.source) for p in parts(dst, src, offset)]
    return [*read, Access("dst_tile", Effect.WRITE, part.target, within_tile=True)]


def inside_fact(offset: Sequence[Any]) -> Requirement:
    """An offset on chip counts from the first element."""
    return Requirement((offset[0] >= 0) & (offset[1] >= 0), "the offset is negative")


def offset_facts(src: Any, offset: tuple[Any, Any]) -> list[Requirement]:
    """The offset is not negative, along the blocks of the source a multiple of c0."""
    if not layouts.is_fractal(layout(src)):
        return [inside_fact(offset)]
    c0 = layouts.elements_per_block(src.type.dtype)
    along, what = (offset[1], "column") if layout(src) is L.NZ else (offset[0], "row")
    text = f"the {what} offset of an insert from {layout(src).name} must be a multiple of {c0}"
    return [inside_fact(offset), Requirement(along % c0 == 0, f"{text}: whole 32-byte blocks are copied")]


@defop("pl.insert", pipe=PipeType.MTE3, section=Section.VECTOR, family="move.onchip", copies=True)
def insert(dst_tile: InsertTarget, src_tile: InsertSource, offset: Offsets) -> None:
    """dst[row + i, col + j] = src[i, j] over the valid shape of src (whole c0 blocks of NZ and ZN sources).

    Between NZ and ZN equal bytes are copied: dst[j + col, i + row] = src[i, j]. The offset along the blocks (columns of
    NZ, rows of ZN) is a multiple of c0. Nothing is written past the end of the destination.
    """
    if src_tile.vr == 0 or src_tile.vc == 0:
        return
    for part in parts(dst_tile, src_tile, (offset[0], offset[1])):
        copy_part(dst_tile, src_tile, part)


@insert.lower
def _(k: Builder, dst_tile: NativeTile, src_tile: NativeTile, offset: tuple[Any, ...]) -> Any:
    return lower_parts(k, dst_tile, src_tile, (offset[0], offset[1]))


def lower_parts(k: Builder, dst: NativeTile, src: NativeTile, offset: tuple[Any, Any]) -> Any:
    """Native code of an insert that stays inside the bytes of its destination; the meaning of others reports it."""
    part = whole(dst, src, offset)
    target, (rows, cols) = part.target, dst.type.shape
    below, right = k.scalar(target.r0) + target.rows, k.scalar(target.c0) + target.cols
    inside = (below <= rows) & (right <= cols)
    if layouts.is_fractal(layout(dst)):  # lines past the last one of a block walk into the next block
        inside = layouts.offset(tile_geometry(dst.type), below - 1, right - 1) < rows * cols
    k.require((src.vr == 0) | (src.vc == 0) | inside)
    return k.copy_box(dst, target, src, part.source, transposed=part.transposed)


def check_offset(offset: tuple[ScalarInfo, ...], holder: TileInfo) -> None:
    """Two offsets, constants inside the declared shape; ValueError."""
    if len(offset) != 2:
        raise ValueError(f"the offset has 2 elements (row, column), found {len(offset)}")
    for axis, (value, extent) in enumerate(zip(offset, holder.type.shape, strict=True)):
        if value.value is not None and not 0 <= value.value < extent:
            raise ValueError(f"offset {axis} is {value.value}; `{holder.name}` has extent {extent} there")


def check_pair(dst: TileInfo, src: TileInfo) -> None:
    """Equal dtypes and layouts an insert can copy between; ValueError."""
    if dst.dtype is not src.dtype or src.dtype not in INSERTED:
        raise ValueError(
            f"`{dst.name}` is {rules.names([dst.dtype])} and `{src.name}` {rules.names([src.dtype])}; an insert copies "
            f"bits between equal dtypes among {rules.names(INSERTED)}"
        )
    pair = (layout(src), layout(dst))
    if pair not in LAYOUTS:
        raise ValueError(f"insert copies NZ to NZ or ZN, ZN to ZN or NZ, ND to ND; found {pair[0].name} to "
                         f"{pair[1].name}")
    rules.whole_boxes(dst, src)


@insert.rules
def _(dst_tile: TileInfo, src_tile: TileInfo, offset: tuple[ScalarInfo, ...]) -> None:
    check_pair(dst_tile, src_tile)
    check_offset(offset, dst_tile)


@insert.regions
def _(dst_tile: TileArg, src_tile: TileArg, offset: tuple[Any, ...]) -> list[Access]:
    return touched(dst_tile, src_tile, (offset[0], offset[1]))


@insert.issue
def _(dst_tile: Any, src_tile: Any, offset: tuple[Any, ...]) -> list[Requirement]:
    return offset_facts(src_tile, (offset[0], offset[1]))
