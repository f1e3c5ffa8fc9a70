"""quant and dequant: FP32 to 8-bit integers and back, with one scale (and offset) a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np

from pypto_pro.dtypes import DataType
from pypto_pro.enums import MemorySpace, PipeType, QuantMode, RoundMode
from pypto_pro.numerics import encode
from pypto_pro.ops import rules
from pypto_pro.ops.builder import Lanes, NativeScalar, NativeTile, Number
from pypto_pro.ops.entry import Access, Box, Effect, Keyword, Kind, Operand, Role, defop
from pypto_pro.ops.operands import TileArg, TileInfo, VecIn, VecOut
from pypto_pro.ops.vec_lowering import VectorBuilder, at, bytes_of, guard

D = DataType

QuantKind = Annotated[QuantMode, Keyword(enum=QuantMode)]
OptionalIn = Annotated["TileArg | None", Operand(frozenset({Kind.TILE}), Role.IN, (MemorySpace.Vec,))]


@defop("pl.quant", pipe=PipeType.V, family="tile.quant")
def quant(
    out: VecOut, src: VecIn, scale: VecIn, *, mode: QuantKind = QuantMode.SYM, offset: OptionalIn = None
) -> None:
    """SYM: out = INT8 of src * scale[r]. ASYM: out = UINT8 of src * scale[r] + offset[r].

    Product and sum in FP32, then rounded to nearest even and clamped; NaN gives 0. scale, a multiplier, and offset are
    FP32 [R, 1] tiles. The valid shape of src governs. auto_mutex does not lock `offset`, a keyword.
    """
    values = src.get() * scale.get(src.vr, 1)
    if mode is QuantMode.ASYM:
        assert offset is not None
        values = values + offset.get(src.vr, 1)
    out.put_bits(encode(values, out.dtype, RoundMode.CAST_RINT, saturate=True))


def check_per_row(*vectors: TileInfo) -> None:
    """FP32 tiles of one value a row."""
    for vector in vectors:
        rules.need_tile(vector, "a scale or offset")
        rules.has_dtype(vector, D.DT_FP32)
        if vector.type.cols != 1:
            raise ValueError(f"`{vector.name}` {list(vector.type.shape)} must be [R, 1], one value a row")
    rules.aligned_rows(*vectors)


@quant.rules
def _(out: TileInfo, src: TileInfo, scale: TileInfo, mode: QuantMode, offset: TileInfo | None) -> None:
    rules.has_dtype(src, D.DT_FP32)
    rules.has_dtype(out, D.DT_INT8 if mode is QuantMode.SYM else D.DT_UINT8)
    if mode is QuantMode.ASYM and offset is None:
        raise ValueError("QuantMode.ASYM needs offset=")
    check_per_row(*(v for v in (scale, offset) if v is not None))
    rules.row_major(out, src)
    rules.aligned_rows(out, src)


@quant.regions
def _(out: TileArg, src: TileArg, scale: TileArg, mode: QuantMode, offset: TileArg | None) -> list[Access]:
    domain, column = Box(0, 0, src.vr, src.vc), Box(0, 0, src.vr, 1)
    touched = [
        Access("src", Effect.READ, domain), Access("scale", Effect.READ, column), Access("out", Effect.WRITE, domain)
    ]
    return [*touched, Access("offset", Effect.READ, column)] if mode is QuantMode.ASYM else touched


@quant.lower
def _(
    k: VectorBuilder, out: NativeTile, src: NativeTile, scale: NativeTile, mode: QuantMode, offset: NativeTile | None
) -> Any:
    def quantised(x: Lanes, factor: Lanes, shift: Lanes | None) -> Lanes | None:
        y = x * factor if shift is None else x * factor + shift
        return k.convert(y, D.DT_FP32, out.dtype, RoundMode.CAST_RINT, True, False)

    vectors = (scale, offset) if mode is QuantMode.ASYM and offset is not None else (scale,)
    return lower_per_row(k, out, src, vectors, src.vr, src.vc, quantised)


def lower_per_row(
    k: VectorBuilder, out: NativeTile, src: NativeTile, vectors: tuple[NativeTile, ...], rows: Number, cols: Number,
    compute: Callable[..., Lanes | None],
) -> None:
    """out = compute(src, factor of the row, shift of the row or None)."""
    guard(k, out, (src,), rows, cols)
    size = k.scalar(rows) * 4
    written = bytes_of(out, k.scalar(rows), k.scalar(cols))
    for vector in vectors:
        k.require(k.covers(vector, size), k.disjoint(vector, size, out, written))
    count = k.lane_count(out.dtype, src.dtype)
    with k.for_range(0, rows) as row:
        held = [k.load_scalar(k.pointer(v, row), D.DT_FP32) for v in vectors]
        factor, shift = [k.lanes_of(h, D.DT_FP32, count) for h in held] + [None] * (2 - len(held))

        def step(first: NativeScalar, left: Any) -> None:
            result = compute(k.load(at(k, src, row, first), src.dtype, count, left), factor, shift)
            assert result is not None
            k.store(result, at(k, out, row, first), out.dtype, left)

        k.vectors(count, k.scalar(cols), step)


@defop("pl.dequant", pipe=PipeType.V, family="tile.quant")
def dequant(out: VecOut, src: VecIn, scale: VecIn, offset: VecIn) -> None:
    """out = (float(src) - offset[r]) * scale[r] in FP32, two roundings, from INT8 or INT16.

    scale and offset are FP32 [R, 1] tiles, both required. The valid shape of out governs.
    """
    values = src.over(out).astype(np.float32)
    out.put((values - offset.get(out.vr, 1)) * scale.get(out.vr, 1))


@dequant.rules
def _(out: TileInfo, src: TileInfo, scale: TileInfo, offset: TileInfo) -> None:
    rules.has_dtype(src, D.DT_INT8, D.DT_INT16)
    rules.has_dtype(out, D.DT_FP32)
    check_per_row(scale, offset)
    rules.row_major(out, src)
    rules.aligned_rows(out, src)
    for vector in (scale, offset):
        rules.agree(out, vector, 0)


@dequant.regions
def _(out: TileArg, src: TileArg, scale: TileArg, offset: TileArg) -> list[Access]:
    domain, column = Box(0, 0, out.vr, out.vc), Box(0, 0, out.vr, 1)
    return [
        Access("src", Effect.READ, domain), Access("scale", Effect.READ, column),
        Access("offset", Effect.READ, column), Access("out", Effect.WRITE, domain),
    ]


@dequant.lower
def _(k: VectorBuilder, out: NativeTile, src: NativeTile, scale: NativeTile, offset: NativeTile) -> Any:
    def restored(x: Lanes, factor: Lanes, shift: Lanes) -> Lanes:
        return (x.to(D.DT_FP32) - shift) * factor

    return lower_per_row(k, out, src, (scale, offset), out.vr, out.vc, restored)
