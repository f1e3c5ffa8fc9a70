"""Messages through the SSBUF of a block: accesses of three scalar units that only cross-core signals order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pypto_pro.enums import MemorySpace
from pypto_pro.hw.a5 import SSBUF_BYTES
from pypto_pro.interp.checks.conflicts import Conflicts
from pypto_pro.interp.checks.signals import Signals
from pypto_pro.interp.checks.touched import Memory, Touched, memory_of
from pypto_pro.interp.memory import Storage
from pypto_pro.layouts import Region

if TYPE_CHECKING:
    from pypto_pro.interp.machine import Instr
    from pypto_pro.interp.services import ServiceSite


class Messages:
    """Looks at `ssbuf_store` and `ssbuf_load` as accesses of pipe S."""

    def __init__(self, conflicts: Conflicts, signals: Signals, blocks: int) -> None:
        self.conflicts = conflicts
        self.signals = signals
        self.buffers: list[Memory] = [
            memory_of(Storage.on_chip(f"SSBUF of block {b}", MemorySpace.Vec, SSBUF_BYTES), 0) for b in range(blocks)
        ]

    def moved(self, instr: Instr, site: ServiceSite, *, writes: bool) -> None:
        """A struct goes into the buffer, or comes out of it; S has a loaded struct before it goes on."""
        given: dict[str, Any] = {**dict(zip(site.names, instr.args, strict=True)), **site.attrs}
        size = len(given["struct_var"].pack()) // 4 * 4
        start = int(given["offset"])
        if size <= 0 or not 0 <= start <= SSBUF_BYTES - size:
            return
        cell = self.buffers[instr.core.block].map.cell(Region(start, 1, size, size))
        touched = Touched(writes=(cell,)) if writes else Touched(reads=(cell,))
        self.conflicts.check(instr, self.signals.know[instr.pipe], touched)
        if not writes:
            self.signals.order.scalar_acted(instr.core.index, instr.number)
