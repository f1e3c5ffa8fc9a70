"""expand_*: one value a row (dim=0) or a column (dim=1) broadcast against a full tile."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pypto_pro.dtypes import DataType
from pypto_pro.enums import PipeType, TensorLayout
from pypto_pro.layouts import elements_per_block
from pypto_pro.ops import rules
from pypto_pro.ops.entry import Access, Box, Effect, OpEntry, defop
from pypto_pro.ops.operands import Array, IntAttr, TileArg, TileInfo, VecIn, VecOut
from pypto_pro.ops.vec_elementwise import c_divide

D = DataType
NARROW = (D.DT_INT8, D.DT_UINT8, D.DT_INT16, D.DT_UINT16, D.DT_INT32, D.DT_UINT32, D.DT_FP16, D.DT_BF16, D.DT_FP32)


def _is_swapped(out: TileArg, src: TileArg, scalar: TileArg) -> bool:
    """Whether `src` is the broadcast operand: only `scalar` has the valid shape of `out`."""
    domain = (out.vr, out.vc)
    return (src.vr, src.vc) != domain and (scalar.vr, scalar.vc) == domain


def _check_broadcast(scalar: TileInfo, dim: int) -> None:
    """The broadcast tile is [R, 1], a block-replicated ND tile (dim=0) or a [1, C] row (dim=1)."""
    layout = rules.layout_of(scalar)
    if dim == 1 and layout is not TensorLayout.ND:
        raise ValueError(f"`{scalar.name}` must be a row-major [1, C] tile for dim=1")
    block = elements_per_block(scalar.dtype)
    if dim == 0 and scalar.type.cols != 1 and (layout is not TensorLayout.ND or scalar.type.cols < block):
        raise ValueError(
            f"`{scalar.name}` [{scalar.type.rows}, {scalar.type.cols}] must be [R, 1], or ND with each row's value "
            f"repeated over {block} columns, for dim=0"
        )


def _expand(name: str, formula: str, compute: Callable[[Array, Array], Array], dtypes: tuple[DataType, ...]) -> OpEntry:
    """An op `out = src <op> broadcast(scalar)`."""

    @defop(f"pl.{name}", pipe=PipeType.V, family="tile.broadcast",
           aliases=(f"pl.row_{name}",))
    def entry(out: VecOut, src: VecIn, scalar: VecIn, *, dim: IntAttr = 0) -> None:
        rows, cols = (out.vr, 1) if dim == 0 else (1, out.vc)
        if _is_swapped(out, src, scalar):
            out.put(compute(src.get(rows, cols), scalar.over(out)))
        else:
            out.put(compute(src.over(out), scalar.get(rows, cols)))

    @entry.rules
    def _(out: TileInfo, src: TileInfo, scalar: TileInfo, dim: int) -> None:
        if not isinstance(scalar, TileInfo):
            raise TypeError("the third operand is the broadcast tile; for a scalar use the plain tile-scalar op")
        if dim not in (0, 1):
            raise ValueError(f"dim must be 0 (one value a row) or 1 (one a column), found {dim}")
        rules.one_dtype(dtypes, out, src, scalar)
        rules.row_major(out)
        rules.aligned_rows(out, src, scalar)
        _check_broadcast(scalar if rules.layout_of(src) is TensorLayout.ND and src.type.cols != 1 else src, dim)

    @entry.regions
    def _(out: TileArg, src: TileArg, scalar: TileArg, dim: int) -> list[Access]:
        full, part = Box(0, 0, out.vr, out.vc), Box(0, 0, out.vr, 1) if dim == 0 else Box(0, 0, 1, out.vc)
        swapped = _is_swapped(out, src, scalar)
        return [
            Access("src", Effect.READ, part if swapped else full),
            Access("scalar", Effect.READ, full if swapped else part),
            Access("out", Effect.WRITE, full),
        ]

    entry.doc = (
        f"`out[i, j] = {formula}` over the valid shape of `out`, b = scalar[i, 0] (dim=0) or scalar[0, j] (dim=1).\n"
        "`scalar` is a tile: [R, 1], a [1, C] row, or an ND tile with the row's value over one 32-byte block."
    )
    return entry


expand_sub = _expand("expand_sub", "src[i, j] - b", np.subtract, NARROW)
expand_mul = _expand("expand_mul", "src[i, j] * b", np.multiply, NARROW)
expand_max = _expand("expand_max", "max(src[i, j], b)", np.maximum, NARROW)
expand_min = _expand("expand_min", "min(src[i, j], b)", np.minimum, NARROW)
expand_div = _expand("expand_div", "src[i, j] / b", c_divide, NARROW)
