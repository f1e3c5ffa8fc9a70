"""Reductions over tile rows and columns, and `maximum`/`minimum`, which are element-wise without `dim`.

dim=0 reduces along the last axis (one value a row, into an [R, 1] tile), dim=1 along the first (one a column). The
source's valid shape governs the reduced extent.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np

from pypto_pro.dtypes import DataType
from pypto_pro.enums import PipeType, TensorLayout
from pypto_pro.ops import rules
from pypto_pro.ops.builder import Builder, NativeTile, Source
from pypto_pro.ops.entry import Access, Box, Caution, Effect, Keyword, OpEntry, Requirement, Tolerance, defop
from pypto_pro.ops.extents import least
from pypto_pro.ops.operands import Array, IntAttr, ScalarInfo, TileArg, TileInfo, VecIn, VecOrScalar, VecOut, VecScratch
from pypto_pro.ops.vec_elementwise import source

D = DataType
ROW_EXTREME = (*rules.INTS, *rules.HALF_AND_SINGLE)
ROW_SUM = (D.DT_INT16, D.DT_INT32, D.DT_INT64, D.DT_UINT64, D.DT_FP16, D.DT_FP32)

OptionalDim = Annotated["int | None", Keyword((int,))]

ZERO_SIGN = Tolerance("the sign of zero", 0.0, 0.0, "which of -0 and +0 wins is not specified")
SUM_ORDER = Tolerance(
    "C * eps * sum(|src|)", 1e-5, 1e-6, "the tree inside a 256-byte block is not specified; the order differs"
)


def check_reduction(out: TileInfo, src: TileInfo, dim: int, row_dtypes: tuple[DataType, ...]) -> None:
    """Static rules of a reduction."""
    if dim not in (0, 1):
        raise ValueError(f"dim must be 0 (along columns) or 1 (along rows), found {dim}")
    rules.one_dtype(row_dtypes if dim == 0 else rules.NUMBERS, src, out)
    rules.row_major(src)
    rules.aligned_rows(src, out)
    check_target(out, src, dim)


def check_target(out: TileInfo, src: TileInfo, dim: int) -> None:
    """The tile that takes one value a row (dim=0: one valid column) or a column (dim=1: row-major)."""
    rules.agree(out, src, dim)
    if rules.layout_of(out) not in (TensorLayout.ND, TensorLayout.DN):
        raise ValueError(f"`{out.name}` is {rules.layout_of(out).name}; results go to an ND or DN tile")
    if dim == 1 and rules.layout_of(out) is not TensorLayout.ND:
        raise ValueError(f"`{out.name}` must be a row-major [1, C] tile for dim=1")
    if dim == 0 and (rules.known_valid(out)[1] or 1) != 1:
        raise ValueError(f"`{out.name}` must be [R, 1], or have one valid column, for dim=0")


def reduction_regions(out: TileArg, src: TileArg, dim: int, name: str = "src") -> list[Access]:
    """The source's valid region is read; one column (dim=0) or one row (dim=1) of `out` is written, unless empty."""
    some = least(src.vr, src.vc, 1)
    target = Box(0, 0, src.vr, some) if dim == 0 else Box(0, 0, some, src.vc)
    return [Access(name, Effect.READ, Box(0, 0, src.vr, src.vc)), Access("out", Effect.WRITE, target)]


def has_columns(src: TileArg, dim: int | None) -> list[Requirement]:
    """Rows without columns have no value along them; a tile without rows is a no-op."""
    if dim != 0:
        return []
    empty_rows: Any = (src.vr > 0) & (src.vc == 0)
    return [Requirement(empty_rows == 0, "a row reduction needs at least one valid column")]


def one_value_each(out: TileArg, src: TileArg, dim: int | None) -> list[Caution]:
    """Every valid row (dim=0) or column (dim=1) of `out` takes a value; those beyond the source's would keep theirs."""
    if dim is None or not (src.vr and src.vc):
        return []
    what, mine, theirs = ("rows", out.vr, src.vr) if dim == 0 else ("columns", out.vc, src.vc)
    fate = f"the last {mine - theirs} keep what they held" if mine > theirs else "it is written past them"
    return [Caution(mine == theirs, "shape_mismatch",
                    f"the target has {mine} valid {what} and the source {theirs}: {fate}")]  # fmt: skip


def reduce_into(out: TileArg, src: TileArg, dim: int, fold: Callable[[Array, int], Array]) -> None:
    """out = fold(valid region of src, axis); an empty region leaves `out` as it is."""
    if src.vr and src.vc:
        out.put(fold(src.get(), 1 - dim))


def _extreme(name: str, word: str, pick: np.ufunc, largest: bool) -> OpEntry:
    """`maximum` or `minimum`: element-wise, or a reduction when `dim` is given (then `rhs` is scratch)."""

    def fold(values: Array, axis: int) -> Array:
        return np.asarray(pick.reduce(values, axis=axis, keepdims=True))

    @defop(f"pl.{name}", pipe=PipeType.V, family="tile.elementwise+reduce", tolerance=ZERO_SIGN)
    def entry(out: VecOut, lhs: VecIn, rhs: VecOrScalar, *, dim: OptionalDim = None) -> None:
        if dim is None:
            out.put(pick(lhs.over(out), source(rhs, out)))
        else:
            reduce_into(out, lhs, dim, fold)

    @entry.rules
    def _(out: TileInfo, lhs: TileInfo, rhs: TileInfo | ScalarInfo, dim: int | None) -> None:
        rules.need_tile(lhs, "the left operand")
        if dim is None:
            rules.elementwise(rules.NUMBERS, out, lhs, rhs)
        else:
            rules.need_tile(rhs, "the scratch operand of a reduction")
            check_reduction(out, lhs, dim, ROW_EXTREME)

    @entry.issue
    def _(out: TileArg, lhs: TileArg, rhs: object, dim: int | None) -> list[Requirement]:
        return has_columns(lhs, dim)

    entry.expects(lambda out, lhs, rhs, dim: one_value_each(out, lhs, dim))

    @entry.regions
    def _(out: TileArg, lhs: TileArg, rhs: TileArg | float, dim: int | None) -> list[Access]:
        if dim is not None:
            return reduction_regions(out, lhs, dim, "lhs")
        domain = Box(0, 0, out.vr, out.vc)
        touched = [Access("lhs", Effect.READ, domain), Access("out", Effect.WRITE, domain)]
        return [Access("rhs", Effect.READ, domain), *touched] if hasattr(rhs, "type") else touched

    @entry.lower
    def _(k: Builder, out: NativeTile, lhs: NativeTile, rhs: Source, dim: int | None) -> Any:
        combine = k.max if largest else k.min
        if dim is None:
            return k.elementwise(out, (lhs, rhs), combine)
        if dim == 1:
            return k.reduce_cols(out, lhs, combine)
        low, high = (-math.inf, math.inf) if lhs.dtype.is_float() else (lhs.dtype.int_min, lhs.dtype.int_max)
        return k.reduce_rows(out, lhs, low if largest else high, combine)

    entry.doc = (
        f"`out = {word}(lhs, rhs)` over the valid shape of `out`; with dim=0 the {word} of every row of lhs into an\n"
        f"[R, 1] tile, with dim=1 of every column into a [1, C] tile (rhs is then scratch). NaN propagates."
    )
    return entry


maximum = _extreme("maximum", "max", np.maximum, largest=True)
minimum = _extreme("minimum", "min", np.minimum, largest=False)
maximum.any_width = minimum.any_width = True


def block_tree(values: Array, combine: np.ufunc) -> Array:
    """Rows folded in the device's order: a pairwise tree inside each 256-byte block, then the blocks left to right.

    Shape (rows, cols) -> (rows, 1); every step in the element dtype, starting from the ufunc's identity.
    """
    rows, cols = values.shape
    lanes = 256 // values.dtype.itemsize
    padded = np.full((rows, -(-cols // lanes) * lanes), combine.identity, values.dtype)
    padded[:, :cols] = values
    tree = padded.reshape(rows, -1, lanes)
    while tree.shape[2] > 1:
        half = tree.shape[2] // 2
        tree = combine(tree[:, :, :half], tree[:, :, half:])
    total = np.full((rows, 1), combine.identity, values.dtype)
    for block in range(tree.shape[1]):
        total = combine(total, tree[:, block])
    return total


def paired_columns(values: Array, combine: np.ufunc) -> Array:
    """Columns folded in the device's order: row 0, then pairs (row 1, row 2), (row 3, row 4), ..., a last row alone."""
    total = values[:1].copy()
    for r in range(1, len(values), 2):
        pair = combine(values[r : r + 1], values[r + 1 : r + 2]) if r + 1 < len(values) else values[r : r + 1]
        total = combine(total, pair)
    return total


def _fold(combine: np.ufunc) -> Callable[[Array, int], Array]:
    return lambda values, axis: block_tree(values, combine) if axis else paired_columns(values, combine)


@defop("pl.sum", pipe=PipeType.V, family="tile.reduce", tolerance=SUM_ORDER)
def sum_(out: VecOut, src: VecIn, tmp: VecScratch, *, dim: IntAttr = 0) -> None:
    """Sum of every row of src into an [R, 1] tile (dim=0) or of every column into a [1, C] tile (dim=1).

    Accumulates in the tile dtype; integers wrap. The valid shape of src governs; tmp is not accessed.
    """
    reduce_into(out, src, dim, _fold(np.add))


@sum_.rules
def _(out: TileInfo, src: TileInfo, tmp: TileInfo, dim: int) -> None:
    check_reduction(out, src, dim, ROW_SUM)


@sum_.issue
def _(out: TileArg, src: TileArg, tmp: object, dim: int) -> list[Requirement]:
    return has_columns(src, dim)


@sum_.expects
def _(out: TileArg, src: TileArg, tmp: object, dim: int) -> list[Caution]:
    return one_value_each(out, src, dim)


@sum_.regions
def _(out: TileArg, src: TileArg, tmp: TileArg, dim: int) -> list[Access]:
    return reduction_regions(out, src, dim)


@sum_.lower
def _(k: Builder, out: NativeTile, src: NativeTile, tmp: NativeTile, dim: int) -> Any:
    if dim == 0:
        return k.reduce_rows(out, src, 0, operator.add, tree=True)
    return k.reduce_cols(out, src, operator.add, paired=True)


def _product(name: str, dim: int, what: str) -> OpEntry:
    """A legacy product along one axis, in the order of `sum`."""

    @defop(f"pl.{name}", pipe=PipeType.V, family="tile.legacy", tolerance=SUM_ORDER)
    def entry(out: VecOut, src: VecIn, tmp: VecScratch) -> None:
        reduce_into(out, src, dim, _fold(np.multiply))

    @entry.rules
    def _(out: TileInfo, src: TileInfo, tmp: TileInfo) -> None:
        check_reduction(out, src, dim, ROW_SUM)

    @entry.issue
    def _(out: TileArg, src: TileArg, tmp: object) -> list[Requirement]:
        return has_columns(src, dim)

    entry.expects(lambda out, src, tmp: one_value_each(out, src, dim))

    @entry.regions
    def _(out: TileArg, src: TileArg, tmp: TileArg) -> list[Access]:
        return reduction_regions(out, src, dim)

    @entry.lower
    def _(k: Builder, out: NativeTile, src: NativeTile, tmp: NativeTile) -> Any:
        if dim == 0:
            return k.reduce_rows(out, src, 1, operator.mul, tree=True)
        return k.reduce_cols(out, src, operator.mul, paired=True)

    entry.doc = f"Product of every {what}, accumulated in the tile dtype; tmp is not accessed."
    return entry


row_prod = _product("row_prod", 0, "row of src into an [R, 1] tile")
col_prod = _product("col_prod", 1, "column of src into a [1, C] tile")
