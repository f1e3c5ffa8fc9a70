"""Tables as every sub-command prints them: fitted to a terminal, never wrapped when piped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table

PIPED_WIDTH = 400


def console() -> Console:
    """Standard output; wide enough for whole rows when it is no terminal, so that grep sees each row as one line."""
    made = Console(highlight=False)
    return made if made.is_terminal else Console(width=PIPED_WIDTH, highlight=False)


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None) -> None:
    """Rows under headings, one line each; in a narrow terminal the last column is cut with an ellipsis."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for heading in headings:
        is_last = heading == headings[-1]
        table.add_column(heading, no_wrap=True, overflow="ellipsis", ratio=1 if is_last else None)
    for row in rows:
        table.add_row(*row)
    console().print(table)
