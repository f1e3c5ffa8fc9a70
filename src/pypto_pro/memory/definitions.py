"""The source text of a tile's definition: its comment, and the address argument an edit may replace."""

from __future__ import annotations

import ast
import io
import linecache
import re
import tokenize
from dataclasses import dataclass
from functools import lru_cache

from pypto_pro.diag import Span, characters

MARKER = re.compile(r"pypto:\s*view of\s+`?(\w+)`?")
ARROW = re.compile(r"<-")
"""Comments that point at a line say nothing about a tile."""


@dataclass(frozen=True)
class Definition:
    """What a definition line says. `address` is the span of the address argument, whose text an edit may replace."""

    comment: str = ""
    view_of: str | None = None
    address: Span | None = None
    is_base: bool = True
    """The addresses were given by one number (also when the source cannot be read)."""


@lru_cache(maxsize=4096)
def definition_at(span: Span) -> Definition:
    """The definition at a span; empty when the file cannot be read or parsed.

    For a tile that a helper makes, the comment on the call of the helper comes first, and an address that the helper
    only passes on is the argument of that call.
    """
    text = _text(span)
    call = _call_at(text, span, makers_only=True)
    if call is None:
        return Definition()
    sites = _sites(span)
    comment = next((c for site in reversed(sites) if (c := _comment_at(site))), "")
    marked = MARKER.search(comment)
    words = "" if marked or ARROW.search(comment) else comment
    value = next((k.value for k in call.keywords if k.arg in ("addr", "addrs")), None)
    address = None if value is None else _address(value, call, sites)
    return Definition(words, marked.group(1) if marked else None, address, not _is_sequence(value))


def _sites(span: Span) -> list[Span]:
    """A place and the calls that led to it, the outermost last."""
    found = [span]
    while found[-1].inlined_at is not None:
        found.append(found[-1].inlined_at)
    return found


def _text(span: Span) -> str:
    return "".join(linecache.getlines(span.file))


def _comment_at(site: Span) -> str:
    """The comment behind the call at a place, or on its first line."""
    text = _text(site)
    call = _call_at(text, site)
    last = (call.end_lineno if call is not None else None) or site.end_line or site.line
    return _comments(text).get(last, "") or _comments(text).get(site.line, "")


def _address(value: ast.expr, call: ast.Call, sites: list[Span]) -> Span | None:
    """Where the author wrote an address: here, or in the call of the helper whose parameter it is."""
    here, *outer = sites
    text = _text(here)
    if not outer:
        return _span(here.file, text, value)
    above = _call_at(_text(outer[0]), outer[0])
    if above is None or not isinstance(value, ast.Name):
        return None  # an address in a helper is that of all its calls
    passed = _argument(above, value.id, _function_around(text, call))
    return None if passed is None else _address(passed, above, outer)


def _function_around(text: str, call: ast.Call) -> ast.FunctionDef | None:
    """The innermost function a call stands in."""
    tree = _tree(text)
    around = [
        f for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) and f.lineno <= call.lineno <= (f.end_lineno or 0)
    ] if tree is not None else []  # fmt: skip
    return max(around, key=lambda f: f.lineno, default=None)


def _argument(call: ast.Call, name: str, function: ast.FunctionDef | None) -> ast.expr | None:
    """What a call gives for a parameter that its function does not assign."""
    if function is None or any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store)
                               for n in ast.walk(function)):  # fmt: skip
        return None
    names = [a.arg for a in function.args.args]
    if name not in names or names.index(name) >= len(call.args):
        return None
    return call.args[names.index(name)]


@lru_cache(maxsize=64)
def _tree(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return None


def _call_at(text: str, span: Span, *, makers_only: bool = False) -> ast.Call | None:
    """The call that starts at a place; of makers else the first that stands inside it."""
    tree = _tree(text) if text else None
    if tree is None:
        return None
    last = span.end_line or span.line
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and span.line <= n.lineno <= last]
    calls = [c for c in calls if not makers_only or _is_maker(c.func)]
    starts = [c for c in calls if c.lineno == span.line and _column(text, c.lineno, c.col_offset) == span.column]
    end = (span.end_line, span.end_column)  # `f(x).current()` holds two calls that start at one place
    exact = [c for c in starts if (c.end_lineno, _column(text, c.end_lineno or 1, c.end_col_offset or 0)) == end]
    return next(iter(exact or starts or (calls if makers_only else [])), None)


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


def _is_sequence(value: ast.expr | None) -> bool:
    return isinstance(value, ast.List | ast.Tuple | ast.ListComp)


def _column(text: str, line: int, byte: int) -> int:
    """A column in characters: `ast` counts bytes."""
    return characters(text.splitlines()[line - 1], byte)


def _span(file: str, text: str, value: ast.expr) -> Span:
    first, last = value.lineno, value.end_lineno or value.lineno
    return Span(
        file, first, _column(text, first, value.col_offset), last, _column(text, last, value.end_col_offset or 0)
    )
