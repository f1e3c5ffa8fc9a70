"""The matrix engine: packed operands and a register-blocked product, in generated code. No library, no extra threads.

Left and Right hold their operands in boxes (NZ and ZN) with the elements of one box column (row) side by side. Left is
only widened to 4-byte elements, in place order: `a[k // w][i][k % w]`, whose rows are broadcast. Right is transposed
in 16 x 16 squares into `b[j // cols][k][j % cols]`. A block of rows x cols results stays in registers while k goes from
0 up, one fused multiply-add each, starting from 0; then the old accumulator or the bias is added once, as the hardware
model says (numerics 9). Integers wrap.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import llvmlite.ir as ir

from pypto_pro.dtypes import DataType
from pypto_pro.layouts import elements_per_block
from pypto_pro.native import codecs, engine, frames, mx_scales, small_floats
from pypto_pro.native.blocks import Emitter
from pypto_pro.native.calls import Tile
from pypto_pro.native.emit import F32, I1, I8, I32, I64, PTR, VOID, Code, Value, splat, suffix, vector
from pypto_pro.native.engine import host
from pypto_pro.native.frames import CORE
from pypto_pro.native.lanes import Lanes, spread
from pypto_pro.native.moves import transpose
from pypto_pro.native.scalars import Scalar
from pypto_pro.native.sync_code import function
from pypto_pro.ops.extents import up

D = DataType
BOX = 16
OPERANDS = {
    D.DT_FP16: F32, D.DT_BF16: F32, D.DT_FP32: F32, D.DT_INT8: I32, D.DT_HF8: F32, D.DT_FP8E4M3FN: F32,
    D.DT_FP8E5M2: F32, D.DT_FP4E2M1: F32, D.DT_FP4E1M2: F32,
}  # fmt: skip
"""Operand dtypes and what they are widened to."""
MAX_EXTENT = 4095
UNROLL = 4


def shape() -> tuple[int, int, int]:
    """(rows, columns of results held in registers, lanes of one register)."""
    return {16: (8, 32, 16), 8: (4, 16, 8)}.get(host().fp32_lanes, (2, 16, 4))


# --- operands ---------------------------------------------------------------------------------------------------------


def _elements(code: Code, source: Value, first: Value, count: int, dtype: DataType) -> Value:
    """`count` stored elements (an even number) from the `first` one on; 4-bit ones as one code a byte."""
    if not dtype.is_sub_byte:
        place = code.at(source, code.b.mul(first, I64(dtype.nbytes)))
        return code.load(vector(count, codecs.memory_type(dtype)), place)
    b = code.b
    pairs = code.load(vector(count // 2, I8), code.at(source, b.lshr(first, I64(1))))
    low, high = b.and_(pairs, splat(pairs.type, 15)), b.lshr(pairs, splat(pairs.type, 4))
    order = ir.Constant(vector(count, I32), [I32(k // 2 + k % 2 * (count // 2)) for k in range(count)])
    return b.shuffle_vector(low, high, order)


def _widened(code: Code, bits: Value, dtype: DataType) -> Value:
    if dtype in small_floats.SMALL:
        return small_floats.decode(Lanes(code, bits, D.DT_UINT8), dtype).value
    value = codecs.decode(code, bits, dtype)
    return code.b.sext(value, vector(bits.type.count, I32)) if dtype is D.DT_INT8 else value


def emit_left(module: Any, dtype: DataType) -> None:
    """`void mm_left_<dtype>(source, target, count)`: widen `count` elements, a multiple of 16."""
    code, (source, target, count) = function(module, f"mm_left_{dtype.to_string()}", (PTR, PTR, I64), VOID)
    with code.loop(0, count, BOX) as k:
        bits = _elements(code, source, k, BOX, dtype)
        code.store(_widened(code, bits, dtype), code.at(target, code.b.mul(k, I64(4))))
    code.b.ret_void()


def emit_right(module: Any, dtype: DataType) -> None:
    """`void mm_right_<dtype>(source, target, k, columns)`: k and columns rounded up to whole boxes.

    Source ZN with `columns` as its pitch; target panels of `shape()[1]` columns, k rows each.
    """
    name = f"mm_right_{dtype.to_string()}"
    code, (source, target, depth, columns) = function(module, name, (PTR, PTR, I64, I64), VOID)
    b, width = code.b, shape()[1]
    box = elements_per_block(dtype)
    with code.loop(0, depth, box) as k, code.loop(0, columns, BOX) as j:
        start = b.add(b.mul(k, columns), b.mul(j, I64(box)))
        lines = [_elements(code, source, b.add(start, I64(line * box)), box, dtype) for line in range(BOX)]
        panel = b.mul(b.mul(b.udiv(j, I64(width)), depth), I64(width))
        for row, value in enumerate(_columns_to_rows(code, lines, box)):
            at = b.add(panel, b.add(b.mul(b.add(k, I64(row)), I64(width)), b.urem(j, I64(width))))
            code.store(_widened(code, value, dtype), code.at(target, b.mul(at, I64(4))))
    b.ret_void()


def _columns_to_rows(code: Code, lines: list[Value], box: int) -> list[Value]:
    """16 vectors of `box` elements -> `box` vectors of 16."""

    def part(line: Value, start: int, count: int) -> Value:
        mask = ir.Constant(vector(count, I32), [I32(start + k) for k in range(count)])
        return code.b.shuffle_vector(line, ir.Constant(line.type, ir.Undefined), mask)

    if box < BOX:
        low, high = transpose(code, lines[:box]), transpose(code, lines[box:])
        both = ir.Constant(vector(BOX, I32), [I32(k) for k in range(BOX)])
        return [code.b.shuffle_vector(a, b, both) for a, b in zip(low, high, strict=True)]
    rows: list[Value] = []
    for start in range(0, box, BOX):
        rows += transpose(code, [part(line, start, BOX) for line in lines])
    return rows


# --- product ----------------------------------------------------------------------------------------------------------


def emit_block(module: Any, element: Any, box: int) -> None:
    """`void mm_block_<t>_<box>(a, a step, b, k, acc, acc step, rows, columns, first)`: one register block.

    a: row block in the widened Left, `a step` bytes from one group of `box` k to the next; b: a panel of Right; acc:
    the block in Acc, `acc step` bytes from one 16-column box to the next; rows, columns: how many results are stored;
    first: what is added to every row, or null to add the old accumulator.
    """
    name = f"mm_block_{suffix(element)}_{box}"
    types = (PTR, I64, PTR, I64, PTR, I64, I64, I64, PTR)
    code, (a, a_step, b, depth, acc, acc_step, rows, columns, first) = function(module, name, types, VOID)
    height, width, lanes = shape()
    zero = ir.Constant(vector(lanes, element), None)
    sums = [[code.slot(zero.type) for _ in range(width // lanes)] for _ in range(height)]
    for row in sums:
        for slot in row:
            code.store(zero, slot)
    whole = code.b.and_(depth, I64(-box))
    with code.loop(0, whole, UNROLL, name="k") as k:
        group = code.at(a, code.b.mul(code.b.lshr(k, I64(box.bit_length() - 1)), a_step))
        within = code.at(group, code.b.mul(code.b.and_(k, I64(box - 1)), I64(4)))
        for step in range(UNROLL):
            _multiply(code, sums, code.at(within, 4 * step), b, code.b.add(k, I64(step)), element, box)
    with code.loop(whole, depth, name="k_rest") as k:
        group = code.at(a, code.b.mul(code.b.lshr(whole, I64(box.bit_length() - 1)), a_step))
        within = code.b.mul(code.b.sub(k, whole), I64(4))
        _multiply(code, sums, code.at(group, within), b, k, element, box)
    _store_block(code, sums, acc, acc_step, rows, columns, first, element)
    code.b.ret_void()


def _multiply(code: Code, sums: list[list[Value]], a: Value, b: Value, k: Value, element: Any, box: int) -> None:
    """One k: every row's element times a row of b."""
    _, width, lanes = shape()
    row_of_b = code.at(b, code.b.mul(k, I64(4 * width)))
    parts = [code.load(vector(lanes, element), row_of_b, 4 * lanes * v) for v in range(width // lanes)]
    for i, row in enumerate(sums):
        left = spread(code, code.load(element, a, 4 * box * i), lanes)
        for slot, right in zip(row, parts, strict=True):
            before = code.load(right.type, slot)
            if element == F32:
                after = code.intrinsic("fma", left, right, before)
            else:
                after = code.b.add(before, code.b.mul(left, right))
            code.store(after, slot)


def _store_block(
    code: Code, sums: list[list[Value]], acc: Value, acc_step: Value, rows: Value, columns: Value, first: Value,
    element: Any,
) -> None:
    """Add the old accumulator or `first`, and store the results that exist."""
    lanes, b = shape()[2], code.b
    type_ = vector(lanes, element)
    accumulates = b.icmp_unsigned("==", first, ir.Constant(PTR, None))
    indices = ir.Constant(vector(lanes, I64), [I64(k) for k in range(lanes)])
    name = suffix(type_)
    for i, row in enumerate(sums):
        with b.if_then(b.icmp_signed(">", rows, I64(i))):
            for v, slot in enumerate(row):
                column = v * lanes
                place = code.at(code.at(acc, b.mul(acc_step, I64(column // BOX))), 4 * (BOX * i + column % BOX))
                active = b.icmp_signed("<", indices, spread(code, b.sub(columns, I64(column)), lanes))
                source = b.select(accumulates, place, code.at(first, 4 * column))
                args = [source, I32(1), active, ir.Constant(type_, None)]
                old = code.call(f"llvm.masked.load.{name}.p0", type_, args)
                new = code.load(type_, slot)
                total = b.fadd(old, new) if element == F32 else b.add(old, new)
                code.call(f"llvm.masked.store.{name}.p0", VOID, [total, place, I32(1), active])


def emit_product(module: Any, element: Any, box: int) -> None:
    """`void mm_<t>_<box>(a, b, acc, m, k, n, first)`: a widened Left, b packed Right, acc NZ packed for m."""
    block = f"mm_block_{suffix(element)}_{box}"
    types = (PTR, PTR, PTR, I64, I64, I64, PTR)
    code, (a, b_packed, acc, m, k, n, first) = function(module, f"mm_{suffix(element)}_{box}", types, VOID)
    b = code.b
    height, width, _ = shape()
    pitch = b.and_(b.add(m, I64(BOX - 1)), I64(-BOX))
    depth = b.mul(b.udiv(b.add(k, I64(box - 1)), I64(box)), I64(box))
    a_step, acc_step = b.mul(pitch, I64(4 * box)), b.mul(pitch, I64(4 * BOX))
    null = ir.Constant(PTR, None)
    is_null = b.icmp_unsigned("==", first, null)
    with code.loop(0, n, width, name="columns") as j:
        panel = code.at(b_packed, b.mul(b.mul(j, depth), I64(4)))
        added = b.select(is_null, null, code.at(first, b.mul(j, I64(4))))
        column = code.at(acc, b.mul(b.udiv(j, I64(BOX)), acc_step))
        with code.loop(0, m, height, name="rows") as i:
            args = [
                code.at(a, b.mul(i, I64(4 * box))), a_step, panel, k, code.at(column, b.mul(i, I64(4 * BOX))), acc_step,
                b.sub(m, i), b.sub(n, j), added,
            ]
            code.call(block, VOID, args)
    b.ret_void()


@cache
def functions(dtype: DataType) -> dict[str, int]:
    """Addresses of the engine's functions for one operand dtype."""
    module = ir.Module("matrix")
    element, box = OPERANDS[dtype], elements_per_block(dtype)
    emit_left(module, dtype)
    emit_right(module, dtype)
    emit_block(module, element, box)
    emit_product(module, element, box)
    exports = tuple(f"mm_{part}_{dtype.to_string()}" for part in ("left", "right"))
    product = f"mm_{suffix(element)}_{box}"
    found = engine.link(engine.compile_module(str(module)), (*exports, product), {})
    return {**{name: found[name] for name in exports}, f"mm_product_{dtype.to_string()}": found[product]}


def helpers(code: bytes) -> dict[str, int]:
    """Addresses of the engine's functions object code mentions."""
    found: dict[str, int] = {}
    for dtype in OPERANDS:
        if any(f"mm_{part}_{dtype.to_string()}".encode() in code for part in ("left", "right")):
            found.update(functions(dtype))
    if b"mm_scale" in code:
        found.update(mx_scales.functions())
    return found


class MatrixEngine(Emitter):
    """The builder's part for products."""

    def matmul(
        self, dst: Tile, lhs: Tile, rhs: Tile, bias: Tile | None = None, *, scales: tuple[Tile, Tile] | None = None,
        accumulate: bool = False,
    ) -> Any:
        """dst = lhs @ rhs (+ bias over rows, or + dst when accumulating), packed for the run-time m and n.

        scales: E8M0 factors of lhs and rhs, one for 32 elements of K.
        """
        code, box = self.code, elements_per_block(lhs.dtype)
        m, k, n = lhs.vr, lhs.vc, rhs.vc
        rows, depth, columns = up(m, BOX), up(k, box), up(n, BOX)
        self.require(
            m >= 0, m <= MAX_EXTENT, k <= MAX_EXTENT, n >= 0, n <= MAX_EXTENT,
            self._holds(lhs, rows * depth * lhs.dtype.bits() // 8),
            self._holds(rhs, columns * depth * rhs.dtype.bits() // 8), self._holds(dst, rows * columns * 4),
        )  # fmt: skip
        if bias is not None:
            self.require(self._holds(bias, n * 4))
        with self.if_((m > 0) & (n > 0)):
            self.require(k > 0)
            if scales is not None:
                self._check_scales(scales, (rows, columns), k)
            null = ir.Constant(PTR, None)
            first = self.pointer(bias) if bias is not None else null if accumulate else self._zeros()
            scratch = code.at(code.load(PTR, self.core, CORE["arena"]), frames.ARENA_SCRATCH)
            left, right = scratch, code.at(scratch, frames.SCRATCH_BYTES // 2)
            code.call(f"mm_left_{lhs.dtype.to_string()}", VOID, [self.pointer(lhs), left, (rows * depth).value])
            sizes = [depth.value, columns.value]
            code.call(f"mm_right_{rhs.dtype.to_string()}", VOID, [self.pointer(rhs), right, *sizes])
            args = [left, right, self.pointer(dst), m.value, k.value, n.value, first]
            product = f"mm_product_{lhs.dtype.to_string()}"
            if scales is None:
                code.call(product, VOID, args)
                return None
            groups = (k // mx_scales.GROUP).value
            a, b = (self.pointer(scale) for scale in scales)
            moderate = code.all_of(*(
                code.call("mm_scale_fits", I1, [codes, lines.value, groups]) for codes, lines in ((a, m), (b, n))
            ))
            with code.b.if_else(moderate) as (yes, no):
                with yes:
                    code.call(f"mm_scale_left_{box}", VOID, [left, a, rows.value, groups])
                    code.call("mm_scale_right", VOID, [right, b, columns.value, groups, depth.value])
                    code.call(product, VOID, args)
                with no:  # a scaled element could pass the FP32 range
                    code.call(f"mm_scale_product_{box}", VOID, [*args, a, b])
        return None

    def _check_scales(self, scales: tuple[Tile, Tile], lines: tuple[Scalar, Scalar], k: Scalar) -> None:
        """Scales for whole pairs of groups, inside their memories."""
        self.require(k % (2 * mx_scales.GROUP) == 0)
        for scale, count in zip(scales, lines, strict=True):
            self.require(self._holds(scale, count * (k // mx_scales.GROUP)))

    def _holds(self, tile: Tile, size: Scalar) -> Scalar:
        """Whether `size` bytes from the tile's address lie inside its space."""
        return Scalar(self.code, ((tile.addr >= 0) & (tile.addr + size <= self.capacity(tile))).value, D.DT_BOOL)

    def _zeros(self) -> Value:
        """Zeros, which a product that does not accumulate adds to every row."""
        arena = self.code.load(PTR, self.core, CORE["arena"])
        return self.code.at(arena, frames.ARENA_ZEROS)

