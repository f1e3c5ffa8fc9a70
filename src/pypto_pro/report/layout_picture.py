"""The picture of one memory space in a terminal: addresses upwards, time to the right, a block for what is in use."""

from __future__ import annotations

from itertools import groupby, pairwise

from rich.console import Group, RenderableType
from rich.text import Text

from pypto_pro.enums import CoreKind
from pypto_pro.memory.capacity import Totals
from pypto_pro.memory.check import LayoutReport
from pypto_pro.memory.finding import hexa
from pypto_pro.memory.table import Row

COLUMNS = 60
COLORS = ("cyan", "yellow", "green", "magenta", "blue", "red", "bright_cyan", "bright_yellow", "bright_green")
IN_USE, IDLE, HOLE, CLASH = "█", "░", "╱", "╳"
MARGIN = " " * 10


def picture(report: LayoutReport, totals: Totals) -> RenderableType:
    """One line for every stretch of addresses, highest on top, and the time axis below."""
    rows = [r for r in report.rows if r.space is totals.space]
    points = sorted({p for r in rows for p in report.lives[r.key].points}) or [0]
    columns = [points[i * len(points) // COLUMNS] for i in range(COLUMNS)] if len(points) > COLUMNS else points
    wide = max(1, COLUMNS // len(columns))
    styles = {t.name: COLORS[i % len(COLORS)] for i, t in enumerate(report.design.tiles)}
    borders = sorted({0, *(r.start for r in rows), *(r.end for r in rows)})
    stretches = [list(part) for _, part in groupby(columns, key=_cores(report).get)]
    lines = []
    for low, high in reversed(list(pairwise(borders))):
        inside = [r for r in rows if r.start <= low and high <= r.end]
        line = Text(f"  {hexa(low)} ", style="dim").append("│", style="dim")
        for stretch in stretches:
            for point in stretch:
                line.append(*_cell(report, inside, point, wide, styles))
            line.append("│", style="dim")
        lines.append(line.append(" ").append(_names(inside, low, high, styles)))
    return Group(*lines, *_axis(report, stretches, wide))


def _cores(report: LayoutReport) -> dict[int, CoreKind]:
    return {s.point: program.core for program in report.design.programs for s in program.steps()}


def _axis(report: LayoutReport, stretches: list[list[int]], wide: int) -> list[Text]:
    """Under each core's time its name and lines; nothing for a plan, whose steps have no lines."""
    lines = {s.point: s.line for program in report.design.programs for s in program.steps()}
    cores = _cores(report)
    if not cores:
        return []
    text = Text(MARGIN, style="dim")
    for stretch in stretches:
        room = len(stretch) * wide
        core, known = cores[stretch[0]].value, [n for n in map(lines.get, stretch) if n is not None]
        span = f" l.{min(known)}-{max(known)}" if known else ""
        label = next((t for t in (f"{core}{span}", core, core[:1]) if len(t) <= room), "")
        text.append(" " + label.ljust(room))
    return [text]


def _cell(report: LayoutReport, inside: list[Row], point: int, wide: int, styles: dict[str, str]) -> tuple[str, str]:
    if not inside:
        return HOLE * wide, "dim"
    using = [r for r in inside if point in report.lives[r.key].points]
    pairs = {frozenset({u.a.key, u.b.key}) for u in report.reuses if u.proof is None}
    if any(frozenset({a.key, b.key}) in pairs for a in using for b in using if a.key < b.key):
        return CLASH * wide, "bold red"
    if using:
        return IN_USE * wide, styles[using[0].tile.name]
    return IDLE * wide, styles[inside[0].tile.name]


def _names(inside: list[Row], low: int, high: int, styles: dict[str, str]) -> Text:
    if not inside:
        return Text(f"hole {high - low} B", style="dim")
    text = Text()
    for i, row in enumerate(inside):
        text.append(", " if i else "").append(row.shown, style=styles[row.tile.name])
    return text
