"""`move`: between on-chip spaces. One plan of box transfers per path serves the meaning and the regions alike.

Paths: Mat -> Left, Right, ScaleLeft, ScaleRight, Bias (MTE1), Mat -> Scaling (FIX), Acc -> Vec (FIX), Vec -> Vec (V),
Vec -> Mat (MTE3). Which extents are the pitches: types-and-memory 4.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from pypto_pro import layouts, numerics
from pypto_pro.dtypes import DataType
from pypto_pro.enums import AccToVecMode, MemorySpace, PipeType, ReluPreMode, TensorLayout
from pypto_pro.ops import rules
from pypto_pro.ops.builder import Builder, NativeTile
from pypto_pro.ops.entry import Access, Box, DescriptorUpdate, Effect, Keyword, Kind, Operand, Role, Section, defop
from pypto_pro.ops.fixpipe import Relu, ScaleIn, check_exit, exit_bits, scale_access
from pypto_pro.ops.insert import boxes as insert_boxes
from pypto_pro.ops.insert import check_offset, check_pair, layout, transposes, up
from pypto_pro.ops.operands import ScalarInfo, TileArg, TileInfo, tile

D, L, S, P = DataType, TensorLayout, MemorySpace, PipeType

PIPES = {
    (S.Mat, S.Left): P.MTE1, (S.Mat, S.Right): P.MTE1, (S.Mat, S.ScaleLeft): P.MTE1, (S.Mat, S.ScaleRight): P.MTE1,
    (S.Mat, S.Bias): P.MTE1, (S.Mat, S.Scaling): P.FIX, (S.Acc, S.Vec): P.FIX, (S.Vec, S.Vec): P.V,
    (S.Vec, S.Mat): P.MTE3,
}
DUAL = (AccToVecMode.DualModeSplitM, AccToVecMode.DualModeSplitN)
REVERSED = {(L.NZ, L.ZN), (L.ZN, L.NZ), (L.ND, L.DN), (L.DN, L.ND), (L.ZZ, L.NN), (L.NN, L.ZZ)}

OPERAND_DTYPES = (
    D.DT_INT8, D.DT_HF8, D.DT_FP8E4M3FN, D.DT_FP8E5M2, D.DT_FP16, D.DT_BF16, D.DT_FP32, D.DT_FP4E2M1, D.DT_FP4E1M2
)
BIAS_PAIRS = {(D.DT_INT32, D.DT_INT32), (D.DT_FP32, D.DT_FP32), (D.DT_FP16, D.DT_FP32), (D.DT_BF16, D.DT_FP32)}
FRACTAL_DTYPES = (*OPERAND_DTYPES, D.DT_INT32, D.DT_UINT8)


@dataclass(frozen=True)
class Transfer:
    """One box copied: source, destination, and for Acc -> Vec the AIV that receives it."""

    source: Box
    target: Box
    sub: int | None = None


def path(dst: Any, src: Any) -> tuple[MemorySpace, MemorySpace]:
    """(source space, destination space)."""
    return src.type.space, dst.type.space


def move_pipe(dst_tile: Any, src_tile: Any, **_: Any) -> PipeType:
    """The pipe by path; ValueError for a path the machine does not have."""
    pipe = PIPES.get(path(dst_tile, src_tile))
    if pipe is None:
        source, target = path(dst_tile, src_tile)
        raise ValueError(f"there is no path from {source.name} to {target.name}")
    return pipe


def move_section(dst_tile: Any, src_tile: Any, **_: Any) -> Section:
    """Vec sources belong to vector code, all others to cube code."""
    move_pipe(dst_tile, src_tile)
    return Section.VECTOR if src_tile.type.space is S.Vec else Section.CUBE


def is_insert(dst: Any, src: Any, offset: Sequence[Any] | None, extras: bool) -> bool:
    """Whether the move is an insert: a larger destination with an offset, or Vec -> Mat between transpose partners."""
    if extras or path(dst, src) != (S.Vec, S.Mat):
        return False
    partners = (layout(src), layout(dst)) in REVERSED
    shape = dst.type.shape[::-1] if partners else dst.type.shape
    if offset is not None:
        return bool(all(d >= s for d, s in zip(shape, src.type.shape, strict=True)) and shape != src.type.shape)
    return partners and shape == src.type.shape


# --- plans -----------------------------------------------------------------------------------------------------------


def plan(
    dst: Any, src: Any, offset: Sequence[Any] | None, mode: AccToVecMode | None, extras: bool
) -> list[Transfer]:
    """The boxes a move copies, over concrete or abstract extents."""
    if is_insert(dst, src, offset, extras):
        return [Transfer(*insert_boxes(dst, src, tuple(offset or (0, 0))))]
    row, col = offset if offset is not None else (0, 0)
    match path(dst, src):
        case (S.Mat, S.Left | S.Right):
            return [_to_operand(dst, src, row, col)]
        case (S.Mat, S.ScaleLeft | S.ScaleRight):
            return [_to_scale(dst, row, col)]
        case (S.Mat, _):
            return [Transfer(Box(0, 0, 1, dst.type.cols), Box(0, 0, 1, dst.type.cols))]
        case (S.Acc, _):
            return _from_acc(dst, src, offset, mode or AccToVecMode.SingleModeVec0)
        case (S.Vec, S.Vec):
            return [_within_vec(dst, src)]
    return [_vec_to_mat(dst, src)]


def _to_operand(dst: Any, src: Any, row: Any, col: Any) -> Transfer:
    """Mat -> Left/Right: the declared destination, or (compact, transposing 8/4-bit) its valid shape packed."""
    type_ = dst.type
    transposing = layout(src) is not layout(dst)
    packed = type_.compact == 1 or (transposing and type_.dtype.bits() <= 8)
    c0 = layouts.elements_per_block(type_.dtype)
    box = (16, c0) if type_.space is S.Left else (c0, 16)
    rows, cols = (up(dst.vr, box[0]), up(dst.vc, box[1])) if packed else type_.shape
    pitch = {"row_extent": up(rows, 16)} if type_.space is S.Left else {"col_extent": up(cols, 16)}
    return Transfer(Box(row, col, rows, cols), Box(0, 0, rows, cols, **pitch))


def _to_scale(dst: Any, row: Any, col: Any) -> Transfer:
    """Mat -> ScaleLeft/ScaleRight: declared, or with compact 1 the valid groups packed."""
    if dst.type.compact != 1:
        rows, cols = dst.type.shape
        return Transfer(Box(row, col, rows, cols), Box(0, 0, rows, cols))
    if dst.type.space is S.ScaleLeft:
        rows, cols = up(dst.vr, 16), dst.vc
        return Transfer(Box(row, col, rows, cols), Box(0, 0, rows, cols, col_extent=dst.vc))
    rows, cols = dst.vr, up(dst.vc, 16)
    return Transfer(Box(row, col, rows, cols), Box(0, 0, rows, cols, row_extent=dst.vr))


def _from_acc(dst: Any, src: Any, offset: Sequence[Any] | None, mode: AccToVecMode) -> list[Transfer]:
    """Acc -> Vec; dual modes split the (already rounded) valid shape of Acc between the two vector cores."""
    row, col = offset if offset is not None else (0, 0)
    rows, cols, pitch = _acc_region(dst, src, offset, mode)
    if mode not in DUAL:
        sub = 0 if mode is AccToVecMode.SingleModeVec0 else 1
        return [Transfer(Box(row, col, rows, cols, row_extent=pitch), Box(0, 0, rows, cols), sub)]
    down = mode is AccToVecMode.DualModeSplitM
    half = (rows // 2, cols) if down else (rows, cols // 2)
    return [
        Transfer(
            Box(row + sub * half[0] * down, col + sub * half[1] * (not down), *half, row_extent=pitch),
            Box(0, 0, *half), sub,
        )
        for sub in (0, 1)
    ]


def _acc_region(dst: Any, src: Any, offset: Sequence[Any] | None, mode: AccToVecMode) -> tuple[Any, Any, Any]:
    """(rows, columns, row pitch) read from Acc."""
    type_, c0 = src.type, layouts.elements_per_block(dst.type.dtype)
    if offset is not None:
        pitch = up(src.vr, 16) if type_.compact == 1 else type_.rows
        governing = src if mode in DUAL else dst
        return governing.vr, up(governing.vc, c0), pitch
    if layout(dst) is L.NZ:  # all declared rows leave, columns in whole boxes
        boxed = dst.type.dtype is D.DT_FP32 and dst.type.fractal == layouts.ACC_FRACTAL
        step = {AccToVecMode.DualModeSplitM: 16, AccToVecMode.DualModeSplitN: 32}.get(mode, 16 if boxed else c0)
        return type_.rows, up(src.vc, step), type_.rows
    static = type_.valid_shape[0]
    return src.vr, src.vc, type_.rows if 0 < static < type_.rows else up(src.vr, 16)


def _within_vec(dst: Any, src: Any) -> Transfer:
    """Vec -> Vec: a copy, or ND -> NZ/ZN."""
    if layout(src) is layout(dst):
        rows, cols = _least(dst.vr, src.vr), _least(dst.vc, src.vc)
        return Transfer(Box(0, 0, rows, cols), Box(0, 0, rows, cols))
    if layout(dst) is L.NZ:
        pitch = up(dst.vr, 16) + (1 if dst.type.compact == 2 else 0)
        return Transfer(Box(0, 0, src.vr, dst.vc), Box(0, 0, src.vr, dst.vc, row_extent=pitch))
    c0 = layouts.elements_per_block(dst.type.dtype)
    rows, cols = dst.vr // c0 * c0, dst.vc // 16 * 16
    return Transfer(Box(0, 0, rows, cols, col_extent=dst.vc), Box(0, 0, rows, cols, col_extent=cols))


def _vec_to_mat(dst: Any, src: Any) -> Transfer:
    """Vec -> Mat without insert: NZ blocks back to back at ceil16(valid rows), or ND bytes in a row."""
    c0 = layouts.elements_per_block(dst.type.dtype)
    if layout(dst) is L.NZ:
        rows, cols = up(dst.vr, 16), up(dst.vc, c0)
        packed = Box(0, 0, rows, cols, row_extent=rows)
        return Transfer(packed, packed)
    line = Box(0, 0, 1, dst.vr * dst.vc // c0 * c0)
    return Transfer(line, line)


def _least(a: Any, b: Any) -> Any:
    """The smaller of two extents; abstract ones bring their own `least`."""
    return a.least(b) if hasattr(a, "least") else min(a, b)


# --- the op ----------------------------------------------------------------------------------------------------------

Any2 = Annotated["tuple[int, int] | None", Operand(frozenset({Kind.OFFSETS}))]
Mode = Annotated["AccToVecMode | None", Keyword(enum=AccToVecMode)]
MoveTarget = Annotated[TileArg, tile(Role.OUT)]
MoveSource = Annotated[TileArg, tile(Role.IN)]


@defop("pl.move", pipe=move_pipe, section=move_section, family="move.onchip", copies=True)
def move(
    dst_tile: MoveTarget,
    src_tile: MoveSource,
    offset: Any2 = None,
    *,
    acc_to_vec_mode: Mode = None,
    relu_pre_mode: Relu = None,
    scale: ScaleIn = None,
) -> None:
    """Copy between on-chip spaces, logical indices preserved whatever the layouts.

    `offset` [row, column] extracts from the source (or places an insert, Vec -> Mat). Acc -> Vec converts, scales and
    applies relu as a store from Acc does; DualModeSplitM/N give each vector core one half and leave the Acc valid
    shape rounded up (rows to 2, columns to 32).
    """
    extras = acc_to_vec_mode is not None or relu_pre_mode is not None or scale is not None
    inserts = is_insert(dst_tile, src_tile, offset, extras)
    for step in plan(dst_tile, src_tile, offset, acc_to_vec_mode, extras):
        source = step.source
        if source.rows == 0 or source.cols == 0:
            continue
        bits = src_tile.bits(source.rows, source.cols, source.r0, source.c0,
                             row_extent=source.row_extent, col_extent=source.col_extent)
        if src_tile.type.space is S.Acc:
            kind = np.int32 if src_tile.dtype is D.DT_INT32 else np.float32
            bits = exit_bits(bits.view(kind), dst_tile.dtype, scale, relu_pre_mode)
        elif src_tile.dtype is not dst_tile.dtype:  # Mat -> Bias widens to FP32
            bits = numerics.encode(numerics.decode(bits, src_tile.dtype), dst_tile.dtype)
        target = step.target
        out = bits.T if inserts and transposes(dst_tile, src_tile) else bits
        holder = dst_tile if step.sub is None else dst_tile.on(step.sub)
        holder.put_bits(out, target.r0, target.c0, row_extent=target.row_extent, col_extent=target.col_extent)


@move.lower
def _(
    k: Builder, dst_tile: NativeTile, src_tile: NativeTile, offset: Sequence[Any] | None,
    acc_to_vec_mode: AccToVecMode | None, relu_pre_mode: ReluPreMode | None, scale: Any,
) -> Any:
    if scale is not None or relu_pre_mode is ReluPreMode.NormalRelu:
        return NotImplemented
    extras = acc_to_vec_mode is not None or relu_pre_mode is not None
    transposed = is_insert(dst_tile, src_tile, offset, extras) and transposes(dst_tile, src_tile)
    for step in plan(dst_tile, src_tile, offset, acc_to_vec_mode, extras):
        target = dst_tile if step.sub is None else dst_tile.on(step.sub)
        if k.copy_box(target, step.target, src_tile, step.source, transposed=transposed) is NotImplemented:
            return NotImplemented
    return None


@move.issue
def _(dst_tile: Any, src_tile: Any, acc_to_vec_mode: AccToVecMode | None, **_: Any) -> list[DescriptorUpdate]:
    if acc_to_vec_mode is AccToVecMode.DualModeSplitM:
        return [DescriptorUpdate("src_tile", up(src_tile.vr, 2), src_tile.vc)]
    if acc_to_vec_mode is AccToVecMode.DualModeSplitN:
        return [DescriptorUpdate("src_tile", src_tile.vr, up(src_tile.vc, 32))]
    return []


@move.regions
def _(
    dst_tile: Any, src_tile: Any, offset: Sequence[Any] | None, acc_to_vec_mode: AccToVecMode | None,
    relu_pre_mode: ReluPreMode | None, scale: Any,
) -> list[Access]:
    extras = acc_to_vec_mode is not None or relu_pre_mode is not None or scale is not None
    found = scale_access(scale, src_tile.vc)
    for step in plan(dst_tile, src_tile, offset, acc_to_vec_mode, extras):
        found.append(Access("src_tile", Effect.READ, step.source))
        found.append(Access("dst_tile", Effect.WRITE, step.target, step.sub))
    return found


# --- static rules ----------------------------------------------------------------------------------------------------


@move.rules
def _(
    dst_tile: TileInfo, src_tile: TileInfo, offset: tuple[ScalarInfo, ...] | None,
    acc_to_vec_mode: AccToVecMode | None, relu_pre_mode: ReluPreMode | None, scale: object,
) -> None:
    move_pipe(dst_tile, src_tile)
    from_acc = src_tile.type.space is S.Acc
    extras = acc_to_vec_mode is not None or relu_pre_mode is not None or scale is not None
    if extras and not from_acc:
        raise ValueError(f"acc_to_vec_mode, relu_pre_mode and scale belong to Acc -> Vec; `{src_tile.name}` is in "
                         f"{src_tile.type.space.name}")
    if offset is not None and scale is not None:
        raise ValueError("a scaled move takes no offset")
    if is_insert(dst_tile, src_tile, offset, extras):
        check_pair(dst_tile, src_tile)
        if offset is not None:
            check_offset(offset, dst_tile)
        return
    _check_shapes(dst_tile, src_tile, offset, acc_to_vec_mode)
    if from_acc:
        _check_acc_exit(dst_tile, src_tile, acc_to_vec_mode, relu_pre_mode, scale)
    else:
        _check_dtypes(dst_tile, src_tile)


def _check_shapes(
    dst: TileInfo, src: TileInfo, offset: tuple[ScalarInfo, ...] | None, mode: AccToVecMode | None
) -> None:
    if offset is not None:
        check_offset(offset, src)
        if mode is None and any(d > s for d, s in zip(dst.type.shape, src.type.shape, strict=True)):
            raise ValueError(f"`{dst.name}` {list(dst.type.shape)} is larger than `{src.name}` {list(src.type.shape)}")
        return
    shapes = (src.type.shape, src.type.shape[::-1]) if src.type.space is not S.Mat else (src.type.shape,)
    if mode is None and dst.type.shape not in shapes:
        raise ValueError(
            f"`{dst.name}` {list(dst.type.shape)} and `{src.name}` {list(src.type.shape)} must have one shape, or an "
            "offset must say which part moves"
        )


def _check_acc_exit(
    dst: TileInfo, src: TileInfo, mode: AccToVecMode | None, relu: ReluPreMode | None, scale: object
) -> None:
    if mode in DUAL:
        if isinstance(scale, TileInfo):
            raise ValueError("a per-channel scale only supports single-mode moves")
        if dst.dtype is not src.dtype or scale is not None or relu not in (None, ReluPreMode.NoRelu):
            raise ValueError("dual modes convert nothing: equal dtypes, no scale and no relu are needed")
        if layout(dst) is L.DN:
            raise ValueError(f"`{dst.name}` is DN; dual modes write ND or NZ tiles")
    check_exit(src.dtype, dst.dtype, scale)
    rules.aligned_rows(dst)


def _check_dtypes(dst: TileInfo, src: TileInfo) -> None:
    target = dst.type.space
    if target is S.Bias:
        if (src.dtype, dst.dtype) not in BIAS_PAIRS:
            raise ValueError(f"a bias is INT32, or FP32 made from FP32, FP16 or BF16; found "
                             f"{rules.names([src.dtype])} to {rules.names([dst.dtype])}")
        if dst.type.rows != 1 or dst.type.cols * 4 % 64:
            raise ValueError(f"a bias tile is [1, N] with N a multiple of 16, found {list(dst.type.shape)}")
        return
    among = {
        S.ScaleLeft: (D.DT_FP8E8M0,), S.ScaleRight: (D.DT_FP8E8M0,), S.Scaling: (D.DT_INT64, D.DT_UINT64),
        S.Left: OPERAND_DTYPES, S.Right: OPERAND_DTYPES, S.Mat: (*OPERAND_DTYPES, D.DT_FP8E8M0),
        S.Vec: rules.MOVABLE if layout(src) is layout(dst) else FRACTAL_DTYPES,
    }[target]
    if src.dtype is not dst.dtype or src.dtype not in among:
        raise ValueError(f"a move to {target.name} copies bits between equal dtypes among {rules.names(among)}; found "
                         f"{rules.names([src.dtype])} to {rules.names([dst.dtype])}")
    if src.type.space is S.Vec and layout(src) is not layout(dst) and layout(src) is not L.ND:
        raise ValueError(f"`{src.name}` is {layout(src).name}; only ND tiles change their layout inside Vec")
