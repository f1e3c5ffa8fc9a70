"""Short forms over llvmlite's IRBuilder: byte-offset loads and stores, counted loops, intrinsics.

Loads and stores carry alignment 1: on-chip addresses are only as aligned as the author made them, and unaligned vector
access costs nothing on the hosts we run on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import llvmlite.ir as ir

Value: TypeAlias = Any  # an llvmlite SSA value; llvmlite is untyped

I1, I8, I16, I32, I64 = (ir.IntType(n) for n in (1, 8, 16, 32, 64))
F32, F64 = ir.FloatType(), ir.DoubleType()
PTR = ir.PointerType()
VOID = ir.VoidType()


def vector(lanes: int, element: Any) -> Any:
    """The LLVM vector type of `lanes` elements."""
    return ir.VectorType(element, lanes)


class _Splat(ir.Constant):  # type: ignore[misc]  # llvmlite is untyped
    """A vector constant whose lanes are equal, as llvmlite's instructions want an operand: one lane's text, not all."""

    def __init__(self, type_: Any, text: str, lane: Any = None) -> None:
        self.type = type_
        self.text = text
        self.constant = [lane]  # llvmlite looks at the lanes of shuffle orders

    def get_reference(self) -> str:
        """The operand's text."""
        return self.text


def splat(type_: Any, value: int | float) -> Any:
    """A constant of a scalar or vector type with every lane equal."""
    if not isinstance(type_, ir.VectorType):
        return ir.Constant(type_, value)
    if value == 0 and str(value) != "-0.0":
        return _Splat(type_, "zeroinitializer", ir.Constant(type_.element, value))
    lane = ir.Constant(type_.element, value)
    return _Splat(type_, f"splat ({lane})", lane)


def undefined(type_: Any) -> Any:
    """A vector whose lanes nobody looks at."""
    return _Splat(type_, "poison")


def like(type_: Any, element: Any) -> Any:
    """`element`, as a vector of as many lanes as `type_` when that is a vector."""
    return ir.VectorType(element, type_.count) if isinstance(type_, ir.VectorType) else element


class _Callee:
    """A function address as llvmlite's call instruction wants it: a value with a function type."""

    type = PTR

    def __init__(self, address: Value, function_type: Any) -> None:
        self.address = address
        self.function_type = function_type

    def get_reference(self) -> str:
        """The operand's text."""
        return str(self.address.get_reference())


class Code:
    """Where instructions go: one function, one current position. `b` is the llvmlite builder."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.module = function.module
        slots, body = function.append_basic_block("slots"), function.append_basic_block("entry")
        ir.IRBuilder(slots).branch(body)
        self.slots = ir.IRBuilder(slots)  # allocas stand in a block of their own, before everything
        self.b = ir.IRBuilder(body)

    def slot(self, type_: Any, count: int = 1) -> Value:
        """Stack memory for `count` values, allocated once a call however often the position is passed."""
        self.slots.position_at_start(self.slots.block)
        memory = self.slots.alloca(type_, None if count == 1 else ir.Constant(I32, count))
        memory.type = PTR  # llvmlite would print a typed pointer
        return memory

    def bytes_slot(self, size: int) -> Value:
        """Stack memory of `size` bytes, 64-byte aligned."""
        memory = self.slot(ir.ArrayType(I8, max(size, 1)))
        memory.align = 64
        return memory

    def at(self, pointer: Value, offset: Any = 0) -> Value:
        """`pointer` moved by a byte offset (int or i64)."""
        if isinstance(offset, int):
            if offset == 0:
                return pointer
            offset = I64(offset)
        return self.b.gep(pointer, [offset], source_etype=I8)

    def load(self, type_: Any, pointer: Value, offset: Any = 0) -> Value:
        """Load from pointer + byte offset."""
        return self.b.load(self.at(pointer, offset), typ=type_, align=1)

    def store(self, value: Value, pointer: Value, offset: Any = 0) -> None:
        """Store to pointer + byte offset."""
        self.b.store(value, self.at(pointer, offset), align=1)

    def declare(self, name: str, returns: Any, params: Sequence[Any]) -> Any:
        """The function `name` of this module, declared on first use."""
        found = self.module.globals.get(name)
        return found or ir.Function(self.module, ir.FunctionType(returns, list(params)), name)

    def call(self, name: str, returns: Any, args: Sequence[Value]) -> Value:
        """Call a function (or intrinsic) by name; the parameter types are those of the arguments."""
        return self.b.call(self.declare(name, returns, [a.type for a in args]), list(args))

    def call_address(self, address: Value, returns: Any, args: Sequence[Value]) -> Value:
        """Call through a function pointer."""
        return self.b.call(_Callee(address, ir.FunctionType(returns, [a.type for a in args])), list(args))

    def intrinsic(self, name: str, *args: Value, returns: Any = None) -> Value:
        """Call `llvm.<name>.<type of the first argument>`, which returns that type unless told otherwise."""
        type_ = args[0].type
        return self.call(f"llvm.{name}.{suffix(type_)}", returns or type_, args)

    def copy_bytes(self, target: Value, source: Value, size: Any) -> None:
        """memcpy of `size` bytes (int or i64) between areas that do not overlap."""
        count = I64(size) if isinstance(size, int) else size
        self.call("llvm.memcpy.p0.p0.i64", VOID, [target, source, count, I1(0)])

    def fill_bytes(self, target: Value, byte: int, size: Any) -> None:
        """memset."""
        count = I64(size) if isinstance(size, int) else size
        self.call("llvm.memset.p0.i64", VOID, [target, I8(byte), count, I1(0)])

    @contextmanager
    def loop(self, start: Any, stop: Any, step: int = 1, name: str = "loop") -> Iterator[Value]:
        """`for i in range(start, stop, step)` over i64 with a positive constant step; yields i."""
        first = I64(start) if isinstance(start, int) else start
        last = I64(stop) if isinstance(stop, int) else stop
        before = self.b.block
        body = self.function.append_basic_block(name)
        after = self.function.append_basic_block(f"{name}_end")
        self.b.cbranch(self.b.icmp_signed("<", first, last), body, after)
        self.b.position_at_end(body)
        index = self.b.phi(I64)
        index.add_incoming(first, before)
        yield index
        following = self.b.add(index, I64(step))
        index.add_incoming(following, self.b.block)
        self.b.cbranch(self.b.icmp_signed("<", following, last), body, after)
        self.b.position_at_end(after)

    def load_atomic(self, pointer: Value) -> Value:
        """An i64 other threads may write."""
        return self.b.load_atomic(pointer, "seq_cst", 8, typ=I64)

    def load_word(self, type_: Any, pointer: Value) -> Value:
        """An aligned integer other threads may write, read in one piece."""
        return self.b.load_atomic(pointer, "monotonic", type_.width // 8, typ=type_)

    def store_atomic(self, value: Value, pointer: Value) -> None:
        """An i64 other threads read; as an exchange, since llvmlite has no atomic store through opaque pointers."""
        self.b.atomic_rmw("xchg", pointer, value, "seq_cst")

    def add_atomic(self, value: Value | int, pointer: Value) -> Value:
        """Add to an i64 other threads use; gives the old value."""
        return self.b.atomic_rmw("add", pointer, I64(value) if isinstance(value, int) else value, "seq_cst")

    def while_(self, condition: Callable[[], Value], body: Callable[[], None]) -> None:
        """`while condition(): body()`."""
        head, inside, after = self.block("while"), self.block("do"), self.block("done")
        self.b.branch(head)
        self.b.position_at_end(head)
        self.b.cbranch(condition(), inside, after)
        self.b.position_at_end(inside)
        body()
        if not self.b.block.is_terminated:
            self.b.branch(head)
        self.b.position_at_end(after)

    def block(self, name: str) -> Any:
        """A new basic block."""
        return self.function.append_basic_block(name)

    def minimum(self, lhs: Value, rhs: Value) -> Value:
        """Smaller of two signed integers."""
        return self.intrinsic("smin", lhs, rhs)

    def all_of(self, *conditions: Value) -> Value:
        """Conjunction of i1 values."""
        result = conditions[0]
        for condition in conditions[1:]:
            result = self.b.and_(result, condition)
        return result


def suffix(type_: Any) -> str:
    """The part of an overloaded intrinsic's name that spells a type: `i64`, `v16f32`, `p0`."""
    if isinstance(type_, ir.VectorType):
        return f"v{type_.count}{suffix(type_.element)}"
    if isinstance(type_, ir.PointerType):
        return "p0"
    names = {F32: "f32", F64: "f64", ir.HalfType(): "f16"}
    return names.get(type_) or f"i{type_.width}"
