"""The loop of a launch: scalar units take turns, the engine's pipes move, and what is left when nothing can.

Nothing runnable and not finished is a deadlock, exactly. A core that polls in a `while` loop stays runnable: see
`polling`.
"""

from __future__ import annotations

from itertools import takewhile
from typing import Any

from pypto_pro.diag import NOWHERE, Span
from pypto_pro.enums import PipeType
from pypto_pro.interp.engine import Engine
from pypto_pro.interp.machine import PATIENCE, Core, Pipe
from pypto_pro.interp.polling import PollWatch
from pypto_pro.interp.result import Blocked, RunResult, Spinning
from pypto_pro.interp.statements import FIRST_LOOP
from pypto_pro.interp.sync import Counter, Flag, Mutex, Rendezvous, UnitFlag

TURN, BLOCKED = 0, 1
"""A program yields these to give others a turn and when S waits, and the number of a `while` loop at each trip."""
IDLE_LIMIT = 10_000_000
"""Idle rounds after which polling counts as endless although no state came back (a counter in the loop)."""


def run_to_end(engine: Engine) -> RunResult:
    """Run until everything has finished or nothing moves."""
    watch, polls = IdleWatch(engine), PollWatch(engine)
    machine = engine.machine
    spinning: tuple[Spinning, ...] = ()
    among_themselves = False
    while True:
        if not engine.turns:
            if not engine.step():
                break
            continue
        over = not among_themselves and watch.round_is_over()
        if over and watch.idle and not engine.step() and watch.rounds > IDLE_LIMIT:
            spinning = tuple(Spinning(c, _where(c, c.loop), proven=False) for c in engine.turns)
            break
        core = engine.turns.popleft()
        among_themselves = resume(engine, core)
        engine.settle()
        if polls.look(core):
            spinning = tuple(Spinning(c, _where(c, polls.loop(c)), proven=True) for c in engine.turns)
            break
    result = _result(engine, spinning)
    if machine.calls.ended is not None:
        machine.calls.ended(result)
    return result


def resume(engine: Engine, core: Core) -> bool:
    """One turn of a scalar unit, up to its next yield. Whether the next turn is its block's again."""
    if core.program is None:
        core.program = engine.machine.begin(core)
    code = next(core.program, None)
    if code is None:
        core.finished = True
        engine.changes += 1
        if core.is_idle and not core.ended:
            engine.end_core(core)
    elif code == BLOCKED and core.pipes[PipeType.S.value].queue:
        core.parked = True
    else:
        if code >= FIRST_LOOP:
            core.loop = code - FIRST_LOOP
        core.patience -= 1
        if code == TURN and core.patience:
            turns, block = engine.turns, core.block
            if not turns or turns[0].block != block:
                turns.appendleft(core)
            else:
                turns.insert(sum(1 for _ in takewhile(lambda c: c.block == block, turns)), core)
            return True
        core.patience = PATIENCE
        engine.turns.append(core)
    return False


class IdleWatch:
    """Counts rounds in which every runnable core had a turn and nothing changed."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.left = 0
        self.changes = -1
        self.rounds = 0

    def round_is_over(self) -> bool:
        """Whether everybody runnable has had a turn since the last time this was true."""
        if self.left > 0:
            self.left -= 1
            return False
        self.left = len(self.engine.turns) - 1
        if self.engine.changes == self.changes:
            self.rounds += 1
        else:
            self.changes = self.engine.changes
            self.rounds = 0
        return True

    @property
    def idle(self) -> bool:
        """Whether nothing changed for a few rounds."""
        return self.rounds >= 2


def _where(core: Core, loop: int) -> Span:
    """The loop a polling core is in."""
    return core.while_spans[loop] if loop >= 0 else NOWHERE


# --- what is left ---------------------------------------------------------------------------------------------------


def _result(engine: Engine, spinning: tuple[Spinning, ...]) -> RunResult:
    machine = engine.machine
    given_up = tuple(Spinning(i.core, i.site.span, False) for i in engine.endless)
    blocked = tuple(
        Blocked(core, pipe.queue[0], pipe.waits_for, reason(pipe), tuple(pipe.queue)[1:])
        for core in machine.cores
        for pipe in core.pipes
        if pipe.queue
    )
    unfinished = tuple(c for c in machine.cores if not c.ended)
    return RunResult(
        finished=not (unfinished or given_up), blocked=blocked, spinning=(*spinning, *given_up),
        instructions=engine.number, unfinished=unfinished, leftovers=_leftovers(engine),
    )


def _leftovers(engine: Engine) -> dict[str, list[Any]]:
    """Sync objects still set."""
    cores = engine.machine.cores
    return {
        "flags": [f for c in cores for f in c.flags.values() if f.pending],
        "mutexes": [m for c in cores for m in c.mutexes.values() if m.holder is not None],
        "unit_flags": [u for c in cores for u in c.unit_flags.values() if u.value],
        "credits": [n for c in cores for n in c.counters.values() if n.credits],
    }


def reason(pipe: Pipe) -> str:
    """Why the head of a pipe cannot run, as a clause."""
    head = pipe.queue[0]
    match pipe.waits_for:
        case Flag() as flag:
            return f"waits for {flag.name}, which was set {flag.sets} times and waited for {flag.waits} times"
        case Mutex(holder=None) as mutex:
            return f"waits for {mutex.name}: ticket {mutex.released} was never locked"
        case Mutex() as mutex:
            assert mutex.holder is not None
            return f"waits for {mutex.name}, held by {mutex.holder.pipe.type.name}"
        case Counter() as counter if counter.credits:
            return f"signals {counter.name}, which is full"
        case Counter() as counter:
            return f"waits for {counter.name}, which got {counter.given} signals and gave them all away"
        case UnitFlag() as flag:
            return f"waits until {flag.name} is {1 - flag.value}"
        case Rendezvous(participants=None) as group:
            return f"waits for {group.name}, but this kernel has no cores of one kind"
        case Rendezvous() as group:
            return f"waits for {group.name}: {', '.join(c.name for c in group.missing)} did not arrive"
        case None:
            return "could go on"
    return f"waits until {head.core.name} has drained"
