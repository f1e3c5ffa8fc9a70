"""Scalar arithmetic of the language in LLVM, and `Scalar`, a number under construction with Python operators.

IR operators act on operands of one type (ir.nodes.Binary): integers wrap, // and % truncate, floats round to nearest
even in their type. What C leaves undefined is defined here: x // 0 = 0, x % 0 = x, shifts by the width or more give 0
(or the sign).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import llvmlite.ir as ir

from pypto_pro.dtypes import DataType
from pypto_pro.ir.nodes import COMPARISONS
from pypto_pro.ir.operators import Operators
from pypto_pro.native import codecs
from pypto_pro.native.emit import I1, I64, Code, Value, splat

D = DataType


def binary(code: Code, op: str, lhs: Value, rhs: Value, dtype: DataType) -> Value:
    """`lhs op rhs` for operands of `dtype`; comparisons and `and`/`or` give i1."""
    if op in COMPARISONS:
        return compare(code, op, lhs, rhs, dtype)
    if op in ("and", "or"):
        left, right = codecs.nonzero(code, lhs, dtype), codecs.nonzero(code, rhs, dtype)
        return code.b.and_(left, right) if op == "and" else code.b.or_(left, right)
    if dtype.is_float():
        return codecs.round_to(code, _float(code, op, lhs, rhs), dtype)
    return _integer(code, op, lhs, rhs, dtype.is_signed_int())


def compare(code: Code, op: str, lhs: Value, rhs: Value, dtype: DataType) -> Value:
    """i1; comparisons with NaN are false but for `!=`."""
    if dtype.is_float():
        return code.b.fcmp_unordered(op, lhs, rhs) if op == "!=" else code.b.fcmp_ordered(op, lhs, rhs)
    make = code.b.icmp_signed if dtype.is_signed_int() else code.b.icmp_unsigned
    return make(op, lhs, rhs)


def _float(code: Code, op: str, lhs: Value, rhs: Value) -> Value:
    b = code.b
    match op:
        case "+":
            return b.fadd(lhs, rhs)
        case "-":
            return b.fsub(lhs, rhs)
        case "*":
            return b.fmul(lhs, rhs)
        case "/":
            return b.fdiv(lhs, rhs)
        case "//":
            return code.intrinsic("trunc", b.fdiv(lhs, rhs))
        case "%":
            return b.frem(lhs, rhs)
        case "min":
            return b.select(b.fcmp_ordered("<", rhs, lhs), rhs, lhs)
        case "max":
            return b.select(b.fcmp_ordered(">", rhs, lhs), rhs, lhs)
    raise AssertionError(op)


def _integer(code: Code, op: str, lhs: Value, rhs: Value, signed: bool) -> Value:
    b = code.b
    simple = {"+": b.add, "-": b.sub, "*": b.mul, "&": b.and_, "|": b.or_, "^": b.xor}
    if op in simple:
        return simple[op](lhs, rhs)
    if op in ("min", "max"):
        return code.intrinsic(f"{'s' if signed else 'u'}{op}", lhs, rhs)
    if op in ("<<", ">>"):
        return shift(code, op, lhs, rhs, signed)
    quotient, remainder = divide(code, lhs, rhs, signed)
    return remainder if op == "%" else quotient


def shift(code: Code, op: str, lhs: Value, rhs: Value, signed: bool) -> Value:
    """Shift by any amount; the width or more (or a negative amount) shifts everything out."""
    b = code.b
    width = getattr(lhs.type, "element", lhs.type).width
    most = splat(rhs.type, width - 1)
    within = b.icmp_unsigned("<=", rhs, most)
    amount = b.select(within, rhs, most)
    if op == ">>" and signed:
        return b.ashr(lhs, amount)
    moved = b.shl(lhs, amount) if op == "<<" else b.lshr(lhs, amount)
    return b.select(within, moved, splat(lhs.type, 0))


def divide(code: Code, lhs: Value, rhs: Value, signed: bool) -> tuple[Value, Value]:
    """(quotient toward zero, remainder); x // 0 = 0, x % 0 = x, and the most negative number // -1 wraps."""
    b = code.b
    zero, one = splat(rhs.type, 0), splat(rhs.type, 1)
    by_zero = b.icmp_unsigned("==", rhs, zero)
    safe = b.select(by_zero, one, rhs)
    if not signed:
        quotient = b.udiv(lhs, safe)
    else:
        negated = b.icmp_unsigned("==", rhs, splat(rhs.type, -1))
        quotient = b.select(negated, b.sub(zero, lhs), b.sdiv(lhs, b.select(negated, one, safe)))
    quotient = b.select(by_zero, zero, quotient)
    return quotient, b.sub(lhs, b.mul(quotient, rhs))


def unary(code: Code, op: str, value: Value, dtype: DataType) -> Value:
    """`-`, `~` or `not`."""
    b = code.b
    match op:
        case "-":
            return b.fneg(value) if dtype.is_float() else b.neg(value)
        case "~":
            return b.not_(value)
        case "not":
            return b.not_(codecs.nonzero(code, value, dtype))
    raise AssertionError(op)


@dataclass(frozen=True, eq=False)
class Scalar(Operators):
    """A scalar while native code is generated: an SSA value of `dtype` with the operators of a Python number.

    Facets of op entries compute with it where they would with ints: `//` and `%` floor, comparisons give a BOOL
    `Scalar`. A Python number on the other side takes this one's dtype.
    """

    code: Code
    value: Value
    dtype: DataType = DataType.DT_INDEX

    def _other(self, other: Any) -> Value:
        if isinstance(other, Scalar):
            return codecs.convert(self.code, other.value, other.dtype, self.dtype)
        return codecs.constant(other, self.dtype)

    def _with(self, value: Value) -> Scalar:
        return Scalar(self.code, value, self.dtype)

    def binary(self, op: str, other: Any, swapped: bool = False) -> Scalar:
        lhs, rhs = self.value, self._other(other)
        if swapped:
            lhs, rhs = rhs, lhs
        simpler = _folded(op, lhs, rhs) if self.dtype is D.DT_INDEX else None
        if simpler is not None:
            return self._with(simpler)
        dtype = D.DT_BOOL if op in COMPARISONS else self.dtype
        return Scalar(self.code, binary(self.code, op, lhs, rhs, self.dtype), dtype)

    def __floordiv__(self, other: Any) -> Scalar:
        return self._floor(other)[0]

    def __mod__(self, other: Any) -> Scalar:
        return self._floor(other)[1]

    def _floor(self, other: Any) -> tuple[Scalar, Scalar]:
        """Quotient and remainder as Python's `divmod`."""
        code, b = self.code, self.code.b
        if isinstance(other, int) and other > 0 and isinstance(self.value, ir.Constant) and self.dtype is D.DT_INDEX:
            known = divmod(_signed(self.value.constant), other)
            return self._with(ir.Constant(I64, known[0])), self._with(ir.Constant(I64, known[1]))
        if isinstance(other, int) and other > 0 and other & (other - 1) == 0:
            quotient = b.ashr(self.value, splat(self.value.type, other.bit_length() - 1))
            return self._with(quotient), self._with(b.and_(self.value, splat(self.value.type, other - 1)))
        divisor = self._other(other)
        quotient, remainder = divide(code, self.value, divisor, signed=True)
        zero = splat(divisor.type, 0)
        differs = b.icmp_signed("<", b.xor(remainder, divisor), zero)
        inexact = b.and_(b.icmp_signed("!=", remainder, zero), differs)
        quotient = b.select(inexact, b.sub(quotient, splat(divisor.type, 1)), quotient)
        remainder = b.select(inexact, b.add(remainder, divisor), remainder)
        return self._with(quotient), self._with(remainder)

    def __invert__(self) -> Scalar:
        return self._with(self.code.b.not_(self.value))

    def __neg__(self) -> Scalar:
        return self._with(unary(self.code, "-", self.value, self.dtype))

    def __bool__(self) -> bool:
        raise TypeError("a native scalar has no value yet: branch with the builder, not with `if`")

    def least(self, other: Any) -> Scalar:
        """The smaller of two numbers."""
        return self.binary("min", other)

    def most(self, other: Any) -> Scalar:
        """The larger of two numbers."""
        return self.binary("max", other)

    def to(self, dtype: DataType) -> Scalar:
        """C conversion."""
        return Scalar(self.code, codecs.convert(self.code, self.value, self.dtype, dtype), dtype)

    def choose(self, then: Any, other: Any) -> Scalar:
        """`then if self else other` for a BOOL scalar; one of the two must be a `Scalar`."""
        model = then if isinstance(then, Scalar) else other
        left, right = (x.value if isinstance(x, Scalar) else codecs.constant(x, model.dtype) for x in (then, other))
        return Scalar(self.code, self.code.b.select(self.value, left, right), model.dtype)


def _folded(op: str, lhs: Value, rhs: Value) -> Value | None:
    """INDEX arithmetic with constants that needs no instruction; None for the rest. Less text, faster compilation."""
    left, right = (v.constant if isinstance(v, ir.Constant) else None for v in (lhs, rhs))
    match op, left, right:
        case "+", 0, _:
            return rhs
        case ("+" | "-"), _, 0:
            return lhs
        case "*", 1, _:
            return rhs
        case "*", _, 1:
            return lhs
        case "*", _, 0:
            return rhs
        case "*", 0, _:
            return lhs
    if left is None or right is None or op not in _PYTHON:
        return None
    return ir.Constant(I64, _signed(_PYTHON[op](_signed(left), _signed(right))))


_PYTHON: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "min": min, "max": max,
}  # fmt: skip


def _signed(number: int) -> int:
    """A 64-bit pattern as a signed number."""
    number &= (1 << 64) - 1
    return number - (1 << 64) if number >> 63 else number


def index_value(code: Code, number: Any) -> Value:
    """An i64 from a Python int or a `Scalar`."""
    if isinstance(number, Scalar):
        return codecs.convert(code, number.value, number.dtype, D.DT_INDEX)
    return ir.Constant(I64, int(number))


def truth(number: Any) -> Value:
    """An i1 from a Python bool or a BOOL `Scalar`."""
    return number.value if isinstance(number, Scalar) else ir.Constant(I1, int(number))
