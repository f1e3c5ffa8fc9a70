"""part*: two sources of which one may cover only a corner of `out`; where only one has a value, it is copied."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from pypto_pro.dtypes import DataType
from pypto_pro.enums import PipeType
from pypto_pro.ops import rules
from pypto_pro.ops.builder import NativeTile
from pypto_pro.ops.entry import Access, Box, Effect, OpEntry, Requirement, Tolerance, defop
from pypto_pro.ops.extents import least
from pypto_pro.ops.operands import TileArg, TileInfo, VecIn, VecOut
from pypto_pro.ops.vec_lowering import VectorBuilder, guard, map_rectangle, raw
from pypto_pro.ops.vec_reduce import ZERO_SIGN


def covered(out: Any, src: Any) -> tuple[Any, Any]:
    """Rows and columns of `out` where `src` has a value; (rows, 0) or (0, columns) when it has none."""
    return least(out.vr, src.vr), least(out.vc, src.vc)


def lower_part(
    k: VectorBuilder, out: NativeTile, src0: NativeTile, src1: NativeTile, combine: Callable[[Any, Any], Any]
) -> None:
    """The common corner combined; right of it and below it the whole source copied."""
    guard(k, out, (src0, src1), out.vr, out.vc)
    rows, cols = least(src0.vr, src1.vr), least(src0.vc, src1.vc)
    first_is_whole = (src0.vr == out.vr) & (src0.vc == out.vc)
    whole = raw(replace(src0, addr=first_is_whole.choose(src0.addr, src1.addr)))  # type: ignore[type-var]
    target = raw(out)
    map_rectangle(k, out, (src0, src1), combine, 0, 0, rows, cols)
    map_rectangle(k, target, (whole,), lambda x: x, 0, cols, rows, out.vc - cols)
    map_rectangle(k, target, (whole,), lambda x: x, rows, 0, out.vr - rows, out.vc)


def _part(
    name: str, formula: str, combine: np.ufunc, lanes: Callable[[Any], Callable[[Any, Any], Any]],
    dtypes: tuple[DataType, ...], tolerance: Tolerance | None = None,
) -> OpEntry:
    """An op of the family."""

    @defop(f"pl.{name}", pipe=PipeType.V, family="tile.part", tolerance=tolerance)
    def entry(out: VecOut, src0: VecIn, src1: VecIn) -> None:
        first, second = covered(out, src0), covered(out, src1)
        both = least(first[0], second[0]), least(first[1], second[1])
        bits0, bits1, combined = src0.bits(*first), src1.bits(*second), combine(src0.get(*both), src1.get(*both))
        out.put_bits(bits0)
        out.put_bits(bits1)
        out.put(combined)

    @entry.rules
    def _(out: TileInfo, src0: TileInfo, src1: TileInfo) -> None:
        rules.elementwise(dtypes, out, src0, src1)
        for src in (src0, src1):
            if src.type.shape != out.type.shape:
                raise ValueError(f"`{src.name}` {list(src.type.shape)} and `{out.name}` {list(out.type.shape)} must "
                                 "have one shape; a partial source is one with a smaller valid shape")
        _check_cover(out, src0, src1)

    @entry.issue
    def _(out: TileArg, src0: TileArg, src1: TileArg) -> list[Requirement]:
        inside = [(s.vr <= out.vr) & (s.vc <= out.vc) for s in (src0, src1)]
        whole = [(s.vr == out.vr) & (s.vc == out.vc) for s in (src0, src1)]
        return [Requirement(inside[0] & inside[1] & (whole[0] | whole[1]), f"`{name}`: {COVER}")]

    @entry.regions
    def _(out: TileArg, src0: TileArg, src1: TileArg) -> list[Access]:
        return [
            Access("src0", Effect.READ, Box(0, 0, *covered(out, src0))),
            Access("src1", Effect.READ, Box(0, 0, *covered(out, src1))),
            Access("out", Effect.WRITE, Box(0, 0, out.vr, out.vc)),
        ]

    @entry.lower
    def _(k: VectorBuilder, out: NativeTile, src0: NativeTile, src1: NativeTile) -> Any:
        return lower_part(k, out, src0, src1, lanes(k))

    entry.doc = (
        f"`out = {formula}` where both sources are valid, a copy of the only valid one elsewhere. One source has the\n"
        "valid shape of `out`, the other may have fewer rows or columns; the declared shapes are equal."
    )
    return entry


COVER = "one source must have the valid shape of the result, the other no more"


def _check_cover(out: TileInfo, src0: TileInfo, src1: TileInfo) -> None:
    """What can be said of the valid shapes at compile time."""
    want, *have = (rules.known_valid(t) for t in (out, src0, src1))
    if None in (*want, *have[0], *have[1]):
        return
    larger = any(h > w for shape in have for h, w in zip(shape, want, strict=True) if h is not None and w is not None)
    if larger or want not in have:
        found = ", ".join(f"`{t.name}` {list(rules.known_valid(t))}" for t in (out, src0, src1))
        raise ValueError(f"{COVER}; found valid shapes {found}")


partadd = _part("partadd", "src0 + src1", np.add, lambda k: operator.add, rules.NUMBERS)
partmax = _part("partmax", "max(src0, src1)", np.maximum, lambda k: k.max, rules.NUMBERS, ZERO_SIGN)
partmin = _part("partmin", "min(src0, src1)", np.minimum, lambda k: k.min, rules.NUMBERS, ZERO_SIGN)
partmul = _part(
    "partmul", "src0 * src1", np.multiply, lambda k: operator.mul, (*rules.UP_TO_32_BITS, *rules.FLOATS)
)
