"""The plans of the explain pages go through the layout report, or the planner where addresses are left open."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pages import codes_with, reported, text_of, unwanted

from pypto_pro.diag import Diagnostic
from pypto_pro.memory.advice import advise
from pypto_pro.memory.check import check_layout
from pypto_pro.memory.extract import design_of_kernel
from pypto_pro.memory.plan_file import PlanFileError, read_plan
from pypto_pro.runtime.inspect import find_kernel, kernel_ir, load_file

GROUPS = "L"
Golden = Callable[[Path | str, str], None]


def check_plan(text: str) -> list[Diagnostic]:
    """Findings on a plan file."""
    file = Path("plan.yaml")
    file.write_text(text, encoding="utf-8")
    try:
        design = read_plan(file)
    except PlanFileError as error:
        return [error.diagnostic]
    placed = all(tile.addrs is not None for tile in design.tiles)
    return [found.diagnostic for found in (check_layout if placed else advise)(design).findings]


def check_kernel(text: str) -> list[Diagnostic]:
    """Findings on the only kernel of a file."""
    file = Path("laid_out.py")
    file.write_text("import pypto_pro.language as pl\n" + text, encoding="utf-8")
    design = design_of_kernel(kernel_ir(find_kernel(load_file(file))))
    return [found.diagnostic for found in check_layout(design).findings]


@pytest.mark.parametrize("code", codes_with("yaml", "Broken", GROUPS))
def test_broken_plan(code: str, golden: Golden) -> None:
    golden(f"expected/{code}.txt", reported(check_plan(text_of(code, "Broken")), code))


@pytest.mark.parametrize("code", codes_with("yaml", "Mended", GROUPS))
def test_mended_plan(code: str) -> None:
    assert unwanted(check_plan(text_of(code, "Mended")), code) == ""


@pytest.mark.parametrize("code", codes_with("python", "Broken", GROUPS))
def test_broken_kernel(code: str, golden: Golden) -> None:
    golden(f"expected/{code}.txt", reported(check_kernel(text_of(code, "Broken")), code))


@pytest.mark.parametrize("code", codes_with("python", "Mended", GROUPS))
def test_mended_kernel(code: str) -> None:
    assert unwanted(check_kernel(text_of(code, "Mended")), code) == ""
