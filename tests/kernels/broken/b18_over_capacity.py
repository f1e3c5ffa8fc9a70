"""b18: four slots of 64 KiB need 262144 bytes, the vector buffer offers 253952.
Mistake: one slot too many (the small valid shape does not shrink a reservation).
Twin: three slots."""
import sys

import numpy as np

import pypto_pro.language as pl

EXPECT = {"kind": "over_capacity", "lines": ["A"]}
BIG = 128
TR, C = 8, 32
ROWS = 5 * TR
BLOCKS = 1


@pl.jit(auto_mutex=True)
def broken(x: pl.Tensor[[ROWS, C], pl.DT_FP32], y: pl.Tensor[[ROWS, C], pl.DT_FP32]):
    with pl.section_vector():
        tile_type = pl.TileType(
            shape=[BIG, BIG], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec, valid_shape=[TR, C]
        )
        tiles = pl.make_tile_group(type=tile_type, addrs=0, mutex_ids=[0, 1, 2, 3])  # <- A
        for r in pl.range(0, ROWS, TR):
            t = tiles.next()
            pl.load(t, x, [r, 0])
            pl.add(t, t, 1.0)
            pl.store(y, t, [r, 0])


@pl.jit(auto_mutex=True)
def fixed(x: pl.Tensor[[ROWS, C], pl.DT_FP32], y: pl.Tensor[[ROWS, C], pl.DT_FP32]):
    with pl.section_vector():
        tile_type = pl.TileType(
            shape=[BIG, BIG], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec, valid_shape=[TR, C]
        )
        tiles = pl.make_tile_group(type=tile_type, addrs=0, mutex_ids=[0, 1, 2])
        for r in pl.range(0, ROWS, TR):
            t = tiles.next()
            pl.load(t, x, [r, 0])
            pl.add(t, t, 1.0)
            pl.store(y, t, [r, 0])


def inputs():
    x = np.random.default_rng(18).standard_normal((ROWS, C), dtype=np.float32)
    return x, np.zeros_like(x)


def golden(x, y):
    return x + 1


BROKEN, FIXED = broken, fixed


def main():
    args = inputs()
    FIXED[None, BLOCKS](*args)
    ok = np.array_equal(args[-1], golden(*args))
    print("PASS over_capacity (fixed twin)" if ok else "FAIL over_capacity (fixed twin)")
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
