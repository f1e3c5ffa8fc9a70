"""Cross-core signals: their edges, credits of another mode, and how far a sender can run ahead at worst."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from pypto_pro.analysis.order import LANES, Knowledge, Order, Release
from pypto_pro.diag import Diagnostic, Severity
from pypto_pro.enums import CoreKind, CrossCoreSyncMode
from pypto_pro.hw.a5 import CROSS_CORE_COUNTER_MAX, CROSS_CORE_IDS
from pypto_pro.interp.checks import words
from pypto_pro.interp.checks.book import Book, make
from pypto_pro.interp.checks.ids import Ids
from pypto_pro.interp.checks.signals import Signals
from pypto_pro.interp.crosscore import meeting
from pypto_pro.interp.machine import Core, Instr
from pypto_pro.interp.sites import Site
from pypto_pro.interp.sync import Counter, Credit
from pypto_pro.ir.nodes import SetCross, WaitCross

LIMIT = CROSS_CORE_COUNTER_MAX


@dataclass(slots=True, eq=False)
class CounterState:
    """Waits on a counter as issue numbers by agent, the worst number of credits, and who sends to it."""

    waits: dict[int, list[int]] = field(default_factory=dict)
    worst: int = 0
    worst_set: Instr | None = None
    senders: dict[tuple[Site, Core], int] = field(default_factory=dict)
    last_wait: Instr | None = None
    last_set: Instr | None = None


@dataclass(slots=True, eq=False)
class Sent:
    """A use of `set_cross_core`: its place, core and id, and how often."""

    site: Site
    core: Core
    event: int
    mode: CrossCoreSyncMode
    count: int = 0


class Counters:
    """Makes the edges of cross-core signals."""

    def __init__(self, book: Book, order: Order, signals: Signals, ids: Ids) -> None:
        self.book = book
        self.order = order
        self.signals = signals
        self.ids = ids
        self.states: dict[Counter, CounterState] = {}
        self.sent: dict[tuple[Site, int, int], Sent] = {}
        self.heard: set[tuple[Site, Core, int]] = set()
        """Places of waits that took a credit, with their core and id."""
        self.ambiguous: set[str] = set()
        """Counters signalled, or waited for, from pipes that nothing orders: which credit goes to whom is open."""

    def state(self, counter: Counter) -> CounterState:
        """What is kept of a counter."""
        found = self.states.get(counter)
        if found is None:
            found = self.states[counter] = CounterState()
        return found

    # --- sets -------------------------------------------------------------------------------------------------------

    def cross_set(self, instr: Instr, credits: tuple[Credit, ...]) -> None:
        """`set_cross_core` took effect."""
        instr.mark = self.signals.at(instr).release(instr.number)
        node, event = instr.site.node, instr.args[0]
        assert isinstance(node, SetCross)
        self.ids.signal(instr, event)
        key = (instr.site, instr.core.index, event)
        sent = self.sent.get(key)
        if sent is None:
            sent = self.sent[key] = Sent(instr.site, instr.core, event, node.mode)
        sent.count += 1
        for credit in credits:
            self._credit(instr, credit)
        if not credits and event in CROSS_CORE_IDS and meeting(instr.core, node.mode, event) is None:
            self._unheard(instr, node.mode)

    def _unheard(self, instr: Instr, mode: CrossCoreSyncMode) -> None:
        """A signal between the kinds of core of a block, in a kernel that has one kind only."""
        other = "matrix" if instr.core.kind is CoreKind.VECTOR else "vector"
        self.book.add("mode_mismatch", instr.site.span, lambda: make(
            "mode_mismatch", f"`set_cross_core` in mode {mode.name} reaches nobody: this kernel has no {other} cores",
            instr.site.span.labelled(words.party("sent", instr)),
            notes=("the mode signals between the matrix core and the vector cores of a block",),
            core=words.short(instr.core), pipes=(words.pipe(instr),),
        ))  # fmt: skip

    def _credit(self, instr: Instr, credit: Credit) -> None:
        state = self.state(credit.counter)
        self._note_order(credit, state)
        known = sum(
            bisect_right(numbers, max(known_of(s.mark, agent) for s in credit.senders))
            for agent, numbers in state.waits.items()
        )
        outstanding = credit.index + 1 - known
        if outstanding > state.worst:
            state.worst, state.worst_set = outstanding, instr
        for sender in credit.senders:
            place = (sender.site, sender.core)
            state.senders[place] = state.senders.get(place, 0) + 1

    def _note_order(self, credit: Credit, state: CounterState) -> None:
        """Credits of two senders that nothing orders: which of them a wait takes is open."""
        before, sender = state.last_set, credit.senders[0]
        if before is not None and before.pipe is not sender.pipe and len(credit.senders) == 1:
            agent = before.core.index * LANES + before.site.lane
            if known_of(sender.mark, agent) < before.number:
                self.ambiguous.add(credit.counter.name)
        state.last_set = sender

    # --- waits ------------------------------------------------------------------------------------------------------

    def cross_waited(self, instr: Instr, credit: Credit) -> None:
        """`wait_cross_core` took a credit."""
        know: Knowledge = self.signals.at(instr)
        for sender in credit.senders:
            know.acquire(sender.mark, sender)
        state = self.state(credit.counter)
        before = state.last_wait
        if before is not None and before.pipe is not instr.pipe:
            agent = before.core.index * LANES + before.site.lane
            if know.of(agent) < before.number:
                self.ambiguous.add(credit.counter.name)
        state.waits.setdefault(know.agent, []).append(instr.number)
        state.last_wait = instr
        node = instr.site.node
        assert isinstance(node, WaitCross)
        self.ids.signal(instr, instr.args[0])
        self.heard.add((instr.site, instr.core, instr.args[0]))
        if credit.mode is not node.mode:
            self._mode(instr, credit.senders[0], credit.mode, node.mode)
        self.signals.waited(instr)

    def _mode(self, wait: Instr, sender: Instr, sent: CrossCoreSyncMode, wanted: CrossCoreSyncMode) -> None:
        self.book.add("mode_mismatch", frozenset((wait.site.span, sender.site.span)),
                      lambda: mode_mismatch(wait, sender.site, sender.core, sent, wanted, taken=True))  # fmt: skip

    # --- the end of a launch ----------------------------------------------------------------------------------------

    def overflows(self, held: tuple[Instr, Counter] | None) -> None:
        """Counters that may pass their limit. `held`: a SET that waits for room for ever, and its counter."""
        if held is not None:
            instr, counter = held
            self.book.add("counter_overflow", instr.site.span, lambda: self._certain(instr, counter))
        for counter, state in self.states.items():
            if state.worst > LIMIT and state.worst_set is not None and (held is None or counter is not held[1]):
                self._possible(counter, state, state.worst_set)

    def _possible(self, counter: Counter, state: CounterState, instr: Instr) -> None:
        def describe() -> Diagnostic:
            spans = [instr.site.span.labelled(words.party(f"credit {state.worst}", instr))]
            if state.last_wait is not None:
                spans.append(state.last_wait.site.span.labelled(words.party("taken", state.last_wait, instr.core)))
            return make(
                "counter_overflow",
                f"up to {state.worst} credits can be outstanding on {counter.name}, which holds {LIMIT}", *spans,
                notes=("worst case over all legal schedules: no wait is ordered before the sets that follow it, so the"
                       " sender may run ahead of the receiver; this run held a set back where the device aborts",),
                help="let the receiver signal back after its wait, and let the sender wait for that before set"
                f" {LIMIT + 1}",
                severity=Severity.WARNING, core=words.short(instr.core), pipes=(words.pipe(instr),),
            )  # fmt: skip

        self.book.add("counter_overflow", instr.site.span, describe)

    def _certain(self, instr: Instr, counter: Counter) -> Diagnostic:
        last = counter.credits[-1].senders[0]
        return make(
            "counter_overflow",
            f"this set would be credit {len(counter.credits) + 1} on {counter.name}, which holds {LIMIT}, and nobody"
            " can take one first",
            instr.site.span.labelled(words.party("set", instr, last.core)),
            notes=(f"{counter.given} sets reached it, {counter.taken} waits took one",),
            help=f"take credits before set {LIMIT + 1}: no order of events avoids the overflow",
            core=words.short(instr.core), pipes=(words.pipe(instr),),
        )  # fmt: skip


def known_of(release: Release, agent: int) -> int:
    """The highest number of an agent a release knows to have completed."""
    lane = agent - release.core * LANES
    if 0 <= lane < LANES:
        return release.own[lane]
    return 0 if release.world is None else int(release.world[agent])


def mode_mismatch(
    wait: Instr, site: Site, sender: Core, sent: CrossCoreSyncMode, wanted: CrossCoreSyncMode, *, taken: bool
) -> Diagnostic:
    """A wait of one mode and the signal of another on its id; `taken`: it took the credit, else it waits for ever."""
    pair = {CrossCoreSyncMode.INTRA_BLOCK, CrossCoreSyncMode.UNICAST_BLOCK}
    same_operation = taken and wait.core.kind is CoreKind.VECTOR and {sent, wanted} == pair
    event = wait.args[0]
    outcome = "takes a credit of" if taken else "waits on the id of"
    why = (
        "on a vector core the two modes are the same operation, so it works"
        if same_operation
        else "the counter does not tell modes apart, so the wait passes for the wrong reason"
        if taken
        else "the signal goes to other counters in that mode, so the wait never ends"
    )
    return make(
        "mode_mismatch",
        f"`wait_cross_core` in mode {wanted.name} {outcome} a signal sent in mode {sent.name}, event id {event}",
        wait.site.span.labelled(f"waits in {wanted.name} on {words.pipe(wait)} of {words.short(wait.core)}"),
        site.span.labelled(f"sent in {sent.name} by {words.short(sender)}"),
        notes=(why,), help="use one sync_mode on both sides",
        severity=Severity.WARNING if same_operation else None,
        core=words.short(wait.core), pipes=(words.pipe(wait),),
    )  # fmt: skip
