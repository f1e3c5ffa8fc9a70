"""k13: row softmax on registers: running maximum, exp kept in UB scratch, then a sweep that divides.
Exercises update_mask, MERGING, reduce_*, lane-0 broadcast, exp_sub, masked store_align, mem_bar store -> load.
Tolerance: rtol 1e-4, atol 1e-6."""
import sys

import numpy as np

import pypto_pro.language as pl
from pypto_pro.language import Vf as vf  # noqa: N813

ROWS, COLS = 20, 100
TR, TC = 8, 128
LANES = 64
LOWEST = -3.0e38
SLOT = TR * TC * 4
BLOCKS = 2


@pl.vector_function
def softmax_registers(src, work, dst, rows: pl.DT_INT64, cols: pl.DT_INT64):
    on = vf.create_mask(pattern=pl.MaskPattern.ALL, dtype=pl.DT_FP32)
    chunks = (cols + LANES - 1) // LANES
    for r in pl.range(0, rows):
        peak = vf.full(LOWEST, on, dtype=pl.DT_FP32)
        for c in pl.range(0, chunks):
            live = vf.update_mask(pl.min(LANES, cols - c * LANES), dtype=pl.DT_FP32)
            v = vf.load_align(src, [r, c * LANES])
            peak = vf.max(peak, v, live, mode=pl.MergeMode.MERGING)
        top = vf.reduce_max(peak, on)
        top = vf.full(top, on)
        acc = vf.full(0.0, on, dtype=pl.DT_FP32)
        for c in pl.range(0, chunks):
            live = vf.update_mask(pl.min(LANES, cols - c * LANES), dtype=pl.DT_FP32)
            v = vf.load_align(src, [r, c * LANES])
            e = vf.exp_sub(v, top, live)
            acc = vf.add(acc, e, on)
            vf.store_align(work, e, live, [r, c * LANES])
        tot = vf.reduce_sum(acc, on)
        tot = vf.full(tot, on)
        vf.mem_bar(mode=pl.MemBarMode.VST_VLD)
        for c in pl.range(0, chunks):
            live = vf.update_mask(pl.min(LANES, cols - c * LANES), dtype=pl.DT_FP32)
            e = vf.load_align(work, r * TC + c * LANES)
            q = vf.div(e, tot, live)
            vf.store_align(dst + (r * TC + c * LANES), q, live)


@pl.jit(auto_mutex=True)
def softmax_vf(
    x: pl.Tensor[[ROWS, COLS], pl.DT_FP32],
    y: pl.Tensor[[ROWS, COLS], pl.DT_FP32],
):
    tile_type = pl.TileType(
        shape=[TR, TC], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec, valid_shape=[-1, -1]
    )
    ins = pl.make_tile_group(type=tile_type, addrs=0 * SLOT, mutex_ids=[0, 1])
    works = pl.make_tile_group(type=tile_type, addrs=2 * SLOT, mutex_ids=[2])
    outs = pl.make_tile_group(type=tile_type, addrs=3 * SLOT, mutex_ids=[3, 4])
    with pl.section_vector():
        work = works.current()
        for i in pl.range(pl.get_block_idx(), (ROWS + TR - 1) // TR, pl.get_block_num()):
            vr = pl.min(TR, ROWS - i * TR)
            xt = ins.next()
            yt = outs.next()
            pl.set_validshape(xt, [vr, COLS])
            pl.set_validshape(yt, [vr, COLS])
            pl.load(xt, x, [i * TR, 0])
            softmax_registers(xt, work, yt, vr, COLS)
            pl.store(y, yt, [i * TR, 0])


def inputs():
    rng = np.random.default_rng(1313)
    return (rng.uniform(-8, 8, (ROWS, COLS)).astype(np.float32),)


def golden(x):
    e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    return (e / e.sum(axis=1, keepdims=True)).astype(np.float32)


def main():
    (x,) = inputs()
    y = np.full_like(x, np.nan)
    softmax_vf[None, BLOCKS](x, y)
    ok = np.allclose(y, golden(x), rtol=1e-4, atol=1e-6)
    print("PASS vf_softmax" if ok else "FAIL vf_softmax")
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
