"""C = A @ B in FP16 with FP32 accumulation: 128-cubed tiles, double-buffered L1 and L0, tails on all three axes."""

import numpy as np

import pypto_pro.language as pl

T = 128
PANEL = T * T * 2
MAT, LEFT, RIGHT, ACC = pl.MemorySpace.Mat, pl.MemorySpace.Left, pl.MemorySpace.Right, pl.MemorySpace.Acc


def panels(space, dtype, addr, ids):
    kind = pl.TileType(shape=[T, T], dtype=dtype, target_memory=space, valid_shape=[-1, -1], compact=1)
    return pl.make_tile_group(type=kind, addrs=addr, mutex_ids=ids)


@pl.jit
def matmul(
    a: pl.Tensor[[pl.DYNAMIC, pl.DYNAMIC], pl.DT_FP16],
    b: pl.Tensor[[pl.DYNAMIC, pl.DYNAMIC], pl.DT_FP16],
    c: pl.Tensor[[pl.DYNAMIC, pl.DYNAMIC], pl.DT_FP32],
):
    with pl.section_cube():
        a_l1 = panels(MAT, pl.DT_FP16, 0, [0, 1])
        b_l1 = panels(MAT, pl.DT_FP16, 2 * PANEL, [2, 3])
        a_l0 = panels(LEFT, pl.DT_FP16, 0, [4, 5])
        b_l0 = panels(RIGHT, pl.DT_FP16, 0, [6, 7])
        accs = panels(ACC, pl.DT_FP32, 0, [8, 9])
        m = a.shape[0]
        k = a.shape[1]
        n = b.shape[1]
        columns = (n + T - 1) // T
        tiles = (m + T - 1) // T * columns
        for t in pl.range(pl.get_block_idx(), tiles, pl.get_block_num()):
            row = t // columns * T
            col = t % columns * T
            mv = pl.min(T, m - row)
            nv = pl.min(T, n - col)
            acc = accs.next()
            pl.set_validshape(acc, [mv, nv])
            for k0 in pl.range(0, k, T):
                kv = pl.min(T, k - k0)
                am = a_l1.next()
                bm = b_l1.next()
                left = a_l0.next()
                right = b_l0.next()
                pl.set_validshape(am, [mv, kv])
                pl.set_validshape(left, [mv, kv])
                pl.set_validshape(bm, [kv, nv])
                pl.set_validshape(right, [kv, nv])
                pl.load(am, a, [row, k0])
                pl.load(bm, b, [k0, col])
                pl.move(left, am)
                pl.move(right, bm)
                if k0 == 0:
                    pl.matmul(acc, left, right)
                else:
                    pl.matmul_acc(acc, acc, left, right)
            pl.store(c, acc, [row, col])


def main() -> None:
    rng = np.random.default_rng(3)
    a = rng.uniform(-1, 1, (300, 500)).astype(np.float16)
    b = rng.uniform(-1, 1, (500, 260)).astype(np.float16)
    c = np.empty((300, 260), np.float32)
    matmul[None, 4](a, b, c)
    error = np.abs(c - a.astype(np.float64) @ b.astype(np.float64)).max()
    assert error < 1e-4, error
    print(f"matmul: 300 x 500 x 260 FP16 on 4 blocks, largest error {error:.1e}")


if __name__ == "__main__":
    main()
