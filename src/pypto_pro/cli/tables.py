"""Tables as every sub-command prints them: fitted to a terminal, never wrapped when piped."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

PIPED_WIDTH = 2000
GAP = 2  # cells between columns
NARROWEST = 20
LISTED = (" ", "-", "*", "|")
"""How lines begin that are no prose."""
READABLE = 44
"""Cells of a last column that is worth more than the columns left out for it."""


def console() -> Console:
    """Standard output; wide enough for whole rows when it is no terminal, so that grep sees each row as one line."""
    made = Console(highlight=False)
    return made if made.is_terminal else Console(width=PIPED_WIDTH, highlight=False)


def paragraphs(text: str, indent: str) -> str:
    """Prose under an indent, filled to the terminal; lines of lists and examples, and text that is piped, stay."""
    out = console()
    filled = []
    for paragraph in text.split("\n\n"):
        lines = paragraph.splitlines()
        if out.is_terminal and not any(line[:1] in LISTED for line in lines):
            lines = textwrap.wrap(" ".join(lines), out.width - len(indent))
        filled.append("\n".join(f"{indent}{line}".rstrip() for line in lines))
    return "\n\n".join(filled)


def print_table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None, wrap: bool = False,
    spare: Sequence[str] = (),
) -> None:  # fmt: skip
    """Rows under headings, one line each; a narrow terminal first loses the columns `spare`, in their order, then cuts
    the last column behind a word, or wraps it if `wrap`."""
    out = console()
    body, names = [tuple(row) for row in rows], list(headings)
    for name in spare:
        if out.width - sum(widths_of(names, body)[:-1]) - GAP * (len(names) - 1) < READABLE:
            left_out = names.index(name)
            body = [row[:left_out] + row[left_out + 1 :] for row in body]
            names.remove(name)
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    widths = widths_of(names, body)
    rest = out.width - sum(widths[:-1]) - GAP * (len(widths) - 1)
    widths[-1] = min(widths[-1], max(rest, NARROWEST))
    for name, width in zip(names, widths, strict=True):
        table.add_column(name, no_wrap=not wrap, overflow="ellipsis", width=width)
    for row in body:
        table.add_row(*map(Text, row[:-1]), Text(row[-1] if wrap else behind_a_word(row[-1], widths[-1])))
    if out.is_terminal:
        out.print(table)
        return
    with out.capture() as capture:
        out.print(table)
    print("\n".join(line.rstrip() for line in capture.get().splitlines()))


def widths_of(names: Sequence[str], body: Sequence[Sequence[str]]) -> list[int]:
    """Cells that each column takes."""
    return [max(*(cell_len(row[i]) for row in body), cell_len(name), 1) for i, name in enumerate(names)]


def behind_a_word(text: str, width: int) -> str:
    """A text cut to `width` cells, with an ellipsis, behind the last word that still fits."""
    if cell_len(text) <= width:
        return text
    kept = set_cell_size(text, width - 1)
    words, space, _ = kept.rpartition(" ") if text[len(kept.rstrip()) :][:1] not in ("", " ") else (kept, " ", "")
    return (words if space else kept).rstrip(" ,;:(") + "…"
