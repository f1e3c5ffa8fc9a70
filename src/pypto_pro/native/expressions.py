"""IR expressions -> SSA values.

A scalar gives its arithmetic value (codecs.value_type), a pointer a triple (address, low, high) of i64, a tile a
pointer to its descriptor, a tensor a pointer to its record, a struct a pointer to its bytes.
"""

from __future__ import annotations

from typing import Any

from pypto_pro.dtypes import DataType
from pypto_pro.ir import nodes as n
from pypto_pro.ir.structs import layout_of
from pypto_pro.ir.types import (
    ArrayType,
    GroupType,
    PtrType,
    ScalarType,
    StructArrayType,
    StructType,
    TensorType,
    TileType,
)
from pypto_pro.native import codecs, scalars
from pypto_pro.native.emit import I64, PTR, Code, Value
from pypto_pro.native.frames import CORE, TILE_ADDR, TILE_COLS, TILE_IDS, TILE_ROWS, WORD, TensorRecord
from pypto_pro.native.storage import Storage, load_member, load_pointer, load_variable

_DESCRIPTOR = {"addr": TILE_ADDR, "vr": TILE_ROWS, "vc": TILE_COLS}
_QUERIES = {
    "block_idx": "block_idx", "subblock_idx": "subblock", "subblock_num": "subblock_num", "spr": "spr",
}  # fmt: skip


class Expressions:
    """Evaluates expressions of one program at the current position."""

    def __init__(self, code: Code, core: Value, storage: Storage, block_num: Value) -> None:
        self.code = code
        self.core = core
        self.storage = storage
        self.block_num = block_num

    def value(self, expr: n.Expr) -> Any:
        """The value of any expression; see the module for its form."""
        match expr:
            case n.Const(value=value, type=type_):
                return codecs.constant(value, type_.dtype)
            case n.Local(var=var):
                return self.local(var)
            case n.Binary() | n.Unary() | n.Convert():
                return self._arithmetic(expr)
            case n.Choose() | n.Pick():
                return self._selection(expr)
            case n.Query() | n.Dim() | n.TileAttr() | n.Field():
                return self._read(expr)
            case n.Slot() | n.TilePlus():
                return self._tile(expr)
        return self._pointer(expr)

    def index(self, expr: n.Expr) -> Value:
        """An integer expression as i64."""
        return codecs.convert(self.code, self.value(expr), n.scalar_dtype(expr), DataType.DT_INDEX)

    def condition(self, expr: n.Expr) -> Value:
        """A scalar expression as i1."""
        return codecs.nonzero(self.code, self.value(expr), n.scalar_dtype(expr))

    def local(self, var: n.Var) -> Any:
        """The current value of a variable."""
        address = self.storage.address(var)
        match var.type:
            case ScalarType(dtype=dtype):
                return load_variable(self.code, dtype, address)
            case PtrType():
                return load_pointer(self.code, address)
            case TileType() | TensorType():
                return address if self.storage.owns(var) else self.code.load(PTR, address)
        return address

    def record(self, tensor: n.Var) -> Value:
        """Address of a tensor variable's record."""
        return self.local(tensor)

    # --- scalars -----------------------------------------------------------------------------------------------------

    def _arithmetic(self, expr: n.Binary | n.Unary | n.Convert) -> Value:
        code = self.code
        match expr:
            case n.Binary(op=("and" | "or") as op, lhs=lhs, rhs=rhs):
                left, right = self.condition(lhs), self.condition(rhs)
                return code.b.and_(left, right) if op == "and" else code.b.or_(left, right)
            case n.Binary(op=op, lhs=lhs, rhs=rhs):
                return scalars.binary(code, op, self.value(lhs), self.value(rhs), n.scalar_dtype(lhs))
            case n.Unary(op=op, operand=operand):
                return scalars.unary(code, op, self.value(operand), n.scalar_dtype(operand))
            case n.Convert(operand=operand, type=type_):
                return codecs.convert(code, self.value(operand), n.scalar_dtype(operand), type_.dtype)

    def _selection(self, expr: n.Choose | n.Pick) -> Any:
        if isinstance(expr, n.Choose):
            return self._select(self.condition(expr.cond), self.value(expr.then), self.value(expr.other))
        index = self.index(expr.index)
        options = [self.value(option) for option in expr.options]
        chosen = options[-1]
        for k in range(len(options) - 2, -1, -1):
            chosen = self._select(self.code.b.icmp_signed("==", index, I64(k)), options[k], chosen)
        return chosen

    def _select(self, condition: Value, then: Any, other: Any) -> Any:
        if isinstance(then, tuple):
            return tuple(self.code.b.select(condition, t, o) for t, o in zip(then, other, strict=True))
        return self.code.b.select(condition, then, other)

    def _read(self, expr: n.Query | n.Dim | n.TileAttr | n.Field) -> Value:
        code = self.code
        match expr:
            case n.Query(name="block_num", type=type_):
                return codecs.convert(code, self.block_num, DataType.DT_INDEX, type_.dtype)
            case n.Query(name=name, type=type_):
                word = code.load(I64, self.core, CORE[_QUERIES[name]])
                return codecs.convert(code, word, DataType.DT_INDEX, type_.dtype)
            case n.Dim(tensor=tensor, axis=axis):
                assert isinstance(tensor.type, TensorType)
                return code.load(I64, self.record(tensor), TensorRecord(tensor.type.rank).dims + axis * WORD)
            case n.TileAttr(tile=tile, what="mutex", index=index):
                return code.load(I64, self.value(tile), TILE_IDS + index * WORD)
            case n.TileAttr(tile=tile, what=what):
                return code.load(I64, self.value(tile), _DESCRIPTOR[what])
            case n.Field(place=place):
                address = self.place(place)
                return address if isinstance(place.type, StructType) else load_member(code, place.type.dtype, address)

    def place(self, place: n.Place) -> Value:
        """Address of a spot in a struct; indices out of range are held inside."""
        code, address, type_ = self.code, self.storage.address(place.var), place.var.type
        if isinstance(type_, StructType) and type_.is_tiling:
            address = code.load(PTR, address)
        if isinstance(type_, StructArrayType):
            if place.index is not None:
                index = self.held(place.index, type_.length)
                address = code.at(address, code.b.mul(index, I64(layout_of(type_.struct).size)))
            type_ = type_.struct
        member: Any = type_
        for name in place.path:
            address = code.at(address, layout_of(member).offsets[name])
            member = member.field(name)
        if isinstance(member, ArrayType) and place.element is not None:
            index = self.held(place.element, member.length)
            address = code.at(address, code.b.mul(index, I64(member.element.dtype.nbytes)))
        return address

    def held(self, index: n.Expr, length: int) -> Value:
        """An index kept below `length`, so that a wrong one cannot leave the object."""
        return self.code.intrinsic("umin", self.index(index), I64(length - 1))

    # --- tiles and pointers ------------------------------------------------------------------------------------------

    def _tile(self, expr: n.Slot | n.TilePlus) -> Value:
        code = self.code
        if isinstance(expr, n.Slot):
            assert isinstance(expr.group.type, GroupType)
            index = self.held(expr.index, expr.group.type.depth)
            step = code.b.mul(index, I64(self.storage.tile_bytes))
            return code.at(self.storage.address(expr.group), step)
        moved = code.bytes_slot(self.storage.tile_bytes)
        source = self.value(expr.tile)
        code.copy_bytes(moved, source, self.storage.tile_bytes)
        step = code.b.mul(self.index(expr.offset), I64(expr.type.dtype.bits()))
        addr = code.b.add(code.load(I64, source, TILE_ADDR), code.b.ashr(step, I64(3)))
        code.store(addr, moved, TILE_ADDR)
        return moved

    def _pointer(self, expr: n.Expr) -> Any:
        code = self.code
        match expr:
            case n.PtrPlus(ptr=ptr, offset=offset, type=type_):
                address, low, high = self.value(ptr)
                step = code.b.mul(self.index(offset), I64(type_.dtype.nbytes))
                return code.b.add(address, step), low, high
            case n.PtrCast(ptr=ptr):
                return self.value(ptr)
            case n.PtrOf(tensor=tensor):
                record = self.record(tensor)
                return tuple(code.load(I64, record, k * WORD) for k in range(3))
            case n.IsNull(ptr=ptr):
                return code.b.icmp_unsigned("==", self.value(ptr)[0], I64(0))
        raise AssertionError(f"no native form of {type(expr).__name__}")
