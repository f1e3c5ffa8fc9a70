"""Reductions, argmax/argmin and broadcasts against the text of the reference."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ops.harness import Case, T
from ops.test_vector_arith import divide, equal_zeros, exp, fit_or_nan, ieee, larger, smaller
from ops.vector_model import check_elements, edges, observe, same
from pypto_pro.dtypes import DataType as D
from pypto_pro.enums import TensorLayout
from pypto_pro.ops import rules

A, B, C, E = 0, 0x8000, 0x10000, 0x18000
SHAPES = [(1, 1), (5, 37), (9, 64), (16, 160), (2, 129)]
EXTREMES = {"maximum": larger, "minimum": smaller}
ROW_EXTREMES = (*rules.INTS, D.DT_FP16, D.DT_FP32)
ROW_SUMS = (D.DT_INT16, D.DT_INT32, D.DT_INT64, D.DT_UINT64, D.DT_FP16, D.DT_FP32)
Number = Callable[[Any, Any], Any]
plus, times = ieee(lambda a, b: a + b), ieee(lambda a, b: a * b)


def fold(values: list[Any], combine: Number) -> Any:
    total = values[0]
    for value in values[1:]:
        total = combine(total, value)
    return total


def along(rows: list[list[Any]], dim: int, index: int, valid: tuple[int, int]) -> list[Any]:
    """The valid elements of row (dim 0) or column (dim 1) `index`."""
    return rows[index][: valid[1]] if dim == 0 else [row[index] for row in rows[: valid[0]]]


def target(dim: int, dtype: D, valid: tuple[int, int], nd: bool = False) -> T:
    if dim == 1:
        return T((1, 160), dtype, A, (1, valid[1]))
    return T((16, 32), dtype, A, (valid[0], 1)) if nd else T((32, 1), dtype, A, (valid[0], 1))


@pytest.mark.parametrize("valid", SHAPES, ids=str)
@pytest.mark.parametrize(("dim", "dtype"), [(0, d) for d in ROW_EXTREMES] + [(1, d) for d in rules.NUMBERS],
                         ids=lambda v: getattr(v, "name", v))
@pytest.mark.parametrize("op", EXTREMES)
def test_extreme(op: str, dim: int, dtype: D, valid: tuple[int, int]) -> None:
    src = T((16, 160), dtype, B, valid, data=edges(dtype, (16, 160), 1))
    for nd in (False, True):
        out = target(dim, dtype, valid, nd)
        seen = observe(Case(op, {"out": out, "lhs": src, "rhs": src}, {"dim": dim}))
        rows = seen.rows("lhs")
        shape = (valid[0], 1) if dim == 0 else (1, valid[1])
        check_elements(seen, "out", *shape, lambda i, j: fold(along(rows, dim, i + j, valid), EXTREMES[op]),  # noqa: B023
                       equal_zeros)


def tree(values: list[Any], combine: Number, start: Any, dtype: D) -> Any:
    """The order the reference gives for rows: halves of each 256-byte block, blocks left to right from `start`."""
    lanes, total = 256 // dtype.nbytes, start
    for first in range(0, len(values), lanes):
        block = values[first : first + lanes]
        block += [start] * (lanes - len(block))
        while len(block) > 1:
            half = len(block) // 2
            block = [fit_or_nan(combine(block[k], block[k + half]), dtype) for k in range(half)]
        total = fit_or_nan(combine(total, block[0]), dtype)
    return total


def pairs(values: list[Any], combine: Number, dtype: D) -> Any:
    """The order the reference gives for columns: row 0, then rows 1 + 2, rows 3 + 4, ..., a last one alone."""
    total = values[0]
    for k in range(1, len(values), 2):
        pair = values[k] if k + 1 == len(values) else fit_or_nan(combine(values[k], values[k + 1]), dtype)
        total = fit_or_nan(combine(total, pair), dtype)
    return total


@pytest.mark.parametrize("valid", SHAPES, ids=str)
@pytest.mark.parametrize(("dim", "dtype"), [(0, d) for d in ROW_SUMS] + [(1, d) for d in rules.NUMBERS],
                         ids=lambda v: getattr(v, "name", v))
@pytest.mark.parametrize("op", ["sum", "prod"])
def test_sum_and_product(op: str, dim: int, dtype: D, valid: tuple[int, int]) -> None:
    rng = np.random.default_rng(3)
    if dtype.is_float():
        data = rng.uniform(0.5, 1.5, (16, 160)).astype(np.float32).astype(dtype.numpy)
    else:
        data = edges(dtype, (16, 160), 2)
    src = T((16, 160), dtype, B, valid, data=data)
    combine, start = (plus, 0) if op == "sum" else (times, 1)
    name = "sum" if op == "sum" else ("row_prod", "col_prod")[dim]
    seen = observe(Case(name, {"out": target(dim, dtype, valid), "src": src, "tmp": src},
                        {"dim": dim} if op == "sum" else {}))
    rows = seen.rows("src")

    def wanted(i: int, j: int) -> Any:
        values = along(rows, dim, i + j, valid)
        first = float(start) if dtype.is_float() else start
        return tree(values, combine, first, dtype) if dim == 0 else pairs(values, combine, dtype)

    check_elements(seen, "out", *((valid[0], 1) if dim == 0 else (1, valid[1])), wanted)


def test_row_sum_keeps_nan_and_infinity() -> None:
    data = np.ones((4, 64), np.float32)
    data[0, 3], data[1, 5], data[2, 1], data[2, 2] = np.nan, np.inf, np.inf, -np.inf
    src = T((4, 64), D.DT_FP32, B, data=data)
    found = observe(Case("sum", {"out": T((8, 1), addr=A, valid=(4, 1)), "src": src, "tmp": src})).after["out"]
    assert np.isnan(found[0, 0])
    assert found[1, 0] == np.inf
    assert np.isnan(found[2, 0])
    assert found[3, 0] == 64


@pytest.mark.parametrize("op", ["maximum", "sum"])
def test_no_rows_or_columns_is_a_no_op(op: str) -> None:
    for valid, dim in (((0, 5), 0), ((0, 5), 1), ((5, 0), 1)):
        src = T((16, 64), D.DT_FP32, B, valid)
        names = ("lhs", "rhs") if op == "maximum" else ("src", "tmp")
        out = target(dim, D.DT_FP32, valid)
        seen = observe(Case(op, {"out": out, names[0]: src, names[1]: src}, {"dim": dim}))
        assert seen.before["out"].tobytes() == seen.after["out"].tobytes()


# --- argmax, argmin ---------------------------------------------------------------------------------------------------

ARG_ROWS = (*rules.INTS[2:6], *rules.FLOATS)
ARG_COLS = (*rules.INTS[:6], *rules.FLOATS)


@pytest.mark.parametrize("valid", SHAPES, ids=str)
@pytest.mark.parametrize(("dim", "dtype"), [(0, d) for d in ARG_ROWS] + [(1, d) for d in ARG_COLS],
                         ids=lambda v: getattr(v, "name", v))
@pytest.mark.parametrize("op", ["argmax", "argmin"])
def test_arg_extreme(op: str, dim: int, dtype: D, valid: tuple[int, int]) -> None:
    """The first index that nothing beats strictly; the first NaN if there is one."""
    src = T((16, 160), dtype, B, valid, data=edges(dtype, (16, 160), 4))
    for kind in (D.DT_INT32, D.DT_UINT32):
        seen = observe(Case(op, {"out": target(dim, kind, valid), "src": src, "tmp": src}, {"dim": dim}))
        rows = seen.rows("src")

        def wanted(i: int, j: int, rows: Any = rows) -> int:
            values = along(rows, dim, i + j, valid)
            nans = [k for k, v in enumerate(values) if v != v]
            return nans[0] if nans else values.index(max(values) if op == "argmax" else min(values))

        check_elements(seen, "out", *((valid[0], 1) if dim == 0 else (1, valid[1])), wanted)


@pytest.mark.parametrize("op", ["argmax", "argmin"])
def test_rows_without_a_winner_give_index_0(op: str) -> None:
    fill = -np.inf if op == "argmax" else np.inf
    src = T((4, 64), D.DT_FP32, B, data=np.full((4, 64), fill, np.float32))
    found = observe(Case(op, {"out": T((8, 1), D.DT_INT32, A, (4, 1)), "src": src, "tmp": src})).after["out"]
    assert found[:4, 0].tolist() == [0, 0, 0, 0]


def test_argmax_of_a_dn_tile_along_its_columns() -> None:
    data = np.random.default_rng(1).permutation(64 * 8).reshape(64, 8).astype(np.float32)
    src = T((64, 8), D.DT_FP32, B, (50, 8), layout=TensorLayout.DN, data=data)
    found = observe(Case("argmax", {"out": T((1, 8), D.DT_INT32, A), "src": src, "tmp": src}, {"dim": 1})).after["out"]
    assert found[0].tolist() == data[:50].argmax(axis=0).tolist()


# --- broadcasts -------------------------------------------------------------------------------------------------------

NARROW = (*rules.INTS[:6], *rules.FLOATS)
EXPAND: dict[str, tuple[Number, tuple[D, ...]]] = {
    "expand_sub": (ieee(lambda a, b: a - b), NARROW), "expand_mul": (times, NARROW), "expand_max": (larger, NARROW),
    "expand_min": (smaller, NARROW), "expand_div": (divide, NARROW), "expand_add": (plus, NARROW),
}


def call(op: str, dim: int, operands: dict[str, Any]) -> Case:
    """expand_add has no public form: its legacy names carry the axis."""
    if op == "expand_add":
        return Case(("row_", "col_")[dim] + op, operands)
    return Case(op, operands, {"dim": dim})


@pytest.mark.parametrize("valid", [(1, 1), (5, 37), (16, 64)], ids=str)
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize(("op", "dtype"), [(o, d) for o, (_, ds) in EXPAND.items() for d in ds],
                         ids=lambda v: getattr(v, "name", v))
def test_expand(op: str, dtype: D, dim: int, valid: tuple[int, int]) -> None:
    block = 32 // dtype.nbytes
    vectors = [T((32, 1), dtype, C, (32, 1), data=edges(dtype, (32, 1), 1)),
               T((16, block), dtype, C, (16, block), data=edges(dtype, (16, block), 1))] if dim == 0 else [
        T((1, 64), dtype, C, (1, 64), data=edges(dtype, (1, 64), 1))]
    compute = EXPAND[op][0]
    for vector in vectors:
        for src_first in (True, False):
            full = T((16, 64), dtype, B, valid, data=edges(dtype, (16, 64), 2))
            if not src_first and (vector.valid == valid or valid == (1, 1)):
                continue  # then the first operand is the full one
            src, scalar = (full, vector) if src_first else (vector, full)
            out = T((16, 64), dtype, A, valid)
            seen = observe(call(op, dim, {"out": out, "src": src, "scalar": scalar}))
            rows, part = seen.rows("src" if src_first else "scalar"), seen.rows("scalar" if src_first else "src")

            def wanted(i: int, j: int, rows: Any = rows, part: Any = part, first: bool = src_first) -> Any:
                pair = rows[i][j], part[i][0] if dim == 0 else part[0][j]
                value = compute(*pair) if first else compute(*reversed(pair))
                return fit_or_nan(value, dtype)

            check_elements(seen, "out", *valid, wanted, equal_zeros if op in ("expand_max", "expand_min") else same)


@pytest.mark.parametrize("dtype", [D.DT_FP16, D.DT_FP32])
@pytest.mark.parametrize("dim", [0, 1])
def test_expdif(dim: int, dtype: D) -> None:
    vector = T((32, 1), dtype, C, (32, 1)) if dim == 0 else T((1, 64), dtype, C, (1, 64))
    tiles = {"out": T((16, 64), dtype, A, (5, 37)), "src": T((16, 64), dtype, B, (5, 37)), "scalar": vector}
    seen = observe(Case(f"{('row', 'col')[dim]}_expand_expdif", tiles))
    rows, part = seen.rows("src"), seen.rows("scalar")
    check_elements(seen, "out", 5, 37, lambda i, j: fit_or_nan(
        exp(fit_or_nan(rows[i][j] - (part[i][0] if dim == 0 else part[0][j]), dtype)), dtype))


@pytest.mark.parametrize("dtype", rules.NUMBERS, ids=lambda d: d.name)
def test_plain_broadcasts(dtype: D) -> None:
    for axis, vector in (("row", T((32, 1), dtype, C, (32, 1))), ("col", T((1, 64), dtype, C, (1, 64)))):
        seen = observe(Case(f"{axis}_expand", {"out": T((16, 64), dtype, A, (5, 37)), "src": vector}, values=None))
        before = seen.before["src"]
        check_elements(seen, "out", 5, 37, lambda i, j: before[i, 0] if axis == "row" else before[0, j])  # noqa: B023


def test_softmax_idiom_reads_fewer_rows_than_the_vector_has() -> None:
    """Published kernels pass a [64, 1]-valid vector for 34 rows."""
    tiles = {"out": T((64, 64), valid=(34, 64)), "src": T((64, 64), addr=B, valid=(34, 64)),
             "scalar": T((64, 1), addr=C, valid=(64, 1))}
    seen = observe(Case("expand_sub", tiles))
    rows, part = seen.before["src"], seen.before["scalar"]
    check_elements(seen, "out", 34, 64, lambda i, j: rows[i, j] - part[i, 0])
    assert math.isfinite(float(seen.after["out"][0, 0]))
