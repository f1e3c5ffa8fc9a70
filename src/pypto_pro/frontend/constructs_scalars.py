"""`const`, `min`, `max`, `make_tuple`, `struct`, `struct_array`, `constexpr`, and the coordinates of a core."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from pypto_pro.diag.errors import InvalidOperationError, ParserSyntaxError, ParserTypeError
from pypto_pro.dtypes import DataType
from pypto_pro.enums import CoreKind
from pypto_pro.frontend import arguments, closure, opcalls, operators, order, pyeval
from pypto_pro.frontend.context import Context, whole
from pypto_pro.frontend.handlers import handles
from pypto_pro.frontend.values import (
    ArrayValue,
    Static,
    StructArrayValue,
    StructValue,
    TupleValue,
    Value,
    describe,
    is_scalar,
)
from pypto_pro.ir import build
from pypto_pro.ir.nodes import LAUNCH_QUERIES, Expr, Field, Place, Query, StructDecl
from pypto_pro.ir.types import ArrayType, ScalarType, StructArrayType, StructType
from pypto_pro.ops.entry import Section

_INT32 = ScalarType(DataType.DT_INT32)
_INT64 = ScalarType(DataType.DT_INT64)


@handles("const")
def const(ctx: Context, node: ast.Call, hint: str | None) -> Value:
    """`pl.const(literal, dtype)`."""
    if len(node.args) != 2 or node.keywords:
        raise ctx.error(ParserSyntaxError, "pl.const takes a literal and a dtype", node)
    literal, sign = node.args[0], 1
    if isinstance(literal, ast.UnaryOp) and isinstance(literal.op, ast.USub):
        literal, sign = literal.operand, -1
    number = literal.value if isinstance(literal, ast.Constant) else None
    if not isinstance(number, bool | int | float):
        raise ctx.error(ParserSyntaxError, "the value of pl.const is a number written out", node.args[0])
    value = ctx.evaluate(node.args[1])
    if not isinstance(value, Static) or not isinstance(value.value, DataType):
        raise ctx.error(ParserSyntaxError, f"pl.const takes a dtype (pl.DT_...), found {describe(value)}", node.args[1])
    return build.number(sign * number, value.value)


@handles("min", "max")
def extreme(ctx: Context, node: ast.Call, hint: str | None) -> Value:
    """`pl.min(a, b)`, `pl.max(a, b)` and Python's own, of two scalars."""
    op = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "min")
    if len(node.args) != 2 or node.keywords or any(isinstance(arg, ast.Starred) for arg in node.args):
        constant = _of_constants(ctx, node) if isinstance(node.func, ast.Name) else None
        if constant is None:
            raise ctx.error(InvalidOperationError, f"`{ast.unparse(node.func)}` takes exactly two scalars", node)
        return constant
    if ctx.in_simt and isinstance(node.func, ast.Attribute):
        opcalls.check_scope(ctx, f"pl.{op}", node)
    lhs, rhs = order.evaluate_all(ctx, node.args)
    for side in (lhs, rhs):
        if not is_scalar(side):
            raise ctx.error(
                InvalidOperationError, f"`{op}` takes scalars, found {describe(side)}", node,
                hint=f"tiles have pl.{op}imum",
            )  # fmt: skip
    return operators.apply(ctx, op, lhs, rhs, node)


def _of_constants(ctx: Context, node: ast.Call) -> Value | None:
    """Python's own `min` or `max` in any other form, where all of it is constant: `max(SHAPE)`."""
    try:
        value = closure.from_python(pyeval.evaluate(ctx, node))
    except (pyeval.NotConstant, OverflowError):
        return None
    return value if is_scalar(value) else None


@handles("constexpr")
def constexpr(ctx: Context, node: ast.Call, hint: str | None) -> Value:
    """`pl.constexpr(cond)` anywhere but as the whole test of an `if` or a ternary."""
    raise ctx.error(ParserSyntaxError, "pl.constexpr is the whole test of an `if` or a ternary", node)


@handles("range")
def range_(ctx: Context, node: ast.Call, hint: str | None) -> Value:
    """`pl.range` anywhere but behind `for ... in` and `in`."""
    raise ctx.error(ParserSyntaxError, "pl.range stands behind `for ... in` or `in` only", node)


@handles("section_cube", "section_vector")
def section(ctx: Context, node: ast.Call, hint: str | None) -> Value:
    """A section anywhere but in a `with`."""
    raise ctx.error(ParserSyntaxError, "a section is opened by `with`", node)


# --- aggregates ------------------------------------------------------------------------------------------------------


def _keywords(ctx: Context, node: ast.Call, owner: str) -> tuple[list[str], list[Value]]:
    names: list[str] = []
    for keyword in node.keywords:
        if keyword.arg is None:
            raise ctx.error(ParserSyntaxError, f"{owner} takes no `**`", keyword.value)
        names.append(keyword.arg)
    if not names:
        raise ctx.error(ParserSyntaxError, f"{owner} needs at least one field", node)
    return names, order.evaluate_all(ctx, [keyword.value for keyword in node.keywords])


@handles("make_tuple")
def make_tuple(ctx: Context, node: ast.Call, hint: str | None) -> Value:
    """`pl.make_tuple(a=..., b=...)`: a named tuple of values as they are now."""
    if node.args:
        raise ctx.error(ParserSyntaxError, "pl.make_tuple takes keywords only", node.args[0])
    names, values = _keywords(ctx, node, "pl.make_tuple")
    nodes = [keyword.value for keyword in node.keywords]
    items = (order.settled(ctx, value, arg, name) for value, arg, name in zip(values, nodes, names, strict=True))
    return TupleValue(tuple(items), tuple(names))


def _struct_name(ctx: Context, node: ast.Call, position: int, owner: str) -> str:
    literal = node.args[position] if len(node.args) > position else None
    if not isinstance(literal, ast.Constant) or not isinstance(literal.value, str):
        size = "4, " if position else ""
        hint = f'written as `{owner}({size}"Name", field=value, ...)`'
        raise ctx.error(ParserSyntaxError, f"{owner} takes its name as a text literal", node, hint=hint)
    if not literal.value.isidentifier() or not literal.value.isascii():
        raise ctx.error(ParserSyntaxError, f"a struct name is a C identifier, found {literal.value!r}", literal)
    if len(node.args) > position + 1:
        raise ctx.error(ParserSyntaxError, f"{owner} takes its fields as keywords", node.args[position + 1])
    return literal.value


@handles("struct")
def struct(ctx: Context, node: ast.Call, hint: str | None) -> Value:
    """`pl.struct("Name", field=init, ...)`."""
    opcalls.check_scope(ctx, "pl.struct", node)
    name = _struct_name(ctx, node, 0, "pl.struct")
    type_, init = _declared(ctx, node, name, "pl.struct")
    var = ctx.fresh(hint or name.lower(), type_)
    ctx.emit(StructDecl(var, init, span=ctx.span(node)))
    return StructValue(whole(var, type_))


@handles("struct_array")
def struct_array(ctx: Context, node: ast.Call, hint: str | None) -> Value:
    """`pl.struct_array(N, "Name", field=init, ...)`."""
    opcalls.check_scope(ctx, "pl.struct_array", node)
    size = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise ctx.error(ParserSyntaxError, "the size of pl.struct_array is an int literal of at least 1", node)
    name = _struct_name(ctx, node, 1, "pl.struct_array")
    type_, init = _declared(ctx, node, name, "pl.struct_array")
    var = ctx.fresh(hint or name.lower(), StructArrayType(type_, size))
    ctx.emit(StructDecl(var, init, span=ctx.span(node)))
    return StructArrayValue(var)


def _declared(ctx: Context, node: ast.Call, name: str, owner: str) -> tuple[StructType, tuple[Expr, ...]]:
    """The struct type and the initial value of every scalar; one name has one layout in a kernel."""
    names, values = _keywords(ctx, node, owner)
    fields = []
    init: list[Expr] = []
    for field, value, keyword in zip(names, values, node.keywords, strict=True):
        type_, leaves = _field(ctx, field, value, keyword.value)
        fields.append((field, type_))
        init += leaves
    made = StructType(name, tuple(fields))
    known = ctx.structs.setdefault(name, made)
    if known != made:
        raise ctx.error(ParserTypeError, f"struct `{name}` has another layout elsewhere in this kernel", node)
    return made, tuple(init)


def _field(
    ctx: Context, name: str, value: Value, node: ast.AST
) -> tuple[ScalarType | ArrayType | StructType, list[Expr]]:
    if is_scalar(value):
        return operators.scalar_type(value), [value]
    match value:
        case StructValue(place):
            return value.type, list(struct_leaves(place, value.type))
        case ArrayValue(owner, field, type_):
            return type_, _array_leaves(owner, field, type_)
        case TupleValue(items) if items:
            return _array_field(ctx, name, items, node)
    raise ctx.error(ParserTypeError, f"field `{name}` is a scalar, a list or a struct, found {describe(value)}", node)


def _array_field(
    ctx: Context, name: str, items: Sequence[Value], node: ast.AST
) -> tuple[ArrayType, list[Expr]]:
    leaves: list[Expr] = []
    for item in items:
        if not is_scalar(item):
            raise ctx.error(ParserTypeError, f"array field `{name}` holds scalars, found {describe(item)}", node)
        leaves.append(item)
    element = operators.scalar_type(leaves[0])
    for leaf in leaves:
        if build.merged(element.dtype, build.kind_of(leaf)) is None:
            raise ctx.error(ParserTypeError, f"the elements of array field `{name}` are of different kinds", node)
    return ArrayType(element, len(leaves)), [build.convert(leaf, element) for leaf in leaves]


def _array_leaves(owner: Place, field: str, type_: ArrayType) -> list[Expr]:
    return [Field(owner.member(field, type_.element, build.number(i))) for i in range(type_.length)]


def struct_leaves(place: Place, type_: StructType) -> list[Expr]:
    """Every scalar of a struct as it is read, in declaration order."""
    found: list[Expr] = []
    for name, kind in type_.fields:
        match kind:
            case ArrayType():
                found += _array_leaves(place, name, kind)
            case StructType():
                found += struct_leaves(place.member(name, kind), kind)
            case _:
                found.append(Field(place.member(name, kind)))
    return found


# --- coordinates -----------------------------------------------------------------------------------------------------


@handles(*(f"get_{name}" for name in LAUNCH_QUERIES))
def coordinate(ctx: Context, node: ast.Call, hint: str | None) -> Value:
    """`pl.get_block_idx()` and its kin: INT32, no arguments."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if node.args or node.keywords:
        raise arguments.mismatch(ctx, f"pl.{name}() takes no arguments", node)
    if ctx.in_simt:
        opcalls.check_scope(ctx, f"pl.{name}", node)
    return Query(name.removeprefix("get_"), _INT32)


@handles("get_spr")
def get_spr(ctx: Context, node: ast.Call, hint: str | None) -> Value:
    """`pl.get_spr()`: the AR register, INT64, in vector sections outside vector functions."""
    if node.args or node.keywords:
        raise arguments.mismatch(ctx, "pl.get_spr() takes no arguments", node)
    if ctx.core is not CoreKind.VECTOR:
        opcalls.check_core(ctx, "pl.get_spr", Section.VECTOR, node)
    opcalls.check_scope(ctx, "pl.get_spr", node)
    return ctx.bound("_spr", Query("spr", _INT64), node)
