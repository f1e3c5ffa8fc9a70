"""k04: softmax over the columns of an FP32 matrix with tile reductions.
Exercises maximum/sum dim=0 into an [R, 1] DN tile, its aliased [1, R] view (same bytes, same id), expand_*, row tail.
Tolerance: rtol 1e-5, atol 1e-6."""
import sys

import numpy as np

import pypto_pro.language as pl

ROWS, COLS = 50, 200
TR, TC = 16, 256
SLOT = TR * TC * 4
IN_ADDR = 0
OUT_ADDR = 2 * SLOT
TMP_ADDR = 4 * SLOT
RED_ADDR = 5 * SLOT
BLOCKS = 2


@pl.jit(auto_mutex=True)
def softmax_rows(
    x: pl.Tensor[[pl.DYNAMIC, COLS], pl.DT_FP32],
    y: pl.Tensor[[pl.DYNAMIC, COLS], pl.DT_FP32],
):
    wide = pl.TileType(shape=[TR, TC], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec, valid_shape=[-1, -1])
    column = pl.TileType(
        shape=[TR, 1], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec, layout=pl.DN, valid_shape=[-1, -1]
    )
    flat = pl.TileType(shape=[1, TR], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec, valid_shape=[-1, -1])
    ins = pl.make_tile_group(type=wide, addrs=IN_ADDR, mutex_ids=[0, 1])
    outs = pl.make_tile_group(type=wide, addrs=OUT_ADDR, mutex_ids=[2, 3])
    tmps = pl.make_tile_group(type=wide, addrs=TMP_ADDR, mutex_ids=[4])
    reds = pl.make_tile_group(type=column, addrs=RED_ADDR, mutex_ids=[5])
    reds_flat = pl.make_tile_group(type=flat, addrs=RED_ADDR, mutex_ids=[5])
    with pl.section_vector():
        rows = x.shape[0]
        for i in pl.range(pl.get_block_idx(), (rows + TR - 1) // TR, pl.get_block_num()):
            vr = pl.min(TR, rows - i * TR)
            xt = ins.next()
            yt = outs.next()
            tmp = tmps.current()
            red = reds.current()
            red_flat = reds_flat.current()
            pl.set_validshape(xt, [vr, COLS])
            pl.set_validshape(yt, [vr, COLS])
            pl.set_validshape(tmp, [vr, COLS])
            pl.set_validshape(red, [vr, 1])
            pl.set_validshape(red_flat, [1, vr])
            pl.load(xt, x, [i * TR, 0])
            pl.maximum(red, xt, tmp, dim=0)
            pl.expand_sub(yt, xt, red, dim=0)
            pl.exp(yt, yt)
            pl.sum(red, yt, tmp, dim=0)
            pl.recip(red_flat, red_flat)
            pl.expand_mul(yt, yt, red, dim=0)
            pl.store(y, yt, [i * TR, 0])


def inputs():
    rng = np.random.default_rng(404)
    return (rng.uniform(-6, 6, (ROWS, COLS)).astype(np.float32),)


def golden(x):
    e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    return (e / e.sum(axis=1, keepdims=True)).astype(np.float32)


def main():
    (x,) = inputs()
    y = np.full_like(x, np.nan)
    softmax_rows[None, BLOCKS](x, y)
    ok = np.allclose(y, golden(x), rtol=1e-5, atol=1e-6)
    print("PASS softmax_rows" if ok else "FAIL softmax_rows")
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
