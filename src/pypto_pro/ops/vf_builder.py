"""What the `lower` facet of a register op is written against; its code is emitted inline into the vector function.

    @entry.lower
    def _(k: VectorUnitBuilder, src0: NativeReg, src1: NativeReg, mask: NativeMask, mode: MergeMode | None) -> Any:
        k.give(src0.lanes + src1.lanes, mask, mode)

One `give...` a target, in their order. Returning NotImplemented before anything was given takes the meaning instead.
Bit patterns are lanes of unsigned dtypes; `k.raw` makes a register of them, which `k.give_bits` takes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

from pypto_pro.dtypes import DataType
from pypto_pro.enums import RoundMode
from pypto_pro.ops.builder import Lanes, NativeScalar, NativeTile

__all__ = ["Lanes", "NativeMask", "NativeReg", "NativeScalar", "NativeTile", "VectorUnitBuilder"]


class NativeReg:
    """A register operand; also shorter pieces of one."""

    dtype: DataType

    @property
    @abstractmethod
    def count(self) -> int:
        """Number of lanes."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Bytes of a lane."""

    @property
    @abstractmethod
    def lanes(self) -> Lanes:
        """Values to compute with; floats of 16 and 32 bits as FP32, integers as they are."""

    @abstractmethod
    def as_(self, dtype: DataType) -> NativeReg:
        """The same bytes as a register of another dtype; an unsigned dtype gives bit patterns."""

    @abstractmethod
    def values(self, dtype: DataType) -> Lanes:
        """The lanes of a piece of a register read as `dtype` of equal width."""


class NativeMask:
    """A predicate operand; `dtype` is its tag."""

    dtype: DataType

    @property
    @abstractmethod
    def flags(self) -> Lanes:
        """All 256 bits as UINT8 lanes of 0 and 1: moved and combined as bytes, which costs less than single bits."""

    @abstractmethod
    def lanes(self, width: int) -> Lanes:
        """BOOL lanes for elements of `width` bytes: their first bits."""

    @abstractmethod
    def picked(self, bits: Sequence[int]) -> Lanes:
        """BOOL lanes that are the mask bits of these numbers."""


class VectorUnitBuilder(Protocol):
    """Emits one register op after the other."""

    targets: list[Any]
    """Types of the target names (RegType, MaskType, ...)."""

    # --- results -----------------------------------------------------------------------------------------------------

    def give(self, values: Lanes, mask: NativeMask | None = None, mode: Any = None) -> None:
        """The next target: values rounded to its dtype; inactive lanes 0, or the old ones under MERGING."""

    def give_bits(self, reg: NativeReg, mask: NativeMask | None = None, mode: Any = None) -> None:
        """The next target: bytes as they are; masked by lanes of the register's width."""

    def give_mask(self, active: Lanes, width: int) -> None:
        """The next target, a mask: the first bit of every lane of `width` bytes."""

    def give_flags(self, flags: Lanes) -> None:
        """The next target, a mask: all 256 bits as UINT8 lanes of 0 and 1."""

    def give_address(self, offset: NativeScalar) -> None:
        """The next target, an address register."""

    def give_staging(self) -> None:
        """The next target, an empty staging register."""

    def old(self, index: int = 0) -> Any:
        """What a target held before the op: a NativeReg or NativeMask."""

    # --- lanes -------------------------------------------------------------------------------------------------------

    def full(self, number: Any, dtype: DataType) -> Lanes:
        """A number, converted to `dtype`, in every lane."""

    def numbers(self, dtype: DataType, values: Sequence[int]) -> Lanes:
        """Lanes of `dtype` known now."""

    def first(self, limit: Any, width: int) -> Lanes:
        """BOOL lanes of `width` bytes: lane index < limit (unsigned 32-bit)."""

    def choice(self, pattern: Sequence[bool]) -> Lanes:
        """BOOL lanes known now."""

    def shuffle(self, values: Lanes, order: Sequence[int], other: Lanes | None = None) -> Lanes:
        """Lanes picked by number from `values`, then `other`."""

    def picked(self, values: Lanes, order: Sequence[int]) -> Lanes:
        """Lanes picked by number; -1 gives 0."""

    def permuted(self, values: Lanes, indices: Lanes) -> Lanes:
        """Lanes picked by run-time numbers, modulo their count."""

    def widened(self, values: Lanes) -> Lanes:
        """The lanes at the front of a whole register, 0 behind them; the target's dtype says how many there are."""

    def placed_in(self, values: Lanes, dtype: DataType, part: int, ratio: int) -> NativeReg:
        """Patterns at lanes ratio * k + part of a register of `dtype`, 0 elsewhere."""

    def compressed(self, values: Lanes, active: Lanes) -> tuple[Lanes, NativeScalar]:
        """The active lanes moved together to the front, 0 behind them; how many there are."""

    def first_set(self, active: Lanes, otherwise: int) -> NativeScalar:
        """The number of the first true lane."""

    def byte_counts(self, src: NativeReg, active: Lanes, *, cumulative: bool) -> Lanes:
        """256 UINT16 lanes: how many active bytes equal n, or are at most n."""

    def with_lane(self, values: Lanes, index: int, bits: NativeScalar, dtype: DataType) -> NativeReg:
        """Lanes stored as `dtype`, with the bit pattern of one of them replaced by an integer."""

    def raw(self, lanes: Lanes) -> NativeReg:
        """Integer lanes as they are, as a register (or a piece of one)."""

    def stored(self, lanes: Lanes, dtype: DataType) -> Lanes:
        """Values as bit patterns of `dtype`, rounded to nearest even."""

    def flags_of(self, lanes: Lanes) -> Lanes:
        """The bits of UINT8 lanes as flags, the lowest of the first byte first."""

    def packed_bits(self, bits: Lanes) -> NativeReg:
        """BOOL lanes packed into bytes."""

    # --- scalars -----------------------------------------------------------------------------------------------------

    def index(self, number: Any) -> NativeScalar:
        """A number as an INDEX scalar."""

    def scalar(self, number: Any) -> NativeScalar:
        """A number as a scalar of its own dtype."""

    def is_address(self, operand: Any) -> bool:
        """Whether an operand is an address register."""

    def ar(self) -> NativeScalar:
        """The AR register."""

    def set_ar(self, count: NativeScalar) -> None:
        """Write the AR register."""

    def mask_spr(self, lanes: int) -> Lanes:
        """Flags: the first `lanes` bits of the mask special register, or in count mode that many leading lanes."""

    # --- UB; starts are byte offsets from the tile's address ---------------------------------------------------------

    def element_start(self, tile: NativeTile, offset: Any) -> NativeScalar:
        """Byte offset of a load or store offset (none, elements, [row, col], address register)."""

    def byte_start(self, tile: NativeTile, offset: Any) -> NativeScalar:
        """The same for mask accesses, whose numbers count bytes."""

    def access_start(self, tile: NativeTile, step: Any, post_update: bool) -> NativeScalar:
        """`step`, or with `post_update` where the tile's cursor stands, which then advances by `step` bytes."""

    def cursor(self, tile: NativeTile) -> NativeScalar:
        """Where the cursor of this tile expression stands, bytes behind its address."""

    def advance(self, tile: NativeTile, count: Any) -> None:
        """Move that cursor by bytes."""

    def load(self, tile: NativeTile, start: Any, dtype: DataType, count: int) -> NativeReg:
        """`count` elements of `dtype`."""

    def store(self, tile: NativeTile, start: Any, reg: NativeReg, active: Lanes | None = None) -> None:
        """Write lanes, the active ones."""

    def load_blocks(self, tile: NativeTile, start: Any, step: Any, mask: NativeMask) -> NativeReg:
        """Block g from start + g * step bytes where any of its mask bits is on, else 0."""

    def store_blocks(self, tile: NativeTile, start: Any, step: Any, src: NativeReg, mask: NativeMask) -> None:
        """Block g to start + g * step bytes where any of its mask bits is on."""

    def gather(self, tile: NativeTile, indices: NativeReg, active: Lanes, slot: int, size: int) -> NativeReg:
        """Elements of `size` bytes by index, zero-extended to slots of `slot` bytes; 0 in inactive slots."""

    def gather_blocks(self, tile: NativeTile, indices: NativeReg, mask: NativeMask) -> NativeReg:
        """Block g from byte offset indices[g] where any of its mask bits is on, else 0."""

    def scatter(self, tile: NativeTile, src: NativeReg, index: NativeReg, active: Lanes, slot: int) -> None:
        """The first element of every active slot of `slot` bytes to tile[index]; of equal indices the first wins."""

    def append(self, tile: NativeTile, start: Any, reg: NativeReg, size: NativeScalar, staging: Any) -> None:
        """Bytes of an unaligned stream: whole blocks to UB, the rest into the staging register."""

    def flush(self, tile: NativeTile, staging: Any) -> None:
        """Write what waits in a staging register."""

    # --- functions on lanes ------------------------------------------------------------------------------------------

    def larger(self, lhs: Lanes, rhs: Lanes) -> Lanes:
        """Larger of two; NaN when either is, +0 above -0."""

    def smaller(self, lhs: Lanes, rhs: Lanes) -> Lanes:
        """Smaller of two; NaN when either is, -0 below +0."""

    def multiply_add(self, a: Lanes, b: Lanes, c: Lanes, dtype: DataType) -> Lanes:
        """a * b + c rounded once to `dtype`; integers wrap."""

    def exp(self, x: Lanes) -> Lanes:
        """e ** x of FP32 lanes, as the following."""

    def log(self, x: Lanes) -> Lanes: ...
    def sqrt(self, x: Lanes) -> Lanes: ...
    def abs(self, x: Lanes) -> Lanes: ...
    def integral(self, x: Lanes, rule: RoundMode) -> Lanes | None:
        """Rounded to integral values."""

    def convert(
        self, lanes: Lanes, source: DataType, target: DataType, rule: RoundMode, saturate: bool, infinite_wraps: bool
    ) -> Lanes | None:
        """Conversion of values by the rules of numerics 4; None where there is no code for it."""

    def cast(self, codes: Lanes, source: DataType, target: DataType, rule: RoundMode, saturate: bool) -> Lanes:
        """Bit patterns of `source` (4-bit ones in bytes) as patterns of `target`."""
