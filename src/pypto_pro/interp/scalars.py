"""Scalar arithmetic as the device does it: C division, wrapping integers, one rounding per float operation.

Run-time values are Python ints inside the range of their dtype, bools, and floats that are exact values of theirs.
What the device leaves undefined has a definite result here: x // 0 = 0, x % 0 = x, shifts out of range give 0 (or the
sign), a float outside the integer range converts to the nearest end of it, NaN to 0.
"""

from __future__ import annotations

import math
from ctypes import c_float
from typing import Any

import numpy as np

from pypto_pro import numerics
from pypto_pro.dtypes import DataType
from pypto_pro.enums import RoundMode

_EXACT = 1 << 53


def wrap(value: int, bits: int, signed: bool) -> int:
    """The value modulo 2^bits, in the range of the type."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def c_div(lhs: int, rhs: int) -> int:
    """Quotient truncated toward zero."""
    if rhs == 0:
        return 0
    quotient = abs(lhs) // abs(rhs)
    return quotient if (lhs < 0) == (rhs < 0) else -quotient


def c_mod(lhs: int, rhs: int) -> int:
    """Remainder with the sign of the dividend."""
    return lhs if rhs == 0 else lhs - rhs * c_div(lhs, rhs)


def shift_left(value: int, count: int, bits: int) -> int:
    """value << count before wrapping; 0 for counts the type does not have."""
    return value << count if 0 <= count < bits else 0


def shift_right(value: int, count: int, bits: int) -> int:
    """value >> count; a count the type does not have leaves only the sign."""
    return value >> count if 0 <= count < bits else value >> bits


def round32(value: float) -> float:
    """To FP32, nearest even; too large becomes an infinity."""
    return c_float(value).value


def round16(value: float) -> float:
    """To FP16, nearest even."""
    with np.errstate(over="ignore"):
        return float(np.float16(value))


def round_bf16(value: float) -> float:
    """To BF16, nearest even. Exact for a result of one operation on BF16 values (24 bits >= 2 * 8 + 2)."""
    if not math.isfinite(value):
        return value
    bits = numerics.encode(np.array([value], np.float32), DataType.DT_BF16, RoundMode.CAST_RINT)
    return float(numerics.decode(bits, DataType.DT_BF16)[0])


ROUND = {DataType.DT_FP32: round32, DataType.DT_FP16: round16, DataType.DT_BF16: round_bf16}


def f_div(lhs: float, rhs: float) -> float:
    """IEEE division before rounding."""
    if rhs != 0:
        return lhs / rhs
    if lhs == 0 or math.isnan(lhs):
        return math.nan
    return math.copysign(math.inf, lhs) * math.copysign(1.0, rhs)


def f_floor_div(lhs: float, rhs: float) -> float:
    """floor(lhs / rhs)."""
    quotient = round32(f_div(lhs, rhs))
    return float(math.floor(quotient)) if math.isfinite(quotient) else quotient


def f_mod(lhs: float, rhs: float) -> float:
    """lhs - floor(lhs / rhs) * rhs."""
    return lhs - f_floor_div(lhs, rhs) * rhs


def to_int(value: float, dtype: DataType) -> int:
    """C conversion of a float to an integer dtype."""
    if math.isnan(value):
        return 0
    low, high = dtype.int_min, dtype.int_max
    if low <= value <= high:
        return min(max(math.trunc(value), low), high)
    return high if value > 0 else low


def int_to_float(value: int, dtype: DataType) -> float:
    """The nearest FP32 value, rounded on to the narrower formats."""
    if -_EXACT <= value <= _EXACT:
        return ROUND[dtype](float(value))
    kind = np.int64 if value < 1 << 63 else np.uint64
    wide = float(np.float32(kind(value)))
    return wide if dtype is DataType.DT_FP32 else ROUND[dtype](wide)


def to_python(value: Any, dtype: DataType) -> Any:
    """A numpy scalar read from memory as a run-time value."""
    if dtype.is_float():
        return float(value)
    return bool(value) if dtype is DataType.DT_BOOL else int(value)


def typed(value: bool | int | float, dtype: DataType) -> bool | int | float:
    """A constant as a run-time value of its dtype."""
    if dtype.is_float():
        return ROUND[dtype](float(value))
    if dtype is DataType.DT_BOOL:
        return bool(value)
    return wrap(int(value), dtype.bits(), dtype.is_signed_int())
