"""The error of a simulated launch in which no core can go on: who waits for what, at which line."""

from __future__ import annotations

from collections.abc import Iterable

from pypto_pro.diag import Span
from pypto_pro.diag.errors import StuckError
from pypto_pro.interp.result import RunResult

MAX_CORES, MAX_SHOWN = 4, 20


def stuck_error(kernel: str, result: RunResult) -> StuckError:
    """The error for a run that did not finish; equal waits of several cores share one label."""
    waits: dict[tuple[Span, str], list[str]] = {}
    for blocked in result.blocked:
        words = f"pipe {blocked.instr.pipe.type.name} {blocked.reason}"
        waits.setdefault((blocked.span, words), []).append(blocked.core.name)
    for spinning in result.spinning:
        waits.setdefault((spinning.span, "polls for ever"), []).append(spinning.core.name)
    spans = [span.labelled(f"{words} in {_listed(cores)}") for (span, words), cores in waits.items()]
    return StuckError(
        f"`{kernel}` is stuck: no core can go on",
        spans[0] if spans else None,
        labels=spans[1:MAX_SHOWN],
        note="outputs are partial",
        hint="run it under pypto_pro.check to see which signals are missing",
        kernel=kernel,
    )


def _listed(cores: Iterable[str]) -> str:
    names = sorted(set(cores))
    more = f" and {len(names) - MAX_CORES} more" if len(names) > MAX_CORES else ""
    return ", ".join(names[:MAX_CORES]) + more
