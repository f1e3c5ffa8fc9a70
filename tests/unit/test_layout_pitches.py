"""Row pitches of an accumulator that leaves through a dual mode, which rounds its valid shape, in a loop."""

from __future__ import annotations

from pathlib import Path

import pytest

from pypto_pro.diag import Severity
from pypto_pro.memory.check import check_layout
from pypto_pro.memory.extract import design_of_kernel
from pypto_pro.runtime.inspect import find_kernel, kernel_ir, load_file

SOURCE = """
import pypto_pro.language as pl

F16, F32, MS = pl.DT_FP16, pl.DT_FP32, pl.MemorySpace


@pl.jit
def kernel(a: pl.Tensor[[64, 64], F16], b: pl.Tensor[[64, 64], F16], n: pl.DT_INT32):
    out = pl.make_tile(pl.TileType(shape=[32, 64], dtype=F32), addr=0)
    with pl.section_cube():
        am = pl.make_tile(pl.TileType(shape=[64, 64], dtype=F16, target_memory=MS.Mat), addr=0)
        bm = pl.make_tile(pl.TileType(shape=[64, 64], dtype=F16, target_memory=MS.Mat), addr=0x2000)
        left = pl.make_tile(pl.TileType(shape=[64, 64], dtype=F16, target_memory=MS.Left LEFT), addr=0)
        right = pl.make_tile(pl.TileType(shape=[64, 64], dtype=F16, target_memory=MS.Right), addr=0)
        acc = pl.make_tile(pl.TileType(shape=[64, 64], dtype=F32, target_memory=MS.Acc ACC), addr=0)
        pl.load(am, a, [0, 0])
        pl.load(bm, b, [0, 0])
        pl.move(right, bm)
        for i in pl.range(n):
            SET
            pl.move(left, am)
            pl.matmul(acc, left, right)
            pl.move(out, acc, acc_to_vec_mode=pl.AccToVecMode.DualModeSplitM)
"""
DYNAMIC = ", valid_shape=[-1, -1]"
SHORT_LEFT = "if i > 0:\n                pl.set_validshape(left, [16, 64])"
SHORT_ACC = "if i > 0:\n                pl.set_validshape(acc, [16, 64])"


@pytest.mark.parametrize(
    ("left", "acc", "body", "read"),
    [
        ("", "", "pass", None),
        ("", DYNAMIC, "pl.set_validshape(acc, [64, 64])", None),
        (DYNAMIC, "", SHORT_LEFT, 64),  # the Left tile is short in some turns: the product is packed by its rows
        ("", DYNAMIC, SHORT_ACC, 16),
    ],
)
def test_a_loop_forgets_no_extents(left: str, acc: str, body: str, read: int | None, tmp_path: Path) -> None:
    file = tmp_path / "kernel.py"
    text = SOURCE.replace(" LEFT", left).replace(" ACC", acc).replace("SET", body)
    file.write_text(text, encoding="utf-8")
    report = check_layout(design_of_kernel(kernel_ir(find_kernel(load_file(file)))))
    found = [f for f in report.findings if f.severity is not Severity.NOTE]
    assert [(f.code, f.facts["read"]) for f in found] == ([] if read is None else [("L214", read)])
