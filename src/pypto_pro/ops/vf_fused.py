"""Composite register ops: slopes, multiply-add with one rounding, exp of a difference, multiply and convert."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from pypto_pro import numerics
from pypto_pro.dtypes import DataType
from pypto_pro.enums import CastLayout, MergeMode, RoundMode, VFRoundMode
from pypto_pro.hw.a5 import REGISTER_BYTES
from pypto_pro.ir.types import RegType
from pypto_pro.ops import vf_rules as rules
from pypto_pro.ops.entry import Keyword, OpEntry, Tolerance
from pypto_pro.ops.vec_elementwise import element
from pypto_pro.ops.vf_builder import NativeMask, NativeReg, NativeScalar, VectorUnitBuilder
from pypto_pro.ops.vf_operands import (
    Array,
    Bits,
    MaskArg,
    MaskIn,
    Merge,
    RegArg,
    RegIn,
    Registers,
    Scalar,
    defvf,
    merged,
)
from pypto_pro.ops.vf_unary import magnitude

D = DataType
EXP_ULPS = Tolerance("2 ulp of the result", 3e-7, 0.0, "native evaluates a polynomial, numpy calls its own library")

Placement = Annotated[CastLayout | None, Keyword(enum=CastLayout)]
ResultDtype = Annotated[DataType | None, Keyword(enum=DataType)]


def multiply_add(a: Array, b: Array, c: Array) -> Array:
    """a * b + c of equal dtypes, rounded once; integers wrap.

    FP32 and narrower: the product is exact in FP64. The sum is rounded to odd there (TwoSum gives what was lost), so
    that rounding it again to the dtype rounds the exact value.
    """
    if a.dtype.kind in "iu":
        return np.asarray(a * b + c)
    product = a.astype(np.float64) * b.astype(np.float64)
    addend = c.astype(np.float64)
    total = product + addend
    from_product = total - addend
    lost = (product - from_product) + (addend - (total - from_product))
    single = _to_odd(total, lost)
    return narrowed(single, a.dtype)


def _to_odd(total: Array, lost: Array) -> Array:
    """FP64 `total + lost` with its last bit set when it is not exact."""
    bits = np.ascontiguousarray(total).view(np.int64)
    inexact = np.isfinite(total) & (lost != 0) & (bits & 1 == 0)
    toward_zero = (lost < 0) != (total < 0)
    stepped = np.where(toward_zero, bits - 1, bits + 1)
    return np.where(inexact, stepped, bits).view(np.float64)


def narrowed(values: Array, dtype: Any) -> Array:
    """FP64 values rounded once to a narrower dtype; BF16 by way of FP32, itself rounded to odd."""
    if dtype in (np.float32, np.float16):
        return values.astype(dtype)
    single = values.astype(np.float32)
    back = single.astype(np.float64)
    bits = single.view(np.int32)
    inexact = np.isfinite(single) & (back != values) & (bits & 1 == 0)
    beyond = np.abs(back) > np.abs(values)
    odd = np.where(inexact, np.where(beyond, bits - 1, bits + 1), bits).view(np.float32)
    return odd.astype(dtype)


# --- slopes and differences ------------------------------------------------------------------------------------------


@defvf("vf.leaky_relu", family="vf.arith")
def leaky_relu(vf: Registers, src: RegIn, alpha: Scalar, mask: MaskIn, *, mode: Merge = None) -> Array:
    """r[i] = src[i] if src[i] >= 0 else src[i] * T(alpha) in active lanes, 0 elsewhere; alpha is a float."""
    slope = element(alpha, src.dtype)
    return merged(vf, np.where(src.lanes >= 0, src.lanes, src.lanes * slope), mask)


@leaky_relu.rules
def _(src: Any, alpha: Any, mask: Any, mode: MergeMode | None) -> None:
    rules.registers(rules.SINGLES, src)
    rules.scalar(alpha, rules.SINGLES)
    rules.zeroing(mode)


@leaky_relu.lower
def _(k: VectorUnitBuilder, src: NativeReg, alpha: NativeScalar, mask: NativeMask, mode: MergeMode | None) -> None:
    lanes = src.lanes
    k.give((lanes >= 0.0).select(lanes, lanes * k.full(alpha, src.dtype)), mask)


@defvf("vf.prelu", family="vf.arith")
def prelu(vf: Registers, src: RegIn, slope: RegIn, mask: MaskIn, *, mode: Merge = None) -> Array:
    """r[i] = src[i] if src[i] >= 0 else src[i] * slope[i] in active lanes, 0 elsewhere."""
    return merged(vf, np.where(src.lanes >= 0, src.lanes, src.lanes * slope.lanes), mask)


@prelu.rules
def _(src: Any, slope: Any, mask: Any, mode: MergeMode | None) -> None:
    rules.registers(rules.SINGLES, src, slope)
    rules.zeroing(mode)


@prelu.lower
def _(k: VectorUnitBuilder, src: NativeReg, slope: NativeReg, mask: NativeMask, mode: MergeMode | None) -> None:
    lanes = src.lanes
    k.give((lanes >= 0.0).select(lanes, lanes * slope.lanes), mask)


@defvf("vf.abs_sub", family="vf.composite")
def abs_sub(vf: Registers, src0: RegIn, src1: RegIn, mask: MaskIn, *, mode: Merge = None) -> Array:
    """r[i] = |src0[i] - src1[i]| in active lanes, 0 elsewhere."""
    return merged(vf, magnitude(np.asarray(src0.lanes - src1.lanes)), mask)


@abs_sub.rules
def _(src0: Any, src1: Any, mask: Any, mode: MergeMode | None) -> None:
    rules.registers((*rules.SINGLES, D.DT_INT64), src0, src1)
    rules.zeroing(mode)


@abs_sub.lower
def _(k: VectorUnitBuilder, src0: NativeReg, src1: NativeReg, mask: NativeMask, mode: MergeMode | None) -> None:
    k.give(k.abs(src0.lanes - src1.lanes), mask)


# --- multiply-add ----------------------------------------------------------------------------------------------------


@defvf("vf.axpy", family="vf.composite", reads_target=True)
def axpy(vf: Registers, src: RegIn, scalar: Scalar, mask: MaskIn, *, mode: Merge = None) -> Array:
    """r[i] = src[i] * T(scalar) + old r[i], rounded once, in active lanes; 0 elsewhere, the sum is lost there."""
    factor = np.full_like(src.lanes, element(scalar, src.dtype))
    return merged(vf, multiply_add(src.lanes, factor, vf.old[0].lanes), mask)


@axpy.rules
def _(src: Any, scalar: Any, mask: Any, mode: MergeMode | None) -> None:
    rules.registers((*rules.SINGLES, D.DT_INT64, D.DT_UINT64), src)
    rules.scalar(scalar, (*rules.SINGLES, D.DT_INT64, D.DT_UINT64, D.DT_INDEX))
    rules.zeroing(mode)


@axpy.lower
def _(k: VectorUnitBuilder, src: NativeReg, scalar: NativeScalar, mask: NativeMask, mode: MergeMode | None) -> None:
    k.give(k.multiply_add(src.lanes, k.full(scalar, src.dtype), k.old().lanes, src.dtype), mask)


def _accumulating(name: str, formula: str, dtypes: tuple[DataType, ...], *, old_is_factor: bool) -> OpEntry:
    """A fused multiply-add whose third operand is what the target holds."""

    @defvf(f"vf.{name}", family="vf.composite", reads_target=True)
    def entry(vf: Registers, src0: RegIn, src1: RegIn, mask: MaskIn, *, mode: Merge = None) -> Array:
        old = vf.old[0].lanes
        operands = (old, src0.lanes, src1.lanes) if old_is_factor else (src0.lanes, src1.lanes, old)
        return merged(vf, multiply_add(*operands), mask)

    @entry.rules
    def _(src0: Any, src1: Any, mask: Any, mode: MergeMode | None) -> None:
        rules.registers(dtypes, src0, src1)
        rules.zeroing(mode)

    @entry.lower
    def _(k: VectorUnitBuilder, src0: NativeReg, src1: NativeReg, mask: NativeMask, mode: MergeMode | None) -> None:
        old = k.old().lanes
        operands = (old, src0.lanes, src1.lanes) if old_is_factor else (src0.lanes, src1.lanes, old)
        k.give(k.multiply_add(operands[0], operands[1], operands[2], src0.dtype), mask)

    entry.doc = f"r[i] = {formula}, rounded once, in active lanes; 0 elsewhere, what r held is lost there."
    return entry


mul_add_dst = _accumulating(
    "mul_add_dst", "src0[i] * src1[i] + old r[i]", (*rules.INTS[2:], *rules.FLOATS), old_is_factor=False
)
mul_dst_add = _accumulating("mul_dst_add", "old r[i] * src0[i] + src1[i]", rules.FLOATS, old_is_factor=True)


# --- with a conversion -----------------------------------------------------------------------------------------------


def half_part(layout: CastLayout | None) -> int:
    """0 for even lanes (ZERO), 1 for odd ones (ONE)."""
    return 1 if layout is CastLayout.ONE else 0


def _two_parts(layout: CastLayout | None) -> None:
    if layout in (CastLayout.TWO, CastLayout.THREE):
        raise ValueError(f"layout {layout.name} does not exist here; use ZERO or ONE")


@defvf("vf.exp_sub", family="vf.composite", tolerance=EXP_ULPS)
def exp_sub(
    vf: Registers, src: RegIn, max_val: RegIn, mask: MaskIn, *, layout: Placement = None, dtype: ResultDtype = None
) -> Array:
    """r[k] = exp(src - max_val) in FP32; FP16 sources use lanes 2k (layout ZERO) or 2k + 1 (ONE)."""
    if src.dtype is D.DT_FP32:
        return merged(vf, np.exp(src.lanes - max_val.lanes), mask)
    part = half_part(layout)
    low, high = (reg.lanes[part::2].astype(np.float32) for reg in (src, max_val))
    return np.where(mask.lanes(2)[part::2], np.exp(low - high), np.float32(0))


@exp_sub.rules
def _(src: Any, max_val: Any, mask: Any, layout: CastLayout | None, dtype: DataType | None) -> None:
    rules.registers(rules.SINGLES, src, max_val)
    if (dtype or rules.dtype_of(src)) is not D.DT_FP32:
        raise TypeError("the result is FP32: write `dtype=pl.DT_FP32`")
    _two_parts(layout)


@exp_sub.consumes
def _(src: RegArg, max_val: RegArg, mask: MaskArg, layout: CastLayout | None, **_: Any) -> dict[str, Bits]:
    if src.dtype is D.DT_FP32:
        used = np.repeat(mask.lanes(4), 4)
    else:
        part = half_part(layout)
        used = np.zeros(REGISTER_BYTES, np.bool_)
        used.reshape(-1, 4)[:, 2 * part : 2 * part + 2] = mask.lanes(2)[part::2, None]
    return {"src": used, "max_val": used}


@exp_sub.lower
def _(
    k: VectorUnitBuilder, src: NativeReg, max_val: NativeReg, mask: NativeMask, layout: CastLayout | None, **_: Any
) -> None:
    if src.dtype is D.DT_FP32:
        k.give(k.exp(src.lanes - max_val.lanes), mask)
        return
    part = [2 * lane + half_part(layout) for lane in range(src.count // 2)]
    low, high = (k.shuffle(reg.as_(D.DT_UINT16).lanes, part) for reg in (src, max_val))
    active = mask.picked([2 * lane for lane in part])
    difference = k.raw(low).values(D.DT_FP16) - k.raw(high).values(D.DT_FP16)
    k.give(active.select(k.exp(difference), 0.0))


@defvf("vf.muls_cast", family="vf.composite")
def muls_cast(
    vf: Registers, src: RegIn, scalar: Scalar, mask: MaskIn, *, dtype: ResultDtype = None, layout: Placement = None
) -> Array:
    """r[2k + p] = FP16(src[k] * scalar), ties away from zero, p = 0 for layout ZERO, 1 for ONE; other lanes 0."""
    product = np.where(mask.lanes(4), src.lanes * np.float32(scalar), np.float32(0))
    half = numerics.convert(
        product.view(np.uint32), D.DT_FP32, D.DT_FP16, VFRoundMode.CAST_ROUND, saturate=False, path="register"
    )
    found = np.zeros(REGISTER_BYTES // 2, np.uint16)
    found[half_part(layout) :: 2] = np.where(mask.lanes(4), half, 0)
    return found


@muls_cast.rules
def _(src: Any, scalar: Any, mask: Any, dtype: DataType | None, layout: CastLayout | None) -> None:
    rules.registers((D.DT_FP32,), src)
    rules.scalar(scalar, (D.DT_FP32,))
    if rules.needs_dtype(dtype) is not D.DT_FP16:
        raise TypeError("the result is FP16: write `dtype=pl.DT_FP16`")
    _two_parts(layout)


@muls_cast.result_type
def _(targets: tuple[Any, ...], dtype: DataType | None, **_: Any) -> tuple[RegType, ...]:
    return (rules.same_register(targets[0], rules.needs_dtype(dtype), "muls_cast"),)


@muls_cast.lower
def _(
    k: VectorUnitBuilder, src: NativeReg, scalar: NativeScalar, mask: NativeMask, layout: CastLayout | None, **_: Any
) -> None:
    product = mask.lanes(4).select(src.lanes * k.full(scalar, D.DT_FP32), 0.0)
    half = k.convert(product, D.DT_FP32, D.DT_FP16, RoundMode.CAST_ROUND, False, False)
    assert half is not None
    k.give_bits(k.placed_in(k.stored(half, D.DT_FP16), D.DT_UINT16, half_part(layout), 2))
