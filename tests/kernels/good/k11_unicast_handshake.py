"""k11: AIV1 alone feeds the matrix core and gets the product back; AIV0 stays idle.
Exercises UNICAST_BLOCK both ways with run-time ids and +16 on the matrix side, SingleModeVec1, a guarded section.
Tolerance: rtol 2e-3, atol 2e-3."""
import sys

import numpy as np

import pypto_pro.language as pl

TM, N, K = 16, 32, 48
TILES = 5
M = TILES * TM
BLOCKS = 2


@pl.jit(auto_mutex=True)
def aiv1_round_trip(
    x: pl.Tensor[[M, K], pl.DT_FP16],
    w: pl.Tensor[[K, N], pl.DT_FP16],
    y: pl.Tensor[[M, N], pl.DT_FP32],
):
    blk = pl.get_block_idx() // pl.get_subblock_num()
    blocks = pl.get_block_num()
    feed = pl.make_tile_group(
        type=pl.TileType(shape=[TM, K], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Mat),
        addrs=0x4000, mutex_ids=[20],
    )
    back = pl.make_tile_group(
        type=pl.TileType(shape=[TM, N], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec),
        addrs=0x4000, mutex_ids=[21],
    )
    with pl.section_vector():
        plain = pl.make_tile_group(
            type=pl.TileType(shape=[TM, K], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Vec),
            addrs=0x0000, mutex_ids=[0, 1],
        )
        blocked = pl.make_tile_group(
            type=pl.TileType(shape=[TM, K], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Vec, layout=pl.NZ),
            addrs=0x1000, mutex_ids=[2],
        )
        outs = pl.make_tile_group(
            type=pl.TileType(shape=[TM, N], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec),
            addrs=0x2000, mutex_ids=[3, 4],
        )
        if pl.get_subblock_idx() == 1:
            turn = 0
            for t in pl.range(blk, TILES, blocks):
                lane = turn % 2
                xt = plain.next()
                nz = blocked.current()
                out = outs.next()
                mat = feed.current()
                got = back.current()
                pl.load(xt, x, [t * TM, 0])
                pl.mul(xt, xt, 0.5)
                pl.move(nz, xt)
                pl.insert(mat, nz, [0, 0])
                pl.system.set_cross_core(
                    pipe=pl.PipeType.MTE3, event_id=lane, sync_mode=pl.CrossCoreSyncMode.UNICAST_BLOCK
                )
                pl.system.wait_cross_core(
                    pipe=pl.PipeType.V, event_id=lane, sync_mode=pl.CrossCoreSyncMode.UNICAST_BLOCK
                )
                pl.add(out, got, 1.0)
                pl.store(y, out, [t * TM, 0])
                turn = turn + 1
    with pl.section_cube():
        w_l1 = pl.make_tile_group(
            type=pl.TileType(shape=[K, N], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Mat),
            addrs=0x0000, mutex_ids=[0],
        )
        lefts = pl.make_tile_group(
            type=pl.TileType(shape=[TM, K], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Left),
            addrs=0x0000, mutex_ids=[1],
        )
        rights = pl.make_tile_group(
            type=pl.TileType(shape=[K, N], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Right),
            addrs=0x0000, mutex_ids=[2],
        )
        accs = pl.make_tile_group(
            type=pl.TileType(shape=[TM, N], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Acc),
            addrs=0x0000, mutex_ids=[3],
        )
        right_l1 = w_l1.current()
        right = rights.current()
        pl.load(right_l1, w, [0, 0])
        pl.move(right, right_l1)
        turn = 0
        for t in pl.range(blk, TILES, blocks):
            lane = turn % 2 + 16  # AIV1 as seen from the matrix core
            mat = feed.current()
            left = lefts.current()
            acc = accs.current()
            dst = back.current()
            pl.system.wait_cross_core(
                pipe=pl.PipeType.MTE1, event_id=lane, sync_mode=pl.CrossCoreSyncMode.UNICAST_BLOCK
            )
            pl.move(left, mat)
            pl.matmul(acc, left, right)
            pl.move(dst, acc, acc_to_vec_mode=pl.AccToVecMode.SingleModeVec1)
            pl.system.set_cross_core(
                pipe=pl.PipeType.FIX, event_id=lane, sync_mode=pl.CrossCoreSyncMode.UNICAST_BLOCK
            )
            turn = turn + 1


def inputs():
    rng = np.random.default_rng(1111)
    x = rng.uniform(-2, 2, (M, K)).astype(np.float16)
    w = rng.uniform(-1, 1, (K, N)).astype(np.float16)
    return x, w


def golden(x, w):
    return (x * np.float16(0.5)).astype(np.float32) @ w.astype(np.float32) + np.float32(1.0)


def main():
    x, w = inputs()
    y = np.full((M, N), np.nan, dtype=np.float32)
    aiv1_round_trip[None, BLOCKS](x, w, y)
    ok = np.allclose(y, golden(x, w), rtol=2e-3, atol=2e-3)
    print("PASS unicast_handshake" if ok else "FAIL unicast_handshake")
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
