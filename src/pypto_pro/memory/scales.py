"""MX scales: every scale slot sits at its data address >> 4, because the matrix unit derives it from there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from pypto_pro.hw.a5 import SCALE_OF, scale_address
from pypto_pro.memory.design import Design
from pypto_pro.memory.finding import LayoutFinding, finding, hexa
from pypto_pro.memory.table import Row


@dataclass(frozen=True)
class ScalePair:
    """One data slot with its scale slot, and the address the scale has to have."""

    data: Row
    scale: Row

    @property
    def want(self) -> int:
        """Required scale address."""
        return scale_address(self.data.start)

    @property
    def ok(self) -> bool:
        """Whether the scale is where the matrix unit looks for it."""
        return self.scale.start == self.want


def scale_pairs(design: Design, rows: tuple[Row, ...]) -> tuple[ScalePair, ...]:
    """Data and scale slots paired by index, for every scale tile that names its data tile."""
    by_tile: dict[str, list[Row]] = {}
    for row in rows:
        by_tile.setdefault(row.tile.name, []).append(row)
    pairs = []
    for tile in design.tiles:
        if tile.scale_of is not None:
            pairs += [ScalePair(d, s) for d, s in zip(by_tile.get(tile.scale_of, []), by_tile.get(tile.name, []),
                                                      strict=False)]  # fmt: skip
    return tuple(pairs)


def scale_findings(design: Design, pairs: tuple[ScalePair, ...]) -> Iterator[LayoutFinding]:
    """L111, L115 and L116."""
    data_of = Counter(t.scale_of for t in design.tiles if t.scale_of is not None)
    for tile in design.tiles:
        data = design.tile(tile.scale_of) if tile.scale_of is not None else None
        if data is not None and tile.slots != data.slots:
            message = f"`{tile.name}` has {tile.slots} scale slots for the {data.slots} slots of `{data.name}`"
            yield finding("L115", message, tile, data, slots=tile.slots, data_slots=data.slots)
        if tile.space in SCALE_OF.values() and data is None:
            yield finding("L116", f"the scale tile `{tile.name}` is used with no data tile", tile)
        if tile.scales_too:
            names = " and ".join(f"`{name}`" for name in (tile.scale_of, *tile.scales_too))
            yield finding("L116", f"the scale tile `{tile.name}` is used with more than one data tile: {names}", tile)
        if data_of[tile.name] > 1:
            names = " and ".join(f"`{t.name}`" for t in design.tiles if t.scale_of == tile.name)
            yield finding("L116", f"`{tile.name}` has more than one scale tile: {names}", tile)
    for pair in pairs:
        if not pair.ok:
            scale, data_row = pair.scale, pair.data
            message = (
                f"`{scale.shown}` is at {hexa(scale.start)}; the matrix unit reads the scales of `{data_row.shown}`"
                f" ({hexa(data_row.start)}) from {hexa(pair.want)}"
            )
            yield finding("L111", message, scale.tile, data_row.tile, slot=scale.index, addr=scale.start,
                          want=pair.want, data_addr=data_row.start)  # fmt: skip
