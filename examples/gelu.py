"""GELU in its tanh form, FP16 in and out, FP32 inside, as x / (1 + exp(-2u)) with u = sqrt(2/pi) (x + 0.044715 x^3)."""

import math

import numpy as np

import pypto_pro.language as pl

COLS = 512
ROWS = 8
HALF = ROWS * COLS * 2
WIDE = ROWS * COLS * 4
LINEAR = -2.0 * math.sqrt(2.0 / math.pi)
CUBIC = 0.044715 * LINEAR


@pl.jit
def gelu(x: pl.Tensor[[pl.DYNAMIC, COLS], pl.DT_FP16], y: pl.Tensor[[pl.DYNAMIC, COLS], pl.DT_FP16]):
    half = pl.TileType(shape=[ROWS, COLS], dtype=pl.DT_FP16, valid_shape=[-1, -1])
    wide = pl.TileType(shape=[ROWS, COLS], dtype=pl.DT_FP32, valid_shape=[-1, -1])
    ins = pl.make_tile_group(type=half, addrs=0, mutex_ids=[0, 1])
    outs = pl.make_tile_group(type=half, addrs=2 * HALF, mutex_ids=[2, 3])
    values = pl.make_tile_group(type=wide, addrs=4 * HALF, mutex_ids=[4])
    powers = pl.make_tile_group(type=wide, addrs=4 * HALF + WIDE, mutex_ids=[5])
    with pl.section_vector():
        v = values.current()
        e = powers.current()
        rows = x.shape[0]
        for r in pl.range(pl.get_block_idx() * ROWS, rows, pl.get_block_num() * ROWS):
            here = pl.min(ROWS, rows - r)
            a = ins.next()
            b = outs.next()
            pl.set_validshape(a, [here, COLS])
            pl.set_validshape(b, [here, COLS])
            pl.set_validshape(v, [here, COLS])
            pl.set_validshape(e, [here, COLS])
            pl.load(a, x, [r, 0])
            pl.cast(v, a)
            pl.mul(e, v, v)
            pl.mul(e, e, CUBIC)
            pl.add(e, e, LINEAR)
            pl.mul(e, e, v)  # -2u
            pl.exp(e, e)
            pl.add(e, e, 1.0)
            pl.div(e, v, e)
            pl.cast(b, e, mode=pl.RoundMode.CAST_RINT)
            pl.store(y, b, [r, 0])


def main() -> None:
    x = np.random.default_rng(1).normal(0, 3, (333, COLS)).astype(np.float16)
    y = np.empty_like(x)
    gelu[None, 4](x, y)
    v = x.astype(np.float64)
    wanted = 0.5 * v * (1 + np.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3)))
    error = np.abs(y - wanted).max()
    assert error < 2e-3, error
    print(f"gelu: 333 x {COLS} FP16 on 4 blocks, largest error {error:.1e}")


if __name__ == "__main__":
    main()
