"""Orders that lead through the other core: the report and the simulator agree on them, and on their broken twins."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_layout_agreement import HEAD, Subject

from pypto_pro.memory.check import check_layout
from pypto_pro.memory.extract import design_of_kernel
from pypto_pro.report.layout_words import moment_cell
from pypto_pro.runtime.inspect import find_kernel, kernel_ir, load_file

RELAY = (
    HEAD
    + """@pl.jit(auto_mutex=False)
def kernel(x: pl.Tensor[[32, 32], pl.DT_FP16], w: pl.Tensor[[32, 32], pl.DT_FP16], y: pl.Tensor[[32, 32], pl.DT_FP32]):
    half = pl.DT_FP16
    s = pl.make_tile(tile_type([16, 32]), addr=0)
    with pl.section_cube():
        am = pl.make_tile(tile_type([32, 32], half, pl.MemorySpace.Mat), addr=0)
        wm = pl.make_tile(tile_type([32, 32], half, pl.MemorySpace.Mat), addr=0x1000)
        a = pl.make_tile(tile_type([32, 32], half, pl.MemorySpace.Left), addr=0)
        b = pl.make_tile(tile_type([32, 32], half, pl.MemorySpace.Left), addr=0)
        right = pl.make_tile(tile_type([32, 32], half, pl.MemorySpace.Right), addr=0)
        acc = pl.make_tile(tile_type([32, 32], pl.DT_FP32, pl.MemorySpace.Acc), addr=0)
        out = pl.make_tile(tile_type([32, 32], pl.DT_FP32, pl.MemorySpace.Acc), addr=0x1000)
        pl.load(am, x, [0, 0])
        pl.load(wm, w, [0, 0])
        flag(MTE2, MTE1, 0)
        pl.move(right, wm)
        for i in pl.range(4):
            pl.move(a, am)
            flag(MTE1, M, 0)
            pl.matmul(acc, a, right)
            flag(M, FIX, 0)
            pl.move(s, acc, acc_to_vec_mode=pl.AccToVecMode.DualModeSplitM)
            pl.system.set_cross_core(pipe=FIX, event_id=0)
            pl.system.wait_cross_core(pipe=MTE1, event_id=1)
            pl.move(b, wm)
            flag(MTE1, M, 1)
            pl.matmul(out, b, right)
            flag(M, MTE1, 0)
            flag(M, FIX, 1)
            pl.store(y, out, [0, 0])
DRAIN
    with pl.section_vector():
        c = pl.make_tile(tile_type([16, 32]), addr=0x1000)
PRIME
        for i in pl.range(4):
            pl.system.wait_cross_core(pipe=V, event_id=0)
            pl.adds(c, s, 1.0)
            pl.system.set_cross_core(pipe=V, event_id=1)
"""
)
BACK = "            pl.system.set_cross_core(pipe=V, event_id=1)\n"
THERE = "            pl.system.wait_cross_core(pipe=V, event_id=0)\n"


def relay(credits: int = 0, *edits: tuple[str, str]) -> str:
    """A read on M and a later write on MTE1 that only the answer of the vector core orders."""
    source = RELAY.replace("DRAIN\n", "        pl.system.wait_cross_core(pipe=MTE1, event_id=1)\n" * credits)
    source = source.replace("PRIME\n", "        pl.system.set_cross_core(pipe=V, event_id=1)\n" * credits)
    for old, new in edits:
        assert old in source
        source = source.replace(old, new)
    return source


SET_TOO_EARLY = ("            flag(M, FIX, 0)\n            pl.move(s,", "            pl.move(s,")
ORDERED = {
    "answered on the pipe that waits": relay(),
    "answered on a pipe that a flag orders": relay(
        0, (BACK, f"            flag(V, MTE3, 0)\n{BACK.replace('=V', '=MTE3')}")
    ),
}
TWINS = {
    "a credit ahead": relay(1),
    "answered before the question": relay(0, (THERE, BACK), ("1.0)\n" + BACK, "1.0)\n" + THERE)),
    "nothing orders the answer behind the question": relay(0, (BACK, BACK.replace("=V", "=MTE3"))),
    "asked before the access is over": relay(0, SET_TOO_EARLY),
}


@pytest.mark.parametrize("name", ORDERED)
def test_an_answer_of_the_other_core_orders(name: str, tmp_path: Path) -> None:
    made = Subject(tmp_path, ORDERED[name], ())
    (pair,) = made.pairs()
    assert (pair.proof, pair.reason) == ("cross_core", None)
    assert pair.protection == "cross-core events 0 and 1 (through the other core)"
    assert made.races() == set()


@pytest.mark.parametrize("name", TWINS)
def test_no_answer_or_an_early_one_does_not(name: str, tmp_path: Path) -> None:
    made = Subject(tmp_path, TWINS[name], ())
    (pair,) = made.pairs()
    assert (pair.proof, pair.reason) == (None, "unordered")
    assert "race" in made.races()


@pytest.mark.parametrize("source", [ORDERED["answered on the pipe that waits"], TWINS["a credit ahead"]])
def test_the_table_shows_the_last_read_and_the_first_write(source: str, tmp_path: Path) -> None:
    file = tmp_path / "kernel.py"
    file.write_text(source, encoding="utf-8")
    report = check_layout(design_of_kernel(kernel_ir(find_kernel(load_file(file)))))
    (pair,) = report.reuses
    lines = source.splitlines()
    read, write = (1 + next(i for i, text in enumerate(lines) if op in text) for op in ("matmul(acc, a", "move(b, "))
    assert moment_cell(report, pair) == (f"l.{read} M", f"l.{write} MTE1")
