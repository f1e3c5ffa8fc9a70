"""k16: block-scaled matmul: FP8 E4M3 operands, one E8M0 scale per 32 elements of K, M tail.
Exercises MX scale loads, ZZ/NN scale tiles at data address >> 4 in both slots, matmul_mx(_acc), Partial/Final phases.
Tolerance: rtol 1e-3, atol 1e-3."""
import sys

import ml_dtypes
import numpy as np

import pypto_pro.language as pl

M, N, K = 48, 64, 192
TM, TN, TK = 32, 32, 64
GROUPS = TK // 32
N_TILES = N // TN
TOTAL = ((M + TM - 1) // TM) * N_TILES
BLOCKS = 2
LEFT0, LEFT1 = 0x0, TM * TK
RIGHT0, RIGHT1 = 0x0, TK * TN


@pl.jit(auto_mutex=True)
def matmul_mx(
    a: pl.Tensor[[M, K], pl.DT_FP8E4M3FN],
    b: pl.Tensor[[K, N], pl.DT_FP8E4M3FN],
    sa: pl.Tensor[[M, K // 64, 2], pl.DT_FP8E8M0],
    sb: pl.Tensor[[K // 64, N, 2], pl.DT_FP8E8M0],
    c: pl.Tensor[[M, N], pl.DT_FP32],
):
    with pl.section_cube():
        a_l1 = pl.make_tile_group(
            type=pl.TileType(
                shape=[TM, TK], dtype=pl.DT_FP8E4M3FN, target_memory=pl.MemorySpace.Mat, valid_shape=[-1, -1]
            ),
            addrs=0x0000, mutex_ids=[0, 1],
        )
        b_l1 = pl.make_tile_group(
            type=pl.TileType(shape=[TK, TN], dtype=pl.DT_FP8E4M3FN, target_memory=pl.MemorySpace.Mat),
            addrs=0x2000, mutex_ids=[2, 3],
        )
        sa_l1 = pl.make_tile_group(
            type=pl.TileType(
                shape=[TM, GROUPS], dtype=pl.DT_FP8E8M0, target_memory=pl.MemorySpace.Mat, layout=pl.ZZ,
                valid_shape=[-1, -1],
            ),
            addrs=0x4000, mutex_ids=[4, 5],
        )
        sb_l1 = pl.make_tile_group(
            type=pl.TileType(
                shape=[GROUPS, TN], dtype=pl.DT_FP8E8M0, target_memory=pl.MemorySpace.Mat, layout=pl.NN
            ),
            addrs=0x5000, mutex_ids=[6, 7],
        )
        a_l0 = pl.make_tile_group(
            type=pl.TileType(
                shape=[TM, TK], dtype=pl.DT_FP8E4M3FN, target_memory=pl.MemorySpace.Left, valid_shape=[-1, -1],
                compact=1,
            ),
            addrs=[LEFT0, LEFT1], mutex_ids=[8, 9],
        )
        b_l0 = pl.make_tile_group(
            type=pl.TileType(shape=[TK, TN], dtype=pl.DT_FP8E4M3FN, target_memory=pl.MemorySpace.Right),
            addrs=[RIGHT0, RIGHT1], mutex_ids=[10, 11],
        )
        sa_l0 = pl.make_tile_group(
            type=pl.TileType(
                shape=[TM, GROUPS], dtype=pl.DT_FP8E8M0, target_memory=pl.MemorySpace.ScaleLeft, valid_shape=[-1, -1],
                compact=1,
            ),
            addrs=[LEFT0 >> 4, LEFT1 >> 4], mutex_ids=[12, 13],
        )
        sb_l0 = pl.make_tile_group(
            type=pl.TileType(shape=[GROUPS, TN], dtype=pl.DT_FP8E8M0, target_memory=pl.MemorySpace.ScaleRight),
            addrs=[RIGHT0 >> 4, RIGHT1 >> 4], mutex_ids=[14, 15],
        )
        accs = pl.make_tile_group(
            type=pl.TileType(
                shape=[TM, TN], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Acc, valid_shape=[-1, -1], compact=1
            ),
            addrs=0x0000, mutex_ids=[16],
        )
        acc = accs.current()
        for t in pl.range(pl.get_block_idx(), TOTAL, pl.get_block_num()):
            m0 = (t // N_TILES) * TM
            n0 = (t % N_TILES) * TN
            mv = pl.min(TM, M - m0)
            pl.set_validshape(acc, [mv, TN])
            for k0 in pl.range(0, K, TK):
                am = a_l1.next()
                bm = b_l1.next()
                sam = sa_l1.next()
                sbm = sb_l1.next()
                left = a_l0.next()
                right = b_l0.next()
                sl = sa_l0.next()
                sr = sb_l0.next()
                pl.set_validshape(am, [mv, TK])
                pl.set_validshape(sam, [mv, GROUPS])
                pl.set_validshape(left, [mv, TK])
                pl.set_validshape(sl, [mv, GROUPS])
                pl.load(am, a, [m0, k0])
                pl.load(bm, b, [k0, n0])
                pl.load(sam, sa, [m0, k0 // 64, 0])
                pl.load(sbm, sb, [k0 // 64, n0, 0])
                pl.move(left, am)
                pl.move(right, bm)
                pl.move(sl, sam)
                pl.move(sr, sbm)
                if k0 == 0:
                    pl.matmul_mx(acc, left, right, sl, sr, phase=pl.AccPhase.Partial)
                elif k0 + TK < K:
                    pl.matmul_mx_acc(acc, acc, left, right, sl, sr, phase=pl.AccPhase.Partial)
                else:
                    pl.matmul_mx_acc(acc, acc, left, right, sl, sr, phase=pl.AccPhase.Final)
            pl.store(c, acc, [m0, n0], phase=pl.STPhase.Final)


def inputs():
    rng = np.random.default_rng(1616)
    a = rng.uniform(-4, 4, (M, K)).astype(ml_dtypes.float8_e4m3fn)
    b = rng.uniform(-4, 4, (K, N)).astype(ml_dtypes.float8_e4m3fn)
    sa = rng.integers(122, 131, (M, K // 64, 2)).astype(np.uint8).view(ml_dtypes.float8_e8m0fnu)
    sb = rng.integers(122, 131, (K // 64, N, 2)).astype(np.uint8).view(ml_dtypes.float8_e8m0fnu)
    return a, b, sa, sb


def golden(a, b, sa, sb):
    ea = np.exp2(sa.view(np.uint8).astype(np.float64) - 127).reshape(M, K // 32)
    eb = np.exp2(sb.view(np.uint8).astype(np.float64) - 127).transpose(0, 2, 1).reshape(K // 32, N)
    fa = a.astype(np.float64) * np.repeat(ea, 32, axis=1)
    fb = b.astype(np.float64) * np.repeat(eb, 32, axis=0)
    return (fa @ fb).astype(np.float32)


def main():
    a, b, sa, sb = inputs()
    c = np.full((M, N), np.nan, dtype=np.float32)
    matmul_mx[None, BLOCKS](a, b, sa, sb, c)
    ok = np.allclose(c, golden(a, b, sa, sb), rtol=1e-3, atol=1e-3)
    print("PASS matmul_mx" if ok else "FAIL matmul_mx")
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
