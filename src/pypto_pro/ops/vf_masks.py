"""Predicates of vector functions: masks from patterns and counts (vector-function 4)."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from pypto_pro.dtypes import DataType
from pypto_pro.enums import MaskPattern
from pypto_pro.hw.a5 import REGISTER_BYTES
from pypto_pro.ops.builder import NativeScalar, VectorUnitBuilder
from pypto_pro.ops.entry import Keyword
from pypto_pro.ops.vf_operands import Bits, MaskArg, Registers, Scalar, defvf

Pattern = Annotated[MaskPattern | None, Keyword(enum=MaskPattern)]
Granularity = Annotated[DataType | None, Keyword(enum=DataType)]

_PREFIX = {
    MaskPattern.VL1: 1, MaskPattern.VL2: 2, MaskPattern.VL3: 3, MaskPattern.VL4: 4, MaskPattern.VL8: 8,
    MaskPattern.VL16: 16, MaskPattern.VL32: 32, MaskPattern.VL64: 64, MaskPattern.VL128: 128, MaskPattern.ALLF: 0,
}  # fmt: skip


def pattern_lanes(pattern: MaskPattern, count: int) -> Bits:
    """Which of `count` lanes a pattern activates."""
    lane = np.arange(count)
    match pattern:
        case MaskPattern.ALL:
            return np.ones(count, np.bool_)
        case MaskPattern.H:
            return lane < count // 2
        case MaskPattern.Q:
            return lane < count // 4
        case MaskPattern.M3:
            return lane % 3 == 0
        case MaskPattern.M4:
            return lane % 4 == 0
    return lane < _PREFIX[pattern]


def lane_bytes(dtype: DataType | None) -> int:
    """Bytes of a lane at the granularity of `dtype` (None: FP32)."""
    return (dtype or DataType.DT_FP32).nbytes


@defvf("vf.create_mask", family="vf.mask")
def create_mask(vf: Registers, *, pattern: Pattern = None, dtype: Granularity = None) -> MaskArg:
    """Lane i is active iff the pattern (default ALL) says so for the lanes of `dtype` (default FP32)."""
    width = lane_bytes(dtype)
    return MaskArg.of(pattern_lanes(pattern or MaskPattern.ALL, REGISTER_BYTES // width), width)


@create_mask.lower
def _(k: VectorUnitBuilder, pattern: MaskPattern | None, dtype: DataType | None) -> None:
    width = lane_bytes(dtype)
    k.give_mask(k.choice(pattern_lanes(pattern or MaskPattern.ALL, REGISTER_BYTES // width).tolist()), width)


@defvf("vf.update_mask", family="vf.mask")
def update_mask(vf: Registers, scalar: Scalar, *, dtype: Granularity = None) -> MaskArg:
    """Lane i is active iff i < scalar, the scalar taken modulo 2^32; the caller's scalar does not change."""
    width = lane_bytes(dtype)
    return MaskArg.of(np.arange(REGISTER_BYTES // width) < (int(scalar) & 0xFFFFFFFF), width)


@update_mask.lower
def _(k: VectorUnitBuilder, scalar: NativeScalar, dtype: DataType | None) -> None:
    width = lane_bytes(dtype)
    k.give_mask(k.first(scalar, width), width)
