"""RMSNorm in BF16 on registers: widened to FP32 in two halves, a fused sum of squares, narrowed and joined again."""

import ml_dtypes
import numpy as np

import pypto_pro.language as pl
from pypto_pro.language import Vf as vf

COLS = 512
ROWS = 8
LANES = 128
SLOT = ROWS * COLS * 2
EPS = 1e-6


@pl.vector_function
def rms_rows(src, gamma, dst, rows: pl.DT_INT64):
    b16 = vf.create_mask(dtype=pl.DT_BF16)
    b32 = vf.create_mask(dtype=pl.DT_FP32)
    for r in pl.range(0, rows):
        squares = vf.full(0.0, b32, dtype=pl.DT_FP32)
        for c in pl.range(0, COLS, LANES):
            x = vf.load_align(src, [r, c])
            even = vf.astype(x, b16, dtype=pl.DT_FP32, layout=pl.CastLayout.ZERO)
            odd = vf.astype(x, b16, dtype=pl.DT_FP32, layout=pl.CastLayout.ONE)
            squares = vf.mul_add_dst(even, even, b32)
            squares = vf.mul_add_dst(odd, odd, b32)
        mean = vf.reduce_sum(squares, b32)
        mean = vf.full(mean, b32)
        mean = vf.muls(mean, 1.0 / COLS, b32)
        mean = vf.adds(mean, EPS, b32)
        root = vf.sqrt(mean, b32)
        for c in pl.range(0, COLS, LANES):
            x = vf.load_align(src, [r, c])
            g = vf.load_align(gamma, c)
            even = vf.astype(x, b16, dtype=pl.DT_FP32, layout=pl.CastLayout.ZERO)
            odd = vf.astype(x, b16, dtype=pl.DT_FP32, layout=pl.CastLayout.ONE)
            even_g = vf.astype(g, b16, dtype=pl.DT_FP32, layout=pl.CastLayout.ZERO)
            odd_g = vf.astype(g, b16, dtype=pl.DT_FP32, layout=pl.CastLayout.ONE)
            even = vf.div(even, root, b32)
            odd = vf.div(odd, root, b32)
            even = vf.mul(even, even_g, b32)
            odd = vf.mul(odd, odd_g, b32)
            low = vf.astype(even, b32, dtype=pl.DT_BF16, layout=pl.CastLayout.ZERO)
            high = vf.astype(odd, b32, dtype=pl.DT_BF16, layout=pl.CastLayout.ONE)
            y = vf.or_(low, high, b16)
            vf.store_align(dst, y, b16, [r, c])


@pl.jit(auto_mutex=True)
def rmsnorm(
    x: pl.Tensor[[pl.DYNAMIC, COLS], pl.DT_BF16], gamma: pl.Tensor[[1, COLS], pl.DT_BF16],
    y: pl.Tensor[[pl.DYNAMIC, COLS], pl.DT_BF16],
):
    wide = pl.TileType(shape=[ROWS, COLS], dtype=pl.DT_BF16, target_memory=pl.MemorySpace.Vec, valid_shape=[-1, -1])
    one = pl.TileType(shape=[1, COLS], dtype=pl.DT_BF16, target_memory=pl.MemorySpace.Vec)
    ins = pl.make_tile_group(type=wide, addrs=0, mutex_ids=[0, 1])
    outs = pl.make_tile_group(type=wide, addrs=2 * SLOT, mutex_ids=[2, 3])
    weights = pl.make_tile_group(type=one, addrs=4 * SLOT, mutex_ids=[4])
    with pl.section_vector():
        rows = x.shape[0]
        g = weights.current()
        pl.load(g, gamma, [0, 0])
        for r in pl.range(pl.get_block_idx() * ROWS, rows, pl.get_block_num() * ROWS):
            here = pl.min(ROWS, rows - r)
            a = ins.next()
            b = outs.next()
            pl.set_validshape(a, [here, COLS])
            pl.set_validshape(b, [here, COLS])
            pl.load(a, x, [r, 0])
            rms_rows(a, g, b, here)
            pl.store(y, b, [r, 0])


def main() -> None:
    rng = np.random.default_rng(2)
    x = rng.standard_normal((53, COLS)).astype(ml_dtypes.bfloat16)
    gamma = rng.uniform(0.5, 1.5, (1, COLS)).astype(ml_dtypes.bfloat16)
    y = np.empty_like(x)
    rmsnorm[None, 4](x, gamma, y)
    wide = x.astype(np.float64)
    want = wide / np.sqrt((wide**2).mean(axis=1, keepdims=True) + EPS) * gamma.astype(np.float64)
    error = (np.abs(y.astype(np.float64) - want) / (np.abs(want) + 1e-3)).max()
    assert error < 2**-8, error
    print(f"vf_rmsnorm: {x.shape[0]} x {COLS} BF16 on 4 blocks, largest relative error {error:.1e}")


if __name__ == "__main__":
    main()
