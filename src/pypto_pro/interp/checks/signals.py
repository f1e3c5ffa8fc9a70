"""Flags, mutexes and barriers of one core: their edges, and what is wrong with their use."""

from __future__ import annotations

from dataclasses import dataclass

from pypto_pro.analysis.order import LANES, Knowledge, Order
from pypto_pro.diag import Diagnostic
from pypto_pro.enums import PipeType
from pypto_pro.interp.checks import words
from pypto_pro.interp.checks.advice import comes_round
from pypto_pro.interp.checks.book import Book, Entry, make
from pypto_pro.interp.checks.ids import Ids
from pypto_pro.interp.machine import Instr, Pipe
from pypto_pro.interp.sync import Flag, Mutex

S = PipeType.S.value


@dataclass(slots=True, eq=False)
class FlagState:
    """The last set and the last wait of a flag, and which wait it was."""

    last_set: Instr | None = None
    last_wait: Instr | None = None
    index: int = -1


@dataclass(frozen=True, slots=True)
class DoubleSet:
    """A reported set of a set flag, for whoever asks later what caused it."""

    flag: Flag
    entry: Entry


class Signals:
    """Makes the edges of flags, barriers and mutexes; `know` is what each pipe knows."""

    def __init__(self, book: Book, order: Order, know: dict[Pipe, Knowledge], ids: Ids) -> None:
        self.book = book
        self.order = order
        self.know = know
        self.ids = ids
        self.flags: dict[Flag, FlagState] = {}
        self.double_sets: list[DoubleSet] = []

    def at(self, instr: Instr) -> Knowledge:
        """What the instruction's pipe knows, with what S knew when it was issued."""
        know = self.know[instr.pipe]
        if know.log is not None and know.seen < len(know.log.entries):
            know.catch_up(instr.number)
        return know

    def waited(self, instr: Instr) -> None:
        """If the waiting pipe is S, everything issued from now on comes after the wait."""
        if instr.site.lane == S:
            self.order.scalar_acted(instr.core.index, instr.number)

    # --- flags ------------------------------------------------------------------------------------------------------

    def flag_set(self, instr: Instr, flag: Flag, index: int) -> None:
        """`sync_src` took effect."""
        know = self.at(instr)
        instr.mark = know.release(instr.number)
        state = self.flags.get(flag)
        if state is None:
            state = self.flags[flag] = FlagState()
            self.ids.flag(instr, flag.event)
        if index > 0 and not self._taken_down(know, flag, state, index):
            assert state.last_set is not None
            self._double_set(instr, flag, state.last_set, state.last_wait if state.index == index - 1 else None)
        state.last_set = instr

    @staticmethod
    def _taken_down(know: Knowledge, flag: Flag, state: FlagState, index: int) -> bool:
        """Whether the wait for the previous set is ordered before this set."""
        wait = state.last_wait
        if wait is None or state.index < index - 1:
            return False
        return know.of(flag.core.index * LANES + flag.wait_pipe.value) >= wait.number

    def flag_waited(self, instr: Instr, flag: Flag, index: int, setter: Instr) -> None:
        """`sync_dst` took a set."""
        self.at(instr).acquire(setter.mark, setter)
        state = self.flags[flag]
        state.last_wait, state.index = instr, index
        self.waited(instr)

    def _double_set(self, instr: Instr, flag: Flag, before: Instr, wait: Instr | None) -> None:
        key = frozenset((instr.site.span, before.site.span))

        def describe() -> Diagnostic:
            rounds = f" of {words.trips(instr)}" if words.trips(instr) else ""
            spans = [instr.site.span.labelled(words.party("set again", instr, before.core))]
            spans.append(before.site.span.labelled(words.party("set", before, instr.core)))
            sets, waits = flag.set_pipe.name, flag.wait_pipe.name
            note = f"nothing makes {sets} wait until {waits} has taken the first set"
            if wait is not None:
                spans.append(wait.site.span.labelled(words.party("taken", wait, instr.core)))
            who = "rounds in flight together" if comes_round(before, instr) else "the two sets"
            return make(
                "set_of_set_flag",
                f"this `sync_src`{rounds} may find flag {sets} -> {waits} {flag.event} still set",
                *spans, notes=(f"{note}; a flag is one bit, so the second set would be lost",),
                help=f"let {sets} wait for a signal {waits} sends after its sync_dst,\n"
                f"or give {who} different event ids",
                core=words.short(instr.core), pipes=(sets, waits),
            )  # fmt: skip

        self.double_sets.append(DoubleSet(flag, self.book.add("set_of_set_flag", key, describe)))

    # --- barriers ---------------------------------------------------------------------------------------------------

    def barrier(self, instr: Instr) -> None:
        """A barrier of one pipe, or (on S) of the whole core."""
        if instr.site.lane == S:
            self.order.drained(instr.core.index, instr.number)
        else:
            self.at(instr).finished(instr.number)

    # --- mutexes ----------------------------------------------------------------------------------------------------

    def locked(self, instr: Instr, mutex: Mutex, releaser: Instr | None) -> None:
        """A ticket was granted; the release before it counts when it came from another pipe."""
        know = self.at(instr)
        if releaser is None:
            self.ids.mutex(instr, mutex.number)
        if releaser is not None and releaser.pipe is not instr.pipe:
            know.acquire(releaser.mark, releaser)
        self.waited(instr)

    def unlocked(self, instr: Instr, mutex: Mutex, ticket: int | None) -> None:
        """A ticket was released, or (None) this pipe did not hold the mutex."""
        if ticket is None:
            self._not_held(instr, mutex)
            return
        instr.mark = self.at(instr).release(instr.number)

    def _not_held(self, instr: Instr, mutex: Mutex) -> None:
        def describe() -> Diagnostic:
            pipe = words.pipe(instr)
            spans = [instr.site.span.labelled(words.party("unlocked", instr))]
            if mutex.holder is not None:
                holder = words.pipe(mutex.holder)
                spans.append(mutex.holder.site.span.labelled(f"{holder} holds it since here"))
                text, help_ = f"{holder} holds it", f"unlock it on {holder}, the pipe that locked it"
            else:
                text, help_ = "nobody holds it", f"lock mutex {mutex.number} on {pipe} before, or drop this unlock"
            return make(
                "mutex", f"`mutex_unlock` releases mutex {mutex.number} on {pipe}, which does not hold it", *spans,
                notes=(text,), help=help_, core=words.short(instr.core), pipes=(pipe,),
            )  # fmt: skip

        self.book.add("mutex", instr.site.span, describe)
