"""b17: the second slot of a group starts 16 bytes off a 32-byte boundary.
Mistake: addrs=[0x0, 0x1010] in the vector buffer.
Twin: addrs=[0x0, 0x1020]."""
import sys

import numpy as np

import pypto_pro.language as pl

EXPECT = {"kind": "misaligned_slot", "lines": ["A"]}
TR, C = 16, 64
ROWS = 4 * TR
BLOCKS = 1


@pl.jit(auto_mutex=True)
def broken(x: pl.Tensor[[ROWS, C], pl.DT_FP32], y: pl.Tensor[[ROWS, C], pl.DT_FP32]):
    with pl.section_vector():
        tile_type = pl.TileType(shape=[TR, C], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec)
        tiles = pl.make_tile_group(type=tile_type, addrs=[0x0, 0x1010], mutex_ids=[0, 1])  # <- A
        for r in pl.range(0, ROWS, TR):
            t = tiles.next()
            pl.load(t, x, [r, 0])
            pl.add(t, t, 1.0)
            pl.store(y, t, [r, 0])


@pl.jit(auto_mutex=True)
def fixed(x: pl.Tensor[[ROWS, C], pl.DT_FP32], y: pl.Tensor[[ROWS, C], pl.DT_FP32]):
    with pl.section_vector():
        tile_type = pl.TileType(shape=[TR, C], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec)
        tiles = pl.make_tile_group(type=tile_type, addrs=[0x0, 0x1020], mutex_ids=[0, 1])
        for r in pl.range(0, ROWS, TR):
            t = tiles.next()
            pl.load(t, x, [r, 0])
            pl.add(t, t, 1.0)
            pl.store(y, t, [r, 0])


def inputs():
    x = np.random.default_rng(17).standard_normal((ROWS, C), dtype=np.float32)
    return x, np.zeros_like(x)


def golden(x, y):
    return x + 1


BROKEN, FIXED = broken, fixed


def main():
    args = inputs()
    FIXED[None, BLOCKS](*args)
    ok = np.array_equal(args[-1], golden(*args))
    print("PASS misaligned_slot (fixed twin)" if ok else "FAIL misaligned_slot (fixed twin)")
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
