"""JSON and SARIF forms against their schemas; pages of `explain`; nearest names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from diag_samples import finding, race

from pypto_pro.diag import BY_KIND, CODES, NOWHERE, Diagnostic, Severity, Span
from pypto_pro.diag.explain import explain
from pypto_pro.diag.names import did_you_mean, nearest
from pypto_pro.diag.render_json import to_json
from pypto_pro.diag.render_sarif import to_sarif

ROOT = Path(__file__).resolve().parents[2]


def schema(path: str) -> Any:
    loaded = json.loads((ROOT / path).read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(loaded)
    return loaded


def samples(file: str) -> list[Diagnostic]:
    away = Span("/some where/lib.py", 3, 0, 4, 2, "far", inlined_at=Span(file, 2, 4, label="grab"))
    return [
        race(file, count=7, help="wait", pipes=("MTE2", "V"), consequences=("a hang",), core="AIV0"),
        finding("D102", "past the end", away, title="ParserTypeError", notes=("one", "two")),
        finding("P020", "no place", NOWHERE),
        Diagnostic("L001", "slot", Severity.WARNING, "a code of the layout report"),
    ]


def test_json_is_valid_and_complete(source: str) -> None:
    found = to_json(samples(source))
    jsonschema.validate(found, schema("docs/diagnostics-schema.json"))
    assert json.loads(json.dumps(found)) == found
    assert [span["line"] for span in found[0]["spans"]] == [5, 3]
    assert (found[0]["count"], found[0]["pipes"]) == (7, ["MTE2", "V"])
    assert [site["label"] for site in found[1]["call_chain"]] == ["grab"]


def test_the_json_schema_rejects_what_is_wrong(source: str) -> None:
    good = to_json(samples(source))[0]
    for broken in ({**good, "severity": "fatal"}, {**good, "code": "race"}, {**good, "count": 0}, {"code": "S101"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate([broken], schema("docs/diagnostics-schema.json"))


def test_sarif_is_valid(source: str) -> None:
    log = to_sarif(samples(source), "1.2.3")
    jsonschema.validate(log, schema("tests/data/sarif-2.1.0-subset.json"))
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["version"] == "1.2.3"
    for result in run["results"]:
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
    first, second, nowhere, _ = run["results"]
    (place,) = first["locations"]
    assert place["physicalLocation"]["artifactLocation"] == {"uri": "k.py", "uriBaseId": "SRCROOT"}
    region = {"startLine": 5, "startColumn": 12, "endLine": 5, "endColumn": 13}
    assert place["physicalLocation"]["region"] == region
    assert first["relatedLocations"][0]["message"]["text"] == "written here, on MTE2"
    assert second["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "file:///some%20where/lib.py"
    assert second["stacks"][0]["frames"][0]["location"]["physicalLocation"]["region"]["startLine"] == 2
    assert nowhere["locations"] == []


def test_sarif_fingerprint_survives_moved_lines(tmp_path: Path) -> None:
    prints = []
    for name, above in (("a.py", ""), ("b.py", "\n\n")):
        (tmp_path / name).write_text(above + "load(a, x)\n", encoding="utf-8")
        span = Span(str(tmp_path / name), 1 + len(above), 0, 0, 4)
        result = to_sarif([finding("S101", "m", span)], "1")["runs"][0]["results"][0]
        prints.append(result["partialFingerprints"]["pyptoPro/v1"])
    assert prints[0] == prints[1]


def test_codes_are_unique_and_kinds_lead_to_them() -> None:
    assert all(code == entry.code for code, entry in CODES.items())
    assert {entry.kind for entry in CODES.values()} == set(BY_KIND)


@pytest.mark.parametrize("code", CODES)
def test_every_code_has_a_page(code: str) -> None:
    text = explain(code.lower())
    lines = text.splitlines()
    assert lines[0] == f"# {code} {CODES[code].kind} ({CODES[code].severity}): {CODES[code].meaning}"
    assert 15 <= len(lines) <= 90
    assert max(map(len, lines[1:])) <= 120
    headings = [line for line in lines if line.startswith("## ")]
    assert headings == ["## Broken", "## Mended", "## On the device"]


def test_every_page_has_a_code() -> None:
    assert {path.stem for path in (ROOT / "src/pypto_pro/diag/pages").iterdir()} == set(CODES)


def test_an_unknown_code_offers_the_nearest() -> None:
    with pytest.raises(KeyError, match="unknown code 'S1O1'; did you mean S1"):
        explain("S1O1")


@pytest.mark.parametrize(
    ("name", "found"), [("set_validshap", "set_validshape"), ("LOAD", "load"), ("zzz", None), ("", None)]
)
def test_nearest(name: str, found: str | None) -> None:
    candidates = ["load", "store", "set_validshape", "move"]
    assert nearest(name, candidates) == found
    assert did_you_mean(name, candidates) == (f"did you mean `{found}`?" if found else None)
