"""matmul, matmul_acc and their MX forms: Left x Right -> Acc on pipe M.

m = valid rows of lhs, k = valid columns of lhs, n = valid columns of rhs; no other valid shape is read. The matrix
unit reads its operands packed for the run-time m and n and writes Acc packed for m, whatever `compact` says
(types-and-memory 4.4). Whole 16x16 boxes of Acc may be clobbered.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from pypto_pro.dtypes import DataType
from pypto_pro.enums import AccPhase, MemorySpace, PipeType
from pypto_pro.ops import rules
from pypto_pro.ops.builder import Builder, NativeTile
from pypto_pro.ops.entry import (
    Access,
    Box,
    Effect,
    Keyword,
    Kind,
    Operand,
    Requirement,
    Role,
    Section,
    Tolerance,
    defop,
)
from pypto_pro.ops.operands import Array, TileArg, TileInfo, tile

D = DataType
MAX_EXTENT = 4095
GROUP = 32  # elements of K that share one MX scale

AccOut = Annotated[TileArg, tile(Role.OUT, MemorySpace.Acc)]
AccIn = Annotated[TileArg, tile(Role.IN, MemorySpace.Acc)]
LeftIn = Annotated[TileArg, tile(Role.IN, MemorySpace.Left)]
RightIn = Annotated[TileArg, tile(Role.IN, MemorySpace.Right)]
BiasIn = Annotated["TileArg | None", Operand(frozenset({Kind.TILE}), Role.IN, (MemorySpace.Bias,), by_position=True)]
ScaleLeftIn = Annotated["TileArg | None", tile(Role.IN, MemorySpace.ScaleLeft)]
ScaleRightIn = Annotated["TileArg | None", tile(Role.IN, MemorySpace.ScaleRight)]
Phase = Annotated["AccPhase | None", Keyword(enum=AccPhase)]

FP8 = (D.DT_FP8E4M3FN, D.DT_FP8E5M2)
FP4 = (D.DT_FP4E2M1, D.DT_FP4E1M2)
SAME_DTYPE = (D.DT_FP16, D.DT_BF16, D.DT_FP32, D.DT_INT8, D.DT_HF8)

SUM_ORDER = Tolerance(
    "2 * K * eps * (|lhs| @ |rhs|)", 1e-5, 1e-5, "the order of the FP32 sums over K differs; integers are exact"
)


def up16(extent: Any) -> Any:
    """Rounded up to the 16 rows or columns of a box."""
    return (extent + 15) // 16 * 16


def product(lhs: Array, rhs: Array) -> Array:
    """lhs @ rhs in FP32, or exactly in INT32 (wrapping) for integers. Shapes [m, k] @ [k, n]."""
    if lhs.dtype.kind == "i":  # |sum| < 2**53, so the float64 product is exact
        exact = lhs.astype(np.float64) @ rhs.astype(np.float64)
        return exact.astype(np.int64).astype(np.int32)
    return lhs @ rhs


def effective(lhs: Any, rhs: Any) -> tuple[Any, Any, Any]:
    """(m, k, n): valid rows of lhs, valid columns of lhs, valid columns of rhs."""
    return lhs.vr, lhs.vc, rhs.vc


def facts(lhs: Any, rhs: Any) -> list[Requirement]:
    """What the matrix unit can count: 1 to 4095 each, nothing to do for no rows or columns."""
    m, k, n = effective(lhs, rhs)
    idle = (m == 0) | (n == 0)
    return [
        Requirement(idle | (k > 0), "a product needs at least one valid column of lhs (k)"),
        Requirement((m <= MAX_EXTENT) & (k <= MAX_EXTENT) & (n <= MAX_EXTENT),
                    f"the matrix unit counts m, k and n up to {MAX_EXTENT}"),
    ]


def accumulator_facts(dst: Any, acc: Any) -> list[Requirement]:
    """The accumulator read is the one written, which only the run may know; nothing while the kernel is read."""
    if not hasattr(dst, "addr") or not hasattr(acc, "addr"):
        return []
    return [Requirement(dst.addr == acc.addr, "the accumulator read must be the one written: the product is added to "
                        "what the destination holds")]


def operands(lhs: TileArg, rhs: TileArg) -> tuple[Array, Array]:
    """Decoded [m, k] and [k, n] matrices as the matrix unit reads them."""
    m, k, n = effective(lhs, rhs)
    return lhs.values(m, k, row_extent=up16(m)), rhs.values(k, n, col_extent=up16(n))


def scales(lhs: TileArg, rhs: TileArg, scale_a: TileArg, scale_b: TileArg) -> tuple[Array, Array]:
    """MX scale factors as float64, spread over K: [m, k] and [k, n]. Groups per block = K / 32 of the run-time K."""
    m, k, n = effective(lhs, rhs)
    groups = -(-k // GROUP)
    a = scale_a.values(m, groups, col_extent=groups).astype(np.float64)
    b = scale_b.values(groups, n, row_extent=groups).astype(np.float64)
    return np.repeat(a, GROUP, axis=1)[:, :k], np.repeat(b, GROUP, axis=0)[:k]


def write_acc(dst: TileArg, values: Array) -> None:
    """Store [m, n] results packed for m."""
    kind = np.int32 if dst.dtype is D.DT_INT32 else np.float32
    dst.put_bits(np.ascontiguousarray(values, kind).view(np.uint32), row_extent=up16(values.shape[0]))


def read_acc(acc: TileArg, m: int, n: int) -> Array:
    """The accumulator's [m, n] values, packed for m."""
    kind = np.int32 if acc.dtype is D.DT_INT32 else np.float32
    return acc.bits(m, n, row_extent=up16(m)).view(kind)


def add_wrapping(lhs: Array, rhs: Array) -> Array:
    """lhs + rhs in FP32, or INT32 with wrap."""
    return np.asarray(lhs + rhs)


# --- static rules ----------------------------------------------------------------------------------------------------


def check_types(dst: TileInfo, lhs: TileInfo, rhs: TileInfo, bias: TileInfo | None = None) -> None:
    """dtype rows and declared shapes of the plain forms; TypeError and ValueError."""
    pair = (lhs.dtype, rhs.dtype)
    known = (lhs.dtype in SAME_DTYPE and lhs.dtype is rhs.dtype) or (lhs.dtype in FP8 and rhs.dtype in FP8)
    if not known:
        raise TypeError(f"there is no {rules.names([pair[0]])} x {rules.names([pair[1]])} product")
    wanted = D.DT_INT32 if lhs.dtype is D.DT_INT8 else D.DT_FP32
    if dst.dtype is not wanted:
        found = rules.names([dst.dtype])
        raise TypeError(f"the accumulator `{dst.name}` must be {rules.names([wanted])}, found {found}")
    if bias is not None and bias.dtype is not wanted:
        raise TypeError(f"the bias `{bias.name}` must be {rules.names([wanted])}, found {rules.names([bias.dtype])}")
    if bias is not None and bias.type.rows != 1:
        raise ValueError(f"the bias `{bias.name}` must be one row, found {list(bias.type.shape)}")
    check_shapes(dst, lhs, rhs)


def check_shapes(dst: TileInfo, lhs: TileInfo, rhs: TileInfo) -> None:
    """Declared [M, K] x [K, N] -> [M, N] made of whole boxes, equal K where valid extents are fixed; ValueError."""
    rules.whole_boxes(dst, lhs, rhs)
    if lhs.type.cols != rhs.type.rows:
        raise ValueError(
            f"`{lhs.name}` has {lhs.type.cols} columns and `{rhs.name}` {rhs.type.rows} rows; K must be equal"
        )
    if dst.type.shape != (lhs.type.rows, rhs.type.cols):
        raise ValueError(
            f"the accumulator `{dst.name}` is {list(dst.type.shape)}; [{lhs.type.rows}, {rhs.type.cols}] is needed"
        )
    k, depth = rules.known_valid(lhs)[1], rules.known_valid(rhs)[0]
    if k is not None and depth is not None and k != depth:
        raise ValueError(f"`{lhs.name}` has {k} valid columns and `{rhs.name}` {depth} valid rows; K must be equal")


def check_acc(dst: TileInfo, acc: TileInfo) -> None:
    """The accumulator read must be the one written: the device never reads another; ValueError."""
    if acc.type != dst.type:
        raise ValueError(f"`{acc.name}` and `{dst.name}` must have one type; the product is added to `{dst.name}`")
    if acc.addr is not None and dst.addr is not None and acc.addr != dst.addr:
        raise ValueError(
            f"`{acc.name}` at {acc.addr:#x} is not `{dst.name}` at {dst.addr:#x}; the product is added to the latter"
        )


# --- plain forms -----------------------------------------------------------------------------------------------------


def touched(dst_tile: TileArg, lhs_tile: TileArg, rhs_tile: TileArg, *, reads_dst: bool) -> list[Access]:
    """Boxes of one multiply."""
    m, k, n = effective(lhs_tile, rhs_tile)
    if m == 0 or n == 0:
        return []
    result = Box(0, 0, m, n, row_extent=up16(m))
    found = [
        Access("lhs_tile", Effect.READ, Box(0, 0, m, k, row_extent=up16(m))),
        Access("rhs_tile", Effect.READ, Box(0, 0, k, n, col_extent=up16(n))),
        Access("dst_tile", Effect.WRITE, result),
        Access("dst_tile", Effect.CLOBBER, Box(0, 0, up16(m), up16(n), row_extent=up16(m))),
    ]
    return [Access("acc_tile", Effect.READ, result), *found] if reads_dst else found


@defop("pl.matmul", pipe=PipeType.M, section=Section.CUBE, family="cube.matmul", tolerance=SUM_ORDER)
def matmul(
    dst_tile: AccOut, lhs_tile: LeftIn, rhs_tile: RightIn, bias_tile: BiasIn = None, *, phase: Phase = None
) -> None:
    """dst = lhs @ rhs (+ bias over rows), FP32 accumulation, INT8 exact in INT32 with wrap.

    `bias_tile` [1, N] only as the fourth positional operand. `phase`: unit-flag handshake with the stores.
    """
    if lhs_tile.vr == 0 or rhs_tile.vc == 0:
        return
    result = product(*operands(lhs_tile, rhs_tile))
    if bias_tile is not None:
        result = add_wrapping(result, bias_tile.get(1, rhs_tile.vc))
    write_acc(dst_tile, result)


@matmul.rules
def _(dst_tile: TileInfo, lhs_tile: TileInfo, rhs_tile: TileInfo, bias_tile: TileInfo | None, phase: Any) -> None:
    check_types(dst_tile, lhs_tile, rhs_tile, bias_tile)


@matmul.issue
def _(dst_tile: Any, lhs_tile: Any, rhs_tile: Any, **_: Any) -> list[Requirement]:
    return facts(lhs_tile, rhs_tile)


@matmul.lower
def _(
    k: Builder, dst_tile: NativeTile, lhs_tile: NativeTile, rhs_tile: NativeTile, bias_tile: NativeTile | None, **_: Any
) -> Any:
    return k.matmul(dst_tile, lhs_tile, rhs_tile, bias_tile)


@matmul.regions
def _(dst_tile: TileArg, lhs_tile: TileArg, rhs_tile: TileArg, bias_tile: TileArg | None, phase: Any) -> list[Access]:
    found = touched(dst_tile, lhs_tile, rhs_tile, reads_dst=False)
    if bias_tile is not None:
        found.append(Access("bias_tile", Effect.READ, Box(0, 0, 1, rhs_tile.vc)))
    return found


@defop("pl.matmul_acc", pipe=PipeType.M, section=Section.CUBE, family="cube.matmul", tolerance=SUM_ORDER)
def matmul_acc(
    dst_tile: AccOut, acc_tile: AccIn, lhs_tile: LeftIn, rhs_tile: RightIn, *, phase: Phase = None
) -> None:
    """dst = acc + lhs @ rhs; acc must be the same accumulator as dst. The whole product is added at once."""
    if lhs_tile.vr == 0 or rhs_tile.vc == 0:
        return
    result = product(*operands(lhs_tile, rhs_tile))
    write_acc(dst_tile, add_wrapping(read_acc(dst_tile, *result.shape), result))


@matmul_acc.rules
def _(dst_tile: TileInfo, acc_tile: TileInfo, lhs_tile: TileInfo, rhs_tile: TileInfo, phase: Any) -> None:
    check_types(dst_tile, lhs_tile, rhs_tile)
    check_acc(dst_tile, acc_tile)


@matmul_acc.issue
def _(dst_tile: Any, acc_tile: Any, lhs_tile: Any, rhs_tile: Any, **_: Any) -> list[Requirement]:
    return [*facts(lhs_tile, rhs_tile), *accumulator_facts(dst_tile, acc_tile)]


@matmul_acc.lower
def _(
    k: Builder, dst_tile: NativeTile, acc_tile: NativeTile, lhs_tile: NativeTile, rhs_tile: NativeTile, **_: Any
) -> Any:
    return k.matmul(dst_tile, lhs_tile, rhs_tile, accumulate=True)


@matmul_acc.regions
def _(dst_tile: TileArg, acc_tile: TileArg, lhs_tile: TileArg, rhs_tile: TileArg, phase: Any) -> list[Access]:
    return touched(dst_tile, lhs_tile, rhs_tile, reads_dst=True)


# --- MX forms --------------------------------------------------------------------------------------------------------


class MisplacedScale(ValueError):
    """A scale tile that is not where the matrix unit looks for it; `tiles` are the scale and its data by name."""

    code = "M104"

    def __init__(self, message: str, tiles: tuple[str, str]) -> None:
        super().__init__(message)
        self.tiles = tiles


def check_mx(dst: TileInfo, lhs: TileInfo, rhs: TileInfo, scale_a: TileInfo, scale_b: TileInfo) -> None:
    """dtype pairs, K, scale shapes and scale addresses (data address >> 4); ValueError, MisplacedScale."""
    for scale, what in ((scale_a, "scale_a"), (scale_b, "scale_b")):
        if not isinstance(scale, TileInfo):
            raise ValueError(f"an MX product needs {what}")
    if not any(lhs.dtype in row and rhs.dtype in row for row in (FP8, FP4)):
        raise ValueError(f"there is no MX product of {rules.names([lhs.dtype])} and {rules.names([rhs.dtype])}")
    if dst.dtype is not D.DT_FP32:
        raise ValueError(f"the accumulator `{dst.name}` must be FP32, found {rules.names([dst.dtype])}")
    check_shapes(dst, lhs, rhs)
    k = lhs.type.cols
    if k % 64:
        raise ValueError(f"K must be a multiple of 64, found {k}")
    wanted = ((scale_a, (lhs.type.rows, k // GROUP), lhs), (scale_b, (k // GROUP, rhs.type.cols), rhs))
    for scale, shape, data in wanted:
        if scale.dtype is not D.DT_FP8E8M0 or scale.type.shape != shape:
            raise ValueError(f"`{scale.name}` must be FP8E8M0 {list(shape)}, found {list(scale.type.shape)}")
        if scale.addr is not None and data.addr is not None and scale.addr != data.addr >> 4:
            raise MisplacedScale(
                f"`{scale.name}` is at {scale.addr:#x}; its data `{data.name}` at {data.addr:#x} needs the scale at "
                f"{data.addr >> 4:#x} (data address >> 4)",
                (scale.name, data.name),
            )


def mx_facts(lhs: Any, rhs: Any, scale_a: Any, scale_b: Any) -> list[Requirement]:
    """K in pairs of groups; scales where the matrix unit looks for them, which only the run may know."""
    k = lhs.vc
    found = [*facts(lhs, rhs), Requirement(k % (2 * GROUP) == 0, f"K of an MX product is a multiple of {2 * GROUP}")]
    for scale, data in ((scale_a, lhs), (scale_b, rhs)):
        if hasattr(scale, "addr") and hasattr(data, "addr"):
            found.append(Requirement(scale.addr == data.addr // 16, "the matrix unit takes MX scales from the address "
                                     "of the data >> 4, where these scales do not lie"))
    return found


def mx_touched(dst_tile: TileArg, lhs_tile: TileArg, rhs_tile: TileArg, *, reads_dst: bool) -> list[Access]:
    """Boxes of one MX multiply, scales included."""
    m, k, n = effective(lhs_tile, rhs_tile)
    if m == 0 or n == 0:
        return []
    groups = (k + (GROUP - 1)) // GROUP
    return [
        *touched(dst_tile, lhs_tile, rhs_tile, reads_dst=reads_dst),
        Access("scale_a", Effect.READ, Box(0, 0, m, groups, col_extent=groups)),
        Access("scale_b", Effect.READ, Box(0, 0, groups, n, row_extent=groups)),
    ]


def mx_product(lhs: TileArg, rhs: TileArg, scale_a: TileArg | None, scale_b: TileArg | None) -> Array:
    """(lhs * 2^a) @ (rhs * 2^b) rounded to FP32; a scale code of 0xFF is NaN.

    In float64, where scaled elements are exact: 254 may meet 0, and 2^127 times an element is beyond FP32.
    """
    assert scale_a is not None
    assert scale_b is not None
    (left, right), (a, b) = operands(lhs, rhs), scales(lhs, rhs, scale_a, scale_b)
    result: Array = ((left * a) @ (right * b)).astype(np.float32)
    return result


@defop("pl.matmul_mx", pipe=PipeType.M, section=Section.CUBE, family="cube.matmul", tolerance=SUM_ORDER)
def matmul_mx(
    dst_tile: AccOut, lhs_tile: LeftIn, rhs_tile: RightIn, scale_a: ScaleLeftIn = None,
    scale_b: ScaleRightIn = None, *, phase: Phase = None,
) -> None:
    """dst = (lhs * scale_a) @ (rhs * scale_b), one E8M0 scale for 32 elements of K; FP8 or FP4 operands."""
    if lhs_tile.vr == 0 or rhs_tile.vc == 0:
        return
    write_acc(dst_tile, mx_product(lhs_tile, rhs_tile, scale_a, scale_b))


@matmul_mx.rules
def _(
    dst_tile: TileInfo, lhs_tile: TileInfo, rhs_tile: TileInfo, scale_a: TileInfo, scale_b: TileInfo, phase: Any
) -> None:
    check_mx(dst_tile, lhs_tile, rhs_tile, scale_a, scale_b)


@matmul_mx.issue
def _(
    dst_tile: Any, lhs_tile: Any, rhs_tile: Any, scale_a: Any, scale_b: Any, **_: Any
) -> list[Requirement]:
    return mx_facts(lhs_tile, rhs_tile, scale_a, scale_b)


@matmul_mx.lower
def _(
    k: Builder, dst_tile: NativeTile, lhs_tile: NativeTile, rhs_tile: NativeTile, scale_a: NativeTile,
    scale_b: NativeTile, **_: Any
) -> Any:
    return k.matmul(dst_tile, lhs_tile, rhs_tile, scales=(scale_a, scale_b))


@matmul_mx.regions
def _(
    dst_tile: TileArg, lhs_tile: TileArg, rhs_tile: TileArg, scale_a: TileArg, scale_b: TileArg, phase: Any
) -> list[Access]:
    return mx_touched(dst_tile, lhs_tile, rhs_tile, reads_dst=False)


@defop("pl.matmul_mx_acc", pipe=PipeType.M, section=Section.CUBE, family="cube.matmul", tolerance=SUM_ORDER)
def matmul_mx_acc(
    dst_tile: AccOut, acc_tile: AccIn, lhs_tile: LeftIn, rhs_tile: RightIn, scale_a: ScaleLeftIn = None,
    scale_b: ScaleRightIn = None, *, phase: Phase = None,
) -> None:
    """dst = acc + the MX product; acc must be the same accumulator as dst."""
    if lhs_tile.vr == 0 or rhs_tile.vc == 0:
        return
    result = mx_product(lhs_tile, rhs_tile, scale_a, scale_b)
    write_acc(dst_tile, add_wrapping(read_acc(dst_tile, *result.shape), result))


@matmul_mx_acc.rules
def _(
    dst_tile: TileInfo, acc_tile: TileInfo, lhs_tile: TileInfo, rhs_tile: TileInfo, scale_a: TileInfo,
    scale_b: TileInfo, phase: Any,
) -> None:
    check_mx(dst_tile, lhs_tile, rhs_tile, scale_a, scale_b)
    check_acc(dst_tile, acc_tile)


@matmul_mx_acc.issue
def _(
    dst_tile: Any, acc_tile: Any, lhs_tile: Any, rhs_tile: Any, scale_a: Any, scale_b: Any, **_: Any
) -> list[Requirement]:
    return [*mx_facts(lhs_tile, rhs_tile, scale_a, scale_b), *accumulator_facts(dst_tile, acc_tile)]


@matmul_mx_acc.lower
def _(
    k: Builder, dst_tile: NativeTile, acc_tile: NativeTile, lhs_tile: NativeTile, rhs_tile: NativeTile,
    scale_a: NativeTile, scale_b: NativeTile, **_: Any
) -> Any:
    return k.matmul(dst_tile, lhs_tile, rhs_tile, scales=(scale_a, scale_b), accumulate=True)


@matmul_mx_acc.regions
def _(
    dst_tile: TileArg, acc_tile: TileArg, lhs_tile: TileArg, rhs_tile: TileArg, scale_a: TileArg, scale_b: TileArg,
    phase: Any,
) -> list[Access]:
    return mx_touched(dst_tile, lhs_tile, rhs_tile, reads_dst=True)
