"""The vector unit as register ops' numpy meanings see it (`ops.vf_operands.Registers`), over native memory.

Used by ops of vector functions that have no native code. Register operands and results travel in the operand record.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pypto_pro.enums import MemorySpace
from pypto_pro.hw.a5 import REGISTER_BYTES
from pypto_pro.ir.types import AddrRegType, MaskType, RegType, UnalignRegType
from pypto_pro.native.calls import AddrRegSpec, MaskSpec, RegSpec, Spec, UnalignSpec
from pypto_pro.native.frames import CORE, UNALIGN_BYTES, WORD
from pypto_pro.ops.operands import TileArg
from pypto_pro.ops.vf_operands import AddrArg, Array, Bits, MaskArg, RegArg, RegisterType, UnalignArg

_WORD = (1 << 64) - 1


class VectorUnit:
    """One per core and launch; cursors belong to one call of a vector function."""

    def __init__(self, core: int, space: NDArray[np.uint8]) -> None:
        self.core = core
        self.space = space
        self.old: tuple[Any, ...] = ()
        self.targets: tuple[RegisterType, ...] = ()
        self.sources: tuple[Any, ...] = ()
        self.outside: Callable[[str], None] = lambda message: None
        self._call = -1
        self._cursors: dict[int, int] = {}

    def _field(self, name: str) -> Any:
        return ctypes.c_int64.from_address(self.core + CORE[name])

    @property
    def ar(self) -> int:
        """The AR register."""
        return int(self._field("spr").value)

    @ar.setter
    def ar(self, count: int) -> None:
        self._field("spr").value = count

    def mask_spr(self) -> tuple[bool, int, int]:
        """(count mode?, high 64 bits, low 64 bits)."""
        mode, high, low = (int(self._field(n).value) for n in ("mask_count_mode", "mask_high", "mask_low"))
        return bool(mode), high & _WORD, low & _WORD

    def depends_on_data(self) -> None:
        """Nothing is replayed here."""

    def barrier(self, mode: Any) -> None:
        """Ops run in program order."""

    def cursor(self, tile: TileArg) -> int:
        """Where the post-update cursor of a tile expression stands; expressions at one address share one."""
        number = int(self._field("call_number").value)
        if number != self._call:
            self._call = number
            self._cursors.clear()
        return self._cursors.get(tile.addr, 0)

    def advance(self, tile: TileArg, count: int) -> None:
        """Move it on."""
        self._cursors[tile.addr] = self.cursor(tile) + count

    def load(self, tile: TileArg, start: int, size: int, align: int = 1) -> NDArray[np.uint8]:
        """Fresh bytes of UB, zero outside it."""
        low, high = self._inside(tile, start, size)
        first = tile.addr + start
        if high - low == size:
            return self.space[low:high].copy()
        data = np.zeros(size, np.uint8)
        data[low - first : high - first] = self.space[low:high]
        return data

    def store(
        self, tile: TileArg, start: int, data: Array, where: Bits | None = None, align: int = 1
    ) -> None:
        """Write bytes, dropped outside UB."""
        given = np.ascontiguousarray(data).view(np.uint8).reshape(-1)
        first = tile.addr + start
        low, high = self._inside(tile, start, given.size)
        part = given[low - first : high - first]
        if where is None:
            self.space[low:high] = part
        else:
            chosen = where[low - first : high - first]
            self.space[low:high][chosen] = part[chosen]

    def gather(self, tile: TileArg, starts: Array, size: int) -> NDArray[np.uint8]:
        """Bytes at several offsets, zero outside UB."""
        rows = [self.load(tile, int(start), size) for start in starts]
        return np.array(rows, np.uint8).reshape(len(rows), size)

    def scatter(self, tile: TileArg, starts: Array, data: Array) -> None:
        """Bytes to several offsets; of equal ones the first survives."""
        for start, row in zip(starts[::-1], np.asarray(data)[::-1], strict=True):
            self.store(tile, int(start), row)

    def _inside(self, tile: TileArg, start: int, size: int) -> tuple[int, int]:
        first, limit = tile.addr + start, self.space.size
        low, high = min(max(first, 0), limit), min(max(first + size, 0), limit)
        if high - low < size:
            self.outside(f"bytes {first}..{first + size} of {MemorySpace.Vec.name}, which has {limit}")
        return low, max(low, high)


def read_register(spec: Spec, address: int) -> Any:
    """A register operand of a record; None for other operands."""
    match spec:
        case RegSpec(dtype=dtype):
            return RegArg(dtype, _bytes(address, REGISTER_BYTES).view(dtype.numpy))
        case MaskSpec():
            return MaskArg(_bytes(address, REGISTER_BYTES) != 0)
        case AddrRegSpec(dtype=dtype):
            return AddrArg(dtype, int(ctypes.c_int64.from_address(address).value))
        case UnalignSpec():
            count = int(ctypes.c_int64.from_address(address + WORD).value)
            return UnalignArg(
                _bytes(address + 2 * WORD, UNALIGN_BYTES - 2 * WORD)[: max(0, count)],
                int(ctypes.c_int64.from_address(address).value),
            )
    return None


def write_register(value: Any, spec: Spec, address: int) -> None:
    """A register result into its place in a record."""
    match spec, value:
        case (RegSpec(), RegArg(lanes=lanes)):
            _write(address, lanes)
        case (MaskSpec(), MaskArg(bits=bits)):
            _write(address, bits.astype(np.uint8))
        case (RegSpec(), _):
            _write(address, np.ascontiguousarray(value))
        case (MaskSpec(), _):
            _write(address, np.asarray(value, np.uint8))
        case (AddrRegSpec(), _):
            ctypes.c_int64.from_address(address).value = int(value.offset)
        case (UnalignSpec(), _):
            ctypes.c_int64.from_address(address).value = int(value.address)
            ctypes.c_int64.from_address(address + WORD).value = value.pending.size
            _write(address + 2 * WORD, value.pending)


def type_of(spec: Spec) -> RegisterType:
    """The register type of an operand or result."""
    match spec:
        case RegSpec(dtype=dtype):
            return RegType(dtype)
        case AddrRegSpec(dtype=dtype):
            return AddrRegType(dtype)
        case UnalignSpec():
            return UnalignRegType(False)
    assert isinstance(spec, MaskSpec)
    return MaskType(spec.dtype)


def _bytes(address: int, size: int) -> NDArray[np.uint8]:
    return np.frombuffer(ctypes.string_at(address, size), np.uint8)


def _write(address: int, data: Any) -> None:
    given = data.tobytes()
    ctypes.memmove(address, given, len(given))
