"""What can be said about races only once the launch is over: ids that serve two channels, uneven vector cores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from pypto_pro.enums import CoreKind
from pypto_pro.hw.a5 import UNICAST_AIV1_STEP
from pypto_pro.interp.checks import numbering
from pypto_pro.interp.checks.counters import Counters
from pypto_pro.interp.checks.races import Pair
from pypto_pro.interp.machine import Core, Instr
from pypto_pro.interp.sites import Site


@dataclass(frozen=True, slots=True)
class Channel:
    """Where one id is set by a core, in one mode, and waited for by another."""

    event: int
    sets: tuple[Site, ...]
    waits: tuple[Site, ...]

    def is_shared_by(self, first: Instr, second: Instr) -> bool:
        """Whether it orders two instructions by name, while another pair of pipes uses it too."""
        setting, waiting = {s.pipe for s in self.sets}, {w.pipe for w in self.waits}
        meant = first.site.pipe in setting and second.site.pipe in waiting
        return meant and len(setting) > 1 and len(waiting) > 1

    def text(self, sender: Core, receiver: Core) -> str:
        """Who uses it where."""
        return (
            f"event id {self.event} serves two channels from {sender.name.split(',')[0]} to"
            f" {receiver.name.split(',')[0]}: set on {places(self.sets)}, waited for on {places(self.waits)}; one"
            " counter counts both, so a wait may take a signal of the other"
        )


def places(sites: Iterable[Site]) -> str:
    """`V (line 84) and MTE3 (line 101)`."""
    lines: dict[str, list[int]] = {}
    for site in sorted(sites, key=lambda s: s.span.outermost.line):
        lines.setdefault(site.pipe.name, []).append(site.span.outermost.line)
    found = []
    for pipe, at in lines.items():
        at = sorted(set(at))
        found.append(f"{pipe} (line{'s' if len(at) > 1 else ''} {', '.join(map(str, at))})")
    return " and ".join(found)


def look_back(pairs: Iterable[Pair], counters: Counters) -> None:
    """Add to the reports of races what was learned since they were written."""
    for pair in pairs:
        first, second = pair.first, pair.second
        if first.core.block == second.core.block and first.core.kind is not second.core.kind:
            _shared_id(pair, counters)
            _uneven(pair, counters)


def _shared_id(pair: Pair, counters: Counters) -> None:
    """The ordering signal exists, under an id that another channel of the same direction uses as well."""
    first, second = pair.first, pair.second
    found = (c for c in channels(counters, first.core, second.core) if c.is_shared_by(first, second))
    channel = next(found, None)
    said = pair.entry.diagnostic
    if channel is not None:
        text = channel.text(first.core, second.core)
        help_ = "give each of the two channels an event id of its own"
        pair.entry.diagnostic = replace(said, notes=(*said.notes, text), help=help_)


def channels(counters: Counters, sender: Core, receiver: Core) -> list[Channel]:
    """The ids one core signals to another, by id and mode."""
    sets: dict[tuple[int, object], list[Site]] = {}
    for sent in counters.sent.values():
        if sent.core is sender:
            sets.setdefault((sent.event % UNICAST_AIV1_STEP, sent.mode), []).append(sent.site)
    waits: dict[int, list[Site]] = {}
    for site, core, event in counters.heard:
        if core is receiver:
            waits.setdefault(event % UNICAST_AIV1_STEP, []).append(site)
    return [
        Channel(event, tuple(dict.fromkeys(found)), tuple(dict.fromkeys(waits[event])))
        for (event, _), found in sets.items() if event in waits
    ]  # fmt: skip


def _uneven(pair: Pair, counters: Counters) -> None:
    """The two vector cores of the block signalled differently often, in a loop that counts blocks by vector cores."""
    core = pair.first.core
    signals = Counter[int]()
    for sent in counters.sent.values():
        if sent.core.block == core.block and sent.core.kind is CoreKind.VECTOR:
            signals[sent.core.sub] += sent.count
    line = numbering.uneven_loop(core.machine) if signals[0] != signals[1] else None
    if line is not None:
        said = pair.entry.diagnostic
        pair.entry.diagnostic = replace(said, notes=(*said.notes, numbering.uneven_note(line)))
