"""b15: the last tile reaches eight rows past the end of the input.
Mistake: no set_validshape for the row tail (the output is padded, so only the load is wrong).
Twin: the valid rows are limited."""
import sys

import numpy as np

import pypto_pro.language as pl

EXPECT = {"kind": "out_of_bounds", "lines": ["A"]}
TR, C = 16, 32
ROWS = 40
TILES = 3
BLOCKS = 1


@pl.jit(auto_mutex=True)
def broken(x: pl.Tensor[[ROWS, C], pl.DT_FP32], y: pl.Tensor[[TILES * TR, C], pl.DT_FP32]):
    with pl.section_vector():
        tile_type = pl.TileType(shape=[TR, C], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec, valid_shape=[-1, -1])
        ins = pl.make_tile_group(type=tile_type, addrs=0x0000, mutex_ids=[0, 1])
        for i in pl.range(0, TILES):
            t = ins.next()
            pl.load(t, x, [i * TR, 0])  # <- A
            pl.add(t, t, 1.0)
            pl.store(y, t, [i * TR, 0])


@pl.jit(auto_mutex=True)
def fixed(x: pl.Tensor[[ROWS, C], pl.DT_FP32], y: pl.Tensor[[TILES * TR, C], pl.DT_FP32]):
    with pl.section_vector():
        tile_type = pl.TileType(shape=[TR, C], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec, valid_shape=[-1, -1])
        ins = pl.make_tile_group(type=tile_type, addrs=0x0000, mutex_ids=[0, 1])
        for i in pl.range(0, TILES):
            t = ins.next()
            pl.set_validshape(t, [pl.min(TR, ROWS - i * TR), C])
            pl.load(t, x, [i * TR, 0])
            pl.add(t, t, 1.0)
            pl.store(y, t, [i * TR, 0])


def inputs():
    x = np.random.default_rng(15).standard_normal((ROWS, C), dtype=np.float32)
    return x, np.zeros((TILES * TR, C), np.float32)


def golden(x, y):
    return np.concatenate([x + 1, np.zeros((TILES * TR - ROWS, C), np.float32)])


BROKEN, FIXED = broken, fixed


def main():
    args = inputs()
    FIXED[None, BLOCKS](*args)
    ok = np.array_equal(args[-1], golden(*args))
    print("PASS out_of_bounds (fixed twin)" if ok else "FAIL out_of_bounds (fixed twin)")
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
