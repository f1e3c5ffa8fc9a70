"""The layout report and the simulator agree: a proof that two tiles may share bytes means that no schedule races.

Every proof kind has a kernel whose two tiles `a` and `b` lie at one address, and a twin with the order taken away, for
which the report must find no proof and the simulator a race. Random programs then look for proofs that do not hold.
"""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pypto_pro import interp
from pypto_pro.diag import Severity
from pypto_pro.interp.checks import Checker
from pypto_pro.memory.check import LayoutReport, check_layout
from pypto_pro.memory.extract import design_of_kernel
from pypto_pro.memory.proofs import Reuse
from pypto_pro.runtime.inspect import find_kernel, kernel_ir, load_file

RACES = {"race", "waw_hazard", "lost_load"}
SCHEDULES = [("in_order", 0), ("latest", 0), *(("random", seed) for seed in range(4))]
HEAD = """
import pypto_pro.language as pl

MTE1, MTE2, MTE3, V, M, FIX = (getattr(pl.PipeType, p) for p in ("MTE1", "MTE2", "MTE3", "V", "M", "FIX"))


def tile_type(shape, dtype=pl.DT_FP32, space=pl.MemorySpace.Vec):
    return pl.TileType(shape=shape, dtype=dtype, target_memory=space)


def flag(p, q, event):
    pl.system.sync_src(set_pipe=p, wait_pipe=q, event_id=event)
    pl.system.sync_dst(set_pipe=p, wait_pipe=q, event_id=event)


"""
counter = itertools.count()


def vector_kernel(statements: str, auto_mutex: bool) -> str:
    return (
        f"{HEAD}@pl.jit(auto_mutex={auto_mutex})\n"
        "def kernel(x: pl.Tensor[[64, 64], pl.DT_FP32], y: pl.Tensor[[64, 64], pl.DT_FP32], n: pl.DT_INT32):\n"
        "    ROW = pl.TileType(shape=[8, 64], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec)\n"
        "    with pl.section_vector():\n" + textwrap.indent(textwrap.dedent(statements), " " * 8)
    )


class Subject:
    """A kernel of a source text: what the report says of the pair (a, b), and what the simulator sees."""

    def __init__(self, folder: Path, source: str, scalars: tuple[int, ...]) -> None:
        file = folder / f"subject_{next(counter)}.py"
        file.write_text(source)
        self.kernel = find_kernel(load_file(file))
        self.scalars = scalars

    def pairs(self) -> list[Reuse]:
        ir = self._prepared().variant.kernel
        return [r for r in check_layout(design_of_kernel(ir)).reuses if {r.a.tile.name, r.b.tile.name} == {"a", "b"}]

    def races(self) -> set[str]:
        found: set[str] = set()
        for schedule, seed in SCHEDULES:
            prepared = self._prepared()
            checker = Checker(prepared.variant.kernel)
            interp.run(prepared.variant.kernel, prepared.launch, schedule=schedule, seed=seed, observer=checker)
            found |= {f.kind for f in checker.findings} & RACES
        return found

    def _prepared(self) -> Any:
        shapes = [(p.annotation.dims, p.dtype) for p in self.kernel.specs if p.kind.value == "tensor"]
        drawn = np.random.default_rng(5)  # equal bytes would hide a race
        arrays = [drawn.uniform(-1, 1, dims).astype(dtype.numpy) for dims, dtype in shapes]
        self.arrays = arrays
        return self.kernel[None, 1].prepare((*arrays, *self.scalars), {})


Make = Callable[..., Subject]


@pytest.fixture
def subject(tmp_path: Path) -> Make:
    def make(source: str, *scalars: int) -> Subject:
        return Subject(tmp_path, source, scalars)

    return make


# --- a kernel and its twin for every kind of proof -------------------------------------------------------------------

TILES = """
a = pl.make_tile(ROW, addr=0)
b = pl.make_tile(ROW, addr=0)
c = pl.make_tile(ROW, addr=0x1000)
"""
END = """
flag(V, MTE3, 7)
pl.store(y, c, [0, 0])
"""
SAME_PIPE = (
    TILES
    + """
pl.expands(a, 1.0)
pl.exp(c, a)
pl.expands(b, 2.0)
pl.exp(c, b)
"""
    + END
)
OTHER_PIPE = SAME_PIPE.replace("pl.expands(b, 2.0)", "pl.load(b, x, [0, 0])\nflag(MTE2, V, 1)")
MUTEX = """
a = pl.make_tile_group(type=ROW, addrs=0, mutex_ids=[1]).current()
b = pl.make_tile_group(type=ROW, addrs=0, mutex_ids=[1]).current()
c = pl.make_tile_group(type=ROW, addrs=0x1000, mutex_ids=[3]).current()
for i in pl.range(n):
    pl.load(a, x, [0, 0])
    pl.exp(c, a)
    pl.store(y, c, [0, 0])
    pl.load(b, x, [8, 0])
    pl.exp(c, b)
    pl.store(y, c, [8, 0])
"""
NO_COMMON_ID = MUTEX.replace("b = pl.make_tile_group(type=ROW, addrs=0, mutex_ids=[1])",
                             "b = pl.make_tile_group(type=ROW, addrs=0, mutex_ids=[2])")  # fmt: skip
FLAGS = (
    TILES
    + """
for i in pl.range(n):
    pl.load(a, x, [0, 0])
    flag(MTE2, V, 0)
    pl.exp(c, a)
    flag(V, MTE2, 1)
    pl.load(b, x, [8, 0])
    flag(MTE2, V, 2)
    pl.exp(c, b)
    flag(V, MTE2, 3)
"""
    + END
)
NO_WAY_BACK = FLAGS.replace("flag(V, MTE2, 3)", "pass")
WRONG_PIPE = FLAGS.replace("flag(V, MTE2, 1)", "flag(V, MTE3, 1)")
RUN_TIME_FLAGS = (
    TILES
    + """
e = n % 2
for i in pl.range(n):
    pl.load(a, x, [0, 0])
    flag(MTE2, V, e)
    pl.exp(c, a)
    flag(V, MTE2, e)
    pl.load(b, x, [8, 0])
    flag(MTE2, V, e)
    pl.exp(c, b)
    flag(V, MTE2, e)
"""
    + END
)
SET_HERE_WAITED_THERE = RUN_TIME_FLAGS.replace("    flag(V, MTE2, e)\n    pl.load(b", """\
    pl.system.sync_src(set_pipe=V, wait_pipe=MTE2, event_id=e)
    pl.load(b""").replace("""pl.exp(c, b)
    flag(V, MTE2, e)""", """pl.exp(c, b)
    pl.system.sync_dst(set_pipe=V, wait_pipe=MTE2, event_id=e)""")  # fmt: skip
BARRIER = (
    TILES
    + """
for i in pl.range(n):
    pl.load(a, x, [0, 0])
    flag(MTE2, V, 0)
    pl.exp(c, a)
    pl.system.bar_all()
    pl.load(b, x, [8, 0])
    flag(MTE2, V, 2)
    pl.exp(c, b)
    pl.system.bar_all()
"""
    + END
)
NO_BARRIER = BARRIER.replace("pl.system.bar_all()", "pass")
BARRIER_NOT_TAKEN = BARRIER.replace("    pl.system.bar_all()", "    if n > 9:\n        pl.system.bar_all()")
VIEW = (
    TILES
    + """
pl.expands(a, 1.0)
flag(V, MTE3, 0)
pl.store(y, b, [0, 0])
flag(MTE3, V, 1)
pl.expands(a, 2.0)
"""
)
VIEW_TOO_EARLY = VIEW.replace("flag(V, MTE3, 0)", "pass")
UNUSED_SLOT = """
a = pl.make_tile_group(type=ROW, addrs=[0x1000, 0], mutex_ids=[0, 1])
b = pl.make_tile_group(type=ROW, addrs=0, mutex_ids=[2]).current()
pl.load(a[0], x, [0, 0])
pl.store(y, a[0], [0, 0])
pl.load(b, x, [8, 0])
pl.store(y, b, [8, 0])
"""
USED_SLOT = UNUSED_SLOT.replace("a[0]", "a[1]")
CROSS = (
    HEAD
    + """@pl.jit(auto_mutex=False)
def kernel(x: pl.Tensor[[32, 32], pl.DT_FP16], w: pl.Tensor[[32, 32], pl.DT_FP16], y: pl.Tensor[[64, 32], pl.DT_FP32]):
    b = pl.make_tile(tile_type([16, 32]), addr=0)
    with pl.section_cube():
        half = pl.DT_FP16
        am = pl.make_tile(tile_type([32, 32], half, pl.MemorySpace.Mat), addr=0)
        wm = pl.make_tile(tile_type([32, 32], half, pl.MemorySpace.Mat), addr=0x1000)
        left = pl.make_tile(tile_type([32, 32], half, pl.MemorySpace.Left), addr=0)
        right = pl.make_tile(tile_type([32, 32], half, pl.MemorySpace.Right), addr=0)
        acc = pl.make_tile(tile_type([32, 32], pl.DT_FP32, pl.MemorySpace.Acc), addr=0)
        pl.load(am, x, [0, 0])
        pl.load(wm, w, [0, 0])
        flag(MTE2, MTE1, 0)
        pl.move(left, am)
        pl.move(right, wm)
        flag(MTE1, M, 0)
        pl.matmul(acc, left, right)
        flag(M, FIX, 0)
        pl.system.wait_cross_core(pipe=FIX, event_id=1)
        pl.move(b, acc, acc_to_vec_mode=pl.AccToVecMode.DualModeSplitM)
        pl.system.set_cross_core(pipe=FIX, event_id=0)
    with pl.section_vector():
        a = pl.make_tile(tile_type([16, 32]), addr=0)
        s = pl.get_subblock_idx()
        pl.expands(a, 1.0)
        flag(V, MTE3, 0)
        pl.store(y, a, [32 + s * 16, 0])
        pl.system.set_cross_core(pipe=MTE3, event_id=1)
        pl.system.wait_cross_core(pipe=MTE3, event_id=0)
        pl.store(y, b, [s * 16, 0])
"""
)
NO_RELEASE = CROSS.replace("        pl.system.wait_cross_core(pipe=FIX, event_id=1)\n", "").replace(
    "        pl.system.set_cross_core(pipe=MTE3, event_id=1)\n", ""
)
HEADER, _, BODIES = CROSS.partition("        pl.system.wait_cross_core(pipe=FIX")
READY_RELEASE = (
    HEADER
    + """        for i in pl.range(4):
            pl.system.wait_cross_core(pipe=FIX, event_id=1)
            pl.move(b, acc, acc_to_vec_mode=pl.AccToVecMode.DualModeSplitM)
            pl.system.set_cross_core(pipe=FIX, event_id=0)
DRAIN
    with pl.section_vector():
        a = pl.make_tile(tile_type([16, 32]), addr=0)
        s = pl.get_subblock_idx()
PRIME
        for i in pl.range(4):
            pl.system.wait_cross_core(pipe=MTE3, event_id=0)
            pl.store(y, b, [s * 16, 0])
            flag(MTE3, V, 0)
            pl.expands(a, 1.0)
            flag(V, MTE3, 0)
            pl.store(y, a, [32 + s * 16, 0])
            pl.system.bar_mte3()
            pl.system.set_cross_core(pipe=MTE3, event_id=1)
"""
)


def with_credits(count: int) -> str:
    """The loop with so many releases set ahead, and taken at the end."""
    drain = "        pl.system.wait_cross_core(pipe=FIX, event_id=1)\n" * count
    prime = "        pl.system.set_cross_core(pipe=MTE3, event_id=1)\n" * count
    return READY_RELEASE.replace("DRAIN\n", drain).replace("PRIME\n", prime)


ORDERED = {
    "same_pipe": (vector_kernel(SAME_PIPE, False), (3,), "same_pipe"),
    "mutex": (vector_kernel(MUTEX, True), (3,), "mutex"),
    "flag": (vector_kernel(FLAGS, False), (3,), "flag"),
    "flag, run-time id": (vector_kernel(RUN_TIME_FLAGS, False), (3,), "flag"),
    "barrier": (vector_kernel(BARRIER, False), (3,), "barrier"),
    "cross_core": (CROSS, (), "cross_core"),
    "cross_core, one credit": (with_credits(1), (), "cross_core"),
    "view": (vector_kernel(VIEW, False), (3,), "flag"),
    "exclusive": (vector_kernel(UNUSED_SLOT, True), (3,), "exclusive"),
}
TWINS = {
    "same_pipe": (vector_kernel(OTHER_PIPE, False), (3,)),
    "mutex": (vector_kernel(NO_COMMON_ID, True), (3,)),
    "flag, no way back": (vector_kernel(NO_WAY_BACK, False), (3,)),
    "flag, wrong pipe": (vector_kernel(WRONG_PIPE, False), (3,)),
    "flag, run-time id": (vector_kernel(SET_HERE_WAITED_THERE, False), (3,)),
    "barrier": (vector_kernel(NO_BARRIER, False), (3,)),
    "barrier, arm not taken": (vector_kernel(BARRIER_NOT_TAKEN, False), (3,)),
    "cross_core": (NO_RELEASE, ()),
    "cross_core, two credits": (with_credits(2), ()),
    "view": (vector_kernel(VIEW_TOO_EARLY, False), (3,)),
    "exclusive": (vector_kernel(USED_SLOT, True), (3,)),
}


@pytest.mark.parametrize("name", ORDERED)
def test_what_is_proved_never_races(name: str, subject: Make) -> None:
    source, scalars, proof = ORDERED[name]
    made = subject(source, *scalars)
    pairs = made.pairs()
    assert pairs
    assert {p.proof for p in pairs} == {proof}
    assert {p.kind for p in pairs} == {"view" if name == "view" else "reuse"}
    assert made.races() == set()


@pytest.mark.parametrize("name", TWINS)
def test_what_is_not_proved_races(name: str, subject: Make) -> None:
    source, scalars = TWINS[name]
    made = subject(source, *scalars)
    pairs = made.pairs()
    assert pairs
    assert {p.proof for p in pairs} == {None}
    assert made.races() & {"race", "waw_hazard"}


# --- random programs -------------------------------------------------------------------------------------------------

PIPES = ("MTE2", "V", "MTE3")
LINES = st.one_of(
    st.sampled_from([
        "pl.load(a, x, [0, 0])", "pl.load(b, x, [8, 0])", "pl.exp(c, a)", "pl.exp(c, b)", "pl.expands(a, 1.0)",
        "pl.expands(b, 2.0)", "pl.store(y, a, [16, 0])", "pl.store(y, b, [24, 0])", "pl.system.bar_mte2()",
        "pl.system.bar_all()",
    ]),
    st.tuples(st.sampled_from(PIPES), st.sampled_from(PIPES), st.integers(0, 2))
    .filter(lambda f: f[0] != f[1])
    .map(lambda f: f"flag({f[0]}, {f[1]}, {f[2]})"),
)  # fmt: skip


def tile_of(line: str) -> str:
    """The tile of the pair that a line of a random program touches, empty for the others."""
    return next((t for t in "ab" if f"({t}," in line or f", {t})" in line or f", {t}," in line), "")


@st.composite
def programs(draw: st.DrawFn) -> str:
    """Statements on two tiles at one address, some of them in a loop or under a branch."""
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        block = draw(st.lists(LINES, min_size=1, max_size=6))
        match draw(st.sampled_from(["", "", "for i in pl.range(n):", "if n > 2:", "if n > 9:"])):
            case "":
                lines += block
            case head:
                lines += [head, *(f"    {line}" for line in block)]
    return "\n".join(lines)


def races_between(made: Subject, source: str) -> set[tuple[str, str]]:
    """Pairs of lines that race, one about `a` and the other about `b`."""
    text = source.splitlines()
    found = set()
    for schedule, seed in SCHEDULES:
        prepared = made._prepared()
        checker = Checker(prepared.variant.kernel)
        interp.run(prepared.variant.kernel, prepared.launch, schedule=schedule, seed=seed, observer=checker)
        for f in checker.findings:
            if f.kind in RACES and f.kind != "lost_load":
                lines = tuple(text[span.line - 1].strip() for span in f.spans[:2])
                if {tile_of(line) for line in lines} == {"a", "b"}:
                    found.add(lines)
    return found


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(statements=programs(), auto_mutex=st.booleans(), ids=st.sampled_from([(1, 1), (1, 2)]))
def test_no_proof_of_a_random_program_is_refuted(
    subject: Make, statements: str, auto_mutex: bool, ids: tuple[int, int]
) -> None:
    tiles = MUTEX.partition("for")[0].replace("mutex_ids=[1]).current()\nb", f"mutex_ids=[{ids[0]}]).current()\nb")
    tiles = tiles.replace("mutex_ids=[1]).current()\nc", f"mutex_ids=[{ids[1]}]).current()\nc")
    source = vector_kernel((tiles if auto_mutex else TILES) + statements, auto_mutex)
    made = subject(source, 3)
    proved = all(p.proof is not None for p in made.pairs())
    raced = races_between(made, source)
    assert not (proved and raced), f"proved, but {raced} race in\n{statements}"


# --- field cases -----------------------------------------------------------------------------------------------------


def field_report(name: str) -> LayoutReport:
    """The report on a kernel of the field cases, which the checks run, too."""
    cases = load_file(Path(__file__).parents[1] / "kernels" / "field_cases.py")
    return check_layout(design_of_kernel(kernel_ir(vars(cases)[name])))


def test_double_buffers_of_two_slot_sizes() -> None:
    (found,) = [f for f in field_report("straddle").findings if f.severity is not Severity.NOTE]
    assert found.code == "L104"
    plain = found.diagnostic.message.replace("`", "")
    assert plain.startswith("Vec: ga[0] and gb[1] overlap in [4096,6144) and share no mutex id")
    assert "row: Vec gb[1] [0x01000,0x02000) 4096 B" in " ".join(found.diagnostic.notes)
    assert all(f.severity is Severity.NOTE for f in field_report("apart").findings)


def test_short_m_without_compact() -> None:
    (found,) = [f for f in field_report("short_m").findings if f.severity is not Severity.NOTE]
    assert (found.code, found.diagnostic.kind) == ("L214", "stride_mismatch")
    assert found.diagnostic.message == (
        "matmul writes Acc with row pitch 16 (valid rows of Left), store reads it with 64 (declared, compact=0)"
    )
    assert found.diagnostic.help == "set compact=1 on Left and Acc"
    assert [s.source_line().split("(")[0].strip() for s in found.diagnostic.spans] == ["pl.store", "pl.matmul"]
    assert all(f.severity is Severity.NOTE for f in field_report("short_m_compact").findings)


@pytest.mark.parametrize(("valid", "codes"), [("rows", ["L214"]), ("64", [])])
def test_a_tail_of_unknown_length_counts_as_short(valid: str, codes: list[str], tmp_path: Path) -> None:
    source = (Path(__file__).parents[1] / "kernels" / "field_cases.py").read_text()
    head, _, rest = source.partition("def short_m(")
    body = rest.partition("\n\n\n")[0].replace("[16, 64])\n", f"[{valid}, 64])\n").replace(
        "c: pl.Tensor[[16, 64], F32]", "c: pl.Tensor[[16, 64], F32], rows: pl.DT_INT32")  # fmt: skip
    file = tmp_path / "tail.py"
    file.write_text(f"{head.rpartition('@pl.jit')[0]}\n\n@pl.jit\ndef tail({body}\n")
    findings = check_layout(design_of_kernel(kernel_ir(vars(load_file(file))["tail"]))).findings
    assert [f.code for f in findings if f.severity is not Severity.NOTE] == codes
    assert all("so for a tail: at most 16 valid rows" in f.diagnostic.notes for f in findings if f.code == "L214")
