"""A launch that does not finish, in words: who waits for what, who could have signalled it, and the near miss."""

from __future__ import annotations

from functools import partial

from pypto_pro.diag import Diagnostic, Span
from pypto_pro.enums import CoreKind, CrossCoreSyncMode
from pypto_pro.hw.a5 import UNICAST_AIV1_STEP
from pypto_pro.interp.checks import near_miss, words
from pypto_pro.interp.checks.book import Book, Entry, make
from pypto_pro.interp.checks.circles import describe_circle, key_of
from pypto_pro.interp.checks.counters import Counters, mode_mismatch
from pypto_pro.interp.checks.near_miss import Hint
from pypto_pro.interp.checks.stuck import Wait, WaitGraph, wait_mode
from pypto_pro.interp.machine import Core, Instr, Machine
from pypto_pro.interp.result import RunResult
from pypto_pro.interp.sites import Kind
from pypto_pro.interp.sync import Counter, Flag, Mutex, Rendezvous, UnitFlag

UNICAST = CrossCoreSyncMode.UNICAST_BLOCK
SHOWN = 8


class Deadlocks:
    """Findings about a stuck launch."""

    def __init__(self, book: Book, machine: Machine, counters: Counters, unphased: Entry | None) -> None:
        self.book = book
        self.unphased = unphased
        """The race of an exit without a phase, which leaves a unit flag as it was."""
        self.machine = machine
        self.counters = counters

    def judge(self, result: RunResult) -> None:
        """Report what keeps a launch from ending."""
        for spinning in result.spinning:
            self._livelock(spinning.core, spinning.span, spinning.proven)
        graph = WaitGraph(self.machine, result)
        causes: list[Entry] = []
        roots = graph.roots()
        for wait in roots:
            causes.append(self._root(wait, graph))
        for circle in graph.cycles():
            causes.append(self.book.add("deadlock", key_of(circle), partial(describe_circle, circle)))
        held = next((w for w in graph.waits.values() if is_held(w)), None)
        if held is None:
            self.counters.overflows(None)
            return
        assert isinstance(held.blocked.waits_for, Counter)
        self.counters.overflows((held.instr, held.blocked.waits_for))
        overflow = self.book.entries["counter_overflow", held.instr.site.span]
        for entry in causes:
            if entry.kind == "deadlock":
                entry.cause = overflow

    # --- polling ----------------------------------------------------------------------------------------------------

    def _livelock(self, core: Core, span: Span, proven: bool) -> None:
        why = (
            "its state repeats while nobody else can change anything"
            if proven
            else "it went round ten million times while nobody else could change anything"
        )
        self.book.add("livelock", span, lambda: make(
            "livelock", f"{words.short(core)} polls in this loop for ever", span.labelled("never ends"),
            notes=(why,), core=words.short(core),
        ))  # fmt: skip

    # --- roots ------------------------------------------------------------------------------------------------------

    def _root(self, wait: Wait, graph: WaitGraph) -> Entry:
        """A wait that nobody can end."""
        target = wait.blocked.waits_for
        if isinstance(target, Mutex) and target.holder is not None and target.holder.pipe is wait.pipe:
            return self._lock_twice(wait, target, target.holder)
        if isinstance(target, Counter) and not wait.absent:
            found = self._other_counter(wait, target)
            if found is not None:
                return found
        key = (wait.instr.site.span, type(target).__name__)
        entry = self.book.add("deadlock", key, lambda: self._orphan(wait, graph))
        if isinstance(target, UnitFlag) and target.value == 1:
            entry.cause = self.unphased
        return entry

    def _orphan(self, wait: Wait, graph: WaitGraph) -> Diagnostic:
        instr, core = wait.instr, wait.blocked.core
        pipe = words.pipe(instr)
        what, hint = self._missing(wait)
        spans = [instr.site.span.labelled(words.party("waits", instr)), *hint.spans]
        others = [w for w in graph.waits.values() if w is not wait and w.waits_for]
        behind = f"{len(others)} other pipes wait behind it" if len(others) > 1 else ""
        notes = [*hint.notes, *([behind] if behind else [])]
        return make(
            "deadlock", f"`{instr.site.name}` on {pipe} of {words.short(core)} waits for {what}", *spans,
            notes=tuple(notes), help=hint.help, core=words.short(core), pipes=(pipe,),
        )  # fmt: skip

    def _missing(self, wait: Wait) -> tuple[str, Hint]:
        """What never comes, as a clause, and the near miss."""
        instr = wait.instr
        match wait.blocked.waits_for:
            case Flag() as flag:
                name = f"flag {flag.set_pipe.name} -> {flag.wait_pipe.name} {flag.event}"
                often = "once" if flag.sets == 1 else f"{flag.sets} times"
                how = "which nobody sets" + (" before it" if wait.later else "") if not flag.sets else (
                    f"which is set {often}; this is wait number {flag.waits + 1}"
                )  # fmt: skip
                return f"{name}, {how}", self._near_flag(wait, flag)
            case Counter() as counter if wait.absent:
                group = f"the {wait_mode(instr).name} rendezvous on event id {instr.args[0]}"
                return self._absent(group, wait), near_miss.of_meeting(self.counters, counter, instr)
            case Rendezvous(participants=None) as group:
                return f"{group.label}, but this kernel has cores of one kind only", Hint(
                    help="give core_type the kind this kernel has: SyncCoreType.AIV_ONLY or AIC_ONLY"
                )
            case Rendezvous() as group:
                return self._absent(group.label, wait), Hint(
                    help=f"let every core reach line {instr.site.span.line} equally often: keep it out of branches,"
                    " and of loops whose number of rounds depends on the block"
                )
            case Counter() as counter:
                return f"{counter.name}: {given(counter)}", near_miss.of_counter(self.counters, counter, instr)
            case UnitFlag() as flag:
                side = "a matmul with AccPhase.Final" if flag.value == 0 else "a store with STPhase.Final"
                return f"{flag.name}, which only {side} turns; none is left", near_miss.of_unit_flag(flag)
            case Mutex() as mutex if mutex.holder is not None:
                holder = mutex.holder
                return f"mutex {mutex.number}, which {words.pipe(holder)} holds and never unlocks", Hint(
                    spans=(holder.site.span.labelled(words.party("locked", holder)),),
                    help=f"unlock mutex {mutex.number} on {words.pipe(holder)} before line {instr.site.span.line}, on"
                    " every path that leads there",
                )
        return "something that cannot happen any more", Hint()

    def _near_flag(self, wait: Wait, flag: Flag) -> Hint:
        state = self.counters.signals.flags.get(flag)
        last = state.last_set if state is not None else None
        late = near_miss.of_late_set(wait.later, wait.instr)
        return late or near_miss.of_spent_flag(flag, last, wait.instr) or near_miss.of_flag(flag)

    def _absent(self, meeting: str, wait: Wait) -> str:
        ended = words.cores_text(wait.absent)
        return f"{meeting}, but {ended} ended without arriving" + (" in this round" if _rounds(wait) else "")

    def _lock_twice(self, wait: Wait, mutex: Mutex, holder: Instr) -> Entry:
        instr, pipe = wait.instr, words.pipe(wait.instr)

        def describe() -> Diagnostic:
            return make(
                "mutex", f"{pipe} locks mutex {mutex.number} while it holds it, and waits for itself",
                instr.site.span.labelled(words.party("locked again", instr)),
                holder.site.span.labelled(words.party("locked", holder)),
                notes=("a mutex is not recursive",),
                help=f"unlock mutex {mutex.number} on {pipe} before locking it again",
                core=words.short(instr.core), pipes=(pipe,),
            )  # fmt: skip

        cause = self.book.add("mutex", (instr.site.span, holder.site.span), describe)
        self.book.add("deadlock", instr.site.span, lambda: make(
            "deadlock", f"{pipe} of {words.short(instr.core)} waits for mutex {mutex.number}, which it holds itself",
            instr.site.span.labelled(words.party("waits", instr)),
            holder.site.span.labelled("holds it since here"), core=words.short(instr.core), pipes=(pipe,),
        ))  # fmt: skip
        return cause

    # --- signals that went elsewhere --------------------------------------------------------------------------------

    def _other_counter(self, wait: Wait, counter: Counter) -> Entry | None:
        """An unused credit that was meant for this wait: the wrong +16, or another mode."""
        instr = wait.instr
        spare = near_miss.spare_credits(self.machine, counter)
        mode = wait_mode(instr)
        for credit in spare:
            sender = credit.senders[0]
            if mode is UNICAST and credit.mode is UNICAST and near_miss.are_twins(credit.counter, counter):
                key = frozenset((instr.site.span, sender.site.span))
                return self.book.add("unicast_mapping", key, partial(self._unicast, instr, sender))
        for credit in spare:
            sender = credit.senders[0]
            if credit.mode is not mode and sender.args[0] % UNICAST_AIV1_STEP == instr.args[0] % UNICAST_AIV1_STEP:
                key = frozenset((instr.site.span, sender.site.span))
                describe = partial(mode_mismatch, instr, sender.site, sender.core, credit.mode, mode, taken=False)
                return self.book.add("mode_mismatch", key, describe)
        return self._arrival(instr, mode)

    def _arrival(self, instr: Instr, mode: CrossCoreSyncMode) -> Entry | None:
        """Arrivals at a rendezvous on the same id, when the wait asks for a signal of the block."""
        for group in self.machine.rendezvous.values():
            for arrivals in group.arrivals.values():
                for sender in arrivals:
                    sent = getattr(sender.site.node, "mode", None)
                    if isinstance(sent, CrossCoreSyncMode) and sent is not mode and sender.args[0] == instr.args[0]:
                        key = frozenset((instr.site.span, sender.site.span))
                        describe = partial(mode_mismatch, instr, sender.site, sender.core, sent, mode, taken=False)
                        return self.book.add("mode_mismatch", key, describe)
        return None

    def _unicast(self, wait: Instr, sender: Instr) -> Diagnostic:
        """The two ids of a UNICAST pair do not belong together."""
        vector = wait.core if wait.core.kind is CoreKind.VECTOR else sender.core
        cube = sender if vector is wait.core else wait
        k = (wait if vector is wait.core else sender).args[0]
        right = k + UNICAST_AIV1_STEP * vector.sub
        verb = "sets" if cube is sender else "waits for"
        return make(
            "unicast_mapping",
            f"the AIC {verb} event id {cube.args[0]}, which belongs to AIV{cube.args[0] // UNICAST_AIV1_STEP}; its"
            f" partner here is AIV{vector.sub}, whose id {k} is {right} on the AIC",
            wait.site.span.labelled(
                f"waits for ever, id {wait.args[0]} on {words.pipe(wait)} of {words.short(wait.core)}"
            ),
            sender.site.span.labelled(f"sent with id {sender.args[0]} by {words.short(sender.core)}"),
            notes=(f"UNICAST_BLOCK ids of AIV1 are {UNICAST_AIV1_STEP} higher on the AIC side",),
            help=f"use id {right} on the AIC, as a run-time value (constants above 15 are rejected)" if right > 15
            else f"use id {right} on the AIC",
            core=words.short(wait.core), pipes=(words.pipe(wait),),
        )  # fmt: skip


def is_held(wait: Wait) -> bool:
    """Whether a blocked instruction is a SET that found no room."""
    target = wait.blocked.waits_for
    return wait.instr.site.kind is Kind.SET_CROSS and isinstance(target, Counter) and bool(target.credits)


def given(counter: Counter) -> str:
    """How many signals a counter had."""
    if counter.given == 0:
        return "no set in this launch reaches it"
    times = "once" if counter.given == 1 else f"{counter.given} times"
    return f"it was signalled {times}, and every credit has been taken"


def _rounds(wait: Wait) -> bool:
    target = wait.blocked.waits_for
    return isinstance(target, Counter) and target.given > 0


def _line(instr: Instr) -> int:
    return instr.site.span.line
