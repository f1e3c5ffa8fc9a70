"""Calls: vector functions and SIMT launches, each one instruction of pipe V whose body is a generated function.

While somebody watches, every access of the body is recorded in program order (the call's trace). What a call touches
depends only on its captured scalars and addresses, so the trace of equal operands is kept and not recorded again,
unless an op said its addresses come from data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from pypto_pro.interp.memory import Storage
from pypto_pro.interp.sites import Footprint, Plan, Site
from pypto_pro.interp.streams import Streams
from pypto_pro.layouts import Region
from pypto_pro.ops.entry import Effect
from pypto_pro.ops.vf_operands import Bits

if TYPE_CHECKING:
    from pypto_pro.interp.machine import Core, Instr

TRIP_LIMIT = 10_000_000
"""Trips of one `while` loop inside a call before it is taken to be endless: no memory it could wait for changes."""


class EndlessLoop(Exception):
    """A `while` loop inside a call did not end."""

    def __init__(self, instr: Instr) -> None:
        super().__init__(f"a loop in `{instr.site.name}` does not end")
        self.instr = instr


@dataclass(frozen=True, slots=True)
class RegisterAccess:
    """One UB access of a register op: bytes `[address, address + size)`, only those `where` says (None: all).

    `align`: what the device asks of the address. `thread`: linear index in a SIMT launch, else None.
    """

    site: Site
    operand: str
    effect: Effect
    store: Storage
    address: int
    size: int
    where: Bits | None = None
    align: int = 1
    thread: int | None = None


@dataclass(frozen=True, slots=True)
class MemBar:
    """`vf.mem_bar(mode=...)` between two accesses."""

    site: Site
    mode: Any


Event: TypeAlias = RegisterAccess | MemBar


@dataclass(slots=True, eq=False)
class CallPlan(Plan):
    """What a call touched, as a whole and access by access."""

    trace: tuple[Event, ...] = ()
    streams: Streams | None = None
    """What a vector function did with its cursors and staging registers."""


@dataclass(slots=True, eq=False)
class CallSite(Site):
    """A call in the text. `body(unit, *args)` runs it; `unit_of(core)` is what its ops work on."""

    body: Callable[..., None] = field(kw_only=True)
    unit_of: Callable[[Core], Any] = field(kw_only=True)
    touches_gm: bool = False
    plans: dict[tuple[Any, ...], CallPlan] = field(default_factory=dict, init=False)

    def forget(self) -> None:
        self.plans.clear()

    def execute(self, instr: Instr) -> None:
        """Run the body once; `instr.plan` is known afterwards when somebody watches."""
        unit = self.unit_of(instr.core)
        watched = instr.core.machine.observer is not None
        known = self.plans.get(instr.args) if watched else None
        unit.begin(instr, watched and known is None)
        self.body(unit, *instr.args)
        if known is None and watched:
            known = CallPlan(footprints_of(unit.trace), trace=tuple(unit.trace), streams=unit.streams)
            if not unit.data_dependent:
                self.plans[instr.args] = known
        instr.plan = known


def footprints_of(trace: Iterable[Event]) -> tuple[Footprint, ...]:
    """The union of a trace's accesses, one footprint for each memory and effect."""
    runs: dict[tuple[str, Effect], list[tuple[int, int]]] = {}
    stores: dict[str, Storage] = {}
    for event in trace:
        if isinstance(event, RegisterAccess):
            stores[event.store.name] = event.store
            runs.setdefault((event.store.name, event.effect), []).extend(active_runs(event))
    return tuple(
        Footprint("", effect, stores[name], tuple(as_regions(merged_runs(found))))
        for (name, effect), found in runs.items()
        if found
    )


def active_runs(access: RegisterAccess) -> list[tuple[int, int]]:
    """Contiguous byte ranges an access really touches."""
    if access.where is None:
        return [(access.address, access.address + access.size)] if access.size else []
    found: list[tuple[int, int]] = []
    for k in access.where.nonzero()[0].tolist():
        start = access.address + k
        if found and found[-1][1] == start:
            found[-1] = (found[-1][0], start + 1)
        else:
            found.append((start, start + 1))
    return found


def merged_runs(runs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The union of byte ranges, ascending and disjoint."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(set(runs)):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def as_regions(runs: list[tuple[int, int]]) -> list[Region]:
    """Ranges of one size at one distance become one region."""
    found: list[Region] = []
    for start, end in runs:
        last = found[-1] if found else None
        if last is not None and last.row_bytes == end - start:
            step = start - (last.start + (last.rows - 1) * last.pitch)
            if last.rows == 1 or step == last.pitch:
                found[-1] = Region(last.start, last.rows + 1, last.row_bytes, step)
                continue
        found.append(Region(start, 1, end - start, end - start))
    return found

