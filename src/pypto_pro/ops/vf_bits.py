"""Bit operations on registers and masks, and shifts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np

from pypto_pro.dtypes import DataType
from pypto_pro.enums import MergeMode
from pypto_pro.ops import vf_rules as rules
from pypto_pro.ops.entry import Keyword, OpEntry
from pypto_pro.ops.vf_builder import Lanes, NativeMask, NativeReg, VectorUnitBuilder
from pypto_pro.ops.vf_operands import (
    Array,
    MaskArg,
    MaskIn,
    Merge,
    RegArg,
    RegIn,
    Registers,
    RegOrMask,
    ScalarOrReg,
    defvf,
)

D = DataType
PATTERNS = (*rules.NUMBERS, *rules.EIGHT_BIT_FLOATS, D.DT_BOOL)
INVERTIBLE = (*rules.INTS, D.DT_BOOL, *rules.SINGLES)
UNSIGNED = {1: D.DT_UINT8, 2: D.DT_UINT16, 4: D.DT_UINT32, 8: D.DT_UINT64}

ResultDtype = Annotated[DataType | None, Keyword(enum=DataType)]


def pattern(reg: RegArg) -> Array:
    """Lanes as unsigned integers."""
    return reg.bytes.view(f"u{reg.width}")


def zeroed(values: Array, mask: MaskArg) -> Array:
    """Unsigned patterns, 0 in inactive lanes."""
    width = values.dtype.itemsize
    return values if mask.every(width) else np.where(mask.lanes(width), values, values.dtype.type(0))


def unsigned(reg: NativeReg) -> Lanes:
    """Native lanes as bit patterns."""
    return reg.as_(UNSIGNED[reg.width]).lanes


def same_dtype(dtype: DataType | None, src: Any) -> None:
    """A `dtype=` that may only repeat the dtype of the source."""
    if dtype is not None and rules.is_register(src) and dtype is not rules.dtype_of(src):
        raise TypeError(f"`dtype={dtype.name}` must be the dtype of `{src.name}`, {rules.dtype_of(src).name}")


def _logic_rules(src0: Any, src1: Any, mode: MergeMode | None, dtype: DataType | None = None) -> None:
    if rules.is_mask(src0):
        rules.masks(src0, src1)
    else:
        rules.registers(PATTERNS, src0, src1)
        same_dtype(dtype, src0)
    rules.zeroing(mode)


def _lower_logic(
    k: VectorUnitBuilder, src0: Any, src1: Any, mask: NativeMask, compute: Callable[[Lanes, Lanes], Lanes]
) -> None:
    if isinstance(src0, NativeMask):
        k.give_flags(compute(src0.flags, src1.flags) & mask.flags)
    else:
        k.give_bits(k.raw(compute(unsigned(src0), unsigned(src1))), mask)


def _logic(name: str, sign: str, on_numbers: np.ufunc, compute: Callable[[Lanes, Lanes], Lanes]) -> OpEntry:
    @defvf(f"vf.{name}", family="vf.logic")
    def entry(
        vf: Registers, src0: RegOrMask, src1: RegOrMask, mask: MaskIn, *, mode: Merge = None
    ) -> Array | MaskArg:
        return _combined(src0, src1, mask, on_numbers)

    @entry.rules
    def _(src0: Any, src1: Any, mask: Any, mode: MergeMode | None) -> None:
        _logic_rules(src0, src1, mode)

    @entry.lower
    def _(k: VectorUnitBuilder, src0: Any, src1: Any, mask: NativeMask, mode: MergeMode | None) -> None:
        _lower_logic(k, src0, src1, mask, compute)

    entry.doc = f"Bits of src0 {sign} bits of src1 in active lanes, 0 elsewhere; of masks bit by bit."
    return entry


def _combined(src0: Any, src1: Any, mask: MaskArg, compute: np.ufunc) -> Array | MaskArg:
    if isinstance(src0, MaskArg):
        return MaskArg(compute(src0.bits, src1.bits) & mask.bits)
    return zeroed(np.asarray(compute(pattern(src0), pattern(src1))), mask)


and_ = _logic("and_", "&", np.bitwise_and, lambda a, b: a & b)
or_ = _logic("or_", "|", np.bitwise_or, lambda a, b: a | b)


@defvf("vf.xor", family="vf.logic")
def xor(
    vf: Registers, src0: RegOrMask, src1: RegOrMask, mask: MaskIn, *, mode: Merge = None, dtype: ResultDtype = None
) -> Array | MaskArg:
    """Bits of src0 ^ bits of src1 in active lanes, 0 elsewhere; of masks bit by bit."""
    return _combined(src0, src1, mask, np.bitwise_xor)


@xor.rules
def _(src0: Any, src1: Any, mask: Any, mode: MergeMode | None, dtype: DataType | None) -> None:
    _logic_rules(src0, src1, mode, dtype)


@xor.lower
def _(k: VectorUnitBuilder, src0: Any, src1: Any, mask: NativeMask, **_: Any) -> None:
    _lower_logic(k, src0, src1, mask, lambda a, b: a ^ b)


@defvf("vf.not_", family="vf.logic")
def not_(vf: Registers, src: RegOrMask, mask: MaskIn, *, mode: Merge = None) -> Array | MaskArg:
    """Inverted bits of src in active lanes, 0 elsewhere; of a mask bit by bit."""
    if isinstance(src, MaskArg):
        return MaskArg(~src.bits & mask.bits)
    return zeroed(~pattern(src), mask)


@not_.rules
def _(src: Any, mask: Any, mode: MergeMode | None) -> None:
    rules.has_dtype(src, INVERTIBLE)  # a mask is checked by its tag
    rules.zeroing(mode)


@not_.lower
def _(k: VectorUnitBuilder, src: Any, mask: NativeMask, mode: MergeMode | None) -> None:
    if isinstance(src, NativeMask):
        k.give_flags((src.flags ^ 1) & mask.flags)
    else:
        k.give_bits(k.raw(~unsigned(src)), mask)


# --- shifts ----------------------------------------------------------------------------------------------------------


def _amounts(shift: RegArg | int | float, like: RegArg) -> Array:
    """Shift amounts as int64; scalars are taken as int16."""
    if isinstance(shift, RegArg):
        return shift.lanes.astype(np.int64)
    return np.full(like.lanes.size, np.int64(int(shift) & 0xFFFF).astype(np.uint16).view(np.int16), np.int64)


def _shifted(src: RegArg, shift: RegArg | int | float, *, left: bool) -> Array:
    """Lanes shifted; an amount of the width or more (or below 0) shifts everything out."""
    bits = 8 * src.width
    amounts = _amounts(shift, src)
    beyond = (amounts < 0) | (amounts >= bits)
    steps = np.where(beyond, 0, amounts).astype(src.lanes.dtype)
    if left:
        return np.where(beyond, np.zeros_like(src.lanes), src.lanes << steps)
    emptied = np.where(src.lanes < 0, -1, 0).astype(src.lanes.dtype) if src.dtype.is_signed_int() else 0
    return np.where(beyond, np.asarray(emptied, src.lanes.dtype), src.lanes >> steps)


def _shift_rules(src: Any, shift: Any, mode: MergeMode | None) -> None:
    rules.registers(rules.INTS, src)
    if rules.is_register(shift):
        rules.has_dtype(shift, rules.SIGNED)
        if rules.dtype_of(shift).nbytes != rules.dtype_of(src).nbytes:
            raise TypeError(f"the amounts `{shift.name}` must be as wide as `{src.name}`")
    else:
        rules.scalar(shift, (*rules.INTS, D.DT_INDEX))
    rules.zeroing(mode)


def _lower_shift(k: VectorUnitBuilder, src: NativeReg, shift: Any, mask: NativeMask, *, left: bool) -> None:
    lanes = src.lanes
    if isinstance(shift, NativeReg):
        amounts: Any = shift.as_(src.dtype).lanes
    else:
        short = k.scalar(shift).to(D.DT_INT16)
        within = (short >= 0) & (short < 8 * src.width)
        amounts = within.choose(short, 8 * src.width).to(src.dtype)
    k.give_bits(k.raw(lanes << amounts if left else lanes >> amounts), mask)


@defvf("vf.shift_left", family="vf.logic")
def shift_left(vf: Registers, src: RegIn, shift: ScalarOrReg, mask: MaskIn, *, mode: Merge = None) -> Array:
    """r[i] = src[i] << shift (a number, or a signed register of src's width) in active lanes, 0 elsewhere."""
    return zeroed(_shifted(src, shift, left=True).view(f"u{src.width}"), mask)


@shift_left.rules
def _(src: Any, shift: Any, mask: Any, mode: MergeMode | None) -> None:
    _shift_rules(src, shift, mode)


@shift_left.lower
def _(k: VectorUnitBuilder, src: NativeReg, shift: Any, mask: NativeMask, mode: MergeMode | None) -> None:
    _lower_shift(k, src, shift, mask, left=True)


@defvf("vf.shift_right", family="vf.logic")
def shift_right(
    vf: Registers, src: RegIn, shift: ScalarOrReg, mask: MaskIn, *, mode: Merge = None, dtype: ResultDtype = None
) -> Array:
    """r[i] = src[i] >> shift in active lanes, 0 elsewhere; arithmetic for signed lanes, else logical."""
    return zeroed(_shifted(src, shift, left=False).view(f"u{src.width}"), mask)


@shift_right.rules
def _(src: Any, shift: Any, mask: Any, mode: MergeMode | None, dtype: DataType | None) -> None:
    _shift_rules(src, shift, mode)
    same_dtype(dtype, src)


@shift_right.lower
def _(k: VectorUnitBuilder, src: NativeReg, shift: Any, mask: NativeMask, **_: Any) -> None:
    _lower_shift(k, src, shift, mask, left=False)
