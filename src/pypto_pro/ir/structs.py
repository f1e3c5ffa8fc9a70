"""Structs as bytes: C layout, the same on the host, in the simulator and in native code."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from pypto_pro.dtypes import DataType
from pypto_pro.ir.types import ArrayType, ScalarType, StructType

Leaves: TypeAlias = tuple[tuple[int, DataType], ...]


@dataclass(frozen=True, slots=True)
class StructLayout:
    """`offsets` of the members by name; `leaves`: (offset, dtype) of every scalar in declaration order; bytes."""

    offsets: dict[str, int]
    leaves: Leaves
    size: int
    alignment: int


@cache
def layout_of(type_: StructType) -> StructLayout:
    """Natural alignment, declaration order, arrays and inner structs in place, the size a multiple of the alignment."""
    offsets: dict[str, int] = {}
    leaves: list[tuple[int, DataType]] = []
    end, widest = 0, 1
    for name, member in type_.fields:
        inside, size, alignment = _member(member)
        start = offsets[name] = _up(end, alignment)
        leaves += [(start + at, dtype) for at, dtype in inside]
        end, widest = start + size, max(widest, alignment)
    return StructLayout(offsets, tuple(leaves), _up(end, widest), widest)


def _member(member: ScalarType | ArrayType | StructType) -> tuple[Leaves, int, int]:
    """(leaves from the start of the member, size, alignment)."""
    match member:
        case ScalarType(dtype):
            return ((0, dtype),), dtype.nbytes, dtype.nbytes
        case ArrayType(element, length):
            width = element.dtype.nbytes
            return tuple((k * width, element.dtype) for k in range(length)), length * width, width
        case StructType():
            inner = layout_of(member)
            return inner.leaves, inner.size, inner.alignment


def _up(position: int, alignment: int) -> int:
    return -(-position // alignment) * alignment


def leaf_count(member: ScalarType | ArrayType | StructType) -> int:
    """Scalars in a struct or a member of one."""
    return len(_member(member)[0])
