"""What every schedule shares: how S takes turns, how instructions are carried out, when a launch is stuck."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from pypto_pro.diag.errors import ArgumentError, DiagnosticError
from pypto_pro.enums import AccPhase, PipeType, STPhase
from pypto_pro.hw.a5 import SPACES
from pypto_pro.interp import crosscore, sync
from pypto_pro.interp.calls import CallSite, EndlessLoop
from pypto_pro.interp.debug import DebugSite
from pypto_pro.interp.machine import Core, Instr, Machine, Pipe
from pypto_pro.interp.memory import GM, SimTensor, SimTile
from pypto_pro.interp.services import ServiceSite
from pypto_pro.interp.sites import IndexSite, Kind, NameSite, OpSite, Plan, Site, run_clipped
from pypto_pro.interp.sync import UnitFlag, Waitable
from pypto_pro.ops.overrun import Overrun

if TYPE_CHECKING:
    from pypto_pro.interp.out_of_bounds import Warner

STEPS: dict[Kind, Callable[[Instr], Waitable | None]] = {
    Kind.SET_FLAG: sync.set_flag,
    Kind.WAIT_FLAG: sync.wait_flag,
    Kind.BARRIER: sync.barrier,
    Kind.LOCK: sync.lock,
    Kind.UNLOCK: sync.unlock,
    Kind.SET_CROSS: crosscore.set_cross,
    Kind.WAIT_CROSS: crosscore.wait_cross,
    Kind.SYNC_ALL: crosscore.sync_all,
    Kind.DRAIN: sync.drain,
}

HEARD = frozenset((Kind.SET_CROSS, Kind.WAIT_CROSS, Kind.SYNC_ALL))
"""Instructions that other cores may notice."""


class Engine:
    """Base of the schedules. Subclasses say what happens to an issued instruction and what runs next."""

    def __init__(self, machine: Machine, warner: Warner) -> None:
        self.machine = machine
        self.calls = machine.calls
        self.warner = warner
        self.number = 0
        self.changes = 0
        """Counts whatever may let somebody else go on; polling reads do not."""
        self.heard = 0
        """Counts what other cores could notice: see `polling`."""
        self.peeks = False
        """Whether some core has read a memory of another."""
        self.turns: deque[Core] = deque(machine.cores)
        """Cores whose scalar unit may go on."""
        self.endless: list[Instr] = []
        """Calls that were given up."""
        machine.engine = self
        for core in machine.cores:
            core.issue = partial(self.issue, core)
            core.wait = partial(self.wait, core)
            core.scalar = partial(self.scalar, core)

    # --- what the generated programs call -----------------------------------------------------------------------

    def issue(self, core: Core, site: Site, args: tuple[Any, ...], trips: tuple[int, ...]) -> None:
        """Append an instruction to a pipe other than S."""
        raise NotImplementedError

    def wait(self, core: Core, site: Site, args: tuple[Any, ...], trips: tuple[int, ...]) -> bool:
        """A synchronisation instruction of S. False: it waits, and the program must yield BLOCKED."""
        instr = self.new(core, site, args, trips)
        self.changes += 1
        waits_for = STEPS[site.kind](instr)
        self.heard += site.kind in HEARD
        if waits_for is not None:
            instr.pipe.queue.append(instr)
            self.block(instr.pipe, waits_for)
        self.settle()
        return not instr.pipe.queue

    def scalar(self, core: Core, site: Site, args: tuple[Any, ...], trips: tuple[int, ...]) -> Any:
        """An op S carries out itself, now: element access and the services of the scalar unit."""
        instr = self.new(core, site, args, trips)
        if isinstance(site, ServiceSite):
            return site.serve(instr)
        if isinstance(site, DebugSite):
            return site.show(instr)
        assert isinstance(site, OpSite)
        plan = instr.plan = instr.plan or site.plan(args)
        if plan.overruns:
            self.overrun(instr)
        if any(f.effect.changes for f in plan.footprints):
            self.changes += 1
        self.listen(core, plan)
        if self.calls.started is not None:
            self.calls.started(instr)
        cached = any(isinstance(a, SimTensor) for a in args)
        value = core.cache.run(instr, site, plan) if cached else site.run(args) if plan.runs else 0
        if self.calls.completed is not None:
            self.calls.completed(instr)
        return value

    # --- carrying out instructions ------------------------------------------------------------------------------

    def new(self, core: Core, site: Site, args: tuple[Any, ...], trips: tuple[int, ...]) -> Instr:
        """Number an instruction, hand out its mutex ticket, tell the observer."""
        self.number += 1
        instr = Instr(self.number, core, core.pipes[site.lane], site, args, trips)
        if site.kind is Kind.LOCK:
            mutex = core.mutex(args[0])
            instr.ticket = mutex.tickets
            mutex.tickets += 1
        if self.calls.issued is not None:
            if isinstance(site, OpSite):
                instr.plan = site.plan(args)
            self.calls.issued(instr)
        return instr

    def phase(self, instr: Instr, site: OpSite) -> UnitFlag | None:
        """The unit flag an op with a phase must wait for, None when it may run."""
        wanted = 0 if isinstance(site.phase, AccPhase) else 1
        flag = _unit_flag(instr)
        if flag.value != wanted:
            return flag
        if self.calls.phase_passed is not None:
            self.calls.phase_passed(instr, flag, flag.source)
        return None

    def end_phase(self, instr: Instr, site: OpSite) -> None:
        """A Final op has completed: the flag changes sides."""
        if site.phase in (AccPhase.Final, STPhase.Final):
            flag = _unit_flag(instr)
            flag.value = 1 if isinstance(site.phase, AccPhase) else 0
            flag.source = instr
            if flag.waiters:
                self.wake(flag)

    def perform(self, instr: Instr) -> Waitable | None:
        """Carry an instruction out, start to end. Returns what it has to wait for instead, if anything."""
        self.changes += 1
        site = instr.site
        if isinstance(site, OpSite):
            if site.phase is not None:
                flag = self.phase(instr, site)
                if flag is not None:
                    return flag
            plan = instr.plan
            if plan is None:
                plan = instr.plan = site.plan(instr.args)
            if plan.overruns:
                self.overrun(instr)
            if self.calls.started is not None:
                self.calls.started(instr)
            if plan.runs:
                self.apply(instr, site)
            self.listen(instr.core, plan)
            if self.calls.completed is not None:
                self.calls.completed(instr)
            if site.phase is not None:
                self.end_phase(instr, site)
            return None
        if isinstance(site, CallSite):
            self.call(instr, site)
            self.heard += site.touches_gm or self.peeks
            return None
        self.heard += site.kind in HEARD
        return STEPS[site.kind](instr)

    def listen(self, core: Core, plan: Plan) -> None:
        """Count an op whose writes other cores could read: GM, and memories of another kind of core."""
        for footprint in plan.footprints:
            store = footprint.store
            foreign = store is not GM and SPACES[store.space].owner is not core.kind
            if footprint.effect.changes:
                if store is GM or foreign or self.peeks:
                    self.heard += 1
            elif foreign and not self.peeks:
                self.peeks = True
                self.heard += 1

    def apply(self, instr: Instr, site: OpSite) -> None:
        """The op's meaning on its operands."""
        assert instr.plan is not None
        try:
            if instr.plan.spills:
                run_clipped(site, instr.args, instr.plan.spills)
            else:
                site.run(instr.args)
        except Exception as error:
            _raise_at(site, error)

    def call(self, instr: Instr, site: CallSite) -> None:
        """A vector function or SIMT launch."""
        if self.calls.started is not None:
            self.calls.started(instr)
        self.run_call(instr, site)
        if self.calls.completed is not None:
            self.calls.completed(instr)

    def run_call(self, instr: Instr, site: CallSite) -> None:
        """The call's body; a loop in it that does not end is left, and the launch will not count as finished."""
        try:
            site.execute(instr)
        except EndlessLoop as endless:
            self.endless.append(endless.instr)
        except Exception as error:
            _raise_at(site, error)

    def overrun(self, instr: Instr) -> None:
        """Report every operand of an op that leaves its memory, and what else its author should know."""
        assert instr.plan is not None
        for found in instr.plan.overruns:
            if isinstance(found, Overrun):
                self.overran(instr, found, instr.site)
            elif self.calls.cautioned is not None:
                self.calls.cautioned(instr, found)
            elif self.machine.observer is None:
                self.warner.caution(instr.site, found)

    def overran(self, instr: Instr, overrun: Overrun, site: Site) -> None:
        """Tell the observer, or the author once a line; `site` is the op, inside a call one of its body's."""
        if self.calls.out_of_bounds is not None:
            self.calls.out_of_bounds(instr, overrun, site)
        elif self.machine.observer is None:
            self.warner.warn(site, overrun)

    def strayed(self, core: Core, site: IndexSite, index: int, trips: tuple[int, ...]) -> None:
        """An index outside what it counts: told as `overran` tells."""
        if self.calls.index_outside is not None:
            self.calls.index_outside(core, site, index, trips)
        elif self.machine.observer is None:
            self.warner.stray(site, index)

    def valueless(self, core: Core, site: NameSite, trips: tuple[int, ...]) -> None:
        """A variable used before anything gave it a value."""
        if self.calls.used_without_value is not None:
            self.calls.used_without_value(core, site, trips)

    # --- waiting ------------------------------------------------------------------------------------------------

    def block(self, pipe: Pipe, waits_for: Waitable) -> None:
        """The head of a pipe waits for an object."""
        pipe.waits_for = waits_for
        waits_for.waiters.append(pipe)

    def wake(self, waitable: Waitable) -> None:
        """An object changed: its waiters may try again."""
        waiters = waitable.waiters
        waitable.waiters = []
        for pipe in waiters:
            pipe.waits_for = None
            self.ready(pipe)

    def emptied(self, core: Core) -> None:
        """A pipe of this core ran empty."""
        if core.idle.waiters:
            self.wake(core.idle)
        if core.finished and core.is_idle:
            self.end_core(core)

    def end_core(self, core: Core) -> None:
        """A core has nothing left to do: what its scalar cache still holds goes to GM."""
        core.ended = True
        core.cache.flush()
        if self.calls.core_ended is not None:
            self.calls.core_ended(core)
        self.machine.core_over(core)

    def ready(self, pipe: Pipe) -> None:
        """The head of a pipe may be tried (again)."""
        raise NotImplementedError

    def settle(self) -> None:
        """After S did something: carry on with what the schedule wants done before S continues."""
        raise NotImplementedError

    def scalar_done(self, core: Core) -> None:
        """The instruction S waited on took effect: its program may go on."""
        if core.parked:
            core.parked = False
            self.turns.append(core)

    def step(self) -> bool:
        """Do one thing that is not S's. False: there is nothing."""
        raise NotImplementedError


def _unit_flag(instr: Instr) -> UnitFlag:
    """The flag of the accumulator tile among the operands."""
    tile = next(a for a in instr.args if isinstance(a, SimTile) and a.type.space.name == "Acc")
    return instr.core.unit_flag(tile.addr)


def is_scalar(pipe: Pipe) -> bool:
    """Whether a pipe is S."""
    return pipe.type is PipeType.S


def _raise_at(site: Site, error: Exception) -> NoReturn:
    """Raise what running an instruction came to: extents or addresses no op can work on are its author's mistake."""
    if isinstance(error, DiagnosticError):
        raise error
    if isinstance(error, ValueError | IndexError | OverflowError | MemoryError):
        raise ArgumentError(f"`{site.name}` cannot work on these operands: {error}", site.span) from error
    error.add_note(f"while simulating `{site.name}` at {site.span.place}")
    raise error
