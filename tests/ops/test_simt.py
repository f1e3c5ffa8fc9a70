"""SIMT functions on both executors against numpy, and what the simulator's checks say about threads that collide."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto_pro
import pypto_pro.language as pl

ROWS, COLS = 8, 64
EXECUTORS = ("native", "interp")


def run(kernel: Any, blocks: int, *args: Any, executor: str) -> None:
    with pypto_pro.options(executor=executor, check=False):
        kernel[None, blocks](*args)


@pl.simt.function
def clamp(v, low, high):
    if v < low:
        return low
    if v > high:
        return high
    return v


@pl.simt.function
def store_twice(t, i, j, v):
    t[i, j] = v
    t[i, j] = v + 1.0


@pl.simt.function(max_threads=256)
def coordinates(out):
    t = pl.simt.thread_idx()
    d = pl.simt.block_dim()
    b = pl.simt.block_idx()
    g = pl.simt.grid_dim()
    k = pl.simt.linear_thread_idx()
    row = b.x
    out[row, k] = t.x + 10 * t.y + 100 * t.z + 1000 * d.x + 10000 * d.y + 100000 * d.z + 1000000 * g.x
    if k == 0:
        out[row, 60] = pl.simt.warp_size()
        out[row, 61] = b.y + b.z + g.y + g.z


@pl.jit()
def coordinates_kernel(y: pl.Tensor[[ROWS, COLS], pl.DT_UINT32]):
    with pl.section_vector():
        pl.simt.launch(coordinates, threads=(3, 4, 5), args=(y,))


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("blocks", [1, 3])
def test_queries(executor: str, blocks: int) -> None:
    y = np.zeros((ROWS, COLS), np.uint32)
    run(coordinates_kernel, blocks, y, executor=executor)
    want = np.zeros_like(y)
    for k in range(60):
        x, rest = k % 3, k // 3
        want[:blocks, k] = x + 10 * (rest % 4) + 100 * (rest // 4) + 3000 + 40000 + 500000 + 1000000 * blocks
    want[:blocks, 60], want[:blocks, 61] = 32, 2
    np.testing.assert_array_equal(y, want)


@pl.simt.function(max_threads=64)
def collatz(dst, src, rows: pl.DT_INT32):
    t = pl.simt.thread_idx().x
    for i in pl.range(0, rows):
        n = src[i, t]
        steps = 0
        while n > 1:
            if n % 2 == 0:
                n = n // 2
            else:
                n = 3 * n + 1
            steps = steps + 1
            if steps >= 50:
                break
        dst[i, t] = steps


@pl.jit(auto_mutex=True)
def collatz_kernel(
    x: pl.Tensor[[ROWS, COLS], pl.DT_INT32], y: pl.Tensor[[ROWS, COLS], pl.DT_INT32], rows: pl.DT_INT32
):
    tile = pl.TileType(shape=[ROWS, COLS], dtype=pl.DT_INT32, target_memory=pl.MemorySpace.Vec)
    ins = pl.make_tile_group(type=tile, addrs=0, mutex_ids=[0])
    outs = pl.make_tile_group(type=tile, addrs=0x4000, mutex_ids=[1])
    with pl.section_vector():
        a = ins.current()
        b = outs.current()
        pl.load(a, x, [0, 0])
        pl.expands(b, -1)
        pl.simt.launch(collatz, threads=64, args=(b, a, rows))
        pl.store(y, b, [0, 0])


@pytest.mark.parametrize("executor", EXECUTORS)
def test_loops_branches_and_tiles(executor: str) -> None:
    x = np.arange(ROWS * COLS, dtype=np.int32).reshape(ROWS, COLS)
    y = np.zeros_like(x)
    run(collatz_kernel, 1, x, y, 5, executor=executor)
    want = np.full_like(x, -1)
    for i in range(5):
        for j in range(COLS):
            n, steps = int(x[i, j]), 0
            while n > 1 and steps < 50:
                n, steps = (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1
            want[i, j] = steps
    np.testing.assert_array_equal(y, want)


@pl.simt.function(max_threads=1024)
def blend(gm_out, tile, gm_in, scale: pl.DT_FP32, n: pl.DT_INT32):
    k = pl.simt.linear_thread_idx()
    if k >= n:
        return
    i = k // 64
    j = k % 64
    if i >= tile.valid_shape[0] or j >= tile.valid_shape[-1]:
        gm_out[i, j] = -1.0
        return
    v = clamp(tile[i, j] * scale + gm_in[i, j], -2.0, 2.0)
    store_twice(gm_out, i, j, v)
    tile[i, j] = min(v, 1.0)


@pl.jit(auto_mutex=True)
def blend_kernel(
    x: pl.Tensor[[ROWS, COLS], pl.DT_FP32], y: pl.Tensor[[ROWS, COLS], pl.DT_FP32],
    z: pl.Tensor[[ROWS, COLS], pl.DT_FP32], rows: pl.DT_INT32, cols: pl.DT_INT32, n: pl.DT_INT32,
):
    tile = pl.TileType(
        shape=[ROWS, COLS], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec, valid_shape=[-1, -1]
    )
    group = pl.make_tile_group(type=tile, addrs=0, mutex_ids=[0])
    with pl.section_vector():
        t = group.current()
        pl.set_validshape(t, [rows, cols])
        pl.load(t, x, [0, 0])
        pl.simt.launch(blend, threads=(32, 4, 4), args=(y, t, x, 1.5, n))
        pl.store(z, t, [0, 0])


@pytest.mark.parametrize("executor", EXECUTORS)
def test_helpers_gm_and_valid_shapes(executor: str) -> None:
    x = np.random.default_rng(1).standard_normal((ROWS, COLS)).astype(np.float32)
    y, z = np.full_like(x, 7), np.full_like(x, 9)
    run(blend_kernel, 1, x, y, z, 6, 40, 500, executor=executor)
    v = np.clip(x * np.float32(1.5) + x, np.float32(-2), np.float32(2))
    flat = np.arange(ROWS * COLS).reshape(ROWS, COLS)
    inside = (flat // COLS < 6) & (flat % COLS < 40)
    want = np.where(flat >= 500, np.float32(7), np.where(inside, v + np.float32(1), np.float32(-1)))
    np.testing.assert_array_equal(y, want)
    np.testing.assert_array_equal(z[:6, :40], np.minimum(v, np.float32(1))[:6, :40])
    assert (z[6:] == 9).all()


@pl.simt.function(max_threads=128)
def narrow(out, seed):
    k = pl.simt.linear_thread_idx()
    out[0, k] = seed * k + 300


@pl.jit()
def narrow_kernel(y: pl.Tensor[[1, 128], pl.DT_INT8], h: pl.Tensor[[1, 128], pl.DT_FP16], seed: pl.DT_INT32):
    with pl.section_vector():
        for i in pl.range(0, 2):
            if i == 1:
                pl.simt.launch(narrow, threads=128, args=(y, seed))
        pl.simt.launch(narrow, threads=(128,), args=(h, seed))


@pytest.mark.parametrize("executor", EXECUTORS)
def test_elements_are_converted_as_c_does(executor: str) -> None:
    y, h = np.zeros((1, 128), np.int8), np.zeros((1, 128), np.float16)
    run(narrow_kernel, 1, y, h, 7, executor=executor)
    exact = np.arange(128) * 7 + 300
    np.testing.assert_array_equal(y[0], exact.astype(np.int8))
    np.testing.assert_array_equal(h[0], exact.astype(np.float16))


# --- checks ----------------------------------------------------------------------------------------------------------


@pl.simt.function(max_threads=64)
def fine(out):
    k = pl.simt.linear_thread_idx()
    out[0, k] = out[0, k] + 1


@pl.simt.function(max_threads=64)
def colliding(out):
    k = pl.simt.linear_thread_idx()
    out[0, k // 2] = k


@pl.simt.function(max_threads=64)
def reading_a_neighbour(out):
    k = pl.simt.linear_thread_idx()
    if k < 63:
        out[0, k] = out[0, k + 1]


@pl.jit()
def fine_kernel(y: pl.Tensor[[1, 64], pl.DT_INT32]):
    with pl.section_vector():
        pl.simt.launch(fine, threads=64, args=(y,))
        pl.simt.launch(fine, threads=64, args=(y,))


@pl.jit()
def colliding_kernel(y: pl.Tensor[[1, 64], pl.DT_INT32]):
    with pl.section_vector():
        pl.simt.launch(colliding, threads=64, args=(y,))


@pl.jit()
def neighbour_kernel(y: pl.Tensor[[1, 64], pl.DT_INT32]):
    with pl.section_vector():
        pl.simt.launch(reading_a_neighbour, threads=64, args=(y,))


def kinds(kernel: Any) -> set[str]:
    report = pypto_pro.check(kernel[None, 1], np.zeros((1, 64), np.int32))
    return {str(finding.kind) for finding in report.findings}


def test_threads_that_share_no_element_are_fine() -> None:
    assert "race" not in kinds(fine_kernel)


@pytest.mark.parametrize("kernel", [colliding_kernel, neighbour_kernel], ids=["write-write", "read-write"])
def test_threads_that_collide_race(kernel: Any) -> None:
    assert "race" in kinds(kernel)
