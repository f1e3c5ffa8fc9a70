"""Static checks that register ops share. Each raises TypeError or ValueError, which the front end makes LoweringErrors.

Operands are seen as `frontend.operands.RegisterInfo` (registers, masks), `ScalarInfo` and `TileInfo`; all have `.type`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pypto_pro.dtypes import DataType
from pypto_pro.enums import MergeMode
from pypto_pro.ir.types import MaskType, RegType, ScalarType, Type
from pypto_pro.ops.rules import names

D = DataType
BYTES = (D.DT_INT8, D.DT_UINT8)
INTS_TO_32 = (*BYTES, D.DT_INT16, D.DT_UINT16, D.DT_INT32, D.DT_UINT32)
INTS = (*INTS_TO_32, D.DT_INT64, D.DT_UINT64)
FLOATS = (D.DT_FP16, D.DT_BF16, D.DT_FP32)
NUMBERS = (*INTS, *FLOATS)
SINGLES = (D.DT_FP16, D.DT_FP32)
SIGNED = (D.DT_INT8, D.DT_INT16, D.DT_INT32, D.DT_INT64)
EIGHT_BIT_FLOATS = (D.DT_FP8E4M3FN, D.DT_FP8E5M2, D.DT_FP8E8M0, D.DT_HF8)
FOUR_BIT = (D.DT_FP4, D.DT_FP4E2M1, D.DT_FP4E1M2, D.DT_INT4, D.DT_UINT4)
MOVABLE = (*NUMBERS, *EIGHT_BIT_FLOATS, *FOUR_BIT, D.DT_BOOL)
SCALARS = (*NUMBERS, D.DT_INDEX)


def is_register(operand: Any) -> bool:
    """Whether an operand is a data register."""
    return operand is not None and isinstance(getattr(operand, "type", None), RegType)


def is_mask(operand: Any) -> bool:
    """Whether an operand is a predicate."""
    return operand is not None and isinstance(getattr(operand, "type", None), MaskType)


def is_scalar(operand: Any) -> bool:
    """Whether an operand is a number."""
    return operand is not None and isinstance(getattr(operand, "type", None), ScalarType)


def dtype_of(operand: Any) -> DataType:
    """Element dtype of a register, tile or scalar; tag of a mask."""
    found = operand.type.dtype
    assert isinstance(found, DataType)
    return found


def has_dtype(operand: Any, among: Iterable[DataType]) -> None:
    """TypeError unless the operand's dtype is listed."""
    accepted = tuple(among)
    if dtype_of(operand) not in accepted:
        raise TypeError(f"`{operand.name}` is {names([dtype_of(operand)])}; accepted are {names(accepted)}")


def registers(among: Iterable[DataType], *operands: Any) -> None:
    """All operands are data registers of one listed dtype."""
    for operand in operands:
        if not is_register(operand):
            raise TypeError(f"`{operand.name}` is a mask where a data register is needed")
    first, *rest = operands
    has_dtype(first, among)
    for other in rest:
        if dtype_of(other) is not dtype_of(first):
            raise TypeError(
                f"`{other.name}` is {names([dtype_of(other)])} and `{first.name}` is {names([dtype_of(first)])}; "
                "register operands must have one dtype"
            )


def masks(*operands: Any) -> None:
    """All operands are predicates."""
    for operand in operands:
        if not is_mask(operand):
            raise TypeError(f"`{operand.name}` is a data register where a mask is needed")


def zeroing(mode: MergeMode | None, keyword: str = "mode") -> None:
    """The op has no merging form."""
    if mode is MergeMode.MERGING:
        raise ValueError(f"`{keyword}=pl.MergeMode.MERGING` is not available here; inactive lanes become 0")


def scalar(operand: Any, among: Iterable[DataType]) -> None:
    """A number whose dtype is listed; int literals count as INDEX."""
    accepted = tuple(among)
    found = dtype_of(operand)
    if found not in accepted:
        what = "an int literal" if found is D.DT_INDEX else names([found])
        listed = names(d for d in accepted if d is not D.DT_INDEX)
        raise TypeError(f"the scalar `{operand.name}` is {what}; accepted are {listed}")


def width(dtype: DataType) -> int:
    """Bytes of a lane."""
    return dtype.nbytes


def held_dtype(target: Type | None) -> DataType | None:
    """The dtype of a register a target name already holds, None for fresh names and masks."""
    return target.dtype if isinstance(target, RegType) else None


def same_register(target: Type | None, dtype: DataType, op: str) -> RegType:
    """A result of `dtype`; a register of another dtype cannot take it."""
    held = held_dtype(target)
    if held is not None and held is not dtype:
        raise TypeError(f"the target is {names([held])} and the result {names([dtype])}; use a new name")
    return RegType(dtype)


def reinterpreted(target: Type | None, dtype: DataType, *, any_width: bool = False) -> RegType:
    """A result whose bits a register of another dtype may take and keep its dtype (of equal width, or of any)."""
    held = held_dtype(target)
    if held is None:
        return RegType(dtype)
    if not any_width and held.nbytes != dtype.nbytes:
        raise TypeError(f"the target is {names([held])} and the result {names([dtype])}: another width; use a new name")
    return RegType(held)


def needs_dtype(dtype: DataType | None) -> DataType:
    """The dtype keyword of an op that requires it."""
    if dtype is None:
        raise TypeError("`dtype=` is missing")
    return dtype
