"""Diagnostics as plain data for `--json`; docs/diagnostics-schema.json states the shape."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pypto_pro.diag.diagnostic import Diagnostic
from pypto_pro.diag.span import Span


def to_json(diagnostics: Iterable[Diagnostic]) -> list[dict[str, Any]]:
    """One object a diagnostic, in the given order, with every key present (None or empty where nothing is known)."""
    return [finding_to_json(diagnostic) for diagnostic in diagnostics]


def finding_to_json(diagnostic: Diagnostic) -> dict[str, Any]:
    """The object for one diagnostic."""
    return {
        "code": diagnostic.code,
        "kind": diagnostic.kind,
        "severity": str(diagnostic.severity),
        "title": diagnostic.title or None,
        "message": diagnostic.message,
        "spans": [span_to_json(span) for span in diagnostic.spans],
        "call_chain": [span_to_json(span) for span in diagnostic.calls],
        "notes": list(diagnostic.notes),
        "consequences": list(diagnostic.consequences),
        "help": diagnostic.help,
        "count": diagnostic.count,
        "kernel": diagnostic.kernel,
        "core": diagnostic.core,
        "pipes": [str(pipe) for pipe in diagnostic.pipes],
    }


def span_to_json(span: Span) -> dict[str, Any]:
    """File, 1-based lines (0 = unknown), 0-based columns, label."""
    return {
        "file": span.file,
        "line": span.line,
        "column": span.column,
        "end_line": max(span.end_line, span.line),
        "end_column": span.end_column,
        "label": span.label,
    }
