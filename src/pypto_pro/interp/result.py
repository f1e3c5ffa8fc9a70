"""What a run hands back: whether everything finished, who is stuck on what, and counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pypto_pro.diag import Span

if TYPE_CHECKING:
    from pypto_pro.interp.machine import Core, Instr


@dataclass(frozen=True, slots=True)
class Blocked:
    """A pipe (or S) that cannot go on: its head instruction, what it waits for, and what stands behind it."""

    core: Core
    instr: Instr
    waits_for: Any
    """The `Flag`, `Mutex`, `Counter`, `UnitFlag`, `Rendezvous` or `Idle` it waits for."""
    reason: str
    """One clause in words, without a full stop."""
    behind: tuple[Instr, ...] = ()

    @property
    def span(self) -> Span:
        """Where the waiting instruction stands."""
        return self.instr.site.span


@dataclass(frozen=True, slots=True)
class Spinning:
    """A core whose scalar unit polls in a loop while nothing else can change anything."""

    core: Core
    span: Span
    proven: bool
    """The same state came back; otherwise only the limit on idle trips was reached."""


@dataclass(slots=True)
class RunResult:
    """The outcome of one launch."""

    finished: bool = True
    blocked: tuple[Blocked, ...] = ()
    spinning: tuple[Spinning, ...] = ()
    instructions: int = 0
    """Everything S issued or did itself, synchronisation included."""
    unfinished: tuple[Core, ...] = ()
    leftovers: dict[str, list[Any]] = field(default_factory=dict)
    """`flags`, `mutexes`, `unit_flags` (errors) and `credits` (a warning) still set at the end."""

    @property
    def stuck(self) -> bool:
        """Whether the launch did not finish."""
        return not self.finished
