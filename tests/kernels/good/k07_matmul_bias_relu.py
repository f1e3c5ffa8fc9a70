"""k07: C = relu(A @ B + bias) inside the matrix unit, FP16 in and out, M tail.
Exercises a Bias tile (FP16 -> FP32 in the move), bias as 4th operand, relu_pre_mode and FP16 conversion on the store.
Tolerance: rtol 2e-3, atol 2e-3 (FP16 output)."""
import sys

import numpy as np

import pypto_pro.language as pl

M, N, K = 40, 32, 48
TM = 32
BLOCKS = 2


@pl.jit(auto_mutex=True)
def linear_relu(
    a: pl.Tensor[[M, K], pl.DT_FP16],
    b: pl.Tensor[[K, N], pl.DT_FP16],
    bias: pl.Tensor[[1, N], pl.DT_FP16],
    c: pl.Tensor[[M, N], pl.DT_FP16],
):
    with pl.section_cube():
        a_l1 = pl.make_tile_group(
            type=pl.TileType(
                shape=[TM, K], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Mat, valid_shape=[-1, -1], compact=1
            ),
            addrs=0x0000, mutex_ids=[0],
        )
        b_l1 = pl.make_tile_group(
            type=pl.TileType(shape=[K, N], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Mat),
            addrs=0x2000, mutex_ids=[1],
        )
        bias_l1 = pl.make_tile_group(
            type=pl.TileType(shape=[1, N], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Mat),
            addrs=0x4000, mutex_ids=[2],
        )
        a_l0 = pl.make_tile_group(
            type=pl.TileType(
                shape=[TM, K], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Left, valid_shape=[-1, -1], compact=1
            ),
            addrs=0x0000, mutex_ids=[3],
        )
        b_l0 = pl.make_tile_group(
            type=pl.TileType(shape=[K, N], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Right),
            addrs=0x0000, mutex_ids=[4],
        )
        bias_l0 = pl.make_tile_group(
            type=pl.TileType(shape=[1, N], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Bias),
            addrs=0x0000, mutex_ids=[5],
        )
        accs = pl.make_tile_group(
            type=pl.TileType(
                shape=[TM, N], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Acc, valid_shape=[-1, -1], compact=1
            ),
            addrs=0x0000, mutex_ids=[6],
        )
        right_l1 = b_l1.current()
        bias_mat = bias_l1.current()
        right = b_l0.current()
        bias_vec = bias_l0.current()
        pl.load(right_l1, b, [0, 0])
        pl.load(bias_mat, bias, [0, 0])
        pl.move(right, right_l1)
        pl.move(bias_vec, bias_mat)
        for i in pl.range(pl.get_block_idx(), (M + TM - 1) // TM, pl.get_block_num()):
            mv = pl.min(TM, M - i * TM)
            left_l1 = a_l1.current()
            left = a_l0.current()
            acc = accs.current()
            pl.set_validshape(left_l1, [mv, K])
            pl.set_validshape(left, [mv, K])
            pl.set_validshape(acc, [mv, N])
            pl.load(left_l1, a, [i * TM, 0])
            pl.move(left, left_l1)
            pl.matmul(acc, left, right, bias_vec)
            pl.store(c, acc, [i * TM, 0], relu_pre_mode=pl.ReluPreMode.NormalRelu)


def inputs():
    rng = np.random.default_rng(707)
    a = rng.uniform(-1, 1, (M, K)).astype(np.float16)
    b = rng.uniform(-1, 1, (K, N)).astype(np.float16)
    bias = rng.uniform(-2, 2, (1, N)).astype(np.float16)
    return a, b, bias


def golden(a, b, bias):
    y = a.astype(np.float32) @ b.astype(np.float32) + bias.astype(np.float32)
    return np.maximum(y, 0).astype(np.float16)


def main():
    a, b, bias = inputs()
    c = np.full((M, N), np.nan, dtype=np.float16)
    linear_relu[None, BLOCKS](a, b, bias, c)
    want = golden(a, b, bias).astype(np.float32)
    ok = np.allclose(c.astype(np.float32), want, rtol=2e-3, atol=2e-3)
    print("PASS matmul_bias_relu" if ok else "FAIL matmul_bias_relu")
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
