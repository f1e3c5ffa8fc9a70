"""Row loops whose bounds only the run knows cover a tile whose valid shape is set to the same numbers."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

import pypto_pro
from pypto_pro.memory.design import Step, Use
from pypto_pro.memory.extract import design_of_kernel
from pypto_pro.runtime.inspect import find_kernel, kernel_ir, load_file

SOURCE = """
import pypto_pro.language as pl
from pypto_pro.language import Vf as vf


@pl.vector_function
def fill(t, rows, cols):
    whole = vf.create_mask(pattern=pl.MaskPattern.ALL, dtype=pl.DT_FP32)
    one = vf.full(1.0, whole, dtype=pl.DT_FP32)
    for r in pl.range({bounds}):
        for c in pl.range(0, (cols + 63) // 64):
            m = vf.update_mask(pl.min(64, cols - c * 64), dtype=pl.DT_FP32)
            vf.store_align(t, one, m, [r, c * 64])


@pl.jit
def kernel(y: pl.Tensor[[pl.DYNAMIC, 128], pl.DT_FP32], n: pl.DT_INT32, flag: pl.DT_INT32):
    tile = pl.TileType(shape=[8, 128], dtype=pl.DT_FP32, valid_shape={valid})
    with pl.section_vector():
        t = pl.make_tile_group(type=tile, addrs=0, mutex_ids=[0]).current()
        u = pl.make_tile_group(type=tile, addrs=0x1000, mutex_ids=[1]).current()
        for r in pl.range(0, y.shape[0], 8):
            here = pl.min(8, y.shape[0] - r)
            wide = pl.min(128, n)
{body}
            pl.store(y, t, [r, 0])
"""
ROWS = "pl.set_validshape(t, [here, 128])"
BOTH = "pl.set_validshape(t, [here, wide])"
counter = itertools.count()


def use_of_t(folder: Path, body: list[str], bounds: str = "0, rows", valid: str = "[-1, -1]") -> Use:
    """What the call does to `t`. That it covers `t` means that a run stores no byte which nobody wrote."""
    file = folder / f"sized_{next(counter)}.py"
    lines = "\n".join(f"            {line}" for line in body)
    file.write_text(SOURCE.format(body=lines, bounds=bounds, valid=valid), encoding="utf-8")
    kernel = find_kernel(load_file(file))
    (program,) = design_of_kernel(kernel_ir(kernel)).programs
    steps = [s for s in program.steps() if isinstance(s, Step) and s.op == "fill"]
    use = next(use for use in steps[-1].uses if use.tile == "t")
    if use.covers:
        for rows, n in ((1, 1), (7, 3), (8, 100), (13, 128)):
            findings = pypto_pro.check(kernel[None, 1], np.zeros((rows, 128), np.float32), n, 0).findings
            assert [f.message for f in findings if f.kind == "uninitialised_read"] == []
    return use


@pytest.mark.parametrize(("body", "covers"), [
    ([ROWS, "fill(t, here, 128)"], True),
    (["fill(t, here, 128)"], False),
    ([ROWS, "fill(t, here - 1, 128)"], False),
    ([ROWS, "fill(t, here, 127)"], False),
    ([ROWS, "fill(t, n, 128)"], False),
    ([ROWS, "fill(t, 8, 128)"], True),
    (["pl.set_validshape(t, [here, 100])", "fill(t, here, 100)"], True),
    (["pl.set_validshape(t, [here, 100])", "fill(t, here, 90)"], False),
    (["pl.set_validshape(t, [3, 100])", "fill(t, 3, 100)"], True),
    ([BOTH, "fill(t, here, wide)"], True),
    ([BOTH, "fill(t, here, 64)"], False),
    ([BOTH, "fill(t, wide, here)"], False),
    # what changes in between
    ([ROWS, "here = here - 1", "fill(t, here, 128)"], False),
    ([ROWS, "pl.set_validshape(u, [1, 128])", "fill(t, here, 128)"], True),
    ([ROWS, "pl.set_validshape(t, [n, 128])", "fill(t, here, 128)"], False),
    ([ROWS, "if flag > 0:", "    pl.set_validshape(t, [n, 128])", "fill(t, here, 128)"], False),
    ([ROWS, "if flag > 0:", "    wide = 3", "fill(t, here, 128)"], True),
    (["if flag > 0:", "    " + ROWS, "fill(t, here, 128)"], False),
    ([ROWS, "for k in pl.range(0, n):", "    pl.set_validshape(t, [k, 128])", "fill(t, here, 128)"], False),
    (["s = t", "pl.set_validshape(s, [n, 128])", ROWS, "fill(t, here, 128)"], True),
    ([ROWS, "s = t", "pl.set_validshape(s, [n, 128])", "fill(t, here, 128)"], False),
])  # fmt: skip
def test_a_loop_over_the_valid_rows_covers_them(tmp_path: Path, body: list[str], covers: bool) -> None:
    assert use_of_t(tmp_path, body).covers is covers


@pytest.mark.parametrize(("bounds", "covers"), [
    ("0, rows", True), ("1, rows", False), ("0, rows, 2", False), ("0, rows // 2", False), ("0, rows // 2 * 2", False),
    ("0, pl.max(rows, 1)", True), ("0, (rows + 1) // 2 * 2", True), ("0, rows - 1", False),
])  # fmt: skip
def test_the_loop_runs_over_every_row(tmp_path: Path, bounds: str, covers: bool) -> None:
    assert use_of_t(tmp_path, [ROWS, "fill(t, here, 128)"], bounds).covers is covers


def test_a_fixed_valid_shape_is_what_there_is_to_cover(tmp_path: Path) -> None:
    assert use_of_t(tmp_path, ["fill(t, 5, 100)"], valid="[5, 100]").covers
    assert not use_of_t(tmp_path, ["fill(t, 4, 100)"], valid="[5, 100]").covers
