"""Fixtures of the message tests."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are written to, and named relative to, a directory of their own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("linecache.cache", {})
