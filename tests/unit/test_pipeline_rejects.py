"""Every row of the tables of the automatic pipeline that rejects a kernel: the broken form and its mended twin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from kernel_text import module
from pipeline_kernels import Chain

from pypto_pro.diag.errors import ParserError, PipelineError

BASE = Chain("CV").source()
LONG = Chain("CVCV").source()
LOOP = "for i in pl.range(0, n):"
CUBE = "        with pl.section_cube():\n            s0(off, x, y, w_g, m_g, l_g, r_g, ac_g, ch0)\n"
VECTOR = "        with pl.section_vector():\n            s1(off, x, y, f_g, u_g, h_g, nz_g, ch0)\n"
S0, S1 = CUBE.splitlines()[1].strip(), VECTOR.splitlines()[1].strip()
HEAD = "    for i in pl.range(0, n):\n        off = i * 32\n"
IDS = "mutex_ids=[0, 1], fwd_ids=[0, 1], bwd_ids=[2, 3]"
CHANNEL = f"ch0 = pl.make_tile_group(type=half, addrs=0x0, {IDS})\n"
STORE = "    pl.store(y, u, [off + row, 0])\n"
SECOND = CHANNEL.replace("ch0", "ch1").replace("0x0", "0x8000").replace("[0, 1]", "[4, 5]").replace("[2, 3]", "[6, 7]")
THIRD = SECOND.replace("ch1", "ch9").replace("0x8", "0x10").replace("[4, 5]", "[12, 13]").replace("[6, 7]", "[14, 15]")
BLOCKS = CUBE + VECTOR
Edits = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Row:
    """Edits of a kernel that break it, words of the message, the line it points at, and edits that mend it."""

    broken: Edits
    words: str
    line: str
    mended: Edits = ()
    base: str = BASE


def passing(parameter: str, argument: str) -> Edits:
    """One more argument for the vector stage."""
    return [("def s1(off, ", f"def s1({parameter}, off, "),
            (f"            {S1}", f"            {S1.replace('s1(', f's1({argument}, ')}")]  # fmt: skip


def ahead(*lines: str) -> tuple[str, str]:
    """Statements ahead of the loop."""
    return HEAD, "".join(f"    {line}\n" for line in lines) + HEAD


def extra(decorator: str) -> tuple[str, str]:
    """A second vector function."""
    return "@pl.jit", f"{decorator}def extra(y, u_g):\n    u = u_g.next()\n    pl.expands(u, 1.0)\n\n@pl.jit"


def aliased(use: str) -> Edits:
    """The vector stage picking its slot another way."""
    return [("    t = ch0.next()\n    pl.add(u, t, 2.0)\n", use)]


ROWS: dict[str, Row] = {
    "no stage visible": Row(
        [("@pl.pipeline.stage\n", "")], "no stage function is visible", "def kernel(",
    ),
    "no loop": Row(
        [(HEAD + BLOCKS, f"    off = 0\n    with pl.section_cube():\n        {S0}\n"
                         f"    with pl.section_vector():\n        {S1}\n")],
        "no pipeline loop", "def kernel(",
    ),
    "outside a section": Row([(CUBE + VECTOR, f"{CUBE}        {S1}\n")], "outside a section", S1),
    "another with": Row(
        [(VECTOR, f"        with pl.section_other():\n            {S1}\n")], "`with` that is no section", S1,
    ),
    "never reached": Row([(HEAD, "    return\n" + HEAD)], "is never reached", S0),
    "two in one section": Row(
        [extra("@pl.pipeline.stage\n"),
         (f"            {S1}\n", f"            {S1}\n            extra(y, u_g)\n")],
        "calls 2 stages", "extra(y, u_g)",
        [extra(""),
         (f"            {S1}\n", f"            {S1}\n            extra(y, u_g)\n")],
    ),
    "same kind in a row": Row(
        [extra("@pl.pipeline.stage\n"),
         (VECTOR, f"{VECTOR}        with pl.section_vector():\n            extra(y, u_g)\n")],
        "cube and vector stages in turn", "extra(y, u_g)",
    ),
    "section without a stage": Row(
        [(VECTOR, f"{VECTOR}        with pl.section_cube():\n            off = 1\n")],
        "calls no stage", "with pl.section_cube():",
    ),
    "twice in the chain": Row([(VECTOR, f"{VECTOR}{CUBE}")], "stands twice", S0),
    "run-time branch": Row(
        [(f"            {S1}\n", f"            if n > 3:\n                {S1}\n")], "run-time condition", S1,
        [(f"            {S1}\n", f"            if True:\n                {S1}\n")],
    ),
    "inside an expression": Row([(f"            {S1}\n", f"            a = {S1}\n")], "inside an expression", S1),
    "keywords": Row([("h_g, nz_g, ch0)\n", "h_g, nz_g, ch0=ch0)\n")], "positional arguments", "ch0=ch0"),
    "loop variable": Row([(LOOP, "for (i, k) in pl.range(0, n):")], "one plain name", "for (i, k)"),
    "no end bound": Row([(LOOP, "for i in pl.range(*n):")], "no end bound", "pl.range(*n)",
                        [(LOOP, "for i in pl.range(n):")]),
    "step 0": Row([(LOOP, "for i in pl.range(0, n, 0):")], "above 0, found `0`", "pl.range(0, n, 0)"),
    "step negative": Row([(LOOP, "for i in pl.range(0, n, -2):")], "above 0, found `-2`", "pl.range(0, n, -2)",
                         [(LOOP, "for i in pl.range(0, n, m):")]),
    "step of minus": Row([(LOOP, "for i in pl.range(0, n, -m):")], "above 0, found `-m`", "pl.range(0, n, -m)"),
    "two slots a task": Row(
        [("    t = ch0.next()\n    pl.add(u, t, 2.0)\n",
          "    t = ch0.next()\n    v = ch0.next()\n    pl.add(u, t, v)\n")],
        "takes several slots of channel `ch0` a task", "v = ch0.next()",
    ),
    "a slot in each trip": Row(
        [("    t = ch0.next()\n    pl.add(u, t, 2.0)\n",
          "    for k in pl.range(2):\n        t = ch0.next()\n        pl.add(u, t, 2.0)\n")],
        "one in each trip of a loop", "t = ch0.next()",
    ),
    "slot picked in the loop": Row(
        [*passing("v", "v"), (CUBE, "        v = u_g.next()\n" + CUBE)],
        "`v` is made in the loop and passed to `s1`, which runs 1 task late", "v",
    ),
    "jump between stages": Row(
        [(VECTOR, "        if i == 1:\n            continue\n" + VECTOR)],
        "`continue` between the stages `s0` and `s1`", "continue",
        [(VECTOR, VECTOR + "        if i == 1:\n            continue\n")],
    ),
    "jump in a section": Row(
        [(f"            {S1}\n", f"            {S1}\n            if i == 1:\n                break\n")],
        "`break` in the section of stage `s1`", "break", [(VECTOR, VECTOR + "        if i == 1:\n            break\n")],
    ),
    "return in the loop": Row(
        [(VECTOR, VECTOR + "        if i == 1:\n            return\n")],
        "`return` in the loops of a pipeline", "return",
        [(VECTOR, VECTOR + "        if i == 1:\n            break\n")],
    ),
    "stage behind the loop": Row(
        [(VECTOR, VECTOR + f"    with pl.section_vector():\n        {S1.replace('off', '0')}\n")],
        "stage `s1` is called outside the pipeline loop", S1.replace("off", "0"),
    ),
    "returns a value": Row([(STORE, STORE + "    return off\n")], "returns a value", "return off",
                           [(STORE, STORE + "    return\n")]),
    "struct array": Row(
        [*passing("a", "arr"),
         ahead('arr = pl.struct_array(2, "S", v=0)')],
        "pl.struct_array", "s1(arr",
        [*passing("a", "arr"),
         ahead('arr = pl.struct("S", v=0)')],
    ),
    "struct of the section": Row(
        [("def s1(off, ", "def s1(a, off, "),
         (f"            {S1}", f'            s = pl.struct("S", v=0)\n            {S1.replace("s1(", "s1(s, ")}')],
        "struct `s` passed to stage `s1` is bound in the section", "s1(s",
        [("def s1(off, ", "def s1(a, off, "), ahead('s = pl.struct("S", v=0)'),
         (f"            {S1}", f'            s.v = i\n            {S1.replace("s1(", "s1(s, ")}')],
    ),
    "struct written": Row(
        [*passing("a", "s"), ("    row = pl.get", "    a.v = 1\n    row = pl.get"), ahead('s = pl.struct("S", v=0)')],
        "writes a field of struct `s`", "a.v = 1",
    ),
    "struct handed on": Row(
        [*passing("a", "s"), ("    row = pl.get", "    pl.ssbuf_store(a, 0)\n    row = pl.get"),
         ahead('s = pl.struct("S", v=0)')],
        "hands an operation the whole struct `s`", "pl.ssbuf_store",
    ),
    "two structs, one field": Row(
        [*passing("a, b", "s, r"), ahead('s = pl.struct("S", v=0)', 'r = pl.struct("R", v=0)')],
        "both have a field `v`", "s1(s, r",
        [*passing("a, b", "s, r"), ahead('s = pl.struct("S", v=0)', 'r = pl.struct("R", u=0)')],
    ),
    "slot of a group without mutex ids": Row(
        [*passing("v", "v"),
         ahead("q = pl.make_tile_group(type=half, addrs=0x28000, depth=2)", "v = q.next()")],
        "picked outside the pipeline loop, expected a group with `mutex_ids`", "s1(v",
        [*passing("v", "v"),
         ahead("q = pl.make_tile_group(type=half, addrs=0x28000, mutex_ids=[24, 25])", "v = q.next()")],
    ),
    "generated name": Row([("off = i * 32", "off = i * 32\n        _pl_task_id = 1")], "makes itself",
                          "_pl_task_id = 1", [("off = i * 32", "off = i * 32\n        _pl_other = 1")]),
    "generated context": Row([("off = i * 32", "_pl_ctx_neg1 = 0\n        off = i * 32")],
                             "makes itself", "_pl_ctx_neg1"),
    "generated counter": Row(
        [("PipelineConfig()", "PipelineConfig(sync_only=True)"), ahead("_pl_sync_id = 1")], "makes itself",
        "_pl_sync_id = 1", [("PipelineConfig()", "PipelineConfig(sync_only=True)"), ahead("_pl_task_id = 1")],
    ),
    "between the stages": Row(
        [(VECTOR, "        off = off + 0\n" + VECTOR)], "assigned between the stages", "off = off + 0",
        [(VECTOR, VECTOR + "        off = off + 0\n")],
    ),
    "beside a delayed stage": Row(
        [(f"            {S1}", f"            pl.set_mask_norm()\n            pl.set_vec_mask(i, i)\n            {S1}")],
        "stands beside the call of `s1`", "pl.set_vec_mask",
        [(f"            {S1}", f"            pl.set_mask_norm()\n            {S1}")],
    ),
    "tuple of the loop": Row(
        [*passing("v", "v"), ("off = i * 32\n", "off = i * 32\n        v = pl.make_tuple(k=i)\n")],
        "`v` is made in the loop and passed to `s1`", "s1(v",
        [*passing("v", "v"), ("off = i * 32\n", "off = i * 32\n        v = pl.make_tuple(k=u_g)\n")],
    ),
    "tensor of the loop": Row(
        [*passing("v", "v"), ("off = i * 32\n", "off = i * 32\n        v = pl.make_tensor(y, [n, 32])\n")],
        "found a tensor", "s1(v", [*passing("v", "v"), ahead("v = pl.make_tensor(y, [n, 32])")],
    ),
    # --- channels ---
    "inline accessor": Row(aliased("    pl.add(u, ch0.next(), 2.0)\n"), "picks a slot of channel", "pl.add(u, ch0"),
    "chained accessor": Row(
        aliased("    t = ch0.next()[0:8, 0:32]\n    pl.add(u[0:8, 0:32], t, 2.0)\n"), "picks a slot", "t = ch0.next()[",
        aliased("    c = ch0\n    t = c.next()\n    v = t[0:8, 0:32]\n    pl.add(u[0:8, 0:32], v, 2.0)\n"),
    ),
    "unpacked accessor": Row(
        aliased("    t, v = ch0.next(), 1\n    pl.add(u, t, 2.0)\n"), "picks a slot", "t, v = ch0",
        aliased("    t = ch0[0]\n    pl.add(u, t, 2.0)\n"),
    ),
    "channel of a tuple": Row(
        [*aliased("    t = ch0.g.next()\n    pl.add(u, t, 2.0)\n"),
         ahead("agg = pl.make_tuple(g=ch0)"), (f"            {S1}", f"            {S1.replace('ch0)', 'agg)')}")],
        "picks a slot", "t = ch0.g.next()",
        [*aliased("    c = ch0.g\n    t = c.next()\n    pl.add(u, t, 2.0)\n"),
         ahead("agg = pl.make_tuple(g=ch0)"), (f"            {S1}", f"            {S1.replace('ch0)', 'agg)')}")],
    ),
    "store from a tile of its own": Row(
        [("    pl.store(y, u, [off + row, 0])\n",
          "    z = pl.make_tile(pl.TileType(shape=[16, 32], dtype=pl.DT_FP32), addr=0x28000)\n"
          "    pl.add(z, u, 1.0)\n    pl.store(y, z, [off + row, 0])\n")],
        "one made by pl.make_tile", "pl.store(y, z",
    ),
    "local group of another name": Row(
        [("def s1(off, x, y, f_g, u_g, ", "def s1(off, x, y, f_g, v_g, "),
         ("    u = u_g.next()\n    t =", "    u = v_g.next()\n    t =")],
        "expected the name the kernel has for it, `u_g`", "pl.store(y, u",
    ),
    "memory space": Row(
        [("    half = pl.Tile", "    space = pl.MemorySpace.Vec\n    half = pl.Tile"),
         ("target_memory=pl.MemorySpace.Vec)\n    half16", "target_memory=space)\n    half16")],
        "`target_memory` of a channel", "target_memory=space",
    ),
    "type from elsewhere": Row(
        [("@pl.jit", "def kind():\n    return pl.TileType(shape=[16, 32], dtype=pl.DT_FP32)\n\n@pl.jit"),
         (CHANNEL, "ty, _ = (half, 0)\n    " + CHANNEL.replace("type=half", "type=ty"))],
        "the tile type of a channel", "ch0 = ",
    ),
    "no ids": Row([("fwd_ids=[0, 1]", "fwd_ids=[]")], "one event id or more, found none", "ch0 = "),
    "id out of range": Row([("fwd_ids=[0, 1]", "fwd_ids=[0, 16]")], "from 0 to 15, found 0, 16", "ch0 = "),
    "ids of the kernel": Row(
        [(CHANNEL, "ids = [0, 1]\n    " + CHANNEL.replace("fwd_ids=[0, 1]", "fwd_ids=ids"))],
        "a name of the module", "ch0 = ",
        [("@pl.jit", "ids = [0, 1]\n\n@pl.jit"), ("fwd_ids=[0, 1]", "fwd_ids=ids")],
    ),
    "channel of one stage": Row(
        [(CHANNEL, CHANNEL + "    " + SECOND), *passing("ch1", "ch1"),
         ("    pl.add(u, t, 2.0)\n", "    pl.add(u, t, 2.0)\n    e = ch1.next()\n    pl.add(e, t, 2.0)\n")],
        "is used by 1 stages", "ch1 = ",
    ),
    "channel of nobody": Row([(CHANNEL, CHANNEL + "    " + SECOND)], "is used by 0 stages, expected two", "ch1 = "),
    "channel of one core": Row(
        [("h_g, nz_g, ch0, ch1)", "h_g, nz_g, ch0, ch1, ch9)"), ("h_g, nz_g, ch2)", "h_g, nz_g, ch2, ch9)"),
         ahead(THIRD),
         ("    hf = h_g.next()\n", "    hf = h_g.next()\n    k = ch9.next()\n    pl.add(k, u, 1.0)\n"),
         ("    pl.store(y, u,", "    k = ch9.next()\n    pl.add(u, k, 1.0)\n    pl.store(y, u,")],
        "run on the vector core", "ch9 = ", base=LONG,
    ),
    "as many slots": Row(
        [("u_g = pl.make_tile_group(type=half, addrs=0x22000, mutex_ids=[18, 19])",
          "u_g = pl.make_tile_group(type=half, addrs=0x0, mutex_ids=[0, 1, 2])")],
        "expected as many slots, found 3 and 2", "u_g = ",
        [("addrs=0x22000, mutex_ids=[18, 19]", "addrs=0x28000, mutex_ids=[18, 19, 24]")],
    ),
    "equal mutex ids": Row(
        [("addrs=0x22000, mutex_ids=[18, 19]", "addrs=0x0, mutex_ids=[18, 19]")],
        "expected equal mutex ids, found [[18], [19]] and [[0], [1]]", "u_g = ",
        [("addrs=0x22000, mutex_ids=[18, 19]", "addrs=0x0, mutex_ids=[0, 1]")],
    ),
    "slots crosswise": Row(
        [("addrs=0x22000, mutex_ids=[18, 19]", "addrs=[0x800, 0], mutex_ids=[0, 1]")],
        "expected slots of one number at one address, found slot 0 at slot 1", "u_g = ",
    ),
    "three groups": Row(
        [("addrs=0x22000, mutex_ids=[18, 19]", "addrs=0x0, mutex_ids=[0, 1]"),
         ("addrs=0x20000, mutex_ids=[16, 17]", "addrs=0x0, mutex_ids=[0, 1]")],
        "overlaps 2 others, expected one at most", "ch0 = ",
        [("addrs=0x22000, mutex_ids=[18, 19]", "addrs=0x0, mutex_ids=[0, 1]")],
    ),
    # --- ids ---
    "three ids for two slots": Row([("bwd_ids=[2, 3]", "bwd_ids=[2, 3, 4]")],
                                   "expected a number of event ids that divides 2, found 3 ids", "ch0 = ",
                                   [("bwd_ids=[2, 3]", "bwd_ids=[2]")]),
    "too many credits": Row(
        [(IDS, f"mutex_ids={list(range(16))}, fwd_ids=[0], bwd_ids=[2]"), ("mutex_ids=[16, 17]", "mutex_ids=[30, 31]")],
        "set too often before the loop, expected 15 credits", S0,
        [(IDS, f"mutex_ids={list(range(15))}, fwd_ids=[0], bwd_ids=[2]")],
    ),
    "set by hand": Row(
        [ahead("with pl.section_cube():", "    pl.system.set_cross_core(pipe=pl.PipeType.FIX, event_id=2)")],
        "uses event id 2, which the automatic pipeline uses itself", "set_cross_core(",
        [ahead("with pl.section_cube():", "    pl.system.set_cross_core(pipe=pl.PipeType.FIX, event_id=5)")],
    ),
    "waited for by hand": Row(
        [ahead("with pl.section_cube():", "    pl.system.wait_cross_core(pipe=pl.PipeType.FIX, event_id=0)")],
        "`wait_cross_core` uses event id 0", "wait_cross_core(",
    ),
    "hard sync_all": Row(
        [("bwd_ids=[2, 3]", "bwd_ids=[12, 3]"), ahead("pl.system.sync_all()")],
        "`sync_all` uses event id 12", "pl.system.sync_all()", [ahead("pl.system.sync_all()")],
    ),
}  # fmt: skip


def edited(base: str, edits: Edits) -> str:
    """The text with every edit made; each must find its place."""
    for old, new in edits:
        assert old in base, f"{old!r} is not in\n{base}"
        base = base.replace(old, new)
    return base


def compiled(text: str) -> Any:
    """The IR of the kernel in the text."""
    return module(text)["kernel"].compile((), None, ())


@pytest.mark.parametrize("name", ROWS)
def test_broken(name: str) -> None:
    row = ROWS[name]
    text = edited(row.base, row.broken)
    with pytest.raises(PipelineError) as caught:
        compiled(text)
    error = caught.value
    assert isinstance(error, ValueError)
    assert row.words in error.message
    assert "found" in error.message
    assert error.span is not None
    place = error.diagnostic.spans[0]
    lines = error.source_lines
    assert lines is not None
    assert row.line in lines[place.line - 1]


@pytest.mark.parametrize("name", ROWS)
def test_mended(name: str) -> None:
    row = ROWS[name]
    assert compiled(edited(row.base, row.mended)) is not None


def test_reserved_ids_have_their_code() -> None:
    row = ROWS["set by hand"]
    with pytest.raises(PipelineError) as caught:
        compiled(edited(row.base, row.broken))
    assert caught.value.diagnostic.code == "S110"
    assert caught.value.diagnostic.kind == "reserved_event_id"


def test_a_mistake_that_is_none_of_the_pipeline_keeps_its_error() -> None:
    with pytest.raises(ParserError) as caught:
        compiled(edited(BASE, [("pl.add(u, t, 2.0)", "pl.ad(u, t, 2.0)")]))
    assert not isinstance(caught.value, PipelineError)


def test_a_mistake_beside_a_branch_not_reached_keeps_its_error() -> None:
    """Whether the branch is constant is not known yet; it is not called a run-time one."""
    branch = f"        if MODE:\n            with pl.section_vector():\n                {S1}\n"
    text = edited(BASE, [("pl.matmul(ac", "pl.matmull(ac"), (VECTOR, branch)])
    with pytest.raises(ParserError, match="matmull") as caught:
        module(text, MODE=1)["kernel"].compile((), None, ())
    assert not isinstance(caught.value, PipelineError)


def test_ids_are_not_read_without_the_option() -> None:
    plain = ("@pl.jit(pipeline=pl.pipeline.PipelineConfig())", "@pl.jit")
    text = edited(BASE, [plain, ("fwd_ids=[0, 1]", "fwd_ids=[99]")])
    assert compiled(text).kind == "mixed"


@pytest.mark.parametrize("value", ["2.0", "True", "'2'", "None"])
def test_preload_is_an_int(value: str) -> None:
    with pytest.raises(TypeError, match="`preload` of the pipeline is an int, found"):
        compiled(edited(BASE, [("PipelineConfig()", f"PipelineConfig(preload={value})")]))


def test_option_is_a_configuration() -> None:
    with pytest.raises(TypeError, match=r"pipeline is a pl\.pipeline\.PipelineConfig or None, found 2"):
        module(edited(BASE, [("pl.pipeline.PipelineConfig()", "2")]))
