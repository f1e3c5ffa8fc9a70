"""Inside a SIMT launch: threads that touch the same bytes, one of them writing; nothing in the language orders them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pypto_pro.diag import Diagnostic
from pypto_pro.interp.calls import CallPlan, RegisterAccess
from pypto_pro.interp.checks import words
from pypto_pro.interp.checks.book import Book, make
from pypto_pro.ir.nodes import SimtLaunch
from pypto_pro.ops.entry import Effect

if TYPE_CHECKING:
    from pypto_pro.interp.machine import Instr

Integers = NDArray[np.int64]


class ThreadRaces:
    """Findings of kind race between threads of one launch."""

    def __init__(self, book: Book) -> None:
        self.book = book

    def completed(self, instr: Instr, plan: CallPlan) -> None:
        """A call has run; the accesses of a launch are compared, memory by memory."""
        if not isinstance(instr.site.node, SimtLaunch):
            return
        accesses = [e for e in plan.trace if isinstance(e, RegisterAccess)]
        for store in {e.store.name: e.store for e in accesses}.values():
            self._compare(instr, [e for e in accesses if e.store is store])

    def _compare(self, instr: Instr, events: list[RegisterAccess]) -> None:
        """One report for each pair of places in the text that meet in some byte."""
        place, number = _bytes(events)
        thread = np.array([e.thread for e in events], np.int64)[number]
        writes = np.array([e.effect is Effect.WRITE for e in events])[number]
        order = np.lexsort((number, place))
        place, number, thread, writes = place[order], number[order], thread[order], writes[order]
        starts = np.flatnonzero(np.append(True, place[1:] != place[:-1]))
        several = np.maximum.reduceat(thread, starts) != np.minimum.reduceat(thread, starts)
        collide = several & np.logical_or.reduceat(writes, starts)
        ends = np.append(starts[1:], place.size)
        seen: set[tuple[int, int]] = set()
        for start, end in zip(starts[collide].tolist(), ends[collide].tolist(), strict=True):
            writer = start + int(np.argmax(writes[start:end]))
            other = start + int(np.argmax(thread[start:end] != thread[writer]))
            pair = int(number[writer]), int(number[other])
            if pair not in seen:
                seen.add(pair)
                self._report(instr, events[pair[0]], events[pair[1]])

    def _report(self, instr: Instr, writer: RegisterAccess, other: RegisterAccess) -> None:
        key = ("threads", frozenset((writer.site.span, other.site.span)))

        def describe() -> Diagnostic:
            both = other.effect is Effect.WRITE
            does = "writes too" if both else "reads"
            address = max(writer.address, other.address)
            shared = [(address, min(writer.address + writer.size, other.address + other.size))]
            return make(
                "race",
                f"thread {writer.thread} of `{instr.site.name}` writes an element of `{writer.operand}` that thread"
                f" {other.thread} of the same launch {does}, and nothing orders threads",
                writer.site.span.labelled(f"written here by thread {writer.thread}"),
                other.site.span.labelled(f"{'written' if both else 'read'} here by thread {other.thread}"),
                instr.site.span.labelled("launched here"),
                notes=(words.bytes_text(writer.store, shared, instr.core.machine.buffers),),
                core=words.short(instr.core), pipes=(words.pipe(instr),),
            )  # fmt: skip

        self.book.add("race", key, describe)


def _bytes(events: list[RegisterAccess]) -> tuple[Integers, Integers]:
    """(every byte touched, the number of the access that touches it)."""
    size = np.array([e.size for e in events], np.int64)
    start = np.array([e.address for e in events], np.int64)
    number = np.repeat(np.arange(len(events)), size)
    within: Any = np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size, size)
    return start[number] + within, number
