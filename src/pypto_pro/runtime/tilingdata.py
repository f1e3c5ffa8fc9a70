"""TilingData: the run-time parameters of a launch as one C struct; its layout, header text and bytes.

Little endian, declaration order, every member aligned to its own size, padding zero.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pypto_pro.dtypes import DataType
from pypto_pro.ir.structs import layout_of
from pypto_pro.ir.types import ArrayType, ScalarType, StructType

_FORMAT = {DataType.DT_INDEX: "q", DataType.DT_INT64: "q", DataType.DT_FP32: "f", DataType.DT_BOOL: "?"}
_PYTHON_NAME = {DataType.DT_INDEX: "int", DataType.DT_INT64: "int", DataType.DT_FP32: "float", DataType.DT_BOOL: "bool"}
_WRAP = 1 << 64


@dataclass(frozen=True, slots=True)
class Member:
    """One field: its element dtype, `length` None for a scalar, `offset` in bytes."""

    name: str
    dtype: DataType
    length: int | None
    offset: int


@dataclass(frozen=True)
class TilingLayout:
    """The members of a tiling struct with their offsets; `size` and `alignment` in bytes."""

    name: str
    members: tuple[Member, ...]
    size: int
    alignment: int

    @classmethod
    def of(cls, struct_type: StructType) -> TilingLayout:
        """The C layout of a tiling struct (scalars and arrays of int, float and bool)."""
        layout = layout_of(struct_type)
        members = tuple(Member(name, *_element(kind), layout.offsets[name]) for name, kind in struct_type.fields)
        return cls(struct_type.name, members, layout.size, layout.alignment)

    def serialise(self, instance: Any) -> bytes:
        """The bytes of an instance.

        Ints wrap modulo 2^64, floats round to FP32, bools take truthiness. TypeError for a value of the wrong kind,
        ValueError for an array of the wrong length, AttributeError for a missing field.
        """
        data = bytearray(self.size)
        for member in self.members:
            value = getattr(instance, member.name)
            if member.length is None:
                numbers = [_number(value, member.dtype, self._shown(member))]
            else:
                numbers = [_number(v, member.dtype, self._shown(member)) for v in self._items(member, value)]
            struct.pack_into(f"<{len(numbers)}{_FORMAT[member.dtype]}", data, member.offset, *numbers)
        return bytes(data)

    def header(self) -> str:
        """The struct as C text."""
        lines = [f"struct {self.name} {{"]
        for member in self.members:
            suffix = "" if member.length is None else f"[{member.length}]"
            lines.append(f"    {member.dtype.to_c_type_string()} {member.name}{suffix};")
        return "\n".join([*lines, "};", ""])

    def _shown(self, member: Member) -> str:
        return f"{self.name}.{member.name}"

    def _items(self, member: Member, value: Any) -> Iterator[Any]:
        is_indexable = hasattr(value, "__len__") and hasattr(value, "__getitem__")
        if isinstance(value, str | bytes | bytearray) or not is_indexable:
            raise TypeError(f"`{self._shown(member)}` takes {member.length} values, found {type(value).__name__}")
        if len(value) != member.length:
            raise ValueError(f"`{self._shown(member)}` takes {member.length} values, found {len(value)}")
        return (value[i] for i in range(len(value)))


def _element(kind: ScalarType | ArrayType | StructType) -> tuple[DataType, int | None]:
    match kind:
        case ScalarType(dtype):
            return dtype, None
        case ArrayType(element, length):
            return element.dtype, length
    raise TypeError(f"tiling data holds scalars and arrays of scalars, found struct {kind.name}")


def _number(value: Any, dtype: DataType, shown: str) -> Any:
    """`value` as `struct` packs it."""
    if dtype is DataType.DT_BOOL:
        return bool(value)
    try:
        if dtype is DataType.DT_FP32:
            return _to_fp32(value)
        number = value.__index__()
    except (TypeError, AttributeError):
        wanted = _PYTHON_NAME[dtype]
        raise TypeError(f"`{shown}` is declared {wanted}, found {value!r} ({type(value).__name__})") from None
    return (number + _WRAP // 2) % _WRAP - _WRAP // 2


def _to_fp32(value: Any) -> float:
    """The number rounded to FP32; what is too large becomes an infinity, as in C. TypeError for texts."""
    if isinstance(value, str | bytes):
        raise TypeError(value)
    try:
        return float(struct.unpack("<f", struct.pack("<f", float(value)))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
