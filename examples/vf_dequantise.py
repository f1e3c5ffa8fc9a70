"""INT8 weights to FP16 on registers: bytes spread over 16-bit lanes, a zero point a column, a scale each 16 columns."""

import numpy as np

import pypto_pro.language as pl
from pypto_pro.language import Vf as vf

COLS = 256
ROWS = 16
GROUP = 16
LANES = 128


@pl.vector_function
def dequantise_rows(codes, scales, zeros, dst, rows: pl.DT_INT64):
    b8 = vf.create_mask(dtype=pl.DT_INT8)
    b16 = vf.create_mask(dtype=pl.DT_FP16)
    for r in pl.range(0, rows):
        for c in pl.range(0, COLS, LANES):
            q = vf.load_align(codes, [r, c], dist=pl.LoadDist.UNPK_B8)  # a byte in every even 8-bit lane
            x = vf.astype(q, b8, dtype=pl.DT_FP16)
            z = vf.load_align(zeros, c)
            x = vf.sub(x, z, b16)
            s = vf.load_align(scales, [r, c // GROUP], dist=pl.LoadDist.E2B_B16)  # eight scales, 16 lanes each
            x = vf.mul(x, s, b16)
            vf.store_align(dst, x, b16, [r, c])


@pl.jit(auto_mutex=True)
def dequantise(
    codes: pl.Tensor[[pl.DYNAMIC, COLS], pl.DT_INT8], scales: pl.Tensor[[pl.DYNAMIC, COLS // GROUP], pl.DT_FP16],
    zeros: pl.Tensor[[1, COLS], pl.DT_FP16], y: pl.Tensor[[pl.DYNAMIC, COLS], pl.DT_FP16],
):
    vec = pl.MemorySpace.Vec
    bytes_ = pl.TileType(shape=[ROWS, COLS], dtype=pl.DT_INT8, target_memory=vec, valid_shape=[-1, -1])
    halves = pl.TileType(shape=[ROWS, COLS], dtype=pl.DT_FP16, target_memory=vec, valid_shape=[-1, -1])
    factors = pl.TileType(shape=[ROWS, COLS // GROUP], dtype=pl.DT_FP16, target_memory=vec, valid_shape=[-1, -1])
    line = pl.TileType(shape=[1, COLS], dtype=pl.DT_FP16, target_memory=vec)
    ins = pl.make_tile_group(type=bytes_, addrs=0, mutex_ids=[0, 1])
    outs = pl.make_tile_group(type=halves, addrs=0x2000, mutex_ids=[2, 3])
    steps = pl.make_tile_group(type=factors, addrs=0x6000, mutex_ids=[4, 5])
    points = pl.make_tile_group(type=line, addrs=0x7000, mutex_ids=[6])
    with pl.section_vector():
        rows = codes.shape[0]
        z = points.current()
        pl.load(z, zeros, [0, 0])
        for r in pl.range(pl.get_block_idx() * ROWS, rows, pl.get_block_num() * ROWS):
            here = pl.min(ROWS, rows - r)
            q = ins.next()
            s = steps.next()
            b = outs.next()
            pl.set_validshape(q, [here, COLS])
            pl.set_validshape(s, [here, COLS // GROUP])
            pl.set_validshape(b, [here, COLS])
            pl.load(q, codes, [r, 0])
            pl.load(s, scales, [r, 0])
            dequantise_rows(q, s, z, b, here)
            pl.store(y, b, [r, 0])


def main() -> None:
    rng = np.random.default_rng(3)
    codes = rng.integers(-128, 128, (75, COLS), np.int8)
    scales = rng.uniform(0.01, 0.1, (75, COLS // GROUP)).astype(np.float16)
    zeros = rng.integers(-8, 9, (1, COLS)).astype(np.float16)
    y = np.empty(codes.shape, np.float16)
    dequantise[None, 4](codes, scales, zeros, y)
    want = (codes.astype(np.float16) - zeros) * np.repeat(scales, GROUP, axis=1)
    np.testing.assert_array_equal(y, want)
    print(f"vf_dequantise: {codes.shape[0]} x {COLS} INT8 to FP16 on 4 blocks, exact")


if __name__ == "__main__":
    main()
