"""`insert`: a Vec tile into a part of a Mat tile, on MTE3. Other bytes of the destination stay."""

from __future__ import annotations

from typing import Annotated, Any

from pypto_pro import layouts
from pypto_pro.enums import MemorySpace, PipeType, TensorLayout
from pypto_pro.ops import rules
from pypto_pro.ops.builder import Builder, NativeTile
from pypto_pro.ops.entry import Access, Box, Effect, Role, Section, defop
from pypto_pro.ops.operands import Offsets, ScalarInfo, TileArg, TileInfo, tile

L = TensorLayout
InsertTarget = Annotated[TileArg, tile(Role.OUT, MemorySpace.Mat)]
InsertSource = Annotated[TileArg, tile(Role.IN, MemorySpace.Vec)]


def layout(tile_: Any) -> TensorLayout:
    """The layout a tile really has."""
    return layouts.effective_layout(tile_.type.layout, tile_.type.cols)


def up(extent: Any, step: int) -> Any:
    """Rounded up to a multiple of `step`."""
    return (extent + (step - 1)) // step * step


def boxes(dst_tile: Any, src_tile: Any, offset: tuple[Any, Any]) -> tuple[Box, Box]:
    """(source box, destination box) of an insert; whole c0 blocks are copied along the box axis.

    The source pitch of a fractal tile follows its compact attribute (types-and-memory 4.4).
    """
    (row, col), type_, c0 = offset, src_tile.type, layouts.elements_per_block(src_tile.type.dtype)
    rows, cols = src_tile.vr, src_tile.vc
    match layout(src_tile):
        case L.NZ:
            cols = up(cols, c0)
            source = Box(0, 0, rows, cols, row_extent=layouts.compact_extent(type_.rows, rows, type_.compact))
        case L.ZN:
            rows = up(rows, c0)
            source = Box(0, 0, rows, cols, col_extent=layouts.compact_extent(type_.cols, cols, type_.compact))
        case _:
            source = Box(0, 0, rows, cols)
    if layout(src_tile) is L.NZ and layout(dst_tile) is L.ZN:  # equal bytes: NZ[R, C] is ZN[C, R] transposed
        return source, Box(col, row, cols, rows)
    return source, Box(row, col, rows, cols)


def transposes(dst_tile: Any, src_tile: Any) -> bool:
    """Whether an insert is the transpose idiom: NZ bytes into a ZN tile."""
    return layout(src_tile) is L.NZ and layout(dst_tile) is L.ZN


@defop("pl.insert", pipe=PipeType.MTE3, section=Section.VECTOR, family="move.onchip", copies=True)
def insert(dst_tile: InsertTarget, src_tile: InsertSource, offset: Offsets) -> None:
    """dst[row + i, col + j] = src[i, j] over the valid shape of src (whole c0 blocks of NZ sources).

    NZ -> ZN is the transpose idiom: dst[j + col, i + row] = src[i, j]. The column offset of NZ is a multiple of c0.
    """
    if src_tile.vr == 0 or src_tile.vc == 0:
        return
    source, target = boxes(dst_tile, src_tile, (offset[0], offset[1]))
    bits = src_tile.bits(source.rows, source.cols, row_extent=source.row_extent, col_extent=source.col_extent)
    dst_tile.put_bits(bits.T if transposes(dst_tile, src_tile) else bits, target.r0, target.c0)


@insert.lower
def _(k: Builder, dst_tile: NativeTile, src_tile: NativeTile, offset: tuple[Any, ...]) -> Any:
    source, target = boxes(dst_tile, src_tile, (offset[0], offset[1]))
    return k.copy_box(dst_tile, target, src_tile, source, transposed=transposes(dst_tile, src_tile))


def check_offset(offset: tuple[ScalarInfo, ...], holder: TileInfo) -> None:
    """Two offsets, constants inside the declared shape; ValueError."""
    if len(offset) != 2:
        raise ValueError(f"the offset has 2 elements (row, column), found {len(offset)}")
    for axis, (value, extent) in enumerate(zip(offset, holder.type.shape, strict=True)):
        if value.value is not None and not 0 <= value.value < extent:
            raise ValueError(f"offset {axis} is {value.value}; `{holder.name}` has extent {extent} there")


def check_pair(dst: TileInfo, src: TileInfo) -> None:
    """Equal dtypes and layouts an insert can copy between."""
    if dst.dtype is not src.dtype:
        raise ValueError(f"`{dst.name}` is {rules.names([dst.dtype])} and `{src.name}` {rules.names([src.dtype])}; "
                         "a move copies bits between equal dtypes")
    pair = (layout(src), layout(dst))
    if pair not in ((L.NZ, L.NZ), (L.ZN, L.ZN), (L.NZ, L.ZN), (L.ND, L.ND)):
        raise ValueError(f"insert copies NZ to NZ or ZN, ZN to ZN, ND to ND; found {pair[0].name} to {pair[1].name}")


@insert.rules
def _(dst_tile: TileInfo, src_tile: TileInfo, offset: tuple[ScalarInfo, ...]) -> None:
    check_pair(dst_tile, src_tile)
    check_offset(offset, dst_tile)


@insert.regions
def _(dst_tile: TileArg, src_tile: TileArg, offset: tuple[Any, ...]) -> list[Access]:
    source, target = boxes(dst_tile, src_tile, (offset[0], offset[1]))
    return [Access("src_tile", Effect.READ, source), Access("dst_tile", Effect.WRITE, target)]
