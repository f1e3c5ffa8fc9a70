"""A slow second definition of every format and conversion, in exact fractions, sharing no code with the first.

A value is a Fraction, or one of the strings "nan", "inf", "-inf". Minus zero is the string "-0".
"""

from __future__ import annotations

import math
from bisect import bisect_left
from fractions import Fraction

from pypto_pro.dtypes import DataType

D = DataType
Value = Fraction | str

# exponent bits, mantissa bits, bias
IEEE = {
    D.DT_FP32: (8, 23, 127),
    D.DT_FP16: (5, 10, 15),
    D.DT_BF16: (8, 7, 127),
    D.DT_FP8E4M3FN: (4, 3, 7),
    D.DT_FP8E5M2: (5, 2, 15),
    D.DT_FP4E2M1: (2, 1, 1),
    D.DT_FP4E1M2: (1, 2, 1),
}
LARGEST = {
    D.DT_FP32: (2 - Fraction(1, 2**23)) * 2**127,
    D.DT_FP16: Fraction(65504),
    D.DT_BF16: (2 - Fraction(1, 2**7)) * 2**127,
    D.DT_FP8E4M3FN: Fraction(448),
    D.DT_FP8E5M2: Fraction(57344),
    D.DT_FP4E2M1: Fraction(6),
    D.DT_FP4E1M2: Fraction(7, 4),
    D.DT_HF8: Fraction(32768),
}
NO_INFINITY = (D.DT_FP8E4M3FN, D.DT_FP4E2M1, D.DT_FP4E1M2)


def power(exponent: int) -> Fraction:
    return Fraction(2) ** exponent


def hf8_value(code: int) -> Value:
    """The prefix table of numerics 2, bit by bit."""
    if code == 0x80:
        return "nan"
    if code & 0x7F == 0x6F:
        return "-inf" if code & 0x80 else "inf"
    sign = -1 if code & 0x80 else 1
    bit = [code >> k & 1 for k in range(8)]
    low3 = code & 7
    if bit[6] and bit[5]:
        size, mantissa = 8 + 4 * bit[3] + 2 * bit[2] + bit[1], Fraction(bit[0], 2)
        exponent = -size if bit[4] else size
    elif bit[6]:
        size, mantissa = 4 + 2 * bit[3] + bit[2], Fraction(code & 3, 4)
        exponent = -size if bit[4] else size
    elif bit[5]:
        size, mantissa = 2 + bit[3], Fraction(low3, 8)
        exponent = -size if bit[4] else size
    elif bit[4]:
        exponent, mantissa = (-1 if bit[3] else 1), Fraction(low3, 8)
    elif bit[3]:
        exponent, mantissa = 0, Fraction(low3, 8)
    else:
        return sign * power(low3 - 23) if low3 else Fraction(0)
    return sign * power(exponent) * (1 + mantissa)


def value_of(code: int, dtype: DataType) -> Value:
    """The value of one bit pattern."""
    if dtype is D.DT_HF8:
        return hf8_value(code)
    if dtype is D.DT_FP8E8M0:
        return "nan" if code == 255 else power(code - 127)
    if dtype is D.DT_BOOL:
        return Fraction(int(code != 0))
    if not dtype.is_float():
        n = dtype.bits()
        return Fraction(code - 2**n if dtype.is_signed() and code >> (n - 1) else code)
    e, m, bias = IEEE[dtype]
    negative, field, fraction = code >> (e + m), code >> m & 2**e - 1, code & 2**m - 1
    if dtype is D.DT_FP8E4M3FN and (field, fraction) == (15, 7):
        return "nan"
    if dtype not in NO_INFINITY and field == 2**e - 1:
        return "nan" if fraction else "-inf" if negative else "inf"
    scale = power(max(field, 1) - bias)
    magnitude = scale * (Fraction(fraction, 2**m) + (1 if field else 0))
    if negative:
        return -magnitude if magnitude else "-0"
    return magnitude


def code_of(value: Value, dtype: DataType) -> int:
    """The bit pattern of a value that `dtype` represents exactly (not NaN)."""
    if dtype is D.DT_HF8:
        return HF8_CODES[Fraction(0) if value == "-0" else value]
    if dtype not in IEEE:
        return int(Fraction(0) if value == "-0" else value) % 2 ** dtype.bits()
    e, m, bias = IEEE[dtype]
    sign = 1 << (e + m)
    if value in ("inf", "-inf"):
        return (2**e - 1 << m) | (sign if value == "-inf" else 0)
    if value == "-0":
        return sign
    assert isinstance(value, Fraction)
    magnitude = abs(value)
    exponent = max(exponent_of(magnitude), 1 - bias) if magnitude else 1 - bias
    steps = magnitude / power(exponent - m)
    assert steps.denominator == 1
    code = int(steps) if steps < 2**m else (exponent + bias << m) + int(steps) - 2**m
    return code | (sign if value < 0 else 0)


def exponent_of(magnitude: Fraction) -> int:
    """floor(log2)."""
    guess = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    return guess if power(guess) <= magnitude else guess - 1


def round_fraction(x: Fraction, rule: str) -> int:
    """To an integer; rule names as in RoundMode, ODD in sign and magnitude."""
    down, up = math.floor(x), math.ceil(x)
    match rule:
        case "CAST_FLOOR":
            return down
        case "CAST_CEIL":
            return up
        case "CAST_TRUNC":
            return int(x)
        case "CAST_ODD":
            return down if down == up else down if down % 2 else up
        case "CAST_RINT":
            return round(x)
        case "CAST_ROUND":
            whole = math.floor(abs(x) + Fraction(1, 2))
            return whole if x >= 0 else -whole
    raise ValueError(rule)


def rule_for(mode: str, src: DataType | None, dst: DataType) -> str:
    """Section 3: defaults, forced modes, and CAST_ODD where it does not exist."""
    if dst in (D.DT_FP8E4M3FN, D.DT_FP8E5M2):
        return "CAST_RINT"
    if dst is D.DT_HF8:
        return "CAST_ROUND"
    if mode == "CAST_ODD" and not (src is D.DT_FP32 and dst is D.DT_FP16):
        mode = "CAST_NONE"
    if mode == "CAST_NONE":
        return "CAST_TRUNC" if not dst.is_float() or src is dst else "CAST_RINT"
    return mode


def to_float(x: Value, dtype: DataType, rule: str, saturate: bool) -> int:
    """Code of `x` in a float format: round with unbounded exponent, then check the range (4.2)."""
    if dtype is D.DT_FP8E8M0:
        return to_e8m0(x)
    nan = {D.DT_FP32: 0x7FC00000, D.DT_FP16: 0x7E00, D.DT_BF16: 0x7FC0, D.DT_FP8E4M3FN: 0x7F, D.DT_FP8E5M2: 0x7F}
    saturate = (saturate and dtype is not D.DT_FP32) or dtype in (D.DT_FP4E2M1, D.DT_FP4E1M2)
    if x == "nan":
        return 0x80 if dtype is D.DT_HF8 else 0 if saturate else nan[dtype]
    negative = x in ("-inf", "-0") or (isinstance(x, Fraction) and x < 0)
    if isinstance(x, Fraction) and dtype is D.DT_HF8:
        x = nearest_hf8(x)
    elif isinstance(x, Fraction):
        x = nearest(x, dtype, rule)
        if x == 0 and negative:
            x = "-0"
    if x in ("inf", "-inf") or (isinstance(x, Fraction) and abs(x) > LARGEST[dtype]):
        if saturate:
            x = -LARGEST[dtype] if negative else LARGEST[dtype]
        elif dtype is D.DT_FP8E4M3FN:
            return 0xFF if negative else 0x7F
        else:
            x = "-inf" if negative else "inf"
    return code_of(x, dtype)


def nearest(x: Fraction, dtype: DataType, rule: str) -> Fraction:
    if x == 0:
        return x
    _, m, bias = IEEE[dtype]
    quantum = power(max(exponent_of(abs(x)), 1 - bias) - m)
    return quantum * round_fraction(x / quantum, rule)


HF8_GRID = sorted({abs(v) for c in range(256) if isinstance(v := hf8_value(c), Fraction)} | {Fraction(3, 2) * 2**15})


HF8_CODES = {hf8_value(c): c for c in range(256)}


def nearest_hf8(x: Fraction) -> Value:
    """Nearest finite code or the missing step above them, ties to the larger magnitude; no minus zero."""
    above = bisect_left(HF8_GRID, abs(x))
    around = HF8_GRID[max(above - 1, 0) : above + 1] or HF8_GRID[-1:]
    best = min(around, key=lambda g: (abs(abs(x) - g), -g))
    if best > 32768:
        return "inf" if x > 0 else "-inf"
    return best if x > 0 else -best


def to_e8m0(x: Value) -> int:
    if x == "nan":
        return 0xFF
    if x in ("inf", "-inf"):
        return 0xFE
    if x == "-0" or x == 0:
        return 0
    assert isinstance(x, Fraction)
    return min(max(exponent_of(abs(x)) + 127, 0), 0xFE)


def to_integer(x: Value, dtype: DataType, rule: str, saturate: bool, tile_wrap: bool) -> int:
    """Code of `x` in an integer format (4.2, decision 69)."""
    low = -(2 ** (dtype.bits() - 1)) if dtype.is_signed() else 0
    high = low + 2 ** dtype.bits() - 1
    if x in ("nan", "-0"):
        result = 0
    elif x == "inf":
        result = -1 if tile_wrap and dtype.is_signed() else high
    elif x == "-inf":
        result = 0 if tile_wrap and dtype.is_signed() else low
    else:
        assert isinstance(x, Fraction)
        result = round_fraction(x, rule)
        if saturate:
            result = min(max(result, low), high)
    return result % 2 ** dtype.bits()


def convert_one(code: int, src: DataType, dst: DataType, mode: str, saturate: bool, path: str) -> int:
    """One element through the conversion matrix, for a pair that exists."""
    x = value_of(code, src)
    rule = rule_for(mode, src, dst)
    if src is dst:  # FP32 to FP32 rounds to integral values
        if not isinstance(x, Fraction):
            return code
        whole = Fraction(round_fraction(x, rule))
        return code_of("-0" if whole == 0 and x < 0 else whole, dst)
    if not dst.is_float():
        saturate = saturate or (src, dst) == (D.DT_INT16, D.DT_UINT32)
        wraps = path == "tile" and src.is_float() and not saturate
        return to_integer(x, dst, rule, saturate, wraps and dst in (D.DT_INT8, D.DT_INT16))
    return to_float(x, dst, rule, saturate or not src.is_float())
