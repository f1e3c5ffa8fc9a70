"""k03: out = x * y with hand-written flags and two buffers per operand, auto_mutex off.
Exercises make_tile, a tuple of tiles indexed at run time, run-time event ids, primed and drained backward pairs.
Tolerance: none, the result is bit-equal to numpy."""
import sys

import numpy as np

import pypto_pro.language as pl

TR, C = 16, 72
TILES = 10
ROWS = TILES * TR
SLOT = TR * C * 4
BLOCKS = 3


@pl.jit(auto_mutex=False)
def mul_flags(
    x: pl.Tensor[[ROWS, C], pl.DT_FP32],
    y: pl.Tensor[[ROWS, C], pl.DT_FP32],
    out: pl.Tensor[[ROWS, C], pl.DT_FP32],
):
    tile_type = pl.TileType(shape=[TR, C], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec)
    x0 = pl.make_tile(tile_type, addr=0 * SLOT, size=SLOT)
    x1 = pl.make_tile(tile_type, addr=1 * SLOT, size=SLOT)
    y0 = pl.make_tile(tile_type, addr=2 * SLOT, size=SLOT)
    y1 = pl.make_tile(tile_type, addr=3 * SLOT, size=SLOT)
    o0 = pl.make_tile(tile_type, addr=4 * SLOT, size=SLOT)
    o1 = pl.make_tile(tile_type, addr=5 * SLOT, size=SLOT)
    xb = (x0, x1)
    yb = (y0, y1)
    ob = (o0, o1)
    with pl.section_vector():
        # both input slots and both output slots start free
        pl.system.sync_src(set_pipe=pl.PipeType.V, wait_pipe=pl.PipeType.MTE2, event_id=0)
        pl.system.sync_src(set_pipe=pl.PipeType.V, wait_pipe=pl.PipeType.MTE2, event_id=1)
        pl.system.sync_src(set_pipe=pl.PipeType.MTE3, wait_pipe=pl.PipeType.V, event_id=0)
        pl.system.sync_src(set_pipe=pl.PipeType.MTE3, wait_pipe=pl.PipeType.V, event_id=1)
        step = 0
        for t in pl.range(pl.get_block_idx(), TILES, pl.get_block_num()):
            s = step % 2
            xt = xb[s]
            yt = yb[s]
            ot = ob[s]
            pl.system.sync_dst(set_pipe=pl.PipeType.V, wait_pipe=pl.PipeType.MTE2, event_id=s)
            pl.load(xt, x, [t * TR, 0])
            pl.load(yt, y, [t * TR, 0])
            pl.system.sync_src(set_pipe=pl.PipeType.MTE2, wait_pipe=pl.PipeType.V, event_id=s)
            pl.system.sync_dst(set_pipe=pl.PipeType.MTE2, wait_pipe=pl.PipeType.V, event_id=s)
            pl.system.sync_dst(set_pipe=pl.PipeType.MTE3, wait_pipe=pl.PipeType.V, event_id=s)
            pl.mul(ot, xt, yt)
            pl.system.sync_src(set_pipe=pl.PipeType.V, wait_pipe=pl.PipeType.MTE2, event_id=s)
            pl.system.sync_src(set_pipe=pl.PipeType.V, wait_pipe=pl.PipeType.MTE3, event_id=s)
            pl.system.sync_dst(set_pipe=pl.PipeType.V, wait_pipe=pl.PipeType.MTE3, event_id=s)
            pl.store(out, ot, [t * TR, 0])
            pl.system.sync_src(set_pipe=pl.PipeType.MTE3, wait_pipe=pl.PipeType.V, event_id=s)
            step = step + 1
        # take back what the last two rounds (or the priming) left behind
        pl.system.sync_dst(set_pipe=pl.PipeType.V, wait_pipe=pl.PipeType.MTE2, event_id=0)
        pl.system.sync_dst(set_pipe=pl.PipeType.V, wait_pipe=pl.PipeType.MTE2, event_id=1)
        pl.system.sync_dst(set_pipe=pl.PipeType.MTE3, wait_pipe=pl.PipeType.V, event_id=0)
        pl.system.sync_dst(set_pipe=pl.PipeType.MTE3, wait_pipe=pl.PipeType.V, event_id=1)


def inputs():
    rng = np.random.default_rng(303)
    x = rng.standard_normal((ROWS, C), dtype=np.float32)
    y = rng.standard_normal((ROWS, C), dtype=np.float32)
    return x, y


def golden(x, y):
    return x * y


def main():
    x, y = inputs()
    out = np.full_like(x, np.nan)
    mul_flags[None, BLOCKS](x, y, out)
    ok = np.array_equal(out, golden(x, y))
    print("PASS manual_double_buffer" if ok else "FAIL manual_double_buffer")
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
