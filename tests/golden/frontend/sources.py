"""Kernels whose IR is kept as text beside this file: one per group of language features."""

from __future__ import annotations

from dataclasses import dataclass

import pypto_pro.language as pl
from pypto_pro.language import Vf as vf  # noqa: N813

ROWS, COLS = 16, 64
SLOT = ROWS * COLS * 4


@pl.jit
def groups(x: pl.Tensor[[pl.DYNAMIC, COLS], pl.DT_FP32], y: pl.Tensor[[pl.DYNAMIC, COLS], pl.DT_FP32]):
    tile_type = pl.TileType(
        shape=[ROWS, COLS], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec, valid_shape=[-1, -1]
    )
    ins = pl.make_tile_group(type=tile_type, addrs=0, mutex_ids=[0, 1])
    outs = pl.make_tile_group(type=tile_type, addrs=2 * SLOT, mutex_ids=[2])
    rows = x.shape[0]
    with pl.section_vector():
        for i in pl.range(pl.get_block_idx(), (rows + ROWS - 1) // ROWS, pl.get_block_num()):
            t = ins.next()
            u = outs.current()
            valid = pl.min(ROWS, rows - i * ROWS)
            pl.set_validshape(t, [valid, COLS])
            pl.set_validshape(u, [valid, COLS])
            pl.load_tile(t, x, [i, 0])
            pl.mul(u, t, 2.0)
            pl.store(y, u[0:8, :], [i * ROWS, 0])


@pl.jit(auto_mutex=False)
def flags(x: pl.Tensor[[4 * ROWS, COLS], pl.DT_FP32]):
    tile_type = pl.TileType(shape=[ROWS, COLS], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec)
    a = pl.make_tile(tile_type, addr=0)
    b = pl.make_tile(tile_type, addr=SLOT)
    pair = (a, b)
    with pl.section_vector():
        for i in pl.range(4):
            slot = i % 2
            t = pair[slot]
            pl.load(t, x, [i * ROWS, 0])
            pl.system.sync_src(set_pipe=pl.PipeType.MTE2, wait_pipe=pl.PipeType.V, event_id=slot)
            pl.system.sync_dst(set_pipe=pl.PipeType.MTE2, wait_pipe=pl.PipeType.V, event_id=slot)
            pl.exp(t, t)
        pl.system.bar_all()


def classify(n, cut):
    if n % 5 == 3:
        return 2
    if n >= cut:
        return 1
    return 0


@pl.jit
def flow(log: pl.Tensor[[1, 8], pl.DT_INT32], cut: pl.DT_INT32):
    with pl.section_vector():
        walk = pl.struct("Walk", at=0, seen=[0, 0, 0])
        best = 0
        while walk.at < 8 and best < 100:
            kind = classify(walk.at, cut)
            walk.at += 1
            if kind == 2:
                continue
            walk.seen[kind] += 1
            best = best + walk.at if kind == 1 else best
        log[0, 0] = best
        log[0, 1] = walk.seen[1]


def solo(tile_type, addr, mutex):
    group = pl.make_tile_group(type=tile_type, addrs=addr, mutex_ids=[mutex])
    return group.current()


@pl.jit
def mixed(a: pl.Tensor[[32, 32], pl.DT_FP16], b: pl.Tensor[[32, 32], pl.DT_FP16], c: pl.Tensor[[32, 32], pl.DT_FP32]):
    half = pl.TileType(shape=[16, 32], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec, valid_shape=[-1, -1])
    shared = solo(half, 0, 9)
    with pl.section_cube():
        mat = pl.TileType(shape=[32, 32], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Mat)
        left = solo(pl.TileType(shape=[32, 32], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Left), 0, 2)
        right = solo(pl.TileType(shape=[32, 32], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Right), 0, 3)
        acc = solo(
            pl.TileType(shape=[32, 32], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Acc, valid_shape=[-1, -1]), 0, 4
        )
        am = solo(mat, 0, 0)
        bm = solo(mat, 0x1000, 1)
        pl.load(am, a, [0, 0])
        pl.load(bm, b, [0, 0])
        pl.move(left, am)
        pl.move(right, bm)
        pl.matmul(acc, left, right)
        pl.move(shared, acc, acc_to_vec_mode=pl.AccToVecMode.DualModeSplitM)
        pl.system.set_cross_core(pipe=pl.PipeType.FIX, event_id=0)
    with pl.section_vector():
        pl.system.wait_cross_core(pipe=pl.PipeType.MTE3, event_id=0)
        pl.store(c, shared, [pl.get_subblock_idx() * 16, 0])


@pl.vector_function
def doubled(src, dst, rows):
    on = vf.create_mask(pattern=pl.MaskPattern.ALL, dtype=pl.DT_FP32)
    for r in pl.range(rows):
        v = vf.load_align(src, [r, 0])
        v = vf.add(v, v, on)
        vf.store_align(dst + r * COLS, v, on)


@pl.jit
def registers(x: pl.Tensor[[ROWS, COLS], pl.DT_FP32], y: pl.Tensor[[ROWS, COLS], pl.DT_FP32]):
    tile_type = pl.TileType(shape=[ROWS, COLS], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec)
    with pl.section_vector():
        t = solo(tile_type, 0, 0)
        u = solo(tile_type, SLOT, 1)
        pl.load(t, x, [0, 0])
        doubled(t, u, ROWS)
        pl.store(y, u, [0, 0])


@dataclass
class Data:
    rows: int
    scale: float
    steps: int[2]


@pl.jit
def views(p: pl.Ptr[pl.DT_UINT8], bias: pl.Ptr[pl.DT_FP32], data: Data):
    x = pl.make_tensor(p + 64, [data.rows, COLS], [data.steps[0], 1], dtype=pl.DT_FP32)
    tile_type = pl.TileType(shape=[ROWS, COLS], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec)
    ins = pl.make_tile_group(type=tile_type, addrs=0, mutex_ids=[0, 1])
    with pl.section_vector():
        t = ins.next() if data.rows > ROWS else ins[0]
        pl.load(t, x, [0, 0])
        pl.mul(t, t, data.scale)
        if bias is not None:
            pl.add(t, t, pl.make_tensor(bias, [1, 1])[0, 0])
        else:
            pl.printf("no bias, %d rows\n", data.rows)
        pl.store(x, t, [0, 0])


def only(tile_type, addr, mutex):
    return pl.make_tile_group(type=tile_type, addrs=addr, mutex_ids=[mutex]).current()


def two(tile_type, addr):
    first = pl.make_tile(tile_type, addr=addr)
    return first, only(tile_type, addr + SLOT, 5)


@pl.jit
def names(x: pl.Tensor[[ROWS, COLS], pl.DT_FP32], y: pl.Tensor[[ROWS, COLS], pl.DT_FP32]):
    tile_type = pl.TileType(shape=[ROWS, COLS], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec)
    with pl.section_vector():
        red = pl.make_tile_group(type=tile_type, addrs=0, mutex_ids=[0, 1]).current()
        item = pl.make_tile_group(type=tile_type, addrs=2 * SLOT, mutex_ids=[2])[0]
        stat = only(tile_type, 3 * SLOT, 3)
        left, right = two(tile_type, 4 * SLOT)
        pair = (pl.make_tile(tile_type, addr=6 * SLOT), only(tile_type, 7 * SLOT, 4))
        pl.load(red, x, [0, 0])
        pl.add(item, red, stat)
        pl.mul(left, right, pair[0])
        pl.mul(pair[1], left, pl.make_tile(tile_type, addr=8 * SLOT))
        pl.store(y, pair[1], [0, 0])
