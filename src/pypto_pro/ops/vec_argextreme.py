"""argmax and argmin: where the extreme of each row (dim=0) or column (dim=1) stands, counted from the tile's corner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pypto_pro.dtypes import DataType
from pypto_pro.enums import PipeType, TensorLayout
from pypto_pro.ops import rules
from pypto_pro.ops.entry import Access, OpEntry, Requirement, defop
from pypto_pro.ops.operands import IntAttr, TileArg, TileInfo, VecIn, VecOut, VecScratch
from pypto_pro.ops.vec_reduce import check_target, reduce_into, reduction_regions

D = DataType
ALONG_ROWS = (*rules.INTS[2:6], *rules.FLOATS)
ALONG_COLUMNS = (*rules.UP_TO_32_BITS, *rules.FLOATS)


def _arg_extreme(name: str, word: str, pick: Callable[..., Any]) -> OpEntry:
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

    @entry.regions
    def _(out: TileArg, src: TileArg, tmp: TileArg, dim: int) -> list[Access]:
        return reduction_regions(out, src, dim)

    entry.doc = (
        f"out[r, 0] = column of the {word} of row r (dim=0), or out[0, c] = row of the {word} of column c (dim=1).\n"
        "The first of equal values wins, and the first NaN before all others. The valid shape of src governs; tmp is\n"
        "not accessed; out is INT32 or UINT32."
    )
    return entry


argmax = _arg_extreme("argmax", "largest value", np.argmax)
argmin = _arg_extreme("argmin", "smallest value", np.argmin)
