"""Vector mask control, on the scalar unit. Tile ops manage the mask themselves, so nothing shows in memory."""

from __future__ import annotations

from typing import Any

from pypto_pro.enums import PipeType
from pypto_pro.ops.entry import Service, defop
from pypto_pro.ops.operands import ScalarIn, ScalarInfo


@defop("pl.set_mask_count", pipe=PipeType.S, family="tile.mask", service=Service.COUNT_MASK)
def set_mask_count() -> None:
    """Counter mode: the low 64 bits of the mask are a number of elements. No effect on tile ops."""


@defop("pl.set_mask_norm", pipe=PipeType.S, family="tile.mask", service=Service.NORMAL_MASK)
def set_mask_norm() -> None:
    """Normal mode, the default of a vector section: one mask bit an element. No effect on tile ops."""


@defop("pl.set_vec_mask", pipe=PipeType.S, family="tile.mask", service=Service.SET_MASK)
def set_vec_mask(mask_high: ScalarIn, mask_low: ScalarIn) -> None:
    """mask = bits of elements 64..127, bits of elements 0..63 (or a count, in counter mode). No effect on tile ops."""


@set_vec_mask.rules
def _(mask_high: ScalarInfo, mask_low: ScalarInfo) -> None:
    for word in (mask_high, mask_low):
        if word.type.dtype.is_float():
            raise TypeError("a mask word is an integer")


@defop("pl.reset_mask", pipe=PipeType.S, family="tile.mask", service=Service.RESET_MASK)
def reset_mask() -> None:
    """All elements active, as set_vec_mask(-1, -1); the mode stays. No effect on tile ops."""


for _entry in (set_mask_count, set_mask_norm, set_vec_mask, reset_mask):

    @_entry.lower
    def _(k: Any, **_: Any) -> None:
        """The executor's inline code does it."""
