"""k14: one source, many variants: operation and tile width from a TilingKey, sizes and factors from TilingData.
Exercises is_valid, dead branches of unparsable code, int[N]/float/bool fields, Ptr + make_tensor with stride, null Ptr.
Tolerance: rtol 1e-6, atol 1e-6."""
from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np

import pypto_pro.language as pl
from pypto_pro.runtime.tilingkey import TilingKeyField

TR = 8
PITCH = 112  # row pitch of the padded buffers, in elements
ROWS, COLS = 21, 90
BLOCKS = 2


class CombineKey:
    Op = TilingKeyField(bits=2, values=[0, 1, 2])
    Width = TilingKeyField(bits=1, values=[32, 64])

    def is_valid(self, key):
        op, width = key
        return not (op == 2 and width == 32)


@dataclass
class CombineTiling:
    rows: int
    cols: int
    pitch: int
    alpha: float
    flip: bool
    steps: int[4]


@pl.jit(auto_mutex=True, tiling_key=CombineKey)
def combine(
    x_ptr: pl.Ptr[pl.DT_UINT8],
    y_ptr: pl.Ptr[pl.DT_FP32],
    shift_ptr: pl.Ptr[pl.DT_FP32],
    z_ptr: pl.Ptr[pl.DT_FP32],
    tiling: CombineTiling,
):
    rows = tiling.rows
    cols = tiling.cols
    x = pl.make_tensor(x_ptr, [rows, cols], [tiling.pitch, 1], dtype=pl.DT_FP32)
    y = pl.make_tensor(y_ptr, [rows, cols], [tiling.pitch, 1])
    z = pl.make_tensor(z_ptr, [rows, cols])
    wide = Width
    block = pl.TileType(shape=[TR, wide], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec, valid_shape=[-1, -1])
    line = pl.TileType(shape=[1, wide], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec, valid_shape=[-1, -1])
    xs = pl.make_tile_group(type=block, addrs=0x0000, mutex_ids=[0, 1])
    ys = pl.make_tile_group(type=block, addrs=0x2000, mutex_ids=[2, 3])
    zs = pl.make_tile_group(type=block, addrs=0x4000, mutex_ids=[4, 5])
    lines = pl.make_tile_group(type=line, addrs=0x6000, mutex_ids=[6, 7])
    with pl.section_vector():
        for i in pl.range(pl.get_block_idx(), (rows + TR - 1) // TR, pl.get_block_num()):
            vr = pl.min(TR, rows - i * TR)
            for c in pl.range(0, cols, wide):
                vc = pl.min(wide, cols - c)
                xt = xs.next()
                yt = ys.next()
                zt = zs.next()
                pl.set_validshape(xt, [vr, vc])
                pl.set_validshape(yt, [vr, vc])
                pl.set_validshape(zt, [vr, vc])
                pl.load(xt, x, [i * TR, c])
                pl.load(yt, y, [i * TR, c])
                if Op == 0:
                    pl.add(zt, xt, yt)
                elif Op == 1:
                    pl.mul(zt, xt, yt)
                elif Op == 2:
                    pl.mul(zt, xt, tiling.alpha)
                    pl.add(zt, zt, yt)
                else:
                    pl.no_such_operation(zt, name_defined_nowhere)
                if Op != 2 and Width == 64:
                    pl.mul(zt, zt, tiling.steps[2])
                if tiling.flip:
                    pl.neg(zt, zt)
                if shift_ptr is not None:
                    st = lines.next()
                    pl.set_validshape(st, [1, vc])
                    shift = pl.make_tensor(shift_ptr, [1, cols])
                    pl.load(st, shift, [0, c])
                    pl.expand_sub(zt, zt, st, dim=1)
                pl.store(z, zt, [i * TR, c])


def inputs():
    rng = np.random.default_rng(1414)
    x = rng.uniform(-2, 2, (ROWS, PITCH)).astype(np.float32)
    y = rng.uniform(-2, 2, (ROWS, PITCH)).astype(np.float32)
    shift = rng.uniform(-1, 1, (1, COLS)).astype(np.float32)
    return x, y, shift


def golden(x, y, shift, op, width, alpha, flip, step):
    x = x[:, :COLS]
    y = y[:, :COLS]
    z = {0: x + y, 1: x * y, 2: x * np.float32(alpha) + y}[op]
    if op != 2 and width == 64:
        z = z * np.float32(step)
    if flip:
        z = -z
    return z if shift is None else z - shift


def main():
    x, y, shift = inputs()
    ok = True
    for op, width, flip, with_shift in [(0, 32, False, True), (0, 64, True, False), (1, 64, False, True),
                                        (1, 32, True, False), (2, 64, True, True)]:
        tiling = CombineTiling(rows=ROWS, cols=COLS, pitch=PITCH, alpha=0.75, flip=flip, steps=[9, 9, 3, 9])
        s = shift if with_shift else None
        z = np.full((ROWS, COLS), np.nan, dtype=np.float32)
        combine[None, BLOCKS, {"Op": op, "Width": width}](x, y, s, z, tiling)
        ok = ok and np.allclose(z, golden(x, y, s, op, width, 0.75, flip, 3), rtol=1e-6, atol=1e-6)
    for bad in ({"Op": 2, "Width": 32}, {"Op": 3, "Width": 64}, {"Op": 0}):
        try:
            combine[None, BLOCKS, bad]
            ok = False
        except ValueError:
            pass
    print("PASS tiling_key_data" if ok else "FAIL tiling_key_data")
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
