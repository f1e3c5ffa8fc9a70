"""Diagnostics that point into the file of the `source` fixture."""

from __future__ import annotations

from pypto_pro.diag import CODES, Diagnostic, Span


def finding(code: str, message: str, *spans: Span, **rest: object) -> Diagnostic:
    """A diagnostic with the code's own kind and severity."""
    entry = CODES[code]
    return Diagnostic(entry.code, entry.kind, entry.severity, message, spans=spans, **rest)  # type: ignore[arg-type]


def race(file: str, **rest: object) -> Diagnostic:
    """A race of `exp` (line 5) with `load` (line 3)."""
    return finding(
        "S101",
        "`exp` reads `a` while the load filling it may still be running",
        Span(file, 5, 11, 5, 12, "read here, on V; nothing orders it after line 3"),
        Span(file, 3, 9, 3, 10, "written here, on MTE2"),
        **rest,
    )
