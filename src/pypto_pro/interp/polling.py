"""Whether cores that poll will poll for ever.

`Engine.heard` counts what other cores could notice: writes to GM, to SSBUF and to memories of another kind of core,
signals, waits that took one. While it stands still a core hears nothing, so when the state of its program returns (its
variables, special registers, flags, mutexes, queues, data cache and memories) the same steps follow again, in whatever
order the cores take turns. When that holds for every core that could go on, and no pipe can do anything, the launch
never ends.

The state a core's present one is compared with moves at doubling distances (Brent), so that cycles of any length are
met; memories are compared when all else is equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pypto_pro.hw.a5 import SPACES
from pypto_pro.interp.memory import Tensor, Tile
from pypto_pro.interp.statements import COUNTERS

if TYPE_CHECKING:
    from pypto_pro.interp.engine import Engine
    from pypto_pro.interp.machine import Core, Pipe

WATCH_AFTER = 64
"""Turns of a core, nothing heard, before states are compared; again after twice as many, for a quarter of the time."""


@dataclass(slots=True)
class _Reference:
    """A state of a core, turns after which the next one is taken, and the outermost loop gone round since."""

    state: Any
    memories: list[NDArray[np.uint8]]
    limit: int
    loop: int
    turns: int = 0


@dataclass(slots=True)
class _Watched:
    """What is known of a core: turns since `heard` was counted, and whether its state came back since."""

    heard: int
    turns: int = 0
    cycles: bool = False
    reference: _Reference | None = None


class PollWatch:
    """Looks at each core after its turn."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.watched: dict[Core, _Watched] = {}
        self._lively: Core | None = None
        """A core that did not repeat itself when last asked."""

    def look(self, core: Core) -> bool:
        """After a turn of `core`: whether every core that could go on repeats itself, and no pipe can do anything."""
        engine = self.engine
        watched = self.watched.get(core)
        if watched is None or watched.heard != engine.heard:
            self.watched[core] = _Watched(engine.heard)
            return False
        watched.turns += 1
        if watched.turns < WATCH_AFTER:
            return False
        while engine.step():
            """Whatever pipes have pending may be what is waited for."""
        if engine.heard != watched.heard or not core.taking_turns:
            return False
        past = watched.turns - (1 << watched.turns.bit_length() - 1)
        if not watched.cycles and past > max(WATCH_AFTER, watched.turns // 4):
            watched.reference = None
            return False
        watched.cycles = watched.cycles or _returned(core, watched)
        if not watched.cycles or (self._lively in engine.turns and not self._cycles(self._lively)):
            return False
        self._lively = next((c for c in engine.turns if not self._cycles(c)), None)
        return self._lively is None

    def _cycles(self, core: Core | None) -> bool:
        watched = self.watched.get(core) if core is not None else None
        return watched is not None and watched.heard == self.engine.heard and watched.cycles

    def loop(self, core: Core) -> int:
        """The outermost `while` loop that a core which repeats itself goes round, an index of `while_spans`."""
        reference = self.watched[core].reference
        assert reference is not None
        return reference.loop


def _returned(core: Core, watched: _Watched) -> bool:
    """Whether the state of a core is the one it was compared with before; else it may become the next one."""
    state, reference = _state(core), watched.reference
    if reference is None:
        watched.reference = _Reference(state, _copies(core), 1, core.loop)
        return False
    reference.loop = min(reference.loop, core.loop)
    if state == reference.state and _same(core, reference.memories):
        return True
    reference.turns += 1
    if reference.turns >= reference.limit:
        watched.reference = _Reference(state, _copies(core), 2 * reference.limit, core.loop)
    return False


def _own(core: Core) -> list[NDArray[np.uint8]]:
    """The memories only this core's programs write."""
    return [s.mem for stores in core.stores.values() for s in stores if SPACES[s.space].owner is core.kind]


def _copies(core: Core) -> list[NDArray[np.uint8]]:
    return [mem.copy() for mem in _own(core)]


def _same(core: Core, before: list[NDArray[np.uint8]]) -> bool:
    return all(np.array_equal(mem, old) for mem, old in zip(_own(core), before, strict=True))


def _state(core: Core) -> Any:
    """What decides how a core goes on, memories left out, as something comparable."""
    frame = getattr(core.program, "gi_frame", None)
    variables = [] if frame is None else [i for i in frame.f_locals.items() if not i[0].startswith(COUNTERS)]
    registers = core.vector_state
    return (
        frame and frame.f_lasti,
        [(name, _value(v)) for name, v in variables],
        (registers.ar, registers.mask),
        {key: flag.sets - flag.waits for key, flag in core.flags.items()},
        {key: mutex.tickets - mutex.released for key, mutex in core.mutexes.items()},
        {key: flag.value for key, flag in core.unit_flags.items()},
        [_pending(pipe) for pipe in core.pipes],
        core.cache.contents(),
    )


def _pending(pipe: Pipe) -> Any:
    return [instr.number for instr in pipe.queue], len(pipe.flight)


def _value(value: Any) -> Any:
    """A local variable of a program. Descriptors count by the snapshot they hold, which is kept by identity."""
    match value:
        case list() | tuple():
            return [_value(v) for v in value]
        case Tile():
            return value.arg, value.mutex
        case Tensor():
            return value.arg
        case float() if value != value:
            return "nan"
    return value
