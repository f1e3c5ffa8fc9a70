"""Building scalar expressions: promotion, constant folding, C conversion; `Sym`, numbers that write themselves down.

Promotion and folding are those of the language (frontend 5): constants are exact Python numbers, `//` and `%` of
constants floor, of run-time integers truncate. What cannot be built raises TypeError, ValueError or OverflowError.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from pypto_pro.dtypes import DataType
from pypto_pro.ir import walk
from pypto_pro.ir.nodes import COMPARISONS, Binary, Choose, Const, Convert, Expr, Unary
from pypto_pro.ir.operators import Operators
from pypto_pro.ir.types import BOOL, FP32, INDEX, ScalarType

Number: TypeAlias = bool | int | float

BITWISE = frozenset({"&", "|", "^", "<<", ">>"})
_INT64 = ScalarType(DataType.DT_INT64)
_UINT64 = ScalarType(DataType.DT_UINT64)
_MAX_SHIFT = 4096

_FOLD: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "&": operator.and_, "|": operator.or_, "^": operator.xor, "<<": operator.lshift,
    ">>": operator.rshift, "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge, "min": min, "max": max,
}  # fmt: skip


def number(value: Number, dtype: DataType | None = None) -> Const:
    """A constant: bool BOOL, int INDEX (UINT64 past 2^63), float FP32, or converted to `dtype`.

    OverflowError for an int of more than 64 bits.
    """
    if dtype is not None:
        return Const(_c_number(value, dtype), ScalarType(dtype))
    if isinstance(value, bool):
        return Const(value, BOOL)
    if isinstance(value, float):
        return Const(value, FP32)
    if -(1 << 63) <= value < 1 << 63:
        return Const(value, INDEX)
    if value < 1 << 64 and value > 0:
        return Const(value, _UINT64)
    raise OverflowError(f"{_shown(value)} does not fit 64 bits")


def _shown(value: int) -> str:
    return str(value) if abs(value) < 1 << 200 else "an integer of more than 200 bits"


def _c_number(value: Number, dtype: DataType) -> Number:
    """A number converted by C rules: floats to ints truncate, ints wrap, non-zero is true."""
    if dtype is DataType.DT_BOOL:
        return bool(value)
    if dtype.is_float():
        return float(value)
    whole = int(value)
    bits = dtype.bits()
    low = whole & ((1 << bits) - 1)
    return low - (1 << bits) if dtype.is_signed_int() and low >> (bits - 1) else low


def kind_of(expr: Expr) -> DataType:
    """The dtype of a scalar expression. TypeError when it is no scalar."""
    if not isinstance(expr.type, ScalarType):
        raise TypeError(f"a scalar is needed, found {type(expr.type).__name__.removesuffix('Type').lower()}")
    return expr.type.dtype


def convert(expr: Expr, to: ScalarType) -> Expr:
    """C conversion; constants are converted here, a conversion to the own type is none."""
    if expr.type == to:
        return expr
    if isinstance(expr, Const):
        return Const(_c_number(expr.value, to.dtype), to)
    kind_of(expr)
    return Convert(expr, to)


def common(lhs: DataType, rhs: DataType) -> DataType:
    """The dtype both operands of an arithmetic operator are converted to (BOOL counts as INT64)."""
    left = DataType.DT_INT64 if lhs is DataType.DT_BOOL else lhs
    right = DataType.DT_INT64 if rhs is DataType.DT_BOOL else rhs
    if left.is_float() != right.is_float():
        return DataType.DT_FP32
    return right if right.bits() > left.bits() else left


def merged(lhs: DataType, rhs: DataType) -> DataType | None:
    """The dtype of a value that is `lhs` on one path and `rhs` on another, None when their categories differ."""
    if lhs is rhs:
        return lhs
    return None if lhs.is_float() != rhs.is_float() else common(lhs, rhs)


def binary(op: str, lhs: Expr, rhs: Expr) -> Expr:
    """`lhs op rhs` with the promotion of the language, folded when both are constants.

    Division by zero and negative shift counts stay run-time operations.
    """
    left, right = kind_of(lhs), kind_of(rhs)
    shared = common(left, right)
    if op in BITWISE and shared.is_float():
        raise ValueError(f"`{op}` takes integers, found {left.to_string()} and {right.to_string()}")
    if op == "/" and not shared.is_float():
        shared = DataType.DT_FP32
    type_ = ScalarType(shared)
    result = BOOL if op in COMPARISONS else type_
    if isinstance(lhs, Const) and isinstance(rhs, Const):
        folded = _folded(op, lhs.value, rhs.value, result)
        if folded is not None:
            return folded
    if op in ("//", "%") and shared.is_float():
        raise TypeError(f"`{op}` of run-time floats has no device form")
    return Binary(op, convert(lhs, type_), convert(rhs, type_), result)


def _folded(op: str, lhs: Number, rhs: Number, result: ScalarType) -> Const | None:
    if (op in ("/", "//", "%") and rhs == 0) or (op in ("<<", ">>") and not 0 <= rhs <= _MAX_SHIFT):
        return None
    left = int(lhs) if isinstance(lhs, bool) else lhs
    right = int(rhs) if isinstance(rhs, bool) else rhs
    try:
        value = _FOLD[op](left, right)
    except OverflowError:  # floats beyond double
        return None
    if isinstance(value, bool):
        return Const(value, BOOL)
    if result.dtype.is_float():
        return Const(float(value), result)
    if result.dtype.bits() == 64:
        whole = number(value)
        return whole if whole.type == _UINT64 or not _fits(value, result.dtype) else Const(value, result)
    return Const(_c_number(value, result.dtype), result)


def _fits(value: int, dtype: DataType) -> bool:
    return dtype.int_min <= value <= dtype.int_max


def negate(operand: Expr) -> Expr:
    """`-x`: the dtype of x, BOOL becomes INT64."""
    dtype = kind_of(operand)
    type_ = _INT64 if dtype is DataType.DT_BOOL else ScalarType(dtype)
    if isinstance(operand, Const):
        value = -operand.value
        return number(value) if dtype.is_int() and dtype.bits() == 64 else number(value, type_.dtype)
    return Unary("-", convert(operand, type_), type_)


def invert(operand: Expr) -> Expr:
    """`~x` of an integer, BOOL becomes INT64. TypeError for floats."""
    dtype = kind_of(operand)
    if dtype.is_float():
        raise TypeError(f"`~` takes an integer, found {dtype.to_string()}")
    type_ = _INT64 if dtype is DataType.DT_BOOL else ScalarType(dtype)
    if isinstance(operand, Const):
        return number(~int(operand.value), type_.dtype)
    return Unary("~", convert(operand, type_), type_)


def truth(operand: Expr) -> Expr:
    """The zero test of a scalar as BOOL."""
    dtype = kind_of(operand)
    if dtype is DataType.DT_BOOL:
        return operand
    if isinstance(operand, Const):
        return Const(bool(operand.value), BOOL)
    return Binary("!=", operand, Const(0.0 if dtype.is_float() else 0, ScalarType(dtype)), BOOL)


def logical_not(operand: Expr) -> Expr:
    """`not x` as BOOL."""
    test = truth(operand)
    if isinstance(test, Const):
        return Const(not test.value, BOOL)
    if isinstance(test, Unary) and test.op == "not":
        return test.operand if kind_of(test.operand) is DataType.DT_BOOL else truth(test.operand)
    return Unary("not", test, BOOL)


def choose(cond: Expr, then: Expr, other: Expr) -> Expr:
    """`then if cond else other` of pure scalars or pointers of one type."""
    if isinstance(cond, Const):
        return then if cond.value else other
    return then if then == other else Choose(cond, then, other, then.type)


def divides(expr: Expr) -> bool:
    """Whether evaluating the expression may divide by zero."""
    return any(
        isinstance(node, Binary)
        and node.op in ("//", "%")
        and not (isinstance(node.rhs, Const) and node.rhs.value != 0)
        for node in walk.walk(expr)
    )


# --- symbolic numbers ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Sym(Operators):
    """A number as an expression, with Python's operators: facets compute with it as they would with ints.

    Numbers are INDEX, comparisons BOOL. Trivial operations vanish (x + 0, x * 1, x * 0). A run-time number cannot be
    branched on: `least`, `most` and `choose` stand for `min`, `max` and `if`.
    """

    expr: Expr

    @property
    def value(self) -> int | None:
        """The number when it is known."""
        return int(self.expr.value) if isinstance(self.expr, Const) else None

    def binary(self, op: str, other: Any, swapped: bool = False) -> Sym:
        """`self op other`, or `other op self`."""
        return _sym(op, other, self) if swapped else _sym(op, self, other)

    def __floordiv__(self, other: int | Sym) -> Sym:
        return _sym("//", self, other)

    def __rfloordiv__(self, other: int | Sym) -> Sym:
        return _sym("//", other, self)

    def __mod__(self, other: int | Sym) -> Sym:
        return _sym("%", self, other)

    def __neg__(self) -> Sym:
        return _sym("-", 0, self)

    def __and__(self, other: bool | Sym) -> Sym:
        return _logical("and", self, other)

    def __rand__(self, other: bool | Sym) -> Sym:
        return _logical("and", other, self)

    def __or__(self, other: bool | Sym) -> Sym:
        return _logical("or", self, other)

    def __ror__(self, other: bool | Sym) -> Sym:
        return _logical("or", other, self)

    def __bool__(self) -> bool:
        if self.value is None:
            raise TypeError("a run-time number cannot decide what is built")
        return bool(self.value)

    def least(self, other: int | Sym) -> Sym:
        """The smaller of the two."""
        return _sym("min", self, other)

    def most(self, other: int | Sym) -> Sym:
        """The larger of the two."""
        return _sym("max", self, other)

    def choose(self, then: int | Sym, other: int | Sym) -> Sym:
        """`then` where this comparison holds, else `other`."""
        return Sym(choose(truth(self.expr), expr_of(then), expr_of(other)))


def sym(value: int | Expr | Sym) -> Sym:
    """A symbolic number from an int or a scalar expression (converted to INDEX)."""
    if isinstance(value, Sym):
        return Sym(convert(value.expr, INDEX))
    return Sym(number(int(value))) if isinstance(value, int) else Sym(convert(value, INDEX))


def expr_of(value: int | Sym) -> Expr:
    """The INDEX expression behind a symbolic or plain number."""
    return sym(value).expr


def _logical(op: str, lhs: bool | Sym, rhs: bool | Sym) -> Sym:
    sides = [truth(side.expr) if isinstance(side, Sym) else Const(bool(side), BOOL) for side in (lhs, rhs)]
    known = [side for side in sides if isinstance(side, Const)]
    if not known:
        return Sym(Binary(op, sides[0], sides[1], BOOL))
    if bool(known[0].value) is (op == "or"):
        return Sym(known[0])
    return Sym(sides[1] if sides[0] is known[0] else sides[0])


def _sym(op: str, lhs: int | Sym, rhs: int | Sym) -> Sym:
    a, b = sym(lhs), sym(rhs)
    match op, a.value, b.value:
        case "+", 0, None:
            return b
        case "+" | "-", None, 0:
            return a
        case "*", 1, None:
            return b
        case "*" | "//", None, 1:
            return a
        case ("*", 0, None) | ("*", None, 0) | ("//" | "%", 0, None):
            return Sym(Const(0, INDEX))
        case "%", None, 1:
            return Sym(Const(0, INDEX))
    return Sym(binary(op, a.expr, b.expr))
