"""Planned addresses written into the source: replaces address literals, and lists the definitions it cannot edit."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from pathlib import Path

from pypto_pro.diag import Severity, Span
from pypto_pro.memory.advice import Advice, Change
from pypto_pro.memory.check import check_layout


@dataclass(frozen=True)
class Edited:
    """New text of the file, and the changes that need a hand: their address is no literal of the definition."""

    text: str
    by_hand: tuple[Change, ...]


def edited(source: str, file: str, advice: Advice) -> Edited:
    """`source`, the text of `file`, with the planned addresses in place of the old literals."""
    lines = source.splitlines(keepends=True)
    spans = [c.tile.addrs_span for c in advice.changes if c.moves and c.tile.addrs_span is not None]
    by_hand = []
    places: list[tuple[Span, str]] = []
    for change in advice.changes:
        span = change.tile.addrs_span
        if not change.moves:
            continue
        # one text for two tiles (a helper) has no single answer, and other files are not ours
        if span is not None and spans.count(span) == 1 and _is_same(span.file, file):
            places.append((span, change.argument))
        elif span is None and change.before is None and (end := _end_of_entry(change, lines)) is not None:
            key = "addr" if change.tile.kind == "tile" else "addrs"
            places.append((end, f", {key}: {change.argument}"))
        else:
            by_hand.append(change)
    for span, text in sorted(places, key=lambda p: (p[0].line, p[0].column), reverse=True):
        _replace(lines, span, text)
    return Edited("".join(lines), tuple(by_hand))


def obstacles(advice: Advice, result: Edited) -> tuple[str, ...]:
    """Why the edited file would not be a correct kernel as it stands; empty when it would."""
    errors = [f for f in advice.findings if f.severity is Severity.ERROR]
    if errors:
        return tuple(f"the plan has an error: {f.diagnostic.message}" for f in errors)
    if advice.assumed:
        return tuple(f.diagnostic.message for f in advice.assumed)
    stay = {c.tile.name: c.tile for c in result.by_hand if c.before is not None}
    if not stay:
        return ()
    half = replace(advice.design, tiles=tuple(stay.get(t.name, t) for t in advice.design.tiles))
    wrong = [f for f in check_layout(half, advice.report.chip).findings if f.severity is Severity.ERROR]
    pins = " ".join(f"--pin {name}" for name in stay)
    return tuple(
        f"until the addresses above are changed by hand: {f.diagnostic.message}; `{pins}` plans around them"
        for f in wrong
    )  # fmt: skip


def _is_same(a: str, b: str) -> bool:
    return Path(a).resolve() == Path(b).resolve()


def _end_of_entry(change: Change, lines: list[str]) -> Span | None:
    """The empty place before the closing brace of a tile that a plan file gives in one pair of braces."""
    span = change.tile.span
    if span is None or not 0 < span.end_line <= len(lines):
        return None
    line, column = lines[span.end_line - 1], span.end_column - 1
    if not 0 <= column < len(line) or line[column] != "}":
        return None
    return Span(span.file, span.end_line, column, span.end_line, column)


def _replace(lines: list[str], span: Span, text: str) -> None:
    first, last = span.line - 1, (span.end_line or span.line) - 1
    head, tail = lines[first][: span.column], lines[last][span.end_column :]
    lines[first : last + 1] = [head + text + tail]


def unified_diff(source: str, new: str, file: str) -> str:
    """The edit as a patch, empty when nothing changes."""
    name = file.lstrip("/")
    return "".join(difflib.unified_diff(source.splitlines(True), new.splitlines(True), f"a/{name}", f"b/{name}"))
