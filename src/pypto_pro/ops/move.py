"""`move`: between on-chip spaces. What is copied stands in `move_plans`; here are the op, its paths and its rules.

Paths: Mat -> Left, Right, ScaleLeft, ScaleRight, Bias (MTE1), Mat -> Scaling (FIX), Acc -> Vec (FIX), Vec -> Vec (V),
Vec -> Mat (MTE3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pypto_pro import layouts, numerics
from pypto_pro.dtypes import DataType
from pypto_pro.enums import AccToVecMode, AtomicType, MemorySpace, PipeType, ReluPreMode, TensorLayout
from pypto_pro.ops import rules
from pypto_pro.ops.builder import Builder, NativeTile
from pypto_pro.ops.entry import Access, DescriptorUpdate, Effect, Keyword, Kind, Operand, Role, Section, defop
from pypto_pro.ops.fixpipe import (
    Relu,
    ScaleIn,
    check_exit,
    check_per_channel,
    exit_bits,
    exit_of,
    exit_values,
    one_nan,
    scale_access,
)
from pypto_pro.ops.insert import (
    check_offset,
    check_pair,
    copy_part,
    inside_fact,
    layout,
    lower_parts,
    offset_facts,
    parts,
    touched,
)
from pypto_pro.ops.move_plans import DUAL, is_insert, partners, path, plan, rounded_valid
from pypto_pro.ops.operands import ScalarInfo, TileArg, TileInfo, tile

D, L, S, P = DataType, TensorLayout, MemorySpace, PipeType

PIPES = {
    (S.Mat, S.Left): P.MTE1, (S.Mat, S.Right): P.MTE1, (S.Mat, S.ScaleLeft): P.MTE1, (S.Mat, S.ScaleRight): P.MTE1,
    (S.Mat, S.Bias): P.MTE1, (S.Mat, S.Scaling): P.FIX, (S.Acc, S.Vec): P.FIX, (S.Vec, S.Vec): P.V,
    (S.Vec, S.Mat): P.MTE3,
}
OPERAND_DTYPES = (
    D.DT_INT8, D.DT_HF8, D.DT_FP8E4M3FN, D.DT_FP8E5M2, D.DT_FP16, D.DT_BF16, D.DT_FP32, D.DT_FP4E2M1, D.DT_FP4E1M2
)
BIAS_PAIRS = {(D.DT_INT32, D.DT_INT32), (D.DT_FP32, D.DT_FP32), (D.DT_FP16, D.DT_FP32), (D.DT_BF16, D.DT_FP32)}
FRACTAL_DTYPES = (*OPERAND_DTYPES, D.DT_INT32, D.DT_UINT8)
RAW_DTYPES = (D.DT_INT64, D.DT_UINT64)
"""What lies in Mat without boxes."""
LAYOUTS = {
    (S.Mat, S.Left): {(L.NZ, L.NZ), (L.ZN, L.NZ)}, (S.Mat, S.Right): {(L.ZN, L.ZN), (L.NZ, L.ZN)},
    (S.Mat, S.ScaleLeft): {(L.ZZ, L.ZZ)}, (S.Mat, S.ScaleRight): {(L.NN, L.NN)}, (S.Mat, S.Scaling): {(L.ND, L.ND)},
    (S.Acc, S.Vec): {(L.NZ, L.ND), (L.NZ, L.DN), (L.NZ, L.NZ)}, (S.Vec, S.Mat): {(L.NZ, L.NZ), (L.ND, L.ND)},
    (S.Vec, S.Vec): {(L.ND, L.ND), (L.DN, L.DN), (L.ND, L.NZ), (L.ND, L.ZN)},
}
"""(source, destination) layouts by path; a bias is one row, whose boxes lie side by side."""
TABLE_BYTES = 4096
"""Size of the bias table and of the parameter buffer, and so of one tile in them."""


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


OffsetIn = Annotated["tuple[int, int] | None", Operand(frozenset({Kind.OFFSETS}))]
Mode = Annotated["AccToVecMode | None", Keyword(enum=AccToVecMode)]
MoveTarget = Annotated[TileArg, tile(Role.OUT)]
MoveSource = Annotated[TileArg, tile(Role.IN)]


def _has_extras(mode: AccToVecMode | None, relu: ReluPreMode | None, scale: Any) -> bool:
    return mode is not None or relu is not None or scale is not None


@defop("pl.move", pipe=move_pipe, section=move_section, family="move.onchip", copies=True)
def move(
    dst_tile: MoveTarget,
    src_tile: MoveSource,
    offset: OffsetIn = None,
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
    if is_insert(dst_tile, src_tile, offset, _has_extras(acc_to_vec_mode, relu_pre_mode, scale)):
        row, col = offset or (0, 0)
        for part in parts(dst_tile, src_tile, (row, col)):
            copy_part(dst_tile, src_tile, part)
        return
    for step in plan(dst_tile, src_tile, offset, acc_to_vec_mode):
        source, target = step.source, step.target
        if source.rows <= 0 or source.cols <= 0:
            continue
        bits = src_tile.bits(source.rows, source.cols, source.r0, source.c0,
                             row_extent=source.row_extent, col_extent=source.col_extent)
        if src_tile.type.space is S.Acc:
            bits = exit_bits(exit_values(src_tile, bits), dst_tile.dtype, scale, relu_pre_mode)
        elif src_tile.dtype is not dst_tile.dtype:  # Mat -> Bias widens to FP32
            bits = numerics.encode(one_nan(numerics.decode(bits, src_tile.dtype)), dst_tile.dtype)
        holder = dst_tile if step.sub is None else dst_tile.on(step.sub)
        holder.put_bits(bits, target.r0, target.c0, row_extent=target.row_extent, col_extent=target.col_extent)


@move.lower
def _(
    k: Builder, dst_tile: NativeTile, src_tile: NativeTile, offset: Sequence[Any] | None,
    acc_to_vec_mode: AccToVecMode | None, relu_pre_mode: ReluPreMode | None, scale: Any,
) -> Any:
    if is_insert(dst_tile, src_tile, offset, _has_extras(acc_to_vec_mode, relu_pre_mode, scale)):
        return lower_parts(k, dst_tile, src_tile, tuple(offset or (0, 0)))
    way_out = exit_of(src_tile, scale, relu_pre_mode)
    for step in plan(dst_tile, src_tile, offset, acc_to_vec_mode):
        target = dst_tile if step.sub is None else dst_tile.on(step.sub)
        if k.copy_box(target, step.target, src_tile, step.source, way_out=way_out) is NotImplemented:
            return NotImplemented
    return None


@move.issue
def _(
    dst_tile: Any, src_tile: Any, offset: Sequence[Any] | None, acc_to_vec_mode: AccToVecMode | None,
    relu_pre_mode: ReluPreMode | None, scale: Any,
) -> list[Any]:
    if is_insert(dst_tile, src_tile, offset, _has_extras(acc_to_vec_mode, relu_pre_mode, scale)):
        return offset_facts(src_tile, tuple(offset or (0, 0)))
    found: list[Any] = [inside_fact(offset)] if offset is not None else []
    if acc_to_vec_mode in DUAL:
        found.append(DescriptorUpdate("src_tile", *rounded_valid(src_tile, acc_to_vec_mode)))
    if path(dst_tile, src_tile) == (S.Vec, S.Vec):
        found += rules.block_facts(dst_tile=dst_tile, src_tile=src_tile)
    return found


@move.regions
def _(
    dst_tile: Any, src_tile: Any, offset: Sequence[Any] | None, acc_to_vec_mode: AccToVecMode | None,
    relu_pre_mode: ReluPreMode | None, scale: Any,
) -> list[Access]:
    if is_insert(dst_tile, src_tile, offset, _has_extras(acc_to_vec_mode, relu_pre_mode, scale)):
        return touched(dst_tile, src_tile, tuple(offset or (0, 0)))
    found = []
    for step in plan(dst_tile, src_tile, offset, acc_to_vec_mode):
        found += scale_access(scale, step.source.cols)
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
    if path(dst_tile, src_tile) == (S.Vec, S.Vec):
        rules.on_blocks(dst_tile, src_tile)
    from_acc = src_tile.type.space is S.Acc
    extras = _has_extras(acc_to_vec_mode, relu_pre_mode, scale)
    if extras and not from_acc:
        raise ValueError(f"acc_to_vec_mode, relu_pre_mode and scale belong to Acc -> Vec; `{src_tile.name}` is in "
                         f"{src_tile.type.space.name}")
    if is_insert(dst_tile, src_tile, offset, extras):
        check_pair(dst_tile, src_tile)
        if offset is not None:
            check_offset(offset, dst_tile)
        return
    if offset is not None and scale is not None:
        raise ValueError("a scaled move takes no offset")
    _check_shapes(dst_tile, src_tile, offset, acc_to_vec_mode)
    _check_layouts(dst_tile, src_tile, offset)
    if from_acc:
        _check_acc_exit(dst_tile, src_tile, acc_to_vec_mode, relu_pre_mode, scale)
    elif src_tile.type.space is S.Mat:
        _check_from_mat(dst_tile, src_tile)
    else:
        _check_from_vec(dst_tile, src_tile)


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


def _check_layouts(dst: TileInfo, src: TileInfo, offset: tuple[ScalarInfo, ...] | None) -> None:
    """Layouts the path can copy between, shapes of whole boxes; ValueError."""
    rules.whole_boxes(dst, src)
    pair, known = (layout(src), layout(dst)), LAYOUTS.get(path(dst, src))
    if known is not None and pair not in known:
        listed = ", ".join(f"{a.name} to {b.name}" for a, b in sorted(known, key=str))
        raise ValueError(f"`{src.name}` is {pair[0].name} and `{dst.name}` {pair[1].name}: from {src.type.space.name} "
                         f"to {dst.type.space.name} a move goes {listed}")
    if offset is not None and src.type.space is S.Acc and pair[1] is not L.ND:
        raise ValueError(f"`{dst.name}` is {pair[1].name}; a part of an accumulator leaves to ND tiles")
    if pair == (L.ND, L.ZN) and (dst.type.rows % layouts.elements_per_block(dst.dtype) or dst.type.cols % 16):
        raise ValueError(f"`{dst.name}` {list(dst.type.shape)} needs rows a multiple of "
                         f"{layouts.elements_per_block(dst.dtype)} and columns a multiple of 16")
    if partners(dst, src) and src.type.space is S.Mat:
        side = max(16, layouts.elements_per_block(dst.dtype))
        if any(extent % side for extent in (*dst.type.shape, *src.type.shape)):
            raise ValueError(f"a transposing move works in squares of {side}: `{src.name}` {list(src.type.shape)} and "
                             f"`{dst.name}` {list(dst.type.shape)} must be made of them")


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
    check_per_channel(scale, relu, None, None, AtomicType.AtomicNone)


def _check_from_mat(dst: TileInfo, src: TileInfo) -> None:
    """Dtypes and the sizes of the bias table and the parameter buffer; ValueError."""
    space, (rows, cols) = dst.type.space, dst.type.shape
    if space is S.Bias:
        if (src.dtype, dst.dtype) not in BIAS_PAIRS:
            raise ValueError(f"a bias is INT32, or FP32 made from FP32, FP16 or BF16; found "
                             f"{rules.names([src.dtype])} to {rules.names([dst.dtype])}")
        if rows != 1 or cols % 16 or cols * 4 > TABLE_BYTES:
            raise ValueError(f"a bias tile is [1, N] with N a multiple of 16 up to {TABLE_BYTES // 4}, found "
                             f"{list(dst.type.shape)}")
        return
    if space is S.Scaling and (rows != 1 or cols % 16 or cols * 8 > TABLE_BYTES):
        raise ValueError(f"a tile of scale parameters is [1, N] with N a multiple of 16 up to {TABLE_BYTES // 8}, "
                         f"found {list(dst.type.shape)}")
    among = {S.ScaleLeft: (D.DT_FP8E8M0,), S.ScaleRight: (D.DT_FP8E8M0,), S.Scaling: RAW_DTYPES}
    _equal_dtypes(dst, src, among.get(space, OPERAND_DTYPES))


def _check_from_vec(dst: TileInfo, src: TileInfo) -> None:
    """Dtypes by the layouts; ValueError."""
    linear = layout(src) is layout(dst) and layout(src) is not L.NZ
    if dst.type.space is S.Mat:
        _equal_dtypes(dst, src, RAW_DTYPES if linear else (*OPERAND_DTYPES, D.DT_FP8E8M0))
    else:
        _equal_dtypes(dst, src, rules.MOVABLE if linear else FRACTAL_DTYPES)


def _equal_dtypes(dst: TileInfo, src: TileInfo, among: tuple[DataType, ...]) -> None:
    if src.dtype is not dst.dtype or src.dtype not in among:
        raise ValueError(f"a move to {dst.type.space.name} copies bits between equal dtypes among "
                         f"{rules.names(among)}; found {rules.names([src.dtype])} to {rules.names([dst.dtype])}")
