"""b06: MTE3 waits for a flag that nobody sets.
Mistake: sync_dst without its sync_src.
Twin: the sync_src stands after the multiply."""
import sys

import numpy as np

import pypto_pro.language as pl

EXPECT = {"kind": "deadlock", "lines": ["A"]}
R, C = 16, 64
BLOCKS = 1


@pl.jit(auto_mutex=False)
def broken(x: pl.Tensor[[R, C], pl.DT_FP32], y: pl.Tensor[[R, C], pl.DT_FP32]):
    with pl.section_vector():
        tile_type = pl.TileType(shape=[R, C], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec)
        src = pl.make_tile(tile_type, addr=0x0000)
        dst = pl.make_tile(tile_type, addr=0x1000)
        pl.load(src, x, [0, 0])
        pl.system.sync_src(set_pipe=pl.PipeType.MTE2, wait_pipe=pl.PipeType.V, event_id=0)
        pl.system.sync_dst(set_pipe=pl.PipeType.MTE2, wait_pipe=pl.PipeType.V, event_id=0)
        pl.mul(dst, src, 2.0)
        pl.system.sync_dst(set_pipe=pl.PipeType.V, wait_pipe=pl.PipeType.MTE3, event_id=0)  # <- A
        pl.store(y, dst, [0, 0])


@pl.jit(auto_mutex=False)
def fixed(x: pl.Tensor[[R, C], pl.DT_FP32], y: pl.Tensor[[R, C], pl.DT_FP32]):
    with pl.section_vector():
        tile_type = pl.TileType(shape=[R, C], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec)
        src = pl.make_tile(tile_type, addr=0x0000)
        dst = pl.make_tile(tile_type, addr=0x1000)
        pl.load(src, x, [0, 0])
        pl.system.sync_src(set_pipe=pl.PipeType.MTE2, wait_pipe=pl.PipeType.V, event_id=0)
        pl.system.sync_dst(set_pipe=pl.PipeType.MTE2, wait_pipe=pl.PipeType.V, event_id=0)
        pl.mul(dst, src, 2.0)
        pl.system.sync_src(set_pipe=pl.PipeType.V, wait_pipe=pl.PipeType.MTE3, event_id=0)
        pl.system.sync_dst(set_pipe=pl.PipeType.V, wait_pipe=pl.PipeType.MTE3, event_id=0)
        pl.store(y, dst, [0, 0])


def inputs():
    x = np.random.default_rng(6).standard_normal((R, C), dtype=np.float32)
    return x, np.zeros_like(x)


def golden(x, y):
    return x * 2


BROKEN, FIXED = broken, fixed


def main():
    args = inputs()
    FIXED[None, BLOCKS](*args)
    ok = np.array_equal(args[-1], golden(*args))
    print("PASS deadlock_no_set (fixed twin)" if ok else "FAIL deadlock_no_set (fixed twin)")
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
