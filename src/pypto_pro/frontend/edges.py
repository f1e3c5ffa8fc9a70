"""The edges out of a loop body: what the next trip and the code behind need is stored there."""

from __future__ import annotations

import ast
from typing import TypeAlias

from pypto_pro.diag.errors import ParserTypeError
from pypto_pro.frontend import merge
from pypto_pro.frontend.context import Context, Edge, Loop
from pypto_pro.frontend.values import Poison, StructValue, TupleValue, Value, is_ptr, is_scalar, is_tensor, is_tile
from pypto_pro.ir import build
from pypto_pro.ir.nodes import Const, Local
from pypto_pro.ir.types import ScalarType

Change: TypeAlias = "ScalarType | Poison | None"


class Repin(Exception):
    """The loop must be read again with `name` kept as another type, or (Poison) not kept at all."""

    def __init__(self, loop: Loop, name: str, change: Change) -> None:
        super().__init__(name)
        self.loop = loop
        self.name = name
        self.change = change


def leave(ctx: Context, node: ast.AST, *, is_break: bool) -> None:
    """Before a jump out of the trip: store what lives on, and remember the edge."""
    loop = ctx.frame.loops[-1]
    close_trip(ctx, loop, node)
    (loop.exits if is_break else loop.repeats).append(Edge(ctx.block, dict(ctx.frame.names)))


def close_trip(ctx: Context, loop: Loop, node: ast.AST) -> None:
    """Store the current values of pinned and carried names where the next trip and the code behind look for them."""
    frame = ctx.frame
    pairs: list[tuple[Value, Value]] = []
    for name, var in loop.pinned.items():
        value = frame.names[name]
        if value == Local(var):
            continue
        if isinstance(value, Poison):
            raise Repin(loop, name, value)
        if is_scalar(value) and isinstance(var.type, ScalarType):
            shared = build.merged(var.type.dtype, build.kind_of(value))
            if shared is not None and shared is not var.type.dtype and shared.bits() > var.type.dtype.bits():
                raise Repin(loop, name, ScalarType(shared))
            if shared is not None:
                pairs.append((Local(var), build.convert(value, var.type)))
                continue
        if is_ptr(value) and value.type == var.type:
            pairs.append((Local(var), value))
            continue
        raise Repin(loop, name, merge.mixed(ctx, name, [Local(var), value], node))
    for name, carrier in loop.carried.items():
        value = frame.names[name]
        if value != carrier:
            pairs.append((carrier, _carried(ctx, loop, name, carrier, value, node)))
    for copy in merge.copies(ctx, pairs, node):
        ctx.emit(copy)


def _carried(ctx: Context, loop: Loop, name: str, carrier: Value, value: Value, node: ast.AST) -> Value:
    """The value to store in a carrier; Repin when the carrier cannot take it."""
    if isinstance(value, Poison):
        raise Repin(loop, name, value)
    if is_tile(carrier) and is_tile(value) and carrier.type == value.type:
        if merge.id_count(ctx, carrier) == merge.id_count(ctx, value):
            return value
        text = f"`{name}` carries different numbers of mutex ids before the loop and in it"
        raise Repin(loop, name, Poison(ParserTypeError, text, ctx.span(node)))
    if is_tensor(carrier) and is_tensor(value) and merge.tensor_type([carrier, value]) is not None:
        if isinstance(carrier, Local) and all(dim is None for dim in carrier.var.type.dims):  # type: ignore[union-attr]
            return value
        raise Repin(loop, name, None)
    if isinstance(carrier, StructValue) and isinstance(value, StructValue) and carrier.type == value.type:
        if carrier.place.var in ctx.owned:
            return value
        raise Repin(loop, name, None)
    if isinstance(carrier, TupleValue) and isinstance(value, TupleValue) and merge.same_shape(carrier, value):
        items = zip(carrier.items, value.items, strict=True)
        return TupleValue(tuple(_tuple_item(ctx, loop, name, a, b, node) for a, b in items), value.names)
    raise Repin(loop, name, merge.mixed(ctx, name, [carrier, value], node))


def _tuple_item(ctx: Context, loop: Loop, name: str, carrier: Value, value: Value, node: ast.AST) -> Value:
    if carrier == value:
        return value
    if is_scalar(carrier) and is_scalar(value):
        if isinstance(carrier, Const):
            raise Repin(loop, name, None)
        if merge.alike(carrier.type, value.type):
            return value
    if is_ptr(carrier) and is_ptr(value) and carrier.type == value.type:
        return value
    return _carried(ctx, loop, name, carrier, value, node)
