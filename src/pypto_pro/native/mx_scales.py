"""MX scales of the matrix engine: multiply widened operands by powers of two, one for 32 elements of K.

Scaled operands are FP32 numbers unless scales are enormous; products with such scales are summed in double precision.

A scale code c stands for 2 ** (c - 127), 255 for NaN. Both scale memories hold pairs of groups side by side (numerics
8): the code of (line, group) lies at `line // 16 * groups * 16 + group // 2 * 32 + line % 16 * 2 + group % 2`, lines
being rows of lhs or columns of rhs.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import llvmlite.ir as ir

from pypto_pro.dtypes import DataType
from pypto_pro.native import engine, small_floats
from pypto_pro.native.emit import F32, F64, I1, I8, I32, I64, PTR, VOID, Code, Value, like, splat, suffix, vector
from pypto_pro.native.engine import host
from pypto_pro.native.lanes import Lanes, spread
from pypto_pro.native.sync_code import function

D = DataType
GROUP = 32
BOX = 16
LARGEST_CODE = 238
"""2 ** (238 - 127) times the largest FP8 number, 57344, is a finite FP32 number; NaN (255) needs no limit."""
NAN = 255


def _factor(code: Code, codes: Value) -> Value:
    """FP32 powers of two of UINT8 code lanes."""
    return small_floats.decode(Lanes(code, codes, D.DT_UINT8), D.DT_FP8E8M0).value


def _place(code: Code, line: Value, group: Value, groups: Value) -> Value:
    """Byte offset of the code of (line, group); line a multiple of 16 or any line."""
    b = code.b
    box = b.mul(b.mul(b.udiv(line, I64(BOX)), groups), I64(BOX))
    within = b.add(b.mul(b.and_(line, I64(BOX - 1)), I64(2)), b.and_(group, I64(1)))
    return b.add(b.add(box, b.mul(b.lshr(group, I64(1)), I64(2 * BOX))), within)


def emit_fits(module: Any) -> None:
    """`i1 mm_scale_fits(codes, lines, groups)`: whether no code of the lines is above `LARGEST_CODE` but NaN."""
    code, (codes, lines, groups) = function(module, "mm_scale_fits", (PTR, I64, I64), I1)
    b, step = code.b, 2 * BOX
    type_ = vector(step, I8)
    indices = ir.Constant(vector(step, I64), [I64(k) for k in range(step)])
    seen = code.slot(type_)
    code.store(splat(type_, 0), seen)
    with code.loop(0, lines, BOX, name="boxes") as line, code.loop(0, groups, 2, name="pairs") as group:
        found = code.load(type_, code.at(codes, _place(code, line, group, groups)))
        large = b.and_(b.icmp_unsigned(">", found, splat(type_, LARGEST_CODE)),
                       b.icmp_unsigned("!=", found, splat(type_, NAN)))
        used = b.icmp_signed("<", indices, spread(code, b.mul(b.sub(lines, line), I64(2)), step))
        code.store(b.or_(code.load(type_, seen), b.zext(b.and_(large, used), type_)), seen)
    word = b.bitcast(code.load(type_, seen), ir.IntType(8 * step))
    b.ret(b.icmp_unsigned("==", word, ir.Constant(word.type, 0)))


def emit_left(module: Any, box: int) -> None:
    """`void mm_scale_left_<box>(a, codes, rows, groups)`: a[k // box][row][k % box] *= scale of (row, k // 32)."""
    types = (PTR, PTR, I64, I64)
    code, (a, codes, rows, groups) = function(module, f"mm_scale_left_{box}", types, VOID)
    b, lanes = code.b, host().fp32_lanes
    type_ = vector(lanes, F32)
    with code.loop(0, groups, name="groups") as group, code.loop(0, rows, name="rows") as row:
        byte = code.load(vector(1, I8), code.at(codes, _place(code, row, group, groups)))
        factor = spread(code, b.extract_element(_factor(code, byte), I32(0)), lanes)
        per_box = box // GROUP
        block = b.add(b.mul(b.udiv(group, I64(per_box)), rows), row)
        first = b.add(b.mul(block, I64(box)), b.mul(b.urem(group, I64(per_box)), I64(GROUP)))
        for k in range(0, GROUP, lanes):
            place = code.at(a, b.mul(b.add(first, I64(k)), I64(4)))
            code.store(b.fmul(code.load(type_, place), factor), place)
    b.ret_void()


def _column_codes(code: Code, codes: Value, column: Value, group: Value, groups: Value) -> Value:
    """The codes of a group of 16 columns, the first a multiple of 16."""
    b = code.b
    pairs = code.load(vector(2 * BOX, I8), code.at(codes, _place(code, column, b.and_(group, I64(-2)), groups)))
    undefined = ir.Constant(pairs.type, ir.Undefined)
    even, odd = (
        b.shuffle_vector(pairs, undefined, ir.Constant(vector(BOX, I32), [I32(2 * k + half) for k in range(BOX)]))
        for half in (0, 1)
    )
    return b.select(b.icmp_unsigned("!=", b.and_(group, I64(1)), I64(0)), odd, even)


def emit_right(module: Any, width: int) -> None:
    """`void mm_scale_right(b, codes, columns, groups, depth)`: panel[k][column] *= scale of (k // 32, column).

    `b` as `mm_right` packs it: panels of `width` columns, `depth` rows each; columns a multiple of 16.
    """
    types = (PTR, PTR, I64, I64, I64)
    code, (panels, codes, columns, groups, depth) = function(module, "mm_scale_right", types, VOID)
    b = code.b
    type_ = vector(BOX, F32)
    with code.loop(0, columns, BOX, name="columns") as column, code.loop(0, groups, name="groups") as group:
        factor = _factor(code, _column_codes(code, codes, column, group, groups))
        first = _panel(code, column, depth, width)
        first = b.add(first, b.mul(b.mul(group, I64(GROUP)), I64(width)))
        with code.loop(0, GROUP, name="k") as k:
            place = code.at(panels, b.mul(b.add(first, b.mul(k, I64(width))), I64(4)))
            code.store(b.fmul(code.load(type_, place), factor), place)
    b.ret_void()


def _panel(code: Code, column: Value, depth: Value, width: int) -> Value:
    """Index of element (0, column) in Right packed as panels of `width` columns."""
    b = code.b
    return b.add(b.mul(b.mul(b.udiv(column, I64(width)), depth), I64(width)), b.urem(column, I64(width)))


# --- products in double precision -------------------------------------------------------------------------------------


def emit_product(module: Any, box: int, width: int) -> None:
    """`void mm_scale_product_<box>(a, b, acc, m, k, n, first, codes a, codes b)`: as `mm_<t>_<box>`, unscaled operands.

    (a * 2**x) @ (b * 2**y) summed in double precision, where scaled elements are exact, then rounded to FP32.
    """
    types = (PTR, PTR, PTR, I64, I64, I64, PTR, PTR, PTR)
    name = f"mm_scale_product_{box}"
    code, (a, right, acc, m, depth, n, first, codes_a, codes_b) = function(module, name, types, VOID)
    b, type_ = code.b, vector(BOX, F64)
    pitch, groups = b.and_(b.add(m, I64(BOX - 1)), I64(-BOX)), b.udiv(depth, I64(GROUP))
    total = code.slot(type_)
    with code.loop(0, n, BOX, name="columns") as j, code.loop(0, m, name="rows") as i:
        code.store(splat(type_, 0.0), total)
        panel = _panel(code, j, depth, width)
        with code.loop(0, groups, name="groups") as group:
            byte = code.load(vector(1, I8), code.at(codes_a, _place(code, i, group, groups)))
            row_factor = spread(code, b.extract_element(_double_factor(code, byte), I32(0)), BOX)
            factor = b.fmul(row_factor, _double_factor(code, _column_codes(code, codes_b, j, group, groups)))
            start = b.mul(group, I64(GROUP))
            left = b.add(b.mul(b.add(b.mul(b.udiv(start, I64(box)), pitch), i), I64(box)), b.urem(start, I64(box)))
            with code.loop(0, GROUP, name="k") as k:
                x = spread(code, b.fpext(code.load(F32, code.at(a, b.mul(b.add(left, k), I64(4)))), F64), BOX)
                row = b.mul(b.add(panel, b.mul(b.add(start, k), I64(width))), I64(4))
                y = b.fpext(code.load(vector(BOX, F32), code.at(right, row)), type_)
                part = b.fmul(b.fmul(x, y), factor)
                code.store(b.fadd(code.load(type_, total), part), total)
        place = code.at(acc, b.mul(b.add(b.mul(j, pitch), b.mul(i, I64(BOX))), I64(4)))
        result = b.fptrunc(code.load(type_, total), vector(BOX, F32))
        _add_and_store(code, result, place, first, j, n)
    b.ret_void()


def _double_factor(code: Code, codes: Value) -> Value:
    """Powers of two of UINT8 code lanes in double precision."""
    b, word = code.b, like(codes.type, I64)
    pattern = b.shl(b.add(b.zext(codes, word), splat(word, 1023 - 127)), splat(word, 52))
    is_nan = b.icmp_unsigned("==", codes, splat(codes.type, NAN))
    return b.bitcast(b.select(is_nan, splat(word, 0x7FF8 << 48), pattern), like(codes.type, F64))


def _add_and_store(code: Code, result: Value, place: Value, first: Value, column: Value, n: Value) -> None:
    """The sums of 16 columns plus what lies at `place`, or `first` where that is no null, to `place`."""
    b, type_ = code.b, result.type
    indices = ir.Constant(vector(BOX, I64), [I64(k) for k in range(BOX)])
    active = b.icmp_signed("<", indices, spread(code, b.sub(n, column), BOX))
    accumulates = b.icmp_unsigned("==", first, ir.Constant(PTR, None))
    source = b.select(accumulates, place, code.at(first, b.mul(column, I64(4))))
    name = suffix(type_)
    old = code.call(f"llvm.masked.load.{name}.p0", type_, [source, I32(1), active, ir.Constant(type_, None)])
    code.call(f"llvm.masked.store.{name}.p0", VOID, [b.fadd(old, result), place, I32(1), active])


@cache
def functions() -> dict[str, int]:
    """Addresses of the scaling functions."""
    from pypto_pro.native.matrix import shape

    module = ir.Module("mx_scales")
    emit_fits(module)
    emit_left(module, 32)
    emit_left(module, 64)
    emit_right(module, shape()[1])
    emit_product(module, 32, shape()[1])
    emit_product(module, 64, shape()[1])
    names = (
        "mm_scale_fits", "mm_scale_left_32", "mm_scale_left_64", "mm_scale_right", "mm_scale_product_32",
        "mm_scale_product_64",
    )
    return engine.link(engine.compile_module(str(module)), names, {})
