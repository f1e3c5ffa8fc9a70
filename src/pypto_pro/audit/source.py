"""The audited file as text and syntax tree. Nothing here, or in the static audit at all, imports or executes it."""

from __future__ import annotations

import ast
import hashlib
import re
import warnings
from dataclasses import dataclass, field

from pypto_pro.diag import Span

_MARKER = re.compile(r"#\s*pypto:\s*(wrapper|driver)\b")
_SHOWN = 72  # characters of an expression quoted in a message

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Source:
    """A parsed file. `functions` are all function definitions by qualified name, in the order of the file."""

    text: str
    filename: str
    tree: ast.Module
    lines: list[str] = field(default_factory=list)
    functions: dict[str, FunctionNode] = field(default_factory=dict)
    _texts: dict[ast.AST, str] = field(default_factory=dict)  # keyed by node, which keeps made-up nodes alive

    @classmethod
    def parse(cls, text: str, filename: str) -> Source:
        """Parse `text`; raises SyntaxError (ValueError for null bytes, RecursionError for absurd nesting) as
        `ast.parse` does.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text, filename=filename)
        source = cls(text, filename, tree, text.splitlines())
        source._collect(tree.body, "")
        return source

    def _collect(self, body: list[ast.stmt], prefix: str) -> None:
        """Index the function definitions of a block and of everything nested in it."""
        for statement in body:
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self.functions.setdefault(prefix + statement.name, statement)
                self._collect(statement.body, f"{prefix}{statement.name}.")
            elif isinstance(statement, ast.ClassDef):
                self._collect(statement.body, f"{prefix}{statement.name}.")
            else:
                for name in ("body", "orelse", "finalbody"):
                    self._collect(getattr(statement, name, []), prefix)
                for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
                    self._collect(part.body, prefix)

    @property
    def sha256(self) -> str:
        """Hash of the text, hexadecimal."""
        return hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()

    def marker(self, node: FunctionNode) -> str | None:
        """`wrapper` or `driver` when a comment of that form stands on the `def` line (or between it and the body)."""
        last = node.body[0].lineno if node.body else node.lineno
        for number in range(node.lineno, max(last, node.lineno + 1)):
            found = _MARKER.search(self.lines[number - 1]) if number <= len(self.lines) else None
            if found:
                return found.group(1)
        return None

    def span(self, node: ast.AST, label: str = "") -> Span:
        """Where a node stands. Columns count characters, not the bytes `ast` counts."""
        line = getattr(node, "lineno", 1)
        end_line = getattr(node, "end_lineno", None) or line
        column = self._characters(line, getattr(node, "col_offset", 0))
        end_column = self._characters(end_line, getattr(node, "end_col_offset", None) or 0)
        return Span(self.filename, line, column, end_line, end_column, label)

    def _characters(self, line: int, byte_column: int) -> int:
        text = self.lines[line - 1] if 0 < line <= len(self.lines) else ""
        return (
            byte_column
            if text.isascii()
            else len(text.encode("utf-8", "surrogatepass")[:byte_column].decode("utf-8", "replace"))
        )

    def expression(self, node: ast.AST) -> str:
        """The author's text of an expression on one line, shortened in the middle."""
        if node not in self._texts:
            self._texts[node] = self._cut(node)
        return self._texts[node]

    def _cut(self, node: ast.AST) -> str:
        span = self.span(node)
        rows = self.lines[span.line - 1 : span.end_line]
        if not rows or not hasattr(node, "lineno"):
            return type(node).__name__.lower()
        if len(rows) == 1:
            rows = [rows[0][span.column : span.end_column]]
        else:
            rows = [rows[0][span.column :], *rows[1:-1], rows[-1][: span.end_column]]
        text = " ".join(" ".join(row.split()) for row in rows)
        return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 24]} ... {text[-19:]}"
