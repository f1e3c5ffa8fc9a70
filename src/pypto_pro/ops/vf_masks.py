"""Predicates of vector functions: masks from patterns, counts and register bits (vector-function 4)."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from pypto_pro.dtypes import DataType
from pypto_pro.enums import MaskPattern
from pypto_pro.hw.a5 import REGISTER_BYTES
from pypto_pro.ir.types import MaskType, RegType, Type
from pypto_pro.ops import vf_rules as rules
from pypto_pro.ops.entry import Keyword
from pypto_pro.ops.vf_builder import NativeMask, NativeReg, NativeScalar, VectorUnitBuilder
from pypto_pro.ops.vf_operands import Array, Bits, MaskArg, MaskIn, RegArg, RegIn, Registers, Scalar, defvf

D = DataType
BIT_SOURCES = (D.DT_FP16, D.DT_BF16, D.DT_INT16, D.DT_UINT16, D.DT_FP32, D.DT_INT32, D.DT_UINT32)

Pattern = Annotated[MaskPattern | None, Keyword(enum=MaskPattern)]
Granularity = Annotated[DataType | None, Keyword(enum=DataType)]
Part = Annotated[int | None, Keyword((int,))]

_PREFIX = {
    MaskPattern.VL1: 1, MaskPattern.VL2: 2, MaskPattern.VL3: 3, MaskPattern.VL4: 4, MaskPattern.VL8: 8,
    MaskPattern.VL16: 16, MaskPattern.VL32: 32, MaskPattern.VL64: 64, MaskPattern.VL128: 128, MaskPattern.ALLF: 0,
}  # fmt: skip


def pattern_lanes(pattern: MaskPattern, count: int) -> Bits:
    """Which of `count` lanes a pattern activates."""
    lane = np.arange(count)
    match pattern:
        case MaskPattern.M3 | MaskPattern.M4:
            return np.asarray(lane % (3 if pattern is MaskPattern.M3 else 4) == 0)
        case MaskPattern.ALL:
            limit = count
        case MaskPattern.H | MaskPattern.Q:
            limit = count // (2 if pattern is MaskPattern.H else 4)
        case _:
            limit = _PREFIX[pattern]
    return np.asarray(lane < limit)


def lane_bytes(dtype: DataType | None) -> int:
    """Bytes of a lane at the granularity of `dtype` (None: FP32)."""
    return (dtype or D.DT_FP32).nbytes


def _tagged(targets: tuple[Type | None, ...], dtype: DataType | None, **_: Any) -> tuple[MaskType, ...]:
    return (MaskType(dtype or D.DT_FP32),)


@defvf("vf.create_mask", family="vf.mask")
def create_mask(vf: Registers, *, pattern: Pattern = None, dtype: Granularity = None) -> MaskArg:
    """Lane i is active iff the pattern (default ALL) says so for the lanes of `dtype` (default FP32)."""
    width = lane_bytes(dtype)
    return MaskArg.of(pattern_lanes(pattern or MaskPattern.ALL, REGISTER_BYTES // width), width)


create_mask.result_type(_tagged)


@create_mask.lower
def _(k: VectorUnitBuilder, pattern: MaskPattern | None, dtype: DataType | None) -> None:
    width = lane_bytes(dtype)
    k.give_mask(k.choice(pattern_lanes(pattern or MaskPattern.ALL, REGISTER_BYTES // width).tolist()), width)


@defvf("vf.update_mask", family="vf.mask")
def update_mask(vf: Registers, scalar: Scalar, *, dtype: Granularity = None) -> MaskArg:
    """Lane i is active iff i < scalar, the scalar taken modulo 2^32; the caller's scalar does not change."""
    width = lane_bytes(dtype)
    return MaskArg.of(np.arange(REGISTER_BYTES // width) < (int(scalar) & 0xFFFFFFFF), width)


update_mask.result_type(_tagged)


@update_mask.lower
def _(k: VectorUnitBuilder, scalar: NativeScalar, dtype: DataType | None) -> None:
    width = lane_bytes(dtype)
    k.give_mask(k.first(scalar, width), width)


@defvf("vf.mask_gen_with_reg_tensor", family="vf.mask")
def mask_gen_with_reg_tensor(vf: Registers, src: RegIn, *, offset: Part = None) -> MaskArg:
    """Register bits as a mask: 128 bits at byte 16 * offset for 16-bit lanes, 64 at byte 8 * offset for 32-bit ones.

    Each bit is spread over the mask bits of its lane.
    """
    lanes = REGISTER_BYTES // src.width
    start = (offset or 0) * lanes // 8
    bits = np.unpackbits(src.bytes[start : start + lanes // 8], bitorder="little")
    return MaskArg(np.repeat(bits != 0, src.width))


@mask_gen_with_reg_tensor.rules
def _(src: Any, offset: int | None) -> None:
    rules.registers(BIT_SOURCES, src)
    blocks = 8 * rules.dtype_of(src).nbytes
    if not 0 <= (offset or 0) < blocks:
        raise ValueError(f"offset is {offset}; a {rules.dtype_of(src).name} register has {blocks} blocks of mask bits")


@mask_gen_with_reg_tensor.consumes
def _(src: RegArg, offset: int | None) -> dict[str, Bits]:
    size = REGISTER_BYTES // src.width // 8
    used = np.zeros(REGISTER_BYTES, np.bool_)
    used[(offset or 0) * size : ((offset or 0) + 1) * size] = True
    return {"src": used}


@mask_gen_with_reg_tensor.lower
def _(k: VectorUnitBuilder, src: NativeReg, offset: int | None) -> None:
    size = src.count // 8
    start = (offset or 0) * size
    part = k.shuffle(src.as_(D.DT_UINT8).lanes, range(start, start + size))
    k.give_flags(k.shuffle(k.flags_of(part), [lane // src.width for lane in range(REGISTER_BYTES)]))


@defvf("vf.unsqueeze", family="vf.rearrange")
def unsqueeze(vf: Registers, mask: MaskIn, *, dtype: Granularity = None) -> Array:
    """r[0] = 0, r[i] = r[i - 1] + mask[i - 1]: how many lanes before lane i are active; wraps."""
    kind = vf.targets[0].dtype  # type: ignore[union-attr]
    active = mask.lanes(kind.nbytes)
    counts = np.zeros(active.size, np.int64)
    counts[1:] = np.cumsum(active[:-1])
    return counts.astype(kind.numpy)


@unsqueeze.result_type
def _(targets: tuple[Type | None, ...], mask: Any, dtype: DataType | None) -> tuple[RegType, ...]:
    found = dtype or rules.dtype_of(mask)
    if found not in rules.INTS_TO_32:
        raise TypeError(f"the counts cannot be {found.name}; give `dtype=` an integer of 8, 16 or 32 bits")
    return (rules.same_register(targets[0], found, "unsqueeze"),)


@unsqueeze.lower
def _(k: VectorUnitBuilder, mask: NativeMask, dtype: DataType | None) -> None:
    kind = k.targets[0].dtype
    counts = mask.lanes(kind.nbytes).to(kind)
    step = 1
    while step < counts.count:  # sums over 2, 4, 8, ... lanes to the left
        moved = k.picked(counts, [i - step if i >= step else -1 for i in range(counts.count)])
        counts, step = counts + moved, 2 * step
    k.give_bits(k.raw(k.picked(counts, range(-1, counts.count - 1))))
