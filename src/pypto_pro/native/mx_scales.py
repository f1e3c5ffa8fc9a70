"""MX scales of the matrix engine: multiply widened operands by powers of two, one for 32 elements of K.

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
from pypto_pro.native.emit import F32, I1, I8, I32, I64, PTR, VOID, Code, Value, splat, vector
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
    """`i1 mm_scale_fits(codes, count)`: whether no code is above `LARGEST_CODE` but NaN; `count` a multiple of 32."""
    code, (codes, count) = function(module, "mm_scale_fits", (PTR, I64), I1)
    b, step = code.b, 2 * BOX
    type_ = vector(step, I8)
    seen = code.slot(type_)
    code.store(splat(type_, 0), seen)
    with code.loop(0, count, step) as at:
        found = code.load(type_, code.at(codes, at))
        large = b.and_(b.icmp_unsigned(">", found, splat(type_, LARGEST_CODE)),
                       b.icmp_unsigned("!=", found, splat(type_, NAN)))
        code.store(b.or_(code.load(type_, seen), b.zext(large, type_)), seen)
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


def emit_right(module: Any, width: int) -> None:
    """`void mm_scale_right(b, codes, columns, groups, depth)`: panel[k][column] *= scale of (k // 32, column).

    `b` as `mm_right` packs it: panels of `width` columns, `depth` rows each; columns a multiple of 16.
    """
    types = (PTR, PTR, I64, I64, I64)
    code, (panels, codes, columns, groups, depth) = function(module, "mm_scale_right", types, VOID)
    b = code.b
    type_ = vector(BOX, F32)
    with code.loop(0, columns, BOX, name="columns") as column, code.loop(0, groups, name="groups") as group:
        even = b.and_(group, I64(-2))
        pairs = code.load(vector(2 * BOX, I8), code.at(codes, _place(code, column, even, groups)))
        undefined = ir.Constant(pairs.type, ir.Undefined)
        halves = [
            b.shuffle_vector(pairs, undefined, ir.Constant(vector(BOX, I32), [I32(2 * k + half) for k in range(BOX)]))
            for half in (0, 1)
        ]
        odd = b.icmp_unsigned("!=", b.and_(group, I64(1)), I64(0))
        factor = _factor(code, b.select(odd, halves[1], halves[0]))
        panel = b.mul(b.mul(b.udiv(column, I64(width)), depth), I64(width))
        first = b.add(b.add(panel, b.urem(column, I64(width))), b.mul(b.mul(group, I64(GROUP)), I64(width)))
        with code.loop(0, GROUP, name="k") as k:
            place = code.at(panels, b.mul(b.add(first, b.mul(k, I64(width))), I64(4)))
            code.store(b.fmul(code.load(type_, place), factor), place)
    b.ret_void()


@cache
def functions() -> dict[str, int]:
    """Addresses of the scaling functions."""
    from pypto_pro.native.matrix import shape

    module = ir.Module("mx_scales")
    emit_fits(module)
    emit_left(module, 32)
    emit_left(module, 64)
    emit_right(module, shape()[1])
    names = ("mm_scale_fits", "mm_scale_left_32", "mm_scale_left_64", "mm_scale_right")
    return engine.link(engine.compile_module(str(module)), names, {})
