"""Copies between boxes of tiles, whatever their layouts, by strided runs. Windows of tensors: `transfers`.

Both ends are a sum of two axis functions (`layouts.Axis`), and in every layout exactly one axis has neighbouring
elements at neighbouring addresses, inside a box or along a whole line. Where that is the same axis on both ends, runs
are copied as vectors; otherwise elements go one by one, or through transposed squares of registers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import llvmlite.ir as ir

from pypto_pro import layouts
from pypto_pro.dtypes import DataType
from pypto_pro.layouts import Axis
from pypto_pro.native import codecs, exits, frames
from pypto_pro.native.blocks import MANY_ROWS, Emitter
from pypto_pro.native.calls import Tensor, Tile
from pypto_pro.native.emit import I8, VOID, Value, splat, vector
from pypto_pro.native.exits import Change
from pypto_pro.native.lanes import Lanes
from pypto_pro.native.scalars import Scalar
from pypto_pro.ops.entry import Box
from pypto_pro.ops.fixpipe import Exit
from pypto_pro.ops.operands import tile_geometry

ROW, COL = 0, 1
SQUARE = 16
LONG_LINE = 1024


@dataclass(frozen=True)
class End:
    """One end of a copy: host address of element (0, 0), its two axes (elements), and where the box starts."""

    base: Value
    axes: tuple[Axis, Axis]
    start: tuple[Any, Any]
    dtype: DataType
    run_axis: int | None
    """The axis whose neighbours are neighbours in memory, inside a block of `axes[run_axis].block` (0: everywhere)."""
    is_column: bool = False
    """A tile of one column."""
    streams: Value | None = None
    """i1: what is written here is too much to keep in the caches, so writes should pass them by."""

    def exchanged(self) -> End:
        """The end of the transposed box."""
        run = None if self.run_axis is None else 1 - self.run_axis
        return End(self.base, self.axes[::-1], self.start[::-1], self.dtype, run)


class Moves(Emitter):
    """Copy patterns of the builder."""

    # --- ends --------------------------------------------------------------------------------------------------------

    def _box_end(self, tile: Tile, box: Box) -> End:
        geo = tile_geometry(tile.type, box.row_extent, box.col_extent) if _static(box) else _geometry(tile, box)
        axes = geo.axes
        run = next(k for k in (COL, ROW) if isinstance(axes[k].inner, int) and axes[k].inner == 1)
        return End(self.pointer(tile), axes, (box.r0, box.c0), tile.dtype, run, tile.type.cols == 1)

    def _box_fits(self, tile: Tile, end: End, rows: Scalar, cols: Scalar) -> Scalar:
        """Whether a box lies inside the tile's space (both axis functions grow)."""
        bits = tile_geometry(tile.type).dtype_bits  # Acc holds 4-byte elements whatever its dtype
        first = self._offset(end, 0, 0)
        last = self._offset(end, (rows - 1).most(0), (cols - 1).most(0))
        return (
            (tile.addr >= 0) & (rows >= 0) & (cols >= 0) & (rows <= MANY_ROWS) & (cols <= MANY_ROWS) & (first >= 0)
            & (self.scalar(end.start[0]) >= 0) & (self.scalar(end.start[1]) >= 0)
            & (tile.addr + (last * bits + bits + 7) // 8 <= frames.capacity(tile.type.space))
        )  # fmt: skip

    def _apart_boxes(self, dst: Tile, to: End, src: Tile, of: End, rows: Scalar, cols: Scalar) -> Scalar:
        """Whether the bytes from the first to the last of two boxes of one space have none in common."""
        spans = []
        for tile, end in ((dst, to), (src, of)):
            bits = tile_geometry(tile.type).dtype_bits
            last = self._offset(end, (rows - 1).most(0), (cols - 1).most(0))
            spans.append((tile.addr + self._offset(end, 0, 0) * bits // 8, tile.addr + (last * bits + bits + 7) // 8))
        (low, high), (other_low, other_high) = spans
        return (high <= other_low) | (other_high <= low)

    def _offset(self, end: End, i: Any, j: Any) -> Scalar:
        """Elements from the base to element (i, j) of the box."""
        row, col = end.axes
        return self.scalar(row.at(self.scalar(end.start[0]) + i)) + self.scalar(col.at(self.scalar(end.start[1]) + j))

    # --- copies ------------------------------------------------------------------------------------------------------

    def copy_box(
        self, dst: Tile, target: Box, src: Tile, source: Box, *, transposed: bool = False, way_out: Exit | None = None
    ) -> Any:
        """Copy elements between boxes of tiles of any layout; differing float dtypes convert, nearest even.

        transposed: target[j, i] = source[i, j]. `way_out`: what happens to accumulator values on the way.
        """
        rows, cols = self.scalar(source.rows), self.scalar(source.cols)
        to, of = self._box_end(dst, target), self._box_end(src, source)
        to = to.exchanged() if transposed else to
        self.require(self._box_fits(dst, to, rows, cols), self._box_fits(src, of, rows, cols))
        if src.type.space is dst.type.space:
            same = tile_geometry(src.type) == tile_geometry(dst.type) and target == source
            apart = self._apart_boxes(dst, to, src, of, rows, cols)
            self.require(apart | (dst.addr == src.addr) if same else apart)
        if src.dtype.is_sub_byte:
            self._copy_nibbles(to, of, rows, cols)
            return None
        if way_out is not None:
            self.require(*exits.guards(self, way_out, cols))
        self._copy(to, of, rows, cols, self._conversion(src, dst, way_out))
        return None

    def _copy_nibbles(self, to: End, of: End, rows: Scalar, cols: Scalar) -> None:
        """4-bit elements: as bytes where both ends pack pairs along one axis, else in squares, or one by one."""
        if to.run_axis != of.run_axis:
            squares = (rows % SQUARE == 0) & (cols % SQUARE == 0)
            for start in (*to.start, *of.start):
                squares = squares & (self.scalar(start) % SQUARE == 0)
            with self.code.b.if_else(squares.value) as (yes, no):
                with yes, self.for_range(0, rows, SQUARE) as i, self.for_range(0, cols, SQUARE) as j:
                    self._nibble_square(to, of, i, j)
                with no, self.for_range(0, rows) as i, self.for_range(0, cols) as j:
                    self._nibble(to, of, i, j)
            return
        axis = of.run_axis
        assert axis is not None
        evens = [rows if axis == ROW else cols, *(self.scalar(e.start[axis]) for e in (to, of))]
        self.require(*(value % 2 == 0 for value in evens))
        extents = (rows // 2, cols) if axis == ROW else (rows, cols // 2)
        self._copy(packed(to, axis), packed(of, axis), *extents, None)

    def _nibble_square(self, to: End, of: End, i: Scalar, j: Scalar) -> None:
        """One square of 4-bit elements, unpacked to bytes, transposed, and packed again."""
        code, b = self.code, self.code.b
        half = SQUARE // 2
        lines = []
        for line in range(SQUARE):
            at = self._offset(of, i + line, j) if of.run_axis == COL else self._offset(of, i, j + line)
            pairs = code.load(vector(half, I8), code.at(of.base, (at // 2).value))
            low, high = b.and_(pairs, splat(pairs.type, 15)), b.lshr(pairs, splat(pairs.type, 4))
            lines.append(b.shuffle_vector(low, high, _indices(k // 2 + k % 2 * half for k in range(SQUARE))))
        for line, codes in enumerate(transpose(code, lines)):
            undefined = ir.Constant(codes.type, ir.Undefined)
            low, high = (
                b.shuffle_vector(codes, undefined, _indices(range(first, SQUARE, 2))) for first in (0, 1)
            )
            at = self._offset(to, i + line, j) if to.run_axis == COL else self._offset(to, i, j + line)
            code.store(b.or_(low, b.shl(high, splat(high.type, 4))), code.at(to.base, (at // 2).value))

    def _nibble(self, to: End, of: End, i: Scalar, j: Scalar) -> None:
        """to[i, j] = of[i, j], the other half of the byte kept."""
        code, b = self.code, self.code.b
        source, target = self._offset(of, i, j), self._offset(to, i, j)
        byte = code.load(I8, code.at(of.base, (source // 2).value))
        bits = b.and_(b.lshr(byte, b.trunc((source % 2 * 4).value, I8)), I8(15))
        place, shift = code.at(to.base, (target // 2).value), b.trunc((target % 2 * 4).value, I8)
        kept = b.and_(code.load(I8, place), b.not_(b.shl(I8(15), shift)))
        code.store(b.or_(kept, b.shl(bits, shift)), place)

    def _conversion(self, src: Tile, dst: Tile | Tensor, way_out: Exit | None) -> Change | None:
        """What happens to elements on the way: None for bits as they are."""
        if way_out is not None:
            return exits.change(self, src.dtype, dst.dtype, way_out)
        if src.dtype is dst.dtype or isinstance(dst, Tensor):
            return None
        return lambda lanes, _: lanes  # to the bias table: floats become FP32

    def _copy(
        self, to: End, of: End, rows: Scalar, cols: Scalar, change: Change | None,
    ) -> None:
        """Copy rows x cols elements; runs where both ends have their neighbours along one axis."""
        if to.run_axis == of.run_axis and to.run_axis is not None:
            self._runs(to, of, rows, cols, change, to.run_axis)
        elif _squares(to, of) and (change is None or of.run_axis == COL):
            self._transposed(to, of, rows, cols, change)
        else:
            self._elements(to, of, rows, cols, change)

    def _elements(self, to: End, of: End, rows: Scalar, cols: Scalar, change: Any) -> None:
        with self.for_range(0, rows) as i, self.for_range(0, cols) as j:
            self._element(to, of, i, j, change)

    def _element(self, to: End, of: End, i: Any, j: Any, change: Any) -> None:
        lanes = self._load(of, self._offset(of, i, j), 1, change, j)
        self._store(to, self._offset(to, i, j), lanes, change)

    def _load(self, of: End, at: Scalar, count: int, change: Change | None, column: Any) -> Any:
        """`count` elements from offset `at`, raw or changed; `column` is that of the first."""
        address = self.code.at(of.base, (at * of.dtype.nbytes).value)
        if change is None:
            return self.code.load(vector(count, bits_type(of.dtype)), address)
        return change(self.load(address, of.dtype, count), self.scalar(column))

    def _store(self, to: End, at: Scalar, value: Any, change: Any) -> None:
        address = self.code.at(to.base, (at * to.dtype.nbytes).value)
        if change is None:
            self.code.store(value, address)
        else:
            self.store(value, address, to.dtype)

    # --- runs --------------------------------------------------------------------------------------------------------

    def _runs(self, to: End, of: End, rows: Scalar, cols: Scalar, change: Any, axis: int) -> None:
        """Runs along `axis`: whole lines when neither end has boxes along it, else pieces of one box."""
        along, across = (cols, rows) if axis == COL else (rows, cols)
        blocks = [e.axes[axis].block for e in (to, of) if e.axes[axis].block]
        if not blocks:
            lines, length = self._one_line(to, of, across, along, 1 - axis)
            with self.for_range(0, lines) as other:
                self._line(to, of, other, self.scalar(0), length, change, axis)
            return
        run = min(blocks)
        starts = [self.scalar(e.start[axis]) % run == 0 for e in (to, of) if not _multiple(e.start[axis], run)]
        if starts:
            self.require(*starts)
        whole = along // run
        with self.for_range(0, whole) as piece, self.for_range(0, across) as other:
            self._piece(to, of, piece * run, other, run, change, axis)
        rest = whole * run
        with self.if_(rest < along), self.for_range(0, across) as other:
            self._line(to, of, other, rest, along - rest, change, axis)

    def _one_line(self, to: End, of: End, across: Scalar, along: Scalar, other: int) -> tuple[Scalar, Scalar]:
        """(lines, elements of one): a single line where the lines of both ends follow each other without gaps."""
        if to.axes[other].block or of.axes[other].block:
            return across, along
        joined = (self.scalar(to.axes[other].inner) == along) & (self.scalar(of.axes[other].inner) == along)
        return joined.choose(1, across), joined.choose(across * along, along)

    def _piece(self, to: End, of: End, k: Scalar, other: Scalar, run: int, change: Any, axis: int) -> None:
        i, j = (other, k) if axis == COL else (k, other)
        self._store(to, self._offset(to, i, j), self._load(of, self._offset(of, i, j), run, change, j), change)

    def _line(
        self, to: End, of: End, other: Scalar, first: Scalar, along: Scalar, change: Any, axis: int
    ) -> None:
        """`along` neighbouring elements from `first`."""
        i, j = (other, first) if axis == COL else (first, other)
        source, target = self._offset(of, i, j), self._offset(to, i, j)
        if change is None:
            size = along * of.dtype.nbytes
            from_, to_ = (
                self.code.at(e.base, (at * e.dtype.nbytes).value) for e, at in ((of, source), (to, target))
            )
            self._copy_line(to, to_, from_, size)
            return
        count = self.lane_count(of.dtype, to.dtype)

        def step(at: Scalar, left: Value | None) -> None:
            lanes = self.load(self.code.at(of.base, ((source + at) * of.dtype.nbytes).value), of.dtype, count, left)
            place = self.code.at(to.base, ((target + at) * to.dtype.nbytes).value)
            self.store(change(lanes, j + at), place, to.dtype, left)

        self.vectors(count, along, step)

    def _copy_line(self, to: End, target: Value, source: Value, size: Scalar) -> None:
        if to.streams is None:
            self.code.copy_bytes(target, source, size.value)
            return
        with self.code.b.if_else(self.code.b.and_(to.streams, (size >= LONG_LINE).value)) as (yes, no):
            with yes:
                self.code.call("stream_copy", VOID, [target, source, size.value])
            with no:
                self.code.copy_bytes(target, source, size.value)

    # --- transposition -----------------------------------------------------------------------------------------------

    def _transposed(self, to: End, of: End, rows: Scalar, cols: Scalar, change: Change | None) -> None:
        """Neighbours along different axes: squares of 16 x 16 elements through registers, the rest one by one."""
        whole_rows, whole_cols = rows // SQUARE * SQUARE, cols // SQUARE * SQUARE
        aligned = self.scalar(1) == 1
        for end in (to, of):
            for axis in (ROW, COL):
                if end.axes[axis].block and not _multiple(end.start[axis], SQUARE):
                    aligned = aligned & (self.scalar(end.start[axis]) % SQUARE == 0)
        whole_rows = aligned.choose(whole_rows, 0)
        with self.for_range(0, whole_rows, SQUARE) as i, self.for_range(0, whole_cols, SQUARE) as j:
            self._square(to, of, i, j, change)
        with self.for_range(0, whole_rows) as i, self.for_range(whole_cols, cols) as j:
            self._element(to, of, i, j, change)
        with self.for_range(whole_rows, rows) as i, self.for_range(0, cols) as j:
            self._element(to, of, i, j, change)

    def _square(self, to: End, of: End, i: Scalar, j: Scalar, change: Change | None) -> None:
        """One square: 16 runs in, transposed in registers, 16 runs out. Runs may be shorter than the square."""
        code = self.code

        def position(end: End, line: int, at: int) -> Scalar:
            return self._offset(end, i + line, j + at) if end.run_axis == COL else self._offset(end, i + at, j + line)

        piece_in, piece_out = (min(e.axes[e.run_axis or 0].block or SQUARE, SQUARE) for e in (of, to))
        lines = []
        for line in range(SQUARE):
            parts = [
                self._raw(to, self._load(of, position(of, line, at), piece_in, change, j + at))
                for at in range(0, SQUARE, piece_in)
            ]
            lines.append(self._joined_parts(parts))
        for line, value in enumerate(transpose(code, lines)):
            for at in range(0, SQUARE, piece_out):
                part = _slice(code, value, at, piece_out)
                code.store(part, code.at(to.base, (position(to, line, at) * to.dtype.nbytes).value))

    def _raw(self, to: End, value: Any) -> Value:
        """What `_load` gave, as elements to be stored at an end."""
        if not isinstance(value, Lanes):
            return value
        bits = codecs.encode(self.code, value.value, to.dtype)
        return self.code.b.bitcast(bits, vector(value.count, bits_type(to.dtype)))

    def _joined_parts(self, parts: list[Value]) -> Value:
        while len(parts) > 1:
            parts = [_concatenate(self.code, a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]


def _static(box: Box) -> bool:
    return all(e is None or isinstance(e, int) for e in (box.row_extent, box.col_extent))


def _geometry(tile: Tile, box: Box) -> layouts.Geometry:
    t = tile.type
    return layouts.geometry(
        t.layout, t.fractal, t.dtype, t.rows, t.cols, space=t.space, row_extent=box.row_extent,
        col_extent=box.col_extent,
    )


def packed(end: End, axis: int) -> End:
    """An end of 4-bit elements as one of bytes; pairs lie along `axis`."""

    def halved(value: Any) -> Any:
        return value // 2

    def along(which: int, old: Axis) -> Axis:
        inner = old.inner if which == axis else halved(old.inner)
        return Axis(halved(old.block) if which == axis else old.block, halved(old.outer), inner)

    start = (halved(end.start[0]), end.start[1]) if axis == ROW else (end.start[0], halved(end.start[1]))
    axes = (along(ROW, end.axes[ROW]), along(COL, end.axes[COL]))
    return replace(end, axes=axes, start=start, dtype=DataType.DT_UINT8)


def _multiple(value: Any, of: int) -> bool:
    return isinstance(value, int) and value % of == 0


def bits_type(dtype: DataType) -> Any:
    """LLVM integer of one stored element."""
    return ir.IntType(dtype.nbytes * 8)


def _squares(to: End, of: End) -> bool:
    return to.dtype.nbytes in (1, 2, 4) and to.run_axis is not None and of.run_axis is not None


def _concatenate(code: Any, a: Value, b: Value) -> Value:
    count = a.type.count + b.type.count
    return code.b.shuffle_vector(a, b, _indices(range(count)))


def _slice(code: Any, value: Value, start: int, count: int) -> Value:
    if count == value.type.count:
        return value
    return code.b.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), _indices(range(start, start + count)))


def _indices(numbers: Any) -> Any:
    listed = list(numbers)
    return ir.Constant(vector(len(listed), ir.IntType(32)), [ir.IntType(32)(k) for k in listed])


def transpose(code: Any, lines: list[Value]) -> list[Value]:
    """n vectors of n elements transposed: log2(n) rounds of interleaving."""
    n = len(lines)
    low = _indices([k // 2 + (k % 2) * n for k in range(n)])
    high = _indices([n // 2 + k // 2 + (k % 2) * n for k in range(n)])
    for _ in range(n.bit_length() - 1):
        pairs = [(lines[k], lines[k + n // 2]) for k in range(n // 2)]
        lines = [code.b.shuffle_vector(a, b, mask) for a, b in pairs for mask in (low, high)]
    return lines

