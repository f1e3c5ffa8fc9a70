"""Fused chains, three-operand sums, axpy, part* and casts against the text of the reference."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from ops.harness import Case, T
from ops.test_vector_arith import fit_or_nan, ieee, larger, matching, smaller
from ops.vector_model import check_elements, edges, observe, same, wrapped
from pypto_pro.dtypes import DataType as D
from pypto_pro.enums import RoundMode
from pypto_pro.numerics import TILE_CASTS, decode
from pypto_pro.ops import rules

A, B, C, E = 0, 0x8000, 0x10000, 0x18000
plus, minus, times = ieee(lambda a, b: a + b), ieee(lambda a, b: a - b), ieee(lambda a, b: a * b)
PRODUCT = (*rules.INTS[2:], *rules.FLOATS)
SUMS = (*rules.INTS[2:6], *rules.FLOATS)
RELU = (D.DT_FP16, D.DT_FP32, D.DT_INT32)
Number = Callable[..., Any]


def relu(x: Any) -> Any:
    return x if x != x else max(x, 0) + 0


CHAINS: dict[str, tuple[Number, Number, tuple[D, ...], tuple[str, str]]] = {
    # the intermediate of (out, lhs, rhs), the result of (intermediate, out, rhs), dtypes, names of lhs and rhs
    "add_relu": (lambda o, a, b: plus(a, b), lambda t, o, b: relu(t), RELU, ("lhs", "rhs")),
    "sub_relu": (lambda o, a, b: minus(a, b), lambda t, o, b: relu(t), RELU, ("lhs", "rhs")),
    "mul_add_dst": (lambda o, a, b: times(a, b), lambda t, o, b: plus(t, o), PRODUCT, ("lhs", "rhs")),
    "fused_mul_add": (lambda o, a, b: times(a, o), lambda t, o, b: plus(t, b), SUMS, ("lhs", "rhs")),
}


def three(dtype: D, names: tuple[str, str], lhs_valid: tuple[int, int] = (3, 37)) -> dict[str, T]:
    return {
        "out": T((4, 64), dtype, A, (3, 37), data=edges(dtype, (4, 64), 1)),
        names[0]: T((4, 96), dtype, B, lhs_valid, data=edges(dtype, (4, 96), 2)),
        names[1]: T((4, 64), dtype, C, (3, 37), data=edges(dtype, (4, 64), 3)),
    }


@pytest.mark.parametrize(("op", "dtype"), [(o, d) for o, (_, _, ds, _) in CHAINS.items() for d in ds],
                         ids=lambda v: getattr(v, "name", v))
def test_chain_rounds_each_step_and_overwrites_lhs(op: str, dtype: D) -> None:
    middle, last, _, names = CHAINS[op]
    seen = observe(Case(op, three(dtype, names)))
    out, lhs, rhs = (seen.rows(n) for n in ("out", *names))

    def step(i: int, j: int) -> Any:
        return fit_or_nan(middle(out[i][j], lhs[i][j], rhs[i][j]), dtype)

    check_elements(seen, names[0], 3, 37, step)
    check_elements(seen, "out", 3, 37, lambda i, j: fit_or_nan(last(step(i, j), out[i][j], rhs[i][j]), dtype))


@pytest.mark.parametrize("dtype", RELU, ids=lambda d: d.name)
def test_fused_mul_add_relu(dtype: D) -> None:
    seen = observe(Case("fused_mul_add_relu", three(dtype, ("a", "b"))))
    out, a, b = (seen.rows(n) for n in ("out", "a", "b"))

    def total(i: int, j: int) -> Any:
        return fit_or_nan(plus(fit_or_nan(times(out[i][j], a[i][j]), dtype), b[i][j]), dtype)

    check_elements(seen, "a", 3, 37, total)
    check_elements(seen, "out", 3, 37, lambda i, j: relu(total(i, j)))


def test_every_step_is_governed_by_what_it_writes() -> None:
    """A smaller valid shape of lhs leaves the rest of lhs alone, and `out` reads it as it was."""
    tiles = three(D.DT_FP32, ("lhs", "rhs"), lhs_valid=(2, 20))
    seen = observe(Case("add_relu", tiles))
    lhs, rhs = seen.rows("lhs"), seen.rows("rhs")

    def after(i: int, j: int) -> Any:
        return fit_or_nan(plus(lhs[i][j], rhs[i][j]), D.DT_FP32) if i < 2 and j < 20 else lhs[i][j]

    check_elements(seen, "lhs", 2, 20, after)
    check_elements(seen, "out", 3, 37, lambda i, j: relu(after(i, j)))


def test_out_may_be_lhs() -> None:
    tiles = three(D.DT_FP16, ("lhs", "rhs"))
    seen = observe(Case("add_relu", {**tiles, "out": tiles["lhs"]}))
    lhs, rhs = seen.rows("lhs"), seen.rows("rhs")
    check_elements(seen, "out", 3, 37, lambda i, j: relu(fit_or_nan(plus(lhs[i][j], rhs[i][j]), D.DT_FP16)))


@pytest.mark.parametrize("dtype", SUMS, ids=lambda d: d.name)
@pytest.mark.parametrize(("op", "first"), [("addc", plus), ("subc", minus), ("addsc", plus), ("subsc", minus)],
                         ids=lambda v: v if isinstance(v, str) else "")
def test_three_operand_sums(op: str, first: Number, dtype: D) -> None:
    scalar = op.endswith("sc")
    middle = {"scalar": 3} if scalar else {"b": T((4, 64), dtype, C, data=edges(dtype, (4, 64), 2))}
    seen = observe(Case(op, {
        "out": T((4, 64), dtype, A, (3, 37)), "a": T((4, 64), dtype, B, data=edges(dtype, (4, 64), 1)), **middle,
        "c": T((4, 64), dtype, E, data=edges(dtype, (4, 64), 3)),
    }))
    a, c = seen.rows("a"), seen.rows("c")
    b = [[3 if dtype.is_int() else 3.0] * 64] * 4 if scalar else seen.rows("b")
    check_elements(seen, "out", 3, 37, lambda i, j: fit_or_nan(
        plus(fit_or_nan(first(a[i][j], b[i][j]), dtype), c[i][j]), dtype))


@pytest.mark.parametrize(("out", "src"), [(D.DT_FP32, D.DT_FP32), (D.DT_FP16, D.DT_FP16), (D.DT_FP32, D.DT_FP16)])
def test_axpy_rounds_twice(out: D, src: D) -> None:
    seen = observe(Case("axpy", {"out": T((4, 64), out, A, (3, 37), data=edges(out, (4, 64), 1)),
                                 "src": T((4, 64), src, B, data=edges(src, (4, 64), 2)), "alpha": 0.7}))
    x, y = seen.rows("src"), seen.rows("out")
    alpha = fit_or_nan(fit_or_nan(0.7, D.DT_FP32), src)
    check_elements(seen, "out", 3, 37, lambda i, j: fit_or_nan(
        plus(fit_or_nan(times(alpha, x[i][j]), out), y[i][j]), out))


# --- part* ------------------------------------------------------------------------------------------------------------

PART = {
    "partadd": (plus, rules.NUMBERS), "partmax": (larger, rules.NUMBERS), "partmin": (smaller, rules.NUMBERS),
    "partmul": (times, (*rules.INTS[:6], *rules.FLOATS)),
}


@pytest.mark.parametrize("other", [(3, 37), (2, 20), (3, 5), (1, 37), (0, 0)], ids=str)
@pytest.mark.parametrize(("op", "dtype"), [(o, d) for o, (_, ds) in PART.items() for d in ds],
                         ids=lambda v: getattr(v, "name", v))
def test_part(op: str, dtype: D, other: tuple[int, int]) -> None:
    for whole_first in (True, False):
        valid = ((3, 37), other) if whole_first else (other, (3, 37))
        tiles = {f"src{k}": T((4, 64), dtype, (B, C)[k], valid[k], data=edges(dtype, (4, 64), k)) for k in (0, 1)}
        seen = observe(Case(op, {"out": T((4, 64), dtype, A, (3, 37)), **tiles}))
        rows = [seen.rows("src0"), seen.rows("src1")]

        def wanted(i: int, j: int, rows: Any = rows, valid: Any = valid) -> Any:
            has = [i < v[0] and j < v[1] for v in valid]
            if all(has):
                return fit_or_nan(PART[op][0](rows[0][i][j], rows[1][i][j]), dtype)
            return rows[has.index(True)][i][j]

        check_elements(seen, "out", 3, 37, wanted, matching("maximum" if op in ("partmax", "partmin") else op))


# --- casts ------------------------------------------------------------------------------------------------------------

ROUNDINGS = [RoundMode.CAST_RINT, RoundMode.CAST_ROUND, RoundMode.CAST_FLOOR, RoundMode.CAST_CEIL, RoundMode.CAST_TRUNC]
INTEGER_PAIRS = [(a, b) for a, b in TILE_CASTS if b.is_int() and not b.is_sub_byte]


def whole(x: float, mode: RoundMode) -> int:
    """A finite number rounded to an integer by the mode."""
    exact = Fraction(x)
    floor = exact.numerator // exact.denominator
    rest = exact - floor
    match mode:
        case RoundMode.CAST_FLOOR:
            return floor
        case RoundMode.CAST_CEIL:
            return floor + (rest > 0)
        case RoundMode.CAST_TRUNC:
            return floor + (rest > 0 and x < 0)
        case RoundMode.CAST_ROUND:
            return floor + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and x > 0))
    return floor + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and floor % 2 == 1))


WRAPPING = {("FP16", "UINT8"), ("FP16", "INT8"), ("FP16", "INT16"), ("FP32", "INT16"), ("INT64", "INT32"),
            ("INT32", "INT16")}


def short(dtype: D) -> str:
    return dtype.name.removeprefix("DT_")


def to_integer(x: Any, source: D, target: D, mode: RoundMode) -> int:
    wraps = (short(source), short(target)) in WRAPPING
    if source.is_float() and not math.isfinite(x):
        if x != x:
            return 0
        if wraps and target is not D.DT_UINT8:
            return -1 if x > 0 else 0
        return target.int_max if x > 0 else target.int_min
    value = whole(x, mode) if source.is_float() else x
    return wrapped(value, target) if wraps else min(max(value, target.int_min), target.int_max)


@pytest.mark.parametrize("mode", ROUNDINGS, ids=lambda m: m.name)
@pytest.mark.parametrize(("source", "target"), INTEGER_PAIRS, ids=lambda d: short(d))
def test_cast_to_integers(source: D, target: D, mode: RoundMode) -> None:
    data = edges(source, (4, 64), 1)
    if source.is_float():
        data[:2] = (np.random.default_rng(2).integers(-600, 600, (2, 64)) / 2).astype(source.numpy)
    seen = observe(Case("cast", {"out": T((4, 64), target, A, (3, 37)), "src": T((4, 64), source, B, data=data)},
                        {"mode": mode}))
    rows = seen.rows("src")
    check_elements(seen, "out", 3, 37, lambda i, j: to_integer(rows[i][j], source, target, mode))


@pytest.mark.parametrize(("source", "target"), [(D.DT_FP32, D.DT_FP16), (D.DT_FP32, D.DT_BF16), (D.DT_BF16, D.DT_FP16)])
def test_cast_to_narrow_floats_saturates(source: D, target: D) -> None:
    limit = 65504.0 if target is D.DT_FP16 else float.fromhex("0x1.fep127")
    seen = observe(Case("cast", {"out": T((4, 64), target, A, (3, 37)),
                                 "src": T((4, 64), source, B, data=edges(source, (4, 64), 3))},
                        {"mode": RoundMode.CAST_RINT}))
    rows = seen.rows("src")

    def wanted(i: int, j: int) -> float:
        x = rows[i][j]
        return 0.0 if x != x else math.copysign(min(abs(fit_or_nan(x, target)), limit), x)

    check_elements(seen, "out", 3, 37, wanted)


@pytest.mark.parametrize(("source", "target"), [(a, b) for a, b in TILE_CASTS if b is D.DT_FP32 and a is not b],
                         ids=lambda d: short(d))
def test_cast_to_fp32_is_exact_or_rounded_once(source: D, target: D) -> None:
    seen = observe(Case("cast", {"out": T((4, 64), target, A, (3, 37)), "src": T((4, 64), source, B)},
                        {"mode": RoundMode.CAST_RINT}, values=None))
    bits = seen.bench.named["src"].bits(4, 64)
    values = decode(bits, source)
    check_elements(seen, "out", 3, 37, lambda i, j: fit_or_nan(float(values[i, j]), target) if source.is_float()
                   else float(np.float32(int(values[i, j]))))


def test_fp32_to_fp32_makes_whole_numbers() -> None:
    data = np.array([[0.5, 1.5, -0.5, -2.5, 2.4999, 1e20, np.inf, np.nan]], np.float32)
    case = {"out": T((1, 8), D.DT_FP32, A), "src": T((1, 8), D.DT_FP32, B, data=data)}
    found = observe(Case("cast", case)).after["out"][0]
    assert found[:7].tolist() == [1.0, 2.0, -1.0, -3.0, 2.0, float(np.float32(1e20)), np.inf]
    assert np.isnan(found[7])


@pytest.mark.parametrize("cols", [36, 37])
@pytest.mark.parametrize("target", [D.DT_FP4E2M1, D.DT_FP4E1M2])
def test_fp4_rows_are_zeroed_and_whole_bytes_written(target: D, cols: int) -> None:
    data = np.full((4, 64), 1.0, np.float32)
    seen = observe(Case("cast", {"out": T((4, 64), target, A, (3, cols)), "src": T((4, 64), D.DT_BF16, B, data=data)}))
    found = decode(seen.bench.named["out"].bits(4, 64), target)
    assert (found[:3, :36] == 1.0).all()
    assert (found[:3, 36:] == 0.0).all()


@pytest.mark.parametrize("target", [D.DT_FP16, D.DT_INT16, D.DT_FP32, D.DT_HF8])
@pytest.mark.parametrize("op", ["add_relu_cast", "sub_relu_cast", "mul_cast"])
def test_chains_that_convert(op: str, target: D) -> None:
    """As the plain steps one after the other; equal dtypes copy instead of rounding to whole numbers."""
    tiles = three(D.DT_FP32, ("lhs", "rhs"))
    out = T((4, 64), target, A, (3, 37))
    seen = observe(Case(op, {**tiles, "out": out}, {"target_type": target, "mode": RoundMode.CAST_FLOOR}))
    lhs, rhs = seen.rows("lhs"), seen.rows("rhs")
    combine = {"add_relu_cast": plus, "sub_relu_cast": minus, "mul_cast": times}[op]

    def middle(i: int, j: int) -> float:
        value = fit_or_nan(combine(lhs[i][j], rhs[i][j]), D.DT_FP32)
        return float(value if op == "mul_cast" else relu(value))

    check_elements(seen, "lhs", 3, 37, middle)
    direct = np.array([[middle(i, j) for j in range(37)] for i in range(3)], np.float32)
    padded = np.zeros((4, 64), np.float32)
    padded[:3, :37] = direct
    if target is D.DT_FP32:
        check_elements(seen, "out", 3, 37, lambda i, j: direct[i, j])
        return
    alone = observe(Case("cast", {"out": out, "src": T((4, 64), D.DT_FP32, B, data=padded)},
                         {"mode": RoundMode.CAST_FLOOR}))
    check_elements(seen, "out", 3, 37, lambda i, j: alone.after["out"][i, j], same)
