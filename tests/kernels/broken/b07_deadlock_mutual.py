"""b07: the vector cores wait for the product before they send the operand the product is made of.
Mistake: the vector side waits for event 0 too early; the matrix core waits for event 1, which is sent only after that.
Twin: the wait stands just before the load that needs it."""
import sys

import numpy as np

import pypto_pro.language as pl

EXPECT = {"kind": "deadlock", "lines": ["A", "B"]}
M, N, K = 32, 16, 32
BLOCKS = 1


@pl.jit(auto_mutex=True)
def broken(
    x: pl.Tensor[[M, K], pl.DT_FP16],
    w: pl.Tensor[[K, N], pl.DT_FP16],
    xs: pl.Tensor[[M, K], pl.DT_FP16],
    ps: pl.Tensor[[M, N], pl.DT_FP32],
    y: pl.Tensor[[M, N], pl.DT_FP32],
):
    with pl.section_vector():
        halves = pl.make_tile_group(
            type=pl.TileType(shape=[M // 2, K], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Vec),
            addrs=0x0000, mutex_ids=[0],
        )
        singles = pl.make_tile_group(
            type=pl.TileType(shape=[M // 2, N], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec),
            addrs=0x2000, mutex_ids=[1],
        )
        h = halves.current()
        f = singles.current()
        row = pl.get_subblock_idx() * (M // 2)
        pl.system.wait_cross_core(pipe=pl.PipeType.MTE2, event_id=0)  # <- B
        pl.load(h, x, [row, 0])
        pl.mul(h, h, 2.0)
        pl.store(xs, h, [row, 0])
        pl.system.set_cross_core(pipe=pl.PipeType.MTE3, event_id=1)
        pl.load(f, ps, [row, 0])
        pl.add(f, f, 1.0)
        pl.store(y, f, [row, 0])
    with pl.section_cube():
        a_l1 = pl.make_tile_group(
            type=pl.TileType(shape=[M, K], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Mat),
            addrs=0x0000, mutex_ids=[0],
        )
        w_l1 = pl.make_tile_group(
            type=pl.TileType(shape=[K, N], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Mat),
            addrs=0x2000, mutex_ids=[1],
        )
        a_l0 = pl.make_tile_group(
            type=pl.TileType(shape=[M, K], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Left),
            addrs=0x0000, mutex_ids=[2],
        )
        w_l0 = pl.make_tile_group(
            type=pl.TileType(shape=[K, N], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Right),
            addrs=0x0000, mutex_ids=[3],
        )
        accs = pl.make_tile_group(
            type=pl.TileType(shape=[M, N], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Acc),
            addrs=0x0000, mutex_ids=[4],
        )
        a_mat = a_l1.current()
        w_mat = w_l1.current()
        left = a_l0.current()
        right = w_l0.current()
        acc = accs.current()
        pl.load(w_mat, w, [0, 0])
        pl.move(right, w_mat)
        pl.system.wait_cross_core(pipe=pl.PipeType.MTE2, event_id=1)  # <- A
        pl.load(a_mat, xs, [0, 0])
        pl.move(left, a_mat)
        pl.matmul(acc, left, right)
        pl.store(ps, acc, [0, 0])
        pl.system.set_cross_core(pipe=pl.PipeType.FIX, event_id=0)


@pl.jit(auto_mutex=True)
def fixed(
    x: pl.Tensor[[M, K], pl.DT_FP16],
    w: pl.Tensor[[K, N], pl.DT_FP16],
    xs: pl.Tensor[[M, K], pl.DT_FP16],
    ps: pl.Tensor[[M, N], pl.DT_FP32],
    y: pl.Tensor[[M, N], pl.DT_FP32],
):
    with pl.section_vector():
        halves = pl.make_tile_group(
            type=pl.TileType(shape=[M // 2, K], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Vec),
            addrs=0x0000, mutex_ids=[0],
        )
        singles = pl.make_tile_group(
            type=pl.TileType(shape=[M // 2, N], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec),
            addrs=0x2000, mutex_ids=[1],
        )
        h = halves.current()
        f = singles.current()
        row = pl.get_subblock_idx() * (M // 2)
        pl.load(h, x, [row, 0])
        pl.mul(h, h, 2.0)
        pl.store(xs, h, [row, 0])
        pl.system.set_cross_core(pipe=pl.PipeType.MTE3, event_id=1)
        pl.system.wait_cross_core(pipe=pl.PipeType.MTE2, event_id=0)
        pl.load(f, ps, [row, 0])
        pl.add(f, f, 1.0)
        pl.store(y, f, [row, 0])
    with pl.section_cube():
        a_l1 = pl.make_tile_group(
            type=pl.TileType(shape=[M, K], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Mat),
            addrs=0x0000, mutex_ids=[0],
        )
        w_l1 = pl.make_tile_group(
            type=pl.TileType(shape=[K, N], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Mat),
            addrs=0x2000, mutex_ids=[1],
        )
        a_l0 = pl.make_tile_group(
            type=pl.TileType(shape=[M, K], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Left),
            addrs=0x0000, mutex_ids=[2],
        )
        w_l0 = pl.make_tile_group(
            type=pl.TileType(shape=[K, N], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Right),
            addrs=0x0000, mutex_ids=[3],
        )
        accs = pl.make_tile_group(
            type=pl.TileType(shape=[M, N], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Acc),
            addrs=0x0000, mutex_ids=[4],
        )
        a_mat = a_l1.current()
        w_mat = w_l1.current()
        left = a_l0.current()
        right = w_l0.current()
        acc = accs.current()
        pl.load(w_mat, w, [0, 0])
        pl.move(right, w_mat)
        pl.system.wait_cross_core(pipe=pl.PipeType.MTE2, event_id=1)
        pl.load(a_mat, xs, [0, 0])
        pl.move(left, a_mat)
        pl.matmul(acc, left, right)
        pl.store(ps, acc, [0, 0])
        pl.system.set_cross_core(pipe=pl.PipeType.FIX, event_id=0)


def inputs():
    rng = np.random.default_rng(7)
    x = rng.uniform(-1, 1, (M, K)).astype(np.float16)
    w = rng.uniform(-1, 1, (K, N)).astype(np.float16)
    return x, w, np.zeros((M, K), np.float16), np.zeros((M, N), np.float32), np.zeros((M, N), np.float32)


def golden(x, w, xs, ps, y):
    return (x * np.float16(2)).astype(np.float32) @ w.astype(np.float32) + 1


BROKEN, FIXED = broken, fixed


def main():
    args = inputs()
    FIXED[None, BLOCKS](*args)
    ok = np.allclose(args[-1], golden(*args), rtol=2e-3, atol=2e-3)
    print("PASS deadlock_mutual (fixed twin)" if ok else "FAIL deadlock_mutual (fixed twin)")
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
