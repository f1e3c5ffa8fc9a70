"""Row softmax in FP32 on registers: a running maximum, exp and its sum in one pass, then one division a lane."""

import numpy as np

import pypto_pro.language as pl
from pypto_pro.language import Vf as vf

COLS = 1000
ROWS = 8
LANES = 64
PITCH = 1024
SLOT = ROWS * PITCH * 4
CHUNKS = (COLS + LANES - 1) // LANES


@pl.vector_function
def softmax_rows(src, dst, rows: pl.DT_INT64):
    on = vf.create_mask(dtype=pl.DT_FP32)
    for r in pl.range(0, rows):
        peak = vf.full(-3.0e38, on, dtype=pl.DT_FP32)
        for c in pl.range(0, CHUNKS):
            live = vf.update_mask(pl.min(LANES, COLS - c * LANES), dtype=pl.DT_FP32)
            x = vf.load_align(src, [r, c * LANES])
            peak = vf.max(peak, x, live, mode=pl.MergeMode.MERGING)
        top = vf.reduce_max(peak, on)
        top = vf.full(top, on)
        total = vf.full(0.0, on, dtype=pl.DT_FP32)
        for c in pl.range(0, CHUNKS):
            live = vf.update_mask(pl.min(LANES, COLS - c * LANES), dtype=pl.DT_FP32)
            x = vf.load_align(src, [r, c * LANES])
            e = vf.exp_sub(x, top, live)
            total = vf.add(total, e, on)
            vf.store_align(dst, e, live, [r, c * LANES])
        total = vf.reduce_sum(total, on)
        total = vf.full(total, on)
        vf.mem_bar(mode=pl.MemBarMode.VST_VLD)
        for c in pl.range(0, CHUNKS):
            live = vf.update_mask(pl.min(LANES, COLS - c * LANES), dtype=pl.DT_FP32)
            e = vf.load_align(dst, [r, c * LANES])
            q = vf.div(e, total, live)
            vf.store_align(dst, q, live, [r, c * LANES])


@pl.jit(auto_mutex=True)
def softmax(x: pl.Tensor[[pl.DYNAMIC, COLS], pl.DT_FP32], y: pl.Tensor[[pl.DYNAMIC, COLS], pl.DT_FP32]):
    wide = pl.TileType(
        shape=[ROWS, PITCH], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec, valid_shape=[-1, -1]
    )
    ins = pl.make_tile_group(type=wide, addrs=0, mutex_ids=[0, 1])
    outs = pl.make_tile_group(type=wide, addrs=2 * SLOT, mutex_ids=[2, 3])
    with pl.section_vector():
        rows = x.shape[0]
        for r in pl.range(pl.get_block_idx() * ROWS, rows, pl.get_block_num() * ROWS):
            here = pl.min(ROWS, rows - r)
            a = ins.next()
            b = outs.next()
            pl.set_validshape(a, [here, COLS])
            pl.set_validshape(b, [here, COLS])
            pl.load(a, x, [r, 0])
            softmax_rows(a, b, here)
            pl.store(y, b, [r, 0])


def main() -> None:
    x = np.random.default_rng(1).uniform(-8, 8, (61, COLS)).astype(np.float32)
    y = np.empty_like(x)
    softmax[None, 4](x, y)
    e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    error = np.abs(y - e / e.sum(axis=1, keepdims=True)).max()
    assert error < 1e-6, error
    print(f"vf_softmax: {x.shape[0]} x {COLS} FP32 on 4 blocks, largest error {error:.1e}")


if __name__ == "__main__":
    main()
