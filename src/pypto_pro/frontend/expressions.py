"""Expressions: dispatch over the syntax, names, displays, and the second try as constant Python."""

from __future__ import annotations

import ast

from pypto_pro.diag.errors import (
    FinalRejectionError,
    LoweringError,
    ParserSyntaxError,
    ParserTypeError,
    PipelineError,
    UndefinedVariableError,
    UnsupportedFeatureError,
)
from pypto_pro.diag.names import did_you_mean
from pypto_pro.frontend import access, calls, closure, conditions, operators, order, outside, pyeval
from pypto_pro.frontend.context import MAX_DEPTH, Context
from pypto_pro.frontend.values import Poison, Static, TupleValue, Value
from pypto_pro.ir import build
from pypto_pro.ops.table import lookup

RETRIED = (ParserTypeError, UndefinedVariableError, UnsupportedFeatureError)
FINAL = (FinalRejectionError, LoweringError, PipelineError)
FOREIGN = (TypeError, ValueError, ArithmeticError, LookupError, NotImplementedError, AttributeError)


def evaluate(ctx: Context, node: ast.expr, hint: str | None = None) -> Value:
    """The value of an expression; what has no IR form is tried again as constant Python."""
    if ctx.depth >= MAX_DEPTH:
        raise ctx.error(ParserSyntaxError, f"the expression is nested deeper than {MAX_DEPTH} levels", node)
    ctx.depth += 1
    block, length = ctx.block, len(ctx.block)
    try:
        return _build(ctx, node, hint)
    except FINAL:
        raise
    except RETRIED as error:
        ctx.block = block
        del block[length:]
        return _as_python(ctx, node, error)
    except FOREIGN as error:
        raise ctx.wrap(error, node) from error
    finally:
        ctx.depth -= 1


def discard(ctx: Context, node: ast.Call) -> None:
    """A call as a statement: it need not give a value."""
    block, length = ctx.block, len(ctx.block)
    try:
        calls.call(ctx, node, None)
    except FINAL:
        raise
    except RETRIED as error:
        ctx.block = block
        del block[length:]
        _as_python(ctx, node, error)
    except FOREIGN as error:
        raise ctx.wrap(error, node) from error


def _as_python(ctx: Context, node: ast.expr, error: Exception) -> Value:
    try:
        found = pyeval.evaluate(ctx, node)
    except pyeval.NotConstant:
        raise error from None
    return outside.value_of(ctx, found, node)


def _build(ctx: Context, node: ast.expr, hint: str | None) -> Value:
    match node:
        case ast.Constant():
            return _literal(ctx, node)
        case ast.Name(id=name):
            return read_name(ctx, name, node)
        case ast.Call():
            return _call(ctx, node, hint)
        case ast.Attribute():
            return access.attribute(ctx, node)
        case ast.Subscript():
            return access.subscript(ctx, node, hint)
        case ast.BinOp():
            return operators.binary(ctx, node)
        case ast.UnaryOp():
            return operators.unary(ctx, node)
        case ast.Compare():
            return conditions.compare(ctx, node)
        case ast.BoolOp():
            return conditions.boolean(ctx, node)
        case ast.IfExp():
            return conditions.ternary(ctx, node)
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return display(ctx, items)
    raise ctx.error(UnsupportedFeatureError, f"{_ENGLISH.get(type(node), 'this expression')} is not available", node,
                    hint=_INSTEAD.get(type(node)))  # fmt: skip


_ENGLISH: dict[type[ast.expr], str] = {
    ast.JoinedStr: "an f-string", ast.NamedExpr: "an assignment expression", ast.Starred: "a starred expression",
    ast.Dict: "a dict display", ast.Set: "a set display", ast.ListComp: "a comprehension of run-time values",
    ast.GeneratorExp: "a generator", ast.DictComp: "a comprehension", ast.SetComp: "a comprehension",
    ast.Lambda: "a lambda", ast.Await: "await", ast.Yield: "yield", ast.YieldFrom: "yield from",
    ast.Slice: "a slice here",
}  # fmt: skip


_INSTEAD: dict[type[ast.expr], str] = {
    ast.JoinedStr: 'pl.printf("n = %d\\n", n) prints formatted values from the device',
    ast.Dict: "pl.make_tuple(a=x) groups values, pl.struct groups scalars that change",
    ast.Lambda: "write a function of the module; it is expanded where it is called",
    ast.Slice: "pl.expands(t[r0:r1, c0:c1], value) fills a part of a tile",
    ast.NamedExpr: "assign in a statement of its own",
    ast.ListComp: "loop with `for i in pl.range(n)`, or build lists of constants outside the kernel",
}  # fmt: skip


def _call(ctx: Context, node: ast.Call, hint: str | None) -> Value:
    value = calls.call(ctx, node, hint)
    if value is None:
        raise ctx.error(ParserTypeError, f"`{ast.unparse(node.func)}` gives no value", node)
    return value


def _literal(ctx: Context, node: ast.Constant) -> Value:
    match node.value:
        case bool() | int() | float() as number:
            try:
                return build.number(number)
            except OverflowError as error:
                raise ctx.error(ParserTypeError, str(error), node) from None
        case None | str() as inner:
            return Static(inner)
    raise ctx.error(ParserTypeError, f"a {type(node.value).__name__} literal means nothing in a kernel", node)


def read_name(ctx: Context, name: str, node: ast.AST) -> Value:
    """The value of a name: a local of the function, else the closure."""
    frame = ctx.frame
    if name in frame.names:
        value = frame.names[name]
        if isinstance(value, Poison):
            labels = () if value.span is None else (value.span,)
            raise ctx.error(value.error, value.message, node, hint=value.hint, labels=labels)
        return value
    if frame.scope.has(name):
        return outside.value_of(ctx, frame.scope.find(name), node, f"`{name}`: ")
    if closure.is_builtin(name):
        raise ctx.error(UnsupportedFeatureError, f"`{name}` of Python is not a value of a kernel", node)
    raise undefined(ctx, name, node)


def undefined(ctx: Context, name: str, node: ast.AST) -> UndefinedVariableError:
    """The error for an unknown name, with the nearest known one."""
    known = [*ctx.frame.names, *ctx.frame.scope.names()]
    near = f"operations are called through the module: `pl.{name}`" if lookup(name) is not None else None
    return ctx.error(UndefinedVariableError, f"`{name}` is not defined", node, hint=near or did_you_mean(name, known))


def display(ctx: Context, items: list[ast.expr]) -> TupleValue:
    """A list or tuple display: the values as they are now."""
    for item in items:
        if isinstance(item, ast.Starred):
            raise ctx.error(UnsupportedFeatureError, "a starred item is not available", item)
    values = order.evaluate_all(ctx, items)
    return TupleValue(tuple(order.settled(ctx, value, item) for value, item in zip(values, items, strict=True)))
