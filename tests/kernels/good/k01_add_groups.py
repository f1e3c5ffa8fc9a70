"""k01: z = x + y on fixed-size FP32 matrices, one tile at a time.
Exercises rotating tile groups, auto_mutex, load_tile/store_tile and a block-strided tile loop (5 blocks, uneven share).
Tolerance: none, the result is bit-equal to numpy."""
import sys

import numpy as np

import pypto_pro.language as pl

ROWS, COLS = 96, 192
TR, TC = 16, 64
GRID_C = COLS // TC
TILES = (ROWS // TR) * GRID_C
SLOT = TR * TC * 4
BLOCKS = 5


@pl.jit(auto_mutex=True)
def add_groups(
    x: pl.Tensor[[ROWS, COLS], pl.DT_FP32],
    y: pl.Tensor[[ROWS, COLS], pl.DT_FP32],
    z: pl.Tensor[[ROWS, COLS], pl.DT_FP32],
):
    tile_type = pl.TileType(shape=[TR, TC], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec)
    xs = pl.make_tile_group(type=tile_type, addrs=0, mutex_ids=[0, 1])
    ys = pl.make_tile_group(type=tile_type, addrs=2 * SLOT, mutex_ids=[2, 3])
    zs = pl.make_tile_group(type=tile_type, addrs=[4 * SLOT, 5 * SLOT], mutex_ids=[4, 5])
    with pl.section_vector():
        for t in pl.range(pl.get_block_idx(), TILES, pl.get_block_num()):
            i = t // GRID_C
            j = t % GRID_C
            xt = xs.next()
            yt = ys.next()
            zt = zs.next()
            pl.load_tile(xt, x, [i, j])
            pl.load_tile(yt, y, [i, j])
            pl.add(zt, xt, yt)
            pl.store_tile(z, zt, [i, j])


def inputs():
    rng = np.random.default_rng(101)
    x = rng.standard_normal((ROWS, COLS), dtype=np.float32)
    y = rng.standard_normal((ROWS, COLS), dtype=np.float32)
    return x, y


def golden(x, y):
    return x + y


def main():
    x, y = inputs()
    z = np.full_like(x, np.nan)
    add_groups[None, BLOCKS](x, y, z)
    ok = np.array_equal(z, golden(x, y))
    print("PASS add_groups" if ok else "FAIL add_groups")
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
