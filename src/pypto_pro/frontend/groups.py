"""Tile groups: `next`, `current`, `previous` and `g[i]`."""

from __future__ import annotations

import ast

from pypto_pro.diag.errors import ParserSyntaxError, ParserTypeError, UnsupportedFeatureError
from pypto_pro.frontend import hints
from pypto_pro.frontend.context import Context
from pypto_pro.frontend.values import GroupValue, Value, const_int, describe, is_scalar
from pypto_pro.ir import build
from pypto_pro.ir.nodes import Assign, Binary, Const, Expr, Local, Slot
from pypto_pro.ir.types import INDEX

ACCESSORS = hints.GROUP_METHODS
ZERO = Const(0, INDEX)


def accessor(ctx: Context, group: GroupValue, name: str, call: ast.Call) -> Value:
    """`g.next()`, `g.current()`, `g.previous()`: a reference to the chosen slot."""
    if name not in ACCESSORS:
        raise ctx.error(
            UnsupportedFeatureError, f"a tile group has no method `{name}`", call, hint=hints.of_member(group, name)
        )
    if call.args or call.keywords:
        raise ctx.error(ParserSyntaxError, f"`{name}()` takes no arguments", call)
    cursor = group.decl.cursor
    if cursor is None:
        return Slot(group.var, ZERO)
    match name:
        case "next":
            ctx.emit(Assign(cursor, _moved(Local(cursor), 1, group.depth), span=ctx.span(call)))
        case "previous":
            return Slot(group.var, _moved(Local(cursor), group.depth - 1, group.depth))
    return Slot(group.var, Local(cursor))


def _moved(cursor: Expr, by: int, depth: int) -> Expr:
    return Binary("%", Binary("+", cursor, Const(by, INDEX), INDEX), Const(depth, INDEX), INDEX)


def slot(ctx: Context, group: GroupValue, index: Value, node: ast.Subscript) -> Value:
    """`g[i]`: the cursor stays."""
    if isinstance(node.slice, ast.Slice):
        raise ctx.error(UnsupportedFeatureError, "a tile group cannot be sliced", node)
    if not is_scalar(index) or not build.kind_of(index).is_int():
        raise ctx.error(ParserTypeError, f"the index of a tile group is an integer, found {describe(index)}", node)
    known = const_int(index)
    if known is not None and not 0 <= known < group.depth:
        raise ctx.error(ParserTypeError, f"slot {known} is outside the tile group of {group.depth}", node.slice)
    return Slot(group.var, build.convert(index, INDEX))
