"""The k largest of a row of bytes on registers: a cumulative histogram finds the threshold, a squeeze collects.

BIN0 and BIN1 give the counts of values up to n for n = 0..255. The k-th largest value t is the smallest whose count of
values up to it exceeds n - k; everything above it is kept, then as many equal to it as are missing.
"""

import numpy as np

import pypto_pro.language as pl
from pypto_pro.language import Vf as vf

COLS = 1024
K = 100
LANES = 256
BINS = 128


@pl.vector_function
def threshold(src, found, k: pl.DT_INT64):
    """found[0]: how many bins hold counts of at most n - k, which is the k-th largest value."""
    b8 = vf.create_mask(dtype=pl.DT_UINT8)
    b16 = vf.create_mask(dtype=pl.DT_UINT16)
    low = vf.full(0, b16, dtype=pl.DT_UINT16)
    high = vf.full(0, b16, dtype=pl.DT_UINT16)
    for c in pl.range(0, COLS, LANES):
        x = vf.load_align(src, c)
        low = vf.histograms(x, b8, bin_type=pl.BinType.BIN0, hist_type=pl.HistType.ACCUMULATE)
        high = vf.histograms(x, b8, bin_type=pl.BinType.BIN1, hist_type=pl.HistType.ACCUMULATE)
    one = vf.full(1, b16, dtype=pl.DT_UINT16)
    none = vf.full(0, b16, dtype=pl.DT_UINT16)
    below_low = vf.le(low, COLS - k, b16)
    below_high = vf.le(high, COLS - k, b16)
    low = vf.select(one, none, below_low)
    high = vf.select(one, none, below_high)
    both = vf.add(low, high, b16)
    both = vf.reduce_sum(both, b16)
    vf.store_align(found, both, b16, dist=pl.StoreDist.FIRST_ELEMENT)


@pl.vector_function
def collect(src, found, dst, k: pl.DT_INT64):
    """The values above the threshold, in order, and then the threshold up to k values."""
    b8 = vf.create_mask(dtype=pl.DT_UINT8)
    t = vf.load_align(found, 0, dist=pl.LoadDist.BRC_B8, dtype=pl.DT_UINT8)
    u = vf.unalign_reg_for_store()
    vf.clear_spr()
    for c in pl.range(0, COLS, LANES):
        x = vf.load_align(src, c)
        above = vf.gt(x, t, b8)
        kept = vf.squeeze(x, above, gather_mode=pl.SqueezeMode.STORE_REG)
        vf.store_unalign(dst, kept, u)
    # k copies of the threshold follow; what is past k values is not looked at
    for _ in pl.range(0, K, LANES):
        vf.store_unalign(dst, t, u, LANES, post_update=True)
    vf.store_unalign_post(dst, u, 0, post_update=True)


@pl.jit(auto_mutex=True)
def topk(x: pl.Tensor[[pl.DYNAMIC, COLS], pl.DT_UINT8], y: pl.Tensor[[pl.DYNAMIC, K], pl.DT_UINT8]):
    vec = pl.MemorySpace.Vec
    row = pl.TileType(shape=[1, COLS], dtype=pl.DT_UINT8, target_memory=vec)
    out = pl.TileType(shape=[1, 512], dtype=pl.DT_UINT8, target_memory=vec, valid_shape=[-1, -1])
    word = pl.TileType(shape=[1, 16], dtype=pl.DT_UINT16, target_memory=vec)
    ins = pl.make_tile_group(type=row, addrs=0, mutex_ids=[0, 1])
    outs = pl.make_tile_group(type=out, addrs=0x800, mutex_ids=[2, 3])
    words = pl.make_tile_group(type=word, addrs=0xC00, mutex_ids=[4])
    with pl.section_vector():
        found = words.current()
        for r in pl.range(pl.get_block_idx(), x.shape[0], pl.get_block_num()):
            a = ins.next()
            b = outs.next()
            pl.set_validshape(b, [1, K])
            pl.load(a, x, [r, 0])
            threshold(a, found, K)
            collect(a, found, b, K)
            pl.store(y, b, [r, 0])


def main() -> None:
    rng = np.random.default_rng(4)
    x = rng.integers(0, 256, (21, COLS), np.uint8)
    x[3] = 7
    x[5, :50] = 255
    y = np.zeros((21, K), np.uint8)
    topk[None, 4](x, y)
    want = np.sort(x, axis=1)[:, ::-1][:, :K]
    np.testing.assert_array_equal(np.sort(y, axis=1)[:, ::-1], want)
    print(f"vf_topk: the {K} largest of {COLS} bytes, {x.shape[0]} rows on 4 blocks, exact")


if __name__ == "__main__":
    main()
