"""Tables as every sub-command prints them: fitted to a terminal, never wrapped when piped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

PIPED_WIDTH = 2000
GAP = 2  # cells between columns
NARROWEST = 20


def console() -> Console:
    """Standard output; wide enough for whole rows when it is no terminal, so that grep sees each row as one line."""
    made = Console(highlight=False)
    return made if made.is_terminal else Console(width=PIPED_WIDTH, highlight=False)


def print_table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None, wrap: bool = False
) -> None:
    """Rows under headings, one line each; a narrow terminal cuts the last column, or wraps it if `wrap`."""
    out = console()
    body = [[Text(cell) for cell in row] for row in rows]
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    widths = [max(Text(h).cell_len, *(row[i].cell_len for row in body), 1) for i, h in enumerate(headings)]
    rest = out.width - sum(widths[:-1]) - GAP * (len(widths) - 1)
    widths[-1] = min(widths[-1], max(rest, NARROWEST))
    for heading, width in zip(headings, widths, strict=True):
        table.add_column(heading, no_wrap=not wrap, overflow="ellipsis", width=width)
    for row in body:
        table.add_row(*row)
    if out.is_terminal:
        out.print(table)
        return
    with out.capture() as capture:
        out.print(table)
    print("\n".join(line.rstrip() for line in capture.get().splitlines()))
