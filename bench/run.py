"""Speed of native execution against torch on the same CPU, in the same run.

    python bench/run.py [--threads 2] [--repeat 15] [--json] [w1 w2 ...]

Both sides get the same number of threads and take turns, so that a busy machine slows both. A row shows the medians
and their ratio (ours / torch: below 1 is faster); the exit code is 1 when a ratio is above its limit.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import kernels

CALLS, PAUSE = 5, 0.02
"""Calls of one side in a turn that are counted, and seconds before them."""


@dataclass
class Row:
    """One workload: medians in milliseconds, their ratio, the largest ratio that is accepted."""

    name: str
    ours_ms: float
    torch_ms: float
    ratio: float
    limit: float


@dataclass
class Workload:
    """What is measured: our launch, torch's call, and a check that both computed the same."""

    title: str
    ours: Callable[[], Any]
    torch: Callable[[], Any]
    check: Callable[[], bool]
    limit: float


def workloads() -> dict[str, Callable[[], Workload]]:
    """By short name."""
    return {"w1": add, "w2": softmax, "w3": matmul, "w4": attention}


def add() -> Workload:
    """FP16 addition, bound by memory."""
    import torch

    a, b = (torch.randn(kernels.W1_ROWS, kernels.W1_COLS).half() for _ in range(2))
    y, want = torch.empty_like(a), torch.empty_like(a)
    return Workload(
        "W1 add fp16 [4096, 4096]", lambda: kernels.add_fp16[None, 64](a, b, y), lambda: torch.add(a, b, out=want),
        lambda: bool(torch.equal(y, want)), 4.0,
    )


def softmax() -> Workload:
    """Row softmax with tile reductions."""
    import torch

    x = torch.randn(kernels.W2_ROWS, kernels.W2_COLS)
    y, want = torch.empty_like(x), torch.empty_like(x)
    return Workload(
        "W2 softmax fp32 [4096, 1024]", lambda: kernels.softmax_fp32[None, 64](x, y),
        lambda: torch.softmax(x, 1, out=want), lambda: bool(torch.allclose(y, want, rtol=1e-5, atol=1e-7)), 4.0,
    )


def matmul() -> Workload:
    """FP16 product with FP32 sums, torch converting its operands."""
    import torch

    a, b = (torch.randn(kernels.W3_N, kernels.W3_N).half() for _ in range(2))
    c = torch.empty(kernels.W3_N, kernels.W3_N)
    return Workload(
        "W3 matmul fp16 1024^3, 8 blocks", lambda: kernels.matmul_fp16[None, 8](a, b, c),
        lambda: torch.matmul(a.float(), b.float()),
        lambda: bool(torch.allclose(c, a.float() @ b.float(), rtol=1e-3, atol=1e-3)), 3.0,
    )


def attention() -> Workload:
    """Flash attention against torch's fused one."""
    import torch

    q, k, v = (torch.randn(kernels.W4_SHAPE).half() for _ in range(3))
    o = torch.empty_like(q)

    def fused() -> Any:
        return torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None])[0]

    return Workload(
        "W4 flash attention fp16 4 x 2048 x 128", lambda: kernels.attention[None, 8](q, k, v, o), fused,
        lambda: bool(torch.allclose(o.float(), fused().float(), rtol=5e-3, atol=5e-3)), 4.0,
    )


def measure(name: str, workload: Workload, repeat: int) -> Row:
    """Medians over calls made in turns, after a pause each: threads of torch spin for a while when their work is done,
    and would take a processor from the launch that follows. The first call of a turn wakes threads and is not counted.
    """
    for call in (workload.ours, workload.torch):
        call()
    if not workload.check():
        raise SystemExit(f"{name}: the results differ")
    times: dict[str, list[float]] = {"ours": [], "torch": []}
    while len(times["torch"]) < repeat:
        for side, call in (("ours", workload.ours), ("torch", workload.torch)):
            time.sleep(PAUSE)
            call()
            for _ in range(CALLS):
                began = time.perf_counter()
                call()
                times[side].append((time.perf_counter() - began) * 1e3)
    ours, torch = (statistics.median(times[side]) for side in ("ours", "torch"))
    return Row(workload.title, ours, torch, ours / torch, workload.limit)


def show(rows: list[Row], threads: int) -> None:
    """The table for people."""
    print(f"{threads} threads on each side; medians; ratio = ours / torch")
    print(f"{'workload':40} {'ours ms':>10} {'torch ms':>10} {'ratio':>7} {'limit':>7}")
    for row in rows:
        mark = "" if row.ratio <= row.limit else "  above the limit"
        print(f"{row.name:40} {row.ours_ms:10.2f} {row.torch_ms:10.2f} {row.ratio:7.2f} {row.limit:7.1f}{mark}")


def main() -> int:
    """Run the chosen workloads."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*workloads(), []], metavar="workload", help="w1 w2 w3 w4")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    os.environ["PYPTO_PRO_THREADS"] = str(given.threads)
    import torch

    torch.set_num_threads(given.threads)
    made = workloads()
    rows = [measure(name, made[name](), given.repeat) for name in given.names or made]
    if given.json:
        print(json.dumps({"threads": given.threads, "rows": [asdict(r) for r in rows]}, indent=2))
    else:
        show(rows, given.threads)
    return int(any(row.ratio > row.limit for row in rows))


if __name__ == "__main__":
    sys.exit(main())
