"""RMS normalisation, FP32: x / sqrt(mean(x * x) + eps) * weight, eight rows at a time."""

import numpy as np

import pypto_pro.language as pl

COLS = 1024
ROWS = 8
SLOT = ROWS * COLS * 4
EPS = 1e-6


def only(tile_type, addr, mutex_id):
    return pl.make_tile_group(type=tile_type, addrs=addr, mutex_ids=[mutex_id]).current()


@pl.jit
def rmsnorm(
    x: pl.Tensor[[pl.DYNAMIC, COLS], pl.DT_FP32],
    weight: pl.Tensor[[1, COLS], pl.DT_FP32],
    y: pl.Tensor[[pl.DYNAMIC, COLS], pl.DT_FP32],
):
    wide = pl.TileType(shape=[ROWS, COLS], dtype=pl.DT_FP32, valid_shape=[-1, -1])
    line = pl.TileType(shape=[1, COLS], dtype=pl.DT_FP32)
    column = pl.TileType(shape=[ROWS, 1], dtype=pl.DT_FP32, layout=pl.DN, valid_shape=[-1, -1])
    row = pl.TileType(shape=[1, ROWS], dtype=pl.DT_FP32, valid_shape=[-1, -1])
    ins = pl.make_tile_group(type=wide, addrs=0, mutex_ids=[0, 1])
    outs = pl.make_tile_group(type=wide, addrs=2 * SLOT, mutex_ids=[2, 3])
    with pl.section_vector():
        square = only(wide, 4 * SLOT, 4)
        gain = only(line, 5 * SLOT, 5)
        # one value a row: a column for reductions and broadcasts, the same bytes as a row for arithmetic
        scale = only(column, 5 * SLOT + COLS * 4, 6)
        scale_row = only(row, 5 * SLOT + COLS * 4, 6)
        pl.load(gain, weight, [0, 0])
        rows = x.shape[0]
        for r in pl.range(pl.get_block_idx() * ROWS, rows, pl.get_block_num() * ROWS):
            here = pl.min(ROWS, rows - r)
            a = ins.next()
            b = outs.next()
            pl.set_validshape(a, [here, COLS])
            pl.set_validshape(b, [here, COLS])
            pl.set_validshape(square, [here, COLS])
            pl.set_validshape(scale, [here, 1])
            pl.set_validshape(scale_row, [1, here])
            pl.load(a, x, [r, 0])
            pl.mul(square, a, a)
            pl.sum(scale, square, b, dim=0)
            pl.mul(scale_row, scale_row, 1.0 / COLS)
            pl.add(scale_row, scale_row, EPS)
            pl.rsqrt(scale_row, scale_row)
            pl.expand_mul(b, a, scale, dim=0)
            pl.expand_mul(b, b, gain, dim=1)
            pl.store(y, b, [r, 0])


def main() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(0, 3, (501, COLS)).astype(np.float32)
    weight = rng.uniform(0.5, 1.5, (1, COLS)).astype(np.float32)
    y = np.empty_like(x)
    rmsnorm[None, 4](x, weight, y)
    wide = x.astype(np.float64)
    wanted = wide / np.sqrt((wide**2).mean(axis=1, keepdims=True) + EPS) * weight
    error = np.abs(y - wanted).max() / np.abs(wanted).max()
    assert error < 1e-6, error
    print(f"rmsnorm: 501 x {COLS} FP32 on 4 blocks, largest relative error {error:.1e}")


if __name__ == "__main__":
    main()
