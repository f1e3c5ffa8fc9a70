"""b14: twelve rows are loaded, sixteen are multiplied.
Mistake: the valid shape is widened after the load, so the multiply reads four rows nobody wrote.
Twin: the tile is zero-filled first."""
import sys

import numpy as np

import pypto_pro.language as pl

EXPECT = {"kind": "uninitialised_read", "lines": ["A"], "may_name": ["B"]}
R, VR, C = 16, 12, 64
BLOCKS = 1


@pl.jit(auto_mutex=True)
def broken(x: pl.Tensor[[VR, C], pl.DT_FP32], y: pl.Tensor[[R, C], pl.DT_FP32]):
    with pl.section_vector():
        tile_type = pl.TileType(shape=[R, C], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec, valid_shape=[-1, -1])
        ins = pl.make_tile_group(type=tile_type, addrs=0x0000, mutex_ids=[0])
        outs = pl.make_tile_group(type=tile_type, addrs=0x1000, mutex_ids=[1])
        src = ins.current()
        dst = outs.current()
        pl.set_validshape(src, [VR, C])
        pl.load(src, x, [0, 0])
        pl.set_validshape(src, [R, C])
        pl.mul(dst, src, 2.0)  # <- A
        pl.store(y, dst, [0, 0])  # <- B


@pl.jit(auto_mutex=True)
def fixed(x: pl.Tensor[[VR, C], pl.DT_FP32], y: pl.Tensor[[R, C], pl.DT_FP32]):
    with pl.section_vector():
        tile_type = pl.TileType(shape=[R, C], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec, valid_shape=[-1, -1])
        ins = pl.make_tile_group(type=tile_type, addrs=0x0000, mutex_ids=[0])
        outs = pl.make_tile_group(type=tile_type, addrs=0x1000, mutex_ids=[1])
        src = ins.current()
        dst = outs.current()
        pl.expands(src, 0.0)
        pl.set_validshape(src, [VR, C])
        pl.load(src, x, [0, 0])
        pl.set_validshape(src, [R, C])
        pl.mul(dst, src, 2.0)
        pl.store(y, dst, [0, 0])


def inputs():
    x = np.random.default_rng(14).standard_normal((VR, C), dtype=np.float32)
    return x, np.full((R, C), -1, np.float32)


def golden(x, y):
    return np.concatenate([x * 2, np.zeros((R - VR, C), np.float32)])


BROKEN, FIXED = broken, fixed


def main():
    args = inputs()
    FIXED[None, BLOCKS](*args)
    ok = np.array_equal(args[-1], golden(*args))
    print("PASS uninitialised_read (fixed twin)" if ok else "FAIL uninitialised_read (fixed twin)")
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
