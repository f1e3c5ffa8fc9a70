"""The layout report in a terminal: a picture of every space, the tables, and the findings with their source."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from pypto_pro.memory.advice import Advice
from pypto_pro.memory.capacity import Totals
from pypto_pro.memory.check import LayoutReport
from pypto_pro.memory.finding import hexa, interval
from pypto_pro.memory.table import Row
from pypto_pro.report import layout_words as words

COLUMNS = 60  # of a picture
COLORS = ("cyan", "yellow", "green", "magenta", "blue", "red", "bright_cyan", "bright_yellow", "bright_green")
IN_USE, IDLE, HOLE, CLASH = "█", "░", "╱", "╳"


def print_layout(console: Console, report: LayoutReport, advice: Advice | None = None) -> None:
    """Print everything but the findings, which the caller renders with their source lines."""
    name = report.design.kernel or "plan"
    console.print(Text.assemble(("On-chip layout of ", "bold"), (name, "bold cyan")))
    for totals in report.totals:
        console.print()
        console.print(Text(words.totals_line(totals), style="" if totals.passes else "red"))
        console.print(picture(report, totals))
    console.print()
    console.print(_addresses(report))
    for table in (_reuses(report), _scales(report), _banks(report), *(_plan(advice) if advice else ())):
        if table is not None:
            console.print()
            console.print(table)
    console.print()
    for item, holds in words.checklist(report):
        console.print(Text.assemble(("✓ ", "green") if holds else ("✗ ", "red"), item))


def _table(title: str, headings: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="dim")
    for heading in headings:
        table.add_column(heading, justify="right" if heading in ("Size", "Line") else "left", no_wrap=True)
    return table


# --- pictures --------------------------------------------------------------------------------------------------------


def picture(report: LayoutReport, totals: Totals) -> RenderableType:
    """One line for every stretch of addresses, highest on top; time runs to the right."""
    rows = [r for r in report.rows if r.space is totals.space]
    points = sorted({p for r in rows for p in report.lives[r.key].points}) or [0]
    columns = [points[i * len(points) // COLUMNS] for i in range(COLUMNS)] if len(points) > COLUMNS else points
    wide = max(1, COLUMNS // len(columns))
    styles = {t.name: COLORS[i % len(COLORS)] for i, t in enumerate(report.design.tiles)}
    borders = sorted({0, *(r.start for r in rows), *(r.end for r in rows)})
    lines = []
    for low, high in reversed(list(pairwise(borders))):
        inside = [r for r in rows if r.start <= low and high <= r.end]
        line = Text(f"  {hexa(low)} ", style="dim").append("│", style="dim")
        for point in columns:
            line.append(*_cell(report, inside, point, wide, styles))
        line.append("│ ", style="dim")
        line.append(_names(inside, low, high, styles))
        lines.append(line)
    return Group(*lines)


def _cell(
    report: LayoutReport, inside: list[Row], point: int, wide: int, styles: dict[str, str]
) -> tuple[str, str]:
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


# --- tables ----------------------------------------------------------------------------------------------------------


def _addresses(report: LayoutReport) -> Table:
    table = _table("Addresses", ("Space", "Variable", "Slot", "Shape", "Dtype", "Layout", "Interval", "Size", "Line",
                                 "Purpose", "Lifetime / reuse basis"))  # fmt: skip
    for r in report.rows:
        t = r.tile
        table.add_row(r.space.name, t.name, words.slot_cell(r), Text(words.shape_cell(t)), words.dtype_cell(t),
                      words.layout_cell(t), Text(interval(r.start, r.end)), str(r.size), str(t.line or ""),
                      words.purpose(t), Text(words.basis(report, r).replace("`", "")))  # fmt: skip
    return table


def _reuses(report: LayoutReport) -> Table | None:
    if not report.reuses:
        return None
    table = _table("Shared bytes", ("Id", "Interval", "A", "B", "A last read", "B first write", "Protection",
                                    "Conclusion"))  # fmt: skip
    for r in report.reuses:
        last, first = words.moment_cell(report, r)
        where = f"{r.a.space.name} {interval(r.start, r.end)}"
        style = "" if r.proof is not None else "red"
        table.add_row(r.id, Text(where), r.a.shown, r.b.shown, last, first, r.protection,
                      Text(words.conclusion(r), style=style))  # fmt: skip
    return table


def _scales(report: LayoutReport) -> Table | None:
    if not report.scales:
        return None
    table = _table("MX scales", ("Data", "Slot", "Data address", "Scale", "Scale address", "Required"))
    for p in report.scales:
        table.add_row(p.data.tile.name, words.slot_cell(p.data), hexa(p.data.start), p.scale.tile.name,
                      hexa(p.scale.start), Text(hexa(p.want), style="" if p.ok else "red"))  # fmt: skip
    return table


def _banks(report: LayoutReport) -> Table | None:
    if not report.banks:
        return None
    table = _table("L1 banks", ("A", "Op", "B", "Op", "Bank groups", "Result"))
    for p in report.banks:
        groups = ", ".join(map(str, p.same_bank or p.same_group)) or words.DASH
        table.add_row(p.a.shown, p.use.a_op, p.b.shown, p.use.b_op, groups,
                      Text("conflict" if p.conflict else "free", style="yellow" if p.conflict else ""))  # fmt: skip
    return table


def _plan(advice: Advice) -> list[Table]:
    ends = _table("Plan", ("Space", "Before", "Planned", "Lower bound", "Quality", "Separations given up"))
    for plan, before in advice.ends():
        quality = "optimal" if plan.optimal else f"gap {plan.gap} B"
        ends.add_row(plan.space.name, words.DASH if before is None else str(before), str(plan.highest),
                     str(plan.lower_bound), quality, str(len(plan.violated)))  # fmt: skip
    changes = _table("Lines to change", ("Line", "Variable", "Before", "After"))
    moved = [c for c in advice.changes if c.moves]
    for c in moved:
        old = ", ".join(map(hexa, c.before)) if c.before else words.DASH
        changes.add_row(str(c.tile.line or ""), c.tile.name, old, Text(c.text, style="bold"))
    return [ends, changes] if moved else [ends]
