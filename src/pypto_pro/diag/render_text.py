"""Diagnostics as text: a header, the excerpt with every labelled span, then facts, consequences and help.

The plain form is exact (golden files hold it); colour only adds styles to the same characters.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pypto_pro.diag.diagnostic import Diagnostic, Severity
from pypto_pro.diag.excerpt import Excerpt, Mark, excerpt_lines, shown_column
from pypto_pro.diag.names import counted
from pypto_pro.diag.span import Span

STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.NOTE: "bold cyan"}
GUTTER, SECONDARY = "bold blue", "blue"


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of output with one rich style ("" = none)."""

    text: str
    style: str = ""


Line = tuple[Piece, ...]


def render(diagnostics: Iterable[Diagnostic], color: bool | None = None) -> str:
    """The diagnostics in the given order, a blank line between them, without a trailing newline.

    `color`: True adds ANSI styles, False never does, None asks the terminal (NO_COLOR and FORCE_COLOR count).
    """
    lines: list[Line] = []
    for diagnostic in diagnostics:
        if lines:
            lines.append(())
        lines += _one(diagnostic)
    if wants_color() if color is None else color:
        return _colored(lines)
    return "\n".join("".join(piece.text for piece in line).rstrip() for line in lines)


def summary(diagnostics: Iterable[Diagnostic]) -> str:
    """How many of each severity: "2 errors, 1 warning", or "no findings"."""
    counts = dict.fromkeys(Severity, 0)
    for diagnostic in diagnostics:
        counts[diagnostic.severity] += 1
    parts = [counted(n, str(severity)) for severity, n in counts.items() if n]
    return ", ".join(parts) or "no findings"


def wants_color() -> bool:
    """Whether standard output takes colour, by the conventions of NO_COLOR and FORCE_COLOR."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or sys.stdout.isatty()


def shown_path(file: str) -> str:
    """The path relative to the current directory when the file lies in it, else as it is."""
    try:
        relative = os.path.relpath(file) if os.path.isabs(file) else file
    except (OSError, ValueError):  # no current directory, another drive
        return file
    return file if relative.startswith("..") else relative


def _one(diagnostic: Diagnostic) -> Iterator[Line]:
    style = STYLES[diagnostic.severity]
    title = f" {diagnostic.title}" if diagnostic.title else ""
    head, *more = diagnostic.message.splitlines() or [""]
    yield Piece(f"{diagnostic.severity}[{diagnostic.code}]{title}", style), Piece(f": {head}", "bold")
    yield from ((Piece(f"  {text}", "bold"),) for text in more)
    placed = [span for span in dict.fromkeys(diagnostic.spans) if span.line > 0]
    width = max((len(str(span.line)) for span in placed), default=1)
    for number, (file, spans) in enumerate(_by_file(placed).items()):
        yield from _snippet(file, spans, placed[0], width, first=number == 0, style=style)
    for label, text in _facts(diagnostic):
        yield from _fact(label, text, width)


def _by_file(spans: Sequence[Span]) -> dict[str, list[Span]]:
    files: dict[str, list[Span]] = {}
    for span in spans:
        files.setdefault(span.file, []).append(span)
    return files


def _snippet(file: str, spans: list[Span], primary: Span, width: int, *, first: bool, style: str) -> Iterator[Line]:
    """One file's excerpt: the arrow line, an empty gutter line, source lines and marks."""
    pad, lead = " " * width, spans[0]
    arrow = "-->" if first else ":::"
    yield Piece(f"{pad}{arrow} ", GUTTER), Piece(f"{shown_path(file)}:{lead.line}:{shown_column(lead)}")
    yield (Piece(f"{pad} |", GUTTER),)
    for row in excerpt_lines(spans, primary):
        match row:
            case Excerpt(number=None):
                yield (Piece("...", GUTTER),)
            case Excerpt(number=number, text=text):
                yield Piece(f"{number:>{width}} | ", GUTTER), Piece(text)
            case Mark(column=column, length=length, label=label, is_primary=is_primary):
                sign, paint = ("^", style) if is_primary else ("-", SECONDARY)
                indent = " " * column
                yield Piece(f"{pad} | ", GUTTER), Piece(f"{indent}{sign * length} {label}".rstrip(), paint)


def _facts(diagnostic: Diagnostic) -> Iterator[tuple[str, str]]:
    """Label and text of the lines below the excerpt: notes, call chain, consequences, help."""
    notes = list(diagnostic.notes)
    details = [notes.pop(0)] if notes else []
    details += _whereabouts(diagnostic)
    if diagnostic.count > 1:
        details.append(f"seen {diagnostic.count} times")
    if details:
        notes.insert(0, "; ".join(details))
    yield from (("note", note) for note in notes)
    for site in diagnostic.calls:
        helper = f"in `{site.label}` " if site.label else ""
        yield "note", f"{helper}called at {shown_path(site.file)}:{site.line}"
    yield from (("as a consequence", text) for text in diagnostic.consequences)
    if diagnostic.help:
        yield "help", diagnostic.help


def _whereabouts(diagnostic: Diagnostic) -> Iterator[str]:
    """Kernel and core, unless the message, a note or a label says them already."""
    said = " ".join((diagnostic.message, *diagnostic.notes, *(span.label for span in diagnostic.spans)))
    if diagnostic.kernel and f"`{diagnostic.kernel}`" not in said:
        yield f"in kernel `{diagnostic.kernel}`"
    if diagnostic.core and diagnostic.core not in said:
        yield diagnostic.core


def _fact(label: str, text: str, width: int) -> Iterator[Line]:
    head, *more = text.splitlines() or [""]
    lead = f"{' ' * width} = "
    yield Piece(lead, GUTTER), Piece(f"{label}:", "bold"), Piece(f" {head}")
    indent = " " * (len(lead) + len(label) + 2)
    yield from ((Piece(indent + line),) for line in more)


def _colored(lines: Iterable[Line]) -> str:
    from rich.console import Console
    from rich.text import Text

    text = Text("\n").join(Text.assemble(*((piece.text, piece.style) for piece in line)) for line in lines)
    console = Console(force_terminal=True, color_system="standard", no_color=False, highlight=False)
    with console.capture() as capture:
        console.print(text, soft_wrap=True, end="")
    return capture.get()
