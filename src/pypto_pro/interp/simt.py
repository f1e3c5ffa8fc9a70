"""Threads of a SIMT launch: run one after the other, each access an element of a tile or a GM tensor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from pypto_pro.dtypes import DataType
from pypto_pro.interp.calls import TRIP_LIMIT, EndlessLoop, RegisterAccess
from pypto_pro.interp.memory import GM, SimTensor, SimTile
from pypto_pro.interp.scalars import to_python
from pypto_pro.interp.sites import Site
from pypto_pro.ops.entry import Effect, OpEntry
from pypto_pro.ops.overrun import Overrun

if TYPE_CHECKING:
    from pypto_pro.interp.calls import Event
    from pypto_pro.interp.machine import Core, Instr


@dataclass(slots=True, eq=False)
class ElementSite(Site):
    """An element access in the text of a SIMT function; `dtype` is that of the value read."""

    entry: OpEntry = field(kw_only=True)


class ThreadUnit:
    """What the body of a SIMT function works on; `begin` starts a launch, `thread` one of its threads."""

    streams = None  # elements are stored one by one
    data_dependent = True  # threads compute their addresses, often from what they read

    def __init__(self, core: Core) -> None:
        self.core = core
        self.recording = False
        self.trace: list[Event] = []
        self.thread: int | None = None
        self.trips = 0
        self.instr: Instr

    def begin(self, instr: Instr, recording: bool) -> None:
        """A new launch."""
        self.instr = instr
        self.recording = recording
        self.trace = []

    def start(self, linear: int) -> None:
        """The next thread."""
        self.thread = linear
        self.trips = 0

    def trip(self) -> None:
        """One trip of a `while` loop of this thread."""
        self.trips += 1
        if self.trips > TRIP_LIMIT:
            raise EndlessLoop(self.instr)

    def access(self, site: ElementSite, args: tuple[Any, ...]) -> Any:
        """Element read (value) or write; out of bounds reads give 0 and writes are dropped."""
        target, offset = args[0], args[1]
        effect = Effect.READ if len(args) == 2 else Effect.WRITE
        width = target.type.dtype.nbytes
        if isinstance(target, SimTile):
            store, base, limit = target.stores[0], target.addr, target.stores[0].capacity
            origin = 0
        else:
            assert isinstance(target, SimTensor)
            assert target.buffer is not None
            store, base, limit, origin = GM, target.base, target.buffer.mem.size, target.buffer.address
        at = base + offset * width
        if not 0 <= at <= limit - width:
            overrun = Overrun(target.name, target.name, effect, at, at + width, limit, store.name)
            self.core.machine.engine.overran(self.instr, overrun, site)
            return _zero(target.type.dtype)
        if self.recording:
            self.trace.append(
                RegisterAccess(site, target.name, effect, store, origin + at, width, thread=self.thread)
            )
        meaning = site.entry.meaning
        assert meaning is not None
        return meaning(*args)


def _zero(dtype: DataType) -> Any:
    return to_python(np.zeros(1, dtype.numpy)[0], dtype)


def run_threads(counts: tuple[int, int, int], body: Callable[..., None]) -> Callable[..., None]:
    """The launch as a call body: every thread in linear order, x fastest."""
    nx, ny, nz = counts

    def launch(unit: ThreadUnit, *captured: Any) -> None:
        for linear in range(nx * ny * nz):
            unit.start(linear)
            body(unit, linear % nx, linear // nx % ny, linear // (nx * ny), *captured)

    return launch
