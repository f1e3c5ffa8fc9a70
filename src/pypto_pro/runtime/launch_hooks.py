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


observers: list[Callable[[LaunchEvent], None]] = []


def notify(event: LaunchEvent) -> None:
    """Tell every observer about a launch. Without observers this is one test of an empty list."""
    for observer in observers:
        observer(event)
