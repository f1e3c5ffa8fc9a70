"""The kernels of the benchmark, written as an author would write them for the device."""

import pypto_pro.language as pl

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


# W4: flash attention, FP16, 4 heads of 2048 x 128, 128 x 128 tiles; heads are stacked along the rows
W4_HEADS, W4_S, W4_D = 4, 2048, 128
W4_T = 128
W4_HALF = W4_T // 2
W4_SCALE = 1.0 / W4_D**0.5
W4_FLOOR = -1.0e30
S_READY, P_READY, PV_READY = 0, 1, 2
K32 = 0x8000  # bytes of a [64, 128] FP32 tile


def single(tile_type, addr, mutex_id):
    return pl.make_tile_group(type=tile_type, addrs=addr, mutex_ids=[mutex_id]).current()


@pl.jit(auto_mutex=True)
def attention_fp16(
    q: pl.Tensor[[W4_HEADS * W4_S, W4_D], pl.DT_FP16],
    k: pl.Tensor[[W4_HEADS * W4_S, W4_D], pl.DT_FP16],
    v: pl.Tensor[[W4_HEADS * W4_S, W4_D], pl.DT_FP16],
    o: pl.Tensor[[W4_HEADS * W4_S, W4_D], pl.DT_FP16],
):
    blk = pl.get_block_idx() // pl.get_subblock_num()
    blocks = pl.get_block_num()
    wide = pl.TileType(shape=[W4_HALF, W4_D], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec)
    s = single(wide, 0x00000, 20)
    pv = single(wide, K32, 21)
    p_mat = mat(W4_T, W4_T, pl.DT_FP16, pl.MemorySpace.Mat, 0x40000, [22]).current()
    with pl.section_cube():
        q_mat = mat(W4_T, W4_D, pl.DT_FP16, pl.MemorySpace.Mat, 0x00000, [0]).current()
        v_l1 = mat(W4_T, W4_D, pl.DT_FP16, pl.MemorySpace.Mat, 0x08000, [1, 2])
        kt_l1 = pl.make_tile_group(
            type=pl.TileType(
                shape=[W4_D, W4_T], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Mat, layout=pl.ZN
            ),
            addrs=0x18000, mutex_ids=[3, 4],
        )
        q_left = mat(W4_T, W4_D, pl.DT_FP16, pl.MemorySpace.Left, 0x0000, [5]).current()
        p_left = mat(W4_T, W4_T, pl.DT_FP16, pl.MemorySpace.Left, 0x8000, [6]).current()
        kt_right = mat(W4_D, W4_T, pl.DT_FP16, pl.MemorySpace.Right, 0x0000, [7]).current()
        v_right = mat(W4_T, W4_D, pl.DT_FP16, pl.MemorySpace.Right, 0x8000, [9]).current()
        s_sum = mat(W4_T, W4_T, pl.DT_FP32, pl.MemorySpace.Acc, 0x00000, [10]).current()
        pv_sum = mat(W4_T, W4_D, pl.DT_FP32, pl.MemorySpace.Acc, 0x10000, [11]).current()
        for job in pl.range(blk, W4_HEADS * (W4_S // W4_T), blocks):
            head = (job // (W4_S // W4_T)) * W4_S
            pl.load(q_mat, q, [job * W4_T, 0])
            pl.move(q_left, q_mat)
            for k0 in pl.range(0, W4_S, W4_T):
                kt_mat = kt_l1.next()
                v_mat = v_l1.next()
                pl.load(kt_mat, k, [head + k0, 0], order=[1, 0])
                pl.load(v_mat, v, [head + k0, 0])
                pl.move(kt_right, kt_mat)
                pl.matmul(s_sum, q_left, kt_right)
                pl.move(s, s_sum, acc_to_vec_mode=pl.AccToVecMode.DualModeSplitM)
                pl.system.set_cross_core(pipe=pl.PipeType.FIX, event_id=S_READY)
                pl.move(v_right, v_mat)
                pl.system.wait_cross_core(pipe=pl.PipeType.MTE1, event_id=P_READY)
                pl.move(p_left, p_mat)
                pl.matmul(pv_sum, p_left, v_right)
                pl.move(pv, pv_sum, acc_to_vec_mode=pl.AccToVecMode.DualModeSplitM)
                pl.system.set_cross_core(pipe=pl.PipeType.FIX, event_id=PV_READY)
    with pl.section_vector():
        column = pl.TileType(shape=[W4_HALF, 1], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec, layout=pl.DN)
        flat = pl.TileType(shape=[1, W4_HALF], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec)
        half = pl.TileType(shape=[W4_HALF, W4_D], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Vec)
        half_nz = pl.TileType(
            shape=[W4_HALF, W4_T], dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Vec, layout=pl.NZ
        )
        p = single(wide, 2 * K32, 0)
        tmp = single(wide, 3 * K32, 1)
        run = single(wide, 4 * K32, 2)
        p16 = single(half, 5 * K32, 3)
        p_nz = single(half_nz, 5 * K32 + 0x4000, 4)
        o16 = single(half, 6 * K32, 5)
        old_row = single(flat, 0x38000, 6)
        old_col = single(column, 0x38000, 6)
        new_row = single(flat, 0x38200, 7)
        new_col = single(column, 0x38200, 7)
        sum_row = single(flat, 0x38400, 8)
        sum_col = single(column, 0x38400, 8)
        add_row = single(flat, 0x38600, 9)
        add_col = single(column, 0x38600, 9)
        sub = pl.get_subblock_idx()
        for job in pl.range(blk, W4_HEADS * (W4_S // W4_T), blocks):
            pl.expands(old_row, W4_FLOOR)
            pl.expands(sum_row, 0.0)
            pl.expands(run, 0.0)
            for _k0 in pl.range(0, W4_S, W4_T):
                pl.system.wait_cross_core(pipe=pl.PipeType.V, event_id=S_READY)
                pl.mul(p, s, W4_SCALE)
                pl.maximum(new_col, p, tmp, dim=0)
                pl.maximum(new_row, new_row, old_row)
                pl.sub(old_row, old_row, new_row)
                pl.exp(old_row, old_row)
                pl.expand_sub(p, p, new_col, dim=0)
                pl.exp(p, p)
                pl.sum(add_col, p, tmp, dim=0)
                pl.mul(sum_row, sum_row, old_row)
                pl.add(sum_row, sum_row, add_row)
                pl.cast(p16, p, mode=pl.RoundMode.CAST_RINT)
                pl.move(p_nz, p16)
                pl.insert(p_mat, p_nz, [sub * W4_HALF, 0])
                pl.system.set_cross_core(pipe=pl.PipeType.MTE3, event_id=P_READY)
                pl.expand_mul(run, run, old_col, dim=0)
                pl.system.wait_cross_core(pipe=pl.PipeType.V, event_id=PV_READY)
                pl.add(run, run, pv)
                pl.move(old_row, new_row)
            pl.expand_div(run, run, sum_col, dim=0)
            pl.cast(o16, run, mode=pl.RoundMode.CAST_RINT)
            pl.store(o, o16, [job * W4_T + sub * W4_HALF, 0])
