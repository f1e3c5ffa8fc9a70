"""The layout report in a terminal: a picture of every space, the tables, and the findings with their source."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from pypto_pro.memory.advice import Advice
from pypto_pro.memory.check import LayoutReport
from pypto_pro.memory.finding import hexa, interval
from pypto_pro.report import layout_words as words
from pypto_pro.report.layout_picture import picture

RIGHT = ("Size", "Line")
UNLIMITED = 10_000


def print_layout(console: Console, report: LayoutReport, advice: Advice | None = None) -> None:
    """Print everything but the findings, which the caller renders with their source lines.

    Tables too wide for the terminal are printed in a narrower form, whose last column is wrapped.
    """
    name = report.design.kernel or "plan"
    chosen = f" for {words.specialisation(report)}" if report.design.specialisation else ""
    console.print(Text.assemble(("On-chip layout of ", "bold"), (name, "bold cyan"), chosen))
    for totals in report.totals:
        console.print()
        console.print(Text(words.totals_line(totals), style="" if totals.passes else "red"))
        console.print(picture(report, totals))
    tables = [
        (_addresses(report), _narrow_addresses(report)),
        (_reuses(report), _narrow_reuses(report)),
        (_scales(report), _scales(report)),
        (_banks(report, agents=True), _banks(report, agents=False)),
        *((t, t) for t in (_plan(advice) if advice else ())),
    ]
    for wide, narrow in tables:
        if wide.row_count:
            console.print()
            console.print(wide if _fits(console, wide) else narrow)
    if advice is not None and (needs := words.needs_line(advice)):
        console.print()
        console.print(Text(needs, style="yellow"))
    console.print()
    for item, holds in words.checklist(report):
        console.print(Text.assemble(("✓ ", "green") if holds else ("✗ ", "red"), item))


def _fits(console: Console, table: Table) -> bool:
    needed = Measurement.get(console, console.options.update(max_width=UNLIMITED), table).maximum
    return needed <= console.width


def _table(
    title: str, headings: Sequence[str], rows: Iterable[Sequence[Text | str]], wrap: Collection[str] = ()
) -> Table:
    """Plain columns; only those in `wrap` may break."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="dim")
    for heading in headings:
        justify = "right" if heading in RIGHT else "left"
        table.add_column(heading, justify=justify, no_wrap=heading not in wrap)  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    return table


# --- addresses -------------------------------------------------------------------------------------------------------


def _addresses(report: LayoutReport) -> Table:
    headings = ("Space", "Variable", "Slot", "Shape", "Dtype", "Layout", "Interval", "Size", "Line", "Purpose",
                "Lifetime / reuse basis")  # fmt: skip
    rows = (
        (r.space.name, r.tile.name, words.slot_cell(r), words.shape_cell(r.tile), words.dtype_cell(r.tile),
         words.layout_cell(r.tile), interval(r.start, r.end), str(r.size), str(r.tile.line or ""),
         words.purpose(r.tile), words.basis(report, r).replace("`", ""))
        for r in report.rows
    )  # fmt: skip
    return _table("Addresses", headings, rows)


def _narrow_addresses(report: LayoutReport) -> Table:
    """Slot, space and type in fewer columns, purpose and lifetime in one."""
    headings = ("Space", "Variable", "Type", "Interval", "Size", "Line", "Purpose; lifetime / reuse basis")
    rows = []
    for r in report.rows:
        layout = words.layout_cell(r.tile)
        kind = [words.shape_cell(r.tile), words.dtype_cell(r.tile), *([layout] if layout != words.DASH else [])]
        use = f"{words.purpose(r.tile)}; {words.basis(report, r)}".removeprefix(f"{words.DASH}; ")
        rows.append((r.space.name, r.shown, " ".join(kind), interval(r.start, r.end), str(r.size),
                     str(r.tile.line or ""), use.replace("`", "")))  # fmt: skip
    return _table("Addresses", headings, rows, wrap=headings[-1:])


# --- the other tables ------------------------------------------------------------------------------------------------


def _verdicts(report: LayoutReport) -> list[tuple[str, str, str, str, str, str, str, Text]]:
    found = []
    for r in report.reuses:
        style = "" if r.proof is not None else "yellow" if report.planned and r.orderable else "red"
        where = f"{r.a.space.name} {interval(r.start, r.end)}"
        found.append((r.id, where, r.a.shown, r.b.shown, *words.moment_cell(report, r), r.protection,
                      Text(words.conclusion(report, r), style=style)))  # fmt: skip
    return found


def _reuses(report: LayoutReport) -> Table:
    headings = ("Id", "Interval", "A", "B", "A last read", "B first write", "Protection", "Conclusion")
    return _table("Shared bytes", headings, _verdicts(report))


def _narrow_reuses(report: LayoutReport) -> Table:
    """Each tile with its moment, protection and conclusion in one column."""
    headings = ("Id", "Interval", "A: last read", "B: first write", "Conclusion: protection")
    rows = [
        (
            id_,
            where,
            f"{a}: {last}",
            f"{b}: {first}",
            conclusion if protection == "none" else Text.assemble(conclusion, f": {protection}"),
        )
        for id_, where, a, b, last, first, protection, conclusion in _verdicts(report)
    ]
    return _table("Shared bytes", headings, rows, wrap=headings[2:])


def _scales(report: LayoutReport) -> Table:
    headings = ("Data", "Slot", "Data address", "Scale", "Scale address", "Required")
    rows = (
        (p.data.tile.name, words.slot_cell(p.data), hexa(p.data.start), p.scale.tile.name, hexa(p.scale.start),
         Text(hexa(p.want), style="" if p.ok else "red"))
        for p in report.scales
    )  # fmt: skip
    return _table("MX scales", headings, rows)


def _banks(report: LayoutReport, *, agents: bool) -> Table:
    headings = ("A", "Op", "B", "Op", "Bank groups", "Result")
    rows = (
        (words.slots_text(p.a), words.by_agent(p.a_op, p.a_agent if agents else ""), words.slots_text(p.b),
         words.by_agent(p.b_op, p.b_agent if agents else ""), p.groups,
         Text(p.result, style="yellow" if p.result == "conflict" else ""))
        for p in words.bank_lines(report)
    )  # fmt: skip
    return _table("L1 banks", headings, rows)


def _plan(advice: Advice) -> list[Table]:
    violated = {p.space.name: str(len(p.violated)) for p in advice.placement.spaces}
    ends = [(*row, violated[row[0]]) for row in words.plan_rows(advice)]
    moved = words.moved_rows(advice)
    changes = [(line, name, before, Text(after, style="bold")) for name, line, before, after in moved]
    return [
        _table("Plan", ("Space", "Before", "Planned", "Lower bound", "Quality", "Separations given up"), ends),
        _table("Lines to change", ("Line", "Variable", "Before", "After"), changes, wrap=("Before", "After")),
    ]
