"""b16: two operands that are alive together share half their bytes.
Mistake: the second tile starts 0x800 into a tile of 0x1000 bytes.
Twin: it starts at 0x1000."""
import sys

import numpy as np

import pypto_pro.language as pl

EXPECT = {"kind": "address_overlap", "lines": ["A", "B"], "may_name": ["C", "D"]}
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
        xt = pl.make_tile(tile_type, addr=0x0000)  # <- A
        yt = pl.make_tile(tile_type, addr=0x0800)  # <- B
        zt = pl.make_tile(tile_type, addr=0x4000)
        pl.load(xt, x, [0, 0])  # <- C
        pl.load(yt, y, [0, 0])  # <- D
        pl.system.sync_src(set_pipe=pl.PipeType.MTE2, wait_pipe=pl.PipeType.V, event_id=0)
        pl.system.sync_dst(set_pipe=pl.PipeType.MTE2, wait_pipe=pl.PipeType.V, event_id=0)
        pl.add(zt, xt, yt)
        pl.system.sync_src(set_pipe=pl.PipeType.V, wait_pipe=pl.PipeType.MTE3, event_id=0)
        pl.system.sync_dst(set_pipe=pl.PipeType.V, wait_pipe=pl.PipeType.MTE3, event_id=0)
        pl.store(z, zt, [0, 0])


@pl.jit(auto_mutex=False)
def fixed(
    x: pl.Tensor[[R, C], pl.DT_FP32],
    y: pl.Tensor[[R, C], pl.DT_FP32],
    z: pl.Tensor[[R, C], pl.DT_FP32],
):
    with pl.section_vector():
        tile_type = pl.TileType(shape=[R, C], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec)
        xt = pl.make_tile(tile_type, addr=0x0000)
        yt = pl.make_tile(tile_type, addr=0x1000)
        zt = pl.make_tile(tile_type, addr=0x4000)
        pl.load(xt, x, [0, 0])
        pl.load(yt, y, [0, 0])
        pl.system.sync_src(set_pipe=pl.PipeType.MTE2, wait_pipe=pl.PipeType.V, event_id=0)
        pl.system.sync_dst(set_pipe=pl.PipeType.MTE2, wait_pipe=pl.PipeType.V, event_id=0)
        pl.add(zt, xt, yt)
        pl.system.sync_src(set_pipe=pl.PipeType.V, wait_pipe=pl.PipeType.MTE3, event_id=0)
        pl.system.sync_dst(set_pipe=pl.PipeType.V, wait_pipe=pl.PipeType.MTE3, event_id=0)
        pl.store(z, zt, [0, 0])


def inputs():
    rng = np.random.default_rng(16)
    x = rng.standard_normal((R, C), dtype=np.float32)
    y = rng.standard_normal((R, C), dtype=np.float32)
    return x, y, np.zeros_like(x)


def golden(x, y, z):
    return x + y


BROKEN, FIXED = broken, fixed


def main():
    args = inputs()
    FIXED[None, BLOCKS](*args)
    ok = np.array_equal(args[-1], golden(*args))
    print("PASS address_overlap (fixed twin)" if ok else "FAIL address_overlap (fixed twin)")
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
