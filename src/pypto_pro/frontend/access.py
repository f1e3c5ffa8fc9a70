"""Attributes and subscripts: fields, shapes, valid shapes, tuple items, group slots, elements, sub-views."""

from __future__ import annotations

import ast
from enum import Enum
from typing import Any

from pypto_pro.diag.errors import ParserSyntaxError, ParserTypeError, UnsupportedFeatureError
from pypto_pro.diag.names import did_you_mean
from pypto_pro.dtypes import DataType
from pypto_pro.frontend import elements, fields, groups, hints, operators, order, outside, pick, views
from pypto_pro.frontend.context import Context
from pypto_pro.frontend.values import (
    ArrayValue,
    Foreign,
    GroupValue,
    Static,
    StructArrayValue,
    StructValue,
    TupleValue,
    Value,
    const_int,
    describe,
    is_expr,
    is_scalar,
    is_tensor,
    is_tile,
    tensor_var,
)
from pypto_pro.ir import build
from pypto_pro.ir.nodes import Convert, Dim, Expr, TileAttr
from pypto_pro.ir.types import ScalarType, TensorType

_UINT32 = ScalarType(DataType.DT_UINT32)


def attribute(ctx: Context, node: ast.Attribute) -> Value:
    """`value.attr`: of a kernel value, else of a Python object in the closure."""
    found = outer_object(ctx, node)
    if found is not None:
        return outside.value_of(ctx, found.value, node)
    if node.attr in ("shape", "valid_shape"):
        owner = ctx.evaluate(node.value)
        if is_tensor(owner) and node.attr == "shape":
            return TupleValue(tuple(shape_of(owner)))
        if is_tile(owner):
            return _tile_shape(ctx, owner, node)
        return member(ctx, owner, node.attr, node)
    return member(ctx, ctx.evaluate(node.value), node.attr, node)


def outer_object(ctx: Context, node: ast.expr) -> Foreign | None:
    """The Python object that a dotted name rooted outside the function stands for; None for any other expression."""
    match node:
        case ast.Name(id=name):
            if name in ctx.frame.names or not ctx.frame.scope.has(name):
                return None
            return Foreign(ctx.frame.scope.find(name))
        case ast.Attribute(value=base, attr=attr):
            owner = outer_object(ctx, base)
            if owner is None:
                return None
            if attr.startswith("__") or not hasattr(owner.value, attr):
                known = [name for name in dir(owner.value) if not name.startswith("_")]
                raise ctx.error(
                    UnsupportedFeatureError,
                    f"`{ast.unparse(base)}` has no attribute `{attr}`",
                    node,
                    hint=did_you_mean(attr, known) or _of_enum(owner.value, attr),
                )
            found = getattr(owner.value, attr)
            ctx.captured.note_part(owner.value, found, lambda: ast.unparse(node))
            return Foreign(found)
    return None


def _of_enum(owner: Any, attr: str) -> str | None:
    return hints.of_enum(owner, attr) if isinstance(owner, type) and issubclass(owner, Enum) else None


def shape_of(tensor: Expr) -> list[Expr]:
    """The dims of a tensor: constants where known, `Dim` otherwise."""
    type_ = tensor.type
    assert isinstance(type_, TensorType)
    var = tensor_var(tensor)
    return [Dim(var, axis) if dim is None else build.number(dim) for axis, dim in enumerate(type_.dims)]


def valid_shape_of(ctx: Context, tile: Expr) -> list[Expr]:
    """The current valid rows and columns of a tile."""
    attrs: list[Expr] = [TileAttr(tile, "vr"), TileAttr(tile, "vc")]
    return [Convert(attr, _UINT32) for attr in attrs] if ctx.in_simt else attrs


def _tile_shape(ctx: Context, tile: Expr, node: ast.Attribute) -> Value:
    if node.attr == "shape":
        raise ctx.error(
            UnsupportedFeatureError, "a tile has no `.shape` in a kernel", node,
            hint="`tile.valid_shape[k]` gives the current valid extents; the declared shape is a constant",
        )
    return TupleValue(tuple(valid_shape_of(ctx, tile)))


def member(ctx: Context, owner: Value, name: str, node: ast.Attribute) -> Value:
    """A field of a struct or named tuple, or an attribute of a compile-time object."""
    match owner:
        case StructValue():
            return fields.read(ctx, owner, name, node)
        case TupleValue(items, names) if names is not None:
            if name in names:
                return items[names.index(name)]
            raise ctx.error(
                UnsupportedFeatureError, f"the named tuple has no field `{name}`", node, hint=did_you_mean(name, names)
            )
        case Static(inner) if inner is not None and not name.startswith("_"):
            if hasattr(inner, name) and not callable(getattr(inner, name)):
                return outside.value_of(ctx, getattr(inner, name), node)
    raise ctx.error(UnsupportedFeatureError, f"{describe(owner)} has no attribute `{name}`", node,
                    hint=hints.of_member(owner, name))  # fmt: skip


# --- subscripts ------------------------------------------------------------------------------------------------------


def subscript(ctx: Context, node: ast.Subscript, hint: str | None) -> Value:
    """`value[index]`."""
    shape = _shape_item(ctx, node)
    if shape is not None:
        return shape
    if isinstance(node.slice, ast.Slice) or (
        isinstance(node.slice, ast.Tuple) and any(isinstance(e, ast.Slice) for e in node.slice.elts)
    ):
        return views.slice_tile(ctx, node, hint)
    owner = ctx.evaluate(node.value)
    if is_tile(owner) or is_tensor(owner):
        return elements.read_element(ctx, owner, node, hint)
    if isinstance(node.slice, ast.Tuple):
        kind = ParserTypeError if isinstance(owner, GroupValue) else ParserSyntaxError
        raise ctx.error(kind, f"{describe(owner)} takes one index, found {len(node.slice.elts)}", node)
    index = order.evaluate_all(ctx, [node.slice])[0]
    match owner:
        case TupleValue():
            return tuple_item(ctx, owner, index, node)
        case GroupValue():
            return groups.slot(ctx, owner, index, node)
        case ArrayValue():
            return fields.read_element(ctx, owner, index, node)
        case StructArrayValue():
            return fields.slot(ctx, owner, index, node)
    raise ctx.error(ParserTypeError, f"{describe(owner)} cannot be subscripted", node)


def _shape_item(ctx: Context, node: ast.Subscript) -> Value | None:
    """`t.shape[k]` and `tile.valid_shape[k]`, whose index rules differ from those of tuples."""
    if not isinstance(node.value, ast.Attribute) or node.value.attr not in ("shape", "valid_shape"):
        return None
    if outer_object(ctx, node.value.value) is not None:
        return None
    owner = ctx.evaluate(node.value.value)
    if is_tensor(owner) and node.value.attr == "shape":
        dims = shape_of(owner)
    elif is_tile(owner):
        shape = _tile_shape(ctx, owner, node.value)
        assert isinstance(shape, TupleValue)
        dims = list(valid_shape_of(ctx, owner))
    else:
        return None
    if isinstance(node.slice, ast.Slice | ast.Tuple):
        raise ctx.error(ParserSyntaxError, f"`{node.value.attr}` takes one constant index", node.slice)
    index = const_int(ctx.evaluate(node.slice))
    if index is None:
        raise ctx.error(ParserSyntaxError, f"the index of `{node.value.attr}` is a constant int", node.slice)
    if not -len(dims) <= index < len(dims):
        raise ctx.error(ParserTypeError, f"index {index} is outside the {len(dims)} axes", node.slice)
    return dims[index]


def tuple_item(ctx: Context, owner: TupleValue, index: Value, node: ast.Subscript) -> Value:
    """An item of a tuple: chosen here for a constant index, at run time otherwise."""
    if not is_scalar(index):
        raise ctx.error(ParserSyntaxError, f"the index of a tuple is an integer, found {describe(index)}", node.slice)
    known = const_index(ctx, index, len(owner.items), "tuple", node.slice)
    if known is not None:
        return owner.items[known]
    if owner.is_captured and any(isinstance(item, TupleValue) for item in owner.items):
        raise ctx.error(
            ParserTypeError, f"a nested list from outside the kernel is read by constant indices only, found "
            f"{describe(index)}", node.slice, hint="flatten it: `T[i * width + j]`",
        )  # fmt: skip
    return pick.pick(ctx, owner.items, operators.integer(ctx, index, node.slice, "a tuple index"), node)


def const_index(ctx: Context, index: Value, length: int, what: str, node: ast.AST) -> int | None:
    """A constant index in range, None for a run-time one. ParserSyntaxError for anything else."""
    if not is_expr(index) or build.kind_of(index).is_float():
        raise ctx.error(ParserSyntaxError, f"the index of a {what} is an integer, found {describe(index)}", node)
    known = const_int(index)
    if known is None:
        if hasattr(index, "value"):  # a BOOL constant
            raise ctx.error(ParserSyntaxError, f"the index of a {what} is an integer, found {describe(index)}", node)
        return None
    if not 0 <= known < length:
        raise ctx.error(ParserSyntaxError, f"index {known} is outside the {what} of {length}", node)
    return known
