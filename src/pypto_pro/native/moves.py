"""Copies between boxes of tiles and windows of tensors, whatever their layouts, by strided runs.

Both ends are a sum of two axis functions (`layouts.Axis`), and in every layout exactly one axis has neighbouring
elements at neighbouring addresses, inside a box or along a whole line. Where that is the same axis on both ends, runs
are copied as vectors; otherwise elements go one by one, or through transposed squares of registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import llvmlite.ir as ir

from pypto_pro import layouts
from pypto_pro.dtypes import DataType
from pypto_pro.enums import MemorySpace, RoundMode, TensorLayout
from pypto_pro.layouts import Axis
from pypto_pro.native import codecs, frames
from pypto_pro.native.blocks import MANY_ROWS, Emitter, Number
from pypto_pro.native.calls import Tensor, Tile
from pypto_pro.native.convert import convert
from pypto_pro.native.emit import I64, VOID, Value, splat, vector
from pypto_pro.native.lanes import Lanes
from pypto_pro.native.scalars import Scalar
from pypto_pro.ops.entry import Box
from pypto_pro.ops.operands import tile_geometry

ROW, COL = 0, 1
SQUARE = 16
STREAM_BYTES = 16 << 20
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
        width = _stored_bytes(tile)
        first = self._offset(end, 0, 0)
        last = self._offset(end, (rows - 1).most(0), (cols - 1).most(0))
        return (
            (tile.addr >= 0) & (rows >= 0) & (cols >= 0) & (rows <= MANY_ROWS) & (cols <= MANY_ROWS) & (first >= 0)
            & (self.scalar(end.start[0]) >= 0) & (self.scalar(end.start[1]) >= 0)
            & (tile.addr + last * width + width <= frames.capacity(tile.type.space))
        )  # fmt: skip

    def _offset(self, end: End, i: Any, j: Any) -> Scalar:
        """Elements from the base to element (i, j) of the box."""
        row, col = end.axes
        return self.scalar(row.at(self.scalar(end.start[0]) + i)) + self.scalar(col.at(self.scalar(end.start[1]) + j))

    # --- copies ------------------------------------------------------------------------------------------------------

    def copy_box(self, dst: Tile, target: Box, src: Tile, source: Box, *, transposed: bool = False) -> Any:
        """Copy elements between boxes of tiles of any layout; differing float dtypes convert, nearest even.

        transposed: target[j, i] = source[i, j].
        """
        if dst.dtype.is_sub_byte or src.dtype.is_sub_byte:
            return NotImplemented
        rows, cols = self.scalar(source.rows), self.scalar(source.cols)
        to, of = self._box_end(dst, target), self._box_end(src, source)
        to = to.exchanged() if transposed else to
        self.require(self._box_fits(dst, to, rows, cols), self._box_fits(src, of, rows, cols))
        change = self._conversion(src, dst)
        if change is NotImplemented:
            return NotImplemented
        self._copy(to, of, rows, cols, change)
        return None

    def _conversion(self, src: Tile, dst: Tile | Tensor) -> Any:
        """What happens to elements on the way: None for bits as they are."""
        if src.dtype is dst.dtype:
            return None
        on_chip_bits = isinstance(src, Tile) and src.type.space is not MemorySpace.Acc
        if on_chip_bits and isinstance(dst, Tensor):
            return None if src.dtype.bits() == dst.dtype.bits() else NotImplemented
        if not {src.dtype, dst.dtype} <= {DataType.DT_FP32, DataType.DT_FP16, DataType.DT_BF16}:
            return NotImplemented
        return lambda lanes: convert(lanes, src.dtype, dst.dtype, RoundMode.CAST_RINT, False, False)

    def _copy(
        self, to: End, of: End, rows: Scalar, cols: Scalar, change: Callable[[Lanes], Lanes | None] | None,
    ) -> None:
        """Copy rows x cols elements; runs where both ends have their neighbours along one axis."""
        if to.run_axis == of.run_axis and to.run_axis is not None:
            self._runs(to, of, rows, cols, change, to.run_axis)
        elif _squares(to, of) and change is None:
            self._transposed(to, of, rows, cols)
        else:
            self._elements(to, of, rows, cols, change)

    def _elements(self, to: End, of: End, rows: Scalar, cols: Scalar, change: Any) -> None:
        with self.for_range(0, rows) as i, self.for_range(0, cols) as j:
            self._element(to, of, i, j, change)

    def _element(self, to: End, of: End, i: Any, j: Any, change: Any) -> None:
        lanes = self._load(of, self._offset(of, i, j), 1, change)
        self._store(to, self._offset(to, i, j), lanes, change)

    def _load(self, of: End, at: Scalar, count: int, change: Any) -> Any:
        address = self.code.at(of.base, (at * of.dtype.nbytes).value)
        if change is None:
            return self.code.load(vector(count, _bits_type(of.dtype)), address)
        lanes = change(self.load(address, of.dtype, count))
        assert lanes is not None
        return lanes

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
        self._store(to, self._offset(to, i, j), self._load(of, self._offset(of, i, j), run, change), change)

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
            self.store(change(lanes), self.code.at(to.base, ((target + at) * to.dtype.nbytes).value), to.dtype, left)

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

    def _transposed(self, to: End, of: End, rows: Scalar, cols: Scalar) -> None:
        """Neighbours along different axes: squares of 16 x 16 elements through registers, the rest one by one."""
        whole_rows, whole_cols = rows // SQUARE * SQUARE, cols // SQUARE * SQUARE
        aligned = self.scalar(1) == 1
        for end in (to, of):
            for axis in (ROW, COL):
                if end.axes[axis].block and not _multiple(end.start[axis], SQUARE):
                    aligned = aligned & (self.scalar(end.start[axis]) % SQUARE == 0)
        whole_rows = aligned.choose(whole_rows, 0)
        with self.for_range(0, whole_rows, SQUARE) as i, self.for_range(0, whole_cols, SQUARE) as j:
            self._square(to, of, i, j)
        with self.for_range(0, whole_rows) as i, self.for_range(whole_cols, cols) as j:
            self._element(to, of, i, j, None)
        with self.for_range(whole_rows, rows) as i, self.for_range(0, cols) as j:
            self._element(to, of, i, j, None)

    def _square(self, to: End, of: End, i: Scalar, j: Scalar) -> None:
        """One square: 16 runs in, transposed in registers, 16 runs out. Runs may be shorter than the square."""
        code = self.code
        type_ = _bits_type(of.dtype)

        def position(end: End, line: int, at: int) -> Scalar:
            return self._offset(end, i + line, j + at) if end.run_axis == COL else self._offset(end, i + at, j + line)

        piece_in, piece_out = (min(e.axes[e.run_axis or 0].block or SQUARE, SQUARE) for e in (of, to))
        lines = []
        for line in range(SQUARE):
            parts = [
                code.load(vector(piece_in, type_), code.at(of.base, (position(of, line, at) * of.dtype.nbytes).value))
                for at in range(0, SQUARE, piece_in)
            ]
            lines.append(self._joined_parts(parts))
        for line, value in enumerate(transpose(code, lines)):
            for at in range(0, SQUARE, piece_out):
                part = _slice(code, value, at, piece_out)
                code.store(part, code.at(to.base, (position(to, line, at) * to.dtype.nbytes).value))

    def _joined_parts(self, parts: list[Value]) -> Value:
        while len(parts) > 1:
            parts = [_concatenate(self.code, a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]

    # --- tensors -----------------------------------------------------------------------------------------------------

    def _window_end(self, tensor: Tensor, offsets: Sequence[Number], axes: tuple[int | None, int]) -> End:
        """A window as an end whose strides count bytes: elements of one byte times the element width."""
        width = tensor.dtype.nbytes
        start = self.scalar(0)
        for offset, stride in zip(offsets, tensor.strides, strict=True):
            start = start + self.scalar(offset) * stride
        row_stride, col_stride, is_set = tensor.transfer
        row = self.scalar(0) if axes[0] is None else tensor.strides[axes[0]]
        col = tensor.strides[axes[1]]
        row, col = is_set.choose(row_stride, row), is_set.choose(col_stride, col)
        base = self.code.at(tensor.base, (start * width).value)
        last = len(offsets) - 1
        run = COL if axes[1] == last else ROW if axes[0] == last else None
        return End(base, (Axis(0, 0, row), Axis(0, 0, col)), (0, 0), tensor.dtype, run)

    def _too_big_to_keep(self, tensor: Tensor) -> Value:
        """i1: the tensor's buffer is larger than caches usually are."""
        low, high = (self.code.b.ptrtoint(p, I64) for p in (tensor.low, tensor.high))
        return self.code.b.icmp_unsigned(">=", self.code.b.sub(high, low), I64(STREAM_BYTES))

    def _window_fits(self, tensor: Tensor, end: End, rows: Scalar, cols: Scalar) -> Scalar:
        row, col = (axis.inner for axis in end.axes)
        width = tensor.dtype.nbytes
        start = Scalar(self.code, self.code.b.ptrtoint(end.base, I64))
        low, high = (Scalar(self.code, self.code.b.ptrtoint(p, I64)) for p in (tensor.low, tensor.high))
        last = start + ((rows - 1) * row + (cols - 1) * col) * width
        inside: Scalar = (row >= 0) & (col >= 0) & (start >= low) & (last + width <= high)
        return inside & (rows <= MANY_ROWS) & (cols <= MANY_ROWS)

    def _unit(self, end: End) -> tuple[End, Scalar]:
        """The end with its run axis as a literal 1, and whether that is so at run time."""
        assert end.run_axis is not None
        stride = end.axes[end.run_axis].inner
        axes = (Axis(0, 0, 1), end.axes[1]) if end.run_axis == ROW else (end.axes[0], Axis(0, 0, 1))
        return replace(end, axes=axes), stride == 1

    def load_window(
        self, dst: Tile, src: Tensor, offsets: Sequence[Number], axes: tuple[int | None, int], rows: Number,
        cols: Number, *, fill_rows: Number, fill_cols: Number, fill: int = 0,
    ) -> Any:
        """dst[i, j] = window of `src` for i < rows, j < cols, and bits `fill` up to fill_rows x fill_cols."""
        if dst.dtype.is_sub_byte or src.type.layout is TensorLayout.NZ:
            return NotImplemented
        height, width = self.scalar(rows), self.scalar(cols)
        to = self._box_end(dst, Box(0, 0, fill_rows, fill_cols))
        of = self._window_end(src, offsets, axes)
        with self.if_((height > 0) & (width > 0)):
            fits = self._box_fits(dst, to, self.scalar(fill_rows), self.scalar(fill_cols))
            self.require(fits, self._window_fits(src, of, height, width))
            if fill_rows is not rows or fill_cols is not cols:
                self._pad(to, height, width, self.scalar(fill_rows), self.scalar(fill_cols), fill)
            self._window_copy(to, of, height, width, None, window=of)
        return None

    def store_window(
        self, dst: Tensor, offsets: Sequence[Number], axes: tuple[int | None, int], src: Tile, source: Box, *,
        add: bool = False,
    ) -> Any:
        """window of `dst` = box of `src` (converted as an exit from Acc does); `add`: atomic addition."""
        if dst.dtype.is_sub_byte or dst.type.layout is TensorLayout.NZ or src.dtype.is_sub_byte:
            return NotImplemented
        change = self._conversion(src, dst)
        if change is NotImplemented:
            return NotImplemented
        rows, cols = self.scalar(source.rows), self.scalar(source.cols)
        to = replace(self._window_end(dst, offsets, axes), streams=self._too_big_to_keep(dst))
        of = self._box_end(src, source)
        with self.if_((rows > 0) & (cols > 0)):
            self.require(self._box_fits(src, of, rows, cols), self._window_fits(dst, to, rows, cols))
            if add:
                with self.for_range(0, rows) as i, self.for_range(0, cols) as j:
                    self._atomic(to, of, i, j, change)
            else:
                self._window_copy(to, of, rows, cols, change, window=to)
        return None

    def _window_copy(self, to: End, of: End, rows: Scalar, cols: Scalar, change: Any, window: End) -> None:
        """Runs; a window whose inner axis is not contiguous takes the meaning, unless it is one column of elements."""
        if window.run_axis is None or (to if window is of else of).is_column:
            self._elements(to, of, rows, cols, change)
            return
        unit, contiguous = self._unit(window)
        self.require(contiguous)
        self._copy(unit if window is to else to, unit if window is of else of, rows, cols, change)

    def _pad(self, to: End, rows: Scalar, cols: Scalar, fill_rows: Scalar, fill_cols: Scalar, fill: int) -> None:
        """Bits `fill` in the part of fill_rows x fill_cols outside rows x cols."""
        value = splat(vector(1, _bits_type(to.dtype)), fill)
        for first, last, low, high in (
            (self.scalar(0), rows, cols, fill_cols), (rows, fill_rows, self.scalar(0), fill_cols)
        ):
            with self.for_range(first, last) as i, self.for_range(low, high) as j:
                self._store(to, self._offset(to, i, j), value, None)

    # --- single elements ---------------------------------------------------------------------------------------------

    def element(self, holder: Tile | Tensor, offset: Number) -> Value:
        """Host address of the element at a row-major offset; requires that it lies in its memory."""
        at = self.scalar(offset)
        if isinstance(holder, Tile):
            width = _stored_bytes(holder)
            place = layouts.offset(tile_geometry(holder.type), at // holder.type.cols, at % holder.type.cols)
            start = holder.addr + place * width
            self.require(start >= 0, start + width <= frames.capacity(holder.type.space))
            return self.code.at(holder.memory, start.value)
        width = holder.dtype.nbytes
        address = self.code.at(holder.base, (at * width).value)
        place, low, high = (
            Scalar(self.code, self.code.b.ptrtoint(p, I64)) for p in (address, holder.low, holder.high)
        )
        self.require(place >= low, place + width <= high)
        return address

    def _atomic(self, to: End, of: End, i: Scalar, j: Scalar, change: Any) -> None:
        """to[i, j] += of[i, j] as one atomic step: floats round to nearest even, INT8 saturates, others wrap."""
        code, b, dtype = self.code, self.code.b, to.dtype
        address = code.at(to.base, (self._offset(to, i, j) * dtype.nbytes).value)
        stored = of.dtype if change is not None else dtype
        source = self.load(code.at(of.base, (self._offset(of, i, j) * of.dtype.nbytes).value), stored, 1)
        added = change(source) if change is not None else source
        bits = codecs.memory_type(dtype)
        word = ir.IntType(dtype.nbytes * 8)
        again, done = code.block("add_again"), code.block("added")
        b.branch(again)
        b.position_at_end(again)
        old = code.load_word(word, address)
        before = Lanes(code, codecs.decode(code, b.bitcast(old, vector(1, bits)), dtype), added.dtype)
        new = b.bitcast(codecs.encode(code, _sum(before, added, dtype).value, dtype), word)
        swapped = b.cmpxchg(address, old, new, "seq_cst", "seq_cst")
        b.cbranch(b.extract_value(swapped, 1), done, again)
        b.position_at_end(done)


def _sum(old: Lanes, new: Lanes, dtype: DataType) -> Lanes:
    if dtype is not DataType.DT_INT8:
        return old + new
    wide = old.to(DataType.DT_INT16) + new.to(DataType.DT_INT16)
    low = (wide < -128).select(-128, wide)
    return (low > 127).select(127, low).to(DataType.DT_INT8)


def _static(box: Box) -> bool:
    return all(e is None or isinstance(e, int) for e in (box.row_extent, box.col_extent))


def _geometry(tile: Tile, box: Box) -> layouts.Geometry:
    t = tile.type
    return layouts.geometry(
        t.layout, t.fractal, t.dtype, t.rows, t.cols, space=t.space, row_extent=box.row_extent,
        col_extent=box.col_extent,
    )


def _multiple(value: Any, of: int) -> bool:
    return isinstance(value, int) and value % of == 0


def _bits_type(dtype: DataType) -> Any:
    return ir.IntType(dtype.nbytes * 8)


def _stored_bytes(tile: Tile) -> int:
    """Bytes of one stored element: Acc holds 4-byte elements whatever its dtype."""
    return tile_geometry(tile.type).dtype_bits // 8


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

