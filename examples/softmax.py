"""Row softmax in FP32: reductions into an [R, 1] column, the same bytes read as a [1, R] row, broadcasts back."""

import numpy as np

import pypto_pro.language as pl

COLS = 1024
ROWS = 8
SLOT = ROWS * COLS * 4


@pl.jit
def softmax(x: pl.Tensor[[pl.DYNAMIC, COLS], pl.DT_FP32], y: pl.Tensor[[pl.DYNAMIC, COLS], pl.DT_FP32]):
    wide = pl.TileType(shape=[ROWS, COLS], dtype=pl.DT_FP32, valid_shape=[-1, -1])
    column = pl.TileType(shape=[ROWS, 1], dtype=pl.DT_FP32, layout=pl.DN, valid_shape=[-1, -1])
    row = pl.TileType(shape=[1, ROWS], dtype=pl.DT_FP32, valid_shape=[-1, -1])
    ins = pl.make_tile_group(type=wide, addrs=0, mutex_ids=[0, 1])
    outs = pl.make_tile_group(type=wide, addrs=2 * SLOT, mutex_ids=[2, 3])
    scratch = pl.make_tile_group(type=wide, addrs=4 * SLOT, mutex_ids=[4])
    # one value a row, seen by the reductions as a column and by the arithmetic as a row
    as_column = pl.make_tile_group(type=column, addrs=5 * SLOT, mutex_ids=[5])
    as_row = pl.make_tile_group(type=row, addrs=5 * SLOT, mutex_ids=[5])
    with pl.section_vector():
        rows = x.shape[0]
        tmp = scratch.current()
        red = as_column.current()
        red_row = as_row.current()
        for r in pl.range(pl.get_block_idx() * ROWS, rows, pl.get_block_num() * ROWS):
            here = pl.min(ROWS, rows - r)
            a = ins.next()
            b = outs.next()
            pl.set_validshape(a, [here, COLS])
            pl.set_validshape(b, [here, COLS])
            pl.set_validshape(red, [here, 1])
            pl.set_validshape(red_row, [1, here])
            pl.load(a, x, [r, 0])
            pl.maximum(red, a, tmp, dim=0)
            pl.expand_sub(b, a, red, dim=0)
            pl.exp(b, b)
            pl.sum(red, b, tmp, dim=0)
            pl.recip(red_row, red_row)
            pl.expand_mul(b, b, red, dim=0)
            pl.store(y, b, [r, 0])


def main() -> None:
    x = np.random.default_rng(1).uniform(-8, 8, (501, COLS)).astype(np.float32)
    y = np.empty_like(x)
    softmax[None, 4](x, y)
    e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    error = np.abs(y - e / e.sum(axis=1, keepdims=True)).max()
    assert error < 1e-6, error
    print(f"softmax: 501 x {COLS} FP32 on 4 blocks, largest error {error:.1e}")


if __name__ == "__main__":
    main()
