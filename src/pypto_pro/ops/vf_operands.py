"""What a register op's meaning is handed, and `defvf`, which makes an entry from one.

    @defvf("vf.add", family="vf.arith")
    def add(vf: Registers, src0: RegIn, src1: RegIn, mask: MaskIn, *, mode: Merge = None) -> Array:
        '''r[i] = src0[i] + src1[i] where active.'''
        return merged(vf, src0.lanes + src1.lanes, mask, mode)

The first parameter is the vector unit (`Registers`), no operand of the op: it gives the UB accesses of the call
(`load`, `store`, `cursor`), what the target names held before (`old`), their types (`targets`) and the special
registers. All other facets are called without it. A meaning returns lanes (any array of 256 bytes; it is read as the
target's dtype), a `MaskArg` for a mask target, a tuple for several targets, None for a statement. Operands and results
are never changed in place: a register value may have several names.

A register is `RegArg.lanes`, a contiguous array of N = 256 / width elements in `dtype.numpy`. A mask is
`MaskArg.bits`, 256 bools, one a register byte; an op on W-byte elements looks at `lanes(W)` = bits[::W], and a producer
of W-byte granularity sets only those (`MaskArg.of`).

Ops that move bits unchanged are declared with `copies=True`: the executor may then call the meaning a second time on
"planes", registers whose bytes are 0xFF where the real ones hold undefined bytes and 0 elsewhere, to learn where
undefined bytes end up. During that call `load` returns planes and `store` writes nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pypto_pro.dtypes import DataType
from pypto_pro.enums import MemorySpace, MergeMode, PipeType
from pypto_pro.hw.a5 import REGISTER_BYTES
from pypto_pro.ir.types import AddrRegType, MaskType, RegType, UnalignRegType
from pypto_pro.ops.entry import Facet, Keyword, Kind, OpEntry, Operand, Role, Section, Tolerance, read_params, register
from pypto_pro.ops.operands import TileArg, tile

Array: TypeAlias = NDArray[Any]
Bits: TypeAlias = NDArray[np.bool_]
RegisterType: TypeAlias = "RegType | MaskType | AddrRegType | UnalignRegType"


@dataclass(slots=True, eq=False)
class RegArg:
    """A register value: N lanes in `dtype.numpy`. `undefined`: bool per byte, None when every byte is defined."""

    dtype: DataType
    lanes: Array
    undefined: Bits | None = None

    @property
    def bytes(self) -> NDArray[np.uint8]:
        """The 256 bytes, little endian, lane 0 first."""
        return self.lanes.view(np.uint8)

    @property
    def width(self) -> int:
        """Bytes of one lane."""
        return self.dtype.nbytes

    def as_(self, dtype: DataType) -> Array:
        """The same bytes as lanes of another dtype."""
        return self.lanes.view(dtype.numpy)


@dataclass(slots=True, eq=False)
class MaskArg:
    """A predicate: 256 bools, one a register byte. Lane views and the all-active test are kept."""

    bits: Bits
    from_data: bool = False
    """Made from register contents or memory: what a store under it touches is no function of the call's operands."""
    _lanes: dict[int, Bits] = field(default_factory=dict)
    _every: dict[int, bool] = field(default_factory=dict)

    @classmethod
    def of(cls, active: Bits, width: int) -> MaskArg:
        """The mask whose W-byte lanes are `active` (N bools); only the lowest bit of a group is set."""
        bits = np.zeros(REGISTER_BYTES, np.bool_)
        bits[::width] = active
        return cls(bits)

    def lanes(self, width: int) -> Bits:
        """One bool a lane of `width` bytes."""
        found = self._lanes.get(width)
        if found is None:
            found = self._lanes[width] = self.bits[::width]
        return found

    def every(self, width: int) -> bool:
        """Whether all lanes of `width` bytes are active."""
        found = self._every.get(width)
        if found is None:
            found = self._every[width] = bool(self.lanes(width).all())
        return found


@dataclass(slots=True, eq=False)
class AddrArg:
    """An address register: an offset in elements of `dtype`."""

    dtype: DataType
    offset: int


@dataclass(slots=True, eq=False)
class UnalignArg:
    """A staging register of an unaligned stream: bytes not yet in UB, and the UB address of the first."""

    pending: NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))
    address: int = 0
    lost: int = 0
    """Bytes that were dropped because the stream went on at another address."""


class Registers(Protocol):
    """The vector unit during one call. Addresses are UB bytes, `start` is relative to the tile's address."""

    old: tuple[Any, ...]
    """Values (`RegArg`, `MaskArg`, ...) of the target names before the op."""
    targets: tuple[RegisterType, ...]
    """Types of the target names."""
    sources: tuple[Any, ...]
    """Types of the data operands, None for absent ones; a mask's says with what tag it was made."""
    ar: int
    """The AR register: bytes kept by the last squeeze."""

    def load(self, tile: TileArg, start: int, size: int, align: int = 1) -> NDArray[np.uint8]:
        """`size` fresh bytes. `align` is what the device asks of the address; the checks report the rest."""

    def store(
        self, tile: TileArg, start: int, data: Array, where: Bits | None = None, align: int = 1
    ) -> None:
        """Write the bytes of `data`; with `where` (one bool a byte) only those."""

    def gather(self, tile: TileArg, starts: Array, size: int) -> NDArray[np.uint8]:
        """`size` bytes at each of some byte offsets that come from data; shape (len(starts), size)."""

    def scatter(self, tile: TileArg, starts: Array, data: Array) -> None:
        """Write row k of `data` (bytes) at byte offset starts[k]; of rows with one offset the first survives."""

    def cursor(self, tile: TileArg) -> int:
        """Bytes the post-update cursor of this tile expression stands behind its address."""

    def advance(self, tile: TileArg, count: int) -> None:
        """Move that cursor by `count` bytes."""

    def depends_on_data(self) -> None:
        """Addresses or sizes of this op's accesses come from register contents: never replay them."""

    def barrier(self, mode: Any) -> None:
        """`mem_bar`."""

    def mask_spr(self) -> tuple[bool, int, int]:
        """(count mode?, high 64 bits, low 64 bits) of the mask special register."""


def merged(
    vf: Registers, values: Array, mask: MaskArg, mode: MergeMode | None = None, width: int | None = None
) -> Array:
    """`values` in active lanes; inactive ones 0, or the target's old lanes under MERGING."""
    w = width or values.dtype.itemsize
    if mask.every(w):
        return values
    if mode is MergeMode.MERGING:
        return np.where(mask.lanes(w), values, vf.old[0].lanes.view(values.dtype))
    return np.where(mask.lanes(w), values, np.zeros((), values.dtype))


def element_start(tile_: TileArg, offset: Any) -> int:
    """Byte offset of a load/store offset: elements of the tile dtype, [row, col] by the physical pitch, or AddrReg."""
    match offset:
        case None:
            return 0
        case AddrArg(dtype, elements):
            return elements * dtype.nbytes
        case (row, col):
            offset = row * tile_.type.shape[-1] + col if len(tile_.type.shape) > 1 else row + col
    return int(offset) * tile_.type.dtype.bits() // 8


_REG = frozenset({Kind.REG})
_MASK = frozenset({Kind.MASK})

RegIn: TypeAlias = Annotated[RegArg, Operand(_REG, Role.IN)]
MaskIn: TypeAlias = Annotated[MaskArg, Operand(_MASK, Role.IN)]
IndexIn: TypeAlias = Annotated[RegArg, Operand(_REG, Role.IN, selects=True)]
OptionalMask: TypeAlias = Annotated[MaskArg | None, Operand(_MASK, Role.IN)]
RegOrMask: TypeAlias = Annotated[RegArg | MaskArg, Operand(_REG | _MASK, Role.IN)]
ScalarOrReg: TypeAlias = Annotated[RegArg | int | float, Operand(_REG | {Kind.SCALAR}, Role.IN)]
Scalar: TypeAlias = Annotated[int | float, Operand(frozenset({Kind.SCALAR}), Role.IN)]
UbIn: TypeAlias = Annotated[TileArg, tile(Role.IN, MemorySpace.Vec)]
UbOut: TypeAlias = Annotated[TileArg, tile(Role.OUT, MemorySpace.Vec)]
Offset: TypeAlias = Annotated[
    Any, Operand(frozenset({Kind.SCALAR, Kind.OFFSETS, Kind.ADDR_REG, Kind.MASK}), Role.IN)
]
Merge: TypeAlias = Annotated[MergeMode | None, Keyword(enum=MergeMode)]


def defvf(
    name: str, *, family: str, aliases: tuple[str, ...] = (), copies: bool = False,
    tolerance: Tolerance | None = None, results: int = 1, more_results: int = 0,
    reads_target: bool = False,
) -> Callable[[Facet], OpEntry]:
    """Register the decorated function (its first parameter is `Registers`) as the meaning of a register op."""

    def make(body: Facet) -> OpEntry:
        params = read_params(body, skip=1)
        doc = inspect.getdoc(body) or ""
        return register(
            OpEntry(
                name, params, body, PipeType.V, Section.VECTOR, family, "op", aliases, doc, copies, tolerance, results,
                more_results=more_results, reads_target=reads_target,
            )
        )

    return make
