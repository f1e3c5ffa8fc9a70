"""Recorded calls: what a wrapper really does agrees with what the static audit says about it."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml
from audit_stub import install

from pypto_pro.audit import Options, audit, audit_call, record_wrapper
from pypto_pro.audit.evidence import apply_records
from pypto_pro.audit.recorder import classify_function
from pypto_pro.audit.runner import run_report
from pypto_pro.runtime import launch_hooks

torch = pytest.importorskip("torch")

CORPUS: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parents[1] / "data" / "wrapper-cases.yaml").read_text(encoding="utf-8")
)
CASES: list[dict[str, Any]] = CORPUS["cases"]
OK_CASES = [case for case in CASES if case["verdict"] == "ok"]
# Broken cases whose breach happens when the wrapper is called with valid inputs, on a machine without a device.
FLOW_CODES = {f"W{n}" for n in range(101, 114)} - {"W108", "W109", "W111"}
NOT_AT_CALL_TIME = {"bad-default-argument", "bad-module-constant", "bad-golden-fallback", "bad-fstring-in-raise"}
UNSEEN = {"bad-compare-none-with-operator"}  # torch answers `!= None` before either mode is asked
SEEN_LATER = {"bad-bound-method-alias"}  # torch sees a method when it is called, the static audit where it is read
FLOW_CASES = [
    case for case in CASES
    if set(case["rules"]) & FLOW_CODES and case["id"] not in NOT_AT_CALL_TIME | UNSEEN
]  # fmt: skip


@pytest.fixture(autouse=True)
def stub_language(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)


def load(text: str, tmp_path: Path, name: str = "wrapper_file") -> tuple[ModuleType, Path]:
    path = tmp_path / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, path


def load_case(case: dict[str, Any], tmp_path: Path) -> tuple[Any, Path]:
    text = CORPUS["preludes"][case.get("prelude", "one")] + "\n" + case["code"]
    module, path = load(text, tmp_path)
    return getattr(module, case.get("wrapper", "op_wrapper")), path


def inputs_of(case: dict[str, Any]) -> tuple[Any, ...]:
    """Arguments by the parameter names the corpus uses."""
    first = case["code"].partition("def " + case.get("wrapper", "op_wrapper") + "(")[2].partition("):")[0]
    names = [part.split("=")[0].split(":")[0].strip() for part in first.split(",") if "=" not in part]
    x = torch.arange(4 * 64, dtype=torch.float32).reshape(4, 64)
    special = {
        "bad-truth-value": (x, torch.ones(1)), "bad-contiguous-when-needed": (x.t(),),
    }  # fmt: skip
    if case["id"] in special:
        return special[case["id"]]
    by_name = {
        "tensors": [torch.ones(64) for _ in range(4)], "outs": [torch.ones(64) for _ in range(4)], "axis": 1,
        "length": torch.tensor(3), "lens": torch.arange(3),
    }  # fmt: skip
    return tuple(by_name.get(name, x.clone()) for name in names)


@pytest.mark.parametrize("case", OK_CASES, ids=[case["id"] for case in OK_CASES])
def test_legal_wrappers_dispatch_only_empty(case: dict[str, Any], tmp_path: Path) -> None:
    fn, path = load_case(case, tmp_path)
    record = audit_call(fn, inputs_of(case), file=str(path))
    assert record.error is None
    assert record.launches == 1
    assert len(record.kernels) == 1
    assert record.violations == []
    dispatched = [op.kind for op in record.ops if op.level == "dispatch"]
    outputs = case["code"].count("torch.empty(") + case["code"].count("alloc(")
    assert dispatched == ["empty"] * outputs
    assert record.empty_calls == outputs
    assert len(record.outputs_matched) == outputs
    assert all(item["is"] == "output" for item in record.returned) or case["id"] == "ok-out-argument"


@pytest.mark.parametrize("case", FLOW_CASES, ids=[case["id"] for case in FLOW_CASES])
def test_the_recorder_sees_what_the_static_audit_named(case: dict[str, Any], tmp_path: Path) -> None:
    fn, path = load_case(case, tmp_path)
    report = audit(path.read_text(encoding="utf-8"), str(path), Options(wrappers=("op_wrapper",)))
    record = audit_call(fn, inputs_of(case), file=str(path), warm_up=False)
    lines = {op.line for op in record.violations}
    named = [f for f in report.all_findings() if f.code in FLOW_CODES]
    assert named
    for finding in named:
        place = set(range(finding.line, finding.end_line + 1 + (2 if case["id"] in SEEN_LATER else 0)))
        assert place & lines, (finding.code, finding.line, lines, record.error)


def test_synchronisation_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waited = []
    monkeypatch.setattr(torch, "npu", SimpleNamespace(synchronize=lambda: waited.append(1)), raising=False)
    case = next(c for c in CASES if c["id"] == "bad-synchronize")
    fn, path = load_case(case, tmp_path)
    original = torch.npu.synchronize
    record = audit_call(fn, inputs_of(case), file=str(path))
    assert [(op.kind, op.code, op.phase) for op in record.violations] == [("sync", "W111", "after")]
    assert len(waited) == 2  # the warm-up and the recorded call both really waited
    assert torch.npu.synchronize is original


def test_launches_are_counted(tmp_path: Path) -> None:
    for name, launches in (("bad-two-launches", 2), ("bad-loop-launch", 4), ("bad-no-launch", 0)):
        case = next(c for c in CASES if c["id"] == name)
        fn, path = load_case(case, tmp_path)
        assert audit_call(fn, inputs_of(case), file=str(path)).launches == launches


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    case = OK_CASES[0]
    fn, path = load_case(case, tmp_path)
    tracer = sys.gettrace()
    audit_call(fn, inputs_of(case), file=str(path))
    assert launch_hooks.observers == []
    assert sys.gettrace() is tracer
    assert torch.overrides._get_current_function_mode_stack() == []


def test_a_failing_call_is_kept_as_an_error(tmp_path: Path) -> None:
    text = "import torch\ndef op_wrapper(x):\n    y = x.float()\n    raise RuntimeError('no')\n"
    module, path = load(text, tmp_path)
    record = audit_call(module.op_wrapper, (torch.ones(2, dtype=torch.float16),), file=str(path), warm_up=False)
    assert record.error == "RuntimeError: no"
    assert [op.line for op in record.violations] == [3]
    result = record_wrapper(module.op_wrapper, torch.ones(2, dtype=torch.float16))
    assert result.record.error == "RuntimeError: no"
    assert not result.clean
    assert "RuntimeError" in result.render()


def test_record_wrapper_compares_with_the_static_audit(tmp_path: Path) -> None:
    fn, _ = load_case(OK_CASES[0], tmp_path)
    result = record_wrapper(fn, torch.ones(4, 64))
    assert result.clean
    assert result.static is not None
    assert result.static.dynamic.ran
    assert result.static.dynamic.lines_not_run == ()
    assert result.disagreements == ()
    bad, _ = load_case(next(c for c in CASES if c["id"] == "bad-cast-input"), tmp_path)
    worse = record_wrapper(bad, torch.ones(4, 64, dtype=torch.float16))
    assert not worse.clean
    assert worse.static is not None
    assert [(f.code, f.dynamic) for f in worse.static.findings] == [("W101", "confirmed")]


def test_what_only_the_recorder_sees_becomes_a_finding(tmp_path: Path) -> None:
    text = textwrap.dedent("""
        import torch
        import pypto_pro.language as pl

        @pl.jit
        def op_kernel(x: pl.Tensor[[4], pl.DT_FP32], y: pl.Tensor[[4], pl.DT_FP32]):
            pl.store(y, t, [0])

        def op_wrapper(x, twice):
            y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
            z = twice * 2
            op_kernel[None, 1](x, y)
            return y
    """)
    module, path = load(text, tmp_path)
    report = audit(text, str(path), Options())
    (wrapper,) = report.wrappers
    assert wrapper.verdict == "unproven"
    apply_records(wrapper, [audit_call(module.op_wrapper, (torch.ones(4), 3), file=str(path))], str(path))
    assert wrapper.verdict == "ok"  # a scalar: settled
    (again,) = audit(text, str(path), Options()).wrappers
    apply_records(again, [audit_call(module.op_wrapper, (torch.ones(4), torch.ones(4)), file=str(path))], str(path))
    assert again.verdict == "violation"
    (finding,) = again.findings
    assert (finding.code, finding.static, finding.dynamic, finding.line) == ("W112", False, "confirmed", 11)
    assert any("line 11" in text for text in again.dynamic.disagreements)


def test_static_findings_are_never_relaxed(tmp_path: Path) -> None:
    """A branch that did not run keeps its finding."""
    text = textwrap.dedent("""
        import torch
        import pypto_pro.language as pl

        @pl.jit
        def op_kernel(x: pl.Tensor[[4], pl.DT_FP32], y: pl.Tensor[[4], pl.DT_FP32]):
            pl.store(y, t, [0])

        def op_wrapper(x):
            if x.dtype != torch.float32:
                x = x.float()
            y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
            op_kernel[None, 1](x, y)
            return y
    """)
    module, path = load(text, tmp_path)
    (wrapper,) = audit(text, str(path), Options()).wrappers
    apply_records(wrapper, [audit_call(module.op_wrapper, (torch.ones(4),), file=str(path))], str(path))
    assert wrapper.verdict == "violation"
    assert [f.dynamic for f in wrapper.findings] == ["not_run"]
    assert wrapper.dynamic.lines_not_run == (11,)
    assert wrapper.dynamic.disagreements == ()


def test_work_of_an_imported_module_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_utils.py").write_text("def prepare(x):\n    return x.float()\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    case = next(c for c in CASES if c["id"] == "bad-imported-helper")
    fn, path = load_case(case, tmp_path)
    record = audit_call(fn, (torch.ones(4, 64, dtype=torch.float16),), file=str(path))
    assert [op.code for op in record.violations] == ["W101"]
    assert "prepare(x)" in path.read_text(encoding="utf-8").splitlines()[record.violations[0].line - 1]


@pytest.mark.parametrize(
    ("name", "kind", "code"),
    [
        ("torch.empty", "empty", None),
        ("torch.Tensor.shape.__get__", "metadata", None),
        ("torch.Tensor.to", "cast", "W101"),
        ("torch.Tensor.T.__get__", "view", "W104"),
        ("torch.Tensor.numpy", "read", "W117"),
        ("torch.Tensor.add_", "compute", "W112"),
        ("torch.Tensor.copy_", "copy", "W113"),
        ("torch.zeros", "create", "W108"),
        ("torch.nn.functional.pad", "copy", "W107"),
        ("torch.Tensor.data_ptr", "other", "W114"),
    ],
)
def test_kinds_of_function_level_events(name: str, kind: str, code: str | None) -> None:
    assert classify_function(name) == (kind, code)


# ---------------------------------------------------------------- audit --run
RUNNABLE = """
import torch
import pypto_pro.language as pl

@pl.jit
def op_kernel(x: pl.Tensor[[pl.DYNAMIC, 64], pl.DT_FP16], y: pl.Tensor[[pl.DYNAMIC, 64], pl.DT_FP16], n: pl.DT_INT32):
    pl.store(y, t, [0, 0])

def op_wrapper(x, n):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    op_kernel[None, 8](x, y, n)
    return y
"""


def run(text: str, tmp_path: Path, cases: Any = None) -> Any:
    path = tmp_path / "op.py"
    path.write_text(text, encoding="utf-8")
    report = audit(text, str(path), Options())
    case_file = None
    if cases is not None:
        case_file = tmp_path / "cases.json"
        case_file.write_text(json.dumps(cases), encoding="utf-8")
    run_report(report, path, case_file)
    return report


def test_run_with_made_up_inputs(tmp_path: Path) -> None:
    dynamic = run(RUNNABLE, tmp_path).wrappers[0].dynamic
    assert dynamic.ran
    (case,) = dynamic.cases
    assert case.id == "made up"
    assert [(a["name"], a["shape"], a["dtype"]) for a in case.args] == [
        ("x", [64, 64], "torch.float16"),
        ("n", None, "int"),
    ]
    assert case.outputs_matched == [{"var": "y", "kernel_param": "y"}]
    assert case.returned == [{"index": 0, "is": "output"}]


def test_run_with_the_tests_of_the_file(tmp_path: Path) -> None:
    text = RUNNABLE + textwrap.dedent("""
        import pytest

        def test_small():
            print("noise")
            op_wrapper(torch.ones(2, 64), 2)

        @pytest.mark.parametrize("rows", [3, pytest.param(5)])
        def test_rows(rows):
            op_wrapper(torch.ones(rows, 64), rows)
            assert False

        def test_with_a_fixture(tmp_path):
            op_wrapper(torch.ones(7, 64), 7)
    """)
    cases = run(text, tmp_path).wrappers[0].dynamic.cases
    assert [(c.id, c.args[0]["shape"]) for c in cases] == [
        ("test_small#0", [2, 64]), ("test_rows#1", [3, 64]), ("test_rows#2", [5, 64]),
    ]  # fmt: skip


def test_run_with_a_case_file(tmp_path: Path) -> None:
    cases = {"cases": [{"id": "a", "args": [{"shape": [4, 64], "dtype": "float16"}], "kwargs": {"n": 4}}]}
    report = run(RUNNABLE, tmp_path, cases)
    assert [c.id for c in report.wrappers[0].dynamic.cases] == ["a"]
    assert report.verdict == "ok"


def test_run_of_a_file_that_cannot_be_imported(tmp_path: Path) -> None:
    report = run("import no_such_module\n" + RUNNABLE, tmp_path)
    assert not report.wrappers[0].dynamic.ran
    assert "cannot be imported: ModuleNotFoundError" in report.wrappers[0].dynamic.reason
    assert report.verdict == "ok"


def test_without_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pypto_pro.audit.evidence.torch_available", lambda: False)
    report = run(RUNNABLE, tmp_path)
    assert report.wrappers[0].dynamic.reason == "torch is not installed"
    assert report.to_json()["wrappers"][0]["dynamic"]["ran"] is False


def test_importing_the_audit_does_not_import_torch() -> None:
    code = "import sys, pypto_pro.audit, pypto_pro.audit.runner; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
