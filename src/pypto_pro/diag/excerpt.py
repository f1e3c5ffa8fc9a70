"""Source lines and the marks under them, in the columns a terminal shows."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pypto_pro.diag.span import Span

TAB = "    "
DISTANT = 3  # lines further apart than this are parted by "..."
UNREADABLE = "<source not available>"


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A source line as shown (tabs expanded); `number` None stands for left-out lines."""

    number: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Mark:
    """An underline below the last `Excerpt`: terminal column, length in cells, words, and whether it is the culprit."""

    column: int
    length: int
    label: str
    is_primary: bool


def excerpt_lines(spans: Sequence[Span], primary: Span) -> Iterator[Excerpt | Mark]:
    """Source lines of one file in line order, each followed by its marks from left to right, the primary's first."""
    by_line: dict[int, list[Span]] = {}
    for span in spans:
        by_line.setdefault(span.line, []).append(span)
    previous = None
    for number in sorted(by_line):
        if previous is not None and number - previous > DISTANT:
            yield Excerpt(None, "")
        source = by_line[number][0].source_line()
        yield Excerpt(number, shown(source) if source.strip() else UNREADABLE)
        ordered = sorted(by_line[number], key=lambda span: (_start(span, source), span is not primary))
        yield from (_mark(span, source, span is primary) for span in ordered)
        previous = number


def shown_column(span: Span) -> int:
    """The 0-based column of the span's first character; of the line's first one when only the line is known."""
    return _start(span, span.source_line())


def shown(text: str) -> str:
    """The text with tabs expanded and other control characters made visible, one cell column for each."""
    return "".join(TAB if c == "\t" else "\ufffd" if unicodedata.category(c) == "Cc" else c for c in text)


def cells(text: str) -> int:
    """Terminal cells the text takes: two for wide characters, none for combining ones, four for a tab."""
    return sum(_cell(c) for c in text)


def _cell(char: str) -> int:
    if char == "\t":
        return len(TAB)
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _start(span: Span, source: str) -> int:
    """The span's column, moved to the first character of the line when it points before it."""
    indent = len(source) - len(source.lstrip())
    return max(span.column, indent) if source.strip() else span.column


def _end(span: Span, source: str) -> int:
    """One past the last marked character of the span's first line: a span over several lines marks up to its end."""
    last = len(source.rstrip()) if source.strip() else span.column + 1
    if max(span.end_line, span.line) > span.line:
        return last
    if span.end_column > span.column:
        return span.end_column
    return last if span.column == 0 and span.end_column == 0 else span.column + 1


def _mark(span: Span, source: str, is_primary: bool) -> Mark:
    if not source.strip():
        return Mark(0, len(UNREADABLE), span.label, is_primary)
    start = min(_start(span, source), len(source))
    length = cells(source[start : _end(span, source)])
    return Mark(cells(source[:start]), max(length, 1), span.label, is_primary)
