"""A tuple indexed at run time."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from pypto_pro.diag.errors import ParserTypeError
from pypto_pro.frontend import merge
from pypto_pro.frontend.context import Context, deferred
from pypto_pro.frontend.values import (
    Poison,
    TupleValue,
    Value,
    describe,
    is_ptr,
    is_scalar,
    is_tensor,
    is_tile,
)
from pypto_pro.ir import build
from pypto_pro.ir.nodes import Binary, Const, Expr, If, Local, Pick, Stmt
from pypto_pro.ir.types import BOOL, INDEX, ScalarType


def pick(ctx: Context, items: Sequence[Value], index: Expr, node: ast.AST) -> Value:
    """The item at a run-time index. ParserTypeError unless all items have one type."""
    if not items:
        raise ctx.error(ParserTypeError, "an empty tuple has no items", node)
    first = items[0]
    if not isinstance(index, Const | Local):
        index = ctx.bound("_i", index, node)
    if isinstance(first, TupleValue) and all(_same_tuple(item, first) for item in items):
        columns = zip(*(item.items for item in items if isinstance(item, TupleValue)), strict=True)
        return TupleValue(tuple(pick(ctx, column, index, node) for column in columns), first.names)
    plain = [item for item in items if is_scalar(item) or is_ptr(item) or is_tile(item)]
    if len(plain) == len(items):
        other = next((item for item in plain if not merge.alike(item.type, plain[0].type)), None)
        if other is not None:
            raise ctx.error(
                ParserTypeError,
                f"items of different types cannot be chosen at run time: {describe(plain[0])} and {describe(other)}",
                node,
            )
        _check_ids(ctx, plain, node)
        lead = plain[0].type
        options = [build.convert(item, lead) if isinstance(lead, ScalarType) else item for item in plain]
        return Pick(build.convert(index, INDEX), tuple(options), lead)
    if all(is_tensor(item) for item in items):
        return _pick_tensor(ctx, items, index, node)
    another = next((item for item in items if type(item) is not type(first)), first)
    raise ctx.error(
        ParserTypeError, f"{describe(first)} and {describe(another)} cannot be chosen by a run-time index", node
    )


def _same_tuple(item: Value, first: TupleValue) -> bool:
    return isinstance(item, TupleValue) and len(item.items) == len(first.items) and item.names == first.names


def _check_ids(ctx: Context, items: Sequence[Expr], node: ast.AST) -> None:
    if not is_tile(items[0]):
        return
    counts = {merge.id_count(ctx, item) for item in items}
    if len(counts) > 1:
        raise ctx.error(ParserTypeError, "tiles chosen at run time must carry equally many mutex ids", node)


def _pick_tensor(ctx: Context, items: Sequence[Value], index: Expr, node: ast.AST) -> Value:
    """A view of its own, copied from the chosen tensor by a chain of branches."""
    paths = [merge.Path([], item) for item in items]
    merged = merge.merge(ctx, "_view", paths, node)
    if isinstance(merged, Poison):
        raise ctx.error(ParserTypeError, "tensors chosen at run time must have one dtype and rank", node)
    rest: list[Stmt] = paths[-1].block
    for i in range(len(paths) - 2, -1, -1):
        test = Binary("==", build.convert(index, INDEX), build.number(i), BOOL)
        rest = [If(test, deferred(paths[i].block), deferred(rest), span=ctx.span(node))]
    for stmt in rest:
        ctx.emit(stmt)
    return merged
