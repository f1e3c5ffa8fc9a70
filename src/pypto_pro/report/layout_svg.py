"""A memory map to look at: for every space, addresses upwards, time to the right, each slot a block while it lives.

Left of a map a bar shows the whole capacity to scale. Heights in the map are compressed (a small tile beside a large
one stays legible); addresses at the borders are exact. Proved sharing carries its proof, an unproved overlap is red.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from pypto_pro.enums import CoreKind
from pypto_pro.hw.a5 import SPACES
from pypto_pro.memory.capacity import Totals, merge
from pypto_pro.memory.check import LayoutReport
from pypto_pro.memory.finding import hexa, interval
from pypto_pro.memory.proofs import Reuse
from pypto_pro.memory.table import Row
from pypto_pro.report import layout_words as words
from pypto_pro.report.layout_time import Axis, tracks
from pypto_pro.report.svg import Canvas, text_width

WIDTH = 1280.0
MARGIN = 36.0
PLOT_LEFT = 214.0
PLOT_RIGHT = WIDTH - 48.0
GAUGE_LEFT, GAUGE_WIDTH = 52.0, 44.0
BAND_MIN, BAND_SCALE = 17.0, 0.62  # pixels; pixels per square root of a byte
BAND_MAX = 120.0
LANE_MIN = 17.0
MARKS_MIN = 24.0
INK, MUTED, GRID, RED = "#1f2933", "#6b7785", "#e4e8ee", "#c62f3b"
PALETTE = (
    "#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#e15759", "#76b7b2", "#edc948", "#9c755f", "#ff9da7", "#86bcb6",
    "#8cd17d", "#d4a6c8",
)  # fmt: skip
PATTERNS = (
    '<defs><pattern id="hole" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<line x1="0" y1="0" x2="0" y2="7" stroke="#d7dde4" stroke-width="2.4"/></pattern>'
    '<pattern id="clash" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(-45)">'
    '<line x1="0" y1="0" x2="0" y2="6" stroke="#c62f3b" stroke-width="2"/></pattern></defs>'
)


def layout_svg(report: LayoutReport) -> str:
    """The map of every used space as one SVG document."""
    canvas = Canvas()
    canvas.raw(PATTERNS)
    name = report.design.kernel or "plan"
    canvas.text(MARGIN, 48, "On-chip layout", size=22, weight=700)
    canvas.text(MARGIN + 196, 48, name, size=22, fill=MUTED)
    colors = {t.name: PALETTE[i % len(PALETTE)] for i, t in enumerate(report.design.tiles)}
    y = 76.0
    for totals in report.totals:
        y = _Panel(canvas, report, totals, colors, y).draw()
    y = _legend(canvas, y, bool(report.design.programs))
    return canvas.render(WIDTH, y + 24, f"On-chip layout of {name}")


def _legend(canvas: Canvas, y: float, has_steps: bool) -> float:
    """What the marks mean."""
    x = MARGIN
    canvas.rect(x, y - 10, 26, 13, "#4e79a7", radius=3, opacity=0.85)
    canvas.text(x + 34, y + 1, "in use", size=11.5, fill=MUTED)
    canvas.rect(x + 96, y - 10, 26, 13, "#4e79a7", radius=3, opacity=0.16)
    canvas.text(x + 130, y + 1, "reserved, idle", size=11.5, fill=MUTED)
    canvas.rect(x + 236, y - 10, 26, 13, "url(#hole)", stroke="#d7dde4", radius=3)
    canvas.text(x + 270, y + 1, "hole", size=11.5, fill=MUTED)
    canvas.rect(x + 320, y - 10, 26, 13, "url(#clash)", stroke=RED, radius=3)
    canvas.text(x + 354, y + 1, "overlap without proof", size=11.5, fill=MUTED)
    if has_steps:
        canvas.rect(x + 508, y - 10, 4, 13, INK)
        canvas.text(x + 518, y + 1, "write", size=11.5, fill=MUTED)
        canvas.circle(x + 566, y - 4, 3.4, "#ffffff", INK)
        canvas.text(x + 576, y + 1, "read", size=11.5, fill=MUTED)
    canvas.text(WIDTH - MARGIN, y + 1, "heights compressed, addresses exact; bar on the left to scale",
                size=11.5, fill=MUTED, anchor="end")  # fmt: skip
    return y + 10


@dataclass(frozen=True)
class _Band:
    """Bytes between two neighbouring borders, drawn from `top` down by `height`."""

    start: int
    end: int
    top: float
    height: float


@dataclass(frozen=True)
class _Caption:
    """A place for the name of a slot: start, baseline, width, text size; `facts`: with its type and bytes."""

    x: float
    y: float
    width: float
    size: float
    inside: bool = False
    facts: bool = False


class _Panel:
    """One space."""

    def __init__(
        self, canvas: Canvas, report: LayoutReport, totals: Totals, colors: dict[str, str], top: float
    ) -> None:
        self.canvas, self.report, self.totals, self.colors, self.top = canvas, report, totals, colors, top
        self.rows = [r for r in report.rows if r.space is totals.space]
        cores = frozenset(c for r in self.rows for c in r.tile.cores) or frozenset(CoreKind)
        self.axis = Axis(tracks(report, cores), PLOT_LEFT, PLOT_RIGHT - PLOT_LEFT)
        self.depth = max((b.depth + 1 for t in self.axis.tracks for b in t.loops), default=0)
        self.plot_top = top + 46 + 17 * self.depth
        self.lanes = self._lanes()
        self.bands = self._bands()
        self.plot_bottom = self.bands[0].top + self.bands[0].height
        self.captions: list[_Caption] = []
        self.pills: list[tuple[float, float]] = []

    def _bands(self) -> list[_Band]:
        """Bands from the lowest address up; the lowest is drawn at the bottom."""
        borders = sorted({0, *(r.start for r in self.rows), *(r.end for r in self.rows)})
        heights = [min(BAND_MAX, BAND_MIN + BAND_SCALE * (b - a) ** 0.5) for a, b in pairwise(borders)]
        used = [any(r.start <= a and b <= r.end for r in self.rows) for a, b in pairwise(borders)]
        crowd = [max((self.lanes[r.key][1] for r in self.rows if r.start <= a and b <= r.end), default=1)
                 for a, b in pairwise(borders)]  # fmt: skip
        heights = [
            max(h, LANE_MIN * lanes) if filled else min(h, 30.0)
            for h, filled, lanes in zip(heights, used, crowd, strict=True)
        ]
        bottom = self.plot_top + sum(heights)
        bands = []
        for (a, b), height in zip(pairwise(borders), heights, strict=True):
            bottom -= height
            bands.append(_Band(a, b, bottom, height))
        return bands

    def y_of(self, address: int) -> float:
        """Vertical position of a border address."""
        for band in self.bands:
            if band.start == address:
                return band.top + band.height
        return self.bands[-1].top

    def draw(self) -> float:
        """Draw the panel; the y below it."""
        self._title()
        self._gauge()
        self._grid()
        for band in self.bands:
            if not any(r.start <= band.start and band.end <= r.end for r in self.rows):
                self._hole(band)
        for row in self.rows:
            self._block(row)
        mine = [r for r in self.report.reuses if r.a.space is self.totals.space]
        for reuse in mine:
            self._dispute(reuse)
        for row in self.rows:
            self._caption(row)
        for reuse in mine:
            self._proof(reuse)
        self._loops()
        bottom = self._steps()
        bottom = self._profile(bottom)
        return bottom + 34

    def _title(self) -> None:
        t, c = self.totals, self.canvas
        c.line(MARGIN, self.top - 12, WIDTH - MARGIN, self.top - 12, GRID)
        c.text(MARGIN, self.top + 16, t.space.name, size=17, weight=700)
        physical = SPACES[t.space].physical
        c.text(MARGIN + text_width(t.space.name, 17) + 13, self.top + 16, physical, size=13, fill=MUTED)
        facts = f"ends at {_bytes(t.highest)}"
        if t.capacity is not None:
            facts += f" of {_bytes(t.capacity)} ({t.percent:.1f} %)"
        facts += f"  ·  {_bytes(t.effective)} used  ·  at most {_bytes(t.peak_live)} in use at once"
        c.text(PLOT_LEFT, self.top + 16, facts, size=12.5, fill=INK if t.passes else RED)

    def _gauge(self) -> None:
        """The whole capacity to scale, with every slot in it."""
        t, c = self.totals, self.canvas
        whole = max(t.capacity or t.highest, t.highest, 1)
        top, height = self.plot_top, self.plot_bottom - self.plot_top
        c.rect(GAUGE_LEFT, top, GAUGE_WIDTH, height, "#f5f7fa", stroke="#c5ccd6", radius=4)
        for row in self.rows:
            low, high = max(row.start, 0), row.end
            y = top + height * (1 - high / whole)
            c.rect(GAUGE_LEFT + 1, y, GAUGE_WIDTH - 2, max(0.8, height * (high - low) / whole),
                   self.colors[row.tile.name], opacity=0.85)  # fmt: skip
        if t.capacity is not None and t.highest > t.capacity:
            y = top + height * (1 - t.capacity / whole)
            c.line(GAUGE_LEFT - 6, y, GAUGE_LEFT + GAUGE_WIDTH + 6, y, RED, width=2)
        label = "?" if t.capacity is None else _bytes(t.capacity)
        c.text(GAUGE_LEFT + GAUGE_WIDTH / 2, top - 6, label, size=10.5, fill=MUTED, anchor="middle")

    def _grid(self) -> None:
        c = self.canvas
        c.rect(PLOT_LEFT, self.plot_top, PLOT_RIGHT - PLOT_LEFT, self.plot_bottom - self.plot_top, "#fbfcfd")
        last = 1e9
        for address in (self.bands[0].start, *(b.end for b in self.bands)):
            y = self.y_of(address)
            c.line(PLOT_LEFT, y, PLOT_RIGHT, y, GRID)
            if last - y >= 11:  # labels of very thin bands would run into each other
                c.text(PLOT_LEFT - 10, y + 3.6, hexa(address), size=10.5, fill=MUTED, anchor="end", mono=True)
                last = y

    def _hole(self, band: _Band) -> None:
        width = PLOT_RIGHT - PLOT_LEFT
        title = f"hole {interval(band.start, band.end)}, {band.end - band.start} B"
        self.canvas.rect(PLOT_LEFT, band.top, width, band.height, "url(#hole)", title=title)
        label = f"hole, {_bytes(band.end - band.start)}"
        self.canvas.text(PLOT_LEFT + width / 2, band.top + band.height / 2 + 4, label, size=11, fill=MUTED,
                         anchor="middle", halo=True)  # fmt: skip

    def _lanes(self) -> dict[tuple[str, int], tuple[int, int]]:
        """(lane, lanes) of every row: names of the same bytes at the same time are drawn above each other."""
        lane: dict[tuple[str, int], int] = {}
        clashes = {
            r.key: [o for o in self.rows if o.key != r.key and (o.start, o.end) == (r.start, r.end)
                    and self.report.lives[o.key].meets(self.report.lives[r.key])]
            for r in self.rows
        }  # fmt: skip
        for row in self.rows:
            taken = {lane[o.key] for o in clashes[row.key] if o.key in lane}
            lane[row.key] = next(i for i in range(len(self.rows) + 1) if i not in taken)
        count = {r.key: 1 + max([lane[r.key], *(lane[o.key] for o in clashes[r.key])]) for r in self.rows}
        return {r.key: (lane[r.key], count[r.key]) for r in self.rows}

    def _extent(self, row: Row) -> tuple[float, float]:
        """Top and height of the lane of a row."""
        lane, lanes = self.lanes[row.key]
        bottom, top = self.y_of(max(row.start, 0)), self.y_of(row.end)
        height = (bottom - top) / lanes
        return top + height * (lanes - 1 - lane), height

    def _block(self, row: Row) -> None:
        c, life, color = self.canvas, self.report.lives[row.key], self.colors[row.tile.name]
        top, height = self._extent(row)
        c.rect(PLOT_LEFT, top + 1, PLOT_RIGHT - PLOT_LEFT, height - 2, color, opacity=0.13, radius=4)
        tooltip = (
            f"{row.shown}  {words.shape_cell(row.tile)} {words.dtype_cell(row.tile)}\n"
            f"{interval(row.start, row.end)}  {row.size} B\n{words.basis(self.report, row)}"
        )
        strong = 0.88 if row.slot % 2 == 0 else 0.7
        for x, width in self.axis.runs(life.points):
            c.rect(x + 0.8, top + 1, width - 1.6, height - 2, color, opacity=strong, radius=4, title=tooltip)
        self._marks(row, top, height)

    def _caption(self, row: Row) -> None:
        """Name and size in the widest stretch, or where least else stands when they do not fit."""
        _, height = self._extent(row)
        size = 12.5 if height >= 19 else max(8.0, height - 4.5)
        facts = f"{words.shape_cell(row.tile)} {words.dtype_cell(row.tile)} · {_bytes(row.size)}"
        best = min(self._places(row, size, facts), key=lambda p: self._in_the_way(row, p))
        self.captions.append(best)
        ink = _ink_on(self.colors[row.tile.name]) if best.inside else INK
        self.canvas.text(best.x, best.y, row.shown, size=best.size, weight=700, fill=ink, halo=not best.inside)
        if best.facts:
            start = best.x + text_width(row.shown, best.size) + 12
            self.canvas.text(start, best.y, facts, size=best.size - 1.5, fill=ink, halo=not best.inside)

    def _places(self, row: Row, size: float, facts: str) -> list[_Caption]:
        """Where the caption of a row may stand, the better ones first: in its blocks, then beside them."""
        top, height = self._extent(row)
        runs = sorted(self.axis.runs(self.report.lives[row.key].points), key=lambda r: -r[1])
        whole = text_width(row.shown, size) + text_width(facts, size - 1.5) + 24
        levels = [top + height / 2 + dy + size * 0.36 for dy in (0, -16, 16) if abs(dy) + size / 2 < height / 2]
        found = []
        for x, width in runs:
            for y in levels:
                if whole <= width + 4:
                    found.append(_Caption(x + 8, y, whole, size, inside=True, facts=True))
                for s, margin in ((size, 14), (min(size, 9.5), 6)):
                    if text_width(row.shown, s) + margin <= width:
                        found.append(_Caption(x + margin / 2 + 1, y, text_width(row.shown, s), s, inside=True))
        for length, with_facts in ((whole, True), (text_width(row.shown, size) + 8, False)):
            beside = [x + width + 6 for x, width in runs] + [x - length for x, _ in runs]
            fits = [x for x in beside or [PLOT_LEFT + 8] if x > PLOT_LEFT and x + length <= PLOT_RIGHT]
            found += [_Caption(x, y, length, size, facts=with_facts) for x in fits for y in levels]
        return found or [_Caption(PLOT_LEFT + 4, top + height / 2 + size * 0.36, whole, size, facts=True)]

    def _in_the_way(self, row: Row, place: _Caption) -> int:
        """How much a caption would cover: other captions weigh most, then blocks of other slots, or its own."""
        end = place.x + place.width
        others = sum(c.x < end and place.x < c.x + c.width and abs(c.y - place.y) < 13 for c in self.captions)
        blocks = 0
        for other in self.rows:
            top, height = self._extent(other)
            if (other is row and place.inside) or not top <= place.y <= top + height:
                continue
            runs = self.axis.runs(self.report.lives[other.key].points)
            blocks += sum(place.x < x + width and x < end - 8 for x, width in runs)
        return 10 * others + blocks

    def _marks(self, row: Row, top: float, height: float) -> None:
        """A bar for every write, a disc for every read."""
        if height < MARKS_MIN:
            return
        shown = {p for t in self.axis.tracks for p in t.points}
        for program in self.report.design.programs:
            for step in program.steps():
                for use in step.uses:
                    if use.tile != row.tile.name or use.slot not in (None, row.slot) or step.point not in shown:
                        continue
                    x = self.axis.x(step.point) + self.axis.step / 2
                    if use.writes:
                        self.canvas.rect(x - 1.6, top + height - 8, 3.2, 6, INK, opacity=0.75)
                    if use.reads:
                        self.canvas.circle(x, top + height - 5, min(2.6, self.axis.step / 2), "#ffffff", INK)

    def _disputed(self, reuse: Reuse) -> list[tuple[float, float]]:
        a, b = self.report.lives[reuse.a.key].points, self.report.lives[reuse.b.key].points
        return list(self.axis.runs(a & b)) or [(PLOT_LEFT, PLOT_RIGHT - PLOT_LEFT)]

    def _dispute(self, reuse: Reuse) -> None:
        """A red field over the bytes of an overlap without a proof."""
        if reuse.proof is None and not self.report.to_be_ordered(reuse):
            top, bottom = self.y_of(reuse.end), self.y_of(max(reuse.start, 0))
            title = f"{reuse.id} {reuse.a.shown} / {reuse.b.shown}: {words.conclusion(self.report, reuse)}"
            for x, width in self._disputed(reuse):
                self.canvas.rect(x, top, width, bottom - top, "url(#clash)", stroke=RED, title=title, opacity=0.8,
                                 radius=3)  # fmt: skip

    def _proof(self, reuse: Reuse) -> None:
        """A pill: the proof where the second tile takes over, or the reason why there is none."""
        top, bottom = self.y_of(reuse.end), self.y_of(max(reuse.start, 0))
        wanted = self.report.to_be_ordered(reuse)
        if reuse.proof is None and not wanted:
            x, width = self._disputed(reuse)[0]
            self._pill(x + width - 80, (top + bottom) / 2, f"{reuse.id} {reuse.reason}", RED)
            return
        starts = [x for x, _ in self.axis.runs(self.report.lives[reuse.b.key].points)]
        if starts and reuse.kind == "reuse":
            text = f"{reuse.id} {'to be ordered' if wanted else (reuse.proof or '').replace('_', ' ')}"
            before = starts[0] - text_width(text, 9.5) - 16
            x = before if before > PLOT_LEFT else starts[0] + 2
            taken = sum(abs(x - other) < 90 and abs(bottom - y) < 8 for other, y in self.pills)
            self.pills.append((x, bottom))
            self._pill(x, bottom - 9 - 16 * taken, text, "#9a6700" if wanted else "#2f6f4f")

    def _pill(self, x: float, y: float, text: str, color: str) -> None:
        width = text_width(text, 9.5) + 12
        x = min(x, PLOT_RIGHT - width)
        self.canvas.rect(x, y - 7.5, width, 15, "#ffffff", stroke=color, radius=7.5)
        self.canvas.text(x + width / 2, y + 3.4, text, size=9.5, fill=color, anchor="middle", weight=700)

    def _loops(self) -> None:
        """Brackets above the plot, the outermost on top."""
        for track, start in zip(self.axis.tracks, self.axis.starts, strict=True):
            if track.title and len(self.axis.tracks) > 1:
                y = self.plot_top - 17 * self.depth - 4
                self.canvas.text(start, y, track.title, size=11, fill=MUTED, weight=700)
            for bar in track.loops:
                x, end = self.axis.x(track.points[bar.first]), self.axis.x(track.points[bar.last]) + self.axis.step
                y = self.plot_top - 17 * (self.depth - bar.depth) + 9
                bracket = f"M{x + 1:.2f} {y + 5:.2f}V{y:.2f}H{end - 1:.2f}V{y + 5:.2f}"
                self.canvas.path(bracket, stroke="#9aa5b1", width=1.3)
                self.canvas.text((x + end) / 2, y + 3.5, f"loop {bar.label}", size=10.5, fill=MUTED, anchor="middle",
                                 halo=True)  # fmt: skip

    def _steps(self) -> float:
        """Line numbers or steps under the plot, as many as fit."""
        y, c = self.plot_bottom + 18, self.canvas
        for track in self.axis.tracks:
            edge = 0.0
            for point in track.points:
                x = self.axis.x(point) + self.axis.step / 2
                label = track.labels[point]
                if x - text_width(label, 9.5) / 2 > edge + 3:
                    c.text(x, y, label, size=9.5, fill=MUTED, anchor="middle", mono=True)
                    edge = x + text_width(label, 9.5) / 2
        unit = "line" if self.report.design.programs else "step"
        c.text(PLOT_LEFT - 10, y, unit, size=10.5, fill=MUTED, anchor="end")
        return y + 8

    def _profile(self, top: float) -> float:
        """Bytes in use over time; its peak is the least any layout needs."""
        height, peak = 26.0, max(self.totals.peak_live, 1)
        c = self.canvas
        c.text(PLOT_LEFT - 10, top + height - 8, "in use", size=10.5, fill=MUTED, anchor="end")
        for track in self.axis.tracks:
            for point in track.points:
                spans = [(r.start, r.end) for r in self.rows if point in self.report.lives[r.key].points]
                live = sum(b - a for a, b in merge(spans))
                share = min(1.0, live / peak) * height
                c.rect(self.axis.x(point), top + height - share, self.axis.step + 0.3, share, "#9fb3c8",
                       title=f"{live} B in use")  # fmt: skip
        c.line(PLOT_LEFT, top + height, PLOT_RIGHT, top + height, "#c5ccd6")
        return top + height


def _ink_on(color: str) -> str:
    """White on dark fills, ink on light ones."""
    red, green, blue = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return "#ffffff" if 0.299 * red + 0.587 * green + 0.114 * blue < 0.58 else INK


def _bytes(n: int) -> str:
    """`24 KiB`, or the bytes when they are no whole number of KiB."""
    return f"{n // 1024} KiB" if n % 1024 == 0 and n else f"{n} B"
