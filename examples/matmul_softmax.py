"""P = softmax(A @ B) over rows of up to 256 columns, without a trip through global memory.

The matrix core hands each vector core half of the accumulator's rows (DualModeSplitM), over two Vec slots: while the
vector cores work on one slot, the next product goes into the other. READY counts filled slots, FREE emptied ones; the
vector cores hand out two credits before they start and the matrix core takes the last two back.
"""

import numpy as np

import pypto_pro.language as pl

T, K, N = 128, 128, 256
HALF = T // 2
READY, FREE = 0, 1
MAT, LEFT, RIGHT, ACC = pl.MemorySpace.Mat, pl.MemorySpace.Left, pl.MemorySpace.Right, pl.MemorySpace.Acc
SLOT = HALF * N * 4


def matrix(rows, cols, dtype, space, addr, ids):
    kind = pl.TileType(shape=[rows, cols], dtype=dtype, target_memory=space, valid_shape=[-1, -1], compact=1)
    return pl.make_tile_group(type=kind, addrs=addr, mutex_ids=ids)


@pl.jit
def matmul_softmax(
    a: pl.Tensor[[pl.DYNAMIC, K], pl.DT_FP16],
    b: pl.Tensor[[K, N], pl.DT_FP16],
    p: pl.Tensor[[pl.DYNAMIC, N], pl.DT_FP32],
):
    rows = a.shape[0]
    tiles = (rows + T - 1) // T
    block = pl.get_block_idx() // pl.get_subblock_num()
    blocks = pl.get_block_num()
    wide = pl.TileType(shape=[HALF, N], dtype=pl.DT_FP32, valid_shape=[-1, -1])
    logits = pl.make_tile_group(type=wide, addrs=0, mutex_ids=[0, 1])

    with pl.section_cube():
        b_l1 = matrix(K, N, pl.DT_FP16, MAT, 0, [2]).current()
        b_l0 = matrix(K, N, pl.DT_FP16, RIGHT, 0, [3]).current()
        a_l1 = matrix(T, K, pl.DT_FP16, MAT, 128 * 1024, [4, 5])
        a_l0 = matrix(T, K, pl.DT_FP16, LEFT, 0, [6, 7])
        acc = matrix(T, N, pl.DT_FP32, ACC, 0, [8, 9])
        pl.load(b_l1, b, [0, 0])
        pl.move(b_l0, b_l1)
        for t in pl.range(block, tiles, blocks):
            here = pl.min(T, rows - t * T)
            am = a_l1.next()
            left = a_l0.next()
            c = acc.next()
            pl.set_validshape(am, [here, K])
            pl.set_validshape(left, [here, K])
            pl.set_validshape(c, [here, N])
            pl.load(am, a, [t * T, 0])
            pl.move(left, am)
            pl.matmul(c, left, b_l0)
            pl.system.wait_cross_core(pipe=pl.PipeType.FIX, event_id=FREE)
            pl.move(logits.next(), c, acc_to_vec_mode=pl.AccToVecMode.DualModeSplitM)
            pl.system.set_cross_core(pipe=pl.PipeType.FIX, event_id=READY)
        pl.system.wait_cross_core(pipe=pl.PipeType.FIX, event_id=FREE)
        pl.system.wait_cross_core(pipe=pl.PipeType.FIX, event_id=FREE)

    with pl.section_vector():
        column = pl.TileType(shape=[HALF, 1], dtype=pl.DT_FP32, layout=pl.DN, valid_shape=[-1, -1])
        line = pl.TileType(shape=[1, HALF], dtype=pl.DT_FP32, valid_shape=[-1, -1])
        out = pl.make_tile_group(type=wide, addrs=2 * SLOT, mutex_ids=[10]).current()
        red = pl.make_tile_group(type=column, addrs=3 * SLOT, mutex_ids=[11]).current()
        red_row = pl.make_tile_group(type=line, addrs=3 * SLOT, mutex_ids=[11]).current()
        pl.system.set_cross_core(pipe=pl.PipeType.V, event_id=FREE)
        pl.system.set_cross_core(pipe=pl.PipeType.V, event_id=FREE)
        for t in pl.range(block, tiles, blocks):
            here = pl.min(T, rows - t * T)
            first = (here + 1) // 2
            mine = first if pl.get_subblock_idx() == 0 else here - first
            s = logits.next()
            pl.set_validshape(s, [mine, N])
            pl.set_validshape(out, [mine, N])
            pl.set_validshape(red, [mine, 1])
            pl.set_validshape(red_row, [1, mine])
            pl.system.wait_cross_core(pipe=pl.PipeType.V, event_id=READY)
            if mine > 0:
                pl.maximum(red, s, out, dim=0)
                pl.expand_sub(out, s, red, dim=0)
            pl.system.set_cross_core(pipe=pl.PipeType.V, event_id=FREE)
            if mine > 0:
                pl.exp(out, out)
                pl.sum(red, out, out, dim=0)
                pl.recip(red_row, red_row)
                pl.expand_mul(out, out, red, dim=0)
                pl.store(p, out, [t * T + pl.get_subblock_idx() * first, 0])


def main() -> None:
    rng = np.random.default_rng(5)
    a = rng.standard_normal((1001, K)).astype(np.float16)
    b = rng.standard_normal((K, N)).astype(np.float16)
    p = np.empty((1001, N), np.float32)
    matmul_softmax[None, 3](a, b, p)
    s = a.astype(np.float64) @ b.astype(np.float64)
    e = np.exp(s - s.max(axis=1, keepdims=True))
    error = np.abs(p - e / e.sum(axis=1, keepdims=True)).max()
    assert error < 1e-5, error
    print(f"matmul + softmax: 1001 x {K} x {N} FP16 on 3 blocks, largest error {error:.1e}")


if __name__ == "__main__":
    main()
