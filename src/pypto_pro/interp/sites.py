"""Sites: what is known about one instruction of the program text before it runs, shared by all its instances."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pypto_pro.analysis.accesses import Touch, bounds, clipped, touches
from pypto_pro.diag import Span
from pypto_pro.enums import AccPhase, PipeType, STPhase
from pypto_pro.interp.memory import GM, SimTensor, SimTile, Storage
from pypto_pro.ir.nodes import Stmt
from pypto_pro.layouts import Region
from pypto_pro.ops.entry import Caution, Effect, OpEntry
from pypto_pro.ops.overrun import FARTHEST, Overrun, too_large


class Kind(IntEnum):
    """How an instruction is carried out."""

    OP = 0
    CALL = 1  # a vector function or SIMT launch
    SET_FLAG = 2
    WAIT_FLAG = 3
    BARRIER = 4
    LOCK = 5
    UNLOCK = 6
    SET_CROSS = 7
    WAIT_CROSS = 8
    SYNC_ALL = 9
    DRAIN = 10  # S waits until a pipe of its core, or all of them, are empty


ACQUIRES = frozenset({Kind.WAIT_FLAG, Kind.LOCK, Kind.WAIT_CROSS})
"""Instructions that may wait while earlier ones of their pipe are still running."""


ROUND = "round@"
"""How the counters of `while` loops begin among the names of loops; the line of the loop follows."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes one instruction touches in one memory; for GM regions start at host addresses."""

    operand: str
    effect: Effect
    store: Storage
    regions: tuple[Region, ...]


@dataclass(slots=True, eq=False)
class Plan:
    """What an instruction touches, clipped to its memories; `overruns` is what there is to say about it.

    `spills`: bytes an operand's memory space would need for the op, where that is more than it has. `runs` is False for
    an op that starts before its space or that no space could hold: it is left out.
    """

    footprints: tuple[Footprint, ...]
    overruns: tuple[Overrun | Caution, ...] = ()
    runs: bool = True
    spills: dict[str, int] = field(default_factory=dict)
    atomic: bool = False
    deferred: Any = None
    """Write-back views made by the deferring schedules, and free for them."""
    mark: Any = None
    """Free for the observer."""


@dataclass(slots=True, eq=False)
class Site:
    """One instruction of the text. `loops` names the variables whose values `Instr.trips` holds."""

    kind: Kind
    node: Stmt
    name: str
    pipe: PipeType
    loops: tuple[str, ...] = ()
    lane: int = field(init=False)
    """The pipe as an index."""

    def __post_init__(self) -> None:
        self.lane = self.pipe.value

    @property
    def span(self) -> Span:
        """Where it stands."""
        span = self.node.span
        assert isinstance(span, Span)
        return span

    def forget(self) -> None:
        """Drop what was kept about operands of a run: they hold on to its memories."""


@dataclass(frozen=True, slots=True)
class ShapeSite:
    """A `set_validshape` of the text and the loops around it; it is no instruction."""

    span: Span
    loops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IndexSite:
    """A run-time index of the text into `count` things, named in words; `loops` as in a `Site`."""

    span: Span
    loops: tuple[str, ...]
    of: str
    count: int


@dataclass(frozen=True, slots=True)
class NameSite:
    """A use of a variable that may have no value there; `given` is where statements give it one."""

    span: Span
    loops: tuple[str, ...]
    name: str
    given: tuple[Span, ...]


@dataclass(slots=True, eq=False)
class OpSite(Site):
    """An op of the table: `run(args)` applies its meaning to captured operands."""

    entry: OpEntry = field(kw_only=True)
    attrs: dict[str, Any] = field(kw_only=True)
    run: Callable[[tuple[Any, ...]], Any] = field(init=False)
    plans: dict[tuple[Any, ...], Plan] = field(default_factory=dict, init=False)
    updates: dict[tuple[Any, ...], tuple[tuple[str, int, int], ...]] = field(default_factory=dict, init=False)
    """Valid shapes (operand, rows, columns) that the `issue` facet leaves behind, by operands."""
    phase: AccPhase | STPhase | None = field(init=False)
    """The unit-flag handshake it takes part in."""

    def __post_init__(self) -> None:
        self.lane = self.pipe.value
        self.run = bound_meaning(self.entry, self.attrs)
        phase = self.attrs.get("phase")
        unspecified = (AccPhase.Unspecified, STPhase.Unspecified)
        self.phase = phase if isinstance(phase, AccPhase | STPhase) and phase not in unspecified else None

    def forget(self) -> None:
        self.plans.clear()
        self.updates.clear()

    def plan(self, args: tuple[Any, ...]) -> Plan:
        """What these operands touch; kept by operand identity and scalar value."""
        found = self.plans.get(args)
        if found is None:
            if len(self.plans) > 8192:
                self.plans.clear()
            found = self.plans[args] = make_plan(self, args)
        return found

    def named(self, args: tuple[Any, ...]) -> dict[str, Any]:
        """Operands and keywords by name."""
        names = {p.name: a for p, a in zip(self.entry.data_params, args, strict=True)}
        names.update(self.attrs)
        return names


def bound_meaning(entry: OpEntry, attrs: dict[str, Any]) -> Callable[[tuple[Any, ...]], Any]:
    """The entry's meaning as a function of the tuple of its data operands."""
    body = entry.meaning
    assert body is not None, entry.name
    by_keyword = [p.name for p in entry.data_params if p.keyword_only]
    split = len(entry.data_params) - len(by_keyword)
    if not by_keyword:
        return lambda args: body(*args, **attrs)
    return lambda args: body(*args[:split], **dict(zip(by_keyword, args[split:], strict=True)), **attrs)


def make_plan(site: OpSite, args: tuple[Any, ...]) -> Plan:
    """Footprints of one application, with what leaves its memory taken out."""
    named = site.named(args)
    huge = [too_large(name, arg.name, arg, arg.stores[0].capacity, arg.stores[0].name)
            for name, arg in named.items() if isinstance(arg, SimTile)]  # fmt: skip
    if any(huge):
        return Plan((), tuple(o for o in huge if o is not None), runs=False)
    footprints: list[Footprint] = []
    overruns: list[Overrun | Caution] = list(site.entry.doubts(named))
    spills: dict[str, int] = {}
    runs = True
    for touch in touches(site.entry, named):
        operand = named[touch.operand]
        if isinstance(operand, SimTensor):
            _add_gm(operand, touch, footprints, overruns)
            continue
        store = operand.store_of(touch.sub)
        if touch.outside:
            what = f"`{operand.name or touch.operand}` {touch.outside}"
            overruns.append(Caution(False, "out_of_bounds", what))
        if touch.past:
            tile = f"`{operand.name}`" if operand.name else "the tile"
            overruns.append(_overrun(touch, operand.name, operand.addr, touch.past, touch.end, tile))
        low, high = bounds(touch.regions)
        regions = touch.regions
        if low < 0 or high > store.capacity:
            regions = clipped(regions, store.capacity)
            if touch.effect is not Effect.CLOBBER:
                overruns.append(_overrun(touch, operand.name, low, high, store.capacity, store.name))
            spills[touch.operand] = max(high, spills.get(touch.operand, 0))
            runs = runs and low >= 0 and high <= FARTHEST
        if regions:
            footprints.append(Footprint(touch.operand, touch.effect, store, regions))
    atomic = any(f.effect is Effect.ATOMIC for f in footprints)
    return Plan(tuple(footprints), tuple(overruns), runs, spills, atomic)


def run_clipped(site: OpSite, args: tuple[Any, ...], spills: dict[str, int]) -> None:
    """The op on longer copies of the spaces it leaves: reads past the end give zero, writes there are dropped."""
    longer: dict[int, NDArray[np.uint8]] = {}
    shorter: dict[int, NDArray[np.uint8]] = {}
    moved = []
    for param, arg in zip(site.entry.data_params, args, strict=True):
        needed = spills.get(param.name)
        if needed is None:
            moved.append(arg)
            continue
        for mem in (arg.mem, *arg.peers):
            if id(mem) not in longer or longer[id(mem)].size < needed:
                copy = np.zeros(max(needed, mem.size), np.uint8)
                copy[: mem.size] = mem
                longer[id(mem)], shorter[id(mem)] = copy, mem
        moved.append(replace(arg, mem=longer[id(arg.mem)], peers=tuple(longer[id(m)] for m in arg.peers)))
    site.run(tuple(replace(a, mem=longer[id(a.mem)]) if _shares(a, longer) else a for a in moved))
    for key, mem in shorter.items():
        mem[:] = longer[key][: mem.size]


def _shares(arg: Any, longer: dict[int, NDArray[np.uint8]]) -> bool:
    """Whether an operand inside its space lies in a memory another operand leaves: both must see one copy."""
    return isinstance(arg, SimTile) and id(arg.mem) in longer


def _overrun(touch: Touch, name: str, low: int, high: int, limit: int, space: str) -> Overrun:
    return Overrun(touch.operand, name, touch.effect, low, high, limit, space)


def _add_gm(tensor: SimTensor, touch: Touch, footprints: list[Footprint], overruns: list[Overrun | Caution]) -> None:
    """A tensor's regions at host addresses, clipped to its buffer."""
    buffer = tensor.buffer
    assert buffer is not None
    limit = buffer.mem.size
    low, high = bounds(touch.regions)
    regions = touch.regions
    if low < 0 or high > limit:
        overruns.append(_overrun(touch, tensor.name, low, high, limit, GM.name))
        regions = clipped(regions, limit)
    if regions:
        moved = tuple(Region(r.start + buffer.address, r.rows, r.row_bytes, r.pitch) for r in regions)
        footprints.append(Footprint(touch.operand, touch.effect, GM, moved))
