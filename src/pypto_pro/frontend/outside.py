"""Python objects from outside a kernel as values of it, and what to do about those that are none."""

from __future__ import annotations

import ast
from typing import Any

from pypto_pro.diag.errors import ParserTypeError
from pypto_pro.frontend import closure, hints
from pypto_pro.frontend.context import Context
from pypto_pro.frontend.values import Foreign, Static, TupleValue, Value
from pypto_pro.ir.types import TileType


def value_of(ctx: Context, found: Any, node: ast.AST, what: str = "") -> Value:
    """A Python object as a value. ParserTypeError for one that means nothing in a kernel, also inside tuples."""
    try:
        value = closure.from_python(found)
    except OverflowError as overflow:
        raise ctx.error(ParserTypeError, f"{what}{overflow}", node) from None
    if isinstance(found, TileType) and not ctx.reading.to_run:
        return Static(found)
    _check_usable(ctx, value, node)
    return value


def _check_usable(ctx: Context, value: Value, node: ast.AST) -> None:
    match value:
        case Foreign(inner):
            kind = type(inner).__name__
            text = f"Unsupported closure variable type: {kind}"
            raise ctx.error(ParserTypeError, text, node, hint=hints.of_object(inner))
        case TupleValue(items):
            for item in items:
                _check_usable(ctx, item, node)
