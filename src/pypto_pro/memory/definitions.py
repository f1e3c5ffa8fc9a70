"""The source text of a tile's definition: its comment, the address argument, and whether it is a literal to edit."""

from __future__ import annotations

import ast
import io
import linecache
import re
import tokenize
from dataclasses import dataclass
from functools import lru_cache

from pypto_pro.diag import Span

MARKER = re.compile(r"pypto:\s*view of\s+`?(\w+)`?")
ARROW = re.compile(r"<-")
"""Comments that point at a line say nothing about a tile."""


@dataclass(frozen=True)
class Definition:
    """What a definition line says. `address` is the span of a literal address argument."""

    comment: str = ""
    view_of: str | None = None
    address: Span | None = None
    is_base: bool = True
    """The addresses were given by one number (also when the source cannot be read)."""


@lru_cache(maxsize=4096)
def definition_at(span: Span) -> Definition:
    """The definition at a span; empty when the file cannot be read or parsed."""
    text = "".join(linecache.getlines(span.file))
    call = _call_at(text, span) if text else None
    if call is None:
        return Definition()
    comment = _comments(text).get(call.end_lineno or call.lineno, "") or _comments(text).get(span.line, "")
    marked = MARKER.search(comment)
    words = "" if marked or ARROW.search(comment) else comment
    value = next((k.value for k in call.keywords if k.arg in ("addr", "addrs")), None)
    literal = value is not None and span.inlined_at is None and _is_literal(value)
    address = _span(span.file, text, value) if literal and value is not None else None
    return Definition(words, marked.group(1) if marked else None, address, not _is_sequence(value))


@lru_cache(maxsize=64)
def _tree(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return None


def _call_at(text: str, span: Span) -> ast.Call | None:
    """The make_tile or make_tile_group call that starts at or stands inside the span."""
    tree = _tree(text)
    if tree is None:
        return None
    last = span.end_line or span.line
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and span.line <= node.lineno <= last and _is_maker(node.func):
            return node
    return None


def _is_maker(function: ast.expr) -> bool:
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in ("make_tile", "make_tile_group")


@lru_cache(maxsize=64)
def _comments(text: str) -> dict[int, str]:
    """Comment of every line that has one."""
    found = {}
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                found[token.start[0]] = token.string.lstrip("#").strip()
    except (tokenize.TokenError, IndentationError):
        return found
    return found


def _is_literal(value: ast.expr) -> bool:
    """An integer, or a list or tuple of integers: text that an edit may replace."""
    if isinstance(value, ast.List | ast.Tuple):
        return bool(value.elts) and all(_is_literal(e) for e in value.elts)
    return isinstance(value, ast.Constant) and type(value.value) is int


def _is_sequence(value: ast.expr | None) -> bool:
    return isinstance(value, ast.List | ast.Tuple | ast.ListComp)


def _span(file: str, text: str, value: ast.expr) -> Span:
    """Columns in characters: `ast` counts bytes."""
    lines = text.splitlines()

    def column(line: int, byte: int) -> int:
        return len(lines[line - 1].encode()[:byte].decode(errors="ignore"))

    first, last = value.lineno, value.end_lineno or value.lineno
    return Span(file, first, column(first, value.col_offset), last, column(last, value.end_col_offset or 0))
