"""z = x + y: the shortest useful kernel. Two slots a tensor, tails by valid shape, any number of blocks."""

import numpy as np

import pypto_pro.language as pl

TILE = [64, 128]


@pl.jit
def add(
    x: pl.Tensor[[pl.DYNAMIC, 128], pl.DT_FP16],
    y: pl.Tensor[[pl.DYNAMIC, 128], pl.DT_FP16],
    z: pl.Tensor[[pl.DYNAMIC, 128], pl.DT_FP16],
):
    tile = pl.TileType(shape=TILE, dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Vec, valid_shape=[-1, -1])
    xs = pl.make_tile_group(type=tile, addrs=0x0000, mutex_ids=[0, 1])
    ys = pl.make_tile_group(type=tile, addrs=0x8000, mutex_ids=[2, 3])
    with pl.section_vector():
        rows = x.shape[0]
        for r in pl.range(pl.get_block_idx() * 64, rows, pl.get_block_num() * 64):
            a = xs.next()
            b = ys.next()
            pl.set_validshape(a, [pl.min(64, rows - r), 128])
            pl.set_validshape(b, [pl.min(64, rows - r), 128])
            pl.load(a, x, [r, 0])
            pl.load(b, y, [r, 0])
            pl.add(a, a, b)
            pl.store(z, a, [r, 0])


def main() -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((1000, 128)).astype(np.float16) for _ in range(2))
    z = np.empty_like(x)
    add[None, 4](x, y, z)
    assert np.array_equal(z, x + y)
    print("add: 1000 x 128 FP16 on 4 blocks, equal to numpy bit for bit")


if __name__ == "__main__":
    main()
