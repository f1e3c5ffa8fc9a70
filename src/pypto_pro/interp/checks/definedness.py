"""Which bytes on chip hold something: copies carry undefined bytes along, everything else that uses them is reported.

A memory has a plane of bytes, 255 where nobody wrote. Regions that were seen fully defined are remembered by their
cell together with the memory's version, which changes only when bytes become undefined again, so that the steady
state of a loop costs one comparison an access.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pypto_pro.analysis.footprints import union
from pypto_pro.analysis.order import Knowledge
from pypto_pro.analysis.region_map import Cell
from pypto_pro.diag import Span
from pypto_pro.interp.calls import CallPlan, CallSite, RegisterAccess, active_runs
from pypto_pro.interp.checks.touched import UNDEFINED
from pypto_pro.interp.checks.uninitialised import Uninitialised
from pypto_pro.interp.memory import GM, Pool, SimTensor, SimTile, Storage
from pypto_pro.interp.sites import OpSite
from pypto_pro.layouts import Region
from pypto_pro.ops.entry import Effect

if TYPE_CHECKING:
    from pypto_pro.interp.checks.touched import Memory, Touched
    from pypto_pro.interp.machine import Instr

Plane = NDArray[np.uint8]

def plane_of(memory: Memory) -> Plane:
    """The plane of a memory on chip, made at first use."""
    if memory.plane is None:
        planes = memory.planes or Pool(UNDEFINED)
        memory.plane = planes.take(memory.store.capacity)
    return memory.plane


def window(plane: Plane, region: Region) -> Plane:
    """The bytes of a region as a view of (rows, row bytes)."""
    return np.ndarray((region.rows, region.row_bytes), np.uint8, plane.data, region.start, (region.pitch, 1))


def is_defined(cell: Cell) -> bool:
    """Whether every byte of a region holds something."""
    memory: Memory = cell.store
    if cell.clean == memory.version:
        return True
    if window(plane_of(memory), cell.region).any():
        return False
    cell.clean = memory.version
    return True


def define(cell: Cell) -> None:
    """Every byte of a region was written."""
    memory: Memory = cell.store
    if cell.clean != memory.version:
        window(plane_of(memory), cell.region)[...] = 0
        cell.clean = memory.version


def undefine(cell: Cell) -> None:
    """The bytes of a region hold nothing in particular any more."""
    memory: Memory = cell.store
    view = window(plane_of(memory), cell.region)
    if not view.all():
        view[...] = UNDEFINED
        memory.version += 1


class Definedness:
    """Follows undefined bytes through one launch."""

    def __init__(self, reports: Uninitialised, memories: Any) -> None:
        self.reports = reports
        self.memories = memories
        self.calls = CallDefinedness(self)

    @staticmethod
    def undefined(touched: Touched) -> list[Cell]:
        """Regions an op is about to read that are not fully defined; to be asked before its own writes are noted."""
        return [cell for cell in touched.reads if not is_defined(cell)]

    def started(self, instr: Instr, touched: Touched, undefined: list[Cell], beside: list[Span]) -> None:
        """An op reads some undefined bytes; `beside` says who wrote the others."""
        if carries(instr, touched):
            self.reports.box(instr, undefined, beside)
        else:
            self.reports.read(instr, undefined, beside)

    def completed(self, instr: Instr, touched: Touched) -> None:
        """An op has written its results."""
        site = instr.site
        leaves = instr.plan is not None and bool(instr.plan.spills)  # its memory: reported, and the planes have no more
        if carries(instr, touched) and not leaves and self.undefined(touched):
            assert isinstance(site, OpSite)
            self._carry(instr, site, touched)
            return
        for cell in touched.clobbers:
            undefine(cell)
        for cell in touched.writes:
            define(cell)

    def _carry(self, instr: Instr, site: OpSite, touched: Touched) -> None:
        """Do to the planes what the op does to the bytes, once with undefined bytes as 255 and once as 0.

        Bytes of the result that differ came from undefined ones; padding and constants are the same both times.
        """
        before = {id(cell.store): plane_of(cell.store).copy() for cell in touched.writes}
        with_undefined = self._on_planes(instr, site, touched, UNDEFINED)
        without = self._on_planes(instr, site, touched, 0)
        for cell in touched.writes:
            memory: Memory = cell.store
            key = id(memory)
            differs = window(with_undefined[key], cell.region) != window(without[key], cell.region)
            old = window(before[key], cell.region)
            new = np.where(differs, np.uint8(UNDEFINED), np.uint8(0))
            if (new > old).any():
                memory.version += 1
            window(plane_of(memory), cell.region)[...] = new

    def _on_planes(self, instr: Instr, site: OpSite, touched: Touched, value: int) -> dict[int, Plane]:
        """The planes the op's meaning leaves when undefined bytes are `value`; the real ones stay."""
        stores: dict[int, Plane] = {}

        def scratch(store: Storage) -> Plane:
            memory: Memory = self.memories.of(store, 0)
            if id(memory) not in stores:
                stores[id(memory)] = plane_of(memory).copy() if value else np.zeros(store.capacity, np.uint8)
            return stores[id(memory)]

        def operand(arg: Any) -> Any:
            if isinstance(arg, SimTile):
                mems = [scratch(s) for s in arg.stores]
                return replace(arg, mem=mems[0], peers=tuple(mems) if arg.peers else ())
            if isinstance(arg, SimTensor):
                return replace(arg, mem=np.zeros_like(arg.mem))
            return arg

        site.run(tuple(operand(a) for a in instr.args))
        return stores


def carries(instr: Instr, touched: Touched) -> bool:
    """Whether an op moves bits on chip, so that undefined ones travel."""
    site = instr.site
    return isinstance(site, OpSite) and site.entry.copies and not touched.to_gm and bool(touched.writes)


@dataclass(slots=True, eq=False)
class Running:
    """A call between its start and its end: the mark of its instruction."""

    know: Knowledge
    """What its pipe knew when it started."""
    clean: bool
    """Whether nothing undefined can reach it."""
    before: Plane | None
    """The plane when it began, unless it is clean."""
    applied: int = 0
    """Events of its trace whose writes the plane knows."""
    used: bool = False
    """Whether it used an undefined lane."""
    found: Plane | None = None
    """The vector buffer as it found it, for whoever looks into it."""


class CallDefinedness:
    """Vector functions and SIMT launches: what they load, and lanes that use undefined bytes."""

    def __init__(self, owner: Definedness) -> None:
        self.owner = owner

    def started(self, instr: Instr, site: CallSite, know: Knowledge) -> None:
        """A call begins: if undefined bytes may reach it in a new way, its trace is needed again."""
        plan = site.plans.get(instr.args)
        clean = plan is not None and self._is_harmless(instr, plan)
        before = None if clean else plane_of(self.owner.memories.vec(instr.core)).copy()
        instr.mark = Running(know.copy(), clean, before)
        if not clean and plan is not None:
            site.plans.pop(instr.args)

    def _is_harmless(self, instr: Instr, plan: CallPlan) -> bool:
        touched: Touched | None = plan.mark
        if touched is None or touched.loads is None:
            return False
        found = pattern(plane_of(self.owner.memories.vec(instr.core)), touched.loads)
        return not any(found) or found in touched.harmless

    def undefined_bytes(self, instr: Instr, address: int, size: int) -> NDArray[np.bool_] | None:
        """Which of some UB bytes are undefined now, inside the running call; None when none is."""
        running: Running = instr.mark
        if running.clean:
            return None
        plane = plane_of(self.owner.memories.vec(instr.core))
        self._apply(instr, running, plane)
        found = plane[max(address, 0) : address + size]
        if found.size != size or not found.any():
            return None  # outside UB is an error of its own
        undefined: NDArray[np.bool_] = found != 0
        return undefined

    @staticmethod
    def _apply(instr: Instr, running: Running, plane: Plane) -> None:
        """Bytes the call has stored so far are defined for what it loads next."""
        site = instr.site
        assert isinstance(site, CallSite)
        trace = site.unit_of(instr.core).trace
        for event in trace[running.applied :]:
            if isinstance(event, RegisterAccess) and event.effect is Effect.WRITE and event.store is not GM:
                for start, end in active_runs(event):
                    plane[start:end] = 0
        running.applied = len(trace)

    def undefined_used(self, instr: Instr, site: Any, lanes: int) -> None:
        """A register op used undefined lanes."""
        instr.mark.used = True
        self.owner.reports.lanes(instr, site, lanes)

    def completed(self, instr: Instr, plan: CallPlan, touched: Touched) -> None:
        """The call is over: what it wrote is defined."""
        running: Running = instr.mark
        if not running.clean:
            if any(isinstance(e, RegisterAccess) and e.thread is not None for e in plan.trace):
                self._threads(instr, plan)
            elif touched.loads is None:
                self._learn(plan, touched, running)
        for cell in touched.writes:
            define(cell)

    @staticmethod
    def _learn(plan: CallPlan, touched: Touched, running: Running) -> None:
        """What a call loads, and whether undefined bytes there did no harm this time."""
        loads = [e for e in plan.trace if isinstance(e, RegisterAccess) and e.effect is Effect.READ]
        ranges = union(r for e in loads if e.store is not GM for r in active_runs(e))
        touched.loads = [Region(a, 1, b - a, b - a) for a, b in ranges]
        if not running.used and running.before is not None:
            touched.harmless.add(pattern(running.before, touched.loads))

    def _threads(self, instr: Instr, plan: CallPlan) -> None:
        """SIMT threads use every value they read."""
        plane = plane_of(self.owner.memories.vec(instr.core))
        for event in plan.trace:
            if not isinstance(event, RegisterAccess) or event.store is GM:
                continue
            view = plane[event.address : event.address + event.size]
            if event.effect is Effect.WRITE:
                view[...] = 0
            elif view.any():
                self.owner.reports.lanes(instr, event.site, 1)
                view[...] = 0


def pattern(plane: Plane, loads: list[Region]) -> bytes:
    """The undefined bytes among those a call loads; with its trace they decide what happens to them."""
    return b"".join(window(plane, region).tobytes() for region in loads)
