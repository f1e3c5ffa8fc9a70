"""Binding the syntax of a call to formal parameters, and reading arguments that must be known at compile time."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from pypto_pro.diag.errors import FinalRejectionError, ParserError, ParserSyntaxError, ParserTypeError
from pypto_pro.diag.names import did_you_mean
from pypto_pro.dtypes import DataType
from pypto_pro.frontend import hints
from pypto_pro.frontend.context import Context
from pypto_pro.frontend.values import NONE, Static, TupleValue, Value, const_int, describe
from pypto_pro.ir.nodes import Const

M = TypeVar("M", bound=Enum)


@dataclass(frozen=True, slots=True)
class Formal:
    """One parameter of something called: name, whether a call must give it, whether only by keyword or by position."""

    name: str
    required: bool = True
    keyword_only: bool = False
    positional_only: bool = False


def formals(text: str) -> tuple[Formal, ...]:
    """Parameters written as in Python: `"a, b=, *, c, d="` (`=` marks what may be left out)."""
    found, keyword_only = [], False
    for part in (p.strip() for p in text.split(",") if p.strip()):
        if part == "*":
            keyword_only = True
        else:
            found.append(Formal(part.rstrip("="), not part.endswith("="), keyword_only))
    return tuple(found)


def bind(
    ctx: Context, call: ast.Call, name: str, params: Sequence[Formal],
    wrong_count: type[ParserError] = ParserSyntaxError,
) -> dict[str, ast.expr]:  # fmt: skip
    """The argument syntax by parameter name. When the call does not fit: ParserSyntaxError, wrapping a TypeError;
    `wrong_count` for too many or missing arguments.
    """
    positional = [p for p in params if not p.keyword_only]
    for arg in call.args:
        if isinstance(arg, ast.Starred):
            raise ctx.error(ParserSyntaxError, f"`{name}` takes no starred arguments", arg)
    if len(call.args) > len(positional):
        were = "was" if len(call.args) == 1 else "were"
        text = f"{name}() takes {len(positional)} positional arguments but {len(call.args)} {were} given"
        raise mismatch(ctx, text, call, signature(name, params), wrong_count)
    bound = {p.name: arg for p, arg in zip(positional, call.args, strict=False)}
    by_name = {p.name: p for p in params}
    for keyword in call.keywords:
        if keyword.arg is None:
            raise ctx.error(ParserSyntaxError, f"`{name}` takes no `**` arguments", keyword.value)
        if keyword.arg not in by_name or by_name[keyword.arg].positional_only:
            text = f"{name}() got an unexpected keyword argument '{keyword.arg}'"
            hint = f"`{keyword.arg}` is given by position, without its name"
            if keyword.arg not in by_name:
                hint = did_you_mean(keyword.arg, by_name) or signature(name, params)
            raise mismatch(ctx, text, keyword, hint)
        if keyword.arg in bound:
            raise mismatch(ctx, f"{name}() got multiple values for argument '{keyword.arg}'", keyword)
        bound[keyword.arg] = keyword.value
    missing = [f"'{p.name}'" for p in params if p.required and p.name not in bound]
    if missing:
        raise mismatch(ctx, f"{name}() misses {', '.join(missing)}", call, signature(name, params), wrong_count)
    return bound


def signature(name: str, params: Sequence[Formal]) -> str:
    """How a call is written: `pl.cast(out, src, *, mode=...)`."""
    parts, star = [], False
    for p in params:
        if p.keyword_only and not star:
            parts.append("*")
            star = True
        parts.append(p.name if p.required and not p.keyword_only else f"{p.name}=...")
    return f"written as `{name}({', '.join(parts)})`"


def mismatch(
    ctx: Context, text: str, node: ast.AST, hint: str | None = None, kind: type[ParserError] = ParserSyntaxError
) -> ParserError:
    """A call that does not fit its signature, caused by a TypeError as Python would raise it."""
    error = ctx.error(kind, f"{text} (in kernel `{ctx.kernel_name}`)", node, hint=hint)
    error.__cause__ = TypeError(text)
    return error


# --- compile-time arguments ------------------------------------------------------------------------------------------


def python_value(value: Value) -> Any:
    """The Python object behind a compile-time value, lists as tuples; NotImplemented for run-time values."""
    match value:
        case Const(number):
            return number
        case Static(inner):
            return inner
        case TupleValue(items):
            parts = tuple(python_value(item) for item in items)
            return NotImplemented if any(part is NotImplemented for part in parts) else parts
    return NotImplemented


def constant_int(ctx: Context, node: ast.expr, what: str) -> int:
    """A compile-time int (no bool, no float); FinalRejectionError naming `what` otherwise."""
    return as_constant_int(ctx, ctx.evaluate(node), node, what)


def as_constant_int(ctx: Context, value: Value, node: ast.AST, what: str) -> int:
    """The value as a compile-time int; FinalRejectionError naming `what` otherwise."""
    known = const_int(value)
    if known is None:
        raise ctx.error(FinalRejectionError, f"{what} is a compile-time int, found {describe(value)}", node)
    return known


def constant_ints(ctx: Context, node: ast.expr, what: str) -> tuple[int, ...]:
    """A list of compile-time ints; FinalRejectionError naming `what` otherwise."""
    value = ctx.evaluate(node)
    if not isinstance(value, TupleValue):
        raise ctx.error(FinalRejectionError, f"{what} is a list of compile-time ints, found {describe(value)}", node)
    return tuple(as_constant_int(ctx, item, node, f"an entry of {what}") for item in value.items)


def enum_member(ctx: Context, node: ast.expr, kind: type[M], what: str) -> M:
    """A member of one enum class; FinalRejectionError for numbers and members of other classes."""
    return as_enum_member(ctx, ctx.evaluate(node), node, kind, what)


def as_enum_member(ctx: Context, value: Value, node: ast.AST, kind: type[M], what: str) -> M:
    """The value as a member of an enum class; FinalRejectionError otherwise."""
    if isinstance(value, Static) and isinstance(value.value, kind):
        return value.value
    wanted = "a dtype (pl.DT_...)" if kind is DataType else f"a pl.{kind.__name__} member"
    hint, known = None, python_value(value)
    if isinstance(known, int) and not isinstance(known, bool) and kind is not DataType:
        hint = next((f"write `pl.{kind.__name__}.{m.name}`" for m in kind if m.value == known), None)
    elif kind is not DataType:
        hint = hints.of_enum(kind, known)
    raise ctx.error(FinalRejectionError, f"{what} is {wanted}, found {describe(value)}", node, hint=hint)


def constant_bool(ctx: Context, node: ast.expr | None, what: str) -> bool:
    """A compile-time bool, False when absent. ParserSyntaxError (from a TypeError) otherwise."""
    if node is None:
        return False
    value = python_value(ctx.evaluate(node))
    if not isinstance(value, bool):
        raise mismatch(ctx, f"{what} must be True or False", node)
    return value


def optional(ctx: Context, bound: Mapping[str, ast.expr], name: str) -> Value:
    """The value of an optional argument, NONE when absent."""
    return ctx.evaluate(bound[name]) if name in bound else NONE


def int_list(ctx: Context, value: Value, node: ast.AST, what: str) -> tuple[int, ...]:
    """A tuple value as ints; ParserTypeError otherwise."""
    if not isinstance(value, TupleValue):
        raise ctx.error(ParserTypeError, f"{what} is a list of ints, found {describe(value)}", node)
    return tuple(as_constant_int(ctx, item, node, f"an entry of {what}") for item in value.items)
