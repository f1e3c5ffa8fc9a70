"""Where something stands in a source file."""

from __future__ import annotations

import linecache
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Span:
    """A range of source text: 1-based lines, 0-based columns, `end_column` one past the last character."""

    file: str
    line: int
    column: int = 0
    end_line: int = 0
    end_column: int = 0
    label: str = ""
    inlined_at: Span | None = None  # the call that expanded a helper here; chains outwards

    def labelled(self, label: str) -> Span:
        """The same range with the words a report prints under it."""
        return replace(self, label=label)

    @property
    def outermost(self) -> Span:
        """The call in the kernel itself that led here; the span itself where no helper lies between."""
        return self if self.inlined_at is None else self.inlined_at.outermost

    @property
    def place(self) -> str:
        """`file:line`, as an editor opens it."""
        return f"{self.file}:{self.line}"

    def source_line(self) -> str:
        """The text of the first line, empty when the file cannot be read."""
        return linecache.getline(self.file, self.line).rstrip("\n")


def characters(text: str, byte_column: int) -> int:
    """The column in characters of a column that `ast` counts in UTF-8 bytes of the line `text`."""
    if text.isascii():
        return byte_column
    return len(text.encode("utf-8", "surrogatepass")[:byte_column].decode("utf-8", "ignore"))


NOWHERE = Span("<unknown>", 0)
