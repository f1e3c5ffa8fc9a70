"""What the layout report knows of vector functions, held against what running them writes."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pypto_pro.ir import walk
from pypto_pro.ir.nodes import VfCall
from pypto_pro.memory.call_effects import TileEffect, effects_of
from pypto_pro.memory.check import check_layout
from pypto_pro.memory.extract import design_of_kernel
from pypto_pro.runtime.inspect import find_kernel, kernel_ir, load_file

ROWS, COLS, LANES = 8, 128, 64
SOURCE = """
import pypto_pro.language as pl
from pypto_pro.language import Vf as vf

TYPE = None


@pl.vector_function
def work(t, u, n):
    whole = vf.create_mask(pattern=pl.MaskPattern.ALL, dtype=pl.DT_FP32)
    one = vf.full(1.0, whole, dtype=pl.DT_FP32)
{body}


@pl.jit
def kernel(x: pl.Tensor[[8, 128], pl.DT_FP32], y: pl.Tensor[[8, 128], pl.DT_FP32], n: pl.DT_INT32):
    tile = pl.TileType(shape=[8, 128], dtype=pl.DT_FP32)
    with pl.section_vector():
        t = pl.make_tile_group(type=tile, addrs=0, mutex_ids=[0]).current()
        u = pl.make_tile_group(type=tile, addrs=0x1000, mutex_ids=[1]).current()
        pl.load(t, x, [0, 0])
        pl.load(u, x, [0, 0])
        work(t, u, {argument})
        pl.store(y, t, [0, 0])
"""
counter = itertools.count()


def built(folder: Path, body: list[str], argument: str = "8") -> tuple[Any, Any]:
    """The kernel around a function body, and its IR."""
    file = folder / f"calls_{next(counter)}.py"
    file.write_text(SOURCE.format(body="\n".join(f"    {line}" for line in body), argument=argument))
    kernel = find_kernel(load_file(file))
    return kernel, kernel_ir(kernel)


def effect_on(ir: Any, name: str) -> TileEffect:
    (call,) = [s for p in ir.programs for s in walk.statements(p.body) if isinstance(s, VfCall)]
    return next((e for tile, e in effects_of(call).items() if tile.group.name == name), TileEffect())


def written_bytes(effect: TileEffect) -> np.ndarray:
    found = np.zeros(ROWS * COLS * 4, np.bool_)
    for start, end in effect.written:
        found[start:end] = True
    return found


# --- random stores ---------------------------------------------------------------------------------------------------

MASKS = st.sampled_from([
    ["m = vf.create_mask(pattern=pl.MaskPattern.ALL, dtype=pl.DT_FP32)"],
    ["m = vf.create_mask(pattern=pl.MaskPattern.H, dtype=pl.DT_FP32)"],
    ["m = vf.create_mask(pattern=pl.MaskPattern.M3, dtype=pl.DT_FP32)"],
    ["m = vf.update_mask(n * 5, dtype=pl.DT_FP32)"],
    ["a = vf.update_mask(40, dtype=pl.DT_FP32)", "m = vf.not_(a, whole)"],
    ["v = vf.load_align(u, [0, 0])", "m = vf.gt(one, v, whole)"],
])  # fmt: skip
STORES = st.sampled_from([
    "vf.store_align(t + {r} * 128, one, m)", "vf.store_align(t, one, m, [{r}, 64])",
    "vf.store_align(t + {r} * 128 + 64, one, m)", "vf.store_align(t, one, m, 64, post_update=True)",
])  # fmt: skip


@st.composite
def bodies(draw: st.DrawFn) -> list[str]:
    """Masks and stores, some of them in loops with constant bounds, bounds from an argument, or under a branch."""
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        lines += draw(MASKS)
        stores = draw(st.lists(STORES, min_size=1, max_size=2))
        start, step = draw(st.integers(0, 3)), draw(st.integers(1, 2))
        head, row = draw(st.sampled_from([
            ("", str(start)), (f"for r in pl.range({start}, 8, {step}):", "r"), ("for r in pl.range(0, n):", "r"),
            ("if n > 4:", str(start)),
        ]))  # fmt: skip
        inner = [s.format(r=row) for s in stores]
        lines += [head, *(f"    {line}" for line in inner)] if head else inner
    return lines


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=bodies(), argument=st.sampled_from(["8", "3", "n"]))
def test_what_is_sure_to_be_written_is_written(tmp_path: Path, body: list[str], argument: str) -> None:
    kernel, ir = built(tmp_path, body, argument)
    x, y = np.full((ROWS, COLS), 0.5, np.float32), np.zeros((ROWS, COLS), np.float32)
    kernel[None, 1](x, y, 8)
    changed = np.repeat((y == 1.0).reshape(-1), 4)
    sure = written_bytes(effect_on(ir, "t"))
    assert not (sure & ~changed).any(), "\n".join(body)
    known = argument != "n" and not any("vf.gt" in line for line in body)
    if known:  # everything shows while compiling
        assert (sure == changed).all(), "\n".join(body)


# --- what it means for lifetimes -------------------------------------------------------------------------------------

FILL = [
    "for r in pl.range(n):",
    "    vf.store_align(t, one, whole, [r, 0])",
    "    vf.store_align(t, one, whole, [r, 64])",
]
BACK = [
    "vf.mem_bar(mode=pl.MemBarMode.VST_VLD)",
    "v = vf.load_align(t, [7, 64])",
    "vf.store_align(u, v, whole)",
]


@pytest.mark.parametrize(("argument", "body", "covers", "fresh"), [
    ("8", FILL, True, True), ("7", FILL, False, True), ("n", FILL, False, True),
    ("8", FILL + BACK, True, True), ("7", FILL + BACK, False, False), ("n", FILL + BACK, False, False),
    ("8", BACK[1:] + FILL, True, False),
])  # fmt: skip
def test_a_call_that_covers_a_tile_ends_its_old_life(
    tmp_path: Path, argument: str, body: list[str], covers: bool, fresh: bool
) -> None:
    _, ir = built(tmp_path, body, argument)
    effect = effect_on(ir, "t")
    tile = next(t for t in design_of_kernel(ir).tiles if t.name == "t")
    assert (effect.covers(tile.type), effect.fresh) == (covers, fresh)
    life = check_layout(design_of_kernel(ir)).lives["t", 0]
    points = sorted(life.points)  # 0: load of t, 1: load of u, 2: the call, 3: the store
    assert (1 in points) is not (covers and fresh)
