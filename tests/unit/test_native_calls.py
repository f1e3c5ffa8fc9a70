"""Native vector functions and SIMT launches give what the simulator gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pypto_pro.language as pl
from pypto_pro import options
from pypto_pro.diag.errors import PlacementError
from pypto_pro.language import Vf as vf  # noqa: N813
from pypto_pro.ops.overrun import OutOfBoundsWarning
from pypto_pro.runtime.checking import check

ROWS, COLS = 6, 128


def both(kernel: Any, blocks: int, *args: Any) -> None:
    """Launch on both executors; every array must end up with the same bytes."""
    copies = {name: [a.copy() if isinstance(a, np.ndarray) else a for a in args] for name in ("native", "interp")}
    for executor, given in copies.items():
        with options(executor=executor, check=False):
            kernel[None, blocks](*given)
    for native, interp in zip(copies["native"], copies["interp"], strict=True):
        if isinstance(native, np.ndarray):
            np.testing.assert_array_equal(native, interp)


@pl.vector_function
def twice(src, dst):
    on = vf.create_mask(pattern=pl.MaskPattern.ALL, dtype=pl.DT_FP16)
    for c in pl.range(0, ROWS * COLS // 128):
        x = vf.load_align(src, c * 128)
        x = vf.add(x, x, on)
        vf.store_align(dst, x, on, c * 128)


@pl.jit(auto_mutex=True)
def twice_fp16(x: pl.Tensor[[ROWS, COLS], pl.DT_FP16], y: pl.Tensor[[ROWS, COLS], pl.DT_FP16]):
    tile = pl.TileType(shape=[ROWS, COLS], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Vec)
    with pl.section_vector():
        a = pl.make_tile_group(type=tile, addrs=0, mutex_ids=[0]).current()
        b = pl.make_tile_group(type=tile, addrs=0x2000, mutex_ids=[1]).current()
        pl.load(a, x, [0, 0])
        twice(a, b)
        pl.store(y, b, [0, 0])


@pl.vector_function
def steps(src, dst, count: pl.DT_INT64):
    on = vf.create_mask(pattern=pl.MaskPattern.ALL, dtype=pl.DT_FP32)
    for r in pl.range(0, count):
        live = vf.update_mask(37 + r, dtype=pl.DT_FP32)
        x = vf.load_align(src, [r, 0])
        y = vf.mul(x, x, live)
        if r % 2 == 1:
            y = vf.max(y, x, live, mode=pl.MergeMode.MERGING)
        best = vf.reduce_max(y, live)
        total = vf.reduce_sum(y, live)
        wide = vf.full(total, on)
        y = vf.div(y, wide, live)
        vf.store_align(dst + r * COLS, y, live)
        vf.store_align(dst, best, on, [r, 64])


@pl.jit(auto_mutex=True)
def steps_fp32(x: pl.Tensor[[ROWS, COLS], pl.DT_FP32], y: pl.Tensor[[ROWS, COLS], pl.DT_FP32], count: pl.DT_INT32):
    tile = pl.TileType(shape=[ROWS, COLS], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec)
    with pl.section_vector():
        a = pl.make_tile_group(type=tile, addrs=0, mutex_ids=[0]).current()
        b = pl.make_tile_group(type=tile, addrs=0x2000, mutex_ids=[1]).current()
        pl.load(a, x, [0, 0])
        pl.expands(b, 0.0)
        steps(a, b, count)
        pl.store(y, b, [0, 0])


@pytest.mark.parametrize("count", [0, 1, ROWS])
def test_vector_function_with_masks_and_reductions(count: int) -> None:
    x = np.random.default_rng(count).standard_normal((ROWS, COLS)).astype(np.float32)
    both(steps_fp32, 1, x, np.zeros_like(x), count)


def test_vector_function_in_half_precision() -> None:
    x = np.random.default_rng(3).standard_normal((ROWS, COLS)).astype(np.float16)
    both(twice_fp16, 1, x, np.zeros_like(x))


@pl.simt.function
def affine(v: pl.DT_FP32, n: pl.DT_INT32) -> pl.DT_FP32:
    if n > 3:
        return v + 1.0
    return v * 2.0


@pl.simt.function(max_threads=256)
def scatter_rows(dst, src, out, limit: pl.DT_INT32):
    t = pl.simt.thread_idx()
    if t.x >= limit:
        return
    total = 0.0
    for r in pl.range(0, src.valid_shape[0]):
        total = total + affine(src[r, t.x], limit)
    dst[t.y, t.x] = total
    out[pl.simt.linear_thread_idx()] = total


@pl.jit(auto_mutex=True)
def threads_kernel(
    x: pl.Tensor[[ROWS, COLS], pl.DT_FP32], y: pl.Tensor[[ROWS, COLS], pl.DT_FP32],
    out: pl.Tensor[[256], pl.DT_FP32], limit: pl.DT_INT32,
):
    tile = pl.TileType(shape=[ROWS, COLS], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec, valid_shape=[-1, -1])
    with pl.section_vector():
        a = pl.make_tile_group(type=tile, addrs=0, mutex_ids=[0]).current()
        b = pl.make_tile_group(type=tile, addrs=0x2000, mutex_ids=[1]).current()
        pl.set_validshape(a, [4, COLS])
        pl.load(a, x, [0, 0])
        pl.expands(b, 0.0)
        pl.simt.launch(scatter_rows, threads=(128, 2), args=(b, a, out, limit))
        pl.store(y, b, [0, 0])


@pytest.mark.parametrize("limit", [0, 3, 100, 128])
def test_simt_launch(limit: int) -> None:
    x = np.random.default_rng(limit).standard_normal((ROWS, COLS)).astype(np.float32)
    both(threads_kernel, 1, x, np.zeros_like(x), np.zeros(256, np.float32), limit)


@pl.jit
def before_its_memory(x: pl.Tensor[[8, 64], pl.DT_FP32], n: pl.DT_INT32):
    with pl.section_vector():
        t = pl.make_tile_group(
            type=pl.TileType(shape=[8, 64], dtype=pl.DT_FP32, valid_shape=[-1, -1]), addrs=0, mutex_ids=[0]).current()
        pl.load(t, x, [0, 0])
        view = t[n:, 0:64]
        pl.recip(view, view)


@pl.jit
def of_any_size(x: pl.Tensor[[8, 64], pl.DT_FP32], y: pl.Tensor[[8, 64], pl.DT_FP32], n: pl.DT_INT32):
    with pl.section_vector():
        t = pl.make_tile_group(
            type=pl.TileType(shape=[8, 64], dtype=pl.DT_FP32, valid_shape=[-1, -1]), addrs=0, mutex_ids=[0]).current()
        pl.load(t, x, [0, 0])
        pl.set_validshape(t, [n, n])
        pl.load(t, x, [0, 0])
        pl.recip(t, t)
        pl.set_validshape(t, [8, 64])
        pl.store(y, t, [0, 0])


@pytest.mark.parametrize("executor", ["native", "interp"])
def test_ops_that_no_memory_could_hold_are_left_out(executor: str) -> None:
    x, y = np.full((8, 64), 2, np.float32), np.zeros((8, 64), np.float32)
    with options(executor=executor):
        before_its_memory[None, 1](x, 3)
        with pytest.warns(OutOfBoundsWarning, match="recip"):
            before_its_memory[None, 1](x, -100)
        with pytest.warns(OutOfBoundsWarning, match="`load` reads bytes 0..10000000000 of") as caught:
            of_any_size[None, 1](x, y, 50_000)
    assert "pl.load" in Path(caught[0].filename).read_text().splitlines()[caught[0].lineno - 1]
    assert (y == 2).all()


@pl.jit
def counts(y: pl.Tensor[[1, 64], pl.DT_INT32], start: pl.DT_INT64, stop: pl.DT_INT64, step: pl.DT_INT64):
    with pl.section_vector():
        n = 0
        for _ in pl.range(start, stop, step):
            n += 1
        y[0, 0] = n


@pytest.mark.parametrize(
    ("start", "stop", "step"),
    [(0, 2**63 - 1, 2**62), (-(2**63), 2**63 - 1, 2**61), (2**63 - 1, -(2**63), -(2**62)), (5, 5, 1), (7, 5, 1),
     (0, 10, 3), (10, 0, -3), (0, 10, -3), (0, 10, 0), (-(2**63), -(2**63) + 1, 2**63 - 1)],
)  # fmt: skip
def test_trips_of_a_loop(start: int, stop: int, step: int) -> None:
    wanted = len(range(start, stop, step)) if step else 0
    for executor in ("native", "interp"):
        y = np.full((1, 64), -1, np.int32)
        with options(executor=executor):
            counts[None, 1](y, start, stop, step)
        assert y[0, 0] == wanted, executor


@pl.jit
def far_away(x: pl.Tensor[[8, 64], pl.DT_FP32]):
    with pl.section_vector():
        kind = pl.TileType(shape=[8, 64], dtype=pl.DT_FP32)
        t = pl.make_tile(kind, addr=2**45, size=2048)
        pl.expands(t, 1.0)
        pl.recip(t, t)
        pl.store(x, t, [0, 0])


def test_a_tile_far_outside_its_memory_is_answered_not_allocated() -> None:
    found = check(far_away[None, 1], np.zeros((8, 64), np.float32)).findings
    assert {"over_capacity"} <= {f.kind for f in found}
    for executor in ("native", "interp"):
        with options(executor=executor), pytest.raises(PlacementError):
            far_away[None, 1](np.zeros((8, 64), np.float32))
