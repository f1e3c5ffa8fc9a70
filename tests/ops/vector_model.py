"""Arithmetic of the reference's text, element by element and independent of the package: FP64 or exact ints, then one
rounding; plus tiles full of edge values and a way to see what an op did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ops.harness import Bench, Case, T
from pypto_pro.dtypes import DataType as D

FORMATS = {D.DT_FP32: (24, -126, 127), D.DT_FP16: (11, -14, 15), D.DT_BF16: (8, -126, 127)}
"""Precision, smallest and largest exponent."""


def rounded(value: float, dtype: D) -> float:
    """An FP64 value at the nearest value of a format, ties to even, overflow to infinity."""
    precision, low, high = FORMATS[dtype]
    if not np.isfinite(value) or value == 0:
        return float(value)
    exponent = max(int(np.frexp(value)[1]) - 1, low)
    quantum = 2.0 ** (exponent - precision + 1)
    near = float(np.rint(value / quantum) * quantum)
    largest = (2.0 - 2.0 ** (1 - precision)) * 2.0**high
    return float(np.copysign(np.inf, value)) if abs(near) > largest else near


def wrapped(value: int, dtype: D) -> int:
    """An exact integer modulo 2^bits, in the range of the dtype."""
    value &= (1 << dtype.bits()) - 1
    return value - (1 << dtype.bits()) if dtype.is_signed_int() and value >> (dtype.bits() - 1) else value


def fit(value: Any, dtype: D) -> Any:
    """What an element of `dtype` holds after one step gave `value`."""
    return rounded(float(value), dtype) if dtype.is_float() else wrapped(int(value), dtype)


def python(array: np.ndarray, dtype: D) -> list[list[Any]]:
    """Rows of Python floats or ints."""
    kind = float if dtype.is_float() else int
    return [[kind(x) for x in row] for row in array]


def edge_values(dtype: D) -> list[Any]:
    """Zeros, ones, extremes, and for floats infinities, NaN and subnormals."""
    if not dtype.is_float():
        middle = (dtype.int_max + dtype.int_min) // 2
        return sorted({0, 1, 2, 3, 7, dtype.int_min, dtype.int_min + 1, dtype.int_max, dtype.int_max - 1, middle,
                       *((-1, -2, -7) if dtype.is_signed_int() else ())})
    precision, low, high = FORMATS[dtype]
    smallest, normal = 2.0 ** (low - precision + 1), 2.0**low
    largest = (2.0 - 2.0 ** (1 - precision)) * 2.0**high
    positive = [0.0, smallest, normal - smallest, normal, 0.1, 1.0, 1.5, 2.0, 3.0, 1e4, largest, np.inf]
    return [*positive, *(-x for x in positive), np.nan]


def edges(dtype: D, shape: tuple[int, int], seed: int = 0) -> np.ndarray:
    """A tile of edge values and ordinary ones, shuffled."""
    rng = np.random.default_rng(seed)
    special = np.array([fit(v, dtype) for v in edge_values(dtype)], np.float64 if dtype.is_float() else object)
    if dtype.is_float():
        ordinary = rng.normal(0, 3, shape)
    else:
        low = max(dtype.int_min, -(1 << 62))
        ordinary = rng.integers(low, min(dtype.int_max, 1 << 62), shape).astype(object)
    chosen = np.where(rng.random(shape) < 0.5, special[rng.integers(0, len(special), shape)], ordinary)
    return chosen.astype(np.float32).astype(dtype.numpy) if dtype.is_float() else chosen.astype(dtype.numpy)


@dataclass
class Outcome:
    """Tiles before and after an op, over their whole declared shape."""

    before: dict[str, np.ndarray]
    after: dict[str, np.ndarray]
    bench: Bench

    def rows(self, name: str) -> list[list[Any]]:
        """What a tile held before, as Python numbers."""
        return python(self.before[name], self.bench.named[name].dtype)


def observe(case: Case) -> Outcome:
    """Run a case on the meaning."""
    bench = Bench(case)
    tiles = {name: bench.named[name] for name, spec in case.operands.items() if isinstance(spec, T)}

    def look() -> dict[str, np.ndarray]:
        return {name: tile.get(*tile.type.shape).copy() for name, tile in tiles.items()}

    before = look()
    bench.run()
    return Outcome(before, look(), bench)


def same(found: Any, wanted: Any) -> bool:
    """Equal numbers; any NaN is like any other. Zeros compare with their sign."""
    found, wanted = float(found), float(wanted)
    if np.isnan(wanted):
        return bool(np.isnan(found))
    return found == wanted and np.signbit(found) == np.signbit(wanted)


def check_elements(
    outcome: Outcome, name: str, rows: int, cols: int, wanted: Callable[[int, int], Any],
    equal: Callable[[Any, Any], bool] = same,
) -> None:
    """`name[i, j]` is wanted(i, j) inside [rows, cols] and what it was before outside."""
    after, before = outcome.after[name], outcome.before[name]
    inside = np.zeros(after.shape, bool)
    inside[:rows, :cols] = True
    kept = after.view(np.uint8).reshape(*after.shape, -1) == before.view(np.uint8).reshape(*after.shape, -1)
    assert kept.all(axis=2)[~inside].all(), f"`{name}` changed outside its valid region"
    for i in range(rows):
        for j in range(cols):
            want = wanted(i, j)
            assert equal(after[i, j], want), f"{name}[{i}, {j}] is {after[i, j]}, not {want}"
