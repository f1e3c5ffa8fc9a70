"""What one plan touches, as cells of the region maps: worked out once a plan and kept on it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pypto_pro.analysis.accesses import accesses_of, regions_of
from pypto_pro.analysis.footprints import union
from pypto_pro.analysis.region_map import UNTOUCHED, Cell, RegionMap
from pypto_pro.enums import MemorySpace, PipeType
from pypto_pro.interp.machine import Core, Instr, Machine
from pypto_pro.interp.memory import GM, Pool, SimTile, Storage
from pypto_pro.interp.sites import OpSite, Plan
from pypto_pro.layouts import Region, is_fractal
from pypto_pro.ops.entry import Access, Box, Effect
from pypto_pro.ops.operands import tile_geometry


@dataclass(slots=True, eq=False)
class Memory:
    """One memory instance under the checks: its region map and, on chip, how defined its bytes are."""

    store: Storage
    map: RegionMap
    version: int = 0
    """Counts whatever made bytes undefined; in GM, which the host filled, nothing ever does."""
    plane: NDArray[np.uint8] | None = None
    """255 for each byte on chip that holds nothing."""
    planes: Pool | None = None
    """Where planes come from."""

    def release(self) -> None:
        """Its block has ended: nobody touches it any more."""
        if self.plane is not None and self.planes is not None:
            self.planes.give(self.plane)
        self.plane = None
        self.map.clear()


@dataclass(slots=True, eq=False)
class Touched:
    """Cells by what is done to them. `maybe` are reads whose data decide whether they happen."""

    reads: tuple[Cell, ...] = ()
    maybe: tuple[Cell, ...] = ()
    writes: tuple[Cell, ...] = ()
    clobbers: tuple[Cell, ...] = ()
    adds: tuple[Cell, ...] = ()
    is_load: bool = False
    """A transfer that brings GM bytes into a memory on chip."""
    must_be_read: bool = False
    """What it writes on chip is work for nothing unless somebody reads it: loads and matrix products."""
    to_gm: bool = False
    from_gm: bool = False
    pitches_read: tuple[tuple[Cell, int], ...] = ()
    pitches_written: tuple[tuple[Cell, int], ...] = ()
    """Regions of fractal tiles that span several columns of boxes, with the bytes from one column to the next."""
    loads: list[Region] | None = None
    """Of a call: what it loads, once that is known."""
    harmless: set[bytes] = field(default_factory=set)
    """Of a call: patterns of undefined bytes in `loads` of which it used none."""
    examined: bool = False
    """Of a call: whether its trace was searched for missing barriers."""


class Memories:
    """The memories of a launch. GM is cut into arenas: host buffers that share bytes form one."""

    def __init__(self, machine: Machine) -> None:
        planes = Pool(UNDEFINED)
        self.on_chip = {id(store): memory_of(store, 0, planes) for store in machine.storages}
        spans = [(b.address, b.address + b.mem.size) for b in machine.buffers if b.mem.size]
        self.arenas = [memory_of(GM, start) for start, _ in union(spans)]
        self.starts = [arena.map.origin for arena in self.arenas]

    def of(self, store: Storage, address: int) -> Memory:
        """The memory that holds an address."""
        if store is GM:
            return self.arenas[max(bisect_right(self.starts, address) - 1, 0)]
        return self.on_chip[id(store)]

    def release(self, cores: Iterable[Core]) -> None:
        """All cores of a block have ended."""
        for core in cores:
            for store in (s for found in core.stores.values() for s in found):
                if id(store) in self.on_chip:
                    self.on_chip[id(store)].release()

    def vec(self, core: Core) -> Memory:
        """The vector buffer of a vector core."""
        return self.on_chip[id(core.stores[MemorySpace.Vec][0])]

    def touched(self, plan: Plan, instr: Instr) -> Touched:
        """The cells of an instruction's plan."""
        found: Touched | None = plan.mark
        if found is None:
            found = plan.mark = self._resolve(plan, instr.site.pipe)
            if isinstance(instr.site, OpSite) and any(is_boxed(a) for a in instr.args):
                self._add_pitches(found, instr.site, instr.args)
        return found

    def _add_pitches(self, touched: Touched, site: OpSite, args: tuple[Any, ...]) -> None:
        """How fractal tiles are walked from one column of boxes to the next."""
        read: list[tuple[Cell, int]] = []
        written: list[tuple[Cell, int]] = []
        for access, tile in accesses_of(site.entry, site.named(args)):
            pitch = column_pitch(access, tile)
            if pitch and access.effect in (Effect.READ, Effect.WRITE):
                map_ = self.of(tile.store_of(access.sub), tile.addr).map
                cells = [map_.cell(region) for region in regions_of(access, tile)[:1]]
                (written if access.effect is Effect.WRITE else read).extend((cell, pitch) for cell in cells)
        touched.pitches_read, touched.pitches_written = tuple(read), tuple(written)

    def _resolve(self, plan: Plan, pipe: PipeType) -> Touched:
        by_effect: dict[Effect, list[Cell]] = {effect: [] for effect in Effect}
        from_gm = to_chip = to_gm = False
        for footprint in plan.footprints:
            in_gm = footprint.store is GM
            changes = footprint.effect.changes
            from_gm |= in_gm and not changes
            to_gm |= in_gm and changes
            to_chip |= changes and not in_gm
            cells = by_effect[footprint.effect]
            for region in footprint.regions:
                cells.append(self.of(footprint.store, region.start).map.cell(region))
        is_load = from_gm and to_chip and pipe is PipeType.MTE2
        return Touched(
            reads=tuple(by_effect[Effect.READ]),
            maybe=tuple(by_effect[Effect.MAY_READ]),
            writes=(*by_effect[Effect.WRITE], *by_effect[Effect.MAY_WRITE]),
            clobbers=tuple(by_effect[Effect.CLOBBER]),
            adds=tuple(by_effect[Effect.ATOMIC]),
            is_load=is_load,
            must_be_read=is_load or (to_chip and pipe is PipeType.M),
            to_gm=to_gm,
            from_gm=from_gm,
        )


def is_boxed(operand: Any) -> bool:
    """Whether an operand is a tile of a fractal layout."""
    return isinstance(operand, SimTile) and is_fractal(tile_geometry(operand.type).layout)


def column_pitch(access: Access, tile: Any) -> int:
    """Bytes between two columns of boxes of a fractal tile; 0 when an access stays inside one column."""
    match access.where:
        case Box(c0=c0, cols=cols, row_extent=rows, col_extent=extent) if isinstance(tile, SimTile):
            geo = tile_geometry(tile.type, rows, extent)
            axis = geo.axes[1]
            if is_fractal(geo.layout) and axis.block and c0 // axis.block != (c0 + cols - 1) // axis.block:
                return int(axis.outer) * geo.dtype_bits // 8
    return 0


UNDEFINED = 255
"""A byte of a plane that stands for one nobody wrote."""


def memory_of(store: Storage, origin: int, planes: Pool | None = None) -> Memory:
    """A memory with nothing recorded yet."""
    memory = Memory(store, RegionMap(origin=origin), version=UNTOUCHED if store is GM else 0, planes=planes)
    memory.map.store = memory
    return memory
