"""Arithmetic: binary and unary operators on scalars, `ptr + n`, and `tile + n` inside vector functions."""

from __future__ import annotations

import ast

from pypto_pro.diag.errors import ParserSyntaxError, ParserTypeError, UnsupportedFeatureError
from pypto_pro.frontend import hints, order
from pypto_pro.frontend.context import Context
from pypto_pro.frontend.values import Value, describe, is_ptr, is_scalar, is_tile
from pypto_pro.ir import build
from pypto_pro.ir.nodes import Const, Expr, PtrPlus, TilePlus
from pypto_pro.ir.types import INDEX, PtrType, ScalarType, TileType

BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.BitAnd: "&",
    ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>", ast.Pow: "**", ast.MatMult: "@",
}  # fmt: skip
NO_FORM = ("**", "@")


def binary(ctx: Context, node: ast.BinOp) -> Value:
    """`left op right`. Long chains `a + b + c ...` are read without recursion."""
    chain: list[ast.BinOp] = [node]
    while isinstance(chain[-1].left, ast.BinOp) and _has_form(chain[-1].left):
        chain.append(chain[-1].left)
    if len(chain) < 3:
        left, right = order.evaluate_all(ctx, [node.left, node.right])
        return apply(ctx, BINARY[type(node.op)], left, right, node)
    operands = order.evaluate_all(ctx, [chain[-1].left, *(link.right for link in reversed(chain))])
    value = operands[0]
    for link, operand in zip(reversed(chain), operands[1:], strict=True):
        value = apply(ctx, BINARY[type(link.op)], value, operand, link)
    return value


def _has_form(node: ast.BinOp) -> bool:
    return BINARY[type(node.op)] not in NO_FORM


def apply(ctx: Context, op: str, left: Value, right: Value, node: ast.expr) -> Value:
    """`left op right` on values."""
    if op in NO_FORM:
        hint = "write `x * x`" if op == "**" else "pl.matmul multiplies tiles"
        raise ctx.error(UnsupportedFeatureError, f"`{op}` has no device form; only constants fold", node, hint=hint)
    if is_ptr(left):
        return _pointer(ctx, op, left, right, node)
    if is_tile(left):
        return _tile(ctx, op, left, right, node)
    if not is_scalar(left) or not is_scalar(right):
        wrong = right if is_scalar(left) else left
        raise ctx.error(ParserTypeError, f"`{op}` takes scalars, found {describe(wrong)}", node,
                        hint=hints.of_operator(wrong))  # fmt: skip
    try:
        return build.binary(op, left, right)
    except OverflowError as error:
        raise ctx.error(ParserTypeError, str(error), node) from None
    except ValueError as error:
        raise ctx.wrap(error, node) from error
    except TypeError as error:
        raise ctx.error(ParserTypeError, str(error), node) from None


def _pointer(ctx: Context, op: str, left: Expr, right: Value, node: ast.expr) -> Value:
    if op != "+":
        raise ctx.error(UnsupportedFeatureError, f"`{op}` is not available for pointers, only `ptr + n`", node)
    return pointer_plus(ctx, left, right, node)


def pointer_plus(ctx: Context, ptr: Expr, offset: Value, node: ast.expr) -> Expr:
    """`ptr + offset`, counted in elements."""
    type_ = ptr.type
    assert isinstance(type_, PtrType)
    number = integer(ctx, offset, node, "a pointer offset")
    if type_.dtype.is_sub_byte:
        dtype = type_.dtype.to_string()
        raise ctx.error(ParserTypeError, f"a pointer to {dtype} has no arithmetic: elements share bytes", node)
    return PtrPlus(ptr, build.convert(number, INDEX), type_)


def _tile(ctx: Context, op: str, left: Expr, right: Value, node: ast.expr) -> Value:
    if op != "+" or not ctx.in_vector_function:
        raise ctx.error(
            ParserSyntaxError,
            f"`{op}` does not apply to tiles" if op != "+" else "`tile + n` stands in vector functions only",
            node,
            hint=None if op != "+" else "use pl.add for arithmetic, a slice `t[r0:r1, c0:c1]` for a part of a tile",
        )
    type_ = left.type
    assert isinstance(type_, TileType)
    return TilePlus(left, build.convert(integer(ctx, right, node, "a tile offset"), INDEX), type_)


def integer(ctx: Context, value: Value, node: ast.AST, what: str) -> Expr:
    """The value as an integer scalar; ParserTypeError naming `what` otherwise."""
    if not is_scalar(value) or build.kind_of(value).is_float():
        hint = "`a // b` divides integers" if is_scalar(value) and not isinstance(value, Const) else None
        raise ctx.error(ParserTypeError, f"{what} is an integer, found {describe(value)}", node, hint=hint)
    return value


def unary(ctx: Context, node: ast.UnaryOp) -> Value:
    """`-x`, `~x`, `not x` of scalars; `+x` of anything is x."""
    operand = ctx.evaluate(node.operand)
    if isinstance(node.op, ast.UAdd):
        return operand
    sign = {ast.USub: "-", ast.Invert: "~", ast.Not: "not"}[type(node.op)]
    if not is_scalar(operand):
        raise ctx.error(ParserTypeError, f"`{sign}` takes a scalar, found {describe(operand)}", node)
    actions = {"-": build.negate, "~": build.invert, "not": build.logical_not}
    try:
        return actions[sign](operand)
    except (TypeError, OverflowError) as error:
        raise ctx.error(ParserTypeError, str(error), node) from None


def as_bool(ctx: Context, value: Value, node: ast.AST) -> Expr:
    """The zero test of a condition."""
    if not is_scalar(value):
        raise ctx.error(ParserTypeError, f"a condition is a scalar, found {describe(value)}", node)
    return build.truth(value)


def scalar_type(value: Value) -> ScalarType:
    """The type of a scalar value."""
    type_ = value.type if is_scalar(value) else None
    assert isinstance(type_, ScalarType)
    return type_
