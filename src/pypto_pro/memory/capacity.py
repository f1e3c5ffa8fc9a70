"""Totals of a space: union, highest end, holes, peak of the live bytes; and the capacity verdict (L103, L202)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from pypto_pro.enums import MemorySpace
from pypto_pro.memory.finding import LayoutFinding, finding, hexa, interval
from pypto_pro.memory.lifetimes import Key, Life
from pypto_pro.memory.machine import SPACE_ORDER, Chip, Source
from pypto_pro.memory.proofs import Reuse
from pypto_pro.memory.table import Row

Span = tuple[int, int]


@dataclass(frozen=True)
class Totals:
    """Numbers of one used space, in bytes. `passes`: starts are not negative, overlaps are proved, the top fits."""

    space: MemorySpace
    effective: int
    highest: int
    holes: tuple[Span, ...]
    capacity: int | None
    source: Source
    peak_live: int
    passes: bool
    top: Row

    @property
    def percent(self) -> float | None:
        """Highest end as a share of the capacity."""
        return None if self.capacity is None else 100 * self.highest / self.capacity

    @property
    def hole_bytes(self) -> int:
        """Bytes in holes."""
        return sum(b - a for a, b in self.holes)


def merge(spans: list[Span]) -> list[Span]:
    """The union of half-open ranges, ascending; touching ranges join."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def space_totals(
    rows: tuple[Row, ...], chip: Chip, reuses: tuple[Reuse, ...], lives: Mapping[Key, Life]
) -> tuple[Totals, ...]:
    """Totals of every used space, in table order."""
    found = []
    for space in SPACE_ORDER:
        mine = [r for r in rows if r.space is space]
        if not mine:
            continue
        union = merge([(r.start, r.end) for r in mine])
        borders = [(0, 0), *union]
        holes = [(a[1], b[0]) for a, b in pairwise(borders) if a[1] < b[0]]
        top = max(mine, key=lambda r: r.end)
        limits = chip[space]
        proved = all(r.proof is not None or r.observed for r in reuses if r.a.space is space)
        fits = limits.capacity is None or top.end <= limits.capacity
        found.append(
            Totals(
                space,
                effective=sum(b - a for a, b in union),
                highest=top.end,
                holes=tuple((max(a, 0), b) for a, b in holes if b > 0),
                capacity=limits.capacity,
                source=limits.source,
                peak_live=peak_live(mine, reuses, lives),
                passes=all(r.start >= 0 for r in mine) and proved and fits,
                top=top,
            )
        )
    return tuple(found)


def peak_live(rows: list[Row], reuses: tuple[Reuse, ...], lives: Mapping[Key, Life]) -> int:
    """The largest number of bytes in use at one point: a lower bound of any layout. Bytes of a view count once."""
    group = {r.key: r.key for r in rows}

    def root(key: Key) -> Key:
        while group[key] != key:
            key = group[key]
        return key

    for reuse in reuses:
        if reuse.kind == "view" and reuse.proof is not None and reuse.a.key in group:
            group[root(reuse.b.key)] = root(reuse.a.key)
    at: dict[int, dict[Key, list[Span]]] = {}
    for row in rows:
        for point in lives[row.key].points:
            at.setdefault(point, {}).setdefault(root(row.key), []).append((row.start, row.end))
    return max((sum(b - a for spans in live.values() for a, b in merge(spans)) for live in at.values()), default=0)


def capacity_findings(totals: tuple[Totals, ...]) -> Iterator[LayoutFinding]:
    """L103 and L202 of every space, and L209 once."""
    for t in totals:
        if t.capacity is not None and t.highest > t.capacity:
            yield _over(t, t.capacity)
        if t.holes:
            shown = ", ".join(interval(a, b) for a, b in t.holes)
            yield finding("L202", f"{t.space.name} has holes {shown}, {t.hole_bytes} B in all", space=t.space,
                          holes=t.holes)  # fmt: skip
    assumed = [t.space.name for t in totals if t.source is Source.SNAPSHOT and t.capacity is not None]
    if assumed:
        names = ", ".join(assumed)
        yield finding("L209", f"the capacity of {names} is that of the A5 snapshot, not of the product at hand",
                      help="give the probed capacity: --capacity SPACE=BYTES", spaces=tuple(assumed))  # fmt: skip


def _over(t: Totals, capacity: int) -> LayoutFinding:
    over = t.highest - capacity
    message = f"{t.space.name} ends at {hexa(t.highest)} ({t.highest} B), capacity {capacity} B: {over} B too many"
    notes = [
        f"`{t.top.shown}` reaches the highest address",
        f"{t.effective} B are used, {t.hole_bytes} B are holes, at most {t.peak_live} B are in use at one time",
    ]
    if t.effective <= capacity:
        help_ = "close the holes: the used bytes alone fit"
    elif t.peak_live <= capacity:
        help_ = "let tiles with disjoint lifetimes share addresses: --plan prints such a placement"
    else:
        help_ = "use a smaller tile, a smaller depth or shorter retention: the bytes in use at one time do not fit"
    return finding("L103", message, t.top.tile, space=t.space, notes=tuple(notes), help=help_,
                   highest=t.highest, capacity=capacity, over=over)  # fmt: skip
