"""The source of a function: its syntax tree with the true lines and columns of the file, and what its names mean."""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any, TypeAlias

from pypto_pro.diag import Span, characters
from pypto_pro.diag.errors import ParserSyntaxError


@dataclass(frozen=True, eq=False)
class KernelSource:
    """A kernel function as it was decorated: enclosing locals copied, module globals live until it is compiled."""

    fn: FunctionType
    enclosing: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def capture(cls, fn: Callable[..., Any], scope: Mapping[str, Any] | None = None) -> KernelSource:
        """The source of `fn` decorated in a scope with the locals `scope` (None, or the module's globals: none).

        Raises ParserSyntaxError for what is no plain function.
        """
        plain = plain_function(fn)
        if plain is None:
            raise ParserSyntaxError(f"a kernel is a plain function, found {type(fn).__name__}")
        local = {} if scope is None or scope is plain.__globals__ else dict(scope)
        return cls(plain, {**local, **cells(plain)})

    @property
    def name(self) -> str:
        """The function's own name."""
        return self.fn.__name__

    def environment(self) -> dict[str, Any]:
        """Globals overlaid by the captured locals, for evaluating annotations."""
        return {**self.fn.__globals__, **self.enclosing}


def plain_function(value: Any) -> FunctionType | None:
    """The function under decorators that keep it as `__wrapped__` (functools.wraps, lru_cache); None for what is none.

    The device reads the text of the `def` and knows nothing of such decorators.
    """
    for _ in range(MAX_DECORATORS):
        inner = getattr(value, "__wrapped__", None)
        if inner is None or isinstance(value, type) or hasattr(value, "tilingkey_schema"):  # a kernel is no function
            break
        value = inner
    return value if isinstance(value, FunctionType) else None


MAX_DECORATORS = 100


def cells(fn: FunctionType) -> dict[str, Any]:
    """The values of the enclosing functions' variables that `fn` uses; those not yet assigned are left out."""
    found = {}
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue
    return found


@dataclass(frozen=True, eq=False)
class Source:
    """A function's syntax tree. `shift` columns were cut from every line when only the block could be parsed."""

    tree: ast.FunctionDef
    file: str
    line_offset: int = 0
    shift: int = 0

    def span(self, node: ast.AST, inlined_at: Span | None = None) -> Span:
        """The place of a node of this tree."""
        line = getattr(node, "lineno", self.tree.lineno)
        column = getattr(node, "col_offset", 0)
        end_line = getattr(node, "end_lineno", None) or line
        end_column = getattr(node, "end_col_offset", None) or column + 1
        return Span(
            self.file,
            line + self.line_offset,
            self._column(line, column),
            end_line + self.line_offset,
            self._column(end_line, end_column),
            inlined_at=inlined_at,
        )

    def _column(self, line: int, byte_column: int) -> int:
        text = linecache.getline(self.file, line + self.line_offset)
        return characters(text, byte_column + self.shift)


def source_of(fn: FunctionType) -> Source:
    """The syntax tree of a function. ParserSyntaxError when its text cannot be found."""
    code = fn.__code__
    found = _definitions(code.co_filename).get((code.co_firstlineno, code.co_name))
    return Source(found, code.co_filename) if found is not None else _from_block(code, fn.__name__)


Definitions: TypeAlias = dict[tuple[int, str], ast.FunctionDef]
MAX_FILES = 256
_FILES: dict[str, tuple[list[str], Definitions]] = {}


def _definitions(file: str) -> Definitions:
    """Every definition of a file by (first line, decorators included; name); read again when the text changed."""
    lines = linecache.getlines(file) or _command_lines(file)
    known = _FILES.get(file)
    if known is not None and (known[0] is lines or known[0] == lines):
        return known[1]
    found: Definitions = {}
    try:
        tree = ast.parse("".join(lines), file)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # notebook magics, absurd nesting
        tree = ast.Module([], [])
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            first = min((d.lineno for d in node.decorator_list), default=node.lineno)
            found[first, node.name] = node
    if len(_FILES) >= MAX_FILES:
        _FILES.clear()
    _FILES[file] = (lines, found)
    return found


def _command_lines(file: str) -> list[str]:
    """The text of `python -c`, which the interpreter names `<string>`; kept where excerpts look for it."""
    asked = sys.orig_argv
    if file != "<string>" or "-c" not in asked[:-1]:
        return []
    text = asked[asked.index("-c") + 1]
    lines = [line + "\n" for line in text.splitlines()]
    linecache.cache[file] = (len(text), None, lines, file)
    return lines


def _from_block(code: CodeType, name: str) -> Source:
    """The definition parsed on its own, where the whole file cannot be."""
    where = Span(code.co_filename, code.co_firstlineno)
    try:
        lines, first = inspect.getsourcelines(code)
    except (OSError, TypeError, IndexError) as error:
        raise ParserSyntaxError(
            f"the source text of `{name}` cannot be found",
            where,
            hint="define the function in a file; text run by exec() leaves no source",
        ) from error
    text = textwrap.dedent("".join(lines))
    try:
        parsed = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ParserSyntaxError(f"the source text of `{name}` cannot be parsed: {error}", where) from error
    found = next((n for n in parsed.body if isinstance(n, ast.FunctionDef) and n.name == code.co_name), None)
    if found is None:
        raise ParserSyntaxError(f"`{name}` is not defined by a plain `def`", where)
    shift = len(lines[0]) - len(lines[0].lstrip())
    return Source(found, code.co_filename, first - 1, shift)
