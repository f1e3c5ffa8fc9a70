"""Operands at issue: what a program holds of an op's operands before the record of the call is written.

The scalar facets of an op (`rewrite`, `issue`, `pipe`) are asked with these objects.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pypto_pro.dtypes import DataType
from pypto_pro.enums import CoreKind, MemorySpace
from pypto_pro.ir import nodes as n
from pypto_pro.ir.types import PtrType, ScalarType, StructType, TensorType, TileType
from pypto_pro.native import codecs
from pypto_pro.native.calls import (
    NothingSpec,
    PtrSpec,
    ScalarSpec,
    SequenceSpec,
    Signature,
    Spec,
    StructSpec,
    TensorSpec,
    TileSpec,
    store_scalar,
)
from pypto_pro.native.emit import I64, Code, Value
from pypto_pro.native.expressions import Expressions
from pypto_pro.native.frames import DOUBTED, TILE_ADDR, TILE_COLS, TILE_ROWS, WORD
from pypto_pro.native.scalars import Scalar, index_value
from pypto_pro.native.storage import store_pointer


@dataclass(frozen=True)
class IssuedTile:
    """A tile operand: its descriptor."""

    code: Code
    type: TileType
    descriptor: Value

    @property
    def dtype(self) -> DataType:
        """Element dtype."""
        return self.type.dtype

    def _word(self, offset: int) -> Scalar:
        return Scalar(self.code, self.code.load(I64, self.descriptor, offset))

    @property
    def addr(self) -> Scalar:
        """Address, bytes."""
        return self._word(TILE_ADDR)

    @property
    def vr(self) -> Scalar:
        """Valid rows."""
        return self._word(TILE_ROWS)

    @property
    def vc(self) -> Scalar:
        """Valid columns."""
        return self._word(TILE_COLS)


@dataclass(frozen=True)
class IssuedTensor:
    """A tensor operand: its record."""

    type: TensorType
    record: Value


@dataclass(frozen=True)
class IssuedPointer:
    """A pointer operand: address and bounds."""

    type: PtrType
    words: tuple[Value, Value, Value]


@dataclass(frozen=True)
class IssuedStruct:
    """A struct operand: the address of its bytes."""

    type: StructType
    address: Value


def operand(expressions: Expressions, arg: n.Arg) -> Any:
    """The operand an argument of an op stands for: one of the classes above, `Scalar`, a tuple of those, or None."""
    if arg is None:
        return None
    if isinstance(arg, tuple):
        return tuple(Scalar(expressions.code, expressions.index(item)) for item in arg)
    value = expressions.value(arg)
    match arg.type:
        case ScalarType(dtype=dtype):
            return Scalar(expressions.code, value, dtype)
        case TileType():
            return IssuedTile(expressions.code, arg.type, value)
        case TensorType():
            return IssuedTensor(arg.type, value)
        case PtrType():
            return IssuedPointer(arg.type, value)
        case StructType():
            return IssuedStruct(arg.type, value)
    raise AssertionError(f"no native operand of type {arg.type}")


def spec_of(value: Any, core: CoreKind) -> Spec:
    """The static description of an operand."""
    match value:
        case None:
            return NothingSpec()
        case IssuedTile(type=type_):
            return TileSpec(type_, core is CoreKind.CUBE and type_.space is MemorySpace.Vec)
        case IssuedTensor(type=tensor):
            return TensorSpec(tensor)
        case IssuedPointer(type=ptr):
            return PtrSpec(ptr)
        case IssuedStruct(type=struct):
            return StructSpec(struct)
        case Scalar(dtype=dtype):
            return ScalarSpec(dtype)
        case tuple():
            return SequenceSpec(len(value))
        case float():
            return ScalarSpec(DataType.DT_FP32)
    return ScalarSpec(DataType.DT_INDEX)


def write_record(code: Code, record: Value, signature: Signature, site: int, operands: tuple[Any, ...]) -> None:
    """Fill an operand record."""
    code.store(I64(site), record)
    code.store(I64(0), record, DOUBTED)
    for spec, value, offset in zip(signature.specs, operands, signature.offsets, strict=False):
        match spec, value:
            case (TileSpec(size=size), IssuedTile(descriptor=descriptor)):
                code.copy_bytes(code.at(record, offset), descriptor, size)
            case (TensorSpec(), IssuedTensor(record=source)):
                code.copy_bytes(code.at(record, offset), source, spec.size)
            case (PtrSpec(), IssuedPointer(words=words)):
                store_pointer(code, words, code.at(record, offset))
            case (StructSpec(), IssuedStruct(address=address)):
                code.store(address, record, offset)
            case (SequenceSpec(), tuple()):
                for k, item in enumerate(value):
                    code.store(index_value(code, item), record, offset + k * WORD)
            case (ScalarSpec(dtype=dtype), _):
                number = value.value if isinstance(value, Scalar) else codecs.constant(value, dtype)
                store_scalar(code, number, dtype, record, offset)
