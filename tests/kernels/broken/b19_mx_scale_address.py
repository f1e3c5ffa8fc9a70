"""b19: the left operand lies at 0x1000, its scales at 0x0; the matrix unit reads them at 0x100.
Mistake: scale address is not data address >> 4.
Twin: the scale tile lies at 0x100."""
import sys

import ml_dtypes
import numpy as np

import pypto_pro.language as pl

EXPECT = {"kind": "mx_scale_address", "lines": ["A", "B"]}
M, N, K = 16, 32, 64
G = K // 32
BLOCKS = 1


@pl.jit(auto_mutex=True)
def broken(
    a: pl.Tensor[[M, K], pl.DT_FP8E4M3FN],
    b: pl.Tensor[[K, N], pl.DT_FP8E4M3FN],
    sa: pl.Tensor[[M, K // 64, 2], pl.DT_FP8E8M0],
    sb: pl.Tensor[[K // 64, N, 2], pl.DT_FP8E8M0],
    c: pl.Tensor[[M, N], pl.DT_FP32],
):
    with pl.section_cube():
        a_l1_type = pl.TileType(shape=[M, K], dtype=pl.DT_FP8E4M3FN, target_memory=pl.MemorySpace.Mat)
        b_l1_type = pl.TileType(shape=[K, N], dtype=pl.DT_FP8E4M3FN, target_memory=pl.MemorySpace.Mat)
        sa_l1_type = pl.TileType(shape=[M, G], dtype=pl.DT_FP8E8M0, target_memory=pl.MemorySpace.Mat, layout=pl.ZZ)
        sb_l1_type = pl.TileType(shape=[G, N], dtype=pl.DT_FP8E8M0, target_memory=pl.MemorySpace.Mat, layout=pl.NN)
        left_type = pl.TileType(shape=[M, K], dtype=pl.DT_FP8E4M3FN, target_memory=pl.MemorySpace.Left)
        right_type = pl.TileType(shape=[K, N], dtype=pl.DT_FP8E4M3FN, target_memory=pl.MemorySpace.Right)
        sl_type = pl.TileType(shape=[M, G], dtype=pl.DT_FP8E8M0, target_memory=pl.MemorySpace.ScaleLeft)
        sr_type = pl.TileType(shape=[G, N], dtype=pl.DT_FP8E8M0, target_memory=pl.MemorySpace.ScaleRight)
        acc_type = pl.TileType(shape=[M, N], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Acc)
        a_l1 = pl.make_tile_group(type=a_l1_type, addrs=0x0000, mutex_ids=[0])
        b_l1 = pl.make_tile_group(type=b_l1_type, addrs=0x2000, mutex_ids=[1])
        sa_l1 = pl.make_tile_group(type=sa_l1_type, addrs=0x4000, mutex_ids=[2])
        sb_l1 = pl.make_tile_group(type=sb_l1_type, addrs=0x5000, mutex_ids=[3])
        lefts = pl.make_tile_group(type=left_type, addrs=0x1000, mutex_ids=[4])
        rights = pl.make_tile_group(type=right_type, addrs=0x0000, mutex_ids=[5])
        sls = pl.make_tile_group(type=sl_type, addrs=0x0000, mutex_ids=[6])  # <- A
        srs = pl.make_tile_group(type=sr_type, addrs=0x0000, mutex_ids=[7])
        accs = pl.make_tile_group(type=acc_type, addrs=0x0000, mutex_ids=[8])
        am = a_l1.current()
        bm = b_l1.current()
        sam = sa_l1.current()
        sbm = sb_l1.current()
        left = lefts.current()
        right = rights.current()
        sl = sls.current()
        sr = srs.current()
        acc = accs.current()
        pl.load(am, a, [0, 0])
        pl.load(bm, b, [0, 0])
        pl.load(sam, sa, [0, 0, 0])
        pl.load(sbm, sb, [0, 0, 0])
        pl.move(left, am)
        pl.move(right, bm)
        pl.move(sl, sam)
        pl.move(sr, sbm)
        pl.matmul_mx(acc, left, right, sl, sr)  # <- B
        pl.store(c, acc, [0, 0])


@pl.jit(auto_mutex=True)
def fixed(
    a: pl.Tensor[[M, K], pl.DT_FP8E4M3FN],
    b: pl.Tensor[[K, N], pl.DT_FP8E4M3FN],
    sa: pl.Tensor[[M, K // 64, 2], pl.DT_FP8E8M0],
    sb: pl.Tensor[[K // 64, N, 2], pl.DT_FP8E8M0],
    c: pl.Tensor[[M, N], pl.DT_FP32],
):
    with pl.section_cube():
        a_l1_type = pl.TileType(shape=[M, K], dtype=pl.DT_FP8E4M3FN, target_memory=pl.MemorySpace.Mat)
        b_l1_type = pl.TileType(shape=[K, N], dtype=pl.DT_FP8E4M3FN, target_memory=pl.MemorySpace.Mat)
        sa_l1_type = pl.TileType(shape=[M, G], dtype=pl.DT_FP8E8M0, target_memory=pl.MemorySpace.Mat, layout=pl.ZZ)
        sb_l1_type = pl.TileType(shape=[G, N], dtype=pl.DT_FP8E8M0, target_memory=pl.MemorySpace.Mat, layout=pl.NN)
        left_type = pl.TileType(shape=[M, K], dtype=pl.DT_FP8E4M3FN, target_memory=pl.MemorySpace.Left)
        right_type = pl.TileType(shape=[K, N], dtype=pl.DT_FP8E4M3FN, target_memory=pl.MemorySpace.Right)
        sl_type = pl.TileType(shape=[M, G], dtype=pl.DT_FP8E8M0, target_memory=pl.MemorySpace.ScaleLeft)
        sr_type = pl.TileType(shape=[G, N], dtype=pl.DT_FP8E8M0, target_memory=pl.MemorySpace.ScaleRight)
        acc_type = pl.TileType(shape=[M, N], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Acc)
        a_l1 = pl.make_tile_group(type=a_l1_type, addrs=0x0000, mutex_ids=[0])
        b_l1 = pl.make_tile_group(type=b_l1_type, addrs=0x2000, mutex_ids=[1])
        sa_l1 = pl.make_tile_group(type=sa_l1_type, addrs=0x4000, mutex_ids=[2])
        sb_l1 = pl.make_tile_group(type=sb_l1_type, addrs=0x5000, mutex_ids=[3])
        lefts = pl.make_tile_group(type=left_type, addrs=0x1000, mutex_ids=[4])
        rights = pl.make_tile_group(type=right_type, addrs=0x0000, mutex_ids=[5])
        sls = pl.make_tile_group(type=sl_type, addrs=0x0100, mutex_ids=[6])
        srs = pl.make_tile_group(type=sr_type, addrs=0x0000, mutex_ids=[7])
        accs = pl.make_tile_group(type=acc_type, addrs=0x0000, mutex_ids=[8])
        am = a_l1.current()
        bm = b_l1.current()
        sam = sa_l1.current()
        sbm = sb_l1.current()
        left = lefts.current()
        right = rights.current()
        sl = sls.current()
        sr = srs.current()
        acc = accs.current()
        pl.load(am, a, [0, 0])
        pl.load(bm, b, [0, 0])
        pl.load(sam, sa, [0, 0, 0])
        pl.load(sbm, sb, [0, 0, 0])
        pl.move(left, am)
        pl.move(right, bm)
        pl.move(sl, sam)
        pl.move(sr, sbm)
        pl.matmul_mx(acc, left, right, sl, sr)
        pl.store(c, acc, [0, 0])


def inputs():
    rng = np.random.default_rng(19)
    a = rng.uniform(-4, 4, (M, K)).astype(ml_dtypes.float8_e4m3fn)
    b = rng.uniform(-4, 4, (K, N)).astype(ml_dtypes.float8_e4m3fn)
    sa = rng.integers(124, 130, (M, K // 64, 2)).astype(np.uint8).view(ml_dtypes.float8_e8m0fnu)
    sb = rng.integers(124, 130, (K // 64, N, 2)).astype(np.uint8).view(ml_dtypes.float8_e8m0fnu)
    return a, b, sa, sb, np.zeros((M, N), np.float32)


def golden(a, b, sa, sb, c):
    ea = np.exp2(sa.view(np.uint8).astype(np.float64) - 127).reshape(M, G)
    eb = np.exp2(sb.view(np.uint8).astype(np.float64) - 127).transpose(0, 2, 1).reshape(G, N)
    fa = a.astype(np.float64) * np.repeat(ea, 32, axis=1)
    fb = b.astype(np.float64) * np.repeat(eb, 32, axis=0)
    return (fa @ fb).astype(np.float32)


BROKEN, FIXED = broken, fixed


def main():
    args = inputs()
    FIXED[None, BLOCKS](*args)
    ok = np.allclose(args[-1], golden(*args), rtol=1e-3, atol=1e-3)
    print("PASS mx_scale_address (fixed twin)" if ok else "FAIL mx_scale_address (fixed twin)")
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
