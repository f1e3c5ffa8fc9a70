"""Diagnostics as a SARIF 2.1.0 log, which code hosts and editors show beside the source."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pypto_pro.diag.codes import CODES
from pypto_pro.diag.diagnostic import Diagnostic
from pypto_pro.diag.render_text import shown_path
from pypto_pro.diag.span import Span

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"
ROOT = "SRCROOT"


def to_sarif(diagnostics: Iterable[Diagnostic], version: str) -> dict[str, Any]:
    """A log with one run of `pypto-pro` at `version`: a rule for each code met, a result for each diagnostic.

    Files below the current directory are given relative to it, others as file URIs.
    """
    found = list(diagnostics)
    codes = sorted({diagnostic.code for diagnostic in found})
    driver = {"name": "pypto-pro", "version": version, "rules": [_rule(code) for code in codes]}
    run = {
        "tool": {"driver": driver},
        "originalUriBaseIds": {ROOT: {"uri": f"{Path.cwd().as_uri()}/"}},
        "columnKind": "unicodeCodePoints",
        "results": [_result(diagnostic, codes.index(diagnostic.code)) for diagnostic in found],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(code: str) -> dict[str, Any]:
    entry = CODES.get(code)
    if entry is None:  # the layout report's own codes
        return {"id": code}
    return {
        "id": code,
        "name": "".join(part.capitalize() for part in entry.kind.split("_")),
        "shortDescription": {"text": entry.meaning},
        "defaultConfiguration": {"level": str(entry.severity)},
        "help": {"text": f"pypto-pro explain {code}"},
    }


def _result(diagnostic: Diagnostic, rule_index: int) -> dict[str, Any]:
    placed = [span for span in diagnostic.spans if span.line > 0]
    result: dict[str, Any] = {
        "ruleId": diagnostic.code,
        "ruleIndex": rule_index,
        "level": str(diagnostic.severity),
        "message": {"text": _message(diagnostic)},
        "locations": [_location(span) for span in placed[:1]],
        "relatedLocations": [_location(span) for span in placed[1:]],
        "occurrenceCount": diagnostic.count,
        "partialFingerprints": {"pyptoPro/v1": _fingerprint(diagnostic)},
        "properties": {"kind": diagnostic.kind, "pipes": [str(pipe) for pipe in diagnostic.pipes]},
    }
    if diagnostic.calls:
        frames = [{"location": _location(site)} for site in diagnostic.calls]
        result["stacks"] = [{"message": {"text": "calls of inlined helpers"}, "frames": frames}]
    return result


def _message(diagnostic: Diagnostic) -> str:
    """Message and facts as paragraphs: viewers show nothing else."""
    extra = (*diagnostic.notes, *(f"as a consequence: {text}" for text in diagnostic.consequences))
    help_text = (f"help: {diagnostic.help}",) if diagnostic.help else ()
    return "\n".join((diagnostic.message, *extra, *help_text))


def _location(span: Span) -> dict[str, Any]:
    region = {"startLine": span.line, "startColumn": span.column + 1}  # SARIF counts columns from 1
    if span.end_column and (span.end_line > span.line or span.end_column > span.column):
        region |= {"endLine": max(span.end_line, span.line), "endColumn": span.end_column + 1}
    location: dict[str, Any] = {"physicalLocation": {"artifactLocation": _artifact(span.file), "region": region}}
    if span.label:
        location["message"] = {"text": span.label}
    return location


def _artifact(file: str) -> dict[str, str]:
    path = Path(shown_path(file))
    return {"uri": path.as_uri()} if path.is_absolute() else {"uri": quote(path.as_posix()), "uriBaseId": ROOT}


def _fingerprint(diagnostic: Diagnostic) -> str:
    """Stable while the lines' text and the code stay, wherever the lines move."""
    lines = [span.source_line().strip() for span in diagnostic.spans]
    return hashlib.sha256("\n".join((diagnostic.code, diagnostic.kernel or "", *lines)).encode()).hexdigest()[:16]
