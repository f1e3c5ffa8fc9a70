"""`printf`, `pto_assert`, `trap`, `dump_data`: checked here, kept as `Debug` statements.

Arguments and attributes of the statements:
- printf: args = values; attrs format, loc (bool: prefix the place)
- pto_assert: args = (condition, *values); attrs source (text of the condition), format (None without one), loc
- trap: nothing
- dump_data: args = (data, *offsets, *shapes, workspace if there is one); attrs window (entries of offsets and of
  shapes, 0 for a full dump), workspace (bool), loc, flag
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pypto_pro.diag.errors import ParserSyntaxError
from pypto_pro.dtypes import DataType
from pypto_pro.enums import CoreKind, MemorySpace
from pypto_pro.frontend import arguments, opcalls, operands, operators, order
from pypto_pro.frontend.context import Context
from pypto_pro.frontend.handlers import handles
from pypto_pro.frontend.values import (
    NONE,
    Static,
    TupleValue,
    Value,
    const_int,
    describe,
    is_ptr,
    is_scalar,
    is_tensor,
    is_tile,
)
from pypto_pro.ir import build
from pypto_pro.ir.nodes import Const, Debug, Expr
from pypto_pro.ir.types import BOOL, INDEX, ScalarType, TensorType, TileType

_SPEC = re.compile(r"%([-+ #0]*)(\d*)(\.\d+)?([a-zA-Z%])?")
_DUMP = arguments.formals("data, offsets=, shapes=, *, workspace=, loc=, flag=")
_INT64 = ScalarType(DataType.DT_INT64)
MOST_DIGITS = 1024
"""Width and precision of a conversion; no line is longer."""


def conversions(text: str) -> list[str]:
    """The conversion letters of a format string. ValueError for what the device format does not have."""
    found = []
    at = 0
    while (at := text.find("%", at)) >= 0:
        match = _SPEC.match(text, at)
        assert match is not None
        letter = match[4]
        if letter is None or letter not in "diuxfp":
            shown = text[at : match.end()]
            raise ValueError(f"`{shown}` is no conversion of the device format; there are d i u x f p")
        if any(int(number.lstrip(".") or 0) > MOST_DIGITS for number in (match[2], match[3] or "")):
            raise ValueError(f"`{match[0]}` asks for more than {MOST_DIGITS} characters")
        found.append(letter)
        at = match.end()
    return found


def _fits(letter: str, value: Expr) -> bool:
    if letter == "p":
        return is_ptr(value)
    if not is_scalar(value):
        return False
    dtype = build.kind_of(value)
    is_index = dtype is DataType.DT_INDEX
    match letter:
        case "d" | "i":
            return dtype.is_signed_int() or dtype is DataType.DT_BOOL
        case "u":
            return dtype.is_unsigned_int() or dtype is DataType.DT_BOOL or is_index
        case "x":
            return dtype.is_unsigned_int() or is_index
    return dtype is DataType.DT_FP32


def _values(ctx: Context, nodes: Sequence[ast.expr], values: Sequence[Value]) -> list[Expr]:
    """Arguments of a message: scalars and pointers; ints written out count as INT64."""
    found: list[Expr] = []
    for node, value in zip(nodes, values, strict=True):
        if isinstance(value, Const) and value.type == INDEX and isinstance(node, ast.Constant | ast.UnaryOp):
            value = Const(value.value, _INT64)
        if not is_scalar(value) and not is_ptr(value):
            raise TypeError(f"a message takes scalars and pointers, found {describe(value)}")
        found.append(value)
    return found


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _check_message(text: str, values: Sequence[Expr]) -> None:
    letters = conversions(text)
    if len(letters) != len(values):
        found = _counted(len(values), "argument")
        raise ValueError(f"the format has {_counted(len(letters), 'conversion')}, found {found}")
    for letter, value in zip(letters, values, strict=True):
        if not _fits(letter, value):
            raise TypeError(f"%{letter} does not take {describe(value)}")


def _options(ctx: Context, node: ast.Call, owner: str) -> bool:
    """The `loc` keyword of printf and pto_assert."""
    loc = False
    for keyword in node.keywords:
        if keyword.arg != "loc":
            text = f"{owner}() got an unexpected keyword argument '{keyword.arg}'"
            raise arguments.mismatch(ctx, text, keyword)
        loc = arguments.constant_bool(ctx, keyword.value, "`loc`")
    if any(isinstance(arg, ast.Starred) for arg in node.args):
        raise ctx.error(ParserSyntaxError, f"`{owner}` takes no starred arguments", node)
    return loc


def _text(value: Value) -> str:
    if isinstance(value, Static) and isinstance(value.value, str):
        return value.value
    raise TypeError(f"the format is a text known at compile time, found {describe(value)}")


@handles("printf")
def printf(ctx: Context, node: ast.Call, hint: str | None) -> None:
    """`pl.printf(format, *args, loc=False)`."""
    opcalls.check_scope(ctx, "pl.printf", node)
    loc = _options(ctx, node, "pl.printf")
    if not node.args:
        raise arguments.mismatch(ctx, "pl.printf() needs a format", node)
    first, *rest = order.evaluate_all(ctx, node.args)
    text = _text(first)
    values = _values(ctx, node.args[1:], rest)
    _check_message(text, values)
    ctx.emit(Debug("printf", tuple(values), (("format", text), ("loc", loc)), span=ctx.span(node)))


@handles("pto_assert")
def pto_assert(ctx: Context, node: ast.Call, hint: str | None) -> None:
    """`pl.pto_assert(cond, format=None, *args, loc=False)`: prints when the condition is false."""
    opcalls.check_scope(ctx, "pl.pto_assert", node)
    nodes, keywords = list(node.args), list(node.keywords)
    for keyword in list(keywords):
        if keyword.arg == "format_str" and len(nodes) == 1:
            nodes.append(keyword.value)
            keywords.remove(keyword)
    loc = _options(ctx, ast.copy_location(ast.Call(node.func, nodes, keywords), node), "pl.pto_assert")
    if not nodes:
        raise arguments.mismatch(ctx, "pl.pto_assert() needs a condition", node)
    cond, *rest = order.evaluate_all(ctx, nodes)
    if not is_scalar(cond) or cond.type != BOOL:
        raise TypeError(f"the condition of pto_assert is BOOL, found {describe(cond)}")
    text: str | None = None
    values: list[Expr] = []
    if rest and rest[0] != NONE:
        text = _text(rest[0])
        values = _values(ctx, nodes[2:], rest[1:])
        _check_message(text, values)
    attrs = (("source", ast.unparse(nodes[0])), ("format", text), ("loc", loc))
    ctx.emit(Debug("pto_assert", (cond, *values), attrs, span=ctx.span(node)))


@handles("trap")
def trap(ctx: Context, node: ast.Call, hint: str | None) -> None:
    """`pl.trap()`: the core stops here."""
    opcalls.check_scope(ctx, "pl.trap", node)
    if node.args or node.keywords:
        raise arguments.mismatch(ctx, "pl.trap() takes no arguments", node)
    ctx.emit(Debug("trap", (), (), span=ctx.span(node)))


# --- dump_data -------------------------------------------------------------------------------------------------------


@handles("dump_data")
def dump_data(ctx: Context, node: ast.Call, hint: str | None) -> None:
    """`pl.dump_data(data, offsets=None, shapes=None, *, workspace=None, loc=False, flag=None)`."""
    opcalls.check_scope(ctx, "pl.dump_data", node)
    bound = arguments.bind(ctx, node, "pl.dump_data", _DUMP)
    present: list[str] = [name for name in ("data", "offsets", "shapes", "workspace") if name in bound]
    values = dict(zip(present, order.evaluate_all(ctx, [bound[name] for name in present]), strict=True))
    data, workspace = values["data"], values.get("workspace", NONE)
    loc = arguments.constant_bool(ctx, bound.get("loc"), "`loc`")
    flag = _flag(ctx, bound)
    if not is_tensor(data) and not is_tile(data):
        raise TypeError(f"dump_data takes a tensor or a tile, found {describe(data)}")
    window = _window(ctx, data, values, node)
    extra: tuple[Expr, ...] = ()
    if is_tensor(data):
        if workspace != NONE:
            raise ValueError("a tensor is dumped without a workspace")
        _check_unit_stride(ctx, data, bool(window))
    else:
        extra = _workspace(ctx, data, workspace, node)
    attrs = (("window", len(window) // 2), ("workspace", bool(extra)), ("loc", loc), ("flag", flag))
    ctx.emit(Debug("dump_data", (data, *window, *extra), attrs, span=ctx.span(node)))


def _flag(ctx: Context, bound: Mapping[str, ast.expr]) -> str | None:
    value = arguments.optional(ctx, bound, "flag")
    if value == NONE:
        return None
    if isinstance(value, Static) and isinstance(value.value, str):
        return value.value
    raise TypeError(f"`flag` is a text, found {describe(value)}")


def _window(ctx: Context, data: Expr, values: Mapping[str, Value], node: ast.AST) -> tuple[Expr, ...]:
    """Offsets then shapes of a window, empty for a full dump."""
    offsets, shapes = values.get("offsets", NONE), values.get("shapes", NONE)
    if (offsets == NONE) != (shapes == NONE):
        raise ValueError("`offsets` and `shapes` are given together or not at all")
    if offsets == NONE:
        return ()
    type_: Any = data.type
    rank = len(type_.shape) if isinstance(type_, TileType) else type_.rank
    found: list[Expr] = []
    for name, value in (("offsets", offsets), ("shapes", shapes)):
        items = value.items if isinstance(value, TupleValue) else ()
        if not isinstance(value, TupleValue) or len(items) != rank:
            raise ValueError(f"`{name}` has one entry per axis, {rank} here")
        for item in items:
            number = build.convert(operators.integer(ctx, item, node, f"an entry of `{name}`"), INDEX)
            known = const_int(number)
            if name == "shapes" and known is not None and known <= 0:
                raise ValueError(f"an entry of `shapes` is positive, found {known}")
            found.append(number)
    return tuple(found)


def _check_unit_stride(ctx: Context, tensor: Expr, has_window: bool) -> None:
    strides = operands.tensor_strides(ctx, tensor)
    type_ = tensor.type
    assert isinstance(type_, TensorType)
    if not has_window or not strides:
        return
    if strides[-1] is None:
        raise NotImplementedError("a window needs the innermost stride to be the constant 1")
    if strides[-1] != 1:
        raise ValueError(f"a window needs an innermost stride of 1, found {strides[-1]}")


def _workspace(ctx: Context, tile: Expr, workspace: Value, node: ast.AST) -> tuple[Expr, ...]:
    """The GM workspace of an Acc tile; empty for Vec tiles."""
    type_ = tile.type
    assert isinstance(type_, TileType)
    owner = {MemorySpace.Vec: CoreKind.VECTOR, MemorySpace.Acc: CoreKind.CUBE}.get(type_.space)
    if owner is not ctx.core:
        where = "cannot be dumped" if owner is None else f"is dumped in {owner.value} code"
        raise ctx.error(ParserSyntaxError, f"a tile in {type_.space.name} {where}", node)
    if type_.space is MemorySpace.Vec:
        if workspace != NONE:
            raise ValueError("a Vec tile is dumped without a workspace")
        return ()
    if not is_tensor(workspace):
        raise TypeError(f"an Acc tile needs a GM tensor as workspace, found {describe(workspace)}")
    target = workspace.type
    assert isinstance(target, TensorType)
    if target.dtype is not type_.dtype:
        raise TypeError(f"the workspace is {target.dtype.to_string()}, the tile {type_.dtype.to_string()}")
    return (workspace,)
