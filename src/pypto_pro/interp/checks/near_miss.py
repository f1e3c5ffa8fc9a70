"""Signals that nearly were the one a stuck wait needs: another id, another pipe pair, one vector core only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pypto_pro.diag import Span
from pypto_pro.enums import CoreKind, CrossCoreSyncMode, PipeType
from pypto_pro.hw.a5 import UNICAST_AIV1_STEP
from pypto_pro.interp.checks import words
from pypto_pro.interp.checks.counters import Counters, Sent
from pypto_pro.interp.crosscore import receivers
from pypto_pro.interp.machine import Instr, Machine
from pypto_pro.interp.sync import Counter, Credit, Flag
from pypto_pro.ir.nodes import SetCross, SetFlag

MODE = CrossCoreSyncMode


@dataclass(frozen=True, slots=True)
class Hint:
    """What a report adds: further places, notes, and the mend when it is certain."""

    notes: tuple[str, ...] = ()
    spans: tuple[Span, ...] = ()
    help: str | None = None


def of_flag(flag: Flag, unlike: int = 2) -> Hint:
    """The set of this core that nobody took and that is most alike, if at most `unlike` of pipes and id differ."""
    spare = [f for f in flag.core.flags.values() if f.pending and f is not flag]
    spare.sort(key=lambda f: _unlike(f, flag))
    if not spare or _unlike(spare[0], flag) > unlike:
        return Hint()
    found = spare[0]
    setter = found.pending[-1]
    name = f"{found.set_pipe.name} -> {found.wait_pipe.name} {found.event}"
    if (found.set_pipe, found.wait_pipe) == (flag.set_pipe, flag.wait_pipe):
        differs = f"the ids differ: {found.event} and {flag.event}"
    else:
        differs = f"the pipes differ: {found.set_pipe.name} -> {found.wait_pipe.name} and {flag.set_pipe.name} ->"
        differs += f" {flag.wait_pipe.name}"
    return Hint(
        notes=(f"line {setter.site.span.line} sets flag {name}, which nobody waits for: {differs}",),
        spans=(setter.site.span.labelled(f"sets flag {name}"),),
        help="name the same set_pipe, wait_pipe and event_id in sync_src and sync_dst",
    )


def of_late_set(later: SetFlag | SetCross | None, wait: Instr) -> Hint | None:
    """A set of the flag that the scalar unit would issue if it did not wait for it here."""
    if later is None or wait.site.pipe is not PipeType.S or later.span.line <= wait.site.span.line:
        return None
    return Hint(
        notes=(f"S waits here itself, so it never issues the sync_src of line {later.span.line}",),
        spans=(later.span.labelled("would set it, but is never issued"),),
        help=f"put the sync_src of line {later.span.line} before line {wait.site.span.line}",
    )


def _unlike(a: Flag, b: Flag) -> int:
    return (a.set_pipe is not b.set_pipe) + (a.wait_pipe is not b.wait_pipe) + (a.event != b.event)


def spare_credits(machine: Machine, counter: Counter) -> list[Credit]:
    """Credits in the same block that nobody took, on counters other than this."""
    return [
        credit
        for core in machine.block_cores(counter.core.block)
        for other in core.counters.values()
        if other is not counter
        for credit in other.credits
    ]


def are_twins(a: Counter, b: Counter) -> bool:
    """Whether two counters stand for the same id of different vector cores."""
    if a.core is b.core:
        return a.number != b.number and a.number % UNICAST_AIV1_STEP == b.number % UNICAST_AIV1_STEP
    return a.core.kind is b.core.kind is CoreKind.VECTOR and a.number == b.number


def of_counter(counters: Counters, counter: Counter, wait: Instr) -> Hint:
    """Signals of the block that come near a counter nobody signals."""
    core, event = counter.core, wait.args[0]
    mine = [s for s in counters.sent.values() if s.core.block == core.block and s.core is not core]
    if core.kind is CoreKind.VECTOR:
        sent = next((s for s in mine if s.mode is MODE.UNICAST_BLOCK and s.event % UNICAST_AIV1_STEP == event), None)
        if sent is not None and sent.event // UNICAST_AIV1_STEP != core.sub:
            return _one_vector_core(sent, core.sub, event)
    else:
        partner = counter.number // UNICAST_AIV1_STEP
        heard = [s for s in mine if s.event == event]
        if getattr(wait.site.node, "mode", None) is MODE.INTRA_BLOCK:
            uneven = _one_sender(heard, partner)
            if uneven is not None:
                return uneven
    return _spare(counters, counter)


def _one_vector_core(sent: Sent, sub: int, event: int) -> Hint:
    right = event + UNICAST_AIV1_STEP * sub
    reached = sent.event // UNICAST_AIV1_STEP
    also = f"runtime id {right}" if right > 15 else f"id {right}"
    return Hint(
        notes=(f"the set at line {sent.site.span.line} is UNICAST id {sent.event}: it reaches AIV{reached} only",),
        spans=(sent.site.span.labelled(f"UNICAST id {sent.event}: AIV{reached} only"),),
        help=f"use INTRA_BLOCK on both sides, which reaches both vector cores, or also set {also}",
    )


def _one_sender(heard: Sequence[Sent], missing: int) -> Hint | None:
    """Where the other vector core signals more often than this one; None when it does not."""
    totals = [sum(s.count for s in heard if s.core.sub == sub) for sub in (0, 1)]
    if totals[missing] >= totals[1 - missing]:
        return None
    counts = {(s.site, s.core.sub): s.count for s in heard}
    sent = max(
        (s for s in heard if s.core.sub != missing), key=lambda s: s.count - counts.get((s.site, missing), 0)
    )
    here, there = counts.get((sent.site, missing), 0), sent.count
    many = "none" if totals[missing] == 0 else f"{totals[missing]}, AIV{1 - missing} {totals[1 - missing]}"
    often = "only" if here == 0 else f"{there} times, by AIV{missing} {here} times"
    return Hint(
        notes=(f"in INTRA_BLOCK the AIC takes one signal of each vector core; AIV{missing} sends {many}",),
        spans=(sent.site.span.labelled(f"sent by {words.short(sent.core)} {often}"),),
        help=f"let AIV{missing} signal as often, or use UNICAST_BLOCK on both sides",
    )


def _spare(counters: Counters, counter: Counter) -> Hint:
    """A credit on another id that nobody takes."""
    spare = spare_credits(counter.core.machine, counter)
    mine = [c for c in spare if c.counter.core is counter.core]
    if not mine:
        return Hint(spans=tuple(
            s.site.span.labelled(f"sent here {'once' if s.count == 1 else f'{s.count} times'} by {words.short(s.core)}")
            for s in counters.sent.values() if counter in receivers(s.core, s.mode, s.event)
        )[:3])  # fmt: skip
    sender = mine[0].senders[0]
    line, event = sender.site.span.line, sender.args[0]
    return Hint(
        notes=(f"line {line} signals event id {event} of the same core, which nobody waits for",),
        spans=(sender.site.span.labelled(f"signals event id {event}"),),
    )


def of_meeting(counters: Counters, counter: Counter, wait: Instr) -> Hint:
    """Where the others arrive at a rendezvous."""
    sites = {s.site for s in counters.sent.values() if s.event == wait.args[0] and s.mode is wait.site.node.mode}  # type: ignore[union-attr]
    spans = tuple(site.span.labelled("the others arrive here") for site in sites)
    return Hint(
        spans=spans,
        help="every participant must arrive and wait as often as the others: keep set and wait outside the condition",
    )
