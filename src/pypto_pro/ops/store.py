"""Stores: Vec tiles to GM bit by bit (MTE3), accumulators through the exit that scales and converts (FIX)."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from pypto_pro import layouts
from pypto_pro.dtypes import DataType
from pypto_pro.enums import AtomicType, MemorySpace, PipeType, ReluPreMode, STPhase, TensorLayout
from pypto_pro.ops import rules
from pypto_pro.ops.builder import Builder, NativeTensor, NativeTile
from pypto_pro.ops.entry import Access, Box, Caution, Effect, Keyword, Requirement, Role, Window, defop
from pypto_pro.ops.extents import up
from pypto_pro.ops.fixpipe import (
    Relu,
    ScaleIn,
    check_exit,
    check_per_channel,
    exit_bits,
    exit_of,
    exit_values,
    is_omitted,
    one_nan,
    scale_access,
)
from pypto_pro.ops.movement import by_space
from pypto_pro.ops.operands import (
    Array,
    AxesAttr,
    Offsets,
    ScalarInfo,
    TensorInfo,
    TensorOut,
    TileArg,
    TileInfo,
    tile,
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

VEC, ACC = MemorySpace.Vec, MemorySpace.Acc
ADDED = (*rules.FLOATS, DataType.DT_INT32, DataType.DT_INT16, DataType.DT_INT8)
MAX_ACC_COLS, MAX_ACC_ROWS, MAX_ACC_NZ_ROWS = 4095, 8192, 65535

StoreSource = Annotated[TileArg, tile(Role.IN, VEC, ACC)]
StoreAtomic = Annotated[AtomicType, Keyword(enum=AtomicType)]
StorePhase = Annotated["STPhase | None", Keyword(enum=STPhase)]


def store_pipe(src_tile: Any, **_: Any) -> PipeType:
    """MTE3 from Vec, FIX from Acc."""
    return PipeType.MTE3 if src_tile.type.space is VEC else PipeType.FIX


def acc_pitch(src_tile: Any) -> Any:
    """Rows that separate the 16-column blocks of an Acc source: declared, or with compact 1 the valid ones in boxes."""
    if src_tile.type.space is not ACC:
        return None
    return up(src_tile.vr, 16) if src_tile.type.compact == 1 else src_tile.type.rows


def atomic_add(old: Array, new: Array, dtype: DataType) -> Array:
    """Element-wise add at the destination: INT8 saturates, INT16/INT32 wrap, floats round once per add."""
    if dtype is DataType.DT_INT8:
        return np.clip(old.astype(np.int16) + new.astype(np.int16), -128, 127).astype(np.int8)
    total = np.asarray(old + new)
    return one_nan(total) if dtype.is_float() else total


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
        bits = exit_bits(exit_values(src_tile, bits), dst_tensor.dtype, scale, relu_pre_mode)
    if atomic is AtomicType.AtomicAdd:
        dtype = dst_tensor.dtype
        old = dst_tensor.bits(offsets, axes, *bits.shape).view(dtype.numpy)
        bits = atomic_add(old, bits.view(dtype.numpy), dtype).view(dtype.bits_dtype)
    dst_tensor.put_bits(bits, offsets, axes)


@store.lower
def _(
    k: Builder, dst_tensor: NativeTensor, src_tile: NativeTile, offsets: tuple[Any, ...],
    relu_pre_mode: ReluPreMode | None, scale: Any, order: Order, atomic: AtomicType, **_: Any,
) -> Any:
    box = Box(0, 0, src_tile.vr, src_tile.vc, row_extent=acc_pitch(src_tile))
    return k.store_window(
        dst_tensor, offsets, tensor_axes(len(offsets), order), src_tile, box, add=atomic is AtomicType.AtomicAdd,
        way_out=exit_of(src_tile, scale, relu_pre_mode),
    )


@store.rules
def _(
    dst_tensor: TensorInfo, src_tile: TileInfo, offsets: tuple[ScalarInfo, ...], relu_pre_mode: ReluPreMode | None,
    scale: object, order: Order, atomic: AtomicType, phase: STPhase | None,
) -> None:
    check_ends(src_tile, dst_tensor)
    check_window(dst_tensor, offsets, order)
    if order is not None and order[0] > order[1]:
        raise ValueError(f"order must be ascending, found {list(order)}")
    if atomic is AtomicType.AtomicAdd and dst_tensor.dtype not in ADDED:
        found = rules.names([dst_tensor.dtype])
        raise ValueError(f"AtomicAdd takes {rules.names(ADDED)}; `{dst_tensor.name}` is {found}")
    if src_tile.type.space is ACC:
        check_exit(src_tile.dtype, dst_tensor.dtype, scale)
        check_per_channel(scale, relu_pre_mode, phase, order, atomic)
        _check_acc_source(src_tile, dst_tensor)
    else:
        asked = (("relu_pre_mode", relu_pre_mode), ("scale", scale), ("phase", phase))
        given = [name for name, value in asked if not is_omitted(value)]
        if given:
            raise ValueError(f"{given[0]} belongs to stores from Acc; `{src_tile.name}` is in Vec")
        same_width(src_tile, dst_tensor)
        _check_vec_source(src_tile, dst_tensor)
    if is_nz(dst_tensor):
        _check_nz_store(dst_tensor, src_tile, offsets, order)
    check_runs(src_tile, dst_tensor, order)


def _check_acc_source(src: TileInfo, dst: TensorInfo) -> None:
    """Extents the exit can count; ValueError."""
    rows, cols = src.type.shape
    most = MAX_ACC_NZ_ROWS if is_nz(dst) else MAX_ACC_ROWS
    if cols > MAX_ACC_COLS or rows > most:
        raise ValueError(f"`{src.name}` [{rows}, {cols}] is too large for one exit: {most} rows and {MAX_ACC_COLS} "
                         "columns at most")


def _check_vec_source(src: TileInfo, dst: TensorInfo) -> None:
    """Vec tiles leave as lines, not as boxes; ValueError."""
    layout = rules.layout_of(src)
    if layouts.is_fractal(layout):
        raise ValueError(f"`{src.name}` is {layout.name} in Vec; only ND and DN tiles are stored from there")
    if is_nz(dst):
        raise ValueError(f"the NZ tensor `{dst.name}` is stored from Acc; `{src.name}` is in Vec")


def _check_nz_store(dst: TensorInfo, src: TileInfo, offsets: tuple[ScalarInfo, ...], order: Order) -> None:
    """An NZ tensor is stored as a whole, by a tile that can hold it; ValueError."""
    check_nz_tensor(dst, order)
    if any(extent < dim for extent, dim in zip(src.type.shape, dst.type.dims, strict=True) if dim is not None):
        raise ValueError(f"the NZ tensor `{dst.name}` {list(dst.type.dims)} is stored as a whole: `{src.name}` "
                         f"{list(src.type.shape)} is smaller")
    if any(offset.value != 0 for offset in offsets):
        raise ValueError(f"the NZ tensor `{dst.name}` is stored as a whole: its offsets are literally [0, 0]")


@store.regions
def _(
    dst_tensor: TensorArg, src_tile: TileArg, offsets: tuple[Any, ...], order: Order, atomic: AtomicType, scale: Any,
    **_: Any,
) -> list[Access]:
    window = Window(offsets, tensor_axes(len(offsets), order), src_tile.vr, src_tile.vc)
    effect = Effect.ATOMIC if atomic is AtomicType.AtomicAdd else Effect.WRITE
    if src_tile.vr == 0 or src_tile.vc == 0:
        return []
    return [
        Access("src_tile", Effect.READ, Box(0, 0, src_tile.vr, src_tile.vc, row_extent=acc_pitch(src_tile))),
        Access("dst_tensor", effect, window),
        *scale_access(scale, src_tile.vc),
    ]


@store.issue
def _(dst_tensor: Any, src_tile: Any, offsets: tuple[Any, ...], order: Order, **_: Any) -> list[Any]:
    if dst_tensor.type.layout is TensorLayout.NZ:
        rows, cols = dst_tensor.type.dims
        nothing = (src_tile.vr == 0) | (src_tile.vc == 0)
        whole = (src_tile.vr == rows) & (src_tile.vc == cols) | nothing
        return [Requirement(whole, f"an NZ tensor is stored as a whole: the valid shape must be [{rows}, {cols}]")]
    return run_facts(src_tile, dst_tensor, "dst_tensor", offsets, order)


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


@store_tile.issue
def _(dst_tensor: Any, src_tile: Any, tile_offsets: tuple[Any, ...], order: Order, **_: Any) -> list[Caution]:
    return packed_facts("store", src_tile, tile_offsets, order)


@store_tile.rewrite
def _(
    dst_tensor: Any, src_tile: Any, tile_offsets: tuple[Any, ...], order: Order, **others: Any
) -> tuple[str, Any]:
    offsets = scaled(tile_offsets, order, src_tile.type.shape)
    return "store", {"dst_tensor": dst_tensor, "src_tile": src_tile, "offsets": offsets, "order": order, **others}
