"""Vector functions: expanded where vector code calls them, inside one register scope."""

from __future__ import annotations

import ast
from types import FunctionType

from pypto_pro.diag.errors import ParserSyntaxError
from pypto_pro.enums import CoreKind, MemorySpace
from pypto_pro.frontend import inline
from pypto_pro.frontend.context import Context, FrameKind, deferred
from pypto_pro.frontend.values import Value, is_tile
from pypto_pro.ir.nodes import Expr, Stmt, VfCall
from pypto_pro.ir.types import TileType


def call(ctx: Context, fn: FunctionType, node: ast.Call) -> None:
    """A call of a vector function; the outermost one makes the `VfCall`, inner ones join its body."""
    if ctx.in_simt:
        raise ctx.error(ParserSyntaxError, f"`{fn.__name__}` cannot be called from a SIMT function", node)
    if ctx.core is not CoreKind.VECTOR:
        place = "cube code" if ctx.section is not None else "code that both core kinds run"
        raise ctx.error(
            ParserSyntaxError, f"the vector function `{fn.__name__}` is called from {place}", node,
            hint="call it inside `with pl.section_vector():`",
        )  # fmt: skip
    source = inline.checked_source(ctx, fn, node)
    values = inline.positional(ctx, fn, source, node)
    is_outermost = not ctx.in_vector_function
    body: list[Stmt] = []
    with inline.opened(ctx, fn, source, node, FrameKind.VECTOR), ctx.into(body if is_outermost else ctx.block):
        inline.bind_parameters(ctx, fn, values, node)
        ctx.execute(inline.body_of(source))
    if is_outermost:
        ctx.emit(VfCall(fn.__name__, _tiles(ctx, values, node), deferred(body), span=ctx.span(node)))


def _tiles(ctx: Context, values: list[Value], node: ast.Call) -> tuple[Expr, ...]:
    """The tile arguments, each once. ParserSyntaxError for tiles outside the vector buffer."""
    found: dict[Expr, None] = {}
    for value, arg in zip(values, [*node.args, *[node] * len(values)], strict=False):
        if not is_tile(value):
            continue
        type_ = value.type
        assert isinstance(type_, TileType)
        if type_.space is not MemorySpace.Vec:
            raise ctx.error(
                ParserSyntaxError, f"a vector function takes tiles in Vec, found one in {type_.space.name}", arg
            )
        found[value] = None
    return tuple(found)
