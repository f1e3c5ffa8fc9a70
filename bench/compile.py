"""How long the first call of a kernel takes, with an empty cache and in the next process; and the import before it.

    python bench/compile.py [--repeat 3] [--json] [--profile NAME] [small long ...]

Every figure comes from a process of its own; the least of `--repeat` runs is shown, since a busy machine only adds. The
exit code is 1 when one is above its limit. `--profile` prints where the time of a first call with an empty cache goes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

LIMITS_MS = {"small": (400.0, 60.0), "long": (1500.0, 60.0), "mixed": (1500.0, 60.0)}
IMPORT_LIMIT_MS = 250
"""Milliseconds of the first call: with an empty cache, from the disk cache."""

HEAD = """import pypto_pro.language as pl
from pypto_pro.language import Vf as vf

R, C = 32, 128
SLOT = R * C * 4
F16, F32 = pl.DT_FP16, pl.DT_FP32


def single(kind, addr, mutex_id):
    return pl.make_tile_group(type=kind, addrs=addr, mutex_ids=[mutex_id]).current()


@pl.vector_function
def scaled_exp(dst, src, rows, factor):
    every = vf.create_mask(dtype=F32)
    for r in pl.range(0, rows):
        for c in pl.range(0, C, 64):
            x = vf.load_align(src, [r, c])
            x = vf.muls(x, factor, every)
            x = vf.exp(x, every)
            vf.store_align(dst, x, every, [r, c])


@pl.jit
def kernel(
    x: pl.Tensor[[pl.DYNAMIC, C], F32],
    w: pl.Tensor[[pl.DYNAMIC, C], F16],
    y: pl.Tensor[[pl.DYNAMIC, C], F32],
    scale: pl.DT_FP32,
):
    wide = pl.TileType(shape=[R, C], dtype=F32, valid_shape=[-1, -1])
    half = pl.TileType(shape=[R, C], dtype=F16, valid_shape=[-1, -1])
    column = pl.TileType(shape=[R, 1], dtype=F32, layout=pl.DN, valid_shape=[-1, -1])
    rows = x.shape[0]
"""
VECTOR_HEAD = """    with pl.section_vector():
        ins = pl.make_tile_group(type=wide, addrs=0, mutex_ids=[0, 1])
        outs = pl.make_tile_group(type=wide, addrs=2 * SLOT, mutex_ids=[2, 3])
        weights = pl.make_tile_group(type=half, addrs=4 * SLOT, mutex_ids=[4, 5])
        tmp = single(wide, 5 * SLOT, 6)
        acc = single(wide, 6 * SLOT, 7)
        red = single(column, 7 * SLOT, 8)
"""
STEPS = (
    "pl.add(acc, a, tmp)", "pl.sub(acc, a, tmp)", "pl.mul(acc, a, tmp)", "pl.maximum(acc, a, tmp)",
    "pl.minimum(acc, a, tmp)", "pl.abs(acc, a)", "pl.exp(acc, tmp)", "pl.relu(acc, a)",
)  # fmt: skip
CUBE_HEAD = """    with pl.section_cube():
        mat = pl.TileType(shape=[C, C], dtype=F16, target_memory=pl.MemorySpace.Mat)
        w1 = pl.make_tile_group(type=mat, addrs=0, mutex_ids=[9, 10])
        l0 = single(pl.TileType(shape=[C, C], dtype=F16, target_memory=pl.MemorySpace.Left), 0, 11)
        r0 = single(pl.TileType(shape=[C, C], dtype=F16, target_memory=pl.MemorySpace.Right), 0, 12)
        sums = single(pl.TileType(shape=[C, C], dtype=F32, target_memory=pl.MemorySpace.Acc), 0, 13)
"""


def vector_stage(k: int) -> Iterator[str]:
    """One loop over row blocks: load, convert, compute, branch, reduce, store."""
    yield from f"""        # stage {k}
        for i in pl.range(pl.get_block_idx(), (rows + R - 1) // R, pl.get_block_num()):
            base = i * R
            count = pl.min(R, rows - base)
            a = ins.next()
            out = outs.next()
            wt = weights.next()
            pl.set_validshape(a, [count, C])
            pl.set_validshape(out, [count, C])
            pl.set_validshape(wt, [count, C])
            pl.set_validshape(acc, [count, C])
            pl.set_validshape(tmp, [count, C])
            pl.set_validshape(red, [count, 1])
            pl.load(a, {"y" if k else "x"}, [base, 0])
            pl.load(wt, w, [base, 0])
            pl.cast(tmp, wt)
            {STEPS[k % len(STEPS)]}
            if i % 2 == {k % 2}:
                pl.mul(acc, acc, scale)
            else:
                pl.add(acc, acc, {k}.5)
            {"scaled_exp(out, acc, count, scale)" if k % 5 == 0 else "pl.maximum(red, acc, tmp, dim=0)"}
            {"pl.add(out, out, 1.0)" if k % 5 == 0 else "pl.expand_sub(out, acc, red, dim=0)"}
            pl.store(y, out, [base, 0])
        pl.system.bar_all()""".splitlines()


def cube_stage(k: int) -> Iterator[str]:
    """One loop over row blocks of the weights: two loads, two moves, a product."""
    yield from f"""        # product {k}
        for i in pl.range(pl.get_block_idx(), rows // C, pl.get_block_num()):
            left = w1.next()
            right = w1.next()
            pl.load(left, w, [i * C, 0])
            pl.load(right, w, [{k % 2} * C, 0], order=[1, 0])
            pl.move(l0, left)
            pl.move(r0, right)
            pl.matmul(sums, l0, r0)
            pl.store(y, sums, [i * C, 0])
        pl.system.bar_all()""".splitlines()


def source(vector_stages: int, cube_stages: int) -> str:
    """The text of a kernel."""
    lines = [HEAD.rstrip("\n"), VECTOR_HEAD.rstrip("\n")]
    for k in range(vector_stages):
        lines += vector_stage(k)
    if cube_stages:
        lines.append(CUBE_HEAD.rstrip("\n"))
    for k in range(cube_stages):
        lines += cube_stage(k)
    return "\n".join(lines) + "\n"


SOURCES: dict[str, Callable[[], str]] = {
    "small": lambda: source(1, 0), "long": lambda: source(24, 0), "mixed": lambda: source(14, 22)
}  # fmt: skip

CHILD = """
import sys, time
import numpy as np
import pypto_pro.language
sys.path.insert(0, sys.argv[1])
import kern
x = np.random.rand(256, 128).astype(np.float32)
w = np.random.rand(256, 128).astype(np.float16)
y = np.zeros_like(x)
launch = kern.kernel[None, 2]
if len(sys.argv) > 2:
    import cProfile, pstats
    profile = cProfile.Profile()
    profile.runcall(launch, x, w, y, 0.5)
    pstats.Stats(profile).sort_stats("cumulative").print_stats(60)
else:
    began, used = time.perf_counter(), time.process_time()
    launch(x, w, y, 0.5)
    print(1000 * (time.perf_counter() - began), 1000 * (time.process_time() - used))
"""


@dataclass
class Row:
    """One kernel: its lines, and milliseconds of the first call in both situations, with their limits.

    The processor's time (`cpu`) says on a busy machine what the clock would show on an idle one.
    """

    name: str
    lines: int
    cold_ms: float
    cold_cpu_ms: float
    cached_ms: float
    cached_cpu_ms: float
    cold_limit_ms: float
    cached_limit_ms: float

    @property
    def is_slow(self) -> bool:
        """Whether a figure is above its limit."""
        return self.cold_ms > self.cold_limit_ms or self.cached_ms > self.cached_limit_ms


def child(folder: str, cache: str, *args: str) -> str:
    """What a fresh process prints. Python's own bytecode cache is used, as in an installation."""
    env = {**os.environ, "PYPTO_PRO_CACHE_DIR": cache, "PYPTO_PRO_EXECUTOR": "native", "PYTHONDONTWRITEBYTECODE": ""}
    env.setdefault("PYTHONPYCACHEPREFIX", os.path.join(tempfile.gettempdir(), "pypto-pro-bench-bytecode"))
    done = subprocess.run(
        [sys.executable, "-c", CHILD, folder, *args], env=env, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    return done.stdout


def import_ms(repeat: int) -> float:
    """Milliseconds that `import pypto_pro.language` takes in a fresh process, numpy included; the least of some."""
    code = "import time; t = time.perf_counter(); import pypto_pro.language; print(1000 * (time.perf_counter() - t))"
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    runs = [subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
            for _ in range(repeat + 1)]  # fmt: skip
    return min(float(run.stdout) for run in runs)


def measure(name: str, repeat: int) -> Row:
    """The figures of one kernel."""
    text = SOURCES[name]()
    cold: list[list[float]] = []
    cached: list[list[float]] = []
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "kern.py").write_text(text, encoding="utf-8")
        child(folder, os.path.join(folder, "warm-up"))  # Python's bytecode, the system's file cache
        for k in range(repeat):
            cache = os.path.join(folder, f"cache{k}")
            for figures in (cold, cached):
                figures.append([float(number) for number in child(folder, cache).split()])
    least = [min(column) for figures in (cold, cached) for column in zip(*figures, strict=True)]
    return Row(name, text.count("\n"), *least, *LIMITS_MS[name])


def main() -> int:
    """Measure, print, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SOURCES)}; default: all")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--profile", choices=SOURCES)
    chosen = parser.parse_args()
    if chosen.profile:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "kern.py").write_text(SOURCES[chosen.profile](), encoding="utf-8")
            child(folder, os.path.join(folder, "warm-up"))
            print(child(folder, os.path.join(folder, "cache"), "profile"))
        return 0
    rows = [measure(name, chosen.repeat) for name in chosen.names or SOURCES]
    if chosen.json:
        print(json.dumps([asdict(row) for row in rows], indent=1))
    else:
        print(f"{'kernel':8} {'lines':>6} {'cold ms':>9} {'cpu':>7} {'limit':>7} {'cached ms':>10} {'cpu':>6} "
              f"{'limit':>6}")  # fmt: skip
        for r in rows:
            print(f"{r.name:8} {r.lines:6d} {r.cold_ms:9.1f} {r.cold_cpu_ms:7.1f} {r.cold_limit_ms:7.0f} "
                  f"{r.cached_ms:10.1f} {r.cached_cpu_ms:6.1f} {r.cached_limit_ms:6.0f}"
                  f"{'   TOO SLOW' if r.is_slow else ''}")  # fmt: skip
        print(f"import pypto_pro.language: {import_ms(chosen.repeat):.0f} ms (limit {IMPORT_LIMIT_MS})")
    return int(any(row.is_slow for row in rows))


if __name__ == "__main__":
    sys.exit(main())
