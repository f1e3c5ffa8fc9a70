"""Moving values between registers: full, move, squeeze."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from pypto_pro.dtypes import DataType
from pypto_pro.enums import DuplicatePos, MergeMode, SqueezeMode
from pypto_pro.hw.a5 import REGISTER_BYTES
from pypto_pro.ir.types import RegType, Type
from pypto_pro.ops import vf_rules as rules
from pypto_pro.ops.entry import Keyword
from pypto_pro.ops.vec_elementwise import element
from pypto_pro.ops.vf_bits import pattern, unsigned
from pypto_pro.ops.vf_builder import NativeMask, NativeReg, VectorUnitBuilder
from pypto_pro.ops.vf_operands import (
    Array,
    MaskArg,
    MaskIn,
    Merge,
    OptionalMask,
    RegArg,
    RegIn,
    Registers,
    RegOrMask,
    ScalarOrReg,
    defvf,
    merged,
)

D = DataType
MOVES = (*rules.INTS_TO_32, *rules.FLOATS, D.DT_BOOL)
BROADCASTS = (*rules.NUMBERS, *rules.EIGHT_BIT_FLOATS, D.DT_FP4E2M1, D.DT_FP4E1M2)
SQUEEZED = (*rules.INTS_TO_32, *rules.SINGLES)

RegisterDtype = Annotated[DataType | None, Keyword(enum=DataType)]
Position = Annotated[DuplicatePos | None, Keyword(enum=DuplicatePos)]
GatherMode = Annotated[SqueezeMode | None, Keyword(enum=SqueezeMode)]


@defvf("vf.full", family="vf.move", copies=True)
def full(
    vf: Registers, scalar_or_src: ScalarOrReg, mask: OptionalMask = None, *, dtype: RegisterDtype = None,
    mode: Merge = None, pos: Position = None,
) -> Array:
    """A scalar, or the first (pos HIGHEST: the last) lane of a register, in every active lane; 0 or the old elsewhere.

    Without a mask every lane. A scalar is converted to `dtype`; 4-bit elements are broadcast in pairs.
    """
    if isinstance(scalar_or_src, RegArg):
        bits = pattern(scalar_or_src)
        lanes = np.full_like(bits, bits[-1 if pos is DuplicatePos.HIGHEST else 0])
    else:
        kind = vf.targets[0].dtype  # type: ignore[union-attr]
        lanes = np.full(REGISTER_BYTES // kind.nbytes, element(scalar_or_src, kind))
    return lanes if mask is None else merged(vf, lanes, mask, mode)


@full.rules
def _(scalar_or_src: Any, mask: Any, dtype: DataType | None, mode: MergeMode | None, pos: DuplicatePos | None) -> None:
    if rules.is_register(scalar_or_src):
        rules.registers(BROADCASTS, scalar_or_src)
        return
    rules.scalar(scalar_or_src, (*rules.SCALARS, D.DT_BOOL))
    if pos is not None:
        raise ValueError("`pos=` picks a lane of a register; a scalar has none")
    if dtype is not None and dtype not in rules.NUMBERS:
        raise TypeError(f"a scalar cannot be broadcast as {dtype.name}")


@full.result_type
def _(targets: tuple[Type | None, ...], scalar_or_src: Any, dtype: DataType | None, **_: Any) -> tuple[RegType, ...]:
    own = rules.dtype_of(scalar_or_src)
    if rules.is_register(scalar_or_src) and dtype not in (None, own):
        raise TypeError(f"`dtype={dtype.name}` must be the dtype of `{scalar_or_src.name}`, {own.name}")
    if dtype is None and own in (D.DT_INDEX, D.DT_BOOL):
        raise TypeError("`dtype=` is missing: an int or bool literal does not say which lanes to fill")
    return (rules.same_register(targets[0], dtype or own, "full"),)


@full.lower
def _(
    k: VectorUnitBuilder, scalar_or_src: Any, mask: NativeMask | None, mode: MergeMode | None, pos: DuplicatePos | None,
    **_: Any,
) -> None:
    if isinstance(scalar_or_src, NativeReg):
        lanes = unsigned(scalar_or_src)
        lane = lanes.count - 1 if pos is DuplicatePos.HIGHEST else 0
        k.give_bits(k.raw(k.shuffle(lanes, [lane] * lanes.count)), mask, mode)
    else:
        k.give(k.full(scalar_or_src, k.targets[0].dtype), mask, mode)


@defvf("vf.move", family="vf.move", copies=True)
def move(vf: Registers, src: RegOrMask, mask: OptionalMask = None, *, mode: Merge = None) -> Array | MaskArg:
    """A copy; with a mask inactive lanes of a register keep the old value, inactive bits of a mask become 0."""
    if isinstance(src, MaskArg):
        return MaskArg(src.bits if mask is None else src.bits & mask.bits)
    return pattern(src) if mask is None else merged(vf, pattern(src), mask, MergeMode.MERGING)


@move.rules
def _(src: Any, mask: Any, mode: MergeMode | None) -> None:
    if not rules.is_mask(src):
        rules.registers(MOVES, src)
    if mode is MergeMode.ZEROING:
        raise ValueError("`mode=pl.MergeMode.ZEROING` is not available: inactive lanes keep the old value")


@move.lower
def _(k: VectorUnitBuilder, src: Any, mask: NativeMask | None, mode: MergeMode | None) -> None:
    if isinstance(src, NativeMask):
        k.give_flags(src.flags if mask is None else src.flags & mask.flags)
    else:
        k.give_bits(src, mask, MergeMode.MERGING)


@defvf("vf.squeeze", family="vf.compare", copies=True)
def squeeze(
    vf: Registers, src: RegIn, mask: MaskIn, *, gather_mode: GatherMode = None, dtype: RegisterDtype = None
) -> Array:
    """The active lanes moved together to the front, 0 behind them; their bytes are counted in AR (NO_STORE_REG: not).

    A `store_unalign` without a count takes as many bytes as the last squeeze counted.
    """
    lanes = pattern(src)
    kept = lanes[mask.lanes(src.width)]
    found = np.zeros_like(lanes)
    found[: kept.size] = kept
    if gather_mode is not SqueezeMode.NO_STORE_REG:
        vf.ar = kept.size * src.width
    return found


@squeeze.rules
def _(src: Any, mask: Any, gather_mode: SqueezeMode | None, dtype: DataType | None) -> None:
    rules.registers(SQUEEZED, src)
    if dtype is not None and (dtype not in SQUEEZED or dtype.nbytes != rules.dtype_of(src).nbytes):
        raise TypeError(f"`dtype={dtype.name}` cannot take the lanes of `{src.name}`, {rules.dtype_of(src).name}")


@squeeze.result_type
def _(targets: tuple[Type | None, ...], src: Any, dtype: DataType | None, **_: Any) -> tuple[RegType, ...]:
    return (rules.reinterpreted(targets[0], dtype or rules.dtype_of(src)),)


@squeeze.lower
def _(k: VectorUnitBuilder, src: NativeReg, mask: NativeMask, gather_mode: SqueezeMode | None, **_: Any) -> None:
    packed, count = k.compressed(unsigned(src), mask.lanes(src.width))
    if gather_mode is not SqueezeMode.NO_STORE_REG:
        k.set_ar(count * src.width)
    k.give_bits(k.raw(packed))
