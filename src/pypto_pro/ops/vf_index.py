"""Ops that count: arange, histograms."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from pypto_pro.dtypes import DataType
from pypto_pro.enums import BinType, HistType, IndexOrder
from pypto_pro.hw.a5 import REGISTER_BYTES
from pypto_pro.ir.types import RegType, Type
from pypto_pro.ops import vf_rules as rules
from pypto_pro.ops.entry import Keyword
from pypto_pro.ops.vec_elementwise import element
from pypto_pro.ops.vf_builder import NativeMask, NativeReg, NativeScalar, VectorUnitBuilder
from pypto_pro.ops.vf_operands import Array, MaskIn, RegIn, Registers, Scalar, defvf

D = DataType
COUNTED = (*rules.INTS, *rules.SINGLES)
BINS = 128

ResultDtype = Annotated[DataType | None, Keyword(enum=DataType)]
Order = Annotated[IndexOrder | None, Keyword(enum=IndexOrder)]
Bins = Annotated[BinType | None, Keyword(enum=BinType)]
Kind = Annotated[HistType | None, Keyword(enum=HistType)]


def steps(dtype: DataType, order: IndexOrder | None) -> range:
    """What is added to the start, lane by lane: decreasing 64-bit lanes count down from it, others down to it."""
    count = REGISTER_BYTES // dtype.nbytes
    if order is not IndexOrder.DECREASE_ORDER:
        return range(count)
    return range(0, -count, -1) if dtype.nbytes == 8 else range(count - 1, -1, -1)


@defvf("vf.arange", family="vf.index")
def arange(vf: Registers, start: Scalar, *, dtype: ResultDtype = None, index_order: Order = None) -> Array:
    """r[i] = start + i; DECREASE_ORDER: start + N - 1 - i (INT64, UINT64: start - i). Wraps; all lanes are written."""
    assert dtype is not None
    offsets = np.array(steps(dtype, index_order), np.int64)
    first = element(start, dtype)
    if dtype.is_float():
        return np.asarray(first + offsets.astype(dtype.numpy), dtype.numpy)
    return np.asarray(first.astype(np.int64) + offsets).astype(dtype.numpy)


@arange.rules
def _(start: Any, dtype: DataType | None, index_order: IndexOrder | None) -> None:
    if rules.needs_dtype(dtype) not in COUNTED:
        raise TypeError(f"an arange of {dtype.name} does not exist")  # type: ignore[union-attr]
    rules.scalar(start, rules.SCALARS)


@arange.result_type
def _(targets: tuple[Type | None, ...], dtype: DataType | None, **_: Any) -> tuple[RegType, ...]:
    return (rules.same_register(targets[0], rules.needs_dtype(dtype), "arange"),)


@arange.lower
def _(k: VectorUnitBuilder, start: NativeScalar, dtype: DataType, index_order: IndexOrder | None) -> None:
    k.give(k.full(start, dtype) + k.numbers(dtype, steps(dtype, index_order)))


@defvf("vf.histograms", family="vf.index", reads_target=True)
def histograms(
    vf: Registers, src: RegIn, mask: MaskIn, *, bin_type: Bins = None, hist_type: Kind = None
) -> Array:
    """r[n] = old r[n] + how many active bytes equal base + n (FREQUENCY), or are at most base + n (ACCUMULATE).

    n < 128; base is 0 for BIN0 and 128 for BIN1, whose cumulative counts include the bytes below 128. UINT16, wraps.
    """
    kept = src.lanes[mask.lanes(1)]
    counts = np.bincount(kept, minlength=2 * BINS)
    if hist_type is not HistType.FREQUENCY:
        counts = np.cumsum(counts)
    base = BINS if bin_type is BinType.BIN1 else 0
    return np.asarray(vf.old[0].lanes + counts[base : base + BINS].astype(np.uint16))


@histograms.rules
def _(src: Any, mask: Any, bin_type: BinType | None, hist_type: HistType | None) -> None:
    rules.registers((D.DT_UINT8,), src)


@histograms.result_type
def _(targets: tuple[Type | None, ...], **_: Any) -> tuple[RegType, ...]:
    if rules.held_dtype(targets[0]) is not D.DT_UINT16:
        raise TypeError("the target must be a UINT16 register already: write `h = vf.full(0, ..., dtype=pl.DT_UINT16)`")
    return (RegType(D.DT_UINT16),)


@histograms.lower
def _(
    k: VectorUnitBuilder, src: NativeReg, mask: NativeMask, bin_type: BinType | None, hist_type: HistType | None
) -> None:
    counts = k.byte_counts(src, mask.lanes(1), cumulative=hist_type is not HistType.FREQUENCY)
    base = BINS if bin_type is BinType.BIN1 else 0
    k.give(k.old().lanes + k.shuffle(counts, range(base, base + BINS)))
