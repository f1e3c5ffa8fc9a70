"""What is left when a launch is over: stuck waits, flags and credits, and which findings follow from which."""

from __future__ import annotations

from pypto_pro.diag import Diagnostic, Severity, Span
from pypto_pro.interp.checks import words
from pypto_pro.interp.checks.book import Book, Entry, make
from pypto_pro.interp.checks.counters import Counters
from pypto_pro.interp.checks.deadlocks import Deadlocks
from pypto_pro.interp.checks.hindsight import look_back
from pypto_pro.interp.checks.races import Races
from pypto_pro.interp.checks.signals import Signals
from pypto_pro.interp.checks.uninitialised import ADD_UP
from pypto_pro.interp.machine import Instr, Machine
from pypto_pro.interp.result import RunResult
from pypto_pro.interp.sync import Counter, Flag, Mutex, UnitFlag

SECONDARY = ("uninitialised_read", "lost_load", "unwritten_output", "stale_operand")
"""Findings about data that mean little once a core never finished."""


STORING = ("MTE3", "FIX")
"""Pipes that write to GM."""


class Ending:
    """Judges the end of a launch."""

    def __init__(
        self, book: Book, machine: Machine, signals: Signals, counters: Counters, races: Races
    ) -> None:
        self.book = book
        self.machine = machine
        self.signals = signals
        self.counters = counters
        self.races = races

    def judge(self, result: RunResult) -> None:
        """Everything that can only be said now."""
        if result.stuck:
            self.book.drop(*SECONDARY)
            Deadlocks(self.book, self.machine, self.counters, self._unphased()).judge(result)
        else:
            self.counters.overflows(None)
            self._leftovers(result)
        look_back(self.races.pairs.values(), self.counters)
        self._causes()

    def _causes(self) -> None:
        """A set that may meet its flag, and undefined bytes that were read too early, follow from a race."""
        for entry in self.book.of("uninitialised_read"):
            place = entry.diagnostic.spans[0].labelled("")
            for pair in self.races.pairs.values():
                if entry.cause is None and pair.reads and pair.second.site.span == place:
                    entry.cause = pair.entry
        for entry in self.book.of("waw_hazard"):  # a line in a loop overtakes itself: with the way back it waits
            places = {s.labelled("") for s in entry.diagnostic.spans[:2]}
            for pair in self.races.pairs.values():
                if len(places) == 1 and not pair.reads and pair.second.site.span in places:
                    entry.cause = pair.entry
        left = {e.diagnostic.spans[0].labelled(""): e for e in self.book.of("out_of_bounds")
                if e.diagnostic.severity is not Severity.NOTE}  # fmt: skip
        for entry in self.book.of("waw_hazard"):  # stores that leave their rows come into those of others
            if entry.cause is None and entry.diagnostic.pipes[0] in STORING:
                entry.cause = next((left[p] for s in entry.diagnostic.spans if (p := s.labelled("")) in left), None)
        undefined = {e.diagnostic.spans[0].labelled(""): e for e in self.book.of("uninitialised_read")
                     if e.diagnostic.severity is not Severity.NOTE}  # fmt: skip
        for entry in self.book.of("stride_mismatch"):  # a sum that began with old bytes has a pitch of its own
            first = undefined.get(entry.diagnostic.spans[0].labelled(""))
            if first is not None and first.cause is None and first.diagnostic.help == ADD_UP:
                entry.cause = first
        for entry in self.book.of("shape_mismatch"):  # the error says what came of it
            same = undefined.get(entry.diagnostic.spans[0].labelled(""))
            if same is not None and entry.diagnostic.severity is Severity.WARNING:
                entry.cause = same
        for double in self.signals.double_sets:
            flag = double.flag
            for pair in self.races.pairs.values():
                same_core = pair.first.core is flag.core and pair.second.core is flag.core
                if same_core and (pair.first.site.pipe, pair.second.site.pipe) == (flag.wait_pipe, flag.set_pipe):
                    double.entry.cause = pair.entry

    # --- leftovers ----------------------------------------------------------------------------------------------------

    def _leftovers(self, result: RunResult) -> None:
        for flag in result.leftovers["flags"]:
            self._flag(flag)
        for mutex in result.leftovers["mutexes"]:
            self._mutex(mutex)
        for unit_flag in result.leftovers["unit_flags"]:
            self._unit_flag(unit_flag)
        for counter in result.leftovers["credits"]:
            self._credits(counter)
        for group in self.machine.rendezvous.values():
            for arrivals in group.arrivals.values():
                if arrivals and group.participants:
                    self._arrival(arrivals[-1], group.label, len(arrivals))

    def _flag(self, flag: Flag) -> None:
        instr = flag.pending[-1]
        name = f"{flag.set_pipe.name} -> {flag.wait_pipe.name} {flag.event}"
        left = len(flag.pending)

        def describe() -> Diagnostic:
            return make(
                "leftover_flag",
                f"flag {name} of {words.short(flag.core)} is still set at the end of the kernel",
                instr.site.span.labelled(words.party("set", instr)),
                notes=(f"set {flag.sets} times, waited for {flag.waits} times; the next kernel on this core would start"
                       " with it",),
                help=f"wait for it once more on {flag.wait_pipe.name}"
                + (f" ({left} times)" if left > 1 else "") + ", behind the last set",
                core=words.short(flag.core), pipes=(flag.set_pipe.name, flag.wait_pipe.name),
            )  # fmt: skip

        entry = self.book.add("leftover_flag", (instr.site.span, name), describe)
        entry.cause = next((d.entry for d in self.signals.double_sets if d.flag is flag), entry.cause)

    def _mutex(self, mutex: Mutex) -> None:
        instr = mutex.holder
        assert instr is not None
        pipe = words.pipe(instr)
        message = f"mutex {mutex.number} of {words.short(instr.core)} is still held by {pipe} at the end of the kernel"
        self._left(instr, message, "locked", f"unlock mutex {mutex.number} on {pipe}")

    def _unit_flag(self, flag: UnitFlag) -> None:
        if flag.source is not None:
            message = f"{flag.name} is still 1 at the end of the kernel: a sum was finished and never taken out"
            entry = self._left(flag.source, message, "finished", "give the last store of the region STPhase.Final")
            entry.cause = self._unphased()

    def _unphased(self) -> Entry | None:
        """The race of an exit without a phase, if there is one."""
        return next(iter(self.races.unphased.values()), None)

    def _left(self, instr: Instr, message: str, verb: str, mend: str) -> Entry:
        return self.book.add("leftover_flag", (instr.site.span, message), lambda: make(
            "leftover_flag", message, instr.site.span.labelled(words.party(verb, instr)), help=mend,
            notes=("the next kernel on this core would start with it",),
            core=words.short(instr.core), pipes=(words.pipe(instr),),
        ))  # fmt: skip

    def _credits(self, counter: Counter) -> None:
        instr = counter.credits[-1].senders[0]
        self.book.add("leftover_flag", (instr.site.span, counter.number), lambda: make(
            "leftover_flag",
            f"cross-core counter {counter.number} of {words.short(counter.core)} ends at {len(counter.credits)}",
            instr.site.span.labelled(words.party("sent", instr)), *self._taken(counter),
            notes=(f"{counter.given} sets reached it, {counter.taken} waits took one; here each launch starts at 0, on"
                   " the device the next kernel starts with these credits",),
            severity=Severity.WARNING, core=words.short(counter.core), pipes=(words.pipe(instr),),
        ))  # fmt: skip

    def _taken(self, counter: Counter) -> list[Span]:
        """Where credits of a counter were taken last."""
        wait = self.counters.state(counter).last_wait
        return [wait.site.span.labelled(words.party("taken", wait))] if wait is not None else []

    def _arrival(self, instr: Instr, label: str, times: int) -> None:
        self.book.add("leftover_flag", (instr.site.span, label), lambda: make(
            "leftover_flag", f"{words.short(instr.core)} arrives {times} times more at {label} than the others",
            instr.site.span.labelled(words.party("arrived", instr)),
            notes=("participants must arrive equally often; the next kernel would start one step ahead",),
            severity=Severity.WARNING, core=words.short(instr.core), pipes=(words.pipe(instr),),
        ))  # fmt: skip
