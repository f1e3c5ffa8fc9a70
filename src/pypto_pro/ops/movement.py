"""Loads: windows of GM tensors into Vec or Mat tiles. Bits are copied, never converted.

A load moves the valid region of the tile; the tensor's shape is not consulted. `order[d]` names the tensor axis of tile
dimension d; None means the last two (`windows`). Stores: `store`.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from pypto_pro import layouts, numerics
from pypto_pro.dtypes import DataType
from pypto_pro.enums import MemorySpace, PipeType, TensorLayout, TilePad
from pypto_pro.ops import rules, scale_load
from pypto_pro.ops.builder import Builder, NativeTensor, NativeTile
from pypto_pro.ops.entry import Access, Box, Caution, Effect, Requirement, Role, Section, Window, defop
from pypto_pro.ops.extents import up
from pypto_pro.ops.operands import (
    AxesAttr,
    Offsets,
    ScalarInfo,
    TensorIn,
    TensorInfo,
    TileArg,
    TileInfo,
    tile,
    tile_geometry,
)
from pypto_pro.ops.tensors import TensorArg
from pypto_pro.ops.windows import (
    Order,
    check_ends,
    check_nz_tensor,
    check_runs,
    check_window,
    is_nz,
    packed_facts,
    run_facts,
    same_width,
    scaled,
    tensor_axes,
)

VEC, MAT = MemorySpace.Vec, MemorySpace.Mat
L = TensorLayout
MAX_MAT_ROWS, MAX_MAT_ELEMENTS = 16384, 512 << 10

LoadTarget = Annotated[TileArg, tile(Role.OUT, VEC, MAT)]


def by_space(tile_: Any) -> Section:
    """The section an on-chip end of a transfer belongs to."""
    return Section.VECTOR if tile_.type.space is VEC else Section.CUBE


def pad_of(dst: Any) -> TilePad:
    """The pad a load applies: none in Mat, and none in a tile with one column, whatever it declares."""
    type_ = dst.type
    return TilePad.null if type_.space is MAT or type_.cols == 1 else TilePad(type_.pad or 0)


def load_extent(dst: Any) -> tuple[Any, Any]:
    """Rows and columns a load defines: the valid ones, padded to a 32-byte block (Vec with pad) or to boxes (Mat)."""
    rows, cols, type_ = dst.vr, dst.vc, dst.type
    geo = tile_geometry(type_)
    if type_.space is MAT and layouts.is_fractal(geo.layout):
        # a tile lower than a box, as a [1, N] bias, has no rest of its boxes
        low, narrow = type_.rows < geo.box_rows, type_.cols < geo.box_cols
        return rows if low else up(rows, geo.box_rows), cols if narrow else up(cols, geo.box_cols)
    if pad_of(dst) is TilePad.null:
        return rows, cols
    block = layouts.elements_per_block(type_.dtype)
    return (rows, up(cols, block)) if geo.layout is L.ND else (up(rows, block), cols)


@defop("pl.load", pipe=PipeType.MTE2, section=lambda dst_tile, **_: by_space(dst_tile), family="move.gm_in",
       copies=True)
def load(dst_tile: LoadTarget, src_tensor: TensorIn, offsets: Offsets, *, order: AxesAttr = None) -> None:
    """Copy a window of a tensor into the valid region of a tile.

    `offsets`: absolute element offset per tensor axis. A descending `order` transposes. With `pad` set, elements up
    to the end of the last 32-byte block get the pad value; a load into Mat zeroes the rest of its last boxes. MX
    scales come from a tensor with a trailing phase axis (`scale_load`).
    """
    if dst_tile.vr == 0 or dst_tile.vc == 0:
        return
    if scale_load.is_scale_load(dst_tile, src_tensor):
        bits = scale_load.read(dst_tile, src_tensor, offsets, order)
    else:
        bits = src_tensor.bits(offsets, tensor_axes(len(offsets), order), dst_tile.vr, dst_tile.vc)
    rows, cols = load_extent(dst_tile)
    if (rows, cols) != bits.shape:
        fill = numerics.pad_bits(dst_tile.dtype, pad_of(dst_tile)) or 0
        padded = np.full((rows, cols), fill, bits.dtype)
        padded[: dst_tile.vr, : dst_tile.vc] = bits
        bits = padded
    dst_tile.put_bits(bits)


@load.lower
def _(
    k: Builder, dst_tile: NativeTile, src_tensor: NativeTensor, offsets: tuple[Any, ...], order: Order
) -> Any:
    rows, cols = load_extent(dst_tile)
    if scale_load.is_scale_load(dst_tile, src_tensor):
        axes = scale_load.scale_axes(len(offsets), order)
        return k.load_scales(dst_tile, src_tensor, offsets, axes, fill_rows=rows, fill_cols=cols)
    fill = numerics.pad_bits(dst_tile.dtype, pad_of(dst_tile)) or 0
    return k.load_window(
        dst_tile, src_tensor, offsets, tensor_axes(len(offsets), order), dst_tile.vr, dst_tile.vc, fill_rows=rows,
        fill_cols=cols, fill=fill,
    )


@load.rules
def _(dst_tile: TileInfo, src_tensor: TensorInfo, offsets: tuple[ScalarInfo, ...], order: Order) -> None:
    check_ends(dst_tile, src_tensor)
    same_width(dst_tile, src_tensor)
    check_window(src_tensor, offsets, order)
    if dst_tile.type.pad in (TilePad.max.value, TilePad.min.value) and dst_tile.dtype.bits() == 64:
        raise ValueError(f"`{dst_tile.name}` is {rules.names([dst_tile.dtype])}, which is padded with zeros only")
    if scale_load.is_scale_load(dst_tile, src_tensor):
        scale_load.check(dst_tile, src_tensor, order)
        return
    if is_nz(src_tensor):
        check_nz_tensor(src_tensor, order)
    if dst_tile.type.space is VEC:
        _check_vec_target(dst_tile, src_tensor)
    else:
        _check_mat_target(dst_tile, src_tensor, order)
    check_runs(dst_tile, src_tensor, order)


def _check_vec_target(dst: TileInfo, src: TensorInfo) -> None:
    """ND and DN tiles take ND tensors, NZ tiles NZ tensors; ValueError."""
    layout = rules.layout_of(dst)
    if (layout in (L.ND, L.DN) and not is_nz(src)) or (layout is L.NZ and is_nz(src)):
        return
    raise ValueError(f"`{dst.name}` is {layout.name} in Vec and `{src.name}` {'NZ' if is_nz(src) else 'ND'}: Vec tiles "
                     "take ND or DN from ND tensors, NZ from NZ tensors")


def _check_mat_target(dst: TileInfo, src: TensorInfo, order: Order) -> None:
    """Which boxes the load engine writes from which access; ValueError."""
    type_, layout = dst.type, rules.layout_of(dst)
    descending = order is not None and order[0] > order[1]
    if type_.rows > MAX_MAT_ROWS or type_.rows * type_.cols > MAX_MAT_ELEMENTS:
        raise ValueError(f"`{dst.name}` [{type_.rows}, {type_.cols}] is too large for one load into Mat: "
                         f"{MAX_MAT_ROWS} rows and {MAX_MAT_ELEMENTS} elements at most")
    if layout in (L.ND, L.DN):
        if is_nz(src):
            raise ValueError(f"`{dst.name}` is {layout.name} and takes no NZ tensor")
        return
    if layout in (L.ZZ, L.NN):
        raise ValueError(f"`{dst.name}` is {layout.name}, which only takes MX scales: FP8E8M0 at both ends, fractal "
                         f"{layouts.SCALE_FRACTAL}")
    if type_.fractal != layouts.DEFAULT_FRACTAL or type_.dtype.bits() == 64:
        raise ValueError(f"a load makes {layout.name} boxes of {layouts.DEFAULT_FRACTAL} bytes of elements up to 32 "
                         f"bits; `{dst.name}` is {rules.names([type_.dtype])} with fractal {type_.fractal}")
    if layout is L.ZN and not descending:
        raise ValueError(f"`{dst.name}` is ZN, which takes a transposed tensor: order must be descending, as [1, 0]")
    if layout is L.NZ and descending and type_.dtype.is_sub_byte:
        raise ValueError(f"`{dst.name}` is {rules.names([type_.dtype])}: a transposed tensor needs a ZN tile")


@load.regions
def _(dst_tile: TileArg, src_tensor: TensorArg, offsets: tuple[Any, ...], order: Order) -> list[Access]:
    rows, cols = load_extent(dst_tile)
    if dst_tile.vr == 0 or dst_tile.vc == 0:
        return []
    written = Access("dst_tile", Effect.WRITE, Box(0, 0, rows, cols))
    if scale_load.is_scale_load(dst_tile, src_tensor):
        return [*scale_load.accesses(dst_tile, offsets, order), written]
    window = Window(offsets, tensor_axes(len(offsets), order), dst_tile.vr, dst_tile.vc)
    return [Access("src_tensor", Effect.READ, window), written]


@load.issue
def _(dst_tile: Any, src_tensor: Any, offsets: tuple[Any, ...], order: Order) -> list[Any]:
    if scale_load.is_scale_load(dst_tile, src_tensor):
        return [Requirement(offsets[-1] == 0, scale_load.WHOLE_PAIRS)]
    return run_facts(dst_tile, src_tensor, "src_tensor", offsets, order)


@defop("pl.load_tile", pipe=PipeType.MTE2, section=lambda dst_tile, **_: by_space(dst_tile), family="move.gm_in",
       copies=True)
def load_tile(dst_tile: LoadTarget, src_tensor: TensorIn, tile_offsets: Offsets, *, order: AxesAttr = None) -> None:
    """`load` with the two selected axes counted in whole tiles (declared shape); other axes stay in elements.

    The smaller axis counts in rows of the tile, the larger in columns, for descending orders too: where that matters,
    in tiles that are not square, the author is warned.
    """
    load.meaning(dst_tile, src_tensor, scaled(tile_offsets, order, dst_tile.type.shape), order=order)  # type: ignore[misc]


@load_tile.issue
def _(dst_tile: Any, src_tensor: Any, tile_offsets: tuple[Any, ...], order: Order) -> list[Caution]:
    (rows, cols), found = dst_tile.type.shape, packed_facts("load", dst_tile, tile_offsets, order)
    if order is None or order[0] < order[1] or rows == cols:
        return found
    text = (f"load_tile with order {list(order)} counts axis {order[1]} in the {rows} rows of the tile and axis "
            f"{order[0]} in its {cols} columns, which it fills the other way round: `load` takes offsets in elements")
    return [*found, Caution(False, "stride_mismatch", text)]


@load_tile.rewrite
def _(dst_tile: Any, src_tensor: Any, tile_offsets: tuple[Any, ...], order: Order) -> tuple[str, Any]:
    if dst_tile.type.dtype is DataType.DT_FP8E8M0 and dst_tile.type.layout in (L.ZZ, L.NN):
        raise ValueError("load_tile would count the axis of MX scale groups in tiles of groups: use load")
    offsets = scaled(tile_offsets, order, dst_tile.type.shape)
    return "load", {"dst_tile": dst_tile, "src_tensor": src_tensor, "offsets": offsets, "order": order}

