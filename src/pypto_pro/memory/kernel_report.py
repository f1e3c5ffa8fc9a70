"""The layout report of a kernel as findings that stand without its table: each with the rows it is about."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pypto_pro.ir.nodes import Kernel
from pypto_pro.memory.banks import bank_findings
from pypto_pro.memory.check import LayoutReport, check_layout
from pypto_pro.memory.extract import design_of_kernel
from pypto_pro.memory.finding import LayoutFinding
from pypto_pro.memory.machine import Chip
from pypto_pro.memory.table import row_note


def table_findings(kernel: Kernel, chip: Chip | None = None) -> tuple[LayoutFinding, ...]:
    """All findings on a kernel behind all passes, by line; those about L1 banks last, one by one."""
    report = check_layout(design_of_kernel(kernel), chip)
    others = [f for f in report.findings if f.diagnostic.kind != "bank_conflict"]
    return tuple(_with_rows(f, report, kernel.name) for f in (*others, *bank_findings(report.banks)))


def _with_rows(found: LayoutFinding, report: LayoutReport, kernel: str) -> LayoutFinding:
    """The finding with the table row of every slot it is about."""
    slot = found.facts.get("slot")
    named: Iterable[object] = {found.facts.get("a"), found.facts.get("b")} - {None}
    about = [
        row for row in report.rows
        if (row.name in named if named else row.tile.name in found.tiles and slot in (None, row.slot))
    ]  # fmt: skip
    notes = [row_note(row, report.lives[row.key].kind) for row in about]
    new = [note for note in notes if note not in found.diagnostic.notes]
    return replace(found, diagnostic=replace(found.diagnostic.with_notes(*new), kernel=kernel))
