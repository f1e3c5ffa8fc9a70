"""Where the tiles that a rule complains about were declared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pypto_pro.diag import Span
from pypto_pro.diag.errors import ParserSyntaxError
from pypto_pro.frontend.context import Context
from pypto_pro.ir.nodes import Expr, Local, Slot


def with_declarations(
    ctx: Context, raised: ParserSyntaxError, rule: Exception, args: Mapping[str, Any], infos: Mapping[str, Any]
) -> ParserSyntaxError:
    """The error with a label at the declaration of every tile named in `rule.tiles`, if the rule has that."""
    wanted = getattr(rule, "tiles", ())
    labels = []
    for name, arg in args.items():
        shown = getattr(infos.get(name), "name", "")
        span = declaration(ctx, arg) if shown and shown in wanted else None
        if span is not None:
            labels.append(span.labelled(f"`{shown}` is placed here"))
    if labels:
        raised.diagnostic = replace(raised.diagnostic, spans=(*raised.diagnostic.spans, *labels))
    return raised


def declaration(ctx: Context, tile: Expr | None) -> Span | None:
    """The declaration behind a tile expression, None when control flow chooses it."""
    match tile:
        case Local(var) if var in ctx.tiles:
            return _span(ctx.tiles[var])
        case Local(var) if var in ctx.refs:
            return declaration(ctx, ctx.refs[var])
        case Slot(group) if group in ctx.groups:
            return _span(ctx.groups[group])
    return None


def _span(decl: Any) -> Span:
    span = decl.span
    assert isinstance(span, Span)
    return span
