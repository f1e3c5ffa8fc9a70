"""What `pipeline=` of a kernel takes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PipelineConfig:
    """Automatic cross-core pipelining over stages.

    `preload`: how many more times the first stage runs before the steady alternation; an int, checked when the kernel
    is compiled. `sync_only`: keep the serial loop and only insert the synchronisation.
    """

    preload: int = 2
    sync_only: bool = False
