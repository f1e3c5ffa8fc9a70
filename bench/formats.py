"""Matrix operands of every format, warm and on one core: products of 128-cubed tiles, operand decoding, transfers.

usage: python bench/formats.py [--json]

product: one native matmul of [128, 128] x [128, 128] tiles that stay on chip, decoding and packing included, as a share
of the speed of a plain FP32 product of numpy's BLAS of the same size. decode: bytes of an operand tile decoded and
packed for the matrix engine in a second, scales of MX included. transfer: bytes moved in a second. exit code 1 when a
product is below 60 % of BLAS or decoding below 1 GB/s.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

os.environ.setdefault("PYPTO_PRO_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import pypto_pro.language as pl
from pypto_pro.dtypes import DataType
from pypto_pro.native import matrix, mx_scales

SIDE = 128
FEW, MANY = 20, 420
REPEATS = 9
S = pl.MemorySpace
F32, F16, BF16, I8, I32 = pl.DT_FP32, pl.DT_FP16, pl.DT_BF16, pl.DT_INT8, pl.DT_INT32
F8, F85, HF8, F4, E8 = pl.DT_FP8E4M3FN, pl.DT_FP8E5M2, pl.DT_HF8, pl.DT_FP4E2M1, pl.DT_FP8E8M0
PRODUCT_SHARE, DECODE_RATE = 0.6, 1.0


@dataclass
class Row:
    """One measurement: its value in `unit`, and the least that is accepted (0: no limit)."""

    name: str
    value: float
    unit: str
    least: float = 0.0

    @property
    def falls_short(self) -> bool:
        """Whether it is below its limit."""
        return self.value < self.least


def best(run: Callable[[], None]) -> float:
    """Seconds of the fastest of some runs."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def per_round(launch: Callable[[int], None]) -> float:
    """Seconds of one round of a kernel that does `count` of them."""
    launch(FEW)
    found = [best(lambda: launch(MANY)) - best(lambda: launch(FEW)) for _ in range(3)]
    return statistics.median(found) / (MANY - FEW)


# --- products --------------------------------------------------------------------------------------------------------


def product_kernel(lhs: Any, rhs: Any, acc: Any, scaled: bool) -> Any:
    """`count` products of tiles on chip."""

    @pl.jit(auto_mutex=False)
    def kernel(y: pl.Tensor[[SIDE, SIDE], acc], count: pl.DT_INT32):
        left_type = pl.TileType(shape=[SIDE, SIDE], dtype=lhs, target_memory=S.Left)
        right_type = pl.TileType(shape=[SIDE, SIDE], dtype=rhs, target_memory=S.Right)
        acc_type = pl.TileType(shape=[SIDE, SIDE], dtype=acc, target_memory=S.Acc)
        with pl.section_cube():
            left = pl.make_tile(left_type, addr=0)
            right = pl.make_tile(right_type, addr=0)
            total = pl.make_tile(acc_type, addr=0)
            if scaled:
                a = pl.make_tile(pl.TileType(shape=[SIDE, SIDE // 32], dtype=E8, target_memory=S.ScaleLeft), addr=0)
                b = pl.make_tile(pl.TileType(shape=[SIDE // 32, SIDE], dtype=E8, target_memory=S.ScaleRight), addr=0)
                for _ in pl.range(count):
                    pl.matmul_mx(total, left, right, a, b)
            else:
                for _ in pl.range(count):
                    pl.matmul(total, left, right)
            pl.system.bar_all()
            pl.store(y, total, [0, 0])

    return kernel


def products() -> list[Row]:
    """Every operand format, as a share of BLAS."""
    x, y, z = (np.ones((SIDE, SIDE), np.float32) for _ in range(3))

    def blas(count: int) -> None:
        for _ in range(count):
            np.matmul(x, y, out=z)

    sgemm = per_round(blas)
    rows = []
    for lhs, rhs, scaled in (
        (F32, F32, False), (F16, F16, False), (BF16, BF16, False), (I8, I8, False), (F8, F8, False), (F85, F8, False),
        (HF8, HF8, False), (F8, F8, True), (F4, F4, True),
    ):
        acc = I32 if lhs is I8 else F32
        kernel = product_kernel(lhs, rhs, acc, scaled)
        out = np.zeros((SIDE, SIDE), np.int32 if lhs is I8 else np.float32)
        seconds = per_round(lambda count: kernel[None, 1](out, count))  # noqa: B023
        name = f"product{' mx' if scaled else ''} {lhs.to_string()} x {rhs.to_string()}"
        rows.append(Row(name, sgemm / seconds, "of sgemm", PRODUCT_SHARE))
    return rows


# --- decoding --------------------------------------------------------------------------------------------------------


def decode(dtype: DataType) -> list[Row]:
    """Both operand forms of one format, straight from the engine's functions."""
    name, size = dtype.to_string(), SIDE * SIDE * dtype.bits() // 8
    codes = np.random.default_rng(1).integers(0, 256, size + 64, np.uint8)
    packed = np.zeros(SIDE * SIDE + 64, np.float32)
    scales = np.full(SIDE * SIDE // 32 + 64, 127, np.uint8)
    found = {**matrix.functions(dtype), **mx_scales.functions()}
    word, address = ctypes.c_int64, ctypes.c_void_p

    def caller(symbol: str, *types: Any) -> Any:
        return ctypes.CFUNCTYPE(None, *types)(found[symbol])

    left = caller(f"mm_left_{name}", address, address, word)
    right = caller(f"mm_right_{name}", address, address, word, word)
    box = 64 if dtype.is_sub_byte else 32
    scale_left = caller(f"mm_scale_left_{box}", address, address, word, word)
    scale_right = caller("mm_scale_right", address, address, word, word, word)
    source, target, factors = codes.ctypes.data, packed.ctypes.data, scales.ctypes.data
    groups = SIDE // 32

    def rate(*calls: Callable[[], None]) -> float:
        def many() -> None:
            for _ in range(200):
                for call in calls:
                    call()

        return 200 * size / best(many) / 1e9

    def one_left() -> None:
        left(source, target, SIDE * SIDE)

    def one_right() -> None:
        right(source, target, SIDE, SIDE)

    rows = [Row(f"decode {name} as Left", rate(one_left), "GB/s", DECODE_RATE),
            Row(f"decode {name} as Right", rate(one_right), "GB/s", DECODE_RATE)]
    if dtype in (F8, F85, F4):
        rows += [
            Row(f"decode mx {name} as Left", rate(one_left, lambda: scale_left(target, factors, SIDE, groups)), "GB/s",
                DECODE_RATE),
            Row(f"decode mx {name} as Right",
                rate(one_right, lambda: scale_right(target, factors, SIDE, groups, SIDE)), "GB/s", DECODE_RATE),
        ]
    return rows


# --- transfers -------------------------------------------------------------------------------------------------------


def load_kernel(dtype: Any, order: Any) -> Any:
    """`count` loads of [256, 256] boxes."""

    @pl.jit(auto_mutex=False)
    def kernel(x: pl.Tensor[[256, 256], dtype], y: pl.Tensor[[16, 16], F32], count: pl.DT_INT32):
        tile_type = pl.TileType(shape=[256, 256], dtype=dtype, target_memory=S.Mat)
        with pl.section_cube():
            tile = pl.make_tile(tile_type, addr=0)
            for _ in pl.range(count):
                pl.load(tile, x, [0, 0], order=order)

    return kernel


def move_kernel(dtype: Any, space: Any, layout: Any) -> Any:
    """`count` moves of a [128, 128] operand."""

    @pl.jit(auto_mutex=False)
    def kernel(y: pl.Tensor[[16, 16], F32], count: pl.DT_INT32):
        source_type = pl.TileType(shape=[SIDE, SIDE], dtype=dtype, target_memory=S.Mat, layout=layout)
        target_type = pl.TileType(shape=[SIDE, SIDE], dtype=dtype, target_memory=space)
        with pl.section_cube():
            source = pl.make_tile(source_type, addr=0)
            target = pl.make_tile(target_type, addr=0)
            for _ in pl.range(count):
                pl.move(target, source)

    return kernel


def exit_kernel(target: Any, scaled: bool) -> Any:
    """`count` stores of a [128, 128] accumulator."""

    @pl.jit(auto_mutex=False)
    def kernel(x: pl.Tensor[[SIDE, SIDE], target], count: pl.DT_INT32):
        acc_type = pl.TileType(shape=[SIDE, SIDE], dtype=F32, target_memory=S.Acc)
        with pl.section_cube():
            total = pl.make_tile(acc_type, addr=0)
            if scaled:
                for _ in pl.range(count):
                    pl.store(x, total, [0, 0], scale=0.5)
            else:
                for _ in pl.range(count):
                    pl.store(x, total, [0, 0])

    return kernel


def transfers() -> list[Row]:
    """Loads into boxes, moves that transpose, exits with their conversions."""
    small = np.zeros((16, 16), np.float32)
    rows = []
    for dtype, kind in ((F16, np.float16), (F32, np.float32), (I8, np.int8)):
        data, size = np.zeros((256, 256), kind), 256 * 256 * dtype.bits() // 8
        for order, what in (([0, 1], "plain"), ([1, 0], "transposed")):
            kernel = load_kernel(dtype, order)
            seconds = per_round(lambda count: kernel[None, 1](data, small, count))  # noqa: B023
            rows.append(Row(f"load {what} {dtype.to_string()} to Mat", size / seconds / 1e9, "GB/s"))
    for dtype in (F16, F32, F8, F4):
        for space, layout, what in ((S.Left, pl.NZ, "copied to Left"), (S.Right, pl.NZ, "transposed to Right")):
            kernel = move_kernel(dtype, space, layout)
            seconds = per_round(lambda count: kernel[None, 1](small, count))  # noqa: B023
            size = SIDE * SIDE * dtype.bits() // 8
            rows.append(Row(f"move {dtype.to_string()} {what}", size / seconds / 1e9, "GB/s"))
    for target, kind, scaled in (
        (F32, np.float32, False), (F16, np.float16, False), (I8, np.int8, True), (F8, np.uint8, True),
        (HF8, np.uint8, True),
    ):
        kernel, out = exit_kernel(target, scaled), np.zeros((SIDE, SIDE), kind)
        seconds = per_round(lambda count: kernel[None, 1](out, count))  # noqa: B023
        rows.append(Row(f"exit to {target.to_string()}", SIDE * SIDE / seconds / 1e9, "G elements/s"))
    return rows


def main() -> int:
    """Print a table; exit code 1 when something is below its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows = products() + [row for d in (F16, I8, F8, F85, HF8, F4) for row in decode(d)] + transfers()
    if given.json:
        print(json.dumps([asdict(row) for row in rows], indent=1))
    else:
        for row in rows:
            mark = f"  below {row.least}" if row.falls_short else ""
            print(f"{row.name:40s} {row.value:8.2f} {row.unit}{mark}")
    return int(any(row.falls_short for row in rows))


if __name__ == "__main__":
    sys.exit(main())
