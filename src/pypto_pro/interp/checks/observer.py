"""`Checker`: the observer that carries all checks through one launch and says in the end what it found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pypto_pro.analysis.order import Order
from pypto_pro.diag import Diagnostic
from pypto_pro.enums import PipeType
from pypto_pro.interp.calls import CallPlan, CallSite
from pypto_pro.interp.checks import narrow_forms, words
from pypto_pro.interp.checks.alignment import Alignment
from pypto_pro.interp.checks.blame import Blame
from pypto_pro.interp.checks.book import Book, make
from pypto_pro.interp.checks.bounds import Bounds
from pypto_pro.interp.checks.call_values import CallValues
from pypto_pro.interp.checks.conflicts import Conflicts
from pypto_pro.interp.checks.counters import Counters
from pypto_pro.interp.checks.definedness import Definedness
from pypto_pro.interp.checks.ending import Ending
from pypto_pro.interp.checks.extents import Extents
from pypto_pro.interp.checks.ids import Ids
from pypto_pro.interp.checks.indices import stray
from pypto_pro.interp.checks.mem_bars import MemBars
from pypto_pro.interp.checks.messages import Messages
from pypto_pro.interp.checks.outputs import Outputs
from pypto_pro.interp.checks.races import Races
from pypto_pro.interp.checks.scalar_cache import ScalarCaches
from pypto_pro.interp.checks.signals import Signals
from pypto_pro.interp.checks.streams import StoreStreams
from pypto_pro.interp.checks.sums import Sums
from pypto_pro.interp.checks.thread_races import ThreadRaces
from pypto_pro.interp.checks.touched import Memories, Touched
from pypto_pro.interp.checks.uninitialised import Uninitialised, valueless, written_beside
from pypto_pro.interp.checks.values import Values, set_status
from pypto_pro.interp.observer import Observer
from pypto_pro.interp.services import ServiceSite, dcci, ssbuf_load, ssbuf_store
from pypto_pro.interp.sites import Kind, OpSite, Site
from pypto_pro.ir.nodes import Debug, Kernel

if TYPE_CHECKING:
    from pypto_pro.interp.machine import Core, Instr, Machine
    from pypto_pro.interp.result import RunResult
    from pypto_pro.interp.sites import IndexSite, NameSite
    from pypto_pro.interp.sync import Counter, Credit, Flag, Mutex, UnitFlag
    from pypto_pro.ops.entry import Caution
    from pypto_pro.ops.overrun import Overrun

S = PipeType.S.value


class Checker(Observer):
    """All checks of one launch. `findings` is complete once the launch has ended."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.book = Book(kernel.name)
        self.sites: dict[Site, None] = {}
        """Everything that was issued at least once."""
        self.finished = False
        self.dumps = False
        self.holes: list[str] = []
        """Outputs with unwritten bytes, in words."""

    @property
    def findings(self) -> list[Diagnostic]:
        """What was found, worst first."""
        return self.book.findings()

    def remarks(self) -> list[str]:
        """What the run showed that is no finding, one clause each."""
        found = list(self.holes)
        found += [f"{name} is used from several pipes in no fixed order: the order seen was taken"
                  for name in sorted(self.counters.ambiguous)]  # fmt: skip
        if self.dumps:
            found.append("dump_data waits for all pipes of its core: it may hide races around it")
        return found

    # --- the launch -------------------------------------------------------------------------------------------------

    def launched(self, machine: Machine) -> None:
        self.machine = machine
        self.order = Order(len(machine.cores), S, lambda core, lane: machine.cores[core].pipes[lane].empty)
        self.know = {
            pipe: self.order.pipes[core.index * 7 + pipe.type.value] for core in machine.cores for pipe in core.pipes
        }
        self.memories = Memories(machine)
        ids = Ids(self.book, machine)
        self.signals = Signals(self.book, self.order, self.know, ids)
        self.counters = Counters(self.book, self.order, self.signals, ids)
        self.blame = Blame()
        self.races = Races(self.book, machine, self.order, self.blame, self.counters.sent)
        self.conflicts = Conflicts(self.races.report)
        self.bounds = Bounds(self.book, self.blame)
        self.defined = Definedness(Uninitialised(self.book, self.blame), self.memories)
        self.values = Values(self.book)
        self.call_values = CallValues(self.values)
        self.outputs = Outputs(self.book, machine, self.memories)
        self.sums = Sums(self.book, machine, self.memories)
        self.alignment = Alignment(self.book)
        self.extents = Extents(self.book)
        self.mem_bars = MemBars(self.book)
        self.streams = StoreStreams(self.book)
        self.thread_races = ThreadRaces(self.book)
        self.caches = ScalarCaches(self.book, self.blame, machine, self.order)
        self.messages = Messages(self.conflicts, self.signals, len(machine.ssbufs))
        self.ids = ids

    def issued(self, instr: Instr) -> None:
        site = instr.site
        self.sites[site] = None
        if site.lane == S and isinstance(site, ServiceSite):
            if site.service is dcci:
                self.caches.cleaned(instr, site)
            elif site.service in (ssbuf_load, ssbuf_store):
                self.messages.moved(instr, site, writes=site.service is ssbuf_store)
        elif site.kind is Kind.WAIT_CROSS:
            self.races.issued_wait(instr)
        plan = instr.plan
        if plan is not None and isinstance(site, OpSite):
            if plan.mark is None:
                self.extents.issued(instr, site)
                narrow_forms.look(self.book, instr, site)
                self.bounds.issued(instr, site, plan)
            touched = plan.mark or self.memories.touched(plan, instr)
            if touched.to_gm and touched.reads:
                self.outputs.issued(instr, site)
            if touched.adds:
                self.sums.issued(instr, touched)

    def started(self, instr: Instr) -> None:
        know = self.know[instr.pipe]
        log = know.log
        if log is not None and know.seen < len(log.entries):
            know.catch_up(instr.number)
        site = instr.site
        if isinstance(site, CallSite):
            self.defined.calls.started(instr, site, know)
            instr.mark.found = self.call_values.before(instr, site)
            return
        plan = instr.plan
        assert plan is not None
        touched = plan.mark or self.memories.touched(plan, instr)
        if site.lane == S and (touched.to_gm or touched.from_gm):
            self.conflicts.ordered = self.caches.ordered
            self.conflicts.check(instr, know, touched)
            self.caches.wrote(instr, know, touched)
            return
        undefined = self.defined.undefined(touched)
        if undefined:
            beside = written_beside(undefined[0])
            self.conflicts.check(instr, know, touched)
            self.defined.started(instr, touched, undefined, beside)
        else:
            self.conflicts.check(instr, know, touched)
        if isinstance(site, OpSite):
            watched = self.values.watch(instr, site)
            if watched is not None and watched.source >= 0:
                self.values.started(instr, watched)

    def completed(self, instr: Instr) -> None:
        plan = instr.plan
        if plan is None:
            return
        touched = plan.mark or self.memories.touched(plan, instr)
        if isinstance(plan, CallPlan):
            know = instr.mark.know
            self.conflicts.check(instr, know, touched)
            self.know[instr.pipe].absorb(know)
            self.defined.calls.completed(instr, plan, touched)
            if not touched.examined:
                self.alignment.completed(instr, plan)
                self.streams.completed(instr, plan)
            self.mem_bars.completed(instr, plan, touched)
            self.thread_races.completed(instr, plan)
            assert isinstance(instr.site, CallSite)
            self.call_values.completed(instr, instr.site, plan, touched, instr.mark.found)
        else:
            self.defined.completed(instr, touched)
            self._look_at_values(instr, touched)
        if instr.site.lane == S and (touched.reads or touched.maybe):
            self.order.scalar_acted(instr.core.index, instr.number)  # S has the value before it goes on
        phased = getattr(instr.site, "phase", None) is not None
        instr.mark = self.know[instr.pipe].release(instr.number) if phased else True
        if self.races.collisions:
            self.races.completed(instr)

    def _look_at_values(self, instr: Instr, touched: Touched) -> None:
        site = instr.site
        if isinstance(site, OpSite) and not touched.to_gm:
            watched = self.values.watch(instr, site)
            if watched is not None:
                self.values.completed(instr, watched, touched)
            elif site.entry.copies:
                self.values.copied(touched)
            else:
                set_status(touched, None)

    def out_of_bounds(self, instr: Instr, overrun: Overrun, site: Site) -> None:
        self.bounds.overrun(instr, overrun, site)

    def index_outside(self, core: Core, site: IndexSite, index: int, trips: tuple[int, ...]) -> None:
        stray(self.book, core, site, index, trips)

    def used_without_value(self, core: Core, site: NameSite, trips: tuple[int, ...]) -> None:
        valueless(self.book, core, site, trips)

    def undefined_bytes(self, instr: Instr, address: int, size: int) -> NDArray[np.bool_] | None:
        return self.defined.calls.undefined_bytes(instr, address, size)

    def undefined_used(self, instr: Instr, site: Site, lanes: int) -> None:
        self.defined.calls.undefined_used(instr, site, lanes)

    def cautioned(self, instr: Instr, caution: Caution) -> None:
        self.book.add(caution.kind, (instr.site.span, caution.message), lambda: make(
            caution.kind, f"`{instr.site.name}`: {caution.message}",
            instr.site.span.labelled(words.party("transferred", instr)),
            core=words.short(instr.core), pipes=(words.pipe(instr),),
        ))  # fmt: skip

    def core_ended(self, core: Core) -> None:
        block = self.machine.block_cores(core.block)
        if all(c.ended for c in block) and len(block) < len(self.machine.cores):
            self.memories.release(block)

    # --- synchronisation --------------------------------------------------------------------------------------------

    def flag_set(self, instr: Instr, flag: Flag, index: int) -> None:
        self.signals.flag_set(instr, flag, index)

    def flag_waited(self, instr: Instr, flag: Flag, index: int, setter: Instr) -> None:
        self.signals.flag_waited(instr, flag, index, setter)

    def barrier(self, instr: Instr) -> None:
        self.signals.barrier(instr)
        self.dumps = self.dumps or isinstance(instr.site.node, Debug)
        if instr.site.kind is Kind.SYNC_ALL:
            self.ids.residency(instr, "`sync_all`")

    def locked(self, instr: Instr, mutex: Mutex, ticket: int, releaser: Instr | None) -> None:
        self.signals.locked(instr, mutex, releaser)

    def unlocked(self, instr: Instr, mutex: Mutex, ticket: int | None) -> None:
        self.signals.unlocked(instr, mutex, ticket)

    def cross_set(self, instr: Instr, credits: tuple[Credit, ...]) -> None:
        self.counters.cross_set(instr, credits)

    def cross_held(self, instr: Instr, counter: Counter) -> None:
        self.counters.state(counter)

    def cross_waited(self, instr: Instr, credit: Credit) -> None:
        self.counters.cross_waited(instr, credit)

    def met(self, arrivals: tuple[Instr, ...]) -> None:
        self.order.met((i.core.index, i.number) for i in arrivals)

    def phase_passed(self, instr: Instr, unit_flag: UnitFlag, source: Instr | None) -> None:
        if source is not None:
            self.signals.at(instr).acquire(source.mark, source)

    # --- the end ----------------------------------------------------------------------------------------------------

    def ended(self, result: RunResult) -> None:
        self.finished = result.finished
        self.races.settle_all()
        if result.finished:
            self.outputs.ended()
            self.sums.ended()
            self.holes = self.outputs.holes()
        Ending(self.book, self.machine, self.signals, self.counters, self.races).judge(result)
