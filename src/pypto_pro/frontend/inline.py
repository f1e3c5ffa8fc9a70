"""Helpers expanded in place: parameters, locals of their own, and what their returns give."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FunctionType
from typing import Any

from pypto_pro.diag.errors import ParserSyntaxError, ParserTypeError
from pypto_pro.dtypes import DataType
from pypto_pro.frontend import markers, merge, naming, order, vector
from pypto_pro.frontend.annotations import DimPolicy, PtrAnnotation, TensorAnnotation, TileAnnotation
from pypto_pro.frontend.closure import Closure
from pypto_pro.frontend.context import Context, Frame, FrameKind
from pypto_pro.frontend.pipeline.probe import StageCall
from pypto_pro.frontend.scan import Liveness
from pypto_pro.frontend.signature import evaluate_annotation
from pypto_pro.frontend.source import Source, cells, source_of
from pypto_pro.frontend.values import (
    NONE,
    Poison,
    Static,
    Value,
    describe,
    expr_type,
    is_expr,
    is_ptr,
    is_scalar,
    is_tile,
)
from pypto_pro.ir.nodes import Const, Local, Stmt
from pypto_pro.ir.types import TensorType

MAX_EXPANSIONS = 40


def call(ctx: Context, fn: FunctionType, node: ast.Call, hint: str | None = None) -> Value | None:
    """A call of a Python function by its bare name."""
    kind = markers.kind_of(fn)
    if kind == markers.SIMT:
        raise ctx.error(
            ParserSyntaxError, f"`{fn.__name__}` is a SIMT function", node,
            hint=f"launch it: pl.simt.launch({fn.__name__}, threads=..., args=(...))",
        )  # fmt: skip
    if kind == markers.VECTOR:
        vector.call(ctx, fn, node)
        return None
    if ctx.in_vector_function:
        raise ctx.error(
            ParserSyntaxError, f"`{fn.__name__}` is no vector function and cannot be called from one", node,
            hint="mark it with @pl.vector_function",
        )  # fmt: skip
    return expand(ctx, fn, node, FrameKind.HELPER, hint)


def call_simt(ctx: Context, fn: FunctionType, node: ast.Call) -> Value | None:
    """A call inside a SIMT function: only helpers marked `@pl.simt.function` without a bound."""
    if markers.kind_of(fn) != markers.SIMT:
        raise ctx.error(
            ParserSyntaxError, f"`{fn.__name__}` is no SIMT function", node, hint="mark it with @pl.simt.function"
        )
    if markers.max_threads_of(fn) is not None:
        raise ctx.error(ParserTypeError, f"`{fn.__name__}` is a SIMT entry; entries are launched, not called", node)
    value = expand(ctx, fn, node, FrameKind.SIMT)
    if value is not None and not is_scalar(value):
        raise ctx.error(ParserTypeError, f"a SIMT helper returns one scalar, found {describe(value)}", node)
    return value


def expand(
    ctx: Context, fn: FunctionType, node: ast.Call, kind: FrameKind, hint: str | None = None
) -> Value | None:
    """The body of a function read at its call; the value of its returns, None when it gives none."""
    source = checked_source(ctx, fn, node)
    values = positional(ctx, fn, source, node)
    start, block = len(ctx.block), ctx.block
    outer = ctx.frame.hint
    wanted = ctx.frame.wanted.get(node)
    listens = ctx.probe is not None and ctx.frame.kind is FrameKind.KERNEL and markers.kind_of(fn) == markers.STAGE
    names = dict(ctx.frame.names) if listens else {}
    with opened(ctx, fn, source, node, kind) as frame:
        frame.hint = hint if outer is None or hint is None else f"{outer}_{hint}"
        if isinstance(wanted, str):
            frame.hint = wanted
        if wanted is not None:
            frame.wanted = naming.wanted_in_helper(source.tree.body, wanted)
        bind_parameters(ctx, fn, values, node)
        ctx.execute(body_of(source))
        result = _result(ctx, frame, fn, node, block, start)
    if ctx.probe is not None and listens:
        ctx.probe.stage(node, StageCall(fn, source, ctx.core, tuple(values), names, block[start:]))
    return result


def checked_source(ctx: Context, fn: FunctionType, node: ast.Call) -> Source:
    """The function's source. ParserSyntaxError for recursion and for parameters that calls cannot fill."""
    if any(fn.__code__ is other.__code__ for other in ctx.expanding):
        raise ctx.error(ParserSyntaxError, f"`{fn.__name__}` calls itself; recursion is not available", node)
    if len(ctx.expanding) >= MAX_EXPANSIONS:
        raise ctx.error(ParserSyntaxError, f"helpers are nested deeper than {MAX_EXPANSIONS} calls", node)
    source = source_of(fn)
    args = source.tree.args
    if args.posonlyargs or args.kwonlyargs or args.vararg or args.kwarg:
        raise ctx.error(
            ParserSyntaxError, f"`{fn.__name__}` has positional-only, keyword-only or starred parameters", node
        )
    return source


def positional(ctx: Context, fn: FunctionType, source: Source, node: ast.Call) -> list[Value]:
    """The argument values of a call: positional only, as many as the function takes."""
    name = fn.__name__
    if node.keywords:
        raise ctx.error(
            ParserSyntaxError, f"`{name}` is called with keyword arguments; helpers take positional ones", node
        )
    if any(isinstance(arg, ast.Starred) for arg in node.args):
        raise ctx.error(ParserSyntaxError, f"`{name}` is called with starred arguments", node)
    most = len(source.tree.args.args)
    least = most - len(source.tree.args.defaults)
    if not least <= len(node.args) <= most:
        wanted = str(most) if least == most else f"{least} to {most}"
        raise ctx.error(ParserTypeError, f"`{name}` takes {wanted} arguments, found {len(node.args)}", node)
    values = order.evaluate_all(ctx, node.args)
    params = source.tree.args.args
    return [_passed(ctx, v, arg, param.arg) for v, arg, param in zip(values, node.args, params, strict=False)]


def _passed(ctx: Context, value: Value, node: ast.AST, name: str) -> Value:
    """An argument as it is at the call: what is no plain name or constant gets one, that of the parameter."""
    if isinstance(value, Const | Local):
        return value
    return order.settled(ctx, value, node, name)


@contextmanager
def opened(ctx: Context, fn: FunctionType, source: Source, node: ast.AST, kind: FrameKind) -> Iterator[Frame]:
    """A frame for the expansion of `fn` at `node`."""
    frame = Frame(
        kind,
        fn.__name__,
        source,
        Closure(ctx.constants, cells(fn), fn.__globals__, ctx.captured),
        Liveness(body_of(source), ctx.core),
        ctx.span(node).labelled(fn.__name__),
    )
    ctx.frames.append(frame)
    ctx.expanding.append(fn)
    try:
        yield frame
    finally:
        ctx.frames.pop()
        ctx.expanding.pop()


def body_of(source: Source) -> list[ast.stmt]:
    """The statements of a function without its docstring."""
    body = source.tree.body
    is_text = ast.get_docstring(source.tree, clean=False) is not None
    return body[1:] if is_text else body


def bind_parameters(ctx: Context, fn: FunctionType, values: Sequence[Value], node: ast.AST) -> None:
    """Give the parameters of the open frame their values; missing ones their defaults, evaluated here."""
    frame = ctx.frame
    args = frame.source.tree.args
    names = [arg.arg for arg in args.args]
    given = list(values)
    missing = names[len(given) :]
    defaults = args.defaults[len(args.defaults) - len(missing) :] if missing else []
    for name, default in zip(missing, defaults, strict=True):
        given.append(_passed(ctx, ctx.evaluate(default), default, name))
    for arg, value in zip(args.args, given, strict=True):
        check_annotation(ctx, fn, arg.arg, value, node)
        frame.names[arg.arg] = value


def check_annotation(ctx: Context, fn: FunctionType, name: str, value: Value, node: ast.AST) -> None:
    """ParserTypeError when an annotated parameter gets another kind of value or another family of dtypes."""
    written = fn.__annotations__.get(name)
    if written is None or value == NONE:
        return
    try:
        annotation = evaluate_annotation(written, name, {**fn.__globals__, **cells(fn), **ctx.constants})
    except TypeError:
        return
    wanted = _misfit(annotation, value)
    if wanted is not None:
        span = ctx.frames[-2].source.span(node, ctx.frames[-2].inlined_at) if len(ctx.frames) > 1 else ctx.span(node)
        raise ctx.error(
            ParserTypeError, f"parameter `{name}` of `{fn.__name__}` is {wanted}, found {merge.typed(value)}", span
        )


def _misfit(annotation: Any, value: Value) -> str | None:
    """What the annotation asks for when the value is something else."""
    match annotation:
        case DataType():
            fits = is_scalar(value) and _family(annotation) == _family(value.type.dtype)  # type: ignore[union-attr]
            return None if fits else f"annotated {annotation.to_string()}"
        case PtrAnnotation():
            return None if is_ptr(value) else "a pointer"
        case TileAnnotation(dtype=dtype):
            fits = is_tile(value) and _family(dtype) == _family(value.type.dtype)  # type: ignore[union-attr]
            return None if fits else f"a tile of {dtype.to_string()}"
        case TensorAnnotation():
            return _tensor_misfit(annotation, value)
    return None


def _family(dtype: DataType) -> bool:
    return dtype.is_float()


def _tensor_misfit(annotation: TensorAnnotation, value: Value) -> str | None:
    type_ = expr_type(value)
    if not isinstance(type_, TensorType):
        return f"a tensor of {annotation.dtype.to_string()}"
    if not annotation.is_special:
        same = _family(type_.dtype) == _family(annotation.dtype)
        return None if same else f"a tensor of {annotation.dtype.to_string()}"
    if type_.dtype is not annotation.dtype:
        return f"a tensor of exactly {annotation.dtype.to_string()}"
    explicit = len(annotation.dims)
    if type_.rank < explicit or (type_.rank > explicit and not annotation.open_ended):
        return f"a tensor of rank {explicit}{' or more' if annotation.open_ended else ''}"
    for axis, dim in enumerate(type_.dims):
        wanted = annotation.dims[axis] if axis < explicit else DimPolicy.STATIC
        if isinstance(wanted, int) and dim != wanted:
            return f"a tensor whose axis {axis} is {wanted}"
        if wanted is DimPolicy.STATIC and dim is None:
            return f"a tensor whose axis {axis} is known at compile time"
    return None


def _result(
    ctx: Context, frame: Frame, fn: FunctionType, node: ast.Call, block: list[Stmt], start: int
) -> Value | None:
    """The value the returns give: directly when there is one at the end, else merged over the paths."""
    sites = [site for site in frame.returns if site.value is not None]
    if not sites:
        return None
    if len(sites) == 1 and sites[0].block is block and not sites[0].is_jump:
        return sites[0].value
    paths = [merge.Path(site.block, site.value, site.is_jump) for site in sites if site.value is not None]
    if all(isinstance(path.value, Static) or not is_expr(path.value) for path in paths):
        first = paths[0].value
        if all(path.value == first for path in paths):
            return first
    with ctx.into([]) as shared:
        merged = _convertible(ctx, fn.__name__, paths, node)
    block[start:start] = shared
    if isinstance(merged, Poison):
        text = f"the returns of `{fn.__name__}` give different kinds of value: {merged.message}"
        raise ctx.error(ParserTypeError, text, node)
    return merged


def _convertible(ctx: Context, name: str, paths: list[merge.Path], node: ast.AST) -> Value:
    """Returned scalars convert to the first kind of number; everything else merges as at any meeting point."""
    merged = merge.merge(ctx, name, paths, node, var=False)
    if isinstance(merged, Poison) and all(is_scalar(path.value) for path in paths):
        lead = paths[0].value
        assert is_scalar(lead)
        target = ctx.fresh(name, lead.type)
        merge.store_scalars(ctx, target, paths, node)
        return Local(target)
    return merged
