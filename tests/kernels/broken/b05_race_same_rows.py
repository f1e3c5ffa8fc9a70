"""b05: neighbouring blocks store to overlapping rows of the output.
Mistake: the store offset advances by half a tile per block; both parties are the same line, in different blocks.
Twin: it advances by a whole tile."""
import sys

import numpy as np

import pypto_pro.language as pl

EXPECT = {"kind": "race", "lines": ["A", "A"]}
TR, C = 16, 32
BLOCKS = 3
ROWS = BLOCKS * TR


@pl.jit(auto_mutex=True)
def broken(x: pl.Tensor[[ROWS, C], pl.DT_FP32], y: pl.Tensor[[ROWS, C], pl.DT_FP32]):
    with pl.section_vector():
        tiles = pl.make_tile_group(
            type=pl.TileType(shape=[TR, C], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec),
            addrs=0x0000, mutex_ids=[0],
        )
        t = tiles.current()
        b = pl.get_block_idx()
        pl.load(t, x, [b * TR, 0])
        pl.add(t, t, 1.0)
        pl.store(y, t, [b * (TR // 2), 0])  # <- A


@pl.jit(auto_mutex=True)
def fixed(x: pl.Tensor[[ROWS, C], pl.DT_FP32], y: pl.Tensor[[ROWS, C], pl.DT_FP32]):
    with pl.section_vector():
        tiles = pl.make_tile_group(
            type=pl.TileType(shape=[TR, C], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec),
            addrs=0x0000, mutex_ids=[0],
        )
        t = tiles.current()
        b = pl.get_block_idx()
        pl.load(t, x, [b * TR, 0])
        pl.add(t, t, 1.0)
        pl.store(y, t, [b * TR, 0])


def inputs():
    x = np.random.default_rng(5).standard_normal((ROWS, C), dtype=np.float32)
    return x, np.zeros_like(x)


def golden(x, y):
    return x + 1


BROKEN, FIXED = broken, fixed


def main():
    args = inputs()
    FIXED[None, BLOCKS](*args)
    ok = np.array_equal(args[-1], golden(*args))
    print("PASS race_same_rows (fixed twin)" if ok else "FAIL race_same_rows (fixed twin)")
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
