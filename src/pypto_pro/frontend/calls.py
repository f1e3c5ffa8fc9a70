"""Calls: constructs and ops by dotted name, group accessors, helpers, the builtins min and max."""

from __future__ import annotations

import ast
from types import FunctionType
from typing import Any

from pypto_pro.diag.errors import (
    InvalidOperationError,
    ParserSyntaxError,
    ParserTypeError,
    UnsupportedFeatureError,
)
from pypto_pro.diag.names import nearest
from pypto_pro.frontend import access, closure, expressions, groups, handlers, hints, inline, opcalls, registers
from pypto_pro.frontend.context import Context, FrameKind
from pypto_pro.frontend.source import plain_function
from pypto_pro.frontend.values import GroupValue, Value, describe
from pypto_pro.ops.table import keys, lookup

REGISTERS = "vf"


def call(ctx: Context, node: ast.Call, hint: str | None) -> Value | None:
    """The value of a call, None when it gives none."""
    func = node.func
    if isinstance(func, ast.Name):
        return _bare(ctx, func.id, node, hint)
    if isinstance(func, ast.Attribute):
        path = _dotted(func)
        if path is not None and path[0] == REGISTERS and REGISTERS not in ctx.frame.names:
            return registers.call(ctx, ".".join(path), node, hint)
        key = None if path is None else _key(ctx, path, func)
        if key is not None:
            return by_key(ctx, key, node, hint)
        return _method(ctx, func, node)
    raise ctx.error(UnsupportedFeatureError, "only names and `module.name` can be called", node)


def _dotted(node: ast.expr) -> list[str] | None:
    """The parts of `a.b.c`, None for any other expression."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return [node.id, *reversed(parts)]


def _key(ctx: Context, path: list[str], node: ast.expr) -> str | None:
    """The op name behind `alias.name`: the alias dropped. None when the first part is a value of the kernel."""
    root, *rest = path
    if root in ctx.frame.names:
        return None
    if not ctx.frame.scope.has(root):
        raise expressions.undefined(ctx, root, node)
    owner: Any = ctx.frame.scope.find(root)
    while not closure.is_language(owner) and closure.is_module(owner) and len(rest) > 1 and hasattr(owner, rest[0]):
        owner, rest = getattr(owner, rest[0]), rest[1:]
    return ".".join(rest) if closure.is_language(owner) else None


def by_key(ctx: Context, key: str, node: ast.Call, hint: str | None) -> Value | None:
    """A construct or op of the language."""
    handler = handlers.handler_of(key)
    if handler is not None:
        return handler(ctx, node, hint)
    entry = lookup(key)
    if entry is not None and entry.kind == "op" and not key.startswith(f"{REGISTERS}."):
        return opcalls.call(ctx, entry, node, hint)
    if entry is not None:
        raise ctx.error(InvalidOperationError, f"`{ast.unparse(node.func)}` cannot be called here", node,
                        hint=f"register operations are written `{key}`" if key.startswith("vf.") else None)  # fmt: skip
    raise _unknown(ctx, key, node)


def _unknown(ctx: Context, key: str, node: ast.Call) -> ParserSyntaxError:
    known = [name for name in (*keys(), *handlers.handled()) if not name.startswith(f"{REGISTERS}.")]
    near = nearest(key, known)
    hint = hints.OPERATIONS.get(key) or (f"did you mean `pl.{near}`?" if near else None)
    error = ctx.error(ParserSyntaxError, f"unknown operation `pl.{key}`", node.func, hint=hint)
    error.__cause__ = AttributeError(f"pl has no operation {key!r}")
    return error


def _method(ctx: Context, func: ast.Attribute, node: ast.Call) -> Value:
    outside = access.outer_object(ctx, func.value)
    if outside is not None:  # a Python object: constant arguments may still make it a constant
        raise ctx.error(UnsupportedFeatureError, f"`{ast.unparse(func)}` is no operation of the language", node,
                        hint=hints.of_foreign(outside.value))  # fmt: skip
    owner = ctx.evaluate(func.value)
    if isinstance(owner, GroupValue):
        return groups.accessor(ctx, owner, func.attr, node)
    if func.attr in groups.ACCESSORS:
        raise ctx.error(
            ParserTypeError, f"`.{func.attr}()` belongs to tile groups, found {describe(owner)}", node,
            hint="a handle chosen at run time (field, branch, index) cannot be used; choose the tile instead",
        )  # fmt: skip
    raise ctx.error(UnsupportedFeatureError, f"{describe(owner)} has no method `{func.attr}`", node,
                    hint=hints.of_member(owner, func.attr))  # fmt: skip


# --- bare names ------------------------------------------------------------------------------------------------------


def _bare(ctx: Context, name: str, node: ast.Call, hint: str | None) -> Value | None:
    if name in ctx.frame.names:
        value = expressions.read_name(ctx, name, node.func)
        raise ctx.error(ParserTypeError, f"`{name}` is {describe(value)} and cannot be called", node)
    if ctx.frame.scope.has(name):
        target = ctx.frame.scope.find(name)
        fn = plain_function(target)
        if fn is not None:
            return _function(ctx, name, fn, node, hint)
        if getattr(target, "__module__", "").startswith(closure.LANGUAGE):
            raise _not_bare(ctx, name, node)
        if closure.is_kernel_object(target):
            raise ctx.error(ParserTypeError, f"`{name}` is a kernel and cannot be called from another one", node)
        raise ctx.error(UnsupportedFeatureError, f"`{name}` cannot be called in a kernel", node, hint=hints.HELPER)
    handler = handlers.handler_of(name) if name in ("min", "max", "constexpr") else None
    if handler is not None:
        return handler(ctx, node, hint)
    if closure.is_builtin(name):
        found = "works on constants only" if name in closure.BUILTINS else "is not available in a kernel"
        raise ctx.error(UnsupportedFeatureError, f"`{name}` of Python {found}", node, hint=hints.BUILTINS.get(name))
    raise expressions.undefined(ctx, name, node.func)


def _not_bare(ctx: Context, name: str, node: ast.Call) -> UnsupportedFeatureError:
    return ctx.error(
        UnsupportedFeatureError, f"`{name}` is called by its bare name", node,
        hint=f"import the module and write `pl.{name}(...)`",
    )  # fmt: skip


def _function(ctx: Context, name: str, fn: FunctionType, node: ast.Call, hint: str | None) -> Value | None:
    if closure.is_stub(fn):
        if name == "constexpr":
            handler = handlers.handler_of(name)
            assert handler is not None
            return handler(ctx, node, hint)
        raise _not_bare(ctx, name, node)
    if ctx.frame.kind is FrameKind.SIMT or ctx.in_simt:
        return inline.call_simt(ctx, fn, node)
    return inline.call(ctx, fn, node, hint)
