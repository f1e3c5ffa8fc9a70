"""The table of legal and illegal programs of the execution model, row by row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pypto_pro
import pypto_pro.language as pl

MTE1, MTE2, MTE3 = pl.PipeType.MTE1, pl.PipeType.MTE2, pl.PipeType.MTE3
V, S, FIX = pl.PipeType.V, pl.PipeType.S, pl.PipeType.FIX
F32, F16 = pl.DT_FP32, pl.DT_FP16
MAT, LEFT, VEC = pl.MemorySpace.Mat, pl.MemorySpace.Left, pl.MemorySpace.Vec
X = pl.Tensor[[16, 64], F32]
UNICAST = pl.CrossCoreSyncMode.UNICAST_BLOCK

LEGAL: list[tuple[Any, int]] = []
ILLEGAL: list[tuple[Any, int, str, str]] = []


def legal(blocks: int = 1) -> Callable[[Any], Any]:
    """A kernel over (x, y) that must be clean."""

    def note(kernel: Any) -> Any:
        LEGAL.append((kernel, blocks))
        return kernel

    return note


def illegal(kind: str, severity: str = "error", blocks: int = 1) -> Callable[[Any], Any]:
    """A kernel over (x, y) with a finding of that kind and severity."""

    def note(kernel: Any) -> Any:
        ILLEGAL.append((kernel, blocks, kind, severity))
        return kernel

    return note


def plain():
    return pl.TileType(shape=[16, 64], dtype=F32)


def order(a, b, e):
    pl.system.sync_src(set_pipe=a, wait_pipe=b, event_id=e)
    pl.system.sync_dst(set_pipe=a, wait_pipe=b, event_id=e)


@illegal("race")
@pl.jit(auto_mutex=False)
def load_then_add(x: X, y: X):
    with pl.section_vector():
        t = pl.make_tile(plain(), addr=0)
        u = pl.make_tile(plain(), addr=0x1000)
        pl.load(t, x, [0, 0])
        pl.add(u, t, t)


@legal()
@pl.jit
def load_then_add_on_a_group(x: X, y: X):
    with pl.section_vector():
        g = pl.make_tile_group(type=plain(), addrs=0, mutex_ids=[0, 1])
        pl.load(g[0], x, [0, 0])
        pl.add(g[1], g[0], g[0])
        pl.store(y, g[1], [0, 0])


@legal()
@pl.jit(auto_mutex=False)
def two_vector_ops(x: X, y: X):
    with pl.section_vector():
        t = pl.make_tile(plain(), addr=0)
        u = pl.make_tile(plain(), addr=0x1000)
        pl.expands(t, 1.0)
        pl.exp(t, t)
        pl.add(u, t, t)


@illegal("race")
@pl.jit(auto_mutex=False)
def scalar_reads_behind_an_add(x: X, y: X, out: pl.Tensor[[1, 64], F32]):
    with pl.section_vector():
        t = pl.make_tile(plain(), addr=0)
        pl.expands(t, 1.0)
        out[0, 0] = t[0, 0]


@illegal("race")
@pl.jit(auto_mutex=False)
def scalar_write_then_store(x: X, y: X):
    with pl.section_vector():
        t = pl.make_tile(plain(), addr=0)
        pl.expands(t, 1.0)
        order(V, S, 0)
        order(V, MTE3, 0)
        t[0, 0] = 1.0
        pl.store(y, t, [0, 0])


@legal()
@pl.jit(auto_mutex=False)
def scalar_write_ordered_before_the_store(x: X, y: X):
    with pl.section_vector():
        t = pl.make_tile(plain(), addr=0)
        pl.expands(t, 1.0)
        order(V, S, 0)
        t[0, 0] = 1.0
        order(S, MTE3, 0)
        pl.store(y, t, [0, 0])


@illegal("set_of_set_flag")
@pl.jit(auto_mutex=False)
def set_twice(x: X, y: X):
    with pl.section_vector():
        pl.system.sync_src(set_pipe=MTE2, wait_pipe=V, event_id=0)
        pl.system.sync_src(set_pipe=MTE2, wait_pipe=V, event_id=0)
        pl.system.sync_dst(set_pipe=MTE2, wait_pipe=V, event_id=0)
        pl.system.sync_dst(set_pipe=MTE2, wait_pipe=V, event_id=0)


@illegal("waw_hazard", "warning")
@pl.jit
def loaded_twice(x: X, y: X):
    with pl.section_vector():
        g = pl.make_tile_group(type=plain(), addrs=0, mutex_ids=[0, 1])
        pl.load(g[0], x, [0, 0])
        pl.load(g[0], x, [0, 0])
        pl.add(g[1], g[0], g[0])


@legal()
@pl.jit
def loaded_again_after_use(x: X, y: X):
    with pl.section_vector():
        g = pl.make_tile_group(type=plain(), addrs=0, mutex_ids=[0, 1])
        pl.load(g[0], x, [0, 0])
        pl.add(g[1], g[0], g[0])
        pl.load(g[0], x, [0, 0])
        pl.add(g[1], g[0], g[0])


@illegal("race")
@pl.jit(auto_mutex=False)
def loop_without_a_way_back(x: X, y: X):
    with pl.section_vector():
        t = pl.make_tile(plain(), addr=0)
        u = pl.make_tile(plain(), addr=0x1000)
        for i in pl.range(0, 3):
            pl.load(t, x, [0, 0])
            order(MTE2, V, 0)
            pl.exp(u, t)
            order(V, MTE3, 0)
            pl.store(y, u, [0, 0])


@legal()
@pl.jit(auto_mutex=False)
def loop_with_barriers(x: X, y: X):
    with pl.section_vector():
        t = pl.make_tile(plain(), addr=0)
        u = pl.make_tile(plain(), addr=0x1000)
        for i in pl.range(0, 3):
            pl.system.bar_all()
            pl.load(t, x, [0, 0])
            order(MTE2, V, 0)
            pl.exp(u, t)
            order(V, MTE3, 0)
            pl.store(y, u, [0, 0])


@illegal("deadlock")
@pl.jit(auto_mutex=False)
def locked_twice(x: X, y: X):
    with pl.section_vector():
        pl.system.mutex_lock(pipe=V, mutex_id=1)
        pl.system.mutex_lock(pipe=V, mutex_id=1)
        pl.system.mutex_unlock(pipe=V, mutex_id=1)
        pl.system.mutex_unlock(pipe=V, mutex_id=1)


@illegal("race")
@pl.jit
def two_groups_at_one_address(x: X, y: X):
    with pl.section_vector():
        g = pl.make_tile_group(type=plain(), addrs=0, mutex_ids=[0])
        h = pl.make_tile_group(type=plain(), addrs=0, mutex_ids=[1])
        pl.load(g[0], x, [0, 0])
        pl.exp(h[0], h[0])
        pl.store(y, h[0], [0, 0])


def halves():
    kind = pl.TileType(shape=[8, 64], dtype=F16, target_memory=VEC, layout=pl.NZ)
    nz = pl.make_tile_group(type=kind, addrs=0, mutex_ids=[0])
    return nz.current()


@legal()
@pl.jit
def insert_then_move(x: X, y: X):
    shared = pl.make_tile_group(
        type=pl.TileType(shape=[16, 64], dtype=F16, target_memory=MAT), addrs=0, mutex_ids=[4]
    ).current()
    with pl.section_vector():
        t = halves()
        pl.expands(t, 1.0)
        pl.insert(shared, t, [pl.get_subblock_idx() * 8, 0])
        pl.system.set_cross_core(pipe=MTE3, event_id=2)
    with pl.section_cube():
        kind = pl.TileType(shape=[16, 64], dtype=F16, target_memory=LEFT)
        left = pl.make_tile_group(type=kind, addrs=0, mutex_ids=[5]).current()
        pl.system.wait_cross_core(pipe=MTE1, event_id=2)
        pl.move(left, shared)


@illegal("race")
@pl.jit(auto_mutex=False)
def signalled_from_the_wrong_pipe(x: X, y: X):
    with pl.section_vector():
        t = pl.make_tile(plain(), addr=0)
        pl.expands(t, 1.0)
        order(V, MTE3, 0)
        pl.store(y, t, [0, 0])
        pl.system.set_cross_core(pipe=V, event_id=2)
    with pl.section_cube():
        m = pl.make_tile(pl.TileType(shape=[16, 64], dtype=F32, target_memory=MAT), addr=0)
        pl.system.wait_cross_core(pipe=MTE2, event_id=2)
        pl.load(m, y, [0, 0])


@illegal("race")
@pl.jit(auto_mutex=False)
def waited_for_on_the_wrong_pipe(x: X, y: pl.Tensor[[32, 64], F32]):
    with pl.section_vector():
        t = pl.make_tile(plain(), addr=0)
        pl.expands(t, 1.0)
        order(V, MTE3, 0)
        pl.store(y, t, [pl.get_subblock_idx() * 16, 0])
        pl.system.set_cross_core(pipe=MTE3, event_id=2)
    with pl.section_cube():
        m = pl.make_tile(pl.TileType(shape=[16, 64], dtype=F32, target_memory=MAT), addr=0)
        pl.system.wait_cross_core(pipe=MTE1, event_id=2)
        pl.load(m, y, [0, 0])


@illegal("deadlock")
@pl.jit(auto_mutex=False)
def only_one_vector_core_signals(x: X, y: X):
    with pl.section_vector():
        if pl.get_subblock_idx() == 0:
            pl.system.set_cross_core(pipe=S, event_id=2)
    with pl.section_cube():
        pl.system.wait_cross_core(pipe=S, event_id=2)


@illegal("counter_overflow")
@pl.jit(auto_mutex=False)
def sixteen_sets(x: X, y: X):
    with pl.section_cube():
        for i in pl.range(0, 16):
            pl.system.set_cross_core(pipe=S, event_id=0)
    with pl.section_vector():
        pl.system.bar_all()


@illegal("counter_overflow", "warning")
@pl.jit(auto_mutex=False)
def an_unbounded_producer(x: X, y: X):
    with pl.section_cube():
        for i in pl.range(0, 64):
            pl.system.set_cross_core(pipe=FIX, event_id=0)
    with pl.section_vector():
        for i in pl.range(0, 64):
            pl.system.wait_cross_core(pipe=MTE2, event_id=0)


@illegal("race", "warning")
@pl.jit
def both_vector_cores_in_place(x: X, y: X):
    with pl.section_cube():
        pl.system.bar_all()
    with pl.section_vector():
        g = pl.make_tile_group(type=plain(), addrs=0, mutex_ids=[0])
        t = g.current()
        pl.load(t, y, [0, 0])
        pl.add(t, t, 1.0)
        pl.store(y, t, [0, 0])


@illegal("deadlock")
@pl.jit
def all_cores_of_a_vector_kernel(x: X, y: X):
    with pl.section_vector():
        pl.system.sync_all()


@illegal("race")
@pl.jit
def stored_and_loaded_back(x: X, y: X):
    with pl.section_vector():
        g = pl.make_tile_group(type=plain(), addrs=0, mutex_ids=[0, 1])
        pl.expands(g[0], 1.0)
        pl.store(y, g[0], [0, 0])
        pl.load(g[1], y, [0, 0])
        pl.exp(g[1], g[1])


@legal()
@pl.jit
def stored_and_loaded_back_through_one_tile(x: X, y: X):
    with pl.section_vector():
        g = pl.make_tile_group(type=plain(), addrs=0, mutex_ids=[0])
        pl.expands(g[0], 1.0)
        pl.store(y, g[0], [0, 0])
        pl.load(g[0], y, [0, 0])
        pl.exp(g[0], g[0])


@illegal("identical_write", "warning")
@pl.jit
def equal_scalar_writes(x: X, y: X):
    y[0, 1] = x[0, 0]


@legal()
@pl.jit(auto_mutex=False)
def cube_stores_and_both_vector_cores_load(x: X, y: X):
    with pl.section_cube():
        acc = pl.make_tile(pl.TileType(shape=[16, 64], dtype=F32, target_memory=pl.MemorySpace.Acc), addr=0)
        a = pl.make_tile(pl.TileType(shape=[16, 16], dtype=F32, target_memory=MAT), addr=0)
        b = pl.make_tile(pl.TileType(shape=[16, 64], dtype=F32, target_memory=MAT), addr=0x1000)
        left = pl.make_tile(pl.TileType(shape=[16, 16], dtype=F32, target_memory=LEFT), addr=0)
        right = pl.make_tile(pl.TileType(shape=[16, 64], dtype=F32, target_memory=pl.MemorySpace.Right), addr=0)
        pl.load(a, x, [0, 0])
        pl.load(b, x, [0, 0])
        pl.system.bar_all()
        pl.move(left, a)
        pl.move(right, b)
        pl.system.bar_all()
        pl.matmul(acc, left, right)
        pl.system.bar_all()
        pl.store(y, acc, [0, 0])
        pl.system.set_cross_core(pipe=FIX, event_id=0)
    with pl.section_vector():
        t = pl.make_tile(plain(), addr=0)
        pl.system.wait_cross_core(pipe=MTE2, event_id=0)
        pl.load(t, y, [0, 0])
        order(MTE2, V, 0)
        pl.exp(t, t)


def launch(kernel: Any, blocks: int) -> pypto_pro.Report:  # type: ignore[name-defined]
    shapes = [spec.dims for spec in kernel.specs]
    return pypto_pro.check(kernel[None, blocks], *(np.ones(shape, np.float32) for shape in shapes))


SCHEDULES = ("in_order", "latest", "random")


@pytest.mark.parametrize(("kernel", "blocks"), LEGAL, ids=[k.source.name for k, _ in LEGAL])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_legal(kernel: Any, blocks: int, schedule: str) -> None:
    with pypto_pro.options(schedule=schedule, seed=3):
        report = launch(kernel, blocks)
    assert report.clean, str(report)


@pytest.mark.parametrize(
    ("kernel", "blocks", "kind", "severity"), ILLEGAL, ids=[k.source.name for k, *_ in ILLEGAL]
)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_illegal(kernel: Any, blocks: int, kind: str, severity: str, schedule: str) -> None:
    with pypto_pro.options(schedule=schedule, seed=3):
        report = launch(kernel, blocks)
    found = {(f.kind, str(f.severity)) for f in report.findings}
    assert (kind, severity) in found, str(report)
