"""The vocabulary printer and parser share: names of types, constants and node classes in IR text."""

from __future__ import annotations

import dataclasses
import keyword
import re
import typing
import unicodedata
from enum import Enum, StrEnum
from functools import cache
from typing import Any

from pypto_pro import enums
from pypto_pro.dtypes import DataType
from pypto_pro.ir import nodes, types
from pypto_pro.ir.nodes import COMPARISONS, Block, Expr, Place, Stmt, Var
from pypto_pro.ir.types import BOOL, ArrayType, ScalarType, StructArrayType, StructType, TileType
from pypto_pro.ir.walk import hint_of

DTYPES: dict[str, DataType] = {dtype.to_string(): dtype for dtype in DataType}
ENUMS: dict[str, type[Enum]] = {
    name: kind for name, kind in vars(enums).items() if isinstance(kind, type) and issubclass(kind, Enum)
}
TYPE_CLASSES: dict[str, type] = {
    kind.__name__ if kind is TileType else kind.__name__.removesuffix("Type"): kind
    for kind in (*typing.get_args(types.Type), types.ArrayType)
}
TYPE_NAMES: dict[type, str] = {kind: name for name, kind in TYPE_CLASSES.items()}

_AUTHORS_WORDS = {
    nodes.TileDecl: "make_tile",
    nodes.GroupDecl: "make_tile_group",
    nodes.TensorDecl: "make_tensor",
    nodes.StructDecl: "struct",
    nodes.SetValid: "set_validshape",
    nodes.SetFlag: "sync_src",
    nodes.WaitFlag: "sync_dst",
    nodes.Barrier: "bar",
    nodes.Lock: "mutex_lock",
    nodes.Unlock: "mutex_unlock",
    nodes.SetCross: "set_cross_core",
    nodes.WaitCross: "wait_cross_core",
}


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


STMT_NAMES: dict[type, str] = {kind: _AUTHORS_WORDS.get(kind, _snake(kind.__name__)) for kind in typing.get_args(Stmt)}
STMT_CLASSES: dict[str, type] = {name: kind for kind, name in STMT_NAMES.items()}
EXPR_CLASSES: dict[str, type] = {kind.__name__: kind for kind in typing.get_args(Expr)}

QUERY_PREFIX = "get_"
QUERY_TYPE = ScalarType(DataType.DT_INT32)
"""Type of a launch coordinate that prints as a plain call, `get_block_idx()`."""

LOGICAL = ("and", "or")
CALLED = ("min", "max")
"""Binary operators written as calls."""
EXPR_CALLS = frozenset({*CALLED, "neg", "const", "local", *DTYPES, *EXPR_CLASSES})
"""Call names that make an expression; any other call that gives values is an op."""


class Kind(StrEnum):
    """What a field of a node class holds, which decides how it is written."""

    EXPR = "expr"
    EXPRS = "exprs"
    ARGS = "args"
    VAR = "var"
    VARS = "vars"
    PLACE = "place"
    BLOCK = "block"
    TYPE = "type"
    ATTRS = "attrs"
    LITERAL = "literal"


@dataclasses.dataclass(frozen=True, slots=True)
class FieldInfo:
    """One field of a node class; `enum` for literals of one enum class; `default` MISSING when it must be given."""

    name: str
    kind: Kind
    enum: type[Enum] | None
    default: Any


_TYPE_HINTS = frozenset(typing.get_args(types.Type))
_EXPR_HINTS = frozenset(typing.get_args(Expr))


@cache
def fields_of(kind: Any) -> tuple[FieldInfo, ...]:
    """The fields of a node class in order, without its span."""
    return tuple(
        FieldInfo(field.name, *_kind_of(field.name, hint_of(field)), field.default)
        for field in dataclasses.fields(kind)
        if field.compare
    )


def _kind_of(name: str, hint: Any) -> tuple[Kind, type[Enum] | None]:
    parts = frozenset(typing.get_args(hint)) - {type(None)} or frozenset({hint})
    if hint == Block:
        return Kind.BLOCK, None
    if name == "attrs":
        return Kind.ATTRS, None
    if parts >= _EXPR_HINTS:
        return Kind.EXPR, None
    if parts == {Place}:
        return Kind.PLACE, None
    if parts == {Var}:
        return Kind.VAR, None
    if parts <= _TYPE_HINTS:
        return Kind.TYPE, None
    if typing.get_origin(hint) is tuple or any(typing.get_origin(part) is tuple for part in parts):
        return _tuple_kind(hint), None
    enum = next((part for part in parts if isinstance(part, type) and issubclass(part, Enum)), None)
    return Kind.LITERAL, enum


def _tuple_kind(hint: Any) -> Kind:
    tuples = [hint, *typing.get_args(hint)]
    item = next(typing.get_args(part)[0] for part in tuples if typing.get_origin(part) is tuple)
    members = frozenset(typing.get_args(item))
    if item is Var:
        return Kind.VARS
    if members == _EXPR_HINTS:
        return Kind.EXPRS
    if members > _EXPR_HINTS:
        return Kind.ARGS
    return Kind.LITERAL


def encode_name(name: str) -> str | None:
    """A variable's name as a Python identifier, `$` (versions) written as a middle dot; None when there is none."""
    text = name.replace("$", "·")
    is_safe = "·" not in name and text.isidentifier() and not keyword.iskeyword(text)
    return text if is_safe and unicodedata.normalize("NFKC", text) == text else None


def decode_name(text: str) -> str:
    """The variable's name behind an identifier of IR text."""
    return text.replace("·", "$")


def place_type(var: Var, indexed: bool, path: tuple[str, ...], element: bool) -> ScalarType | StructType | None:
    """The type of a place in a struct variable, None when there is no such place."""
    kind: Any = var.type
    if isinstance(kind, StructArrayType):
        kind = kind.struct if indexed else None
    elif indexed:
        return None
    for name in path:
        kind = kind.field(name) if isinstance(kind, StructType) else None
    if element:
        return kind.element if isinstance(kind, ArrayType) else None
    return kind if isinstance(kind, ScalarType | StructType) else None


def binary_type(op: str, lhs: ScalarType) -> ScalarType:
    """The type of `lhs op rhs` that text does not spell out."""
    return BOOL if op in COMPARISONS or op in LOGICAL else lhs
