"""k06: C = A @ B, FP16 in, FP32 out, any M, N, K, K split over matmul then matmul_acc.
Exercises double-buffered L1/L0 groups, a helper returning a group tile, rotating Acc slots, M/N/K tails, compact=1.
Tolerance: rtol 1e-3, atol 1e-3."""
import sys

import numpy as np

import pypto_pro.language as pl

M, N, K = 72, 56, 168
TM, TN, TK = 32, 32, 64
BLOCKS = 4


def fetch(l1_group, l0_group, src, row, col, rows, cols):
    l1 = l1_group.next()
    l0 = l0_group.next()
    pl.set_validshape(l1, [rows, cols])
    pl.set_validshape(l0, [rows, cols])
    pl.load(l1, src, [row, col])
    pl.move(l0, l1)
    return l0


@pl.jit(auto_mutex=True)
def matmul_kloop(
    a: pl.Tensor[[pl.DYNAMIC, pl.DYNAMIC], pl.DT_FP16],
    b: pl.Tensor[[pl.DYNAMIC, pl.DYNAMIC], pl.DT_FP16],
    c: pl.Tensor[[pl.DYNAMIC, pl.DYNAMIC], pl.DT_FP32],
):
    with pl.section_cube():
        a_l1 = pl.make_tile_group(
            type=pl.TileType(
                shape=[TM, TK], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Mat, valid_shape=[-1, -1], compact=1
            ),
            addrs=0x0000, mutex_ids=[0, 1],
        )
        b_l1 = pl.make_tile_group(
            type=pl.TileType(
                shape=[TK, TN], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Mat, valid_shape=[-1, -1], compact=1
            ),
            addrs=0x4000, mutex_ids=[2, 3],
        )
        a_l0 = pl.make_tile_group(
            type=pl.TileType(
                shape=[TM, TK], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Left, valid_shape=[-1, -1], compact=1
            ),
            addrs=0x0000, mutex_ids=[4, 5],
        )
        b_l0 = pl.make_tile_group(
            type=pl.TileType(
                shape=[TK, TN], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Right, valid_shape=[-1, -1], compact=1
            ),
            addrs=0x0000, mutex_ids=[6, 7],
        )
        accs = pl.make_tile_group(
            type=pl.TileType(
                shape=[TM, TN], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Acc, valid_shape=[-1, -1], compact=1
            ),
            addrs=0x0000, mutex_ids=[8, 9],
        )
        m = c.shape[0]
        n = c.shape[1]
        k = a.shape[1]
        n_tiles = (n + TN - 1) // TN
        total = ((m + TM - 1) // TM) * n_tiles
        for t in pl.range(pl.get_block_idx(), total, pl.get_block_num()):
            m0 = (t // n_tiles) * TM
            n0 = (t % n_tiles) * TN
            mv = pl.min(TM, m - m0)
            nv = pl.min(TN, n - n0)
            acc = accs.next()
            pl.set_validshape(acc, [mv, nv])
            for k0 in pl.range(0, k, TK):
                kv = pl.min(TK, k - k0)
                left = fetch(a_l1, a_l0, a, m0, k0, mv, kv)
                right = fetch(b_l1, b_l0, b, k0, n0, kv, nv)
                if k0 == 0:
                    pl.matmul(acc, left, right)
                else:
                    pl.matmul_acc(acc, acc, left, right)
            pl.store(c, acc, [m0, n0])


def inputs():
    rng = np.random.default_rng(606)
    a = rng.uniform(-1, 1, (M, K)).astype(np.float16)
    b = rng.uniform(-1, 1, (K, N)).astype(np.float16)
    return a, b


def golden(a, b):
    return a.astype(np.float32) @ b.astype(np.float32)


def main():
    a, b = inputs()
    c = np.full((M, N), np.nan, dtype=np.float32)
    matmul_kloop[None, BLOCKS](a, b, c)
    ok = np.allclose(c, golden(a, b), rtol=1e-3, atol=1e-3)
    print("PASS matmul_kloop" if ok else "FAIL matmul_kloop")
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
