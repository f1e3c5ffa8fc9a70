"""Element-wise tile ops on tiles that stay in UB, warm, against a memcpy of the bytes one of them writes.

usage: python bench/vector_ops.py [--json]

Each kernel loads two tiles, applies one op many times, and stores the result; two repeat counts give the time of one
application without launch and transfers. The memcpy is numpy's, from one warm buffer to another.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("PYPTO_PRO_THREADS", "1")

import numpy as np

import pypto_pro.language as pl

ROWS, COLS = 64, 128
FEW, MANY = 200, 4200


def tile_bytes(dtype: Any) -> int:
    return ROWS * COLS * dtype.bits() // 8


def kernel_of(dtype: Any, out_dtype: Any, apply: Callable[..., None]) -> Any:
    """`count` applications of one op to tiles a, b -> c; m is a mask tile."""
    size = tile_bytes(dtype)

    @pl.jit(auto_mutex=False)
    def kernel(
        x: pl.Tensor[[ROWS, COLS], dtype], y: pl.Tensor[[ROWS, COLS], dtype], z: pl.Tensor[[ROWS, COLS], out_dtype],
        count: pl.DT_INT32,
    ):
        tile = pl.TileType(shape=[ROWS, COLS], dtype=dtype)
        result = pl.TileType(shape=[ROWS, COLS], dtype=out_dtype)
        bits = pl.TileType(shape=[ROWS, COLS], dtype=pl.DT_UINT8)
        line = pl.TileType(shape=[ROWS, 1], dtype=dtype, layout=pl.DN)
        with pl.section_vector():
            a = pl.make_tile(tile, addr=0, size=size)
            b = pl.make_tile(tile, addr=size, size=size)
            c = pl.make_tile(result, addr=2 * size, size=size)
            m = pl.make_tile(bits, addr=3 * size, size=ROWS * COLS)
            v = pl.make_tile(line, addr=3 * size + ROWS * COLS, size=512)
            pl.load(a, x, [0, 0])
            pl.load(b, y, [0, 0])
            pl.system.bar_all()
            pl.ne(m, a, 0)
            pl.expands(v, 1)
            pl.expands(c, 1)
            for _ in pl.range(count):
                apply(a, b, c, m, v)
            pl.system.bar_all()
            pl.store(z, c, [0, 0])

    return kernel


# one helper an op: the front end reads them as it reads the kernel


def op_add(a, b, c, m, v):
    pl.add(c, a, b)


def op_adds(a, b, c, m, v):
    pl.add(c, a, 1.5)


def op_sub(a, b, c, m, v):
    pl.sub(c, a, b)


def op_mul(a, b, c, m, v):
    pl.mul(c, a, b)


def op_div(a, b, c, m, v):
    pl.div(c, a, b)


def op_maximum(a, b, c, m, v):
    pl.maximum(c, a, b)


def op_neg(a, b, c, m, v):
    pl.neg(c, a)


def op_abs(a, b, c, m, v):
    pl.abs(c, a)


def op_relu(a, b, c, m, v):
    pl.relu(c, a)


def op_exp(a, b, c, m, v):
    pl.exp(c, a)


def op_log(a, b, c, m, v):
    pl.log(c, a)


def op_sqrt(a, b, c, m, v):
    pl.sqrt(c, a)


def op_rsqrt(a, b, c, m, v):
    pl.rsqrt(c, a)


def op_recip(a, b, c, m, v):
    pl.recip(c, a)


def op_cast(a, b, c, m, v):
    pl.cast(c, a, mode=pl.RoundMode.CAST_RINT)


def op_lt(a, b, c, m, v):
    pl.lt(m, a, b)


def op_select(a, b, c, m, v):
    pl.select(c, m, a, b, b)


def op_expand_sub(a, b, c, m, v):
    pl.expand_sub(c, a, v, dim=0)


def op_axpy(a, b, c, m, v):
    pl.axpy(c, a, 0.5)


def op_expands(a, b, c, m, v):
    pl.expands(c, 0.5)


def op_and(a, b, c, m, v):
    pl.and_(c, a, b)


def op_shl(a, b, c, m, v):
    pl.shl(c, a, b)


F32, F16, I32, I16 = pl.DT_FP32, pl.DT_FP16, pl.DT_INT32, pl.DT_INT16
OPS = [
    *((op, F32, F32) for op in (
        op_add, op_adds, op_sub, op_mul, op_div, op_maximum, op_neg, op_abs, op_relu, op_exp, op_log, op_sqrt,
        op_rsqrt, op_recip, op_select, op_expand_sub, op_axpy, op_expands, op_lt,
    )),
    (op_cast, F32, F16), (op_cast, F16, F32), (op_cast, F32, I32),
    *((op, F16, F16) for op in (op_add, op_mul, op_exp, op_maximum)),
    *((op, I32, I32) for op in (op_add, op_mul, op_and, op_shl)),
    *((op, I16, I16) for op in (op_add, op_mul)),
]  # fmt: skip


def best_of(run: Callable[[], None], repeats: int = 7) -> float:
    """Seconds of the fastest of some runs."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def memcpy_seconds(size: int) -> float:
    """One warm copy of `size` bytes."""
    source, target = np.ones(size, np.uint8), np.empty(size, np.uint8)

    def run() -> None:
        for _ in range(1000):
            np.copyto(target, source)

    def empty() -> None:
        for _ in range(1000):
            np.copyto(target[:0], source[:0])

    return (best_of(run) - best_of(empty)) / 1000


def op_seconds(apply: Callable[..., None], dtype: Any, out_dtype: Any) -> float:
    """One application of an op."""
    kernel = kernel_of(dtype, out_dtype, apply)
    rng = np.random.default_rng(1)
    if dtype.is_float():
        x, y = (rng.uniform(0.5, 3.0, (ROWS, COLS)).astype(dtype.numpy) for _ in range(2))
    else:
        x, y = (rng.integers(1, 9, (ROWS, COLS)).astype(dtype.numpy) for _ in range(2))
    z = np.empty((ROWS, COLS), out_dtype.numpy)
    launch = kernel[None, 1]
    few, many = (best_of(lambda n=n: launch(x, y, z, n)) for n in (FEW, MANY))
    return (many - few) / (MANY - FEW)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print a list of rows instead of a table")
    as_json = parser.parse_args().json
    rows = []
    for apply, dtype, out_dtype in OPS:
        written = tile_bytes(out_dtype)
        seconds, copy = op_seconds(apply, dtype, out_dtype), memcpy_seconds(written)
        kind = dtype.to_string() if dtype is out_dtype else f"{dtype.to_string()} -> {out_dtype.to_string()}"
        rows.append({"op": apply.__name__.removeprefix("op_"), "dtype": kind, "bytes": written,
                     "microseconds": seconds * 1e6, "memcpy_microseconds": copy * 1e6, "ratio": seconds / copy})
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    print(f"tile [{ROWS}, {COLS}], one thread")
    print(f"{'op':12s} {'dtype':14s} {'us':>8s} {'memcpy us':>10s} {'ratio':>6s} {'elements/ns':>12s}")
    for row in rows:
        speed = ROWS * COLS / row["microseconds"] / 1e3
        print(f"{row['op']:12s} {row['dtype']:14s} {row['microseconds']:8.2f} {row['memcpy_microseconds']:10.2f} "
              f"{row['ratio']:6.1f} {speed:12.2f}")


if __name__ == "__main__":
    main()
