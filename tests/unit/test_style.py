"""The rules of the house: linters clean, files and functions short, names that say something."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [
    path
    for folder in ("src", "tests", "examples", "bench")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if "__pycache__" not in path.parts
]
LONGEST_FILE, LONGEST_FUNCTION = 500, 50
FORBIDDEN_NAMES = {"utils.py", "util.py", "common.py", "misc.py", "helpers.py"}
LONG_FILE = re.compile(r"#\s*long file:\s*\S")
LONG_FUNCTION = re.compile(r"#\s*long function:\s*\S")
UNFINISHED = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" * 3)) + r")\b")  # parted: this file counts


def run(*command: str) -> str:
    """Output of a tool that must succeed."""
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_ruff() -> None:
    run("ruff", "check", "--no-cache", ".")


def test_mypy_strict() -> None:
    assert "no issues found" in run("mypy", "--strict", "-p", "pypto_pro")


def test_sources_are_found() -> None:
    assert len(SOURCES) > 10


def test_long_files_give_a_reason() -> None:
    long = []
    for path in SOURCES:
        lines = path.read_text(encoding="utf-8").splitlines()
        if len(lines) > LONGEST_FILE and not any(LONG_FILE.search(line) for line in lines[:5]):
            long.append(f"{path}: {len(lines)} lines without `# long file: reason` in the first five")
    assert not long, "\n".join(long)


def function_lengths(source: str) -> list[tuple[int, str, int]]:
    """Line, name and length (docstring not counted) of every function without a `# long function: reason`."""
    lines = source.splitlines()
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        above = lines[max(node.lineno - 2 - len(node.decorator_list), 0) : node.lineno]
        if any(LONG_FUNCTION.search(line) for line in above):
            continue
        first = node.body[0]
        is_doc = isinstance(first, ast.Expr) and isinstance(getattr(first.value, "value", None), str)
        doc = (first.end_lineno or 0) - first.lineno + 1 if is_doc else 0
        found.append((node.lineno, node.name, (node.end_lineno or 0) - node.lineno + 1 - doc))
    return found


def test_functions_are_short() -> None:
    long = [
        f"{path}:{line}: `{name}` has {length} lines"
        for path in SOURCES
        if path.is_relative_to(ROOT / "src")
        for line, name, length in function_lengths(path.read_text(encoding="utf-8"))
        if length > LONGEST_FUNCTION
    ]
    assert not long, "\n".join(long)


def test_function_length_leaves_the_docstring_out() -> None:
    body = "\n".join("    x = 1" for _ in range(3))
    assert function_lengths(f'def f():\n    """One\n    two."""\n{body}\n') == [(1, "f", 4)]
    assert function_lengths(f"# long function: a table\ndef f():\n{body}\n") == []


def test_file_names_say_something() -> None:
    assert [path for path in SOURCES if path.name in FORBIDDEN_NAMES] == []


def test_nothing_is_unfinished() -> None:
    left = [
        f"{path}:{number}: {line.strip()}"
        for path in SOURCES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if UNFINISHED.search(line)
    ]
    assert not left, "\n".join(left)
