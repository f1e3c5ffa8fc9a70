"""Conversions between element types on lanes, by the rules of numerics 4: round first, then fit to the range.

`convert` returns None for pairs or modes it has no code for; the op then runs its meaning.
"""

from __future__ import annotations

from pypto_pro.dtypes import DataType
from pypto_pro.enums import RoundMode
from pypto_pro.native.emit import F32, I1, like, splat
from pypto_pro.native.lanes import Lanes, maximum, minimum
from pypto_pro.native.math import absolute

D, R = DataType, RoundMode
LARGEST = {D.DT_FP16: 65504.0, D.DT_BF16: 3.3895313892515355e38}
FLOATS = (D.DT_FP16, D.DT_BF16, D.DT_FP32)
_INTRINSICS = {
    R.CAST_RINT: "roundeven", R.CAST_ROUND: "round", R.CAST_FLOOR: "floor", R.CAST_CEIL: "ceil", R.CAST_TRUNC: "trunc",
}  # fmt: skip


def convert(
    lanes: Lanes, source: DataType, target: DataType, rule: RoundMode, saturate: bool, infinite_wraps: bool
) -> Lanes | None:
    """Lanes of `source` values as lanes to be stored as `target`. `rule` is an explicit rounding rule."""
    if source.is_float() and target.is_float():
        return _float_to_float(lanes, source, target, rule, saturate)
    if source.is_float():
        return _float_to_integer(lanes, source, target, rule, saturate, infinite_wraps)
    if target.is_float():
        return _integer_to_float(lanes, source, target, rule)
    return _integer_to_integer(lanes, source, target, saturate)


def integral(lanes: Lanes, rule: RoundMode) -> Lanes | None:
    """Rounded to an integral value."""
    name = _INTRINSICS.get(rule)
    return None if name is None else lanes.new(lanes.code.intrinsic(name, lanes.value))


def _float_to_float(
    lanes: Lanes, source: DataType, target: DataType, rule: RoundMode, saturate: bool
) -> Lanes | None:
    if source not in FLOATS or target not in FLOATS:
        return None
    if source is target:
        return integral(lanes, rule)
    if target is D.DT_FP32:
        return lanes
    if saturate:
        largest = LARGEST[target]
        clamped = (lanes > largest).select(largest, lanes)
        clamped = (clamped < -largest).select(-largest, clamped)
        lanes = (lanes == lanes).select(clamped, 0.0)  # NaN gives 0
    if rule is R.CAST_RINT:
        return lanes
    return _to_half_grid(lanes, rule) if target is D.DT_FP16 else _to_bfloat_grid(lanes, rule)


def _to_half_grid(lanes: Lanes, rule: RoundMode) -> Lanes | None:
    """Rounded to a multiple of the FP16 quantum at its magnitude; the final encoding is then exact."""
    bits = lanes.bits_as(D.DT_INT32)
    exponent = maximum((bits >> 23) & 255, 113)  # below 2**-14 the quantum no longer shrinks
    quantum = ((exponent - 10) << 23).bits_as(D.DT_FP32)
    inverse = (264 - exponent << 23).bits_as(D.DT_FP32)
    scaled = lanes * inverse
    if rule is R.CAST_ODD:
        whole = integral(scaled, R.CAST_TRUNC)
        assert whole is not None
        half = whole * 0.5
        truncated = integral(half, R.CAST_TRUNC)
        assert truncated is not None
        is_even = truncated == half
        step = (lanes < 0.0).select(lanes * 0.0 - 1.0, 1.0)
        rounded: Lanes | None = ((whole != scaled) & is_even).select(whole + step, whole)
    else:
        rounded = integral(scaled, rule)
    if rounded is None:
        return None
    finite = absolute(lanes) < float("inf")
    return finite.select(rounded * quantum, lanes)


def _to_bfloat_grid(lanes: Lanes, rule: RoundMode) -> Lanes | None:
    """Rounded on the bit pattern: BF16 is the upper half of FP32."""
    bits = lanes.bits_as(D.DT_UINT32)
    magnitude, sign = bits & 0x7FFFFFFF, bits & 0x80000000
    negative = sign != 0
    match rule:
        case R.CAST_ROUND:
            magnitude = magnitude + 0x8000
        case R.CAST_FLOOR:
            magnitude = negative.select(magnitude + 0xFFFF, magnitude)
        case R.CAST_CEIL:
            magnitude = negative.select(magnitude, magnitude + 0xFFFF)
        case R.CAST_TRUNC:
            pass
        case _:
            return None
    rounded = ((magnitude & 0xFFFF0000) | sign).bits_as(D.DT_FP32)
    finite = absolute(lanes) < float("inf")
    return finite.select(rounded, lanes)


def _float_to_integer(
    lanes: Lanes, source: DataType, target: DataType, rule: RoundMode, saturate: bool, infinite_wraps: bool
) -> Lanes | None:
    if source not in FLOATS or target.bits() < 8:
        return None
    rounded = integral(lanes, rule)
    if rounded is None or saturate:
        return None if rounded is None else rounded.to(target)  # the C conversion saturates, NaN gives 0
    if target.bits() > 32:
        return None
    if source is D.DT_FP16:
        kept = rounded.to(D.DT_INT32).to(target)
    else:
        wide = rounded.to(D.DT_INT64)
        beyond = absolute(rounded) >= float(2**63)  # finite ones are multiples of 2**40: their low bits are 0
        kept = beyond.select(wide ^ wide, wide).to(target)
    infinite = absolute(rounded) == float("inf")
    limits = rounded.to(D.DT_INT32).to(target) if infinite_wraps else rounded.to(target)
    return infinite.select(limits, kept)


def _integer_to_float(lanes: Lanes, source: DataType, target: DataType, rule: RoundMode) -> Lanes | None:
    """Through FP32, exactly: wide integers are first rounded to 24 bits as integers."""
    if target not in FLOATS or source.bits() < 8:
        return None
    if source.bits() <= 16:
        return _float_to_float(lanes.to(D.DT_FP32), D.DT_FP32, target, rule, saturate=True)
    if target is not D.DT_FP32:
        return None
    if rule is R.CAST_RINT:
        return lanes.to(D.DT_FP32)
    return _rounded_integer(lanes.to(D.DT_INT64) if source is not D.DT_UINT64 else lanes, rule)


def _rounded_integer(lanes: Lanes, rule: RoundMode) -> Lanes | None:
    """INT64 lanes as FP32 by any rule: drop the bits FP32 cannot hold, adding first what the rule adds."""
    if lanes.dtype is not D.DT_INT64:
        return None
    code = lanes.code
    negative = lanes < 0
    size = absolute(lanes).bits_as(D.DT_UINT64)
    type_ = size.value.type
    leading = code.call(f"llvm.ctlz.v{size.count}i64", type_, [size.value, I1(0)])
    surplus = size.new(code.intrinsic("smax", code.b.sub(splat(type_, 40), leading), splat(type_, 0)))
    unit = (size ^ size | 1) << surplus
    match rule:
        case R.CAST_ROUND:
            added = size + (unit >> 1)
        case R.CAST_TRUNC:
            added = size
        case R.CAST_FLOOR:
            added = negative.select(size + unit - 1, size)
        case R.CAST_CEIL:
            added = negative.select(size, size + unit - 1)
        case _:
            return None
    kept = (added >> surplus) << surplus
    exact = code.b.uitofp(kept.value, like(type_, F32))
    result = Lanes(code, exact, D.DT_FP32)
    return negative.select(-result, result)


def _integer_to_integer(lanes: Lanes, source: DataType, target: DataType, saturate: bool) -> Lanes | None:
    """Clamped or truncated when narrower, extended when wider; negative to wider unsigned gives 0."""
    if source.bits() < 8 or target.bits() < 8:
        return None
    if target.bits() > source.bits():
        if source.is_signed_int() and not target.is_signed_int():
            lanes = maximum(lanes, 0)
        return lanes.to(target)
    if not saturate:
        return lanes.to(target)
    low = max(source.int_min, target.int_min)
    high = min(source.int_max, target.int_max)
    return minimum(maximum(lanes, low), high).to(target)

