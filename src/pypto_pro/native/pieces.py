"""What op functions need besides arithmetic: variables, lane numbers, packed bits, tables, raw elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import llvmlite.ir as ir
import numpy as np
from numpy.typing import NDArray

from pypto_pro.dtypes import DataType
from pypto_pro.native import codecs
from pypto_pro.native.blocks import Emitter, Number
from pypto_pro.native.calls import Tile
from pypto_pro.native.emit import I8, I32, Code, Value, splat, vector
from pypto_pro.native.lanes import Lanes, spread
from pypto_pro.native.scalars import Scalar, index_value

D = DataType
RAW = {1: D.DT_UINT8, 2: D.DT_UINT16, 4: D.DT_UINT32, 8: D.DT_UINT64}


@dataclass(frozen=True, eq=False)
class Variable:
    """A number or lanes that generated code changes in the course of a loop."""

    code: Code
    slot: Value
    model: Any

    def get(self) -> Any:
        """Its value now."""
        value = self.code.load(self.model.value.type, self.slot)
        if isinstance(self.model, Lanes):
            return self.model.new(value)
        return Scalar(self.code, value, self.model.dtype)

    def set(self, value: Any) -> None:
        """Assign a value of its own dtype (numbers: anything convertible)."""
        if isinstance(self.model, Scalar) and not isinstance(value, Scalar):
            value = Scalar(self.code, codecs.constant(value, self.model.dtype), self.model.dtype)
        self.code.store(value.value, self.slot)


class Pieces(Emitter):
    """Emitter with the rarer pieces."""

    def variable(self, initial: Any) -> Variable:
        """A variable that starts as `initial` (a scalar, lanes, or an int)."""
        model = self.scalar(initial) if isinstance(initial, int) else initial
        made = Variable(self.code, self.code.slot(model.value.type), model)
        made.set(model)
        return made

    def iota(self, count: int, dtype: DataType) -> Lanes:
        """Lanes 0, 1, 2, ..."""
        type_ = vector(count, codecs.value_type(dtype))
        element = type_.element
        return Lanes(self.code, ir.Constant(type_, [element(k) for k in range(count)]), dtype)

    def disjoint(self, one: Tile, one_bytes: Number, other: Tile, other_bytes: Number) -> Scalar:
        """Whether the first bytes of two tiles have none in common."""
        ends = one.addr + self.scalar(one_bytes), other.addr + self.scalar(other_bytes)
        return (ends[0] <= other.addr) | (ends[1] <= one.addr)

    def covers(self, tile: Tile, size: Number) -> Scalar:
        """Whether the first `size` bytes of a tile lie inside its space."""
        return (tile.addr >= 0) & (tile.addr + self.scalar(size) <= self.capacity(tile))

    def fill_bytes(self, address: Value, byte: int, size: Number) -> None:
        """Set `size` bytes."""
        self.code.fill_bytes(address, byte, index_value(self.code, size))

    def copy_bytes(self, target: Value, source: Value, size: Number) -> None:
        """Copy bytes between areas that do not overlap."""
        self.code.copy_bytes(target, source, index_value(self.code, size))

    def byte(self, tile: Tile, offset: Number) -> Value:
        """Host address of the byte `offset` bytes behind the tile's address."""
        return self.code.at(tile.memory, (tile.addr + self.scalar(offset)).value)

    # --- bits --------------------------------------------------------------------------------------------------------

    def bits_of(self, number: Any, dtype: DataType) -> Scalar:
        """A number as the bits of one element of `dtype`."""
        raw = RAW[dtype.nbytes]
        lane = self.lanes_of(number, dtype, 1).lane(0)
        bits = codecs.encode(self.code, lane.value, dtype)
        return Scalar(self.code, self.code.b.bitcast(bits, codecs.value_type(raw)), raw)

    def store_flags(self, flags: Lanes, address: Value) -> None:
        """BOOL lanes as packed bits, lane 0 in the lowest bit of the first byte; a multiple of 8 lanes."""
        self.code.store(self.code.b.bitcast(flags.value, ir.IntType(flags.count)), address)

    def load_flags(self, address: Value, count: int) -> Lanes:
        """`count` packed bits as BOOL lanes."""
        bits = self.code.load(ir.IntType(count), address)
        return Lanes(self.code, self.code.b.bitcast(bits, vector(count, ir.IntType(1))), D.DT_BOOL)

    def count_true(self, flags: Lanes) -> Scalar:
        """How many BOOL lanes are true."""
        code = self.code
        bits = code.b.bitcast(flags.value, ir.IntType(flags.count))
        number = code.intrinsic("ctpop", bits)
        wide = I32 if flags.count <= 32 else ir.IntType(64)
        number = code.b.zext(number, wide) if flags.count < wide.width else number
        return Scalar(code, number, D.DT_INT32 if flags.count <= 32 else D.DT_INT64).to(D.DT_INDEX)

    # --- tables ------------------------------------------------------------------------------------------------------

    def table(self, values: NDArray[Any]) -> Value:
        """Address of a constant array; equal contents share one."""
        raw = np.ascontiguousarray(values).tobytes()
        module = self.code.module
        name = f"table{len([g for g in module.globals if g.startswith('table')])}"
        type_ = ir.ArrayType(I8, len(raw))
        made = ir.GlobalVariable(module, type_, name)
        made.global_constant, made.linkage, made.align = True, "internal", 64
        made.initializer = ir.Constant(type_, bytearray(raw))
        return made

    def lookup(self, table: Value, index: Lanes, dtype: DataType) -> Lanes:
        """table[index] lane by lane; the table holds raw elements of `dtype`."""
        code = self.code
        memory = codecs.value_type(RAW[dtype.nbytes])
        count = index.count
        places = code.b.zext(index.value, vector(count, ir.IntType(64)))
        addresses = code.b.gep(spread(code, table, count), [places], source_etype=memory)
        name = f"llvm.masked.gather.v{count}i{memory.width}.v{count}p0"
        everywhere = splat(vector(count, ir.IntType(1)), 1)
        type_ = vector(count, memory)
        bits = code.call(name, type_, [addresses, I32(1), everywhere, splat(type_, 0)])
        return Lanes(code, codecs.decode(code, self._typed(bits, dtype), dtype), self.lanes_of(0, dtype, 1).dtype)

    def _typed(self, bits: Value, dtype: DataType) -> Value:
        """Raw bits as the LLVM type `decode` takes."""
        wanted = vector(bits.type.count, codecs.memory_type(dtype))
        return bits if wanted == bits.type else self.code.b.bitcast(bits, wanted)
