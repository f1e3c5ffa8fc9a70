"""A source file on disk and the diagnostics that point into it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pypto_pro.diag import CODES, Diagnostic, Span

SOURCE = """\
def softmax(x, y):
    a = make_tile(T, addr=0)
    load(a, x)

    exp(y, a)
\tadd(y, "宽字", a)  # a tab, two wide characters
    store(
        y,
        a,
    )
    # far
    # away
    # from
    # here
    wait(3)
"""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """`k.py` in the current directory; its name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.setattr("linecache.cache", {})
    return str(tmp_path / "k.py")


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
