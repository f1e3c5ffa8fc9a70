"""argmax and argmin: where the extreme of each row (dim=0) or column (dim=1) stands, counted from the tile's corner."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from pypto_pro.dtypes import DataType
from pypto_pro.enums import PipeType, TensorLayout
from pypto_pro.ops import rules
from pypto_pro.ops.builder import Lanes, NativeScalar, NativeTile
from pypto_pro.ops.entry import Access, OpEntry, Requirement, defop
from pypto_pro.ops.operands import IntAttr, TileArg, TileInfo, VecIn, VecOut, VecScratch
from pypto_pro.ops.vec_lowering import VectorBuilder, at, bytes_of, column_step, is_linear, retyped
from pypto_pro.ops.vec_reduce import check_target, one_value_each, reduce_into, reduction_regions

D = DataType
ALONG_ROWS = (*rules.INTS[2:6], *rules.FLOATS)
ALONG_COLUMNS = (*rules.UP_TO_32_BITS, *rules.FLOATS)


def beats(value: Lanes, best: Lanes, largest: bool) -> Lanes:
    """Where a later value takes the place of the best so far; the first NaN stays."""
    better = value > best if largest else value < best
    return better | ((value != value) & (best == best)) if value.dtype.is_float() else better


def lower_columns(k: VectorBuilder, out: NativeTile, src: NativeTile, largest: bool) -> None:
    """Best value and its row, column by column side by side."""
    rows, cols, index = src.vr, src.vc, D.DT_INT32
    k.require(k.fits(src, rows, cols), k.fits(out, 1, cols),
              k.disjoint(out, cols * 4, src, bytes_of(src, rows, cols)))
    count = k.lane_count(D.DT_INT32, src.dtype)

    def columns(first: NativeScalar, left: Any) -> None:
        best = k.variable(k.load(at(k, src, 0, first), src.dtype, count, left))
        where = k.variable(k.lanes_of(0, index, count))
        with k.for_range(1, rows) as row:
            value, held = k.load(at(k, src, row, first), src.dtype, count, left), best.get()
            better = beats(value, held, largest)
            best.set(better.select(value, held))
            where.set(better.select(k.lanes_of(row, index, count), where.get()))
        k.store(where.get(), at(k, out, 0, first), index, left)

    with k.if_(rows > 0):
        k.vectors(count, cols, columns)


def lower_rows(k: VectorBuilder, out: NativeTile, src: NativeTile, step: int, largest: bool) -> None:
    """Each lane keeps its best and where it stood; then the lanes are compared, the lower index winning ties.

    Row r of src gives element r * step of `out`.
    """
    rows, cols, index = src.vr, src.vc, D.DT_INT32
    written = ((rows - 1) * step + 1) * 4
    k.require(k.fits(src, rows, cols), k.covers(out, written), k.disjoint(out, written, src, bytes_of(src, rows, cols)))
    count = k.lane_count(D.DT_INT32, src.dtype)
    with k.if_(cols > 0), k.for_range(0, rows) as row:
        best = k.variable(k.lanes_of(k.load(at(k, src, row), src.dtype, 1).lane(0), src.dtype, count))
        where = k.variable(k.lanes_of(0, index, count))

        def step_(first: NativeScalar, left: Any) -> None:
            value, held = k.load(at(k, src, row, first), src.dtype, count, left), best.get()
            better = beats(value, held, largest)
            if left is not None:
                better = better & k.first(count, left)
            best.set(better.select(value, held))
            where.set(better.select(k.iota(count, index) + first, where.get()))

        k.vectors(count, cols, step_)
        k.store_scalar(winner(k, best.get(), where.get(), largest), k.pointer(out, row * step), index)


def winner(k: VectorBuilder, best: Lanes, where: Lanes, largest: bool) -> NativeScalar:
    """The smallest index among the lanes that hold the extreme (or NaN, if any does)."""
    top = k.lanes_of(best.halved(k.max if largest else k.min), best.dtype, best.count)
    holds = best == top
    if best.dtype.is_float():
        holds = holds | ((best != best) & (top != top))
    return holds.select(where, D.DT_INT32.int_max).halved(k.min)


def _arg_extreme(name: str, word: str, pick: Callable[..., Any], largest: bool) -> OpEntry:
    """`argmax` or `argmin`."""

    @defop(f"pl.{name}", pipe=PipeType.V, family="tile.reduce")
    def entry(out: VecOut, src: VecIn, tmp: VecScratch, *, dim: IntAttr = 0) -> None:
        kind = src.dtype.numpy if src.dtype is not D.DT_BF16 else np.dtype(np.float32)
        reduce_into(out, src, dim, lambda values, axis: pick(values.astype(kind), axis=axis, keepdims=True))

    @entry.rules
    def _(out: TileInfo, src: TileInfo, tmp: TileInfo, dim: int) -> None:
        if dim not in (0, 1):
            raise ValueError(f"dim must be 0 (along columns) or 1 (along rows), found {dim}")
        rules.has_dtype(out, D.DT_INT32, D.DT_UINT32)
        rules.has_dtype(src, *(ALONG_ROWS if dim == 0 else ALONG_COLUMNS))
        if dim == 0:
            rules.row_major(src)
        elif rules.layout_of(src) not in (TensorLayout.ND, TensorLayout.DN):
            raise ValueError(f"`{src.name}` is {rules.layout_of(src).name}; an ND or DN tile is needed")
        rules.aligned_rows(out, src)
        check_target(out, src, dim)
        if 0 in rules.known_valid(src):
            raise ValueError(f"`{src.name}` has no valid elements")

    @entry.issue
    def _(out: TileArg, src: TileArg, tmp: object, dim: int) -> list[Requirement]:
        nothing: Any = (src.vr > 0) & (src.vc == 0) if dim == 0 else (src.vc > 0) & (src.vr == 0)
        along = "column" if dim == 0 else "row"
        return [Requirement(nothing == 0, f"`{name}` needs at least one valid {along} to look along")]

    entry.expects(lambda out, src, tmp, dim: one_value_each(out, src, dim))

    @entry.regions
    def _(out: TileArg, src: TileArg, tmp: TileArg, dim: int) -> list[Access]:
        return reduction_regions(out, src, dim)

    @entry.lower
    def _(k: VectorBuilder, out: NativeTile, src: NativeTile, tmp: object, dim: int) -> Any:
        if dim == 0:
            lower_rows(k, out, src, column_step(out), largest)
        elif is_linear(src):
            lower_columns(k, out, src, largest)
        else:  # the columns of a DN tile are the rows of an ND tile in the same bytes
            turned = retyped(src, src.dtype, (src.type.cols, src.type.rows), TensorLayout.ND)
            lower_rows(k, out, replace(turned, vr=src.vc, vc=src.vr), 1, largest)  # type: ignore[type-var]

    entry.doc = (
        f"out[r, 0] = column of the {word} of row r (dim=0), or out[0, c] = row of the {word} of column c (dim=1).\n"
        "The first of equal values wins, and the first NaN before all others. The valid shape of src governs; tmp is\n"
        "not accessed; out is INT32 or UINT32."
    )
    return entry


argmax = _arg_extreme("argmax", "largest value", np.argmax, largest=True)
argmin = _arg_extreme("argmin", "smallest value", np.argmin, largest=False)
