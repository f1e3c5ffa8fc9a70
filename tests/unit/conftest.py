"""Fixtures of the unit tests."""

from __future__ import annotations

from pathlib import Path

import pytest

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
