"""Structs of the scalar unit: a flat list of scalars each, and the C bytes they travel as."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from pypto_pro.dtypes import DataType
from pypto_pro.interp.scalars import to_python
from pypto_pro.ir.structs import layout_of, leaf_count
from pypto_pro.ir.types import ArrayType, ScalarType, StructType

_CODES = {
    DataType.DT_BOOL: "?", DataType.DT_INT8: "b", DataType.DT_UINT8: "B", DataType.DT_INT16: "h",
    DataType.DT_UINT16: "H", DataType.DT_INT32: "i", DataType.DT_UINT32: "I", DataType.DT_INT64: "q",
    DataType.DT_UINT64: "Q", DataType.DT_INDEX: "q", DataType.DT_FP32: "f",
}  # fmt: skip


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


def zeros(type_: StructType) -> list[Any]:
    """A struct of zeros."""
    return [0.0 if dtype.is_float() else 0 for _, dtype in layout_of(type_).leaves]


def pack(type_: StructType, values: list[Any]) -> bytes:
    """The struct's bytes; padding zero."""
    layout = layout_of(type_)
    data = bytearray(layout.size)
    for value, (offset, dtype) in zip(values, layout.leaves, strict=True):
        code = _CODES.get(dtype)
        if code is not None:
            struct.pack_into(f"<{code}", data, offset, value)
        else:
            data[offset : offset + dtype.nbytes] = np.asarray(value, dtype.numpy).tobytes()
    return bytes(data)


def unpack(type_: StructType, data: bytes) -> list[Any]:
    """The scalars in a struct's bytes."""
    values = []
    for offset, dtype in layout_of(type_).leaves:
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
