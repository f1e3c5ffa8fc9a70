"""b10: two loads raise the same flag before anybody has taken it down.
Mistake: both MTE2 -> V pairs use event 0, and nothing orders the first wait before the second set.
Twin: the second pair uses event 1."""
import sys

import numpy as np

import pypto_pro.language as pl

EXPECT = {"kind": "set_of_set_flag", "lines": ["A", "B"], "may_name": ["C", "D"]}
R, C = 16, 64
BLOCKS = 1


@pl.jit(auto_mutex=False)
def broken(
    x: pl.Tensor[[R, C], pl.DT_FP32],
    y: pl.Tensor[[R, C], pl.DT_FP32],
    z: pl.Tensor[[R, C], pl.DT_FP32],
):
    with pl.section_vector():
        tile_type = pl.TileType(shape=[R, C], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec)
        t0 = pl.make_tile(tile_type, addr=0x0000)
        t1 = pl.make_tile(tile_type, addr=0x1000)
        pl.load(t0, x, [0, 0])
        pl.system.sync_src(set_pipe=pl.PipeType.MTE2, wait_pipe=pl.PipeType.V, event_id=0)  # <- A
        pl.load(t1, y, [0, 0])
        pl.system.sync_src(set_pipe=pl.PipeType.MTE2, wait_pipe=pl.PipeType.V, event_id=0)  # <- B
        pl.system.sync_dst(set_pipe=pl.PipeType.MTE2, wait_pipe=pl.PipeType.V, event_id=0)
        pl.mul(t0, t0, 2.0)
        pl.system.sync_dst(set_pipe=pl.PipeType.MTE2, wait_pipe=pl.PipeType.V, event_id=0)  # <- C
        pl.add(t0, t0, t1)  # <- D
        pl.system.sync_src(set_pipe=pl.PipeType.V, wait_pipe=pl.PipeType.MTE3, event_id=0)
        pl.system.sync_dst(set_pipe=pl.PipeType.V, wait_pipe=pl.PipeType.MTE3, event_id=0)
        pl.store(z, t0, [0, 0])


@pl.jit(auto_mutex=False)
def fixed(
    x: pl.Tensor[[R, C], pl.DT_FP32],
    y: pl.Tensor[[R, C], pl.DT_FP32],
    z: pl.Tensor[[R, C], pl.DT_FP32],
):
    with pl.section_vector():
        tile_type = pl.TileType(shape=[R, C], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec)
        t0 = pl.make_tile(tile_type, addr=0x0000)
        t1 = pl.make_tile(tile_type, addr=0x1000)
        pl.load(t0, x, [0, 0])
        pl.system.sync_src(set_pipe=pl.PipeType.MTE2, wait_pipe=pl.PipeType.V, event_id=0)
        pl.load(t1, y, [0, 0])
        pl.system.sync_src(set_pipe=pl.PipeType.MTE2, wait_pipe=pl.PipeType.V, event_id=1)
        pl.system.sync_dst(set_pipe=pl.PipeType.MTE2, wait_pipe=pl.PipeType.V, event_id=0)
        pl.mul(t0, t0, 2.0)
        pl.system.sync_dst(set_pipe=pl.PipeType.MTE2, wait_pipe=pl.PipeType.V, event_id=1)
        pl.add(t0, t0, t1)
        pl.system.sync_src(set_pipe=pl.PipeType.V, wait_pipe=pl.PipeType.MTE3, event_id=0)
        pl.system.sync_dst(set_pipe=pl.PipeType.V, wait_pipe=pl.PipeType.MTE3, event_id=0)
        pl.store(z, t0, [0, 0])


def inputs():
    rng = np.random.default_rng(10)
    x = rng.standard_normal((R, C), dtype=np.float32)
    y = rng.standard_normal((R, C), dtype=np.float32)
    return x, y, np.zeros_like(x)


def golden(x, y, z):
    return x * 2 + y


BROKEN, FIXED = broken, fixed


def main():
    args = inputs()
    FIXED[None, BLOCKS](*args)
    ok = np.array_equal(args[-1], golden(*args))
    print("PASS set_of_set_flag (fixed twin)" if ok else "FAIL set_of_set_flag (fixed twin)")
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
