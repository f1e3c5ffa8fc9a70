"""Quantise to INT8 with one scale a row, and back: q = round(x * 127 / max|x|), x' = q * max|x| / 127."""

import numpy as np

import pypto_pro.language as pl

COLS = 512
ROWS = 32
WIDE = ROWS * COLS * 4
BYTES = ROWS * COLS


def only(tile_type, addr, mutex_id):
    return pl.make_tile_group(type=tile_type, addrs=addr, mutex_ids=[mutex_id]).current()


@pl.jit
def quantise(
    x: pl.Tensor[[pl.DYNAMIC, COLS], pl.DT_FP32],
    q: pl.Tensor[[pl.DYNAMIC, COLS], pl.DT_INT8],
    back: pl.Tensor[[pl.DYNAMIC, COLS], pl.DT_FP32],
):
    wide = pl.TileType(shape=[ROWS, COLS], dtype=pl.DT_FP32, valid_shape=[-1, -1])
    narrow = pl.TileType(shape=[ROWS, COLS], dtype=pl.DT_INT8, valid_shape=[-1, -1])
    column = pl.TileType(shape=[ROWS, 1], dtype=pl.DT_FP32, layout=pl.DN, valid_shape=[-1, -1])
    row = pl.TileType(shape=[1, ROWS], dtype=pl.DT_FP32, valid_shape=[-1, -1])
    ins = pl.make_tile_group(type=wide, addrs=0, mutex_ids=[0])
    sizes = pl.make_tile_group(type=wide, addrs=WIDE, mutex_ids=[1])
    quants = pl.make_tile_group(type=narrow, addrs=2 * WIDE, mutex_ids=[2])
    with pl.section_vector():
        a = ins.current()
        size = sizes.current()
        small = quants.current()
        at = 2 * WIDE + BYTES
        step = only(column, at, 3)  # max|x| / 127
        step_row = only(row, at, 3)
        factor = only(column, at + 4 * ROWS, 4)  # 127 / max|x|
        factor_row = only(row, at + 4 * ROWS, 4)
        zero = only(column, at + 8 * ROWS, 5)
        rows = x.shape[0]
        for r in pl.range(pl.get_block_idx() * ROWS, rows, pl.get_block_num() * ROWS):
            here = pl.min(ROWS, rows - r)
            pl.set_validshape(a, [here, COLS])
            pl.set_validshape(size, [here, COLS])
            pl.set_validshape(small, [here, COLS])
            pl.set_validshape(step, [here, 1])
            pl.set_validshape(step_row, [1, here])
            pl.set_validshape(factor, [here, 1])
            pl.set_validshape(factor_row, [1, here])
            pl.set_validshape(zero, [here, 1])
            pl.expands(zero, 0.0)
            pl.load(a, x, [r, 0])
            pl.abs(size, a)
            pl.maximum(step, size, size, dim=0)
            pl.maximum(step_row, step_row, 1e-20)
            pl.mul(step_row, step_row, 1.0 / 127)
            pl.recip(factor_row, step_row)
            pl.quant(small, a, factor)
            pl.dequant(size, small, step, zero)
            pl.store(q, small, [r, 0])
            pl.store(back, size, [r, 0])


def main() -> None:
    x = np.random.default_rng(1).normal(0, 2, (300, COLS)).astype(np.float32)
    q, back = np.empty(x.shape, np.int8), np.empty_like(x)
    quantise[None, 4](x, q, back)
    largest = np.abs(x).max(axis=1, keepdims=True)
    assert (np.abs(q).max(axis=1) == 127).all()
    error = (np.abs(back - x) / largest).max() * 254
    assert error < 1.001, error
    print(f"quantise: 300 x {COLS} FP32 to INT8 and back on 4 blocks, error {error:.3f} of half a step at most")


if __name__ == "__main__":
    main()
