"""k02: z = 0.5 * x + y in FP16 for any shape, three shapes through one compiled variant.
Exercises pl.DYNAMIC axes, valid_shape=[-1, -1], set_validshape on row and column tails, tile-scalar multiply.
Tolerance: none, every FP16 operation is one correctly rounded step."""
import sys

import numpy as np

import pypto_pro.language as pl

TR, TC = 16, 64
SLOT = TR * TC * 2
SHAPES = [(37, 150), (16, 64), (5, 7)]
BLOCKS = 3


@pl.jit(auto_mutex=True)
def half_add(
    x: pl.Tensor[[pl.DYNAMIC, pl.DYNAMIC], pl.DT_FP16],
    y: pl.Tensor[[pl.DYNAMIC, pl.DYNAMIC], pl.DT_FP16],
    z: pl.Tensor[[pl.DYNAMIC, pl.DYNAMIC], pl.DT_FP16],
):
    tile_type = pl.TileType(
        shape=[TR, TC], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Vec, valid_shape=[-1, -1]
    )
    xs = pl.make_tile_group(type=tile_type, addrs=0 * SLOT, mutex_ids=[0, 1])
    ys = pl.make_tile_group(type=tile_type, addrs=2 * SLOT, mutex_ids=[2, 3])
    zs = pl.make_tile_group(type=tile_type, addrs=4 * SLOT, mutex_ids=[4, 5])
    rows = x.shape[0]
    cols = x.shape[1]
    with pl.section_vector():
        row_tiles = (rows + TR - 1) // TR
        for i in pl.range(pl.get_block_idx(), row_tiles, pl.get_block_num()):
            vr = pl.min(TR, rows - i * TR)
            for c in pl.range(0, cols, TC):
                vc = pl.min(TC, cols - c)
                xt = xs.next()
                yt = ys.next()
                zt = zs.next()
                pl.set_validshape(xt, [vr, vc])
                pl.set_validshape(yt, [vr, vc])
                pl.set_validshape(zt, [vr, vc])
                pl.load(xt, x, [i * TR, c])
                pl.load(yt, y, [i * TR, c])
                pl.mul(zt, xt, 0.5)
                pl.add(zt, zt, yt)
                pl.store(z, zt, [i * TR, c])


def inputs(shape):
    rng = np.random.default_rng(202)
    x = rng.uniform(-4, 4, shape).astype(np.float16)
    y = rng.uniform(-4, 4, shape).astype(np.float16)
    return x, y


def golden(x, y):
    return x * np.float16(0.5) + y


def main():
    ok = True
    for shape in SHAPES:
        x, y = inputs(shape)
        z = np.full(shape, np.nan, dtype=np.float16)
        half_add[None, BLOCKS](x, y, z)
        ok = ok and np.array_equal(z, golden(x, y))
    print("PASS dynamic_tails" if ok else "FAIL dynamic_tails")
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
