"""Signals that nearly were the one a stuck wait needs: another id, another pipe pair, one vector core only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pypto_pro.diag import Span
from pypto_pro.enums import AccPhase, CoreKind, CrossCoreSyncMode, MemorySpace, PipeType, STPhase
from pypto_pro.hw.a5 import UNICAST_AIV1_STEP
from pypto_pro.interp.checks import numbering, words
from pypto_pro.interp.checks.counters import Counters, Sent
from pypto_pro.interp.crosscore import receivers
from pypto_pro.interp.machine import Instr, Machine
from pypto_pro.interp.sync import Counter, Credit, Flag, UnitFlag
from pypto_pro.ir import walk
from pypto_pro.ir.nodes import Const, Op, SetCross, SetFlag, WaitFlag
from pypto_pro.ir.types import TileType

MODE = CrossCoreSyncMode
NO_PHASE = (None, STPhase.Unspecified)


@dataclass(frozen=True, slots=True)
class Hint:
    """What a report adds: further places, notes, and the mend when it is certain."""

    notes: tuple[str, ...] = ()
    spans: tuple[Span, ...] = ()
    help: str | None = None


def of_flag(flag: Flag, unlike: int = 2) -> Hint:
    """The set of this core that nobody took and that is most alike, if at most `unlike` of pipes and id differ.

    One on other pipes only when nothing waits for it: otherwise it is there for a wait of its own.
    """
    spare = [f for f in flag.core.flags.values() if f.pending and f is not flag]
    spare = [f for f in spare if _same_pipes(f, flag) or not _is_waited_for(f)]
    spare.sort(key=lambda f: _unlike(f, flag))
    if not spare or _unlike(spare[0], flag) > unlike:
        return Hint()
    found = spare[0]
    setter = found.pending[-1]
    name = _name(found)
    if _same_pipes(found, flag):
        differs = f"the ids differ: {found.event} and {flag.event}"
    else:
        differs = f"the pipes differ: {found.set_pipe.name} -> {found.wait_pipe.name} and {flag.set_pipe.name} ->"
        differs += f" {flag.wait_pipe.name}"
    return Hint(
        notes=(f"line {setter.site.span.line} sets flag {name}, which nobody waits for: {differs}",),
        spans=(setter.site.span.labelled(f"sets flag {name}"),),
        help="name the same set_pipe, wait_pipe and event_id in sync_src and sync_dst",
    )


def of_spent_flag(flag: Flag, last: Instr | None, wait: Instr) -> Hint | None:
    """A flag that was set, by `last` at the end, but less often than it is waited for; None when that is no news."""
    if last is None or any(_same_pipes(f, flag) and f.pending and not f.waits for f in flag.core.flags.values()):
        return None
    inside = wait.site.loops
    outside = bool(inside) and last.site.loops[: len(inside)] != inside
    line, sets = last.site.span.outermost.line, "once" if flag.sets == 1 else f"{flag.sets} times"
    pair = f"set_pipe={flag.set_pipe.name}, wait_pipe={flag.wait_pipe.name}, event_id={flag.event}"
    where = " in the loop" if outside else ""
    return Hint(
        notes=(f"flag {_name(flag)} is set {sets}, last at line {line}, and waited for {flag.waits + 1} times: a set is"
               f" missing{where}",),
        spans=(last.site.span.outermost.labelled(f"flag {_name(flag)} is set here for the last time"),),
        help=f"sync_src({pair}){where}, behind the work of {flag.set_pipe.name} that this wait is meant for",
    )  # fmt: skip


def _name(flag: Flag) -> str:
    return f"{flag.set_pipe.name} -> {flag.wait_pipe.name} {flag.event}"


def _same_pipes(a: Flag, b: Flag) -> bool:
    return (a.set_pipe, a.wait_pipe) == (b.set_pipe, b.wait_pipe)


def _is_waited_for(flag: Flag) -> bool:
    """Whether a wait took a set of the flag, or the program has one that may."""
    program = flag.core.machine.kernel.program(flag.core.kind)
    waits = (s for s in walk.statements(program.body) if isinstance(s, WaitFlag)) if program is not None else ()
    return flag.waits > 0 or any(
        (s.set_pipe, s.wait_pipe) == (flag.set_pipe, flag.wait_pipe)
        and (not isinstance(s.event, Const) or s.event.value == flag.event)
        for s in waits
    )


def of_unit_flag(flag: UnitFlag) -> Hint:
    """Uses of accumulators in this core's program that lack the phase which would turn a unit flag."""
    program = flag.core.machine.kernel.program(flag.core.kind)
    ops = [s for s in walk.statements(program.body) if isinstance(s, Op)] if program is not None else []
    if flag.value == 0:
        lines = sorted({o.span.outermost.line for o in ops if dict(o.attrs).get("phase") is AccPhase.Partial})
        where = f": none of lines {', '.join(map(str, lines))} is" if len(lines) > 1 else ""
        return Hint(help=f"phase=pl.AccPhase.Final on the last product of the sum{where}")
    exits = [o for o in ops if o.name == "store" and takes_acc(o) and dict(o.attrs).get("phase") in NO_PHASE]
    spans = tuple(o.span.labelled("takes an accumulator without a phase") for o in exits)
    lines = sorted({o.span.outermost.line for o in exits})
    where = f" of line {' or '.join(map(str, lines))}" if lines else ""
    return Hint(spans=spans, help=f"phase=pl.STPhase.Final on the store that takes the sum{where}")


def takes_acc(op: Op) -> bool:
    """Whether an accumulator is among the operands of an op."""
    types = (getattr(a, "type", None) for a in op.args)
    return any(isinstance(t, TileType) and t.target_memory is MemorySpace.Acc for t in types)


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
    """Signals of the block that come near a counter nobody signals, and why there may be too few."""
    return _counted(_of_counter(counters, counter, wait), counter.core.machine)


def _counted(hint: Hint, machine: Machine) -> Hint:
    """A hint, with the loop that each vector core of a block runs for rounds of its own."""
    line = numbering.uneven_loop(machine)
    if line is None:
        return hint
    return replace(hint, notes=(*hint.notes, numbering.uneven_note(line)), help=numbering.uneven_help(line))


def _of_counter(counters: Counters, counter: Counter, wait: Instr) -> Hint:
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
    return _spare(counters, counter, wait)


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


def _too_few(sent: Sequence[Sent], wait: Instr) -> Hint:
    """Where the credits came from; outside all loops while the wait stands in one, a set is missing in a loop."""
    spans = tuple(
        s.site.span.labelled(f"sent here {'once' if s.count == 1 else f'{s.count} times'} by {words.short(s.core)}")
        for s in sent
    )[:3]
    if not sent or not wait.site.loops or any(s.site.loops for s in sent):
        return Hint(spans=spans)
    return Hint(
        spans=spans,
        notes=("it waits in every round of its loop, and no set that reaches it stands in a loop: one is missing",),
        help=f"set_cross_core(event_id={sent[0].event}) in the loop of the sender as well, behind the work this wait is"
        " meant for",
    )


def _spare(counters: Counters, counter: Counter, wait: Instr) -> Hint:
    """A credit on another id that nobody takes."""
    spare = spare_credits(counter.core.machine, counter)
    mine = [c for c in spare if c.counter.core is counter.core]
    if not mine:
        return _too_few([s for s in counters.sent.values() if counter in receivers(s.core, s.mode, s.event)], wait)
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
    hint = Hint(
        spans=spans,
        help="every participant must arrive and wait as often as the others: keep set and wait outside the condition",
    )
    pair = getattr(wait.site.node, "mode", None) is MODE.INTER_SUBBLOCK
    return _counted(hint, counter.core.machine) if pair else hint
