"""The whole report on one design: rows, verdicts, totals, MX pairs, bank pairs and findings in a fixed order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pypto_pro.diag import Severity
from pypto_pro.memory.banks import BankPair, find_bank_pairs, gathered_findings
from pypto_pro.memory.capacity import Totals, capacity_findings, space_totals
from pypto_pro.memory.design import Design
from pypto_pro.memory.finding import LayoutFinding, finding
from pypto_pro.memory.lifetimes import Key, Life
from pypto_pro.memory.machine import Chip
from pypto_pro.memory.parallel import find_parallel
from pypto_pro.memory.pitches import pitch_findings
from pypto_pro.memory.proofs import Judged, Reuse, judge_overlaps, overlap_findings
from pypto_pro.memory.rules import check_rows
from pypto_pro.memory.scales import ScalePair, scale_findings, scale_pairs
from pypto_pro.memory.table import Row, collect_slots, in_table_order


@dataclass(frozen=True)
class LayoutReport:
    """Everything the outputs show. `rows` are in table order, `findings` by line and code."""

    design: Design
    chip: Chip
    rows: tuple[Row, ...]
    lives: Mapping[Key, Life]
    reuses: tuple[Reuse, ...]
    totals: tuple[Totals, ...]
    scales: tuple[ScalePair, ...]
    banks: tuple[BankPair, ...]
    findings: tuple[LayoutFinding, ...]
    planned: bool = False
    """The addresses are those of a plan: orders that are still missing are part of the plan, not errors."""

    @property
    def ok(self) -> bool:
        """Whether no finding is an error."""
        return not any(f.severity is Severity.ERROR for f in self.findings)

    def to_be_ordered(self, reuse: Reuse) -> bool:
        """Whether this is a plan that asks for the order a reuse still lacks."""
        return self.planned and reuse.orderable

    def reuses_of(self, row: Row) -> list[Reuse]:
        """Verdicts a row takes part in."""
        return [r for r in self.reuses if row.key in (r.a.key, r.b.key)]


def check_layout(design: Design, chip: Chip | None = None, *, planned: bool = False) -> LayoutReport:
    """Check a placed design against the limits of `chip` (default: the A5 snapshot).

    For a plan (`planned`) an order that is still missing is no finding; `advise` lists what has to be added.
    """
    chip = chip or Chip()
    rows, unplaced = collect_slots(design)
    judged = judge_overlaps(design, rows)
    settled = tuple(r for r in judged.reuses if not (planned and r.orderable))
    totals = space_totals(rows, chip, settled, judged.lives)
    pairs = scale_pairs(design, rows)
    findings = list(unplaced)
    for tile in design.tiles:
        mine = [r for r in rows if r.tile is tile]
        findings += check_rows(tile, mine, chip) if mine else ()
    open_ = {frozenset({r.a.name, r.b.name}) for r in judged.reuses if planned and r.orderable}
    findings += [f for f in overlap_findings(design, judged, rows)
                 if f.code != "L104" or frozenset({f.facts["a"], f.facts["b"]}) not in open_]  # fmt: skip
    findings += capacity_findings(totals)
    findings += scale_findings(design, pairs)
    findings += pitch_findings(design)
    findings += _unused(rows, judged)
    banks: tuple[BankPair, ...] = ()
    if not any(f.severity is Severity.ERROR for f in findings):
        # addresses that are wrong anyway say nothing about banks
        banks = find_bank_pairs((*design.parallel, *find_parallel(design)), rows)
        findings += gathered_findings(banks)
    ordered = tuple(sorted(findings, key=lambda f: (f.line or 0, f.code)))
    return LayoutReport(
        design, chip, tuple(in_table_order(rows)), judged.lives, judged.reuses, totals, pairs, banks, ordered, planned
    )


def _read_through_view(row: Row, judged: Judged) -> bool:
    """Whether another name of the same bytes is read."""
    views = [r for r in judged.reuses if r.kind == "view" and r.proof is not None and row.key in (r.a.key, r.b.key)]
    return any(judged.lives[(r.b if r.a.key == row.key else r.a).key].is_read for r in views)


def _unused(rows: tuple[Row, ...], judged: Judged) -> Iterator[LayoutFinding]:
    """L210: slots no access of this specialisation reads."""
    if not judged.evidence.complete:
        return
    for row in rows:
        life = judged.lives[row.key]
        if not life.accessed:
            yield finding("L210", f"nothing in this specialisation touches `{row.shown}`", row.tile, slot=row.index)
        elif not life.is_read and not row.tile.only_scratch and not _read_through_view(row, judged):
            yield finding("L210", f"`{row.shown}` is written but never read", row.tile, slot=row.index)
