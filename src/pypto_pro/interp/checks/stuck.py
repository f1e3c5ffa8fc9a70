"""Who waits for whom when nothing moves any more: the graph of blocked pipes, what starts it, and its cycles.

A blocked pipe waits for an object; whoever would signal it is another blocked pipe (the signal is in its queue), the
scalar unit of a core that is blocked itself (the signal is not issued yet), or nobody.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pypto_pro.enums import CrossCoreSyncMode, PipeType
from pypto_pro.interp import crosscore
from pypto_pro.interp.machine import Core, Instr, Machine, Pipe
from pypto_pro.interp.result import Blocked, RunResult
from pypto_pro.interp.sites import Kind
from pypto_pro.interp.sync import Counter, Flag, Idle, Mutex, Rendezvous, UnitFlag
from pypto_pro.ir import walk
from pypto_pro.ir.nodes import Const, SetCross, SetFlag, Unlock


@dataclass(slots=True, eq=False)
class Wait:
    """A blocked pipe, the pipes it waits for, and whether somebody it needs can never act."""

    blocked: Blocked
    waits_for: list[Wait] = field(default_factory=list)
    absent: list[Core] = field(default_factory=list)
    """Cores that would have to take part and have ended or cannot."""
    orphaned: bool = False
    """Nobody is left who would signal it."""
    signal: Instr | None = None
    """The queued instruction that would end it."""
    later: SetFlag | SetCross | None = None
    """A statement that would end it and was not issued yet; one whose id is a constant."""

    @property
    def instr(self) -> Instr:
        """The waiting instruction."""
        return self.blocked.instr

    @property
    def pipe(self) -> Pipe:
        """The blocked pipe."""
        return self.blocked.instr.pipe


class WaitGraph:
    """All blocked pipes of a stuck launch with their edges."""

    def __init__(self, machine: Machine, result: RunResult) -> None:
        self.machine = machine
        self.waits = {b.instr.pipe: Wait(b) for b in result.blocked}
        self.spinning = {s.core for s in result.spinning}
        for wait in self.waits.values():
            self._connect(wait)

    # --- edges ------------------------------------------------------------------------------------------------------

    def _connect(self, wait: Wait) -> None:
        found: list[Pipe] = []
        core = wait.blocked.core
        match wait.blocked.waits_for:
            case Flag() as flag:
                found = self._flag(wait, core, flag)
            case Mutex() as mutex:
                found = self._mutex(wait, core, mutex)
            case Counter() as counter if counter.credits:
                found = list(self._queued(counter.core, Kind.WAIT_CROSS)) or self._issuer(counter.core)
            case Counter() as counter:
                found = self._counter(wait, counter)
            case UnitFlag():
                found = [p for p in core.pipes if p.type in (PipeType.M, PipeType.FIX) and p is not wait.pipe]
            case Rendezvous() as group:
                wait.absent = list(group.missing)
                found = [pipe for c in group.missing for pipe in self._issuer(c)]
            case Idle():
                found = [p for p in core.pipes if p.type is not PipeType.S]
        edges = [self.waits[p] for p in dict.fromkeys(found) if p in self.waits and p is not wait.pipe]
        wait.waits_for = edges
        wait.absent = [c for c in wait.absent if c.ended]
        wait.orphaned = not edges

    def _issuer(self, core: Core) -> list[Pipe]:
        """The scalar unit of a core whose program has not ended."""
        return [] if core.finished else [core.pipes[PipeType.S.value]]

    def _queued(self, core: Core, kind: Kind) -> Iterator[Pipe]:
        for pipe in core.pipes:
            if any(i.site.kind is kind for i in pipe.queue):
                yield pipe

    def _flag(self, wait: Wait, core: Core, flag: Flag) -> list[Pipe]:
        for pipe in core.pipes:
            for instr in pipe.queue:
                if sets_pair(instr.site.node, flag) and instr.args[0] == flag.event:
                    wait.signal = instr
                    return [pipe]
        written = [
            stmt for stmt in self._statements(core)
            if isinstance(stmt, SetFlag) and sets_pair(stmt, flag) and may_be(stmt.event, flag.event)
        ]  # fmt: skip
        known = [s for s in written if isinstance(s.event, Const)]
        behind = (s for s in known if s.span.line > wait.instr.site.span.line)
        wait.later = next(behind, known[0] if known else None)
        return self._issuer(core) if written else []

    def _mutex(self, wait: Wait, core: Core, mutex: Mutex) -> list[Pipe]:
        """Whoever has the ticket that must be released next."""
        if mutex.holder is not None:
            pipe = mutex.holder.pipe
            wait.signal = next(
                (i for i in pipe.queue if isinstance(i.site.node, Unlock) and i.args[0] == mutex.number), None
            )
            return [pipe] if wait.signal is not None else self._issuer(core) or [pipe]
        for pipe in core.pipes:
            for instr in pipe.queue:
                if instr.site.kind is Kind.LOCK and instr.args[0] == mutex.number and instr.ticket == mutex.released:
                    wait.signal = instr
                    return [pipe]
        return []

    def _counter(self, wait: Wait, counter: Counter) -> list[Pipe]:
        """Senders of a credit: queued signals first, then programs that have still to issue one."""
        group = crosscore.meeting(counter.core, wait_mode(wait.instr), counter.number)
        if group is not None:
            wait.absent = list(group.missing)
            return [pipe for core in group.missing for pipe in (*self._arriving(core, group), *self._issuer(core))]
        queued, issuers = [], []
        for core in self.machine.block_cores(counter.core.block):
            if core is counter.core:
                continue
            for pipe in core.pipes:
                signal = next((i for i in pipe.queue if counter in reached(i)), None)
                if signal is not None:
                    wait.signal = wait.signal or signal
                    queued.append(pipe)
            sets = [s for s in self._statements(core) if isinstance(s, SetCross)]
            reaching = [s for s in sets if self._may_reach(core, s, counter)]
            if reaching and self._issuer(core):
                issuers += self._issuer(core)
                wait.later = wait.later or next((s for s in reaching if isinstance(s.event, Const)), None)
        return queued or issuers

    def _arriving(self, core: Core, group: Rendezvous) -> Iterator[Pipe]:
        for pipe in core.pipes:
            for instr in pipe.queue:
                node = instr.site.node
                if isinstance(node, SetCross) and crosscore.meeting(core, node.mode, instr.args[0]) is group:
                    yield pipe

    @staticmethod
    def _may_reach(core: Core, stmt: SetCross, counter: Counter) -> bool:
        events = [stmt.event.value] if isinstance(stmt.event, Const) else range(32)
        return any(counter in crosscore.receivers(core, stmt.mode, int(e)) for e in events)

    def _statements(self, core: Core) -> Iterator[object]:
        program = self.machine.kernel.program(core.kind)
        return walk.statements(program.body) if program is not None else iter(())

    # --- what to report -----------------------------------------------------------------------------------------------

    def roots(self) -> list[Wait]:
        """Waits that nobody is left to end; the others wait for these, or in a circle."""
        return [w for w in self.waits.values() if w.orphaned or w.absent]

    def cycles(self) -> list[list[Wait]]:
        """Circles of waits that no root explains: strongly connected components, in issue order."""
        explained = self._behind(self.roots())
        left = [w for w in self.waits.values() if w not in explained]
        found: list[list[Wait]] = []
        for component in components(left):
            if len(component) > 1 or component[0] in component[0].waits_for:
                found.append(sorted(component, key=lambda w: w.instr.number))
        return found

    def _behind(self, roots: list[Wait]) -> set[Wait]:
        """The waits that depend on some others, these included."""
        reached_by: dict[Wait, list[Wait]] = {}
        for wait in self.waits.values():
            for other in wait.waits_for:
                reached_by.setdefault(other, []).append(wait)
        found, pending = set(roots), list(roots)
        while pending:
            for wait in reached_by.get(pending.pop(), ()):
                if wait not in found:
                    found.add(wait)
                    pending.append(wait)
        return found


def wait_mode(instr: Instr) -> CrossCoreSyncMode:
    """The mode of a cross-core wait."""
    mode = getattr(instr.site.node, "mode", CrossCoreSyncMode.INTRA_BLOCK)
    assert isinstance(mode, CrossCoreSyncMode)
    return mode


def reached(instr: Instr) -> list[Counter]:
    """Counters a queued signal will add to."""
    node = instr.site.node
    if not isinstance(node, SetCross) or crosscore.meeting(instr.core, node.mode, instr.args[0]) is not None:
        return []
    return crosscore.receivers(instr.core, node.mode, instr.args[0])


def sets_pair(node: object, flag: Flag) -> bool:
    """Whether a statement sets a flag of the same pipe pair."""
    return isinstance(node, SetFlag) and (node.set_pipe, node.wait_pipe) == (flag.set_pipe, flag.wait_pipe)


def may_be(event: object, wanted: int) -> bool:
    """Whether an id expression may have a value."""
    return not isinstance(event, Const) or event.value == wanted


def components(waits: list[Wait]) -> list[list[Wait]]:
    """Strongly connected components among some waits (Tarjan, iterative order of discovery)."""
    index: dict[Wait, int] = {}
    low: dict[Wait, int] = {}
    stack: list[Wait] = []
    on_stack: set[Wait] = set()
    found: list[list[Wait]] = []
    inside = set(waits)

    def visit(root: Wait) -> None:
        work = [(root, iter(root.waits_for))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            wait, edges = work[-1]
            other = next((o for o in edges if o in inside), None)
            if other is not None:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(other.waits_for)))
                elif other in on_stack:
                    low[wait] = min(low[wait], index[other])
                continue
            work.pop()
            if work:
                low[work[-1][0]] = min(low[work[-1][0]], low[wait])
            if low[wait] == index[wait]:
                component: list[Wait] = []
                while True:
                    member = stack.pop()
                    on_stack.discard(member)
                    component.append(member)
                    if member is wait:
                        break
                found.append(component)

    for wait in waits:
        if wait not in index:
            visit(wait)
    return found
