"""Transfers between GM and on-chip tiles: load, load_tile, store, store_tile; and scalar element access.

A transfer moves the valid region of the tile; the tensor's shape is not consulted. `order[d]` names the tensor axis
of tile dimension d; None means the last two. Bits are copied, never converted (exits from Acc convert: cube files).
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from pypto_pro import layouts, numerics
from pypto_pro.dtypes import DataType
from pypto_pro.enums import AtomicType, MemorySpace, PipeType, ReluPreMode, STPhase, TensorLayout, TilePad
from pypto_pro.ops import rules, scale_load
from pypto_pro.ops.builder import Builder, NativeTensor, NativeTile
from pypto_pro.ops.entry import Access, Box, Effect, Keyword, Role, Section, Window, defop
from pypto_pro.ops.fixpipe import Relu, ScaleIn, check_exit, exit_bits, scale_access
from pypto_pro.ops.operands import (
    Array,
    AxesAttr,
    Offsets,
    ScalarInfo,
    TensorIn,
    TensorInfo,
    TensorOut,
    TileArg,
    TileInfo,
    tile,
    tile_geometry,
)
from pypto_pro.ops.tensors import TensorArg

VEC, MAT, ACC = MemorySpace.Vec, MemorySpace.Mat, MemorySpace.Acc

LoadTarget = Annotated[TileArg, tile(Role.OUT, VEC, MAT)]
StoreSource = Annotated[TileArg, tile(Role.IN, VEC, ACC)]


def tensor_axes(rank: int, order: tuple[int, ...] | None) -> tuple[int | None, int]:
    """(tensor axis of tile rows, of tile columns); None = the last two; a rank-1 tensor is one row."""
    if rank == 1:
        return None, 0
    return (order[0], order[1]) if order else (rank - 2, rank - 1)


def by_space(tile_: Any) -> Section:
    """The section an on-chip end of a transfer belongs to."""
    return Section.VECTOR if tile_.type.space is VEC else Section.CUBE


def check_window(tensor: TensorInfo, offsets: tuple[ScalarInfo, ...], order: tuple[int, ...] | None) -> None:
    """Offsets and axis order against the tensor; ValueError."""
    dims = tensor.type.dims
    if len(offsets) != len(dims):
        raise ValueError(f"`{tensor.name}` has {len(dims)} axes, found {len(offsets)} offsets")
    for axis, (offset, dim) in enumerate(zip(offsets, dims, strict=True)):
        if offset.value is None:
            continue
        if offset.value < 0:
            raise ValueError(f"offset {axis} of `{tensor.name}` is {offset.value}; offsets are not negative")
        if dim is not None and offset.value >= dim:
            raise ValueError(f"offset {axis} of `{tensor.name}` is {offset.value}, but that axis has size {dim}")
    if order is None:
        return
    if len(order) != 2:
        raise ValueError(f"order names two tensor axes, found {len(order)}")
    if order[0] == order[1] or not all(0 <= axis < len(dims) for axis in order):
        raise ValueError(f"order {list(order)} must name two different axes from 0 to {len(dims) - 1}")


def check_ends(tile_: TileInfo, tensor: TensorInfo) -> None:
    """Dtypes of both ends may be moved and have one width; rows fill 32-byte blocks."""
    for end in (tile_, tensor):
        if end.dtype not in rules.MOVABLE:
            raise ValueError(f"`{end.name}` is {rules.names([end.dtype])}, which transfers do not move")
    if tile_.type.space is VEC:
        rules.aligned_rows(tile_)


def same_width(tile_: TileInfo, tensor: TensorInfo) -> None:
    """A transfer copies bits, so both ends need elements of one width; ValueError."""
    if tile_.dtype.bits() != tensor.dtype.bits():
        raise ValueError(
            f"`{tile_.name}` is {rules.names([tile_.dtype])} and `{tensor.name}` is {rules.names([tensor.dtype])}; "
            "a transfer copies bits and needs one width"
        )


def load_extent(dst: Any) -> tuple[Any, Any]:
    """Rows and columns a load defines: the valid ones, padded to a 32-byte block (Vec with pad) or to boxes (Mat)."""
    rows, cols, type_ = dst.vr, dst.vc, dst.type
    geo = tile_geometry(type_)
    if layouts.is_fractal(geo.layout):  # a tile lower than a box, as a [1, N] bias, has no rest of its boxes
        low, narrow = type_.rows < geo.box_rows, type_.cols < geo.box_cols
        return rows if low else _up(rows, geo.box_rows), cols if narrow else _up(cols, geo.box_cols)
    if not type_.pad:
        return rows, cols
    block = layouts.elements_per_block(type_.dtype)
    return (rows, _up(cols, block)) if geo.layout is TensorLayout.ND else (_up(rows, block), cols)


def _up(extent: Any, step: int) -> Any:
    return (extent + (step - 1)) // step * step


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
        fill = numerics.pad_bits(dst_tile.dtype, TilePad(dst_tile.type.pad or 0)) or 0
        padded = np.full((rows, cols), fill, bits.dtype)
        padded[: dst_tile.vr, : dst_tile.vc] = bits
        bits = padded
    dst_tile.put_bits(bits)


@load.lower
def _(
    k: Builder, dst_tile: NativeTile, src_tensor: NativeTensor, offsets: tuple[Any, ...], order: tuple[int, ...] | None
) -> Any:
    if scale_load.is_scale_load(dst_tile, src_tensor):
        return NotImplemented
    rows, cols = load_extent(dst_tile)
    fill = numerics.pad_bits(dst_tile.dtype, TilePad(dst_tile.type.pad or 0)) or 0
    return k.load_window(
        dst_tile, src_tensor, offsets, tensor_axes(len(offsets), order), dst_tile.vr, dst_tile.vc, fill_rows=rows,
        fill_cols=cols, fill=fill,
    )


@load.rules
def _(
    dst_tile: TileInfo, src_tensor: TensorInfo, offsets: tuple[ScalarInfo, ...], order: tuple[int, ...] | None
) -> None:
    if not isinstance(dst_tile, TileInfo) or not isinstance(src_tensor, TensorInfo):
        raise ValueError("load takes a tile, then a tensor")
    check_ends(dst_tile, src_tensor)
    same_width(dst_tile, src_tensor)
    check_window(src_tensor, offsets, order)
    if scale_load.is_scale_load(dst_tile, src_tensor):
        scale_load.check(dst_tile, src_tensor, order)


@load.regions
def _(
    dst_tile: TileArg, src_tensor: TensorArg, offsets: tuple[Any, ...], order: tuple[int, ...] | None
) -> list[Access]:
    rows, cols = load_extent(dst_tile)
    written = Access("dst_tile", Effect.WRITE, Box(0, 0, rows, cols))
    if scale_load.is_scale_load(dst_tile, src_tensor):
        return [*scale_load.accesses(dst_tile, offsets, order), written]
    window = Window(offsets, tensor_axes(len(offsets), order), dst_tile.vr, dst_tile.vc)
    return [Access("src_tensor", Effect.READ, window), written]


def scaled(offsets: tuple[Any, ...], order: tuple[int, ...] | None, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Tile offsets -> element offsets: the smaller selected axis counts in shape[0], the larger in shape[1]."""
    out = list(offsets)
    if len(out) == 1:
        out[0] = out[0] * shape[1]
        return tuple(out)
    rows, cols = tensor_axes(len(out), order)
    assert rows is not None
    low, high = sorted((rows, cols))
    out[low] = out[low] * shape[0]
    out[high] = out[high] * shape[1]
    return tuple(out)


@defop("pl.load_tile", pipe=PipeType.MTE2, section=lambda dst_tile, **_: by_space(dst_tile), family="move.gm_in",
       copies=True)
def load_tile(dst_tile: LoadTarget, src_tensor: TensorIn, tile_offsets: Offsets, *, order: AxesAttr = None) -> None:
    """`load` with the two selected axes counted in whole tiles (declared shape); other axes stay in elements."""
    load.meaning(dst_tile, src_tensor, scaled(tile_offsets, order, dst_tile.type.shape), order=order)  # type: ignore[misc]


@load_tile.rewrite
def _(dst_tile: Any, src_tensor: Any, tile_offsets: tuple[Any, ...], order: tuple[int, ...] | None) -> tuple[str, Any]:
    offsets = scaled(tile_offsets, order, dst_tile.type.shape)
    return "load", {"dst_tile": dst_tile, "src_tensor": src_tensor, "offsets": offsets, "order": order}


StoreAtomic = Annotated[AtomicType, Keyword(enum=AtomicType)]
StorePhase = Annotated["STPhase | None", Keyword(enum=STPhase)]


def store_pipe(src_tile: Any, **_: Any) -> PipeType:
    """MTE3 from Vec, FIX from Acc."""
    return PipeType.MTE3 if src_tile.type.space is VEC else PipeType.FIX


def acc_pitch(src_tile: Any) -> Any:
    """Rows that separate the 16-column blocks of an Acc source: declared, or with compact 1 the valid ones in boxes."""
    if src_tile.type.space is not ACC:
        return None
    return _up(src_tile.vr, 16) if src_tile.type.compact == 1 else src_tile.type.rows


def atomic_add(old: Array, new: Array, dtype: DataType) -> Array:
    """Element-wise add at the destination: INT8 saturates, INT16/INT32 wrap, floats round once per add."""
    if dtype is DataType.DT_INT8:
        return np.clip(old.astype(np.int16) + new.astype(np.int16), -128, 127).astype(np.int8)
    return np.asarray(old + new)


@defop("pl.store", pipe=store_pipe, section=lambda src_tile, **_: by_space(src_tile), family="move.gm_out", copies=True)
def store(
    dst_tensor: TensorOut,
    src_tile: StoreSource,
    offsets: Offsets,
    *,
    relu_pre_mode: Relu = None,
    scale: ScaleIn = None,
    order: AxesAttr = None,
    atomic: StoreAtomic = AtomicType.AtomicNone,
    phase: StorePhase = None,
) -> None:
    """Copy the valid region of a tile to a window of a tensor; with AtomicAdd add it there, element by element.

    `relu_pre_mode`, `scale` and `phase` belong to Acc sources.
    """
    if src_tile.vr == 0 or src_tile.vc == 0:
        return
    axes = tensor_axes(len(offsets), order)
    bits = src_tile.bits(row_extent=acc_pitch(src_tile))
    if src_tile.type.space is ACC:
        values = bits.view(np.int32 if src_tile.dtype is DataType.DT_INT32 else np.float32)
        bits = exit_bits(values, dst_tensor.dtype, scale, relu_pre_mode)
    if atomic is AtomicType.AtomicAdd:
        dtype = dst_tensor.dtype
        old = dst_tensor.bits(offsets, axes, *bits.shape).view(dtype.numpy)
        bits = atomic_add(old, bits.view(dtype.numpy), dtype).view(dtype.bits_dtype)
    dst_tensor.put_bits(bits, offsets, axes)


@store.lower
def _(
    k: Builder, dst_tensor: NativeTensor, src_tile: NativeTile, offsets: tuple[Any, ...],
    relu_pre_mode: ReluPreMode | None, scale: Any, order: tuple[int, ...] | None, atomic: AtomicType, **_: Any,
) -> Any:
    if scale is not None or relu_pre_mode is ReluPreMode.NormalRelu:
        return NotImplemented
    box = Box(0, 0, src_tile.vr, src_tile.vc, row_extent=acc_pitch(src_tile))
    axes = tensor_axes(len(offsets), order)
    return k.store_window(dst_tensor, offsets, axes, src_tile, box, add=atomic is AtomicType.AtomicAdd)


@store.rules
def _(
    dst_tensor: TensorInfo, src_tile: TileInfo, offsets: tuple[ScalarInfo, ...], relu_pre_mode: ReluPreMode | None,
    scale: object, order: tuple[int, ...] | None, atomic: AtomicType, phase: STPhase | None,
) -> None:
    if not isinstance(dst_tensor, TensorInfo) or not isinstance(src_tile, TileInfo):
        raise ValueError("store takes a tensor, then a tile")
    check_ends(src_tile, dst_tensor)
    check_window(dst_tensor, offsets, order)
    if order is not None and order[0] > order[1]:
        raise ValueError(f"order must be ascending, found {list(order)}")
    adds = (*rules.FLOATS, DataType.DT_INT32, DataType.DT_INT16, DataType.DT_INT8)
    if atomic is AtomicType.AtomicAdd and dst_tensor.dtype not in adds:
        found = rules.names([dst_tensor.dtype])
        raise ValueError(f"AtomicAdd takes {rules.names(adds)}; `{dst_tensor.name}` is {found}")
    if src_tile.type.space is ACC:
        check_exit(src_tile.dtype, dst_tensor.dtype, scale)
        _check_per_channel(scale, relu_pre_mode, phase, order, atomic)
    else:
        same_width(src_tile, dst_tensor)
        given = [n for n, v in (("relu_pre_mode", relu_pre_mode), ("scale", scale), ("phase", phase)) if v is not None]
        if given:
            raise ValueError(f"{given[0]} belongs to stores from Acc; `{src_tile.name}` is in Vec")


def _check_per_channel(
    scale: object, relu: ReluPreMode | None, phase: STPhase | None, order: tuple[int, ...] | None, atomic: AtomicType
) -> None:
    """What a per-channel scale tile excludes; ValueError."""
    if not isinstance(scale, TileInfo):
        return
    if relu is not None:
        raise ValueError("a per-channel scale cannot be used together with relu_pre_mode")
    if phase is not None:
        raise ValueError("a per-channel scale cannot be combined with phase")
    if order is not None or atomic is not AtomicType.AtomicNone:
        raise ValueError("a per-channel scale takes neither order nor atomic")


@store.regions
def _(
    dst_tensor: TensorArg, src_tile: TileArg, offsets: tuple[Any, ...], order: tuple[int, ...] | None,
    atomic: AtomicType, scale: Any, **_: Any,
) -> list[Access]:
    window = Window(offsets, tensor_axes(len(offsets), order), src_tile.vr, src_tile.vc)
    effect = Effect.ATOMIC if atomic is AtomicType.AtomicAdd else Effect.WRITE
    return [
        Access("src_tile", Effect.READ, Box(0, 0, src_tile.vr, src_tile.vc, row_extent=acc_pitch(src_tile))),
        Access("dst_tensor", effect, window),
        *scale_access(scale, src_tile.vc),
    ]


@defop("pl.store_tile", pipe=store_pipe, section=lambda src_tile, **_: by_space(src_tile), family="move.gm_out",
       copies=True)
def store_tile(
    dst_tensor: TensorOut,
    src_tile: StoreSource,
    tile_offsets: Offsets,
    *,
    relu_pre_mode: Relu = None,
    scale: ScaleIn = None,
    order: AxesAttr = None,
    atomic: StoreAtomic = AtomicType.AtomicNone,
    phase: StorePhase = None,
) -> None:
    """`store` with the two selected axes counted in whole tiles (declared shape); other axes stay in elements."""
    store.meaning(  # type: ignore[misc]
        dst_tensor, src_tile, scaled(tile_offsets, order, src_tile.type.shape), relu_pre_mode=relu_pre_mode,
        scale=scale, order=order, atomic=atomic, phase=phase,
    )


@store_tile.rewrite
def _(
    dst_tensor: Any, src_tile: Any, tile_offsets: tuple[Any, ...], order: tuple[int, ...] | None, **others: Any
) -> tuple[str, Any]:
    offsets = scaled(tile_offsets, order, src_tile.type.shape)
    return "store", {"dst_tensor": dst_tensor, "src_tile": src_tile, "offsets": offsets, "order": order, **others}
