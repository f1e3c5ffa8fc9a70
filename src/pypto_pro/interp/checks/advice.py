"""How to mend a conflict between two instructions: advice for reports, given only where it is certain."""

from __future__ import annotations

from collections.abc import Iterable

from pypto_pro.diag import Span
from pypto_pro.enums import AccPhase, MemorySpace, PipeType
from pypto_pro.interp.checks import words
from pypto_pro.interp.machine import Instr
from pypto_pro.interp.memory import SimTile
from pypto_pro.interp.sites import OpSite, Site

FINAL = (
    "phase=pl.STPhase.Final on the `{name}` of line {line}: the sum is made in phases, and the unit flag of the"
    " accumulator then orders the two"
)
UNREAD = "nothing reads what the first brings: is one of them meant for another tile or slot?"


def scope_of(first: Instr, second: Instr) -> str:
    """Which cores a conflict is between; each needs another mend."""
    if first.core is second.core:
        return "one core"
    if first.core.block != second.core.block:
        return "blocks"
    return "vector cores" if first.core.kind is second.core.kind else "core kinds"


def mend(first: Instr, second: Instr, *, in_gm: bool) -> str | None:
    """What orders two instructions that meet in GM, or in a memory on chip, for certain."""
    p, q = words.pipe(first), words.pipe(second)
    a, b = line_of(first), line_of(second)
    taken = unphased(first, second)
    if taken is not None:
        return FINAL.format(name=taken.site.name, line=line_of(taken))
    if first.core is second.core:
        pair = f"set_pipe={p}, wait_pipe={q}"
        group = "or take the tile from a group with mutex ids under auto_mutex"
        if in_gm:
            group = "or pl.system.bar_all() between them"
        if comes_round(first, second):
            return (
                f"the order has to come round the loop: sync_src({pair}) after line {a}, sync_dst({pair}) before line"
                f" {b},\none more sync_src before the loop and one more sync_dst behind it;\n{group}"
            )
        return f"sync_src({pair}) after line {a}, sync_dst({pair}) before line {b}, with one event_id;\n{group}"
    match scope_of(first, second):
        case "core kinds":
            pair = f"set_cross_core(pipe={p}) after line {a}, wait_cross_core(pipe={q}) before line {b}"
            if b < a and first.trips and second.trips and first.trips != second.trips:
                return (
                    f"the order has to come round the loop: {pair}, with one event_id,\none more set_cross_core before"
                    " the loop and one more wait_cross_core behind it"
                )
            return f"{pair}, with one event_id"
        case scope if first.site is second.site:
            return f"let each {'vector core' if scope == 'vector cores' else 'block'} write bytes of its own"
        case "vector cores":
            meeting = f"a rendezvous of the two vector cores (INTER_SUBBLOCK set on {p}, wait on {q})"
        case _ if first.core.kind is second.core.kind:
            meeting = "a rendezvous of the blocks (sync_all, or INTER_BLOCK set and wait)"
        case _:
            meeting = "a rendezvous of all cores (sync_all with core_type MIX)"
    place = f"between line {a} and line {b}" if a < b else f"behind line {a}, before line {b} comes round again"
    return f"{meeting} {place}"


def unphased(first: Instr, second: Instr) -> Instr | None:
    """The exit without a phase among two instructions of a core, of which the other is a product with one."""
    for product, taken in ((first, second), (second, first)):
        if isinstance(product.site, OpSite) and isinstance(product.site.phase, AccPhase):
            site = taken.site
            exits = site.pipe is PipeType.FIX and taken.core is product.core
            if exits and isinstance(site, OpSite) and "phase" in site.attrs and site.phase is None:
                return taken
    return None


def comes_round(first: Instr, second: Instr) -> bool:
    """Whether the second belongs to a later round of a loop both are in, at or above the first."""
    return first.trips != second.trips and line_of(second) <= line_of(first) and bool(_shared_loops((first, second)))


def _shared_loops(instrs: Iterable[Instr]) -> tuple[str, ...]:
    loops = [i.site.loops for i in instrs]
    found = []
    for names in zip(*loops, strict=False):
        if len(set(names)) > 1:
            break
        found.append(names[0])
    return tuple(found)


def next_round(first: Instr, second: Instr) -> str:
    """How one line meets itself."""
    return " in the next round" if first.site is second.site and first.trips != second.trips else ""


def barrier(call: str, first: Instr, second: Instr) -> str:
    """Where a barrier has to stand; one line meets itself in the next round of a loop."""
    a, b = line_of(first), line_of(second)
    if comes_round(first, second) or a == b:
        return f"put {call} before line {b}, inside the loop"
    return f"put {call} between line {a} and line {b}"


def equal_rows(multiplied: Instr, taken: Instr) -> str:
    """What makes the matrix unit and the exit count the rows of an accumulator alike."""
    left = [a for a in multiplied.args if isinstance(a, SimTile) and a.type.target_memory is MemorySpace.Left]
    acc = [a for a in taken.args if isinstance(a, SimTile) and a.type.target_memory is MemorySpace.Acc]
    if left and acc and all(a.type.compact for a in left + acc):
        return (
            f"give both the same valid rows with pl.set_validshape: `{left[0].name}` of line {line_of(multiplied)} has"
            f" {left[0].vr}, `{acc[0].name}` {acc[0].vr}"
        )
    return "set compact=1 on the left operand and on the accumulator"


def wrong_pipe(signal: Site, first: Instr) -> tuple[tuple[str, ...], tuple[Span, ...]]:
    """A signal that says nothing about an instruction, since it comes from another pipe."""
    sent, meant = signal.pipe.name, words.pipe(first)
    text = f"line {signal.span.line} signals on {sent}, which did not wait for {meant}"
    return (text,), (signal.span.labelled(f"says what {sent} has done, not {meant}"),)


def line_of(instr: Instr) -> int:
    """The line of the call."""
    return instr.site.span.line
