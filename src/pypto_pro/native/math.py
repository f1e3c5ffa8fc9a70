"""Transcendental functions on FP32 lanes.

exp and log follow the reduction and the minimax polynomials of the Cephes library (S. Moshier, `expf.c`, `logf.c`);
with FMA they stay within 1 ulp, without within 2. Results keep IEEE specials and subnormals.
"""

from __future__ import annotations

from collections.abc import Sequence

import llvmlite.ir as ir

from pypto_pro.dtypes import DataType
from pypto_pro.native.emit import F32, like, vector
from pypto_pro.native.emit import I32 as EMIT_I32
from pypto_pro.native.engine import host
from pypto_pro.native.lanes import Lanes, fused, maximum

I32 = DataType.DT_INT32
FP32 = DataType.DT_FP32
INF = float("inf")

LOG2_E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 0.693359375, -2.12194440e-4
SQRT_HALF = 0.7071067811865476

_EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
_LOG = (
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
    2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
)  # fmt: skip


def madd(a: Lanes | float, b: Lanes | float, c: Lanes | float) -> Lanes:
    """a * b + c, fused where the host can."""
    if host().has_fma:
        return fused(a, b, c)
    model = next(x for x in (a, b, c) if isinstance(x, Lanes))
    return model.new(model.other(a)) * b + c


def polynomial(x: Lanes, coefficients: Sequence[float]) -> Lanes:
    """Horner's rule, highest power first."""
    result: Lanes | float = coefficients[0]
    for coefficient in coefficients[1:]:
        result = madd(result, x, coefficient)
    assert isinstance(result, Lanes)
    return result


def nearest(x: Lanes) -> Lanes:
    """Rounded to an integral value, ties to even."""
    return x.new(x.code.intrinsic("roundeven", x.value))


def integer(x: Lanes) -> Lanes:
    """INT32 lanes of integral FP32 lanes known to be in range; NaN gives anything."""
    code = x.code
    return x.new(code.b.fptosi(x.value, like(x.value.type, EMIT_I32)), I32)


def power_of_two(n: Lanes) -> Lanes:
    """2 ** n for INT32 lanes in [-126, 127]."""
    return ((n + 127) << 23).bits_as(FP32)


def scaled(x: Lanes, n: Lanes) -> Lanes:
    """x * 2 ** n, rounded once, for integral FP32 lanes n: an instruction of AVX-512; counts from 4, powers of two."""
    code, b = x.code, x.code.b
    width = min(x.count, 16)
    type_, mask = vector(width, F32), ir.IntType(max(width, 8))
    name = f"llvm.x86.avx512.mask.scalef.ps.{32 * width}"
    results = []
    for start in range(0, x.count, width):
        places = ir.Constant(vector(width, EMIT_I32), [EMIT_I32(start + k) for k in range(width)])
        parts = [b.shuffle_vector(v, v, places) for v in (x.value, n.value)]
        rounding = [EMIT_I32(4)] if width == 16 else []  # as the control word says
        results.append(code.call(name, type_, [*parts, parts[0], mask(-1), *rounding]))
    while len(results) > 1:
        count = 2 * results[0].type.count
        places = ir.Constant(vector(count, EMIT_I32), [EMIT_I32(k) for k in range(count)])
        results = [b.shuffle_vector(*results[k : k + 2], places) for k in range(0, len(results), 2)]
    return x.new(results[0])


def exp(x: Lanes) -> Lanes:
    """e ** x: inf above 88.73, subnormal results rounded, 0 below -103.97; NaN stays."""
    bounded = (x > 89.0).select(89.0, x)  # in this form one instruction, and NaN stays
    bounded = (bounded < -104.0).select(-104.0, bounded)
    whole = nearest(bounded * LOG2_E)
    rest = madd(whole, -LN2_LOW, madd(whole, -LN2_HIGH, bounded))
    square = rest * rest
    series = madd(polynomial(rest, _EXP), square, rest) + 1.0
    if host().fp32_lanes == 16 and series.count >= 4:
        return scaled(series, whole)
    exponent = integer(whole)
    first = exponent >> 1  # two factors, so that neither leaves the range of normal numbers
    return series * power_of_two(first) * power_of_two(exponent - first)


def log(x: Lanes) -> Lanes:
    """Natural logarithm: -inf for 0, NaN below 0, inf for inf."""
    tiny = x < 1.1754943508222875e-38
    scaled = tiny.select(x * float(2**23), x)
    bits = scaled.bits_as(I32)
    exponent = (bits >> 23) - 126
    mantissa = ((bits & 0x007FFFFF) | 0x3F000000).bits_as(FP32)  # in [0.5, 1)
    low = mantissa < SQRT_HALF
    fraction = low.select(mantissa + mantissa, mantissa) - 1.0
    power = low.select(exponent - 1, exponent)
    power = tiny.select(power - 23, power)
    square = fraction * fraction
    tail = polynomial(fraction, _LOG) * fraction * square
    scale = power.to(FP32)
    tail = madd(scale, LN2_LOW, tail)
    tail = madd(square, -0.5, tail)
    result = madd(scale, LN2_HIGH, fraction + tail)
    result = (x == INF).select(x, result)
    result = (x == 0.0).select(-INF, result)
    return (x >= 0.0).select(result, float("nan"))


def sqrt(x: Lanes) -> Lanes:
    """Correctly rounded square root."""
    return x.new(x.code.intrinsic("sqrt", x.value))


def absolute(x: Lanes) -> Lanes:
    """|x|; integers wrap at the most negative number."""
    if x.dtype.is_float():
        return x.new(x.code.intrinsic("fabs", x.value))
    return maximum(x, -x) if x.dtype.is_signed_int() else x
