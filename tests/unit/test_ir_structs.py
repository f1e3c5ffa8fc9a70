"""C layout of structs, against what ctypes makes of the same members."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from pypto_pro.dtypes import DataType as D
from pypto_pro.ir.structs import layout_of, leaf_count
from pypto_pro.ir.types import ArrayType, ScalarType, StructType

C_TYPES = {
    D.DT_BOOL: ctypes.c_bool, D.DT_INT8: ctypes.c_int8, D.DT_INT16: ctypes.c_int16, D.DT_INT32: ctypes.c_int32,
    D.DT_INDEX: ctypes.c_int64, D.DT_FP32: ctypes.c_float,
}  # fmt: skip
INNER = StructType("Inner", (("a", ScalarType(D.DT_BOOL)), ("b", ScalarType(D.DT_INT32)), ("c", ScalarType(D.DT_INT8))))
STRUCTS = [
    StructType("Empty", ()),
    INNER,
    StructType("Arrays", (("a", ArrayType(ScalarType(D.DT_INT16), 3)), ("b", ArrayType(ScalarType(D.DT_INDEX), 2)))),
    StructType("Nested", (("a", ScalarType(D.DT_BOOL)), ("in", INNER), ("b", ScalarType(D.DT_BOOL)), ("again", INNER))),
    StructType("Tail", (("wide", ScalarType(D.DT_INDEX)), ("in", INNER), ("f", ArrayType(ScalarType(D.DT_FP32), 1)))),
]


def c_type(member: ScalarType | ArrayType | StructType) -> Any:
    """The ctypes class of a member."""
    match member:
        case ScalarType(dtype):
            return C_TYPES[dtype]
        case ArrayType(element, length):
            return C_TYPES[element.dtype] * length
    return type(member.name, (ctypes.Structure,), {"_fields_": [(name, c_type(of)) for name, of in member.fields]})


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda s: s.name)
def test_layout_is_that_of_c(struct: StructType) -> None:
    layout, c_struct = layout_of(struct), c_type(struct)
    assert (layout.size, layout.alignment) == (ctypes.sizeof(c_struct), ctypes.alignment(c_struct))
    assert layout.offsets == {name: getattr(c_struct, name).offset for name, _ in struct.fields}


def test_leaves_are_the_scalars_in_order() -> None:
    nested = layout_of(STRUCTS[3])
    inner = ((0, D.DT_BOOL), (4, D.DT_INT32), (8, D.DT_INT8))
    expected = [(0, D.DT_BOOL), *((4 + at, d) for at, d in inner), (16, D.DT_BOOL), *((20 + at, d) for at, d in inner)]
    assert list(nested.leaves) == expected
    assert leaf_count(STRUCTS[3]) == len(expected)
    assert leaf_count(STRUCTS[2].fields[0][1]) == 3
