"""Scalar types and values: promotion, folding, conversion, conditions (frontend 5)."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_text import N, read, statements

from pypto_pro.dtypes import DataType
from pypto_pro.ir import build
from pypto_pro.ir.nodes import Assign, Binary, Const, Convert, Local, Unary, Var
from pypto_pro.ir.types import BOOL, FP32, INDEX, ScalarType

D = DataType
ALL = "b: pl.DT_BOOL, i8: pl.DT_INT8, u8: pl.DT_UINT8, i32: pl.DT_INT32, i64: pl.DT_INT64, f: pl.DT_FP32"


def local(dtype: DataType, name: str = "v") -> Local:
    return Local(Var(name, ScalarType(dtype)))


PROMOTION = [
    ("+", D.DT_INT32, D.DT_INT64, D.DT_INT64),
    ("+", D.DT_INT64, D.DT_INT32, D.DT_INT64),
    ("+", D.DT_INT32, D.DT_UINT32, D.DT_INT32),
    ("+", D.DT_UINT32, D.DT_INT32, D.DT_UINT32),
    ("+", D.DT_INDEX, D.DT_INT64, D.DT_INDEX),
    ("+", D.DT_INT64, D.DT_INDEX, D.DT_INT64),
    ("*", D.DT_FP16, D.DT_FP32, D.DT_FP32),
    ("*", D.DT_FP16, D.DT_BF16, D.DT_FP16),
    ("*", D.DT_BF16, D.DT_FP16, D.DT_BF16),
    ("-", D.DT_INT64, D.DT_FP16, D.DT_FP32),
    ("-", D.DT_FP16, D.DT_INT8, D.DT_FP32),
    ("+", D.DT_BOOL, D.DT_BOOL, D.DT_INT64),
    ("+", D.DT_BOOL, D.DT_FP32, D.DT_FP32),
    ("+", D.DT_BOOL, D.DT_INT8, D.DT_INT64),
    ("/", D.DT_INT32, D.DT_INT32, D.DT_FP32),
    ("/", D.DT_BOOL, D.DT_INT8, D.DT_FP32),
    ("/", D.DT_FP16, D.DT_FP16, D.DT_FP16),
    ("/", D.DT_FP16, D.DT_INT32, D.DT_FP32),
    ("//", D.DT_INT32, D.DT_INT64, D.DT_INT64),
    ("<<", D.DT_INT32, D.DT_INT64, D.DT_INT64),
    ("&", D.DT_UINT8, D.DT_INT8, D.DT_UINT8),
    ("min", D.DT_INT32, D.DT_FP16, D.DT_FP32),
    ("max", D.DT_INT8, D.DT_UINT8, D.DT_INT8),
]


@pytest.mark.parametrize(("op", "left", "right", "result"), PROMOTION)
def test_promotion(op: str, left: DataType, right: DataType, result: DataType) -> None:
    found = build.binary(op, local(left, "l"), local(right, "r"))
    assert isinstance(found, Binary)
    assert found.type.dtype is result
    assert {build.kind_of(found.lhs), build.kind_of(found.rhs)} == {result}


@pytest.mark.parametrize("op", ["==", "!=", "<", "<=", ">", ">="])
def test_comparisons_are_bool_over_promoted_operands(op: str) -> None:
    found = build.binary(op, local(D.DT_INT8), local(D.DT_INT32))
    assert isinstance(found, Binary)
    assert found.type == BOOL
    assert found.lhs == Convert(local(D.DT_INT8), ScalarType(D.DT_INT32))


@pytest.mark.parametrize("op", ["&", "|", "^", "<<", ">>"])
def test_bit_operators_refuse_floats(op: str) -> None:
    with pytest.raises(ValueError, match="integers"):
        build.binary(op, local(D.DT_FP32), local(D.DT_INT32))


FOLDS = [
    ("2 + 3", 5, INDEX),
    ("-7 // 2", -4, INDEX),
    ("-7 % 3", 2, INDEX),
    ("7 / 2", 3.5, FP32),
    ("7.5 // 2", 3.0, FP32),
    ("-7.5 % 2", 0.5, FP32),
    ("1 << 5", 32, INDEX),
    ("-9 >> 1", -5, INDEX),
    ("6 & 3 | 8 ^ 1", 11, INDEX),
    ("~True", -2, None),
    ("-True", -1, None),
    ("not 0", True, BOOL),
    ("not 2.5", False, BOOL),
    ("+5", 5, INDEX),
    ("True + True", 2, None),
    ("2 and 0", False, BOOL),
    ("0 or 3", True, BOOL),
    ("1 < 2", True, BOOL),
    ("0.5 == 0.5", True, BOOL),
    ("pl.DT_FP32 == pl.DT_FP32", True, BOOL),
    ("pl.ND != pl.DN", True, BOOL),
    ("3 in (1, 3)", True, BOOL),
    ("pl.DT_FP16 in (pl.DT_FP32, pl.DT_BF16)", False, BOOL),
    ("3 in pl.range(5)", True, BOOL),
    ("3 in pl.range(0, 5, 2)", False, BOOL),
    ("5 not in []", True, BOOL),
    ("2 ** 10", 1024, INDEX),
    ("len((1, 2, 3))", 3, INDEX),
    ("sum([1, 2])", 3, INDEX),
    ("[i * 2 for i in pl_range(4)][3]", 6, INDEX),
    ("{'m': 7}['m']", 7, INDEX),
    ("int(2.9)", 2, INDEX),
    ("float(2)", 2.0, FP32),
    ("abs(-4)", 4, INDEX),
    ("round(2.5)", 2, INDEX),
    ("max(3, 4)", 4, INDEX),
    ("min(3.5, 4)", 3.5, FP32),
    ("pl.min(3, 4)", 3, INDEX),
    ("max((1, 9, 2))", 9, INDEX),
    ("pl.const(-3.7, pl.DT_INT32)", -3, ScalarType(D.DT_INT32)),
    ("pl.const(2, pl.DT_FP16)", 2.0, ScalarType(D.DT_FP16)),
    ("pl.const(3, pl.DT_BOOL)", True, BOOL),
    ("CFG['k'] + CFG['l'][1]", 9, INDEX),
    ("obj.width", 12, INDEX),
    ("SHAPE[1]", 64, INDEX),
    ("bits_of(pl.DT_FP16)", 16, INDEX),
    ("ceil_div(10, 4)", 3, INDEX),
    ("7 if True else undefined_name", 7, INDEX),
    ("0xFFFFFFFFFFFFFFFF", 2**64 - 1, ScalarType(D.DT_UINT64)),
    ("math.ceil(2.1)", 3, INDEX),
]


@pytest.mark.parametrize(("text", "value", "type_"), FOLDS, ids=[row[0] for row in FOLDS])
def test_constants_fold(text: str, value: Any, type_: ScalarType | None) -> None:
    before = (
        "import math\nfrom builtins import range as pl_range\nCFG = {'k': 4, 'l': [3, 5]}\nSHAPE = (16, 64)\n"
        "class Obj:\n    width = 12\nobj = Obj()\ndef bits_of(d):\n    return d.get_bit()\n"
        "def ceil_div(a, b):\n    return (a + b - 1) // b\n"
    )
    kernel = read(f"c = {text}\nfor i in pl.range(1):\n    d = c", before=before)
    value_node = statements(kernel, Assign)[-1].value
    assert isinstance(value_node, Const)
    assert value_node.value == value
    assert type(value_node.value) is type(value)
    if type_ is not None:
        assert value_node.type == type_


KEPT = ["1 // 0", "1 % 0", "1 / 0", "1 << -1", "n // 0"]


@pytest.mark.parametrize("text", KEPT)
def test_undefined_constants_stay_run_time_operations(text: str) -> None:
    kernel = read(f"c = {text}")
    assert isinstance(statements(kernel, Assign)[0].value, Binary)


TYPES = [
    ("i32 + 1", D.DT_INDEX),
    ("1 + i32", D.DT_INDEX),
    ("i64 + 1", D.DT_INT64),
    ("i32 + i32", D.DT_INT32),
    ("i32 + 1.0", D.DT_FP32),
    ("i32 / i32", D.DT_FP32),
    ("b + b", D.DT_INT64),
    ("-b", D.DT_INT64),
    ("~b", D.DT_INT64),
    ("-i8", D.DT_INT8),
    ("~u8", D.DT_UINT8),
    ("not f", D.DT_BOOL),
    ("f and i32", D.DT_BOOL),
    ("f > 1", D.DT_BOOL),
    ("min(i32, f)", D.DT_FP32),
    ("u8 << i8", D.DT_UINT8),
    ("i8 if b else i32", D.DT_INT32),
    ("f if b else 1.0", D.DT_FP32),
    ("i32 if i32 > 0 else 7", D.DT_INDEX),
    ("(i32, i32)[i8]", D.DT_INT32),
    ("pl.get_block_idx()", D.DT_INT32),
    ("pl.const(1, pl.DT_INT8) + i8", D.DT_INT8),
    ("+f", D.DT_FP32),
]


@pytest.mark.parametrize(("text", "dtype"), TYPES, ids=[row[0] for row in TYPES])
def test_type_of_expressions(text: str, dtype: DataType) -> None:
    kernel = read(f"q = {text}", ALL)
    assert build.kind_of(Local(statements(kernel, Assign)[-1].var)) is dtype


def test_short_circuit_leaves_the_rest_unread() -> None:
    read("a = False and nowhere\nb = True or nowhere\nc = 0 and nowhere.at.all()")
    kernel = read("a = n > 1 and False")
    assert statements(kernel, Assign) == []


def test_constant_float_conditions_are_run_time() -> None:
    kernel = read("if 2.5:\n    a = 1\nelse:\n    a = 2\nb = a")
    assert len(statements(kernel, Assign)) == 3


def test_constexpr() -> None:
    read("if pl.constexpr(3 > 2):\n    a = 1\nelse:\n    nowhere()\nb = 1 if pl.constexpr(True) else nowhere")


def test_negation_and_double_negation() -> None:
    v = local(D.DT_INT32)
    assert build.negate(v) == Unary("-", v, ScalarType(D.DT_INT32))
    assert build.logical_not(build.logical_not(v)) == Binary("!=", v, Const(0, ScalarType(D.DT_INT32)), BOOL)


@given(st.integers(-(2**63), 2**63 - 1), st.sampled_from([d for d in D if d.is_int() and not d.is_sub_byte]))
def test_constant_conversion_wraps(value: int, dtype: DataType) -> None:
    found = build.convert(Const(value, INDEX), ScalarType(dtype))
    assert isinstance(found, Const)
    assert dtype.int_min <= found.value <= dtype.int_max
    assert (int(found.value) - value) % 2 ** dtype.bits() == 0


@given(st.integers(-1000, 1000), st.integers(-1000, 1000), st.sampled_from(sorted(build._FOLD)))
def test_folding_is_python(a: int, b: int, op: str) -> None:
    if (op in ("/", "//", "%") and b == 0) or (op in ("<<", ">>") and not 0 <= b < 40):
        return
    found = build.binary(op, build.number(a), build.number(b))
    assert isinstance(found, Const)
    python = {"min": min(a, b), "max": max(a, b)}
    assert found.value == (python[op] if op in python else eval(f"{a} {op} {b}"))


@settings(max_examples=60)
@given(st.integers(0, 60), st.integers(1, 9), st.integers(-5, 60))
def test_symbolic_numbers_compute_like_ints(a: int, b: int, c: int) -> None:
    def formula(x: Any, y: Any, z: Any) -> Any:
        return (x + (y - 1)) // y * y + z * 2 - (x % y)

    known = formula(build.sym(a), build.sym(b), build.sym(c))
    assert known.value == formula(a, b, c)


def test_symbolic_numbers_simplify() -> None:
    v = build.sym(local(D.DT_INDEX))
    assert (v + 0).expr == v.expr
    assert (0 + v).expr == v.expr
    assert (v * 1).expr == v.expr
    assert (v * 0).value == 0
    assert (v // 1).expr == v.expr
    assert (v % 1).value == 0
    assert ((v > 3) & True).expr == (v > 3).expr
    assert ((v > 3) & (build.sym(1) == 2)).value == 0
    assert (build.sym(1) == 1).choose(v, 0).expr == v.expr
    assert (v.least(4).expr, v.most(4).expr) == (
        Binary("min", v.expr, Const(4), INDEX),
        Binary("max", v.expr, Const(4), INDEX),
    )
    with pytest.raises(TypeError, match="run-time number"):
        bool(v)


def test_float_constants_keep_double_precision_while_folding() -> None:
    kernel = read("c = 1.0 / 3\nd = c * 3.0\nfor i in pl.range(1):\n    e = d")
    assert math.isclose(statements(kernel, Assign)[-1].value.value, 1.0, rel_tol=0, abs_tol=0)


def test_long_chains_and_deep_nesting() -> None:
    read("a = " + " + ".join(["n"] * 60))
    from pypto_pro.diag.errors import ParserSyntaxError

    with pytest.raises(ParserSyntaxError, match="nested"):
        read("a = " + "-(" * 150 + "n" + ")" * 150, N)
