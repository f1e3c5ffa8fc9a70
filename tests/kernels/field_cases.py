"""Mistakes kernel authors really make, one kernel each, with a mended twin.

The lines a report must name carry a marker `# <- X` (see `markers.lines_of`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

import pypto_pro.language as pl

MTE1, MTE2, MTE3 = pl.PipeType.MTE1, pl.PipeType.MTE2, pl.PipeType.MTE3
V, S, FIX = pl.PipeType.V, pl.PipeType.S, pl.PipeType.FIX
F32, F16, BF16, I32, I8 = pl.DT_FP32, pl.DT_FP16, pl.DT_BF16, pl.DT_INT32, pl.DT_INT8
AIV = pl.SyncCoreType.AIV_ONLY
UNICAST, INTRA = pl.CrossCoreSyncMode.UNICAST_BLOCK, pl.CrossCoreSyncMode.INTRA_BLOCK
F4 = np.dtype(np.float32)


@dataclass(frozen=True)
class Case:
    """A launch: the kernel, its arguments made anew each time, blocks."""

    kernel: Any
    shapes: tuple[Any, ...]
    blocks: int = 1
    scalars: tuple[Any, ...] = field(default=())

    def arguments(self) -> list[Any]:
        """Arrays of ones (or what a callable makes), then the scalars."""
        return [make() if callable(make) else np.ones(make, F4) for make in self.shapes] + list(self.scalars)


def flag(a, b, e):
    pl.system.sync_src(set_pipe=a, wait_pipe=b, event_id=e)
    pl.system.sync_dst(set_pipe=a, wait_pipe=b, event_id=e)


def mat_group(shape, space, addr, mutex_id, compact=0, dtype=F16):
    kind = pl.TileType(shape=shape, dtype=dtype, target_memory=space, valid_shape=[-1, -1], compact=compact)
    return pl.make_tile_group(type=kind, addrs=addr, mutex_ids=[mutex_id])


def cube_tiles(m, k, n, cm):
    am = mat_group([m, k], pl.MemorySpace.Mat, 0, 0)
    bm = mat_group([k, n], pl.MemorySpace.Mat, m * k * 2, 1)
    lt = mat_group([m, k], pl.MemorySpace.Left, 0, 2, cm)
    rt = mat_group([k, n], pl.MemorySpace.Right, 0, 3)
    ac = mat_group([m, n], pl.MemorySpace.Acc, 0, 4, cm, F32)
    return am.current(), bm.current(), lt.current(), rt.current(), ac.current()


# --- 1: one token, two takers ---------------------------------------------------------------------------------------


@pl.jit(auto_mutex=False)
def one_token(x: pl.Tensor[[2, 16, 64], F32], y: pl.Tensor[[2, 16, 64], F32]):
    with pl.section_cube():
        pl.system.set_cross_core(pipe=S, event_id=3, sync_mode=UNICAST)  # <- A1
    with pl.section_vector():
        t = pl.make_tile(pl.TileType(shape=[16, 64], dtype=F32), addr=0)
        s = pl.get_subblock_idx()
        pl.system.wait_cross_core(pipe=MTE2, event_id=3, sync_mode=UNICAST)  # <- B1
        pl.load(t, x, [s, 0, 0])
        flag(MTE2, MTE3, 0)
        pl.store(y, t, [s, 0, 0])


@pl.jit(auto_mutex=False)
def two_tokens(x: pl.Tensor[[2, 16, 64], F32], y: pl.Tensor[[2, 16, 64], F32]):
    with pl.section_cube():
        pl.system.set_cross_core(pipe=S, event_id=3, sync_mode=INTRA)
    with pl.section_vector():
        t = pl.make_tile(pl.TileType(shape=[16, 64], dtype=F32), addr=0)
        s = pl.get_subblock_idx()
        pl.system.wait_cross_core(pipe=MTE2, event_id=3, sync_mode=INTRA)
        pl.load(t, x, [s, 0, 0])
        flag(MTE2, MTE3, 0)
        pl.store(y, t, [s, 0, 0])


# --- 2: a producer without credits ----------------------------------------------------------------------------------


@pl.jit(auto_mutex=False)
def runaway(y: pl.Tensor[[24, 2, 8, 64], F32], sets: pl.DT_INT32):
    with pl.section_cube():
        for i in pl.range(0, sets):
            pl.system.set_cross_core(pipe=S, event_id=0)  # <- A2
    with pl.section_vector():
        t = pl.make_tile(pl.TileType(shape=[8, 64], dtype=F32), addr=0)
        s = pl.get_subblock_idx()
        for i in pl.range(0, 24):
            pl.system.wait_cross_core(pipe=V, event_id=0)
            pl.expands(t, 1.0)
            flag(V, MTE3, 0)
            pl.store(y, t, [i, s, 0, 0])
            flag(MTE3, V, 0)


@pl.jit(auto_mutex=False)
def with_credits(y: pl.Tensor[[24, 2, 8, 64], F32], sets: pl.DT_INT32):
    with pl.section_cube():
        for i in pl.range(0, sets):
            if i >= 8:
                pl.system.wait_cross_core(pipe=S, event_id=1)
            pl.system.set_cross_core(pipe=S, event_id=0)
    with pl.section_vector():
        t = pl.make_tile(pl.TileType(shape=[8, 64], dtype=F32), addr=0)
        s = pl.get_subblock_idx()
        for i in pl.range(0, 24):
            pl.system.wait_cross_core(pipe=V, event_id=0)
            if i < sets - 8:
                pl.system.set_cross_core(pipe=V, event_id=1)
            pl.expands(t, 1.0)
            flag(V, MTE3, 0)
            pl.store(y, t, [i, s, 0, 0])
            flag(MTE3, V, 0)


# --- 3: a scalar reads what the DMA has not delivered ---------------------------------------------------------------


@pl.jit(auto_mutex=False)
def pick(idx: pl.Tensor[[1, 8], I32], x: pl.Tensor[[32, 64], F32], y: pl.Tensor[[8, 64], F32]):
    with pl.section_vector():
        it = pl.make_tile(pl.TileType(shape=[1, 8], dtype=I32), addr=0)
        t = pl.make_tile(pl.TileType(shape=[1, 64], dtype=F32), addr=0x1000)
        pl.load(it, idx, [0, 0])  # <- A3
        for j in pl.range(0, 8):
            r = it[0, j]  # <- B3
            pl.load(t, x, [r, 0])  # <- C3
            flag(MTE2, MTE3, 0)
            pl.store(y, t, [j, 0])
            flag(MTE3, MTE2, 1)


@pl.jit(auto_mutex=False)
def pick_ordered(idx: pl.Tensor[[1, 8], I32], x: pl.Tensor[[32, 64], F32], y: pl.Tensor[[8, 64], F32]):
    with pl.section_vector():
        it = pl.make_tile(pl.TileType(shape=[1, 8], dtype=I32), addr=0)
        t = pl.make_tile(pl.TileType(shape=[1, 64], dtype=F32), addr=0x1000)
        pl.load(it, idx, [0, 0])
        flag(MTE2, S, 0)
        for j in pl.range(0, 8):
            r = it[0, j]
            pl.load(t, x, [r, 0])
            flag(MTE2, MTE3, 0)
            pl.store(y, t, [j, 0])
            flag(MTE3, MTE2, 1)


# --- 4: an output tile overwritten while it is stored ---------------------------------------------------------------


@pl.jit(auto_mutex=False)
def war(x: pl.Tensor[[64, 64], F32], y: pl.Tensor[[64, 64], F32]):
    with pl.section_vector():
        tt = pl.TileType(shape=[8, 64], dtype=F32)
        a = pl.make_tile(tt, addr=0)
        b = pl.make_tile(tt, addr=0x800)
        for i in pl.range(0, 8):
            pl.load(a, x, [i * 8, 0])
            flag(MTE2, V, 0)
            pl.exp(b, a)  # <- A4
            flag(V, MTE2, 0)
            flag(V, MTE3, 0)
            pl.store(y, b, [i * 8, 0])  # <- B4


@pl.jit(auto_mutex=False)
def war_ordered(x: pl.Tensor[[64, 64], F32], y: pl.Tensor[[64, 64], F32]):
    with pl.section_vector():
        tt = pl.TileType(shape=[8, 64], dtype=F32)
        a = pl.make_tile(tt, addr=0)
        b = pl.make_tile(tt, addr=0x800)
        pl.system.sync_src(set_pipe=MTE3, wait_pipe=V, event_id=1)
        for i in pl.range(0, 8):
            pl.load(a, x, [i * 8, 0])
            flag(MTE2, V, 0)
            pl.system.sync_dst(set_pipe=MTE3, wait_pipe=V, event_id=1)
            pl.exp(b, a)
            flag(V, MTE2, 0)
            flag(V, MTE3, 0)
            pl.store(y, b, [i * 8, 0])
            pl.system.sync_src(set_pipe=MTE3, wait_pipe=V, event_id=1)
        pl.system.sync_dst(set_pipe=MTE3, wait_pipe=V, event_id=1)


# --- 5: two groups share a base but not a slot size -----------------------------------------------------------------


@pl.jit
def straddle(
    x: pl.Tensor[[48, 64], F32], z: pl.Tensor[[32, 64], F32], y: pl.Tensor[[48, 64], F32], w: pl.Tensor[[32, 64], F32]
):
    with pl.section_vector():
        ga = pl.make_tile_group(type=pl.TileType(shape=[24, 64], dtype=F32), addrs=0, mutex_ids=[0, 1])  # <- A5
        gb = pl.make_tile_group(type=pl.TileType(shape=[16, 64], dtype=F32), addrs=0, mutex_ids=[0, 1])  # <- B5
        for i in pl.range(0, 2):
            t = ga[0]
            u = gb[1]
            pl.load(t, x, [i * 24, 0])
            pl.load(u, z, [i * 16, 0])
            pl.exp(t, t)
            pl.exp(u, u)
            pl.store(y, t, [i * 24, 0])
            pl.store(w, u, [i * 16, 0])


@pl.jit
def apart(
    x: pl.Tensor[[48, 64], F32], z: pl.Tensor[[32, 64], F32], y: pl.Tensor[[48, 64], F32], w: pl.Tensor[[32, 64], F32]
):
    with pl.section_vector():
        ga = pl.make_tile_group(type=pl.TileType(shape=[24, 64], dtype=F32), addrs=0, mutex_ids=[0, 1])
        gb = pl.make_tile_group(type=pl.TileType(shape=[16, 64], dtype=F32), addrs=0x4000, mutex_ids=[2, 3])
        for i in pl.range(0, 2):
            t = ga[0]
            u = gb[1]
            pl.load(t, x, [i * 24, 0])
            pl.load(u, z, [i * 16, 0])
            pl.exp(t, t)
            pl.exp(u, u)
            pl.store(y, t, [i * 24, 0])
            pl.store(w, u, [i * 16, 0])


# --- 6: rows of 16 bytes, slices between blocks ---------------------------------------------------------------------


@pl.jit
def thin_slice(x: pl.Tensor[[8, 16], F32], y: pl.Tensor[[8, 16], F32]):
    with pl.section_vector():
        g = pl.make_tile_group(type=pl.TileType(shape=[8, 16], dtype=F32), addrs=0, mutex_ids=[0])
        t = g.current()
        pl.load(t, x, [0, 0])
        u = t[0:8, 1:9]
        pl.exp(u, u)  # <- A6
        pl.store(y, t, [0, 0])


@pl.jit
def thin_rows(x: pl.Tensor[[8, 16], F32], y: pl.Tensor[[8, 16], F32]):
    with pl.section_vector():
        g = pl.make_tile_group(type=pl.TileType(shape=[8, 16], dtype=F32), addrs=0, mutex_ids=[0])
        t = g.current()
        pl.load(t, x, [0, 0])
        pl.store(y, t, [0, 0])
        b = pl.make_tile(pl.TileType(shape=[8, 4], dtype=F32), addr=0x400)
        pl.load(b, x, [0, 0])  # <- B6


@pl.jit
def thick(x: pl.Tensor[[8, 16], F32], y: pl.Tensor[[8, 16], F32]):
    with pl.section_vector():
        g = pl.make_tile_group(type=pl.TileType(shape=[8, 16], dtype=F32), addrs=0, mutex_ids=[0])
        t = g.current()
        pl.load(t, x, [0, 0])
        u = t[0:8, 8:16]
        pl.exp(u, u)
        pl.store(y, t, [0, 0])


# --- 7: a valid shape left over from the last tail ------------------------------------------------------------------


@pl.jit
def tails(x: pl.Tensor[[4, pl.DYNAMIC], F32], y: pl.Tensor[[4, pl.DYNAMIC], F32], n: pl.DT_INT64):
    with pl.section_vector():
        kind = pl.TileType(shape=[1, 64], dtype=F32, valid_shape=[-1, -1])
        g = pl.make_tile_group(type=kind, addrs=0, mutex_ids=[0])
        for r in pl.range(0, 4):
            for c in pl.range(0, n, 64):
                t = g.current()
                if c + 64 > n:
                    pl.set_validshape(t, [1, n - c])  # <- A7
                pl.load(t, x, [r, c])
                pl.exp(t, t)
                pl.store(y, t, [r, c])  # <- B7


@pl.jit
def tails_widened(x: pl.Tensor[[4, pl.DYNAMIC], F32], y: pl.Tensor[[4, pl.DYNAMIC], F32], n: pl.DT_INT64):
    with pl.section_vector():
        kind = pl.TileType(shape=[1, 64], dtype=F32, valid_shape=[-1, -1])
        g = pl.make_tile_group(type=kind, addrs=0, mutex_ids=[0])
        for r in pl.range(0, 4):
            for c in pl.range(0, n, 64):
                t = g.current()
                pl.set_validshape(t, [1, pl.min(64, n - c)])
                pl.load(t, x, [r, c])
                pl.exp(t, t)
                pl.store(y, t, [r, c])


# --- 8: a scalar store stays in the writer's cache ------------------------------------------------------------------


@pl.jit
def count(n: pl.Tensor[[1, 16], I32], y: pl.Tensor[[8, 64], F32]):
    with pl.section_vector():
        g = pl.make_tile_group(type=pl.TileType(shape=[1, 64], dtype=F32), addrs=0, mutex_ids=[0])
        t = g.current()
        b = pl.get_block_idx()
        if b == 0:
            n[0, 0] = 5  # <- A8
        pl.system.sync_all(core_type=AIV)
        if b < n[0, 0]:  # <- B8
            pl.expands(t, 1.0)
            pl.store(y, t, [b, 0])


@pl.jit
def count_flushed(n: pl.Tensor[[1, 16], I32], y: pl.Tensor[[8, 64], F32]):
    with pl.section_vector():
        g = pl.make_tile_group(type=pl.TileType(shape=[1, 64], dtype=F32), addrs=0, mutex_ids=[0])
        t = g.current()
        b = pl.get_block_idx()
        if b == 0:
            n[0, 0] = 5
            pl.system.dcci(n)
        pl.system.sync_all(core_type=AIV)
        pl.system.dcci(n)
        if b < n[0, 0]:
            pl.expands(t, 1.0)
            pl.store(y, t, [b, 0])


# --- 9: short M without compact -------------------------------------------------------------------------------------


@pl.jit
def short_m(a: pl.Tensor[[16, 64], F16], b: pl.Tensor[[64, 64], F16], c: pl.Tensor[[16, 64], F32]):
    with pl.section_cube():
        am, bm, lt, rt, ac = cube_tiles(64, 64, 64, 0)
        pl.set_validshape(am, [16, 64])
        pl.set_validshape(lt, [16, 64])
        pl.set_validshape(ac, [16, 64])
        pl.load(am, a, [0, 0])
        pl.load(bm, b, [0, 0])
        pl.move(lt, am)
        pl.move(rt, bm)
        pl.matmul(ac, lt, rt)  # <- A9
        pl.store(c, ac, [0, 0])  # <- B9


@pl.jit
def short_m_compact(a: pl.Tensor[[16, 64], F16], b: pl.Tensor[[64, 64], F16], c: pl.Tensor[[16, 64], F32]):
    with pl.section_cube():
        am, bm, lt, rt, ac = cube_tiles(64, 64, 64, 1)
        pl.set_validshape(am, [16, 64])
        pl.set_validshape(lt, [16, 64])
        pl.set_validshape(ac, [16, 64])
        pl.load(am, a, [0, 0])
        pl.load(bm, b, [0, 0])
        pl.move(lt, am)
        pl.move(rt, bm)
        pl.matmul(ac, lt, rt)
        pl.store(c, ac, [0, 0])


# --- 10: ties go away from zero -------------------------------------------------------------------------------------


@pl.jit
def to_bf16(x: pl.Tensor[[1, 64], F32], y: pl.Tensor[[1, 64], BF16]):
    with pl.section_vector():
        gi = pl.make_tile_group(type=pl.TileType(shape=[1, 64], dtype=F32), addrs=0, mutex_ids=[0])
        go = pl.make_tile_group(type=pl.TileType(shape=[1, 64], dtype=BF16), addrs=0x400, mutex_ids=[1])
        t = gi.current()
        o = go.current()
        pl.load(t, x, [0, 0])
        pl.cast(o, t)  # <- A10
        pl.store(y, o, [0, 0])


# --- 11: NaN is born early and hidden late --------------------------------------------------------------------------


@pl.jit
def masked(s: pl.Tensor[[8, 64], F32], p: pl.Tensor[[8, 64], F16]):
    with pl.section_vector():
        ft = pl.TileType(shape=[8, 64], dtype=F32)
        gt = pl.make_tile_group(type=ft, addrs=0, mutex_ids=[0])
        gs = pl.make_tile_group(type=ft, addrs=0x800, mutex_ids=[1])
        gm = pl.make_tile_group(type=pl.TileType(shape=[8, 1], dtype=F32), addrs=0x1000, mutex_ids=[2])
        go = pl.make_tile_group(type=pl.TileType(shape=[8, 64], dtype=F16), addrs=0x1400, mutex_ids=[3])
        t = gt.current()
        m = gm.current()
        o = go.current()
        pl.load(t, s, [0, 0])
        pl.maximum(m, t, gs.current(), dim=0)
        pl.expand_sub(t, t, m, dim=0)  # <- A11
        pl.exp(t, t)
        pl.cast(o, t, mode=pl.RoundMode.CAST_RINT)  # <- B11
        pl.store(p, o, [0, 0])


# --- 13: a module constant changed after the kernel was compiled ------------------------------------------------------

BLOCK = 8


@pl.jit
def blk(x: pl.Tensor[[16, 64], F32], y: pl.Tensor[[16, 64], F32]):
    with pl.section_vector():
        g = pl.make_tile_group(type=pl.TileType(shape=[BLOCK, 64], dtype=F32), addrs=0, mutex_ids=[0])
        t = g.current()
        pl.load(t, x, [0, 0])
        pl.store(y, t, [0, 0])


# --- 14: mistakes inside helpers; an option that does nothing ---------------------------------------------------------


def grab(t, src, r):
    pl.load(t, src, [r])  # <- A14


def grab_both(t, src, r):
    pl.load(t, src, [r, 0])  # <- C14


@pl.jit
def deep(x: pl.Tensor[[8, 64], F32], y: pl.Tensor[[8, 64], F32]):
    with pl.section_vector():
        t = pl.make_tile(pl.TileType(shape=[8, 64], dtype=F32), addr=0)
        grab(t, x, 0)  # <- B14
        pl.store(y, t, [0, 0])


@pl.jit
def deep_unlocked(x: pl.Tensor[[8, 64], F32], y: pl.Tensor[[8, 64], F32]):
    with pl.section_vector():
        t = pl.make_tile(pl.TileType(shape=[8, 64], dtype=F32), addr=0)
        grab_both(t, x, 0)
        flag(MTE2, MTE3, 0)
        pl.store(y, t, [0, 0])


def rows_with_infinity() -> np.ndarray:
    s = np.zeros((8, 64), np.float32)
    s[3] = -np.inf
    return s


CASES = {
    "one_token": Case(one_token, ((2, 16, 64), (2, 16, 64))),
    "two_tokens": Case(two_tokens, ((2, 16, 64), (2, 16, 64))),
    "runaway": Case(runaway, ((24, 2, 8, 64),), scalars=(24,)),
    "runaway_26": Case(runaway, ((24, 2, 8, 64),), scalars=(26,)),
    "with_credits": Case(with_credits, ((24, 2, 8, 64),), scalars=(24,)),
    "pick": Case(pick, (lambda: np.arange(8, dtype=np.int32)[None], (32, 64), (8, 64))),
    "pick_ordered": Case(pick_ordered, (lambda: np.arange(8, dtype=np.int32)[None], (32, 64), (8, 64))),
    "war": Case(war, ((64, 64), (64, 64))),
    "war_ordered": Case(war_ordered, ((64, 64), (64, 64))),
    "straddle": Case(straddle, ((48, 64), (32, 64), (48, 64), (32, 64))),
    "apart": Case(apart, ((48, 64), (32, 64), (48, 64), (32, 64))),
    "thin_slice": Case(thin_slice, ((8, 16), (8, 16))),
    "thin_rows": Case(thin_rows, ((8, 16), (8, 16))),
    "thick": Case(thick, ((8, 16), (8, 16))),
    "tails": Case(tails, ((4, 160), (4, 160)), scalars=(160,)),
    "tails_widened": Case(tails_widened, ((4, 160), (4, 160)), scalars=(160,)),
    "count": Case(count, (lambda: np.zeros((1, 16), np.int32), (8, 64)), blocks=8),
    "count_flushed": Case(count_flushed, (lambda: np.zeros((1, 16), np.int32), (8, 64)), blocks=8),
    "short_m": Case(
        short_m, (lambda: np.ones((16, 64), np.float16), lambda: np.ones((64, 64), np.float16), (16, 64))
    ),
    "short_m_compact": Case(
        short_m_compact, (lambda: np.ones((16, 64), np.float16), lambda: np.ones((64, 64), np.float16), (16, 64))
    ),
    "to_bf16": Case(
        to_bf16, (lambda: np.full((1, 64), 1 + 2**-8, np.float32), lambda: np.zeros((1, 64), ml_dtypes.bfloat16))
    ),
    "masked": Case(masked, (rows_with_infinity, lambda: np.zeros((8, 64), np.float16))),
    "blk": Case(blk, ((16, 64), lambda: np.zeros((16, 64), F4))),
    "deep": Case(deep, ((8, 64), (8, 64))),
    "deep_unlocked": Case(deep_unlocked, ((8, 64), (8, 64))),
}
