"""`pypto-pro audit`: exit codes, forms of output, the schema, options."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from click.testing import CliRunner, Result

from pypto_pro.audit import audit_source
from pypto_pro.audit.markdown import render_markdown
from pypto_pro.cli.audit import audit

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "docs" / "audit-schema.json").read_text(encoding="utf-8"))
CORPUS: dict[str, Any] = yaml.safe_load((ROOT / "tests" / "data" / "wrapper-cases.yaml").read_text(encoding="utf-8"))
CASES: dict[str, dict[str, Any]] = {case["id"]: case for case in CORPUS["cases"]}


def text_of(name: str) -> str:
    case = CASES[name]
    return str(CORPUS["preludes"][case.get("prelude", "one")] + "\n" + case["code"])


def call(*args: object) -> Result:
    return CliRunner().invoke(audit, [str(arg) for arg in args])


@pytest.fixture
def ok(tmp_path: Path) -> Path:
    path = tmp_path / "good.py"
    path.write_text(text_of("ok-minimal"), encoding="utf-8")
    return path


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    path = tmp_path / "bad.py"
    path.write_text(text_of("bad-helper-casts"), encoding="utf-8")
    return path


def test_exit_codes(ok: Path, bad: Path, tmp_path: Path) -> None:
    assert call(ok).exit_code == 0
    assert call(bad).exit_code == 1
    assert call(ok, bad).exit_code == 1
    assert call(tmp_path / "none.py").exit_code == 2
    assert call(ok, "--wrapper", "nope").exit_code == 2
    broken = tmp_path / "broken.py"
    broken.write_text("def f(:\n", encoding="utf-8")
    result = call(broken)
    assert result.exit_code == 2
    assert "syntax error" in result.output
    assert call().exit_code == 2


def test_unproven_is_forgiven_only_when_asked(tmp_path: Path) -> None:
    path = tmp_path / "open.py"
    text = text_of("ok-minimal").replace("(x):\n", "(x, k):\n    z = k * 2\n", 1)
    path.write_text(text, encoding="utf-8")
    assert call(path).exit_code == 1
    assert call(path, "--allow-unproven").exit_code == 0
    assert call(path, "--allow-unproven", "--delivery").exit_code == 1
    assert "warning[W119]" in call(path).output


@pytest.mark.parametrize("name", CASES)
def test_json_follows_the_schema(name: str) -> None:
    mode = "delivery" if CASES[name].get("delivery") else "plain"
    data = audit_source(text_of(name), filename="t.py", mode=mode).to_json()
    jsonschema.validate(data, SCHEMA)
    _same_order(data, SCHEMA)
    for wrapper in data["wrappers"]:
        for rows in (wrapper["findings"], wrapper["launches"], wrapper["calls"], wrapper["metadata_reads"]):
            lines = [row["line"] for row in rows]
            assert lines == sorted(lines)


def _same_order(data: Any, schema: dict[str, Any]) -> None:
    """Keys stand in the order of the schema, all the way down."""
    if "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rsplit("/", 1)[-1]]
    if "oneOf" in schema:
        if data is None:
            return
        schema = schema["oneOf"][1]
    if isinstance(data, dict) and "properties" in schema:
        assert list(data) == list(schema["properties"])
        for key, value in data.items():
            _same_order(value, schema["properties"][key])
    elif isinstance(data, list):
        for item in data:
            _same_order(item, schema.get("items", {}))


def test_json_of_one_and_of_several_files(ok: Path, bad: Path) -> None:
    one = json.loads(call(ok, "--json").output)
    assert one["verdict"] == "ok"
    assert one["file"] == str(ok)
    several = json.loads(call(ok, bad, "--json").output)
    assert [report["verdict"] for report in several] == ["ok", "violation"]
    assert call(ok, "--json").output == call(ok, "--json").output


def test_json_with_dynamic_part_and_record(ok: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    usage, selection = tmp_path / "KB_USAGE.json", tmp_path / "KB_SELECTION.json"
    usage.write_text(json.dumps(CORPUS["kb_cases"][0]["usage"]), encoding="utf-8")
    selection.write_text(json.dumps(CORPUS["kb_defaults"]["selection"]), encoding="utf-8")
    delivered = tmp_path / "test_op.py"
    delivered.write_text(ok.read_text(encoding="utf-8"), encoding="utf-8")
    cases = tmp_path / "cases.json"
    cases.write_text(json.dumps([{"args": [{"shape": [16, 64], "dtype": "float32"}]}]), encoding="utf-8")
    result = call(delivered, "--run", "--cases", cases, "--json", "--kb-usage", usage, "--kb-selection", selection)
    data = json.loads(result.output)
    jsonschema.validate(data, SCHEMA)
    _same_order(data, SCHEMA)
    assert data["kb_usage"]["findings"] == []
    assert data["kb_usage"]["boundary_entry"] == {"status": "implemented", "file": "test_op.py", "symbol": "op_wrapper"}
    assert data["wrappers"][0]["dynamic"]["ran"] is True


def test_knowledge_record_cannot_waive(bad: Path, tmp_path: Path) -> None:
    usage, selection = tmp_path / "KB_USAGE.json", tmp_path / "KB_SELECTION.json"
    record = CORPUS["kb_cases"][1]["usage"]
    record["invariants"][0]["implementation"]["file"] = "bad.py"
    usage.write_text(json.dumps(record), encoding="utf-8")
    selection.write_text(json.dumps(CORPUS["kb_defaults"]["selection"]), encoding="utf-8")
    result = call(bad, "--kb-usage", usage, "--kb-selection", selection)
    assert result.exit_code == 1
    assert "error[K210]" in result.output
    assert "does not override the audit" in result.output
    assert "wrapper_boundary_violation" in result.output
    assert call(bad, "--kb-usage", usage).exit_code == 2


def test_a_missing_record_fails_a_clean_wrapper(ok: Path, tmp_path: Path) -> None:
    selection = tmp_path / "KB_SELECTION.json"
    selection.write_text(json.dumps(CORPUS["kb_defaults"]["selection"]), encoding="utf-8")
    result = call(ok, "--kb-usage", tmp_path / "none.json", "--kb-selection", selection)
    assert result.exit_code == 1
    assert "error[K201]" in result.output
    assert "kb_usage_invalid" in result.output


def test_text_names_everything(bad: Path) -> None:
    output = call(bad).output
    assert "error[W101]: `t.float()` casts on the host: `x` becomes float" in output
    assert "pl.cast" in output
    assert "wrapper `op_wrapper`: violation" in output
    assert "launches  exactly 1, in line" in output
    assert "_prep       helper   reached from a wrapper" in output
    assert "looked at: 2 functions interpreted, call depth 2, static only" in output


def test_sarif(bad: Path) -> None:
    data = json.loads(call(bad, "--sarif").output)
    (result,) = data["runs"][0]["results"]
    assert result["ruleId"] == "W101"
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == 16


def test_markdown_is_ready_for_a_pull_request(bad: Path, ok: Path) -> None:
    output = call(bad, ok, "--markdown").output
    assert output.startswith("### Host-wrapper audit of `")
    assert "❌ violation" in output
    assert "✅ ok" in output
    assert "| `W101` | 16 | `t.float()` casts on the host" in output
    assert "`op_wrapper` → `_prep`" in output
    assert output.count("<details>") == output.count("</details>") == 2


@pytest.mark.parametrize("name", CASES)
def test_markdown_tables_are_well_formed(name: str) -> None:
    text = render_markdown([audit_source(text_of(name), filename="t.py")])
    header = None
    for line in text.splitlines():
        cells = line.replace("\\|", "").count("|")
        if line.startswith("|"):
            header = header or cells
            assert cells == header, line
        else:
            header = None


def test_options_reach_the_audit(tmp_path: Path) -> None:
    path = tmp_path / "ws.py"
    path.write_text(text_of("bad-workspace"), encoding="utf-8")
    assert call(path).exit_code == 1
    assert call(path, "--outputs", "ws, y").exit_code == 0
    assert call(path, "--driver", "op_wrapper").exit_code == 0
    assert call(path, "--samples").exit_code == 0
    assert "W130" in call(path, "--staged").output
    design = tmp_path / "design.md"
    design.write_text("# Outside the boundary\n\nthe transpose\n", encoding="utf-8")
    assert "error[W150]" in call(path, "--outputs", "ws,y", "--design", design).output


def test_staged_and_delivered_by_location(tmp_path: Path) -> None:
    folder = tmp_path / "custom" / "op"
    folder.mkdir(parents=True)
    delivered = folder / "test_op.py"
    delivered.write_text(text_of("bad-unused-second-kernel-delivery"), encoding="utf-8")
    assert "error[W123]" in call(delivered).output
    (folder / "op_golden.py").write_text("def op_golden_cpu(x, w=None):\n    return x\n", encoding="utf-8")
    delivered.write_text(text_of("ok-minimal").replace("op_wrapper(x)", "op_wrapper(x, w)"), encoding="utf-8")
    assert "error[W140]" in call(delivered).output


def test_sources_with_another_encoding(tmp_path: Path) -> None:
    path = tmp_path / "latin.py"
    path.write_bytes(("# -*- coding: latin-1 -*-\n# caf\xe9\n" + text_of("ok-minimal")).encode("latin-1"))
    assert call(path).exit_code == 0
    path.write_bytes(b"x = '\xff\xfe'\n")
    assert call(path).exit_code == 2


DEVICE_SCRIPT = """\
import torch
import torch_npu
import pypto_pro.language as pl


@pl.jit
def twice_kernel(x: pl.Tensor[[16, 64], pl.DT_FP32], y: pl.Tensor[[16, 64], pl.DT_FP32]):
    tile = pl.make_tile_group(type=pl.TileType(shape=[16, 64], dtype=pl.DT_FP32), addrs=0, mutex_ids=[0])
    with pl.section_vector():
        t = tile.next()
        pl.load(t, x, [0, 0])
        pl.add(t, t, t)
        pl.store(y, t, [0, 0])


def twice_wrapper(x):
    if x.device.type != "npu":
        raise ValueError("x must be on the device")
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    twice_kernel[None, 1](x, y)
    return y
"""


@pytest.mark.slow
@pytest.mark.parametrize("test", ["", "\n\ndef test_twice():\n    twice_wrapper(torch.ones(16, 64, device='npu:0'))\n"])
def test_run_a_file_for_the_device(tmp_path: Path, test: str) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "twice.py"
    path.write_text(DEVICE_SCRIPT + test, encoding="utf-8")
    command = [sys.executable, "-c", "from pypto_pro.cli import main; main()", "audit", str(path), "--run", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    (wrapper,) = json.loads(done.stdout)["wrappers"]
    (case,) = wrapper["dynamic"]["cases"]
    assert (case["args"][0]["device"], case["launches"], case["error"]) == ("npu:0", 1, None)
    assert [op["name"] for op in case["ops"] if op["level"] == "dispatch"] == ["aten::empty.memory_format"]


def test_run_names_lines_of_a_relative_path(bad: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    text = DEVICE_SCRIPT.replace("return y\n", "return y.half()\n")
    (bad.parent / "rel.py").write_text(text.replace("import torch_npu\n", ""), encoding="utf-8")
    monkeypatch.chdir(bad.parent)
    output = call("rel.py", "--run").output
    assert "recorded  1 call, 1 of 1 finding confirmed" in output
    assert "4 of 5 lines run" in output


def test_a_file_without_wrappers_is_not_called_ok(tmp_path: Path) -> None:
    file = tmp_path / "none.py"
    file.write_text("x = 1\n", encoding="utf-8")
    result = call(file)
    assert result.exit_code == 0
    assert f"{file}: nothing to audit (plain mode): 0 findings" in result.output


LAUNCHER = """\
import torch
HEAD
def copy_op(x):MARK
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    k[None, 2](x, y)
    return y
"""
KERNEL = """\
import pypto_pro.language as pl
@pl.jit
def k(x: pl.Tensor[[8, 64], pl.DT_FP32], y: pl.Tensor[[8, 64], pl.DT_FP32]):
    pl.store(y, t, [0, 0])
"""


@pytest.mark.parametrize("head", [KERNEL, "from kernels import k"])
def test_launchers_that_nobody_audited_fail_a_gate(head: str, tmp_path: Path) -> None:
    file = tmp_path / "op.py"
    text = LAUNCHER.replace("HEAD", head)
    file.write_text(text.replace("MARK", ""), encoding="utf-8")
    result = call(file)
    assert result.exit_code == 1
    assert "warning[W119]: `copy_op` cannot be decided: it launches a kernel and was not audited" in result.output
    assert "help: `--all-launchers` or `--wrapper copy_op` audits it" in result.output
    assert (
        f"{file}: no wrapper found; `copy_op` launches a kernel; audit what launches with `--all-launchers`"
        in result.output
    )
    assert f"{file}: unproven (plain mode): 0 findings, 1 unproven" in result.output
    assert json.loads(call(file, "--json").output)["verdict"] == "unproven"
    assert call(file, "--allow-unproven").exit_code == 0
    assert call(file, "--samples").exit_code == 0, "a study sample has drivers only"
    file.write_text(text.replace("MARK", "  # pypto: driver"), encoding="utf-8")
    assert call(file).exit_code == 0


def test_a_launcher_that_is_audited_passes_or_fails_by_itself(tmp_path: Path) -> None:
    file = tmp_path / "op.py"
    text = LAUNCHER.replace("HEAD", KERNEL)
    file.write_text(text.replace("MARK", ""), encoding="utf-8")
    assert call(file, "--all-launchers").exit_code == 0
    assert call(file, "--wrapper", "copy_op").exit_code == 0
    file.write_text(text.replace("MARK", "  # pypto: wrapper"), encoding="utf-8")
    assert call(file).exit_code == 0
    file.write_text(text.replace("MARK", "").replace("return y\n", "return y * 2\n"), encoding="utf-8")
    assert call(file, "--all-launchers").exit_code == 1
