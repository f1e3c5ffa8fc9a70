"""A few damaged kernels through the whole package; `python tests/fuzz/run.py` runs as many as one likes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "fuzz"
FEW = 60

if sys.platform == "win32":
    pytest.skip("the worker sets limits that only Unix has", allow_module_level=True)

sys.path.insert(0, str(FOLDER))
try:
    import damage
    import run
finally:
    sys.path.remove(str(FOLDER))


def test_every_answer_is_one_of_the_language() -> None:
    found = [*run.answers(range(FEW))]
    assert len(found) == FEW
    assert [f"seed {row['seed']}: {row['problem']}" for row in found if "problem" in row] == []
    assert len({row["answer"] for row in found}) > 3


def test_damage_repeats_and_damages() -> None:
    made = [damage.damaged(seed) for seed in range(20)]
    assert made == [damage.damaged(seed) for seed in range(20)]
    assert all(text != file.read_text(encoding="utf-8") for file, text in made)


def test_a_process_that_dies_or_hangs_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = run.Worker(str(tmp_path))
    worker.start()
    worker.child.kill()
    assert "ended with" in worker.run(1)["problem"]
    monkeypatch.setattr(run, "HANG_SECONDS", 0.01)
    assert "hangs" in worker.run(2)["problem"]
    worker.stop()
