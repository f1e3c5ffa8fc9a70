"""Reports: what `check` returns, prints and raises, the settings, the command, and its formats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from click.testing import CliRunner, Result
from referencing import Registry, Resource

import pypto_pro
import pypto_pro.language as pl
from pypto_pro import CheckError, Severity
from pypto_pro.cli import main
from pypto_pro.diag.errors import ArgumentKindError
from pypto_pro.runtime.checking import Report

ROOT = Path(__file__).resolve().parents[2]
X = pl.Tensor[[16, 64], pl.DT_FP32]
V, MTE2, MTE3 = pl.PipeType.V, pl.PipeType.MTE2, pl.PipeType.MTE3


def tile():
    return pl.TileType(shape=[16, 64], dtype=pl.DT_FP32)


@pl.jit(auto_mutex=False)
def racy(x: X, y: X):
    with pl.section_vector():
        a = pl.make_tile(tile(), addr=0)
        pl.load(a, x, [0, 0])
        pl.store(y, a, [0, 0])


@pl.jit
def right(x: X, y: X):
    with pl.section_vector():
        g = pl.make_tile_group(type=tile(), addrs=0, mutex_ids=[0])
        pl.load(g[0], x, [0, 0])
        pl.store(y, g[0], [0, 0])


@pl.jit(auto_mutex=False)
def stuck(x: X, y: X):
    with pl.section_vector():
        a = pl.make_tile(tile(), addr=0)
        pl.load(a, x, [0, 0])
        pl.system.sync_src(set_pipe=MTE2, wait_pipe=MTE3, event_id=0)
        pl.system.sync_dst(set_pipe=MTE2, wait_pipe=MTE3, event_id=0)
        pl.store(y, a, [0, 0])
        pl.system.sync_dst(set_pipe=V, wait_pipe=MTE2, event_id=1)


@pl.jit
def branches(x: X, y: X, n: pl.DT_INT32):
    with pl.section_vector():
        g = pl.make_tile_group(type=tile(), addrs=0, mutex_ids=[0])
        pl.load(g[0], x, [0, 0])
        if n > 3:
            pl.exp(g[0], g[0])
        for i in pl.range(0, n):
            pl.exp(g[0], g[0])
        pl.store(y, g[0], [0, 0])


@pl.jit
def follows_data(x: X, y: X):
    with pl.section_vector():
        g = pl.make_tile_group(type=tile(), addrs=0, mutex_ids=[0])
        t = g[0]
        pl.load(t, x, [0, 0])
        if t[0, 0] > 0.0:
            pl.store(y, t, [0, 0])


def arrays() -> tuple[np.ndarray, np.ndarray]:
    return np.ones((16, 64), np.float32), np.zeros((16, 64), np.float32)


# --- from Python ------------------------------------------------------------------------------------------------------


def test_a_clean_report_and_its_outputs() -> None:
    x, y = arrays()
    report = pypto_pro.check(right, x, y)
    assert (report.clean, report.findings) == (True, [])
    assert np.array_equal(x, y)
    assert report.looked_at["kernel"] == "right"
    assert report.looked_at["shapes"] == {"x": [16, 64], "y": [16, 64]}
    (made,) = report.looked_at["runs"]
    assert (made["schedule"], made["seed"], made["finished"]) == ("in_order", 0, True)
    assert made["instructions"] > 2
    assert "no findings" in report.render(color=False)


def test_a_finding_has_everything() -> None:
    (found,) = pypto_pro.check(racy[None, 1], *arrays()).findings
    assert (found.code, found.kind, found.severity) == ("S101", "race", Severity.ERROR)
    assert (found.kernel, found.core, found.pipes, found.count) == ("racy", "AIV", ("MTE3", "MTE2"), 1)
    assert [span.label for span in found.spans] == ["read here on MTE3", "written here on MTE2"]
    assert "0x0..0x1000" in found.notes[0]
    assert "sync_src(set_pipe=MTE2, wait_pipe=MTE3)" in str(found.help)


def test_outputs_as_far_as_the_run_got() -> None:
    x, y = arrays()
    report = pypto_pro.check(stuck[None, 1], x, y)
    assert [f.kind for f in report.findings] == ["deadlock"]
    assert np.array_equal(x, y)
    assert not report.looked_at["runs"][0]["finished"]


def test_mistakes_of_the_launch_are_findings() -> None:
    x, y = arrays()
    for launcher, args, kind in (
        (right, (x.astype(np.float64), y), "type"),
        (right, (x[:8], y), "value"),
        (right, (x,), "type"),
        (right[None, 0], (x, y), "value"),
    ):
        report = pypto_pro.check(launcher, *args)
        assert [f.kind for f in report.findings] == [kind], str(report)
        assert report.looked_at["ran"] is False
        assert "nothing was run" in str(report)


def test_something_that_is_no_kernel() -> None:
    with pytest.raises(ArgumentKindError, match="takes a kernel"):
        pypto_pro.check(print, 1)  # type: ignore[arg-type]


def test_a_check_does_not_see_an_earlier_one() -> None:
    for _ in range(2):
        assert [f.count for f in pypto_pro.check(racy[None, 1], *arrays()).findings] == [1]
        assert pypto_pro.check(right[None, 1], *arrays()).clean


def test_what_was_not_seen() -> None:
    notes = " ".join(pypto_pro.check(branches[None, 1], *arrays(), 0).looked_at["notes"])
    assert "the branch was never taken" in notes
    assert "the loop ran zero times" in notes
    assert "holds for every schedule" in notes
    seen = " ".join(pypto_pro.check(branches[None, 1], *arrays(), 5).looked_at["notes"])
    assert "never taken" not in seen
    assert "zero times" not in seen


def test_order_that_depends_on_data() -> None:
    report = pypto_pro.check(follows_data[None, 1], *arrays())
    assert report.clean, str(report)
    assert any("depend on data read at line" in note for note in report.looked_at["notes"])


def test_several_schedules_start_from_the_same_buffers() -> None:
    x, y = arrays()
    with pypto_pro.options(schedules=4, seed=3):
        report = pypto_pro.check(racy[None, 1], x, y)
    runs = [(run["schedule"], run["seed"]) for run in report.looked_at["runs"]]
    assert runs == [("in_order", 3), ("random", 4), ("random", 5), ("random", 6)]
    assert [f.kind for f in report.findings if str(f.severity) != "note"] == ["race"]


def test_a_finding_says_how_to_see_it_again() -> None:
    with pypto_pro.options(schedule="latest", seed=2):
        (found,) = pypto_pro.check(racy[None, 1], *arrays()).findings[:1]
    assert any("--replay latest:2" in note for note in found.notes)


# --- launches under checks --------------------------------------------------------------------------------------------


def test_checked_launches_raise(capsys: pytest.CaptureFixture[str]) -> None:
    x, y = arrays()
    with pypto_pro.options(check=True):
        right[None, 1](x, y)
        assert capsys.readouterr().err == ""
        with pytest.raises(CheckError) as raised:
            racy[None, 1](x, y)
    assert [f.kind for f in raised.value.findings] == ["race"]
    assert "error[S101]" in capsys.readouterr().err


def test_the_environment_turns_checks_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYPTO_PRO_CHECK", "1")
    with pytest.raises(CheckError):
        racy[None, 1](*arrays())
    monkeypatch.setenv("PYPTO_PRO_CHECK", "0")
    racy[None, 1](*arrays())


# --- the command ------------------------------------------------------------------------------------------------------

SCRIPT = '''
import sys
import numpy as np
import pypto_pro.language as pl

V, MTE3 = pl.PipeType.V, pl.PipeType.MTE3

@pl.jit(auto_mutex=False)
def fill(y: pl.Tensor[[16, 64], pl.DT_FP32]):
    with pl.section_vector():
        a = pl.make_tile(pl.TileType(shape=[16, 64], dtype=pl.DT_FP32), addr=0)
        pl.expands(a, 1.0)
        pl.system.sync_src(set_pipe=V, wait_pipe=MTE3, event_id=0)
        WAIT
        pl.store(y, a, [0, 0])
        MORE

print("hello from the script", sys.argv[1:])
for _ in range(2):
    fill[None, 1](np.zeros((16, 64), np.float32))
END
'''
WAIT = "pl.system.sync_dst(set_pipe=V, wait_pipe=MTE3, event_id=0)"


def run(tmp_path: Path, *options: str, wait: str = WAIT, more: str = "pass", end: str = "") -> Result:
    script = tmp_path / "script.py"
    text = SCRIPT.replace("WAIT", wait).replace("MORE", more).replace("END", end)
    script.write_text(text, encoding="utf-8")
    return CliRunner().invoke(main, ["check", str(script), *options])


def validate(document: Any) -> None:
    def load(name: str) -> Any:
        return json.loads((ROOT / "docs" / name).read_text(encoding="utf-8"))

    registry: Registry[Any] = Registry().with_resource(
        "diagnostics-schema.json", Resource.from_contents(load("diagnostics-schema.json"))
    )
    schema = load("check-report-schema.json")
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema, registry=registry).validate(document)


def test_a_clean_script(tmp_path: Path) -> None:
    done = run(tmp_path, "one", "--flag-of-the-script")
    assert done.exit_code == 0, done.output
    assert "hello from the script ['one', '--flag-of-the-script']" in done.output
    assert "2 launches checked: no findings" in done.output


def test_a_racy_script(tmp_path: Path) -> None:
    done = run(tmp_path, wait="pass", more=WAIT)
    assert done.exit_code == 1
    assert "error[S101]: `store` reads `a` while `expands` may still be writing it" in done.output
    assert "seen 2 times" in done.output


def test_json(tmp_path: Path) -> None:
    done = run(tmp_path, "--json", wait="pass", more=WAIT)
    document = json.loads(done.stdout)
    validate(document)
    assert document["launches"] == 2
    assert [f["kind"] for f in document["findings"]] == ["race"]
    assert document["findings"][0]["count"] == 2
    assert "hello" in done.stderr
    assert "hello" not in done.stdout


def test_json_of_a_refused_launch_is_valid(tmp_path: Path) -> None:
    document = json.loads(run(tmp_path, "--json", more="pl.nothing(a)").stdout)
    validate(document)
    assert document["looked_at"] == [{"kernel": "fill", "ran": False}]
    assert [f["severity"] for f in document["findings"]] == ["error"]


def test_sarif(tmp_path: Path) -> None:
    log = json.loads(run(tmp_path, "--sarif", wait="pass", more=WAIT).stdout)
    schema = json.loads((ROOT / "tests/data/sarif-2.1.0-subset.json").read_text(encoding="utf-8"))
    jsonschema.validate(log, schema)
    (result,) = log["runs"][0]["results"]
    assert (result["ruleId"], len(result["relatedLocations"])) == ("S101", 1)


def test_left_over_flags_name_the_launch_that_starts_with_them(tmp_path: Path) -> None:
    more = "pl.system.sync_src(set_pipe=MTE3, wait_pipe=V, event_id=1)"
    done = run(tmp_path, more=more)
    assert done.exit_code == 1
    assert "still set at the end of the kernel" in done.output
    assert "launch 2, `fill`, would start with it" in done.output


def test_a_script_that_fails(tmp_path: Path) -> None:
    done = run(tmp_path, "--json", end="raise RuntimeError('no')")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["script_failed"] is True
    assert "RuntimeError: no" in done.stderr
    assert run(tmp_path, end="sys.exit(3)").exit_code == 1
    assert run(tmp_path, end="sys.exit(0)").exit_code == 0


def test_replay_and_wrong_usage(tmp_path: Path) -> None:
    document = json.loads(run(tmp_path, "--json", "--replay", "random:7").stdout)
    assert [(r["schedule"], r["seed"]) for r in document["looked_at"][0]["runs"]] == [("random", 7)]
    assert run(tmp_path, "--replay", "backwards:1").exit_code == 2
    assert run(tmp_path, "--schedule", "backwards").exit_code == 2
    assert CliRunner().invoke(main, ["check", str(tmp_path / "missing.py")]).exit_code == 2


def test_render_has_colours_only_when_asked() -> None:
    report: Report = pypto_pro.check(racy[None, 1], *arrays())
    assert "\x1b[" in report.render(color=True)
    assert "\x1b[" not in str(report)
