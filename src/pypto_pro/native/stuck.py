"""The report of a launch in which no core can go on: every unsatisfied wait with its line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pypto_pro.diag import Span
from pypto_pro.diag.errors import StuckError
from pypto_pro.enums import PipeType
from pypto_pro.ir import nodes as n
from pypto_pro.native.callbacks import Core, word_at
from pypto_pro.native.frames import ARENA_QUEUES, CORE, N_PIPES, QUEUE_BYTES, SIZE, STEP_DONE, UNIT, WORD
from pypto_pro.native.program import Site
from pypto_pro.native.sync_code import WRAP

SITE_OF_ENTRY = 5
MAX_SHOWN = 20


def describe(kernel: str, units: Sequence[int], sites: Sequence[Site]) -> StuckError:
    """The error for a stuck launch, from the units of its unfinished blocks."""
    waits: dict[tuple[int, str], list[str]] = {}
    for unit in units:
        for core in _cores(unit):
            for site, where in _waits_of(core):
                waits.setdefault((site, where), []).append(core.name)
    spans = [_span(sites[site], where, names) for (site, where), names in waits.items() if site >= 0]
    first, rest = (spans[0], spans[1:]) if spans else (None, [])
    return StuckError(
        f"`{kernel}` is stuck: no core can go on",
        first,
        labels=rest[:MAX_SHOWN],
        note="outputs are partial",
        hint="run it under pypto_pro.check to see which signals are missing",
        kernel=kernel,
    )


def _cores(unit: int) -> Iterator[Core]:
    for k in range(word_at(unit + UNIT["n_cores"])):
        core = Core(unit + UNIT["cores"] + k * CORE[SIZE])
        if core.field("status") != STEP_DONE and core.field("launch"):
            yield core


def _waits_of(core: Core) -> Iterator[tuple[int, str]]:
    """(site, what waits) of the scalar unit's program, then of every pipe whose queue is blocked."""
    if core.field("site") >= 0:
        yield core.field("site"), ""
    for pipe in range(N_PIPES):
        head, tail = (word_at(core.address + CORE[name] + pipe * WORD) for name in ("head", "tail"))
        if head == tail:
            continue
        ring = core.field("arena") + ARENA_QUEUES + (core.field("slot") * N_PIPES + pipe) * QUEUE_BYTES
        entry = ring + head % QUEUE_BYTES
        if word_at(entry + WORD) == WRAP:
            entry = ring
        yield word_at(entry + SITE_OF_ENTRY * WORD), PipeType(pipe).name


def _span(site: Site, pipe: str, names: list[str]) -> Span:
    cores = ", ".join(sorted(set(names))[:4]) + (f" and {len(set(names)) - 4} more" if len(set(names)) > 4 else "")
    if isinstance(site.node, n.For | n.While):
        return site.span.labelled(f"polls for ever in {cores}")
    return site.span.labelled(f"{_what(site.node)} waits here in {cores}")


def _what(node: n.Stmt) -> str:
    match node:
        case n.WaitCross(pipe=pipe, event=event, mode=mode):
            shown = f" {event.value}" if isinstance(event, n.Const) else ""
            return f"pipe {pipe.name}, event{shown} of {mode.name},"
        case n.SetCross(pipe=pipe):
            return f"a signal on pipe {pipe.name}, whose counter is full,"
        case n.WaitFlag(set_pipe=first, wait_pipe=second):
            return f"flag {first.name} to {second.name}"
        case n.Lock(pipe=pipe):
            return f"a mutex on pipe {pipe.name}"
        case n.SyncAll(core_type=which):
            return f"sync_all of {which.name}"
    return "the core"


