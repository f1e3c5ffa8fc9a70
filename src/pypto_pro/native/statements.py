"""IR statements -> control flow and stores: what core programs and vector functions have in common.

Subclasses say what an op, a synchronisation statement, a `return` and a loop's back edge become.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pypto_pro import layouts
from pypto_pro.diag import NOWHERE, Span
from pypto_pro.dtypes import DataType
from pypto_pro.ir import nodes as n
from pypto_pro.ir.binding import unsure
from pypto_pro.ir.structs import layout_of
from pypto_pro.ir.types import GroupType, PtrType, ScalarType, StructArrayType, StructType, TensorType, TileType
from pypto_pro.native import codecs
from pypto_pro.native.emit import I32, I64, Code, Value
from pypto_pro.native.expressions import Expressions
from pypto_pro.native.frames import CORE, TILE_ADDR, TILE_COLS, TILE_IDS, TILE_ROWS, WORD, TensorRecord
from pypto_pro.native.scalars import Scalar
from pypto_pro.native.storage import Storage, store_member, store_pointer, store_variable
from pypto_pro.ops.operands import tile_geometry


@dataclass(frozen=True)
class Loop:
    """Targets of `break` and `continue`."""

    after: Any
    latch: Any


@contextmanager
def spent_budget(code: Code, core: Value, weight: int) -> Iterator[Value]:
    """Spend `weight` of a core's budget; the body is what a core does when it is spent, given whether to stop."""
    budget = code.b.sub(code.load(I64, core, CORE["budget"]), I64(weight))
    code.store(budget, core, CORE["budget"])
    with code.b.if_then(code.b.icmp_signed("<", budget, I64(0)), likely=False):
        stop = code.call("run_tick", I32, [core])
        yield code.b.icmp_unsigned("!=", stop, I32(0))


@contextmanager
def when_cancelled(code: Code, core: Value, weight: int) -> Iterator[None]:
    """Spend `weight` of a core's budget; the body is what a core does that finds the launch cancelled."""
    with spent_budget(code, core, weight) as stop, code.b.if_then(stop, likely=False):
        yield


class Statements:
    """Emits blocks of statements at the current position."""

    def __init__(self, code: Code, expressions: Expressions, storage: Storage) -> None:
        self.code = code
        self.expressions = expressions
        self.storage = storage
        self.loops: list[Loop] = []
        self._numbers = itertools.count()
        self.span: Span = NOWHERE

    # --- what differs ------------------------------------------------------------------------------------------------

    def op(self, stmt: n.Op) -> None:
        """One op of the table."""
        raise NotImplementedError

    def special(self, stmt: n.Stmt) -> None:
        """Calls, launches, debugging and synchronisation."""
        raise NotImplementedError

    def leave(self) -> None:
        """`return`."""
        raise NotImplementedError

    def back_edge(self, loop: n.For | n.While) -> None:
        """Called where a loop goes round."""
        raise NotImplementedError

    def loop_begins(self, loop: n.While) -> None:
        """Called where a `while` loop is entered."""

    # --- dispatch ----------------------------------------------------------------------------------------------------

    def block(self, block: n.Block) -> None:
        """Emit statements in order."""
        for stmt in block:
            self.span = stmt.span
            self.statement(stmt)

    def statement(self, stmt: n.Stmt) -> None:
        """Emit one statement."""
        match stmt:
            case n.Assign(var=var, value=value):
                self.assign(var, self.expressions.value(value))
            case n.Op():
                self.op(stmt)
            case n.If() | n.For() | n.While() | n.Break() | n.Continue() | n.Return():
                self._control(stmt)
            case n.TileDecl() | n.GroupDecl() | n.SubView() | n.CopyTile() | n.SetValid():
                self._tile(stmt)
            case n.TensorDecl() | n.CopyTensor() | n.SetStride():
                self._tensor(stmt)
            case n.StructDecl() | n.SetField() | n.CopyStruct():
                self._struct(stmt)
            case _:
                self.special(stmt)

    def assign(self, var: n.Var, value: Any) -> None:
        """Give a variable a value in the form of `Expressions.value`."""
        address = self.storage.address(var)
        match var.type:
            case ScalarType(dtype=dtype):
                store_variable(self.code, value, dtype, address)
            case PtrType():
                store_pointer(self.code, value, address)
            case _:
                self.code.store(value, address)

    def begin(self, body: n.Block, bound: Iterable[n.Var]) -> None:
        """What `body` may read on a way that never gave it a value: zeros, references to nothing; `bound` have one."""
        found = unsure(body, bound)
        for var in found.variables.values():
            self.code.fill_bytes(self.storage.address(var), 0, self.storage.width(var))
            if isinstance(var.type, TileType | TensorType) and not self.storage.owns(var):
                self.code.store(self._nothing(var.type), self.storage.address(var))
        for declaration in found.declarations:
            self.statement(declaration)

    def _nothing(self, kind: TileType | TensorType) -> Value:
        """A descriptor or record of zeros: no rows, no memory."""
        size = self.storage.tile_bytes if isinstance(kind, TileType) else TensorRecord(kind.rank).size
        memory = self.storage.memory(size)
        self.code.fill_bytes(memory, 0, size)
        return memory

    # --- control flow ------------------------------------------------------------------------------------------------

    def _control(self, stmt: n.Stmt) -> None:
        match stmt:
            case n.If():
                self._if(stmt)
            case n.For():
                self._for(stmt)
            case n.While():
                self._while(stmt)
            case n.Break():
                self.jump(self.loops[-1].after)
            case n.Continue():
                self.jump(self.loops[-1].latch)
            case n.Return():
                self.leave()
                self.start(self.code.block("unreached"))

    def jump(self, target: Any) -> None:
        """Go to a block; what follows in the same block cannot be reached."""
        self.code.b.branch(target)
        self.start(self.code.block("unreached"))

    def start(self, block: Any) -> None:
        """Go on emitting in `block`."""
        self.code.b.position_at_end(block)

    def _if(self, stmt: n.If) -> None:
        code = self.code
        then, other, after = code.block("then"), code.block("else"), code.block("endif")
        code.b.cbranch(self.expressions.condition(stmt.cond), then, other)
        for target, body in ((then, stmt.then), (other, stmt.orelse)):
            self.start(target)
            self.block(body)
            code.b.branch(after)
        self.start(after)

    def _for(self, stmt: n.For) -> None:
        code, number = self.code, next(self._numbers)
        start, stop, step = (self.expressions.index(e) for e in (stmt.start, stmt.stop, stmt.step))
        left, following, stride = (
            self.storage.temporary(f"for {number} {what}") for what in ("left", "next", "step")
        )
        code.store(self._trips(start, stop, step), left)
        code.store(start, following)
        code.store(step, stride)
        head, body, latch, after = (code.block(name) for name in ("for", "for_body", "for_latch", "for_end"))
        code.b.branch(head)
        self.start(head)
        # temporaries of a frame are addressed anew in every block that needs them
        left, following, stride = (
            self.storage.temporary(f"for {number} {what}") for what in ("left", "next", "step")
        )
        count = code.load(I64, left)
        code.b.cbranch(code.b.icmp_signed(">", count, I64(0)), body, after)
        self.start(body)
        current = code.load(I64, following)
        assert isinstance(stmt.var.type, ScalarType)
        self.assign(stmt.var, codecs.convert(code, current, DataType.DT_INDEX, stmt.var.type.dtype))
        code.store(code.b.sub(count, I64(1)), left)
        code.store(code.b.add(current, code.load(I64, stride)), following)
        self._round(stmt, latch, after)
        code.b.branch(head)
        self.start(after)

    def _while(self, stmt: n.While) -> None:
        code = self.code
        self.loop_begins(stmt)
        body, latch, after = code.block("while"), code.block("while_latch"), code.block("while_end")
        code.b.branch(body)
        self.start(body)
        self._round(stmt, latch, after)
        code.b.branch(body)
        self.start(after)

    def _round(self, stmt: n.For | n.While, latch: Any, after: Any) -> None:
        """The body of a loop and its back edge; leaves the position where the loop goes round."""
        self.loops.append(Loop(after, latch))
        self.block(stmt.body)
        self.loops.pop()
        self.code.b.branch(latch)
        self.start(latch)
        self.back_edge(stmt)

    def _trips(self, start: Value, stop: Value, step: Value) -> Value:
        """len(range(start, stop, step)); 0 for a step of 0. Distances are unsigned: they may be more than 2^63 - 1."""
        b = self.code.b
        up = b.icmp_signed(">", step, I64(0))
        low, high = b.select(up, start, stop), b.select(up, stop, start)
        size = b.select(up, step, b.neg(step))
        is_zero = b.icmp_signed("==", size, I64(0))
        safe = b.select(is_zero, I64(1), size)
        trips = b.add(b.udiv(b.sub(b.sub(high, low), I64(1)), safe), I64(1))
        runs = b.and_(b.icmp_signed("<", low, high), b.not_(is_zero))
        return b.select(runs, trips, I64(0))

    # --- tiles -------------------------------------------------------------------------------------------------------

    def _tile(self, stmt: n.Stmt) -> None:
        match stmt:
            case n.TileDecl(var=var, addr=addr):
                self._describe(self.storage.address(var), var.type, addr, ())
            case n.GroupDecl():
                self._group(stmt)
            case n.SubView():
                self._sub_view(stmt)
            case n.CopyTile(var=var, source=source):
                self.code.copy_bytes(
                    self.storage.address(var), self.expressions.value(source), self.storage.tile_bytes
                )
            case n.SetValid(tile=tile, rows=rows, cols=cols):
                extents = self._extent(rows), self._extent(cols)
                for descriptor in self._descriptors(tile):
                    self.set_valid(descriptor, *extents)

    def _extent(self, extent: n.Expr) -> Value:
        """A valid extent; negative ones, which no device defines, count as 0."""
        found = self.expressions.index(extent)
        return found if isinstance(extent, n.Const) else self.code.intrinsic("smax", found, I64(0))

    def set_valid(self, descriptor: Value, rows: Value, cols: Value) -> None:
        """Write the valid extents of a descriptor."""
        self.code.store(rows, descriptor, TILE_ROWS)
        self.code.store(cols, descriptor, TILE_COLS)

    def _descriptors(self, tile: n.Expr) -> list[Value]:
        base = self.expressions.value(tile)
        if isinstance(tile.type, GroupType):
            return [self.code.at(base, k * self.storage.tile_bytes) for k in range(tile.type.depth)]
        return [base]

    def _describe(self, descriptor: Value, type_: Any, addr: int, ids: tuple[int, ...]) -> None:
        *outer, cols = (v if v > 0 else s for v, s in zip(type_.valid_shape, type_.shape, strict=True))
        rows = math.prod(outer)  # of other ranks than two there are no ops
        self.code.store(I64(addr), descriptor, TILE_ADDR)
        self.set_valid(descriptor, I64(rows), I64(cols))
        for k, mutex in enumerate(ids):
            self.code.store(I64(mutex), descriptor, TILE_IDS + k * WORD)

    def _group(self, stmt: n.GroupDecl) -> None:
        assert isinstance(stmt.var.type, GroupType)
        base = self.storage.address(stmt.var)
        for k, addr in enumerate(stmt.addrs):
            ids = stmt.mutex_ids[k] if stmt.mutex_ids else ()
            self._describe(self.code.at(base, k * self.storage.tile_bytes), stmt.var.type.tile, addr, ids)
        if stmt.cursor is not None:
            assert isinstance(stmt.cursor.type, ScalarType)
            self.assign(stmt.cursor, codecs.constant(stmt.var.type.depth - 1, stmt.cursor.type.dtype))

    def _sub_view(self, stmt: n.SubView) -> None:
        code, type_ = self.code, stmt.var.type
        assert isinstance(type_, TileType)
        row, col, rows, cols = (self.expressions.index(e) for e in (stmt.row, stmt.col, stmt.rows, stmt.cols))
        base, view = self.expressions.value(stmt.base), self.storage.address(stmt.var)
        moved = layouts.byte_offset(tile_geometry(type_), Scalar(code, row), Scalar(code, col))
        addr = code.b.add(code.load(I64, base, TILE_ADDR), moved.value)
        code.copy_bytes(view, base, self.storage.tile_bytes)
        code.store(addr, view, TILE_ADDR)
        self.set_valid(view, rows, cols)

    # --- tensors -----------------------------------------------------------------------------------------------------

    def _tensor(self, stmt: n.Stmt) -> None:
        match stmt:
            case n.TensorDecl(var=var, ptr=ptr, dims=dims, strides=strides):
                extents = [self.expressions.index(d) for d in dims]
                steps = [self.expressions.index(s) for s in strides] if strides is not None else None
                self.write_tensor(self.storage.address(var), self.expressions.value(ptr), extents, steps)
            case n.CopyTensor(var=var, source=source):
                assert isinstance(var.type, TensorType)
                size = TensorRecord(var.type.rank).size
                self.code.copy_bytes(self.storage.address(var), self.expressions.record(source), size)
            case n.SetStride(tensor=tensor, row=row, col=col):
                assert isinstance(tensor.type, TensorType)
                at = TensorRecord(tensor.type.rank).transfer
                words = (self.expressions.index(row), self.expressions.index(col), I64(1))
                record = self.expressions.record(tensor)
                for k, word in enumerate(words):
                    self.code.store(word, record, at + k * WORD)

    def write_tensor(
        self, record: Value, pointer: tuple[Value, Value, Value], dims: list[Value], strides: list[Value] | None
    ) -> None:
        """Fill a tensor record; strides None = contiguous row-major."""
        code, places = self.code, TensorRecord(len(dims))
        if strides is None:
            strides, step = [], I64(1)
            for extent in reversed(dims):
                strides.insert(0, step)
                step = code.b.mul(step, extent)
        for k, word in enumerate(pointer):
            code.store(word, record, k * WORD)
        for k, (extent, stride) in enumerate(zip(dims, strides, strict=True)):
            code.store(extent, record, places.dims + k * WORD)
            code.store(stride, record, places.strides + k * WORD)
        code.store(I64(0), record, places.transfer + 2 * WORD)

    # --- structs -----------------------------------------------------------------------------------------------------

    def _struct(self, stmt: n.Stmt) -> None:
        code = self.code
        match stmt:
            case n.StructDecl(var=var, init=init):
                self._new_struct(var, init)
            case n.SetField(place=place, value=value):
                assert isinstance(place.type, ScalarType)
                new = self.expressions.value(value)
                store_member(code, new, place.type.dtype, self.expressions.place(place))
            case n.CopyStruct(target=target, source=source):
                assert isinstance(target.type, StructType)
                size = layout_of(target.type).size
                code.copy_bytes(self.expressions.place(target), self.expressions.place(source), size)

    def _new_struct(self, var: n.Var, init: tuple[n.Expr, ...]) -> None:
        struct, count = (var.type.struct, var.type.length) if isinstance(var.type, StructArrayType) else (var.type, 1)
        assert isinstance(struct, StructType)
        values = [self.expressions.value(e) for e in init]
        base, layout = self.storage.address(var), layout_of(struct)
        for (at, dtype), value in zip(layout.leaves, values, strict=True):
            store_member(self.code, value, dtype, self.code.at(base, at))
        if count > 1:
            with self.code.loop(1, count) as k:
                self.code.copy_bytes(self.code.at(base, self.code.b.mul(k, I64(layout.size))), base, layout.size)
