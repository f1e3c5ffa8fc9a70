"""Scalar arithmetic of the simulator against fixed-width numpy arithmetic."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machine_runs import run_vector

from pypto_pro.dtypes import DataType
from pypto_pro.interp import scalars
from pypto_pro.interp.expressions import Expressions, Namespace
from pypto_pro.ir.nodes import Binary, Convert, Expr, Local, Unary, Var
from pypto_pro.ir.types import BOOL, ScalarType

INTS = [d for d in DataType if d.is_int() and d.bits() >= 8]
FLOATS = [DataType.DT_FP32, DataType.DT_FP16]
C_OPS = ["+", "-", "*", "//", "%", "&", "|", "^"]


def evaluate(expr: Expr, **values: Any) -> Any:
    """The value of an expression as the generated programs compute it."""
    space = Namespace()
    text = Expressions(space).expr(expr)
    return eval(text, space.globals, {f"v_{name}": value for name, value in values.items()})


def binary(op: str, dtype: DataType, lhs: Any, rhs: Any) -> Any:
    kind = ScalarType(dtype)
    result = BOOL if op in ("<", "==", "and") else kind
    return evaluate(Binary(op, Local(Var("a", kind)), Local(Var("b", kind)), result), a=lhs, b=rhs)


def c_reference(op: str, dtype: DataType, lhs: int, rhs: int) -> int:
    """The same in exact integers, wrapped at the end."""
    if op in ("//", "%"):
        if rhs == 0:
            return 0 if op == "//" else lhs
        quotient = int(math.copysign(1, lhs) * math.copysign(1, rhs)) * (abs(lhs) // abs(rhs))
        exact = quotient if op == "//" else lhs - quotient * rhs
    else:
        exact = {"+": lhs + rhs, "-": lhs - rhs, "*": lhs * rhs, "&": lhs & rhs, "|": lhs | rhs, "^": lhs ^ rhs}[op]
    bits = np.uint64(exact % (1 << dtype.bits())).astype(dtype.bits_dtype)
    return int(bits.view(dtype.numpy))


@st.composite
def integer_case(draw: Any) -> tuple[str, DataType, int, int]:
    dtype = draw(st.sampled_from(INTS))
    number = st.integers(dtype.int_min, dtype.int_max) | st.sampled_from([dtype.int_min, dtype.int_max, 0, 1])
    return draw(st.sampled_from(C_OPS)), dtype, draw(number), draw(number)


@settings(max_examples=300, deadline=None)
@given(integer_case())
def test_integers_wrap_and_truncate_like_c(case: tuple[str, DataType, int, int]) -> None:
    assert binary(*case) == c_reference(*case)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from("+-*/"), st.sampled_from(FLOATS), st.floats(width=16), st.floats(width=16))
def test_floats_round_once(op: str, dtype: DataType, lhs: float, rhs: float) -> None:
    kind = dtype.numpy.type
    with np.errstate(all="ignore"):
        want = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}[op](kind(lhs), kind(rhs))
    found = binary(op, dtype, lhs, rhs)
    assert np.array_equal(found, float(want), equal_nan=True)


@pytest.mark.parametrize(
    ("value", "source", "target", "want"),
    [
        (300, DataType.DT_INT32, DataType.DT_INT8, 44),
        (-1, DataType.DT_INT32, DataType.DT_UINT32, 2**32 - 1),
        (-2.75, DataType.DT_FP32, DataType.DT_INT32, -2),
        (3e9, DataType.DT_FP32, DataType.DT_INT32, 2**31 - 1),
        (math.nan, DataType.DT_FP32, DataType.DT_INT32, 0),
        (math.inf, DataType.DT_FP32, DataType.DT_UINT8, 255),
        (2**53 + 1, DataType.DT_INT64, DataType.DT_FP32, 2.0**53),
        (16777217, DataType.DT_INT32, DataType.DT_FP32, 16777216.0),
        (2049, DataType.DT_INT32, DataType.DT_FP16, 2048.0),
        (1.0009765625, DataType.DT_FP32, DataType.DT_FP16, 1.0009765625),
        (True, DataType.DT_BOOL, DataType.DT_INT64, 1),
        (0.5, DataType.DT_FP32, DataType.DT_BOOL, True),
    ],
)
def test_conversions(value: Any, source: DataType, target: DataType, want: Any) -> None:
    found = evaluate(Convert(Local(Var("a", ScalarType(source))), ScalarType(target)), a=value)
    assert found == want
    assert type(found) is type(want)


def test_rounding_to_bf16_ties_to_even() -> None:
    assert scalars.round_bf16(1.00390625) == 1.0
    assert scalars.round_bf16(1.01171875) == 1.015625


def test_complement_and_negation_stay_in_range() -> None:
    kind = ScalarType(DataType.DT_UINT16)
    a = Local(Var("a", kind))
    assert evaluate(Unary("~", a, kind), a=1) == 0xFFFE
    assert evaluate(Unary("-", a, kind), a=1) == 0xFFFF
    assert evaluate(Unary("not", a, BOOL), a=0) is True


def test_shifts_out_of_range_have_a_result() -> None:
    assert binary("<<", DataType.DT_INT32, 1, 40) == 0
    assert binary(">>", DataType.DT_INT32, -8, 99) == -1
    assert binary("<<", DataType.DT_INT32, 1, 31) == -(2**31)


def test_structs_arrays_and_out_of_range_elements() -> None:
    types = "T1 = Struct('W', {'a': index, 'b': Array(index, 2)})\nT2 = StructArray(T1, 3)"
    printed = run_vector(
        "n: index",
        """
        s: T2 = struct((7, 8, 9))
        s[1].b[n] = 5
        s[n].a = s[1].b[1] + 1
        debug('printf', (s[0].b[0], s[1].b[0], s[1].b[1], s[1].a, s[2].a), format='%d %d %d %d %d', loc=False)
        """,
        1, types=types,
    ).printed
    assert printed == "8 8 5 6 7"


def test_deep_expressions_are_split() -> None:
    """Hundreds of terms: Python would refuse that many nested parentheses."""
    kind = ScalarType(DataType.DT_INT64)
    total: Expr = Local(Var("a", kind))
    for _ in range(300):
        total = Binary("+", total, Local(Var("a", kind)), kind)
    lines: list[str] = []
    writer = Expressions(Namespace())
    writer.before = lines.append
    text = writer.expr(total)
    values: dict[str, Any] = {"v_a": 5}
    exec("\n".join(lines), writer.space.globals, values)
    assert eval(text, writer.space.globals, values) == 1505
    assert lines
