"""The ground `OpBuilder` stands on: results, guards, loops, and lanes from and to memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import llvmlite.ir as ir

from pypto_pro.dtypes import DataType
from pypto_pro.enums import TensorLayout
from pypto_pro.native import codecs, frames, lanes, math
from pypto_pro.native import convert as conversions
from pypto_pro.native.calls import ScalarSpec, Signature, Tile, store_scalar
from pypto_pro.native.emit import I8, I32, I64, PTR, VOID, Code, Value, splat, suffix, vector
from pypto_pro.native.engine import host
from pypto_pro.native.frames import CORE, LAUNCH
from pypto_pro.native.lanes import Lanes, arithmetic
from pypto_pro.native.scalars import Scalar, index_value, truth
from pypto_pro.ops.operands import tile_geometry

Number = Scalar | int
Source = Tile | Scalar | int | float
MANY_ROWS = 1 << 20
ARITHMETIC = frozenset(d for d in DataType if d.is_int() and not d.is_sub_byte) | {
    DataType.DT_FP16, DataType.DT_BF16, DataType.DT_FP32, DataType.DT_BOOL
}  # fmt: skip
"""Dtypes lanes exist for."""


class Emitter:
    """Emits one op function; see `builder` for whole-tile patterns."""

    def __init__(self, code: Code, core: Value, record: Value, signature: Signature) -> None:
        self.code = code
        self.core = core
        self.record = record
        self.signature = signature
        self._meaning: Any = None

    # --- results, guards, control flow -------------------------------------------------------------------------------

    def finish(self) -> None:
        """Close the function."""
        if not self.code.b.block.is_terminated:
            self.code.b.ret_void()
        if self._meaning is not None:
            self.code.b.position_at_end(self._meaning)
            self.code.call("op_callback", VOID, [self.core, self.record])
            self.code.b.ret_void()

    def result(self, value: Scalar, index: int = 0) -> None:
        """Give the op's `index`-th result, in the dtype of its variable."""
        spec = self.signature.results[index]
        assert isinstance(spec, ScalarSpec)
        dtype = spec.dtype
        converted = codecs.convert(self.code, value.value, value.dtype, dtype)
        store_scalar(self.code, converted, dtype, self.record, self.signature.result_offsets[index])

    def require(self, *conditions: Scalar) -> None:
        """Go on where all conditions hold; run the op's meaning instead where one does not."""
        if not conditions:
            return
        if self._meaning is None:
            self._meaning = self.code.block("meaning")
        going = self.code.block("fits")
        holds = self.code.all_of(*(truth(c) for c in conditions))
        self.code.b.cbranch(holds, going, self._meaning)
        self.code.b.position_at_end(going)

    def doubt(self, *conditions: Scalar) -> None:
        """Go on in any case; where a condition is false a callback tells the author, once a launch and site."""
        if not conditions:
            return
        code = self.code
        with code.b.if_then(code.b.not_(code.all_of(*(truth(c) for c in conditions)))):
            launch = code.load(PTR, self.core, CORE["launch"])
            told = code.at(code.load(PTR, launch, LAUNCH["told"]), code.load(I64, self.record))
            with code.b.if_then(code.b.icmp_unsigned("==", code.load(I8, told), I8(0))):
                code.store(I8(1), told)
                code.store(I64(1), self.record, frames.DOUBTED)
                code.call("op_callback", VOID, [self.core, self.record])
                code.store(I64(0), self.record, frames.DOUBTED)

    def scalar(self, number: Number) -> Scalar:
        """An INDEX scalar."""
        return Scalar(self.code, index_value(self.code, number))

    @contextmanager
    def for_range(self, start: Number, stop: Number, step: int = 1) -> Iterator[Scalar]:
        """`for i in range(start, stop, step)`, step positive."""
        first, last = index_value(self.code, start), index_value(self.code, stop)
        with self.code.loop(first, last, step) as index:
            yield Scalar(self.code, index)

    @contextmanager
    def if_(self, condition: Scalar) -> Iterator[None]:
        """`if condition:`."""
        with self.code.b.if_then(truth(condition)):
            yield

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

    def lanes_of(self, number: Scalar | int | float, dtype: DataType, count: int) -> Lanes:
        """A number, converted to `dtype` as C does (and rounded), in every lane."""
        return lanes.filled(self.code, number, dtype, count)

    # --- memory ------------------------------------------------------------------------------------------------------

    def pointer(self, tile: Tile, offset: Number = 0) -> Value:
        """Host address of the element `offset` elements behind the tile's address."""
        at = tile.addr + self.scalar(offset) * tile.dtype.nbytes
        return self.code.at(tile.memory, at.value)

    def load(self, address: Value, dtype: DataType, count: int, left: Value | None = None, fill: Any = 0) -> Lanes:
        """`count` lanes of `dtype` from a host address; with `left` only the first `left`, the others read `fill`."""
        memory = codecs.memory_type(dtype)
        if left is None:
            bits = self.code.load(vector(count, memory), address)
        else:
            bits = self._load_part(address, memory, count, left)
        value = Lanes(self.code, codecs.decode(self.code, bits, dtype), arithmetic(dtype))
        return value if left is None or fill == 0 else self.first(count, left).select(value, fill)

    def store(self, value: Lanes, address: Value, dtype: DataType, left: Value | None = None) -> None:
        """Lanes as `dtype` (floats rounded to nearest even) to a host address; with `left` only the first `left`."""
        bits = codecs.encode(self.code, value.value, dtype)
        if left is None:
            self.code.store(bits, address)
        else:
            self._store_part(bits, address, left)

    def first(self, count: int, left: Value) -> Lanes:
        """BOOL lanes: lane index < left (i64)."""
        code = self.code
        indices = ir.Constant(vector(count, I32), [I32(k) for k in range(count)])
        limit = lanes.spread(code, code.b.trunc(left, I32), count)
        return Lanes(code, code.b.icmp_unsigned("<", indices, limit), DataType.DT_BOOL)

    def _load_part(self, address: Value, memory: Any, count: int, left: Value) -> Value:
        type_ = vector(count, memory)
        if host().has_byte_masks:
            name = f"llvm.masked.load.v{count}{suffix(memory)}.p0"
            return self.code.call(name, type_, [address, I32(1), self.first(count, left).value, splat(type_, 0)])
        bounce = self.code.bytes_slot(count * _width(memory))
        self.code.store(splat(type_, 0), bounce)
        self.code.copy_bytes(bounce, address, self.code.b.mul(left, I64(_width(memory))))
        return self.code.load(type_, bounce)

    def _store_part(self, bits: Value, address: Value, left: Value) -> None:
        count, memory = bits.type.count, bits.type.element
        if host().has_byte_masks:
            name = f"llvm.masked.store.v{count}{suffix(memory)}.p0"
            self.code.call(name, VOID, [bits, address, I32(1), self.first(count, left).value])
            return
        bounce = self.code.bytes_slot(count * _width(memory))
        self.code.store(bits, bounce)
        self.code.copy_bytes(address, bounce, self.code.b.mul(left, I64(_width(memory))))

    def vectors(self, count: int, length: Scalar, body: Callable[[Scalar, Value | None], None]) -> None:
        """Call `body(first lane, None)` for whole vectors of `count` in [0, length), then `body(first, left)` once."""
        code = self.code
        whole = code.b.and_(length.value, I64(-count))
        with code.loop(0, whole, count) as index:
            body(Scalar(code, index), None)
        left = code.b.sub(length.value, whole)
        with code.b.if_then(code.b.icmp_signed(">", left, I64(0))):
            body(Scalar(code, whole), left)

    # --- guards ------------------------------------------------------------------------------------------------------

    def fits(self, tile: Tile, rows: Number, cols: Number) -> Scalar:
        """Whether [0, rows) x [0, cols) of an ND or DN tile lies inside its space, rows not overlapping."""
        lines, elements, pitch = self.lines(tile, rows, cols)
        outer, inner = self.scalar(lines), self.scalar(elements)
        size = ((outer - 1) * pitch + inner) * tile.dtype.nbytes
        b = self.code.b
        conditions = (
            b.icmp_unsigned("<=", outer.value, I64(MANY_ROWS)),
            b.icmp_unsigned("<=", inner.value, I64(pitch)),
            b.icmp_signed(">=", tile.addr.value, I64(0)),
            (tile.addr + size <= frames.capacity(tile.type.space)).value,
        )
        return Scalar(self.code, self.code.all_of(*conditions), DataType.DT_BOOL)

    def lines(self, tile: Tile, rows: Number, cols: Number) -> tuple[Number, Number, int]:
        """(number of contiguous lines, elements of one, elements from line to line) of an ND or DN tile."""
        geo = tile_geometry(tile.type)
        if geo.layout is TensorLayout.ND:
            return rows, cols, tile.type.cols
        return cols, rows, tile.type.rows

    def apart(self, out: Tile, source: Tile, rows: Number, cols: Number) -> Scalar:
        """Whether streaming through `source` and `out` is the same as reading everything first.

        True for disjoint bytes, and for equal addresses unless the output's elements or lines are longer.
        """
        low, high = out.addr, self._end(out, rows, cols)
        other_low, other_high = source.addr, self._end(source, rows, cols)
        apart = (high <= other_low) | (other_high <= low)
        step, other_step = (self.lines(t, rows, cols)[2] * t.dtype.nbytes for t in (out, source))
        if out.dtype.nbytes > source.dtype.nbytes:
            return apart
        if step > other_step:
            return apart | ((low == other_low) & (self.scalar(self.lines(out, rows, cols)[0]) <= 1))
        return apart | (low == other_low)

    def _end(self, tile: Tile, rows: Number, cols: Number) -> Scalar:
        outer, inner, pitch = self.lines(tile, rows, cols)
        return tile.addr + ((self.scalar(outer) - 1) * pitch + self.scalar(inner)) * tile.dtype.nbytes

    def capacity(self, tile: Tile) -> int:
        """Bytes of the tile's space."""
        return frames.capacity(tile.type.space)

    def spread(self, value: Value, count: int) -> Value:
        """A scalar SSA value in every lane of a vector."""
        return lanes.spread(self.code, value, count)

    def store_scalar(self, value: Scalar, address: Value, dtype: DataType) -> None:
        """One element to a host address."""
        self.code.store(codecs.encode(self.code, value.value, dtype), address)

    def load_scalar(self, address: Value, dtype: DataType) -> Scalar:
        """One element from a host address."""
        bits = self.code.load(codecs.memory_type(dtype), address)
        return Scalar(self.code, codecs.decode(self.code, bits, dtype), arithmetic(dtype))

    def lane_count(self, *dtypes: DataType) -> int:
        """Lanes a loop over these dtypes works on at a time."""
        widest = max(d.nbytes for d in dtypes)
        return host().fp32_lanes * (4 if widest == 1 else 1 if widest == 8 else 2)

    def stream_count(self, *dtypes: DataType) -> int:
        """The same for a loop that does little more than load and store."""
        return host().half_lanes if DataType.DT_FP16 in dtypes else self.lane_count(*dtypes)

    def handles(self, *operands: Any) -> bool:
        """Whether all tiles are ND or all are DN, of dtypes lanes exist for."""
        tiles = [o for o in operands if isinstance(o, Tile)]
        kinds = {tile_geometry(t.type).layout for t in tiles}
        linear = kinds <= {TensorLayout.ND} or kinds <= {TensorLayout.DN}
        return linear and all(t.dtype in ARITHMETIC for t in tiles)


def _width(memory: Any) -> int:
    """Bytes of one stored element."""
    return int(memory.width) // 8 if isinstance(memory, ir.IntType) else 4
