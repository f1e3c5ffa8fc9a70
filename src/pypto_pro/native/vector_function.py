"""Vector functions: one LLVM function a call site, body inlined, registers as LLVM vectors.

The record of a call holds every variable of the caller the body mentions, by value: the call may be queued, and what
the body assigns is private to it. A register is a vector of stored elements (FP32 as float), a mask <256 x i8> with one
byte, 0 or 1, a register byte: producers set the first byte of a lane, consumers look at it, and LLVM folds the two.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import llvmlite.ir as ir

from pypto_pro.hw.a5 import REGISTER_BYTES
from pypto_pro.ir import nodes as n
from pypto_pro.ir.types import AddrRegType, MaskType, RegType, ScalarType, TensorType, TileType, UnalignRegType
from pypto_pro.ir.walk import walk
from pypto_pro.native import codecs, frames, opcode
from pypto_pro.native.calls import (
    AddrRegSpec,
    MaskSpec,
    RegSpec,
    ScalarSpec,
    Signature,
    Spec,
    UnalignSpec,
    load_scalar,
    store_scalar,
)
from pypto_pro.native.emit import I8, I64, PTR, VOID, Code, Value, splat, vector
from pypto_pro.native.expressions import Expressions
from pypto_pro.native.frames import BUDGET_OF_OPS, CORE, LAUNCH, OPERANDS, TILE_ADDR, UNALIGN_BYTES, WORD
from pypto_pro.native.issue import operand, spec_of, write_record
from pypto_pro.native.statements import Statements, when_cancelled
from pypto_pro.native.storage import Storage, load_pointer, store_pointer
from pypto_pro.native.vector_builder import VectorBuilder
from pypto_pro.native.vector_cursors import Cursors
from pypto_pro.native.vector_values import AddressRegister, Mask, Reg, StagingRegister, UbTile
from pypto_pro.ops.entry import OpEntry
from pypto_pro.ops.table import entry_of

if TYPE_CHECKING:
    from pypto_pro.native.program import CoreProgram

OPS_OF_A_BLOCK = 8
MASK_STATE_BYTES = 3 * WORD
"""What `get_mask_spr` reads as it was at issue: mode, high and low word, side by side in a core record."""

REGISTERS = RegType | MaskType | AddrRegType | UnalignRegType


@dataclass(frozen=True)
class Call:
    """What issues a call: function symbol, record size, how the record is filled, its site."""

    symbol: str
    size: int
    record: Callable[[], Value]
    site: int


def make_call(program: CoreProgram, stmt: n.VfCall) -> Call:
    """Compile the body of a vector function and say how to issue it."""
    return issue_of(program, VectorCode(program, stmt, captured_variables(program, stmt)))


def issue_of(program: CoreProgram, body: VectorCode) -> Call:
    """Compile the body of a call and say how to issue it."""
    site = program.site(body.stmt)
    symbol = body.emit()

    def record() -> Value:
        memory = program.record_memory(body.size)
        program.code.store(I64(site), memory)
        for var, offset in body.places.items():
            _capture(program, var, memory, offset)
        if body.vectors.reads_mask:
            state = program.code.at(program.core, CORE["mask_count_mode"])
            program.code.copy_bytes(program.code.at(memory, body.mask_state), state, MASK_STATE_BYTES)
        return memory

    return Call(symbol, body.size, record, site)


def captured_variables(program: CoreProgram, stmt: n.VfCall | n.SimtLaunch) -> list[n.Var]:
    """Variables the body mentions that get a value outside it, in order of first mention."""
    outside = program.bound_outside(stmt)
    mentioned = dict.fromkeys(v for v in walk(stmt) if isinstance(v, n.Var))
    return [v for v in mentioned if v.name in outside and not isinstance(v.type, REGISTERS)]


def _capture(program: CoreProgram, var: n.Var, memory: Value, offset: int) -> None:
    """Copy a variable of the caller into a record; references are followed."""
    code, value = program.code, program.expressions.local(var)
    match var.type:
        case ScalarType(dtype=dtype):
            store_scalar(code, value, dtype, memory, offset)
        case _ if isinstance(value, tuple):
            store_pointer(code, value, code.at(memory, offset))
        case _:
            code.copy_bytes(code.at(memory, offset), value, captured_bytes(program, var))


def captured_bytes(program: CoreProgram, var: n.Var) -> int:
    """Bytes of a captured variable in a record: tiles and tensors as whole descriptors and records."""
    match var.type:
        case TileType():
            return program.storage.tile_bytes
        case TensorType(dims=dims):
            return frames.TensorRecord(len(dims)).size
    return -(-program.storage.size(var) // WORD) * WORD


class VectorStorage(Storage):
    """Variables of a vector function: registers as vectors, tiles with descriptors of their own."""

    def owns(self, var: n.Var) -> bool:
        """All tiles: no descriptor changes inside a vector function, so a copy is as good as a reference."""
        return isinstance(var.type, TileType | TensorType)

    def _new_slot(self, var: n.Var) -> Value:
        match var.type:
            case RegType() | MaskType() | AddrRegType():
                slot = self.code.slot(register_type(var.type))
                self.code.slots.store(splat(register_type(var.type), 0), slot, align=1)
                return slot
            case UnalignRegType():
                slot = self.code.bytes_slot(UNALIGN_BYTES)
                self.code.slots.store(splat(vector(UNALIGN_BYTES, I8), 0), slot, align=1)
                return slot
        return super()._new_slot(var)


def register_type(type_: Any) -> Any:
    """LLVM type of a register variable."""
    match type_:
        case RegType(dtype=dtype):
            return vector(REGISTER_BYTES // dtype.nbytes, codecs.memory_type(dtype))
        case MaskType():
            return vector(REGISTER_BYTES, I8)
    return I64


class VectorExpressions(Expressions):
    """Expressions over register variables too."""

    def local(self, var: n.Var) -> Any:
        """Registers as their vectors, staging registers as addresses."""
        if isinstance(var.type, RegType | MaskType | AddrRegType):
            return self.code.load(register_type(var.type), self.storage.address(var))
        return super().local(var)


class VectorCode(Statements):
    """Emits the function of one call."""

    def __init__(self, program: CoreProgram, stmt: n.VfCall | n.SimtLaunch, captured: list[n.Var]) -> None:
        self.program, self.stmt = program, stmt
        self.places: dict[n.Var, int] = {}
        position = OPERANDS
        for var in captured:
            self.places[var] = position
            position += captured_bytes(program, var)
        self.mask_state = position
        self.size = position + MASK_STATE_BYTES
        self.name = f"vf_{stmt.name}"
        function = ir.Function(ir.Module("vector"), ir.FunctionType(VOID, [PTR, PTR]), "vector_function")
        code = Code(function)
        self.core, self.record = function.args
        storage = VectorStorage(code, frozenset(), 0)
        storage.tile_bytes = program.storage.tile_bytes
        self.code = code
        super().__init__(code, VectorExpressions(code, self.core, storage, self._block_num()), storage)
        self.cursors = Cursors(code, stmt.body, self._address_of)
        self.vectors = VectorBuilder(code, self.core, self.cursors, code.at(self.record, self.mask_state))
        self.exit = code.block("exit")
        self._block: Any = None
        self._ops = 0

    def _address_of(self, tile: n.Expr) -> Value:
        return self.code.load(I64, self.expressions.value(tile), TILE_ADDR)

    def _block_num(self) -> Value:
        launch = self.code.load(PTR, self.core, CORE["launch"])
        return self.code.load(I64, launch, LAUNCH["block_dim"])

    def emit(self) -> str:
        """Compile the function; its symbol."""
        code = self.code
        number = code.load(I64, self.core, CORE["call_number"])
        code.store(code.b.add(number, I64(1)), self.core, CORE["call_number"])
        for var, offset in self.places.items():
            self._receive(var, offset)
        self.begin(self.stmt.body, self.places)
        self.block(self.stmt.body)
        code.b.branch(self.exit)
        self.start(self.exit)
        self.cursors.finish()
        code.b.ret_void()
        text = str(code.module)
        symbol = f"{self.name}_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        opcode.load(symbol, text.replace('@"vector_function"', f'@"{symbol}"'))
        return symbol

    def _receive(self, var: n.Var, offset: int) -> None:
        """A captured variable: scalars and pointers into slots, the rest used where it lies in the record."""
        match var.type:
            case ScalarType(dtype=dtype):
                self.assign(var, load_scalar(self.code, dtype, self.record, offset))
            case TileType() | TensorType():
                self.storage.place(var.name, self.code.at(self.record, offset))
            case _ if isinstance(self.program.expressions.local(var), tuple):
                self.assign(var, load_pointer(self.code, self.code.at(self.record, offset)))
            case _:
                self.storage.place(var.name, self.code.at(self.record, offset))

    def assign(self, var: n.Var, value: Any) -> None:
        """Tiles are copied as descriptors, registers as vectors."""
        match var.type:
            case TileType():
                self.code.copy_bytes(self.storage.address(var), value, self.storage.tile_bytes)
            case RegType() | MaskType() | AddrRegType():
                wanted = register_type(var.type)
                value = value if value.type == wanted else self.code.b.bitcast(value, wanted)
                self.code.store(value, self.storage.address(var))
            case UnalignRegType():
                self.code.copy_bytes(self.storage.address(var), value, UNALIGN_BYTES)
            case _:
                super().assign(var, value)

    def back_edge(self, loop: n.For | n.While) -> None:
        """Look at the cancel flag now and then; a cancelled call just ends."""
        with when_cancelled(self.code, self.core, BUDGET_OF_OPS // 64):
            self.leave()

    def leave(self) -> None:
        """End the call; there is no `return` in the language."""
        self.code.b.branch(self.exit)

    def special(self, stmt: n.Stmt) -> None:
        """Calls inside a call are expanded into it by the front end."""
        if isinstance(stmt, n.VfCall):
            self.block(stmt.body)

    # --- register ops ------------------------------------------------------------------------------------------------

    def op(self, stmt: n.Op) -> None:
        """A register op: inline code where its entry has some, else its meaning through a callback."""
        self._part_block()
        entry = entry_of(stmt.name)
        args = tuple(self._operand(arg) for arg in stmt.args)
        if "lower" in entry.facets:
            old = [self.expressions.local(v) for v in stmt.results]
            self.vectors.begin([v.type for v in stmt.results], old)
            done = entry.facets["lower"](self.vectors, **entry.bind(args, stmt.attrs))
            if done is not NotImplemented:
                for var, value in zip(stmt.results, self.vectors.given(), strict=True):
                    self.assign(var, value)
                return
        self._through_python(stmt, entry, args)

    def _part_block(self) -> None:
        """Begin a new basic block now and then: the code generator's time grows faster than the length of a block.

        The branch looks at memory that never says so, which the optimiser cannot know.
        """
        if self.code.b.block is not self._block:
            self._block, self._ops = self.code.b.block, 0
        self._ops += 1
        if self._ops > OPS_OF_A_BLOCK:
            following = self.code.block("ops")
            asked = self.code.load_word(I64, self.code.at(self.core, CORE["call_number"]))
            self.code.b.cbranch(self.code.b.icmp_signed("<", asked, I64(0)), self.exit, following)
            self.start(following)
            self._block, self._ops = following, 1

    def _operand(self, arg: n.Arg) -> Any:
        if arg is not None and not isinstance(arg, tuple):
            value: Reg | Mask | AddressRegister | StagingRegister | None = None
            match arg.type:
                case RegType(dtype=dtype):
                    value = Reg(self.code, self.expressions.value(arg), dtype)
                case MaskType(dtype=dtype):
                    value = Mask(self.code, self.expressions.value(arg), dtype)
                case AddrRegType(dtype=dtype):
                    value = AddressRegister(self.expressions.value(arg), dtype)
                case UnalignRegType():
                    value = StagingRegister(self.expressions.value(arg))
            if value is not None:
                return value
            if isinstance(arg.type, TileType):
                return UbTile(self.code, arg.type, self.expressions.value(arg), arg)
        return operand(self.expressions, arg)

    def _through_python(self, stmt: n.Op, entry: OpEntry, args: tuple[Any, ...]) -> None:
        """Operands and old targets into a record, the callback, results back."""
        program, code = self.program, self.code
        specs = tuple(register_spec(a) or spec_of(a, program.kind) for a in args)
        results = tuple(result_spec(v) for v in stmt.results)
        signature = Signature(entry, program.kind, specs, stmt.attrs, results, registers=True)
        site = program.site(stmt, signature)
        memory = code.bytes_slot(signature.size)
        write_record(code, memory, signature, site, args)
        for value, offset in zip(args, signature.offsets, strict=False):
            self._put_register(value, code.at(memory, offset))
        for var, offset in zip(stmt.results, signature.result_offsets, strict=True):
            if isinstance(var.type, UnalignRegType):
                code.copy_bytes(code.at(memory, offset), self.storage.address(var), UNALIGN_BYTES)
            elif not isinstance(var.type, ScalarType):
                code.store(self.expressions.local(var), memory, offset)
        code.call("op_callback", VOID, [self.core, memory])
        for var, offset in zip(stmt.results, signature.result_offsets, strict=True):
            self._take(var, memory, offset)

    def _put_register(self, value: Any, address: Value) -> None:
        match value:
            case Reg(bits=bits) | Mask(bits=bits):
                self.code.store(bits, address)
            case AddressRegister(offset=offset):
                self.code.store(offset, address)
            case StagingRegister(address=source):
                self.code.copy_bytes(address, source, UNALIGN_BYTES)

    def _take(self, var: n.Var, memory: Value, offset: int) -> None:
        match var.type:
            case ScalarType(dtype=dtype):
                self.assign(var, load_scalar(self.code, dtype, memory, offset))
            case UnalignRegType():
                self.assign(var, self.code.at(memory, offset))
            case _:
                self.assign(var, self.code.load(register_type(var.type), memory, offset))


def register_spec(value: Any) -> Spec | None:
    """The spec of a register operand, None for others."""
    match value:
        case Reg(dtype=dtype):
            return RegSpec(dtype)
        case Mask(dtype=dtype):
            return MaskSpec(dtype)
        case AddressRegister(dtype=dtype):
            return AddrRegSpec(dtype)
        case StagingRegister():
            return UnalignSpec()
    return None


def result_spec(var: n.Var) -> Spec:
    """The spec of a result variable."""
    match var.type:
        case RegType(dtype=dtype):
            return RegSpec(dtype)
        case MaskType(dtype=dtype):
            return MaskSpec(dtype)
        case AddrRegType(dtype=dtype):
            return AddrRegSpec(dtype)
        case UnalignRegType():
            return UnalignSpec()
    assert isinstance(var.type, ScalarType)
    return ScalarSpec(var.type.dtype)
