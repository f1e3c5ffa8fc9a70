"""The knowledge record: every `kb_cases` entry of the corpus, and the rules the corpus does not reach."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from pypto_pro.audit.knowledge import Evidence, check_record
from pypto_pro.audit.knowledge_files import read_json, reference_hashes, reference_titles, verification_claims
from pypto_pro.audit.source import Source

CORPUS: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parents[1] / "data" / "wrapper-cases.yaml").read_text(encoding="utf-8")
)
DEFAULTS: dict[str, Any] = CORPUS["kb_defaults"]
KB_CASES: list[dict[str, Any]] = CORPUS["kb_cases"]


def evidence_of(case: dict[str, Any], **changes: Any) -> Evidence:
    values: dict[str, Any] = {
        "wrapper_symbols": (DEFAULTS["wrapper_symbol"],),
        "wrapper_verdict": case.get("wrapper", DEFAULTS["wrapper"]),
        "delivered": {name: frozenset(symbols) for name, symbols in DEFAULTS["delivered"].items()},
        "kb_files": dict.fromkeys(DEFAULTS["kb_files"]),
        "contract_version": DEFAULTS["contract_version"],
        "boundary": DEFAULTS["boundary"],
    }
    return Evidence(**{**values, **changes})


@pytest.mark.parametrize("case", KB_CASES, ids=[case["id"] for case in KB_CASES])
def test_corpus(case: dict[str, Any]) -> None:
    selection = case.get("selection", DEFAULTS["selection"])
    report = check_record(case["usage"], selection, evidence_of(case), file="KB_USAGE.json")
    assert {finding.code for finding in report.findings} == set(case["expect"]["codes"])
    assert report.verdict == case["expect"]["final"]


def record(**changes: Any) -> dict[str, Any]:
    """The legal record of the corpus, changed."""
    usage: dict[str, Any] = json.loads(json.dumps(KB_CASES[0]["usage"]))
    usage.update(changes)
    return usage


def codes(usage: Any, selection: dict[str, Any] | None = None, **changes: Any) -> set[str]:
    report = check_record(usage, selection or DEFAULTS["selection"], evidence_of({}, **changes), file="KB_USAGE.json")
    return {finding.code for finding in report.findings}


@pytest.mark.parametrize("status", ["implemented", "deviated", "not_applicable"])
def test_no_status_overrides_a_violation(status: str) -> None:
    usage = record()
    usage["invariants"][0]["implementation"]["status"] = status
    usage["invariants"][0]["justification"] = "the profile shows no cost"
    report = check_record(
        usage,
        DEFAULTS["selection"],
        evidence_of({"wrapper": "violation"}),
        file="KB_USAGE.json",
        text=json.dumps(usage),
    )
    assert report.verdict == "violation"
    assert {finding.code for finding in report.findings} == {"K210"}
    assert report.claims_ignored
    assert status in report.claims_ignored[0]


def test_an_unproven_wrapper_makes_the_claim_false() -> None:
    report = check_record(record(), DEFAULTS["selection"], evidence_of({"wrapper": "unproven"}), file="f")
    assert [finding.code for finding in report.findings] == ["K210"]


def test_invariants_that_say_nothing() -> None:
    usage = record()
    usage["invariants"][0]["invariant"] = ""
    assert codes(usage) == {"K205"}
    usage["invariants"][0]["invariant"] = "Wrapper boundary"
    assert codes(usage) == {"K205"}


def test_one_sentence_for_two_references() -> None:
    selection = json.loads(json.dumps(DEFAULTS["selection"]))
    selection["required_constraints"].append({"path": "constraints/precision.md", "reason": "BF16 input"})
    usage = record()
    usage["invariants"].append({**usage["invariants"][0], "reference": "constraints/precision.md"})
    assert codes(usage, selection) == {"K205"}


@pytest.mark.parametrize(
    "reference", ["/kb/constraints/wrapper-boundary.md", "constraints/../x.md", "notes/x.md", "constraints/none.md"]
)
def test_references_that_are_none(reference: str) -> None:
    usage = record()
    usage["invariants"].append(
        {
            "reference": reference,
            "invariant": "something else",
            "implementation": {"file": "test_op.py", "symbol": "op_kernel", "status": "implemented"},
        }
    )
    assert codes(usage) == {"K204"}


def test_a_selected_reference_that_does_not_exist() -> None:
    assert codes(record(), kb_files={"constraints/precision.md": None}) == {"K204"}


def test_hash_of_a_reference(tmp_path: Path) -> None:
    (tmp_path / "constraints").mkdir()
    page = tmp_path / "constraints" / "wrapper-boundary.md"
    page.write_text("# Host wrapper boundary\n", encoding="utf-8")
    selection = json.loads(json.dumps(DEFAULTS["selection"]))
    selection["required_constraints"][0]["content_hash"] = hashlib.sha256(page.read_bytes()).hexdigest()
    hashes = reference_hashes(tmp_path)
    assert codes(record(), selection, kb_files=hashes) == set()
    page.write_text("# Host wrapper boundary\nchanged\n", encoding="utf-8")
    assert codes(record(), selection, kb_files=reference_hashes(tmp_path)) == {"K211"}
    titles = reference_titles(tmp_path, ["constraints/wrapper-boundary.md"])
    usage = record()
    usage["invariants"][0]["invariant"] = "host wrapper boundary"
    assert codes(usage, titles=titles) == {"K205"}


def test_location_rules() -> None:
    usage = record()
    usage["invariants"][0]["implementation"]["file"] = "other.py"
    assert codes(usage) == {"K207"}
    other = {"other.py": frozenset({"op_wrapper"}), "test_op.py": frozenset({"op_wrapper"})}
    assert codes(usage, delivered=other) == {"K207"}  # exists, but a final entry points at test_<op>.py
    assert codes(usage, delivered=other, expected_file="other.py") == set()
    del usage["invariants"][0]["implementation"]["symbol"]
    assert codes(usage) == {"K207", "K210"}


def test_strict_binding() -> None:
    usage = record()
    assert codes(usage, strict_binding=True) == {"K205"}
    usage["invariants"][0]["invariant"] = "[required_constraints:R1 | design.md#3] one launch, one empty"
    assert codes(usage, strict_binding=True) == set()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "no valid JSON"),
        ('{"op": "a", "op": "b"}', "duplicate key 'op'"),
        ('{"op": "{op}"}', "placeholder"),
        ("[]", "no JSON object"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "KB_USAGE.json"
    path.write_text(text, encoding="utf-8")
    usage = read_json(path)
    assert why in usage
    assert codes(usage) == {"K201"}


def test_a_missing_file_is_none(tmp_path: Path) -> None:
    assert read_json(tmp_path / "none.json") is None


def test_verification_claims_in_code() -> None:
    text = (
        '"""Operator.\n\nStatus: validated\nbest accuracy reached: 99.9 %\n"""\n'
        '# PASS\n# passes the tensor on\n# password\nx = "PASS"\n'
    )
    claims = verification_claims(Source.parse(text, "test_op.py"))
    assert [line for _, line, _ in claims] == [3, 4, 6]
    assert codes(record(), claims=claims) == {"K212"}


def test_diagnostics_point_into_the_record() -> None:
    usage = record(schema_version=2)
    text = json.dumps(usage, indent=1)
    report = check_record(
        usage, DEFAULTS["selection"], evidence_of({"wrapper": "violation"}), file="KB_USAGE.json", text=text
    )
    by_code = {d.code: d for d in report.diagnostics()}
    assert by_code["K202"].spans[0].line == 1
    line = by_code["K210"].spans[0].line
    assert "constraints/wrapper-boundary.md" in text.splitlines()[line - 1]
