"""Reductions of vector functions: over a whole register, over each of its eight 32-byte blocks, over lane pairs."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from pypto_pro.dtypes import DataType
from pypto_pro.enums import MergeMode
from pypto_pro.ops import vf_rules as rules
from pypto_pro.ops.entry import Keyword, OpEntry
from pypto_pro.ops.operands import Array, BoolAttr
from pypto_pro.ops.vf_arith import larger, smaller
from pypto_pro.ops.vf_builder import Lanes, NativeMask, NativeReg, VectorUnitBuilder
from pypto_pro.ops.vf_operands import MaskArg, MaskIn, Merge, RegArg, RegIn, Registers, defvf

D = DataType
BLOCKS = 8
REDUCED = (*rules.INTS[2:], *rules.SINGLES)

MergeAttr = Annotated[MergeMode | None, Keyword(enum=MergeMode)]


def folded(values: Array, combine: Any) -> Array:
    """The last axis (a power of two long) combined: upper half onto lower half, in the dtype of the lanes."""
    while values.shape[-1] > 1:
        half = values.shape[-1] // 2
        values = np.asarray(combine(values[..., :half], values[..., half:]))
    return values[..., 0]


def _check(src: Any, mask: Any, datablock: bool, merge_mode: MergeMode | None) -> None:
    rules.registers(REDUCED, src)
    if datablock and rules.dtype_of(src).nbytes == 8:
        raise TypeError(f"`{src.name}` is {rules.dtype_of(src).name}; blocks are reduced for 16- and 32-bit lanes")
    rules.zeroing(merge_mode, "merge_mode")


@defvf("vf.reduce_sum", family="vf.reduce")
def reduce_sum(
    vf: Registers, src: RegIn, mask: MaskIn, *, datablock: BoolAttr = False, merge_mode: MergeAttr = None
) -> Array:
    """r[0] = sum of the active lanes, or r[g] = that of each 32-byte block; other lanes 0.

    Sums of pairs, log2(N) levels (lane i with lane i + N/2 first), each rounded to the dtype; inactive lanes count 0.
    """
    active = np.where(mask.lanes(src.width), src.lanes, np.zeros((), src.lanes.dtype))
    result = np.zeros_like(src.lanes)
    parts = BLOCKS if datablock else 1
    result[:parts] = folded(active.reshape(parts, -1), np.add)
    return result


reduce_sum.rules(_check)


@reduce_sum.lower
def _(k: VectorUnitBuilder, src: NativeReg, mask: NativeMask, datablock: bool, **_: Any) -> None:
    active = mask.lanes(src.width).select(src.lanes, 0)
    k.give(_folded(k, active, lambda a, b: (a + b).rounded(src.dtype), BLOCKS if datablock else 1))


def _folded(k: VectorUnitBuilder, lanes: Lanes, combine: Any, parts: int) -> Lanes:
    """Each of `parts` runs of lanes combined, in the first lanes of a register of zeros."""
    per = lanes.count // parts
    while per > 1:
        half = per // 2
        low = [run * per + i for run in range(parts) for i in range(half)]
        lanes, per = combine(k.shuffle(lanes, low), k.shuffle(lanes, [i + half for i in low])), half
    return k.widened(lanes)


def _worst(dtype: np.dtype[Any], word: str) -> Any:
    """What an inactive lane counts as."""
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return dtype.type(info.min if word == "maximum" else info.max)
    return dtype.type(-np.inf if word == "maximum" else np.inf)


def _first_best(src: RegArg, mask: MaskArg, best: Any) -> int:
    """The first active lane that holds the result (a NaN result: the first NaN), 0 without active lanes."""
    lanes = src.lanes
    found = (lanes == best) | (lanes != lanes) if lanes.dtype.kind not in "iu" else lanes == best
    if lanes.dtype.kind not in "iu" and best != best:
        found = lanes != lanes
    hits = (found & mask.lanes(src.width)).nonzero()[0]
    return int(hits[0]) if hits.size else 0


def _extreme(name: str, word: str, combine: Any) -> OpEntry:
    @defvf(f"vf.{name}", family="vf.reduce")
    def entry(
        vf: Registers, src: RegIn, mask: MaskIn, *, datablock: BoolAttr = False, merge_mode: MergeAttr = None
    ) -> Array:
        active = np.where(mask.lanes(src.width), src.lanes, _worst(src.lanes.dtype, word))
        result = np.zeros_like(src.lanes)
        if datablock:
            result[:BLOCKS] = folded(active.reshape(BLOCKS, -1), combine)
            return result
        result[:1] = folded(active[None], combine)
        result.view(f"u{src.width}")[1] = _first_best(src, mask, result[0])
        return result

    entry.rules(_check)

    @entry.lower
    def _(k: VectorUnitBuilder, src: NativeReg, mask: NativeMask, datablock: bool, **_: Any) -> None:
        low, high = (-np.inf, np.inf) if src.dtype.is_float() else (src.dtype.int_min, src.dtype.int_max)
        live, lanes = mask.lanes(src.width), src.lanes
        active = live.select(lanes, low if word == "maximum" else high)
        pick = k.larger if word == "maximum" else k.smaller
        best = _folded(k, active, pick, BLOCKS if datablock else 1)
        if datablock:
            k.give(best)
            return
        winner = k.shuffle(best, [0] * best.count)
        equal = lanes == winner
        if src.dtype.is_float():
            equal = equal | (lanes != lanes)
        k.give_bits(k.with_lane(best, 1, k.first_set(equal & live, otherwise=0), src.dtype))

    entry.doc = (
        f"r[0] = {word} of the active lanes, r[1] = the lane of the first one (its number as raw bits), other lanes 0; "
        f"with datablock r[g] = the {word} of each 32-byte block. NaN wins; no active lane gives the "
        f"{'lowest' if word == 'maximum' else 'highest'} value, in lane 0."
    )
    return entry


reduce_max = _extreme("reduce_max", "maximum", larger)
reduce_min = _extreme("reduce_min", "minimum", smaller)


@defvf("vf.pair_reduce_sum", family="vf.reduce")
def pair_reduce_sum(vf: Registers, src: RegIn, mask: MaskIn, *, mode: Merge = None) -> Array:
    """r[k] = src[2k] + src[2k + 1], inactive lanes counting 0, for k < N / 2; the upper half is 0."""
    active = np.where(mask.lanes(src.width), src.lanes, np.zeros((), src.lanes.dtype))
    result = np.zeros_like(src.lanes)
    result[: result.size // 2] = active[::2] + active[1::2]
    return result


@pair_reduce_sum.rules
def _(src: Any, mask: Any, mode: MergeMode | None) -> None:
    rules.registers(rules.SINGLES, src)
    rules.zeroing(mode)


@pair_reduce_sum.lower
def _(k: VectorUnitBuilder, src: NativeReg, mask: NativeMask, mode: MergeMode | None) -> None:
    active = mask.lanes(src.width).select(src.lanes, 0)
    even = range(0, active.count, 2)
    k.give(k.widened(k.shuffle(active, even) + k.shuffle(active, [i + 1 for i in even])))
