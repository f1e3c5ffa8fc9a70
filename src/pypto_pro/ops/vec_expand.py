"""expand_*: one value a row (dim=0) or a column (dim=1) broadcast against a full tile; and the legacy broadcasts.

The legacy names add what has no public form: {row,col}_expand_add, {row,col}_expand_expdif, {row,col}_expand.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from pypto_pro.dtypes import DataType
from pypto_pro.enums import PipeType, TensorLayout
from pypto_pro.layouts import elements_per_block
from pypto_pro.ops import rules
from pypto_pro.ops.builder import Builder, Lanes, NativeTile
from pypto_pro.ops.entry import Access, Box, Effect, OpEntry, Tolerance, defop
from pypto_pro.ops.extents import choose, least
from pypto_pro.ops.operands import Array, IntAttr, TileArg, TileInfo, VecIn, VecOut
from pypto_pro.ops.vec_elementwise import c_divide
from pypto_pro.ops.vec_lowering import raw
from pypto_pro.ops.vec_reduce import ZERO_SIGN
from pypto_pro.ops.vec_unary import FP, ULP, rounded_once

NARROW = (*rules.UP_TO_32_BITS, *rules.FLOATS)


def is_swapped(out: Any, src: Any, scalar: Any) -> Any:
    """Whether `src` is the broadcast operand: only `scalar` has the valid shape of `out`."""
    src_differs = (src.vr != out.vr) | (src.vc != out.vc)
    return src_differs & (scalar.vr == out.vr) & (scalar.vc == out.vc)


def broadcast(out: TileArg, src: TileArg, scalar: TileArg, dim: int, compute: Callable[[Array, Array], Array]) -> None:
    """out = compute(src, scalar), one of them a vector along `dim`."""
    rows, cols = (out.vr, 1) if dim == 0 else (1, out.vc)
    if is_swapped(out, src, scalar):
        out.put(compute(src.get(rows, cols), scalar.over(out)))
    else:
        out.put(compute(src.over(out), scalar.get(rows, cols)))


def broadcast_regions(out: TileArg, src: TileArg, scalar: TileArg, dim: int) -> list[Access]:
    """Either source may be the vector, as the valid shapes say at run time."""
    swapped = is_swapped(out, src, scalar)

    def read(is_vector: Any) -> Box:
        if dim == 0:
            return Box(0, 0, out.vr, choose(is_vector & (out.vc > 0), 1, out.vc))
        return Box(0, 0, choose(is_vector & (out.vr > 0), 1, out.vr), out.vc)

    return [
        Access("src", Effect.READ, read(swapped)),
        Access("scalar", Effect.READ, read(swapped == 0)),
        Access("out", Effect.WRITE, Box(0, 0, out.vr, out.vc)),
    ]


def lower_broadcast(
    k: Builder, out: NativeTile, src: NativeTile, scalar: NativeTile, dim: int, compute: Callable[[Any, Any], Any]
) -> Any:
    """Native code of `broadcast`; operands whose valid shapes exchange their roles at run time take the meaning."""
    shapes = src.type.shape, scalar.type.shape
    if shapes[0][1 - dim] == 1 and shapes[1][1 - dim] != 1:
        k.require(is_swapped(out, src, scalar))
        return k.broadcast(out, scalar, src, dim, lambda full, part: compute(part, full))
    k.require(~is_swapped(out, src, scalar))
    return k.broadcast(out, src, scalar, dim, compute)


def check_broadcast(out: TileInfo, src: TileInfo, scalar: TileInfo, dim: int, dtypes: tuple[DataType, ...]) -> None:
    """Static rules: `out` is ND, and one source is a legal vector along `dim`."""
    if not isinstance(scalar, TileInfo):
        raise TypeError("the third operand is the broadcast tile; for a scalar use the plain tile-scalar op")
    if dim not in (0, 1):
        raise ValueError(f"dim must be 0 (one value a row) or 1 (one a column), found {dim}")
    rules.one_dtype(dtypes, out, src, scalar)
    rules.row_major(out)
    rules.aligned_rows(out, src, scalar)
    src_is_vector = src.type.cols == 1 if dim == 0 else src.type.rows == 1 and scalar.type.rows != 1
    vector, full = (src, scalar) if src_is_vector else (scalar, src)
    check_vector(vector, dim)
    if dim == 0 and vector.type.rows == 1 and vector.type.cols != 1 and out.type.rows > 1:
        raise ValueError(
            f"`{vector.name}` {list(vector.type.shape)} has one row for the {out.type.rows} of `{out.name}`; "
            "one value a column is dim=1"
        )
    rules.row_major(full)


def check_vector(vector: TileInfo, dim: int) -> None:
    """The broadcast tile is [R, 1], a block-replicated ND tile (dim=0) or a [1, C] row (dim=1)."""
    layout = rules.layout_of(vector)
    if dim == 1 and (layout is not TensorLayout.ND or vector.type.rows != 1):
        raise ValueError(f"`{vector.name}` {list(vector.type.shape)} must be a row-major [1, C] tile for dim=1")
    block = elements_per_block(vector.dtype)
    if dim == 0 and vector.type.cols != 1 and (layout is not TensorLayout.ND or vector.type.cols < block):
        raise ValueError(
            f"`{vector.name}` [{vector.type.rows}, {vector.type.cols}] must be [R, 1], or ND with each row's value "
            f"repeated over {block} columns, for dim=0"
        )


SHAPES = "`scalar` is a tile: [R, 1], a [1, C] row, or an ND tile with the row's value over one 32-byte block."


def _expand(
    name: str, formula: str, compute: Callable[[Array, Array], Array],
    lanes: Callable[[Builder], Callable[[Any, Any], Any]], tolerance: Tolerance | None = None,
) -> OpEntry:
    """An op `out = src <op> broadcast(scalar)`."""

    @defop(f"pl.{name}", pipe=PipeType.V, family="tile.broadcast", tolerance=tolerance)
    def entry(out: VecOut, src: VecIn, scalar: VecIn, *, dim: IntAttr = 0) -> None:
        broadcast(out, src, scalar, dim, compute)

    @entry.rules
    def _(out: TileInfo, src: TileInfo, scalar: TileInfo, dim: int) -> None:
        check_broadcast(out, src, scalar, dim, NARROW)

    @entry.regions
    def _(out: TileArg, src: TileArg, scalar: TileArg, dim: int) -> list[Access]:
        return broadcast_regions(out, src, scalar, dim)

    @entry.lower
    def _(k: Builder, out: NativeTile, src: NativeTile, scalar: NativeTile, dim: int) -> Any:
        return lower_broadcast(k, out, src, scalar, dim, lanes(k))

    entry.doc = (
        f"`out[i, j] = {formula}` over the valid shape of `out`, b = scalar[i, 0] (dim=0) or scalar[0, j] (dim=1).\n"
        f"{SHAPES}"
    )
    return entry


expand_sub = _expand("expand_sub", "src[i, j] - b", np.subtract, lambda k: operator.sub)
expand_mul = _expand("expand_mul", "src[i, j] * b", np.multiply, lambda k: operator.mul)
expand_max = _expand("expand_max", "max(src[i, j], b)", np.maximum, lambda k: k.max, ZERO_SIGN)
expand_min = _expand("expand_min", "min(src[i, j], b)", np.minimum, lambda k: k.min, ZERO_SIGN)
expand_div = _expand("expand_div", "src[i, j] / b", c_divide, lambda k: operator.truediv)


def exp_of_difference(src: Array, vector: Array) -> Array:
    """exp(src - vector); the difference is rounded in the element dtype first."""
    return rounded_once(np.exp)(src - vector)


def _legacy(
    name: str, dim: int, formula: str, compute: Callable[[Array, Array], Array], dtypes: tuple[DataType, ...],
    lanes: Callable[[Builder, Any, Any, DataType], Any], tolerance: Tolerance | None = None,
) -> OpEntry:
    """A broadcast along a fixed axis; `lanes` computes natively, told the element dtype."""

    @defop(f"pl.{name}", pipe=PipeType.V, family="tile.legacy", tolerance=tolerance)
    def entry(out: VecOut, src: VecIn, scalar: VecIn) -> None:
        broadcast(out, src, scalar, dim, compute)

    @entry.rules
    def _(out: TileInfo, src: TileInfo, scalar: TileInfo) -> None:
        check_broadcast(out, src, scalar, dim, dtypes)

    @entry.regions
    def _(out: TileArg, src: TileArg, scalar: TileArg) -> list[Access]:
        return broadcast_regions(out, src, scalar, dim)

    @entry.lower
    def _(k: Builder, out: NativeTile, src: NativeTile, scalar: NativeTile) -> Any:
        return lower_broadcast(k, out, src, scalar, dim, lambda a, b: lanes(k, a, b, out.dtype))

    entry.doc = f"`out[i, j] = {formula}`, b = {VECTORS[dim]}, over the valid shape of `out`."
    return entry


VECTORS = ("scalar[i, 0]", "scalar[0, j]")


def _add_lanes(k: Builder, src: Lanes, vector: Lanes, _: DataType) -> Lanes:
    return src + vector


def _expdif_lanes(k: Builder, src: Lanes, vector: Lanes, dtype: DataType) -> Lanes:
    return k.exp((src - vector).rounded(dtype))


row_expand_add = _legacy("row_expand_add", 0, "src[i, j] + b", np.add, NARROW, _add_lanes)
col_expand_add = _legacy("col_expand_add", 1, "src[i, j] + b", np.add, NARROW, _add_lanes)
row_expand_expdif = _legacy(
    "row_expand_expdif", 0, "exp(src[i, j] - b)", exp_of_difference, FP, _expdif_lanes, ULP
)
col_expand_expdif = _legacy(
    "col_expand_expdif", 1, "exp(src[i, j] - b)", exp_of_difference, FP, _expdif_lanes, ULP
)


def _copy(name: str, dim: int) -> OpEntry:
    """A vector repeated over the whole of `out`."""

    @defop(f"pl.{name}", pipe=PipeType.V, family="tile.legacy")
    def entry(out: VecOut, src: VecIn) -> None:
        rows, cols = (out.vr, 1) if dim == 0 else (1, out.vc)
        out.put_bits(np.array(np.broadcast_to(src.bits(rows, cols), (out.vr, out.vc))))

    @entry.rules
    def _(out: TileInfo, src: TileInfo) -> None:
        rules.one_dtype(rules.NUMBERS, out, src)
        rules.row_major(out)
        rules.aligned_rows(out, src)
        check_vector(src, dim)

    @entry.regions
    def _(out: TileArg, src: TileArg) -> list[Access]:
        vector = Box(0, 0, out.vr, least(out.vc, 1)) if dim == 0 else Box(0, 0, least(out.vr, 1), out.vc)
        return [Access("src", Effect.READ, vector), Access("out", Effect.WRITE, Box(0, 0, out.vr, out.vc))]

    @entry.lower
    def _(k: Builder, out: NativeTile, src: NativeTile) -> Any:
        return k.broadcast(raw(out), raw(out), raw(src), dim, lambda _, vector: vector)

    entry.doc = f"`out[i, j] = {VECTORS[dim].replace('scalar', 'src')}` over the valid shape of `out`."
    return entry


row_expand = _copy("row_expand", 0)
col_expand = _copy("col_expand", 1)
