"""Real kernels with damaged text: tokens deleted, swapped, doubled or replaced, lines lost or moved."""

from __future__ import annotations

import ast
import io
import random
import tokenize
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SPARE = (
    "0", "1", "-1", "7", "64", "1.5", "1e30", "None", "True", "'s'", "pl", "x", "pl.DT_FP16", "pl.DT_INT8", "(", ")",
    "[", "]", ",", ":", "=", "==", "+", "*", "//", "<<", "and", "not", "if", "else", "for", "in", "while", "return",
    "break", "continue", ".", "pl.range", "pl.load", "pl.min", "pl.get_block_idx()", "len", "[0, 0]", "1 << 62",
    "pl.MemorySpace.Mat", "pl.NZ", "lambda: 0", "_",
)  # fmt: skip
KEPT = (tokenize.NAME, tokenize.NUMBER, tokenize.OP, tokenize.STRING)


@dataclass(frozen=True)
class Span:
    """A token: its text and where it stands in the file (1-based lines, 0-based columns)."""

    text: str
    kind: int
    start: tuple[int, int]
    end: tuple[int, int]


@cache
def sources() -> tuple[Path, ...]:
    """The files whose kernels are damaged."""
    found = [*(ROOT / "examples").glob("*.py"), *(ROOT / "tests" / "kernels" / "good").glob("*.py")]
    found.append(ROOT / "tests" / "golden" / "frontend" / "sources.py")
    return tuple(sorted(path for path in found if "@pl.jit" in path.read_text(encoding="utf-8")))


@cache
def functions_of(file: Path) -> tuple[tuple[Span, ...], ...]:
    """The tokens of every function that is part of a kernel: kernels, vector functions, helpers above them."""
    text = file.read_text(encoding="utf-8")
    tokens = [
        Span(t.string, t.type, t.start, t.end)
        for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type in KEPT
    ]  # fmt: skip
    found = []
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and any("pl." in line for line in ast.unparse(node).splitlines()):
            last = node.end_lineno or node.lineno
            found.append(tuple(t for t in tokens if node.lineno <= t.start[0] <= last))
    return tuple(function for function in found if len(function) > 10)


ATTEMPTS = 25
"""Damage that Python itself rejects is made anew, up to here: Python's answer says nothing about ours."""


def damaged(seed: int) -> tuple[Path, str]:
    """A file and its text with one to three defects; equal seeds give equal damage as long as the files stay."""
    chance = random.Random(seed)
    file = chance.choice(sources())
    for _ in range(ATTEMPTS):
        text = _damaged(chance, file)
        try:
            ast.parse(text)
        except (SyntaxError, ValueError, RecursionError):
            continue
        break
    return file, text


def _damaged(chance: random.Random, file: Path) -> str:
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        function = chance.choice(functions_of(file))
        if chance.random() < 0.15:
            _lines(chance, lines, function)
        else:
            _tokens(chance, lines, function)
    return "".join(lines)


def _lines(chance: random.Random, lines: list[str], function: tuple[Span, ...]) -> None:
    first, last = function[0].start[0], function[-1].end[0]
    at, other = (chance.randrange(first, last) for _ in range(2))
    match chance.randrange(4):
        case 0:
            lines[at] = "\n"
        case 1:
            lines[at], lines[other] = lines[other], lines[at]
        case 2:
            lines[at] += lines[other]
        case _:
            lines[at] = "    " + lines[at]


def _tokens(chance: random.Random, lines: list[str], function: tuple[Span, ...]) -> None:
    token, other = chance.choice(function), chance.choice(function)
    alike = [t for t in function if t.kind == token.kind]
    match chance.randrange(6):
        case 0:
            new = ""
        case 1:
            new = f"{token.text} {token.text}"
        case 2:
            new = chance.choice(SPARE)
        case 3:
            new = chance.choice(alike).text
        case 4:
            _put(lines, other, token.text)
            new = other.text
        case _:
            new = _bent(chance, token)
    _put(lines, token, new)


def _bent(chance: random.Random, token: Span) -> str:
    """A number made another, a name misspelled."""
    if token.kind == tokenize.NUMBER:
        return chance.choice(("0", "-1", f"{token.text} + 1", f"{token.text} * 3", f"{token.text}.5", "2 ** 33"))
    return token.text[:-1] or "_"


def _put(lines: list[str], token: Span, text: str) -> None:
    """Replace a token; it may have moved or gone through earlier damage to its line, which is as good."""
    (row, start), (end_row, end) = token.start, token.end
    if row == end_row and row <= len(lines):
        line = lines[row - 1]
        lines[row - 1] = line[:start] + text + line[end:]
