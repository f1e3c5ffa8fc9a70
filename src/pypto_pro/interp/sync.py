"""Synchronisation inside a core: the objects, and the step each instruction takes on them.

A step returns None when the instruction took effect, or the object it has to wait for. Objects count (the n-th set
belongs to the n-th wait), so that what matches what never depends on the schedule; a set of a set flag is the
observer's to report.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from pypto_pro.enums import CrossCoreSyncMode, PipeType
from pypto_pro.ir.nodes import Lock, SetFlag, Unlock, WaitFlag

if TYPE_CHECKING:
    from pypto_pro.interp.machine import Core, Instr, Pipe


class Waitable:
    """Something a pipe can wait for. The engine looks at `waiters` when the object changes."""

    __slots__ = ("core", "waiters")

    def __init__(self, core: Core) -> None:
        self.core = core
        self.waiters: list[Pipe] = []

    @property
    def name(self) -> str:
        """How a report calls it."""
        raise NotImplementedError


class Flag(Waitable):
    """`F[core, set_pipe, wait_pipe, event]`: sets and waits so far."""

    __slots__ = ("event", "pending", "set_pipe", "sets", "wait_pipe", "waits")

    def __init__(self, core: Core, set_pipe: PipeType, wait_pipe: PipeType, event: int) -> None:
        super().__init__(core)
        self.set_pipe = set_pipe
        self.wait_pipe = wait_pipe
        self.event = event
        self.sets = 0
        self.waits = 0
        self.pending: deque[Instr] = deque()
        """The sets no wait has taken, oldest first."""

    @property
    def name(self) -> str:
        return f"flag {self.set_pipe.name}->{self.wait_pipe.name} {self.event}"


class Mutex(Waitable):
    """A buffer id: tickets handed out at issue, granted in that order."""

    __slots__ = ("holder", "last", "number", "released", "tickets")

    def __init__(self, core: Core, number: int) -> None:
        super().__init__(core)
        self.number = number
        self.tickets = 0
        self.released = 0
        self.holder: Instr | None = None
        """The lock instruction that holds it."""
        self.last: Instr | None = None
        """The unlock of the last released ticket."""

    @property
    def name(self) -> str:
        return f"mutex {self.number}"


class UnitFlag(Waitable):
    """The handshake bit of an accumulator region: 0 the matrix unit may write, 1 the exit may read."""

    __slots__ = ("address", "source", "value")

    def __init__(self, core: Core, address: int) -> None:
        super().__init__(core)
        self.address = address
        self.value = 0
        self.source: Instr | None = None
        """The op that gave it its value."""

    @property
    def name(self) -> str:
        return f"unit flag of Acc {self.address:#x}"


class Idle(Waitable):
    """All pipes of a core having run empty."""

    __slots__ = ()

    @property
    def name(self) -> str:
        return f"the pipes of {self.core.name}"


class Credit:
    """One count on a cross-core counter. `index` counts the credits of that counter from 0."""

    __slots__ = ("counter", "index", "mark", "mode", "senders")

    def __init__(self, counter: Counter, mode: CrossCoreSyncMode, senders: tuple[Instr, ...], index: int) -> None:
        self.counter = counter
        self.mode = mode
        self.senders = senders
        self.index = index
        self.mark: object = None
        """Free for the observer."""


class Counter(Waitable):
    """A cross-core counter of the core that waits on it; all four modes share it."""

    __slots__ = ("credits", "given", "number", "taken")

    def __init__(self, core: Core, number: int) -> None:
        super().__init__(core)
        self.number = number
        self.credits: deque[Credit] = deque()
        self.given = 0
        self.taken = 0

    @property
    def name(self) -> str:
        return f"cross-core counter {self.number} of {self.core.name}"


class Rendezvous(Waitable):
    """Cores that meet: arrivals not yet used up, per participant, and how many rounds are complete.

    `participants` is None when some of them do not exist in this kernel, so that nobody ever passes.
    """

    __slots__ = ("arrivals", "label", "participants", "rounds")

    def __init__(self, core: Core, label: str, participants: tuple[Core, ...] | None) -> None:
        super().__init__(core)
        self.label = label
        self.participants = participants
        self.arrivals: dict[int, deque[Instr]] = {c.index: deque() for c in participants or ()}
        self.rounds = 0

    @property
    def name(self) -> str:
        return self.label

    @property
    def missing(self) -> tuple[Core, ...]:
        """Participants that have not arrived for the round being collected."""
        return tuple(c for c in self.participants or () if not self.arrivals[c.index])


# --- steps ----------------------------------------------------------------------------------------------------------


def set_flag(instr: Instr) -> Waitable | None:
    """`sync_src`: one more set."""
    node = instr.site.node
    assert isinstance(node, SetFlag)
    flag = instr.core.flag(node.set_pipe, node.wait_pipe, instr.args[0])
    index = flag.sets
    flag.sets += 1
    flag.pending.append(instr)
    machine = instr.core.machine
    if machine.calls.flag_set is not None:
        machine.calls.flag_set(instr, flag, index)
    if flag.waiters:
        machine.engine.wake(flag)
    return None


def wait_flag(instr: Instr) -> Waitable | None:
    """`sync_dst`: takes the oldest set."""
    node = instr.site.node
    assert isinstance(node, WaitFlag)
    flag = instr.core.flag(node.set_pipe, node.wait_pipe, instr.args[0])
    if not flag.pending:
        return flag
    index = flag.waits
    flag.waits += 1
    setter = flag.pending.popleft()
    calls = instr.core.machine.calls
    if calls.flag_waited is not None:
        calls.flag_waited(instr, flag, index, setter)
    return None


def barrier(instr: Instr) -> Waitable | None:
    """`bar_<pipe>`: its pipe has completed everything before it by the time this runs."""
    calls = instr.core.machine.calls
    if calls.barrier is not None:
        calls.barrier(instr)
    return None


def drain(instr: Instr) -> Waitable | None:
    """S waits for one pipe (`args[0]`), or for all of them (`bar_all`, no argument)."""
    core = instr.core
    ready = core.pipes[instr.args[0].value].empty if instr.args else core.is_idle
    if not ready:
        return core.idle
    calls = core.machine.calls
    if calls.barrier is not None and not instr.args:
        calls.barrier(instr)
    return None


def lock(instr: Instr) -> Waitable | None:
    """Granted when every earlier ticket has been released."""
    node = instr.site.node
    assert isinstance(node, Lock)
    mutex = instr.core.mutex(instr.args[0])
    if mutex.released != instr.ticket:
        return mutex
    mutex.holder = instr
    calls = instr.core.machine.calls
    if calls.locked is not None:
        calls.locked(instr, mutex, instr.ticket, mutex.last)
    return None


def unlock(instr: Instr) -> Waitable | None:
    """Releases the ticket its pipe holds; otherwise nothing happens but a report."""
    node = instr.site.node
    assert isinstance(node, Unlock)
    mutex = instr.core.mutex(instr.args[0])
    machine = instr.core.machine
    calls = machine.calls
    holder = mutex.holder
    if holder is None or holder.pipe is not instr.pipe:
        if calls.unlocked is not None:
            calls.unlocked(instr, mutex, None)
        return None
    mutex.holder = None
    mutex.last = instr
    mutex.released += 1
    if calls.unlocked is not None:
        calls.unlocked(instr, mutex, holder.ticket)
    if mutex.waiters:
        machine.engine.wake(mutex)
    return None
