"""Structs, struct arrays, array fields and tiling data: reading and writing their places."""

from __future__ import annotations

import ast

from pypto_pro.diag.errors import ParserError, ParserSyntaxError, ParserTypeError, UnsupportedFeatureError
from pypto_pro.diag.names import did_you_mean
from pypto_pro.frontend.context import Context
from pypto_pro.frontend.values import (
    ArrayValue,
    StructArrayValue,
    StructValue,
    TupleValue,
    Value,
    const_int,
    describe,
    is_scalar,
)
from pypto_pro.ir import build
from pypto_pro.ir.nodes import Const, CopyStruct, Expr, Field, Local, Place, SetField
from pypto_pro.ir.types import INDEX, ArrayType, ScalarType, StructType


def read(ctx: Context, owner: StructValue, name: str, node: ast.AST) -> Value:
    """`owner.name`: a scalar, an array field or a struct inside."""
    kind = owner.type.field(name)
    match kind:
        case None:
            raise _no_field(ctx, UnsupportedFeatureError, owner.type, name, node)
        case ArrayType():
            return ArrayValue(owner.place, name, kind)
        case StructType():
            return StructValue(owner.place.member(name, kind))
        case _:
            return Field(owner.place.member(name, kind))


def _no_field(ctx: Context, error: type[ParserError], struct: StructType, name: str, node: ast.AST) -> ParserError:
    hint = did_you_mean(name, [field for field, _ in struct.fields])
    return ctx.error(error, f"struct `{struct.name}` has no field `{name}`", node, hint=hint)


def element_place(ctx: Context, owner: ArrayValue, index: Value, node: ast.AST) -> Place:
    """The place of one element of an array field."""
    at = _index(ctx, index, owner.type.length, f"array field `{owner.name}`", node)
    return owner.owner.member(owner.name, owner.type.element, at)


def read_element(ctx: Context, owner: ArrayValue, index: Value, node: ast.Subscript) -> Value:
    """`s.arr[i]`."""
    return Field(element_place(ctx, owner, index, node.slice))


def slot(ctx: Context, owner: StructArrayValue, index: Value, node: ast.Subscript) -> Value:
    """`a[i]` of a struct array: a reference to the slot."""
    at = _index(ctx, index, owner.type.length, "struct array", node.slice)
    if not isinstance(at, Const | Local):
        at = ctx.bound("_i", at, node)
    return StructValue(Place(owner.var, at, (), None, owner.type.struct))


def _index(ctx: Context, index: Value, length: int, what: str, node: ast.AST) -> Expr:
    if not is_scalar(index) or not build.kind_of(index).is_int():
        raise ctx.error(ParserSyntaxError, f"the index of {what} is an integer, found {describe(index)}", node)
    known = const_int(index)
    if known is not None and not 0 <= known < length:
        raise ctx.error(ParserSyntaxError, f"index {known} is outside {what} of length {length}", node)
    return build.convert(index, INDEX)


# --- writing ---------------------------------------------------------------------------------------------------------


def write(ctx: Context, owner: Value, name: str, value: Value, node: ast.Attribute) -> None:
    """`owner.name = value`."""
    if isinstance(owner, TupleValue):
        raise ctx.error(ParserSyntaxError, f"a tuple is immutable: `{ast.unparse(node)}` cannot be assigned", node)
    if not isinstance(owner, StructValue):
        raise ctx.error(ParserTypeError, f"{describe(owner)} has no fields to write", node)
    check_writable(ctx, owner.place, node)
    kind = owner.type.field(name)
    match kind:
        case None:
            raise _no_field(ctx, ParserTypeError, owner.type, name, node)
        case ArrayType():
            _write_array(ctx, ArrayValue(owner.place, name, kind), value, node)
        case StructType():
            if not isinstance(value, StructValue) or value.type != kind:
                raise ctx.error(ParserTypeError, f"`{name}` is a struct {kind.name}, found {describe(value)}", node)
            ctx.emit(CopyStruct(owner.place.member(name, kind), value.place, span=ctx.span(node)))
        case _:
            write_scalar(ctx, owner.place.member(name, kind), value, node)


def write_element(ctx: Context, owner: ArrayValue, index: Value, value: Value, node: ast.Subscript) -> None:
    """`s.arr[i] = value`."""
    check_writable(ctx, owner.owner, node)
    write_scalar(ctx, element_place(ctx, owner, index, node.slice), value, node)


def write_scalar(ctx: Context, place: Place, value: Value, node: ast.AST) -> None:
    """Store a scalar, converted to the type of the place."""
    assert isinstance(place.type, ScalarType)
    if not is_scalar(value):
        shown = ".".join(place.path)
        raise ctx.error(ParserTypeError, f"`{shown}` holds a scalar, found {describe(value)}", node)
    ctx.emit(SetField(place, build.convert(value, place.type), span=ctx.span(node)))


def check_writable(ctx: Context, place: Place, node: ast.AST) -> None:
    """Reject writes to tiling data."""
    owner = place.var.type
    if isinstance(owner, StructType) and owner.is_tiling:
        raise ctx.error(
            ParserTypeError, f"tiling data is read-only: `{ast.unparse(node)}` cannot be assigned", node,
            hint="copy the value to a local name or a pl.struct",
        )  # fmt: skip


def _write_array(ctx: Context, owner: ArrayValue, value: Value, node: ast.AST) -> None:
    items = _array_items(owner, value)
    if items is None:
        raise ctx.error(ParserTypeError, f"array field `{owner.name}` takes a list, found {describe(value)}", node)
    if len(items) != owner.type.length:
        raise ctx.error(
            ParserSyntaxError, f"array field `{owner.name}` has {owner.type.length} elements, found {len(items)}", node
        )
    for i, item in enumerate(items):
        write_scalar(ctx, owner.owner.member(owner.name, owner.type.element, build.number(i)), item, node)


def _array_items(owner: ArrayValue, value: Value) -> tuple[Value, ...] | None:
    match value:
        case TupleValue(items):
            return items
        case ArrayValue(source, name, type_):
            return tuple(Field(source.member(name, type_.element, build.number(i))) for i in range(type_.length))
    return None
