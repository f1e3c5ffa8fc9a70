"""Binding a name to a value: which variable holds it, and what is only renamed."""

from __future__ import annotations

import ast

from pypto_pro.diag.errors import ParserTypeError
from pypto_pro.frontend import order, registers
from pypto_pro.frontend.context import Context
from pypto_pro.frontend.edges import Repin
from pypto_pro.frontend.values import (
    ArrayValue,
    Foreign,
    Poison,
    StructValue,
    Value,
    describe,
    is_expr,
    is_ptr,
    is_register,
    is_scalar,
    is_tensor,
    is_tile,
)
from pypto_pro.ir import build
from pypto_pro.ir.nodes import Const, Expr, Local
from pypto_pro.ir.types import ScalarType


def several(ctx: Context, names: list[str], value: ast.expr) -> Value:
    """The right side of an unpacking; register ops with two results write the named registers."""
    if isinstance(value, ast.Call) and registers.is_register_call(ctx, value):
        found = registers.assign(ctx, value, names)
        if found is not None:
            return found
    return ctx.evaluate(value)


def bind(ctx: Context, name: str, value: Value, node: ast.AST) -> None:
    """`name = value` in the open function."""
    if isinstance(value, Poison | Foreign):
        raise ctx.error(ParserTypeError, f"{describe(value)} cannot be bound to a name", node)
    frame = ctx.frame
    if is_scalar(value):
        frame.names[name] = _scalar(ctx, name, value, node)
    elif is_ptr(value) or is_register(value):
        frame.names[name] = _into(ctx, name, value, node)
    elif is_tile(value):
        frame.names[name] = value if order.is_stable(ctx, value) else ctx.bound(name, value, node)
    elif isinstance(value, StructValue | ArrayValue):
        frame.names[name] = order.settled(ctx, value, node, name)
    elif is_tensor(value) or not is_expr(value):
        frame.names[name] = value if not ctx.in_loop or _is_new(node) else order.settled(ctx, value, node, name)


def _is_new(node: ast.AST) -> bool:
    """Whether the statement makes its value, so that nothing else names the parts."""
    return isinstance(getattr(node, "value", None), ast.Call | ast.Tuple | ast.List)


def _into(ctx: Context, name: str, value: Expr, node: ast.AST) -> Value:
    var = ctx.variable(name, value.type)
    order.assign(ctx, var, value, node)
    return Local(var)


def _scalar(ctx: Context, name: str, value: Expr, node: ast.AST) -> Value:
    """A constant stays one outside loops; in a loop, and at run time, the author's variable is assigned."""
    frame = ctx.frame
    if isinstance(value, Const) and name not in frame.looped:
        return value
    pinned = next((loop.pinned[name] for loop in reversed(frame.loops) if name in loop.pinned), None)
    if pinned is None or not isinstance(pinned.type, ScalarType):
        return _into(ctx, name, value, node)
    found = build.kind_of(value)
    shared = build.merged(pinned.type.dtype, found)
    if shared is None:  # another kind of number: its own variable; the end of the trip decides
        return _into(ctx, name, value, node)
    if shared.bits() > pinned.type.dtype.bits() or shared.is_float() != pinned.type.dtype.is_float():
        raise Repin(next(loop for loop in reversed(frame.loops) if name in loop.pinned), name, ScalarType(shared))
    return _into(ctx, name, build.convert(value, pinned.type), node)
