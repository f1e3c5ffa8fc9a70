"""`cast`: conversion between element types on Vec tiles (numerics 4: pairs, rounding, saturation, wrapping pairs)."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from pypto_pro import numerics
from pypto_pro.dtypes import DataType
from pypto_pro.enums import PipeType, RoundMode
from pypto_pro.numerics.encode import rounding_rule
from pypto_pro.ops import rules
from pypto_pro.ops.builder import Builder, NativeTile
from pypto_pro.ops.entry import Access, Box, Effect, Keyword, defop
from pypto_pro.ops.operands import TileArg, TileInfo, VecIn, VecOut

Mode = Annotated[RoundMode, Keyword(enum=RoundMode)]


@defop("pl.cast", pipe=PipeType.V, family="tile.convert")
def cast(out: VecOut, src: VecIn, *, mode: Mode = RoundMode.CAST_ROUND) -> None:
    """out = src converted to the dtype of `out`; ties go away from zero unless `mode` says otherwise.

    Exact conversions ignore `mode`; FP8 targets always round to nearest even, HF8 targets ties away. Saturates, except
    the six wrapping pairs. The valid shape of `out` governs. FP4 targets: whole rows are zeroed, then whole bytes
    written, so an odd last column stays 0.
    """
    convert_into(out, src, mode)


@cast.rules
def _(out: TileInfo, src: TileInfo, mode: RoundMode) -> None:
    check_pair(src.dtype, out.dtype)
    rules.row_major(out, src)
    rules.aligned_rows(out, src)


@cast.lower
def _(k: Builder, out: NativeTile, src: NativeTile, mode: RoundMode) -> Any:
    pair = (src.dtype, out.dtype)
    odd = pair == (DataType.DT_FP32, DataType.DT_FP16)
    rule = rounding_rule(mode, to_integer=not out.dtype.is_float() or src.dtype is out.dtype, odd=odd)
    wraps = numerics.TILE_CASTS[pair].wraps
    return k.elementwise(out, (src,), lambda x: k.convert(x, *pair, rule, not wraps, wraps))


@cast.regions
def _(out: TileArg, src: TileArg, mode: RoundMode) -> list[Access]:
    return conversion_regions(out, "src")


def convert_into(out: TileArg, src: TileArg, mode: RoundMode) -> None:
    """out = src over the valid shape of `out`."""
    cols = converted_columns(out)
    bits = numerics.convert(src.bits(out.vr, cols), src.dtype, out.dtype, mode)
    if out.dtype.is_sub_byte:
        out.put_bits(np.zeros((out.vr, out.type.cols), np.uint8))
    out.put_bits(bits)


def converted_columns(out: Any) -> Any:
    """Columns really converted: packed 4-bit results come in whole bytes."""
    return out.vc // 2 * 2 if out.type.dtype.is_sub_byte else out.vc


def conversion_regions(out: Any, source: str) -> list[Access]:
    """Reads of the source and writes of `out`, which for 4-bit elements are whole rows."""
    written = out.type.cols if out.type.dtype.is_sub_byte else out.vc
    return [
        Access(source, Effect.READ, Box(0, 0, out.vr, converted_columns(out))),
        Access("out", Effect.WRITE, Box(0, 0, out.vr, written)),
    ]


def check_pair(source: DataType, target: DataType) -> None:
    """TypeError for a pair tile casts do not have, naming those of the source."""
    if (source, target) in numerics.TILE_CASTS:
        return
    targets = [b for a, b in numerics.TILE_CASTS if a is source]
    known = f"{rules.names([source])} converts to {rules.names(targets)}" if targets else "it converts to nothing"
    raise TypeError(f"there is no cast from {rules.names([source])} to {rules.names([target])}; {known}")
