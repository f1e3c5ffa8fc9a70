"""The knowledge record (KB_USAGE.json) against its selection (KB_SELECTION.json): K201 to K212.

A record is what an author says about his own work. It is read after the wrapper has been judged from its code alone,
and nothing in it can turn a violation into a pass; the final verdict is the worse of the two.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pypto_pro.diag import Diagnostic, Severity, Span
from pypto_pro.diag.codes import CODES

CONTRACT_VERSION = 3
BOUNDARY = "constraints/wrapper-boundary.md"
STATUSES = ("implemented", "deviated", "not_applicable")
_LOCATED = ("implemented", "deviated")
_ROOTS = ("patterns/", "constraints/")
_HASH_KEYS = ("content_hash", "sha256", "hash")


@dataclass(frozen=True)
class RecordFinding:
    """One broken rule of the record."""

    code: str
    reference: str
    message: str


@dataclass(frozen=True)
class Evidence:
    """What the record is compared with.

    `delivered` maps the delivered files to the symbols they define; `kb_files` the references that exist under the
    knowledge root to their SHA-256, None without a root; `titles` a reference to its title; `claims` are
    verification claims found in the delivered code, as (file, line, text); `final` is false for a staged module.
    """

    wrapper_symbols: tuple[str, ...]
    wrapper_verdict: str
    delivered: dict[str, frozenset[str]]
    kb_files: dict[str, str | None] | None = None
    titles: dict[str, str] = field(default_factory=dict)
    claims: tuple[tuple[str, int, str], ...] = ()
    contract_version: int = CONTRACT_VERSION
    boundary: str = BOUNDARY
    expected_file: str | None = None  # None: test_<op>.py
    strict_binding: bool = False


@dataclass
class RecordReport:
    """The `kb_usage` block of a report. `text` is the record's text, for the lines of diagnostics."""

    file: str
    schema_version: Any
    expected_schema_version: int
    entries: int
    references_selected: int
    references_covered: int
    findings: tuple[RecordFinding, ...]
    boundary_entry: dict[str, Any] | None
    claims_ignored: tuple[str, ...]
    verdict: str
    text: str = field(default="", metadata={"json": False})

    def diagnostics(self) -> list[Diagnostic]:
        """The findings as every renderer takes them, at the line of the record that names the reference."""
        return [
            Diagnostic(
                finding.code,
                CODES[finding.code].kind,
                Severity.ERROR,
                finding.message,
                (Span(self.file, self._line_of(finding.reference)),),
                notes=("a record is a claim; the wrapper is judged from its code alone",),
            )
            for finding in self.findings
        ]

    def _line_of(self, reference: str) -> int:
        lines = self.text.splitlines()
        return next((n for n, line in enumerate(lines, 1) if reference and f'"{reference}"' in line), 1)


def check_record(
    usage: Any, selection: dict[str, Any], evidence: Evidence, *, file: str, text: str = ""
) -> RecordReport:
    """Judge a record. `usage` is the parsed JSON, None when the file is missing, a string when it could not be read."""
    selected = selected_references(selection)
    if not isinstance(usage, dict):
        why = "the record is missing" if usage is None else str(usage)
        found = [RecordFinding("K201", "", why)]
        return _report(file, None, [], selected, found, evidence, text)
    entries = [e for e in usage.get("invariants", []) if isinstance(e, dict)]
    found = [
        *_identity(usage, selection, evidence),
        *_coverage(entries, selected, evidence),
        *(f for entry in entries for f in _entry(entry, selected, selection, evidence)),
        *_repeated_invariants(entries),
        *_boundary(entries, evidence),
        *_hashes(selected, evidence),
        *(
            RecordFinding("K212", "", f"{name}:{line}: the code claims a verification: {claim}")
            for name, line, claim in evidence.claims
        ),
    ]
    return _report(file, usage.get("schema_version"), entries, selected, found, evidence, text)


def _report(
    file: str,
    version: Any,
    entries: list[dict[str, Any]],
    selected: dict[str, dict[str, Any]],
    found: list[RecordFinding],
    evidence: Evidence,
    text: str,
) -> RecordReport:
    covered = {reference_of(e) for e in entries} & selected.keys()
    boundary = next((e for e in entries if reference_of(e) == evidence.boundary), None)
    place = implementation_of(boundary) if boundary else {}
    ignored = []
    if boundary is not None and evidence.wrapper_verdict != "ok":
        reason = boundary.get("justification") or boundary.get("invariant") or "no reason given"
        ignored.append(f"status `{place.get('status')}` of {evidence.boundary} does not override the audit ({reason})")
    ordered = tuple(sorted(dict.fromkeys(found), key=lambda f: (f.code, f.reference, f.message)))
    return RecordReport(
        file,
        version,
        evidence.contract_version,
        len(entries),
        len(selected),
        len(covered),
        ordered,
        {key: place.get(key) for key in ("status", "file", "symbol")} if boundary else None,
        tuple(ignored),
        final_verdict(ordered, evidence.wrapper_verdict),
        text,
    )


def final_verdict(findings: tuple[RecordFinding, ...], wrapper_verdict: str) -> str:
    """The worse of the record's and the wrapper's verdict."""
    return "violation" if findings else wrapper_verdict


def selected_references(selection: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Every selected pattern and constraint by its path."""
    rows = [*_list(selection.get("optional_patterns")), *_list(selection.get("required_constraints"))]
    named = [row if isinstance(row, dict) else {"path": row} for row in rows]
    return {str(row["path"]): row for row in named if row.get("path")}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def reference_of(entry: dict[str, Any]) -> str:
    """The reference of an entry as text."""
    return str(entry.get("reference", ""))


def implementation_of(entry: dict[str, Any]) -> dict[str, Any]:
    """The implementation block of an entry."""
    place = entry.get("implementation")
    return place if isinstance(place, dict) else {}


def _identity(usage: dict[str, Any], selection: dict[str, Any], evidence: Evidence) -> Iterator[RecordFinding]:
    """K202: version, operator and class."""
    version = usage.get("schema_version")
    if version != evidence.contract_version or isinstance(version, bool):
        yield RecordFinding("K202", "", f"schema_version is {version!r}, the contract says {evidence.contract_version}")
    for key in ("op", "class_id"):
        if usage.get(key) != selection.get(key) or not usage.get(key):
            yield RecordFinding("K202", "", f"{key} is {usage.get(key)!r}, the selection says {selection.get(key)!r}")


def _coverage(entries: list[dict[str, Any]], selected: dict[str, Any], evidence: Evidence) -> Iterator[RecordFinding]:
    """K203, K209: a selected reference, and always the boundary, has an entry."""
    present = {reference_of(e) for e in entries}
    for reference in selected.keys() - present:
        yield RecordFinding("K203", reference, f"`{reference}` is selected but has no entry")
    if evidence.boundary not in present:
        yield RecordFinding("K209", evidence.boundary, f"no entry for `{evidence.boundary}`, which every class needs")


def _entry(
    entry: dict[str, Any], selected: dict[str, Any], selection: dict[str, Any], evidence: Evidence
) -> Iterator[RecordFinding]:
    """K204 to K208 of one entry."""
    reference, place = reference_of(entry), implementation_of(entry)
    status = place.get("status")
    why = _bad_reference(reference, selected, evidence)
    if why:
        yield RecordFinding("K204", reference, why)
    why = _bad_invariant(entry, reference, evidence)
    if why:
        yield RecordFinding("K205", reference, why)
    allowed = _LOCATED if evidence.strict_binding else STATUSES
    if status == "verified":
        yield RecordFinding("K206", reference, "status `verified` may only be given by a verifier, in his own report")
    elif status not in allowed:
        yield RecordFinding("K206", reference, f"status {status!r} is none of {', '.join(allowed)}")
    if status != "not_applicable":
        why = _bad_location(place, selection, evidence)
        if why:
            yield RecordFinding("K207", reference, why)
    if status in ("deviated", "not_applicable") and not str(entry.get("justification") or "").strip():
        yield RecordFinding("K208", reference, f"status `{status}` needs a justification")


def _bad_reference(reference: str, selected: dict[str, Any], evidence: Evidence) -> str | None:
    if not reference.startswith(_ROOTS) or ".." in reference.split("/"):
        return f"`{reference}` is no path below patterns/ or constraints/, relative to the knowledge root"
    if reference not in selected:
        return f"`{reference}` is not selected"
    if evidence.kb_files is not None and reference not in evidence.kb_files:
        return f"`{reference}` does not exist under the knowledge root"
    return None


def _bad_invariant(entry: dict[str, Any], reference: str, evidence: Evidence) -> str | None:
    text = str(entry.get("invariant") or "").strip()
    title = evidence.titles.get(reference, reference.rsplit("/", 1)[-1].removesuffix(".md").replace("-", " "))
    if not text:
        return "the invariant is empty"
    if text.casefold() in (title.casefold(), reference.casefold()):
        return f"the invariant repeats the title of its reference: {text}"
    if evidence.strict_binding and not _bound(text):
        return "the invariant does not begin with [<selection field>:<requirement> | <source anchors>]"
    return None


def _bound(text: str) -> bool:
    head, closed, _ = text.partition("]")
    return bool(closed) and head.startswith("[") and ":" in head and "|" in head


def _bad_location(place: dict[str, Any], selection: dict[str, Any], evidence: Evidence) -> str | None:
    file, symbol = place.get("file"), place.get("symbol")
    if not file or not symbol:
        return "implementation.file and implementation.symbol are required for this status"
    expected = evidence.expected_file or f"test_{selection.get('op')}.py"
    if file not in evidence.delivered:
        return f"`{file}` is not part of the delivery"
    if str(file).rsplit("/", 1)[-1] != expected:
        return f"entries must point at `{expected}`, this one at `{file}`"
    if symbol not in evidence.delivered[file]:
        return f"`{file}` defines no `{symbol}`"
    return None


def _repeated_invariants(entries: list[dict[str, Any]]) -> Iterator[RecordFinding]:
    """K205: one sentence for different references."""
    seen: dict[str, str] = {}
    for entry in entries:
        text, reference = str(entry.get("invariant") or "").strip(), reference_of(entry)
        first = seen.setdefault(text, reference)
        if text and first != reference:
            yield RecordFinding("K205", reference, f"the invariant is the one of `{first}`, word for word")


def _boundary(entries: list[dict[str, Any]], evidence: Evidence) -> Iterator[RecordFinding]:
    """K210: the boundary entry says implemented, at the audited wrapper, and the audit agrees."""
    for entry in (e for e in entries if reference_of(e) == evidence.boundary):
        place = implementation_of(entry)
        if place.get("status") != "implemented":
            message = f"the boundary must be `implemented`, the entry says {place.get('status')!r}; no status waives it"
        elif place.get("symbol") not in evidence.wrapper_symbols:
            message = (
                f"the boundary entry points at `{place.get('symbol')}`, audited is {_quoted(evidence.wrapper_symbols)}"
            )
        elif evidence.wrapper_verdict != "ok":
            message = f"the entry claims `implemented`, the audit of the wrapper says {evidence.wrapper_verdict}"
        else:
            continue
        yield RecordFinding("K210", evidence.boundary, message)


def _quoted(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "no wrapper"


def _hashes(selected: dict[str, dict[str, Any]], evidence: Evidence) -> Iterator[RecordFinding]:
    """K211: the reference is the text that was selected."""
    for reference, row in selected.items():
        claimed = next((str(row[key]) for key in _HASH_KEYS if row.get(key)), None)
        actual = (evidence.kb_files or {}).get(reference)
        if claimed and actual and claimed.removeprefix("sha256:").lower() != actual:
            yield RecordFinding("K211", reference, f"`{reference}` has another content than when it was selected")
