"""The cheap part of the layout report for a launch under checks: errors of the placement, each with its table row."""

from __future__ import annotations

from dataclasses import replace

from pypto_pro.diag import Diagnostic, Severity
from pypto_pro.ir.nodes import Kernel
from pypto_pro.memory.check import LayoutReport, check_layout
from pypto_pro.memory.extract import design_of_kernel
from pypto_pro.memory.finding import LayoutFinding, interval
from pypto_pro.memory.machine import Chip


def placement_errors(kernel: Kernel, chip: Chip | None = None) -> tuple[Diagnostic, ...]:
    """Layout errors of a kernel behind all passes, by line. Warnings and notes are left to `pypto-pro layout`."""
    report = check_layout(design_of_kernel(kernel), chip)
    return tuple(_with_rows(f, report, kernel.name) for f in report.findings if f.severity is Severity.ERROR)


def _with_rows(found: LayoutFinding, report: LayoutReport, kernel: str) -> Diagnostic:
    """The diagnostic with the table row of every slot it is about."""
    slot = found.facts.get("slot")
    named = {found.facts.get("a"), found.facts.get("b")} - {None}
    rows = []
    for row in report.rows:
        about = row.name in named if named else row.tile.name in found.tiles and slot in (None, row.slot)
        if about:
            life = report.lives[row.key].kind
            rows.append(f"row: {row.space.name} {row.name} {interval(row.start, row.end)} {row.size} B, {life}")
    return replace(found.diagnostic.with_notes(*rows), kernel=kernel)
