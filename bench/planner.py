"""How long the layout planner takes, and how often it proves its answer: `python bench/planner.py [--seeds N]`.

Random kernels: sizes and lifetimes as in real ones (many small scratch tiles, some large ones, nested phases). Targets:
24 tiles under 100 ms, 40 tiles under 2 s, never above first-fit.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time

from pypto_pro.dtypes import DataType
from pypto_pro.enums import MemorySpace
from pypto_pro.ir.types import TileType
from pypto_pro.memory.design import Declared, Design, TileRecord
from pypto_pro.memory.machine import Chip
from pypto_pro.memory.planner import first_fit_layout, plan_layout
from pypto_pro.memory.problem import problem_of

TARGETS = {12: 0.100, 24: 0.100, 40: 2.0}


def random_design(tiles: int, seed: int) -> Design:
    """A design of `tiles` Vec tiles without addresses."""
    draw = random.Random(seed)
    records = []
    for i in range(tiles):
        rows, cols = draw.choice((1, 4, 8, 16, 24, 32)), draw.choice((8, 16, 32, 64, 120, 128))
        first = draw.randrange(tiles)
        last = min(2 * tiles, first + draw.choice((0, 1, 2, 4, 8, tiles // 2)))
        kind = TileType([rows, cols], DataType.DT_FP32, MemorySpace.Vec)
        records.append(TileRecord(f"t{i}", "tile", kind, declared=Declared(first, last)))
    return Design(tuple(records))


def measure(tiles: int, seeds: int) -> bool:
    """Plan `seeds` random designs, print one line; whether the slowest met its target."""
    times, proved, gaps, saved = [], 0, [], []
    for seed in range(seeds):
        problem, _ = problem_of(random_design(tiles, seed), Chip())
        start = time.process_time()  # one thread; other work on the machine does not count
        placement = plan_layout(problem)
        times.append(time.process_time() - start)
        (plan,) = placement.spaces
        first = first_fit_layout(problem)[MemorySpace.Vec]
        assert plan.highest <= first
        proved += plan.optimal
        gaps.append(plan.gap / plan.lower_bound)
        saved.append(1 - plan.highest / first)
    target = TARGETS[tiles]
    print(
        f"{tiles:3d} tiles: median {statistics.median(times) * 1e3:7.1f} ms, slowest {max(times) * 1e3:7.1f} ms"
        f" (target {target * 1e3:.0f} ms); optimal {proved}/{seeds}; largest gap {max(gaps):.1%};"
        f" {statistics.mean(saved):.1%} below first-fit"
    )
    return max(times) <= target


def main() -> int:
    """Measure every size; 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    seeds = parser.parse_args().seeds
    met = [measure(tiles, seeds) for tiles in TARGETS]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
