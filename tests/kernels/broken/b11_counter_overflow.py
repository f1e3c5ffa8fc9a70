"""b11: sixteen signals on one id while the receiver still waits for another id.
Mistake: one SET more than the counter (0..15) can hold.
Twin: fifteen."""
import sys

import numpy as np

import pypto_pro.language as pl

EXPECT = {"kind": "counter_overflow", "lines": ["A"], "may_name": ["B"]}
T = 16
BLOCKS = 1


@pl.jit(auto_mutex=True)
def broken(
    x: pl.Tensor[[T, T], pl.DT_FP16],
    w: pl.Tensor[[T, T], pl.DT_FP16],
    ws: pl.Tensor[[16 * T, T], pl.DT_FP32],
    y: pl.Tensor[[2 * T, T], pl.DT_FP32],
):
    with pl.section_cube():
        mats = pl.make_tile_group(
            type=pl.TileType(shape=[T, T], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Mat),
            addrs=0x0000, mutex_ids=[0, 1],
        )
        lefts = pl.make_tile_group(
            type=pl.TileType(shape=[T, T], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Left),
            addrs=0x0000, mutex_ids=[2],
        )
        rights = pl.make_tile_group(
            type=pl.TileType(shape=[T, T], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Right),
            addrs=0x0000, mutex_ids=[3],
        )
        accs = pl.make_tile_group(
            type=pl.TileType(shape=[T, T], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Acc),
            addrs=0x0000, mutex_ids=[4],
        )
        x_mat = mats[0]
        w_mat = mats[1]
        left = lefts.current()
        right = rights.current()
        acc = accs.current()
        pl.load(x_mat, x, [0, 0])
        pl.load(w_mat, w, [0, 0])
        pl.move(left, x_mat)
        pl.move(right, w_mat)
        pl.matmul(acc, left, right)
        for i in pl.range(0, 16):
            pl.store(ws, acc, [i * T, 0])
            pl.system.set_cross_core(pipe=pl.PipeType.FIX, event_id=0)  # <- A
        pl.system.set_cross_core(pipe=pl.PipeType.FIX, event_id=1)
    with pl.section_vector():
        tiles = pl.make_tile_group(
            type=pl.TileType(shape=[T, T], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec),
            addrs=0x0000, mutex_ids=[0],
        )
        t = tiles.current()
        sub = pl.get_subblock_idx()
        pl.system.wait_cross_core(pipe=pl.PipeType.MTE2, event_id=1)
        for i in pl.range(0, 16):
            pl.system.wait_cross_core(pipe=pl.PipeType.MTE2, event_id=0)  # <- B
        pl.load(t, ws, [(16 - 2 + sub) * T, 0])
        pl.add(t, t, 1.0)
        pl.store(y, t, [sub * T, 0])


@pl.jit(auto_mutex=True)
def fixed(
    x: pl.Tensor[[T, T], pl.DT_FP16],
    w: pl.Tensor[[T, T], pl.DT_FP16],
    ws: pl.Tensor[[16 * T, T], pl.DT_FP32],
    y: pl.Tensor[[2 * T, T], pl.DT_FP32],
):
    with pl.section_cube():
        mats = pl.make_tile_group(
            type=pl.TileType(shape=[T, T], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Mat),
            addrs=0x0000, mutex_ids=[0, 1],
        )
        lefts = pl.make_tile_group(
            type=pl.TileType(shape=[T, T], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Left),
            addrs=0x0000, mutex_ids=[2],
        )
        rights = pl.make_tile_group(
            type=pl.TileType(shape=[T, T], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Right),
            addrs=0x0000, mutex_ids=[3],
        )
        accs = pl.make_tile_group(
            type=pl.TileType(shape=[T, T], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Acc),
            addrs=0x0000, mutex_ids=[4],
        )
        x_mat = mats[0]
        w_mat = mats[1]
        left = lefts.current()
        right = rights.current()
        acc = accs.current()
        pl.load(x_mat, x, [0, 0])
        pl.load(w_mat, w, [0, 0])
        pl.move(left, x_mat)
        pl.move(right, w_mat)
        pl.matmul(acc, left, right)
        for i in pl.range(0, 15):
            pl.store(ws, acc, [i * T, 0])
            pl.system.set_cross_core(pipe=pl.PipeType.FIX, event_id=0)
        pl.system.set_cross_core(pipe=pl.PipeType.FIX, event_id=1)
    with pl.section_vector():
        tiles = pl.make_tile_group(
            type=pl.TileType(shape=[T, T], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec),
            addrs=0x0000, mutex_ids=[0],
        )
        t = tiles.current()
        sub = pl.get_subblock_idx()
        pl.system.wait_cross_core(pipe=pl.PipeType.MTE2, event_id=1)
        for i in pl.range(0, 15):
            pl.system.wait_cross_core(pipe=pl.PipeType.MTE2, event_id=0)
        pl.load(t, ws, [(15 - 2 + sub) * T, 0])
        pl.add(t, t, 1.0)
        pl.store(y, t, [sub * T, 0])


def inputs():
    rng = np.random.default_rng(11)
    x = rng.uniform(-1, 1, (T, T)).astype(np.float16)
    w = rng.uniform(-1, 1, (T, T)).astype(np.float16)
    return x, w, np.zeros((16 * T, T), np.float32), np.zeros((2 * T, T), np.float32)


def golden(x, w, ws, y):
    p = x.astype(np.float32) @ w.astype(np.float32) + 1
    return np.concatenate([p, p])


BROKEN, FIXED = broken, fixed


def main():
    args = inputs()
    FIXED[None, BLOCKS](*args)
    ok = np.allclose(args[-1], golden(*args), rtol=2e-3, atol=2e-3)
    print("PASS counter_overflow (fixed twin)" if ok else "FAIL counter_overflow (fixed twin)")
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
