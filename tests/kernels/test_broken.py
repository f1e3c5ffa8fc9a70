"""Kernels with one planted mistake: the report names its kind and its lines, and nothing but its consequences."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

import pypto_pro
from pypto_pro.runtime.checking import Report

KERNELS = sorted((Path(__file__).parent / "broken").glob("b*.py"))
SCHEDULES = [("in_order", 0), ("latest", 0), ("random", 7)]
Load = Callable[[Path], ModuleType]


def check(module: ModuleType, kernel: str, schedule: str = "in_order", seed: int = 0) -> Report:
    with pypto_pro.options(schedule=schedule, seed=seed):
        return pypto_pro.check(getattr(module, kernel)[None, module.BLOCKS], *module.inputs())


def marked(path: Path) -> dict[str, int]:
    from markers import lines_of  # in the folder of the kernels

    found: dict[str, int] = lines_of(str(path))
    return found


def accepted(path: Path, report: Report, expect: dict[str, object]) -> str:
    """What is wrong with a report on a broken kernel; empty when nothing is."""
    lines = marked(path)
    wanted = {lines[mark] for mark in expect["lines"]}  # type: ignore[attr-defined]
    allowed = wanted | {lines[mark] for mark in expect.get("may_name", [])}  # type: ignore[attr-defined]
    serious = [f for f in report.findings if str(f.severity) != "note"]
    if not any(f.kind == expect["kind"] and wanted <= {s.line for s in f.spans} for f in serious):
        return f"no {expect['kind']} at {sorted(wanted)} in:\n{report}"
    extra = [f for f in serious if f.spans and f.spans[0].line not in allowed]
    return f"also reported, at unmarked lines:\n{report}" if extra else ""


@pytest.mark.parametrize("path", KERNELS, ids=lambda p: p.stem)
@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_broken(path: Path, schedule: str, seed: int, load: Load) -> None:
    module = load(path)
    problem = accepted(path, check(module, "BROKEN", schedule, seed), module.EXPECT)
    assert not problem, problem


@pytest.mark.parametrize("path", KERNELS, ids=lambda p: p.stem)
@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_mended(path: Path, schedule: str, seed: int, load: Load) -> None:
    report = check(load(path), "FIXED", schedule, seed)
    assert report.clean, str(report)


@pytest.mark.parametrize("path", KERNELS, ids=lambda p: p.stem)
@pytest.mark.parametrize("executor", ["native", "interp"])
def test_mended_values(path: Path, executor: str, load: Load) -> None:
    with pypto_pro.options(executor=executor), pytest.raises(SystemExit) as ended:
        load(path).main()
    assert not ended.value.code
