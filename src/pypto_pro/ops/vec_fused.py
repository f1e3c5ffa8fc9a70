"""Chains that one call issues as several instructions: add_relu, mul_add_dst, ... Each step rounds in the tile dtype.

The intermediate goes to the first source, which is overwritten. Every step is governed by the valid shape of what it
writes: the first source for the intermediate steps, `out` for the last.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from pypto_pro.dtypes import DataType
from pypto_pro.enums import PipeType, RoundMode
from pypto_pro.ops import rules
from pypto_pro.ops.builder import NativeScalar, NativeTile
from pypto_pro.ops.entry import Access, Box, Effect, Keyword, OpEntry, defop
from pypto_pro.ops.operands import ScalarIn, ScalarInfo, TileArg, TileInfo, VecIn, VecInOut, VecOut
from pypto_pro.ops.vec_cast import (
    Mode,
    check_pair,
    conversion_regions,
    convert_into,
    lower_conversion,
    prepare_conversion,
)
from pypto_pro.ops.vec_elementwise import SUM_DTYPES, WORDS, element
from pypto_pro.ops.vec_lowering import VectorBuilder, guard, raw
from pypto_pro.ops.vec_unary import relu_of

D = DataType
RELU = (*rules.HALF_AND_SINGLE, D.DT_INT32)
PRODUCT = (*WORDS, *rules.FLOATS)

Target = Annotated[DataType, Keyword(enum=DataType)]


@dataclass(frozen=True)
class Step:
    """One instruction: `target` = compute(sources), all over the valid shape of `target`; operands by name.

    `lanes` computes natively.
    """

    target: str
    compute: Callable[..., Any]
    lanes: Callable[..., Any]
    sources: tuple[str, ...]


def run(steps: tuple[Step, ...], **tiles: TileArg) -> None:
    """The steps in order."""
    for step in steps:
        target = tiles[step.target]
        target.put(step.compute(*(tiles[name].over(target) for name in step.sources)))


def regions(steps: tuple[Step, ...], **tiles: TileArg) -> list[Access]:
    """What the steps touch."""
    found = []
    for step in steps:
        domain = Box(0, 0, tiles[step.target].vr, tiles[step.target].vc)
        found += [Access(name, Effect.READ, domain) for name in step.sources]
        found.append(Access(step.target, Effect.WRITE, domain))
    return found


def prepare(k: VectorBuilder, steps: tuple[Step, ...], **tiles: NativeTile) -> None:
    """Ask for everything the steps need, before the first writes."""
    for step in steps:
        target = tiles[step.target]
        guard(k, target, [tiles[name] for name in step.sources], target.vr, target.vc)


def emit(k: VectorBuilder, steps: tuple[Step, ...], **tiles: NativeTile) -> Any:
    """Native code of the steps."""
    for step in steps:
        if k.elementwise(tiles[step.target], [tiles[name] for name in step.sources], step.lanes) is NotImplemented:
            return NotImplemented
    return None


def _chain(name: str, steps: tuple[Step, ...], dtypes: tuple[DataType, ...], doc: str) -> OpEntry:
    """A chain of (out, lhs, rhs) that leaves an intermediate in lhs; some read `out` first."""

    def fresh(out: VecOut, lhs: VecInOut, rhs: VecIn) -> None:
        run(steps, out=out, lhs=lhs, rhs=rhs)

    def accumulating(out: VecInOut, lhs: VecInOut, rhs: VecIn) -> None:
        run(steps, out=out, lhs=lhs, rhs=rhs)

    reads_out = any("out" in step.sources for step in steps)
    entry = defop(f"pl.{name}", pipe=PipeType.V, family="tile.fused")(accumulating if reads_out else fresh)

    @entry.rules
    def _(out: TileInfo, lhs: TileInfo, rhs: TileInfo) -> None:
        rules.elementwise(dtypes, out, lhs, rhs)

    @entry.regions
    def _(out: TileArg, lhs: TileArg, rhs: TileArg) -> list[Access]:
        return regions(steps, out=out, lhs=lhs, rhs=rhs)

    @entry.lower
    def _(k: VectorBuilder, out: NativeTile, lhs: NativeTile, rhs: NativeTile) -> Any:
        prepare(k, steps, out=out, lhs=lhs, rhs=rhs)
        return emit(k, steps, out=out, lhs=lhs, rhs=rhs)

    entry.doc = f"{doc}\nEach step rounds in the tile dtype; lhs is overwritten with the intermediate."
    return entry


def native_relu(x: Any) -> Any:
    """max(x, 0) on lanes."""
    return (x <= 0).select(0, x)


SUM_INTO_LHS = Step("lhs", np.add, operator.add, ("lhs", "rhs"))
DIFFERENCE_INTO_LHS = Step("lhs", np.subtract, operator.sub, ("lhs", "rhs"))
PRODUCT_INTO_LHS = Step("lhs", np.multiply, operator.mul, ("lhs", "rhs"))
SCALED_BY_OUT = Step("lhs", np.multiply, operator.mul, ("lhs", "out"))
RELU_INTO_LHS = Step("lhs", relu_of, native_relu, ("lhs",))
RELU_INTO_OUT = Step("out", relu_of, native_relu, ("lhs",))

add_relu = _chain("add_relu", (SUM_INTO_LHS, RELU_INTO_OUT), RELU, "lhs = lhs + rhs; out = max(lhs, 0).")
sub_relu = _chain("sub_relu", (DIFFERENCE_INTO_LHS, RELU_INTO_OUT), RELU, "lhs = lhs - rhs; out = max(lhs, 0).")
mul_add_dst = _chain(
    "mul_add_dst", (PRODUCT_INTO_LHS, Step("out", np.add, operator.add, ("lhs", "out"))), PRODUCT,
    "lhs = lhs * rhs; out = lhs + out.",
)
fused_mul_add = _chain(
    "fused_mul_add", (SCALED_BY_OUT, Step("out", np.add, operator.add, ("lhs", "rhs"))), SUM_DTYPES,
    "lhs = lhs * out; out = lhs + rhs.",
)

MUL_ADD_RELU = (
    Step("a", np.multiply, operator.mul, ("a", "out")),
    Step("a", np.add, operator.add, ("a", "b")),
    Step("out", relu_of, native_relu, ("a",)),
)


@defop("pl.fused_mul_add_relu", pipe=PipeType.V, family="tile.fused")
def fused_mul_add_relu(out: VecInOut, a: VecInOut, b: VecIn) -> None:
    """a = a * out + b (two roundings); out = max(a, 0). `a` is overwritten with the sum before the relu."""
    run(MUL_ADD_RELU, out=out, a=a, b=b)


@fused_mul_add_relu.rules
def _(out: TileInfo, a: TileInfo, b: TileInfo) -> None:
    rules.elementwise(RELU, out, a, b)


@fused_mul_add_relu.regions
def _(out: TileArg, a: TileArg, b: TileArg) -> list[Access]:
    return regions(MUL_ADD_RELU, out=out, a=a, b=b)


@fused_mul_add_relu.lower
def _(k: VectorBuilder, out: NativeTile, a: NativeTile, b: NativeTile) -> Any:
    prepare(k, MUL_ADD_RELU, out=out, a=a, b=b)
    return emit(k, MUL_ADD_RELU, out=out, a=a, b=b)


def _cast_chain(name: str, steps: tuple[Step, ...], dtypes: tuple[DataType, ...], doc: str) -> OpEntry:
    """A chain whose last step converts lhs to the dtype of `out` (a copy when they are equal)."""

    @defop(f"pl.{name}", pipe=PipeType.V, family="tile.fused")
    def entry(
        out: VecOut, lhs: VecInOut, rhs: VecIn, *, target_type: Target, mode: Mode = RoundMode.CAST_ROUND
    ) -> None:
        run(steps, lhs=lhs, rhs=rhs)
        if out.dtype is lhs.dtype:
            out.put_bits(lhs.bits(out.vr, out.vc))
        else:
            convert_into(out, lhs, mode)

    @entry.rules
    def _(out: TileInfo, lhs: TileInfo, rhs: TileInfo, target_type: DataType, mode: RoundMode) -> None:
        rules.elementwise(dtypes, lhs, rhs)
        if out.dtype is not lhs.dtype:
            check_pair(lhs.dtype, out.dtype)
        rules.row_major(out)
        rules.aligned_rows(out)

    @entry.regions
    def _(out: TileArg, lhs: TileArg, rhs: TileArg, target_type: DataType, mode: RoundMode) -> list[Access]:
        return [*regions(steps, lhs=lhs, rhs=rhs), *conversion_regions(out, "lhs")]

    @entry.lower
    def _(
        k: VectorBuilder, out: NativeTile, lhs: NativeTile, rhs: NativeTile, target_type: object, mode: RoundMode
    ) -> Any:
        prepare(k, steps, lhs=lhs, rhs=rhs)
        if out.dtype is not lhs.dtype:
            prepare_conversion(k, out, lhs)
        else:
            guard(k, out, (lhs,), out.vr, out.vc)
        if emit(k, steps, lhs=lhs, rhs=rhs) is NotImplemented:
            return NotImplemented
        if out.dtype is not lhs.dtype:
            return lower_conversion(k, out, lhs, mode)
        return k.elementwise(raw(out), (raw(lhs),), lambda x: x)

    entry.doc = (
        f"{doc}\nThe dtype of `out` decides the conversion, `mode` its rounding (ties away by default, as `cast`);\n"
        "equal dtypes copy; `target_type` is only recorded. Each step rounds in the tile dtype; lhs is overwritten\n"
        "with the value before the cast."
    )
    return entry


add_relu_cast = _cast_chain(
    "add_relu_cast", (SUM_INTO_LHS, RELU_INTO_LHS), rules.HALF_AND_SINGLE, "lhs = max(lhs + rhs, 0); out = cast(lhs)."
)
sub_relu_cast = _cast_chain(
    "sub_relu_cast", (DIFFERENCE_INTO_LHS, RELU_INTO_LHS), rules.HALF_AND_SINGLE,
    "lhs = max(lhs - rhs, 0); out = cast(lhs).",
)
mul_cast = _cast_chain("mul_cast", (PRODUCT_INTO_LHS,), PRODUCT, "lhs = lhs * rhs; out = cast(lhs).")


@defop("pl.axpy", pipe=PipeType.V, family="tile.fused")
def axpy(out: VecInOut, src: VecIn, alpha: ScalarIn) -> None:
    """out = alpha * src + out, product and sum each rounded; an FP16 source of an FP32 `out` is widened exactly."""
    scaled = src.over(out).astype(out.dtype.numpy) * element(alpha, src.dtype).astype(out.dtype.numpy)
    out.put(scaled + out.get())


@axpy.rules
def _(out: TileInfo, src: TileInfo, alpha: ScalarInfo) -> None:
    if isinstance(alpha, TileInfo):
        raise TypeError("alpha, the last operand, must be a scalar")
    rules.has_dtype(out, *rules.HALF_AND_SINGLE)
    if (src.dtype, out.dtype) != (D.DT_FP16, D.DT_FP32):
        rules.one_dtype((out.dtype,), src)
    if alpha.value is None and alpha.type.dtype is not src.dtype:
        raise TypeError(f"alpha is {rules.names([alpha.type.dtype])} and `{src.name}` {rules.names([src.dtype])}; "
                        "a run-time alpha must have the dtype of the source")
    rules.row_major(out, src)
    rules.aligned_rows(out, src)


@axpy.lower
def _(k: VectorBuilder, out: NativeTile, src: NativeTile, alpha: NativeScalar) -> Any:
    def scaled_sum(x: Any, a: Any, y: Any) -> Any:
        return (a * x).rounded(out.dtype) + y

    return k.elementwise(out, (src, alpha, out), scaled_sum, scalar_dtype=src.dtype)
