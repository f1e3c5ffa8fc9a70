"""Aligned register and mask access to UB: load_align, store_align (vector-function 7.1 - 7.5)."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from pypto_pro.dtypes import DataType
from pypto_pro.enums import DataCopyMode, LoadDist, StoreDist
from pypto_pro.hw.a5 import REGISTER_BYTES
from pypto_pro.ir.types import AddrRegType, MaskType, RegType, Type
from pypto_pro.ops import vf_rules as rules
from pypto_pro.ops.entry import Keyword, Kind, Operand, Role
from pypto_pro.ops.operands import Array, BoolAttr, TileArg
from pypto_pro.ops.vf_bits import UNSIGNED
from pypto_pro.ops.vf_builder import NativeMask, NativeTile, VectorUnitBuilder
from pypto_pro.ops.vf_dist import ALIGNMENT, BLOCK, GENERIC_NAMES, family, load_layout, picked, store_layout
from pypto_pro.ops.vf_operands import (
    AddrArg,
    Bits,
    MaskArg,
    Offset,
    RegArg,
    Registers,
    RegOrMask,
    UbIn,
    UbOut,
    defvf,
    element_start,
)

BLOCKS = 8
MASK_SIZES = {LoadDist.NORM: 32, LoadDist.US: 16, LoadDist.DS: 64}
"""Bytes that a load of a mask reads."""
MASK_BITS = {
    LoadDist.NORM: range(REGISTER_BYTES), LoadDist.US: [j // 2 for j in range(REGISTER_BYTES)],
    LoadDist.DS: range(0, 2 * REGISTER_BYTES, 2),
}  # fmt: skip
"""Which of their bits each mask bit is."""

RegisterDtype = Annotated[DataType | None, Keyword(enum=DataType)]
Dist = Annotated[LoadDist | None, Keyword(enum=LoadDist)]
Layout = Annotated[StoreDist | None, Keyword(enum=StoreDist)]
CopyMode = Annotated[DataCopyMode | None, Keyword(enum=DataCopyMode)]
Stride = Annotated[int | None, Keyword((int,))]
Third = Annotated[
    Any, Operand(frozenset({Kind.REG, Kind.MASK, Kind.SCALAR, Kind.OFFSETS, Kind.ADDR_REG}), Role.IN)
]
Fourth = Annotated[Any, Operand(frozenset({Kind.MASK, Kind.SCALAR, Kind.OFFSETS, Kind.ADDR_REG}), Role.IN)]
StepOperand = Annotated[int | None, Operand(frozenset({Kind.SCALAR}), Role.IN)]


def is_blocks(mode: DataCopyMode | None) -> bool:
    """Whether an access moves strided 32-byte blocks; DATA_BLOCK_LOAD is the old name."""
    return mode in (DataCopyMode.DATA_BLOCK_COPY, DataCopyMode.DATA_BLOCK_LOAD)


def byte_start(tile: Any, offset: Any) -> int:
    """Byte offset of a mask access: numbers count bytes, rows by the physical pitch."""
    match offset:
        case None:
            return 0
        case AddrArg():
            return element_start(tile, offset)
        case (row, col):
            return int(row * tile.type.shape[-1] + col if len(tile.type.shape) > 1 else row + col)
    return int(offset)


def access_start(vf: Registers, tile: TileArg, step: int, post_update: bool) -> int:
    """Byte offset of an access `step` bytes away; with `post_update` the cursor's, which then moves on by `step`."""
    if not post_update:
        return step
    start = vf.cursor(tile)
    vf.advance(tile, step)
    return start


# --- load_align ------------------------------------------------------------------------------------------------------


@defvf("vf.load_align", family="vf.load", copies=True, more_results=1)
def load_align(
    vf: Registers, src: UbIn, offset: Offset = None, *, dtype: RegisterDtype = None, dist: Dist = None,
    data_copy_mode: CopyMode = None, block_stride: Stride = None, repeat_stride: Stride = None,
    post_update: BoolAttr = False,
) -> Array | MaskArg | tuple[Array, Array]:
    """A register (256 bytes by `dist`), two de-interleaved ones, or a mask from the tile at an element offset.

    The offset is a number, [row, col] or an address register; of masks it counts bytes. With DATA_BLOCK_COPY the second
    operand is a mask: block g is read at g * block_stride * 32 bytes where any of its 32 mask bits is on. With
    post_update the access is at the tile's cursor, which then advances by the offset (blocks: repeat_stride * 32).
    """
    if is_blocks(data_copy_mode):
        step = (repeat_stride or 0) * BLOCK
        start = access_start(vf, src, step, post_update) if post_update else 0
        return _load_blocks(vf, src, offset, block_stride or 0, start)
    if isinstance(vf.targets[0], MaskType):
        return _load_mask(vf, src, access_start(vf, src, byte_start(src, offset), post_update), dist or LoadDist.NORM)
    target = vf.targets[0]
    assert isinstance(target, RegType)
    start = access_start(vf, src, element_start(src, offset), post_update)
    layout = load_layout(dist, target.dtype.nbytes, len(vf.targets))
    raw = vf.load(src, start, layout.size, layout.align)
    if len(vf.targets) == 2:
        return picked(raw, layout.width, layout.source), picked(raw, layout.width, layout.second)
    return raw if dist in (None, LoadDist.NORM) else picked(raw, layout.width, layout.source)


def _load_blocks(vf: Registers, tile: TileArg, mask: MaskArg, stride: int, start: int) -> Array:
    found = np.zeros((BLOCKS, BLOCK), np.uint8)
    for g in range(BLOCKS):
        if mask.bits[g * BLOCK : (g + 1) * BLOCK].any():
            found[g] = vf.load(tile, start + g * stride * BLOCK, BLOCK, ALIGNMENT)
    return found.reshape(-1)


def _load_mask(vf: Registers, tile: TileArg, start: int, dist: LoadDist) -> MaskArg:
    size = MASK_SIZES[dist]
    bits = np.unpackbits(vf.load(tile, start, size, min(size, ALIGNMENT)), bitorder="little").astype(np.bool_)
    return MaskArg(bits[np.asarray(MASK_BITS[dist])])


@load_align.rules
def _(
    src: Any, offset: Any, dtype: DataType | None, dist: LoadDist | None, data_copy_mode: DataCopyMode | None,
    block_stride: int | None, repeat_stride: int | None, post_update: bool,
) -> None:
    rules.has_dtype(src, rules.MOVABLE)
    by_address = offset is not None and isinstance(getattr(offset, "type", None), AddrRegType)
    if is_blocks(data_copy_mode):
        if not rules.is_mask(offset):
            raise ValueError("block access takes a mask as second operand; write `tile + k` for an offset")
        if dist not in (None, LoadDist.NORM):
            raise ValueError("block access has no `dist`")
        if (dtype or rules.dtype_of(src)).nbytes > 4 or (dtype or rules.dtype_of(src)).is_sub_byte:
            raise TypeError("block access moves elements of 8, 16 or 32 bits")
        return
    if rules.is_mask(offset):
        raise ValueError("a mask as second operand belongs to data_copy_mode=DATA_BLOCK_COPY")
    if block_stride is not None or repeat_stride is not None:
        raise ValueError("`block_stride` and `repeat_stride` belong to data_copy_mode=DATA_BLOCK_COPY")
    if by_address and post_update:
        raise ValueError("an address register cannot be combined with `post_update`")
    if by_address and dist in GENERIC_NAMES:
        raise ValueError(f"with an address register name the width: dist={dist.name}_B...")


@load_align.result_type
def _(
    targets: tuple[Type | None, ...], src: Any, offset: Any, dtype: DataType | None, dist: LoadDist | None,
    data_copy_mode: DataCopyMode | None, block_stride: int | None, repeat_stride: int | None, **_: Any,
) -> tuple[Type, ...]:
    pairs = dist is not None and family(dist) == "DINTLV"
    if len(targets) == 2:
        if data_copy_mode is not None or block_stride is not None or repeat_stride is not None:
            raise ValueError("a load of two registers takes no `data_copy_mode` or strides")
        if dist is not None and not pairs:
            raise ValueError(f"a load of two registers de-interleaves: dist is a DINTLV member, not {dist.name}")
    elif dist is not None and pairs:
        raise ValueError(f"{dist.name} gives two registers: write `r0, r1 = vf.load_align(...)`")
    if len(targets) == 1 and isinstance(targets[0], MaskType):
        if is_blocks(data_copy_mode):
            raise ValueError("a mask cannot be loaded in blocks")
        if dist is not None and dist not in MASK_SIZES:
            raise ValueError(f"a mask is loaded with NORM, US or DS, not {dist.name}")
        return (targets[0],)
    if offset is None and len(targets) == 1 and dist is not None and dist is not LoadDist.NORM:
        raise ValueError(f"{dist.name} needs an offset: pass 0")
    own = dtype or rules.dtype_of(src)
    return tuple(rules.reinterpreted(target, own, any_width=True) for target in targets[:2])


@load_align.lower
def _(
    k: VectorUnitBuilder, src: NativeTile, offset: Any, dist: LoadDist | None, data_copy_mode: DataCopyMode | None,
    block_stride: int | None, repeat_stride: int | None, post_update: bool, **_: Any,
) -> None:
    if is_blocks(data_copy_mode):
        start = k.access_start(src, (repeat_stride or 0) * BLOCK, post_update) if post_update else 0
        k.give_bits(k.load_blocks(src, start, (block_stride or 0) * BLOCK, offset))
        return
    if isinstance(k.targets[0], MaskType):
        start = k.access_start(src, k.byte_start(src, offset), post_update)
        kind = dist or LoadDist.NORM
        flags = k.flags_of(k.load(src, start, DataType.DT_UINT8, MASK_SIZES[kind]).lanes)
        k.give_flags(k.shuffle(flags, MASK_BITS[kind]))
        return
    start = k.access_start(src, k.element_start(src, offset), post_update)
    layout = load_layout(dist, k.targets[0].dtype.nbytes, len(k.targets))
    unit = UNSIGNED[layout.width]
    if dist in (None, LoadDist.NORM) and len(k.targets) == 1:
        dtype = k.targets[0].dtype
        k.give_bits(k.load(src, start, dtype, REGISTER_BYTES // dtype.nbytes))
        return
    raw = k.load(src, start, unit, layout.size // layout.width).lanes
    for order in (layout.source, layout.second)[: len(k.targets)]:
        k.give_bits(k.raw(k.picked(raw, order)))


# --- store_align -----------------------------------------------------------------------------------------------------


@defvf("vf.store_align", family="vf.store", copies=True, results=0)
def store_align(
    vf: Registers, dst: UbOut, src: RegOrMask, mask: Third = None, offset: Fourth = None, stride: StepOperand = None,
    *, dist: Layout = None, data_copy_mode: CopyMode = None, block_stride: Stride = None, repeat_stride: Stride = None,
    post_update: BoolAttr = False,
) -> None:
    """Write the active lanes of a register to the tile; inactive ones leave it unchanged. Four forms:

    (dst, reg, mask, [offset]); (dst, even, odd, mask, dist=INTLV) interleaves two registers; (dst, reg, mask,
    [block_stride, [repeat_stride]], data_copy_mode=DATA_BLOCK_COPY) writes block g at g * block_stride * 32 bytes where
    any of its 32 mask bits is on; (dst, mask_reg, [address register | step]) writes a mask, 32 bytes or packed 16.
    """
    if isinstance(src, MaskArg):
        _store_mask(vf, dst, src, mask, dist, post_update)
    elif is_blocks(data_copy_mode):
        apart = offset if offset is not None else block_stride or 0
        step = stride if stride is not None else repeat_stride or 0
        start = access_start(vf, dst, int(step) * BLOCK, post_update) if post_update else 0
        _store_blocks(vf, dst, src, mask, int(apart), start)
    elif isinstance(mask, RegArg):
        _store(vf, dst, 0, (src, mask), offset, dist)
    elif isinstance(offset, AddrArg):
        _store(vf, dst, element_start(dst, offset), (src,), mask, None)
    else:
        _store(vf, dst, access_start(vf, dst, element_start(dst, offset), post_update), (src,), mask, dist)


def _store(
    vf: Registers, tile: TileArg, start: int, sources: tuple[RegArg, ...], mask: MaskArg, dist: StoreDist | None
) -> None:
    layout = store_layout(dist, sources[0].width)
    units = np.concatenate([reg.bytes for reg in sources]).view(f"u{layout.width}")
    data = units[np.asarray(layout.source)]
    where: Bits | None = None
    if layout.lane is not None and not mask.every(layout.lane_bytes):
        where = np.repeat(mask.lanes(layout.lane_bytes)[np.asarray(layout.lane)], layout.width)
    vf.store(tile, start, data, where, layout.align)


def _store_blocks(vf: Registers, tile: TileArg, src: RegArg, mask: MaskArg, stride: int, start: int) -> None:
    for g in range(BLOCKS):
        if mask.bits[g * BLOCK : (g + 1) * BLOCK].any():
            vf.store(tile, start + g * stride * BLOCK, src.bytes[g * BLOCK : (g + 1) * BLOCK], None, ALIGNMENT)


def _store_mask(
    vf: Registers, tile: TileArg, src: MaskArg, offset: Any, dist: StoreDist | None, post_update: bool
) -> None:
    if isinstance(offset, AddrArg | tuple):
        start = byte_start(tile, offset)
    else:  # a plain number counts with post_update only
        start = access_start(vf, tile, byte_start(tile, offset), True) if post_update else 0
    packed = dist is StoreDist.PACK and not isinstance(offset, AddrArg)
    bits = src.bits[::2] if packed else src.bits
    vf.store(tile, start, np.packbits(bits, bitorder="little"), None, 16 if packed else ALIGNMENT)


@store_align.rules
def _(
    dst: Any, src: Any, mask: Any, offset: Any, stride: Any, dist: StoreDist | None,
    data_copy_mode: DataCopyMode | None, block_stride: int | None, repeat_stride: int | None, post_update: bool,
) -> None:
    rules.has_dtype(dst, rules.MOVABLE)
    strided = data_copy_mode is not None or block_stride is not None or repeat_stride is not None
    if rules.is_mask(src):
        _check_mask_store(mask, offset, strided, dist)
    elif dist in (StoreDist.INTLV, StoreDist.INTLV_B32):
        if strided or stride is not None or post_update or not rules.is_register(mask) or not rules.is_mask(offset):
            raise ValueError(f"{dist.name} takes (tile, even, odd, mask) and no other keyword; write `tile + k`")
        if rules.dtype_of(src).nbytes != rules.dtype_of(mask).nbytes:
            raise TypeError(f"`{src.name}` and `{mask.name}` have lanes of different width")
    elif not rules.is_mask(mask):
        raise TypeError("the third operand is the mask of the lanes to store")
    elif is_blocks(data_copy_mode):
        _check_block_store(src, offset, stride, dist, block_stride, repeat_stride)
    else:
        rules.has_dtype(src, rules.MOVABLE)
        if stride is not None or block_stride is not None or repeat_stride is not None:
            raise ValueError("strides belong to data_copy_mode=DATA_BLOCK_COPY")
        if rules.is_mask(offset):
            raise TypeError("the fourth operand is an offset, found a mask")
        if post_update and isinstance(offset, tuple):
            raise ValueError("`post_update` takes a plain step, not [row, col]")


def _check_mask_store(third: Any, fourth: Any, strided: bool, dist: StoreDist | None) -> None:
    if strided or fourth is not None:
        raise ValueError("a mask is stored with (tile, mask, [address register | step]) and no strides")
    if dist not in (None, StoreDist.NORM, StoreDist.PACK):
        raise ValueError(f"a mask is stored with NORM or PACK, not {dist.name}")
    if third is not None and (rules.is_mask(third) or rules.is_register(third)):
        raise TypeError("a store of a mask takes no predicate")


def _check_block_store(
    src: Any, offset: Any, stride: Any, dist: StoreDist | None, block_stride: int | None, repeat_stride: int | None
) -> None:
    dtype = rules.dtype_of(src)
    if dtype.is_sub_byte or dtype.nbytes > 4:
        raise TypeError(f"block access moves elements of 8, 16 or 32 bits; `{src.name}` is {dtype.name}")
    if dist not in (None, StoreDist.NORM):
        raise ValueError("block access has no `dist`")
    if (offset is not None and block_stride is not None) or (stride is not None and repeat_stride is not None):
        raise ValueError("a stride is given twice, by position and by keyword")
    if offset is not None and not rules.is_scalar(offset):
        raise TypeError("the block stride is an integer")


@store_align.lower
def _(
    k: VectorUnitBuilder, dst: NativeTile, src: Any, mask: Any, offset: Any, stride: Any, dist: StoreDist | None,
    data_copy_mode: DataCopyMode | None, block_stride: int | None, repeat_stride: int | None, post_update: bool,
) -> None:
    if isinstance(src, NativeMask):
        _lower_mask_store(k, dst, src, mask, dist, post_update)
        return
    if is_blocks(data_copy_mode):
        repeat = k.index(stride if stride is not None else repeat_stride or 0) * BLOCK
        start = k.access_start(dst, repeat, True) if post_update else 0
        step = k.index(offset if offset is not None else block_stride or 0) * BLOCK
        k.store_blocks(dst, start, step, src, mask)
        return
    if not isinstance(mask, NativeMask):
        sources, start, active = [src, mask], k.index(0), offset
    else:
        sources, active = [src], mask
        start = k.access_start(dst, k.element_start(dst, offset), post_update)
        dist = None if k.is_address(offset) else dist
    layout = store_layout(dist, src.width)
    units = [reg.as_(UNSIGNED[layout.width]).lanes for reg in sources]
    data = k.shuffle(units[0], layout.source, units[1] if len(units) == 2 else None)
    where = None
    if layout.lane is not None:
        where = active.picked([layout.lane_bytes * lane for lane in layout.lane])
    k.store(dst, start, k.raw(data), where)


def _lower_mask_store(
    k: VectorUnitBuilder, dst: NativeTile, src: NativeMask, offset: Any, dist: StoreDist | None, post_update: bool
) -> None:
    by_address = k.is_address(offset)
    if by_address or isinstance(offset, tuple):
        start = k.byte_start(dst, offset)
    else:
        start = k.access_start(dst, k.byte_start(dst, offset), True) if post_update else k.index(0)
    packed = dist is StoreDist.PACK and not by_address
    k.store(dst, start, k.packed_bits(src.lanes(2) if packed else src.lanes(1)))
