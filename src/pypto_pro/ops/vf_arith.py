"""Lane arithmetic of vector functions: two registers, or a register and a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pypto_pro.dtypes import DataType
from pypto_pro.enums import MergeMode
from pypto_pro.ops import vf_rules as rules
from pypto_pro.ops.entry import OpEntry
from pypto_pro.ops.vec_elementwise import element
from pypto_pro.ops.vf_builder import Lanes, NativeMask, NativeReg, NativeScalar, VectorUnitBuilder
from pypto_pro.ops.vf_operands import Array, MaskIn, Merge, RegIn, Registers, Scalar, defvf, merged

D = DataType
WORDS = (*rules.INTS[2:], *rules.FLOATS)
"""No 8-bit lanes: the device multiplies no bytes."""
MULS_SCALARS = (
    D.DT_INT16, D.DT_UINT16, D.DT_INT32, D.DT_UINT32, D.DT_INT64, D.DT_UINT64, D.DT_FP16, D.DT_FP32,
)  # fmt: skip
LanesOf = Callable[[VectorUnitBuilder, Lanes, Any], Lanes]


def _binary(
    name: str, formula: str, compute: Callable[[Array, Array], Any], note: str, lanes: LanesOf,
    dtypes: tuple[DataType, ...] = rules.NUMBERS, *, merges: bool = False,
) -> OpEntry:
    """An op `r = f(src0, src1)` lane by lane; `lanes` is f for native code."""

    @defvf(f"vf.{name}", family="vf.arith")
    def entry(vf: Registers, src0: RegIn, src1: RegIn, mask: MaskIn, *, mode: Merge = None) -> Array:
        return merged(vf, np.asarray(compute(src0.lanes, src1.lanes)), mask, mode)

    @entry.rules
    def _(src0: Any, src1: Any, mask: Any, mode: MergeMode | None) -> None:
        rules.registers(dtypes, src0, src1)
        if not merges:
            rules.zeroing(mode)

    @entry.lower
    def _(k: VectorUnitBuilder, src0: NativeReg, src1: NativeReg, mask: NativeMask, mode: MergeMode | None) -> None:
        k.give(lanes(k, src0.lanes, src1.lanes), mask, mode)

    entry.doc = f"r[i] = {formula} in active lanes, {'0 or the old lane' if merges else '0'} elsewhere. {note}"
    return entry


def _with_scalar(
    name: str, formula: str, compute: Callable[[Array, Any], Any], note: str, lanes: LanesOf,
    dtypes: tuple[DataType, ...] = rules.NUMBERS, scalars: tuple[DataType, ...] = rules.SCALARS,
) -> OpEntry:
    """An op `r = f(src, T(scalar))` lane by lane."""

    @defvf(f"vf.{name}", family="vf.arith")
    def entry(vf: Registers, src: RegIn, scalar: Scalar, mask: MaskIn, *, mode: Merge = None) -> Array:
        return merged(vf, np.asarray(compute(src.lanes, element(scalar, src.dtype))), mask)

    @entry.rules
    def _(src: Any, scalar: Any, mask: Any, mode: MergeMode | None) -> None:
        rules.registers(dtypes, src)
        literal = (D.DT_INDEX,) if name == "muls" and rules.dtype_of(src).is_int() else ()
        rules.scalar(scalar, (*scalars, *literal))
        rules.zeroing(mode)

    @entry.lower
    def _(k: VectorUnitBuilder, src: NativeReg, scalar: NativeScalar, mask: NativeMask, mode: MergeMode | None) -> None:
        k.give(lanes(k, src.lanes, k.full(scalar, src.dtype)), mask)

    entry.doc = f"r[i] = {formula} in active lanes, 0 elsewhere; the scalar is converted to T first. {note}"
    return entry


def quotient(lhs: Array, rhs: Array) -> Array:
    """Division in the lanes' dtype; integers truncate, x / 0 is all ones, the most negative number / -1 wraps."""
    if lhs.dtype.kind not in "iu":
        return np.asarray(lhs / rhs)
    if lhs.dtype.kind == "u":
        return np.where(rhs == 0, ~np.zeros_like(lhs), lhs // np.maximum(rhs, 1))
    safe = np.where((rhs == 0) | (rhs == -1), np.ones_like(rhs), rhs)
    floored = lhs // safe
    truncated = floored + ((floored < 0) & (floored * safe != lhs)).astype(lhs.dtype)
    return np.where(rhs == 0, ~np.zeros_like(lhs), np.where(rhs == -1, -lhs, truncated))


def _lane_quotient(k: VectorUnitBuilder, lhs: Lanes, rhs: Lanes) -> Lanes:
    found = lhs / rhs
    return found if lhs.dtype.is_float() else (rhs == 0).select(-1, found)


def larger(lhs: Array, rhs: Any) -> Array:
    """Larger of two; NaN when either is, +0 above -0."""
    return _extreme(np.maximum, np.bitwise_and, lhs, rhs)


def smaller(lhs: Array, rhs: Any) -> Array:
    """Smaller of two; NaN when either is, -0 below +0."""
    return _extreme(np.minimum, np.bitwise_or, lhs, rhs)


def _extreme(pick: np.ufunc, of_equal: np.ufunc, lhs: Array, rhs: Any) -> Array:
    """Equal floats differ in the sign of zero at most: their patterns joined by `of_equal` are the result."""
    found = np.asarray(pick(lhs, rhs), lhs.dtype)
    if lhs.dtype.kind in "iu":
        return found
    bits = f"u{lhs.dtype.itemsize}"
    joined = of_equal(lhs.view(bits), np.asarray(rhs, lhs.dtype).view(bits)).view(lhs.dtype)
    return np.where(lhs == rhs, joined, found)


ROUNDS = "Integers wrap, floats round to nearest even."
NAN_WINS = "NaN when either is NaN; -0 counts as less than +0."

add = _binary("add", "src0[i] + src1[i]", np.add, ROUNDS, lambda k, a, b: a + b, merges=True)
sub = _binary("sub", "src0[i] - src1[i]", np.subtract, ROUNDS, lambda k, a, b: a - b)
mul = _binary("mul", "src0[i] * src1[i]", np.multiply, ROUNDS, lambda k, a, b: a * b, WORDS)
div = _binary(
    "div", "src0[i] / src1[i]", quotient, "Integers truncate; x / 0 is all ones, no trap.", _lane_quotient,
    (*rules.INTS, *rules.SINGLES),
)  # fmt: skip
maximum = _binary(
    "max", "max(src0[i], src1[i])", larger, NAN_WINS, lambda k, a, b: k.larger(a, b), merges=True
)
minimum = _binary(
    "min", "min(src0[i], src1[i])", smaller, NAN_WINS, lambda k, a, b: k.smaller(a, b), merges=True
)

adds = _with_scalar("adds", "src[i] + T(scalar)", np.add, ROUNDS, lambda k, a, b: a + b)
subs = _with_scalar("subs", "src[i] - T(scalar)", np.subtract, ROUNDS, lambda k, a, b: a - b)
muls = _with_scalar(
    "muls", "src[i] * T(scalar)", np.multiply, ROUNDS, lambda k, a, b: a * b, (*rules.INTS[2:], *rules.SINGLES),
    MULS_SCALARS,
)  # fmt: skip
maxs = _with_scalar("maxs", "max(src[i], T(scalar))", larger, NAN_WINS, lambda k, a, b: k.larger(a, b))
mins = _with_scalar("mins", "min(src[i], T(scalar))", smaller, NAN_WINS, lambda k, a, b: k.smaller(a, b))
