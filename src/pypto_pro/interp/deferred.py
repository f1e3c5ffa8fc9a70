"""Schedules that separate an instruction's start from its effects: `latest` and `random`.

An op reads when it starts and its writes appear when it completes: it is carried out at its start, the bytes it wrote
are set aside and the old ones put back. V and M complete an instruction before the next starts; the transfer pipes
may have several under way, which complete in order. A synchronisation instruction that signals (set, unlock,
cross-core set, barrier) takes effect when everything before it on its pipe has completed.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pypto_pro.analysis.accesses import bounds
from pypto_pro.enums import MemorySpace
from pypto_pro.hw.a5 import FULLY_ORDERED_PIPES
from pypto_pro.interp.calls import CallSite
from pypto_pro.interp.declare import stores_of
from pypto_pro.interp.engine import Engine, is_scalar
from pypto_pro.interp.machine import Core, Instr, Machine, Pipe
from pypto_pro.interp.memory import GM, SimTensor, Storage
from pypto_pro.interp.out_of_bounds import Warner
from pypto_pro.interp.sites import ACQUIRES, Footprint, Kind, OpSite, Plan, Site
from pypto_pro.ops.entry import Effect

Bytes: TypeAlias = NDArray[np.uint8]
Span: TypeAlias = tuple[Storage, int, int]


class Flight:
    """A started instruction: `finish` makes its effects visible; `writes` are the byte ranges it will change."""

    __slots__ = ("finish", "instr", "writes")

    def __init__(self, instr: Instr, finish: Callable[[], None], writes: list[Span]) -> None:
        self.instr = instr
        self.finish = finish
        self.writes = writes


class Deferred(Engine):
    """What both schedules share: starting, completing and the next thing a pipe could do."""

    def __init__(self, machine: Machine, warner: Warner) -> None:
        super().__init__(machine, warner)
        for core in machine.cores:
            for pipe in core.pipes:
                pipe.flight = deque()

    def issue(self, core: Core, site: Site, args: tuple[Any, ...], trips: tuple[int, ...]) -> None:
        instr = self.new(core, site, args, trips)
        pipe = instr.pipe
        pipe.queue.append(instr)
        self.changes += 1
        if len(pipe.queue) == 1:
            self.ready(pipe)
        self.settle()

    # --- what a pipe can do ---------------------------------------------------------------------------------------

    def can_start(self, pipe: Pipe) -> bool:
        """Whether its head may be tried now: an op may start, a wait may look, a signal has nothing before it."""
        if not pipe.queue or pipe.waits_for is not None:
            return False
        head = pipe.queue[0]
        if not pipe.flight or head.site.kind in ACQUIRES:
            return True
        is_work = head.site.kind in (Kind.OP, Kind.CALL)
        return is_work and pipe.type not in FULLY_ORDERED_PIPES and not self._meets(head, pipe)

    def _meets(self, head: Instr, pipe: Pipe) -> bool:
        """Whether an op reads what an earlier one of its pipe has still to write: the pipe's own order settles that."""
        if not isinstance(head.site, OpSite) or head.site.phase is not None:  # phases pass in order
            return True
        plan = head.plan or head.site.plan(head.args)
        pending = [w for flight in pipe.flight for w in flight.writes]
        for footprint in plan.footprints:
            if footprint.effect in (Effect.READ, Effect.MAY_READ, Effect.ATOMIC):
                low, high = bounds(footprint.regions)
                if any(store is footprint.store and low < to and start < high for store, start, to in pending):
                    return True
        return False

    def begin(self, pipe: Pipe) -> None:
        """Try the head of a pipe."""
        instr = pipe.queue[0]
        if instr.site.kind in (Kind.OP, Kind.CALL):
            if isinstance(instr.site, OpSite) and instr.site.phase is not None:
                flag = self.phase(instr, instr.site)
                if flag is not None:
                    self.block(pipe, flag)
                    return
            self.changes += 1
            pipe.queue.popleft()
            pipe.flight.append(self.start(instr))
            return
        waits_for = self.perform(instr)
        if waits_for is not None:
            self.block(pipe, waits_for)
            return
        pipe.queue.popleft()
        if is_scalar(pipe):
            self.scalar_done(pipe.core)
        elif pipe.empty:
            self.emptied(pipe.core)

    def complete(self, pipe: Pipe) -> None:
        """The oldest started instruction of a pipe takes effect."""
        flight = pipe.flight.popleft()
        self.changes += 1
        flight.finish()
        instr, site = flight.instr, flight.instr.site
        if isinstance(site, OpSite):
            assert instr.plan is not None
            self.listen(instr.core, instr.plan)
        else:
            self.heard += (isinstance(site, CallSite) and site.touches_gm) or self.peeks
        if self.calls.completed is not None:
            self.calls.completed(instr)
        if isinstance(site, OpSite) and site.phase is not None:
            self.end_phase(instr, site)
        if pipe.empty:
            self.emptied(pipe.core)

    # --- start and effect -----------------------------------------------------------------------------------------

    def start(self, instr: Instr) -> Flight:
        """Read now, write later."""
        site = instr.site
        if isinstance(site, CallSite):
            return self._start_call(instr, site)
        assert isinstance(site, OpSite)
        plan = instr.plan = instr.plan or site.plan(instr.args)
        if plan.overruns:
            self.overrun(instr)
        if self.calls.started is not None:
            self.calls.started(instr)
        writes = [(f.store, *bounds(f.regions)) for f in plan.footprints if f.effect.changes]
        if not plan.runs:
            return Flight(instr, _nothing, [])
        if plan.atomic or plan.overruns or plan.spills:  # adds on arrival; clipped transfers have no plain views
            return Flight(instr, lambda: self.apply(instr, site), writes)
        views = plan.deferred
        if views is None:
            views = plan.deferred = written_views(instr, plan)
        old = [view.copy() for view in views]
        self.apply(instr, site)
        new = [view.copy() for view in views]
        _put(views, old)
        return Flight(instr, lambda: _put(views, new), writes)

    def _start_call(self, instr: Instr, site: CallSite) -> Flight:
        """A vector function: all of UB is set aside. SIMT threads also reach GM, so a launch happens at its end."""
        if self.calls.started is not None:
            self.calls.started(instr)
        ub = stores_of(instr.core, MemorySpace.Vec)[0]
        if site.touches_gm:
            return Flight(instr, lambda: site.execute(instr), [])
        old = ub.mem.copy()
        self.run_call(instr, site)
        new = ub.mem.copy()
        changed = new != old
        ub.mem[:] = old

        def finish() -> None:
            ub.mem[changed] = new[changed]

        return Flight(instr, finish, [])


def written_views(instr: Instr, plan: Plan) -> list[Bytes]:
    """Views of every byte an op may change."""
    return [
        view
        for footprint in plan.footprints
        if footprint.effect.changes
        for view in _views(instr, footprint)
    ]


def _views(instr: Instr, footprint: Footprint) -> list[Bytes]:
    mem, origin = footprint.store.mem, 0
    if footprint.store is GM:
        assert isinstance(instr.site, OpSite)
        tensor = instr.site.named(instr.args)[footprint.operand]
        assert isinstance(tensor, SimTensor)
        assert tensor.buffer is not None
        mem, origin = tensor.buffer.mem, tensor.buffer.address
    return [
        np.ndarray((r.rows, r.row_bytes), np.uint8, mem.data, r.start - origin, (r.pitch, 1))
        for r in footprint.regions
    ]


def _put(views: list[Bytes], values: list[Bytes]) -> None:
    for view, value in zip(views, values, strict=True):
        view[...] = value


def _nothing() -> None:
    """An op that was left out has no effect."""


class Latest(Deferred):
    """S first, then starts and waits in issue order; effects and signals only when nothing else can happen.

    Of those, the one issued last goes first, so that everything else stays pending as long as it can.
    """

    def __init__(self, machine: Machine, warner: Warner) -> None:
        super().__init__(machine, warner)
        self.early: list[tuple[int, int, Pipe]] = []
        self.late: list[tuple[int, int, Pipe]] = []

    def ready(self, pipe: Pipe) -> None:
        pipe.version += 1
        if self.can_start(pipe) and (pipe.queue[0].site.kind in ACQUIRES or _is_work(pipe.queue[0])):
            heappush(self.early, (pipe.queue[0].number, pipe.version, pipe))
        elif pipe.flight:
            heappush(self.late, (-pipe.flight[0].instr.number, pipe.version, pipe))
        elif pipe.queue and pipe.waits_for is None:
            heappush(self.late, (-pipe.queue[0].number, pipe.version, pipe))

    def settle(self) -> None:
        while self.early:
            _, version, pipe = heappop(self.early)
            if version == pipe.version:
                self.begin(pipe)
                self.ready(pipe)

    def step(self) -> bool:
        while self.late:
            _, version, pipe = heappop(self.late)
            if version == pipe.version:
                if pipe.flight:
                    self.complete(pipe)
                else:
                    self.begin(pipe)
                self.ready(pipe)
                self.settle()
                return True
        return False


class Random(Deferred):
    """Everything that may happen next is equally likely; `seed` makes it repeatable."""

    def __init__(self, machine: Machine, warner: Warner, seed: int) -> None:
        super().__init__(machine, warner)
        self.random = random.Random(seed)
        self.active: dict[Pipe, None] = {}

    def ready(self, pipe: Pipe) -> None:
        if pipe.flight or self.can_start(pipe):
            self.active[pipe] = None
        else:
            self.active.pop(pipe, None)

    def settle(self) -> None:
        while self.active and self.random.random() < 0.5:
            self.step()
        if len(self.turns) > 1:
            self.turns.rotate(self.random.randrange(len(self.turns)))

    def step(self) -> bool:
        if not self.active:
            return False
        pipe = self.random.choice(list(self.active))
        starts = self.can_start(pipe)
        if pipe.flight and (not starts or self.random.random() < 0.5):
            self.complete(pipe)
        elif starts:
            self.begin(pipe)
        self.ready(pipe)
        return True


def _is_work(instr: Instr) -> bool:
    return instr.site.kind in (Kind.OP, Kind.CALL)
