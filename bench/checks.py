"""Cost of the checks: whole workloads under all checks, and time per instruction as the work grows.

    python bench/checks.py [--json] [w3 w4 growth]

`interp` and `check` are processor seconds of a warm launch on the simulator, which has one thread; `wall` is what the
check took on this machine now, `MiB` the peak of the process so far. The exit code is 1 when a check takes more than 5
processor seconds or 2 GiB, or when the time per instruction grows by more than half from the smallest to the largest
run.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import kernels
import pypto_pro
import pypto_pro.language as pl

LIMIT_SECONDS, LIMIT_MIB = 5.0, 2048
TURNS = (1_000, 10_000, 100_000)
"""Rounds of the growing kernel, about ten instructions each."""


@dataclass
class Row:
    """One workload under checks."""

    name: str
    instructions: int
    interp_s: float
    check_s: float
    wall_s: float
    us_per_instruction: float
    mib: float
    clean: bool


@pl.jit
def growing(x: pl.Tensor[[pl.DYNAMIC, 64], pl.DT_FP32], y: pl.Tensor[[pl.DYNAMIC, 64], pl.DT_FP32]):
    tile = pl.TileType(shape=[1, 64], dtype=pl.DT_FP32)
    ins = pl.make_tile_group(type=tile, addrs=0, mutex_ids=[0, 1])
    outs = pl.make_tile_group(type=tile, addrs=0x200, mutex_ids=[2, 3])
    with pl.section_vector():
        for row in pl.range(0, x.shape[0]):
            a = ins.next()
            b = outs.next()
            pl.load(a, x, [row, 0])
            pl.add(b, a, 1.0)
            pl.store(y, b, [row, 0])


def seconds(call: Callable[[], Any]) -> tuple[float, float, Any]:
    """Processor and wall-clock time of a call, and its result."""
    began, wall = time.process_time(), time.perf_counter()
    result = call()
    return time.process_time() - began, time.perf_counter() - wall, result


def measure(name: str, kernel: Any, blocks: int, *args: np.ndarray) -> Row:
    """One workload, both ways, after a first launch that compiles."""
    with pypto_pro.options(executor="interp"):
        kernel[None, blocks](*args)
        plain, _, _ = seconds(lambda: kernel[None, blocks](*args))
    checked, wall, report = seconds(lambda: pypto_pro.check(kernel[None, blocks], *args))
    count = report.looked_at["runs"][0]["instructions"]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Row(name, count, plain, checked, wall, checked / count * 1e6, peak, report.clean)


def matmul() -> list[Row]:
    """W3: FP16 product."""
    rng = np.random.default_rng(3)
    n = kernels.W3_N
    a, b = (rng.standard_normal((n, n)).astype(np.float16) for _ in range(2))
    return [measure("W3 matmul fp16 1024^3, 8 blocks", kernels.matmul_fp16, 8, a, b, np.empty((n, n), np.float32))]


def attention() -> list[Row]:
    """W4: flash attention."""
    rng = np.random.default_rng(4)
    q, k, v = (rng.standard_normal(kernels.W4_SHAPE).astype(np.float16) for _ in range(3))
    return [measure("W4 flash attention fp16 4 x 2048 x 128", kernels.attention, 8, q, k, v, np.empty_like(q))]


def growth() -> list[Row]:
    """The same kernel with ten times the work, twice."""
    rows = []
    for turns in TURNS:
        x = np.ones((turns, 64), np.float32)
        rows.append(measure(f"{turns} rows, one at a time", growing, 1, x, np.empty_like(x)))
    return rows


WORKLOADS = {"w3": matmul, "w4": attention, "growth": growth}


def is_within(name: str, rows: list[Row]) -> bool:
    """Whether a workload keeps its limits."""
    if not all(row.clean and row.mib <= LIMIT_MIB for row in rows):
        return False
    if name == "growth":
        return rows[-1].us_per_instruction <= 1.5 * rows[0].us_per_instruction
    return all(row.check_s <= LIMIT_SECONDS for row in rows)


def main() -> int:
    """Run the chosen workloads."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="workload", help="w3 w4 growth")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    unknown = set(given.names) - set(WORKLOADS)
    if unknown:
        parser.error(f"unknown workload {', '.join(sorted(unknown))}; there are {', '.join(WORKLOADS)}")
    found = {name: WORKLOADS[name]() for name in given.names or WORKLOADS}
    within = {name: is_within(name, rows) for name, rows in found.items()}
    if given.json:
        print(json.dumps({n: {"within": within[n], "rows": [asdict(r) for r in rows]} for n, rows in found.items()}))
        return int(not all(within.values()))
    heads = ("interp s", "check s", "wall s", "us/instr", "MiB")
    print(f"{'workload':40} {'instructions':>12} {heads[0]:>9} {heads[1]:>9} {heads[2]:>8} {heads[3]:>9} {heads[4]:>6}")
    for name, rows in found.items():
        for row in rows:
            print(f"{row.name:40} {row.instructions:12} {row.interp_s:9.2f} {row.check_s:9.2f}"
                  f" {row.wall_s:8.2f} {row.us_per_instruction:9.1f} {row.mib:6.0f}")  # fmt: skip
        if not within[name]:
            print(f"{name}: above its limits")
    return int(not all(within.values()))


if __name__ == "__main__":
    sys.exit(main())
