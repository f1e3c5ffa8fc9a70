"""The layout report as section 3 of a design document: address table, totals, reuse proofs, MX, banks, checklist."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pypto_pro.memory.advice import Advice
from pypto_pro.memory.check import LayoutReport
from pypto_pro.memory.finding import hexa, interval
from pypto_pro.memory.table import Row
from pypto_pro.report import layout_words as words


def layout_markdown(report: LayoutReport, advice: Advice | None = None) -> str:
    """The whole section, ready to paste; with the planner's answer when there is one."""
    title = f"## 3. On-chip layout of `{report.design.kernel}`" if report.design.kernel else "## 3. On-chip layout"
    parts = [title, _specialisation(report), address_table(report), _totals(report), reuse_table(report)]
    parts += [_scales(report), _banks(report), _findings(advice or report), _plan(advice), _checklist(report)]
    return "\n\n".join(p for p in parts if p) + "\n"


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(headings) + " |", "|" + "---|" * len(headings)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def _specialisation(report: LayoutReport) -> str:
    chosen = words.specialisation(report)
    return f"Specialisation: {chosen}." if chosen else ""


def address_table(report: LayoutReport) -> str:
    """One row for every physical slot."""
    headings = ("Space", "Variable", "Slot", "Purpose", "shape", "dtype", "layout", "Start", "Size (B)", "Interval",
                "Lifetime / reuse basis")  # fmt: skip
    return _table(headings, (_row(report, r) for r in report.rows))


def _row(report: LayoutReport, row: Row) -> tuple[str, ...]:
    tile = row.tile
    return (
        row.space.name, f"`{tile.name}`", words.slot_cell(row), words.purpose(tile), f"`{words.shape_cell(tile)}`",
        words.dtype_cell(tile), words.layout_cell(tile), f"`{hexa(row.start)}`", str(row.size),
        f"`{interval(row.start, row.end)}`", words.basis(report, row),
    )  # fmt: skip


def _totals(report: LayoutReport) -> str:
    lines = [words.totals_line(t) for t in report.totals]
    source = words.source_line(report)
    return "\n".join([*(f"- {line}" for line in lines), *([f"\n({source})"] if source else [])])


def reuse_table(report: LayoutReport) -> str:
    """One row a pair of slots that share bytes; empty when none do."""
    if not report.reuses:
        return ""
    headings = ("Id", "Physical interval", "Tile A", "Tile B", "A last read", "B first write", "Protection",
                "Conclusion")  # fmt: skip
    rows = []
    for r in report.reuses:
        last, first = words.moment_cell(report, r)
        where = f"`{r.a.space.name} {interval(r.start, r.end)}`"
        layouts = [words.layout_cell(r.a.tile), words.layout_cell(r.b.tile)]
        note = f" (byte alias, {' / '.join(layouts)})" if layouts[0] != layouts[1] else ""
        rows.append((r.id, where, f"`{r.a.shown}`", f"`{r.b.shown}`", last, first,
                     r.protection, words.conclusion(report, r) + note))  # fmt: skip
    return _table(headings, rows)


def _scales(report: LayoutReport) -> str:
    if not report.scales:
        return ""
    rows = (
        (f"`{p.data.tile.name}`", words.slot_cell(p.data), hexa(p.data.start), f"`{p.scale.tile.name}`",
         hexa(p.scale.start), hexa(p.want) + ("" if p.ok else " (differs)"))
        for p in report.scales
    )  # fmt: skip
    return _table(("Data", "Slot", "Data address", "Scale", "Scale address", "Required"), rows)


def _banks(report: LayoutReport) -> str:
    if not report.banks:
        return ""
    rows = [
        (
            f"`{words.slots_text(p.a)}`",
            words.by_agent(p.a_op, p.a_agent),
            f"`{words.slots_text(p.b)}`",
            words.by_agent(p.b_op, p.b_agent),
            p.groups,
            p.result,
        )
        for p in words.bank_lines(report)
    ]
    return _table(("A", "op", "B", "op", "Bank groups", "Result"), rows)


def _findings(found: LayoutReport | Advice) -> str:
    lines = [f"- {f.severity} {f.code}: {f.diagnostic.message}" for f in found.findings]
    return "\n".join(["Findings:", "", *lines]) if lines else ""


def _plan(advice: Advice | None) -> str:
    if advice is None:
        return ""
    ends = _table(("Space", "Highest before", "Highest planned", "Lower bound", "Quality"), words.plan_rows(advice))
    moved = [(f"`{name}`", line, before, f"`{after}`") for name, line, before, after in words.moved_rows(advice)]
    changes = _table(("Variable", "Line", "Before", "After"), moved) if moved else "Every address stays."
    needs = [f"- {f.diagnostic.message}" for f in advice.assumed]
    required = [f"Required changes. {words.needs_line(advice)}\n\n" + "\n".join(needs)] if needs else []
    return "\n\n".join(["### Planned addresses", ends, changes, *required])


def _checklist(report: LayoutReport) -> str:
    return "\n".join(
        f"- [{'x' if holds else ' '}] {item}: {'yes' if holds else 'no'}" for item, holds in words.checklist(report)
    )
