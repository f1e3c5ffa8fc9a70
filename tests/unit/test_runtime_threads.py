"""Launches from several Python threads: the same kernel, new signatures, other kernels, a cold process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import pypto_pro.language as pl
from pypto_pro import options
from pypto_pro.diag.errors import ArgumentError

THREADS = 8
ROWS, COLS = 16, 64
READY, DONE = 0, 1


@pl.jit
def scale(x: pl.Tensor[[pl.STATIC, COLS], pl.DT_FP32], y: pl.Tensor[[pl.STATIC, COLS], pl.DT_FP32], f: pl.DT_FP32):
    with pl.section_vector():
        kind = pl.TileType(shape=[1, COLS], dtype=pl.DT_FP32)
        tiles = pl.make_tile_group(type=kind, addrs=0, mutex_ids=[0, 1])
        for i in pl.range(pl.get_block_idx(), x.shape[0], pl.get_block_num()):
            t = tiles.next()
            pl.load(t, x, [i, 0])
            pl.mul(t, t, f)
            pl.store(y, t, [i, 0])


@pl.jit
def talk(x: pl.Tensor[[1, COLS], pl.DT_FP32], f: pl.DT_FP32):
    with pl.section_vector():
        pl.printf("value %f\n", f)
        t = pl.make_tile(pl.TileType(shape=[1, COLS], dtype=pl.DT_FP32), addr=0, size=4 * COLS)
        pl.expands(t, f)
        pl.store(x, t, [0, 0])


@pl.jit
def product(a: pl.Tensor[[16, 16], pl.DT_FP16], b: pl.Tensor[[16, 16], pl.DT_FP16], c: pl.Tensor[[16, 16], pl.DT_FP32]):
    mat = pl.TileType(shape=[16, 16], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Mat)
    acc = pl.TileType(shape=[16, 16], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Acc)
    vec = pl.make_tile(pl.TileType(shape=[16, 16], dtype=pl.DT_FP32), addr=0, size=1024)
    with pl.section_cube():
        a1 = pl.make_tile_group(type=mat, addrs=0, mutex_ids=[0]).current()
        b1 = pl.make_tile_group(type=mat, addrs=512, mutex_ids=[1]).current()
        left = pl.make_tile_group(
            type=pl.TileType(shape=[16, 16], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Left), addrs=0,
            mutex_ids=[2],
        ).current()
        right = pl.make_tile_group(
            type=pl.TileType(shape=[16, 16], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Right), addrs=0,
            mutex_ids=[3],
        ).current()
        total = pl.make_tile_group(type=acc, addrs=0, mutex_ids=[4]).current()
        pl.load(a1, a, [0, 0])
        pl.load(b1, b, [0, 0])
        pl.move(left, a1)
        pl.move(right, b1)
        pl.matmul(total, left, right)
        pl.move(vec, total, acc_to_vec_mode=pl.AccToVecMode.SingleModeVec0)
        pl.system.set_cross_core(pipe=pl.PipeType.FIX, event_id=READY)
        pl.system.wait_cross_core(pipe=pl.PipeType.FIX, event_id=DONE)
    with pl.section_vector():
        pl.system.wait_cross_core(pipe=pl.PipeType.V, event_id=READY)
        if pl.get_subblock_idx() == 0:
            pl.mul(vec, vec, 2.0)
            pl.system.sync_src(set_pipe=pl.PipeType.V, wait_pipe=pl.PipeType.MTE3, event_id=0)
            pl.system.sync_dst(set_pipe=pl.PipeType.V, wait_pipe=pl.PipeType.MTE3, event_id=0)
            pl.store(c, vec, [0, 0])
        pl.system.set_cross_core(pipe=pl.PipeType.MTE3, event_id=DONE)


def in_threads(work: Callable[[int], None]) -> None:
    """`work(k)` in THREADS threads that start together; the first exception of any is raised."""
    start = threading.Barrier(THREADS)

    def begin(k: int) -> None:
        start.wait()
        with options(executor="native"):
            work(k)

    with ThreadPoolExecutor(THREADS) as pool:
        for done in [pool.submit(begin, k) for k in range(THREADS)]:
            done.result(timeout=120)


def scaled(rows: int, factor: float) -> None:
    x = np.random.default_rng(rows).random((rows, COLS), dtype=np.float32)
    y = np.zeros_like(x)
    scale[None, 4](x, y, factor)
    np.testing.assert_array_equal(y, x * np.float32(factor))


def test_one_signature_from_all_threads_is_compiled_once() -> None:
    before = len(scale.variants)
    in_threads(lambda k: [scaled(ROWS, float(i + k)) for i in range(40)])
    assert len(scale.variants) == before + 1


def test_new_signatures_from_all_threads() -> None:
    in_threads(lambda k: [scaled(ROWS + 1 + (i + k) % 5, 3.0) for i in range(15)])


def test_kernels_that_need_python(capfd: pytest.CaptureFixture[str]) -> None:
    def work(k: int) -> None:
        for i in range(10):
            x = np.zeros((1, COLS), np.float32)
            talk[None, 1](x, float(100 * k + i))
            assert (x == 100 * k + i).all()

    in_threads(work)
    told = sorted(float(line.split()[1]) for line in capfd.readouterr().out.splitlines())
    assert told == sorted(float(100 * k + i) for k in range(THREADS) for i in range(10))


def test_mixed_kernels_and_errors_side_by_side() -> None:
    a, b = (np.random.default_rng(k).random((16, 16)).astype(np.float16) for k in (1, 2))
    want = 2 * (a.astype(np.float32) @ b.astype(np.float32))

    def work(k: int) -> None:
        for _ in range(10):
            c = np.zeros((16, 16), np.float32)
            if k % 2:
                product[None, 1](a, b, c)
                np.testing.assert_allclose(c, want, rtol=1e-3)
            else:
                with pytest.raises(ArgumentError):
                    product[None, 1](a, b, c[:8])

    in_threads(work)


COLD = """
import threading
import numpy as np
import test_runtime_threads as cases
cases.in_threads(lambda k: [cases.scaled(10 + k, 2.0), cases.talk[None, 1](np.zeros((1, 64), np.float32), 1.0)])
print(threading.active_count() < 100)
"""


def test_a_cold_process_may_begin_with_many_threads(tmp_path: Path) -> None:
    env = {**os.environ, "PYPTO_PRO_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(Path(__file__).parent)}
    for _ in range(2):  # the second one loads what the first one stored
        done = subprocess.run([sys.executable, "-c", COLD], env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1] == "True"
