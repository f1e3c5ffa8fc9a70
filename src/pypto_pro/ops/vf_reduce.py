"""Reductions of vector functions: over a whole register, or over each of its eight 32-byte blocks."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from pypto_pro.dtypes import DataType
from pypto_pro.enums import MergeMode
from pypto_pro.ops.builder import NativeMask, NativeReg, VectorUnitBuilder
from pypto_pro.ops.entry import Keyword, OpEntry, Tolerance
from pypto_pro.ops.operands import Array, BoolAttr
from pypto_pro.ops.vf_operands import MaskIn, RegIn, Registers, defvf

BLOCKS = 8

MergeAttr = Annotated[MergeMode | None, Keyword(enum=MergeMode)]


def tree_sum(values: Array) -> Array:
    """Pairwise sums over the last axis (a power of two long), every addition in the dtype of the lanes."""
    while values.shape[-1] > 1:
        half = values.shape[-1] // 2
        values = values[..., :half] + values[..., half:]
    return values[..., 0]


@defvf(
    "vf.reduce_sum", family="vf.reduce",
    tolerance=Tolerance("log2(N) * eps * sum(|src|)", 1e-5, 1e-6, "the order inside the tree is not specified"),
)
def reduce_sum(
    vf: Registers, src: RegIn, mask: MaskIn, *, datablock: BoolAttr = False, merge_mode: MergeAttr = None
) -> Array:
    """r[0] = sum of the active lanes, or r[g] = that of each 32-byte block; other lanes 0."""
    active = np.where(mask.lanes(src.width), src.lanes, np.zeros((), src.lanes.dtype))
    result = np.zeros_like(src.lanes)
    if datablock:
        result[:BLOCKS] = tree_sum(active.reshape(BLOCKS, -1))
    else:
        result[0] = tree_sum(active)
    return result


@reduce_sum.lower
def _(k: VectorUnitBuilder, src: NativeReg, mask: NativeMask, datablock: bool, **_: Any) -> Any:
    if datablock:
        return NotImplemented
    active = mask.lanes(src.width).select(src.lanes, 0)
    total = k.fold(active, lambda a, b: (a + b).rounded(src.dtype))
    k.give(k.placed([total], src.dtype))
    return None


def _extreme(name: str, word: str, fold: np.ufunc, find: Any) -> OpEntry:
    @defvf(f"vf.{name}", family="vf.reduce")
    def entry(
        vf: Registers, src: RegIn, mask: MaskIn, *, datablock: BoolAttr = False, merge_mode: MergeAttr = None
    ) -> Array:
        active = np.where(mask.lanes(src.width), src.lanes, _worst(src.lanes.dtype, word))
        result = np.zeros_like(src.lanes)
        if datablock:
            result[:BLOCKS] = fold.reduce(active.reshape(BLOCKS, -1), axis=1)
            return result
        result[0] = fold.reduce(active)
        first = int(find(active)) if mask.lanes(src.width).any() else 0
        result[1:2] = np.array([first], f"u{src.width}").view(src.lanes.dtype)
        return result

    @entry.lower
    def _(k: VectorUnitBuilder, src: NativeReg, mask: NativeMask, datablock: bool, **_: Any) -> Any:
        if datablock or src.width not in (2, 4):
            return NotImplemented
        low, high = (-np.inf, np.inf) if src.dtype.is_float() else (src.dtype.int_min, src.dtype.int_max)
        live, lanes = mask.lanes(src.width), src.lanes
        active = live.select(lanes, low if word == "maximum" else high)
        best = k.fold(active, k.max if word == "maximum" else k.min)
        equal = (active == best) | (active != active)  # the first NaN is the first of the best
        index = DataType.DT_INT32 if src.width == 4 else DataType.DT_INT16
        place = k.fold(equal.select(k.indices(index), src.count), k.min)
        any_live = k.fold(live.select(k.indices(index), src.count), k.min) < src.count
        k.give_bits(k.with_lane(k.placed([best], src.dtype), 1, any_live.choose(place, 0), src.dtype))
        return None

    entry.doc = (
        f"r[0] = {word} of the active lanes, r[1] = the lane of the first one (its number as raw bits), other lanes 0; "
        f"with datablock r[g] = the {word} of each 32-byte block. NaN wins."
    )
    return entry


def _worst(dtype: np.dtype[Any], word: str) -> Any:
    """What an inactive lane counts as."""
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return dtype.type(info.min if word == "maximum" else info.max)
    return dtype.type(-np.inf if word == "maximum" else np.inf)


reduce_max = _extreme("reduce_max", "maximum", np.maximum, np.argmax)
reduce_min = _extreme("reduce_min", "minimum", np.minimum, np.argmin)
