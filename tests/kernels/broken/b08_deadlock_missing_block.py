"""b08: the last block has no rows and skips the barrier the other blocks wait in.
Mistake: INTER_BLOCK set and wait stand inside the `if` that guards the work.
Twin: only the work is guarded, every block arrives and waits."""
import sys

import numpy as np

import pypto_pro.language as pl

EXPECT = {"kind": "deadlock", "lines": ["A"], "may_name": ["B"]}
TR, C = 16, 32
BLOCKS = 3
ROWS = 2 * TR  # block 2 has nothing to do


@pl.jit(auto_mutex=True)
def broken(
    x: pl.Tensor[[ROWS, C], pl.DT_FP32],
    ws: pl.Tensor[[BLOCKS, C], pl.DT_FP32],
    y: pl.Tensor[[ROWS, C], pl.DT_FP32],
):
    with pl.section_vector():
        slab = pl.TileType(shape=[TR, C], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec)
        xs = pl.make_tile_group(type=slab, addrs=0x0000, mutex_ids=[0])
        tmps = pl.make_tile_group(type=slab, addrs=0x1000, mutex_ids=[1])
        lines = pl.make_tile_group(
            type=pl.TileType(shape=[1, C], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec),
            addrs=0x2000, mutex_ids=[2],
        )
        alls = pl.make_tile_group(
            type=pl.TileType(shape=[BLOCKS, C], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec),
            addrs=[0x3000, 0x3400], mutex_ids=[3, 4],
        )
        xt = xs.current()
        tmp = tmps.current()
        line = lines.current()
        parts = alls[0]
        tmp_parts = alls[1]
        b = pl.get_block_idx()
        everyone = pl.CrossCoreSyncMode.INTER_BLOCK
        if b * TR < ROWS:
            pl.load(xt, x, [b * TR, 0])
            pl.sum(line, xt, tmp, dim=1)
            pl.store(ws, line, [b, 0])
            pl.system.set_cross_core(pipe=pl.PipeType.MTE3, event_id=0, sync_mode=everyone)  # <- B
            pl.system.wait_cross_core(pipe=pl.PipeType.MTE2, event_id=0, sync_mode=everyone)  # <- A
            pl.load(parts, ws, [0, 0])
            pl.sum(line, parts, tmp_parts, dim=1)
            pl.expand_sub(xt, xt, line, dim=1)
            pl.store(y, xt, [b * TR, 0])


@pl.jit(auto_mutex=True)
def fixed(
    x: pl.Tensor[[ROWS, C], pl.DT_FP32],
    ws: pl.Tensor[[BLOCKS, C], pl.DT_FP32],
    y: pl.Tensor[[ROWS, C], pl.DT_FP32],
):
    with pl.section_vector():
        slab = pl.TileType(shape=[TR, C], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec)
        xs = pl.make_tile_group(type=slab, addrs=0x0000, mutex_ids=[0])
        tmps = pl.make_tile_group(type=slab, addrs=0x1000, mutex_ids=[1])
        lines = pl.make_tile_group(
            type=pl.TileType(shape=[1, C], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec),
            addrs=0x2000, mutex_ids=[2],
        )
        alls = pl.make_tile_group(
            type=pl.TileType(shape=[BLOCKS, C], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec),
            addrs=[0x3000, 0x3400], mutex_ids=[3, 4],
        )
        xt = xs.current()
        tmp = tmps.current()
        line = lines.current()
        parts = alls[0]
        tmp_parts = alls[1]
        b = pl.get_block_idx()
        everyone = pl.CrossCoreSyncMode.INTER_BLOCK
        if b * TR < ROWS:
            pl.load(xt, x, [b * TR, 0])
            pl.sum(line, xt, tmp, dim=1)
            pl.store(ws, line, [b, 0])
        pl.system.set_cross_core(pipe=pl.PipeType.MTE3, event_id=0, sync_mode=everyone)
        pl.system.wait_cross_core(pipe=pl.PipeType.MTE2, event_id=0, sync_mode=everyone)
        if b * TR < ROWS:
            pl.load(parts, ws, [0, 0])
            pl.sum(line, parts, tmp_parts, dim=1)
            pl.expand_sub(xt, xt, line, dim=1)
            pl.store(y, xt, [b * TR, 0])


def inputs():
    x = np.random.default_rng(8).standard_normal((ROWS, C), dtype=np.float32)
    return x, np.zeros((BLOCKS, C), np.float32), np.zeros_like(x)


def golden(x, ws, y):
    return x - x.sum(axis=0)


BROKEN, FIXED = broken, fixed


def main():
    args = inputs()
    FIXED[None, BLOCKS](*args)
    ok = np.allclose(args[-1], golden(*args), rtol=1e-4, atol=1e-4)
    print("PASS deadlock_missing_block (fixed twin)" if ok else "FAIL deadlock_missing_block (fixed twin)")
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
