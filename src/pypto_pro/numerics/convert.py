"""The conversion matrix (numerics 4): which pairs tile `cast` and register `astype` have, and `convert` itself."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np

from pypto_pro.dtypes import DataType
from pypto_pro.enums import RoundMode, SaturateMode, VFRoundMode
from pypto_pro.numerics.encode import encode, round_integral, rounding_rule
from pypto_pro.numerics.formats import Bits, decode

Pair = tuple[DataType, DataType]
Path = Literal["tile", "register"]

_D = DataType
FP32, FP16, BF16, HF8 = _D.DT_FP32, _D.DT_FP16, _D.DT_BF16, _D.DT_HF8
E4M3, E5M2, E8M0, E2M1, E1M2 = _D.DT_FP8E4M3FN, _D.DT_FP8E5M2, _D.DT_FP8E8M0, _D.DT_FP4E2M1, _D.DT_FP4E1M2
I4, I8, I16, I32, I64 = _D.DT_INT4, _D.DT_INT8, _D.DT_INT16, _D.DT_INT32, _D.DT_INT64
U8, U16, U32 = _D.DT_UINT8, _D.DT_UINT16, _D.DT_UINT32


@dataclass(frozen=True)
class TileCast:
    """A pair of `pl.cast`. `wraps`: integers keep their low bits instead of clamping."""

    wraps: bool = False


@dataclass(frozen=True)
class RegisterCast:
    """A pair of `vf.astype` and the arguments it accepts.

    `layouts`: how many `CastLayout` members, in order, are legal. `modes`: selectable rounding modes; when empty only
    an omitted mode or CAST_RINT is legal and rounding is exact or fixed. `saturates`: accepted `SaturateMode`s, the
    default first.
    """

    layouts: int
    modes: tuple[VFRoundMode, ...] = ()
    saturates: tuple[SaturateMode, ...] = (SaturateMode.OFF,)

    @property
    def default_mode(self) -> VFRoundMode:
        """The mode of an omitted argument."""
        return self.modes[0] if self.modes else VFRoundMode.CAST_RINT

    @property
    def default_saturate(self) -> bool:
        """Whether the pair saturates when the argument is omitted."""
        return self.saturates[0] is SaturateMode.ON


_TILE_TARGETS: dict[DataType, tuple[DataType, ...]] = {
    FP32: (FP32, FP16, BF16, I16, I32, I64, E4M3, E5M2, HF8),
    FP16: (FP32, I32, I16, I8, U8, HF8),
    BF16: (FP32, I32, FP16, E2M1, E1M2),
    HF8: (FP32,),
    E4M3: (FP32,),
    E5M2: (FP32,),
    E2M1: (BF16,),
    E1M2: (BF16,),
    I8: (FP16, I16, I32),
    U8: (FP16, U16),
    I16: (U8, FP16, FP32, I32, U32),
    I32: (FP32, I16, U16, U8, I64),
    U32: (U8, U16, I16),
    I64: (FP32, I32),
}
_TILE_WRAPS = {(FP16, U8), (FP16, I8), (FP16, I16), (FP32, I16), (I64, I32), (I32, I16)}

TILE_CASTS: dict[Pair, TileCast] = {
    (src, dst): TileCast((src, dst) in _TILE_WRAPS) for src, targets in _TILE_TARGETS.items() for dst in targets
}

_M, _S = VFRoundMode, SaturateMode
_FIVE = (_M.CAST_RINT, _M.CAST_ROUND, _M.CAST_FLOOR, _M.CAST_CEIL, _M.CAST_TRUNC)
_TO_HF8 = (_M.CAST_ROUND, _M.CAST_HYBRID)
_BOTH, _ON = (_S.OFF, _S.ON), (_S.ON,)

REGISTER_CASTS: dict[Pair, RegisterCast] = {
    # float to integer
    (FP16, I4): RegisterCast(4, _FIVE, _BOTH),
    (FP16, I8): RegisterCast(2, _FIVE, _BOTH),
    (FP16, U8): RegisterCast(2, _FIVE, _BOTH),
    (FP16, I16): RegisterCast(1, _FIVE, _BOTH),
    (FP16, U16): RegisterCast(1, _FIVE, _BOTH),
    (FP16, I32): RegisterCast(2, _FIVE),
    (FP16, U32): RegisterCast(2, _FIVE, _BOTH),
    (BF16, I32): RegisterCast(2, _FIVE, _BOTH),
    (BF16, U32): RegisterCast(2, _FIVE, _BOTH),
    (FP32, I16): RegisterCast(2, _FIVE, _BOTH),
    (FP32, I32): RegisterCast(1, _FIVE, _BOTH),
    (FP32, U32): RegisterCast(1, _FIVE, _BOTH),
    (FP32, I64): RegisterCast(2, _FIVE, _BOTH),
    # float to wider float
    (HF8, FP16): RegisterCast(2),
    (HF8, FP32): RegisterCast(4),
    (E4M3, FP32): RegisterCast(4),
    (E5M2, FP32): RegisterCast(4),
    (E8M0, BF16): RegisterCast(2),
    (E2M1, BF16): RegisterCast(4),
    (E1M2, BF16): RegisterCast(4),
    (BF16, FP32): RegisterCast(2),
    (FP16, FP32): RegisterCast(2),
    # float to float of the same or smaller width
    (FP16, HF8): RegisterCast(2, _TO_HF8, _BOTH),
    (FP16, BF16): RegisterCast(1, _FIVE),
    (BF16, FP16): RegisterCast(1, _FIVE, _BOTH),
    (BF16, E2M1): RegisterCast(4, _FIVE),
    (BF16, E1M2): RegisterCast(4, _FIVE),
    (BF16, E8M0): RegisterCast(2),
    (FP32, HF8): RegisterCast(4, _TO_HF8, _ON),
    (FP32, E4M3): RegisterCast(4, (_M.CAST_RINT,), _ON),
    (FP32, E5M2): RegisterCast(4, (_M.CAST_RINT,), _ON),
    (FP32, FP16): RegisterCast(2, (*_FIVE, _M.CAST_ODD), _BOTH),
    (FP32, BF16): RegisterCast(2, _FIVE, _BOTH),
    # integer to float: always saturating, which is not selectable
    (I4, FP16): RegisterCast(4),
    (I4, BF16): RegisterCast(4),
    (I8, FP16): RegisterCast(2),
    (U8, FP16): RegisterCast(2),
    (I16, FP16): RegisterCast(1, _FIVE),
    (U16, FP16): RegisterCast(1, _FIVE),
    (I16, FP32): RegisterCast(2),
    (U16, FP32): RegisterCast(2),
    (I32, FP32): RegisterCast(1, _FIVE),
    (U32, FP32): RegisterCast(1, _FIVE),
    (I32, FP16): RegisterCast(2, _FIVE),
    (U32, FP16): RegisterCast(2, _FIVE),
    (I64, FP32): RegisterCast(2, _FIVE),
    # integer to wider integer
    (I4, I16): RegisterCast(4),
    (I8, I16): RegisterCast(2),
    (I8, I32): RegisterCast(4),
    (U8, U16): RegisterCast(2),
    (U8, U32): RegisterCast(4),
    (I16, I32): RegisterCast(2),
    (I16, U32): RegisterCast(2),
    (U16, U32): RegisterCast(2),
    (I32, I64): RegisterCast(2),
    (U32, I64): RegisterCast(2),
    # integer to narrower integer
    (I16, I4): RegisterCast(4, (), _BOTH),
    (I16, U8): RegisterCast(2, (), _BOTH),
    (I16, I8): RegisterCast(2, (), _BOTH),
    (U16, U8): RegisterCast(2, (), _BOTH),
    (U16, I8): RegisterCast(2, (), _BOTH),
    (I32, U8): RegisterCast(4, (), _BOTH),
    (I32, I8): RegisterCast(4, (), _BOTH),
    (I32, I16): RegisterCast(2, (), _BOTH),
    (I32, U16): RegisterCast(2, (), _BOTH),
    (U32, U8): RegisterCast(4, (), _BOTH),
    (U32, I8): RegisterCast(4, (), _BOTH),
    (U32, I16): RegisterCast(2, (), _BOTH),
    (U32, U16): RegisterCast(2, (), _BOTH),
    (I64, I32): RegisterCast(2, (), _BOTH),
    (I64, U32): RegisterCast(2, (), _BOTH),
}

# Pairs whose rounding no argument changes: nearest even, except HF8, which `encode` always rounds ties away.
_FIXED_ROUNDING = frozenset({E4M3, E5M2, E8M0})


def convert(
    bits: Bits,
    src: DataType,
    dst: DataType,
    mode: RoundMode | VFRoundMode | None = None,
    saturate: bool | None = None,
    path: Path = "tile",
) -> Bits:
    """Bit patterns of `src` elements converted to `dst`, element by element, same shape.

    `mode` None is the path's default (tile ties away, register ties to even); `saturate` None is the pair's default,
    False asks for IEEE results or low bits. ValueError for a pair the path does not have.
    """
    table = TILE_CASTS if path == "tile" else REGISTER_CASTS
    if (src, dst) not in table:
        raise ValueError(f"{path} conversion from {src.to_string()} to {dst.to_string()} does not exist")
    entry = table[src, dst]
    match entry:
        case TileCast(wraps=wraps):
            chosen = RoundMode.CAST_ROUND if mode is None else mode
            clamp = not wraps if saturate is None else saturate
        case RegisterCast():
            chosen = entry.default_mode if mode is None else mode
            clamp = entry.default_saturate if saturate is None else saturate
    if dst in _FIXED_ROUNDING:
        chosen = RoundMode.CAST_RINT
    if (src, dst) == (I16, U32):
        clamp = True  # a negative value gives 0 whatever was asked for
    infinite_wraps = (src, dst) in _TILE_WRAPS and path == "tile"
    rule = rounding_rule(chosen, to_integer=not dst.is_float() or src is dst, odd=(src, dst) == (FP32, FP16))
    if src.bits() > 16:
        return _convert(bits, src, dst, rule, clamp, infinite_wraps)
    return _lookup(src, dst, rule, clamp, infinite_wraps).take(bits)


def _convert(bits: Bits, src: DataType, dst: DataType, rule: RoundMode, saturate: bool, infinite_wraps: bool) -> Bits:
    values = decode(bits, src)
    if src is dst:
        return round_integral(values, rule).view(dst.bits_dtype)
    return encode(values, dst, rule, saturate, infinite_wraps=infinite_wraps)


@cache
def _lookup(src: DataType, dst: DataType, rule: RoundMode, saturate: bool, infinite_wraps: bool) -> Bits:
    """Result for every code of a format of at most 16 bits."""
    codes = np.arange(1 << src.bits(), dtype=src.bits_dtype)
    return _convert(codes, src, dst, rule, saturate, infinite_wraps)
