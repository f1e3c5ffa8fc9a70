"""The forms of the layout report and the command: Markdown, JSON against its schema, SVG, text, edits, exit status."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from click.testing import CliRunner, Result
from rich.console import Console

from pypto_pro.cli.layout import command
from pypto_pro.memory.advice import Advice, advise
from pypto_pro.memory.check import check_layout
from pypto_pro.memory.extract import design_of_kernel
from pypto_pro.memory.plan_file import design_of, read_plan
from pypto_pro.memory.problem import Wishes
from pypto_pro.report.layout_edit import edited
from pypto_pro.report.layout_json import layout_document
from pypto_pro.report.layout_markdown import layout_markdown
from pypto_pro.report.layout_svg import layout_svg
from pypto_pro.report.layout_text import print_layout
from pypto_pro.runtime.inspect import find_kernel, kernel_ir, load_file

ROOT = Path(__file__).parents[2]
CASES_FILE = ROOT / "tests" / "data" / "layout-cases.yaml"
CASES = yaml.load(CASES_FILE.read_text(), yaml.CSafeLoader)["cases"]
SCHEMA = json.loads((ROOT / "docs" / "layout-report.schema.json").read_text())

PLAN = """\
kernel: softmax
tiles:
- {name: rows, kind: group, space: Vec, shape: [32, 128], dtype: FP32, addrs: 0x0, mutex_ids: [0, 1], live: [0, 9], pipes: [MTE2, V], purpose: loaded from x}
- {name: w, space: Vec, shape: [8, 64], dtype: FP32, addr: 0x8000, live: [1, 3]}
- {name: tmp, space: Vec, shape: [8, 64], dtype: FP32, addr: 0x8000, live: [4, 6]}
- {name: r, kind: group, space: Vec, shape: [64, 1], dtype: FP32, layout: DN, addrs: 0xC000, mutex_ids: [4], live: [0, 7]}
- {name: r_row, kind: group, space: Vec, shape: [1, 64], dtype: FP32, addrs: 0xC000, mutex_ids: [4], live: [1, 7]}
- {name: a_l1, kind: group, space: Mat, shape: [128, 128], dtype: FP16, addrs: 0, mutex_ids: [5, 6], live: [0, 9], section: cube}
views: [[r, r_row]]
parallel: [{a: "a_l1#0", a_op: read, b: "a_l1#1", b_op: write}]
"""  # noqa: E501


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    file = tmp_path / "plan.yaml"
    file.write_text(PLAN)
    return file


def run(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(a) for a in arguments])


# --- forms -----------------------------------------------------------------------------------------------------------


def test_markdown_is_section_3(plan: Path, golden: Callable[[str, str], None]) -> None:
    golden("expected/layout_softmax.md", layout_markdown(check_layout(read_plan(plan))))


def test_markdown_of_a_plan(plan: Path, golden: Callable[[str, str], None]) -> None:
    advice = advise(read_plan(plan))
    golden("expected/layout_softmax_plan.md", layout_markdown(advice.report, advice))


@pytest.mark.parametrize("case", [pytest.param(c, id=c["id"]) for c in CASES])
def test_json_of_every_case_keeps_its_schema(case: dict[str, Any]) -> None:
    design = design_of(case)
    advice = advise(design, solver="search") if case.get("plan") else None
    report = advice.report if advice else check_layout(design)
    document = json.loads(json.dumps(layout_document(report, advice)))
    jsonschema.validate(document, SCHEMA)
    if not advice:
        assert document["verdict"] == ("violation" if case["expect"]["errors"] else "ok")
    assert document == json.loads(json.dumps(layout_document(report, advice))), "deterministic"


@pytest.mark.parametrize("case", [pytest.param(c, id=c["id"]) for c in CASES[::4]])
def test_svg_is_well_formed_and_shows_every_slot(case: dict[str, Any]) -> None:
    design = design_of(case)
    report = advise(design, solver="search").report if case.get("plan") else check_layout(design)
    tree = ET.fromstring(layout_svg(report))
    texts = {t.text for t in tree.iter("{http://www.w3.org/2000/svg}text")}
    labels = {r.tile.name if r.tile.kind == "tile" else f"{r.tile.name}[{r.slot}]" for r in report.rows}
    assert labels <= texts
    assert {t.space.name for t in report.totals} <= texts
    for rect in tree.iter("{http://www.w3.org/2000/svg}rect"):
        height = rect.get("height", "0")
        assert height == "100%" or float(height) >= 0


def test_svg_escapes_what_authors_write() -> None:
    tile = {"name": "a", "space": "Vec", "shape": [8, 8], "dtype": "FP32", "addr": 0, "live": [0, 1]}
    design = design_of({"kernel": "<k> & more", "tiles": [tile]})
    assert ET.fromstring(layout_svg(check_layout(design))).find("{http://www.w3.org/2000/svg}title") is not None


# --- command ---------------------------------------------------------------------------------------------------------


def test_text_form(plan: Path) -> None:
    result = run(plan)
    assert result.exit_code == 0, result.output
    assert "Vec: effective 35072 B; highest end 49408 B / capacity 253952 B = 19.5 %" in result.output
    assert "P1" in result.output
    assert "same pipe V" in result.output
    assert "warning[L203]" in result.output


def test_warnings_fail_only_when_strict(plan: Path) -> None:
    assert run(plan, "--format", "md").exit_code == 0
    assert run(plan, "--format", "md", "--strict").exit_code == 1


def test_errors_fail_and_a_bigger_capacity_mends_them() -> None:
    case = f"{CASES_FILE}:capacity-over"
    assert run(case).exit_code == 1
    assert run(case, "--capacity", "Vec=0x40000").exit_code == 0
    assert json.loads(run(case, "--json").output)["spaces"]["Vec"]["passes"] is False


def test_views_and_parallel_pairs_of_the_command_line(tmp_path: Path) -> None:
    case = f"{CASES_FILE}:alias-undeclared"
    assert run(case).exit_code == 1
    assert run(case, "--view", "r=r_row").exit_code == 0
    banks = run(f"{CASES_FILE}:matmul-double-buffer", "--parallel", "a_l1[0]:move,a_l1[1]:load", "--json")
    assert [b["conflict"] for b in json.loads(banks.output)["banks"]] == [True]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--capacity", "Vec"),
        ("--capacity", "DDR=4"),
        ("--view", "rows"),
        ("--view", "rows=nothing"),
        ("--parallel", "a_l1:read"),
        ("--parallel", "a_l1:eat,a_l1:read"),
        ("--diff",),
        ("--plan", "--pin", "nothing"),
        ("--plan", "--separate", "a_l1=b_l1"),
    ],
)
def test_wrong_usage_is_status_2(plan: Path, arguments: tuple[str, ...]) -> None:
    assert run(plan, *arguments).exit_code == 2


def test_missing_files_and_cases() -> None:
    assert run("nowhere.yaml").exit_code == 2
    result = run(CASES_FILE, "--kernel", "nothing")
    assert result.exit_code == 1
    assert "no case `nothing`" in str(result.exception)


def test_output_and_svg_files(plan: Path, tmp_path: Path) -> None:
    report, drawing = tmp_path / "report.md", tmp_path / "map.svg"
    assert run(plan, "--format", "md", "-o", report, "--svg", drawing).output == ""
    assert report.read_text().startswith("## 3. On-chip layout of `softmax`")
    ET.fromstring(drawing.read_text())
    assert run(plan, "-o", tmp_path / "report.txt").exit_code == 0
    assert "warning[L203]" in (tmp_path / "report.txt").read_text()


@pytest.mark.parametrize("width", [100, 160])
@pytest.mark.parametrize("kernel", ["k06_matmul_kloop", "k15_flash_attention", "k16_matmul_mx"])
def test_nothing_is_cut_off_in_a_terminal(kernel: str, width: int) -> None:
    file = ROOT / "tests" / "kernels" / "good" / f"{kernel}.py"
    advice = advise(design_of_kernel(kernel_ir(find_kernel(load_file(file)))))
    assert advice.before is not None
    for report, given in ((advice.before, None), (advice.report, advice)):
        console = Console(width=width, color_system=None, highlight=False)
        with console.capture() as capture:
            print_layout(console, report, given)
        text = capture.get()
        assert max(map(len, text.splitlines())) <= width
        assert "…" not in text
        squeezed = "".join(text.split())
        assert all(r.shown in squeezed or f"{r.tile.name}{r.slot}" in squeezed for r in report.rows)


# --- plans -----------------------------------------------------------------------------------------------------------


def test_a_written_plan_is_what_was_planned(plan: Path) -> None:
    before = plan.read_text()
    result = run(plan, "--plan", "--diff", "--format", "md")
    assert "+- {name: r, kind: group" in result.output
    assert plan.read_text() == before, "nothing is written without --write"
    assert run(plan, "--plan", "--write", "--format", "md").exit_code == 0
    advice = advise(design_of(yaml.safe_load(before)))
    after = check_layout(read_plan(plan))
    assert {r.name: r.start for r in after.rows} == dict(advice.placement.addresses)
    assert after.totals[0].highest < 49408


@pytest.mark.parametrize("kernel", ["tests/kernels/good/k15_flash_attention.py", "examples/flash_attention.py"])
def test_a_plan_is_written_into_a_kernel_with_helpers(kernel: str, tmp_path: Path) -> None:
    file = tmp_path / Path(kernel).name
    file.write_text((ROOT / kernel).read_text())

    def planned(file: Path) -> Advice:
        return advise(design_of_kernel(kernel_ir(find_kernel(load_file(file)))), wishes=Wishes(proved=True))

    advice = planned(file)
    assert advice.before is not None
    tighter = [(t.highest, old.highest) for t, old in zip(advice.report.totals, advice.before.totals, strict=True)]
    assert all(new <= old for new, old in tighter)
    assert any(new < old for new, old in tighter)
    result = run(file, "--plan", "--write", "--json")
    assert result.exit_code == 0
    assert "by hand" not in result.output
    again = planned(file.rename(tmp_path / "edited.py"))
    assert again.before is not None
    assert {r.name: r.start for r in again.before.rows} == {r.name: r.start for r in advice.report.rows}


def test_missing_addresses_are_added(tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text("tiles:\n- {name: a, kind: group, space: Vec, shape: [3, 8], dtype: FP16, depth: 2}\n")
    assert run(file, "--plan", "--write", "--format", "md").exit_code == 0
    assert "depth: 2, addrs: [0x00000, 0x00040]}" in file.read_text()


def test_what_cannot_be_edited_is_left_to_the_author(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text('{"tiles": [{"name": "a", "space": "Vec", "shape": [8, 8], "dtype": "FP32"}]}')
    advice = advise(read_plan(file))
    result = edited(file.read_text(), str(file), advice)
    assert result.text == file.read_text()
    assert [c.tile.name for c in result.by_hand] == ["a"]


def test_an_infeasible_plan_is_an_error() -> None:
    result = run(f"{CASES_FILE}:plan-over", "--plan", "--json")
    assert result.exit_code == 1
    document = json.loads(result.output)
    assert document["verdict"] == "violation"
    assert document["plan"]["feasible"] is False
