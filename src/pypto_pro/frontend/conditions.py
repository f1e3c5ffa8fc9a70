"""Comparisons, membership, `and`/`or`, and the ternary."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from pypto_pro.diag.errors import ParserSyntaxError, ParserTypeError, UnsupportedFeatureError
from pypto_pro.frontend import hints, merge, operators, order
from pypto_pro.frontend.context import Context, deferred
from pypto_pro.frontend.values import (
    NONE,
    Poison,
    Static,
    TupleValue,
    Value,
    describe,
    is_ptr,
    is_scalar,
    is_tile,
)
from pypto_pro.ir import build
from pypto_pro.ir.nodes import Binary, Const, Expr, If, IsNull, Stmt
from pypto_pro.ir.types import BOOL

COMPARE: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip
TRUE, FALSE = Const(True, BOOL), Const(False, BOOL)


def compare(ctx: Context, node: ast.Compare) -> Value:
    """`a < b`, `a is None`, `a in b`."""
    if len(node.ops) != 1:
        raise ctx.error(
            ParserSyntaxError, "comparisons do not chain", node, hint=f"write `{_unchained(node)}`"
        )
    op, right = node.ops[0], node.comparators[0]
    match op:
        case ast.Is() | ast.IsNot():
            return _is_none(ctx, node, right, isinstance(op, ast.IsNot))
        case ast.In() | ast.NotIn():
            found = _member(ctx, node, right)
            return build.logical_not(found) if isinstance(op, ast.NotIn) else found
    lhs, rhs = order.evaluate_all(ctx, [node.left, right])
    return relation(ctx, COMPARE[type(op)], lhs, rhs, node)


def _unchained(node: ast.Compare) -> str:
    operands = [node.left, *node.comparators]
    pairs = zip(operands, node.ops, operands[1:], strict=False)
    return " and ".join(ast.unparse(ast.Compare(a, [op], [b])) for a, op, b in pairs)


def relation(ctx: Context, op: str, lhs: Value, rhs: Value, node: ast.expr) -> Expr:
    """`lhs op rhs` of scalars, or `==`/`!=` of enum members and dtypes."""
    if isinstance(lhs, Static) and isinstance(rhs, Static) and lhs != NONE:
        if op not in ("==", "!="):
            raise ctx.error(UnsupportedFeatureError, f"`{op}` does not apply to {describe(lhs)}", node)
        return Const((lhs.value == rhs.value) == (op == "=="), BOOL)
    for side in (lhs, rhs):
        if not is_scalar(side):
            raise ctx.error(ParserTypeError, f"`{op}` compares scalars, found {describe(side)}", node,
                            hint=hints.of_operator(side))  # fmt: skip
    result = operators.apply(ctx, op, lhs, rhs, node)
    assert is_scalar(result)
    return result


def _is_none(ctx: Context, node: ast.Compare, right: ast.expr, negated: bool) -> Expr:
    if not isinstance(right, ast.Constant) or right.value is not None:
        raise ctx.error(ParserTypeError, "`is` compares with None only", node)
    if not isinstance(node.left, ast.Name):
        raise ctx.error(ParserSyntaxError, "`is None` takes the plain name of a pl.Ptr", node.left)
    value = ctx.evaluate(node.left)
    if value == NONE:
        return FALSE if negated else TRUE
    if not is_ptr(value):
        raise ctx.error(ParserTypeError, f"`is None` takes a pl.Ptr, found {describe(value)}", node.left)
    test = IsNull(value)
    return build.logical_not(test) if negated else test


# --- membership ------------------------------------------------------------------------------------------------------


def _member(ctx: Context, node: ast.Compare, container: ast.expr) -> Expr:
    if isinstance(container, ast.Call) and is_range(container):
        return _in_range(ctx, node, container)
    if isinstance(container, ast.List | ast.Tuple):
        value, *items = order.evaluate_all(ctx, [node.left, *container.elts])
    else:
        value, holder = order.evaluate_all(ctx, [node.left, container])
        if not isinstance(holder, TupleValue):
            raise ctx.error(
                ParserSyntaxError, f"`in` takes a list, a tuple or pl.range, found {describe(holder)}", container
            )
        items = list(holder.items)
    return either(relation(ctx, "==", value, item, node) if _comparable(value, item) else FALSE for item in items)


def _comparable(value: Value, item: Value) -> bool:
    return isinstance(value, Static) == isinstance(item, Static)


def either(tests: Any) -> Expr:
    """The disjunction of tests; constants fold."""
    result: Expr = FALSE
    for test in tests:
        if isinstance(test, Const):
            if test.value:
                return TRUE
            continue
        result = test if result == FALSE else Binary("or", result, test, BOOL)
    return result


def both(lhs: Expr, rhs: Expr) -> Expr:
    """The conjunction of two BOOL tests; constants fold."""
    if isinstance(lhs, Const):
        return rhs if lhs.value else FALSE
    if isinstance(rhs, Const):
        return lhs if rhs.value else FALSE
    return Binary("and", lhs, rhs, BOOL)


def is_range(call: ast.Call) -> bool:
    """Whether a call is `pl.range(...)`."""
    return isinstance(call.func, ast.Attribute) and call.func.attr == "range"


def range_arguments(ctx: Context, call: ast.Call) -> list[ast.expr]:
    """start, stop and step of `pl.range(...)` as syntax; missing ones are literals."""
    if call.keywords or not 1 <= len(call.args) <= 3 or any(isinstance(a, ast.Starred) for a in call.args):
        raise ctx.error(ParserSyntaxError, "pl.range takes one to three positional arguments", call)
    zero, one = (ast.copy_location(ast.Constant(n), call) for n in (0, 1))
    args = list(call.args)
    return [zero, args[0], one] if len(args) == 1 else [*args, one] if len(args) == 2 else args


def _in_range(ctx: Context, node: ast.Compare, call: ast.Call) -> Expr:
    nodes = range_arguments(ctx, call)
    value, start, stop, step = order.evaluate_all(ctx, [node.left, *nodes])
    bounds = both(relation(ctx, ">=", value, start, node), relation(ctx, "<", value, stop, node))
    if step == build.number(1):
        return bounds
    offset = operators.apply(ctx, "-", value, start, node)
    rest = operators.apply(ctx, "%", offset, step, node)
    return both(bounds, relation(ctx, "==", rest, build.number(0), node))


# --- and, or ---------------------------------------------------------------------------------------------------------


def boolean(ctx: Context, node: ast.BoolOp) -> Value:
    """`and`/`or`: constants decide at once and leave the rest unread; run-time operands are all evaluated."""
    op = "and" if isinstance(node.op, ast.And) else "or"
    decisive = op == "or"
    result: Expr | None = None
    for operand in node.values:
        before = len(ctx.block)
        test = operators.as_bool(ctx, ctx.evaluate(operand), operand)
        if result is not None and len(ctx.block) > before and order.is_volatile(result):
            fixed, _ = order.fix_at(ctx, result, before, node)
            assert is_scalar(fixed)
            result = fixed
        if isinstance(test, Const):
            if bool(test.value) is decisive:
                return test
            continue
        result = test if result is None else Binary(op, result, test, BOOL)
    return result if result is not None else Const(not decisive, BOOL)


# --- ternary ---------------------------------------------------------------------------------------------------------


def constexpr_test(ctx: Context, node: ast.expr) -> ast.expr | None:
    """The condition inside `pl.constexpr(cond)` when `node` is such a call."""
    if not isinstance(node, ast.Call):
        return None
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
    if name != "constexpr":
        return None
    if len(node.args) != 1 or node.keywords or isinstance(node.args[0], ast.Starred):
        raise ctx.error(ParserSyntaxError, "pl.constexpr takes exactly one condition", node)
    return node.args[0]


def condition(ctx: Context, node: ast.expr) -> bool | Expr:
    """The test of an `if` or a ternary: a Python bool when it is known, else a BOOL expression."""
    inner = constexpr_test(ctx, node)
    value = ctx.evaluate(inner if inner is not None else node)
    if isinstance(value, Const) and not isinstance(value.value, float):
        return bool(value.value)
    if inner is not None:
        raise ctx.error(ParserSyntaxError, "pl.constexpr needs a condition that is known at compile time", node)
    return operators.as_bool(ctx, value, node)


def ternary(ctx: Context, node: ast.IfExp) -> Value:
    """`a if c else b`: only the chosen side is evaluated."""
    test = condition(ctx, node.test)
    if isinstance(test, bool):
        return ctx.evaluate(node.body if test else node.orelse)
    sides: list[merge.Path] = []
    for side in (node.body, node.orelse):
        block: list[Stmt] = []
        with ctx.into(block):
            sides.append(merge.Path(block, ctx.evaluate(side)))
    then, other = sides
    _check_sides(ctx, then.value, other.value, node)
    if not then.block and not other.block and _is_pure(then.value) and _is_pure(other.value):
        return _choose(test, then.value, other.value)
    merged = merge.merge(ctx, "_t", sides, node, var=False)
    if isinstance(merged, Poison):
        raise ctx.error(merged.error, merged.message, node)
    ctx.emit(If(test, deferred(then.block), deferred(other.block), span=ctx.span(node)))
    return merged


def _is_pure(value: Value) -> bool:
    return (is_scalar(value) or is_ptr(value)) and not build.divides(value)


def _choose(test: Expr, then: Value, other: Value) -> Expr:
    assert is_scalar(then) or is_ptr(then)
    assert is_scalar(other) or is_ptr(other)
    type_ = merge.scalar_dtype([then, other]) if is_scalar(then) else None
    if type_ is not None:
        return build.choose(test, build.convert(then, type_), build.convert(other, type_))
    return build.choose(test, then, other)


def _check_sides(ctx: Context, then: Value, other: Value, node: ast.IfExp) -> None:
    both_: Callable[[Callable[[Value], Any]], bool] = lambda test: bool(test(then) and test(other))  # noqa: E731
    if both_(is_scalar):
        agree = merge.scalar_dtype([then, other]) is not None
    elif both_(is_tile) or both_(is_ptr):
        agree = then.type == other.type  # type: ignore[union-attr]
    elif isinstance(then, Static) or isinstance(other, Static):
        agree = then == other
    else:
        agree = type(then) is type(other)
    if not agree:
        raise ctx.error(
            ParserTypeError,
            f"both sides of a ternary have one type; found {describe(then)} and {describe(other)}",
            node,
            hint="write the integer side as a float: `n * 1.0`, `2.0`" if both_(is_scalar) else None,
        )
