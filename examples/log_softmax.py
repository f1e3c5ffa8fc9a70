"""Row log-softmax in FP32: x - max - log(sum(exp(x - max))), and the loss of the labelled class by a gather."""

import numpy as np

import pypto_pro.language as pl

COLS = 512
ROWS = 16
SLOT = ROWS * COLS * 4


@pl.jit
def log_softmax(
    x: pl.Tensor[[pl.DYNAMIC, COLS], pl.DT_FP32],
    labels: pl.Tensor[[1, pl.DYNAMIC], pl.DT_INT32],
    y: pl.Tensor[[pl.DYNAMIC, COLS], pl.DT_FP32],
    picked: pl.Tensor[[1, pl.DYNAMIC], pl.DT_FP32],
):
    wide = pl.TileType(shape=[ROWS, COLS], dtype=pl.DT_FP32, valid_shape=[-1, -1])
    column = pl.TileType(shape=[ROWS, 1], dtype=pl.DT_FP32, layout=pl.DN, valid_shape=[-1, -1])
    row = pl.TileType(shape=[1, ROWS], dtype=pl.DT_FP32, valid_shape=[-1, -1])
    index = pl.TileType(shape=[1, ROWS], dtype=pl.DT_INT32, valid_shape=[-1, -1])
    ins = pl.make_tile_group(type=wide, addrs=0, mutex_ids=[0, 1])
    outs = pl.make_tile_group(type=wide, addrs=2 * SLOT, mutex_ids=[2, 3])
    scratch = pl.make_tile_group(type=wide, addrs=4 * SLOT, mutex_ids=[4])
    small = 5 * SLOT
    as_column = pl.make_tile_group(type=column, addrs=small, mutex_ids=[5])
    as_row = pl.make_tile_group(type=row, addrs=small, mutex_ids=[5])
    targets = pl.make_tile_group(type=index, addrs=[small + 64, small + 128], mutex_ids=[6, 7])
    starts = pl.make_tile_group(type=index, addrs=small + 192, mutex_ids=[8])
    losses = pl.make_tile_group(type=row, addrs=[small + 256, small + 320], mutex_ids=[9, 10])
    with pl.section_vector():
        e = scratch.current()
        stat = as_column.current()
        stat_row = as_row.current()
        start = starts.current()
        pl.fill_index(start, 0)
        pl.mul(start, start, COLS)  # where each row of a tile begins, in elements
        rows = x.shape[0]
        for r in pl.range(pl.get_block_idx() * ROWS, rows, pl.get_block_num() * ROWS):
            here = pl.min(ROWS, rows - r)
            a = ins.next()
            b = outs.next()
            t = targets.next()
            loss = losses.next()
            pl.set_validshape(a, [here, COLS])
            pl.set_validshape(b, [here, COLS])
            pl.set_validshape(e, [here, COLS])
            pl.set_validshape(stat, [here, 1])
            pl.set_validshape(stat_row, [1, here])
            pl.set_validshape(t, [1, here])
            pl.set_validshape(loss, [1, here])
            pl.load(a, x, [r, 0])
            pl.load(t, labels, [0, r])
            pl.maximum(stat, a, e, dim=0)
            pl.expand_sub(b, a, stat, dim=0)
            pl.exp(e, b)
            pl.sum(stat, e, a, dim=0)
            pl.log(stat_row, stat_row)
            pl.expand_sub(b, b, stat, dim=0)
            pl.add(t, t, start)
            pl.gather(loss, b, t, start)
            pl.store(y, b, [r, 0])
            pl.store(picked, loss, [0, r])


def main() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(0, 4, (203, COLS)).astype(np.float32)
    labels = rng.integers(0, COLS, (1, 203)).astype(np.int32)
    y, picked = np.empty_like(x), np.empty((1, 203), np.float32)
    log_softmax[None, 4](x, labels, y, picked)
    wide = x.astype(np.float64)
    shifted = wide - wide.max(axis=1, keepdims=True)
    wanted = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    error = np.abs(y - wanted).max()
    assert error < 5e-6, error
    assert (picked[0] == y[np.arange(203), labels[0]]).all()
    print(f"log_softmax: 203 x {COLS} FP32 on 4 blocks, largest error {error:.1e}")


if __name__ == "__main__":
    main()
