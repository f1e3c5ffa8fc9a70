"""Products against the reference's text: every dtype row, tails, bias, accumulation, MX scales of every size."""

from typing import Any

import numpy as np
import pytest

from ops.transfer_bench import Call, Memories, T, compare, fresh, meaning, native
from ops.transfer_model import get, grid, put, up
from pypto_pro.dtypes import DataType as D
from pypto_pro.enums import CoreKind
from pypto_pro.enums import MemorySpace as S
from pypto_pro.numerics import decode
from pypto_pro.ops import cube_matmul

FP8, FP4 = cube_matmul.FP8, cube_matmul.FP4
PLAIN = [*((d, d) for d in cube_matmul.SAME_DTYPE), *((a, b) for a in FP8 for b in FP8)]
MX = [*((a, b) for a in FP8 for b in FP8), *((a, b) for a in FP4 for b in FP4)]
EXTENTS = [(64, 128, 64), (20, 128, 33), (1, 128, 64), (64, 72, 16), (17, 24, 1), (33, 1, 64)]


def tiles(lhs: D, rhs: D, m: int, k: int, n: int) -> dict[str, T]:
    acc = D.DT_INT32 if lhs is D.DT_INT8 else D.DT_FP32
    return {
        "dst_tile": T((64, 64), acc, S.Acc, 0x400, (m, n), compact=1),
        "lhs_tile": T((64, 128), lhs, S.Left, 0x200, (m, k), compact=1),
        "rhs_tile": T((128, 64), rhs, S.Right, 0x600, (k, n), compact=1),
    }


def values(bits: np.ndarray, dtype: D) -> np.ndarray:
    return decode(bits.astype(dtype.bits_dtype), dtype).astype(np.float64)


def sensible(m: Memories, tile: T, seed: int, special: bool = False) -> None:
    """Elements of moderate size, or anything the format can hold."""
    rng = np.random.default_rng(seed)
    i, j = grid(*tile.shape)
    if tile.dtype.bits() >= 16 and tile.dtype.is_float():
        bits = rng.normal(0, 1, i.shape).astype(np.float32).astype(tile.dtype.numpy).view(tile.dtype.bits_dtype)
    else:
        bits = rng.integers(0, 1 << tile.dtype.bits(), i.shape).astype(np.uint8)
        if not special and tile.dtype.is_float():
            bits = np.where(np.isfinite(values(bits, tile.dtype)), bits, 0).astype(np.uint8)
    pitch = {"rows": up(tile.extents[0], 16)} if tile.space is S.Left else {"cols": up(tile.extents[1], 16)}
    rows, cols = tile.extents
    put(m, tile, i[:rows, :cols], j[:rows, :cols], bits[:rows, :cols], **pitch)


def operand(m: Memories, tile: T) -> np.ndarray:
    pitch = {"rows": up(tile.extents[0], 16)} if tile.space is S.Left else {"cols": up(tile.extents[1], 16)}
    return values(get(m, tile, *grid(*tile.extents), **pitch), tile.dtype)


def accumulator(m: Memories, tile: T) -> np.ndarray:
    bits = get(m, tile, *grid(*tile.extents), rows=up(tile.extents[0], 16)).astype(np.uint32)
    return bits.view(np.int32 if tile.dtype is D.DT_INT32 else np.float32)


def check_product(
    op: str, operands: dict[str, Any], start: Memories, wanted: np.ndarray, size: np.ndarray, k: int
) -> None:
    """The result within 2 K eps |a| |b| (integers exactly), nothing else changed but for whole boxes."""
    call = Call(op, operands, core=CoreKind.CUBE)
    meant, made = start.copy(), start.copy()
    meaning(call, meant)
    outcome = native(call, made)
    assert not outcome.called_back, (outcome.refused, outcome.warnings)
    dst = operands["dst_tile"]
    m, n = dst.extents
    i, j = grid(up(m, 16), up(n, 16))
    blank = start.copy()
    for found, how in ((meant, "by meaning"), (made, "natively")):
        result = accumulator(found, dst)
        if dst.dtype is D.DT_INT32:
            assert np.array_equal(result, wanted), how
        else:
            close = np.abs(result - wanted) <= 2 * (k + 2) * 2.0**-23 * size + 1e-37
            alike = close | (result == wanted) | (np.isnan(result) & np.isnan(wanted))
            assert alike.all(), (how, np.argwhere(~alike)[0], result[~alike][:3], wanted[~alike][:3])
        put(found, dst, i, j, 0, rows=up(m, 16))
    put(blank, dst, i, j, 0, rows=up(m, 16))
    compare(call, blank, meant, "by meaning")
    compare(call, blank, made, "natively")


@pytest.mark.parametrize("pair", PLAIN, ids=lambda p: f"{p[0].name}-{p[1].name}")
def test_products(pair: tuple[D, D]) -> None:
    for m, k, n in EXTENTS:
        operands: dict[str, Any] = tiles(*pair, m, k, n)
        start = fresh(Call("matmul", {**operands, "bias_tile": T((1, 64), D.DT_FP32, S.Bias)}))
        sensible(start, operands["lhs_tile"], 1)
        sensible(start, operands["rhs_tile"], 2)
        a, b = operand(start, operands["lhs_tile"]), operand(start, operands["rhs_tile"])
        dst = operands["dst_tile"]
        with np.errstate(all="ignore"):
            product, size = a @ b, np.abs(a) @ np.abs(b)
            if dst.dtype is D.DT_INT32:
                product = product.astype(np.int64)
            check_product("matmul", operands, start, cast(product, dst), size, k)
            bias = T((1, 64), dst.dtype, S.Bias, 0x80)
            added = np.linspace(-3e9, 3e9, 64).astype(np.int64).astype(np.int32) if dst.dtype is D.DT_INT32 else (
                np.linspace(-5, 5, 64).astype(np.float32))
            put(start, bias, *grid(1, 64), added.view(np.uint32)[None, :])
            check_product("matmul", {**operands, "bias_tile": bias}, start, cast(product + added[:n], dst),
                          size + np.abs(added[:n].astype(np.float64)), k)
            old = np.arange(64 * 64).reshape(64, 64) * (7 if dst.dtype is D.DT_INT32 else 0.25)
            held = old.astype(np.int32 if dst.dtype is D.DT_INT32 else np.float32)[:m, :n]
            put(start, dst, *grid(m, n), held.copy().view(np.uint32), rows=up(m, 16))
            check_product("matmul_acc", {**operands, "acc_tile": dst}, start, cast(product + held, dst),
                          size + np.abs(held.astype(np.float64)), k)


def cast(total: np.ndarray, dst: T) -> np.ndarray:
    """The sum in the accumulator's dtype, integers wrapping."""
    return total.astype(np.int64).astype(np.int32) if dst.dtype is D.DT_INT32 else total.astype(np.float32)


def scale_tiles(m: int, k: int, n: int) -> dict[str, T]:
    return {
        "scale_a": T((64, 4), D.DT_FP8E8M0, S.ScaleLeft, 0x20, (m, k // 32), compact=1),
        "scale_b": T((4, 64), D.DT_FP8E8M0, S.ScaleRight, 0x60, (k // 32, n), compact=1),
    }


def set_scales(m: Memories, scales: dict[str, T], low: int, high: int, seed: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Random codes in [low, high]; returns the factors of lhs [m, groups] and rhs [groups, n]."""
    rng = np.random.default_rng(seed)
    found = []
    for name, tile in scales.items():
        codes = rng.integers(low, high + 1, tile.extents)
        pitch = {"cols": tile.extents[1]} if name == "scale_a" else {"rows": tile.extents[0]}
        put(m, tile, *grid(*tile.extents), codes, **pitch)
        found.append(np.where(codes == 255, np.nan, 2.0 ** (codes - 127.0)))
    return found[0], found[1]


@pytest.mark.parametrize("pair", MX, ids=lambda p: f"{p[0].name}-{p[1].name}")
def test_mx_products(pair: tuple[D, D]) -> None:
    for (m, k, n), (low, high) in (
        ((64, 128, 64), (110, 140)), ((20, 64, 33), (0, 127)), ((1, 128, 16), (120, 238)),
        ((20, 64, 33), (0, 254)), ((17, 128, 48), (239, 254)), ((1, 128, 1), (0, 255)), ((33, 64, 20), (126, 255)),
    ):
        operands: dict[str, Any] = tiles(*pair, m, k, n)
        scales = scale_tiles(m, k, n)
        start = fresh(Call("matmul_mx", {**operands, **scales}))
        for name, seed in (("lhs_tile", 1), ("rhs_tile", 2)):
            sensible(start, operands[name], seed)
        factors = set_scales(start, scales, low, high)
        a = operand(start, operands["lhs_tile"]) * np.repeat(factors[0], 32, 1)
        b = operand(start, operands["rhs_tile"]) * np.repeat(factors[1], 32, 0)
        with np.errstate(all="ignore"):
            product, size = a @ b, np.abs(a) @ np.abs(b)
            bounded = np.abs(product) < 1e38
            unbounded = np.where(np.isnan(product), np.nan, np.inf)
            product, size = np.where(bounded, product, unbounded), np.where(bounded, size, np.inf)
            check_product("matmul_mx", {**operands, **scales}, start, product.astype(np.float32), size, k)
            dst = operands["dst_tile"]
            held = (np.arange(m * n).reshape(m, n) * 0.5).astype(np.float32)
            put(start, dst, *grid(m, n), held.view(np.uint32), rows=up(m, 16))
            check_product("matmul_mx_acc", {**operands, **scales, "acc_tile": dst}, start,
                          (product + held).astype(np.float32), size + held, k)


@pytest.mark.parametrize("codes", [(254, 0), (0, 254), (253, 0), (1, 254), (255, 127)], ids=str)
def test_scales_at_the_ends_of_their_range(codes: tuple[int, int]) -> None:
    """Sums of exponents are exact where the product is in range: 2^127 meets 2^-127; 255 is NaN."""
    operands: dict[str, Any] = tiles(D.DT_FP8E4M3FN, D.DT_FP8E4M3FN, 16, 64, 16)
    scales = scale_tiles(16, 64, 16)
    call = Call("matmul_mx", {**operands, **scales}, core=CoreKind.CUBE)
    start = fresh(call)
    for name, seed in (("lhs_tile", 1), ("rhs_tile", 2)):
        sensible(start, operands[name], seed)
    for (name, tile), code in zip(scales.items(), codes, strict=True):
        put(start, tile, *grid(*tile.extents), code, **({"cols": 2} if name == "scale_a" else {"rows": 2}))
    a, b = operand(start, operands["lhs_tile"]), operand(start, operands["rhs_tile"])
    factor = np.nan if 255 in codes else 2.0 ** (sum(codes) - 254)
    wanted, size = (a @ b) * factor, (np.abs(a) @ np.abs(b)) * factor
    for run in (meaning, native):
        found = start.copy()
        outcome = run(call, found)
        assert outcome is None or not outcome.called_back
        result = accumulator(found, operands["dst_tile"])
        same = np.isnan(result) & np.isnan(wanted) | (np.abs(result - wanted) <= 130 * 2.0**-23 * size)
        assert same.all(), run


def test_infinities_and_nan_propagate() -> None:
    for pair in ((D.DT_FP32, D.DT_FP32), (D.DT_FP16, D.DT_FP16), (D.DT_FP8E5M2, D.DT_FP8E5M2)):
        operands: dict[str, Any] = tiles(*pair, 16, 32, 16)
        start = fresh(Call("matmul", operands))
        for name, seed in (("lhs_tile", 1), ("rhs_tile", 2)):
            sensible(start, operands[name], seed)
        special = {D.DT_FP32: (0x7F800000, 0x7FC00000), D.DT_FP16: (0x7C00, 0x7E00), D.DT_FP8E5M2: (0x7C, 0x7F)}
        for row, bits in enumerate(special[pair[0]]):
            put(start, operands["lhs_tile"], np.array([row]), np.array([3]), bits, rows=16)
        a, b = operand(start, operands["lhs_tile"]), operand(start, operands["rhs_tile"])
        with np.errstate(all="ignore"):
            check_product("matmul", operands, start, (a @ b).astype(np.float32), np.abs(a) @ np.abs(b), 32)


@pytest.mark.parametrize("extents", [(0, 32, 16), (16, 32, 0), (0, 0, 16)], ids=str)
def test_nothing_to_do(extents: tuple[int, int, int]) -> None:
    call = Call("matmul", tiles(D.DT_FP16, D.DT_FP16, *extents), core=CoreKind.CUBE)
    start = fresh(call)
    made = start.copy()
    outcome = native(call, made)
    assert not outcome.refused
    compare(call, start, made, "natively")
    meaning(call, made)
    compare(call, start, made, "by meaning")


def test_extents_the_unit_cannot_count() -> None:
    def refused(op: str, operands: dict[str, Any]) -> str:
        call = Call(op, operands, core=CoreKind.CUBE)
        return native(call, fresh(call)).refused

    assert "(k)" in refused("matmul", tiles(D.DT_FP16, D.DT_FP16, 16, 0, 16))
    large = {**tiles(D.DT_INT8, D.DT_INT8, 1, 4096, 1)}
    large["lhs_tile"] = T((1, 4096), D.DT_INT8, S.Left)
    assert "4095" in refused("matmul", large)
    mx = {**tiles(*FP8, 16, 96, 16), **scale_tiles(16, 96, 16)}
    assert "multiple of 64" in refused("matmul_mx", mx)
    apart = {**tiles(*FP8, 16, 64, 16), **scale_tiles(16, 64, 16)}
    apart["scale_b"] = T((4, 64), D.DT_FP8E8M0, S.ScaleRight, 0x40, (2, 16), compact=1)
    assert ">> 4" in refused("matmul_mx", apart)
    other = {**tiles(D.DT_FP16, D.DT_FP16, 16, 32, 16), "acc_tile": T((64, 64), D.DT_FP32, S.Acc, 0x4400)}
    assert "accumulator" in refused("matmul_acc", other)
