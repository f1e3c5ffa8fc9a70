"""Tile-vector arithmetic, element by element: add sub mul div maximum minimum, unary functions, expands.

Shared rules (spec: meta.tile_vector_rules): the valid shape of `out` governs, sources are read over it; integers wrap,
floats round to nearest even in the tile dtype; in place is allowed; elements outside the valid shape keep their bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np

from pypto_pro.dtypes import DataType
from pypto_pro.enums import MemorySpace, PipeType
from pypto_pro.ops import rules
from pypto_pro.ops.entry import Access, Box, Effect, OpEntry, Role, Tolerance, defop
from pypto_pro.ops.operands import (
    Array,
    ScalarIn,
    ScalarInfo,
    TileArg,
    TileInfo,
    VecIn,
    VecOrScalar,
    VecOut,
    tile,
)

FP = (DataType.DT_FP16, DataType.DT_FP32)
WORDS = rules.INTS[2:]

EXP_ULPS = Tolerance("2 ulp of the result", 3e-7, 0.0, "native evaluates a polynomial, numpy calls its own library")


def element(value: int | float, dtype: DataType) -> Any:
    """A scalar operand as one element of `dtype`: C conversion, so floats truncate to ints and ints wrap."""
    if dtype.is_float():
        return np.asarray(value, np.float32).astype(dtype.numpy)
    bits = int(value) & ((1 << dtype.bits()) - 1)
    return np.asarray(bits, dtype.bits_dtype).view(dtype.numpy)


def source(operand: TileArg | int | float, out: TileArg) -> Any:
    """A tile-or-scalar operand over the domain of `out`."""
    return operand.over(out) if isinstance(operand, TileArg) else element(operand, out.dtype)


def c_divide(lhs: Array, rhs: Any) -> Array:
    """Division in the element dtype: floats IEEE, ints truncated toward zero; an int divided by zero gives 0."""
    if not np.issubdtype(lhs.dtype, np.integer):
        return np.asarray(lhs / rhs)
    safe = np.where(rhs == 0, np.ones_like(rhs), rhs)
    quotient = np.trunc(lhs / safe).astype(lhs.dtype) if lhs.dtype.itemsize < 8 else _wide_quotient(lhs, safe)
    return np.where(rhs == 0, np.zeros_like(quotient), quotient)


def _wide_quotient(lhs: Array, rhs: Any) -> Array:
    floored = lhs // rhs
    return np.asarray(floored + ((floored < 0) & (floored * rhs != lhs)).astype(lhs.dtype))


def _binary(
    name: str, symbol: str, compute: Callable[[Array, Any], Array], dtypes: tuple[DataType, ...], note: str,
    aliases: tuple[str, ...],
) -> OpEntry:
    """An op `out = lhs <symbol> rhs` whose right operand is a tile or a scalar."""

    @defop(f"pl.{name}", pipe=PipeType.V, family="tile.elementwise", aliases=aliases)
    def entry(out: VecOut, lhs: VecIn, rhs: VecOrScalar) -> None:
        out.put(compute(lhs.over(out), source(rhs, out)))

    @entry.rules
    def _(out: TileInfo, lhs: TileInfo, rhs: TileInfo | ScalarInfo) -> None:
        rules.need_tile(lhs, "the left operand")
        rules.one_dtype(dtypes, out, lhs, rhs)
        rules.row_major(out, lhs, rhs)
        rules.aligned_rows(out, lhs, rhs)

    entry.doc = f"`out = lhs {symbol} rhs` over the valid shape of `out`; rhs is a tile or a scalar. {note}"
    return entry


add = _binary("add", "+", np.add, rules.NUMBERS, "Integers wrap, floats round to nearest even.", ("pl.adds",))
sub = _binary("sub", "-", np.subtract, rules.NUMBERS, "Integers wrap, floats round to nearest even.", ("pl.subs",))
mul = _binary("mul", "*", np.multiply, rules.NUMBERS, "Integers wrap, floats round to nearest even.", ("pl.muls",))
div = _binary(
    "div", "/", c_divide, (*WORDS, *FP), "Integers truncate (x / 0 = 0), floats follow IEEE.", ("pl.divs",)
)


def _unary(
    name: str, formula: str, compute: Callable[[Array], Array], dtypes: tuple[DataType, ...], note: str = "",
    tolerance: Tolerance | None = None,
) -> OpEntry:
    """An op `out = f(src)`."""

    @defop(f"pl.{name}", pipe=PipeType.V, family="tile.unary", tolerance=tolerance)
    def entry(out: VecOut, src: VecIn) -> None:
        out.put(compute(src.over(out)))

    @entry.rules
    def _(out: TileInfo, src: TileInfo) -> None:
        rules.one_dtype(dtypes, out, src)
        rules.row_major(out, src)
        rules.aligned_rows(out, src)

    entry.doc = f"`out = {formula}` over the valid shape of `out`. {note}".rstrip()
    return entry


def in_fp32(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """`function` evaluated in FP32 and rounded once to the element dtype."""

    def compute(x: Array) -> Array:
        return np.asarray(function(x.astype(np.float32))).astype(x.dtype)

    return compute


exp = _unary("exp", "e ** src", in_fp32(np.exp), FP, "Overflow gives +inf.", EXP_ULPS)
sqrt = _unary("sqrt", "sqrt(src)", in_fp32(np.sqrt), FP, "Correctly rounded; negative gives NaN.")
recip = _unary("recip", "1 / src", lambda x: np.asarray(np.ones_like(x) / x), FP, "A divide; 1 / 0 is infinity.")
rsqrt = _unary(
    "rsqrt", "1 / sqrt(src)", lambda x: np.asarray(np.ones_like(x) / np.sqrt(x)), FP,
    "Two roundings in the tile dtype: the square root, then the divide.",
)


@defop("pl.expands", pipe=PipeType.V, family="tile.fill", aliases=("pl.full",))
def expands(
    out: Annotated[TileArg, tile(Role.OUT, MemorySpace.Vec, MemorySpace.Mat)], scalar: ScalarIn
) -> None:
    """Fill `out` with a scalar: the valid region of a Vec tile (also [R, 1]), the whole of a Mat tile."""
    rows, cols = (out.vr, out.vc) if out.type.space is MemorySpace.Vec else out.type.shape
    out.put(np.full((rows, cols), element(scalar, out.dtype)))


@expands.rules
def _(out: TileInfo, scalar: ScalarInfo) -> None:
    if isinstance(scalar, TileInfo):
        raise TypeError("the value must be a scalar, not a tile")
    rules.one_dtype(rules.NUMBERS, out)
    rules.aligned_rows(out)


@expands.regions
def _(out: TileArg, scalar: object) -> list[Access]:
    rows, cols = (out.vr, out.vc) if out.type.space is MemorySpace.Vec else out.type.shape
    return [Access("out", Effect.WRITE, Box(0, 0, rows, cols))]
