"""The exit of the accumulator on lanes: scale, relu, conversion, by the rules of `ops.fixpipe`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pypto_pro.dtypes import DataType
from pypto_pro.enums import RoundMode
from pypto_pro.native import codecs, convert, small_floats
from pypto_pro.native.calls import Tile
from pypto_pro.native.emit import F64, I64, like, splat, vector
from pypto_pro.native.lanes import Lanes
from pypto_pro.native.scalars import Scalar

if TYPE_CHECKING:
    from pypto_pro.native.blocks import Emitter
    from pypto_pro.ops.fixpipe import Exit

D = DataType
Change = Callable[[Lanes, Scalar], Lanes]
"""(elements of a run, column of the first) -> what is stored."""

CHANNEL_MASK = 0xFFFFE000
OFFSET_BIT, OFFSET_BITS, SIGNED_BIT = 37, 9, 46


def guards(k: Emitter, way_out: Exit, columns: Scalar) -> list[Scalar]:
    """What must hold for the exit to read its parameters."""
    scale = way_out.scale
    if not isinstance(scale, Tile):
        return []
    return [scale.addr >= 0, scale.addr + columns * scale.dtype.nbytes <= k.capacity(scale)]


def change(k: Emitter, source: DataType, target: DataType, way_out: Exit) -> Change | None:
    """What an exit does to accumulator lanes; None when their bits leave as they are."""
    if way_out.scale is None:
        if not way_out.relu:
            return None if source is target else lambda lanes, _: one_nan(lanes)
        return lambda lanes, _: _relu(lanes)

    def scaled(lanes: Lanes, column: Scalar) -> Lanes:
        words = _channel_words(k, way_out.scale, column, lanes.count) if isinstance(way_out.scale, Tile) else None
        factor = _scalar_factor(k, way_out.scale, lanes.count) if words is None else _channel_factor(words)
        result = lanes.to(D.DT_FP32) * factor
        return _fitted(_relu(result) if way_out.relu else result, target, words)

    return scaled


def one_nan(lanes: Lanes) -> Lanes:
    """FP32 lanes with every NaN as conversions make it; others unchanged."""
    return (lanes == lanes).select(lanes, float("nan")) if lanes.dtype.is_float() else lanes


def _relu(lanes: Lanes) -> Lanes:
    return (lanes > 0).select(lanes, 0)


def _scalar_factor(k: Emitter, scale: Any, count: int) -> Lanes:
    """FP32 as it is; an integer holds the FP32 bits in its low half."""
    if isinstance(scale, Scalar) and scale.dtype.is_int():
        return k.lanes_of(scale, D.DT_UINT32, count).bits_as(D.DT_FP32)
    return k.lanes_of(scale, D.DT_FP32, count)


def _channel_words(k: Emitter, scale: Tile, column: Scalar, count: int) -> Lanes:
    """The parameter words of `count` columns."""
    bits = k.code.load(vector(count, I64), k.pointer(scale, column))
    return Lanes(k.code, bits, D.DT_UINT64)


def _channel_factor(words: Lanes) -> Lanes:
    return (words & CHANNEL_MASK).to(D.DT_UINT32).bits_as(D.DT_FP32)


def _fitted(result: Lanes, target: DataType, words: Lanes | None) -> Lanes:
    """FP32 results as what is stored in `target`."""
    match target:
        case D.DT_INT8 if words is None:
            rounded = convert.integral(result, RoundMode.CAST_RINT)
            assert rounded is not None
            return rounded.to(D.DT_INT8)
        case D.DT_INT8:
            assert words is not None
            return _eight_bits(result, words)
        case D.DT_FP16:
            largest = convert.LARGEST[target]
            low = (result < -largest).select(-largest, result)
            return one_nan((low > largest).select(largest, low))
        case D.DT_FP8E4M3FN | D.DT_HF8:
            return small_floats.encode(result, target, RoundMode.CAST_RINT, saturate=True)
    return one_nan(result)


def _eight_bits(result: Lanes, words: Lanes) -> Lanes:
    """Offset added, rounded, clamped to 0..255 or, with the signed flag, to -128..127; NaN gives 0."""
    code, b = result.code, result.code.b
    double = like(result.value.type, F64)
    shift = 64 - OFFSET_BITS
    offset = words.bits_as(D.DT_INT64) << (shift - OFFSET_BIT) >> shift
    total = b.fadd(b.fpext(result.value, double), b.sitofp(offset.value, double))
    rounded = code.intrinsic("roundeven", total)
    signed = ((words >> SIGNED_BIT) & 1) != 0
    low = b.select(signed.value, splat(double, -128.0), splat(double, 0.0))
    high = b.select(signed.value, splat(double, 127.0), splat(double, 255.0))
    above = b.select(b.fcmp_ordered("<", rounded, low), low, rounded)
    clamped = b.select(b.fcmp_ordered(">", above, high), high, above)
    real = b.select(b.fcmp_ordered("ord", clamped, clamped), clamped, splat(double, 0.0))
    whole = b.fptosi(real, like(double, codecs.value_type(D.DT_INT32)))
    return result.new(whole, D.DT_INT32).to(D.DT_INT8)
