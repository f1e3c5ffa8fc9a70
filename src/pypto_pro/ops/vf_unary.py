"""Functions of one register: sign, powers, logarithms, rounding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np

from pypto_pro import numerics
from pypto_pro.dtypes import DataType
from pypto_pro.enums import MergeMode, RoundMode, VFRoundMode
from pypto_pro.ops import vf_rules as rules
from pypto_pro.ops.entry import Keyword, OpEntry, Tolerance
from pypto_pro.ops.vf_builder import Lanes, NativeMask, NativeReg, VectorUnitBuilder
from pypto_pro.ops.vf_operands import Array, MaskIn, Merge, RegIn, Registers, defvf, merged

D = DataType
ULPS = Tolerance(
    "2 ulp of the result", 3e-7, 0.0, "native evaluates a polynomial, numpy calls its own library; FP16 results may "
    "therefore fall on the other side of a rounding boundary",
)  # fmt: skip
LOG_ULPS = Tolerance("2 ulp of ln(x), scaled", 6e-7, 0.0, "follows ln, which is then rounded and multiplied")

Precision = Annotated[bool | str | None, Keyword((bool, str))]
Rounding = Annotated[VFRoundMode | None, Keyword(enum=VFRoundMode)]

SQRT_LIMIT = 85070596800837026223494223584045301760
"""The exact square root gives 0 above."""


def magnitude(values: Array) -> Array:
    """|x|: integers wrap at the most negative number, floats lose their sign bit, NaN included."""
    if values.dtype.kind == "i":
        return np.asarray(np.abs(values))
    bits = values.view(f"u{values.dtype.itemsize}")
    one = bits.dtype.type(1)
    cleared: Array = (bits & ~(one << bits.dtype.type(8 * bits.itemsize - 1))).view(values.dtype)
    return cleared


def negative(values: Array) -> Array:
    """-x: integers wrap, floats flip their sign bit."""
    if values.dtype.kind == "i":
        return np.asarray(-values)
    bits = values.view(f"u{values.dtype.itemsize}")
    flipped: Array = (bits ^ (bits.dtype.type(1) << bits.dtype.type(8 * bits.itemsize - 1))).view(values.dtype)
    return flipped


def through_single(compute: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """A function evaluated in FP32 and rounded once."""
    return lambda values: np.asarray(compute(values.astype(np.float32))).astype(values.dtype)


natural_log = through_single(np.log)
power_of_e = through_single(np.exp)


def _scaled_log(factor: float) -> Callable[[Array], Array]:
    """ln rounded to T, then times a constant of T."""
    return lambda values: natural_log(values) * values.dtype.type(factor)


def _positive(values: Array) -> Array:
    """max(x, 0) with +0 for -0; NaN stays."""
    return np.where(values > 0, values, np.where(values == values, np.zeros((), values.dtype), values))


def _unary(
    name: str, formula: str, compute: Callable[[Array], Array], lanes: Callable[[VectorUnitBuilder, NativeReg], Lanes],
    dtypes: tuple[DataType, ...], note: str = "", tolerance: Tolerance | None = None,
) -> OpEntry:
    """An op `r = f(src)` whose only keyword is `mode`."""

    @defvf(f"vf.{name}", family="vf.arith", tolerance=tolerance)
    def entry(vf: Registers, src: RegIn, mask: MaskIn, *, mode: Merge = None) -> Array:
        return merged(vf, compute(src.lanes), mask)

    @entry.rules
    def _(src: Any, mask: Any, mode: MergeMode | None) -> None:
        rules.registers(dtypes, src)
        rules.zeroing(mode)

    @entry.lower
    def _(k: VectorUnitBuilder, src: NativeReg, mask: NativeMask, mode: MergeMode | None) -> None:
        k.give(lanes(k, src), mask)

    entry.doc = f"r[i] = {formula} in active lanes, 0 elsewhere. {note}".rstrip()
    return entry


def _with_precision(
    name: str, formula: str, compute: Callable[[Array], Array], lanes: Callable[[VectorUnitBuilder, NativeReg], Lanes],
    note: str, aliases: tuple[str, ...] = (),
) -> OpEntry:
    """An op `r = f(src)` for FP16 and FP32 that accepts, and ignores, `precision`."""

    @defvf(f"vf.{name}", family="vf.arith", aliases=aliases, tolerance=ULPS)
    def entry(vf: Registers, src: RegIn, mask: MaskIn, *, mode: Merge = None, precision: Precision = None) -> Array:
        return merged(vf, compute(src.lanes), mask)

    @entry.rules
    def _(src: Any, mask: Any, mode: MergeMode | None, precision: Any) -> None:
        rules.registers(rules.SINGLES, src)
        rules.zeroing(mode)

    @entry.lower
    def _(k: VectorUnitBuilder, src: NativeReg, mask: NativeMask, mode: MergeMode | None, precision: Any) -> None:
        k.give(lanes(k, src), mask)

    entry.doc = f"r[i] = {formula} in active lanes, 0 elsewhere. {note} `precision` has no effect."
    return entry


absolute = _unary(
    "abs", "|src[i]|", magnitude, lambda k, src: k.abs(src.lanes), (*rules.SIGNED, *rules.SINGLES),
    "Integers wrap: the most negative number stays.",
)  # fmt: skip
neg = _unary(
    "neg", "-src[i]", negative, lambda k, src: -src.lanes, (*rules.SIGNED, *rules.SINGLES),
    "Integers wrap; floats flip their sign bit.",
)  # fmt: skip
relu = _unary(
    "relu", "max(src[i], 0)", _positive, lambda k, src: (src.lanes <= 0).select(0, src.lanes),
    (D.DT_FP16, D.DT_FP32, D.DT_INT32, D.DT_INT64), "-0 and negative numbers give +0, NaN stays.",
)  # fmt: skip
log2 = _unary(
    "log2", "T(ln(src[i])) * T(1 / ln 2)", _scaled_log(1.4426950408889634),
    lambda k, src: k.log(src.lanes).rounded(src.dtype) * k.full(1.4426950408889634, src.dtype), rules.SINGLES,
    "Two roundings.", LOG_ULPS,
)  # fmt: skip
log10 = _unary(
    "log10", "T(ln(src[i])) * T(1 / ln 10)", _scaled_log(0.4342944819032518),
    lambda k, src: k.log(src.lanes).rounded(src.dtype) * k.full(0.4342944819032518, src.dtype), rules.SINGLES,
    "Two roundings.", LOG_ULPS,
)  # fmt: skip
exp = _with_precision(
    "exp", "e ** src[i]", power_of_e, lambda k, src: k.exp(src.lanes), "FP16 and FP32; widen BF16 first."
)
ln = _with_precision(
    "ln", "ln(src[i])", natural_log, lambda k, src: k.log(src.lanes), "ln(0) = -inf, NaN below.", aliases=("vf.log",)
)


@defvf("vf.sqrt", family="vf.arith")
def sqrt(vf: Registers, src: RegIn, mask: MaskIn, *, mode: Merge = None, precision: Precision = None) -> Array:
    """r[i] = sqrt(src[i]), correctly rounded; NaN below 0. With precision=True FP32 inputs above 2**126 give 0."""
    found = np.sqrt(src.lanes)
    if precision is True and src.dtype is D.DT_FP32:
        found = np.where(src.lanes > np.float32(SQRT_LIMIT), np.float32(0), found)
    return merged(vf, found, mask)


@sqrt.rules
def _(src: Any, mask: Any, mode: MergeMode | None, precision: Any) -> None:
    rules.registers(rules.SINGLES, src)
    rules.zeroing(mode)


@sqrt.lower
def _(k: VectorUnitBuilder, src: NativeReg, mask: NativeMask, mode: MergeMode | None, precision: Any) -> None:
    found = k.sqrt(src.lanes)
    if precision is True and src.dtype is D.DT_FP32:
        found = (src.lanes > float(SQRT_LIMIT)).select(0.0, found)
    k.give(found, mask)


_TRUNCATIONS = (
    VFRoundMode.CAST_TRUNC, VFRoundMode.CAST_RINT, VFRoundMode.CAST_CEIL, VFRoundMode.CAST_FLOOR,
)  # fmt: skip


@defvf("vf.truncate", family="vf.convert")
def truncate(vf: Registers, src: RegIn, mask: MaskIn, *, mode: Merge = None, round_mode: Rounding = None) -> Array:
    """r[i] = src[i] rounded to an integral value (default toward zero); NaN, inf and the sign of zero are kept."""
    single = src.lanes.astype(np.float32)
    whole = numerics.round_integral(single, round_mode or VFRoundMode.CAST_TRUNC)
    return merged(vf, whole.astype(src.lanes.dtype), mask)


@truncate.rules
def _(src: Any, mask: Any, mode: MergeMode | None, round_mode: VFRoundMode | None) -> None:
    rules.registers(rules.FLOATS, src)
    rules.zeroing(mode)
    if round_mode not in (None, *_TRUNCATIONS):
        raise ValueError(f"round_mode {round_mode.name} is not available; use CAST_TRUNC, _RINT, _CEIL or _FLOOR")


@truncate.lower
def _(
    k: VectorUnitBuilder, src: NativeReg, mask: NativeMask, mode: MergeMode | None, round_mode: VFRoundMode | None
) -> None:
    rule = RoundMode[(round_mode or VFRoundMode.CAST_TRUNC).name]
    whole = k.integral(src.lanes, rule)
    assert whole is not None
    k.give(whole, mask)
