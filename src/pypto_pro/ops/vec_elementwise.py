"""Tile-vector arithmetic, element by element: add sub mul div rem, and the three-operand sums addc subc addsc subsc.

Shared rules (spec: meta.tile_vector_rules): the valid shape of `out` governs, sources are read over it; integers wrap,
floats round to nearest even in the tile dtype; in place is allowed; elements outside the valid shape keep their bytes.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from pypto_pro.dtypes import DataType
from pypto_pro.enums import PipeType, RoundMode
from pypto_pro.ops import rules
from pypto_pro.ops.builder import Builder, Lanes, NativeScalar, NativeTile, Source
from pypto_pro.ops.entry import OpEntry, defop
from pypto_pro.ops.operands import Array, ScalarIn, ScalarInfo, TileArg, TileInfo, VecIn, VecOrScalar, VecOut

WORDS = rules.INTS[2:]
"""Integers of 16 to 64 bits: the device multiplies and divides no bytes."""


def element(value: int | float, dtype: DataType) -> Any:
    """A scalar operand as one element of `dtype`, by C conversion.

    Ints wrap in integers and become FP32 before they are rounded to a narrower float; floats truncate to integers, to
    the nearest end of the range when outside, NaN to 0. BOOL is "not zero".
    """
    if dtype.is_float():
        exact: Any = value
        if isinstance(value, int):
            exact = np.uint64(value) if value >= 1 << 63 else np.int64(value)
        return np.asarray(exact).astype(np.float32).astype(dtype.numpy)
    if dtype is DataType.DT_BOOL:
        value = value != 0
    if isinstance(value, float):
        low, high = dtype.int_min, dtype.int_max
        value = 0 if math.isnan(value) else math.trunc(min(max(value, float(low)), float(high)))
        value = min(max(value, low), high)
    bits = int(value) & ((1 << dtype.bits()) - 1)
    return np.asarray(bits, dtype.bits_dtype).view(dtype.numpy)


def source(operand: TileArg | int | float, out: TileArg) -> Any:
    """A tile-or-scalar operand over the domain of `out`."""
    return operand.over(out) if isinstance(operand, TileArg) else element(operand, out.dtype)


def c_divide(lhs: Array, rhs: Any) -> Array:
    """Division in the element dtype: floats IEEE, ints truncated toward zero; an int divided by zero gives 0."""
    if lhs.dtype.kind not in "iu":
        return np.asarray(lhs / rhs)
    one = lhs.dtype.type(1)
    safe = np.where(rhs == 0, one, rhs)
    quotient: Array = lhs // safe
    if lhs.dtype.kind == "i":
        quotient += (quotient < 0) & (quotient * safe != lhs)
    return np.where(rhs == 0, lhs.dtype.type(0), quotient)


def floored_remainder(lhs: Array, rhs: Any) -> Array:
    """lhs - floor(lhs / rhs) * rhs, with the sign of rhs; narrow floats round once. An int over zero gives lhs."""
    if lhs.dtype.kind in "iu":
        return np.where(rhs == 0, lhs, np.remainder(lhs, np.where(rhs == 0, lhs.dtype.type(1), rhs)))
    a, b = lhs.astype(np.float32), np.asarray(rhs).astype(np.float32)
    return np.asarray(a - np.floor(a / b) * b).astype(lhs.dtype)


def binary(
    name: str, formula: str, compute: Callable[[Array, Any], Array], dtypes: tuple[DataType, ...], note: str,
    family: str = "tile.elementwise", lanes: Callable[[Any, Any], Any] | None = None,
) -> OpEntry:
    """An op `out = f(lhs, rhs)` whose right operand is a tile or a scalar; `lanes` is f for native code."""

    @defop(f"pl.{name}", pipe=PipeType.V, family=family)
    def entry(out: VecOut, lhs: VecIn, rhs: VecOrScalar) -> None:
        out.put(compute(lhs.over(out), source(rhs, out)))

    @entry.rules
    def _(out: TileInfo, lhs: TileInfo, rhs: TileInfo | ScalarInfo) -> None:
        rules.need_tile(lhs, "the left operand")
        rules.elementwise(dtypes, out, lhs, rhs)

    if lanes is not None:

        @entry.lower
        def _(k: Builder, out: NativeTile, lhs: NativeTile, rhs: Source) -> Any:
            return k.elementwise(out, (lhs, rhs), lanes)

    entry.doc = f"`out = {formula}` over the valid shape of `out`; rhs is a tile or a scalar. {note}"
    return entry


WRAPS = "Integers wrap, floats round to nearest even."
add = binary("add", "lhs + rhs", np.add, rules.NUMBERS, WRAPS, lanes=operator.add)
sub = binary("sub", "lhs - rhs", np.subtract, rules.NUMBERS, WRAPS, lanes=operator.sub)
mul = binary("mul", "lhs * rhs", np.multiply, (*WORDS, *rules.FLOATS), f"{WRAPS} No 8-bit integers.",
             lanes=operator.mul)
add.any_width = sub.any_width = mul.any_width = True
div = binary(
    "div", "lhs / rhs", c_divide, (*WORDS, *rules.HALF_AND_SINGLE),
    "Integers truncate (x / 0 = 0), floats follow IEEE. No BF16, no 8-bit integers.", lanes=operator.truediv,
)
rem = binary(
    "rem", "lhs - floor(lhs / rhs) * rhs", floored_remainder, (*WORDS, *rules.HALF_AND_SINGLE),
    "The result has the sign of rhs.", "tile.legacy",
)


@rem.lower
def _(k: Builder, out: NativeTile, lhs: NativeTile, rhs: Source) -> Any:
    def remainder(a: Lanes, b: Lanes) -> Lanes:
        if a.dtype.is_float():
            whole = k.integral(a / b, RoundMode.CAST_FLOOR)
            assert whole is not None
            return a - whole * b
        rest = a % b  # sign of a; a for b = 0
        return ((rest != 0) & ((rest ^ b) < 0)).select(rest + b, rest) if a.dtype.is_signed_int() else rest

    return k.elementwise(out, (lhs, rhs), remainder)


SUM_DTYPES = (*rules.INTS[2:6], *rules.FLOATS)


Combine = Callable[[Any, Any], Any]


def _three(name: str, formula: str, first: Combine, family: str) -> OpEntry:
    """`out = (a first b) + c` with b a tile; two roundings."""

    @defop(f"pl.{name}", pipe=PipeType.V, family=family)
    def entry(out: VecOut, a: VecIn, b: VecIn, c: VecIn) -> None:
        out.put(first(a.over(out), b.over(out)) + c.over(out))

    @entry.rules
    def _(out: TileInfo, a: TileInfo, b: TileInfo, c: TileInfo) -> None:
        rules.elementwise(SUM_DTYPES, out, a, b, c)

    @entry.lower
    def _(k: Builder, out: NativeTile, a: NativeTile, b: NativeTile, c: NativeTile) -> Any:
        return k.elementwise(out, (a, b, c), lambda x, y, z: first(x, y).rounded(out.dtype) + z)

    entry.doc = f"`out = {formula}` over the valid shape of `out`, each step rounded; no carry. Inputs are unchanged."
    return entry


def _three_scalar(name: str, formula: str, first: Combine) -> OpEntry:
    """`out = (a first scalar) + c`; two roundings."""

    @defop(f"pl.{name}", pipe=PipeType.V, family="tile.legacy")
    def entry(out: VecOut, a: VecIn, scalar: ScalarIn, c: VecIn) -> None:
        out.put(first(a.over(out), element(scalar, out.dtype)) + c.over(out))

    @entry.rules
    def _(out: TileInfo, a: TileInfo, scalar: ScalarInfo, c: TileInfo) -> None:
        rules.elementwise(SUM_DTYPES, out, a, c)

    @entry.lower
    def _(k: Builder, out: NativeTile, a: NativeTile, scalar: NativeScalar, c: NativeTile) -> Any:
        return k.elementwise(out, (a, scalar, c), lambda x, y, z: first(x, y).rounded(out.dtype) + z)

    entry.doc = f"`out = {formula}` over the valid shape of `out`, each step rounded."
    return entry


addc = _three("addc", "a + b + c", operator.add, "tile.fused")
subc = _three("subc", "a - b + c", operator.sub, "tile.legacy")
addsc = _three_scalar("addsc", "a + scalar + c", operator.add)
subsc = _three_scalar("subsc", "a - scalar + c", operator.sub)
