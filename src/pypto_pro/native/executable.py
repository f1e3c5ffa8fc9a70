"""What the scheduler needs of a compiled kernel; imports nothing of the code generator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from pypto_pro.enums import CoreKind
from pypto_pro.ir.nodes import Var
from pypto_pro.native import frames
from pypto_pro.native.frames import CORE, SIZE, UNIT

if TYPE_CHECKING:
    from pypto_pro.native.program import Site
    from pypto_pro.native.scheduler import Run


@dataclass(frozen=True)
class Plan:
    """What the code generator and the scheduler need to know about a kernel as a whole."""

    kinds: tuple[CoreKind, ...]
    resumable: bool
    """Programs can be suspended: they wait for other cores, poll memory, or share a block with other cores."""
    queues: bool
    """A pipe other than S may wait, so instructions may have to queue behind it."""
    parking: bool
    """Blocks may wait for other blocks; all of them are kept alive at once."""
    polls: bool
    """Loops may wait for what is in memory."""
    peeks: bool
    """Cores read memory spaces of each other."""

    @property
    def mixed(self) -> bool:
        """One AIC and two AIVs a block."""
        return len(self.kinds) == 2


@dataclass(eq=False)
class Executable:
    """A compiled kernel as the scheduler sees it."""

    name: str
    plan: Plan
    params: tuple[Var, ...]
    steps: dict[CoreKind, int]
    """Address of each core kind's step function."""
    run: int
    """Address of the function that runs blocks: see `runner`."""
    drain: int
    """Address of the function that runs queued instructions, 0 when there are none."""
    frame_bytes: dict[CoreKind, int]
    sites: Sequence[Site]
    areas: list[tuple[int, int]]
    last_seconds: float = 1.0
    """How long the last launch took; decides whether others are woken at once."""
    idle: list[Run] = field(default_factory=list)

    @cached_property
    def unit_bytes(self) -> int:
        """Bytes of a unit with its cores, frames and snapshots."""
        slots = frames.core_slots(self.plan.kinds)
        return UNIT["cores"] + sum(CORE[SIZE] + 2 * self.frame_room(kind) for kind, _ in slots) + 64

    def frame_room(self, kind: CoreKind) -> int:
        """Bytes kept for the frame of a core of a kind."""
        return -(-self.frame_bytes[kind] // 64) * 64 + 64
