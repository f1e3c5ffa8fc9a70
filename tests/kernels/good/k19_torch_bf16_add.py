"""k19: z = x + y on BF16 torch CPU tensors of any shape (the tiles of k01, the tails of k02).
Exercises torch tensors in and out, no copy, BF16, launch without brackets (one block) and with a keyword argument.
Tolerance: none, BF16 addition is one correctly rounded step."""
import sys

import torch

import pypto_pro.language as pl

TR, TC = 16, 64
SLOT = TR * TC * 2


@pl.jit(auto_mutex=True)
def add_bf16(
    x: pl.Tensor[[pl.DYNAMIC, pl.DYNAMIC], pl.DT_BF16],
    y: pl.Tensor[[pl.DYNAMIC, pl.DYNAMIC], pl.DT_BF16],
    z: pl.Tensor[[pl.DYNAMIC, pl.DYNAMIC], pl.DT_BF16],
):
    tile_type = pl.TileType(
        shape=[TR, TC], dtype=pl.DT_BF16, target_memory=pl.MemorySpace.Vec, valid_shape=[-1, -1]
    )
    with pl.section_vector():
        xs = pl.make_tile_group(type=tile_type, addrs=0 * SLOT, mutex_ids=[0, 1])
        ys = pl.make_tile_group(type=tile_type, addrs=2 * SLOT, mutex_ids=[2, 3])
        for r in pl.range(pl.get_block_idx() * TR, z.shape[0], pl.get_block_num() * TR):
            vr = pl.min(TR, z.shape[0] - r)
            for c in pl.range(0, z.shape[1], TC):
                vc = pl.min(TC, z.shape[1] - c)
                xt = xs.next()
                yt = ys.next()
                pl.set_validshape(xt, [vr, vc])
                pl.set_validshape(yt, [vr, vc])
                pl.load(xt, x, [r, c])
                pl.load(yt, y, [r, c])
                pl.add(yt, xt, yt)
                pl.store(z, yt, [r, c])


def inputs(shape):
    gen = torch.Generator().manual_seed(1919)
    x = torch.randn(shape, generator=gen).to(torch.bfloat16)
    y = torch.randn(shape, generator=gen).to(torch.bfloat16)
    return x, y


def golden(x, y):
    return (x.float() + y.float()).to(torch.bfloat16)


def main():
    x, y = inputs((41, 130))
    z = torch.full_like(x, float("nan"))
    add_bf16[None, 3](x, y, z=z)
    ok = torch.equal(z, golden(x, y))
    x, y = inputs((9, 20))
    z = torch.full_like(x, float("nan"))
    add_bf16(x, y, z)
    ok = ok and torch.equal(z, golden(x, y))
    print("PASS torch_bf16_add" if ok else "FAIL torch_bf16_add")
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
