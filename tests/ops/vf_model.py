# long file: one model of all register ops, which share its lanes, masks and exact numbers
"""Register ops lane by lane in plain Python, written from the language reference; shares no code with the package.

A register is a list of lane codes (bit patterns) with a dtype, a mask a list of 256 bits. Floats are exact: `(sign,
Fraction)` or an infinity or NaN, rounded once to the format. Approximate functions give FP64 values as `Near`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from pypto_pro.dtypes import DataType as D
from unit import numeric_model as formats

INF, NAN = "inf", "nan"
Bits = list[int]


@dataclass
class Reg:
    """Lane codes of a dtype; 4-bit dtypes are kept as whole bytes."""

    dtype: D
    codes: list[int]

    @property
    def width(self) -> int:
        return self.dtype.nbytes

    @classmethod
    def of(cls, dtype: D, data: bytes) -> Reg:
        w = dtype.nbytes
        return cls(dtype, [int.from_bytes(data[i : i + w], "little") for i in range(0, len(data), w)])

    def data(self) -> bytes:
        return b"".join(code.to_bytes(self.width, "little") for code in self.codes)

    def as_(self, dtype: D) -> Reg:
        return Reg.of(dtype, self.data())


@dataclass
class Near:
    """A result known to some units in the last place: FP64 values by lane, exact codes elsewhere."""

    dtype: D
    values: list[float | int]
    ulps: float
    exact: set[int] = field(default_factory=set)


def lane(mask: Bits, width: int, i: int) -> int:
    return mask[i * width]


# --- exact floats ----------------------------------------------------------------------------------------------------

Float = tuple[int, Any]  # sign, magnitude: Fraction, INF or NAN


def unpack(code: int, dtype: D) -> Float:
    value = formats.value_of(code, dtype)
    if value == "nan":
        return 0, NAN
    if value in ("inf", "-inf"):
        return int(value == "-inf"), INF
    if value == "-0":
        return 1, Fraction(0)
    assert isinstance(value, Fraction)
    return int(value < 0), abs(value)


def pack(x: Float, dtype: D, rule: str = "CAST_RINT", saturate: bool = False) -> int:
    sign, size = x
    if size == NAN:
        value: Any = "nan"
    elif size == INF:
        value = "-inf" if sign else "inf"
    elif size == 0:
        value = "-0" if sign else Fraction(0)
    else:
        value = -size if sign else size
    return formats.to_float(value, dtype, rule, saturate)


def negate(x: Float) -> Float:
    return 1 - x[0], x[1]


def fadd(x: Float, y: Float) -> Float:
    (s, a), (t, b) = x, y
    if NAN in (a, b) or (a == b == INF and s != t):
        return 0, NAN
    if INF in (a, b):
        return (s, INF) if a == INF else (t, INF)
    total = (-a if s else a) + (-b if t else b)
    if total == 0:
        return int(a == b == 0 and s and t), Fraction(0)
    return int(total < 0), abs(total)


def fmul(x: Float, y: Float) -> Float:
    (s, a), (t, b) = x, y
    if NAN in (a, b) or {a, b} == {INF, Fraction(0)}:
        return 0, NAN
    return s ^ t, INF if INF in (a, b) else a * b


def fdiv(x: Float, y: Float) -> Float:
    (s, a), (t, b) = x, y
    if NAN in (a, b) or (a == b and a in (INF, 0)):
        return 0, NAN
    if a == INF or b == 0:
        return s ^ t, INF
    return s ^ t, Fraction(0) if b == INF else a / b


def order(x: Float) -> tuple[Any, ...]:
    """A key that sorts floats, -0 below +0."""
    s, a = x
    size = (1, Fraction(0)) if a == INF else (0, a)
    return (0, -size[0], -size[1]) if s else (1, *size)


def fpick(x: Float, y: Float, larger: bool) -> Float:
    if NAN in (x[1], y[1]):
        return 0, NAN
    return x if (order(x) >= order(y)) == larger else y


def as_double(x: Float) -> float:
    s, a = x
    if a == NAN:
        return math.nan
    size = math.inf if a == INF else float(a)
    return -size if s else size


# --- integers --------------------------------------------------------------------------------------------------------


def signed(code: int, dtype: D) -> int:
    bits = dtype.bits()
    return code - (1 << bits) if dtype.is_signed_int() and code >> bits - 1 else code


def wrap(value: int, dtype: D) -> int:
    return value % (1 << dtype.bits())


def quotient(a: int, b: int) -> int:
    if b == 0:
        return -1
    size = abs(a) // abs(b)
    return size if (a < 0) == (b < 0) else -size


# --- lane functions --------------------------------------------------------------------------------------------------

FloatOp = Callable[..., Float]
IntOp = Callable[..., int]

BINARY: dict[str, tuple[FloatOp, IntOp]] = {
    "add": (fadd, lambda a, b: a + b),
    "sub": (lambda x, y: fadd(x, negate(y)), lambda a, b: a - b),
    "mul": (fmul, lambda a, b: a * b),
    "div": (fdiv, quotient),
    "max": (lambda x, y: fpick(x, y, True), max),
    "min": (lambda x, y: fpick(x, y, False), min),
    "prelu": (lambda x, y: x if x[1] != NAN and (not x[0] or x[1] == 0) else fmul(x, y), lambda a, b: a),
    "abs_sub": (lambda x, y: (0, fadd(x, negate(y))[1]), lambda a, b: abs(wrapped64(a - b))),
}
SCALAR = {"adds": "add", "subs": "sub", "muls": "mul", "maxs": "max", "mins": "min", "leaky_relu": "prelu"}
UNARY: dict[str, tuple[FloatOp, IntOp]] = {
    "abs": (lambda x: (0, x[1]), abs),
    "neg": (negate, lambda a: -a),
    "relu": (lambda x: x if x[1] == NAN or (not x[0] and x[1] != 0) else (0, Fraction(0)), lambda a: max(a, 0)),
}


def wrapped64(value: int) -> int:
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def scalar_code(value: float | int, dtype: D) -> int:
    """A number converted to a lane: C conversion, FP32 in between for narrow floats."""
    if dtype.is_float():
        exact: Any = "-0" if value == 0 and math.copysign(1, value) < 0 else Fraction(value)
        single = formats.value_of(formats.to_float(exact, D.DT_FP32, "CAST_RINT", False), D.DT_FP32)
        return formats.to_float(single, dtype, "CAST_RINT", False)
    whole = math.trunc(value)
    if isinstance(value, float):
        whole = min(max(whole, dtype.int_min), dtype.int_max)
    return wrap(whole, dtype)


def apply(functions: tuple[FloatOp, IntOp], dtype: D, *codes: int) -> int:
    on_floats, on_ints = functions
    if dtype.is_float():
        return pack(on_floats(*(unpack(c, dtype) for c in codes)), dtype)
    return wrap(on_ints(*(signed(c, dtype) for c in codes)), dtype)


def masked(made: Sequence[int], mask: Bits, width: int, other: Sequence[int] | None = None) -> list[int]:
    return [c if lane(mask, width, i) else (other[i] if other else 0) for i, c in enumerate(made)]


def binary(op: str, a: Reg, b: Reg, mask: Bits, old: Reg | None = None) -> Reg:
    made = [apply(BINARY[op], a.dtype, x, y) for x, y in zip(a.codes, b.codes, strict=True)]
    return Reg(a.dtype, masked(made, mask, a.width, old.codes if old else None))


def with_scalar(op: str, a: Reg, value: float | int, mask: Bits) -> Reg:
    return binary(SCALAR[op], a, Reg(a.dtype, [scalar_code(value, a.dtype)] * len(a.codes)), mask)


def unary(op: str, a: Reg, mask: Bits) -> Reg:
    return Reg(a.dtype, masked([apply(UNARY[op], a.dtype, c) for c in a.codes], mask, a.width))


def multiply_add(x: Reg, y: Reg, z: Reg, mask: Bits) -> Reg:
    """x * y + z, rounded once."""
    functions = (lambda a, b, c: fadd(fmul(a, b), c), lambda a, b, c: a * b + c)
    made = [apply(functions, x.dtype, *codes) for codes in zip(x.codes, y.codes, z.codes, strict=True)]
    return Reg(x.dtype, masked(made, mask, x.width))


def square_root(a: Reg, mask: Bits, precision: bool = False) -> Near:
    def one(code: int) -> float:
        x = as_double(unpack(code, a.dtype))
        if precision and a.dtype is D.DT_FP32 and x > 85070596800837026223494223584045301760:
            return 0.0
        return math.sqrt(x) if x >= 0 else x if math.isnan(x) or x == 0 else math.nan

    return Near(a.dtype, [one(c) if lane(mask, a.width, i) else 0.0 for i, c in enumerate(a.codes)], 0.5)


def exponential(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def logarithm(x: float) -> float:
    if math.isnan(x) or x < 0:
        return math.nan
    return -math.inf if x == 0 else math.log(x)


def near_unary(function: Callable[[float], float], a: Reg, mask: Bits, ulps: float) -> Near:
    made = [function(as_double(unpack(c, a.dtype))) if lane(mask, a.width, i) else 0.0 for i, c in enumerate(a.codes)]
    return Near(a.dtype, made, ulps)


def scaled_log(a: Reg, mask: Bits, factor: float) -> Near:
    """ln rounded to T, times the constant rounded to T."""
    constant = as_double(unpack(pack((0, Fraction(factor)), a.dtype), a.dtype))
    return near_unary(lambda x: logarithm(x) * constant, a, mask, 3.0)


def truncated(a: Reg, mask: Bits, rule: str) -> Reg:
    def one(code: int) -> int:
        value = formats.value_of(code, a.dtype)
        if not isinstance(value, Fraction):
            return code
        whole = Fraction(formats.round_fraction(value, rule))
        return formats.code_of("-0" if whole == 0 and value < 0 else whole, a.dtype)

    return Reg(a.dtype, masked([one(c) for c in a.codes], mask, a.width))


def exp_sub(a: Reg, b: Reg, mask: Bits, part: int) -> Near:
    values: list[float | int] = []
    for k in range(64):
        i = 2 * k + part if a.width == 2 else k
        x, y = (unpack(r.codes[i], a.dtype) for r in (a, b))
        single = pack(fadd(x, negate(y)), D.DT_FP32)
        active = lane(mask, a.width, i)
        values.append(exponential(as_double(unpack(single, D.DT_FP32))) if active else 0.0)
    return Near(D.DT_FP32, values, 2.0)


def muls_cast(a: Reg, value: float, mask: Bits, part: int) -> Reg:
    factor = scalar_code(value, D.DT_FP32)
    made = [0] * 128
    for k in range(64):
        product = pack(fmul(unpack(a.codes[k], D.DT_FP32), unpack(factor, D.DT_FP32)), D.DT_FP32)
        half = formats.convert_one(product, D.DT_FP32, D.DT_FP16, "CAST_ROUND", False, "register")
        made[2 * k + part] = half if lane(mask, 4, k) else 0
    return Reg(D.DT_FP16, made)


def carry(a: Reg, b: Reg, carry_in: Bits, mask: Bits, complement: bool) -> tuple[Bits, Reg]:
    bits, made = [0] * 256, [0] * 64
    for i in range(64):
        if lane(mask, 4, i):
            right = ~b.codes[i] % (1 << 32) if complement else b.codes[i]
            total = a.codes[i] + right + lane(carry_in, 4, i)
            bits[4 * i], made[i] = total >> 32, total % (1 << 32)
    return bits, Reg(a.dtype, made)


def whole_product(a: Reg, b: Reg, mask: Bits) -> tuple[Reg, Reg]:
    low, high = [0] * 64, [0] * 64
    for i in range(64):
        if lane(mask, 4, i):
            product = signed(a.codes[i], a.dtype) * signed(b.codes[i], a.dtype)
            low[i], high[i] = product % (1 << 32), (product >> 32) % (1 << 32)
    return Reg(a.dtype, low), Reg(a.dtype, high)


# --- bits, shifts, comparisons, selection ----------------------------------------------------------------------------

LOGIC: dict[str, Callable[[int, int], int]] = {
    "and_": lambda a, b: a & b, "or_": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
}  # fmt: skip


def logic(op: str, a: Reg, b: Reg, mask: Bits) -> Reg:
    made = [LOGIC[op](x, y) for x, y in zip(a.codes, b.codes, strict=True)]
    return Reg(a.dtype, masked(made, mask, a.width))


def mask_logic(op: str, a: Bits, b: Bits, mask: Bits) -> Bits:
    return [LOGIC[op](x, y) & m for x, y, m in zip(a, b, mask, strict=True)]


def inverted(a: Reg, mask: Bits) -> Reg:
    return Reg(a.dtype, masked([~c % (1 << a.dtype.bits()) for c in a.codes], mask, a.width))


def shifted(a: Reg, amounts: Sequence[int], mask: Bits, left: bool) -> Reg:
    def one(code: int, amount: int) -> int:
        beyond = amount < 0 or amount >= a.dtype.bits()
        value = signed(code, a.dtype)
        if left:
            return 0 if beyond else wrap(value << amount, a.dtype)
        return wrap(-1 if value < 0 else 0, a.dtype) if beyond else wrap(value >> amount, a.dtype)

    return Reg(a.dtype, masked([one(c, s) for c, s in zip(a.codes, amounts, strict=True)], mask, a.width))


def compare(op: str, a: Reg, b: Reg, mask: Bits) -> Bits:
    bits = [0] * 256
    for i, codes in enumerate(zip(a.codes, b.codes, strict=True)):
        if a.dtype.is_float():
            x, y = (unpack(c, a.dtype) for c in codes)
            unordered = NAN in (x[1], y[1])
            less = not unordered and order(x) < order(y) and not x[1] == y[1] == 0
            same = not unordered and (x == y or x[1] == y[1] == 0)
        else:
            p, q = (signed(c, a.dtype) for c in codes)
            less, same, unordered = p < q, p == q, False
        more = not unordered and not less and not same
        found = {
            "eq": same, "ne": not same, "lt": less, "gt": more, "le": less or same, "ge": more or same,
        }[op]  # fmt: skip
        bits[i * a.width] = int(found and lane(mask, a.width, i))
    return bits


def select(a: Reg, b: Reg, mask: Bits) -> Reg:
    return Reg(a.dtype, masked(a.codes, mask, a.width, b.codes))


def squeeze(a: Reg, mask: Bits) -> tuple[Reg, int]:
    kept = [c for i, c in enumerate(a.codes) if lane(mask, a.width, i)]
    return Reg(a.dtype, kept + [0] * (len(a.codes) - len(kept))), len(kept) * a.width


# --- reductions and counting -----------------------------------------------------------------------------------------


def reduce_extreme(a: Reg, mask: Bits, larger: bool, blocks: bool) -> Reg:
    count = len(a.codes)
    made = [0] * count
    if a.dtype.is_float():
        worst = pack((int(larger), INF), a.dtype)
    else:
        worst = wrap(a.dtype.int_min if larger else a.dtype.int_max, a.dtype)
    pick = BINARY["max" if larger else "min"]
    size = count // 8 if blocks else count
    for g in range(count // size):
        best = worst
        for i in range(g * size, (g + 1) * size):
            if lane(mask, a.width, i):
                best = apply(pick, a.dtype, best, a.codes[i])
        made[g] = best
    if not blocks:
        everywhere = Reg(a.dtype, [made[0]] * count)
        hits = compare("eq", a, everywhere, mask)
        if a.dtype.is_float() and unpack(made[0], a.dtype)[1] == NAN:
            hits = compare("ne", a, a, mask)
        made[1] = next((i for i in range(count) if lane(hits, a.width, i)), 0)
    return Reg(a.dtype, made)


def reduce_sum(a: Reg, mask: Bits, blocks: bool) -> Reg:
    """A tree whose first level adds lane i and lane i + half."""
    count = len(a.codes)
    size = count // 8 if blocks else count
    made = [0] * count
    for g in range(count // size):
        level = [a.codes[i] if lane(mask, a.width, i) else 0 for i in range(g * size, (g + 1) * size)]
        while len(level) > 1:
            half = len(level) // 2
            level = [apply(BINARY["add"], a.dtype, level[i], level[i + half]) for i in range(half)]
        made[g] = level[0]
    return Reg(a.dtype, made)


def pair_sum(a: Reg, mask: Bits) -> Reg:
    on = [c if lane(mask, a.width, i) else 0 for i, c in enumerate(a.codes)]
    half = [apply(BINARY["add"], a.dtype, on[2 * k], on[2 * k + 1]) for k in range(len(on) // 2)]
    return Reg(a.dtype, half + [0] * len(half))


def arange(start: float | int, dtype: D, decreasing: bool) -> Reg:
    count = 256 // dtype.nbytes
    made = []
    for i in range(count):
        step = i if not decreasing else -i if dtype.nbytes == 8 else count - 1 - i
        if dtype.is_float():
            first = unpack(scalar_code(start, dtype), dtype)
            made.append(pack(fadd(first, (0, Fraction(step))), dtype))
        else:
            made.append(wrap(signed(scalar_code(start, dtype), dtype) + step, dtype))
    return Reg(dtype, made)


def histogram(old: Reg, a: Reg, mask: Bits, base: int, cumulative: bool) -> Reg:
    made = []
    for n in range(128):
        hits = sum(
            1 for i, c in enumerate(a.codes) if mask[i] and (c <= base + n if cumulative else c == base + n)
        )
        made.append((old.codes[n] + hits) % 65536)
    return Reg(D.DT_UINT16, made)


def unsqueeze(mask: Bits, dtype: D) -> Reg:
    count = 256 // dtype.nbytes
    made, seen = [], 0
    for i in range(count):
        made.append(wrap(seen, dtype))
        seen += lane(mask, dtype.nbytes, i)
    return Reg(dtype, made)


# --- rearranging -----------------------------------------------------------------------------------------------------


def interleave(a: Sequence[Any], b: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    z = [v for pair in zip(a, b, strict=True) for v in pair]
    return z[: len(a)], z[len(a) :]


def de_interleave(a: Sequence[Any], b: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    z = [*a, *b]
    return z[::2], z[1::2]


def slots(mask: Bits, width: int) -> list[tuple[int, ...]]:
    return [tuple(mask[i : i + width]) for i in range(0, 256, width)]


def flat(parts: Sequence[tuple[int, ...]]) -> Bits:
    return [bit for part in parts for bit in part]


def pack_register(a: Reg, dtype: D, upper: bool) -> Reg:
    low = [c % (1 << dtype.bits()) for c in a.codes]
    zeros = [0] * len(low)
    return Reg(dtype, zeros + low if upper else low + zeros)


def unpack_register(a: Reg, dtype: D, upper: bool) -> Reg:
    half = len(a.codes) // 2
    part = a.codes[half:] if upper else a.codes[:half]
    return Reg(dtype, [wrap(signed(c, a.dtype), dtype) for c in part])


def astype(a: Reg, mask: Bits, dtype: D, part: int, rule: str, saturate: bool) -> Reg:
    """Section 6: placement by the ratio of widths; 4-bit elements in pairs."""

    def one(code: int) -> int:
        return formats.convert_one(code, a.dtype, dtype, rule, saturate, "register")

    made = [0] * (256 // dtype.nbytes)
    if a.dtype.bits() == 4:
        for k in range(64):
            byte = a.codes[4 * k + part]
            if mask[4 * k + part]:
                made[2 * k], made[2 * k + 1] = one(byte & 15), one(byte >> 4)
    elif dtype.bits() == 4:
        for k in range(64):
            if lane(mask, 2, 2 * k):
                made[4 * k + part] = one(a.codes[2 * k]) | one(a.codes[2 * k + 1]) << 4
    elif dtype.nbytes > a.width:
        ratio = dtype.nbytes // a.width
        for k in range(len(made)):
            if lane(mask, a.width, ratio * k + part):
                made[k] = one(a.codes[ratio * k + part])
    else:
        ratio = a.width // dtype.nbytes
        for k, code in enumerate(a.codes):
            if lane(mask, a.width, k):
                made[ratio * k + (part if ratio > 1 else 0)] = one(code)
    return Reg(dtype, made)
