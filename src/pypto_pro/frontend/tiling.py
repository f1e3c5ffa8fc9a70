"""TilingData classes: a dataclass of int, float, bool and fixed arrays of them, read as a struct type."""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Any

from pypto_pro.dtypes import DataType
from pypto_pro.ir.types import ArrayType, ScalarType, StructType

_SCALARS = {"int": DataType.DT_INDEX, "float": DataType.DT_FP32, "bool": DataType.DT_BOOL}
_PYTHON = {int: "int", float: "float", bool: "bool"}
_FIELD = re.compile(r"\s*(int|float|bool)\s*(?:\[\s*([0-9]+)\s*\]\s*)?\Z")
MAX_LENGTH = 2048


def tiling_struct(cls: Any) -> StructType | None:
    """The struct of a tiling class; None for what is none: no dataclass, no fields, inheritance, other field types."""
    if not isinstance(cls, type) or not dataclasses.is_dataclass(cls):
        return None
    own = inspect.get_annotations(cls)
    if not own or any(dataclasses.is_dataclass(base) for base in cls.__mro__[1:]):
        return None
    fields = []
    for name, annotation in own.items():
        kind = _field_type(annotation)
        if kind is None:
            return None
        fields.append((name, kind))
    return StructType(cls.__name__, tuple(fields), is_tiling=True)


def why_no_tiling(cls: type) -> str | None:
    """What keeps a class from being a tiling class, None when nothing does."""
    if not dataclasses.is_dataclass(cls):
        return f"`{cls.__name__}` is no @dataclass"
    own = inspect.get_annotations(cls)
    base = next((base for base in cls.__mro__[1:] if dataclasses.is_dataclass(base)), None)
    if base is not None:
        return f"`{cls.__name__}` inherits from `{base.__name__}`; a tiling class has all its fields itself"
    if not own:
        return f"`{cls.__name__}` has no fields"
    for name, annotation in own.items():
        if _field_type(annotation) is None:
            shown = getattr(annotation, "__name__", annotation)
            return (
                f"field `{name}` of `{cls.__name__}` is `{shown}`; fields are int, float, bool, or int[N], float[N], "
                f"bool[N] with N written out, from 1 to {MAX_LENGTH}"
            )
    return None


def _field_type(annotation: Any) -> ScalarType | ArrayType | None:
    text = _PYTHON.get(annotation) if isinstance(annotation, type) else annotation
    found = _FIELD.match(text) if isinstance(text, str) else None
    if found is None:
        return None
    element = ScalarType(_SCALARS[found[1]])
    if found[2] is None:
        return element
    length = int(found[2])
    return ArrayType(element, length) if 1 <= length <= MAX_LENGTH else None
