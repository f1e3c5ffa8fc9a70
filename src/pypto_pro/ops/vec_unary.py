"""Unary functions on tiles: neg abs exp log sqrt rsqrt recip relu. The valid shape of `out` governs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pypto_pro.dtypes import DataType
from pypto_pro.enums import PipeType
from pypto_pro.ops import rules
from pypto_pro.ops.builder import Builder, Lanes, NativeTile
from pypto_pro.ops.entry import OpEntry, Tolerance, defop
from pypto_pro.ops.operands import Array, TileInfo, VecIn, VecOut
from pypto_pro.ops.vec_elementwise import WORDS

D = DataType


def rounded_once(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """`function` evaluated in FP64 and rounded to the element dtype: the same on every host."""

    def compute(x: Array) -> Array:
        return np.asarray(function(x.astype(np.float64))).astype(x.dtype)

    return compute


def relu_of(x: Array) -> Array:
    """max(x, 0); NaN stays, -0 becomes +0."""
    return np.where(x <= 0, np.zeros_like(x), x)


def negated(x: Array) -> Array:
    """x * -1: ints wrap, the sign of zero changes."""
    return np.negative(x) if x.dtype.kind in "iu" else np.asarray(x * x.dtype.type(-1))


def _unary(
    name: str, formula: str, compute: Callable[[Array], Array], dtypes: tuple[DataType, ...], note: str = "",
    tolerance: Tolerance | None = None, lanes: Callable[[Builder, Lanes, DataType], Any] | None = None,
) -> OpEntry:
    """An op `out = f(src)`; `lanes` is f for native code, told the element dtype."""

    @defop(f"pl.{name}", pipe=PipeType.V, family="tile.unary", tolerance=tolerance)
    def entry(out: VecOut, src: VecIn) -> None:
        out.put(compute(src.over(out)))

    @entry.rules
    def _(out: TileInfo, src: TileInfo) -> None:
        rules.elementwise(dtypes, out, src)

    if lanes is not None:

        @entry.lower
        def _(k: Builder, out: NativeTile, src: NativeTile) -> Any:
            return k.elementwise(out, (src,), lambda x: lanes(k, x, out.dtype))

    entry.doc = f"`out = {formula}` over the valid shape of `out`. {note}".rstrip()
    return entry


FP = rules.HALF_AND_SINGLE
ULP = Tolerance(
    "2 ulp of FP32, 1 ulp of FP16", 2.4e-7, 0.0, "native evaluates a polynomial in FP32, the definition is FP64"
)

neg = _unary("neg", "src * -1", negated, (*WORDS, *rules.FLOATS), "Integers wrap; no 8-bit integers.",
             lanes=lambda k, x, _: -x)
abs_ = _unary("abs", "|src|", np.abs, (D.DT_INT8, D.DT_INT16, D.DT_INT32, *FP), "The most negative integer stays.",
              lanes=lambda k, x, _: k.abs(x))
exp = _unary("exp", "e ** src", rounded_once(np.exp), FP, "Overflow gives +inf, exp(-inf) = 0.", ULP,
             lanes=lambda k, x, _: k.exp(x))
log = _unary("log", "ln(src)", rounded_once(np.log), FP, "log(0) = -inf, NaN below.", ULP,
             lanes=lambda k, x, _: k.log(x))
sqrt = _unary("sqrt", "sqrt(src)", np.sqrt, FP, "Correctly rounded; negative gives NaN.",
              lanes=lambda k, x, _: k.sqrt(x))
recip = _unary("recip", "1 / src", lambda x: np.asarray(np.ones_like(x) / x), FP, "A divide; 1 / 0 is infinity.",
               lanes=lambda k, x, _: 1.0 / x)
rsqrt = _unary(
    "rsqrt", "1 / sqrt(src)", lambda x: np.asarray(np.ones_like(x) / np.sqrt(x)), FP,
    "Two roundings in the tile dtype: the square root, then the divide.",
    lanes=lambda k, x, dtype: 1.0 / k.sqrt(x).rounded(dtype),
)
relu = _unary("relu", "max(src, 0)", relu_of, (*FP, D.DT_INT32), "NaN propagates; no BF16.",
              lanes=lambda k, x, _: (x <= 0).select(0, x))
