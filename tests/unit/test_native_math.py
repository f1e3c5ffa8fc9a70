"""exp and log over dense sweeps of FP32: within 2 ulp, specials as IEEE has them."""

from __future__ import annotations

import numpy as np
import pytest
from native_harness import Tile, run

from pypto_pro.dtypes import DataType
from pypto_pro.enums import MemorySpace
from pypto_pro.ir.types import TileType

COLS = 16384
REFERENCE = {"exp": np.exp, "log": np.log, "sqrt": np.sqrt}


def native(op: str, values: np.ndarray) -> np.ndarray:
    """`op` of up to 16384 FP32 values."""
    type_ = TileType([1, COLS], DataType.DT_FP32, MemorySpace.Vec)
    src, out = Tile(type_, 0, 1, values.size), Tile(type_, 4 * COLS, 1, values.size)
    outcome = run(op, (out, src), {MemorySpace.Vec: values.astype(np.float32).view(np.uint8)})
    assert not outcome.called_back
    return outcome.spaces[MemorySpace.Vec][4 * COLS :].view(np.float32)[: values.size]


def ulps(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Distance from the exact FP64 value in units of the last place of the correctly rounded FP32 value."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(np.float32)
    same = (got == rounded) | (np.isnan(got) & np.isnan(exact))
    with np.errstate(all="ignore"):
        distance = np.abs(got.astype(np.float64) - exact) / np.spacing(np.abs(rounded)).astype(np.float64)
    return np.where(same, 0.0, distance)


def sweep(low: float, high: float) -> np.ndarray:
    return np.linspace(low, high, COLS).astype(np.float32)


def patterns(start: int, count: int = COLS, step: int = 1) -> np.ndarray:
    return (start + step * np.arange(count)).astype(np.uint32).view(np.float32)


EXP_RANGES = [sweep(-104.5, -87), sweep(-87, 0), sweep(-1, 1), sweep(0, 88.7), sweep(88.6, 90), sweep(-1e-3, 1e-3)]
LOG_RANGES = [sweep(0.5, 2), sweep(0.99, 1.01), sweep(1e-3, 1e3), patterns(1), patterns(0x00800000 - 8192),
              patterns(0x3F800000 - 8192), patterns(1 << 20, step=130000), patterns(0x7F000000, step=512)]  # fmt: skip


@pytest.mark.parametrize(("op", "ranges"), [("exp", EXP_RANGES), ("log", LOG_RANGES)])
def test_within_two_ulp(op: str, ranges: list[np.ndarray]) -> None:
    worst = 0.0
    for values in ranges:
        with np.errstate(all="ignore"):
            exact = REFERENCE[op](values.astype(np.float64))
        worst = max(worst, float(ulps(native(op, values), exact).max()))
    assert worst <= 2.0, worst


@pytest.mark.parametrize("op", ["exp", "log", "sqrt"])
def test_specials(op: str) -> None:
    listed = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-45, 3.4e38, -3.4e38, 104.0, -104.0]
    values = np.array(listed, np.float32)
    with np.errstate(all="ignore"):
        want = REFERENCE[op](values.astype(np.float64)).astype(np.float32)
    got = native(op, values)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    special = ~np.isfinite(want) | (want == 0)
    np.testing.assert_array_equal(got[special], want[special])
