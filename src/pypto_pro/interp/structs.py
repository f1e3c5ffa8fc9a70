"""Structs of the scalar unit: a flat list of scalars each, and the C bytes they travel as."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from pypto_pro.dtypes import DataType
from pypto_pro.interp.scalars import to_python
from pypto_pro.ir.types import ArrayType, ScalarType, StructType

_CODES = {
    DataType.DT_BOOL: "?", DataType.DT_INT8: "b", DataType.DT_UINT8: "B", DataType.DT_INT16: "h",
    DataType.DT_UINT16: "H", DataType.DT_INT32: "i", DataType.DT_UINT32: "I", DataType.DT_INT64: "q",
    DataType.DT_UINT64: "Q", DataType.DT_INDEX: "q", DataType.DT_FP32: "f",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Layout:
    """Scalars of a struct in declaration order: dtype and byte offset each; `size`, `alignment` in bytes."""

    dtypes: tuple[DataType, ...]
    offsets: tuple[int, ...]
    size: int
    alignment: int


@cache
def layout_of(type_: StructType) -> Layout:
    """C layout: natural alignment, arrays and inner structs in place."""
    dtypes: list[DataType] = []
    offsets: list[int] = []
    end, widest = 0, 1
    for _, field in type_.fields:
        if isinstance(field, StructType):
            inner = layout_of(field)
            end = -(-end // inner.alignment) * inner.alignment
            dtypes += inner.dtypes
            offsets += [end + o for o in inner.offsets]
            end, widest = end + inner.size, max(widest, inner.alignment)
            continue
        dtype, count = (field.element.dtype, field.length) if isinstance(field, ArrayType) else (field.dtype, 1)
        end = -(-end // dtype.nbytes) * dtype.nbytes
        dtypes += [dtype] * count
        offsets += [end + k * dtype.nbytes for k in range(count)]
        end, widest = end + count * dtype.nbytes, max(widest, dtype.nbytes)
    return Layout(tuple(dtypes), tuple(offsets), -(-end // widest) * widest, widest)


def leaf_count(type_: ScalarType | ArrayType | StructType) -> int:
    """Scalars in a field."""
    match type_:
        case ScalarType():
            return 1
        case ArrayType(_, length):
            return length
        case StructType():
            return sum(leaf_count(field) for _, field in type_.fields)


def leaf_index(type_: StructType, path: tuple[str, ...]) -> tuple[int, int]:
    """Position of a field's first scalar in the struct's list, and how many scalars it has."""
    at = 0
    current: ScalarType | ArrayType | StructType = type_
    for name in path:
        assert isinstance(current, StructType)
        for field_name, field in current.fields:
            if field_name == name:
                current = field
                break
            at += leaf_count(field)
    return at, leaf_count(current)


def pack(type_: StructType, values: list[Any]) -> bytes:
    """The struct's bytes; padding zero."""
    layout = layout_of(type_)
    data = bytearray(layout.size)
    for value, dtype, offset in zip(values, layout.dtypes, layout.offsets, strict=True):
        code = _CODES.get(dtype)
        if code is not None:
            struct.pack_into(f"<{code}", data, offset, value)
        else:
            data[offset : offset + dtype.nbytes] = np.asarray(value, dtype.numpy).tobytes()
    return bytes(data)


def unpack(type_: StructType, data: bytes) -> list[Any]:
    """The scalars in a struct's bytes."""
    layout = layout_of(type_)
    values = []
    for dtype, offset in zip(layout.dtypes, layout.offsets, strict=True):
        code = _CODES.get(dtype)
        if code is not None:
            values.append(struct.unpack_from(f"<{code}", data, offset)[0])
        else:
            values.append(to_python(np.frombuffer(data, dtype.numpy, 1, offset)[0], dtype))
    return values


@dataclass(frozen=True, slots=True)
class StructRef:
    """A whole struct as an operand: scalars `[start, start + n)` of a variable's list."""

    type: StructType
    values: list[Any]
    start: int

    def pack(self) -> bytes:
        """Its bytes now."""
        return pack(self.type, self.values[self.start : self.start + leaf_count(self.type)])

    def unpack(self, data: bytes) -> None:
        """Set every scalar from bytes."""
        new = unpack(self.type, data)
        self.values[self.start : self.start + len(new)] = new
