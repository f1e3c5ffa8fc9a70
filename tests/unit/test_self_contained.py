"""A clone of the repository is all that its tests need: no tracked file names a path outside the checkout."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
OUTSIDE = re.compile(r"\.\./shared|\bshared/(?:spec|acceptance|model)\b|parents\[3\]")
SOURCES = ("src", "tests", "bench", "examples", "docs")


def test_no_file_names_a_path_outside_the_checkout() -> None:
    files = [
        f for top in SOURCES for f in (ROOT / top).rglob("*") if f.suffix in (".py", ".md", ".yaml", ".json", ".ini")
    ]
    assert len(files) > 100
    found = [
        f"{file.relative_to(ROOT)}:{number}"
        for file in files
        if file != Path(__file__)
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if OUTSIDE.search(line)
    ]
    assert not found
