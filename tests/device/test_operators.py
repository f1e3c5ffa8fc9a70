"""Device tests of three operators: a row softmax, a scaled sum, and a product with quantised INT8 output."""

import pytest
import torch
import torch_npu

import pypto_pro.language as pl

pytestmark = pytest.mark.soc("Ascend950")
MAT, LEFT, RIGHT, ACC = pl.MemorySpace.Mat, pl.MemorySpace.Left, pl.MemorySpace.Right, pl.MemorySpace.Acc
ROWS, COLS = 16, 128
SLOT = ROWS * COLS * 4


@pl.jit(auto_mutex=True)
def axpby_kernel(
    x: pl.Tensor[[pl.DYNAMIC, pl.DYNAMIC], pl.DT_FP32],
    y: pl.Tensor[[pl.DYNAMIC, pl.DYNAMIC], pl.DT_FP32],
    z: pl.Tensor[[pl.DYNAMIC, pl.DYNAMIC], pl.DT_FP32],
    alpha: pl.DT_FP32,
    beta: pl.DT_FP32,
):
    tile = pl.TileType(shape=[ROWS, COLS], dtype=pl.DT_FP32, valid_shape=[-1, -1])
    xs = pl.make_tile_group(type=tile, addrs=0, mutex_ids=[0, 1])
    ys = pl.make_tile_group(type=tile, addrs=2 * SLOT, mutex_ids=[2, 3])
    with pl.section_vector():
        for r in pl.range(pl.get_block_idx() * ROWS, x.shape[0], pl.get_block_num() * ROWS):
            here = pl.min(ROWS, x.shape[0] - r)
            for c in pl.range(0, x.shape[1], COLS):
                wide = pl.min(COLS, x.shape[1] - c)
                a = xs.next()
                b = ys.next()
                pl.set_validshape(a, [here, wide])
                pl.set_validshape(b, [here, wide])
                pl.load(a, x, [r, c])
                pl.load(b, y, [r, c])
                pl.mul(a, a, alpha)
                pl.mul(b, b, beta)
                pl.add(a, a, b)
                pl.store(z, a, [r, c])


@pl.jit(auto_mutex=True)
def softmax_kernel(x: pl.Tensor[[pl.DYNAMIC, COLS], pl.DT_FP32], y: pl.Tensor[[pl.DYNAMIC, COLS], pl.DT_FP32]):
    wide = pl.TileType(shape=[ROWS, COLS], dtype=pl.DT_FP32, valid_shape=[-1, -1])
    column = pl.TileType(shape=[ROWS, 1], dtype=pl.DT_FP32, layout=pl.DN, valid_shape=[-1, -1])
    with pl.section_vector():
        x_tile = pl.make_tile_group(type=wide, addrs=0, mutex_ids=[0]).current()
        tmp = pl.make_tile_group(type=wide, addrs=SLOT, mutex_ids=[1]).current()
        stat = pl.make_tile_group(type=column, addrs=2 * SLOT, mutex_ids=[2]).current()
        for r in pl.range(pl.get_block_idx() * ROWS, x.shape[0], pl.get_block_num() * ROWS):
            here = pl.min(ROWS, x.shape[0] - r)
            pl.set_validshape(x_tile, [here, COLS])
            pl.set_validshape(tmp, [here, COLS])
            pl.set_validshape(stat, [here, 1])
            pl.load(x_tile, x, [r, 0])
            pl.maximum(stat, x_tile, tmp, dim=0)
            pl.expand_sub(x_tile, x_tile, stat, dim=0)
            pl.exp(x_tile, x_tile)
            pl.sum(stat, x_tile, tmp, dim=0)
            pl.expand_div(x_tile, x_tile, stat, dim=0)
            pl.store(y, x_tile, [r, 0])


M, K, N = 64, 64, 64


def solo(rows, cols, dtype, space, addr, mutex_id, layout=None):
    kind = pl.TileType(shape=[rows, cols], dtype=dtype, target_memory=space, layout=layout)
    return pl.make_tile_group(type=kind, addrs=addr, mutex_ids=[mutex_id]).current()


@pl.jit(auto_mutex=True)
def quant_matmul_kernel(
    a: pl.Tensor[[pl.DYNAMIC, K], pl.DT_FP16],
    b: pl.Tensor[[K, N], pl.DT_FP16, pl.NZ],
    scale: pl.Tensor[[1, N], pl.DT_INT64],
    c: pl.Tensor[[pl.DYNAMIC, N], pl.DT_INT8],
):
    with pl.section_cube():
        a_mat = solo(M, K, pl.DT_FP16, MAT, 0, 0)
        b_mat = solo(K, N, pl.DT_FP16, MAT, 0x4000, 1)
        words = solo(1, N, pl.DT_INT64, MAT, 0x8000, 2, pl.ND)
        factors = solo(1, N, pl.DT_INT64, pl.MemorySpace.Scaling, 0, 3)
        left = solo(M, K, pl.DT_FP16, LEFT, 0, 4)
        right = solo(K, N, pl.DT_FP16, RIGHT, 0, 5)
        acc = solo(M, N, pl.DT_FP32, ACC, 0, 6)
        pl.load(words, scale, [0, 0])
        pl.move(factors, words)
        pl.load(b_mat, b, [0, 0])
        pl.move(right, b_mat)
        for r in pl.range(pl.get_block_idx() * M, a.shape[0], pl.get_block_num() * M):
            pl.load(a_mat, a, [r, 0])
            pl.move(left, a_mat)
            pl.matmul(acc, left, right)
            pl.store(c, acc, [r, 0], scale=factors)


def quant_matmul_wrapper(a, b, scale):
    c = torch.empty((a.shape[0], N), dtype=torch.int8, device=a.device)
    quant_matmul_kernel[None, 2](a, b, scale, c)
    return c


@pytest.fixture(scope="module", autouse=True)
def device():
    torch.npu.set_device(0)
    torch.npu.manual_seed_all(0)
    yield torch.device("npu:0")
    torch.npu.empty_cache()


@pytest.mark.smoke
def test_device_is_there(device):
    assert torch.npu.is_available()
    assert torch.zeros(3, device=device).is_npu
    assert "Ascend950" in torch_npu.npu.get_device_name(0)


@pytest.mark.parametrize("blocks", [1, 8])
@pytest.mark.parametrize("shape", [(16, 128), (1, 1), (33, 200), (100, 257)], ids=str)
def test_axpby(device, shape, blocks):
    x, y = torch.randn(shape, device=device), torch.randn(shape, device=device)
    z = torch.full(shape, float("nan"), device=device)
    axpby_kernel[None, blocks](x, y, z, 2.0, -0.5)
    torch.npu.synchronize()
    torch.testing.assert_close(z, 2.0 * x - 0.5 * y)


@pytest.mark.parametrize("rows", [16, 7, 130])
def test_softmax(device, rows):
    x = torch.randn(rows, COLS, device=device) * 4
    y = torch.empty_like(x)
    softmax_kernel[torch.npu.current_stream(), 4](x, y)
    torch.npu.synchronize()
    torch.testing.assert_close(y.cpu(), torch.softmax(x.cpu(), dim=-1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rows", [M, 3 * M])
def test_quantised_product(device, rows):
    a = torch.randint(-3, 4, (rows, K), device=device).half()
    b = torch.randint(-3, 4, (K, N), device=device).half()
    factors = 2.0 ** torch.randint(-4, 1, (1, N), device=device)
    scale = torch_npu.npu_trans_quant_param(factors)
    c = quant_matmul_wrapper(a, torch_npu.npu_format_cast(b.contiguous(), 29), scale)
    torch.npu.synchronize()
    golden = (a.cpu().float() @ b.cpu().float() * factors.cpu()).round().clamp(-128, 127).to(torch.int8)
    assert torch.equal(c.cpu(), golden)
