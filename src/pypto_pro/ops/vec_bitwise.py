"""Bit operations and shifts of integer tiles. The valid shape of `out` governs.

A shift count the type does not have, which no device defines, shifts everything out: 0, or the sign for >> of signed.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from pypto_pro.enums import PipeType
from pypto_pro.ops import rules
from pypto_pro.ops.builder import Builder, NativeScalar, NativeTile
from pypto_pro.ops.entry import OpEntry, defop
from pypto_pro.ops.operands import ScalarIn, ScalarInfo, TileInfo, VecIn, VecOut, VecScratch
from pypto_pro.ops.vec_elementwise import binary, element

BITS = rules.UP_TO_32_BITS

LANES = {"&": operator.and_, "|": operator.or_, "<<": operator.lshift, ">>": operator.rshift}

and_ = binary(
    "and_", "lhs & rhs", np.bitwise_and, BITS, "Integers of up to 32 bits.", "tile.bitwise", lanes=operator.and_
)


@defop("pl.xor", pipe=PipeType.V, family="tile.bitwise")
def xor(out: VecOut, lhs: VecIn, rhs: VecIn, tmp: VecScratch) -> None:
    """out = lhs ^ rhs; rhs is a tile. tmp is not accessed, and must not overlap the others."""
    out.put(lhs.over(out) ^ rhs.over(out))


@xor.rules
def _(out: TileInfo, lhs: TileInfo, rhs: TileInfo, tmp: TileInfo) -> None:
    rules.need_tile(rhs, "the right operand")
    rules.elementwise(BITS, out, lhs, rhs, tmp)


@xor.lower
def _(k: Builder, out: NativeTile, lhs: NativeTile, rhs: NativeTile, tmp: object) -> Any:
    return k.elementwise(out, (lhs, rhs), operator.xor)


def _with_scalar(name: str, symbol: str, compute: np.ufunc) -> OpEntry:
    """A legacy op `out = lhs <symbol> scalar`."""

    @defop(f"pl.{name}", pipe=PipeType.V, family="tile.legacy")
    def entry(out: VecOut, lhs: VecIn, scalar: ScalarIn) -> None:
        out.put(compute(lhs.over(out), element(scalar, out.dtype)))

    @entry.rules
    def _(out: TileInfo, lhs: TileInfo, scalar: ScalarInfo) -> None:
        rules.elementwise(BITS if symbol == "|" else rules.INTS, out, lhs)

    @entry.lower
    def _(k: Builder, out: NativeTile, lhs: NativeTile, scalar: NativeScalar) -> Any:
        return k.elementwise(out, (lhs, scalar), LANES[symbol])

    entry.doc = f"`out = lhs {symbol} scalar` over the valid shape of `out`."
    return entry


def _shift(name: str, symbol: str, compute: np.ufunc, note: str) -> OpEntry:
    """An op `out = lhs <symbol> rhs` with a tile of counts."""

    @defop(f"pl.{name}", pipe=PipeType.V, family="tile.bitwise")
    def entry(out: VecOut, lhs: VecIn, rhs: VecIn) -> None:
        out.put(compute(lhs.over(out), rhs.over(out)))

    @entry.rules
    def _(out: TileInfo, lhs: TileInfo, rhs: TileInfo) -> None:
        rules.need_tile(rhs, "the shift count (for one count use the scalar form)")
        rules.elementwise(rules.INTS, out, lhs, rhs)

    @entry.lower
    def _(k: Builder, out: NativeTile, lhs: NativeTile, rhs: NativeTile) -> Any:
        return k.elementwise(out, (lhs, rhs), LANES[symbol])

    entry.doc = f"`out = lhs {symbol} rhs` over the valid shape of `out`; rhs is a tile of counts. {note}"
    return entry


shl = _shift("shl", "<<", np.left_shift, "Bits shifted out are lost.")
shr = _shift("shr", ">>", np.right_shift, "Arithmetic for signed, logical for unsigned elements.")
shl.any_width = shr.any_width = True
shls = _with_scalar("shls", "<<", np.left_shift)
shrs = _with_scalar("shrs", ">>", np.right_shift)
ors = _with_scalar("ors", "|", np.bitwise_or)


@defop("pl.xors", pipe=PipeType.V, family="tile.legacy")
def xors(out: VecOut, lhs: VecIn, scalar: ScalarIn, tmp: VecScratch) -> None:
    """out = lhs ^ scalar; tmp is not accessed."""
    out.put(lhs.over(out) ^ element(scalar, out.dtype))


@xors.rules
def _(out: TileInfo, lhs: TileInfo, scalar: ScalarInfo, tmp: TileInfo) -> None:
    rules.elementwise(BITS, out, lhs)


@xors.lower
def _(k: Builder, out: NativeTile, lhs: NativeTile, scalar: NativeScalar, tmp: object) -> Any:
    return k.elementwise(out, (lhs, scalar), operator.xor)
