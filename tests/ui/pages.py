"""Examples of the explain pages, as text to run."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pypto_pro.diag import CODES, Diagnostic
from pypto_pro.diag.explain import explain
from pypto_pro.diag.render_text import render

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def example(code: str, heading: str) -> tuple[str, str] | None:
    """Language and text of the block under a heading of the page, None when there are only words."""
    section = explain(code).split(f"## {heading}\n")[1].split("\n## ")[0]
    found = _BLOCK.search(section)
    return (found[1], found[2]) if found else None


def text_of(code: str, heading: str) -> str:
    """The block's text; the page must have one."""
    found = example(code, heading)
    assert found is not None
    return found[1]


def codes_with(languages: str, heading: str, groups: str) -> list[str]:
    """Codes of these groups (first letters) whose page has a block in one of the languages under the heading."""
    return [
        code
        for code in CODES
        if code[0] in groups and (found := example(code, heading)) is not None and found[0] in languages.split()
    ]


def reported(findings: Iterable[Diagnostic], code: str) -> str:
    """The rendered findings of that code; there must be one."""
    found = list(findings)
    mine = [finding for finding in found if finding.code == code]
    assert mine, f"no {code} in:\n{render(found, color=False)}"
    return render(mine, color=False)


def unwanted(findings: Iterable[Diagnostic], code: str) -> str:
    """The rendered findings that a mended example must not have: the page's code, errors and warnings."""
    return render([f for f in findings if f.code == code or str(f.severity) != "note"], color=False)
