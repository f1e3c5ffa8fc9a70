"""How much the automatic pipeline gains: cycles of a kernel with `pipeline=`, next to the same kernel in serial order.

    python bench/pipeline.py [--json] [mlp attention]

The simulator runs each kernel once and a clock a pipe is kept: an instruction starts when its pipe, its locks and its
signals allow it and takes a start-up plus its bytes (products for the matrix unit) at the rates of `RATES`. These are
round figures, the same for both; the ratio is what counts. The exit code is 1 when the pipeline gains less than 1.5.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import pypto_pro.language as pl
from pypto_pro.enums import PipeType
from pypto_pro.interp import Observer
from pypto_pro.interp.run import run

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))
import flash_attention_pipeline
import mlp_pipeline

RATES = {PipeType.MTE2: (400, 64), PipeType.MTE3: (200, 64), PipeType.FIX: (100, 128), PipeType.MTE1: (30, 256),
         PipeType.V: (20, 256), PipeType.S: (1, 64)}  # fmt: skip
"""Start-up in cycles and bytes a cycle."""
PRODUCTS = 16 * 16 * 16
"""Multiplications of the matrix unit a cycle."""
LEAST_GAIN = 1.5


class Clock(Observer):
    """Cycles of one launch."""

    def __init__(self) -> None:
        self.now: dict[tuple[str, PipeType], float] = {}
        self.busy: dict[tuple[str, PipeType], float] = {}
        self.free: dict[Any, float] = {}  # when an unlock or a set had taken effect

    @property
    def end(self) -> float:
        """When the last pipe is done."""
        return max(self.now.values())

    def share(self, pipe: PipeType) -> float:
        """The part of the launch in which a pipe works, of the core where it works most."""
        return max(cycles for (_, kind), cycles in self.busy.items() if kind is pipe) / self.end

    def _key(self, instr: Any) -> tuple[str, PipeType]:
        return instr.core.name, instr.pipe.type

    def _begin(self, instr: Any, *after: float) -> float:
        self.now[self._key(instr)] = max(self.now.get(self._key(instr), 0.0), instr.mark, *after)
        return self.now[self._key(instr)]

    def issued(self, instr: Any) -> None:
        """The scalar unit takes a cycle for each."""
        scalar = instr.core.name, PipeType.S
        instr.mark = self.now[scalar] = self.now.get(scalar, 0.0) + 1

    def completed(self, instr: Any) -> None:
        """An instruction occupies its pipe."""
        cycles = cost(instr)
        self.now[self._key(instr)] = self._begin(instr) + cycles
        self.busy[self._key(instr)] = self.busy.get(self._key(instr), 0.0) + cycles

    def locked(self, instr: Any, mutex: Any, ticket: int, releaser: Any) -> None:
        """A lock waits for the unlock before it."""
        self._begin(instr, self.free.get(releaser, 0.0))

    def unlocked(self, instr: Any, mutex: Any, ticket: int | None) -> None:
        """What comes later may go on from here."""
        self.free[instr] = self._begin(instr)

    def cross_set(self, instr: Any, credits: tuple[Any, ...]) -> None:
        """A credit is there once its sender's pipe came to it."""
        for credit in credits:
            credit.mark = self._begin(instr)

    def cross_waited(self, instr: Any, credit: Any) -> None:
        """The pipe waits for the credit."""
        self._begin(instr, credit.mark)


def cost(instr: Any) -> float:
    """Cycles of one instruction."""
    sizes: dict[str, int] = {}
    for f in instr.plan.footprints:
        sizes[f.operand] = max(sizes.get(f.operand, 0), sum(r.rows * r.row_bytes for r in f.regions))
    if instr.pipe.type is PipeType.M:  # bytes of m x k and k x n halves and m x n floats
        return 20 + math.sqrt(math.prod(sizes.values()) / 16) / PRODUCTS
    start, rate = RATES[instr.pipe.type]
    return start + max(sizes.values(), default=0) / rate


@dataclass
class Row:
    """One kernel: cycles of both orders, and how busy the matrix unit and a vector unit are (serial, pipelined)."""

    name: str
    serial_cycles: int
    pipelined_cycles: int
    gain: float
    matrix_busy: tuple[float, float]
    vector_busy: tuple[float, float]


def mlp(config: Any) -> tuple[Any, tuple[Any, ...]]:
    """32 tiles of 128 rows through three stages."""
    arrays = mlp_pipeline.inputs(32 * mlp_pipeline.T)
    return mlp_pipeline.make_mlp(config), (*arrays, np.empty((len(arrays[0]), mlp_pipeline.N), np.float32))


def attention(config: Any) -> tuple[Any, tuple[Any, ...]]:
    """Two query tiles over eight key tiles each, four stages."""
    arrays = flash_attention_pipeline.inputs(1, 256, 1024)
    return flash_attention_pipeline.make_attention(config), (*arrays, np.empty_like(arrays[0]))


KERNELS = {"mlp": mlp, "attention": attention}


def clock(name: str, config: Any) -> Clock:
    """The clock of one launch on one block."""
    kernel, arguments = KERNELS[name](config)
    prepared = kernel[None, 1].prepare(arguments, {})
    seen = Clock()
    run(prepared.variant.kernel, prepared.launch, observer=seen)
    return seen


def measure(name: str) -> Row:
    """Both orders of one kernel."""
    serial = clock(name, pl.pipeline.PipelineConfig(sync_only=True))
    full = clock(name, pl.pipeline.PipelineConfig(preload=2))
    matrix, vector = ((c.share(PipeType.M), c.share(PipeType.V)) for c in (serial, full))
    matrix, vector = zip(matrix, vector, strict=True)
    return Row(name, round(serial.end), round(full.end), serial.end / full.end, matrix, vector)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[[], *KERNELS], default=[])
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    found = [measure(name) for name in chosen.names or KERNELS]
    if chosen.json:
        print(json.dumps([asdict(row) for row in found]))
    else:
        print("kernel      serial  pipelined  gain  matrix busy  vector busy")
        for row in found:
            matrix, vector = ("{:.0%} -> {:.0%}".format(*pair) for pair in (row.matrix_busy, row.vector_busy))
            cycles = f"{row.serial_cycles:7} {row.pipelined_cycles:10} {row.gain:5.2f}"
            print(f"{row.name:10} {cycles}  {matrix:>11}  {vector:>11}")
    return int(any(row.gain < LEAST_GAIN for row in found))


if __name__ == "__main__":
    sys.exit(main())
