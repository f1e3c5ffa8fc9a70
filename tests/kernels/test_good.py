"""Whole kernels that are right: equal to numpy on both executors, and nothing to report in any schedule."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

import pypto_pro
from pypto_pro.diag.render_text import render
from pypto_pro.runtime import checking

KERNELS = sorted((Path(__file__).parent / "good").glob("k*.py"))
SCHEDULES = [("in_order", 0), ("latest", 0), ("random", 7)]
HAS_TORCH = importlib.util.find_spec("torch") is not None
Load = Callable[[Path], ModuleType]


def run(module: ModuleType) -> int:
    """The exit status of the kernel file's `main`."""
    with pytest.raises(SystemExit) as ended:
        module.main()
    return int(ended.value.code or 0)


def needs(path: Path) -> None:
    if "torch" in path.name and not HAS_TORCH:
        pytest.skip("torch is not installed")


@pytest.mark.parametrize("path", KERNELS, ids=lambda p: p.stem)
@pytest.mark.parametrize("executor", ["native", "interp"])
def test_values(path: Path, executor: str, load: Load) -> None:
    needs(path)
    with pypto_pro.options(executor=executor):
        assert run(load(path)) == 0


@pytest.mark.parametrize("path", KERNELS, ids=lambda p: p.stem)
@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_nothing_to_report(path: Path, schedule: str, seed: int, load: Load) -> None:
    needs(path)
    reports: list[checking.Report] = []
    with checking.collecting(reports.append), pypto_pro.options(check=True, schedule=schedule, seed=seed):
        assert run(load(path)) == 0
    assert reports
    found = [f for report in reports for f in report.findings if str(f.severity) != "note"]
    assert not found, render(found, color=False)
