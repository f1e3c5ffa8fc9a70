"""k10: C = fp16(X + Y) @ R: each vector core inserts its half into one L1 tile, the matrix core multiplies.
Exercises Vec ND -> NZ move, insert at row offsets, INTRA_BLOCK MTE3 -> MTE1 and back, a row tail AIV1 gets only partly.
Tolerance: rtol 2e-3, atol 2e-3."""
import sys

import numpy as np

import pypto_pro.language as pl

M, N, K = 88, 32, 64
TM = 32
HALF = TM // 2
TILES = (M + TM - 1) // TM
BLOCKS = 2
FILLED, EMPTIED = 2, 3


@pl.jit(auto_mutex=True)
def sum_times(
    x: pl.Tensor[[M, K], pl.DT_FP32],
    y: pl.Tensor[[M, K], pl.DT_FP32],
    r: pl.Tensor[[K, N], pl.DT_FP16],
    c: pl.Tensor[[M, N], pl.DT_FP32],
):
    blk = pl.get_block_idx() // pl.get_subblock_num()
    blocks = pl.get_block_num()
    shared = pl.make_tile_group(
        type=pl.TileType(
            shape=[TM, K], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Mat, valid_shape=[-1, -1], compact=1
        ),
        addrs=0x8000, mutex_ids=[20],
    )
    with pl.section_vector():
        wide = pl.TileType(shape=[HALF, K], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec, valid_shape=[-1, -1])
        xs = pl.make_tile_group(type=wide, addrs=0x0000, mutex_ids=[0, 1])
        ys = pl.make_tile_group(type=wide, addrs=0x2000, mutex_ids=[2, 3])
        halves = pl.make_tile_group(
            type=pl.TileType(shape=[HALF, K], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Vec, valid_shape=[-1, -1]),
            addrs=0x4000, mutex_ids=[4],
        )
        blocked = pl.make_tile_group(
            type=pl.TileType(
                shape=[HALF, K], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Vec, layout=pl.NZ, valid_shape=[-1, -1]
            ),
            addrs=0x5000, mutex_ids=[5, 6],
        )
        sub = pl.get_subblock_idx()
        mat = shared.current()
        for t in pl.range(blk, TILES, blocks):
            row0 = t * TM + sub * HALF
            rows = pl.min(HALF, M - row0)  # at least 8 here
            xt = xs.next()
            yt = ys.next()
            ht = halves.current()
            nz = blocked.next()
            pl.set_validshape(xt, [rows, K])
            pl.set_validshape(yt, [rows, K])
            pl.set_validshape(ht, [rows, K])
            pl.set_validshape(nz, [rows, K])
            pl.load(xt, x, [row0, 0])
            pl.load(yt, y, [row0, 0])
            pl.add(xt, xt, yt)
            pl.cast(ht, xt, mode=pl.RoundMode.CAST_RINT)
            pl.move(nz, ht)
            pl.system.wait_cross_core(pipe=pl.PipeType.MTE3, event_id=EMPTIED)
            pl.insert(mat, nz, [sub * HALF, 0])
            pl.system.set_cross_core(pipe=pl.PipeType.MTE3, event_id=FILLED)
        pl.system.wait_cross_core(pipe=pl.PipeType.MTE3, event_id=EMPTIED)
    with pl.section_cube():
        r_l1 = pl.make_tile_group(
            type=pl.TileType(shape=[K, N], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Mat),
            addrs=0x0000, mutex_ids=[0],
        )
        lefts = pl.make_tile_group(
            type=pl.TileType(
                shape=[TM, K], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Left, valid_shape=[-1, -1], compact=1
            ),
            addrs=0x0000, mutex_ids=[1, 2],
        )
        r_l0 = pl.make_tile_group(
            type=pl.TileType(shape=[K, N], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Right),
            addrs=0x0000, mutex_ids=[3],
        )
        accs = pl.make_tile_group(
            type=pl.TileType(
                shape=[TM, N], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Acc, valid_shape=[-1, -1], compact=1
            ),
            addrs=0x0000, mutex_ids=[4, 5],
        )
        mat = shared.current()
        right_l1 = r_l1.current()
        right = r_l0.current()
        pl.load(right_l1, r, [0, 0])
        pl.move(right, right_l1)
        pl.system.set_cross_core(pipe=pl.PipeType.MTE1, event_id=EMPTIED)
        for t in pl.range(blk, TILES, blocks):
            mv = pl.min(TM, M - t * TM)
            left = lefts.next()
            acc = accs.next()
            pl.set_validshape(mat, [mv, K])
            pl.set_validshape(left, [mv, K])
            pl.set_validshape(acc, [mv, N])
            pl.system.wait_cross_core(pipe=pl.PipeType.MTE1, event_id=FILLED)
            pl.move(left, mat)
            pl.system.set_cross_core(pipe=pl.PipeType.MTE1, event_id=EMPTIED)
            pl.matmul(acc, left, right)
            pl.store(c, acc, [t * TM, 0])


def inputs():
    rng = np.random.default_rng(1010)
    x = rng.uniform(-1, 1, (M, K)).astype(np.float32)
    y = rng.uniform(-1, 1, (M, K)).astype(np.float32)
    r = rng.uniform(-1, 1, (K, N)).astype(np.float16)
    return x, y, r


def golden(x, y, r):
    return (x + y).astype(np.float16).astype(np.float32) @ r.astype(np.float32)


def main():
    x, y, r = inputs()
    c = np.full((M, N), np.nan, dtype=np.float32)
    sum_times[None, BLOCKS](x, y, r, c)
    ok = np.allclose(c, golden(x, y, r), rtol=2e-3, atol=2e-3)
    print("PASS mixed_insert_matmul" if ok else "FAIL mixed_insert_matmul")
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
