"""Element-wise tile ops against the text of the reference: every dtype row, edge values, valid shapes, in place."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ops.harness import Case, T
from ops.vector_model import check_elements, edges, fit, observe, rounded, same, wrapped
from pypto_pro.dtypes import DataType as D
from pypto_pro.ops import rules

A, B, C, E = 0, 0x8000, 0x10000, 0x18000
SHAPES = [(1, 1), (1, 64), (3, 37), (4, 64)]
INTS, FLOATS = rules.INTS, rules.FLOATS
NO_BYTES = INTS[2:]
SINGLE_AND_HALF = (D.DT_FP16, D.DT_FP32)


def divide(a: Any, b: Any) -> Any:
    """C division of ints (x / 0 = 0), IEEE division of floats."""
    if isinstance(a, int):
        return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    with np.errstate(all="ignore"):
        return float(np.float64(a) / np.float64(b))


def larger(a: Any, b: Any) -> Any:
    return math.nan if a != a or b != b else max(a, b)


def smaller(a: Any, b: Any) -> Any:
    return math.nan if a != a or b != b else min(a, b)


def ieee(op: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The operator of numpy's FP64 on floats (no Python exceptions), of Python on ints."""
    def compute(a: Any, b: Any) -> Any:
        with np.errstate(all="ignore"):
            return op(a, b) if isinstance(a, int) else float(op(np.float64(a), np.float64(b)))
    return compute


def modulo(a: Any, b: Any) -> Any:
    """Python's %, by the formula: the FP32 quotient is rounded before it is floored."""
    if isinstance(a, int):
        return a if b == 0 else a % b
    with np.errstate(all="ignore"):
        x, y = np.float32(a), np.float32(b)
        return float(x - np.floor(x / y) * y)


BINARY: dict[str, tuple[Callable[[Any, Any], Any], tuple[D, ...]]] = {
    "add": (ieee(lambda a, b: a + b), rules.NUMBERS),
    "sub": (ieee(lambda a, b: a - b), rules.NUMBERS),
    "mul": (ieee(lambda a, b: a * b), (*NO_BYTES, *FLOATS)),
    "div": (divide, (*NO_BYTES, *SINGLE_AND_HALF)),
    "rem": (modulo, (*NO_BYTES, *SINGLE_AND_HALF)),
    "maximum": (larger, rules.NUMBERS),
    "minimum": (smaller, rules.NUMBERS),
    "and_": (lambda a, b: a & b, INTS[:6]),
}
ROWS = [(op, dtype) for op, (_, dtypes) in BINARY.items() for dtype in dtypes]


def equal_zeros(found: Any, wanted: Any) -> bool:
    """As `same`, either zero for the other."""
    return same(found, wanted) or (float(found) == 0 and float(wanted) == 0)


def matching(op: str) -> Callable[[Any, Any], bool]:
    return equal_zeros if op in ("maximum", "minimum") else same


@pytest.mark.parametrize("valid", SHAPES, ids=str)
@pytest.mark.parametrize(("op", "dtype"), ROWS, ids=lambda v: getattr(v, "name", v))
def test_two_tiles(op: str, dtype: D, valid: tuple[int, int]) -> None:
    tiles = {
        "out": T((4, 64), dtype, A, valid), "lhs": T((4, 96), dtype, B, data=edges(dtype, (4, 96), 1)),
        "rhs": T((4, 64), dtype, C, valid, data=edges(dtype, (4, 64), 2)),
    }
    seen = observe(Case(op, tiles))
    lhs, rhs, compute = seen.rows("lhs"), seen.rows("rhs"), BINARY[op][0]
    check_elements(seen, "out", *valid, lambda i, j: fit_or_nan(compute(lhs[i][j], rhs[i][j]), dtype), matching(op))


def fit_or_nan(value: Any, dtype: D) -> Any:
    return value if value != value else fit(value, dtype)


@pytest.mark.parametrize(("op", "dtype"), ROWS, ids=lambda v: getattr(v, "name", v))
def test_in_place_and_scalar(op: str, dtype: D) -> None:
    compute = BINARY[op][0]
    tile = T((4, 64), dtype, A, (3, 37), data=edges(dtype, (4, 64), 3))
    for operands in ({"out": tile, "lhs": tile, "rhs": tile}, {"out": tile, "lhs": tile, "rhs": 3},
                     {"out": tile, "lhs": tile, "rhs": 2.75}):
        seen = observe(Case(op, operands))
        lhs, other = seen.rows("lhs"), operands["rhs"]

        def wanted(i: int, j: int, lhs: Any = lhs, other: Any = other) -> Any:
            scalar = 0 if isinstance(other, T) else float(other) if dtype.is_float() else int(other)
            return fit_or_nan(compute(lhs[i][j], lhs[i][j] if isinstance(other, T) else scalar), dtype)

        check_elements(seen, "out", 3, 37, wanted, matching(op))


@pytest.mark.parametrize(("scalar", "dtype", "held"), [
    (1e9, D.DT_INT8, 127), (-1e9, D.DT_UINT16, 0), (math.inf, D.DT_INT32, 2**31 - 1), (math.nan, D.DT_INT32, 0),
    (300, D.DT_UINT8, 44), (-1, D.DT_UINT64, 2**64 - 1), (2**64 - 1, D.DT_INT64, -1), (-2.9, D.DT_INT16, -2),
    (0.1, D.DT_FP16, rounded(rounded(0.1, D.DT_FP32), D.DT_FP16)), (2**63, D.DT_FP32, 2.0**63),
    (16777217, D.DT_FP32, 16777216.0), (True, D.DT_FP32, 1.0),
])
def test_scalar_becomes_an_element(scalar: float, dtype: D, held: float) -> None:
    seen = observe(Case("expands", {"out": T((1, 64), dtype, A, (1, 5)), "scalar": scalar}))
    check_elements(seen, "out", 1, 5, lambda i, j: held, lambda found, wanted: found == wanted)


# --- unary ------------------------------------------------------------------------------------------------------------


def log(x: float) -> float:
    with np.errstate(all="ignore"):
        return float(np.log(np.longdouble(x)))


def exp(x: float) -> float:
    with np.errstate(all="ignore"):
        return float(np.exp(np.longdouble(x)))


def root(x: float) -> float:
    return math.nan if x != x or x < 0 else math.sqrt(x)


def one_over_root(x: float, dtype: D) -> float:
    first = root(x)
    return first if first != first else divide(1.0, rounded(first, dtype) if x else x)


UNARY: dict[str, tuple[Callable[[Any, D], Any], tuple[D, ...]]] = {
    "neg": (lambda x, d: x if x != x else -x, (*NO_BYTES, *FLOATS)),
    "abs": (lambda x, d: abs(x), (D.DT_INT8, D.DT_INT16, D.DT_INT32, *SINGLE_AND_HALF)),
    "exp": (lambda x, d: exp(x), SINGLE_AND_HALF),
    "log": (lambda x, d: log(x), SINGLE_AND_HALF),
    "sqrt": (lambda x, d: root(x), SINGLE_AND_HALF),
    "rsqrt": (one_over_root, SINGLE_AND_HALF),
    "recip": (lambda x, d: divide(1.0, x), SINGLE_AND_HALF),
    "relu": (lambda x, d: x if x != x else max(x, 0) + 0, (*SINGLE_AND_HALF, D.DT_INT32)),
}


@pytest.mark.parametrize("valid", SHAPES, ids=str)
@pytest.mark.parametrize(("op", "dtype"), [(o, d) for o, (_, ds) in UNARY.items() for d in ds],
                         ids=lambda v: getattr(v, "name", v))
def test_unary(op: str, dtype: D, valid: tuple[int, int]) -> None:
    for src in (T((4, 96), dtype, B, valid, data=edges(dtype, (4, 96), 4)), None):
        out = T((4, 64), dtype, A, valid, data=edges(dtype, (4, 64), 5))
        seen = observe(Case(op, {"out": out, "src": src or out}))
        rows, compute = seen.rows("src"), UNARY[op][0]
        # sqrt(-0) = -0 and exp, log of FP64 are wider than any tie: one rounding is the whole story
        check_elements(seen, "out", *valid, lambda i, j: fit_or_nan(compute(rows[i][j], dtype), dtype))  # noqa: B023


# --- bits -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", INTS, ids=lambda d: d.name)
def test_shifts(dtype: D) -> None:
    counts = np.random.default_rng(1).integers(0, dtype.bits(), (4, 64))
    lhs, rhs = T((4, 64), dtype, B, data=edges(dtype, (4, 64))), T((4, 64), dtype, C, data=counts)
    for op, move in (("shl", lambda a, n: a << n), ("shr", lambda a, n: a >> n)):
        seen = observe(Case(op, {"out": T((4, 64), dtype, A, (3, 37)), "lhs": lhs, "rhs": rhs}))
        rows, by = seen.rows("lhs"), counts.tolist()
        check_elements(seen, "out", 3, 37, lambda i, j: wrapped(move(rows[i][j], by[i][j]), dtype))  # noqa: B023
        seen = observe(Case(f"{op}s", {"out": T((4, 64), dtype, A, (3, 37)), "lhs": lhs, "scalar": 5}))
        check_elements(seen, "out", 3, 37, lambda i, j: wrapped(move(rows[i][j], 5), dtype))  # noqa: B023


@pytest.mark.parametrize("dtype", INTS[:6], ids=lambda d: d.name)
def test_bit_operations(dtype: D) -> None:
    out, tmp = T((4, 64), dtype, A, (3, 37)), T((4, 64), dtype, E)
    lhs = T((4, 64), dtype, B, data=edges(dtype, (4, 64), 6))
    rhs = T((4, 64), dtype, C, data=edges(dtype, (4, 64), 7))
    seen = observe(Case("xor", {"out": out, "lhs": lhs, "rhs": rhs, "tmp": tmp}))
    a, b = seen.rows("lhs"), seen.rows("rhs")
    check_elements(seen, "out", 3, 37, lambda i, j: wrapped(a[i][j] ^ b[i][j], dtype))
    for op, combine in (("ors", lambda x: x | 5), ("xors", lambda x: x ^ 5), ("ands", lambda x: x & 5)):
        more = {"tmp": tmp} if op == "xors" else {}
        seen = observe(Case(op, {"out": out, "lhs": lhs, "scalar": 5, **more}))
        check_elements(seen, "out", 3, 37, lambda i, j: wrapped(combine(a[i][j]), dtype))  # noqa: B023


# --- comparisons and select -------------------------------------------------------------------------------------------

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}


@pytest.mark.parametrize("valid", [(1, 1), (3, 37), (3, 64), (2, 130)], ids=str)
@pytest.mark.parametrize("dtype", rules.NUMBERS, ids=lambda d: d.name)
@pytest.mark.parametrize("op", COMPARE)
def test_packed_mask(op: str, dtype: D, valid: tuple[int, int]) -> None:
    """Bit c % 8 of byte c // 8 of the row; the rest of the granule is 0, bytes after it stay."""
    lhs = T((4, 160), dtype, A, valid, data=edges(dtype, (4, 160), 8))
    for rhs in (T((4, 160), dtype, C, valid, data=edges(dtype, (4, 160), 9)), 3):
        seen = observe(Case(op, {"out": T((4, 96), D.DT_UINT8, E), "lhs": lhs, "rhs": rhs}))
        a = seen.rows("lhs")
        b = seen.rows("rhs") if isinstance(rhs, T) else [[rhs] * 160] * 4
        columns, size = (128, 16) if dtype.bits() in (16, 32) else (256, 32)
        granules = -(-valid[1] // columns) * size
        for r in range(valid[0]):
            bits = [int(c < valid[1] and COMPARE[op](a[r][c], b[r][c])) for c in range(granules * 8)]
            packed = [sum(bits[8 * k + n] << n for n in range(8)) for k in range(granules)]
            assert seen.after["out"][r, :granules].tolist() == packed
            assert (seen.after["out"][r, granules:] == seen.before["out"][r, granules:]).all()
        assert (seen.after["out"][valid[0] :] == seen.before["out"][valid[0] :]).all()


@pytest.mark.parametrize("dtype", rules.NUMBERS, ids=lambda d: d.name)
@pytest.mark.parametrize("mask_dtype", [D.DT_UINT8, D.DT_INT8], ids=lambda d: d.name)
def test_select(dtype: D, mask_dtype: D) -> None:
    mask = T((4, 32), mask_dtype, E)
    lhs = T((4, 64), dtype, B, data=edges(dtype, (4, 64), 10))
    for rhs in (T((4, 96), dtype, C, data=edges(dtype, (4, 96), 11)), 3):
        if dtype is D.DT_BF16 and rhs == 3:
            continue
        for out in (T((4, 64), dtype, A, (3, 37)), T((4, 64), dtype, B, (3, 37), data=lhs.data)):
            seen = observe(Case("select", {"out": out, "mask": mask, "lhs": lhs, "rhs": rhs, "tmp": mask}))
            bits = np.unpackbits(seen.before["mask"].view(np.uint8), axis=1, bitorder="little")
            a, b = seen.before["lhs"], seen.before["rhs"] if isinstance(rhs, T) else np.full((4, 64), 3, dtype.numpy)
            check_elements(seen, "out", 3, 37, lambda i, j: a[i, j] if bits[i, j] else b[i, j])  # noqa: B023
