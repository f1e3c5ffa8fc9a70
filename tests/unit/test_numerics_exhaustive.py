"""Every element of at most 16 bits: into every format with every mode and saturation, and through every pair.

The model is a search among the values of the target's codes, which `test_numerics_formats` checks one by one; it
shares no rounding with the encoders.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from ops.harness import Bench, Case, T
from ops.native_bench import run_native
from pypto_pro.dtypes import DataType
from pypto_pro.enums import RoundMode, SaturateMode, VFRoundMode
from pypto_pro.numerics import FORMATS, REGISTER_CASTS, TILE_CASTS, convert, decode, encode
from pypto_pro.ops.operands import TileArg

D, R = DataType, RoundMode
MODES = tuple(R)
FLOATS = (
    D.DT_FP16, D.DT_BF16, D.DT_FP8E4M3FN, D.DT_FP8E5M2, D.DT_HF8, D.DT_FP4E2M1, D.DT_FP4E1M2, D.DT_FP8E8M0, D.DT_FP32,
)  # fmt: skip
INTEGERS = (
    D.DT_INT4, D.DT_UINT4, D.DT_INT8, D.DT_UINT8, D.DT_INT16, D.DT_UINT16, D.DT_INT32, D.DT_UINT32, D.DT_INT64,
)  # fmt: skip
NARROW = tuple(sorted({s for s, _ in (*TILE_CASTS, *REGISTER_CASTS) if s.bits() <= 16}, key=lambda d: d.name))
NAN = {D.DT_FP16: 0x7E00, D.DT_BF16: 0x7FC0, D.DT_FP8E4M3FN: 0x7F, D.DT_FP8E5M2: 0x7F, D.DT_FP32: 0x7FC00000}
MISSING_STEP = {D.DT_FP16: 65536.0, D.DT_BF16: 2.0**128, D.DT_FP8E4M3FN: 480.0, D.DT_FP8E5M2: 65536.0,
                D.DT_HF8: 49152.0, D.DT_FP4E2M1: 8.0, D.DT_FP4E1M2: 2.0}
"""The value that would follow the largest finite one."""


def codes_of(dtype: D) -> np.ndarray:
    """Every bit pattern."""
    return np.arange(1 << dtype.bits(), dtype=dtype.bits_dtype)


def up(rule: R, side: np.ndarray, odd: np.ndarray, negative: np.ndarray) -> np.ndarray:
    """Whether the larger of two neighbouring magnitudes is taken; side: -1, 0, 1 = below, at, above the middle."""
    match rule:
        case R.CAST_RINT:
            return (side > 0) | ((side == 0) & odd)
        case R.CAST_ROUND:
            return side >= 0
        case R.CAST_FLOOR:
            return negative
        case R.CAST_CEIL:
            return ~negative
        case R.CAST_ODD:
            return ~odd
    return np.zeros(side.shape, bool)


@cache
def ladder(dtype: D) -> tuple[np.ndarray, np.ndarray]:
    """Non-negative finite values in order with the step that is missing above them, and their codes."""
    codes = codes_of(dtype)[: 1 << (dtype.bits() - 1)]
    values = doubles(codes, dtype)
    kept = np.isfinite(values)
    order = np.argsort(values[kept])
    return np.append(values[kept][order], MISSING_STEP[dtype]), codes[kept][order].astype(np.int64)


def into_float(x: np.ndarray, dtype: D, rule: R, saturate: bool) -> np.ndarray:
    """Codes of float64 values (section 2, 3 and 4.2): round with an unbounded exponent, then look at the range."""
    nan, infinite, negative = np.isnan(x), np.isinf(x), np.signbit(x)
    if dtype is D.DT_FP8E8M0:
        exponent = np.frexp(np.where(np.isfinite(x) & (x != 0), x, 1.0))[1] - 1 + 127
        finite = np.where(x == 0, 0, np.clip(exponent, 0, 0xFE))
        return np.where(nan, 0xFF, np.where(infinite, 0xFE, finite))
    if dtype is D.DT_HF8:
        rule = R.CAST_ROUND
    steps, codes = ladder(dtype)
    size = np.where(nan | infinite, 0, np.abs(x))
    low = np.minimum(np.searchsorted(steps, size, "right") - 1, len(steps) - 2)
    inexact = size != steps[low]
    side = np.sign(size - (steps[low] + steps[low + 1]) / 2).astype(int)
    index = low + (inexact & up(rule, side, codes[low] % 2 == 1, negative))
    over = (index >= len(codes)) | infinite | (size >= steps[-1])
    limit = FORMATS[dtype].inf if dtype in FORMATS else 0x6F
    if saturate or dtype in (D.DT_FP4E2M1, D.DT_FP4E1M2):
        limit = int(codes[-1])
    elif dtype is D.DT_FP8E4M3FN:
        limit = 0x7F
    found = np.where(over, limit, codes[np.minimum(index, len(codes) - 1)])
    plain_zero = (found == 0) & (dtype is D.DT_HF8)
    found = np.where(negative & ~plain_zero, found | 1 << (dtype.bits() - 1), found)
    if dtype is D.DT_HF8:
        return np.where(nan, 0x80, found)
    return np.where(nan, 0 if saturate or dtype not in NAN else NAN[dtype], found)


def integral(x: np.ndarray, rule: R) -> np.ndarray:
    """Finite float64 values rounded to integral ones."""
    size, negative = np.abs(x), np.signbit(x)
    low = np.floor(size)
    taken = low + ((size != low) & up(rule, np.sign(size - low - 0.5).astype(int), low % 2 == 1, negative))
    return np.where(negative, -taken, taken)


def into_integer(x: np.ndarray, dtype: D, rule: R, saturate: bool, wraps: bool) -> np.ndarray:
    """Codes of float64 values: round, then clamp or keep the low bits (4.2, decision 69)."""
    low, high, mask = dtype.int_min, dtype.int_max, (1 << dtype.bits()) - 1
    whole = integral(np.where(np.isfinite(x), x, 0), rule)
    found = [min(max(int(w), low), high) & mask if saturate else int(w) & mask for w in whole.tolist()]
    ends = (-1 & mask, 0) if wraps else (high & mask, low & mask)
    result = np.array(found, np.uint64)
    return np.where(x == np.inf, np.uint64(ends[0]), np.where(x == -np.inf, np.uint64(ends[1]), result))


def rule_of(mode: R, target: D, *, odd: bool = False) -> R:
    """Section 3: CAST_NONE by the kind of target, and CAST_ODD as CAST_NONE where it does not exist."""
    if mode is R.CAST_NONE or (mode is R.CAST_ODD and not odd):
        return R.CAST_TRUNC if not target.is_float() else R.CAST_RINT
    return mode


def doubles(codes: np.ndarray, dtype: D) -> np.ndarray:
    """Values of codes, exactly."""
    with np.errstate(invalid="ignore"):  # signalling NaN
        return decode(codes, dtype).astype(np.float64)


@pytest.mark.parametrize("saturate", [False, True], ids=["free", "saturating"])
@pytest.mark.parametrize("dtype", [*FLOATS[:-1], *INTEGERS[:6]], ids=lambda d: d.name)
def test_encode_every_half(dtype: D, saturate: bool) -> None:
    """All 131072 values of FP16 and BF16 into every narrow format, with every mode."""
    singles = np.concatenate([decode(codes_of(d), d) for d in (D.DT_FP16, D.DT_BF16)])
    x = np.concatenate([doubles(codes_of(d), d) for d in (D.DT_FP16, D.DT_BF16)])
    for mode in MODES:
        rule = rule_of(mode, dtype, odd=dtype is D.DT_FP16)
        if dtype.is_float():
            wanted = into_float(x, dtype, rule, saturate)
        else:
            wanted = into_integer(x, dtype, rule, saturate, wraps=False)
        found = encode(singles, dtype, mode, saturate)
        wrong = np.flatnonzero(found != wanted.astype(found.dtype))
        assert wrong.size == 0, (mode, x[wrong[0]], hex(found[wrong[0]]), hex(int(wanted[wrong[0]])))


def wanted_of(source: D, target: D, mode: R, saturate: bool, *, tile: bool) -> np.ndarray:
    """Codes of every element of `source` converted."""
    x = doubles(codes_of(source), source)
    rule = R.CAST_RINT if target in (D.DT_FP8E4M3FN, D.DT_FP8E5M2) else rule_of(mode, target)
    if target is D.DT_FP32:
        return x.astype(np.float32).view(np.uint32)
    if target.is_float():
        return into_float(x, target, rule, saturate or not source.is_float())
    saturate = saturate or (source, target) == (D.DT_INT16, D.DT_UINT32)
    wraps = tile and source.is_float() and not saturate and target in (D.DT_INT8, D.DT_INT16)
    return into_integer(x, target, rule, saturate, wraps)


def differ(found: np.ndarray, wanted: np.ndarray, target: D) -> np.ndarray:
    """Positions of elements that are not alike; NaN keep whatever payload a widening gave them."""
    wanted = wanted.astype(found.dtype)
    wrong = found != wanted
    if target in (D.DT_FP32, D.DT_FP16, D.DT_BF16):
        wrong &= ~(np.isnan(decode(found, target)) & np.isnan(decode(wanted, target)))
    return np.flatnonzero(wrong)


@pytest.mark.parametrize("source", NARROW, ids=lambda d: d.name)
def test_tile_conversions_of_every_element(source: D) -> None:
    for (own, target), cast in TILE_CASTS.items():
        if own is not source:
            continue
        for mode in MODES:
            found = convert(codes_of(source), source, target, mode)
            wrong = differ(found, wanted_of(source, target, mode, not cast.wraps, tile=True), target)
            assert wrong.size == 0, (target, mode, hex(wrong[0]), hex(found[wrong[0]]))


@pytest.mark.parametrize("source", NARROW, ids=lambda d: d.name)
def test_register_conversions_of_every_element(source: D) -> None:
    for (own, target), cast in REGISTER_CASTS.items():
        if own is not source:
            continue
        for mode in cast.modes or (VFRoundMode.CAST_RINT,):
            name = R.CAST_ROUND if mode is VFRoundMode.CAST_HYBRID else R(mode.value)
            for saturates in cast.saturates:
                on = saturates is SaturateMode.ON
                found = convert(codes_of(source), source, target, mode, on, "register")
                wrong = differ(found, wanted_of(source, target, name, on, tile=False), target)
                assert wrong.size == 0, (target, mode, saturates, hex(wrong[0]), hex(found[wrong[0]]))


ROWS, COLS = 64, 256  # as many elements as fit with their results


def native_cast(source: D, target: D, mode: R, codes: np.ndarray) -> np.ndarray:
    """Codes of one tile through the native `cast`."""
    out = T((ROWS, COLS), target, 0x10000)
    bench = Bench(Case("cast", {"out": out, "src": T((ROWS, COLS), source)}, {"mode": mode}, values=None))
    bench.named["src"].put_bits(codes)
    run = run_native(bench)
    assert not run.fell_back
    tile: TileArg = bench.named["out"]
    return TileArg(tile.type, run.memories[tile.type.space], tile.addr, ROWS, COLS).bits()


@pytest.mark.parametrize("source", NARROW, ids=lambda d: d.name)
def test_native_tile_casts_of_every_element(source: D) -> None:
    """The native code of every pair and mode against the meaning, which the simulator runs."""
    size = ROWS * COLS
    every = np.resize(codes_of(source), max(size, 1 << source.bits()))
    for own, target in TILE_CASTS:
        if own is not source:
            continue
        for mode in MODES:
            for start in range(0, every.size, size):
                codes = every[start : start + size].reshape(ROWS, COLS)
                found, wanted = native_cast(source, target, mode, codes), convert(codes, source, target, mode)
                wrong = differ(found.reshape(-1), wanted.reshape(-1), target)
                assert wrong.size == 0, (target, mode, hex(codes.flat[wrong[0]]), hex(found.flat[wrong[0]]))
