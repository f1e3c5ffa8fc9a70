"""Statements: assignment forms, sections, returns, and the order of a block."""

from __future__ import annotations

import ast

from pypto_pro.diag.errors import ParserSyntaxError, ParserTypeError, UnsupportedFeatureError
from pypto_pro.frontend import binding, branches, edges, elements, expressions, fields, loops, naming, scan
from pypto_pro.frontend.context import Context, FrameKind, ReturnSite
from pypto_pro.frontend.values import (
    ArrayValue,
    StructArrayValue,
    TupleValue,
    Value,
    describe,
    is_tensor,
    is_tile,
)
from pypto_pro.ir import build
from pypto_pro.ir.nodes import Assign, Break, Continue, Return
from pypto_pro.ir.types import BOOL

_UNSUPPORTED: dict[type[ast.stmt], str] = {
    ast.Assert: "assert", ast.Raise: "raise", ast.Try: "try", ast.Delete: "del", ast.Import: "import",
    ast.ImportFrom: "import", ast.Global: "global", ast.Nonlocal: "nonlocal", ast.FunctionDef: "a nested function",
    ast.ClassDef: "a nested class", ast.AsyncFunctionDef: "async", ast.AsyncFor: "async", ast.AsyncWith: "async",
    ast.Match: "match", ast.TryStar: "try",
}  # fmt: skip
_HINTS: dict[type[ast.stmt], str] = {ast.Assert: "pl.pto_assert(cond, ...) prints when cond is false"}


def execute(ctx: Context, body: list[ast.stmt]) -> bool:
    """Read statements in order; whether control goes on behind them. What follows a jump is not read."""
    for i, stmt in enumerate(body):
        rest = body[i + 1 :]
        match stmt:
            case ast.If():
                done = branches.run_if(ctx, stmt, rest)
            case ast.For() | ast.While():
                done = loops.run_loop(ctx, stmt, rest)
            case ast.With():
                done = run_section(ctx, stmt, rest)
            case ast.Return():
                _return(ctx, stmt)
                return False
            case ast.Break() | ast.Continue():
                _jump(ctx, stmt)
                return False
            case _:
                _simple(ctx, stmt)
                continue
        if done is not None:
            return done
    return True


def _simple(ctx: Context, stmt: ast.stmt) -> None:
    match stmt:
        case ast.Assign(targets=targets):
            if len(targets) != 1:
                raise ctx.error(ParserSyntaxError, "`a = b = ...` is not available", stmt)
            _assign(ctx, targets[0], stmt.value, stmt)
        case ast.AnnAssign(target=target, value=value):
            if value is None:
                raise ctx.error(UnsupportedFeatureError, "a declaration without a value is not available", stmt)
            if not isinstance(target, ast.Name):
                raise ctx.error(ParserSyntaxError, "only a simple name can be annotated", target)
            _assign(ctx, target, value, stmt)
        case ast.AugAssign(target=target, op=op, value=value):
            source = ast.copy_location(ast.BinOp(_as_read(target), op, value), stmt)
            _assign(ctx, target, source, stmt)
        case ast.Expr(value=value):
            _discard(ctx, value)
        case ast.Pass():
            pass
        case _:
            word = _UNSUPPORTED.get(type(stmt), "this statement")
            raise ctx.error(
                UnsupportedFeatureError, f"{word} is not available in a kernel", stmt, hint=_HINTS.get(type(stmt))
            )


def _as_read(target: ast.expr) -> ast.expr:
    """The target of an augmented assignment as the expression it reads."""
    match target:
        case ast.Name(id=name):
            read: ast.expr = ast.Name(name, ast.Load())
        case ast.Attribute(value=value, attr=attr):
            read = ast.Attribute(value, attr, ast.Load())
        case ast.Subscript(value=value, slice=index):
            read = ast.Subscript(value, index, ast.Load())
        case _:
            read = target
    return ast.copy_location(read, target)


def _discard(ctx: Context, value: ast.expr) -> None:
    """An expression statement: texts are comments, calls run, values are dropped."""
    if isinstance(value, ast.Constant):
        return
    if not isinstance(value, ast.Call):
        ctx.evaluate(value)
        return
    expressions.discard(ctx, value)


def _assign(ctx: Context, target: ast.expr, value: ast.expr, stmt: ast.stmt) -> None:
    match target:
        case ast.Name(id=name):
            ctx.pass_on(naming.wanted_in(value, ctx.inside(name)))
            binding.bind(ctx, name, ctx.evaluate(value, hint=name), stmt)
        case ast.Tuple(elts=parts):
            _unpack(ctx, parts, value, stmt)
        case ast.Attribute():
            found = ctx.evaluate(value)
            fields.write(ctx, ctx.evaluate(target.value), target.attr, found, target)
        case ast.Subscript():
            _assign_item(ctx, target, value)
        case _:
            raise ctx.error(ParserSyntaxError, f"`{ast.unparse(target)}` cannot be assigned", target)


def _unpack(ctx: Context, parts: list[ast.expr], value: ast.expr, stmt: ast.stmt) -> None:
    for part in parts:
        if not isinstance(part, ast.Name):
            raise ctx.error(ParserSyntaxError, "unpacking takes simple names", part)
    names = [part.id for part in parts if isinstance(part, ast.Name)]
    ctx.pass_on(naming.wanted_in(value, tuple(map(ctx.inside, names))))
    found = binding.several(ctx, names, value)
    if not isinstance(found, TupleValue):
        raise ctx.error(ParserTypeError, f"{describe(found)} cannot be unpacked", value)
    if len(found.items) != len(names):
        raise ctx.error(ParserTypeError, f"{len(names)} names take {len(names)} values, found {len(found.items)}", stmt)
    for name, item in zip(names, found.items, strict=True):
        if name != "_":
            binding.bind(ctx, name, item, stmt)


def _assign_item(ctx: Context, target: ast.Subscript, value_node: ast.expr) -> None:
    """`t[i, j] = v`, `s.arr[i] = v`: the right side first."""
    owner = ctx.evaluate(target.value)
    value = ctx.evaluate(value_node)
    if is_tile(owner) or is_tensor(owner):
        if isinstance(value, TupleValue):
            raise ctx.error(ParserTypeError, "an element takes a scalar, found a tuple", value_node)
        elements.write_element(ctx, owner, target, value)
        return
    match owner:
        case ArrayValue():
            if isinstance(target.slice, ast.Tuple | ast.Slice):
                raise ctx.error(ParserSyntaxError, "an array field takes one index", target)
            fields.write_element(ctx, owner, ctx.evaluate(target.slice), value, target)
        case TupleValue(names=None):
            raise ctx.error(ParserTypeError, "a tuple is immutable", target, hint="use a pl.struct with an array field")
        case TupleValue():
            raise ctx.error(ParserSyntaxError, "a named tuple is immutable", target)
        case StructArrayValue():
            raise ctx.error(ParserTypeError, "a slot of a struct array is written field by field", target)
        case _:
            raise ctx.error(ParserTypeError, f"{describe(owner)} has no items to write", target)


# --- jumps and sections ----------------------------------------------------------------------------------------------


def _jump(ctx: Context, stmt: ast.Break | ast.Continue) -> None:
    word = "break" if isinstance(stmt, ast.Break) else "continue"
    if not ctx.frame.loops:
        raise ctx.error(ParserSyntaxError, f"`{word}` stands outside a loop", stmt)
    edges.leave(ctx, stmt, is_break=isinstance(stmt, ast.Break))
    span = ctx.span(stmt)
    ctx.emit(Break(span=span) if isinstance(stmt, ast.Break) else Continue(span=span))


def _return(ctx: Context, stmt: ast.Return) -> None:
    frame = ctx.frame
    value = stmt.value
    bare = value is None or (isinstance(value, ast.Constant) and value.value is None)
    if frame.kind is FrameKind.VECTOR:
        raise ctx.error(ParserSyntaxError, "a vector function has no return", stmt)
    if frame.kind is FrameKind.KERNEL or (frame.kind is FrameKind.SIMT and len(ctx.frames) == ctx.simt_base):
        if not bare and ctx.reading.may_return and frame.kind is FrameKind.KERNEL:
            if stmt is not frame.source.tree.body[-1]:
                raise ctx.error(ParserSyntaxError, "a function returns its value in the last statement", stmt)
            assert value is not None
            ctx.evaluate(value)
        elif not bare:
            text = f"a {frame.kind.value} returns nothing"
            raise ctx.error(ParserSyntaxError, text, stmt, hint="store results in a tensor")
        if frame.kind is FrameKind.KERNEL:
            ctx.emit(Return(span=ctx.span(stmt)))
            return
    given: Value | None = None if bare or value is None else ctx.evaluate(value)
    site = ReturnSite(ctx.block, given, ctx.span(stmt), bool(frame.loops))
    frame.returns.append(site)
    if frame.done is not None:
        ctx.emit(Assign(frame.done, build.number(True), span=ctx.span(stmt)))
    if frame.loops:
        frame.loops[-1].is_left = True
        ctx.emit(Break(span=ctx.span(stmt)))


def run_section(ctx: Context, stmt: ast.With, rest: list[ast.stmt]) -> bool | None:
    """`with pl.section_...():` read for its own core kind only. None: the caller goes on with the rest."""
    frame = ctx.frame
    if len(stmt.items) != 1:
        raise ctx.error(ParserSyntaxError, "a `with` opens one section", stmt)
    kind = scan.section_of(stmt)
    call = stmt.items[0].context_expr
    if kind is None or frame.kind is FrameKind.VECTOR or ctx.in_simt:
        raise ctx.error(
            UnsupportedFeatureError, f"`with {ast.unparse(call)}` is not available", stmt,
            hint="the sections are pl.section_cube() and pl.section_vector()",
        )  # fmt: skip
    assert isinstance(call, ast.Call)
    if call.args or call.keywords or stmt.items[0].optional_vars is not None:
        raise ctx.error(UnsupportedFeatureError, "a section takes no arguments and binds no name", stmt)
    if ctx.section not in (None, kind):
        raise ctx.error(ParserSyntaxError, f"a {kind.value} section inside {ctx.section} code never runs", stmt)
    ctx.reached.add(kind)
    if kind is not ctx.core:
        return None
    outer, ctx.section = ctx.section, kind
    try:
        if frame.kind is not FrameKind.KERNEL and scan.has_return(stmt.body, ctx.core):
            return ctx.execute([*stmt.body, *rest])
        return None if ctx.execute(stmt.body) else False
    finally:
        ctx.section = outer


def done_flag(ctx: Context, node: ast.AST) -> None:
    """Make sure the expansion has its "has returned" variable, false at this point."""
    if ctx.frame.done is None:
        ctx.frame.done = ctx.fresh(f"{ctx.frame.name}_done", BOOL)
        ctx.emit(Assign(ctx.frame.done, build.number(False), span=ctx.span(node)))
