"""`run`: one launch of a kernel on the simulator."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import TextIO

import numpy as np

from pypto_pro.enums import CoreKind
from pypto_pro.interp.blas import one_thread
from pypto_pro.interp.compile import compiled
from pypto_pro.interp.declare import buffers_of, parameters
from pypto_pro.interp.deferred import Latest, Random
from pypto_pro.interp.engine import Engine
from pypto_pro.interp.in_order import InOrder
from pypto_pro.interp.machine import Machine
from pypto_pro.interp.memory import POISON
from pypto_pro.interp.observer import Observer
from pypto_pro.interp.out_of_bounds import Warner
from pypto_pro.interp.result import RunResult
from pypto_pro.interp.scheduler import run_to_end
from pypto_pro.ir.launch import Launch
from pypto_pro.ir.nodes import Kernel

SCHEDULES = ("in_order", "latest", "random")


def run(
    kernel: Kernel,
    launch: Launch,
    *,
    schedule: str = "in_order",
    seed: int = 0,
    observer: Observer | None = None,
    out: TextIO | None = None,
    poison: int = POISON,
) -> RunResult:
    """Run a launch to its end, or until nobody can move; outputs are in the caller's buffers.

    `seed` is for schedule `random`. `out` (default: standard output) gets what the kernel prints. `poison` is the byte
    fresh on-chip memory is filled with. A launch that does not finish is no exception: the result says who waits for
    what. ValueError for an unknown schedule.
    """
    if schedule not in SCHEDULES:
        raise ValueError(f"unknown schedule {schedule!r}; there are {', '.join(SCHEDULES)}")
    code = compiled(kernel)
    machine = Machine(kernel, launch, observer, poison, sys.stdout if out is None else out)
    buffers = buffers_of(kernel, launch)
    machine.buffers = [b for b in buffers if b is not None]
    engine = _engine(machine, schedule, seed)
    machine.begin = lambda core: code.programs[core.kind](core, parameters(kernel, launch, buffers))
    machine.forget = code.forget
    for core in machine.cores:
        core.while_spans = code.loops[core.kind]
    if machine.calls.launched is not None:
        machine.calls.launched(machine)
    multiplies = kernel.program(CoreKind.CUBE) is not None
    try:
        with np.errstate(all="ignore"), one_thread() if multiplies else nullcontext():
            return run_to_end(engine)
    finally:
        code.forget()


def _engine(machine: Machine, schedule: str, seed: int) -> Engine:
    warner = Warner()
    if schedule == "latest":
        return Latest(machine, warner)
    return Random(machine, warner, seed) if schedule == "random" else InOrder(machine, warner)
