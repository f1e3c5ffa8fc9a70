"""The planning problem: the slots to place and every promise an answer has to keep. Plain data; planner and validator
read it and nothing else of each other."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from pypto_pro.enums import CoreKind, MemorySpace
from pypto_pro.hw.a5 import scale_address
from pypto_pro.memory.design import Design, TileRecord, slot_name, tile_name
from pypto_pro.memory.finding import LayoutFinding
from pypto_pro.memory.lifetimes import Key, Life, find_lifetimes
from pypto_pro.memory.machine import Chip
from pypto_pro.memory.proofs import Reuse, unproved_pairs
from pypto_pro.memory.table import Row, check_placeable, reserved_bytes, slot_addresses


@dataclass(frozen=True)
class SlotSpec:
    """One physical slot to place: bytes, alignment, the points at which it is in use, and its address if pinned."""

    name: str
    tile: str
    slot: int
    space: MemorySpace
    size: int
    alignment: int
    live: frozenset[int]
    cores: frozenset[CoreKind]
    pinned: int | None = None
    when: tuple[tuple[str, object], ...] = ()


@dataclass(frozen=True)
class ViewOf:
    """Slot `reader` lies `offset` bytes into slot `writer`."""

    writer: str
    reader: str
    offset: int


@dataclass(frozen=True)
class Problem:
    """What a placement has to keep.

    `slots` stand in declaration order. `rigid` tiles keep one step between their slots. `crossing` are pairs of tiles
    whose cross-core edge is declared. `scales` are (data slot, scale slot). Without `reuse` nothing shares bytes but
    views.
    """

    slots: tuple[SlotSpec, ...]
    capacity: Mapping[MemorySpace, int | None]
    rigid: frozenset[str] = frozenset()
    views: tuple[ViewOf, ...] = ()
    scales: tuple[tuple[str, str], ...] = ()
    crossing: frozenset[frozenset[str]] = frozenset()
    separate: tuple[tuple[str, str], ...] = ()
    reuse: bool = True
    unproved: frozenset[frozenset[str]] = frozenset()
    """Pairs of slots that may not share, whatever their lifetimes."""


@dataclass(frozen=True)
class SpacePlan:
    """What a placement reaches in one space; `optimal` is a proof, `gap` the distance to the lower bound in bytes."""

    space: MemorySpace
    highest: int
    lower_bound: int
    optimal: bool
    violated: tuple[tuple[str, str], ...] = ()

    @property
    def gap(self) -> int:
        """Bytes above the lower bound."""
        return self.highest - self.lower_bound


@dataclass(frozen=True)
class Placement:
    """An answer: the address of every slot by name, and the numbers it claims."""

    addresses: Mapping[str, int]
    spaces: tuple[SpacePlan, ...]
    steps: int = 0
    notes: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class Wishes:
    """Options of a plan: no reuse, only reuse whose order the kernel has already (`proved`), free group slots,
    further separations, tiles that stay where they are."""

    reuse: bool = True
    proved: bool = False
    scatter: bool = False
    separate: tuple[tuple[str, str], ...] = ()
    pinned: Collection[str] | None = None
    """None: tiles with an address stay if others have none; if all have one, all may move."""


def problem_of(
    design: Design, chip: Chip, wishes: Wishes | None = None, reuses: Iterable[Reuse] = ()
) -> tuple[Problem, tuple[LayoutFinding, ...]]:
    """The planning problem of a design, and the findings of tiles that cannot be placed at all.

    `reuses` are the verdicts on the present placement: proved views become views of the plan.
    """
    wishes = wishes or Wishes()
    checked = [(t, check_placeable(t)) for t in design.tiles]
    findings = tuple(f for _, f in checked if f is not None)
    tiles = [t for t, f in checked if f is None]
    some_free = any(t.addrs is None for t in tiles)
    if wishes.pinned is not None:
        pinned = set(wishes.pinned)
    else:
        pinned = {t.name for t in tiles if t.addrs is not None} if some_free else set()
    separate = _slot_pairs((*design.separate, *wishes.separate), tiles)
    named = {name for pair in separate for name in pair}
    lives = find_lifetimes(design)
    slots = [s for t in tiles for s in _specs(t, chip, lives, t.name in pinned)]
    loose = {s.tile for s in slots if s.name in named}
    views = tuple(_views(design, tiles, reuses))
    loose |= {tile_name(v.reader) for v in views} | pinned
    loose |= {t.name for t in tiles if t.scale_of is not None}  # they follow their data
    rigid = frozenset(
        t.name for t in tiles if t.kind == "group" and t.slots > 1 and not wishes.scatter and t.name not in loose
    )
    reuses = tuple(reuses)
    edges = [(tile_name(o.a), tile_name(o.b)) for o in design.orders if o.kind == "cross_core"]
    edges += [(r.a.tile.name, r.b.tile.name) for r in reuses if r.proof == "cross_core"]
    crossing = frozenset(frozenset(pair) for pair in edges)
    capacity = {s.space: chip[s.space].capacity for s in slots}
    slots, scales = _tie_scales(slots, tiles, design)
    unproved: frozenset[frozenset[str]] = frozenset()
    if wishes.proved:
        unproved = unproved_pairs(design, tuple(Row(t, i, 0, reserved_bytes(t)) for t in tiles for i in range(t.slots)))
    return Problem(tuple(slots), capacity, rigid, views, scales, crossing, separate, wishes.reuse, unproved), findings


def _specs(tile: TileRecord, chip: Chip, lives: Mapping[Key, Life], pinned: bool) -> Iterable[SlotSpec]:
    fixed = slot_addresses(tile) if pinned and tile.addrs is not None else None
    for slot in range(tile.slots):
        yield SlotSpec(
            slot_name(tile, slot), tile.name, slot, tile.space, reserved_bytes(tile), chip[tile.space].alignment,
            lives[tile.name, slot].points, tile.cores, fixed[slot] if fixed else None, tile.when,
        )  # fmt: skip


def _slot_pairs(pairs: Iterable[tuple[str, str]], tiles: list[TileRecord]) -> tuple[tuple[str, str], ...]:
    """Pairs of slots; the name of a group stands for each of its slots."""
    slots = {t.name: [slot_name(t, i) for i in range(t.slots)] for t in tiles}
    found = [(x, y) for a, b in pairs for x in slots.get(a, [a]) for y in slots.get(b, [b]) if x != y]
    return tuple(dict.fromkeys(found))


def _tie_scales(
    slots: list[SlotSpec], tiles: list[TileRecord], design: Design
) -> tuple[list[SlotSpec], tuple[tuple[str, str], ...]]:
    """Scale pairs; a pinned scale pins its data, and a pair pinned apart is left out (the check reports it, L111)."""
    known = {s.name: s for s in slots}
    pairs = []
    for data, scale in (pair for t in tiles for pair in _scale_slots(t, design) if set(pair) <= known.keys()):
        d, s = known[data], known[scale]
        if s.pinned is not None and d.pinned is None:
            known[data] = replace(d, pinned=s.pinned << 4)
        elif s.pinned is not None and d.pinned is not None and s.pinned != scale_address(d.pinned):
            continue
        pairs.append((data, scale))
    return list(known.values()), tuple(pairs)


def _scale_slots(tile: TileRecord, design: Design) -> Iterable[tuple[str, str]]:
    data = design.tile(tile.scale_of) if tile.scale_of is not None else None
    if data is not None:
        for slot in range(min(tile.slots, data.slots)):
            yield slot_name(data, slot), slot_name(tile, slot)


def _views(design: Design, tiles: list[TileRecord], reuses: Iterable[Reuse]) -> Iterable[ViewOf]:
    """Declared views, slot by slot, and those the check proved; each reader once."""
    by_name = {t.name: t for t in tiles}
    taken: set[str] = set()
    for writer_name, reader_name in design.views:
        writer, reader = by_name.get(tile_name(writer_name)), by_name.get(tile_name(reader_name))
        if writer is None or reader is None:
            continue
        for slot in range(min(writer.slots, reader.slots)):
            offset = 0
            if writer.addrs is not None and reader.addrs is not None:
                offset = slot_addresses(reader)[slot] - slot_addresses(writer)[slot]
            taken.add(slot_name(reader, slot))
            yield ViewOf(slot_name(writer, slot), slot_name(reader, slot), offset)
    for reuse in reuses:
        if reuse.kind != "view" or reuse.proof is None:
            continue
        a, b = reuse.a, reuse.b
        writer_row, reader_row = (a, b) if a.size >= b.size else (b, a)
        if reader_row.name not in taken:
            taken.add(reader_row.name)
            yield ViewOf(writer_row.name, reader_row.name, reader_row.start - writer_row.start)
