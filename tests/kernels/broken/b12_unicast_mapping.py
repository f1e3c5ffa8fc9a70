"""b12: AIV1 signals lane 3, the matrix core waits for lane 3, which belongs to AIV0.
Mistake: the matrix side of a UNICAST pair with AIV1 must use id + 16.
Twin: it waits for lane + 16 (a run-time value: constants above 15 are rejected)."""
import sys

import numpy as np

import pypto_pro.language as pl

EXPECT = {"kind": "unicast_mapping", "lines": ["A", "B"]}
M, N, K = 16, 16, 32
BLOCKS = 1


@pl.jit(auto_mutex=True)
def broken(
    x: pl.Tensor[[M, K], pl.DT_FP16],
    w: pl.Tensor[[K, N], pl.DT_FP16],
    lane: pl.DT_INT32,
    y: pl.Tensor[[M, N], pl.DT_FP32],
):
    mode = pl.CrossCoreSyncMode.UNICAST_BLOCK
    shared = pl.make_tile_group(
        type=pl.TileType(shape=[M, K], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Mat),
        addrs=0x4000, mutex_ids=[20],
    )
    with pl.section_vector():
        plain = pl.make_tile_group(
            type=pl.TileType(shape=[M, K], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Vec),
            addrs=0x0000, mutex_ids=[0],
        )
        blocked = pl.make_tile_group(
            type=pl.TileType(shape=[M, K], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Vec, layout=pl.NZ),
            addrs=0x1000, mutex_ids=[1],
        )
        if pl.get_subblock_idx() == 1:
            xt = plain.current()
            nz = blocked.current()
            mat = shared.current()
            pl.load(xt, x, [0, 0])
            pl.move(nz, xt)
            pl.insert(mat, nz, [0, 0])
            pl.system.set_cross_core(pipe=pl.PipeType.MTE3, event_id=lane, sync_mode=mode)  # <- A
    with pl.section_cube():
        w_l1 = pl.make_tile_group(
            type=pl.TileType(shape=[K, N], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Mat),
            addrs=0x0000, mutex_ids=[0],
        )
        lefts = pl.make_tile_group(
            type=pl.TileType(shape=[M, K], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Left),
            addrs=0x0000, mutex_ids=[1],
        )
        rights = pl.make_tile_group(
            type=pl.TileType(shape=[K, N], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Right),
            addrs=0x0000, mutex_ids=[2],
        )
        accs = pl.make_tile_group(
            type=pl.TileType(shape=[M, N], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Acc),
            addrs=0x0000, mutex_ids=[3],
        )
        w_mat = w_l1.current()
        left = lefts.current()
        right = rights.current()
        acc = accs.current()
        mat = shared.current()
        pl.load(w_mat, w, [0, 0])
        pl.move(right, w_mat)
        pl.system.wait_cross_core(pipe=pl.PipeType.MTE1, event_id=lane, sync_mode=mode)  # <- B
        pl.move(left, mat)
        pl.matmul(acc, left, right)
        pl.store(y, acc, [0, 0])


@pl.jit(auto_mutex=True)
def fixed(
    x: pl.Tensor[[M, K], pl.DT_FP16],
    w: pl.Tensor[[K, N], pl.DT_FP16],
    lane: pl.DT_INT32,
    y: pl.Tensor[[M, N], pl.DT_FP32],
):
    mode = pl.CrossCoreSyncMode.UNICAST_BLOCK
    shared = pl.make_tile_group(
        type=pl.TileType(shape=[M, K], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Mat),
        addrs=0x4000, mutex_ids=[20],
    )
    with pl.section_vector():
        plain = pl.make_tile_group(
            type=pl.TileType(shape=[M, K], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Vec),
            addrs=0x0000, mutex_ids=[0],
        )
        blocked = pl.make_tile_group(
            type=pl.TileType(shape=[M, K], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Vec, layout=pl.NZ),
            addrs=0x1000, mutex_ids=[1],
        )
        if pl.get_subblock_idx() == 1:
            xt = plain.current()
            nz = blocked.current()
            mat = shared.current()
            pl.load(xt, x, [0, 0])
            pl.move(nz, xt)
            pl.insert(mat, nz, [0, 0])
            pl.system.set_cross_core(pipe=pl.PipeType.MTE3, event_id=lane, sync_mode=mode)
    with pl.section_cube():
        w_l1 = pl.make_tile_group(
            type=pl.TileType(shape=[K, N], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Mat),
            addrs=0x0000, mutex_ids=[0],
        )
        lefts = pl.make_tile_group(
            type=pl.TileType(shape=[M, K], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Left),
            addrs=0x0000, mutex_ids=[1],
        )
        rights = pl.make_tile_group(
            type=pl.TileType(shape=[K, N], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Right),
            addrs=0x0000, mutex_ids=[2],
        )
        accs = pl.make_tile_group(
            type=pl.TileType(shape=[M, N], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Acc),
            addrs=0x0000, mutex_ids=[3],
        )
        w_mat = w_l1.current()
        left = lefts.current()
        right = rights.current()
        acc = accs.current()
        mat = shared.current()
        pl.load(w_mat, w, [0, 0])
        pl.move(right, w_mat)
        pl.system.wait_cross_core(pipe=pl.PipeType.MTE1, event_id=lane + 16, sync_mode=mode)
        pl.move(left, mat)
        pl.matmul(acc, left, right)
        pl.store(y, acc, [0, 0])


def inputs():
    rng = np.random.default_rng(12)
    x = rng.uniform(-1, 1, (M, K)).astype(np.float16)
    w = rng.uniform(-1, 1, (K, N)).astype(np.float16)
    return x, w, 3, np.zeros((M, N), np.float32)


def golden(x, w, lane, y):
    return x.astype(np.float32) @ w.astype(np.float32)


BROKEN, FIXED = broken, fixed


def main():
    args = inputs()
    FIXED[None, BLOCKS](*args)
    ok = np.allclose(args[-1], golden(*args), rtol=2e-3, atol=2e-3)
    print("PASS unicast_mapping (fixed twin)" if ok else "FAIL unicast_mapping (fixed twin)")
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
