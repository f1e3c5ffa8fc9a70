"""Values to bit patterns: rounding, saturation and special values of every format (numerics 2, 3, 4.2).

Floats are rounded on their own bit pattern. For an IEEE-like target the magnitude pattern of the source, shifted right
with rounding and rebased, *is* the target's code, carries into the exponent included; only results below the target's
smallest normal need the significand taken apart.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pypto_pro.dtypes import DataType
from pypto_pro.enums import RoundMode, VFRoundMode
from pypto_pro.numerics.formats import (
    FORMATS,
    HF8_MAX_EXPONENT,
    HF8_MIN_EXPONENT,
    HF8_NAN,
    Bits,
    FloatFormat,
    Values,
    hf8_codes_by_value,
    hf8_mantissa_bits,
)

_R = RoundMode


class _Source(NamedTuple):
    """A float array as integers; `mantissa` bits and `bias` describe float32 or float64."""

    magnitude: npt.NDArray[Any]
    negative: npt.NDArray[Any]  # 0 or 1
    mantissa: int
    bias: int
    infinity: int


def rounding_rule(mode: RoundMode | VFRoundMode, *, to_integer: bool, odd: bool = False) -> RoundMode:
    """The rule a mode stands for: CAST_NONE by target kind, CAST_HYBRID as ties away, CAST_ODD only where it exists."""
    if mode is VFRoundMode.CAST_HYBRID:
        return _R.CAST_ROUND
    rule = RoundMode(mode.value)
    if rule is _R.CAST_NONE or (rule is _R.CAST_ODD and not odd):
        return _R.CAST_TRUNC if to_integer else _R.CAST_RINT
    return rule


def encode(
    values: npt.ArrayLike,
    dtype: DataType,
    mode: RoundMode | VFRoundMode = RoundMode.CAST_RINT,
    saturate: bool = False,
    *,
    keep_nan: bool = False,
    infinite_wraps: bool = False,
) -> Bits:
    """Bit patterns of float or integer values in `dtype`, rounded by `mode`, then fitted to the range.

    `saturate` clamps (NaN to 0 unless `keep_nan`); without it floats overflow to infinity and integers keep their low
    bits. FP32 never saturates, integers to floats and the 4-bit floats always do. `infinite_wraps` is the rule of
    tile casts to INT8 and INT16: +inf gives -1, -inf gives 0. HF8 always rounds ties away.
    ValueError for the placeholders FP4 and HF4.
    """
    given = np.asarray(values)
    if given.ndim == 0:  # numpy turns results without dimensions into scalars, which take no assignment
        one = encode(given[None], dtype, mode, saturate, keep_nan=keep_nan, infinite_wraps=infinite_wraps)
        return one.reshape(())
    if given.dtype.kind in "iub":
        if not dtype.is_float():
            return _integers_to_integer(given, dtype, saturate)
        given, saturate = _integers_as_floats(given), True
    elif given.dtype not in (np.float32, np.float64):
        given = given.astype(np.float32)
    if not dtype.is_float():
        return _floats_to_integer(given, dtype, rounding_rule(mode, to_integer=True), saturate, infinite_wraps)
    if dtype is DataType.DT_HF8:
        return _to_hf8(given, saturate)
    if dtype is DataType.DT_FP8E8M0:
        return _to_e8m0(given)
    if dtype not in FORMATS:
        raise ValueError(f"{dtype.to_string()} is a placeholder without values")
    if dtype is DataType.DT_FP32:
        if given.dtype == np.float32:
            return given.view(np.uint32)
        saturate = False
    rule = rounding_rule(mode, to_integer=False, odd=dtype is DataType.DT_FP16)
    codes: Bits = _to_format(given, FORMATS[dtype], rule, saturate, keep_nan).astype(dtype.bits_dtype)
    return codes


def round_integral(values: Values, mode: RoundMode | VFRoundMode) -> Values:
    """Each float rounded to an integral value of the same dtype; infinities, NaN and the sign of zero are kept."""
    with np.errstate(invalid="ignore"):  # signalling NaN, inf - inf
        match rounding_rule(mode, to_integer=True):
            case RoundMode.CAST_RINT:
                return np.rint(values)
            case RoundMode.CAST_FLOOR:
                return np.floor(values)
            case RoundMode.CAST_CEIL:
                return np.ceil(values)
            case RoundMode.CAST_ROUND:
                whole: Values = np.trunc(values)
                away = np.abs(values - whole) >= values.dtype.type(0.5)  # the difference is exact
                whole += np.copysign(away.astype(values.dtype), values)
                return whole
        return np.trunc(values)


# --- floats to floats ---------------------------------------------------------------------------------------------


def _parts(values: Values) -> _Source:
    single = values.dtype == np.float32
    pattern = values.view(np.uint32 if single else np.uint64)
    width, mantissa, bias = (32, 23, 127) if single else (64, 52, 1023)
    unsigned: Any = pattern.dtype.type
    magnitude = pattern & unsigned((1 << (width - 1)) - 1)
    return _Source(magnitude, pattern >> unsigned(width - 1), mantissa, bias, (2 * bias + 1) << mantissa)


def _shift(magnitude: Any, negative: Any, shift: Any, rule: RoundMode) -> Any:
    """`magnitude / 2**shift` rounded to an integer; `shift` (>= 1) is a scalar or an array of the same dtype."""
    one = magnitude.dtype.type(1)
    below = (one << shift) - one
    match rule:
        case RoundMode.CAST_RINT:
            return (magnitude + (below >> one) + (magnitude >> shift & one)) >> shift
        case RoundMode.CAST_ROUND:
            return (magnitude + (one << (shift - one))) >> shift
        case RoundMode.CAST_FLOOR:
            return (magnitude + below * negative) >> shift
        case RoundMode.CAST_CEIL:
            return (magnitude + below * (negative ^ one)) >> shift
        case RoundMode.CAST_ODD:
            return magnitude >> shift | (magnitude & below != 0)
    return magnitude >> shift


def _to_format(values: Values, fmt: FloatFormat, rule: RoundMode, saturate: bool, keep_nan: bool) -> Any:
    """Codes with sign of an IEEE-like format, in the unsigned dtype of the source's width."""
    src = _parts(values)
    unsigned = src.magnitude.dtype.type
    rebase = (src.bias + fmt.min_exponent - 1) << fmt.mantissa
    code = _shift(src.magnitude, src.negative, unsigned(src.mantissa - fmt.mantissa), rule) - unsigned(rebase)
    if rebase:  # the target has the smaller exponent range: below its normals the quantum stops shrinking
        small = src.magnitude < unsigned((src.bias + fmt.min_exponent) << src.mantissa)
        if small.any():
            code[small] = _subnormal(src.magnitude[small], src.negative[small], src, fmt, rule)
    sign = src.negative << unsigned(fmt.bits - 1)
    over = code > unsigned(fmt.max_finite)
    if not over.any():
        return code | sign
    limit = fmt.max_finite if saturate else fmt.inf or fmt.nan or fmt.max_finite
    code = np.where(over, unsigned(limit), code) | sign
    nan = src.magnitude > unsigned(src.infinity)
    # the sign of a NaN depends on the host that made it
    code[nan] = 0 if fmt.nan is None or (saturate and not keep_nan) else fmt.nan
    return code


def _subnormal(magnitude: Any, negative: Any, src: _Source, fmt: FloatFormat, rule: RoundMode) -> Any:
    """Codes of values below the smallest normal of `fmt`: multiples of one fixed quantum."""
    unsigned = magnitude.dtype.type
    field = magnitude >> unsigned(src.mantissa)
    significand = magnitude & unsigned((1 << src.mantissa) - 1) | (field > 0).astype(unsigned) << unsigned(src.mantissa)
    exponent = np.maximum(field, unsigned(1))
    shift = unsigned(src.mantissa - fmt.mantissa + fmt.min_exponent + src.bias) - exponent
    # past mantissa + 2 all bits are below half a quantum: further shifts change nothing
    return _shift(significand, negative, np.minimum(shift, unsigned(src.mantissa + 2)), rule)


def _to_hf8(values: Values, saturate: bool) -> Bits:
    """Ties away from zero; NaN is 0x80 even when saturating; zero has no sign.

    No code has more than three fraction bits, and a tie is decided by one bit more: the rest cannot matter.
    """
    src = _parts(values)
    unsigned = src.magnitude.dtype.type
    drop = src.mantissa - _HF8_SEEN_BITS
    codes = _hf8_of_leading_bits(src.mantissa, src.bias, saturate)
    code: Bits = codes.take(values.view(unsigned) >> unsigned(drop))
    code[src.magnitude > unsigned(src.infinity)] = HF8_NAN
    return code


_HF8_SEEN_BITS = 4


@cache
def _hf8_of_leading_bits(mantissa: int, bias: int, saturate: bool) -> npt.NDArray[np.uint8]:
    """Code for every sign, exponent and leading four fraction bits of a source float."""
    steps = 1 << _HF8_SEEN_BITS
    fraction = np.arange(steps)
    position = np.zeros((2 * bias + 2, steps), np.int64)  # among the positive codes by value; 0 is zero
    position[bias + HF8_MIN_EXPONENT - 1] = 1  # [2**-23, 2**-22) rounds up to the smallest code
    first = 1
    for exponent in range(HF8_MIN_EXPONENT, HF8_MAX_EXPONENT + 1):
        kept = hf8_mantissa_bits(exponent)
        half = 1 << (_HF8_SEEN_BITS - kept - 1)
        position[bias + exponent] = first + ((fraction + half) >> (_HF8_SEEN_BITS - kept))
        first += 1 << kept
    position[bias + HF8_MAX_EXPONENT + 1 :] = first - 1  # infinity, the last code
    codes = hf8_codes_by_value()
    positive = codes[np.minimum(position, len(codes) - (2 if saturate else 1))].reshape(-1)
    return np.concatenate([positive, np.where(positive == 0, positive, positive | np.uint8(0x80))])


def _to_e8m0(values: Values) -> Bits:
    """The exponent of |value|: mantissa and sign are dropped, zero gives 0, too large 0xFE, NaN 0xFF."""
    src = _parts(values)
    unsigned = src.magnitude.dtype.type
    field = (src.magnitude >> unsigned(src.mantissa)).astype(np.int64) - src.bias + 127
    code: Bits = np.clip(field, 0, 0xFE).astype(np.uint8)
    code[src.magnitude > unsigned(src.infinity)] = 0xFF
    return code


# --- integers -----------------------------------------------------------------------------------------------------


def _integers_as_floats(values: Values) -> Values:
    """Integers as floats for one later rounding: exact, or with the last kept bit saying that something was cut off."""
    if values.dtype.kind == "b" or not values.size or max(-int(values.min()), int(values.max())) <= 1 << 24:
        return values.astype(np.float32)
    magnitude = np.where(values < 0, ~values.astype(np.uint64) + np.uint64(1), values.astype(np.uint64))
    cut = np.uint64(0x7FF)  # 64 bits less 53
    sticky = (magnitude & ~cut) | ((magnitude & cut) != 0).astype(np.uint64) << np.uint64(11)
    magnitude = np.where(magnitude >> np.uint64(53) != 0, sticky, magnitude)
    result: Values = np.where(values < 0, -1.0, 1.0) * magnitude.astype(np.float64)
    return result


def pack_integer(values: npt.NDArray[Any], dtype: DataType) -> Bits:
    """Low bits of integers, in `bits_dtype`."""
    bits: Bits = values.astype(dtype.bits_dtype)
    if dtype.is_sub_byte:
        bits &= np.uint8(15)
    return bits


def _integers_to_integer(values: Values, dtype: DataType, saturate: bool) -> Bits:
    if dtype is DataType.DT_BOOL:
        return values.astype(np.bool_).astype(np.uint8)
    if saturate and values.dtype.kind != "b":
        own = np.iinfo(values.dtype)
        low, high = max(dtype.int_min, int(own.min)), min(dtype.int_max, int(own.max))
        if low > own.min or high < own.max:
            values = np.clip(values, low, high)
    return pack_integer(values, dtype)


def _floats_to_integer(values: Values, dtype: DataType, rule: RoundMode, saturate: bool, infinite_wraps: bool) -> Bits:
    """Round, then clamp or keep the low bits; infinities give the limits (or -1 and 0), NaN gives 0."""
    if dtype is DataType.DT_BOOL:
        return values.astype(np.bool_).astype(np.uint8)
    whole = round_integral(values, rule)
    with np.errstate(invalid="ignore"):  # comparisons with NaN
        if np.all(np.abs(whole) < 2.0**31):
            return _integers_to_integer(whole.astype(np.int32), dtype, saturate)
        # both limits are powers of two or zero, hence exact in any float
        over, under = whole >= 2.0 ** dtype.int_max.bit_length(), whole < dtype.int_min
    finite = np.isfinite(whole)
    rest = np.fmod(np.where(finite, whole, 0), whole.dtype.type(2.0**64))
    magnitude = np.abs(rest).astype(np.uint64)
    low_bits = pack_integer(np.where(rest < 0, ~magnitude + np.uint64(1), magnitude), dtype)
    top, bottom = dtype.int_max, dtype.int_min
    if saturate:
        finite = ~(over | under)
    elif infinite_wraps and dtype.is_signed():
        top, bottom = -1, 0
    mask = (1 << dtype.bits()) - 1
    limit = np.where(over, dtype.bits_dtype.type(top & mask), dtype.bits_dtype.type(bottom & mask))
    result: Bits = np.where(finite, low_bits, np.where(np.isnan(whole), dtype.bits_dtype.type(0), limit))
    return result
