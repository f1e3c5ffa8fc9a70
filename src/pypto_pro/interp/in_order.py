"""Schedule `in_order`: of all instructions that may run, the one issued first runs; S goes on when none may.

So an instruction whose pipe is free runs at once, inside the program that issued it, and only what waits is queued.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

from pypto_pro.interp.engine import Engine, is_scalar
from pypto_pro.interp.machine import Core, Machine, Pipe
from pypto_pro.interp.out_of_bounds import Warner
from pypto_pro.interp.sites import Site


class InOrder(Engine):
    """`heap` holds pipes whose head may be tried, by issue number."""

    def __init__(self, machine: Machine, warner: Warner) -> None:
        super().__init__(machine, warner)
        self.heap: list[tuple[int, Pipe]] = []

    def issue(self, core: Core, site: Site, args: tuple[Any, ...], trips: tuple[int, ...]) -> None:
        instr = self.new(core, site, args, trips)
        pipe = instr.pipe
        if pipe.queue:
            pipe.queue.append(instr)
            return
        waits_for = self.perform(instr)
        if waits_for is not None:
            pipe.queue.append(instr)
            self.block(pipe, waits_for)
        if self.heap:
            self.settle()

    def ready(self, pipe: Pipe) -> None:
        heappush(self.heap, (pipe.queue[0].number, pipe))

    def settle(self) -> None:
        heap = self.heap
        while heap:
            _, pipe = heappop(heap)
            waits_for = self.perform(pipe.queue[0])
            if waits_for is not None:
                self.block(pipe, waits_for)
                continue
            pipe.queue.popleft()
            if pipe.queue:
                self.ready(pipe)
            elif is_scalar(pipe):
                self.scalar_done(pipe.core)
            else:
                self.emptied(pipe.core)

    def step(self) -> bool:
        return False
