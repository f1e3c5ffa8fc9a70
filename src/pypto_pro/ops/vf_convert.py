"""`vf.astype`: conversions between element types, their placement in lanes and their rounding (vector-function 6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from pypto_pro import numerics
from pypto_pro.dtypes import DataType
from pypto_pro.enums import CastLayout, MergeMode, RoundMode, SaturateMode, VFRoundMode
from pypto_pro.hw.a5 import REGISTER_BYTES
from pypto_pro.ir.types import RegType, Type
from pypto_pro.numerics import REGISTER_CASTS, RegisterCast
from pypto_pro.ops import vf_rules as rules
from pypto_pro.ops.entry import Keyword
from pypto_pro.ops.rules import names
from pypto_pro.ops.vf_bits import UNSIGNED, pattern
from pypto_pro.ops.vf_builder import NativeMask, NativeReg, VectorUnitBuilder
from pypto_pro.ops.vf_operands import Array, Bits, MaskArg, MaskIn, Merge, RegArg, RegIn, Registers, defvf

D, M, S = DataType, VFRoundMode, SaturateMode

ResultDtype = Annotated[DataType | None, Keyword(enum=DataType)]
Layout = Annotated[CastLayout | None, Keyword(enum=CastLayout)]
Rounding = Annotated[VFRoundMode | None, Keyword(enum=VFRoundMode)]
Saturation = Annotated[SaturateMode | None, Keyword(enum=SaturateMode)]

_FIXED_NARROW = (D.DT_FP8E4M3FN, D.DT_FP8E5M2)
_BYTES = REGISTER_BYTES


@dataclass(frozen=True)
class Placement:
    """Where the elements of a conversion stand, in units: bytes of 4-bit formats, else lanes.

    `source` and `target` are unit numbers, one pair for each unit converted, `lane` the mask lane that decides about it
    (of `mask_bytes`); `nibbles`: a unit holds two elements, lanes 2k and 2k + 1 on the other side.
    """

    source: tuple[int, ...]
    target: tuple[int, ...]
    mask_bytes: int
    lane: tuple[int, ...]
    nibbles: str = ""  # "source" or "target": which side holds two elements a byte


def placement(src: DataType, dst: DataType, layout: CastLayout | None) -> Placement:
    """The lanes a conversion reads and writes."""
    p = (layout or CastLayout.ZERO).value
    if src.is_sub_byte:  # byte 4k + p gives lanes 2k and 2k + 1
        parts = tuple(4 * k + p for k in range(_BYTES // 4))
        return Placement(parts, tuple(range(_BYTES // 2)), 1, parts, "source")
    if dst.is_sub_byte:
        parts = tuple(4 * k + p for k in range(_BYTES // 4))
        return Placement(tuple(range(_BYTES // 2)), parts, 2, tuple(range(0, _BYTES // 2, 2)), "target")
    count = _BYTES // max(src.nbytes, dst.nbytes)
    every = tuple(range(count))
    ratio = max(src.nbytes, dst.nbytes) // min(src.nbytes, dst.nbytes)
    parts = tuple(ratio * k + p for k in every) if ratio > 1 else every
    if dst.nbytes > src.nbytes:
        return Placement(parts, every, src.nbytes, parts)
    return Placement(every, parts, src.nbytes, every)


@defvf("vf.astype", family="vf.convert")
def astype(
    vf: Registers, src: RegIn, mask: MaskIn, *, dtype: ResultDtype = None, layout: Layout = None,
    round_mode: Rounding = None, saturate: Saturation = None, mode: Merge = None,
) -> Array:
    """Lanes converted to `dtype` where the mask is on for the source lane; all other result lanes are 0.

    Wider results read, and narrower ones write, sub-position `layout` (ZERO, ONE, TWO, THREE) of the wider lanes;
    4-bit elements travel in pairs. Default: nearest even, low bits of integers, IEEE floats; FP8 and HF8 saturate, HF8
    rounds ties away.
    """
    assert dtype is not None
    place = placement(src.dtype, dtype, layout)
    active = mask.lanes(place.mask_bytes)[np.asarray(place.lane)]
    units = src.bytes if place.nibbles == "source" else pattern(src)
    codes = units[np.asarray(place.source)]
    if place.nibbles == "source":
        codes = np.stack([codes & 15, codes >> 4], axis=1).reshape(-1)
        active = np.repeat(active, 2)
    clamp = None if saturate is None else saturate is S.ON
    found = numerics.convert(codes, src.dtype, dtype, round_mode, clamp, "register")
    if place.nibbles == "target":
        found = np.asarray(found[::2] | found[1::2] << 4, np.uint8)
    result = np.zeros(_BYTES // found.itemsize, found.dtype)
    result[np.asarray(place.target)] = np.where(active, found, found.dtype.type(0))
    return result


@astype.rules
def _(
    src: Any, mask: Any, dtype: DataType | None, layout: CastLayout | None, round_mode: VFRoundMode | None,
    saturate: SaturateMode | None, mode: MergeMode | None,
) -> None:
    target = rules.needs_dtype(dtype)
    own = rules.dtype_of(src)
    pair = f"{names([own])} to {names([target])}"
    cast = REGISTER_CASTS.get((own, target))
    if cast is None:
        raise TypeError(f"`{src.name}` cannot be converted from {pair}")
    rules.zeroing(mode)
    if layout is not None and layout.value >= cast.layouts:
        last = CastLayout(cast.layouts - 1).name
        raise ValueError(f"layout {layout.name} does not exist from {pair}; the last is {last}")
    _check_rounding(cast, target, pair, round_mode)
    if saturate is not None and saturate not in cast.saturates and not _always_off(cast, saturate):
        raise ValueError(f"saturate={saturate.name} is not available from {pair}")


def _always_off(cast: RegisterCast, saturate: SaturateMode) -> bool:
    return saturate is S.OFF and cast.saturates == (S.OFF,)


def _check_rounding(cast: RegisterCast, target: DataType, pair: str, round_mode: VFRoundMode | None) -> None:
    fixed = not cast.modes and round_mode is M.CAST_RINT
    if round_mode is None or fixed or round_mode in cast.modes:
        return
    accepted = " or ".join(m.name for m in cast.modes) or "CAST_RINT"
    raise ValueError(f"round_mode {round_mode.name} is not available from {pair}; use {accepted}")


@astype.result_type
def _(targets: tuple[Type | None, ...], dtype: DataType | None, **_: Any) -> tuple[RegType, ...]:
    return (rules.same_register(targets[0], rules.needs_dtype(dtype), "astype"),)


@astype.consumes
def _(src: RegArg, mask: MaskArg, dtype: DataType, layout: CastLayout | None, **_: Any) -> dict[str, Bits]:
    place = placement(src.dtype, dtype, layout)
    width = 1 if place.nibbles == "source" else src.width
    used = np.zeros(_BYTES // width, np.bool_)
    active = mask.lanes(place.mask_bytes)[np.asarray(place.lane)]
    if place.nibbles == "target":
        active = np.repeat(active, 2)
    used[np.asarray(place.source)] = active
    return {"src": np.repeat(used, width)}


@astype.lower
def _(
    k: VectorUnitBuilder, src: NativeReg, mask: NativeMask, dtype: DataType, layout: CastLayout | None,
    round_mode: VFRoundMode | None, saturate: SaturateMode | None, mode: MergeMode | None,
) -> None:
    place = placement(src.dtype, dtype, layout)
    cast = REGISTER_CASTS[src.dtype, dtype]
    rule = round_mode or cast.default_mode
    clamp = cast.default_saturate if saturate is None else saturate is S.ON
    bits = [place.mask_bytes * lane for lane in place.lane]
    codes = k.shuffle(src.as_(UNSIGNED[src.width]).lanes, place.source)
    if place.nibbles == "source":
        codes = _split(k, codes)
        bits = [bits[j // 2] for j in range(codes.count)]
    found = k.cast(codes, src.dtype, dtype, _rule(rule), clamp)
    if place.nibbles == "target":
        found = k.shuffle(found, range(0, found.count, 2)) | k.shuffle(found, range(1, found.count, 2)) << 4
    order = [-1] * (_BYTES // UNSIGNED_BYTES[found.dtype])
    for unit, at in enumerate(place.target):
        order[at] = unit
    k.give_bits(k.raw(k.picked(mask.picked(bits).select(found, 0), order)))


UNSIGNED_BYTES = {dtype: width for width, dtype in UNSIGNED.items()}


def _split(k: VectorUnitBuilder, codes: Any) -> Any:
    """Bytes as pairs of 4-bit codes, low half first."""
    doubled = k.shuffle(codes, [j // 2 for j in range(2 * codes.count)])
    return k.choice([j % 2 == 1 for j in range(doubled.count)]).select(doubled >> 4, doubled & 15)


def _rule(mode: VFRoundMode) -> RoundMode:
    return RoundMode.CAST_ROUND if mode is M.CAST_HYBRID else RoundMode[mode.name]
