"""Rearranging lanes: interleave, de_interleave, pack, unpack, bit_cast."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from pypto_pro.dtypes import DataType
from pypto_pro.enums import PackPart
from pypto_pro.hw.a5 import REGISTER_BYTES
from pypto_pro.ir.types import MaskType, RegType, Type
from pypto_pro.ops import vf_rules as rules
from pypto_pro.ops.entry import Keyword
from pypto_pro.ops.vf_bits import UNSIGNED, pattern
from pypto_pro.ops.vf_builder import Lanes, NativeMask, NativeReg, VectorUnitBuilder
from pypto_pro.ops.vf_operands import Array, Bits, MaskArg, RegArg, RegIn, Registers, RegOrMask, defvf

D = DataType
PAIRED = (*rules.NUMBERS, D.DT_BOOL, *rules.EIGHT_BIT_FLOATS)

ResultDtype = Annotated[DataType | None, Keyword(enum=DataType)]
Part = Annotated[PackPart | None, Keyword(enum=PackPart)]
Pair = tuple[Array, Array] | tuple[MaskArg, MaskArg]


def _slots(operand: RegArg | MaskArg, width: int) -> Array:
    """A register as unsigned lanes of `width` bytes, a mask as rows of `width` bits."""
    return operand.bits.reshape(-1, width) if isinstance(operand, MaskArg) else operand.bytes.view(f"u{width}")


def _slot_width(vf: Registers, src0: RegArg | MaskArg, dtype: DataType | None) -> int:
    if isinstance(src0, MaskArg):
        return (dtype or vf.sources[0].dtype).nbytes
    return dtype.nbytes if dtype is not None else src0.width


def _as_results(first: Array, second: Array, src0: RegArg | MaskArg) -> Pair:
    if isinstance(src0, MaskArg):
        return MaskArg(first.reshape(-1)), MaskArg(second.reshape(-1))
    return np.ascontiguousarray(first), np.ascontiguousarray(second)


def _check_pair(src0: Any, src1: Any, dtype: DataType | None) -> None:
    if rules.is_mask(src0):
        rules.masks(src0, src1)
        if (dtype or rules.dtype_of(src0)).nbytes == 8:
            raise TypeError("slots of masks have 8, 16 or 32 bits")
        return
    for operand in (src0, src1):
        rules.registers(PAIRED, operand)
    if rules.dtype_of(src0).nbytes != rules.dtype_of(src1).nbytes:
        raise TypeError(f"`{src0.name}` and `{src1.name}` have lanes of different width")
    if dtype is not None and dtype not in PAIRED:
        raise TypeError(f"lanes cannot be rearranged as {dtype.name}")


def _pair_types(targets: tuple[Type | None, ...], src0: Any, dtype: DataType | None, **_: Any) -> tuple[Type, ...]:
    own = dtype or rules.dtype_of(src0)
    if rules.is_mask(src0):
        return MaskType(own), MaskType(own)
    return tuple(rules.reinterpreted(target, own) for target in (*targets, None)[:2])


def _lower_pair(k: VectorUnitBuilder, src0: Any, src1: Any, dtype: DataType | None, orders: Any) -> None:
    """Give two results, each lanes of src0 followed by src1 picked by number."""
    if isinstance(src0, NativeMask):
        width = (dtype or src0.dtype).nbytes
        for order in orders(REGISTER_BYTES // width):
            bits = [lane * width + bit for lane in order for bit in range(width)]
            k.give_flags(k.shuffle(src0.flags, bits, src1.flags))
        return
    unit = UNSIGNED[(dtype or src0.dtype).nbytes]
    lanes, others = src0.as_(unit).lanes, src1.as_(unit).lanes
    for order in orders(lanes.count):
        k.give_bits(k.raw(k.shuffle(lanes, order, others)))


def interleaved(count: int) -> tuple[list[int], list[int]]:
    """Lane numbers (of src0 followed by src1) of both results of `interleave`."""
    order = [i // 2 + (i % 2) * count for i in range(2 * count)]
    return order[:count], order[count:]


def deinterleaved(count: int) -> tuple[list[int], list[int]]:
    """Lane numbers (of src0 followed by src1) of both results of `de_interleave`."""
    return list(range(0, 2 * count, 2)), list(range(1, 2 * count, 2))


@defvf("vf.interleave", family="vf.rearrange", copies=True, results=2)
def interleave(vf: Registers, src0: RegOrMask, src1: RegOrMask, *, dtype: ResultDtype = None) -> Pair:
    """Lanes src0[0], src1[0], src0[1], src1[1], ...: the first N in r0, the others in r1; of masks slots of dtype."""
    width = _slot_width(vf, src0, dtype)
    first, second = _slots(src0, width), _slots(src1, width)
    joined = np.stack([first, second], axis=1).reshape(2 * len(first), *first.shape[1:])
    return _as_results(joined[: len(first)], joined[len(first) :], src0)


interleave.rules(_check_pair)
interleave.result_type(_pair_types)


@interleave.lower
def _(k: VectorUnitBuilder, src0: Any, src1: Any, dtype: DataType | None) -> None:
    _lower_pair(k, src0, src1, dtype, interleaved)


@defvf("vf.de_interleave", family="vf.rearrange", copies=True, results=2)
def de_interleave(vf: Registers, src0: RegOrMask, src1: RegOrMask, *, dtype: ResultDtype = None) -> Pair:
    """r0: the even lanes of src0, then of src1; r1: the odd ones. `dtype` says as what lanes the registers are read."""
    width = _slot_width(vf, src0, dtype)
    joined = np.concatenate([_slots(src0, width), _slots(src1, width)])
    return _as_results(joined[::2], joined[1::2], src0)


de_interleave.rules(_check_pair)
de_interleave.result_type(_pair_types)


@de_interleave.lower
def _(k: VectorUnitBuilder, src0: Any, src1: Any, dtype: DataType | None) -> None:
    _lower_pair(k, src0, src1, dtype, deinterleaved)


# --- narrower and wider lanes ----------------------------------------------------------------------------------------

_PACKS = {
    D.DT_UINT8: (D.DT_INT16, D.DT_UINT16), D.DT_UINT16: (D.DT_INT32, D.DT_UINT32),
    D.DT_UINT32: (D.DT_INT64, D.DT_UINT64),
}  # fmt: skip
_UNPACKS = {
    D.DT_INT16: D.DT_INT8, D.DT_UINT16: D.DT_UINT8, D.DT_INT32: D.DT_INT16, D.DT_UINT32: D.DT_UINT16,
    D.DT_INT64: D.DT_INT32, D.DT_UINT64: D.DT_UINT32,
}  # fmt: skip


def _packed_types(targets: tuple[Type | None, ...], src: Any, dtype: DataType | None, **_: Any) -> tuple[Type, ...]:
    if rules.is_mask(src):
        return (MaskType(dtype or rules.dtype_of(src)),)
    return (rules.same_register(targets[0], rules.needs_dtype(dtype), "pack"),)


@defvf("vf.pack", family="vf.rearrange", copies=True)
def pack(vf: Registers, src: RegOrMask, *, dtype: ResultDtype = None, part: Part = None) -> Array | MaskArg:
    """The low halves of all lanes, in the lower (part UPPER: upper) half of the result; the other half is 0.

    Of a mask every second bit.
    """
    upper = part is PackPart.UPPER
    if isinstance(src, MaskArg):
        return MaskArg(_half(src.bits[::2], upper))
    return _half(src.bytes.view(f"u{src.width // 2}")[::2], upper)


def _half(values: Array, upper: bool) -> Array:
    """Values in one half of an array twice as long."""
    found = np.zeros(2 * values.size, values.dtype)
    found[values.size * upper : values.size * (1 + upper)] = values
    return found


@pack.rules
def _(src: Any, dtype: DataType | None, part: PackPart | None) -> None:
    if rules.is_mask(src):
        return
    narrow = rules.needs_dtype(dtype)
    if rules.dtype_of(src) not in _PACKS.get(narrow, ()):
        raise TypeError(f"`{src.name}`, {rules.dtype_of(src).name}, cannot be packed as {narrow.name}")


pack.result_type(_packed_types)


@pack.lower
def _(k: VectorUnitBuilder, src: Any, dtype: DataType | None, part: PackPart | None) -> None:
    upper = part is PackPart.UPPER
    if isinstance(src, NativeMask):
        k.give_flags(k.picked(src.flags, _half_order(range(0, REGISTER_BYTES, 2), upper)))
        return
    halves = src.as_(UNSIGNED[src.width // 2]).lanes
    k.give_bits(k.raw(k.picked(halves, _half_order(range(0, halves.count, 2), upper))))


def _half_order(order: range, upper: bool) -> list[int]:
    """Numbers in one half of a register, -1 (zero) in the other."""
    zeros = [-1] * len(order)
    return [*zeros, *order] if upper else [*order, *zeros]


@defvf("vf.unpack", family="vf.rearrange", copies=True)
def unpack(vf: Registers, src: RegOrMask, *, dtype: ResultDtype = None, part: Part = None) -> Array | MaskArg:
    """The lanes of the lower (part UPPER: upper) half extended to twice the width: zeros or the sign, by the dtype.

    Of a mask: bit j moves to bit 2j, odd bits become 0.
    """
    upper = part is PackPart.UPPER
    if isinstance(src, MaskArg):
        found: Bits = np.zeros(REGISTER_BYTES, np.bool_)
        found[::2] = src.bits[REGISTER_BYTES // 2 * upper :][: REGISTER_BYTES // 2]
        return MaskArg(found)
    half = src.lanes.size // 2
    wide = f"{'i' if src.dtype.is_signed_int() else 'u'}{2 * src.width}"
    return src.lanes[half * upper : half * (1 + upper)].astype(wide)


@unpack.rules
def _(src: Any, dtype: DataType | None, part: PackPart | None) -> None:
    if rules.is_mask(src):
        return
    wide = rules.needs_dtype(dtype)
    if rules.dtype_of(src) is not _UNPACKS.get(wide):
        raise TypeError(f"`{src.name}`, {rules.dtype_of(src).name}, cannot be unpacked to {wide.name}")


unpack.result_type(_packed_types)


@unpack.lower
def _(k: VectorUnitBuilder, src: Any, dtype: DataType, part: PackPart | None) -> None:
    upper = part is PackPart.UPPER
    if isinstance(src, NativeMask):
        start = REGISTER_BYTES // 2 * upper
        k.give_flags(k.picked(src.flags, [start + j // 2 if j % 2 == 0 else -1 for j in range(REGISTER_BYTES)]))
        return
    half = src.count // 2
    part_lanes: Lanes = k.shuffle(src.lanes, range(half * upper, half * (1 + upper)))
    k.give_bits(k.raw(part_lanes.to(dtype)))


# --- other dtype -----------------------------------------------------------------------------------------------------


@defvf("vf.bit_cast", family="vf.convert", copies=True)
def bit_cast(vf: Registers, src: RegIn, *, dtype: ResultDtype = None) -> Array:
    """The same 256 bytes as lanes of `dtype`; also as an argument of another register op."""
    return pattern(src)


@bit_cast.rules
def _(src: Any, dtype: DataType | None) -> None:
    rules.needs_dtype(dtype)


@bit_cast.result_type
def _(targets: tuple[Type | None, ...], dtype: DataType | None, **_: Any) -> tuple[RegType, ...]:
    return (rules.reinterpreted(targets[0], rules.needs_dtype(dtype), any_width=True),)


@bit_cast.nestable
def _() -> None:
    """Its result may be an operand."""


@bit_cast.lower
def _(k: VectorUnitBuilder, src: NativeReg, dtype: DataType) -> None:
    k.give_bits(src)
