"""A device script as its author wrote it: y = relu(alpha * x * gain) on an NPU, checked and timed there.

    python elementwise.py [--rows 1000] [--blocks 8]
"""

import argparse
import os

import torch
import torch_npu

import pypto_pro.language as pl

DEVICE = f"npu:{os.environ.get('TILE_FWK_DEVICE_ID', '0')}"
COLS = 256
ROWS = 32
SLOT = ROWS * COLS * 4


@pl.jit(auto_mutex=True)
def scaled_relu(
    x: pl.Tensor[[pl.DYNAMIC, COLS], pl.DT_FP32],
    gain: pl.Tensor[[1, COLS], pl.DT_FP32],
    y: pl.Tensor[[pl.DYNAMIC, COLS], pl.DT_FP32],
    alpha: pl.DT_FP32,
):
    wide = pl.TileType(shape=[ROWS, COLS], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec, valid_shape=[-1, -1])
    line = pl.TileType(shape=[1, COLS], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec)
    xs = pl.make_tile_group(type=wide, addrs=0, mutex_ids=[0, 1])
    ys = pl.make_tile_group(type=wide, addrs=2 * SLOT, mutex_ids=[2, 3])
    factors = pl.make_tile_group(type=line, addrs=4 * SLOT, mutex_ids=[4])
    with pl.section_vector():
        factor = factors.current()
        pl.load(factor, gain, [0, 0])
        rows = x.shape[0]
        for r in pl.range(pl.get_block_idx() * ROWS, rows, pl.get_block_num() * ROWS):
            here = pl.min(ROWS, rows - r)
            a = xs.next()
            b = ys.next()
            pl.set_validshape(a, [here, COLS])
            pl.set_validshape(b, [here, COLS])
            pl.load(a, x, [r, 0])
            pl.mul(b, a, alpha)
            pl.expand_mul(b, b, factor, dim=1)
            pl.relu(b, b)
            pl.store(y, b, [r, 0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--blocks", type=int, default=8)
    args = parser.parse_args()
    torch.npu.set_device(DEVICE)
    torch.manual_seed(0)
    x_cpu = torch.randn(args.rows, COLS)
    x = x_cpu.to(DEVICE)
    gain = torch.rand(1, COLS, device=DEVICE)
    y = torch.full_like(x, float("nan"))
    assert x.is_npu
    assert y.device.type == "npu"
    assert y.device == torch.device(DEVICE)

    stream = torch.npu.current_stream()
    scaled_relu[stream, args.blocks](x, gain, y, 0.5)
    start, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
    start.record()
    scaled_relu[stream, args.blocks](x, gain, y, 0.5)
    end.record()
    torch.npu.synchronize()

    assert torch.equal(x.cpu(), x_cpu)
    torch.testing.assert_close(y.cpu(), torch.relu(0.5 * x_cpu * gain.cpu()))
    torch.testing.assert_close(y, torch.relu(0.5 * x * gain))
    print(f"PASS elementwise on {torch_npu.npu.get_device_name()}, {start.elapsed_time(end):.3f} ms")


if __name__ == "__main__":
    main()
