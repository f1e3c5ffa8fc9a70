"""The kernels of the benchmark, written as an author would write them for the device."""

import sys
from pathlib import Path

import pypto_pro.language as pl

sys.path.append(str(Path(__file__).resolve().parents[1] / "examples"))
from flash_attention import attention

__all__ = ["add_fp16", "attention", "matmul_fp16", "softmax_fp32"]

# W1: y = a + b, FP16 [4096, 4096], 4 whole rows a tile
W1_ROWS, W1_COLS = 4096, 4096
W1_TR, W1_TC = 4, 4096
W1_SLOT = W1_TR * W1_TC * 2


@pl.jit(auto_mutex=True)
def add_fp16(
    a: pl.Tensor[[W1_ROWS, W1_COLS], pl.DT_FP16],
    b: pl.Tensor[[W1_ROWS, W1_COLS], pl.DT_FP16],
    y: pl.Tensor[[W1_ROWS, W1_COLS], pl.DT_FP16],
):
    tile = pl.TileType(shape=[W1_TR, W1_TC], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Vec)
    lefts = pl.make_tile_group(type=tile, addrs=0, mutex_ids=[0, 1])
    rights = pl.make_tile_group(type=tile, addrs=2 * W1_SLOT, mutex_ids=[2, 3])
    sums = pl.make_tile_group(type=tile, addrs=4 * W1_SLOT, mutex_ids=[4, 5])
    with pl.section_vector():
        across = W1_COLS // W1_TC
        for t in pl.range(pl.get_block_idx(), (W1_ROWS // W1_TR) * across, pl.get_block_num()):
            row = (t // across) * W1_TR
            col = (t % across) * W1_TC
            left = lefts.next()
            right = rights.next()
            total = sums.next()
            pl.load(left, a, [row, col])
            pl.load(right, b, [row, col])
            pl.add(total, left, right)
            pl.store(y, total, [row, col])


# W2: softmax over the columns of an FP32 [4096, 1024] matrix, 8 rows a tile
W2_ROWS, W2_COLS, W2_TR = 4096, 1024, 8
W2_SLOT = W2_TR * W2_COLS * 4


@pl.jit(auto_mutex=True)
def softmax_fp32(
    x: pl.Tensor[[W2_ROWS, W2_COLS], pl.DT_FP32],
    y: pl.Tensor[[W2_ROWS, W2_COLS], pl.DT_FP32],
):
    wide = pl.TileType(shape=[W2_TR, W2_COLS], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec)
    column = pl.TileType(shape=[W2_TR, 1], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec, layout=pl.DN)
    flat = pl.TileType(shape=[1, W2_TR], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec)
    ins = pl.make_tile_group(type=wide, addrs=0, mutex_ids=[0, 1])
    outs = pl.make_tile_group(type=wide, addrs=2 * W2_SLOT, mutex_ids=[2, 3])
    tmps = pl.make_tile_group(type=wide, addrs=4 * W2_SLOT, mutex_ids=[4])
    reds = pl.make_tile_group(type=column, addrs=5 * W2_SLOT, mutex_ids=[5])
    reds_flat = pl.make_tile_group(type=flat, addrs=5 * W2_SLOT, mutex_ids=[5])
    with pl.section_vector():
        for i in pl.range(pl.get_block_idx(), W2_ROWS // W2_TR, pl.get_block_num()):
            xt = ins.next()
            yt = outs.next()
            tmp = tmps.current()
            red = reds.current()
            pl.load(xt, x, [i * W2_TR, 0])
            pl.maximum(red, xt, tmp, dim=0)
            pl.expand_sub(yt, xt, red, dim=0)
            pl.exp(yt, yt)
            pl.sum(red, yt, tmp, dim=0)
            pl.recip(reds_flat.current(), reds_flat.current())
            pl.expand_mul(yt, yt, red, dim=0)
            pl.store(y, yt, [i * W2_TR, 0])


# W3: c = a @ b, FP16 -> FP32, 1024 cubed in 128-cubed tiles
W3_N, W3_T = 1024, 128


def mat(rows, cols, dtype, space, base, ids):
    return pl.make_tile_group(
        type=pl.TileType(shape=[rows, cols], dtype=dtype, target_memory=space), addrs=base, mutex_ids=ids
    )


@pl.jit(auto_mutex=True)
def matmul_fp16(
    a: pl.Tensor[[W3_N, W3_N], pl.DT_FP16],
    b: pl.Tensor[[W3_N, W3_N], pl.DT_FP16],
    c: pl.Tensor[[W3_N, W3_N], pl.DT_FP32],
):
    with pl.section_cube():
        a_l1 = mat(W3_T, W3_T, pl.DT_FP16, pl.MemorySpace.Mat, 0x00000, [0, 1])
        b_l1 = mat(W3_T, W3_T, pl.DT_FP16, pl.MemorySpace.Mat, 0x10000, [2, 3])
        a_l0 = mat(W3_T, W3_T, pl.DT_FP16, pl.MemorySpace.Left, 0x0000, [4, 5])
        b_l0 = mat(W3_T, W3_T, pl.DT_FP16, pl.MemorySpace.Right, 0x0000, [6, 7])
        accs = mat(W3_T, W3_T, pl.DT_FP32, pl.MemorySpace.Acc, 0x00000, [8, 9])
        across = W3_N // W3_T
        for t in pl.range(pl.get_block_idx(), across * across, pl.get_block_num()):
            row = (t // across) * W3_T
            col = (t % across) * W3_T
            acc = accs.next()
            for k0 in pl.range(0, W3_N, W3_T):
                a_mat = a_l1.next()
                b_mat = b_l1.next()
                left = a_l0.next()
                right = b_l0.next()
                pl.load(a_mat, a, [row, k0])
                pl.load(b_mat, b, [k0, col])
                pl.move(left, a_mat)
                pl.move(right, b_mat)
                if k0 == 0:
                    pl.matmul(acc, left, right)
                else:
                    pl.matmul_acc(acc, acc, left, right)
            pl.store(c, acc, [row, col])


# W4: flash attention, FP16, 4 heads of 2048 x 128: the kernel of the example
W4_SHAPE = (4, 2048, 128)
