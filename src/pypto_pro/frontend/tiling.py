"""TilingData classes: a dataclass of int, float, bool and fixed arrays of them, read as a struct type."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import inspect
import linecache
import re
import sys
from functools import lru_cache
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


def check_fields(cls: type) -> None:
    """ValueError for a field that the text of a class declares twice: Python itself keeps the second one only."""
    module = sys.modules.get(cls.__module__)
    lines = linecache.getlines(getattr(module, "__file__", None) or cls.__module__)
    for name in _twice("".join(lines)).get(cls.__qualname__, ()):
        raise ValueError(f"tiling class `{cls.__name__}` declares the field `{name}` twice")


@lru_cache(maxsize=4)
def _twice(text: str) -> dict[str, tuple[str, ...]]:
    """Names that a class body annotates more than once, by qualified class name."""
    found: dict[str, tuple[str, ...]] = {}

    def look(node: ast.AST, path: str) -> None:
        for child in ast.iter_child_nodes(node):
            match child:
                case ast.ClassDef(name=name, body=body):
                    targets = [stmt.target for stmt in body if isinstance(stmt, ast.AnnAssign)]
                    fields = [target.id for target in targets if isinstance(target, ast.Name)]
                    found[path + name] = tuple(field for i, field in enumerate(fields) if field in fields[:i])
                    look(child, f"{path}{name}.")
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    look(child, f"{path}{name}.<locals>.")
                case ast.stmt():
                    look(child, path)

    with contextlib.suppress(SyntaxError):  # no Python: a notebook's cell, a file that changed
        look(ast.parse(text), "")
    return found


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
