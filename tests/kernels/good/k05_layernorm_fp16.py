"""k05: layer normalisation, FP16 in and out, FP32 inside; rows and columns fill no tile.
Exercises cast both ways, row reductions, aliased [R, 1] / [1, R] views, rsqrt, expand_* along both axes.
Tolerance: rtol 2e-3, atol 2e-3 (FP16 output)."""
import sys

import numpy as np

import pypto_pro.language as pl

ROWS, N = 45, 200
TR, TC = 8, 208
EPS = 1e-5
INV_N = 1.0 / N
HALF_SLOT = TR * TC * 2
FULL_SLOT = TR * TC * 4
ROW_SLOT = TC * 4
A_HIN = 0
A_HOUT = A_HIN + 2 * HALF_SLOT
A_VAL = A_HOUT + 2 * HALF_SLOT
A_SQ = A_VAL + FULL_SLOT
A_TMP = A_SQ + FULL_SLOT
A_GAMMA = A_TMP + FULL_SLOT
A_BETA = A_GAMMA + ROW_SLOT
A_STAT = A_BETA + ROW_SLOT
BLOCKS = 2


@pl.jit(auto_mutex=True)
def layernorm(
    x: pl.Tensor[[ROWS, N], pl.DT_FP16],
    gamma: pl.Tensor[[1, N], pl.DT_FP32],
    beta: pl.Tensor[[1, N], pl.DT_FP32],
    y: pl.Tensor[[ROWS, N], pl.DT_FP16],
):
    half = pl.TileType(shape=[TR, TC], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Vec, valid_shape=[-1, -1])
    full = pl.TileType(shape=[TR, TC], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec, valid_shape=[-1, -1])
    line = pl.TileType(shape=[1, TC], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec, valid_shape=[1, N])
    column = pl.TileType(
        shape=[TR, 1], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec, layout=pl.DN, valid_shape=[-1, -1]
    )
    flat = pl.TileType(shape=[1, TR], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec, valid_shape=[-1, -1])
    h_in = pl.make_tile_group(type=half, addrs=A_HIN, mutex_ids=[0, 1])
    h_out = pl.make_tile_group(type=half, addrs=A_HOUT, mutex_ids=[2, 3])
    vals = pl.make_tile_group(type=full, addrs=A_VAL, mutex_ids=[4])
    squares = pl.make_tile_group(type=full, addrs=A_SQ, mutex_ids=[5])
    tmps = pl.make_tile_group(type=full, addrs=A_TMP, mutex_ids=[6])
    gammas = pl.make_tile_group(type=line, addrs=A_GAMMA, mutex_ids=[7])
    betas = pl.make_tile_group(type=line, addrs=A_BETA, mutex_ids=[8])
    stats = pl.make_tile_group(type=column, addrs=A_STAT, mutex_ids=[9])
    stats_flat = pl.make_tile_group(type=flat, addrs=A_STAT, mutex_ids=[9])
    with pl.section_vector():
        g = gammas.current()
        nb = betas.current()
        pl.load(g, gamma, [0, 0])
        pl.load(nb, beta, [0, 0])
        pl.neg(nb, nb)  # added below as x - (-beta): there is no broadcast add
        v = vals.current()
        sq = squares.current()
        tmp = tmps.current()
        st = stats.current()
        sf = stats_flat.current()
        for i in pl.range(pl.get_block_idx(), (ROWS + TR - 1) // TR, pl.get_block_num()):
            vr = pl.min(TR, ROWS - i * TR)
            hi = h_in.next()
            ho = h_out.next()
            pl.set_validshape(hi, [vr, N])
            pl.set_validshape(ho, [vr, N])
            pl.set_validshape(v, [vr, N])
            pl.set_validshape(sq, [vr, N])
            pl.set_validshape(tmp, [vr, N])
            pl.set_validshape(st, [vr, 1])
            pl.set_validshape(sf, [1, vr])
            pl.load(hi, x, [i * TR, 0])
            pl.cast(v, hi)
            pl.sum(st, v, tmp, dim=0)
            pl.mul(sf, sf, INV_N)
            pl.expand_sub(v, v, st, dim=0)
            pl.mul(sq, v, v)
            pl.sum(st, sq, tmp, dim=0)
            pl.mul(sf, sf, INV_N)
            pl.add(sf, sf, EPS)
            pl.rsqrt(sf, sf)
            pl.expand_mul(v, v, st, dim=0)
            pl.expand_mul(v, v, g, dim=1)
            pl.expand_sub(v, v, nb, dim=1)
            pl.cast(ho, v, mode=pl.RoundMode.CAST_RINT)
            pl.store(y, ho, [i * TR, 0])


def inputs():
    rng = np.random.default_rng(505)
    x = (rng.standard_normal((ROWS, N)) * 2 + 0.5).astype(np.float16)
    gamma = rng.uniform(0.5, 1.5, (1, N)).astype(np.float32)
    beta = rng.uniform(-0.5, 0.5, (1, N)).astype(np.float32)
    return x, gamma, beta


def golden(x, gamma, beta):
    f = x.astype(np.float64)
    c = f - f.mean(axis=1, keepdims=True)
    var = (c * c).mean(axis=1, keepdims=True)
    return (c / np.sqrt(var + EPS) * gamma + beta).astype(np.float16)


def main():
    x, gamma, beta = inputs()
    y = np.full_like(x, np.nan)
    layernorm[None, BLOCKS](x, gamma, beta, y)
    want = golden(x, gamma, beta).astype(np.float32)
    ok = np.allclose(y.astype(np.float32), want, rtol=2e-3, atol=2e-3)
    print("PASS layernorm_fp16" if ok else "FAIL layernorm_fp16")
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
