"""Moving values between registers: full."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from pypto_pro.dtypes import DataType
from pypto_pro.enums import DuplicatePos, MergeMode
from pypto_pro.hw.a5 import REGISTER_BYTES
from pypto_pro.ops.builder import NativeMask, VectorUnitBuilder
from pypto_pro.ops.entry import Keyword, Kind, Operand, Role
from pypto_pro.ops.operands import Array
from pypto_pro.ops.vec_elementwise import element
from pypto_pro.ops.vf_operands import MaskArg, Merge, RegArg, Registers, ScalarOrReg, defvf, merged

OptionalMask = Annotated[MaskArg | None, Operand(frozenset({Kind.MASK}), Role.IN)]
RegisterDtype = Annotated[DataType | None, Keyword(enum=DataType)]
Position = Annotated[DuplicatePos | None, Keyword(enum=DuplicatePos)]


@defvf("vf.full", family="vf.move", copies=True)
def full(
    vf: Registers, scalar_or_src: ScalarOrReg, mask: OptionalMask = None, *, dtype: RegisterDtype = None,
    mode: Merge = None, pos: Position = None,
) -> Array:
    """A scalar, or the first (pos HIGHEST: the last) lane of a register, in every active lane."""
    if isinstance(scalar_or_src, RegArg):
        value: Any = scalar_or_src.lanes[-1 if pos is DuplicatePos.HIGHEST else 0]
        lanes = np.full_like(scalar_or_src.lanes, value)
    else:
        kind = vf.targets[0].dtype  # type: ignore[union-attr]
        lanes = np.full(REGISTER_BYTES // kind.nbytes, element(scalar_or_src, kind))
    return lanes if mask is None else merged(vf, lanes, mask, mode)


@full.lower
def _(
    k: VectorUnitBuilder, scalar_or_src: Any, mask: NativeMask | None, mode: MergeMode | None, pos: DuplicatePos | None,
    **_: Any,
) -> None:
    if hasattr(scalar_or_src, "lanes"):
        lanes = scalar_or_src.lanes
        last = scalar_or_src.count - 1
        k.give(k.shuffle(lanes, [last if pos is DuplicatePos.HIGHEST else 0] * scalar_or_src.count), mask, mode)
    else:
        k.give(k.full(scalar_or_src, k.targets[0].dtype), mask, mode)
