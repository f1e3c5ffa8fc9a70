"""Reductions over tile rows and columns, and `maximum`/`minimum`, which are element-wise without `dim`.

dim=0 reduces along the last axis (one value a row, into an [R, 1] tile), dim=1 along the first (one a column). The
source's valid shape governs the reduced extent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np

from pypto_pro.dtypes import DataType
from pypto_pro.enums import PipeType, TensorLayout
from pypto_pro.ops import rules
from pypto_pro.ops.entry import Access, Box, Effect, Keyword, OpEntry, Tolerance, defop
from pypto_pro.ops.operands import Array, IntAttr, ScalarInfo, TileArg, TileInfo, VecIn, VecOrScalar, VecOut, VecScratch
from pypto_pro.ops.vec_elementwise import source

D = DataType
ROW_EXTREME = (D.DT_INT8, D.DT_UINT8, D.DT_INT16, D.DT_INT32, D.DT_INT64, D.DT_UINT64, D.DT_FP16, D.DT_FP32)
ROW_SUM = (D.DT_INT16, D.DT_INT32, D.DT_INT64, D.DT_UINT64, D.DT_FP16, D.DT_FP32)

OptionalDim = Annotated["int | None", Keyword((int,))]


def check_reduction(out: TileInfo, src: TileInfo, dim: int, row_dtypes: tuple[DataType, ...]) -> None:
    """Static rules of a reduction."""
    if dim not in (0, 1):
        raise ValueError(f"dim must be 0 (along columns) or 1 (along rows), found {dim}")
    rules.one_dtype(row_dtypes if dim == 0 else rules.NUMBERS, src, out)
    rules.row_major(src)
    rules.aligned_rows(src, out)
    if dim == 1 and rules.layout_of(out) is not TensorLayout.ND:
        raise ValueError(f"`{out.name}` must be a row-major [1, C] tile for dim=1")


def reduction_regions(out: TileArg, src: TileArg, dim: int) -> list[Access]:
    """The source's valid region is read; one column (dim=0) or one row (dim=1) of `out` is written."""
    target = Box(0, 0, src.vr, 1) if dim == 0 else Box(0, 0, 1, src.vc)
    return [Access("src", Effect.READ, Box(0, 0, src.vr, src.vc)), Access("out", Effect.WRITE, target)]


def reduce_into(out: TileArg, src: TileArg, dim: int, fold: Callable[..., Any]) -> None:
    """out = fold of the source's valid region along one axis; an empty region leaves `out` as it is."""
    if src.vr == 0 or src.vc == 0:
        return
    values = src.get()
    out.put(np.asarray(fold(values, axis=1 - dim, keepdims=True)).astype(out.dtype.numpy))


def _extreme(name: str, word: str, pick: np.ufunc, aliases: tuple[str, ...]) -> OpEntry:
    """`maximum` or `minimum`: element-wise, or a reduction when `dim` is given (then `rhs` is scratch)."""

    @defop(f"pl.{name}", pipe=PipeType.V, family="tile.elementwise+reduce", aliases=aliases)
    def entry(out: VecOut, lhs: VecIn, rhs: VecOrScalar, *, dim: OptionalDim = None) -> None:
        if dim is None:
            out.put(pick(lhs.over(out), source(rhs, out)))
        else:
            reduce_into(out, lhs, dim, pick.reduce)

    @entry.rules
    def _(out: TileInfo, lhs: TileInfo, rhs: TileInfo | ScalarInfo, dim: int | None) -> None:
        rules.need_tile(lhs, "the left operand")
        if dim is not None:
            check_reduction(out, lhs, dim, ROW_EXTREME)
            return
        rules.one_dtype(rules.NUMBERS, out, lhs, rhs)
        rules.row_major(out, lhs, rhs)
        rules.aligned_rows(out, lhs, rhs)

    @entry.regions
    def _(out: TileArg, lhs: TileArg, rhs: TileArg | float, dim: int | None) -> list[Access]:
        if dim is not None:
            read, write = reduction_regions(out, lhs, dim)
            return [Access("lhs", read.effect, read.where), write]
        domain = Box(0, 0, out.vr, out.vc)
        touched = [Access("lhs", Effect.READ, domain), Access("out", Effect.WRITE, domain)]
        return [Access("rhs", Effect.READ, domain), *touched] if hasattr(rhs, "type") else touched

    entry.doc = (
        f"`out = {word}(lhs, rhs)` over the valid shape of `out`; with dim=0 the {word} of every row of lhs into an\n"
        f"[R, 1] tile, with dim=1 of every column into a [1, C] tile (rhs is then scratch). NaN propagates."
    )
    return entry


maximum = _extreme("maximum", "max", np.maximum, ("pl.maxs",))
minimum = _extreme("minimum", "min", np.minimum, ("pl.mins",))


def block_tree_sum(values: Array) -> Array:
    """Row sums in the device's order: a pairwise tree inside each 256-byte block, block results added left to right.

    Shape (rows, cols) -> (rows, 1), every addition in the element dtype.
    """
    rows, cols = values.shape
    lanes = 256 // values.dtype.itemsize
    padded = np.zeros((rows, -(-cols // lanes) * lanes), values.dtype)
    padded[:, :cols] = values
    tree = padded.reshape(rows, -1, lanes)
    while tree.shape[2] > 1:
        half = tree.shape[2] // 2
        tree = tree[:, :, :half] + tree[:, :, half:]
    total = np.zeros((rows, 1), values.dtype)
    for block in range(tree.shape[1]):
        total = total + tree[:, block]
    return total


def paired_column_sum(values: Array) -> Array:
    """Column sums in the device's order: row0, then pairs (row1 + row2), (row3 + row4), ..., a last row alone."""
    total = values[:1].copy()
    for r in range(1, len(values), 2):
        pair = values[r : r + 1] + values[r + 1 : r + 2] if r + 1 < len(values) else values[r : r + 1]
        total = total + pair
    return total


@defop(
    "pl.sum", pipe=PipeType.V, family="tile.reduce",
    tolerance=Tolerance(
        "C * eps * sum(|src|)", 1e-5, 1e-6, "the tree inside a 256-byte block is not specified; the order differs"
    ),
)
def sum_(out: VecOut, src: VecIn, tmp: VecScratch, *, dim: IntAttr = 0) -> None:
    """Sum of every row of src into an [R, 1] tile (dim=0) or of every column into a [1, C] tile (dim=1).

    Accumulates in the tile dtype; integers wrap. The valid shape of src governs; tmp is not accessed.
    """
    if src.vr == 0 or src.vc == 0:
        return
    out.put(block_tree_sum(src.get()) if dim == 0 else paired_column_sum(src.get()))


@sum_.rules
def _(out: TileInfo, src: TileInfo, tmp: TileInfo, dim: int) -> None:
    check_reduction(out, src, dim, ROW_SUM)


@sum_.regions
def _(out: TileArg, src: TileArg, tmp: TileArg, dim: int) -> list[Access]:
    return reduction_regions(out, src, dim)
