"""What one plan touches, as cells of the region maps: worked out once a plan and kept on it."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pypto_pro.analysis.footprints import union
from pypto_pro.analysis.region_map import UNTOUCHED, Cell, RegionMap
from pypto_pro.enums import MemorySpace, PipeType
from pypto_pro.interp.machine import Core, Machine
from pypto_pro.interp.memory import GM, Storage
from pypto_pro.interp.sites import Plan
from pypto_pro.ops.entry import Effect


@dataclass(slots=True, eq=False)
class Memory:
    """One memory instance under the checks: its region map and, on chip, how defined its bytes are."""

    store: Storage
    map: RegionMap
    version: int = 0
    """Counts whatever made bytes undefined; in GM, which the host filled, nothing ever does."""
    plane: NDArray[np.uint8] | None = None
    """255 for each byte on chip that holds nothing."""


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
    to_gm: bool = False
    from_gm: bool = False


class Memories:
    """The memories of a launch. GM is cut into arenas: host buffers that share bytes form one."""

    def __init__(self, machine: Machine) -> None:
        self.on_chip = {id(store): _memory(store, 0) for store in machine.storages}
        spans = [(b.address, b.address + b.mem.size) for b in machine.buffers if b.mem.size]
        self.arenas = [_memory(GM, start) for start, _ in union(spans)]
        self.starts = [arena.map.origin for arena in self.arenas]

    def of(self, store: Storage, address: int) -> Memory:
        """The memory that holds an address."""
        if store is GM:
            return self.arenas[max(bisect_right(self.starts, address) - 1, 0)]
        return self.on_chip[id(store)]

    def vec(self, core: Core) -> Memory:
        """The vector buffer of a vector core."""
        return self.on_chip[id(core.stores[MemorySpace.Vec][0])]

    def touched(self, plan: Plan, pipe: PipeType) -> Touched:
        """The cells of a plan."""
        found: Touched | None = plan.mark
        if found is None:
            found = plan.mark = self._resolve(plan, pipe)
        return found

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
        return Touched(
            reads=tuple(by_effect[Effect.READ]),
            maybe=tuple(by_effect[Effect.MAY_READ]),
            writes=(*by_effect[Effect.WRITE], *by_effect[Effect.MAY_WRITE]),
            clobbers=tuple(by_effect[Effect.CLOBBER]),
            adds=tuple(by_effect[Effect.ATOMIC]),
            is_load=from_gm and to_chip and pipe is PipeType.MTE2,
            to_gm=to_gm,
            from_gm=from_gm,
        )


def _memory(store: Storage, origin: int) -> Memory:
    memory = Memory(store, RegionMap(origin=origin), version=UNTOUCHED if store is GM else 0)
    memory.map.store = memory
    return memory
