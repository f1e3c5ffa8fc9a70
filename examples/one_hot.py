"""One-hot rows from labels: a scatter of ones into a tile that the scatter itself clears."""

import numpy as np

import pypto_pro.language as pl

CLASSES = 96
ROWS = 64
SLOT = ROWS * CLASSES * 4
LINE = ROWS * 4


@pl.jit
def one_hot(
    labels: pl.Tensor[[1, pl.DYNAMIC], pl.DT_INT32],
    y: pl.Tensor[[pl.DYNAMIC, CLASSES], pl.DT_FP32],
):
    wide = pl.TileType(shape=[ROWS, CLASSES], dtype=pl.DT_FP32, valid_shape=[-1, -1])
    ints = pl.TileType(shape=[1, ROWS], dtype=pl.DT_INT32, valid_shape=[-1, -1])
    floats = pl.TileType(shape=[1, ROWS], dtype=pl.DT_FP32)
    outs = pl.make_tile_group(type=wide, addrs=0, mutex_ids=[0, 1])
    ins = pl.make_tile_group(type=ints, addrs=2 * SLOT, mutex_ids=[2, 3])
    starts = pl.make_tile_group(type=ints, addrs=2 * SLOT + 2 * LINE, mutex_ids=[4])
    ones = pl.make_tile_group(type=floats, addrs=2 * SLOT + 3 * LINE, mutex_ids=[5])
    with pl.section_vector():
        start = starts.current()
        one = ones.current()
        pl.expands(one, 1.0)
        pl.fill_index(start, 0)
        pl.mul(start, start, CLASSES)  # where each row of a tile begins, in elements
        rows = y.shape[0]
        for r in pl.range(pl.get_block_idx() * ROWS, rows, pl.get_block_num() * ROWS):
            here = pl.min(ROWS, rows - r)
            label = ins.next()
            b = outs.next()
            pl.set_validshape(label, [1, here])
            pl.set_validshape(b, [here, CLASSES])
            pl.load(label, labels, [0, r])
            pl.add(label, label, start)
            pl.scatter(b, one, label)
            pl.store(y, b, [r, 0])


def main() -> None:
    labels = np.random.default_rng(1).integers(0, CLASSES, (1, 1000)).astype(np.int32)
    y = np.empty((1000, CLASSES), np.float32)
    one_hot[None, 4](labels, y)
    assert (y == np.eye(CLASSES, dtype=np.float32)[labels[0]]).all()
    print(f"one_hot: 1000 labels of {CLASSES} classes on 4 blocks, equal to numpy")


if __name__ == "__main__":
    main()
