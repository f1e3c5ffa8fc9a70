"""Placement at a launch: the rules of the layout report as findings of a check, joined with what the run showed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from pypto_pro.diag import BY_KIND, Diagnostic, Severity
from pypto_pro.diag.codes import CODES
from pypto_pro.diag.errors import PlacementError
from pypto_pro.ir.nodes import Kernel
from pypto_pro.memory.banks import SAME
from pypto_pro.memory.finding import LayoutFinding
from pypto_pro.memory.kernel_report import table_findings

KINDS = ("address_overlap", "misaligned_slot", "over_capacity", "mx_scale_address")
CHECK_CODES = {CODES[c].kind: c for c in ("M101", "M102", "M103", "M104", "M105")}
SHORT = {"L201": "M106", "L112": "M106"}
"""Reservations that are too small: the size that was given, or what its accesses reach beyond it."""
PARTIAL = "L211"
"""Two slots that overlap, neither inside the other."""
EXPLAINED = ("race", "waw_hazard", "lost_load")
"""What two tiles that share bytes bring about."""


def refusal(found: Iterable[LayoutFinding], kernel: str) -> PlacementError:
    """The exception for errors of the placement that forbid a run."""
    return PlacementError.from_findings([_own(f, kernel) for f in found])


def placement_findings(kernel: Kernel, found: list[Diagnostic]) -> list[Diagnostic]:
    """The findings of a run and those about placement; what an overlap explains becomes its consequence.

    Races stay on their own where one tile lies inside the other: that may be a view, and the missing order the mistake.
    """
    table = table_findings(kernel)
    placed = [f for f in one_a_pair(table) if _code_of(f) is not None]
    partial = {(f.facts.get("a"), f.facts.get("b")) for f in table if f.code == PARTIAL}
    rest = list(found)
    made: list[Diagnostic] = []
    for finding in placed:
        diagnostic = _own(finding, kernel.name)
        if diagnostic.kind == "address_overlap":
            caused = [f for f in rest if f.kind in EXPLAINED and _about(f, finding)]
            if finding.facts.get("reason") != "live" and not caused:
                continue  # the run saw every access ordered, which static evidence could not follow
            if (finding.facts.get("a"), finding.facts.get("b")) not in partial:
                caused = [f for f in caused if f.kind != "race"]
            rest = [f for f in rest if f not in caused]
            effects = tuple(f"line {f.spans[0].line}: {f.message}" for f in caused)
            diagnostic = replace(diagnostic, consequences=(*diagnostic.consequences, *effects))
        made.append(diagnostic)
    return sorted([*made, *rest], key=lambda f: (f.severity.rank, f.spans[0].line if f.spans else 0, f.code))


def one_a_pair(found: Iterable[LayoutFinding]) -> Iterator[LayoutFinding]:
    """The findings with one about L1 banks for each pair of tiles, which says how many pairs of accesses meet."""
    told: dict[frozenset[str], list[LayoutFinding]] = {}
    for finding in found:
        if finding.diagnostic.kind != "bank_conflict":
            yield finding
            continue
        told.setdefault(frozenset(finding.tiles), []).append(finding)
    for alike in told.values():
        said, pairs = alike[0].diagnostic, sum(f.facts["pairs"] for f in alike)  # type: ignore[misc]
        notes = tuple(n for n in said.notes if not n.startswith(SAME))
        if pairs > 1:
            notes = (f"{pairs} pairs of accesses to these two tiles meet like this", *notes)
        yield replace(alike[0], diagnostic=replace(said, notes=notes))


def _own(finding: LayoutFinding, kernel: str) -> Diagnostic:
    """Under the code of the checks."""
    said = finding.diagnostic
    own = _code_of(finding)
    assert own is not None
    code = CODES[own]
    severity = Severity.NOTE if code.severity is Severity.NOTE else said.severity
    return replace(said, code=code.code, kind=code.kind, severity=severity, kernel=kernel)


def _code_of(finding: LayoutFinding) -> str | None:
    """The code a check reports it under; None for what only the layout report says."""
    return SHORT.get(finding.code) or CHECK_CODES.get(finding.diagnostic.kind)


def _about(found: Diagnostic, overlap: LayoutFinding) -> bool:
    """Whether a finding of the run is about bytes that two overlapping tiles both call their own."""
    text = " ".join((found.message, *found.notes))
    return all(any(f"`{name}{end}" in text for end in ("`", "[")) for name in overlap.tiles)


assert set(KINDS) <= set(BY_KIND)
