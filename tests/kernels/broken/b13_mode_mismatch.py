"""b13: the matrix core signals its block, the vector cores wait for an all-blocks rendezvous on the same id.
Mistake: set_cross_core uses INTRA_BLOCK, wait_cross_core uses INTER_BLOCK.
Twin: both use INTRA_BLOCK."""
import sys

import numpy as np

import pypto_pro.language as pl

EXPECT = {"kind": "mode_mismatch", "lines": ["A", "B"]}
M, N, K = 32, 16, 32
BLOCKS = 1


@pl.jit(auto_mutex=True)
def broken(
    x: pl.Tensor[[M, K], pl.DT_FP16],
    w: pl.Tensor[[K, N], pl.DT_FP16],
    ws: pl.Tensor[[M, N], pl.DT_FP32],
    y: pl.Tensor[[M, N], pl.DT_FP32],
):
    with pl.section_cube():
        x_l1 = pl.make_tile_group(
            type=pl.TileType(shape=[M, K], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Mat),
            addrs=0x0000, mutex_ids=[0],
        )
        w_l1 = pl.make_tile_group(
            type=pl.TileType(shape=[K, N], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Mat),
            addrs=0x2000, mutex_ids=[1],
        )
        lefts = pl.make_tile_group(
            type=pl.TileType(shape=[M, K], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Left),
            addrs=0x0000, mutex_ids=[2],
        )
        rights = pl.make_tile_group(
            type=pl.TileType(shape=[K, N], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Right),
            addrs=0x0000, mutex_ids=[3],
        )
        accs = pl.make_tile_group(
            type=pl.TileType(shape=[M, N], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Acc),
            addrs=0x0000, mutex_ids=[4],
        )
        x_mat = x_l1.current()
        w_mat = w_l1.current()
        left = lefts.current()
        right = rights.current()
        acc = accs.current()
        pl.load(x_mat, x, [0, 0])
        pl.load(w_mat, w, [0, 0])
        pl.move(left, x_mat)
        pl.move(right, w_mat)
        pl.matmul(acc, left, right)
        pl.store(ws, acc, [0, 0])
        pl.system.set_cross_core(pipe=pl.PipeType.FIX, event_id=5, sync_mode=pl.CrossCoreSyncMode.INTRA_BLOCK)  # <- A
    with pl.section_vector():
        tiles = pl.make_tile_group(
            type=pl.TileType(shape=[M // 2, N], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec),
            addrs=0x0000, mutex_ids=[0],
        )
        t = tiles.current()
        row = pl.get_subblock_idx() * (M // 2)
        pl.system.wait_cross_core(pipe=pl.PipeType.MTE2, event_id=5, sync_mode=pl.CrossCoreSyncMode.INTER_BLOCK)  # <- B
        pl.load(t, ws, [row, 0])
        pl.mul(t, t, 2.0)
        pl.store(y, t, [row, 0])


@pl.jit(auto_mutex=True)
def fixed(
    x: pl.Tensor[[M, K], pl.DT_FP16],
    w: pl.Tensor[[K, N], pl.DT_FP16],
    ws: pl.Tensor[[M, N], pl.DT_FP32],
    y: pl.Tensor[[M, N], pl.DT_FP32],
):
    with pl.section_cube():
        x_l1 = pl.make_tile_group(
            type=pl.TileType(shape=[M, K], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Mat),
            addrs=0x0000, mutex_ids=[0],
        )
        w_l1 = pl.make_tile_group(
            type=pl.TileType(shape=[K, N], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Mat),
            addrs=0x2000, mutex_ids=[1],
        )
        lefts = pl.make_tile_group(
            type=pl.TileType(shape=[M, K], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Left),
            addrs=0x0000, mutex_ids=[2],
        )
        rights = pl.make_tile_group(
            type=pl.TileType(shape=[K, N], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Right),
            addrs=0x0000, mutex_ids=[3],
        )
        accs = pl.make_tile_group(
            type=pl.TileType(shape=[M, N], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Acc),
            addrs=0x0000, mutex_ids=[4],
        )
        x_mat = x_l1.current()
        w_mat = w_l1.current()
        left = lefts.current()
        right = rights.current()
        acc = accs.current()
        pl.load(x_mat, x, [0, 0])
        pl.load(w_mat, w, [0, 0])
        pl.move(left, x_mat)
        pl.move(right, w_mat)
        pl.matmul(acc, left, right)
        pl.store(ws, acc, [0, 0])
        pl.system.set_cross_core(pipe=pl.PipeType.FIX, event_id=5, sync_mode=pl.CrossCoreSyncMode.INTRA_BLOCK)
    with pl.section_vector():
        tiles = pl.make_tile_group(
            type=pl.TileType(shape=[M // 2, N], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec),
            addrs=0x0000, mutex_ids=[0],
        )
        t = tiles.current()
        row = pl.get_subblock_idx() * (M // 2)
        pl.system.wait_cross_core(pipe=pl.PipeType.MTE2, event_id=5, sync_mode=pl.CrossCoreSyncMode.INTRA_BLOCK)
        pl.load(t, ws, [row, 0])
        pl.mul(t, t, 2.0)
        pl.store(y, t, [row, 0])


def inputs():
    rng = np.random.default_rng(13)
    x = rng.uniform(-1, 1, (M, K)).astype(np.float16)
    w = rng.uniform(-1, 1, (K, N)).astype(np.float16)
    return x, w, np.zeros((M, N), np.float32), np.zeros((M, N), np.float32)


def golden(x, w, ws, y):
    return 2 * (x.astype(np.float32) @ w.astype(np.float32))


BROKEN, FIXED = broken, fixed


def main():
    args = inputs()
    FIXED[None, BLOCKS](*args)
    ok = np.allclose(args[-1], golden(*args), rtol=2e-3, atol=2e-3)
    print("PASS mode_mismatch (fixed twin)" if ok else "FAIL mode_mismatch (fixed twin)")
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
