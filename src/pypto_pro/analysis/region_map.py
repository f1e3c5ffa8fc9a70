"""The regions of one memory that instructions touched, each with what was last done to it.

Kernels touch the same few regions over and over, so a region is a `Cell` found by its key in one look-up. When a region
is new, the cells it shares bytes with are found once (exactly, by a grid of row and column positions) and linked.
What somebody must look at when touching a cell are the cell itself and its neighbours that hold anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from pypto_pro.analysis.footprints import covers, end_of, meets, plain, runs
from pypto_pro.layouts import Region

Box: TypeAlias = tuple[int, int, int, int]
"""Rows [a, b) and columns [c, d) of a grid."""
UNTOUCHED = -1
"""A version no memory on chip ever has."""
PER_ROW = 512
"""Rows up to which a strided region asks for flat ones row by row instead of by its whole extent."""


class Cell:
    """A region and its last accesses.

    `writer` is the last write, `readers` and `adders` the last read and atomic add of each agent since then, as
    (number, instruction) by agent.
    """

    __slots__ = (
        "added", "adders", "before", "clean", "facts", "flushed", "live", "near", "pitch", "readers", "region", "store",
        "unread", "writer", "writer_agent", "writer_number", "written",
    )  # fmt: skip

    def __init__(self, store: Any, region: Region) -> None:
        self.store = store
        self.region = region
        self.near: list[tuple[Cell, bool]] = []
        """Cells that share bytes, and whether this cell lies inside them."""
        self.live: dict[Cell, bool] = {}
        """Those of them that hold anything, and whether they lie inside this cell."""
        self.writer: Any = None
        self.writer_agent = -1
        self.writer_number = 0
        self.before = 0
        """The number of the write before, when the same agent made it."""
        self.readers: dict[int, tuple[int, Any]] = {}
        self.adders: dict[int, tuple[int, Any]] = {}
        self.unread: Any = None
        """The load or product that filled it, while nobody has read a byte of it."""
        self.clean = UNTOUCHED
        """The version of its memory's definedness in which all its bytes were last seen defined."""
        self.pitch = 0
        """Bytes between columns of boxes in the last write of a fractal tile."""
        self.written = False
        """Whether anything ever wrote it."""
        self.added = False
        """Whether anything ever added to it."""
        self.flushed = 0
        """Number of the cache clean that brought the scalar write in it to memory; 0: still in the writer's cache."""
        self.facts: Any = None
        """What is known about the values in it (free for the checks)."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is recorded."""
        return self.writer is None and not self.readers and not self.adders

    def appear(self) -> None:
        """It holds something from now on: neighbours must look at it."""
        for cell, inside in self.near:
            cell.live[self] = inside

    def forget(self) -> None:
        """Whatever it held is covered by a later write of all its bytes."""
        self.writer = None
        self.writer_agent = -1
        self.readers.clear()
        self.adders.clear()
        self.unread = None
        for cell, _ in self.near:
            cell.live.pop(self, None)


class RegionMap:
    """The cells of one memory (`store` is handed to each, for reports). Addresses count from `origin`."""

    def __init__(self, store: Any = None, origin: int = 0) -> None:
        self.store = store
        self.origin = origin
        self.cells: dict[Region, Cell] = {}
        self.grids: dict[int, _Grid] = {}

    def cell(self, region: Region) -> Cell:
        """The cell of a region, made and linked when it is new."""
        found = self.cells.get(region)
        return self._make(region) if found is None else found

    def _make(self, given: Region) -> Cell:
        region = plain(given)
        made = self.cells.get(region)
        if made is None:
            made = Cell(self.store, region)
            for other in self.meeting(region):
                made.near.append((other, covers(other.region, region)))
                inside = covers(region, other.region)
                other.near.append((made, inside))
                if not other.is_empty:
                    made.live[other] = inside
            self._grid(region).add(made, self._box(region, self._pitch(region)))
            self.cells[region] = made
        self.cells[given] = made
        return made

    def clear(self) -> None:
        """Forget all cells; those that know each other let go."""
        for cell in self.cells.values():
            cell.near.clear()
            cell.live.clear()
            cell.readers.clear()
            cell.adders.clear()
            cell.writer = cell.unread = None
        self.cells.clear()
        self.grids.clear()

    def meeting(self, region: Region) -> list[Cell]:
        """Cells that share bytes with a plain region."""
        found: dict[Cell, None] = {}
        for pitch, grid in self.grids.items():
            for box in self._boxes(region, pitch):
                for cell in grid.near(box):
                    found[cell] = None
        return [cell for cell in found if meets(cell.region, region)]

    # --- positions ------------------------------------------------------------------------------------------------

    @staticmethod
    def _pitch(region: Region) -> int:
        """Which grid holds a region: strided ones by pitch, flat ones in grid 0."""
        return region.pitch if region.rows > 1 else 0

    def _grid(self, region: Region) -> _Grid:
        pitch = self._pitch(region)
        found = self.grids.get(pitch)
        if found is None:
            found = self.grids[pitch] = _Grid()
        return found

    def _box(self, region: Region, pitch: int) -> Box:
        """Rows and columns of a region in the grid of its own pitch."""
        if pitch == 0:
            return 0, 1, region.start - self.origin, end_of(region) - self.origin
        row, column = divmod(region.start - self.origin, pitch)
        if column + region.row_bytes > pitch:  # rows run over the edge: as wide as the grid
            return row, row + region.rows + 1, 0, pitch
        return row, row + region.rows, column, column + region.row_bytes

    def _boxes(self, region: Region, pitch: int) -> Iterator[Box]:
        """Boxes of a grid that hold everything a region may meet there."""
        if pitch == self._pitch(region):
            yield self._box(region, pitch)
            return
        low, high = region.start - self.origin, end_of(region) - self.origin
        if pitch == 0:
            pieces = runs(region) if region.rows <= PER_ROW else iter([(region.start, end_of(region))])
            for start, end in pieces:
                yield 0, 1, start - self.origin, end - self.origin
            return
        first, last = low // pitch, (high - 1) // pitch
        if first == last:
            yield first, last + 1, low - first * pitch, high - first * pitch
        else:
            yield first, last + 1, 0, pitch


class _Grid:
    """Boxes by position: each lies in at most four buckets of its own size class."""

    def __init__(self) -> None:
        self.levels: dict[tuple[int, int], dict[tuple[int, int], list[Cell]]] = {}

    def add(self, cell: Cell, box: Box) -> None:
        """Put a cell where its box is."""
        a, b, c, d = box
        level = ((b - a - 1).bit_length(), (d - c - 1).bit_length())
        buckets = self.levels.setdefault(level, {})
        for row in range(a >> level[0], ((b - 1) >> level[0]) + 1):
            for column in range(c >> level[1], ((d - 1) >> level[1]) + 1):
                buckets.setdefault((row, column), []).append(cell)

    def near(self, box: Box) -> Iterator[Cell]:
        """Cells that may meet a box; some twice."""
        a, b, c, d = box
        for (tall, wide), buckets in self.levels.items():
            rows = range(a >> tall, ((b - 1) >> tall) + 1)
            columns = range(c >> wide, ((d - 1) >> wide) + 1)
            if len(rows) * len(columns) > len(buckets):
                for (row, column), cells in buckets.items():
                    if row in rows and column in columns:
                        yield from cells
                continue
            for row in rows:
                for column in columns:
                    yield from buckets.get((row, column), ())
