"""`pl.simt.*`: launches of thread functions and the queries inside them."""

from __future__ import annotations

import ast
from types import FunctionType

from pypto_pro import layouts
from pypto_pro.diag.errors import ParserSyntaxError, ParserTypeError
from pypto_pro.dtypes import DataType
from pypto_pro.enums import CoreKind, MemorySpace, TensorLayout
from pypto_pro.frontend import inline, markers, opcalls
from pypto_pro.frontend.context import Context, FrameKind, deferred
from pypto_pro.frontend.handlers import handles
from pypto_pro.frontend.source import Source
from pypto_pro.frontend.values import TupleValue, Value, const_int, describe, expr_type
from pypto_pro.ir import build
from pypto_pro.ir.nodes import Expr, Query, SimtLaunch, Stmt
from pypto_pro.ir.types import ScalarType, TensorType, TileType
from pypto_pro.ops.entry import Section

MAX_BOUND = 2048
AXES = ("x", "y", "z")
_UINT32 = ScalarType(DataType.DT_UINT32)


@handles("simt.launch")
def launch(ctx: Context, node: ast.Call, hint: str | None) -> None:
    """`pl.simt.launch(entry, threads=..., args=(...))`."""
    if ctx.in_simt:
        raise ctx.error(ParserSyntaxError, "a SIMT function cannot launch another one", node)
    opcalls.check_core(ctx, "pl.simt.launch", Section.VECTOR, node)
    opcalls.check_scope(ctx, "pl.simt.launch", node)
    if ctx.section is not CoreKind.VECTOR:
        raise ctx.error(ParserSyntaxError, "pl.simt.launch stands inside `with pl.section_vector():`", node)
    fn, threads_node, args_node = _parts(ctx, node)
    bound = _bound(ctx, fn, node)
    threads = _threads(ctx, threads_node, bound)
    call = ast.copy_location(ast.Call(node.args[0], list(args_node.elts), []), node)
    source = inline.checked_source(ctx, fn, node)
    if source.tree.args.defaults:
        raise ctx.error(ParserSyntaxError, f"`{fn.__name__}` has default values; SIMT parameters are required", node)
    values = inline.positional(ctx, fn, source, call)
    args = tuple(_argument(ctx, value, arg) for value, arg in zip(values, args_node.elts, strict=True))
    body = _body(ctx, fn, source, values, node)
    ctx.emit(
        SimtLaunch(fn.__name__, tuple(map(build.number, threads)), args, deferred(body), bound, span=ctx.span(node))
    )


def _body(ctx: Context, fn: FunctionType, source: Source, values: list[Value], node: ast.Call) -> list[Stmt]:
    """The thread body, read once for this launch."""
    body: list[Stmt] = []
    with inline.opened(ctx, fn, source, node, FrameKind.SIMT), ctx.into(body):
        ctx.simt_base = len(ctx.frames)
        try:
            inline.bind_parameters(ctx, fn, values, node)
            ctx.execute(inline.body_of(source))
        finally:
            ctx.simt_base = 0
    return body


def _parts(ctx: Context, node: ast.Call) -> tuple[FunctionType, ast.expr, ast.Tuple]:
    """(function, threads, args) as written."""
    if len(node.args) != 1 or not isinstance(node.args[0], ast.Name):
        raise ctx.error(ParserSyntaxError, "pl.simt.launch takes the plain name of one function", node)
    given = {keyword.arg: keyword.value for keyword in node.keywords}
    if set(given) != {"threads", "args"} or len(node.keywords) != 2:
        raise ctx.error(ParserSyntaxError, "pl.simt.launch takes exactly `threads=` and `args=`", node)
    args = given["args"]
    if not isinstance(args, ast.Tuple):
        raise ctx.error(ParserSyntaxError, "`args` is a tuple written out", args, hint="one item: `args=(x,)`")
    name = node.args[0].id
    fn = ctx.frame.scope.find(name) if name not in ctx.frame.names and ctx.frame.scope.has(name) else None
    if not isinstance(fn, FunctionType) or markers.kind_of(fn) != markers.SIMT or markers.max_threads_of(fn) is None:
        raise ctx.error(
            ParserTypeError, f"`{name}` is no launchable SIMT function", node.args[0],
            hint="mark it with @pl.simt.function(max_threads=...)",
        )  # fmt: skip
    return fn, given["threads"], args


def _bound(ctx: Context, fn: FunctionType, node: ast.AST) -> int:
    bound = markers.max_threads_of(fn)
    if isinstance(bound, bool) or not isinstance(bound, int):
        raise TypeError(f"max_threads of `{fn.__name__}` is an int, found {type(bound).__name__}")
    if not 1 <= bound <= MAX_BOUND:
        raise ValueError(f"max_threads of `{fn.__name__}` is from 1 to {MAX_BOUND}, found {bound}")
    return bound


def _threads(ctx: Context, node: ast.expr, bound: int) -> tuple[int, int, int]:
    if isinstance(node, ast.Tuple) and not 1 <= len(node.elts) <= 3:
        raise ctx.error(ParserSyntaxError, f"`threads` has one to three extents, found {len(node.elts)}", node)
    value = ctx.evaluate(node)
    items = value.items if isinstance(value, TupleValue) else (value,)
    if not 1 <= len(items) <= 3:
        raise ctx.error(ParserSyntaxError, f"`threads` has one to three extents, found {len(items)}", node)
    extents = []
    for item in items:
        extent = const_int(item)
        if extent is None or not 1 <= extent <= MAX_BOUND:
            text = f"an extent of `threads` is a constant from 1 to {MAX_BOUND}, found {describe(item)}"
            raise ctx.error(ParserTypeError, text, node)
        extents.append(extent)
    x, y, z = (*extents, 1, 1)[:3]
    if x * y * z > min(bound, MAX_BOUND):
        raise ctx.error(ParserTypeError, f"{x * y * z} threads exceed max_threads={bound}", node)
    return x, y, z


def _argument(ctx: Context, value: Value, node: ast.AST) -> Expr:
    """A scalar, an ND tensor or an ND Vec tile of whole bytes."""
    type_ = expr_type(value)
    match type_:
        case ScalarType():
            good = True
        case TensorType(dtype, _, layout):
            good = layout is TensorLayout.ND and not dtype.is_sub_byte
        case TileType():
            is_nd = layouts.effective_layout(type_.layout, type_.cols) is TensorLayout.ND
            flat = type_.layout in (None, TensorLayout.ND) and len(type_.shape) == 2
            good = type_.space is MemorySpace.Vec and (is_nd or flat) and not type_.dtype.is_sub_byte
        case _:
            good = False
    if not good:
        text = f"a SIMT argument is a scalar, an ND tensor or an ND Vec tile, found {describe(value)}"
        raise ctx.error(ParserTypeError, text, node)
    return value  # type: ignore[return-value]


# --- queries ---------------------------------------------------------------------------------------------------------


def _query(ctx: Context, node: ast.Call) -> str:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if not ctx.in_simt:
        raise ctx.error(ParserSyntaxError, f"pl.simt.{name}() stands inside a SIMT function only", node)
    if node.args or node.keywords:
        raise ctx.error(ParserSyntaxError, f"pl.simt.{name}() takes no arguments", node)
    return name


@handles("simt.thread_idx", "simt.block_dim", "simt.block_idx", "simt.grid_dim")
def coordinates(ctx: Context, node: ast.Call, hint: str | None) -> Value:
    """A named tuple (x, y, z) of UINT32."""
    name = _query(ctx, node)
    return TupleValue(tuple(Query(f"{name}.{axis}", _UINT32) for axis in AXES), AXES)


@handles("simt.linear_thread_idx", "simt.warp_size")
def number(ctx: Context, node: ast.Call, hint: str | None) -> Value:
    """One UINT32."""
    return Query(_query(ctx, node), _UINT32)
