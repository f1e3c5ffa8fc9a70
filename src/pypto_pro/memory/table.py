"""The address table: one row for every physical slot, and the mistakes that leave a tile without rows."""

from __future__ import annotations

from dataclasses import dataclass

from pypto_pro.enums import MemorySpace
from pypto_pro.layouts import slot_size
from pypto_pro.memory.design import Design, TileRecord, slot_name
from pypto_pro.memory.finding import LayoutFinding, finding, interval
from pypto_pro.memory.machine import SPACE_ORDER


@dataclass(frozen=True)
class Row:
    """One physical slot: bytes `[start, start + size)` of its tile's space."""

    tile: TileRecord
    slot: int
    start: int
    size: int

    @property
    def end(self) -> int:
        """One past the last byte."""
        return self.start + self.size

    @property
    def space(self) -> MemorySpace:
        """The memory space."""
        return self.tile.space

    @property
    def name(self) -> str:
        """`name#i`, or the bare name of a `make_tile`: how plans and facts name it."""
        return slot_name(self.tile, self.slot)

    @property
    def shown(self) -> str:
        """`name[i]`, as the author writes it, or the bare name of a `make_tile`."""
        return self.tile.name if self.tile.kind == "tile" else f"{self.tile.name}[{self.slot}]"

    @property
    def index(self) -> int | None:
        """The slot of a group; None for a `make_tile`, which has no slots to the author."""
        return None if self.tile.kind == "tile" else self.slot

    @property
    def key(self) -> tuple[str, int]:
        """Tile name and slot index."""
        return self.tile.name, self.slot

    def shares(self, other: Row) -> bool:
        """Whether the two rows have a byte in common; touching rows do not."""
        return self.space is other.space and self.start < other.end and other.start < self.end


def has_positive_shape(tile: TileRecord) -> bool:
    """Whether every extent is a positive int."""
    shape = tile.type.shape
    return bool(shape) and all(type(n) is int and n > 0 for n in shape)


def reserved_bytes(tile: TileRecord) -> int:
    """Bytes one slot reserves: the slot size, or the explicit size where that is larger."""
    natural = slot_size(tile.type.shape, tile.type.dtype)
    return max(tile.size, natural) if isinstance(tile.size, int) else natural


def slot_addresses(tile: TileRecord) -> tuple[int, ...]:
    """Start address of every slot of a placed tile."""
    match tile.addrs:
        case int(base):
            step = slot_size(tile.type.shape, tile.type.dtype)
            return tuple(base + i * step for i in range(tile.slots))
        case tuple(addresses):
            return addresses
    raise ValueError(f"`{tile.name}` has no address")


def check_placeable(tile: TileRecord) -> LayoutFinding | None:
    """The first mistake (L105, L106, L107, L113, L114) that leaves the tile without rows."""
    name = f"`{tile.name}`"
    if tile.space not in SPACE_ORDER:
        return finding("L113", f"{name} is in {tile.space.name}, which holds no tiles", tile)
    if not has_positive_shape(tile):
        shape = list(tile.type.shape)
        return finding("L105", f"{name} has shape {shape}; extents are positive compile-time integers", tile,
                       shape=tile.type.shape)  # fmt: skip
    if tile.size is not None and (not isinstance(tile.size, int) or tile.size <= 0):
        return finding("L114", f"{name} has size {tile.size}; a size is a positive compile-time integer", tile,
                       size=tile.size)  # fmt: skip
    if tile.depth is not None and tile.mutex_ids and tile.depth != len(tile.mutex_ids):
        ids = len(tile.mutex_ids)
        return finding("L107", f"{name} has depth {tile.depth} but mutex ids for {ids} slots", tile,
                       depth=tile.depth, ids=ids)  # fmt: skip
    if isinstance(tile.addrs, tuple) and len(tile.addrs) != tile.slots:
        given = len(tile.addrs)
        return finding("L106", f"{name} has {given} addresses for {tile.slots} slots", tile,
                       depth=tile.slots, given=given)  # fmt: skip
    return None


def collect_slots(design: Design) -> tuple[tuple[Row, ...], tuple[LayoutFinding, ...]]:
    """Rows of every placeable tile in declaration order, and the findings of those that are not.

    A tile still to be planned has no rows and no finding here.
    """
    rows: list[Row] = []
    findings: list[LayoutFinding] = []
    for tile in design.tiles:
        problem = check_placeable(tile)
        if problem is not None:
            findings.append(problem)
        elif tile.addrs is not None:
            size = reserved_bytes(tile)
            rows += [Row(tile, slot, start, size) for slot, start in enumerate(slot_addresses(tile))]
    return tuple(rows), tuple(findings)


def row_note(row: Row, life: str) -> str:
    """A row of the table as a note under a finding: `row: Vec w[0] [0x00000,0x01000) 4096 B, l.8 to l.12`."""
    return f"row: {row.space.name} {row.shown} {interval(row.start, row.end)} {row.size} B, {life}"


def in_table_order(rows: tuple[Row, ...]) -> list[Row]:
    """Rows by space, start address, name and slot: the order of every output."""
    return sorted(rows, key=lambda r: (SPACE_ORDER.index(r.space), r.start, r.tile.name, r.slot))
