"""`VectorBuilder`: what the `lower` facet of a register op is handed; its protocol is `ops.builder.VectorUnitBuilder`.

Code is emitted inline into the vector function. Results are given with `give`, `give_bits` and `give_mask`, in the
order of the op's targets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import llvmlite.ir as ir

from pypto_pro.dtypes import DataType
from pypto_pro.enums import MemorySpace, MergeMode
from pypto_pro.hw.a5 import REGISTER_BYTES
from pypto_pro.ir import nodes as n
from pypto_pro.ir.types import MaskType, RegType
from pypto_pro.native import codecs, frames, lanes, math
from pypto_pro.native import convert as conversions
from pypto_pro.native.emit import I8, I32, I64, PTR, VOID, Code, Value, splat, suffix, vector
from pypto_pro.native.engine import host
from pypto_pro.native.frames import CORE
from pypto_pro.native.issue import IssuedTile
from pypto_pro.native.lanes import Lanes, arithmetic
from pypto_pro.native.scalars import Scalar, index_value

UB_BYTES = frames.capacity(MemorySpace.Vec)


@dataclass(frozen=True, eq=False)
class Reg:
    """A register operand: its stored elements."""

    code: Code
    bits: Value
    dtype: DataType

    @property
    def count(self) -> int:
        """Lanes."""
        return REGISTER_BYTES // self.dtype.nbytes

    @property
    def width(self) -> int:
        """Bytes of a lane."""
        return self.dtype.nbytes

    @property
    def lanes(self) -> Lanes:
        """Values to compute with; floats as FP32."""
        return Lanes(self.code, codecs.decode(self.code, self.bits, self.dtype), arithmetic(self.dtype))

    def as_(self, dtype: DataType) -> Reg:
        """The same bytes as a register of another dtype."""
        type_ = vector(REGISTER_BYTES // dtype.nbytes, codecs.memory_type(dtype))
        bits = self.bits if self.bits.type == type_ else self.code.b.bitcast(self.bits, type_)
        return Reg(self.code, bits, dtype)


@dataclass(frozen=True, eq=False)
class Mask:
    """A predicate operand: <256 x i8> of 0 and 1."""

    code: Code
    bits: Value

    def lanes(self, width: int) -> Lanes:
        """BOOL lanes: the first byte of every lane of `width` bytes."""
        b = self.code.b
        if width == 1:
            return Lanes(self.code, b.icmp_unsigned("!=", self.bits, splat(self.bits.type, 0)), DataType.DT_BOOL)
        words = b.bitcast(self.bits, vector(REGISTER_BYTES // width, ir.IntType(8 * width)))
        low = b.and_(words, splat(words.type, 1))
        return Lanes(self.code, b.icmp_unsigned("!=", low, splat(words.type, 0)), DataType.DT_BOOL)


class VectorBuilder:
    """Emits register ops at the current position of a vector function."""

    def __init__(self, code: Code, core: Value) -> None:
        self.code = code
        self.core = core
        self.space = code.load(PTR, core, CORE["ub"])
        self._stmt: n.Op
        self.targets: list[Any] = []
        self._old: Sequence[Value] = ()
        self._given: list[Value] = []

    def begin(self, stmt: n.Op, targets: list[Any], old: Sequence[Value]) -> None:
        """A new op."""
        self._stmt, self.targets, self._old, self._given = stmt, targets, old, []

    def given(self) -> list[Value]:
        """The results of the op, as values of register variables."""
        return self._given

    # --- functions on lanes ------------------------------------------------------------------------------------------

    max = staticmethod(lanes.maximum)
    min = staticmethod(lanes.minimum)
    fma = staticmethod(lanes.fused)
    exp = staticmethod(math.exp)
    log = staticmethod(math.log)
    sqrt = staticmethod(math.sqrt)
    abs = staticmethod(math.absolute)
    convert = staticmethod(conversions.convert)
    integral = staticmethod(conversions.integral)

    def full(self, number: Any, dtype: DataType) -> Lanes:
        """A number, converted to `dtype` as C does (and rounded), in every lane of a register of `dtype`."""
        if isinstance(number, Scalar):
            value = codecs.convert(self.code, number.value, number.dtype, dtype)
        else:
            value = codecs.constant(number, dtype)
        count = REGISTER_BYTES // dtype.nbytes
        return Lanes(self.code, lanes.spread(self.code, value, count), arithmetic(dtype))

    def indices(self, dtype: DataType, start: Any = 0, step: int = 1) -> Lanes:
        """start + step * lane index, as lanes of an integer dtype."""
        element = codecs.memory_type(dtype)
        count = REGISTER_BYTES // dtype.nbytes
        steps = [element(step * k & (1 << element.width) - 1) for k in range(count)]
        counted = Lanes(self.code, ir.Constant(vector(count, element), steps), dtype)
        return counted.new((counted + start).value)

    def first(self, limit: Any, width: int) -> Lanes:
        """BOOL lanes of `width` bytes: lane index < limit (unsigned 32-bit)."""
        count = REGISTER_BYTES // width
        numbers = ir.Constant(vector(count, I32), [I32(k) for k in range(count)])
        bound = self.code.b.trunc(index_value(self.code, limit), I32)
        below = self.code.b.icmp_unsigned("<", numbers, lanes.spread(self.code, bound, count))
        return Lanes(self.code, below, DataType.DT_BOOL)

    def choice(self, pattern: Sequence[bool]) -> Lanes:
        """BOOL lanes known now."""
        bits = [ir.IntType(1)(int(p)) for p in pattern]
        return Lanes(self.code, ir.Constant(vector(len(bits), ir.IntType(1)), bits), DataType.DT_BOOL)

    def shuffle(self, values: Lanes, order: Sequence[int], other: Lanes | None = None) -> Lanes:
        """Lanes picked by number from `values`, then `other` (numbers from the count of `values` on)."""
        second = other.value if other is not None else ir.Constant(values.value.type, ir.Undefined)
        picked = ir.Constant(vector(len(order), I32), [I32(k) for k in order])
        return values.new(self.code.b.shuffle_vector(values.value, second, picked))

    def fold(self, values: Lanes, combine: Callable[[Lanes, Lanes], Lanes]) -> Scalar:
        """All lanes combined into one: the upper half onto the lower half, again and again."""
        return values.halved(combine)

    def placed(self, numbers: Sequence[Scalar], dtype: DataType) -> Lanes:
        """A register of `dtype` holding the numbers in its first lanes, 0 elsewhere."""
        kind = arithmetic(dtype)
        made = ir.Constant(vector(REGISTER_BYTES // dtype.nbytes, codecs.value_type(kind)), None)
        for k, number in enumerate(numbers):
            made = self.code.b.insert_element(made, number.to(kind).value, I32(k))
        return Lanes(self.code, made, kind)

    def with_lane(self, values: Lanes, index: int, bits: Scalar, dtype: DataType) -> Reg:
        """Lanes stored as `dtype`, with the bit pattern of one of them replaced by an integer."""
        stored = Reg(self.code, codecs.encode(self.code, values.value, dtype), dtype)
        unsigned = {1: DataType.DT_UINT8, 2: DataType.DT_UINT16, 4: DataType.DT_UINT32, 8: DataType.DT_UINT64}
        words = stored.as_(unsigned[dtype.nbytes])
        pattern = bits.to(words.dtype).value
        return Reg(self.code, self.code.b.insert_element(words.bits, pattern, I32(index)), words.dtype).as_(dtype)

    # --- results -----------------------------------------------------------------------------------------------------

    def old(self, index: int = 0) -> Reg | Mask:
        """What a target held before the op."""
        target = self.targets[index]
        if isinstance(target, MaskType):
            return Mask(self.code, self._old[index])
        return Reg(self.code, self._old[index], target.dtype)

    def give(self, values: Lanes, mask: Mask | None = None, mode: MergeMode | None = None) -> None:
        """The next target: values rounded to its dtype; inactive lanes 0, or the old ones under MERGING."""
        target = self.targets[len(self._given)]
        assert isinstance(target, RegType)
        self.give_bits(Reg(self.code, codecs.encode(self.code, values.value, target.dtype), target.dtype), mask, mode)

    def give_bits(self, reg: Reg, mask: Mask | None = None, mode: MergeMode | None = None) -> None:
        """The next target: bytes as they are; masked by lanes of the register's width."""
        index = len(self._given)
        bits = reg.bits
        if mask is not None:
            other = ir.Constant(bits.type, None)
            if mode is MergeMode.MERGING:
                before = self.old(index)
                assert isinstance(before, Reg)
                other = before.as_(reg.dtype).bits
            bits = self.code.b.select(mask.lanes(reg.width).value, bits, other)
        target = self.targets[index]
        self._given.append(Reg(self.code, bits, reg.dtype).as_(target.dtype).bits)

    def give_mask(self, active: Lanes, width: int) -> None:
        """The next target, a mask: the first bit of every lane of `width` bytes."""
        words = self.code.b.zext(active.value, vector(REGISTER_BYTES // width, ir.IntType(8 * width)))
        bytes_ = vector(REGISTER_BYTES, I8)
        self._given.append(words if width == 1 else self.code.b.bitcast(words, bytes_))

    # --- UB ----------------------------------------------------------------------------------------------------------

    def element_start(self, tile: IssuedTile, offset: Any) -> Scalar:
        """Byte offset of a load or store offset: elements of the tile dtype, [row, col] by the pitch, or none."""
        match offset:
            case None:
                elements = Scalar(self.code, I64(0))
            case (row, col):
                pitch = tile.type.shape[-1] if len(tile.type.shape) > 1 else 1
                elements = self._index(row) * pitch + self._index(col)
            case _ if hasattr(offset, "offset"):
                return Scalar(self.code, self.code.b.mul(offset.offset, I64(offset.dtype.nbytes)))
            case _:
                elements = self._index(offset)
        return Scalar(self.code, (elements * tile.type.dtype.bits() // 8).value)

    def _index(self, number: Any) -> Scalar:
        return Scalar(self.code, index_value(self.code, number))

    def load(self, tile: IssuedTile, start: Any, dtype: DataType, count: int) -> Reg:
        """`count` elements of `dtype` at a byte offset of the tile; bytes outside UB read as zero.

        Fewer than a register's worth comes back in the first lanes of a shorter `Reg`.
        """
        type_ = vector(count, codecs.memory_type(dtype))
        size = count * dtype.nbytes
        address = (tile.addr + start).value
        edge = self.code.bytes_slot(REGISTER_BYTES)
        inside = self._inside(address, size)
        with self.code.b.if_then(self.code.b.not_(inside), likely=False):
            self.code.call("vf_edge_load", VOID, [self.core, address, I64(size), edge])
        place = self.code.b.select(inside, self.code.at(self.space, address), edge)
        return Reg(self.code, self.code.load(type_, place), dtype)

    def store(self, tile: IssuedTile, start: Any, reg: Reg, active: Lanes | None = None) -> None:
        """Write the lanes of a register (the active ones) at a byte offset; bytes outside UB are dropped."""
        code, count = self.code, reg.bits.type.count
        address = (tile.addr + start).value
        inside = self._inside(address, count * reg.width)
        with code.b.if_else(inside, likely=True) as (yes, no):
            with yes:
                self._store(code.at(self.space, address), reg.bits, active)
            with no:
                edge, mask = code.bytes_slot(REGISTER_BYTES), code.bytes_slot(REGISTER_BYTES)
                code.store(reg.bits, edge)
                every = splat(vector(count, ir.IntType(1)), 1) if active is None else active.value
                code.store(code.b.sext(every, vector(count, ir.IntType(8 * reg.width))), mask)
                code.call("vf_edge_store", VOID, [self.core, address, I64(count * reg.width), edge, mask])

    def _store(self, place: Value, bits: Value, active: Lanes | None) -> None:
        code = self.code
        if active is None:
            code.store(bits, place)
        elif host().has_byte_masks:
            name = f"llvm.masked.store.{suffix(bits.type)}.p0"
            code.call(name, VOID, [bits, place, I32(1), active.value])
        else:
            code.store(code.b.select(active.value, bits, code.load(bits.type, place)), place)

    def _inside(self, address: Value, size: int) -> Value:
        return self.code.b.icmp_unsigned("<=", address, I64(UB_BYTES - size))
