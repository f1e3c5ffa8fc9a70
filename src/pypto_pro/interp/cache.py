"""The scalar unit's data cache of GM: 64-byte lines, write-back, coherent with nobody until `dcci`.

A line is filled by the first access, then serves stale bytes until it is dropped; only dirty bytes are written back
(on `dcci` and at kernel end), so two cores that write different elements of one line both arrive. Lines are counted
from the start of the argument's buffer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pypto_pro.interp.memory import Buffer, SimTensor
from pypto_pro.interp.sites import OpSite, Plan

if TYPE_CHECKING:
    from pypto_pro.interp.machine import Core, Instr

LINE = 64


class _Shadow:
    """One core's copy of a buffer: bytes, which lines are present, which bytes are dirty by line."""

    __slots__ = ("buffer", "bytes", "dirty", "lines", "views")

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.bytes: NDArray[np.uint8] = np.empty(buffer.mem.size, np.uint8)
        self.lines: set[int] = set()
        self.dirty: dict[int, NDArray[np.bool_]] = {}
        self.views: dict[SimTensor, SimTensor] = {}

    def extent(self, line: int) -> tuple[int, int]:
        """First byte of a line and one past its last, inside the buffer."""
        return line * LINE, min(line * LINE + LINE, self.bytes.size)

    def view(self, tensor: SimTensor) -> SimTensor:
        """The tensor over the cached bytes."""
        found = self.views.get(tensor)
        if found is None:
            found = self.views[tensor] = SimTensor(
                tensor.type, self.bytes, tensor.base, tensor.dims, tensor.strides, tensor.transfer, tensor.buffer,
                tensor.name,
            )
        return found


class ScalarCache:
    """The cache of one core."""

    __slots__ = ("core", "shadows")

    def __init__(self, core: Core) -> None:
        self.core = core
        self.shadows: dict[int, _Shadow] = {}

    def run(self, instr: Instr, site: OpSite, plan: Plan) -> Any:
        """Apply a scalar op to the cached bytes of its tensors."""
        args = tuple(self._cached(a) if isinstance(a, SimTensor) else a for a in instr.args)
        named = dict(zip((p.name for p in site.entry.data_params), instr.args, strict=True))
        for footprint in plan.footprints:
            tensor = named[footprint.operand]
            if isinstance(tensor, SimTensor):
                shadow = self._shadow(tensor)
                origin = shadow.buffer.address
                for region in footprint.regions:
                    start, end = region.start - origin, region.start - origin + region.row_bytes
                    self._fill(instr, shadow, start, end)
                    if footprint.effect.changes:
                        _soil(shadow, start, end)
        return site.run(args)

    def _cached(self, tensor: SimTensor) -> SimTensor:
        return self._shadow(tensor).view(tensor)

    def _shadow(self, tensor: SimTensor) -> _Shadow:
        buffer = tensor.buffer
        assert buffer is not None
        found = self.shadows.get(buffer.address)
        if found is None:
            found = self.shadows[buffer.address] = _Shadow(buffer)
        return found

    def _fill(self, instr: Instr, shadow: _Shadow, start: int, end: int) -> None:
        for line in range(start // LINE, (end - 1) // LINE + 1):
            if line in shadow.lines:
                continue
            low, high = shadow.extent(line)
            shadow.bytes[low:high] = shadow.buffer.mem[low:high]
            shadow.lines.add(line)
            calls = self.core.machine.calls
            if calls.line_filled is not None:
                calls.line_filled(instr, shadow.buffer.address + low, high - low)

    def clean(self, instr: Instr, tensor: SimTensor, byte: int | None) -> None:
        """`dcci`: write back and drop the line holding byte `byte` of the tensor's buffer, or (None) everything."""
        if byte is None:
            for shadow in self.shadows.values():
                for line in sorted(shadow.lines):
                    self._drop(instr, shadow, line)
            return
        shadow = self._shadow(tensor)
        if byte // LINE in shadow.lines:
            self._drop(instr, shadow, byte // LINE)

    def _drop(self, instr: Instr, shadow: _Shadow, line: int) -> None:
        self._write_back(instr, shadow, line)
        shadow.lines.discard(line)
        calls = self.core.machine.calls
        if calls.line_dropped is not None:
            low, high = shadow.extent(line)
            calls.line_dropped(self.core, instr, shadow.buffer.address + low, high - low)

    def contents(self) -> dict[int, dict[int, bytes]]:
        """The lines it holds, by buffer and line."""
        return {
            address: {line: shadow.bytes[slice(*shadow.extent(line))].tobytes() for line in shadow.lines}
            for address, shadow in self.shadows.items() if shadow.lines
        }  # fmt: skip

    def flush(self) -> None:
        """Kernel end: every dirty byte goes to GM."""
        for shadow in self.shadows.values():
            for line in sorted(shadow.dirty):
                self._write_back(None, shadow, line)

    def _write_back(self, instr: Instr | None, shadow: _Shadow, line: int) -> None:
        dirty = shadow.dirty.pop(line, None)
        if dirty is None:
            return
        low, high = shadow.extent(line)
        which = np.flatnonzero(dirty[: high - low]) + low
        shadow.buffer.mem[which] = shadow.bytes[which]
        self.core.machine.engine.heard += 1
        calls = self.core.machine.calls
        if calls.line_written_back is not None:
            calls.line_written_back(self.core, instr, shadow.buffer.address + low, high - low)


def _soil(shadow: _Shadow, start: int, end: int) -> None:
    for line in range(start // LINE, (end - 1) // LINE + 1):
        dirty = shadow.dirty.get(line)
        if dirty is None:
            dirty = shadow.dirty[line] = np.zeros(LINE, np.bool_)
        dirty[max(start - line * LINE, 0) : end - line * LINE] = True
