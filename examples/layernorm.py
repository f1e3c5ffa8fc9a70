"""Layer normalisation, FP16 in and out, FP32 inside: casts, row statistics, a weight and a bias row broadcast down."""

import numpy as np

import pypto_pro.language as pl

COLS = 512
ROWS = 8
WIDE = ROWS * COLS * 4
HALF = ROWS * COLS * 2
EPS = 1e-5


def only(tile_type, addr, mutex_id):
    return pl.make_tile_group(type=tile_type, addrs=addr, mutex_ids=[mutex_id]).current()


@pl.jit
def layernorm(
    x: pl.Tensor[[pl.DYNAMIC, COLS], pl.DT_FP16],
    weight: pl.Tensor[[1, COLS], pl.DT_FP32],
    bias: pl.Tensor[[1, COLS], pl.DT_FP32],
    y: pl.Tensor[[pl.DYNAMIC, COLS], pl.DT_FP16],
):
    half = pl.TileType(shape=[ROWS, COLS], dtype=pl.DT_FP16, valid_shape=[-1, -1])
    wide = pl.TileType(shape=[ROWS, COLS], dtype=pl.DT_FP32, valid_shape=[-1, -1])
    line = pl.TileType(shape=[1, COLS], dtype=pl.DT_FP32)
    column = pl.TileType(shape=[ROWS, 1], dtype=pl.DT_FP32, layout=pl.DN, valid_shape=[-1, -1])
    row = pl.TileType(shape=[1, ROWS], dtype=pl.DT_FP32, valid_shape=[-1, -1])
    ins = pl.make_tile_group(type=half, addrs=0, mutex_ids=[0, 1])
    outs = pl.make_tile_group(type=half, addrs=2 * HALF, mutex_ids=[2, 3])
    with pl.section_vector():
        base = 4 * HALF
        centred = only(wide, base, 4)
        square = only(wide, base + WIDE, 5)
        tmp = only(wide, base + 2 * WIDE, 6)
        gain = only(line, base + 3 * WIDE, 7)
        shift = only(line, base + 3 * WIDE + 4 * COLS, 8)
        stat_addr = base + 3 * WIDE + 8 * COLS
        stat = only(column, stat_addr, 9)
        stat_row = only(row, stat_addr, 9)
        pl.load(gain, weight, [0, 0])
        pl.load(shift, bias, [0, 0])
        rows = x.shape[0]
        for r in pl.range(pl.get_block_idx() * ROWS, rows, pl.get_block_num() * ROWS):
            here = pl.min(ROWS, rows - r)
            a = ins.next()
            b = outs.next()
            pl.set_validshape(a, [here, COLS])
            pl.set_validshape(b, [here, COLS])
            pl.set_validshape(centred, [here, COLS])
            pl.set_validshape(square, [here, COLS])
            pl.set_validshape(stat, [here, 1])
            pl.set_validshape(stat_row, [1, here])
            pl.load(a, x, [r, 0])
            pl.cast(centred, a)
            pl.sum(stat, centred, tmp, dim=0)
            pl.mul(stat_row, stat_row, 1.0 / COLS)
            pl.expand_sub(centred, centred, stat, dim=0)
            pl.mul(square, centred, centred)
            pl.sum(stat, square, tmp, dim=0)
            pl.mul(stat_row, stat_row, 1.0 / COLS)
            pl.add(stat_row, stat_row, EPS)
            pl.rsqrt(stat_row, stat_row)
            pl.expand_mul(centred, centred, stat, dim=0)
            pl.expand_mul(centred, centred, gain, dim=1)
            pl.mul(square, square, 0.0)
            pl.expand_sub(square, square, shift, dim=1)
            pl.sub(centred, centred, square)
            pl.cast(b, centred, mode=pl.RoundMode.CAST_RINT)
            pl.store(y, b, [r, 0])


def main() -> None:
    rng = np.random.default_rng(2)
    x = rng.standard_normal((203, COLS)).astype(np.float16)
    weight = rng.uniform(0.5, 1.5, (1, COLS)).astype(np.float32)
    bias = rng.standard_normal((1, COLS)).astype(np.float32)
    y = np.empty_like(x)
    layernorm[None, 3](x, weight, bias, y)
    wide = x.astype(np.float64)
    want = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + EPS) * weight + bias
    error = np.abs(y - want).max()
    assert error < 5e-3, error
    print(f"layernorm: 203 x {COLS} FP16 on 3 blocks, largest error {error:.1e}")


if __name__ == "__main__":
    main()
