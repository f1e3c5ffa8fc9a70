"""Order of evaluation: what was read before a later operand's statements keeps the value it had then."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from pypto_pro.frontend.context import Context
from pypto_pro.frontend.values import (
    ArrayValue,
    StructValue,
    TupleValue,
    Value,
    is_expr,
    is_ptr,
    is_scalar,
    is_tensor,
    is_tile,
)
from pypto_pro.ir import walk
from pypto_pro.ir.nodes import Assign, Const, Dim, Expr, Field, Local, Place, Query, Slot, TileAttr, Var
from pypto_pro.ir.types import GroupType, TileType


def is_volatile(value: Value) -> bool:
    """Whether a statement in between could change what the expression gives: fields, descriptors, cursors."""
    if isinstance(value, TupleValue):
        return any(is_volatile(item) for item in value.items)
    if not is_expr(value):
        return False
    return any(
        isinstance(node, Field | TileAttr) or (isinstance(node, Slot) and not isinstance(node.index, Const))
        for node in walk.walk(value)
    )


def evaluate_all(ctx: Context, nodes: Sequence[ast.expr]) -> list[Value]:
    """The values of several expressions, left to right; volatile ones are fixed where a later one emits statements."""
    values: list[Value] = []
    places: list[int] = []
    block = ctx.block
    for node in nodes:
        values.append(ctx.evaluate(node))
        places.append(len(block))
    shift = 0
    for i, place in enumerate(places):
        if len(block) - shift > place and is_volatile(values[i]):
            values[i], added = fix_at(ctx, values[i], place + shift, nodes[i])
            shift += added
    return values


def evaluate_spread(ctx: Context, nodes: Sequence[ast.expr]) -> list[Value]:
    """As `evaluate_all`, for values that are used at once: items of displays are read in place and get no names."""
    widths = [len(node.elts) if isinstance(node, ast.List | ast.Tuple) else None for node in nodes]
    flat = [item for node in nodes for item in _items(node)]
    if any(isinstance(item, ast.Starred) for item in flat):
        return evaluate_all(ctx, nodes)
    found = evaluate_all(ctx, flat)
    values: list[Value] = []
    for width in widths:
        if width is None:
            values.append(found.pop(0))
        else:
            values.append(TupleValue(tuple(found[:width])))
            del found[:width]
    return values


def _items(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.List | ast.Tuple) else [node]


def fix_at(ctx: Context, value: Value, place: int, node: ast.AST) -> tuple[Value, int]:
    """The value bound to temporaries by statements inserted at `place` of the open block, and how many those are."""
    outer, tail = ctx.block, ctx.block[place:]
    with ctx.into([]) as added:
        fixed = settled(ctx, value, node)
    outer[place:] = [*added, *tail]
    return fixed, len(added)


def settled(ctx: Context, value: Value, node: ast.AST, name: str = "_t") -> Value:
    """The value as it is now, in a form that no later statement changes: run-time numbers and references get names."""
    match value:
        case TupleValue(items, names):
            return TupleValue(tuple(settled(ctx, item, node, name) for item in items), names)
        case StructValue(place):
            return StructValue(_settled_place(ctx, place, node))
        case ArrayValue(owner, field, type_):
            return ArrayValue(_settled_place(ctx, owner, node), field, type_)
    if not is_expr(value) or is_stable(ctx, value):
        return value
    if is_scalar(value) or is_ptr(value) or is_tile(value):
        return ctx.bound(name, value, node)
    return value


def _settled_place(ctx: Context, place: Place, node: ast.AST) -> Place:
    """The place with the slot that its index chooses now."""
    if place.index is None or is_stable(ctx, place.index):
        return place
    return replace(place, index=ctx.bound("_i", place.index, node))


def is_stable(ctx: Context, value: Expr) -> bool:
    """Whether the expression gives the same for ever: constants, coordinates, dims, declared tiles, fixed slots."""
    match value:
        case Const() | Query():
            return True
        case Dim(tensor):
            return tensor in ctx.params or not ctx.in_loop
        case Slot(index=Const()):
            return True
        case Local(var):
            is_temporary = var in ctx.temporaries and not ctx.in_loop
            return var in ctx.tiles or var in ctx.stable or is_temporary or is_tensor(value)
    return False


def roots(ctx: Context, value: Expr) -> set[Var]:
    """The variables a reference goes back to, through every variable it was bound by."""
    found: set[Var] = set()
    waiting: list[Expr] = [value]
    while waiting:
        for node in walk.walk(waiting.pop()):
            if isinstance(node, Var) and node not in found and isinstance(node.type, TileType | GroupType):
                found.add(node)
                if node in ctx.refs:
                    waiting.append(ctx.refs[node])
    return found


def assign(ctx: Context, var: Var, value: Expr, node: ast.AST) -> None:
    """`var = value`, unless it already is that variable."""
    if value != Local(var):
        ctx.emit(Assign(var, value, span=ctx.span(node)))
        ctx.note_reference(var, value)
