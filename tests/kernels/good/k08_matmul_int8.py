"""k08: C = A @ B with INT8 operands and an exact INT32 result.
Exercises 32-element c0 blocks of 8-bit operands, INT32 Acc, K split, M tail with compact=1, store_tile from Acc.
Tolerance: none, integers."""
import sys

import numpy as np

import pypto_pro.language as pl

M, N, K = 72, 64, 96
TM, TN, TK = 32, 32, 32
N_TILES = N // TN
TOTAL = ((M + TM - 1) // TM) * N_TILES
BLOCKS = 3


@pl.jit(auto_mutex=True)
def matmul_int8(
    a: pl.Tensor[[M, K], pl.DT_INT8],
    b: pl.Tensor[[K, N], pl.DT_INT8],
    c: pl.Tensor[[M, N], pl.DT_INT32],
):
    with pl.section_cube():
        a_l1 = pl.make_tile_group(
            type=pl.TileType(
                shape=[TM, TK], dtype=pl.DT_INT8, target_memory=pl.MemorySpace.Mat, valid_shape=[-1, -1], compact=1
            ),
            addrs=0x0000, mutex_ids=[0, 1],
        )
        b_l1 = pl.make_tile_group(
            type=pl.TileType(shape=[TK, TN], dtype=pl.DT_INT8, target_memory=pl.MemorySpace.Mat),
            addrs=0x2000, mutex_ids=[2, 3],
        )
        a_l0 = pl.make_tile_group(
            type=pl.TileType(
                shape=[TM, TK], dtype=pl.DT_INT8, target_memory=pl.MemorySpace.Left, valid_shape=[-1, -1], compact=1
            ),
            addrs=0x0000, mutex_ids=[4, 5],
        )
        b_l0 = pl.make_tile_group(
            type=pl.TileType(shape=[TK, TN], dtype=pl.DT_INT8, target_memory=pl.MemorySpace.Right),
            addrs=0x0000, mutex_ids=[6, 7],
        )
        accs = pl.make_tile_group(
            type=pl.TileType(
                shape=[TM, TN], dtype=pl.DT_INT32, target_memory=pl.MemorySpace.Acc, valid_shape=[-1, -1], compact=1
            ),
            addrs=0x0000, mutex_ids=[8],
        )
        acc = accs.current()
        for t in pl.range(pl.get_block_idx(), TOTAL, pl.get_block_num()):
            i = t // N_TILES
            j = t % N_TILES
            mv = pl.min(TM, M - i * TM)
            pl.set_validshape(acc, [mv, TN])
            for q in pl.range(0, K // TK):
                left_l1 = a_l1.next()
                right_l1 = b_l1.next()
                left = a_l0.next()
                right = b_l0.next()
                pl.set_validshape(left_l1, [mv, TK])
                pl.set_validshape(left, [mv, TK])
                pl.load_tile(left_l1, a, [i, q])
                pl.load_tile(right_l1, b, [q, j])
                pl.move(left, left_l1)
                pl.move(right, right_l1)
                if q == 0:
                    pl.matmul(acc, left, right)
                else:
                    pl.matmul_acc(acc, acc, left, right)
            pl.store_tile(c, acc, [i, j])


def inputs():
    rng = np.random.default_rng(808)
    a = rng.integers(-128, 128, (M, K)).astype(np.int8)
    b = rng.integers(-128, 128, (K, N)).astype(np.int8)
    return a, b


def golden(a, b):
    return a.astype(np.int32) @ b.astype(np.int32)


def main():
    a, b = inputs()
    c = np.full((M, N), -1, dtype=np.int32)
    matmul_int8[None, BLOCKS](a, b, c)
    ok = np.array_equal(c, golden(a, b))
    print("PASS matmul_int8" if ok else "FAIL matmul_int8")
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
