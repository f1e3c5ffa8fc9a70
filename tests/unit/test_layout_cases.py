"""The worked cases of the layout report, exact: rows, totals, findings with their numbers, proofs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from pypto_pro.diag import Severity
from pypto_pro.diag.errors import ParserTypeError
from pypto_pro.memory.advice import advise
from pypto_pro.memory.check import LayoutReport, check_layout
from pypto_pro.memory.extract import design_of_kernel
from pypto_pro.memory.finding import LayoutFinding
from pypto_pro.memory.plan_file import design_of
from pypto_pro.runtime.inspect import find_kernel, kernel_ir, load_file

CASES = yaml.load((Path(__file__).parents[1] / "data" / "layout-cases.yaml").read_text(), yaml.CSafeLoader)["cases"]
TABLE_CASES = [c for c in CASES if not c.get("plan")]
PLAN_CASES = [c for c in CASES if c.get("plan")]
LEFT_OUT = {"L202", "L209", "L210", "L211"}  # notes that follow from the numbers


def named(case: dict[str, Any]) -> Any:
    return pytest.param(case, id=case["id"])


def as_listed(finding: LayoutFinding, expected: dict[str, Any]) -> dict[str, Any]:
    """The facts of a finding under the keys the case lists."""
    known = {"code": finding.code, "space": finding.space.name if finding.space else None}
    if finding.tiles:
        known["tile"] = finding.tiles[0]
    known |= dict(finding.facts)
    return {key: list(v) if isinstance(v := known.get(key), tuple) else v for key in expected}


def check_findings(found: list[LayoutFinding], expected: list[dict[str, Any]]) -> None:
    assert sorted(f.code for f in found) == sorted(e["code"] for e in expected)
    rest = list(expected)
    for finding in found:
        match = next((e for e in rest if as_listed(finding, e) == e), None)
        assert match is not None, (finding.facts, rest)
        rest.remove(match)


def check_table(report: LayoutReport, expect: dict[str, Any]) -> None:
    rows = [
        {"slot": r.name, "space": r.space.name, "size": r.size, "start": r.start, "end": r.end} for r in report.rows
    ]
    assert sorted(rows, key=lambda r: r["slot"]) == sorted(expect["slots"], key=lambda r: r["slot"])
    spaces = {}
    for t in report.totals:
        entry: dict[str, Any] = {"effective": t.effective, "highest": t.highest, "capacity": t.capacity}
        if t.holes:
            entry["holes"] = [list(h) for h in t.holes]
        if t.percent is not None:
            entry["percent"] = float(f"{t.percent:.1f}")
        spaces[t.space.name] = entry
    assert spaces == expect["spaces"]


@pytest.mark.parametrize("case", [named(c) for c in TABLE_CASES])
def test_table_case(case: dict[str, Any]) -> None:
    report = check_layout(design_of(case))
    expect = case["expect"]
    check_table(report, expect)
    errors = [f for f in report.findings if f.severity is Severity.ERROR]
    others = [f for f in report.findings if f.severity is not Severity.ERROR and f.code not in LEFT_OUT]
    check_findings(errors, expect["errors"])
    check_findings(others, expect["warnings"])
    proved = [
        {"a": r.a.name, "b": r.b.name, "start": r.start, "end": r.end, "kind": r.kind, "proof": r.proof}
        for r in report.reuses
        if r.proof is not None
    ]
    assert proved == expect.get("reuse", [])
    assert report.ok is not bool(expect["errors"])


@pytest.mark.parametrize("case", [named(c) for c in TABLE_CASES if "code" in c])
def test_the_source_of_a_case(case: dict[str, Any], tmp_path: Path) -> None:
    """Its TileTypes stand beside the kernel: fine to look at; a launch asks for them to be made inside."""
    file = tmp_path / "source.py"
    file.write_text(case["code"])
    kernel = find_kernel(load_file(str(file)), None)
    report = check_layout(design_of_kernel(kernel_ir(kernel, to_run=False)))
    check_table(report, case["expect"])
    check_findings([f for f in report.findings if f.severity is Severity.ERROR], case["expect"]["errors"])
    with pytest.raises(ParserTypeError, match="Unsupported closure variable type: TileType"):
        kernel_ir(kernel)


@pytest.mark.parametrize("case", [named(c) for c in PLAN_CASES])
def test_plan_case(case: dict[str, Any]) -> None:
    advice, expect = advise(design_of(case), solver="search"), case["expect"]
    for name, wanted in expect["spaces"].items():
        plan = next(p for p in advice.placement.spaces if p.space.name == name)
        capacity = advice.problem.capacity[plan.space]
        known = {
            "highest": plan.highest,
            "capacity": capacity,
            "lower_bound": plan.lower_bound,
            "optimal": plan.optimal,
            "separations_violated": len(plan.violated),
            "over": plan.highest - (capacity or 0),
        }
        assert {key: known[key] for key in wanted} == wanted
    assert {p.space.name for p in advice.placement.spaces} == set(expect["spaces"])
    check_findings([f for f in advice.findings if f.severity is Severity.ERROR], expect.get("errors", []))
    assert expect["feasible"] is not any(f.code == "L120" for f in advice.findings)
    for name, wanted in expect.get("addresses", {}).items():
        found = next(c for c in advice.changes if c.tile.name == name).after
        assert list(found) == (wanted if isinstance(wanted, list) else [wanted])


def test_every_case_is_here() -> None:
    assert len(TABLE_CASES) + len(PLAN_CASES) == 68
