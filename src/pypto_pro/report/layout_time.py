"""The time axis of a memory map: program points of one or two cores as columns, with source lines and loops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pypto_pro.enums import CoreKind
from pypto_pro.memory.check import LayoutReport
from pypto_pro.memory.design import Branch, Loop, Node, steps_of


@dataclass(frozen=True)
class LoopBar:
    """A loop as columns `[first, last]`, `depth` loops deep."""

    label: str
    first: int
    last: int
    depth: int


@dataclass(frozen=True)
class Track:
    """One core's share of the axis: its points in order, what to write under each, and its loops."""

    title: str
    points: tuple[int, ...]
    labels: Mapping[int, str]
    loops: tuple[LoopBar, ...]


def tracks(report: LayoutReport, cores: frozenset[CoreKind]) -> list[Track]:
    """The tracks of the cores that touch a space; a plan has one, its steps."""
    if not report.design.programs:
        points = sorted({p for life in report.lives.values() for p in life.points})
        return [Track("", tuple(points), {p: str(p) for p in points}, ())]
    found = []
    for program in report.design.programs:
        if program.core not in cores:
            continue
        steps = list(program.steps())
        order = {s.point: i for i, s in enumerate(steps)}
        labels = {s.point: f"{s.line}" if s.line is not None else str(s.point) for s in steps}
        bars = tuple(_bars(program.body, order, 0))
        found.append(Track(f"{program.core.value} core", tuple(s.point for s in steps), labels, bars))
    return found


def _bars(body: tuple[Node, ...], order: Mapping[int, int], depth: int) -> Iterator[LoopBar]:
    for node in body:
        match node:
            case Loop(label=label, body=inner):
                inside = [order[s.point] for s in steps_of(inner)]
                if inside:
                    yield LoopBar(label, min(inside), max(inside), depth)
                yield from _bars(inner, order, depth + 1)
            case Branch(arms=arms):
                for arm in arms:
                    yield from _bars(arm, order, depth)


class Axis:
    """Columns of equal width over all tracks, a gap between two tracks."""

    GAP = 26.0

    def __init__(self, shown: list[Track], left: float, width: float) -> None:
        self.tracks = shown
        self.left, self.width = left, width
        columns = max(1, sum(len(t.points) for t in shown))
        self.step = (width - self.GAP * max(0, len(shown) - 1)) / columns
        self._x: dict[int, float] = {}
        self.starts: list[float] = []
        x = left
        for track in shown:
            self.starts.append(x)
            for point in track.points:
                self._x[point] = x
                x += self.step
            x += self.GAP

    def x(self, point: int) -> float:
        """Left edge of a point's column."""
        return self._x[point]

    def runs(self, points: frozenset[int]) -> Iterator[tuple[float, float]]:
        """Stretches of neighbouring columns among some points, as (x, width)."""
        for track in self.tracks:
            start: int | None = None
            length = 0
            for point in (*track.points, None):
                if point is not None and point in points:
                    start = point if start is None else start
                    length += 1
                elif start is not None:
                    yield self._x[start], length * self.step
                    start, length = None, 0
