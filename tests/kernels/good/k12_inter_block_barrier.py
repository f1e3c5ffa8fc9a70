"""k12: column standardisation over 4 blocks: partial sums to GM, barrier, everybody reads them all; done twice.
Exercises INTER_BLOCK among vector cores (two ids, set MTE3, wait MTE2), sum dim=1, expand_sub/expand_mul dim=1.
Tolerance: rtol 1e-4, atol 1e-4."""
import sys

import numpy as np

import pypto_pro.language as pl

BLOCKS = 4
R, N = 12, 80
ROWS = BLOCKS * R
INV_ROWS = 1.0 / ROWS
EPS = 1e-4
MEAN_READY, VAR_READY = 0, 1


def solo(tile_type, addr, mutex_id):
    group = pl.make_tile_group(type=tile_type, addrs=addr, mutex_ids=[mutex_id])
    return group.current()


@pl.jit(auto_mutex=True)
def standardise(
    x: pl.Tensor[[ROWS, N], pl.DT_FP32],
    ws: pl.Tensor[[2 * BLOCKS, N], pl.DT_FP32],
    y: pl.Tensor[[ROWS, N], pl.DT_FP32],
):
    slab = pl.TileType(shape=[R, N], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec)
    parts = pl.TileType(shape=[BLOCKS, N], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec)
    line = pl.TileType(shape=[1, N], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec)
    with pl.section_vector():
        xt = solo(slab, 0x0000, 0)
        sq = solo(slab, 0x1000, 1)
        tmp = solo(slab, 0x2000, 2)
        all_parts = solo(parts, 0x3000, 3)
        mine = solo(line, 0x4000, 4)
        total = solo(line, 0x4800, 5)
        tmp_parts = solo(parts, 0x5000, 6)
        b = pl.get_block_idx()
        pl.load(xt, x, [b * R, 0])

        pl.sum(mine, xt, tmp, dim=1)
        pl.store(ws, mine, [b, 0])
        pl.system.set_cross_core(
            pipe=pl.PipeType.MTE3, event_id=MEAN_READY, sync_mode=pl.CrossCoreSyncMode.INTER_BLOCK
        )
        pl.system.wait_cross_core(
            pipe=pl.PipeType.MTE2, event_id=MEAN_READY, sync_mode=pl.CrossCoreSyncMode.INTER_BLOCK
        )
        pl.load(all_parts, ws, [0, 0])
        pl.sum(total, all_parts, tmp_parts, dim=1)
        pl.mul(total, total, INV_ROWS)
        pl.expand_sub(xt, xt, total, dim=1)

        pl.mul(sq, xt, xt)
        pl.sum(mine, sq, tmp, dim=1)
        pl.store(ws, mine, [BLOCKS + b, 0])
        pl.system.set_cross_core(
            pipe=pl.PipeType.MTE3, event_id=VAR_READY, sync_mode=pl.CrossCoreSyncMode.INTER_BLOCK
        )
        pl.system.wait_cross_core(
            pipe=pl.PipeType.MTE2, event_id=VAR_READY, sync_mode=pl.CrossCoreSyncMode.INTER_BLOCK
        )
        pl.load(all_parts, ws, [BLOCKS, 0])
        pl.sum(total, all_parts, tmp_parts, dim=1)
        pl.mul(total, total, INV_ROWS)
        pl.add(total, total, EPS)
        pl.rsqrt(total, total)
        pl.expand_mul(xt, xt, total, dim=1)
        pl.store(y, xt, [b * R, 0])


def inputs():
    rng = np.random.default_rng(1212)
    return ((rng.standard_normal((ROWS, N)) * 3 + 1).astype(np.float32),)


def golden(x):
    f = x.astype(np.float64)
    c = f - f.mean(axis=0)
    return (c / np.sqrt((c * c).mean(axis=0) + EPS)).astype(np.float32)


def main():
    (x,) = inputs()
    ws = np.full((2 * BLOCKS, N), np.nan, dtype=np.float32)
    y = np.full_like(x, np.nan)
    standardise[None, BLOCKS](x, ws, y)
    ok = np.allclose(y, golden(x), rtol=1e-4, atol=1e-4)
    print("PASS inter_block_barrier" if ok else "FAIL inter_block_barrier")
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
