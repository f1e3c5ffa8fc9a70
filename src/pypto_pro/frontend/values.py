"""What an expression of a kernel can be while it is read.

Scalars, pointers, tensors, tiles, registers and masks are IR expressions (a scalar `Const` is known at compile time).
Everything below exists in the front end only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from types import FunctionType
from typing import Any, TypeAlias, TypeGuard

from pypto_pro.diag import Span
from pypto_pro.diag.errors import ParserError
from pypto_pro.dtypes import DataType
from pypto_pro.ir import nodes
from pypto_pro.ir.nodes import Const, Expr, Local, Place, Var
from pypto_pro.ir.types import (
    AddrRegType,
    ArrayType,
    MaskType,
    PtrType,
    RegType,
    ScalarType,
    StructArrayType,
    StructType,
    TensorType,
    TileType,
    UnalignRegType,
)


@dataclass(frozen=True)
class TupleValue:
    """An immutable tuple; `names` for the fields of `make_tuple`. `is_shape` marks `tensor.shape`."""

    items: tuple[Value, ...]
    names: tuple[str, ...] | None = None
    is_captured: bool = field(default=False, compare=False)  # a list or tuple from outside the kernel


@dataclass(frozen=True)
class GroupValue:
    """A handle of a tile group: same declaration, same cursor, however it is named."""

    decl: nodes.GroupDecl

    @property
    def var(self) -> Var:
        """The group's variable."""
        return self.decl.var

    @property
    def depth(self) -> int:
        """Number of slots."""
        return len(self.decl.addrs)


@dataclass(frozen=True)
class StructValue:
    """A struct, a struct inside a struct, or a slot of a struct array; assignment makes an alias."""

    place: Place

    @property
    def type(self) -> StructType:
        """The struct type."""
        assert isinstance(self.place.type, StructType)
        return self.place.type


@dataclass(frozen=True)
class StructArrayValue:
    """A struct array as a whole."""

    var: Var

    @property
    def type(self) -> StructArrayType:
        """The array type."""
        assert isinstance(self.var.type, StructArrayType)
        return self.var.type


@dataclass(frozen=True)
class ArrayValue:
    """An array field of a struct; `owner` is the struct it stands in."""

    owner: Place
    name: str
    type: ArrayType


@dataclass(frozen=True)
class Static:
    """A compile-time object that is no number: enum member, dtype, TileType, text, None."""

    value: Any


@dataclass(frozen=True)
class Function:
    """A Python function named in a kernel."""

    fn: FunctionType


@dataclass(frozen=True)
class Foreign:
    """A Python object with no meaning of its own in a kernel (module, class, dict ...), reached by attributes only."""

    value: Any


@dataclass(frozen=True)
class Poison:
    """A name without a usable value here; reading it raises `error` with `message`."""

    error: type[ParserError]
    message: str
    span: Span | None = None
    hint: str | None = None


Value: TypeAlias = (
    Expr | TupleValue | GroupValue | StructValue | StructArrayValue | ArrayValue | Static | Function | Foreign | Poison
)

NONE = Static(None)
_FRONT_END = (TupleValue, GroupValue, StructValue, StructArrayValue, ArrayValue, Static, Function, Foreign, Poison)

_KINDS: dict[type, str] = {
    PtrType: "a pointer",
    TensorType: "a tensor",
    TileType: "a tile",
    RegType: "a vector register",
    MaskType: "a mask register",
    AddrRegType: "an address register",
    UnalignRegType: "an unaligned register",
    ScalarType: "a scalar",
}


def is_expr(value: Value) -> TypeGuard[Expr]:
    """Whether the value is an IR expression."""
    return not isinstance(value, _FRONT_END)


def expr_type(value: Value) -> Any:
    """The IR type of an expression value, None for front-end values."""
    return value.type if is_expr(value) else None


def is_scalar(value: Value) -> TypeGuard[Expr]:
    """Whether the value is a number."""
    return isinstance(expr_type(value), ScalarType)


def is_tile(value: Value) -> TypeGuard[Expr]:
    """Whether the value is a tile."""
    return isinstance(expr_type(value), TileType)


def is_tensor(value: Value) -> TypeGuard[Expr]:
    """Whether the value is a tensor."""
    return isinstance(expr_type(value), TensorType)


def is_ptr(value: Value) -> TypeGuard[Expr]:
    """Whether the value is a pointer."""
    return isinstance(expr_type(value), PtrType)


def is_register(value: Value) -> TypeGuard[Expr]:
    """Whether the value lives in a register file of the vector unit."""
    return isinstance(expr_type(value), RegType | MaskType | AddrRegType | UnalignRegType)


def const_int(value: Value) -> int | None:
    """The int of a compile-time integer (bools and floats are none)."""
    if isinstance(value, Const) and isinstance(value.value, int) and not isinstance(value.value, bool):
        return value.value
    return None


def tensor_var(value: Value) -> Var:
    """The variable of a tensor value."""
    assert isinstance(value, Local), value
    return value.var


def describe(value: Value) -> str:
    """What a value is, for messages."""
    match value:
        case Const(number, ScalarType(dtype)):
            literal = {DataType.DT_INDEX: "int", DataType.DT_FP32: "float", DataType.DT_BOOL: "bool"}.get(dtype)
            return f"the {literal} {number!r}" if literal else f"the {dtype.to_string()} constant {number!r}"
        case TupleValue(items, None):
            return f"a tuple of {len(items)}"
        case TupleValue():
            return "a named tuple"
        case GroupValue():
            return "a tile group"
        case StructValue(place):
            return f"struct {place.type.name}" if isinstance(place.type, StructType) else "a struct"
        case StructArrayValue():
            return "a struct array"
        case ArrayValue():
            return "an array field"
        case Static(None):
            return "None"
        case Static(str() as text):
            return f"the text {text!r}"
        case Static(Enum() as member):
            return member.name if isinstance(member, DataType) else f"{type(member).__name__}.{member.name}"
        case Static(inner) | Foreign(inner):
            return f"a Python {type(inner).__name__}"
        case Function(fn):
            return f"the function `{fn.__name__}`"
        case Poison():
            return "an unusable value"
    if isinstance(value.type, ScalarType):
        return f"a run-time {value.type.dtype.to_string()} scalar"
    return _KINDS[type(value.type)]
