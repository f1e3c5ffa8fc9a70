"""`Lanes`: a vector of values inside a loop of an op function, with Python operators.

Floats of every width are FP32 lanes and are rounded where they are stored (or by `rounded`); integers keep their width
and wrap; comparisons give BOOL lanes. A number or `Scalar` on the other side is converted to this side's dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import llvmlite.ir as ir

from pypto_pro.dtypes import DataType
from pypto_pro.ir.nodes import COMPARISONS
from pypto_pro.ir.operators import Operators
from pypto_pro.native import codecs, scalars
from pypto_pro.native.emit import I32, Code, Value, splat, undefined, vector
from pypto_pro.native.scalars import Scalar

D = DataType


def arithmetic(dtype: DataType) -> DataType:
    """The dtype lanes of stored `dtype` compute in."""
    return D.DT_FP32 if dtype.is_float() else dtype


def spread(code: Code, value: Value, count: int) -> Value:
    """A scalar SSA value in every lane."""
    type_ = vector(count, value.type)
    if isinstance(value, ir.Constant):
        return splat(type_, value.constant if value.constant is not None else 0)
    first = code.b.insert_element(undefined(type_), value, I32(0))
    return code.b.shuffle_vector(first, undefined(type_), splat(vector(count, I32), 0))


def filled(code: Code, number: Scalar | int | float, dtype: DataType, count: int) -> Lanes:
    """A number, converted to `dtype` as C does (and rounded), in every lane."""
    if isinstance(number, Scalar):
        value = codecs.convert(code, number.value, number.dtype, dtype)
    else:
        value = codecs.constant(number, dtype)
    return Lanes(code, spread(code, value, count), arithmetic(dtype))


@dataclass(frozen=True, eq=False)
class Lanes(Operators):
    """`value` is an LLVM vector of `codecs.value_type(dtype)`."""

    code: Code
    value: Value
    dtype: DataType

    @property
    def count(self) -> int:
        """Number of lanes."""
        return int(self.value.type.count)

    def other(self, other: Any) -> Value:
        """Another operand as lanes of this dtype."""
        if isinstance(other, Lanes):
            if other.dtype is self.dtype:
                return other.value
            return codecs.convert(self.code, other.value, other.dtype, self.dtype)
        if isinstance(other, Scalar):
            converted = codecs.convert(self.code, other.value, other.dtype, self.dtype)
            return spread(self.code, converted, self.count)
        return spread(self.code, codecs.constant(other, self.dtype), self.count)

    def new(self, value: Value, dtype: DataType | None = None) -> Lanes:
        """Lanes of another value."""
        return Lanes(self.code, value, dtype or self.dtype)

    def binary(self, op: str, other: Any, swapped: bool = False) -> Lanes:
        lhs, rhs = self.value, self.other(other)
        if swapped:
            lhs, rhs = rhs, lhs
        dtype = D.DT_BOOL if op in COMPARISONS else self.dtype
        return self.new(scalars.binary(self.code, op, lhs, rhs, self.dtype), dtype)

    def __truediv__(self, other: Any) -> Lanes:
        return self.binary("/", other)

    def __rtruediv__(self, other: Any) -> Lanes:
        return self.binary("/", other, swapped=True)

    def __mod__(self, other: Any) -> Lanes:
        return self.binary("%", other)

    def __xor__(self, other: Any) -> Lanes:
        return self.binary("^", other)

    def __lshift__(self, other: Any) -> Lanes:
        return self.binary("<<", other)

    def __rshift__(self, other: Any) -> Lanes:
        return self.binary(">>", other)

    def __invert__(self) -> Lanes:
        return self.new(self.code.b.not_(self.value))

    def __neg__(self) -> Lanes:
        return self.new(scalars.unary(self.code, "-", self.value, self.dtype))

    def __bool__(self) -> bool:
        raise TypeError("native lanes have no value yet: use `select`, not `if`")

    def to(self, dtype: DataType) -> Lanes:
        """C conversion (floats truncate to integers, saturating; integers wrap)."""
        target = arithmetic(dtype)
        return self.new(codecs.convert(self.code, self.value, self.dtype, target), target)

    def rounded(self, dtype: DataType) -> Lanes:
        """FP32 lanes rounded to what `dtype` can hold."""
        return self.new(codecs.round_to(self.code, self.value, dtype))

    def bits_as(self, dtype: DataType) -> Lanes:
        """The same bits as lanes of another dtype of equal width (FP32 <-> INT32)."""
        type_ = vector(self.count, codecs.value_type(dtype))
        return self.new(self.code.b.bitcast(self.value, type_), dtype)

    def part(self, start: int, count: int) -> Lanes:
        """Lanes [start, start + count)."""
        mask = ir.Constant(vector(count, I32), [I32(start + k) for k in range(count)])
        return self.new(self.code.b.shuffle_vector(self.value, undefined(self.value.type), mask))

    def lane(self, index: int) -> Scalar:
        """One lane as a scalar."""
        return Scalar(self.code, self.code.b.extract_element(self.value, I32(index)), self.dtype)

    def select(self, then: Any, other: Any) -> Lanes:
        """`then` where these BOOL lanes are true, `other` elsewhere."""
        model = then if isinstance(then, Lanes) else other
        return model.new(self.code.b.select(self.value, model.other(then), model.other(other)))

    def halved(self, combine: Callable[[Lanes, Lanes], Lanes]) -> Scalar:
        """All lanes combined into one: the upper half onto the lower half, again and again."""
        lanes = self
        while lanes.count > 1:
            half = lanes.count // 2
            lanes = combine(lanes.part(0, half), lanes.part(half, half))
        return lanes.lane(0)


def maximum(lhs: Any, rhs: Any) -> Lanes:
    """Larger of two; NaN when either is NaN."""
    return _extreme(lhs, rhs, ">", "max")


def minimum(lhs: Any, rhs: Any) -> Lanes:
    """Smaller of two; NaN when either is NaN."""
    return _extreme(lhs, rhs, "<", "min")


def _extreme(lhs: Any, rhs: Any, better: str, name: str) -> Lanes:
    model = lhs if isinstance(lhs, Lanes) else rhs
    code, b = model.code, model.code.b
    left, right = model.other(lhs), model.other(rhs)
    if not model.dtype.is_float():
        return model.new(scalars.binary(code, name, left, right, model.dtype))
    picked = b.select(b.fcmp_ordered(better, left, right), left, right)  # the right one when either is NaN
    return model.new(b.select(b.fcmp_unordered("uno", left, left), left, picked))


def fused(a: Any, b: Any, c: Any) -> Lanes:
    """a * b + c with one rounding."""
    model = next(x for x in (a, b, c) if isinstance(x, Lanes))
    return model.new(model.code.intrinsic("fma", model.other(a), model.other(b), model.other(c)))
