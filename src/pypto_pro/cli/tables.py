"""Tables as every sub-command prints them: fitted to a terminal, never wrapped when piped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

PIPED_WIDTH = 2000


def console() -> Console:
    """Standard output; wide enough for whole rows when it is no terminal, so that grep sees each row as one line."""
    made = Console(highlight=False)
    return made if made.is_terminal else Console(width=PIPED_WIDTH, highlight=False)


def print_table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None, wrap: bool = False
) -> None:
    """Rows under headings, one line each; a narrow terminal cuts the last column, or wraps it if `wrap`."""
    out = console()
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for heading in headings:
        stretches = heading == headings[-1] and out.is_terminal
        table.add_column(
            heading, no_wrap=not (stretches and wrap), overflow="ellipsis", ratio=1 if stretches else None
        )
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    if out.is_terminal:
        out.print(table)
        return
    with out.capture() as capture:
        out.print(table)
    print("\n".join(line.rstrip() for line in capture.get().splitlines()))
