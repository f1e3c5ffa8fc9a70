"""A transposing copy on registers: indices once a call, then one gather and one aligned store for each output row."""

import numpy as np

import pypto_pro.language as pl
from pypto_pro.language import Vf as vf

SIDE = 64
SLOT = SIDE * SIDE * 4


@pl.vector_function
def transpose_tile(src, dst):
    on = vf.create_mask(dtype=pl.DT_FP32)
    rows = vf.arange(0, dtype=pl.DT_UINT32)
    rows = vf.muls(rows, SIDE, on)
    for c in pl.range(0, SIDE):
        places = vf.adds(rows, c, on)
        column = vf.gather(src, places, on)
        vf.store_align(dst, column, on, SIDE, post_update=True)


@pl.jit(auto_mutex=True)
def transpose(
    x: pl.Tensor[[pl.DYNAMIC, pl.DYNAMIC], pl.DT_FP32], y: pl.Tensor[[pl.DYNAMIC, pl.DYNAMIC], pl.DT_FP32]
):
    tile = pl.TileType(shape=[SIDE, SIDE], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec)
    ins = pl.make_tile_group(type=tile, addrs=0, mutex_ids=[0, 1])
    outs = pl.make_tile_group(type=tile, addrs=2 * SLOT, mutex_ids=[2, 3])
    with pl.section_vector():
        down = x.shape[0] // SIDE
        across = x.shape[1] // SIDE
        for t in pl.range(pl.get_block_idx(), down * across, pl.get_block_num()):
            i = t // across * SIDE
            j = t % across * SIDE
            a = ins.next()
            b = outs.next()
            pl.load(a, x, [i, j])
            transpose_tile(a, b)
            pl.store(y, b, [j, i])


def main() -> None:
    x = np.random.default_rng(5).standard_normal((3 * SIDE, 5 * SIDE)).astype(np.float32)
    y = np.empty(x.shape[::-1], np.float32)
    transpose[None, 4](x, y)
    np.testing.assert_array_equal(y, x.T)
    print(f"vf_transpose: {x.shape[0]} x {x.shape[1]} FP32 on 4 blocks, exact")


if __name__ == "__main__":
    main()
