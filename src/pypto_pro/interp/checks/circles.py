"""Pipes that wait for each other: who waits for whom, agent by agent, and what would open the circle.

Each step of a circle is a wait and the signal that would end it, which stands behind the next wait on the pipe of that
one. Signalling before that wait opens the circle, whatever else the kernel does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pypto_pro.diag import Diagnostic, Span
from pypto_pro.enums import PipeType
from pypto_pro.interp.checks import near_miss, words
from pypto_pro.interp.checks.book import make
from pypto_pro.interp.checks.near_miss import Hint
from pypto_pro.interp.checks.stuck import Wait
from pypto_pro.interp.machine import Instr
from pypto_pro.interp.sites import Kind
from pypto_pro.interp.sync import Counter, Flag, Idle, Mutex, Rendezvous
from pypto_pro.ir.nodes import SetFlag

SHOWN = 8
OPTIONS = 3
VERBS = {Kind.SET_FLAG: "sync_src", Kind.SET_CROSS: "set_cross_core", Kind.UNLOCK: "mutex_unlock"}
"""Signals whose place opens a circle."""


def key_of(circle: list[Wait]) -> frozenset[Span]:
    """Circles of the same lines are one."""
    return frozenset(w.instr.site.span for w in by_author(circle) or circle)


def by_author(waits: Iterable[Wait]) -> list[Wait]:
    """Waits the author wrote, without locks that were inserted for ops."""
    return [w for w in waits if not getattr(w.instr.site.node, "automatic", False) and w.instr.site.kind is not Kind.OP]


def describe_circle(circle: list[Wait]) -> Diagnostic:
    """The report on a circle."""
    shown = by_author(circle) or circle
    first = shown[0]
    spans: list[Span] = []
    seen: set[Span] = set()
    for wait in shown:
        if wait.instr.site.span not in seen and len(spans) < SHOWN:
            seen.add(wait.instr.site.span)
            spans.append(wait.instr.site.span.labelled(f"{_who(wait.instr)} waits for {target_name(wait)}"))
    path = shortest(circle, first)
    near = next((h for h in map(_near_miss, path) if h.notes), Hint())
    return make(
        "deadlock", f"{_parties(path)} wait for each other in a circle", *spans, *near.spans,
        notes=(*map(clause, path), *near.notes), help=near.help or opening(path), core=words.short(first.blocked.core),
        pipes=tuple(dict.fromkeys(words.pipe(w.instr) for w in circle)),
    )  # fmt: skip


def _near_miss(wait: Wait) -> Hint:
    """A set on the same pipes under another id that nobody takes: the wait was meant for it."""
    flag = wait.blocked.waits_for
    if not isinstance(flag, Flag):
        return Hint()
    return near_miss.of_flag(flag, unlike=1)


def _parties(path: list[Wait]) -> str:
    """The cores of a circle, or the pipes when it lies within one."""
    cores = list(dict.fromkeys(w.blocked.core for w in path))
    if len(cores) > 1:
        names = [words.short(c) for c in cores]
    else:
        names = list(dict.fromkeys(words.pipe(w.instr) for w in path))
        names[-1] += f" of {words.short(cores[0])}"
    more = len(names) - 4
    if more > 0:
        names = [*names[:4], f"{more} more"]
    joint = "; " if any("," in n for n in names) else ", "
    return joint.join(names[:-1]) + (" and " if len(names) > 1 else "") + names[-1]


def shortest(circle: list[Wait], first: Wait) -> list[Wait]:
    """The shortest way round from one wait back to itself; each waits for the pipe of the next."""
    inside = set(circle)
    came: dict[Wait, Wait] = {}
    pending, goal = [first], None
    while pending and goal is None:
        step: list[Wait] = []
        for wait in pending:
            for other in wait.waits_for:
                if other is first:
                    goal = wait
                elif other in inside and other not in came:
                    came[other] = wait
                    step.append(other)
        pending = step
    path = []
    while goal is not None and goal is not first:
        path.append(goal)
        goal = came.get(goal)
    return [first, *reversed(path)]


# --- one step in words ------------------------------------------------------------------------------------------------


def clause(wait: Wait) -> str:
    """Who waits where for what, and who would end it."""
    return f"line {_line(wait.instr)}: {_who(wait.instr)} waits for {target_name(wait)}{answer(wait)}"


def answer(wait: Wait) -> str:
    """Who would end a wait, as a clause behind it."""
    signal = wait.signal
    if signal is not None:
        if signal.site.kind is Kind.LOCK:
            return f", whose turn before is queued on {_who(signal)} (line {_line(signal)})"
        verb = "unlocks" if signal.site.kind is Kind.UNLOCK else "signals"
        return f", which line {_line(signal)} {verb} on {_who(signal)}"
    if wait.waits_for and wait.waits_for[0].instr.site.lane == PipeType.S.value:
        where = f" (line {wait.later.span.line})" if wait.later is not None else ""
        return f", which S of {words.short(wait.waits_for[0].blocked.core)} has not issued yet{where}"
    return ""


def target_name(wait: Wait) -> str:
    """What a blocked pipe waits for."""
    match wait.blocked.waits_for:
        case Mutex() as mutex:
            return f"mutex {mutex.number}"
        case Counter() as counter if counter.credits:
            return f"room on {counter.name}"
    target: object = wait.blocked.waits_for
    return str(getattr(target, "name", "its pipes"))


def _who(instr: Instr) -> str:
    return f"{words.pipe(instr)} of {words.short(instr.core)}"


def _line(instr: Instr) -> int:
    return instr.site.span.line


# --- what opens it ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """A wait, the line and call that would end it, and the wait that call stands behind."""

    wait: Wait
    call: str
    line: int
    behind: Wait
    turned: bool
    """The wait was issued before its signal, on the same core: there the order is the wrong way round."""

    @property
    def in_loop(self) -> bool:
        """Whether both are in a loop and nothing was signalled yet: the first round lacks a signal from before it."""
        signal, target = self.wait.signal, self.wait.blocked.waits_for
        fresh = target.sets == 0 if isinstance(target, Flag) else isinstance(target, Counter) and target.given == 0
        if signal is None or not fresh:
            return False
        mine, theirs = self.wait.instr.site.loops, signal.site.loops
        return bool(mine) and mine[:1] == theirs[:1]

    def text(self) -> str:
        """The change that opens the circle."""
        node = self.wait.signal.site.node if self.wait.signal is not None else None
        if self.in_loop and isinstance(node, SetFlag):
            pair = f"set_pipe={node.set_pipe.name}, wait_pipe={node.wait_pipe.name}"
            event = self.wait.signal.args[0] if self.wait.signal is not None else 0
            return (
                f"one more sync_src({pair}, event_id={event}) before the loop, and one more sync_dst with the same"
                " operands behind it"
            )
        text = f"the {self.call} of line {self.line} before line {_line(self.behind.instr)}"
        return text + (", or once more before the loop" if self.in_loop else "")


def opening(path: list[Wait]) -> str | None:
    """What opens a circle for certain; None when that takes more than moving one signal."""
    if all(_meets(w) or isinstance(w.blocked.waits_for, Idle) for w in path):
        lines = sorted({_line(w.instr) for w in path if _meets(w)})
        if len(lines) > 1:
            return f"let every participant reach the meetings of lines {', '.join(map(str, lines))} in the same order"
        return None
    found = list(steps(path))
    turned = [s for s in found if s.turned]
    if len(turned) == 1 and len({w.blocked.core for w in path}) == 1:
        found = turned
    options = list(dict.fromkeys(s.text() for s in found))[:OPTIONS]
    return "signal first: " + ";\nor ".join(options) if options else None


def _meets(wait: Wait) -> bool:
    """Whether it waits for a rendezvous."""
    target = wait.blocked.waits_for
    mode = getattr(wait.instr.site.node, "mode", None)
    return isinstance(target, Rendezvous) or (
        isinstance(target, Counter) and getattr(mode, "name", "") in ("INTER_BLOCK", "INTER_SUBBLOCK")
    )


def steps(path: list[Wait]) -> Iterator[Step]:
    """The steps whose signal can be given earlier."""
    for wait, behind in zip(path, [*path[1:], path[0]], strict=True):
        signal = wait.signal
        if _meets(wait):
            continue
        if signal is not None and signal.site.kind in VERBS and signal.pipe is behind.pipe:
            turned = signal.core is wait.blocked.core and signal.number > wait.instr.number
            yield Step(wait, VERBS[signal.site.kind], _line(signal), behind, turned)
        elif signal is None and wait.later is not None and behind.instr.site.lane == PipeType.S.value:
            call = "sync_src" if isinstance(wait.later, SetFlag) else "set_cross_core"
            yield Step(wait, call, wait.later.span.line, behind, True)
