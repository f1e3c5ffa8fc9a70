"""Unaligned access: load and store of single registers, streams through a staging register (vector-function 7.6)."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from pypto_pro.dtypes import DataType
from pypto_pro.hw.a5 import REGISTER_BYTES
from pypto_pro.ir.types import RegType, Type, UnalignRegType
from pypto_pro.ops import vf_rules as rules
from pypto_pro.ops.entry import Keyword, Kind, Operand, Role
from pypto_pro.ops.operands import Array, BoolAttr, TileArg
from pypto_pro.ops.vf_builder import NativeMask, NativeReg, NativeTile, VectorUnitBuilder
from pypto_pro.ops.vf_operands import (
    MaskArg,
    RegIn,
    Registers,
    RegOrMask,
    UbIn,
    UbOut,
    UnalignArg,
    defvf,
)

D = DataType
BLOCK = 32
STREAMED = (*rules.NUMBERS, *rules.EIGHT_BIT_FLOATS, *rules.FOUR_BIT)

_UNALIGN = frozenset({Kind.UNALIGN_REG})
Staging = Annotated[UnalignArg, Operand(_UNALIGN, Role.INOUT)]
StagingIn = Annotated[UnalignArg, Operand(_UNALIGN, Role.IN)]
Step = Annotated[int | None, Operand(frozenset({Kind.SCALAR}), Role.IN)]
Informational = Annotated[int | None, Keyword((int,))]


def step_bytes(tile: Any, count: Any) -> Any:
    """Bytes of `count` elements of the tile's dtype."""
    return count * tile.type.dtype.bits() // 8


def register_of_tile(targets: tuple[Type | None, ...], tile: Any) -> tuple[RegType, ...]:
    """The result of an unaligned load: the tile's dtype, or what the register already is."""
    return (rules.reinterpreted(targets[0], rules.dtype_of(tile), any_width=True),)


def integer(operand: Any) -> None:
    """TypeError for float counts and steps."""
    if operand is not None and rules.dtype_of(operand).is_float():
        raise TypeError(f"`{operand.name}` counts elements: an integer is needed")


def _stepped_load(vf: Registers, tile: TileArg, stride: int | None) -> Array:
    """256 bytes at the tile's address, or at its cursor, which then advances by `stride` elements."""
    start = 0
    if stride is not None:
        start = vf.cursor(tile)
        vf.advance(tile, step_bytes(tile, int(stride)))
    return vf.load(tile, start, REGISTER_BYTES)


def _lower_load(k: VectorUnitBuilder, tile: NativeTile, stride: Any) -> None:
    start = k.index(0) if stride is None else k.access_start(tile, step_bytes(tile, k.index(stride)), True)
    dtype = k.targets[0].dtype
    k.give_bits(k.load(tile, start, dtype, REGISTER_BYTES // dtype.nbytes))


# --- single registers ------------------------------------------------------------------------------------------------


@defvf("vf.load", family="vf.load", copies=True)
def load(
    vf: Registers, src_tile: UbIn, stride: Step = None, *, post_update: BoolAttr = False,
    repeat_stride: Informational = None, count: Informational = None,
) -> Array:
    """256 bytes at the tile's address, however aligned; with `stride` at its cursor, which advances by that many
    elements. `post_update`, `repeat_stride` and `count` have no effect."""
    return _stepped_load(vf, src_tile, stride)


@load.rules
def _(src_tile: Any, stride: Any, **_: Any) -> None:
    rules.has_dtype(src_tile, STREAMED)
    integer(stride)


@load.result_type
def _(targets: tuple[Type | None, ...], src_tile: Any, **_: Any) -> tuple[RegType, ...]:
    return register_of_tile(targets, src_tile)


@load.lower
def _(k: VectorUnitBuilder, src_tile: NativeTile, stride: Any, **_: Any) -> None:
    _lower_load(k, src_tile, stride)


Count = Annotated[int | None, Operand(frozenset({Kind.SCALAR}), Role.IN)]


@defvf("vf.store", family="vf.store", copies=True, results=0)
def store(
    vf: Registers, dst_tile: UbOut, src: RegIn, count: Count = None, *, post_update: BoolAttr = False,
    repeat_stride: Informational = None,
) -> None:
    """The first `count` elements (default all) at the tile's cursor, however aligned.

    The cursor advances by `count` with post_update only; `repeat_stride` has no effect.
    """
    elements = REGISTER_BYTES // src.width if count is None else int(count)
    start = vf.cursor(dst_tile)
    size = min(max(elements, 0) * src.width, REGISTER_BYTES)
    vf.store(dst_tile, start, src.bytes[:size])
    if post_update:
        vf.advance(dst_tile, elements * src.width)


@store.rules
def _(dst_tile: Any, src: Any, count: Any, **_: Any) -> None:
    rules.registers(STREAMED, src)
    if rules.dtype_of(dst_tile) is not rules.dtype_of(src):
        raise TypeError(
            f"`{dst_tile.name}` is {rules.dtype_of(dst_tile).name} and `{src.name}` {rules.dtype_of(src).name}; "
            "an unaligned store keeps the dtype"
        )
    integer(count)
    most = REGISTER_BYTES // rules.dtype_of(src).nbytes
    value = None if count is None else count.value
    if value is not None and not 0 <= value <= most:
        raise ValueError(f"count is {value}; a register has {most} elements")


@store.lower
def _(k: VectorUnitBuilder, dst_tile: NativeTile, src: NativeReg, count: Any, post_update: bool, **_: Any) -> None:
    elements = k.index(src.count if count is None else count)
    start = k.cursor(dst_tile)
    if count is None:
        k.store(dst_tile, start, src)
    else:
        k.store(dst_tile, start, src, k.first(elements.most(0), src.width))
    if post_update:
        k.advance(dst_tile, elements * src.width)


# --- streams ---------------------------------------------------------------------------------------------------------


@defvf("vf.load_unalign_init", family="vf.load")
def load_unalign_init(vf: Registers) -> UnalignArg:
    """A staging register for a stream of unaligned loads."""
    return UnalignArg()


@load_unalign_init.result_type
def _(targets: tuple[Type | None, ...], **_: Any) -> tuple[UnalignRegType, ...]:
    return (UnalignRegType(is_store=False),)


@load_unalign_init.lower
def _(k: VectorUnitBuilder) -> None:
    k.give_staging()


@defvf("vf.unalign_reg_for_store", family="vf.store")
def unalign_reg_for_store(vf: Registers) -> UnalignArg:
    """An empty staging register for a stream of unaligned stores."""
    return UnalignArg()


@unalign_reg_for_store.result_type
def _(targets: tuple[Type | None, ...], **_: Any) -> tuple[UnalignRegType, ...]:
    return (UnalignRegType(is_store=True),)


@unalign_reg_for_store.lower
def _(k: VectorUnitBuilder) -> None:
    k.give_staging()


def _direction(operand: Any, *, is_store: bool) -> None:
    if operand.type.is_store is not is_store:
        maker = "vf.unalign_reg_for_store()" if is_store else "vf.load_unalign_init()"
        raise TypeError(f"`{operand.name}` is a staging register of the other direction; make one with {maker}")


@defvf("vf.load_unalign_pre", family="vf.load", copies=True, results=0)
def load_unalign_pre(vf: Registers, ureg: Staging, src_tile: UbIn) -> None:
    """Begin a stream: read the 32-byte block that holds the tile's address into the staging register."""
    start = -(src_tile.addr % BLOCK)
    vf.load(src_tile, start, BLOCK, BLOCK)


@load_unalign_pre.rules
def _(ureg: Any, src_tile: Any) -> None:
    _direction(ureg, is_store=False)
    rules.has_dtype(src_tile, STREAMED)


@load_unalign_pre.lower
def _(k: VectorUnitBuilder, ureg: Any, src_tile: NativeTile) -> None:
    """Native loads read UB itself."""


@defvf("vf.load_unalign", family="vf.load", copies=True)
def load_unalign(
    vf: Registers, ureg: Staging, src_tile: UbIn, stride: Step = None, *, post_update: BoolAttr = False
) -> Array:
    """256 bytes at the tile's address, however aligned; with `stride` at its cursor, which advances by that many
    elements. `post_update` alone has no effect."""
    return _stepped_load(vf, src_tile, stride)


@load_unalign.rules
def _(ureg: Any, src_tile: Any, stride: Any, post_update: bool) -> None:
    _direction(ureg, is_store=False)
    rules.has_dtype(src_tile, STREAMED)
    integer(stride)


@load_unalign.result_type
def _(targets: tuple[Type | None, ...], src_tile: Any, **_: Any) -> tuple[RegType, ...]:
    return register_of_tile(targets, src_tile)


@load_unalign.lower
def _(k: VectorUnitBuilder, ureg: Any, src_tile: NativeTile, stride: Any, post_update: bool) -> None:
    _lower_load(k, src_tile, stride)


def append(vf: Registers, tile: TileArg, start: int, data: Array, staging: UnalignArg) -> None:
    """Bytes for `start`: whole 32-byte blocks reach UB, the rest waits in the staging register.

    Bytes that wait for another address are lost: their stream was not flushed.
    """
    pending = staging.pending
    first = tile.addr + start
    if staging.address + pending.size != first:
        staging.lost += pending.size
        pending = pending[:0]
    stream = np.concatenate([pending, data])
    begin = first - pending.size
    whole = max(0, (begin + stream.size) // BLOCK * BLOCK - begin)
    if whole:
        vf.store(tile, begin - tile.addr, stream[:whole])
    staging.pending, staging.address = stream[whole:], begin + whole


def packed_mask(mask: MaskArg, tag: DataType) -> Array:
    """A predicate as bits, one a lane: 8 bytes with a 32-bit tag, else 16."""
    return np.packbits(mask.bits[:: 4 if tag.nbytes == 4 else 2], bitorder="little")


@defvf("vf.store_unalign", family="vf.store", copies=True, results=0)
def store_unalign(
    vf: Registers, dst_tile: UbOut, src: RegOrMask, align_reg: Staging, stride: Step = None, *,
    post_update: BoolAttr = False,
) -> None:
    """Append the first `stride` elements of a register at the tile's cursor (which post_update then advances).

    Without `stride` as many bytes as the last squeeze counted in AR, and of a mask its packed lanes; the cursor
    advances. Bytes behind the last 32-byte boundary wait in the staging register for `store_unalign_post`.
    """
    start = vf.cursor(dst_tile)
    if isinstance(src, MaskArg):
        tag = vf.sources[1].dtype
        data = packed_mask(src, tag)
        step = data.size
    elif stride is None:
        vf.depends_on_data()
        step = vf.ar
        data = src.bytes[: min(max(step, 0), REGISTER_BYTES)]
    else:
        size = int(stride) * src.width
        step = size if post_update else 0
        data = src.bytes[: min(max(size, 0), REGISTER_BYTES)]
    append(vf, dst_tile, start, data, align_reg)
    if step:
        vf.advance(dst_tile, step)


@store_unalign.rules
def _(dst_tile: Any, src: Any, align_reg: Any, stride: Any, post_update: bool) -> None:
    _direction(align_reg, is_store=True)
    integer(stride)
    if not rules.is_mask(src):
        rules.registers(STREAMED, src)
        return
    if stride is not None:
        raise ValueError("a mask is appended whole: leave out the count")
    if rules.dtype_of(dst_tile).nbytes not in (2, 4):
        raise TypeError(f"a mask is appended to a tile of 16- or 32-bit elements; `{dst_tile.name}` is "
                        f"{rules.dtype_of(dst_tile).name}")


@store_unalign.lower
def _(
    k: VectorUnitBuilder, dst_tile: NativeTile, src: Any, align_reg: Any, stride: Any, post_update: bool
) -> None:
    start = k.cursor(dst_tile)
    if isinstance(src, NativeMask):
        lanes = src.lanes(4 if src.dtype.nbytes == 4 else 2)
        data, size = k.packed_bits(lanes), k.index(lanes.count // 8)
        step: Any = size
    elif stride is None:
        data, size = src, k.ar()
        step = size
    else:
        data, size = src, k.index(stride) * src.width
        step = size if post_update else None
    k.append(dst_tile, start, data, size, align_reg)
    if step is not None:
        k.advance(dst_tile, step)


@defvf("vf.store_unalign_post", family="vf.store", copies=True, results=0)
def store_unalign_post(
    vf: Registers, dst_tile: UbOut, align_reg: Staging, stride: Step = None, *, post_update: BoolAttr = False
) -> None:
    """End a stream: write the bytes that wait in the staging register."""
    if align_reg.pending.size:
        vf.store(dst_tile, align_reg.address - dst_tile.addr, align_reg.pending)
    align_reg.pending = align_reg.pending[:0]


@store_unalign_post.rules
def _(dst_tile: Any, align_reg: Any, stride: Any, post_update: bool) -> None:
    _direction(align_reg, is_store=True)
    integer(stride)


@store_unalign_post.lower
def _(k: VectorUnitBuilder, dst_tile: NativeTile, align_reg: Any, stride: Any, post_update: bool) -> None:
    k.flush(dst_tile, align_reg)
