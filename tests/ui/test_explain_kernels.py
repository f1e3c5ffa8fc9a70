"""The kernels of the explain pages are true: the broken one is reported with the page's code, the mended one is clean.

What the report says about each broken example is kept in `expected/<CODE>.txt`, so that a changed message is seen in
review.
"""

from __future__ import annotations

import ast
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest
from pages import codes_with, example, reported, text_of, unwanted

import pypto_pro
from pypto_pro.diag import CODES, Diagnostic

pytest.importorskip("pypto_pro.runtime.checking")
PRELUDE = "import numpy as np\nimport pypto_pro.language as pl\n"
GROUPS = "PSDM"
Golden = Callable[[Path | str, str], None]


def check_kernel(text: str) -> list[Diagnostic]:
    """Findings of the launch the block ends with; the launches before it only run."""
    file = Path("kernel.py").resolve()
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
    module.__file__ = str(file)
    module.check_launch = pypto_pro.check  # type: ignore[attr-defined]
    sys.modules["kernel"] = module
    exec(compile(ast.fix_missing_locations(tree), str(file), "exec"), module.__dict__)
    return list(module.REPORT.findings)


@pytest.mark.parametrize("code", codes_with("python", "Broken", GROUPS))
def test_broken(code: str, golden: Golden) -> None:
    golden(f"expected/{code}.txt", reported(check_kernel(text_of(code, "Broken")), code))


@pytest.mark.parametrize("code", codes_with("python", "Mended", GROUPS))
def test_mended(code: str) -> None:
    assert unwanted(check_kernel(text_of(code, "Mended")), code) == ""


def test_every_page_has_an_example() -> None:
    assert [code for code in CODES if example(code, "Broken") is None] == []
