"""What the automatic pipeline makes of a kernel: the example of the specification, contexts, places of new nodes."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_text import module
from pipeline_kernels import Chain

import pypto_pro
from pypto_pro.diag.errors import SSAViolationError
from pypto_pro.frontend.closure import Captures
from pypto_pro.ir import walk
from pypto_pro.ir.nodes import SetCross, SetField, WaitCross
from pypto_pro.ir.printer import print_kernel
from pypto_pro.ir.verify import check
from pypto_pro.ops.table import lookup

EXAMPLE = """
@pl.pipeline.stage
def mul_part(off, l_g, r_g, ac_g, chan):
    ac = ac_g.next()
    t = chan.next()
    pl.matmul(ac, l_g.next(), r_g.next())
    pl.move(t, ac)

@pl.pipeline.stage
def act_part(off, chan, u_g, y):
    t = chan.next()
    u = u_g.next()
    pl.exp(u, t)
    pl.store(y, u, [off, 0])

@pl.jit(pipeline=pl.pipeline.PipelineConfig({config}))
def kernel(y: pl.Tensor[[pl.DYNAMIC, 32], pl.DT_FP32], m: pl.DT_INT32, n: pl.DT_INT32):
    l_g = pl.make_tile_group(type=kind(pl.DT_FP16, pl.MemorySpace.Left), addrs=0, mutex_ids=[4])
    r_g = pl.make_tile_group(type=kind(pl.DT_FP16, pl.MemorySpace.Right), addrs=0, mutex_ids=[5])
    ac_g = pl.make_tile_group(type=kind(pl.DT_FP32, pl.MemorySpace.Acc), addrs=0, mutex_ids=[6])
    u_g = pl.make_tile_group(type=kind(pl.DT_FP32, pl.MemorySpace.Vec), addrs=0x4000, mutex_ids=[7])
    chan = pl.make_tile_group(type=pl.TileType(shape=[16, 16], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec),
                              addrs=0, mutex_ids=[0, 1], fwd_ids=[0, 1], bwd_ids=[2, 3])
    for o in pl.range(0, m):
        for i in pl.range(0, n):
            off = i * 16
            with pl.section_cube():
                mul_part(off, l_g, r_g, ac_g, chan)
            with pl.section_vector():
                act_part(off, chan, u_g, y)

def kind(dtype, space):
    return pl.TileType(shape=[16, 16], dtype=dtype, target_memory=space)
"""
FULL = """
_pl_ctx_arr = pl.struct_array(2, 'PipeCtx', _pl_is_valid=False, off=0, _pl_task_id=0)
_pl_task_id = 0
_pl_bwd_ids_chan = [2, 3]
_pl_fwd_ids_chan = [0, 1]
with pl.section_vector():
    pl.system.set_cross_core(pipe=pl.PipeType.V, event_id=_pl_bwd_ids_chan[0])
    pl.system.set_cross_core(pipe=pl.PipeType.V, event_id=_pl_bwd_ids_chan[1])
for o in pl.range(0, m):
    for i in pl.range(0, n):
        _pl_ctx_0 = _pl_ctx_arr[_pl_task_id % 2]
        _pl_ctx_0._pl_is_valid = i < n
        off = i * 16
        _pl_ctx_0.off = off
        _pl_ctx_0._pl_task_id = _pl_task_id
        with pl.section_cube():
            if _pl_ctx_0._pl_is_valid:
                pl.system.wait_cross_core(pipe=pl.PipeType.FIX, event_id=_pl_bwd_ids_chan[_pl_ctx_0._pl_task_id % 2])
                mul_part(_pl_ctx_0.off, l_g, r_g, ac_g, chan)
                pl.system.set_cross_core(pipe=pl.PipeType.FIX, event_id=_pl_fwd_ids_chan[_pl_ctx_0._pl_task_id % 2])
        _pl_ctx_neg1 = _pl_ctx_arr[(_pl_task_id + 1) % 2]
        with pl.section_vector():
            if _pl_ctx_neg1._pl_is_valid:
                pl.system.wait_cross_core(pipe=pl.PipeType.V, event_id=_pl_fwd_ids_chan[_pl_ctx_neg1._pl_task_id % 2])
                act_part(_pl_ctx_neg1.off, chan, u_g, y)
                pl.system.set_cross_core(pipe=pl.PipeType.V, event_id=_pl_bwd_ids_chan[_pl_ctx_neg1._pl_task_id % 2])
        _pl_task_id = _pl_task_id + 1
for _pl_drain in pl.range(0, 1):
    _pl_ctx_0 = _pl_ctx_arr[_pl_task_id % 2]
    _pl_ctx_0._pl_is_valid = False
    _pl_ctx_0._pl_task_id = _pl_task_id
    _pl_ctx_neg1 = _pl_ctx_arr[(_pl_task_id + 1) % 2]
    with pl.section_vector():
        if _pl_ctx_neg1._pl_is_valid:
            pl.system.wait_cross_core(pipe=pl.PipeType.V, event_id=_pl_fwd_ids_chan[_pl_ctx_neg1._pl_task_id % 2])
            act_part(_pl_ctx_neg1.off, chan, u_g, y)
            pl.system.set_cross_core(pipe=pl.PipeType.V, event_id=_pl_bwd_ids_chan[_pl_ctx_neg1._pl_task_id % 2])
    _pl_task_id = _pl_task_id + 1
with pl.section_cube():
    pl.system.wait_cross_core(pipe=pl.PipeType.FIX, event_id=_pl_bwd_ids_chan[0])
    pl.system.wait_cross_core(pipe=pl.PipeType.FIX, event_id=_pl_bwd_ids_chan[1])
"""
SERIAL = """
_pl_bwd_ids_chan = [2, 3]
_pl_fwd_ids_chan = [0, 1]
with pl.section_vector():
    pl.system.set_cross_core(pipe=pl.PipeType.V, event_id=_pl_bwd_ids_chan[0])
    pl.system.set_cross_core(pipe=pl.PipeType.V, event_id=_pl_bwd_ids_chan[1])
_pl_sync_id = 0
for o in pl.range(0, m):
    for i in pl.range(0, n):
        off = i * 16
        with pl.section_cube():
            pl.system.wait_cross_core(pipe=pl.PipeType.FIX, event_id=_pl_bwd_ids_chan[_pl_sync_id % 2])
            mul_part(off, l_g, r_g, ac_g, chan)
            pl.system.set_cross_core(pipe=pl.PipeType.FIX, event_id=_pl_fwd_ids_chan[_pl_sync_id % 2])
        with pl.section_vector():
            pl.system.wait_cross_core(pipe=pl.PipeType.V, event_id=_pl_fwd_ids_chan[_pl_sync_id % 2])
            act_part(off, chan, u_g, y)
            pl.system.set_cross_core(pipe=pl.PipeType.V, event_id=_pl_bwd_ids_chan[_pl_sync_id % 2])
        _pl_sync_id = _pl_sync_id + 1
with pl.section_cube():
    pl.system.wait_cross_core(pipe=pl.PipeType.FIX, event_id=_pl_bwd_ids_chan[0])
    pl.system.wait_cross_core(pipe=pl.PipeType.FIX, event_id=_pl_bwd_ids_chan[1])
"""


def transformed(kernel: Any) -> str:
    captures = Captures()
    kernel.compile((), None, (), captures=captures)
    return captures.transformed


def behind_groups(text: str) -> str:
    """The statements of the kernel behind the declaration of its groups."""
    (tree,) = ast.parse(text).body
    assert isinstance(tree, ast.FunctionDef)
    return "\n".join(map(ast.unparse, tree.body[5:]))


@pytest.mark.parametrize(("config", "wanted"), [("preload=1", FULL), ("preload=7", FULL), ("sync_only=True", SERIAL)])
def test_example_of_the_specification(config: str, wanted: str) -> None:
    kernel = module(EXAMPLE.replace("{config}", config))["kernel"]
    assert behind_groups(transformed(kernel)) == wanted.strip("\n")


# --- arguments -------------------------------------------------------------------------------------------------------

TEXT = Chain("CV").source()
CALL = "s1(off, x, y, f_g, u_g, h_g, nz_g, ch0)"
HEAD = "    for i in pl.range(0, n):\n        off = i * 32\n"
ADD = "    pl.add(u, t, 2.0)\n"


def with_argument(argument: str, use: str, before: str = "", inside: str = "", section: str = "") -> Any:
    """A kernel whose vector stage gets one more argument `a`; `use` replaces its addition."""
    text = TEXT.replace("def s1(off, ", "def s1(a, off, ").replace(ADD, f"    {use}\n")
    text = text.replace(f"            {CALL}", f"{section}            {CALL.replace('s1(', f's1({argument}, ')}")
    text = text.replace(HEAD, before + HEAD + inside)
    return module(text)["kernel"]


def outcome(kernel: Any, tasks: int = 4) -> np.ndarray[Any, Any]:
    """What the kernel adds to the product in every task, by task; native, simulator and checks agree."""
    x, w = Chain("CV").inputs(tasks)
    product = x.astype(np.float32) @ w.astype(np.float32)
    found = []
    for _ in range(2):
        y = np.full((x.shape[0], 32), -1.0, np.float32)
        if not found:
            with pypto_pro.options(executor="native"):
                kernel[None, 1](x, w, y, 1, tasks)
        else:
            report = pypto_pro.check(kernel[None, 1], x, w, y, 1, tasks)
            assert report.clean, report.render()
        found.append((y - product).reshape(tasks, -1))
    assert np.array_equal(found[0], found[1])
    assert (found[0] == found[0][:, :1]).all()
    return found[0][:, 0]


def test_a_scalar_that_changes() -> None:
    kernel = with_argument("k", "pl.add(u, t, a)", "    k = 0.5\n", "        k = k + 1.0\n")
    text = transformed(kernel)
    assert "k=pl.const(0.0, pl.DT_FP32)" in text  # its own type, not an integer
    assert "_pl_ctx_0.k = k" in text
    assert outcome(kernel).tolist() == [1.5, 2.5, 3.5, 4.5]


def test_fields_are_sorted_between_valid_and_task() -> None:
    text = transformed(with_argument("b", "pl.add(u, t, 2.0)", "    b = n > 3\n"))
    assert "'PipeCtx', _pl_is_valid=False, b=False, off=0, _pl_task_id=0" in text


def test_a_scalar_expression() -> None:
    kernel = with_argument("i * 2 + m", "pl.add(u, t, pl.const(1.0, pl.DT_FP32) * a)")
    assert "_pl_ctx_0._pl_arg_s1_0 = i * 2 + m" in transformed(kernel)
    assert outcome(kernel).tolist() == [1.0, 3.0, 5.0, 7.0]


def test_a_scalar_settled_behind_the_stages() -> None:
    source = TEXT.replace("def s1(off, ", "def s1(a, off, ").replace(ADD, "    pl.add(u, t, a)\n")
    source = source.replace(CALL, CALL.replace("s1(", "s1(k, ") + "\n        k = k * 2.0")
    assert outcome(module(source.replace(HEAD, "    k = 1.0\n" + HEAD))["kernel"]).tolist() == [1.0, 2.0, 4.0, 8.0]


@pytest.mark.parametrize(("before", "inside", "wanted"), [
    ('    s = pl.struct("S", v=0.0, w=[1.0, 2.0])\n', "        s.v = i * 3.0\n", [2.0, 5.0, 8.0, 11.0]),
    ('    s = pl.struct("S", v=4.0, w=[1.0, 2.0])\n', "        s.w[1] = i + 1.0\n", [5.0, 6.0, 7.0, 8.0]),
])  # fmt: skip
def test_a_struct(before: str, inside: str, wanted: list[float]) -> None:
    kernel = with_argument("s", "pl.add(u, t, a.v + a.w[1])", before, inside)
    text = transformed(kernel)
    assert "_pl_ctx_0.v = s.v" in text
    assert "s1(_pl_ctx_neg1, _pl_ctx_neg1.off" in text
    assert outcome(kernel).tolist() == wanted


def test_a_scalar_named_like_a_field() -> None:
    text = TEXT.replace("def s1(off, ", "def s1(a, off, ").replace(ADD, "    pl.add(u, t, a.off)\n")
    text = text.replace(CALL, CALL.replace("s1(", "s1(s, "))
    text = text.replace(HEAD, '    s = pl.struct("S", off=0.0)\n' + HEAD + "        s.off = i + 0.5\n")
    kernel = module(text)["kernel"]
    assert "_pl_ctx_0._pl_off = off" in transformed(kernel)
    assert outcome(kernel).tolist() == [0.5, 1.5, 2.5, 3.5]


@pytest.mark.parametrize(("section", "argument"), [
    ("            k = i * 4.0\n", "k"),
    ("            e = i + 1\n            k = e * 4.0 - 4.0\n", "k"),
    ("            e = i * 2\n", "e * 2.0"),
])  # fmt: skip
def test_a_name_of_the_section(section: str, argument: str) -> None:
    """What the section computes for an argument is computed for the new task, not for the delayed one."""
    assert outcome(with_argument(argument, "pl.add(u, t, a)", section=section)).tolist() == [0.0, 4.0, 8.0, 12.0]


def test_a_name_bound_on_one_core_before_the_loop() -> None:
    kernel = with_argument(
        "k", "pl.add(u, t, a)", "    with pl.section_vector():\n        k = pl.get_subblock_num() * 1.5\n"
    )
    assert "with pl.section_vector():\n            _pl_ctx_0.k = k" in transformed(kernel)
    assert outcome(kernel).tolist() == [3.0] * 4


@pytest.mark.parametrize(("pick", "wanted"), [
    ("q.next()", "_pl_idx_q = (_pl_idx_q + 1) % 2"), ("q.current()", "_pl_idx_q_v = _pl_idx_q\n"),
    ("q.previous()", "_pl_idx_q_v = (_pl_idx_q + 1) % 2"), ("q[o % 2]", "_pl_idx_q_v = o % 2"),
])  # fmt: skip
def test_a_slot_picked_outside_the_loop(pick: str, wanted: str) -> None:
    """Its number travels: a stage one task late gets the slot its task had."""
    chain = Chain("CV", nested=True)
    text = chain.source().replace("def s1(off, ", "def s1(v, off, ").replace(ADD, "    pl.add(u, t, v)\n")
    text = text.replace(CALL, CALL.replace("s1(", "s1(v, "))
    setup = "    q = pl.make_tile_group(type=half, addrs=0x28000, mutex_ids=[24, 25])\n    with pl.section_vector():\n"
    setup += "        pl.expands(q[0], 100.0)\n        pl.expands(q[1], 200.0)\n"
    text = text.replace("    for o in", setup + "    for o in").replace("m):\n", f"m):\n        v = {pick}\n", 1)
    kernel = module(text)["kernel"]
    made = transformed(kernel)
    assert wanted in made
    assert "v = q[_pl_idx_q_v]" in made
    assert "s1(q[_pl_ctx_neg1._pl_idx_q_v], " in made
    serial = module(text.replace("PipelineConfig()", "PipelineConfig(sync_only=True)"))["kernel"]
    x, w = chain.inputs(6)
    y, z = np.zeros((192, 32), np.float32), np.zeros((192, 32), np.float32)
    kernel[None, 1](x, w, y, 3, 2)
    serial[None, 1](x, w, z, 3, 2)
    assert np.array_equal(y, z)
    report = pypto_pro.check(kernel[None, 1], x, w, y, 3, 2)
    assert report.clean, report.render()


def test_statements_beside_a_stage_run_with_it() -> None:
    section = "            z = u_g.next()\n            pl.expands(z, 7.0)\n"
    kernel = with_argument("1.0", "pl.add(u, t, a)", section=section)
    text = transformed(kernel)
    assert text.count("pl.expands(z, 7.0)") == 2  # in the beats of the loop and in those that drain
    assert outcome(kernel).tolist() == [1.0] * 4


# --- branches, constants ---------------------------------------------------------------------------------------------


def test_constant_branches_are_taken_out() -> None:
    text = TEXT.replace(
        "        with pl.section_vector():\n",
        "        if MODE == 1:\n            with pl.section_vector():\n                other(off)\n"
        "        elif MODE == 2:\n            off = off + 0\n        with pl.section_vector():\n",
    ).replace("@pl.jit", "@pl.pipeline.stage\ndef other(off):\n    pass\n\n@pl.jit")
    kernel = module(text, MODE=0)["kernel"]
    made = transformed(kernel)
    assert "MODE" not in made
    assert "other(" not in made
    assert outcome(kernel).tolist() == [2.0] * 4


def test_without_the_option_stages_are_helpers() -> None:
    text = TEXT.replace("(pipeline=pl.pipeline.PipelineConfig())", "")
    found = module(text)["kernel"].compile((), None, ())
    assert not [s for p in found.programs for s in walk.statements(p.body) if isinstance(s, SetCross | WaitCross)]


# --- places, IR, artefacts -------------------------------------------------------------------------------------------


def test_new_nodes_stand_at_lines_of_the_author() -> None:
    kernel = Chain("CVCV").kernel()
    found = kernel.compile((), None, ())
    lines = Chain("CVCV").source().splitlines()
    assert not check(found, lookup)
    signals = [s for p in found.programs for s in walk.statements(p.body) if isinstance(s, SetCross | WaitCross)]
    assert len(signals) == 34
    for stmt in signals:
        assert lines[stmt.span.line - 4].strip().startswith(("s0(", "s1(", "s2(", "s3("))  # behind the prelude
    fields = [s for p in found.programs for s in walk.statements(p.body) if isinstance(s, SetField)]
    assert fields
    assert all(s.span.file == signals[0].span.file for s in fields)


def test_ir_shows_the_transformed_program() -> None:
    text = print_kernel(Chain("CV").kernel().compile((), None, ()), None)
    assert "_pl_ctx_arr" in text
    assert "set_cross_core" in text


def test_kept_artefacts(tmp_path: Path) -> None:
    chain = Chain("CV")
    x, w = chain.inputs(1)
    with pypto_pro.options(keep=str(tmp_path)):
        chain.kernel()[None, 1](x, w, np.zeros((32, 32), np.float32), 1, 1)
    (file,) = tmp_path.rglob("pipeline_generated.py")
    assert "_pl_ctx_arr = pl.struct_array(2, 'PipeCtx'" in file.read_text("utf-8")


def test_configurations_are_variants_of_their_own() -> None:
    """Two kernels of one text but for the configuration never share compiled code."""
    text = "def make(config):\n" + "\n".join("    " + line for line in TEXT.splitlines()) + "\n    return kernel\n"
    make = module(text.replace("pl.pipeline.PipelineConfig()", "config"))["make"]
    from pypto_pro.language.pipeline import PipelineConfig

    full, serial = make(PipelineConfig()), make(PipelineConfig(sync_only=True))
    assert full.options.deciding != serial.options.deciding
    assert "_pl_ctx_arr" in transformed(full)
    assert "_pl_sync_id" in transformed(serial)
    assert outcome(full).tolist() == outcome(serial).tolist() == [2.0] * 4


def test_single_assignment_holds_for_the_author_only() -> None:
    text = TEXT.replace("@pl.jit(", "@pl.kernel(strict_ssa=True, ")
    assert "_pl_task_id" in print_kernel(module(text)["kernel"].ir(), None)
    with pytest.raises(SSAViolationError, match="`off`"):
        module(text.replace(HEAD, HEAD + "        off = off + 1\n"))["kernel"].ir()


def test_pl_kernel_takes_the_option() -> None:
    text = TEXT.replace("@pl.jit(", "@pl.kernel(")
    assert "_pl_ctx_arr" in print_kernel(module(text)["kernel"].ir(), None)
