"""What a move between on-chip spaces copies: boxes, which extents are their pitches (types-and-memory 4.4), which AIV.

Written over concrete or abstract extents, so that the meaning, the regions and native code follow one plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pypto_pro import layouts
from pypto_pro.enums import AccToVecMode, MemorySpace, TensorLayout
from pypto_pro.layouts import TRANSPOSED
from pypto_pro.ops.entry import Box
from pypto_pro.ops.extents import least, up
from pypto_pro.ops.insert import layout, source_box

L, S = TensorLayout, MemorySpace
DUAL = (AccToVecMode.DualModeSplitM, AccToVecMode.DualModeSplitN)
Offset = Sequence[Any] | None


@dataclass(frozen=True)
class Transfer:
    """One box copied: source, destination, and for Acc -> Vec the AIV that receives it."""

    source: Box
    target: Box
    sub: int | None = None


def path(dst: Any, src: Any) -> tuple[MemorySpace, MemorySpace]:
    """(source space, destination space)."""
    return src.type.space, dst.type.space


def partners(dst: Any, src: Any) -> bool:
    """Whether the layouts are transposes of each other."""
    return TRANSPOSED[layout(src)] is layout(dst)


def is_insert(dst: Any, src: Any, offset: Offset, extras: bool) -> bool:
    """Whether a move from Vec to Mat is an insert: between transpose partners of one size, or into a larger tile."""
    if extras or path(dst, src) != (S.Vec, S.Mat):
        return False
    shape = dst.type.shape[::-1] if partners(dst, src) else dst.type.shape
    if shape == src.type.shape:
        return partners(dst, src)
    return offset is not None and all(d >= s for d, s in zip(shape, src.type.shape, strict=True))


def plan(dst: Any, src: Any, offset: Offset, mode: AccToVecMode | None) -> list[Transfer]:
    """The boxes a move that is no insert copies, in their order."""
    row, col = offset if offset is not None else (0, 0)
    match path(dst, src):
        case (S.Mat, S.Left | S.Right):
            return to_operand(dst, src, row, col)
        case (S.Mat, S.ScaleLeft | S.ScaleRight):
            return [_to_scale(dst, row, col)]
        case (S.Mat, _):
            return [Transfer(Box(row, col, 1, dst.type.cols), Box(0, 0, 1, dst.type.cols))]
        case (S.Acc, _):
            return _from_acc(dst, src, offset, mode or AccToVecMode.SingleModeVec0)
        case (S.Vec, S.Vec):
            return [_within_vec(dst, src, offset)]
    return [_vec_to_mat(dst, src, offset)]


# --- to the matrix unit ----------------------------------------------------------------------------------------------


def is_packed(dst: Any, src: Any) -> bool:
    """Whether a move to Left or Right packs the destination's valid shape instead of copying its declared one."""
    return bool(dst.type.compact == 1 or (layout(src) is not layout(dst) and dst.type.dtype.bits() <= 8))


def to_operand(dst: Any, src: Any, row: Any, col: Any) -> list[Transfer]:
    """Mat -> Left/Right: the declared destination, or its valid shape packed.

    Offsets count whole boxes of the source, what is over is ignored. A transposing move of 8- or 4-bit data works in
    squares of c0: rows (columns of Right) past the pitch of a block are overwritten by the next block, and after the
    last one spill over its end.
    """
    type_, c0 = dst.type, layouts.elements_per_block(dst.type.dtype)
    steps = (16, c0) if layout(src) is L.NZ else (c0, 16)
    row, col = (_down(at, step) for at, step in zip((row, col), steps, strict=True))
    left = type_.space is S.Left
    if not is_packed(dst, src):
        rows, cols = type_.shape
        pitch = {"row_extent": up(rows, 16)} if left else {"col_extent": up(cols, 16)}
        return [Transfer(Box(row, col, rows, cols), Box(0, 0, rows, cols, **pitch))]
    side = max(16, c0) if layout(src) is not layout(dst) else 0
    lines, depth = (dst.vr, dst.vc) if left else (dst.vc, dst.vr)
    pitch = {"row_extent": up(lines, 16)} if left else {"col_extent": up(lines, 16)}
    lines, depth, reach = up(lines, 16), up(depth, side or c0), up(lines, side or 16)

    def part(first_line: Any, count: Any, first: Any, many: Any) -> Transfer:
        at, size = ((first_line, first), (count, many)) if left else ((first, first_line), (many, count))
        return Transfer(Box(row + at[0], col + at[1], *size), Box(*at, *size, **pitch))

    main = part(0, lines, 0, depth)
    if side <= 16:
        return [main]
    return [main, part(lines, reach - lines, depth - c0, c0)]


def _down(at: Any, step: int) -> Any:
    return at // step * step


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


# --- from the accumulator --------------------------------------------------------------------------------------------


def rounded_valid(src: Any, mode: AccToVecMode | None) -> tuple[Any, Any]:
    """The valid shape of Acc that a mode leaves behind: dual modes round the axis they split."""
    rows = up(src.vr, 2) if mode is AccToVecMode.DualModeSplitM else src.vr
    return rows, up(src.vc, 32) if mode is AccToVecMode.DualModeSplitN else src.vc


def _from_acc(dst: Any, src: Any, offset: Offset, mode: AccToVecMode) -> list[Transfer]:
    """Acc -> Vec; dual modes split the rounded valid shape of Acc between the two vector cores."""
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


def _acc_region(dst: Any, src: Any, offset: Offset, mode: AccToVecMode) -> tuple[Any, Any, Any]:
    """(rows, columns, row pitch) read from Acc."""
    type_, c0 = src.type, layouts.elements_per_block(dst.type.dtype)
    valid_rows, valid_cols = rounded_valid(src, mode)
    if offset is not None:
        pitch = up(valid_rows, 16) if type_.compact == 1 else type_.rows
        rows, cols = (valid_rows, valid_cols) if mode in DUAL else (dst.vr, dst.vc)
        return rows, up(cols, c0), pitch
    if layout(dst) is L.NZ:  # all declared rows leave, columns in whole boxes
        single = 16 if dst.type.fractal == layouts.ACC_FRACTAL else c0
        step = {AccToVecMode.DualModeSplitM: 16, AccToVecMode.DualModeSplitN: 32}.get(mode, single)
        return type_.rows, up(valid_cols, step), type_.rows
    static = type_.valid_shape[0]
    return valid_rows, valid_cols, type_.rows if 0 < static < type_.rows else up(valid_rows, 16)


# --- from Vec --------------------------------------------------------------------------------------------------------


def _within_vec(dst: Any, src: Any, offset: Offset) -> Transfer:
    """Vec -> Vec: a copy, or ND -> NZ/ZN. A part of the source has no more rows than the destination takes."""
    row, col = offset if offset is not None else (0, 0)
    if layout(src) is layout(dst):
        rows, cols = least(dst.vr, src.vr), least(dst.vc, src.vc)
        return Transfer(Box(row, col, rows, cols), Box(0, 0, rows, cols))
    if layout(dst) is L.NZ:
        pitch = up(dst.vr, 16) + (1 if dst.type.compact == 2 else 0)
        rows = src.vr if offset is None else least(src.vr, dst.vr)
        return Transfer(Box(row, col, rows, dst.vc), Box(0, 0, rows, dst.vc, row_extent=pitch))
    rows, cols = _down(dst.vr, layouts.elements_per_block(dst.type.dtype)), _down(dst.vc, 16)
    return Transfer(Box(row, col, rows, cols, col_extent=dst.vc), Box(0, 0, rows, cols, col_extent=cols))


def _vec_to_mat(dst: Any, src: Any, offset: Offset) -> Transfer:
    """Vec -> Mat without insert: NZ blocks back to back at ceil16(valid rows), or ND bytes in a row.

    With an offset, the destination's valid shape out of the source at the pitches both have.
    """
    c0 = layouts.elements_per_block(dst.type.dtype)
    if offset is not None:
        rows, cols = dst.vr, up(dst.vc, c0) if layout(dst) is L.NZ else dst.vc
        pitch = source_box(src).row_extent
        return Transfer(Box(offset[0], offset[1], rows, cols, row_extent=pitch), Box(0, 0, rows, cols))
    if layout(dst) is L.NZ:
        rows, cols = up(dst.vr, 16), up(dst.vc, c0)
        packed = Box(0, 0, rows, cols, row_extent=rows)
        return Transfer(packed, packed)
    count = _down(dst.vr * dst.vc, c0)
    return Transfer(Box(0, 0, 1, count, col_extent=src.type.cols), Box(0, 0, 1, count, col_extent=dst.type.cols))
