"""Every explain page is true: its broken example is reported with the page's code, its mended one is not.

Kernels go through `pypto_pro.check`, plans through the layout report; what the report says about each broken example
is kept in `expected/<CODE>.txt`, so that a changed message is seen in review.
"""

from __future__ import annotations

import ast
import re
import sys
import types
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

import pypto_pro
from pypto_pro.diag import CODES, Diagnostic
from pypto_pro.diag.explain import explain
from pypto_pro.diag.render_text import render
from pypto_pro.memory.advice import advise
from pypto_pro.memory.check import check_layout
from pypto_pro.memory.plan_file import PlanFileError, read_plan

PRELUDE = "import numpy as np\nimport pypto_pro.language as pl\n"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
Golden = Callable[[Path | str, str], None]


def example(code: str, heading: str) -> tuple[str, str] | None:
    """Language and text of the block under a heading of the page, None when there are only words."""
    section = explain(code).split(f"## {heading}\n")[1].split("\n## ")[0]
    found = BLOCK.search(section)
    return (found[1], found[2]) if found else None


def with_example(language: str, heading: str) -> list[str]:
    """Codes whose page has a block of that language under the heading."""
    return [code for code in CODES if (found := example(code, heading)) and found[0] == language]


def check_kernel(text: str) -> list[Diagnostic]:
    """Findings of the launch the block ends with; the launches before it only run."""
    file = Path("kernel.py")
    file.write_text(PRELUDE + text, encoding="utf-8")
    tree = ast.parse(PRELUDE + text)
    last = tree.body[-1]
    assert isinstance(last, ast.Expr)
    assert isinstance(last.value, ast.Call)
    launch = last.value
    launch.args.insert(0, launch.func)
    launch.func = ast.copy_location(ast.Name("check_launch", ast.Load()), launch)
    tree.body[-1] = ast.copy_location(ast.Assign([ast.Name("REPORT", ast.Store())], launch), last)
    module = types.ModuleType("kernel")
    module.__file__ = str(file.resolve())
    module.check_launch = pypto_pro.check  # type: ignore[attr-defined]
    sys.modules["kernel"] = module
    exec(compile(ast.fix_missing_locations(tree), str(file.resolve()), "exec"), module.__dict__)
    return list(module.REPORT.findings)


def check_plan(text: str) -> list[Diagnostic]:
    """Findings of the layout report on a plan, those of the planner when it leaves addresses open."""
    file = Path("plan.yaml")
    file.write_text(text, encoding="utf-8")
    try:
        design = read_plan(file)
    except PlanFileError as error:
        return [error.diagnostic]
    placed = all(tile.addrs is not None for tile in design.tiles)
    return [found.diagnostic for found in (check_layout if placed else advise)(design).findings]


def of_code(findings: Iterable[Diagnostic], code: str) -> list[Diagnostic]:
    return [finding for finding in findings if finding.code == code]


@pytest.fixture(autouse=True)
def in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("linecache.cache", {})


@pytest.mark.parametrize("code", with_example("python", "Broken"))
def test_broken_kernel(code: str, golden: Golden) -> None:
    language_and_text = example(code, "Broken")
    assert language_and_text is not None
    findings = check_kernel(language_and_text[1])
    assert of_code(findings, code), render(findings, color=False)
    golden(f"expected/{code}.txt", render(of_code(findings, code), color=False))


@pytest.mark.parametrize("code", with_example("python", "Mended"))
def test_mended_kernel(code: str) -> None:
    language_and_text = example(code, "Mended")
    assert language_and_text is not None
    left = [f for f in check_kernel(language_and_text[1]) if f.code == code or str(f.severity) != "note"]
    assert not left, render(left, color=False)


@pytest.mark.parametrize("code", with_example("yaml", "Broken"))
def test_broken_plan(code: str, golden: Golden) -> None:
    language_and_text = example(code, "Broken")
    assert language_and_text is not None
    findings = check_plan(language_and_text[1])
    assert of_code(findings, code), render(findings, color=False)
    golden(f"expected/{code}.txt", render(of_code(findings, code), color=False))


@pytest.mark.parametrize("code", with_example("yaml", "Mended"))
def test_mended_plan(code: str) -> None:
    language_and_text = example(code, "Mended")
    assert language_and_text is not None
    left = [f for f in check_plan(language_and_text[1]) if f.code == code or str(f.severity) != "note"]
    assert not left, render(left, color=False)


def test_every_page_has_an_example() -> None:
    assert all(example(code, "Broken") for code in CODES)
