"""`cast`: conversion between element types on Vec tiles (numerics 4: pairs, rounding, saturation, wrapping pairs)."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from pypto_pro import numerics
from pypto_pro.dtypes import DataType
from pypto_pro.enums import PipeType, RoundMode
from pypto_pro.numerics.encode import rounding_rule
from pypto_pro.ops import rules
from pypto_pro.ops.builder import Lanes, NativeScalar, NativeTile
from pypto_pro.ops.entry import Access, Box, Effect, Keyword, defop
from pypto_pro.ops.operands import TileArg, TileInfo, VecIn, VecOut
from pypto_pro.ops.vec_lowering import RAW, VectorBuilder, at, bytes_of, guard, raw, raw_codes, retyped

D = DataType

Mode = Annotated[RoundMode, Keyword(enum=RoundMode)]


@defop("pl.cast", pipe=PipeType.V, family="tile.convert")
def cast(out: VecOut, src: VecIn, *, mode: Mode = RoundMode.CAST_ROUND) -> None:
    """out = src converted to the dtype of `out`; ties go away from zero unless `mode` says otherwise.

    Exact conversions ignore `mode`; FP8 targets always round to nearest even, HF8 targets ties away. Saturates, except
    the six wrapping pairs. The valid shape of `out` governs. FP4 targets: whole rows are zeroed, then whole bytes
    written, so an odd last column stays 0.
    """
    convert_into(out, src, mode)


@cast.rules
def _(out: TileInfo, src: TileInfo, mode: RoundMode) -> None:
    check_pair(src.dtype, out.dtype)
    rules.row_major(out, src)
    rules.aligned_rows(out, src)
    if out.dtype.bits() > src.dtype.bits() and out.addr is not None and out.addr == src.addr:
        raise ValueError(f"`{out.name}` and `{src.name}` start at one address; only casts to equal or narrower "
                         "elements work in place")


@cast.lower
def _(k: VectorBuilder, out: NativeTile, src: NativeTile, mode: RoundMode) -> Any:
    return lower_conversion(k, out, src, mode)


@cast.regions
def _(out: TileArg, src: TileArg, mode: RoundMode) -> list[Access]:
    return conversion_regions(out, "src")


def convert_into(out: TileArg, src: TileArg, mode: RoundMode) -> None:
    """out = src over the valid shape of `out`."""
    cols = converted_columns(out)
    bits = numerics.convert(src.bits(out.vr, cols), src.dtype, out.dtype, mode)
    if out.dtype.is_sub_byte:
        out.put_bits(np.zeros((out.vr, out.type.cols), np.uint8))
    out.put_bits(bits)


def converted_columns(out: Any) -> Any:
    """Columns really converted: packed 4-bit results come in whole bytes."""
    return out.vc // 2 * 2 if out.type.dtype.is_sub_byte else out.vc


def conversion_regions(out: Any, source: str) -> list[Access]:
    """Reads of the source and writes of `out`, which for 4-bit elements are whole rows."""
    written = out.type.cols if out.type.dtype.is_sub_byte else out.vc
    return [
        Access(source, Effect.READ, Box(0, 0, out.vr, converted_columns(out))),
        Access("out", Effect.WRITE, Box(0, 0, out.vr, written)),
    ]


def check_pair(source: DataType, target: DataType) -> None:
    """TypeError for a pair tile casts do not have, naming those of the source."""
    if (source, target) in numerics.TILE_CASTS:
        return
    targets = [b for a, b in numerics.TILE_CASTS if a is source]
    known = f"{rules.names([source])} converts to {rules.names(targets)}" if targets else "it converts to nothing"
    raise TypeError(f"there is no cast from {rules.names([source])} to {rules.names([target])}; {known}")


# --- native code ------------------------------------------------------------------------------------------------------

SMALL_FLOATS = {D.DT_FP8E4M3FN: (3, -6, 448.0), D.DT_FP8E5M2: (2, -14, 57344.0)}
"""Fraction bits, smallest normal exponent, largest value."""
TABLED = (*SMALL_FLOATS, D.DT_HF8)


def byte_view(tile: NativeTile) -> NativeTile:
    """A tile of 4-bit elements as its bytes; other tiles as raw elements."""
    if not tile.dtype.is_sub_byte:
        return raw(tile)
    return retyped(tile, D.DT_UINT8, (tile.type.rows, tile.type.cols // 2))


def prepare_conversion(k: VectorBuilder, out: NativeTile, src: NativeTile) -> None:
    """Ask for everything `lower_conversion` needs."""
    target, source = byte_view(out), byte_view(src)
    if not (out.dtype.is_sub_byte or src.dtype.is_sub_byte):
        guard(k, target, (source,), out.vr, out.vc)
        return
    rows, cols = out.vr, out.vc
    width = target.type.cols if out.dtype.is_sub_byte else cols
    read = (cols + 1) // 2 if src.dtype.is_sub_byte else cols
    k.require(k.fits(target, rows, width), k.fits(source, rows, read),
              k.disjoint(target, bytes_of(target, rows, width), source, bytes_of(source, rows, read)))


def lower_conversion(k: VectorBuilder, out: NativeTile, src: NativeTile, mode: RoundMode) -> Any:
    """Native code of `convert_into`: arithmetic, or tables for the formats of 4 and 8 bits."""
    pair = (src.dtype, out.dtype)
    if out.dtype.is_sub_byte or src.dtype.is_sub_byte:
        prepare_conversion(k, out, src)
        (_pack_pairs if out.dtype.is_sub_byte else _unpack_pairs)(k, out, src, mode)
        return None
    if src.dtype is D.DT_FP32 and out.dtype in SMALL_FLOATS:
        return k.elementwise(raw(out), (src,), lambda x: _small_float(x, *SMALL_FLOATS[out.dtype]))
    if src.dtype is D.DT_FP32 and out.dtype is D.DT_HF8:
        return k.elementwise(raw(out), (src,), lambda x: _hf8(k, x, mode))
    if src.dtype in TABLED or out.dtype in TABLED:
        table = k.table(numerics.convert(raw_codes(src.dtype), *pair, mode))
        return k.elementwise(raw(out), (raw(src),), lambda x: k.lookup(table, x, RAW[out.dtype.nbytes]))
    odd = pair == (D.DT_FP32, D.DT_FP16)
    rule = rounding_rule(mode, to_integer=not out.dtype.is_float() or src.dtype is out.dtype, odd=odd)
    wraps = numerics.TILE_CASTS[pair].wraps
    return k.elementwise(out, (src,), lambda x: k.convert(x, *pair, rule, not wraps, wraps))


def _small_float(x: Lanes, fraction: int, lowest: int, largest: float) -> Lanes:
    """FP32 lanes as saturating FP8 codes, ties to even; NaN gives 0."""
    kept = (x == x).select((x > largest).select(largest, (x < -largest).select(-largest, x)), 0.0)
    bits = kept.bits_as(D.DT_UINT32)
    magnitude = bits & 0x7FFFFFFF
    shift = 23 - fraction
    normal = ((magnitude + ((1 << (shift - 1)) - 1) + (magnitude >> shift & 1)) >> shift) - (126 + lowest << fraction)
    magic = 2.0 ** (lowest - fraction + 23)  # its last bit is the quantum of the subnormals: the adder rounds
    tiny = (magnitude.bits_as(D.DT_FP32) + magic).bits_as(D.DT_UINT32) - int(np.float32(magic).view(np.uint32))
    code = (magnitude.bits_as(D.DT_FP32) < 2.0**lowest).select(tiny, normal)
    return (code | (bits >> 24 & 0x80)).to(D.DT_UINT8)


def _hf8(k: VectorBuilder, x: Lanes, mode: RoundMode) -> Lanes:
    """FP32 lanes as saturating HF8 codes: ties go away from zero, so sign, exponent and four more bits decide."""
    prefixes = np.arange(1 << 13, dtype=np.uint32) << np.uint32(19)
    table = k.table(numerics.convert(prefixes, D.DT_FP32, D.DT_HF8, mode))
    code = k.lookup(table, x.bits_as(D.DT_UINT32) >> 19, D.DT_UINT8)
    return (x == x).select(code, 0x80)


def _unpack_pairs(k: VectorBuilder, out: NativeTile, src: NativeTile, mode: RoundMode) -> None:
    """4-bit codes to BF16: a table of all pairs."""
    codes = np.arange(256, dtype=np.uint8)
    nibbles = (codes & np.uint8(15), codes >> np.uint8(4))
    halves = [numerics.convert(each, src.dtype, out.dtype, mode).astype(np.uint32) for each in nibbles]
    table = k.table(halves[0] | halves[1] << np.uint32(16))
    source, target = byte_view(src), raw(out)
    count = k.lane_count(D.DT_UINT32)

    with k.for_range(0, out.vr) as row:

        def pairs(first: NativeScalar, left: Any) -> None:
            both = k.lookup(table, k.load(at(k, source, row, first), D.DT_UINT8, count, left), D.DT_UINT32)
            k.store(both, at(k, target, row, first * 2), D.DT_UINT32, left)

        k.vectors(count, out.vc // 2, pairs)
        with k.if_(out.vc % 2 == 1):
            last = k.lookup(table, k.load(at(k, source, row, out.vc // 2), D.DT_UINT8, 1), D.DT_UINT32)
            k.store(last.to(D.DT_UINT16), at(k, target, row, out.vc - 1), D.DT_UINT16)


def _pack_pairs(k: VectorBuilder, out: NativeTile, src: NativeTile, mode: RoundMode) -> None:
    """BF16 to 4-bit codes, two a byte; the rest of every row is zero."""
    table = k.table(numerics.convert(raw_codes(src.dtype), src.dtype, out.dtype, mode))
    source, target = raw(src), byte_view(out)
    count = k.lane_count(D.DT_UINT32)
    whole = out.vc // 2

    with k.for_range(0, out.vr) as row:

        def pairs(first: NativeScalar, left: Any) -> None:
            both = k.load(at(k, source, row, first * 2), D.DT_UINT32, count, left)
            low, high = (k.lookup(table, half, D.DT_UINT8) for half in (both & 0xFFFF, both >> 16))
            k.store(low | high << 4, at(k, target, row, first), D.DT_UINT8, left)

        k.vectors(count, whole, pairs)
        k.fill_bytes(at(k, target, row, whole), 0, target.type.cols - whole)
