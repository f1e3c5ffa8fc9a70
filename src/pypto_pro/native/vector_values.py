"""Operands of register ops under construction, and functions on lanes (`ops.vf_builder.VectorUnitBuilder`).

A register is a vector of stored elements (FP32 as float), a mask <256 x i8> with one byte, 0 or 1, a register byte:
producers set the first byte of a lane, consumers look at it, and LLVM folds the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import llvmlite.ir as ir

from pypto_pro.dtypes import DataType
from pypto_pro.enums import RoundMode
from pypto_pro.hw.a5 import REGISTER_BYTES
from pypto_pro.ir import nodes as n
from pypto_pro.native import codecs, lanes, math, small_floats
from pypto_pro.native import convert as conversions
from pypto_pro.native.emit import F32, F64, I1, I8, I32, I64, Code, Value, like, splat, undefined, vector
from pypto_pro.native.issue import IssuedTile
from pypto_pro.native.lanes import Lanes, arithmetic
from pypto_pro.native.scalars import Scalar, index_value
from pypto_pro.ops.vf_bits import UNSIGNED
from pypto_pro.ops.vf_builder import NativeMask, NativeReg

D = DataType


@dataclass(frozen=True, eq=False)
class Reg(NativeReg):
    """A register operand: its stored elements (a piece of a register has fewer)."""

    code: Code
    bits: Value
    dtype: DataType

    @property
    def count(self) -> int:
        """Lanes."""
        return int(self.bits.type.count)

    @property
    def width(self) -> int:
        """Bytes of a lane."""
        return self.dtype.nbytes

    @property
    def lanes(self) -> Lanes:  # type: ignore[override]  # the concrete class has more than the protocol
        """Values to compute with; floats as FP32."""
        return Lanes(self.code, codecs.decode(self.code, self.bits, self.dtype), arithmetic(self.dtype))

    def as_(self, dtype: DataType) -> Reg:
        """The same bytes as elements of another dtype."""
        count = self.count * self.width // dtype.nbytes
        type_ = vector(count, codecs.memory_type(dtype))
        bits = self.bits if self.bits.type == type_ else self.code.b.bitcast(self.bits, type_)
        return Reg(self.code, bits, dtype)

    def values(self, dtype: DataType) -> Lanes:  # type: ignore[override]
        """The lanes read as `dtype` of equal width."""
        return self.as_(dtype).lanes


@dataclass(frozen=True, eq=False)
class Mask(NativeMask):
    """A predicate operand: <256 x i8> of 0 and 1; `dtype` is its tag."""

    code: Code
    bits: Value
    dtype: DataType

    @property
    def flags(self) -> Lanes:  # type: ignore[override]
        """All bits as UINT8 lanes of 0 and 1."""
        return Lanes(self.code, self.bits, D.DT_UINT8)

    def lanes(self, width: int) -> Lanes:  # type: ignore[override]
        """BOOL lanes: the first byte of every lane of `width` bytes."""
        return self._of_words(width, 0)

    def picked(self, bits: Sequence[int]) -> Lanes:  # type: ignore[override]
        """BOOL lanes that are the mask bits of these numbers; every n-th is a bit of a wider word."""
        step = bits[1] - bits[0]
        if step in (1, 2, 4, 8) and list(bits) == list(range(bits[0], REGISTER_BYTES, step)) and bits[0] < step:
            return self._of_words(step, bits[0])
        moved = self.code.b.shuffle_vector(self.bits, undefined(self.bits.type), _order(bits))
        return Lanes(self.code, self.code.b.icmp_unsigned("!=", moved, splat(moved.type, 0)), D.DT_BOOL)

    def _of_words(self, width: int, byte: int) -> Lanes:
        """One byte of every word of the mask."""
        b, words = self.code.b, self.bits
        if width > 1:
            words = b.bitcast(self.bits, vector(REGISTER_BYTES // width, ir.IntType(8 * width)))
            words = b.and_(words, splat(words.type, 1 << 8 * byte))
        return Lanes(self.code, b.icmp_unsigned("!=", words, splat(words.type, 0)), D.DT_BOOL)


@dataclass(frozen=True)
class UbTile(IssuedTile):
    """A tile operand of a register op; `expr` says which tile expression it is."""

    expr: n.Expr


@dataclass(frozen=True)
class AddressRegister:
    """An address register operand: its offset in elements of `dtype` (i64)."""

    offset: Value
    dtype: DataType


@dataclass(frozen=True)
class StagingRegister:
    """A staging register operand: where its bytes lie."""

    address: Value


class LaneOps:
    """Functions on lanes, emitted at the current position."""

    def __init__(self, code: Code, core: Value) -> None:
        self.code = code
        self.core = core
        self.targets: list[Any] = []

    exp = staticmethod(math.exp)
    log = staticmethod(math.log)
    sqrt = staticmethod(math.sqrt)
    abs = staticmethod(math.absolute)
    convert = staticmethod(conversions.convert)
    integral = staticmethod(conversions.integral)

    # --- making lanes ------------------------------------------------------------------------------------------------

    def index(self, number: Any) -> Scalar:
        """A number as an INDEX scalar."""
        return Scalar(self.code, index_value(self.code, number))

    def scalar(self, number: Any) -> Scalar:
        """A number as a scalar of its own dtype."""
        return number if isinstance(number, Scalar) else self.index(number)

    def full(self, number: Any, dtype: DataType) -> Lanes:
        """A number, converted to `dtype` as C does (and rounded), in every lane of a register of `dtype`."""
        return lanes.filled(self.code, number, dtype, REGISTER_BYTES // dtype.nbytes)

    def numbers(self, dtype: DataType, values: Sequence[int]) -> Lanes:
        """Lanes known now."""
        kind = arithmetic(dtype)
        element = codecs.value_type(kind)
        known = [float(v) if kind.is_float() else v & (1 << element.width) - 1 for v in values]
        return Lanes(self.code, ir.Constant(vector(len(known), element), known), kind)

    def choice(self, pattern: Sequence[bool]) -> Lanes:
        """BOOL lanes known now."""
        type_ = vector(len(pattern), I1)
        same = len(set(pattern)) == 1
        known = splat(type_, int(pattern[0])) if same else ir.Constant(type_, [I1(int(p)) for p in pattern])
        return Lanes(self.code, known, D.DT_BOOL)

    def first(self, limit: Any, width: int) -> Lanes:
        """BOOL lanes of `width` bytes: lane index < limit (unsigned 32-bit)."""
        count = REGISTER_BYTES // width
        bound = self.code.b.trunc(index_value(self.code, limit), I32)
        # lane numbers of 16 bits compare twice as fast; the limit is first cut to what they can express
        held = self.code.b.trunc(self.code.intrinsic("umin", bound, I32(count)), ir.IntType(16))
        numbers = ir.Constant(vector(count, held.type), list(range(count)))
        below = self.code.b.icmp_unsigned("<", numbers, lanes.spread(self.code, held, count))
        return Lanes(self.code, below, D.DT_BOOL)

    def raw(self, values: Lanes) -> Reg:
        """Integer lanes as they are."""
        return Reg(self.code, values.value, values.dtype)

    def stored(self, values: Lanes, dtype: DataType) -> Lanes:
        """Values as bit patterns of `dtype`, rounded to nearest even."""
        unsigned = UNSIGNED[dtype.nbytes]
        return Reg(self.code, codecs.encode(self.code, values.value, dtype), dtype).as_(unsigned).lanes

    # --- moving lanes ------------------------------------------------------------------------------------------------

    def shuffle(self, values: Lanes, order: Sequence[int], other: Lanes | None = None) -> Lanes:
        """Lanes picked by number from `values`, then `other` (numbers from the count of `values` on)."""
        if other is None and list(order) == list(range(values.count)):
            return values
        second = other.value if other is not None else undefined(values.value.type)
        return values.new(self.code.b.shuffle_vector(values.value, second, _order(order)))

    def picked(self, values: Lanes, order: Sequence[int]) -> Lanes:
        """Lanes picked by number; -1 gives 0."""
        if -1 not in order:
            return self.shuffle(values, order)
        zero = splat(values.value.type, 0)
        places = [k if k >= 0 else values.count for k in order]
        return values.new(self.code.b.shuffle_vector(values.value, zero, _order(places)))

    def widened(self, values: Lanes) -> Lanes:
        """The lanes at the front of a register of the target's dtype, 0 behind them."""
        count = REGISTER_BYTES // self.targets[0].dtype.nbytes
        return self.picked(values, [k if k < values.count else -1 for k in range(count)])

    def placed_in(self, values: Lanes, dtype: DataType, part: int, ratio: int) -> Reg:
        """Patterns at lanes ratio * k + part of a register of `dtype`, 0 elsewhere."""
        count = REGISTER_BYTES // dtype.nbytes
        return self.raw(self.picked(values, [k // ratio if k % ratio == part else -1 for k in range(count)]))

    def with_lane(self, values: Lanes, index: int, bits: Scalar, dtype: DataType) -> Reg:
        """Lanes stored as `dtype`, with the bit pattern of one of them replaced by an integer."""
        words = self.stored(values, dtype)
        pattern = bits.to(words.dtype).value
        return Reg(self.code, self.code.b.insert_element(words.value, pattern, I32(index)), words.dtype).as_(dtype)

    def permuted(self, values: Lanes, indices: Lanes) -> Lanes:
        """Lanes picked by run-time numbers, modulo their count."""
        code = self.code
        source, order, target = (code.bytes_slot(REGISTER_BYTES) for _ in range(3))
        code.store(values.value, source)
        code.store((indices & values.count - 1).value, order)
        element = values.value.type.element
        size = element.width // 8
        with code.loop(0, values.count, name="permute") as k:
            at = code.b.mul(k, I64(size))
            number = code.b.zext(code.load(element, order, at), I64) if size < 8 else code.load(element, order, at)
            code.store(code.load(element, source, code.b.mul(number, I64(size))), target, at)
        return values.new(code.load(values.value.type, target))

    def compressed(self, values: Lanes, active: Lanes) -> tuple[Lanes, Scalar]:
        """The active lanes moved together to the front, 0 behind them; how many there are."""
        code, type_ = self.code, values.value.type
        size = type_.element.width // 8
        source, target, flags = (code.bytes_slot(REGISTER_BYTES + size) for _ in range(3))
        code.store(values.value, source)
        code.store(code.b.zext(active.value, like(type_, I8)), flags)
        reached = code.slot(I64)
        code.store(I64(0), reached)
        with code.loop(0, values.count, name="compress") as k:
            place = code.load(I64, reached)
            code.store(code.load(type_.element, source, code.b.mul(k, I64(size))), target, code.b.mul(place, I64(size)))
            code.store(code.b.add(place, code.b.zext(code.load(I8, flags, k), I64)), reached)
        count = Scalar(code, code.load(I64, reached))
        kept = self._below(count, values.count).select(values.new(code.load(type_, target)), 0)
        return kept, count

    def _below(self, count: Scalar, lanes_: int) -> Lanes:
        return self.first(count, REGISTER_BYTES // lanes_)

    def _as_index(self, word: Value) -> Value:
        width = word.type.width
        if width == 64:
            return word
        return self.code.b.zext(word, I64) if width < 64 else self.code.b.trunc(word, I64)

    def first_set(self, active: Lanes, otherwise: int) -> Scalar:
        """The number of the first true lane."""
        b = self.code.b
        word = b.bitcast(active.value, ir.IntType(active.count))
        place = self._as_index(self.code.call(f"llvm.cttz.i{active.count}", word.type, [word, I1(0)]))
        none = b.icmp_unsigned("==", word, word.type(0))
        return Scalar(self.code, b.select(none, I64(otherwise), place))

    # --- bits --------------------------------------------------------------------------------------------------------

    def flags_of(self, values: Lanes) -> Lanes:
        """The bits of UINT8 lanes as flags, the lowest of the first byte first."""
        count = 8 * values.count
        bits = self.code.b.bitcast(values.value, vector(count, I1))
        return Lanes(self.code, self.code.b.zext(bits, vector(count, I8)), D.DT_UINT8)

    def packed_bits(self, bits: Lanes) -> Reg:
        """BOOL lanes packed into bytes."""
        return Reg(self.code, self.code.b.bitcast(bits.value, vector(bits.count // 8, I8)), D.DT_UINT8)

    def byte_counts(self, src: Reg, active: Lanes, *, cumulative: bool) -> Lanes:
        """256 UINT16 lanes: how many active bytes equal n, or are at most n."""
        code, I16 = self.code, ir.IntType(16)
        source, flags, table = (code.bytes_slot(size) for size in (REGISTER_BYTES, REGISTER_BYTES, 512))
        code.store(src.bits, source)
        code.store(code.b.zext(active.value, vector(REGISTER_BYTES, I8)), flags)
        code.fill_bytes(table, 0, 512)
        with code.loop(0, REGISTER_BYTES, name="count") as k:
            at = code.b.shl(code.b.zext(code.load(I8, source, k), I64), I64(1))
            added = code.b.zext(code.load(I8, flags, k), I16)
            code.store(code.b.add(code.load(I16, table, at), added), table, at)
        if cumulative:
            with code.loop(2, 512, 2, name="sum") as at:
                before = code.load(I16, table, code.b.sub(at, I64(2)))
                code.store(code.b.add(code.load(I16, table, at), before), table, at)
        return Lanes(code, code.load(vector(256, I16), table), D.DT_UINT16)

    # --- arithmetic --------------------------------------------------------------------------------------------------

    def larger(self, lhs: Lanes, rhs: Lanes) -> Lanes:
        """Larger of two; NaN when either is, +0 above -0."""
        return self._extreme(lhs, rhs, "max")

    def smaller(self, lhs: Lanes, rhs: Lanes) -> Lanes:
        """Smaller of two; NaN when either is, -0 below +0."""
        return self._extreme(lhs, rhs, "min")

    def _extreme(self, lhs: Lanes, rhs: Lanes, word: str) -> Lanes:
        name = f"{word}imum" if lhs.dtype.is_float() else f"{'s' if lhs.dtype.is_signed_int() else 'u'}{word}"
        return lhs.new(self.code.intrinsic(name, lhs.value, lhs.other(rhs)))

    def multiply_add(self, a: Lanes, b: Lanes, c: Lanes, dtype: DataType) -> Lanes:
        """a * b + c rounded once to `dtype`; integers wrap.

        Narrow floats: their product is exact in a wider format. The sum there is rounded to odd, so that the final
        rounding sees on which side of a tie the exact value lies.
        """
        if not dtype.is_float():
            return a * b + c
        if dtype is D.DT_FP32:
            return lanes.fused(a, b, c)
        if dtype is D.DT_FP16:
            return a.new(_sum_to_odd(self.code, (a * b).value, c.value, 32))
        wide = like(a.value.type, F64)
        x, y, z = (self.code.b.fpext(v.value, wide) for v in (a, b, c))
        total = _sum_to_odd(self.code, self.code.b.fmul(x, y), z, 64)
        return a.new(_single_to_odd(self.code, total))

    def cast(self, codes: Lanes, source: DataType, target: DataType, rule: RoundMode, saturate: bool) -> Lanes:
        """Bit patterns of `source` (4-bit ones in bytes) as patterns of `target`, by the rules of numerics 4."""
        if source in small_floats.SMALL:
            source, values = D.DT_FP32, small_floats.decode(codes, source)
        elif source is D.DT_INT4:
            source, values = D.DT_INT8, codes.bits_as(D.DT_INT8) << 4 >> 4
        else:
            values = self.raw(codes).values(source)
        if target in small_floats.SMALL:
            return small_floats.encode(values, target, rule, saturate)
        if target is D.DT_INT4:
            return _to_int4(values, rule, saturate)
        if source is D.DT_FP32 and target is D.DT_FP32:
            found: Lanes | None = values
        elif source.is_int() and source.bits() > 16 and target is D.DT_FP16:
            least = 0 if source.is_unsigned_int() else -65504
            held = lanes.minimum(lanes.maximum(values, least), 65504).to(D.DT_FP32)  # more saturates anyway
            found = conversions.convert(held, D.DT_FP32, target, rule, True, False)
        elif source is D.DT_FP32 and target is D.DT_INT64 and not saturate:
            found = _low_bits(values, rule)
        else:
            found = conversions.convert(values, source, target, rule, saturate, False)
        assert found is not None, (source, target, rule)
        return self.stored(found, target)


def _order(order: Sequence[int]) -> Value:
    """The constant operand of a shuffle."""
    type_ = vector(len(order), I32)
    return splat(type_, order[0]) if len(set(order)) == 1 else ir.Constant(type_, list(order))


def _sum_to_odd(code: Code, a: Value, b: Value, width: int) -> Value:
    """a + b with its last bit set when the sum is not exact (TwoSum tells)."""
    build = code.b
    total = build.fadd(a, b)
    of_a = build.fsub(total, b)
    lost = build.fadd(build.fsub(a, of_a), build.fsub(b, build.fsub(total, of_a)))
    zero = splat(total.type, 0.0)
    negative = [build.fcmp_ordered("<", v, zero) for v in (lost, total)]
    return _made_odd(code, total, build.fcmp_ordered("!=", lost, zero), build.xor(*negative), width)


def _made_odd(code: Code, value: Value, inexact: Value, toward_zero: Value, width: int) -> Value:
    """Where inexact and even, the neighbour on the side of the exact value."""
    b = code.b
    word = like(value.type, ir.IntType(width))
    bits = b.bitcast(value, word)
    even = b.icmp_unsigned("==", b.and_(bits, splat(word, 1)), splat(word, 0))
    step = b.select(toward_zero, splat(word, -1), splat(word, 1))
    moved = b.select(b.and_(inexact, even), b.add(bits, step), bits)
    return b.bitcast(moved, value.type)


def _single_to_odd(code: Code, value: Value) -> Value:
    """FP64 rounded to FP32, the last bit set when that is not exact."""
    b = code.b
    single = b.fptrunc(value, like(value.type, F32))
    back = b.fpext(single, value.type)
    sizes = [code.intrinsic("fabs", v) for v in (back, value)]
    finite = b.fcmp_ordered("<", code.intrinsic("fabs", single), splat(single.type, float("inf")))
    inexact = b.and_(finite, b.fcmp_ordered("!=", back, value))
    return _made_odd(code, single, inexact, b.fcmp_ordered(">", *sizes), 32)


def _to_int4(values: Lanes, rule: RoundMode, saturate: bool) -> Lanes:
    """Codes 0..15 of signed 4-bit integers."""
    if not values.dtype.is_float():
        held = lanes.minimum(lanes.maximum(values, -8), 7) if saturate else values
        return held.to(D.DT_UINT8) & 15
    whole = conversions.integral(values, rule)
    assert whole is not None
    number = whole.to(D.DT_INT32)
    clamped = lanes.minimum(lanes.maximum(number, -8), 7)
    if not saturate:
        infinite = math.absolute(whole) == float("inf")
        clamped = infinite.select(clamped, number)
    return clamped.to(D.DT_UINT8) & 15


def _low_bits(values: Lanes, rule: RoundMode) -> Lanes:
    """FP32 rounded to integers modulo 2**64; infinities give the limits, NaN 0."""
    whole = conversions.integral(values, rule)
    assert whole is not None
    pattern = whole.bits_as(D.DT_UINT32)
    exponent = ((pattern >> 23) & 0xFF).to(D.DT_UINT64)
    significand = ((pattern & 0x7FFFFF) | 0x800000).to(D.DT_UINT64)
    large = exponent >= 127 + 63
    moved = significand << lanes.maximum(exponent, 150) - 150  # shifts of 64 and more leave nothing
    signed = (whole < 0.0).select(-moved.bits_as(D.DT_INT64), moved.bits_as(D.DT_INT64))
    kept = large.select(signed, whole.to(D.DT_INT64))
    special = exponent == 255
    return special.select(whole.to(D.DT_INT64), kept)
