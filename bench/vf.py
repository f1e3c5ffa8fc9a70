"""Register-level kernels: throughput of lane arithmetic, softmax against its tile-level form, the first call.

usage: python bench/vf.py [--repeat N] [--json]

Exit code 1 when a figure is below its limit: chains of add, mul and exp at 1e9 lane operations a second and core,
softmax within twice the time of the tile ops, 0.6 s for the first call of a function of 400 ops.
"""

from __future__ import annotations

import argparse
import json
import linecache
import os
import statistics
import sys
import tempfile
import time
import types
from collections.abc import Callable
from functools import partial
from typing import Any

os.environ.setdefault("PYPTO_PRO_THREADS", "1")

import numpy as np

import kernels
import pypto_pro.language as pl
from pypto_pro.language import Vf as vf  # noqa: N813

LANES, CHAIN, ROUNDS = 64, 8, 20_000
ROWS, COLS, TILE_ROWS = kernels.W2_ROWS, kernels.W2_COLS, kernels.W2_TR
SLOT = TILE_ROWS * COLS * 4
CHUNKS = COLS // LANES


@pl.vector_function
def add_chain(src, dst, rounds: pl.DT_INT64):
    on = vf.create_mask(dtype=pl.DT_FP32)
    x = vf.load_align(src, 0)
    y = vf.load_align(src, 64)
    for _ in pl.range(0, rounds):
        x = vf.add(x, y, on)
        y = vf.add(y, x, on)
        x = vf.add(x, y, on)
        y = vf.add(y, x, on)
        x = vf.add(x, y, on)
        y = vf.add(y, x, on)
        x = vf.add(x, y, on)
        y = vf.add(y, x, on)
    vf.store_align(dst, y, on)


@pl.vector_function
def mul_chain(src, dst, rounds: pl.DT_INT64):
    on = vf.create_mask(dtype=pl.DT_FP32)
    x = vf.load_align(src, 0)
    y = vf.load_align(src, 64)
    for _ in pl.range(0, rounds):
        x = vf.mul(x, y, on)
        y = vf.mul(y, x, on)
        x = vf.mul(x, y, on)
        y = vf.mul(y, x, on)
        x = vf.mul(x, y, on)
        y = vf.mul(y, x, on)
        x = vf.mul(x, y, on)
        y = vf.mul(y, x, on)
    vf.store_align(dst, y, on)


@pl.vector_function
def exp_chain(src, dst, rounds: pl.DT_INT64):
    on = vf.create_mask(dtype=pl.DT_FP32)
    x = vf.load_align(src, 0)
    for _ in pl.range(0, rounds):
        x = vf.exp(x, on)
        x = vf.exp(x, on)
        x = vf.exp(x, on)
        x = vf.exp(x, on)
        x = vf.exp(x, on)
        x = vf.exp(x, on)
        x = vf.exp(x, on)
        x = vf.exp(x, on)
    vf.store_align(dst, x, on)


def chain_kernel(chain: Callable[..., None]) -> Any:
    """A launch that runs one chain over registers."""

    @pl.jit(auto_mutex=True)
    def kernel(x: pl.Tensor[[2, 64], pl.DT_FP32], y: pl.Tensor[[2, 64], pl.DT_FP32], rounds: pl.DT_INT32):
        tile = pl.TileType(shape=[2, 64], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec)
        ins = pl.make_tile_group(type=tile, addrs=0, mutex_ids=[0])
        outs = pl.make_tile_group(type=tile, addrs=512, mutex_ids=[1])
        with pl.section_vector():
            pl.load(ins.current(), x, [0, 0])
            pl.load(outs.current(), y, [0, 0])
            chain(ins.current(), outs.current(), rounds)
            pl.store(y, outs.current(), [0, 0])

    return kernel


@pl.vector_function
def softmax_rows(src, dst):
    on = vf.create_mask(dtype=pl.DT_FP32)
    for r in pl.range(0, TILE_ROWS):
        peak = vf.load_align(src, [r, 0])
        for c in pl.range(1, CHUNKS):
            x = vf.load_align(src, [r, c * LANES])
            peak = vf.max(peak, x, on)
        top = vf.reduce_max(peak, on)
        top = vf.full(top, on)
        total = vf.full(0.0, on, dtype=pl.DT_FP32)
        for c in pl.range(0, CHUNKS):
            x = vf.load_align(src, [r, c * LANES])
            e = vf.exp_sub(x, top, on)
            total = vf.add(total, e, on)
            vf.store_align(dst, e, on, [r, c * LANES])
        total = vf.reduce_sum(total, on)
        total = vf.full(total, on)
        vf.mem_bar(mode=pl.MemBarMode.VST_VLD)
        for c in pl.range(0, CHUNKS):
            e = vf.load_align(dst, [r, c * LANES])
            q = vf.div(e, total, on)
            vf.store_align(dst, q, on, [r, c * LANES])


@pl.jit(auto_mutex=True)
def softmax_vf(x: pl.Tensor[[ROWS, COLS], pl.DT_FP32], y: pl.Tensor[[ROWS, COLS], pl.DT_FP32]):
    wide = pl.TileType(shape=[TILE_ROWS, COLS], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec)
    ins = pl.make_tile_group(type=wide, addrs=0, mutex_ids=[0, 1])
    outs = pl.make_tile_group(type=wide, addrs=2 * SLOT, mutex_ids=[2, 3])
    with pl.section_vector():
        for i in pl.range(pl.get_block_idx(), ROWS // TILE_ROWS, pl.get_block_num()):
            xt = ins.next()
            yt = outs.next()
            pl.load(xt, x, [i * TILE_ROWS, 0])
            softmax_rows(xt, yt)
            pl.store(y, yt, [i * TILE_ROWS, 0])


def long_function(groups: int, factor: float = 0.5) -> Any:
    """A kernel around one function of 11 ops a group, each group with names of its own; `factor` makes it another."""
    lines = ["on = vf.create_mask(dtype=pl.DT_FP32)"]
    for g in range(groups):
        lines += [
            f"a{g} = vf.load_align(src, {64 * g})", f"b{g} = vf.load_align(src, {64 * g + 64})",
            f"s{g} = vf.add(a{g}, b{g}, on)", f"p{g} = vf.mul(s{g}, a{g}, on)", f"m{g} = vf.max(p{g}, b{g}, on)",
            f"d{g} = vf.sub(p{g}, m{g}, on)", f"e{g} = vf.exp(d{g}, on)", f"q{g} = vf.muls(e{g}, {factor}, on)",
            f"k{g} = vf.gt(q{g}, a{g}, on)", f"r{g} = vf.select(q{g}, d{g}, k{g})",
            f"vf.store_align(dst, r{g}, on, {64 * g})",
        ]  # fmt: skip
    body = "\n".join(f"    {line}" for line in lines)
    text = f"""import pypto_pro.language as pl

@pl.vector_function
def ops(src, dst):
{body}

@pl.jit(auto_mutex=True)
def kernel(x: pl.Tensor[[64, 64], pl.DT_FP32], y: pl.Tensor[[64, 64], pl.DT_FP32]):
    tile = pl.TileType(shape=[64, 64], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec)
    ins = pl.make_tile_group(type=tile, addrs=0, mutex_ids=[0])
    outs = pl.make_tile_group(type=tile, addrs=65536, mutex_ids=[1])
    with pl.section_vector():
        pl.load(ins.current(), x, [0, 0])
        ops(ins.current(), outs.current())
        pl.store(y, outs.current(), [0, 0])
"""
    name = f"<{groups} groups of register ops, {factor}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    made = types.ModuleType(name)
    exec(compile(text, name, "exec"), vars(made))
    return made.kernel


def seconds(run: Callable[[], Any], repeat: int) -> float:
    """The median time of a call after two warm ones."""
    run()
    run()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def lane_rates(repeat: int) -> dict[str, float]:
    """Lane operations a second of one core, by chain: the time of many rounds less that of none."""
    rates = {}
    x = np.full((2, LANES), 1e-3, np.float32)
    for name, chain in {"add": add_chain, "mul": mul_chain, "exp": exp_chain}.items():
        kernel, y = chain_kernel(chain), np.zeros_like(x)
        count = ROUNDS // 10 if name == "exp" else ROUNDS
        spent, idle = (seconds(partial(kernel[None, 1], x, y, n), repeat) for n in (count, 0))
        rates[name] = count * CHAIN * LANES / (spent - idle)
    return rates


def softmax_times(repeat: int) -> tuple[float, float]:
    """Milliseconds of softmax FP32 [4096, 1024] with registers and with tile ops."""
    x = np.random.default_rng(0).standard_normal((ROWS, COLS)).astype(np.float32)
    ours, tiles = np.empty_like(x), np.empty_like(x)
    registers = 1e3 * seconds(lambda: softmax_vf[None, 64](x, ours), repeat)
    level = 1e3 * seconds(lambda: kernels.softmax_fp32[None, 64](x, tiles), repeat)
    np.testing.assert_allclose(ours, tiles, rtol=1e-4, atol=1e-7)
    return registers, level


def first_call() -> float:
    """Seconds of the first launch of a function of 407 ops, the best of three; the compiler is already loaded.

    Seconds of this process: it compiles on one thread, and others on the machine do not count.
    """
    x, y = np.ones((64, 64), np.float32), np.ones((64, 64), np.float32)
    with tempfile.TemporaryDirectory() as cache:
        os.environ["PYPTO_PRO_CACHE_DIR"] = cache
        long_function(1)[None, 1](x, y)
        times = []
        for factor in (0.25, 0.75, 1.5):
            kernel = long_function(37, factor)
            start = time.process_time()
            kernel[None, 1](x, y)
            times.append(time.process_time() - start)
        return min(times)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    first = first_call()
    rates = lane_rates(options.repeat)
    registers, tiles = softmax_times(options.repeat)
    figures = {
        "lane_ops_per_second": rates, "softmax_registers_ms": registers, "softmax_tiles_ms": tiles,
        "softmax_ratio": registers / tiles, "first_call_seconds": first,
    }  # fmt: skip
    if options.json:
        print(json.dumps(figures, indent=2))
    else:
        for name, rate in rates.items():
            print(f"{name:3s} chain         {rate:10.3g} lane operations a second")
        ratio = registers / tiles
        print(f"softmax           {registers:7.2f} ms with registers, {tiles:.2f} ms with tiles: {ratio:.2f}")
        print(f"first call        {first:7.2f} s for 407 ops")
    return int(min(rates.values()) < 1e9 or registers / tiles > 2 or first > 0.6)


if __name__ == "__main__":
    sys.exit(main())
