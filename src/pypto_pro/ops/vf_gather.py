"""Indexed access: gather from a tile or from a register, scatter to a tile."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from pypto_pro.dtypes import DataType
from pypto_pro.enums import DataCopyMode
from pypto_pro.hw.a5 import REGISTER_BYTES
from pypto_pro.ir.types import RegType, Type
from pypto_pro.ops import vf_rules as rules
from pypto_pro.ops.entry import Keyword, Kind, Operand, Role
from pypto_pro.ops.operands import TileArg
from pypto_pro.ops.vf_bits import UNSIGNED, pattern, unsigned
from pypto_pro.ops.vf_builder import NativeMask, NativeReg, VectorUnitBuilder
from pypto_pro.ops.vf_operands import (
    Array,
    Bits,
    IndexIn,
    MaskArg,
    MaskIn,
    OptionalMask,
    RegArg,
    RegIn,
    Registers,
    UbOut,
    defvf,
)

D = DataType
BLOCKS, BLOCK = 8, 32
WORDS = (D.DT_INT16, D.DT_UINT16, D.DT_FP16, D.DT_BF16)
DOUBLES = (D.DT_INT32, D.DT_UINT32, D.DT_FP32)
QUADS = (D.DT_INT64, D.DT_UINT64)

Source = Annotated[TileArg | RegArg, Operand(frozenset({Kind.TILE, Kind.REG}), Role.IN)]
CopyMode = Annotated[DataCopyMode | None, Keyword(enum=DataCopyMode)]


def index_dtypes(dtype: DataType) -> tuple[DataType, ...]:
    """What may index a tile of `dtype` in a gather."""
    if dtype in rules.BYTES:
        return (D.DT_UINT16,)
    if dtype in WORDS:
        return (D.DT_UINT16, D.DT_UINT32)
    return (D.DT_UINT32,) if dtype in DOUBLES else (D.DT_UINT32, D.DT_UINT64)


def slot_bytes(dtype: DataType, index: DataType) -> tuple[int, int]:
    """(bytes from one result to the next, bytes moved): 8-bit elements take 16-bit slots, others their own or more."""
    slot = max(2, dtype.nbytes)
    if dtype in WORDS and index is D.DT_UINT32:
        slot = 4
    return slot, dtype.nbytes


def _gathered(vf: Registers, tile: TileArg, indices: RegArg, mask: MaskArg) -> Array:
    """Elements by index, zero-extended to their slots."""
    slot, size = slot_bytes(tile.type.dtype, indices.dtype)
    count = REGISTER_BYTES // slot
    active = mask.lanes(slot)
    found = np.zeros((count, slot), np.uint8)
    starts = indices.lanes[:count][active].astype(np.int64) * size
    found[active, :size] = vf.gather(tile, starts, size)
    return found.reshape(-1)


def _blocks(vf: Registers, tile: TileArg, indices: RegArg, mask: MaskArg) -> Array:
    """32-byte blocks by byte offset; those without an active bit are 0 and not read."""
    active = mask.bits.reshape(BLOCKS, BLOCK).any(axis=1)
    found = np.zeros((BLOCKS, BLOCK), np.uint8)
    found[active] = vf.gather(tile, indices.lanes[:BLOCKS][active].astype(np.int64), BLOCK)
    return found.reshape(-1)


@defvf("vf.gather", family="vf.move", copies=True)
def gather(
    vf: Registers, src: Source, indices: IndexIn, mask: OptionalMask = None, *, data_copy_mode: CopyMode = None
) -> Array:
    """r[i] = src[indices[i]]: elements of a tile in active lanes (0 elsewhere), or lanes of a register, modulo N.

    8-bit tiles fill 128 zero-extended 16-bit lanes; a 16-bit tile with UINT32 indices fills even lanes. With
    DATA_BLOCK_LOAD block g of r is the 32 bytes at byte offset indices[g], g < 8.
    """
    vf.depends_on_data()
    if isinstance(src, RegArg):
        lanes = pattern(src)
        found: Array = lanes[indices.lanes.astype(np.int64) % lanes.size]
        return found
    assert mask is not None
    if data_copy_mode is DataCopyMode.DATA_BLOCK_LOAD:
        return _blocks(vf, src, indices, mask)
    return _gathered(vf, src, indices, mask)


@gather.rules
def _(src: Any, indices: Any, mask: Any, data_copy_mode: DataCopyMode | None) -> None:
    dtype = rules.dtype_of(src)
    if rules.is_register(src):
        if mask is not None or data_copy_mode is not None:
            raise ValueError("a gather from a register takes neither a mask nor `data_copy_mode`")
        if dtype.nbytes > 4:
            raise TypeError(f"`{src.name}` is {dtype.name}; lanes of 64 bits cannot be gathered from a register")
        rules.has_dtype(indices, (UNSIGNED[dtype.nbytes],))
        return
    if mask is None:
        raise ValueError("a gather from a tile needs a mask")
    rules.has_dtype(src, rules.NUMBERS)
    if data_copy_mode is DataCopyMode.DATA_BLOCK_COPY:
        raise ValueError("a gather takes DATA_BLOCK_LOAD; DATA_BLOCK_COPY belongs to load_align and store_align")
    blocks = data_copy_mode is DataCopyMode.DATA_BLOCK_LOAD
    rules.has_dtype(indices, (D.DT_UINT32,) if blocks else index_dtypes(dtype))


@gather.result_type
def _(targets: tuple[Type | None, ...], src: Any, **_: Any) -> tuple[RegType, ...]:
    held = rules.held_dtype(targets[0])
    from_bytes = not rules.is_register(src) and rules.dtype_of(src) in rules.BYTES
    if from_bytes and held in (D.DT_INT16, D.DT_UINT16):
        return (RegType(held),)
    return (rules.same_register(targets[0], rules.dtype_of(src), "gather"),)


@gather.consumes
def _(
    src: Any, indices: RegArg, mask: MaskArg | None, data_copy_mode: DataCopyMode | None
) -> dict[str, Bits]:
    used = np.zeros(REGISTER_BYTES // indices.width, np.bool_)
    if isinstance(src, RegArg) or mask is None:
        used[:] = True
    elif data_copy_mode is DataCopyMode.DATA_BLOCK_LOAD:
        used[:BLOCKS] = mask.bits.reshape(BLOCKS, BLOCK).any(axis=1)
    else:
        slot, _ = slot_bytes(src.type.dtype, indices.dtype)
        used[: REGISTER_BYTES // slot] = mask.lanes(slot)[: used.size]
    return {"indices": np.repeat(used, indices.width)}


@gather.lower
def _(
    k: VectorUnitBuilder, src: Any, indices: NativeReg, mask: NativeMask | None, data_copy_mode: DataCopyMode | None
) -> None:
    if isinstance(src, NativeReg):
        k.give_bits(k.raw(k.permuted(unsigned(src), indices.lanes)))
    elif data_copy_mode is DataCopyMode.DATA_BLOCK_LOAD:
        assert mask is not None
        k.give_bits(k.gather_blocks(src, indices, mask))
    else:
        assert mask is not None
        slot, size = slot_bytes(src.type.dtype, indices.dtype)
        k.give_bits(k.gather(src, indices, mask.lanes(slot), slot, size))


def scatter_indices(dtype: DataType) -> tuple[DataType, ...]:
    """What may index a tile written from a register of `dtype`."""
    if dtype.nbytes <= 2:
        return (D.DT_UINT16,)
    return (D.DT_UINT32,) if dtype in DOUBLES else (D.DT_UINT32, D.DT_UINT64)


@defvf("vf.scatter", family="vf.move", copies=True, results=0)
def scatter(vf: Registers, base_tile: UbOut, src: RegIn, index: IndexIn, mask: MaskIn) -> None:
    """tile[index[i]] = src[i] in active lanes, elements from the tile's address; of equal indices the first survives.

    An 8-bit register stores its even lanes 2k at index[k], one mask bit pair each.
    """
    vf.depends_on_data()
    slot, size = max(2, src.width), src.width
    count = REGISTER_BYTES // slot
    active = mask.lanes(slot)
    data = src.bytes.reshape(count, slot)[active, :size]
    vf.scatter(base_tile, index.lanes[:count][active].astype(np.int64) * size, data)


@scatter.rules
def _(base_tile: Any, src: Any, index: Any, mask: Any) -> None:
    rules.registers(rules.NUMBERS, src)
    rules.has_dtype(index, scatter_indices(rules.dtype_of(src)))


@scatter.consumes
def _(base_tile: Any, src: RegArg, index: RegArg, mask: MaskArg) -> dict[str, Bits]:
    slot = max(2, src.width)
    used = np.zeros(REGISTER_BYTES // index.width, np.bool_)
    used[: REGISTER_BYTES // slot] = mask.lanes(slot)[: used.size]
    return {"index": np.repeat(used, index.width)}


@scatter.lower
def _(k: VectorUnitBuilder, base_tile: Any, src: NativeReg, index: NativeReg, mask: NativeMask) -> None:
    slot = max(2, src.width)
    k.scatter(base_tile, src, index, mask.lanes(slot), slot)
