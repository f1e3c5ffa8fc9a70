"""k18: all blocks add their tiles into one output with atomic stores; a second INT32 output counts contributions.
Exercises store(..., atomic=AtomicAdd) from several blocks, several times each, FP32 and INT32, partial valid shape.
Tolerance: none, the FP32 data are small integers, so every order of addition gives the same bits."""
import sys

import numpy as np

import pypto_pro.language as pl

TR, TC = 16, 64
VR, VC = 13, 50
TILES = 9
BLOCKS = 4


@pl.jit(auto_mutex=True)
def accumulate(
    x: pl.Tensor[[TILES, VR, VC], pl.DT_FP32],
    total: pl.Tensor[[VR, VC], pl.DT_FP32],
    count: pl.Tensor[[1, 8], pl.DT_INT32],
):
    with pl.section_vector():
        xs = pl.make_tile_group(
            type=pl.TileType(
                shape=[TR, TC], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec, valid_shape=[VR, VC]
            ),
            addrs=0x0000, mutex_ids=[0, 1],
        )
        ones = pl.make_tile_group(
            type=pl.TileType(shape=[1, 8], dtype=pl.DT_INT32, target_memory=pl.MemorySpace.Vec),
            addrs=0x4000, mutex_ids=[2],
        )
        one = ones.current()
        pl.expands(one, 1)
        for t in pl.range(pl.get_block_idx(), TILES, pl.get_block_num()):
            xt = xs.next()
            pl.load(xt, x, [t, 0, 0])
            pl.mul(xt, xt, 2.0)
            pl.store(total, xt, [0, 0], atomic=pl.AtomicType.AtomicAdd)
            pl.store(count, one, [0, 0], atomic=pl.AtomicType.AtomicAdd)


def inputs():
    rng = np.random.default_rng(1818)
    return (rng.integers(-50, 51, (TILES, VR, VC)).astype(np.float32),)


def golden(x):
    return 2 * x.sum(axis=0, dtype=np.float32), np.full((1, 8), TILES, dtype=np.int32)


def main():
    (x,) = inputs()
    total = np.zeros((VR, VC), dtype=np.float32)
    count = np.zeros((1, 8), dtype=np.int32)
    accumulate[None, BLOCKS](x, total, count)
    want_total, want_count = golden(x)
    ok = np.array_equal(total, want_total) and np.array_equal(count, want_count)
    print("PASS store_atomic" if ok else "FAIL store_atomic")
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
