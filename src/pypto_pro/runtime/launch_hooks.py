"""Who wants to know about kernel launches: the dynamic audit, and whoever else adds an observer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class LaunchEvent:
    """One launch, reported before it runs. `args` maps kernel parameter names to what the caller passed, in order."""

    kernel: str
    block_dim: int
    args: Mapping[str, Any]


Ended = Callable[[], None]
observers: list[Callable[[LaunchEvent], Ended | None]] = []
"""Called before each launch; what one returns is called after it, however it ended."""


def notify(event: LaunchEvent) -> list[Ended]:
    """Tell every observer about a launch; the calls owed when it has ended."""
    return [ended for observer in observers if (ended := observer(event)) is not None]
