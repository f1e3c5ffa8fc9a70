"""Formats of 8 and 4 bits on lanes: codes to FP32 values and back, by the rules of numerics 2 and 4.2.

Codes are UINT8 lanes. HF8 goes through tables of its values and of the codes of leading bits, the others through the
FP32 bit pattern: shifted into place, a small float is an FP32 float of another bias, which one product corrects.
"""

from __future__ import annotations

from functools import cache

import llvmlite.ir as ir
import numpy as np

from pypto_pro import numerics
from pypto_pro.dtypes import DataType
from pypto_pro.enums import RoundMode
from pypto_pro.native import convert as conversions
from pypto_pro.native.emit import I1, I8, I32, I64, Code, Value, splat, undefined, vector
from pypto_pro.native.lanes import Lanes, maximum, minimum

D, R = DataType, RoundMode
INF = float("inf")

_SHAPES = {D.DT_FP8E4M3FN: (4, 3, 7), D.DT_FP8E5M2: (5, 2, 15), D.DT_FP4E2M1: (2, 1, 1), D.DT_FP4E1M2: (1, 2, 1)}
"""Exponent bits, mantissa bits, bias."""
_LARGEST = {D.DT_FP8E4M3FN: 448.0, D.DT_FP8E5M2: 57344.0, D.DT_FP4E2M1: 6.0, D.DT_FP4E1M2: 1.75}
SMALL = (*_SHAPES, D.DT_HF8, D.DT_FP8E8M0)

_HF8_LOW, _HF8_HIGH = -24, 16  # exponents beyond these have the code of these
_HF8_BITS = 4  # leading fraction bits that decide about an HF8 code


# --- tables ----------------------------------------------------------------------------------------------------------


def lookup(code: Code, name: str, entries: list[int], element: Value, indices: Value) -> Value:
    """Elements of a constant table by i32 index lanes (all in range)."""
    table = code.module.globals.get(name)
    if table is None:
        type_ = ir.ArrayType(element, len(entries))
        table = ir.GlobalVariable(code.module, type_, name)
        table.initializer = ir.Constant(type_, [ir.Constant(element, e) for e in entries])
        table.global_constant, table.linkage = True, "private"
        table.type = ir.PointerType()
    count = indices.type.count
    base = code.b.insert_element(undefined(vector(count, I64)), code.b.ptrtoint(table, I64), I32(0))
    base = code.b.shuffle_vector(base, base, splat(vector(count, I32), 0))
    size = element.width // 8
    offsets = code.b.mul(code.b.zext(indices, vector(count, I64)), splat(vector(count, I64), size))
    places = code.b.inttoptr(code.b.add(base, offsets), vector(count, ir.PointerType()))
    wanted = vector(count, element)
    kind = f"v{count}i{element.width}.v{count}p0"
    every = splat(vector(count, I1), 1)
    return code.call(f"llvm.masked.gather.{kind}", wanted, [places, I32(size), every, splat(wanted, 0)])


@cache
def _hf8_values() -> list[int]:
    found = numerics.decode(np.arange(256, dtype=np.uint8), D.DT_HF8).astype(np.float32)
    return [int(bits) for bits in found.view(np.uint32)]


@cache
def _hf8_codes(saturate: bool) -> list[int]:
    """The code of every exponent and leading fraction bits, magnitudes only."""
    first, last = 127 + _HF8_LOW << _HF8_BITS, 127 + _HF8_HIGH + 1 << _HF8_BITS
    patterns = np.arange(first, last, dtype=np.uint32) << np.uint32(23 - _HF8_BITS)
    return [int(c) for c in numerics.encode(patterns.view(np.float32), D.DT_HF8, R.CAST_ROUND, saturate)]


# --- codes to values -------------------------------------------------------------------------------------------------


def decode(codes: Lanes, dtype: DataType) -> Lanes:
    """FP32 values of UINT8 code lanes."""
    code = codes.code
    wide = codes.to(D.DT_UINT32)
    if dtype is D.DT_HF8:
        found = lookup(code, "hf8_values", _hf8_values(), I32, wide.value)
        return wide.new(found, D.DT_UINT32).bits_as(D.DT_FP32)
    if dtype is D.DT_FP8E8M0:
        pattern = (wide == 255).select(0x7FC00000, wide << 23)
        return (wide == 0).select(0x00400000, pattern).bits_as(D.DT_FP32)
    exponent, mantissa, bias = _SHAPES[dtype]
    top = exponent + mantissa
    size = wide & (1 << top) - 1
    sign = (wide & 1 << top) << 31 - top
    scaled = (size << 23 - mantissa).bits_as(D.DT_FP32) * float(2.0 ** (127 - bias))
    pattern = scaled.bits_as(D.DT_UINT32)
    if dtype is D.DT_FP8E4M3FN:
        pattern = (size == 0x7F).select(0x7FC00000, pattern)
    if dtype is D.DT_FP8E5M2:
        pattern = (size >= 0x7C).select((size == 0x7C).select(wide ^ wide | 0x7F800000, 0x7FC00000), pattern)
    return (pattern | sign).bits_as(D.DT_FP32)


# --- values to codes -------------------------------------------------------------------------------------------------


def encode(values: Lanes, dtype: DataType, rule: RoundMode, saturate: bool) -> Lanes:
    """UINT8 codes of FP32 lanes. FP8 rounds to nearest even, HF8 ties away, FP4 by `rule`."""
    if dtype is D.DT_HF8:
        return _to_hf8(values, saturate)
    if dtype is D.DT_FP8E8M0:
        pattern = values.bits_as(D.DT_UINT32) & 0x7FFFFFFF
        found = minimum(pattern >> 23, 0xFE)
        return (pattern > 0x7F800000).select(0xFF, found).to(D.DT_UINT8)
    if dtype in (D.DT_FP4E2M1, D.DT_FP4E1M2):
        return _to_four_bits(values, dtype, rule)
    return _to_eight_bits(values, dtype)


def _to_eight_bits(values: Lanes, dtype: DataType) -> Lanes:
    """Saturating FP8: normals rounded on the bit pattern, smaller ones by an addition that drops the same bits."""
    _, mantissa, bias = _SHAPES[dtype]
    pattern = values.bits_as(D.DT_UINT32)
    size, sign = pattern & 0x7FFFFFFF, (pattern >> 24) & 0x80
    drop = 23 - mantissa
    rounded = (size + ((size >> drop) & 1) + ((1 << drop - 1) - 1)) >> drop
    normal = rounded - (127 - bias << mantissa)
    least = 1 - bias  # exponent of the smallest normal; its quantum is 2 ** (least - mantissa)
    anchor = np.float32(2.0 ** (least - mantissa + 23))
    shifted = size.bits_as(D.DT_FP32) + float(anchor)
    small = shifted.bits_as(D.DT_UINT32) - int(anchor.view(np.uint32))
    found = (size < (127 + least << 23)).select(small, normal)
    largest = {D.DT_FP8E4M3FN: 0x7E, D.DT_FP8E5M2: 0x7B}[dtype]
    found = (size.bits_as(D.DT_FP32) >= _LARGEST[dtype]).select(largest, found)
    found = (size > 0x7F800000).select(0, found | sign)
    return found.to(D.DT_UINT8)


def _to_hf8(values: Lanes, saturate: bool) -> Lanes:
    pattern = values.bits_as(D.DT_UINT32)
    size = pattern & 0x7FFFFFFF
    first = 127 + _HF8_LOW << _HF8_BITS
    last = (127 + _HF8_HIGH + 1 << _HF8_BITS) - 1
    index = minimum(maximum(size >> 23 - _HF8_BITS, first), last) - first
    name = f"hf8_codes_{'saturating' if saturate else 'ieee'}"
    found = index.new(lookup(values.code, name, _hf8_codes(saturate), I8, index.value), D.DT_UINT8)
    sign = ((pattern >> 24) & 0x80).to(D.DT_UINT8)
    signed = (found == 0).select(found, found | sign)
    return (size > 0x7F800000).select(signed ^ signed | 0x80, signed)


def _to_four_bits(values: Lanes, dtype: DataType, rule: RoundMode) -> Lanes:
    """Rounded to a multiple of the quantum at its magnitude, clamped, and shifted out of the FP32 pattern."""
    _, mantissa, bias = _SHAPES[dtype]
    size = values.bits_as(D.DT_UINT32) & 0x7FFFFFFF
    magnitude = size.bits_as(D.DT_FP32)
    bounded = (magnitude > 8.0).select(8.0, magnitude)  # inf * 0 below would be NaN
    signed = (values < 0.0).select(-bounded, bounded)
    least = 1 - bias
    field = maximum(minimum((signed.bits_as(D.DT_UINT32) & 0x7FFFFFFF) >> 23, 255), 127 + least)
    quantum = (field - mantissa << 23).bits_as(D.DT_FP32)
    inverse = (254 + mantissa - field << 23).bits_as(D.DT_FP32)
    whole = conversions.integral(signed * inverse, rule)
    assert whole is not None
    rounded = (whole * quantum).bits_as(D.DT_UINT32) & 0x7FFFFFFF
    result = rounded.bits_as(D.DT_FP32)
    result = (result > _LARGEST[dtype]).select(_LARGEST[dtype], result)
    code = (result * float(2.0 ** (bias - 127))).bits_as(D.DT_UINT32) >> 23 - mantissa
    sign = (values.bits_as(D.DT_UINT32) >> 31) << 3
    return (size > 0x7F800000).select(0, code | sign).to(D.DT_UINT8)
