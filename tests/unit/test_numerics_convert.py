"""The conversion matrix of numerics 4: the pairs, their defaults, and every rule on sampled and special elements."""

from __future__ import annotations

import numeric_model as model
import numpy as np
import pytest

from pypto_pro.dtypes import DataType
from pypto_pro.enums import RoundMode, SaturateMode, VFRoundMode
from pypto_pro.numerics import REGISTER_CASTS, TILE_CASTS, convert, encode

D, R, V = DataType, RoundMode, VFRoundMode

# 4.1 as printed: T tile, V register; what the reference omits and the register path also generates follows as V
MATRIX = """
FP32: FP32 T, FP16 TV, BF16 TV, INT16 TV, INT32 TV, INT64 TV, FP8E4M3FN TV, FP8E5M2 TV, HF8 TV
FP16: FP32 TV, INT32 TV, INT16 TV, INT8 TV, UINT8 TV, HF8 TV, BF16 V, INT4 V
BF16: FP32 TV, INT32 TV, FP16 TV, FP4E2M1 TV, FP4E1M2 TV, FP8E8M0 V
HF8: FP32 TV, FP16 V
FP8E4M3FN: FP32 TV
FP8E5M2: FP32 TV
FP8E8M0: BF16 V
FP4E2M1: BF16 TV
FP4E1M2: BF16 TV
INT4: INT16 V, FP16 V, BF16 V
INT8: FP16 TV, INT16 TV, INT32 TV
UINT8: FP16 TV, UINT16 TV, UINT32 V
INT16: UINT8 TV, FP16 TV, FP32 TV, INT32 TV, UINT32 TV, INT4 V
UINT16: UINT8 V, UINT32 V
INT32: FP32 TV, INT16 TV, UINT16 TV, UINT8 TV, INT64 TV
UINT32: UINT8 TV, UINT16 TV, INT16 TV
INT64: FP32 TV, INT32 TV
UINT16: FP16 V, FP32 V, INT8 V
UINT32: FP32 V, FP16 V, INT64 V, INT8 V
INT32: FP16 V, INT8 V
FP32: UINT32 V
FP16: UINT16 V, UINT32 V
BF16: UINT32 V
INT16: INT8 V
INT64: UINT32 V
"""
WRAPPING = {"FP16 UINT8", "FP16 INT8", "FP16 INT16", "FP32 INT16", "INT64 INT32", "INT32 INT16"}
F32_SPECIALS = [
    0.0, -0.0, np.nan, np.inf, -np.inf, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 127.5, 128.0, -128.5, 255.5, 257.0, -129.0,
    32767.5, 32768.0, -32769.0, 65519.9, 65520.0, 65536.0, -70000.0, 448.0, 464.0, 465.0, 57344.0, 61440.0, 32769.0,
    2147483520.0, 2147483648.0, -2147483648.0, 4294967296.0, 1e10, -1e10, 1e30, 9.3e18, -9.3e18, 2.0**-23, 2.0**-24,
    2.0**-25, 1e-40, 3.4e38,
]  # fmt: skip


def pairs(letter: str) -> set[tuple[DataType, DataType]]:
    found = set()
    for line in MATRIX.strip().split("\n"):
        src, targets = line.split(":")
        for target in targets.split(","):
            dst, letters = target.split()
            if letter in letters:
                found.add((D[f"DT_{src}"], D[f"DT_{dst}"]))
    return found


def test_tables_hold_the_printed_pairs() -> None:
    assert set(TILE_CASTS) == pairs("T")
    assert set(REGISTER_CASTS) == pairs("V")
    wrapping = {tuple(D[f"DT_{n}"] for n in p.split()) for p in WRAPPING}
    assert {p for p, cast in TILE_CASTS.items() if cast.wraps} == wrapping


def test_unknown_pairs_are_refused() -> None:
    bits = np.zeros(4, np.uint32)
    for path in ("tile", "register"):
        with pytest.raises(ValueError, match="int32 to fp8e5m2"):
            convert(bits, D.DT_INT32, D.DT_FP8E5M2, path=path)
    with pytest.raises(ValueError, match="does not exist"):
        convert(bits, D.DT_INT32, D.DT_FP16)


def samples(dtype: DataType) -> np.ndarray:
    """Every code up to 8 bits; otherwise random codes, specials and values around the limits of the targets."""
    if dtype.bits() <= 8:
        return np.arange(1 << dtype.bits(), dtype=np.uint8)
    random = np.random.default_rng(dtype.bits())
    codes = random.integers(0, 2 ** min(dtype.bits(), 63), 250, np.uint64).astype(dtype.bits_dtype)
    if dtype.is_float():
        with np.errstate(over="ignore"):
            special = encode(np.array(F32_SPECIALS, np.float32), dtype)
        return np.concatenate([codes, special])
    edges = [s * 2**k + d for k in range(dtype.bits()) for s in (1, -1) for d in (-1, 0, 1)]
    limited = [e for e in edges if dtype.int_min <= e <= dtype.int_max]
    return np.concatenate([codes, np.array([e % 2 ** dtype.bits() for e in limited], np.uint64).astype(codes.dtype)])


def check(src: DataType, dst: DataType, mode: R | V, saturate: bool | None, path: str, effective: bool) -> None:
    codes = samples(src)
    got = convert(codes.reshape(1, -1), src, dst, mode, saturate, path)
    assert got.shape == (1, len(codes))
    assert got.dtype == dst.bits_dtype
    wanted = [model.convert_one(int(c), src, dst, mode.name, effective, path) for c in codes]
    triples = zip(codes.tolist(), got[0].tolist(), wanted, strict=True)
    wrong = [(hex(c), hex(g), hex(w)) for c, g, w in triples if g != w]
    nan_payload = src.is_float() and dst is D.DT_FP32  # widening keeps whatever NaN it was given
    if nan_payload:
        wrong = [x for x in wrong if model.value_of(int(x[0], 16), src) != "nan"]
    assert not wrong, wrong[:5]


@pytest.mark.parametrize("mode", list(R))
@pytest.mark.parametrize("pair", sorted(TILE_CASTS, key=str), ids=lambda p: f"{p[0].str()}-{p[1].str()}")
def test_tile_conversions(pair: tuple[DataType, DataType], mode: R) -> None:
    check(*pair, mode, None, "tile", not TILE_CASTS[pair].wraps)


@pytest.mark.parametrize("pair", sorted(REGISTER_CASTS, key=str), ids=lambda p: f"{p[0].str()}-{p[1].str()}")
def test_register_conversions(pair: tuple[DataType, DataType]) -> None:
    entry = REGISTER_CASTS[pair]
    for mode in entry.modes or (V.CAST_RINT,):
        name = R.CAST_ROUND if mode is V.CAST_HYBRID else mode
        for saturate in entry.saturates:
            check(*pair, name, saturate is SaturateMode.ON, "register", saturate is SaturateMode.ON)
        check(*pair, name, None, "register", entry.default_saturate)


def test_default_modes_differ() -> None:
    half = encode(np.array([0.5, 1.5, 2.5, -0.5], np.float32), D.DT_FP32)
    assert convert(half, D.DT_FP32, D.DT_INT32).view(np.int32).tolist() == [1, 2, 3, -1]
    assert convert(half, D.DT_FP32, D.DT_INT32, path="register").view(np.int32).tolist() == [0, 2, 2, 0]
    assert convert(half, D.DT_FP32, D.DT_FP32).view(np.float32).tolist() == [1, 2, 3, -1]


def test_the_six_wrapping_casts() -> None:
    """Decision 69."""
    x = np.array([np.inf, -np.inf, np.nan, 257.0, -129.0, 1e10], np.float32)
    half = encode(x[:5], D.DT_FP16)
    assert convert(half, D.DT_FP16, D.DT_UINT8).tolist() == [255, 0, 0, 1, 127]
    assert convert(half, D.DT_FP16, D.DT_INT8).view(np.int8).tolist() == [-1, 0, 0, 1, 127]
    assert convert(half, D.DT_FP16, D.DT_INT16).view(np.int16).tolist() == [-1, 0, 0, 257, -129]
    wrapped = convert(x.view(np.uint32), D.DT_FP32, D.DT_INT16)
    assert wrapped.tolist() == [0xFFFF, 0, 0, 257, 65536 - 129, 10**10 % 65536]
    assert convert(np.array([65536 + 7], np.uint32), D.DT_INT32, D.DT_INT16).tolist() == [7]
    assert convert(np.array([2**32 + 7], np.uint64), D.DT_INT64, D.DT_INT32).tolist() == [7]


def test_saturating_float_casts_can_be_switched_to_ieee() -> None:
    x = np.array([1e6, np.inf, np.nan], np.float32).view(np.uint32)
    assert convert(x, D.DT_FP32, D.DT_FP16).tolist() == [0x7BFF, 0x7BFF, 0]
    assert convert(x, D.DT_FP32, D.DT_FP16, saturate=False).tolist() == [0x7C00, 0x7C00, 0x7E00]


def test_register_rules_named_by_the_specification() -> None:
    def register(values: list[float], dst: DataType, **given: object) -> list[int]:
        bits = encode(np.array(values, np.float32), D.DT_FP16)
        return convert(bits, D.DT_FP16, dst, path="register", **given).tolist()

    assert register([257, np.inf, -np.inf, np.nan], D.DT_UINT8) == [1, 255, 0, 0]
    assert register([257, np.inf, -np.inf, np.nan], D.DT_UINT8, saturate=True) == [255, 255, 0, 0]
    assert register([np.inf, -np.inf], D.DT_INT16) == [0x7FFF, 0x8000]
    assert convert(np.array([256], np.uint32), D.DT_INT32, D.DT_UINT8, path="register").tolist() == [0]
    assert convert(np.array([0xFFFF], np.uint16), D.DT_INT16, D.DT_UINT32, path="register").tolist() == [0]
    modes = REGISTER_CASTS[D.DT_FP32, D.DT_HF8]
    assert (modes.default_mode, modes.default_saturate) == (V.CAST_ROUND, True)
    assert REGISTER_CASTS[D.DT_FP16, D.DT_HF8].default_saturate is False
    odd = {p for p, cast in REGISTER_CASTS.items() if V.CAST_ODD in cast.modes}
    assert odd == {(D.DT_FP32, D.DT_FP16)}
