"""b03: double buffering; round t + 2 may load over a slot that round t is still multiplying.
Mistake: no backward pair V -> MTE2 for the input slots (forward flags use one id a round, output slots are guarded).
Twin: the pair is primed before, used in and drained after the loop."""
import sys

import numpy as np

import pypto_pro.language as pl

EXPECT = {"kind": "race", "lines": ["A", "B"]}
TR, C = 16, 64
TILES = 6
ROWS = TILES * TR
SLOT = TR * C * 4
BLOCKS = 1


@pl.jit(auto_mutex=False)
def broken(x: pl.Tensor[[ROWS, C], pl.DT_FP32], y: pl.Tensor[[ROWS, C], pl.DT_FP32]):
    with pl.section_vector():
        tile_type = pl.TileType(shape=[TR, C], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec)
        in0 = pl.make_tile(tile_type, addr=0 * SLOT)
        in1 = pl.make_tile(tile_type, addr=1 * SLOT)
        out0 = pl.make_tile(tile_type, addr=2 * SLOT)
        out1 = pl.make_tile(tile_type, addr=3 * SLOT)
        ins = (in0, in1)
        outs = (out0, out1)
        pl.system.sync_src(set_pipe=pl.PipeType.MTE3, wait_pipe=pl.PipeType.V, event_id=0)
        pl.system.sync_src(set_pipe=pl.PipeType.MTE3, wait_pipe=pl.PipeType.V, event_id=1)
        for t in pl.range(0, TILES):
            s = t % 2
            src = ins[s]
            dst = outs[s]
            pl.load(src, x, [t * TR, 0])  # <- A
            pl.system.sync_src(set_pipe=pl.PipeType.MTE2, wait_pipe=pl.PipeType.V, event_id=t)
            pl.system.sync_dst(set_pipe=pl.PipeType.MTE2, wait_pipe=pl.PipeType.V, event_id=t)
            pl.system.sync_dst(set_pipe=pl.PipeType.MTE3, wait_pipe=pl.PipeType.V, event_id=s)
            pl.mul(dst, src, 2.0)  # <- B
            pl.system.sync_src(set_pipe=pl.PipeType.V, wait_pipe=pl.PipeType.MTE3, event_id=t)
            pl.system.sync_dst(set_pipe=pl.PipeType.V, wait_pipe=pl.PipeType.MTE3, event_id=t)
            pl.store(y, dst, [t * TR, 0])
            pl.system.sync_src(set_pipe=pl.PipeType.MTE3, wait_pipe=pl.PipeType.V, event_id=s)
        pl.system.sync_dst(set_pipe=pl.PipeType.MTE3, wait_pipe=pl.PipeType.V, event_id=0)
        pl.system.sync_dst(set_pipe=pl.PipeType.MTE3, wait_pipe=pl.PipeType.V, event_id=1)


@pl.jit(auto_mutex=False)
def fixed(x: pl.Tensor[[ROWS, C], pl.DT_FP32], y: pl.Tensor[[ROWS, C], pl.DT_FP32]):
    with pl.section_vector():
        tile_type = pl.TileType(shape=[TR, C], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec)
        in0 = pl.make_tile(tile_type, addr=0 * SLOT)
        in1 = pl.make_tile(tile_type, addr=1 * SLOT)
        out0 = pl.make_tile(tile_type, addr=2 * SLOT)
        out1 = pl.make_tile(tile_type, addr=3 * SLOT)
        ins = (in0, in1)
        outs = (out0, out1)
        pl.system.sync_src(set_pipe=pl.PipeType.MTE3, wait_pipe=pl.PipeType.V, event_id=0)
        pl.system.sync_src(set_pipe=pl.PipeType.MTE3, wait_pipe=pl.PipeType.V, event_id=1)
        pl.system.sync_src(set_pipe=pl.PipeType.V, wait_pipe=pl.PipeType.MTE2, event_id=0)
        pl.system.sync_src(set_pipe=pl.PipeType.V, wait_pipe=pl.PipeType.MTE2, event_id=1)
        for t in pl.range(0, TILES):
            s = t % 2
            src = ins[s]
            dst = outs[s]
            pl.system.sync_dst(set_pipe=pl.PipeType.V, wait_pipe=pl.PipeType.MTE2, event_id=s)
            pl.load(src, x, [t * TR, 0])
            pl.system.sync_src(set_pipe=pl.PipeType.MTE2, wait_pipe=pl.PipeType.V, event_id=t)
            pl.system.sync_dst(set_pipe=pl.PipeType.MTE2, wait_pipe=pl.PipeType.V, event_id=t)
            pl.system.sync_dst(set_pipe=pl.PipeType.MTE3, wait_pipe=pl.PipeType.V, event_id=s)
            pl.mul(dst, src, 2.0)
            pl.system.sync_src(set_pipe=pl.PipeType.V, wait_pipe=pl.PipeType.MTE2, event_id=s)
            pl.system.sync_src(set_pipe=pl.PipeType.V, wait_pipe=pl.PipeType.MTE3, event_id=t)
            pl.system.sync_dst(set_pipe=pl.PipeType.V, wait_pipe=pl.PipeType.MTE3, event_id=t)
            pl.store(y, dst, [t * TR, 0])
            pl.system.sync_src(set_pipe=pl.PipeType.MTE3, wait_pipe=pl.PipeType.V, event_id=s)
        pl.system.sync_dst(set_pipe=pl.PipeType.MTE3, wait_pipe=pl.PipeType.V, event_id=0)
        pl.system.sync_dst(set_pipe=pl.PipeType.MTE3, wait_pipe=pl.PipeType.V, event_id=1)
        pl.system.sync_dst(set_pipe=pl.PipeType.V, wait_pipe=pl.PipeType.MTE2, event_id=0)
        pl.system.sync_dst(set_pipe=pl.PipeType.V, wait_pipe=pl.PipeType.MTE2, event_id=1)


def inputs():
    x = np.random.default_rng(3).standard_normal((ROWS, C), dtype=np.float32)
    return x, np.zeros_like(x)


def golden(x, y):
    return x * 2


BROKEN, FIXED = broken, fixed


def main():
    args = inputs()
    FIXED[None, BLOCKS](*args)
    ok = np.array_equal(args[-1], golden(*args))
    print("PASS race_no_backward_sync (fixed twin)" if ok else "FAIL race_no_backward_sync (fixed twin)")
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
