"""Small programs against exhaustive search: right ones are silent, and what is taken from them is missed.

`interleavings` is a model of its own; it tells which mutants can go wrong at all. What the checks say is then compared
with it: silent on every right program, a finding on every mutant that has another outcome in some interleaving.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from interleavings import Explorer, Program
from small_programs import as_seen, exchange, kernel, mutants, random_program

import pypto_pro
from pypto_pro.runtime.checking import Report


def arrays() -> list[np.ndarray]:
    x = np.arange(32 * 64, dtype=np.float32).reshape(32, 64)
    return [x, np.zeros_like(x), np.zeros_like(x)]


def check(folder: Path, name: str, program: Program, blocks: int = 1) -> Report:
    return pypto_pro.check(kernel(folder, name, program)[None, blocks], *arrays())


def survey(folder: Path, name: str, program: Program, blocks: int = 1) -> Counter[tuple[str, str]]:
    """Mutants of a program by kind: `found`, `missed`, or `harmless` when no interleaving changes the outcome."""
    (right,) = Explorer(as_seen(program, blocks)).outcomes()
    report = check(folder, name, program, blocks)
    assert report.clean, str(report)
    seen: Counter[tuple[str, str]] = Counter()
    for number, (kind, mutant) in enumerate(mutants(program)):
        if Explorer(as_seen(mutant, blocks)).outcomes(until=right) == {right}:
            seen[kind, "harmless"] += 1
            continue
        found = not check(folder, f"{name}_{number}", mutant, blocks).clean
        seen[kind, "found" if found else "missed"] += 1
    return seen


def assert_all_found(seen: Counter[tuple[str, str]]) -> None:
    missed = {kind: n for (kind, what), n in seen.items() if what == "missed"}
    assert not missed, dict(seen)
    assert sum(n for (_, what), n in seen.items() if what == "found") > 0


@pytest.mark.parametrize("seed", range(12))
def test_right_programs_have_one_result(seed: int, tmp_path: Path) -> None:
    made = kernel(tmp_path, f"right_{seed}", random_program(seed, 6))
    results = set()
    for schedule, number in [("in_order", 0), ("latest", 0), *(("random", n) for n in range(18))]:
        given: list[Any] = arrays()
        with pypto_pro.options(schedule=schedule, seed=number):
            report = pypto_pro.check(made[None, 1], *given)
        assert report.clean, str(report)
        results.add(given[-1].tobytes())
    assert len(results) == 1


@pytest.mark.parametrize("seed", range(9))
def test_what_is_taken_from_a_right_program_is_missed(seed: int, tmp_path: Path) -> None:
    assert_all_found(survey(tmp_path, f"small_{seed}", random_program(seed, 5)))


def test_blocks_that_meet(tmp_path: Path) -> None:
    assert_all_found(survey(tmp_path, "exchange", exchange(0), blocks=2))


@pytest.mark.slow
def test_blocks_that_meet_twice(tmp_path: Path) -> None:
    assert_all_found(survey(tmp_path, "exchange_twice", exchange(1), blocks=2))


@pytest.mark.slow
def test_many_programs(tmp_path: Path) -> None:
    seen: Counter[tuple[str, str]] = Counter()
    for seed in range(100, 160):
        seen += survey(tmp_path, f"many_{seed}", random_program(seed, 6))
    assert_all_found(seen)
    assert {kind for kind, what in seen if what == "found"} >= {"set", "wait", "lock", "unlock", "bar_all"}


def test_the_model_itself() -> None:
    """A race has several outcomes, a missing set leaves the machine stuck, an extra one is an error."""
    program = random_program(0, 5)
    by_kind = dict(mutants(program))
    assert Explorer(as_seen(by_kind["set"])).outcomes() == {"stuck"}
    assert "something is still set at the end" in Explorer(as_seen(by_kind["wait"])).outcomes()
