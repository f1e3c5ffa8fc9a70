"""`cast`: conversion between element types on Vec tiles (numerics 4: pairs, rounding, saturation, wrapping pairs)."""

from __future__ import annotations

from typing import Annotated

from pypto_pro import numerics
from pypto_pro.dtypes import DataType
from pypto_pro.enums import PipeType, RoundMode
from pypto_pro.ops import rules
from pypto_pro.ops.entry import Keyword, defop
from pypto_pro.ops.operands import TileInfo, VecIn, VecOut

Mode = Annotated[RoundMode, Keyword(enum=RoundMode)]


@defop("pl.cast", pipe=PipeType.V, family="tile.convert")
def cast(out: VecOut, src: VecIn, *, mode: Mode = RoundMode.CAST_ROUND) -> None:
    """out = src converted to the dtype of `out`; ties go away from zero unless `mode` says otherwise.

    Exact conversions ignore `mode`; FP8 targets always round to nearest even, HF8 targets ties away. Saturates, except
    the six wrapping pairs. The valid shape of `out` governs.
    """
    out.put_bits(numerics.convert(src.bits(out.vr, out.vc), src.dtype, out.dtype, mode))


@cast.rules
def _(out: TileInfo, src: TileInfo, mode: RoundMode) -> None:
    check_pair(src.dtype, out.dtype)
    rules.row_major(out, src)
    rules.aligned_rows(out, src)


def check_pair(source: DataType, target: DataType) -> None:
    """TypeError for a pair tile casts do not have, naming those of the source."""
    if (source, target) in numerics.TILE_CASTS:
        return
    targets = [b for a, b in numerics.TILE_CASTS if a is source]
    known = f"{rules.names([source])} converts to {rules.names(targets)}" if targets else "it converts to nothing"
    raise TypeError(f"there is no cast from {rules.names([source])} to {rules.names([target])}; {known}")
