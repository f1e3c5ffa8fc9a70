"""Operand records: how the operands of an op travel from the program that issues it to the function that runs it.

An op function takes (core record, operand record). The record holds everything by value, so that a call can be kept and
made later. A `Signature` says statically what the record contains; equal signatures share one function.

Record: site number, spare word, the operands in order, then the results (scalars one word each).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

from pypto_pro.dtypes import DataType
from pypto_pro.enums import CoreKind, MemorySpace, TensorLayout
from pypto_pro.hw.a5 import REGISTER_BYTES
from pypto_pro.ir.types import PtrType, StructType, TensorType, TileType
from pypto_pro.native import codecs, frames
from pypto_pro.native.emit import I64, PTR, Code, Value
from pypto_pro.native.frames import ARENA, CORE, PTR_BYTES, UB_STEP, UNALIGN_BYTES, WORD, TensorRecord
from pypto_pro.native.scalars import Scalar
from pypto_pro.ops.entry import OpEntry

# --- what a record holds ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TileSpec:
    """A tile: address, valid rows, valid columns. `foreign`: a Vec tile named by the cube core."""

    type: TileType
    foreign: bool = False
    size = 3 * WORD

    @property
    def text(self) -> str:
        """What the generated code depends on."""
        t = self.type
        return (
            f"tile {t.space.name} {t.shape} {t.dtype.name} {t.layout} {t.fractal} {t.pad} {t.compact} {t.valid_shape} "
            f"{self.foreign}"
        )


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor record."""

    type: TensorType

    @property
    def size(self) -> int:
        """Bytes."""
        return TensorRecord(self.type.rank).size

    @property
    def text(self) -> str:
        """What the generated code depends on; extents come from the record unless the layout is made of them."""
        dims = self.type.dims if self.type.layout is TensorLayout.NZ else len(self.type.dims)
        return f"tensor {self.type.dtype.name} {dims} {self.type.layout.name}"


@dataclass(frozen=True, slots=True)
class PtrSpec:
    """A pointer: address and the bounds of its buffer."""

    type: PtrType
    size = PTR_BYTES

    @property
    def text(self) -> str:
        """What the generated code depends on."""
        return f"ptr {self.type.dtype.name}"


@dataclass(frozen=True)
class _DtypeSpec:
    """An operand whose kind, called `word`, and dtype are all there is to know."""

    dtype: DataType
    word: ClassVar[str]

    @property
    def text(self) -> str:
        """What the generated code depends on."""
        return f"{self.word} {self.dtype.name}"


class ScalarSpec(_DtypeSpec):
    """A scalar of a dtype, in one word; floats as FP32."""

    word = "scalar"
    size = WORD


@dataclass(frozen=True, slots=True)
class SequenceSpec:
    """A sequence of integers, one word each."""

    length: int

    @property
    def size(self) -> int:
        """Bytes."""
        return self.length * WORD

    @property
    def text(self) -> str:
        """What the generated code depends on."""
        return f"sequence {self.length}"


@dataclass(frozen=True, slots=True)
class StructSpec:
    """The address of a struct in the frame; only for ops the scalar unit executes itself."""

    type: StructType
    size = WORD

    @property
    def text(self) -> str:
        """What the generated code depends on."""
        return f"struct {self.type.fields}"


@dataclass(frozen=True, slots=True)
class NothingSpec:
    """An absent optional operand."""

    size = 0
    text = "nothing"


class RegSpec(_DtypeSpec):
    """A vector register: its 256 bytes."""

    word = "reg"
    size = REGISTER_BYTES


class MaskSpec(_DtypeSpec):
    """A predicate: one byte, 0 or 1, a register byte; `dtype` is its tag."""

    word = "mask"
    size = REGISTER_BYTES


class AddrRegSpec(_DtypeSpec):
    """An address register: its offset in elements."""

    word = "addr_reg"
    size = WORD


@dataclass(frozen=True, slots=True)
class UnalignSpec:
    """A staging register of an unaligned stream: address, number of pending bytes, the bytes."""

    size = UNALIGN_BYTES
    text = "unalign"


Spec: TypeAlias = (
    TileSpec | TensorSpec | PtrSpec | ScalarSpec | SequenceSpec | StructSpec | NothingSpec
    | RegSpec | MaskSpec | AddrRegSpec | UnalignSpec
)


@dataclass(frozen=True)
class Signature:
    """Everything static about a call of an op."""

    entry: OpEntry | None  # None: a debugging statement
    core: CoreKind
    specs: tuple[Spec, ...]
    attrs: tuple[tuple[str, Any], ...]
    results: tuple[Spec, ...]
    registers: bool = False
    """A register op of a vector function."""

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Byte offset of every operand, then of every result, then the size."""
        positions, position = [], frames.OPERANDS
        for spec in self.specs:
            positions.append(position)
            position += spec.size
        for spec in self.results:
            positions.append(position)
            position += spec.size
        return (*positions, position)

    @property
    def size(self) -> int:
        """Bytes of a record."""
        return self.offsets[-1]

    @property
    def result_offsets(self) -> tuple[int, ...]:
        """Byte offsets of the results."""
        return self.offsets[len(self.specs) : -1]

    @cached_property
    def text(self) -> str:
        """Canonical text; equal text means equal code."""
        key = self.entry.key if self.entry is not None else ""
        parts = (key, self.core.value, *(s.text for s in self.specs), repr(self.attrs), *(s.text for s in self.results))
        return "\n".join(parts)

    @property
    def symbol(self) -> str:
        """Name of the function in object code."""
        leaf = self.entry.leaf if self.entry is not None else "debug"
        return f"op_{leaf}_{hashlib.sha256(self.text.encode()).hexdigest()[:16]}"


# --- operands inside an op function -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tile:
    """A tile inside an op function: host address of its space, address, valid extents."""

    type: TileType
    memory: Value
    addr: Scalar
    vr: Scalar
    vc: Scalar
    foreign: bool = False

    @property
    def dtype(self) -> DataType:
        """Element dtype."""
        return self.type.dtype

    def on(self, sub: int) -> Tile:
        """The same tile in the Vec memory of AIV `sub`, for tiles named by the cube core."""
        moved = self.addr.code.at(self.memory, sub * UB_STEP)
        return Tile(self.type, moved, self.addr, self.vr, self.vc, self.foreign)


@dataclass(frozen=True)
class Tensor:
    """A tensor inside an op function: host addresses of its first byte and of its buffer's bounds, extents, strides.

    Strides in elements. `transfer` = (row stride, column stride, i1: they replace the strides of the moved axes).
    """

    type: TensorType
    base: Value
    low: Value
    high: Value
    dims: tuple[Scalar, ...]
    strides: tuple[Scalar, ...]
    transfer: tuple[Scalar, Scalar, Scalar]

    @property
    def dtype(self) -> DataType:
        """Element dtype."""
        return self.type.dtype

    def steps(self, axes: tuple[int | None, int]) -> tuple[Scalar, Scalar]:
        """Elements from tile row to tile row and from column to column of a transfer, as `TensorArg.steps`."""
        row, col, is_set = self.transfer
        own = 0 if axes[0] is None else self.strides[axes[0]]
        return is_set.choose(row, own), is_set.choose(col, self.strides[axes[1]])


@dataclass(frozen=True)
class Pointer:
    """A pointer inside an op function: host addresses (i64)."""

    type: PtrType
    address: Value
    low: Value
    high: Value


def space_memory(code: Code, core: Value, space: MemorySpace, foreign: bool) -> Value:
    """Host address of byte 0 of a space: the AIV's own UB, else a place in the block's arena."""
    if space is MemorySpace.Vec and not foreign:
        return code.load(PTR, core, CORE["ub"])
    return code.at(code.load(PTR, core, CORE["arena"]), ARENA[space])


def load_operand(code: Code, core: Value, record: Value, spec: Spec, offset: int) -> Any:
    """The operand a record holds at `offset`, as op facets take it."""
    match spec:
        case TileSpec(type=type_, foreign=foreign):
            addr, vr, vc = (Scalar(code, code.load(I64, record, offset + k * WORD)) for k in range(3))
            return Tile(type_, space_memory(code, core, type_.space, foreign), addr, vr, vc, foreign)
        case TensorSpec(type=type_):
            return load_tensor(code, record, offset, type_)
        case PtrSpec(type=ptr_type):
            return Pointer(ptr_type, *(code.load(I64, record, offset + k * WORD) for k in range(3)))
        case ScalarSpec(dtype=dtype):
            return Scalar(code, load_scalar(code, dtype, record, offset), dtype)
        case SequenceSpec(length=length):
            return tuple(Scalar(code, code.load(I64, record, offset + k * WORD)) for k in range(length))
        case StructSpec():
            return code.load(PTR, record, offset)
    return None


def load_tensor(code: Code, record: Value, offset: int, type_: TensorType) -> Tensor:
    """The tensor record at `offset`."""
    places = TensorRecord(type_.rank)

    def words(start: int, count: int) -> tuple[Scalar, ...]:
        return tuple(Scalar(code, code.load(I64, record, offset + start + k * WORD)) for k in range(count))

    base, low, high = (code.load(PTR, record, offset + place) for place in (places.BASE, places.LOW, places.HIGH))
    row, col, is_set = words(places.transfer, 3)
    strides = words(places.strides, type_.rank)
    return Tensor(type_, base, low, high, words(places.dims, type_.rank), strides, (row, col, is_set != 0))


def load_scalar(code: Code, dtype: DataType, record: Value, offset: int) -> Value:
    """A scalar stored by `store_scalar`."""
    if dtype is DataType.DT_BOOL:
        return codecs.decode(code, code.load(codecs.memory_type(dtype), record, offset), dtype)
    return code.load(codecs.value_type(dtype), record, offset)


def store_scalar(code: Code, value: Value, dtype: DataType, record: Value, offset: int) -> None:
    """A scalar into one word: integers in their width, floats as FP32, BOOL as a byte."""
    if dtype is DataType.DT_BOOL:
        value = codecs.encode(code, value, dtype)
    code.store(value, record, offset)


