"""The K largest values of each row and where they stand: sort32, then two rounds of four-way merging."""

import numpy as np

import pypto_pro.language as pl

COLS = 512  # 16 groups of 32, merged to 4 runs of 128, merged to one
K = 16
RECORDS = COLS * 2  # a record is two FP32 elements: value, index
ROW = COLS * 4


@pl.jit
def topk(
    x: pl.Tensor[[pl.DYNAMIC, COLS], pl.DT_FP32],
    values: pl.Tensor[[pl.DYNAMIC, K], pl.DT_FP32],
    indices: pl.Tensor[[pl.DYNAMIC, K], pl.DT_INT32],
):
    line = pl.TileType(shape=[1, COLS], dtype=pl.DT_FP32)
    numbers = pl.TileType(shape=[1, COLS], dtype=pl.DT_UINT32)
    records = pl.TileType(shape=[1, RECORDS], dtype=pl.DT_FP32)
    best = pl.TileType(shape=[1, 2 * K], dtype=pl.DT_FP32)
    best_bits = pl.TileType(shape=[1, 2 * K], dtype=pl.DT_INT32)
    few = pl.TileType(shape=[1, K], dtype=pl.DT_FP32)
    few_bits = pl.TileType(shape=[1, K], dtype=pl.DT_INT32)
    ins = pl.make_tile_group(type=line, addrs=0, mutex_ids=[0, 1])
    orders = pl.make_tile_group(type=numbers, addrs=2 * ROW, mutex_ids=[2])
    firsts = pl.make_tile_group(type=records, addrs=3 * ROW, mutex_ids=[3])
    seconds = pl.make_tile_group(type=records, addrs=5 * ROW, mutex_ids=[4])
    # the head of the sorted records, read as values and as bits
    heads = pl.make_tile_group(type=best, addrs=3 * ROW, mutex_ids=[3])
    head_bits = pl.make_tile_group(type=best_bits, addrs=3 * ROW, mutex_ids=[3])
    tops = pl.make_tile_group(type=few, addrs=7 * ROW, mutex_ids=[5, 6])
    places = pl.make_tile_group(type=few_bits, addrs=7 * ROW + 8 * K, mutex_ids=[7, 8])
    with pl.section_vector():
        order = orders.current()
        first = firsts.current()
        second = seconds.current()
        pl.fill_index(order, 0)
        for r in pl.range(pl.get_block_idx(), x.shape[0], pl.get_block_num()):
            a = ins.next()
            top = tops.next()
            place = places.next()
            pl.load(a, x, [r, 0])
            pl.sort32(first, a, order)
            pl.mrgsort(second, first, block_len=64)
            pl.mrgsort(first, second, block_len=256)
            pl.gathermask(top, heads.current(), pattern_mode=1)
            pl.gathermask(place, head_bits.current(), pattern_mode=2)
            pl.store(values, top, [r, 0])
            pl.store(indices, place, [r, 0])


def main() -> None:
    x = np.random.default_rng(1).integers(-300, 300, (77, COLS)).astype(np.float32)  # with ties
    values, indices = np.empty((77, K), np.float32), np.empty((77, K), np.int32)
    topk[None, 4](x, values, indices)
    order = np.argsort(-x, axis=1, kind="stable")[:, :K]  # of equal values the first comes first
    assert (indices == order).all()
    assert (values == np.take_along_axis(x, order, 1)).all()
    print(f"topk: {K} of {COLS} in 77 rows on 4 blocks, equal to a stable sort")


if __name__ == "__main__":
    main()
