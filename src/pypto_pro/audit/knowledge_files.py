"""Reading a knowledge record, its selection, the references and the delivered code from disk."""

from __future__ import annotations

import ast
import hashlib
import io
import json
import re
import tokenize
from pathlib import Path
from typing import Any

from pypto_pro.audit.source import Source

_PLACEHOLDER = re.compile(r'"[^"\n]*\{[a-z][a-z0-9_ ]*\}[^"\n]*"', re.IGNORECASE)
_CLAIM = re.compile(
    r"^\s*(?:[-*=#\s]*)(?:"
    r"(?:validation|verification|validated|verified|test)?[\s_-]*status\s*[:=]\s*(?:validated|verified|pass(?:ed)?|ok)\b"
    r"|pass(?:ed)?\s*[.!]?\s*$"
    r"|(?:verified|validated)\s+(?:on|with|against|by)\b"
    r"|.*\baccuracy\b[^\n]{0,40}\d+(?:\.\d+)?\s*%"
    r")",
    re.IGNORECASE,
)


def read_json(path: Path) -> Any:
    """The parsed file; None when it does not exist, a sentence when it cannot be used (K201)."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        return f"the record cannot be read: {error}"
    try:
        data = json.loads(text, object_pairs_hook=_no_duplicates)
    except ValueError as error:
        return f"the record is no valid JSON: {error}"
    except RecursionError:
        return "the record is nested too deeply"
    placeholder = _PLACEHOLDER.search(text)
    if placeholder:
        return f"an unreplaced placeholder: {placeholder.group(0)}"
    return data if isinstance(data, dict) else "the record is no JSON object"


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    twice = next((key for key in keys if keys.count(key) > 1), None)
    if twice is not None:
        raise ValueError(f"duplicate key {twice!r}")
    return dict(pairs)


def reference_hashes(root: Path) -> dict[str, str | None]:
    """SHA-256 of every pattern and constraint below the knowledge root, by relative path."""
    found: dict[str, str | None] = {}
    for folder in ("patterns", "constraints"):
        for path in sorted((root / folder).rglob("*")):
            if path.is_file():
                found[path.relative_to(root).as_posix()] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def reference_titles(root: Path, references: list[str]) -> dict[str, str]:
    """The first heading of each reference that can be read."""
    titles = {}
    for reference in references:
        path = root / reference
        if path.is_file():
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
            titles[reference] = next((line.lstrip("# ").strip() for line in lines if line.startswith("#")), "")
    return titles


def defined_symbols(source: Source) -> frozenset[str]:
    """Functions, classes and module-level names of a delivered file."""
    names = set(source.functions)
    for statement in source.tree.body:
        match statement:
            case ast.ClassDef(name=name):
                names.add(name)
            case ast.Assign(targets=targets):
                names.update(t.id for t in targets if isinstance(t, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
    return frozenset(names)


def verification_claims(source: Source) -> tuple[tuple[str, int, str], ...]:
    """Comments and docstring lines that claim a verification the code did not produce (K212)."""
    lines = [*_comments(source.text), *_docstring_lines(source.tree)]
    return tuple((source.filename, number, text.strip()) for number, text in sorted(lines) if _CLAIM.match(text))


def _comments(text: str) -> list[tuple[int, str]]:
    found = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                found.append((token.start[0], token.string.lstrip("#")))
    except (tokenize.TokenError, IndentationError, SyntaxError):
        return found
    return found


def _docstring_lines(tree: ast.Module) -> list[tuple[int, str]]:
    found = []
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and body:
            first = body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                found += [(first.lineno + offset, line) for offset, line in enumerate(first.value.value.splitlines())]
    return found
