"""k09: softmax(A @ B) per row: scores go through a two-slot GM workspace to the two vector cores.
Exercises INTRA_BLOCK through GM with a counted backward signal (primed and drained twice); AIV1 has no tail rows.
Tolerance: rtol 1e-3, atol 1e-5."""
import sys

import numpy as np

import pypto_pro.language as pl

M, N, K = 104, 48, 32
TM = 32
HALF = TM // 2
TILES = (M + TM - 1) // TM
BLOCKS = 2
SCORES, FREE = 0, 1


@pl.jit(auto_mutex=True)
def softmax_of_product(
    a: pl.Tensor[[M, K], pl.DT_FP16],
    b: pl.Tensor[[K, N], pl.DT_FP16],
    ws: pl.Tensor[[BLOCKS * 2 * TM, N], pl.DT_FP32],
    y: pl.Tensor[[M, N], pl.DT_FP32],
):
    blk = pl.get_block_idx() // pl.get_subblock_num()
    blocks = pl.get_block_num()
    with pl.section_cube():
        a_l1 = pl.make_tile_group(
            type=pl.TileType(
                shape=[TM, K], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Mat, valid_shape=[-1, -1], compact=1
            ),
            addrs=0x0000, mutex_ids=[0, 1],
        )
        b_l1 = pl.make_tile_group(
            type=pl.TileType(shape=[K, N], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Mat),
            addrs=0x2000, mutex_ids=[2],
        )
        a_l0 = pl.make_tile_group(
            type=pl.TileType(
                shape=[TM, K], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Left, valid_shape=[-1, -1], compact=1
            ),
            addrs=0x0000, mutex_ids=[3, 4],
        )
        b_l0 = pl.make_tile_group(
            type=pl.TileType(shape=[K, N], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Right),
            addrs=0x0000, mutex_ids=[5],
        )
        accs = pl.make_tile_group(
            type=pl.TileType(
                shape=[TM, N], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Acc, valid_shape=[-1, -1], compact=1
            ),
            addrs=0x0000, mutex_ids=[6, 7],
        )
        right_l1 = b_l1.current()
        right = b_l0.current()
        pl.load(right_l1, b, [0, 0])
        pl.move(right, right_l1)
        turn = 0
        for t in pl.range(blk, TILES, blocks):
            mv = pl.min(TM, M - t * TM)
            left_l1 = a_l1.next()
            left = a_l0.next()
            acc = accs.next()
            pl.set_validshape(left_l1, [mv, K])
            pl.set_validshape(left, [mv, K])
            pl.set_validshape(acc, [mv, N])
            pl.load(left_l1, a, [t * TM, 0])
            pl.move(left, left_l1)
            pl.matmul(acc, left, right)
            pl.system.wait_cross_core(pipe=pl.PipeType.FIX, event_id=FREE)
            pl.store(ws, acc, [(blk * 2 + turn % 2) * TM, 0])
            pl.system.set_cross_core(pipe=pl.PipeType.FIX, event_id=SCORES)
            turn = turn + 1
        pl.system.wait_cross_core(pipe=pl.PipeType.FIX, event_id=FREE)
        pl.system.wait_cross_core(pipe=pl.PipeType.FIX, event_id=FREE)
    with pl.section_vector():
        rowmat = pl.TileType(shape=[HALF, N], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec, valid_shape=[-1, -1])
        ins = pl.make_tile_group(type=rowmat, addrs=0x0000, mutex_ids=[10, 11])
        outs = pl.make_tile_group(type=rowmat, addrs=0x2000, mutex_ids=[12, 13])
        tmps = pl.make_tile_group(type=rowmat, addrs=0x4000, mutex_ids=[14])
        reds = pl.make_tile_group(
            type=pl.TileType(
                shape=[HALF, 1], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec, layout=pl.DN, valid_shape=[-1, -1]
            ),
            addrs=0x6000, mutex_ids=[15],
        )
        sub = pl.get_subblock_idx()
        tmp = tmps.current()
        red = reds.current()
        pl.system.set_cross_core(pipe=pl.PipeType.MTE2, event_id=FREE)
        pl.system.set_cross_core(pipe=pl.PipeType.MTE2, event_id=FREE)
        turn = 0
        for t in pl.range(blk, TILES, blocks):
            rows = pl.max(0, pl.min(HALF, M - t * TM - sub * HALF))
            st = ins.next()
            yt = outs.next()
            pl.system.wait_cross_core(pipe=pl.PipeType.MTE2, event_id=SCORES)
            if rows > 0:
                pl.set_validshape(st, [rows, N])
                pl.load(st, ws, [(blk * 2 + turn % 2) * TM + sub * HALF, 0])
            pl.system.set_cross_core(pipe=pl.PipeType.MTE2, event_id=FREE)
            if rows > 0:
                pl.set_validshape(yt, [rows, N])
                pl.set_validshape(tmp, [rows, N])
                pl.set_validshape(red, [rows, 1])
                pl.maximum(red, st, tmp, dim=0)
                pl.expand_sub(yt, st, red, dim=0)
                pl.exp(yt, yt)
                pl.sum(red, yt, tmp, dim=0)
                pl.expand_div(yt, yt, red, dim=0)
                pl.store(y, yt, [t * TM + sub * HALF, 0])
            turn = turn + 1


def inputs():
    rng = np.random.default_rng(909)
    a = rng.uniform(-1, 1, (M, K)).astype(np.float16)
    b = rng.uniform(-1, 1, (K, N)).astype(np.float16)
    return a, b


def golden(a, b):
    s = a.astype(np.float64) @ b.astype(np.float64)
    e = np.exp(s - s.max(axis=1, keepdims=True))
    return (e / e.sum(axis=1, keepdims=True)).astype(np.float32)


def main():
    a, b = inputs()
    ws = np.zeros((BLOCKS * 2 * TM, N), dtype=np.float32)
    y = np.full((M, N), np.nan, dtype=np.float32)
    softmax_of_product[None, BLOCKS](a, b, ws, y)
    ok = np.allclose(y, golden(a, b), rtol=1e-3, atol=1e-5)
    print("PASS mixed_workspace_softmax" if ok else "FAIL mixed_workspace_softmax")
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
