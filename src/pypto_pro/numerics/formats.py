"""What each bit pattern means: parameters of the IEEE-like formats, the HF8 tables, `decode`, padding patterns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from pypto_pro.dtypes import DataType
from pypto_pro.enums import TilePad

Values = npt.NDArray[Any]
Bits = npt.NDArray[np.unsignedinteger]


@dataclass(frozen=True)
class FloatFormat:
    """A sign bit over codes that grow with the magnitude: `code = (E - min_exponent) * 2**mantissa + significand`.

    `max_finite` is the largest finite code, `inf` and `nan` the codes conversions make, None where the format has none.
    """

    bits: int
    mantissa: int
    min_exponent: int
    max_finite: int
    inf: int | None
    nan: int | None


FORMATS: dict[DataType, FloatFormat] = {
    DataType.DT_FP32: FloatFormat(32, 23, -126, 0x7F7FFFFF, 0x7F800000, 0x7FC00000),
    DataType.DT_FP16: FloatFormat(16, 10, -14, 0x7BFF, 0x7C00, 0x7E00),
    DataType.DT_BF16: FloatFormat(16, 7, -126, 0x7F7F, 0x7F80, 0x7FC0),
    DataType.DT_FP8E4M3FN: FloatFormat(8, 3, -6, 0x7E, None, 0x7F),
    DataType.DT_FP8E5M2: FloatFormat(8, 2, -14, 0x7B, 0x7C, 0x7F),
    DataType.DT_FP4E2M1: FloatFormat(4, 1, 0, 0x7, None, None),
    DataType.DT_FP4E1M2: FloatFormat(4, 2, 0, 0x7, None, None),
}

HF8_NAN, HF8_INF, HF8_MAX = 0x80, 0x6F, 0x6E
HF8_MIN_EXPONENT, HF8_MAX_EXPONENT = -22, 15

# (magnitude of the padding, sign bit); FP8E4M3FN and the 4-bit floats have no infinity to pad with
_PAD_LIMITS = {
    **{dt: (f.inf or f.max_finite, 1 << (f.bits - 1)) for dt, f in FORMATS.items()},
    DataType.DT_HF8: (HF8_INF, 0x80),
}


def hf8_mantissa_bits(exponent: int) -> int:
    """Mantissa bits of HF8 at `exponent` (-22..15): the further from 1, the fewer."""
    if exponent < -15:
        return 0
    return 3 if abs(exponent) < 4 else 2 if abs(exponent) < 8 else 1


def _hf8_value(code: int) -> float:
    """Value of a positive HF8 code 0..127, infinity for 0x6F (numerics 2)."""
    if code == HF8_INF:
        return float("inf")
    low3 = code & 7
    if code < 8:  # no exponent, no fraction: 2**-22 .. 2**-16, and zero
        return 2.0 ** (low3 - 23) if low3 else 0.0
    if code < 16:
        return 1 + low3 / 8
    # the prefix 1x or 01 or 001 leaves 4, 3, 2 or 1 bits of exponent, sign first, leading one implied
    exponent_bits = 4 if code >= 0x60 else 3 if code >= 0x40 else 2 if code >= 0x20 else 1
    mantissa_bits = {4: 1, 3: 2}.get(exponent_bits, 3)
    field = code >> mantissa_bits & (1 << exponent_bits) - 1
    half = 1 << (exponent_bits - 1)
    magnitude = half | (field & half - 1)
    exponent = -magnitude if field & half else magnitude
    return 2.0**exponent * (1 + (code & (1 << mantissa_bits) - 1) / (1 << mantissa_bits))


@cache
def hf8_codes_by_value() -> npt.NDArray[np.uint8]:
    """The 128 positive HF8 codes in ascending value, 0 first, infinity last."""
    return np.array(sorted(range(128), key=_hf8_value), np.uint8)


@cache
def _table(dtype: DataType) -> npt.NDArray[np.float32]:
    """Value of every code of an 8- or 4-bit float."""
    if dtype is DataType.DT_HF8:
        positive = [_hf8_value(code) for code in range(128)]
        values = np.array(positive + [-v for v in positive], np.float32)
        values[HF8_NAN] = np.nan
        return values
    if dtype is DataType.DT_FP8E8M0:
        return np.append(np.ldexp(np.float32(1), np.arange(-127, 128)).astype(np.float32), np.float32(np.nan))
    if dtype not in FORMATS:
        raise ValueError(f"{dtype.to_string()} is a placeholder without values")
    fmt = FORMATS[dtype]
    codes = np.arange(1 << (fmt.bits - 1))
    field, fraction = codes >> fmt.mantissa, codes & (1 << fmt.mantissa) - 1
    significand = fraction + ((field > 0) << fmt.mantissa)
    magnitude = np.ldexp(significand, np.maximum(field - 1, 0) + fmt.min_exponent - fmt.mantissa).astype(np.float32)
    magnitude[fmt.max_finite + 1 :] = np.nan
    if fmt.inf is not None:
        magnitude[fmt.inf] = np.inf
    return np.concatenate([magnitude, -magnitude])


def decode(bits: Bits, dtype: DataType) -> Values:
    """Exact values of bit patterns: float32 for floats, int64 for integers and BOOL (uint64 for UINT64).

    ValueError for the placeholders FP4 and HF4.
    """
    match dtype:
        case DataType.DT_FP32:
            return bits.view(np.float32)
        case DataType.DT_FP16:
            return bits.view(np.float16).astype(np.float32)
        case DataType.DT_BF16:
            high: Values = bits.astype(np.uint32) << np.uint32(16)
            return high.view(np.float32)
        case DataType.DT_BOOL:
            return bits.astype(np.bool_).astype(np.int64)
        case DataType.DT_INT4:
            low: Values = bits & np.uint8(15)
            return (low ^ np.uint8(8)).astype(np.int64) - 8
        case DataType.DT_UINT4:
            return (bits & np.uint8(15)).astype(np.int64)
        case DataType.DT_UINT64:
            return bits.view(np.uint64)
    if dtype.is_float():
        codes: npt.NDArray[Any] = bits & np.uint8(15) if dtype.is_sub_byte else bits
        return _table(dtype).take(codes)
    return bits.view(dtype.numpy).astype(np.int64)


def pad_bits(dtype: DataType, pad: TilePad) -> int | None:
    """Bit pattern of a padding element, None for `null`: infinities for floats, the extreme integers otherwise.

    Floats without an infinity pad with their largest magnitude. ValueError for max and min of 64-bit and BOOL elements.
    """
    if pad is TilePad.null:
        return None
    if pad is TilePad.zero:
        return 0
    if dtype in _PAD_LIMITS:
        largest, sign = _PAD_LIMITS[dtype]
        return largest if pad is TilePad.max else largest | sign
    if dtype is DataType.DT_FP8E8M0:
        return 0xFE if pad is TilePad.max else 0
    if not dtype.is_int() or dtype.bits() == 64:
        raise ValueError(f"{dtype.to_string()} can only be padded with null or zero, not {pad.name}")
    limit = dtype.int_max if pad is TilePad.max else dtype.int_min
    return limit & (1 << dtype.bits()) - 1
