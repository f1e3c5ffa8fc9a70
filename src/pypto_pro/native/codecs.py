"""Bits <-> arithmetic values, for scalars and vectors alike: half, bfloat16, and C conversions between types.

Arithmetic types: floats of every width compute in FP32 (`value_type`), integers in their own width, BOOL as i1. LLVM
half arithmetic is never used: half conversions are hardware instructions where the host has them, integer code where
it has not. All of it rounds to nearest even and keeps subnormals.
"""

from __future__ import annotations

from typing import Any

import llvmlite.ir as ir
import numpy as np

from pypto_pro.dtypes import DataType
from pypto_pro.native.emit import F32, I1, I8, I16, I32, Code, Value, like, splat, suffix
from pypto_pro.native.engine import host

D = DataType
NARROW_FLOATS = (D.DT_FP16, D.DT_BF16)
HALF = ir.HalfType()


def value_type(dtype: DataType) -> Any:
    """LLVM type a scalar (or one lane) of `dtype` has in registers."""
    if dtype is D.DT_BOOL:
        return I1
    return F32 if dtype.is_float() else ir.IntType(max(8, dtype.bits()))


def memory_type(dtype: DataType) -> Any:
    """LLVM type of one stored element; 4-bit elements have none of their own and count as bytes."""
    return F32 if dtype is D.DT_FP32 else ir.IntType(dtype.nbytes * 8)


def decode(code: Code, bits: Value, dtype: DataType) -> Value:
    """Stored element(s) -> arithmetic value(s). For FP16, BF16, FP32, BOOL and integers."""
    b = code.b
    match dtype:
        case D.DT_FP16:
            return _from_half(code, bits)
        case D.DT_BF16:
            wide = b.zext(bits, like(bits.type, I32))
            return b.bitcast(b.shl(wide, splat(wide.type, 16)), like(bits.type, F32))
        case D.DT_BOOL:
            return b.icmp_unsigned("!=", bits, splat(bits.type, 0))
    return bits


def encode(code: Code, value: Value, dtype: DataType) -> Value:
    """Arithmetic value(s) -> stored element(s), floats rounded to nearest even."""
    match dtype:
        case D.DT_FP16:
            return _to_half(code, value)
        case D.DT_BF16:
            return _to_bfloat(code, value)
        case D.DT_BOOL:
            return code.b.zext(value, like(value.type, I8))
    return value


def round_to(code: Code, value: Value, dtype: DataType) -> Value:
    """FP32 value(s) rounded to what `dtype` can hold; other types unchanged."""
    return decode(code, encode(code, value, dtype), dtype) if dtype in NARROW_FLOATS else value


def _from_half(code: Code, bits: Value) -> Value:
    b = code.b
    if host().has_half_conversion:
        return b.fpext(b.bitcast(bits, like(bits.type, HALF)), like(bits.type, F32))
    word = like(bits.type, I32)
    wide = b.zext(bits, word)
    magnitude = b.shl(b.and_(wide, splat(word, 0x7FFF)), splat(word, 13))
    sign = b.shl(b.and_(wide, splat(word, 0x8000)), splat(word, 16))
    # the exponent moves by 112: a multiplication does it for subnormals too
    scaled = b.fmul(b.bitcast(magnitude, like(word, F32)), splat(like(word, F32), float(2**112)))
    special = b.icmp_unsigned(">=", magnitude, splat(word, 0x7C00 << 13))
    result = b.select(special, b.or_(magnitude, splat(word, 0x7F800000)), b.bitcast(scaled, word))
    return b.bitcast(b.or_(result, sign), like(word, F32))


def _to_half(code: Code, value: Value) -> Value:
    b = code.b
    if host().has_half_conversion:
        return b.bitcast(b.fptrunc(value, like(value.type, HALF)), like(value.type, I16))
    word = like(value.type, I32)
    bits = b.bitcast(value, word)
    magnitude = b.and_(bits, splat(word, 0x7FFFFFFF))
    sign = b.lshr(b.and_(bits, splat(word, 0x80000000)), splat(word, 16))
    is_nan = b.icmp_unsigned(">", magnitude, splat(word, 0x7F800000))
    large = b.select(is_nan, splat(word, 0x7E00), splat(word, 0x7C00))
    # below 2**-14 adding 0.5 lets the FP32 adder round at the right bit
    shifted = b.fadd(b.bitcast(magnitude, value.type), splat(value.type, 0.5))
    small = b.sub(b.bitcast(shifted, word), splat(word, 0x3F000000))
    odd = b.and_(b.lshr(magnitude, splat(word, 13)), splat(word, 1))
    rebased = b.add(b.add(magnitude, splat(word, 0xC8000FFF)), odd)
    normal = b.lshr(rebased, splat(word, 13))
    below = b.icmp_unsigned("<", magnitude, splat(word, 0x38800000))
    finite = b.icmp_unsigned("<", magnitude, splat(word, 0x47800000))
    result = b.select(finite, b.select(below, small, normal), large)
    return b.trunc(b.or_(result, sign), like(value.type, I16))


def _to_bfloat(code: Code, value: Value) -> Value:
    b = code.b
    word = like(value.type, I32)
    bits = b.bitcast(value, word)
    odd = b.and_(b.lshr(bits, splat(word, 16)), splat(word, 1))
    rounded = b.lshr(b.add(bits, b.add(odd, splat(word, 0x7FFF))), splat(word, 16))
    is_nan = b.fcmp_unordered("uno", value, value)
    sign = b.and_(b.lshr(bits, splat(word, 16)), splat(word, 0x8000))
    quiet = b.or_(sign, splat(word, 0x7FC0))
    return b.trunc(b.select(is_nan, quiet, rounded), like(value.type, I16))


def convert(code: Code, value: Value, source: DataType, target: DataType) -> Value:
    """C conversion of arithmetic value(s): float to int truncates (saturating), ints wrap, BOOL is "not zero"."""
    b = code.b
    if source is target:
        return value
    if target is D.DT_BOOL:
        return nonzero(code, value, source)
    wanted = like(value.type, value_type(target))
    if target.is_float():
        if not source.is_float():
            signed = source.is_signed_int()
            value = b.sitofp(value, wanted) if signed else b.uitofp(value, wanted)
        return round_to(code, value, target)
    if source.is_float() and target.bits() <= 32:
        return _float_to_int(code, value, target)
    if source.is_float():
        name = "fptosi" if target.is_signed_int() else "fptoui"
        suffixes = f"{suffix(wanted)}.{suffix(value.type)}"
        return code.call(f"llvm.{name}.sat.{suffixes}", wanted, [value])
    return resize(code, value, wanted, signed=source.is_signed_int())


def _float_to_int(code: Code, value: Value, target: DataType) -> Value:
    """Truncated, at the nearest end of the range when outside, 0 for NaN; LLVM's own form goes lane by lane."""
    b, real = code.b, value.type
    word, wanted = like(real, I32), like(real, value_type(target))
    low, high = float(target.int_min), float(target.int_max)
    number = b.select(b.fcmp_ordered("==", value, value), value, splat(real, 0.0))
    kept = b.select(b.fcmp_ordered("<", number, splat(real, low)), splat(real, low), number)
    if target.bits() < 32:
        kept = b.select(b.fcmp_ordered(">", kept, splat(real, high)), splat(real, high), kept)
        return b.trunc(b.fptosi(kept, word), wanted)
    over = b.fcmp_ordered(">=", number, splat(real, high + 1))  # the end itself is no FP32 number
    kept = b.select(over, splat(real, 0.0), kept)
    whole = b.fptosi(kept, word) if target.is_signed_int() else b.fptoui(kept, word)
    return b.select(over, splat(word, target.int_max), whole)


def resize(code: Code, value: Value, wanted: Any, *, signed: bool) -> Value:
    """Integer value(s) truncated or extended to the LLVM type `wanted`."""
    have, want = (getattr(t, "element", t).width for t in (value.type, wanted))
    if have == want:
        return value
    if have > want:
        return code.b.trunc(value, wanted)
    return code.b.sext(value, wanted) if signed else code.b.zext(value, wanted)


def nonzero(code: Code, value: Value, dtype: DataType) -> Value:
    """i1: value != 0 (NaN is true)."""
    if dtype is D.DT_BOOL:
        return value
    zero = splat(value.type, 0.0 if dtype.is_float() else 0)
    if dtype.is_float():
        return code.b.fcmp_unordered("!=", value, zero)
    return code.b.icmp_unsigned("!=", value, zero)


def constant(value: bool | int | float, dtype: DataType) -> Value:
    """A known number of `dtype` as an LLVM constant (FP16 and BF16 rounded)."""
    type_ = value_type(dtype)
    if dtype.is_float():
        return ir.Constant(type_, rounded_float(float(value), dtype))
    number = int(value)
    if dtype is D.DT_BOOL:
        return ir.Constant(I1, int(bool(value)))
    return ir.Constant(type_, number & ((1 << type_.width) - 1))


def rounded_float(value: float, dtype: DataType) -> float:
    """A Python float rounded to FP32 or to a 16-bit float."""
    with np.errstate(over="ignore"):
        single = np.float32(value)
        return float(single.astype(dtype.numpy).astype(np.float32)) if dtype in NARROW_FLOATS else float(single)
