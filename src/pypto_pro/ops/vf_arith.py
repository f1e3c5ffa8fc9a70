"""Lane arithmetic of vector functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np

from pypto_pro.dtypes import DataType
from pypto_pro.enums import CastLayout, MergeMode
from pypto_pro.ops.builder import Lanes, NativeMask, NativeReg, VectorUnitBuilder
from pypto_pro.ops.entry import Keyword, OpEntry, Tolerance
from pypto_pro.ops.operands import Array
from pypto_pro.ops.vf_operands import MaskIn, Merge, RegIn, Registers, defvf, merged

EXP_ULPS = Tolerance("2 ulp of the result", 3e-7, 0.0, "native evaluates a polynomial, numpy calls its own library")

Placement = Annotated[CastLayout | None, Keyword(enum=CastLayout)]
ResultDtype = Annotated[DataType | None, Keyword(enum=DataType)]


def _binary(
    name: str, formula: str, compute: Callable[[Array, Array], Any], note: str,
    lanes: Callable[[VectorUnitBuilder, Lanes, Lanes], Lanes],
) -> OpEntry:
    """An op `r = f(src0, src1)` lane by lane; `lanes` is f for native code."""

    @defvf(f"vf.{name}", family="vf.arith")
    def entry(vf: Registers, src0: RegIn, src1: RegIn, mask: MaskIn, *, mode: Merge = None) -> Array:
        return merged(vf, np.asarray(compute(src0.lanes, src1.lanes)), mask, mode)

    @entry.lower
    def _(k: VectorUnitBuilder, src0: NativeReg, src1: NativeReg, mask: NativeMask, mode: MergeMode | None) -> None:
        k.give(lanes(k, src0.lanes, src1.lanes), mask, mode)

    entry.doc = f"r[i] = {formula} in active lanes. {note}"
    return entry


def _quotient(lhs: Array, rhs: Array) -> Array:
    """Division in the lanes' dtype; integers truncate, x / 0 is all ones, the most negative number / -1 wraps."""
    if lhs.dtype.kind not in "iu":
        return lhs / rhs
    safe = np.where((rhs == 0) | (rhs == -1), np.ones_like(rhs), rhs) if lhs.dtype.kind == "i" else np.maximum(rhs, 1)
    floored = lhs // safe
    truncated = floored + ((floored < 0) & (floored * safe != lhs)).astype(lhs.dtype)
    negated = np.where(rhs == -1, -lhs, truncated) if lhs.dtype.kind == "i" else truncated
    return np.where(rhs == 0, ~np.zeros_like(lhs), negated)


def _lane_quotient(k: VectorUnitBuilder, lhs: Lanes, rhs: Lanes) -> Lanes:
    quotient = lhs / rhs
    return quotient if lhs.dtype.is_float() else (rhs == 0).select(-1, quotient)


ROUNDS = "Integers wrap, floats round to nearest even."
add = _binary("add", "src0[i] + src1[i]", np.add, ROUNDS, lambda k, a, b: a + b)
sub = _binary("sub", "src0[i] - src1[i]", np.subtract, ROUNDS, lambda k, a, b: a - b)
mul = _binary("mul", "src0[i] * src1[i]", np.multiply, ROUNDS, lambda k, a, b: a * b)
div = _binary("div", "src0[i] / src1[i]", _quotient, "Integers truncate.", _lane_quotient)
maximum = _binary("max", "max(src0[i], src1[i])", np.maximum, "NaN propagates.", lambda k, a, b: k.max(a, b))
minimum = _binary("min", "min(src0[i], src1[i])", np.minimum, "NaN propagates.", lambda k, a, b: k.min(a, b))


@defvf("vf.exp_sub", family="vf.composite", tolerance=EXP_ULPS)
def exp_sub(
    vf: Registers, src: RegIn, max_val: RegIn, mask: MaskIn, *, layout: Placement = None, dtype: ResultDtype = None
) -> Array:
    """r[k] = exp(src - max_val) in FP32; FP16 sources use lanes 2k (layout ZERO) or 2k + 1 (ONE)."""
    if src.dtype is DataType.DT_FP32:
        return merged(vf, np.exp(src.lanes - max_val.lanes), mask)
    part = 1 if layout is CastLayout.ONE else 0
    low, high = (reg.lanes[part::2].astype(np.float32) for reg in (src, max_val))
    return np.where(mask.lanes(2)[part::2], np.exp(low - high), np.float32(0))


@exp_sub.lower
def _(
    k: VectorUnitBuilder, src: NativeReg, max_val: NativeReg, mask: NativeMask, layout: CastLayout | None, **_: Any
) -> Any:
    if src.dtype is DataType.DT_FP32:
        k.give(k.exp(src.lanes - max_val.lanes), mask)
        return None
    part = [2 * lane + (layout is CastLayout.ONE) for lane in range(src.count // 2)]
    low, high, active = (k.shuffle(lanes, part) for lanes in (src.lanes, max_val.lanes, mask.lanes(2)))
    k.give(active.select(k.exp(low - high), 0.0))
    return None
