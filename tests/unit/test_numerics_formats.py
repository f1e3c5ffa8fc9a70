"""Codecs: every code of every format up to 16 bits, every interval between two codes, every rounding mode."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numeric_model as model
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pypto_pro.dtypes import DataType
from pypto_pro.enums import RoundMode, TilePad, VFRoundMode
from pypto_pro.numerics import (
    FORMATS,
    decode,
    decode_fixpipe_words,
    encode,
    from_native,
    pad_bits,
    round_integral,
    scalar_fixpipe_word,
    to_native,
)

D, R = DataType, RoundMode
SMALL_FLOATS = (
    D.DT_FP16, D.DT_BF16, D.DT_FP8E4M3FN, D.DT_FP8E5M2, D.DT_FP4E2M1, D.DT_FP4E1M2, D.DT_HF8, D.DT_FP8E8M0,
)  # fmt: skip
IEEE_LIKE = SMALL_FLOATS[:6]
INTEGERS = tuple(d for d in D if d.is_int() and d is not D.DT_INDEX)
MODES = tuple(m for m in R if m is not R.CAST_NONE)

HF8_PRINTED = """
0 2.384185791e-07 4.768371582e-07 9.536743164e-07 1.907348633e-06 3.814697266e-06 7.629394531e-06 1.525878906e-05
1 1.125 1.25 1.375 1.5 1.625 1.75 1.875
2 2.25 2.5 2.75 3 3.25 3.5 3.75
0.5 0.5625 0.625 0.6875 0.75 0.8125 0.875 0.9375
4 4.5 5 5.5 6 6.5 7 7.5
8 9 10 11 12 13 14 15
0.25 0.28125 0.3125 0.34375 0.375 0.40625 0.4375 0.46875
0.125 0.140625 0.15625 0.171875 0.1875 0.203125 0.21875 0.234375
16 20 24 28 32 40 48 56
64 80 96 112 128 160 192 224
0.0625 0.078125 0.09375 0.109375 0.03125 0.0390625 0.046875 0.0546875
0.015625 0.01953125 0.0234375 0.02734375 0.0078125 0.009765625 0.01171875 0.013671875
256 384 512 768 1024 1536 2048 3072
4096 6144 8192 12288 16384 24576 32768 inf
0.00390625 0.005859375 0.001953125 0.0029296875 0.0009765625 0.00146484375 0.00048828125 0.000732421875
0.000244140625 0.0003662109375 0.0001220703125 0.0001831054688 6.103515625e-05 9.155273438e-05 3.051757812e-05 4.577636719e-05
"""  # noqa: E501 - the table as printed


def as_float(value: model.Value) -> float:
    """A model value as a Python float; exact for every format here."""
    return float(value)


def codes_of(dtype: DataType) -> np.ndarray:
    return np.arange(1 << dtype.bits(), dtype=dtype.bits_dtype)


def same(a: float, b: float) -> bool:
    return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))


@pytest.mark.parametrize("dtype", SMALL_FLOATS)
def test_decode_every_code(dtype: DataType) -> None:
    values = decode(codes_of(dtype), dtype)
    assert values.dtype == np.float32
    expected = [as_float(model.value_of(c, dtype)) for c in range(1 << dtype.bits())]
    assert all(map(same, values.tolist(), expected))


@pytest.mark.parametrize("dtype", [D.DT_BOOL, D.DT_INT4, D.DT_UINT4, D.DT_INT8, D.DT_UINT8, D.DT_INT16, D.DT_UINT16])
def test_decode_every_integer_code(dtype: DataType) -> None:
    values = decode(codes_of(dtype), dtype)
    assert values.dtype == np.int64
    assert values.tolist() == [int(model.value_of(c, dtype)) for c in range(1 << dtype.bits())]


def test_decode_wide_integers() -> None:
    assert decode(np.array([0xFFFFFFFF], np.uint32), D.DT_INT32).tolist() == [-1]
    assert decode(np.array([0xFFFFFFFF], np.uint32), D.DT_UINT32).tolist() == [2**32 - 1]
    assert decode(np.array([2**64 - 1], np.uint64), D.DT_INT64).tolist() == [-1]
    assert decode(np.array([2**64 - 1], np.uint64), D.DT_UINT64).tolist() == [2**64 - 1]


def test_hf8_table_as_printed() -> None:
    printed = np.array([float(x) for x in HF8_PRINTED.split()])
    assert decode(np.arange(128, dtype=np.uint8), D.DT_HF8) == pytest.approx(printed, rel=1e-9)


@pytest.mark.parametrize("dtype", [D.DT_FP4, D.DT_HF4])
def test_placeholders_have_no_values(dtype: DataType) -> None:
    with pytest.raises(ValueError, match="placeholder"):
        decode(np.zeros(1, np.uint8), dtype)
    with pytest.raises(ValueError, match="placeholder"):
        encode(np.zeros(1, np.float32), dtype)


@pytest.mark.parametrize("saturate", [False, True])
@pytest.mark.parametrize("dtype", SMALL_FLOATS)
def test_encode_is_the_inverse_of_decode(dtype: DataType, saturate: bool) -> None:
    codes = codes_of(dtype)
    values = decode(codes, dtype)
    finite = np.isfinite(values)
    assert (encode(values, dtype, saturate=saturate)[finite] == codes[finite]).all()
    wide = values[finite].astype(np.float64)
    assert (encode(wide, dtype, saturate=saturate) == codes[finite]).all()


def pick(rule: R, c: np.ndarray, side: int) -> np.ndarray:
    """What a positive value between the magnitudes c and c + 1 becomes; its side of the midpoint is -1, 0 or 1."""
    match rule:
        case R.CAST_FLOOR | R.CAST_TRUNC:
            return c
        case R.CAST_CEIL:
            return c + 1
        case R.CAST_ODD:
            return c | 1
        case R.CAST_ROUND:
            return c if side < 0 else c + 1
    return c if side < 0 else c + 1 if side > 0 else c + c % 2


@pytest.mark.parametrize("width", [np.float32, np.float64])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", IEEE_LIKE)
def test_encode_in_every_interval(dtype: DataType, mode: R, width: type) -> None:
    """Just above a code, just below, at and just above the midpoint, just below the next code; both signs."""
    codes = np.arange(FORMATS[dtype].max_finite, dtype=np.uint32)  # the last interval starts below the largest code
    values = np.array([as_float(model.value_of(int(c), dtype)) for c in range(len(codes) + 1)], np.float64)
    low, high = values[:-1].astype(width), values[1:].astype(width)
    middle = ((values[:-1] + values[1:]) / 2).astype(width)
    keeps_odd = mode is R.CAST_ODD and dtype is not D.DT_FP16
    rule = R.CAST_RINT if keeps_odd else mode
    sign_bit = 1 << (dtype.bits() - 1)
    mirrored = {R.CAST_FLOOR: R.CAST_CEIL, R.CAST_CEIL: R.CAST_FLOOR}.get(rule, rule)
    up, down = width(np.inf), width(0)
    for points, side in (
        (np.nextafter(low, up), -1), (np.nextafter(middle, down), -1), (middle, 0),
        (np.nextafter(middle, up), 1), (np.nextafter(high, down), 1),
    ):  # fmt: skip
        inside = (points > low) & (points < high) & (np.sign(points.astype(np.float64) - middle) == side)
        got, negated = encode(points, dtype, mode), encode(-points, dtype, mode)
        assert (got[inside] == pick(rule, codes, side)[inside]).all()
        assert (negated[inside] == (pick(mirrored, codes, side) | sign_bit)[inside]).all()


@pytest.mark.parametrize("width", [np.float32, np.float64])
def test_hf8_in_every_interval(width: type) -> None:
    grid = np.array([float(v) for v in model.HF8_GRID])
    low, high = grid[:-1].astype(width), grid[1:].astype(width)
    middle = (low + high) / 2
    for points, upper in (
        (low, False), (np.nextafter(middle, width(0)), False), (middle, True), (np.nextafter(middle, high), True)
    ):  # fmt: skip
        for sign in (1, -1):
            got = encode(sign * points, D.DT_HF8, R.CAST_ROUND)
            picked = [model.HF8_GRID[k + upper] for k in range(len(low))]
            wanted = [0x6F if v > 32768 else model.code_of(v, D.DT_HF8) for v in picked]
            assert got.tolist() == [w | (0x80 if sign < 0 and w else 0) for w in wanted]
    over = np.array([32768, 40000, 40960, 1e9, np.inf], width)
    assert encode(over, D.DT_HF8).tolist() == [0x6E, 0x6E, 0x6F, 0x6F, 0x6F]
    assert encode(-over, D.DT_HF8, saturate=True).tolist() == [0xEE] * 5
    tiny = np.array([2.0**-24, np.nextafter(width(2.0**-23), width(0)), 2.0**-23, -(2.0**-23), -(2.0**-24)], width)
    assert encode(tiny, D.DT_HF8).tolist() == [0, 0, 1, 0x81, 0]
    assert encode(np.array([np.nan], width), D.DT_HF8, saturate=True).tolist() == [0x80]


FLOATS32 = st.floats(width=32, allow_nan=False, allow_infinity=False)
ANY_FLOAT = st.one_of(
    FLOATS32,
    st.floats(-70000, 70000, width=32),
    st.floats(-(2.0**-12), 2.0**-12, width=32),
    st.integers(-(2**17), 2**17).map(lambda k: k / 2),
)


def fraction(x: float) -> model.Value:
    if math.isnan(x):
        return "nan"
    if math.isinf(x):
        return "inf" if x > 0 else "-inf"
    return "-0" if x == 0 and math.copysign(1, x) < 0 else Fraction(x)


@given(st.lists(ANY_FLOAT, min_size=1, max_size=8), st.sampled_from(MODES), st.booleans())
@pytest.mark.parametrize("dtype", SMALL_FLOATS)
def test_encode_floats_against_fractions(dtype: DataType, xs: list[float], mode: R, saturate: bool) -> None:
    rule = mode.name if dtype is not D.DT_HF8 else "CAST_ROUND"
    if mode is R.CAST_ODD and dtype is not D.DT_FP16:
        rule = "CAST_RINT"
    for width in (np.float32, np.float64):
        got = encode(np.array(xs, width), dtype, mode, saturate).tolist()
        assert got == [model.to_float(fraction(x), dtype, rule, saturate) for x in xs]


@given(st.lists(st.floats(), min_size=1, max_size=8), st.sampled_from(MODES))
@settings(max_examples=200)
def test_encode_doubles_to_fp32(xs: list[float], mode: R) -> None:
    rule = "CAST_RINT" if mode is R.CAST_ODD else mode.name
    for saturate in (False, True):  # has no meaning for FP32
        got = encode(np.array(xs, np.float64), D.DT_FP32, mode, saturate).tolist()
        assert got == [model.to_float(fraction(x), D.DT_FP32, rule, False) for x in xs]


@pytest.mark.parametrize("dtype", [D.DT_FP16, D.DT_BF16, D.DT_FP8E4M3FN, D.DT_FP8E5M2, D.DT_FP4E2M1])
def test_nearest_even_agrees_with_ml_dtypes(dtype: DataType) -> None:
    patterns = np.arange(1 << 20, dtype=np.uint32) * np.uint32(4093)  # all exponents, scattered fractions
    x = patterns.view(np.float32)
    x = x[~np.isnan(x)]
    with np.errstate(over="ignore"):
        theirs = x.astype(dtype.numpy)
    ours = encode(x, dtype, R.CAST_RINT)
    equal = ours == theirs.view(np.uint8 if dtype.is_sub_byte else dtype.bits_dtype)
    assert equal.all()


@pytest.mark.parametrize(
    ("dtype", "off", "on"),
    [
        # NaN, +inf, -inf, finite overflow up, down
        (D.DT_FP16, [0x7E00, 0x7C00, 0xFC00, 0x7C00, 0xFC00], [0, 0x7BFF, 0xFBFF, 0x7BFF, 0xFBFF]),
        (D.DT_BF16, [0x7FC0, 0x7F80, 0xFF80, 0x7F80, 0xFF80], [0, 0x7F7F, 0xFF7F, 0x7F7F, 0xFF7F]),
        (D.DT_FP8E4M3FN, [0x7F, 0x7F, 0xFF, 0x7F, 0xFF], [0, 0x7E, 0xFE, 0x7E, 0xFE]),
        (D.DT_FP8E5M2, [0x7F, 0x7C, 0xFC, 0x7C, 0xFC], [0, 0x7B, 0xFB, 0x7B, 0xFB]),
        (D.DT_FP4E2M1, [0, 7, 15, 7, 15], [0, 7, 15, 7, 15]),
        (D.DT_FP4E1M2, [0, 7, 15, 7, 15], [0, 7, 15, 7, 15]),
        (D.DT_HF8, [0x80, 0x6F, 0xEF, 0x6F, 0xEF], [0x80, 0x6E, 0xEE, 0x6E, 0xEE]),
        (D.DT_FP8E8M0, [0xFF, 0xFE, 0xFE, 0xFE, 0xFE], [0xFF, 0xFE, 0xFE, 0xFE, 0xFE]),
    ],
)
def test_special_values(dtype: DataType, off: list[int], on: list[int]) -> None:
    big = float(np.finfo(np.float32).max)
    x = np.array([np.nan, np.inf, -np.inf, big, -big], np.float32)
    assert encode(x, dtype, saturate=False).tolist() == off
    assert encode(x, dtype, saturate=True).tolist() == on


def test_saturating_may_keep_nan() -> None:
    x = np.array([np.nan, 1e9], np.float32)
    assert encode(x, D.DT_FP16, saturate=True, keep_nan=True).tolist() == [0x7E00, 0x7BFF]
    negative = np.array([0xFFC00000, 0xFF800001], np.uint32).view(np.float32)
    for dtype, nan in ((D.DT_FP16, 0x7E00), (D.DT_BF16, 0x7FC0), (D.DT_FP8E4M3FN, 0x7F), (D.DT_FP8E5M2, 0x7F)):
        assert encode(negative, dtype).tolist() == [nan, nan]


WIDE_FLOAT = st.one_of(
    ANY_FLOAT, st.floats(width=32), *(st.floats(-(2.0**n), 2.0**n, width=32) for n in (33, 70))
)  # fmt: skip


@given(
    st.lists(WIDE_FLOAT, min_size=1, max_size=8),
    st.sampled_from(INTEGERS), st.sampled_from(tuple(R)), st.booleans(), st.booleans(),
)  # fmt: skip
@settings(max_examples=400)
def test_encode_floats_to_integers(xs: list[float], dtype: DataType, mode: R, saturate: bool, wraps: bool) -> None:
    rule = "CAST_TRUNC" if mode in (R.CAST_NONE, R.CAST_ODD) else mode.name
    for width in (np.float32, np.float64):
        got = encode(np.array(xs, width), dtype, mode, saturate, infinite_wraps=wraps).tolist()
        assert got == [model.to_integer(fraction(x), dtype, rule, saturate, wraps and not saturate) for x in xs]


ANY_INTEGER = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**26), 2**26))


@given(st.lists(ANY_INTEGER, min_size=1, max_size=4), st.sampled_from(MODES))
def test_encode_integers_to_floats(xs: list[int], mode: R) -> None:
    for dtype in (D.DT_FP32, D.DT_FP16, D.DT_BF16):
        rule = "CAST_RINT" if mode is R.CAST_ODD and dtype is not D.DT_FP16 else mode.name
        got = encode(np.array(xs, np.int64), dtype, mode).tolist()
        assert got == [model.to_float(Fraction(x), dtype, rule, True) for x in xs]


@given(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=8), st.sampled_from(INTEGERS), st.booleans())
def test_encode_integers_to_integers(xs: list[int], dtype: DataType, saturate: bool) -> None:
    for width in (np.int32, np.int64):
        got = encode(np.array(xs, width), dtype, saturate=saturate).tolist()
        assert got == [model.to_integer(Fraction(x), dtype, "CAST_RINT", saturate, False) for x in xs]


def test_first_integers_fp32_cannot_hold() -> None:
    odd = np.array([2**24 + 1], np.int32)
    up, down = np.float32(2**24 + 2).view(np.uint32), np.float32(2**24).view(np.uint32)
    for mode, wanted in ((R.CAST_FLOOR, down), (R.CAST_CEIL, up), (R.CAST_ROUND, up), (R.CAST_RINT, down)):
        assert encode(odd, D.DT_FP32, mode).tolist() == [wanted]


def test_encode_unsigned_and_small_sources() -> None:
    big = np.array([2**64 - 1, 2**63], np.uint64)
    assert encode(big, D.DT_INT64, saturate=True).tolist() == [2**63 - 1] * 2
    assert encode(big, D.DT_FP32).view(np.float32).tolist() == [2.0**64, 2.0**63]
    assert encode(np.array([200], np.uint8), D.DT_INT8, saturate=True).tolist() == [127]
    assert encode(np.array([True, False]), D.DT_FP16).tolist() == [0x3C00, 0]
    assert encode(np.array([2.0, 0.0]), D.DT_BOOL).tolist() == [1, 0]
    assert encode(np.array([-5, 0]), D.DT_BOOL).tolist() == [1, 0]
    assert encode(np.array([1.5], ml_dtypes.bfloat16), D.DT_FP32).view(np.float32).tolist() == [1.5]


def test_encode_keeps_shapes() -> None:
    assert encode(1.0, D.DT_FP16).shape == ()
    assert int(encode(1e9, D.DT_FP8E4M3FN, saturate=True)) == 0x7E
    for shape in ((0,), (0, 4), (2, 3)):
        for dtype in (D.DT_FP16, D.DT_HF8, D.DT_INT8, D.DT_FP8E8M0):
            assert encode(np.zeros(shape, np.float32), dtype).shape == shape
            assert encode(np.zeros(shape, np.int64), dtype).shape == shape
    strided = np.arange(16, dtype=np.float32).reshape(4, 4).T[::2]
    assert (encode(strided, D.DT_BF16) == encode(strided.copy(), D.DT_BF16)).all()


@given(st.floats(width=32), st.sampled_from(tuple(R)))
def test_round_integral(x: float, mode: R) -> None:
    got = float(round_integral(np.array([x], np.float32), mode)[0])
    if math.isnan(x) or math.isinf(x):
        assert same(got, x)
    else:
        rule = "CAST_TRUNC" if mode in (R.CAST_NONE, R.CAST_ODD) else mode.name
        assert got == model.round_fraction(Fraction(x), rule)
        assert math.copysign(1, got) == math.copysign(1, x)


def test_hybrid_is_ties_away() -> None:
    x = np.linspace(-40, 40, 999, dtype=np.float32)
    assert (encode(x, D.DT_HF8, VFRoundMode.CAST_HYBRID) == encode(x, D.DT_HF8, R.CAST_ROUND)).all()


# --- working values -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [D.DT_FP16, D.DT_BF16])
def test_arithmetic_in_fp32_is_correctly_rounded(dtype: DataType) -> None:
    random = np.random.default_rng(5)
    a, b = (random.integers(0, 65536, 2000).astype(np.uint16) for _ in range(2))
    x, y = to_native(a, dtype), to_native(b, dtype)
    usable = np.isfinite(x) & np.isfinite(y) & (y != 0)
    a, b, x, y = a[usable], b[usable], x[usable], y[usable]
    operations = (lambda p, q: p + q, lambda p, q: p - q, lambda p, q: p * q, lambda p, q: p / q)
    for operation in operations:
        with np.errstate(over="ignore"):
            got = from_native(operation(x, y), dtype)
        for k in range(0, len(a), 7):
            exact = operation(Fraction(float(x[k])), Fraction(float(y[k])))
            wanted = model.to_float(exact, dtype, "CAST_RINT", False)
            assert int(got[k]) | (exact == 0) << 15 == wanted | (exact == 0) << 15  # the sign of a zero is IEEE's


def test_integers_wrap_in_their_own_width() -> None:
    for dtype in (D.DT_INT8, D.DT_INT32, D.DT_UINT16, D.DT_UINT64):
        top = np.array([dtype.int_max], np.uint64).astype(dtype.bits_dtype)
        value = to_native(top, dtype)
        assert value.dtype == dtype.numpy
        assert decode(from_native(value + value.dtype.type(1), dtype), dtype).tolist() == [dtype.int_min]
    four = np.array([7, 8], np.uint8)
    assert to_native(four, D.DT_INT4).tolist() == [7, -8]
    assert from_native(to_native(four, D.DT_INT4) + np.int8(1), D.DT_INT4).tolist() == [8, 9]
    assert from_native(to_native(np.array([0, 3], np.uint8), D.DT_BOOL), D.DT_BOOL).tolist() == [0, 1]


# --- constants ----------------------------------------------------------------------------------------------------


def test_pad_patterns() -> None:
    assert [pad_bits(D.DT_FP32, p) for p in TilePad] == [None, 0, 0x7F800000, 0xFF800000]
    assert [pad_bits(D.DT_FP16, p) for p in TilePad] == [None, 0, 0x7C00, 0xFC00]
    assert [pad_bits(D.DT_BF16, p) for p in TilePad] == [None, 0, 0x7F80, 0xFF80]
    assert [pad_bits(D.DT_INT8, p) for p in TilePad] == [None, 0, 0x7F, 0x80]
    assert [pad_bits(D.DT_INT32, p) for p in TilePad] == [None, 0, 0x7FFFFFFF, 0x80000000]
    assert [pad_bits(D.DT_UINT16, p) for p in TilePad] == [None, 0, 0xFFFF, 0]
    assert pad_bits(D.DT_FP8E4M3FN, TilePad.min) == 0xFE
    assert pad_bits(D.DT_HF8, TilePad.max) == 0x6F
    assert pad_bits(D.DT_FP8E8M0, TilePad.max) == 0xFE
    assert pad_bits(D.DT_INT64, TilePad.zero) == 0
    for dtype in (D.DT_INT64, D.DT_UINT64):
        with pytest.raises(ValueError, match="null or zero"):
            pad_bits(dtype, TilePad.max)


def test_fixpipe_words() -> None:
    scale = int(np.float32(1.2345).view(np.uint32))
    word = scale | 0x1FF << 37 | 1 << 46
    decoded = decode_fixpipe_words(np.array([word, scale | 0xFF << 37], np.int64), per_channel=False)
    assert decoded.scale.tolist() == [np.float32(1.2345)] * 2
    assert decoded.offset.tolist() == [-1, 255]
    assert decoded.signed.tolist() == [True, False]
    cut = decode_fixpipe_words([word], per_channel=True).scale
    assert cut.view(np.uint32).tolist() == [scale & 0xFFFFE000]
    assert abs(cut[0] / np.float32(1.2345) - 1) < 2**-10
    assert decode_fixpipe_words(scalar_fixpipe_word(scale, signed=True), per_channel=False).signed.tolist() == [True]
