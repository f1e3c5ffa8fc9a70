"""From kernels to designs: references, locks, lifetimes, footprints and findings of real source."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from pypto_pro.cli.layout import command
from pypto_pro.diag import Severity
from pypto_pro.memory.advice import advise
from pypto_pro.memory.check import LayoutReport, check_layout
from pypto_pro.memory.design import Design, Step, Use
from pypto_pro.memory.extract import design_of_kernel
from pypto_pro.memory.kernel_report import table_findings
from pypto_pro.runtime.inspect import find_kernel, kernel_ir, load_file

ROOT = Path(__file__).parents[2]
CASES = yaml.load((ROOT / "tests" / "data" / "layout-cases.yaml").read_text(), yaml.CSafeLoader)["cases"]

HEAD = "import pypto_pro.language as pl\n"
ROW = "ROW = pl.TileType(shape=[8, 64], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec)"

Extract = Callable[..., Design]


@pytest.fixture
def extract(tmp_path: Path) -> Extract:
    """The design of the kernel in a source text."""

    def made(source: str, name: str | None = None) -> Design:
        file = tmp_path / f"kernel_{len(list(tmp_path.iterdir()))}.py"
        file.write_text(HEAD + textwrap.dedent(source))
        return design_of_kernel(kernel_ir(find_kernel(load_file(file), name)))

    return made


def body(statements: str, auto_mutex: bool = True) -> str:
    """A vector kernel around some statements."""
    return (
        f"@pl.jit(auto_mutex={auto_mutex})\n"
        "def kernel(x: pl.Tensor[[64, 64], pl.DT_FP32], y: pl.Tensor[[64, 64], pl.DT_FP32], n: pl.DT_INT32):\n"
        f"    {ROW}\n"
        "    with pl.section_vector():\n" + textwrap.indent(textwrap.dedent(statements), " " * 8)
    )


def uses(design: Design, tile: str) -> list[tuple[Step, Use]]:
    return [(s, u) for p in design.programs for s in p.steps() for u in s.uses if u.tile == tile]


def codes(report: LayoutReport) -> list[str]:
    return [f.code for f in report.findings if f.code not in ("L202", "L209")]


# --- the cases that give source --------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [pytest.param(c, id=c["id"]) for c in CASES if "code" in c])
def test_source_cases(case: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "case.py"
    lines = case["code"].splitlines(keepends=True)
    types = [line for line in lines if line.startswith(("HALF", "FULL"))]
    signature = next(i for i, line in enumerate(lines) if line.startswith("def "))
    lines[signature + 1 : signature + 1] = ["    " + line for line in types]  # the front end takes none from outside
    file.write_text("".join(line for line in lines if line not in types))
    report = check_layout(design_of_kernel(kernel_ir(find_kernel(load_file(file)))))
    rows = {(r.name, r.start, r.end) for r in report.rows}
    assert rows == {(s["slot"], s["start"], s["end"]) for s in case["expect"]["slots"]}
    errors = [f for f in report.findings if f.severity is Severity.ERROR]
    assert [f.code for f in errors] == [e["code"] for e in case["expect"]["errors"]]
    for found, wanted in zip(errors, case["expect"]["errors"], strict=True):
        facts = {key: value for key, value in wanted.items() if key != "code"}
        assert {key: found.facts[key] for key in facts} == facts


# --- references ------------------------------------------------------------------------------------------------------


def test_equal_references_name_one_slot_and_the_next_trip_another(extract: Extract) -> None:
    design = extract(body("""
        g = pl.make_tile_group(type=ROW, addrs=0, mutex_ids=[0, 1])
        for i in pl.range(n):
            t = g.next()
            pl.load(t, x, [0, 0])
            pl.add(t, t, g.current())
            pl.store(y, g.previous(), [0, 0])
    """))
    (load, add_out, _, _, store) = [u for _, u in uses(design, "g")]
    assert load.ref == add_out.ref
    assert store.ref != load.ref
    assert all(u.slot is None for _, u in uses(design, "g"))


def test_a_reference_kept_over_a_trip_is_another_choice(extract: Extract) -> None:
    design = extract(body("""
        g = pl.make_tile_group(type=ROW, addrs=0, mutex_ids=[0, 1])
        t = g.next()
        for i in pl.range(n):
            pl.store(y, t, [0, 0])
            t = g.next()
            pl.load(t, x, [0, 0])
    """))
    stores = {u.ref for s, u in uses(design, "g") if s.op == "store"}
    loads = {u.ref for s, u in uses(design, "g") if s.op == "load"}
    assert not stores & loads


def test_constant_slots_and_helpers(extract: Extract) -> None:
    design = extract("""
        def one(addr, ids):
            ROW = pl.TileType(shape=[8, 64], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec)
            made = pl.make_tile_group(type=ROW, addrs=addr, mutex_ids=ids)
            return made.current()

        @pl.jit(auto_mutex=True)
        def kernel(x: pl.Tensor[[64, 64], pl.DT_FP32], y: pl.Tensor[[64, 64], pl.DT_FP32]):
            with pl.section_vector():
                ROW = pl.TileType(shape=[8, 64], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec)
                first = one(0x0000, [0])
                second = one(0x0800, [1])  # the sum
                two = pl.make_tile_group(type=ROW, addrs=[0x1000, 0x2000], mutex_ids=[2, 3])  # scratch space
                pl.load(first, x, [0, 0])
                pl.add(two[1], first, first)
                pl.add(second, two[1], two[1])
                pl.store(y, second, [0, 0])
    """)
    assert [t.name for t in design.tiles] == ["first", "second", "two"]
    assert {u.slot for _, u in uses(design, "two")} == {1}
    assert [t.purpose for t in design.tiles[1:]] == ["the sum", "scratch space"]
    assert design.tiles[2].addrs == (0x1000, 0x2000)
    assert design.tiles[2].addrs_span is not None
    place = design.tiles[0].addrs_span
    assert place is not None, "a helper that passes its address on has it in the call"
    assert place.source_line()[place.column : place.end_column] == "0x0000"
    report = check_layout(design)
    assert "L210" in codes(report), "slot 0 of `two` is never touched"


# --- effects, locks, lifetimes ----------------------------------------------------------------------------------


def test_effects_come_from_the_op_table(extract: Extract) -> None:
    design = extract(body("""
        column = pl.TileType(shape=[8, 1], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec, layout=pl.DN)
        t = pl.make_tile(ROW, addr=0)
        tmp = pl.make_tile(ROW, addr=0x800)
        peak = pl.make_tile(column, addr=0x1000)
        pl.load(t, x, [0, 0])
        pl.maximum(peak, t, tmp, dim=0)
        t[0, 0] = 1.0
        pl.store(y, t, [0, 0])
    """))
    steps = [s for p in design.programs for s in p.steps()]
    effects = {(s.op, u.tile): (u.reads, u.writes, u.covers) for s in steps for u in s.uses}
    assert effects["load", "t"] == (False, True, True)
    assert effects["maximum", "t"] == (True, False, False)
    assert effects["maximum", "peak"] == (False, True, True)
    assert effects["maximum", "tmp"] == (False, True, False)
    assert effects["store", "t"] == (True, False, False)
    element = next(v for (op, tile), v in effects.items() if op not in ("load", "maximum", "store"))
    assert element[1:] == (True, False), "one element covers no tile"
    assert design.tiles[1].only_scratch
    assert design.tiles[0].purpose == "loaded from `x`, stored to `y`"


def test_locks_are_those_the_pass_inserts(extract: Extract) -> None:
    source = """
        g = pl.make_tile_group(type=ROW, addrs=0, mutex_ids=[0])
        h = pl.make_tile_group(type=ROW, addrs=0x800, mutex_ids=[1])
        s = pl.make_tile(ROW, addr=0x1000)
        a = g.current()
        b = h.current()
        pl.load(a, x, [0, 0])
        pl.add(b, a, a)
        pl.add(s, b, b)
        pl.store(y, s, [0, 0])
    """
    design = extract(body(source))
    assert all(u.locked for _, u in uses(design, "g"))
    assert all(u.locked for _, u in uses(design, "h")), "ids that only V takes need no lock"
    assert not any(u.locked for _, u in uses(design, "s"))
    assert not any(u.locked for _, u in uses(extract(body(source, auto_mutex=False)), "g"))


PHASES = """
    a = pl.make_tile_group(type=ROW, addrs=0, mutex_ids=[{a}])
    b = pl.make_tile_group(type=ROW, addrs=0, mutex_ids=[{b}])
    t = a.current()
    u = b.current()
    for i in pl.range(n):
        pl.load(t, x, [0, 0])
        pl.store(y, t, [0, 0])
        pl.load(u, x, [0, 0])
        pl.store(y, u, [8, 0])
"""


def test_reuse_of_a_kernel_by_a_shared_mutex(extract: Extract) -> None:
    shared = check_layout(extract(body(PHASES.format(a=3, b=3))))
    assert [(r.kind, r.proof, r.protection) for r in shared.reuses] == [("reuse", "mutex", "shared mutex 3")]
    apart = check_layout(extract(body(PHASES.format(a=3, b=4))))
    assert [(r.proof, r.reason) for r in apart.reuses] == [(None, "unordered")]


def test_an_alias_of_equal_bytes_is_a_view_and_a_marker_declares_a_partial_one(extract: Extract) -> None:
    source = """
        column = pl.TileType(shape=[8, 1], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec, layout=pl.DN)
        flat = pl.TileType(shape=[1, 8], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec)
        t = pl.make_tile(ROW, addr=0)
        tmp = pl.make_tile(ROW, addr=0x800)
        col = pl.make_tile(column, addr=0x1000)
        row = pl.make_tile(flat, addr=0x1000)
        pl.load(t, x, [0, 0])
        pl.system.bar_all()
        pl.maximum(col, t, tmp, dim=0)
        pl.exp(row, row)
        pl.expand_sub(t, t, col, dim=0)
        pl.system.bar_all()
        pl.store(y, t, [0, 0])
    """
    report = check_layout(extract(body(source, auto_mutex=False)))
    assert [(r.kind, r.proof) for r in report.reuses] == [("view", "same_pipe")]
    shifted = source.replace("row = pl.make_tile(flat, addr=0x1000)", "row = pl.make_tile(flat, addr=0x60)")
    assert [r.reason for r in check_layout(extract(body(shifted, auto_mutex=False))).reuses] == ["live"]
    marked = shifted.replace("addr=0x60)", "addr=0x60)  # pypto: view of t")
    (view,) = check_layout(extract(body(marked, auto_mutex=False))).reuses
    assert (view.kind, view.proof, view.a.tile.name) == ("view", "barrier", "t")


def test_valid_shapes_bound_footprints(extract: Extract) -> None:
    source = """
        nz = pl.TileType(shape=[{rows}, 64], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Vec, layout=pl.NZ,
                         valid_shape=[-1, -1], compact=2)
        nd = pl.TileType(shape=[{rows}, 64], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Vec, valid_shape=[-1, -1])
        wide = pl.TileType(shape=[{rows}, 64], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec, valid_shape=[-1, -1])
        f = pl.make_tile(wide, addr=0)
        s = pl.make_tile(nd, addr=0x3000)
        p = pl.make_tile(nz, addr=0x6000)
        rows = pl.min(32, n)
        pl.set_validshape(s, [rows, 64])
        pl.set_validshape(p, [rows, 64])
        pl.set_validshape(f, [rows, 64])
        pl.load(f, x, [0, 0])
        pl.cast(s, f)
        pl.move(p, s)
    """
    assert "L112" not in codes(check_layout(extract(body(source.format(rows=33)))))
    assert "L112" in codes(check_layout(extract(body(source.format(rows=32)))))


def test_launch_findings_name_their_rows(tmp_path: Path) -> None:
    file = tmp_path / "overlap.py"
    text = HEAD + body("""
        a = pl.make_tile(ROW, addr=0)
        b = pl.make_tile(ROW, addr=0x400)
        pl.load(a, x, [0, 0])
        pl.load(b, x, [8, 0])
        pl.add(a, a, b)
        pl.store(y, a, [0, 0])
    """)
    file.write_text(text)
    table = table_findings(kernel_ir(find_kernel(load_file(file))))
    (found,) = [f.diagnostic for f in table if f.severity is Severity.ERROR]
    lines = text.splitlines()
    assert (found.code, found.kind) == ("L104", "address_overlap")
    assert [lines[s.line - 1].split()[0] for s in found.spans] == ["a", "b"]
    assert [n for n in found.notes if n.startswith("row: Vec a [0x00000,0x00800) 2048 B")]


# --- whole kernels ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("example", sorted(p.name for p in (ROOT / "examples").glob("*.py")))
def test_examples_have_no_layout_error_and_a_plan_at_least_as_tight(example: str) -> None:
    design = design_of_kernel(kernel_ir(find_kernel(load_file(ROOT / "examples" / example))))
    report = check_layout(design)
    assert report.ok, [f.diagnostic.message for f in report.findings if f.severity is Severity.ERROR]
    advice = advise(design, solver="search")
    for plan, before in advice.ends():
        assert before is not None
        assert plan.highest <= before


def test_the_command_reads_kernels(tmp_path: Path) -> None:
    result = CliRunner().invoke(command, [str(ROOT / "examples" / "flash_attention.py"), "--json"])
    document = json.loads(result.output)
    assert result.exit_code == 0
    assert document["kernel"] == "attention"
    assert {"Vec", "Mat", "Left", "Right", "Acc"} == set(document["spaces"])
    assert all(r["line"] for r in document["rows"])
    wrong = CliRunner().invoke(command, [str(ROOT / "examples" / "add.py"), "--kernel", "nothing"])
    assert wrong.exit_code == 2


def test_a_kernel_is_edited_at_its_literals(tmp_path: Path) -> None:
    file = tmp_path / "kernel.py"
    file.write_text(HEAD + body("""
        a = pl.make_tile(ROW, addr=0x0)
        g = pl.make_tile_group(type=ROW, addrs=[0x4000, 0x8000], mutex_ids=[0, 1])
        pl.load(a, x, [0, 0])
        pl.add(g[0], a, a)
        pl.add(g[1], a, a)
        pl.store(y, g[0], [0, 0])
        pl.store(y, g[1], [0, 0])
    """))
    assert CliRunner().invoke(command, [str(file), "--plan", "--write", "--format", "md"]).exit_code == 0
    assert "addrs=0x00800, mutex_ids=[0, 1]" in file.read_text()
    assert "addr=0x0)" in file.read_text(), "what does not move is not touched"
