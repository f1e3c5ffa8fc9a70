"""Moves between on-chip spaces and inserts against the reference's text: every path, layout, tail and compact mode."""

from typing import Any

import numpy as np
import pytest

from ops.test_movement_store import EXITS, parameter_words, with_accumulator
from ops.transfer_bench import Call, Memories, T, check, fresh, native
from ops.transfer_model import c0, get, grid, layout_of, leave, put, up
from pypto_pro.dtypes import DataType as D
from pypto_pro.enums import AccToVecMode as Mode
from pypto_pro.enums import CoreKind, ReluPreMode
from pypto_pro.enums import MemorySpace as S
from pypto_pro.enums import TensorLayout as L
from pypto_pro.ops import move, rules

FP4 = (D.DT_FP4E2M1, D.DT_FP4E1M2)
BYTES = [d for d in move.OPERAND_DTYPES if not d.is_sub_byte]
Offset = tuple[int, int] | None


def move_call(dst: T, src: T, offset: Offset = None, scale: Any = None, **attrs: Any) -> Call:
    operands = {"dst_tile": dst, "src_tile": src}
    if offset is not None:
        operands["offset"] = offset
    if scale is not None:
        operands["scale"] = scale
    return Call("move", operands, attrs, CoreKind.VECTOR if src.space is S.Vec else CoreKind.CUBE)


# --- Mat to the matrix unit ------------------------------------------------------------------------------------------


def golden_operand(m: Memories, dst: T, src: T, offset: Offset) -> None:
    """The declared destination, or its valid shape packed (compact 1, transposing moves of 8 and 4 bits)."""
    row, col = offset or (0, 0)
    (rows, cols), left, block = dst.shape, dst.space is S.Left, c0(dst.dtype)
    transposing = layout_of(src) is not layout_of(dst)
    if dst.compact != 1 and not (transposing and dst.dtype.bits() <= 8):
        i, j = grid(rows, cols)
        values = get(m, src, i + row, j + col)
        put(m, dst, i, j, values, rows=up(rows, 16) if left else None, cols=None if left else up(cols, 16))
        return
    rows, cols = dst.extents
    side = max(16, block) if transposing else 0
    lines, depth = (rows, cols) if left else (cols, rows)
    pitch = {"rows": up(lines, 16)} if left else {"cols": up(lines, 16)}
    for k in range(0, up(depth, side or block), block):  # one K block after the other; surplus lines are overwritten
        i, j = grid(up(lines, side or 16), block, 0, k) if left else grid(block, up(lines, side or 16), k, 0)
        put(m, dst, i, j, get(m, src, i + row, j + col), **pitch)


@pytest.mark.parametrize("dtype", move.OPERAND_DTYPES, ids=lambda d: d.name)
@pytest.mark.parametrize("space", [S.Left, S.Right], ids=lambda s: s.name)
def test_operands(dtype: D, space: S) -> None:
    """Both layouts of Mat, declared and packed, whole tiles and parts."""
    block = c0(dtype)
    side = max(16, block)
    shape = (2 * side, 3 * side)
    part = (side, 2 * side)
    for layout in (L.NZ, L.ZN):
        src = T((3 * side, 4 * side), dtype, S.Mat, 0x400, layout=layout)
        whole = T(shape, dtype, S.Mat, 0x400, layout=layout)
        check_operand(T(shape, dtype, space), whole, None)
        check_operand(T(shape, dtype, space, valid=(side, side)), whole, None)  # compact 0 ignores it, or packs
        for valid in (shape, (side + 3, 2 * side - 5), (5, 9), (17, 2 * side + 1)):
            check_operand(T(shape, dtype, space, 0x200, valid, compact=1), whole, None)
        check_operand(T(part, dtype, space), src, (side, 2 * side))
        check_operand(T(part, dtype, space, valid=(17, side + 2), compact=1), src, (side, side))


def check_operand(dst: T, src: T, offset: Offset) -> None:
    check(move_call(dst, src, offset), lambda m: golden_operand(m, dst, src, offset))


def test_offsets_to_operands_count_whole_boxes() -> None:
    dst, src = T((16, 32), D.DT_FP16, S.Left), T((48, 64), D.DT_FP16, S.Mat)
    check(move_call(dst, src, (19, 37)), lambda m: golden_operand(m, dst, src, (16, 32)))


def test_offsets_of_every_layout_and_operand_are_cut_down() -> None:
    """16 on the axis across a box, c0 along it: of the layout of the source, not of the destination."""
    for dtype in (D.DT_FP8E5M2, D.DT_FP32):
        block = c0(dtype)
        for space in (S.Left, S.Right):
            for layout in (L.NZ, L.ZN):
                steps = (16, block) if layout is L.NZ else (block, 16)
                dst, src = T((32, 32), dtype, space), T((96, 96), dtype, S.Mat, layout=layout)
                down = tuple(at // step * step for at, step in zip((45, 61), steps, strict=True))
                check(move_call(dst, src, (45, 61)), lambda m: golden_operand(m, dst, src, down))  # noqa: B023


def test_one_row_operand() -> None:
    dst, src = T((1, 64), D.DT_FP16, S.Left), T((1, 64), D.DT_FP16, S.Mat)

    def golden(m: Memories) -> None:
        i, j = grid(1, 64)
        put(m, dst, i, j, get(m, src, i, j), rows=16)  # where the matrix unit reads it

    check(move_call(dst, src), golden)


@pytest.mark.parametrize("layout", [L.ZZ, L.NN], ids=lambda x: x.name)
def test_scales(layout: L) -> None:
    space = S.ScaleLeft if layout is L.ZZ else S.ScaleRight

    def turned(rows: int, cols: int) -> tuple[int, int]:
        return (rows, cols) if layout is L.ZZ else (cols, rows)

    src = T(turned(64, 8), D.DT_FP8E8M0, S.Mat, 0x20, layout=layout)
    for dst, offset in (
        (T(turned(64, 8), D.DT_FP8E8M0, space), None), (T(turned(32, 4), D.DT_FP8E8M0, space), turned(16, 4)),
        (T(turned(64, 8), D.DT_FP8E8M0, space, valid=turned(19, 6), compact=1), None),
        (T(turned(64, 8), D.DT_FP8E8M0, space, valid=turned(16, 2), compact=1), None),
    ):

        def golden(m: Memories, dst: T = dst, offset: Offset = offset) -> None:
            (rows, cols), pitch = dst.shape, {}
            if dst.compact == 1:
                rows, cols = dst.extents
                pitch = {"cols": cols} if layout is L.ZZ else {"rows": rows}
                rows, cols = (up(rows, 16), cols) if layout is L.ZZ else (rows, up(cols, 16))
            i, j = grid(rows, cols)
            row, col = offset or (0, 0)
            put(m, dst, i, j, get(m, src, i + row, j + col), **pitch)

        check(move_call(dst, src, offset), golden)


@pytest.mark.parametrize("pair", sorted(move.BIAS_PAIRS, key=str), ids=lambda p: f"{p[0].name}-{p[1].name}")
def test_bias_and_parameters(pair: tuple[D, D]) -> None:
    source, target = pair

    def golden(m: Memories, dst: T, src: T, col: int) -> None:
        i, j = grid(1, dst.shape[1])
        bits = get(m, src, i, j + col)
        if source is not target:
            bits = bits.astype(np.uint16).view(source.numpy).astype(np.float32).view(np.uint32)
        put(m, dst, i, j, bits)

    for valid in (None, (1, 7)):
        src, dst = T((1, 64), source, S.Mat, 0x80), T((1, 64), target, S.Bias, 0x40, valid)
        start = fresh(move_call(dst, src))
        if source.is_float():
            put(start, src, *grid(1, 64), np.linspace(-9, 9, 64).astype(source.numpy).view(source.bits_dtype)[None, :])
        check(move_call(dst, src), lambda m: golden(m, dst, src, 0), start)  # noqa: B023
        part = T((1, 32), target, S.Bias)
        check(move_call(part, src, (0, 16)), lambda m: golden(m, part, src, 16), start)  # noqa: B023
    words = T((1, 48), D.DT_INT64, S.Mat, 0x80, layout=L.ND)
    table = T((1, 48), D.DT_INT64, S.Scaling, 0x180)
    check(move_call(table, words), lambda m: put(m, table, *grid(1, 48), get(m, words, *grid(1, 48))))


# --- Acc to Vec ------------------------------------------------------------------------------------------------------


def golden_exit(
    m: Memories, dst: T, src: T, mode: Mode | None, offset: Offset, scale: Any, relu: bool, words: T | None
) -> None:
    (rows, cols), (row, col) = src.extents, offset or (0, 0)
    split_rows, split_cols = mode is Mode.DualModeSplitM, mode is Mode.DualModeSplitN
    rows = up(rows, 2) if split_rows else rows
    cols = up(cols, 32) if split_cols else cols
    block = c0(dst.dtype)
    if offset is not None:
        pitch = up(rows, 16) if src.compact == 1 else src.shape[0]
        if not (split_rows or split_cols):
            rows, cols = dst.extents
        cols = up(cols, block)
    elif layout_of(dst) is L.NZ:
        rows = pitch = src.shape[0]
        single = 16 if dst.fractal == 1024 else block
        cols = up(cols, 16 if split_rows else 32 if split_cols else single)
    else:
        static = src.static[0]
        pitch = src.shape[0] if 0 < static < src.shape[0] else up(rows, 16)
    i, j = grid(rows, cols)
    factors = scale if words is None else get(m, words, np.zeros_like(j), j)
    bits = leave(get(m, src, i + row, j + col, rows=pitch), src.dtype, dst.dtype, factors, relu)
    if split_rows:
        for core, part in enumerate((bits[: rows // 2], bits[rows // 2 :])):
            put(m, dst, *grid(*part.shape), part, core=core)
    elif split_cols:
        for core, part in enumerate((bits[:, : cols // 2], bits[:, cols // 2 :])):
            put(m, dst, *grid(*part.shape), part, core=core)
    else:
        put(m, dst, i, j, bits, core=1 if mode is Mode.SingleModeVec1 else 0)


def check_exit(
    dst: T, src: T, mode: Mode | None = None, offset: Offset = None, scale: Any = None, relu: bool = False,
    words: T | None = None,
) -> None:
    attrs: dict[str, Any] = {"acc_to_vec_mode": mode}
    if relu:
        attrs["relu_pre_mode"] = ReluPreMode.NormalRelu
    call = move_call(dst, src, offset, scale if words is None else words, **attrs)
    start = with_accumulator(call, src)
    if words is not None:
        start.spaces[S.Scaling][words.addr : words.addr + 8 * words.shape[1]] = parameter_words(words.shape[1]).view(
            np.uint8)

    check(call, lambda m: golden_exit(m, dst, src, mode, offset, scale, relu, words), start)


@pytest.mark.parametrize("layout", [L.ND, L.DN, L.NZ], ids=lambda x: x.name)
@pytest.mark.parametrize(("source", "target", "scaled"), EXITS, ids=lambda x: getattr(x, "name", x))
def test_accumulator_to_vec(source: D, target: D, scaled: bool, layout: L) -> None:
    scale = 0.375 if scaled else None
    shape = (32, 64)
    for valid in ((32, 64), (20, 37), (17, 64)):
        dst = T(shape, target, addr=0x100, layout=layout, valid=valid)
        check_exit(dst, T(shape, source, S.Acc, valid=valid), scale=scale)
        check_exit(dst, T(shape, source, S.Acc, valid=valid), Mode.SingleModeVec1, scale=scale, relu=True)
    check_exit(T(shape, target, layout=layout), T(shape, source, S.Acc, valid=(13, 40), static=(13, 40)), scale=scale)
    if scaled:
        words = T((1, 64), D.DT_INT64, S.Scaling)
        check_exit(T(shape, target, layout=layout), T(shape, source, S.Acc, valid=(20, 37)), words=words)


@pytest.mark.parametrize("dtype", [D.DT_FP32, D.DT_INT32], ids=lambda d: d.name)
@pytest.mark.parametrize("mode", [Mode.DualModeSplitM, Mode.DualModeSplitN], ids=lambda m: m.name)
def test_split_between_both_vector_cores(dtype: D, mode: Mode) -> None:
    rows, cols = (16, 64) if mode is Mode.DualModeSplitM else (32, 32)
    for valid in ((32, 64), (21, 64), (1, 33), (20, 16)):
        src = T((32, 64), dtype, S.Acc, valid=valid)
        check_exit(T((rows, cols), dtype, addr=0x400), src, mode)
        check_exit(T((rows, cols), dtype, layout=L.NZ), src, mode)
        check_exit(T((rows, cols), dtype, layout=L.NZ, fractal=1024), src, mode)


def test_parts_of_an_accumulator() -> None:
    for compact in (0, 1):
        src = T((48, 128), D.DT_FP32, S.Acc, valid=(20, 64), compact=compact)
        for target in (D.DT_FP32, D.DT_FP16):
            check_exit(T((16, 64), target, valid=(13, 37)), src, None, (0, 64))
            check_exit(T((16, 64), target, valid=(13, 37)), src, Mode.SingleModeVec1, (4, 16))
        check_exit(T((16, 64), valid=(20, 64)), src, Mode.DualModeSplitM, (0, 64))
        check_exit(T((32, 32), valid=(20, 64)), src, Mode.DualModeSplitN, (0, 64))


def test_boxes_of_sixteen_columns() -> None:
    """A 4-byte NZ destination of fractal 1024 keeps the boxes of the accumulator."""
    for dtype in (D.DT_FP32, D.DT_INT32):
        src = T((32, 64), dtype, S.Acc, valid=(20, 37))
        check_exit(T((32, 64), dtype, layout=L.NZ, fractal=1024), src)
        check_exit(T((32, 64), dtype, layout=L.NZ), src)


# --- inside Vec, and to Mat ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", rules.MOVABLE, ids=lambda d: d.name)
def test_copy_inside_vec(dtype: D) -> None:
    cols = 2 * c0(dtype)
    for a, b in (((8, cols), (8, cols)), ((5, cols), (8, cols - 3)), ((8, 2), (3, cols)), ((0, 4), (8, cols))):
        dst, src = T((8, cols), dtype, addr=0x1000, valid=a), T((8, cols), dtype, valid=b)

        def golden(m: Memories, dst: T = dst, src: T = src) -> None:
            rows, columns = (min(x, y) for x, y in zip(dst.extents, src.extents, strict=True))
            put(m, dst, *grid(rows, columns), get(m, src, *grid(rows, columns)))

        check(move_call(dst, src), golden)
    dst, src = T((8, cols), dtype, addr=0x1000), T((8, cols), dtype)
    check(move_call(dst, src, (0, 0)), lambda m: put(m, dst, *grid(8, cols), get(m, src, *grid(8, cols))))
    dst, src = T((4, cols), dtype, addr=0x1000), T((8, 2 * cols), dtype)
    check(move_call(dst, src, (3, 4)), lambda m: put(m, dst, *grid(4, cols), get(m, src, *grid(4, cols, 3, 4))))
    column, other = T((cols, 1), dtype, addr=0x1000, valid=(cols - 2, 1)), T((cols, 1), dtype)
    check(move_call(column, other), lambda m: put(m, column, *grid(cols - 2, 1), get(m, other, *grid(cols - 2, 1))))


@pytest.mark.parametrize("distance", [0, 32, 96, 256, 2048])
@pytest.mark.parametrize("layout", [L.ND, L.NZ], ids=lambda x: x.name)
def test_overlapping_tiles_are_read_before_they_are_written(layout: L, distance: int) -> None:
    dst, src = T((16, 32), addr=0x1000 + distance, layout=layout), T((16, 32), addr=0x1000)
    call = move_call(dst, src)
    start = fresh(call)
    wanted = start.copy()
    put(wanted, dst, *grid(16, 32), get(start, src, *grid(16, 32)))
    outcome = native(call, start)
    assert not outcome.called_back
    assert np.array_equal(outcome.memories.spaces[S.Vec], wanted.spaces[S.Vec])


@pytest.mark.parametrize("dtype", move.FRACTAL_DTYPES, ids=lambda d: d.name)
def test_rows_to_boxes(dtype: D) -> None:
    block = c0(dtype)
    shape = (32, 3 * block)
    for compact in (0, 1, 2):
        for valid in (shape, (20, 2 * block + 1), (17, 2)):
            tall = (33, shape[1]) if compact == 2 else shape
            dst = T(tall, dtype, addr=0x8000, valid=valid, layout=L.NZ, compact=compact)
            src = T(tall, dtype, valid=valid)
            pitch = up(valid[0], 16) + (compact == 2)
            check(move_call(dst, src), lambda m: put(m, dst, *grid(*valid), get(m, src, *grid(*valid)), rows=pitch))  # noqa: B023
    part, whole = T((16, 2 * block), dtype, addr=0x8000, layout=L.NZ), T((48, 3 * block), dtype)
    check(move_call(part, whole, (16, block)), lambda m: put(
        m, part, *grid(16, 2 * block), get(m, whole, *grid(16, 2 * block, 16, block))))
    if 48 * dtype.bits() % 256 == 0 or dtype.is_sub_byte:
        wide = (2 * block, 64 if dtype.is_sub_byte else 48)
        for valid in (wide, (2 * block, 32), (block + 1, 37)):
            dst = T(wide, dtype, addr=0x8000, valid=valid, layout=L.ZN)
            src = T(wide, dtype, valid=valid)
            i, j = grid(valid[0] // block * block, valid[1] // 16 * 16)
            source = T((wide[0], valid[1]), dtype)  # the source is read at the pitch of the valid columns
            check(move_call(dst, src), lambda m: put(m, dst, i, j, get(m, source, i, j), cols=valid[1] // 16 * 16))  # noqa: B023


@pytest.mark.parametrize("dtype", [*move.OPERAND_DTYPES, D.DT_FP8E8M0], ids=lambda d: d.name)
def test_boxes_to_mat(dtype: D) -> None:
    block = c0(dtype)
    shape = (32, 3 * block)
    for valid in (shape, (20, 2 * block + 1), (16, block)):
        dst, src = T(shape, dtype, S.Mat, 0x400, valid), T(shape, dtype, layout=L.NZ)
        rows, cols = up(valid[0], 16), up(valid[1], block)
        i, j = grid(rows, cols)
        check(move_call(dst, src), lambda m: put(m, dst, i, j, get(m, src, i, j, rows=rows), rows=rows))  # noqa: B023
    dst, src = T((3 * block, 32), dtype, S.Mat, layout=L.ZN), T((32, 3 * block), dtype, layout=L.NZ)
    i, j = grid(32, 3 * block)
    check(move_call(dst, src), lambda m: put(m, dst, j, i, get(m, src, i, j)))  # equal bytes
    check(move_call(dst, src, (0, 0)), lambda m: put(m, dst, j, i, get(m, src, i, j)))
    taller = T((4 * block, 64), dtype, S.Mat, layout=L.ZN)
    check(move_call(taller, src, (7, block)), lambda m: put(m, taller, j + block, i + 7, get(m, src, i, j)))
    dst, src = T((16, 2 * block), dtype, S.Mat), T((32, 3 * block), dtype, layout=L.NZ)
    i, j = grid(16, 2 * block)
    check(move_call(dst, src, (16, block)), lambda m: put(m, dst, i, j, get(m, src, i + 16, j + block)))


def test_raw_words_to_mat() -> None:
    dst, src = T((2, 16), D.DT_INT64, S.Mat, 0x20, (2, 13), L.ND), T((2, 16), D.DT_INT64)

    def golden(m: Memories) -> None:
        m.spaces[S.Mat][0x20 : 0x20 + 26 * 8 // 32 * 32] = m.spaces[S.Vec][: 26 * 8 // 32 * 32]

    check(move_call(dst, src), golden)


# --- insert ----------------------------------------------------------------------------------------------------------


def golden_insert(m: Memories, dst: T, src: T, offset: tuple[int, int]) -> None:
    """Whole c0 blocks of the source; NZ and ZN into each other as equal bytes; nothing past the destination's end."""
    (rows, cols), block, (row, col) = src.extents, c0(src.dtype), offset
    if not rows or not cols:
        return
    pitch = {}
    if layout_of(src) is L.NZ:
        cols = up(cols, block)
        pitch["rows"] = {0: src.shape[0], 1: up(rows, 16), 2: up(rows, 16) + 1}[src.compact]
    else:
        rows = up(rows, block)
        pitch["cols"] = {0: src.shape[1], 1: up(cols, 16), 2: up(cols, 16) + 1}[src.compact]
    i, j = grid(rows, cols)
    values = get(m, src, i, j, **pitch)
    i, j = i + row, j + col
    if layout_of(src) is not layout_of(dst):
        i, j = j, i
    end = dst.addr + dst.shape[0] * dst.shape[1] * dst.dtype.bits() // 8
    kept = m.spaces[S.Mat][end:].copy()
    put(m, dst, i, j, values)
    m.spaces[S.Mat][end:] = kept


def insert_call(dst: T, src: T, offset: tuple[int, int]) -> Call:
    return Call("insert", {"dst_tile": dst, "src_tile": src, "offset": offset})


@pytest.mark.parametrize("dtype", [d for d in rules.MOVABLE if d in move.OPERAND_DTYPES or d in (
    D.DT_INT32, D.DT_FP8E8M0)], ids=lambda d: d.name)
def test_insert(dtype: D) -> None:
    block = c0(dtype)
    nz = T((64, 4 * block), dtype, S.Mat, 0x400)
    zn = T((4 * block, 64), dtype, S.Mat, 0x400, layout=L.ZN)
    for compact, tall in ((0, 32), (1, 32), (2, 33)):
        for valid in ((32, 2 * block), (16, block + 1), (20, 3)):
            rows = up(valid[0], 16) if compact == 0 else tall
            src = T((rows, 2 * block), dtype, valid=valid, layout=L.NZ, compact=compact)
            for dst, offset in ((nz, (16, block)), (nz, (3, 2 * block)), (zn, (7, 2 * block))):
                check(insert_call(dst, src, offset), lambda m: golden_insert(m, dst, src, offset))  # noqa: B023
            if compact < 2:
                src = T((2 * block, 48), dtype, valid=(valid[1], valid[0]), layout=L.ZN, compact=compact)
                for dst, offset in ((zn, (block, 5)), (nz, (2 * block, 9))):
                    check(insert_call(dst, src, offset), lambda m: golden_insert(m, dst, src, offset))  # noqa: B023
    larger = T((64, 4 * block), dtype, S.Mat)
    src = T((32, 2 * block), dtype, layout=L.NZ)
    if dtype is not D.DT_INT32:
        check(move_call(larger, src, (16, block)), lambda m: golden_insert(m, larger, src, (16, block)))


@pytest.mark.parametrize("dtype", [D.DT_FP16, D.DT_FP32, D.DT_INT8, D.DT_FP4E2M1], ids=lambda d: d.name)
def test_insert_past_the_destination(dtype: D) -> None:
    """Rows walk into the next block, as addresses do; what is past the end of the tile is dropped and reported."""
    block = c0(dtype)
    for dst, offset in (
        (T((32, 3 * block), dtype, S.Mat, 0x400), (16, block)),
        (T((32, 3 * block), dtype, S.Mat, 0x400), (3, 2 * block)),
        (T((3 * block, 32), dtype, S.Mat, 0x400, layout=L.ZN), (20, 2 * block)),
    ):
        src = T((32, 2 * block), dtype, valid=(20, 2 * block), layout=L.NZ)
        call = insert_call(dst, src, offset)
        start = fresh(call)
        wanted = start.copy()
        golden_insert(wanted, dst, src, offset)
        outcome = native(call, start)
        assert "past the end of the tile" in outcome.warnings[0]
        assert np.array_equal(outcome.memories.spaces[S.Mat], wanted.spaces[S.Mat]), (dtype, offset)


@pytest.mark.parametrize(("layout", "offset", "axis"), [(L.NZ, (0, 5), "column"), (L.ZN, (5, 0), "row")], ids=str)
def test_insert_starts_at_a_block(layout: L, offset: tuple[int, int], axis: str) -> None:
    call = insert_call(T((64, 64), D.DT_FP16, S.Mat, layout=layout), T((32, 32), D.DT_FP16, layout=layout), offset)
    assert f"the {axis} offset" in native(call, fresh(call)).refused
