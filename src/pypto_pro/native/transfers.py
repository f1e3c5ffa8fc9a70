"""Transfers between tiles and windows of tensors: loads, MX scale loads, stores, atomic additions, single elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import llvmlite.ir as ir

from pypto_pro import layouts
from pypto_pro.dtypes import DataType
from pypto_pro.enums import TensorLayout
from pypto_pro.layouts import Axis
from pypto_pro.native import codecs, exits, frames
from pypto_pro.native.blocks import MANY_ROWS, Number
from pypto_pro.native.boxes import Boxes
from pypto_pro.native.calls import Tensor, Tile
from pypto_pro.native.emit import I64, Value, splat, vector
from pypto_pro.native.ends import COL, ROW, End, bits_type, packed
from pypto_pro.native.exits import Change
from pypto_pro.native.lanes import Lanes
from pypto_pro.native.scalars import Scalar
from pypto_pro.ops.entry import Box
from pypto_pro.ops.fixpipe import Exit
from pypto_pro.ops.windows import run_along

D = DataType
Axes = tuple[int | None, int]
Extent = tuple[Scalar, Scalar]
STREAM_BYTES = 16 << 20
BOX = 16
PHASES = 2


class Transfers(Boxes):
    """Transfer patterns of the builder."""

    def _window_end(self, tensor: Tensor, offsets: Sequence[Number], axes: Axes, tile: Tile) -> End:
        """A window as an end. Its runs are contiguous only where the stride along `run_axis` is 1 at run time."""
        if tensor.type.layout is TensorLayout.NZ:
            geo = layouts.nz_tensor_geometry(tensor.dtype, *tensor.dims)
            return End(tensor.base, geo.axes, (offsets[0], offsets[1]), tensor.dtype, COL)
        base = self._window_start(tensor, offsets)
        row, col = tensor.steps(axes)
        run = run_along(tile, axes)  # type: ignore[arg-type]
        return End(base, (Axis(0, 0, row), Axis(0, 0, col)), (0, 0), tensor.dtype, run)

    def _window_start(self, tensor: Tensor, offsets: Sequence[Number]) -> Value:
        """Host address of the element at `offsets`, which 4-bit tensors count in bytes."""
        start = self.scalar(0)
        for offset, stride in zip(offsets, tensor.strides, strict=True):
            start = start + self.scalar(offset) * stride
        return self.code.at(tensor.base, (start * tensor.dtype.nbytes).value)

    def _too_big_to_keep(self, tensor: Tensor) -> Value:
        """i1: the tensor's buffer is larger than caches usually are."""
        low, high = (self.code.b.ptrtoint(p, I64) for p in (tensor.low, tensor.high))
        return self.code.b.icmp_unsigned(">=", self.code.b.sub(high, low), I64(STREAM_BYTES))

    def _window_fits(self, tensor: Tensor, end: End, rows: Scalar, cols: Scalar) -> Scalar:
        """Whether a window of at least one element lies inside the buffer and walks upwards."""
        bits = end.dtype.bits()
        base, low, high = (
            Scalar(self.code, self.code.b.ptrtoint(p, I64)) for p in (end.base, tensor.low, tensor.high)
        )
        first, last = self._offset(end, 0, 0), self._offset(end, rows - 1, cols - 1)
        if any(axis.block == PHASES for axis in end.axes):  # phases may lie further apart than what they are phases of
            last = last.most(self._offset(end, (rows - 2).most(0), cols - 1))
            last = last.most(self._offset(end, rows - 1, (cols - 2).most(0)))
        inside: Scalar = (base + first * bits // 8 >= low) & (base + (last * bits + bits + 7) // 8 <= high)
        for axis in end.axes:
            inside = inside & (self.scalar(axis.inner) >= 0) & (self.scalar(axis.outer) >= 0)
        return inside & (rows <= MANY_ROWS) & (cols <= MANY_ROWS)

    def _unit(self, end: End) -> tuple[End, Scalar]:
        """The end with its run axis as a literal 1, and whether that is so at run time."""
        stride = end.axes[end.run_axis].inner
        axes = (Axis(0, 0, 1), end.axes[1]) if end.run_axis == ROW else (end.axes[0], Axis(0, 0, 1))
        return replace(end, axes=axes), stride == 1

    def load_window(
        self, dst: Tile, src: Tensor, offsets: Sequence[Number], axes: Axes, rows: Number, cols: Number, *,
        fill_rows: Number, fill_cols: Number, fill: int = 0,
    ) -> Any:
        """dst[i, j] = window of `src` for i < rows, j < cols, and bits `fill` up to fill_rows x fill_cols."""
        area, filled = (self.scalar(rows), self.scalar(cols)), (self.scalar(fill_rows), self.scalar(fill_cols))
        to, of = self._box_end(dst, Box(0, 0, *filled)), self._window_end(src, offsets, axes, dst)
        with self._unless_empty(*area):
            self.require(self._box_fits(dst, to, *filled), self._window_fits(src, of, *area))
            self._pad(to, area, filled, fill)
            self._window_copy(to, of, *area, None, window=of)
        return None

    def load_scales(
        self, dst: Tile, src: Tensor, offsets: Sequence[Number], axes: Axes, *, fill_rows: Number, fill_cols: Number
    ) -> Any:
        """MX scales from a tensor whose last axis holds two groups, zeros up to fill_rows x fill_cols.

        Where the two groups are neighbours at both ends, pairs move as 16-bit elements: a ZZ tile is then [m, group /
        2] with 16 rows to a box, an NN tile its transpose. An odd number of groups, or groups that lie apart in the
        tensor, move one by one.
        """
        area, filled = (dst.vr, dst.vc), (self.scalar(fill_rows), self.scalar(fill_cols))
        pairs = COL if dst.type.layout is TensorLayout.ZZ else ROW
        base, steps, phase = self._window_start(src, (*offsets[:-1], 0)), src.steps(axes), src.strides[-1]
        single, others = Axis(PHASES, steps[pairs], phase), Axis(0, 0, steps[1 - pairs])
        of = End(base, (others, single) if pairs == COL else (single, others), (0, 0), D.DT_UINT8, pairs)
        to = self._box_end(dst, Box(0, 0, *filled))
        neighbours = (phase == 1) & (steps[0] % 2 == 0) & (steps[1] % 2 == 0) & (area[pairs] % 2 == 0)
        with self._unless_empty(*area):
            self.require(self._box_fits(dst, to, *filled), self._window_fits(src, of, *area))
            with self.code.b.if_else(neighbours.value) as (yes, no):
                with yes:
                    self._scale_pairs(dst, base, steps, axes, area, filled)
                with no:
                    self._pad(to, area, filled, 0)
                    self._elements(to, of, *area, None)
        return None

    def _scale_pairs(self, dst: Tile, base: Value, steps: Extent, axes: Axes, area: Extent, filled: Extent) -> None:
        """Pairs of groups as 16-bit elements."""
        pairs = COL if dst.type.layout is TensorLayout.ZZ else ROW
        lines = Axis(BOX, self.scalar(dst.type.shape[pairs]) // PHASES * BOX, 1)
        groups = Axis(0, 0, BOX)
        boxes = (lines, groups) if pairs == COL else (groups, lines)
        to = End(self.pointer(dst), boxes, (0, 0), D.DT_UINT16, 1 - pairs)
        # of the two axes it walks, the larger one has its pairs side by side
        run = ROW if axes[0] is not None and axes[0] > axes[1] else COL
        window = (Axis(0, 0, steps[0] // PHASES), Axis(0, 0, steps[1] // PHASES))
        of = End(base, window, (0, 0), D.DT_UINT16, run)
        half = _halved(area, pairs)
        self._pad(to, half, _halved(filled, pairs), 0)
        self._window_copy(to, of, *half, None, window=of)

    def store_window(
        self, dst: Tensor, offsets: Sequence[Number], axes: Axes, src: Tile, source: Box, *, add: bool = False,
        way_out: Exit | None = None,
    ) -> Any:
        """window of `dst` = box of `src`; `add`: atomic addition. `way_out`: what happens to accumulator values."""
        area = (self.scalar(source.rows), self.scalar(source.cols))
        to = replace(self._window_end(dst, offsets, axes, src), streams=self._too_big_to_keep(dst))
        of = self._box_end(src, source)
        with self._unless_empty(*area):
            self.require(self._box_fits(src, of, *area), self._window_fits(dst, to, *area))
            if way_out is not None:
                self.require(*exits.guards(self, way_out, area[1]))
            change = self._conversion(src, dst, way_out)
            if add:
                with self.for_range(0, area[0]) as i, self.for_range(0, area[1]) as j:
                    self._atomic(to, of, i, j, change)
            else:
                self._window_copy(to, of, *area, change, window=to)
        return None

    def _window_copy(
        self, to: End, of: End, rows: Scalar, cols: Scalar, change: Change | None, window: End
    ) -> None:
        """Runs of the window where they are contiguous; a window of single elements may have them anywhere.

        Of elements of a tile that meet at one place of a tensor the last one stays, row after row: not by runs of rows.
        """
        if not isinstance(window.axes[window.run_axis].inner, Scalar):  # the boxes of an NZ tensor
            self._copy(to, of, rows, cols, change)
            return
        unit, contiguous = self._unit(window)
        if window is to and window.run_axis == ROW:
            contiguous = contiguous & ((cols <= 1) | (self.scalar(window.axes[COL].inner) >= rows))
        if window.dtype.is_sub_byte:
            self._copy_nibbles(to, of, rows, cols, contiguous)
            return
        with self.code.b.if_else(contiguous.value) as (yes, no):
            with yes:
                self._copy(unit if window is to else to, unit if window is of else of, rows, cols, change)
            with no:
                self._elements(to, of, rows, cols, change)

    def _pad(self, to: End, area: Extent, filled: Extent, fill: int) -> None:
        """Bits `fill` in the part of `filled` (rows, columns) outside `area`, which is written afterwards.

        Pieces of a block at a time, which may reach into `area`.
        """
        axis = to.run_axis
        if to.dtype.is_sub_byte:
            to, area, filled, fill = packed(to), _halved(area, axis), _halved(filled, axis), fill * 17
        piece = to.axes[axis].block or layouts.BLOCK_BYTES // to.dtype.nbytes
        (lines, along), (all_lines, all_along) = (e if axis == COL else e[::-1] for e in (area, filled))
        self._fill_lines(to, (self.scalar(0), lines), (along, all_along), piece, fill)
        self._fill_lines(to, (lines, all_lines), (self.scalar(0), all_along), piece, fill)

    def _fill_lines(self, to: End, lines: Extent, along: Extent, piece: int, fill: int) -> None:
        """Bits `fill` in [lines) x [along), and perhaps in front of it as far as a piece begins."""
        type_, start = bits_type(to.dtype), along[0] // piece * piece
        whole = start + (along[1] - start) // piece * piece

        def place(line: Scalar, at: Scalar) -> Value:
            i, j = (line, at) if to.run_axis == COL else (at, line)
            return self.code.at(to.base, (self._offset(to, i, j) * to.dtype.nbytes).value)

        with self.for_range(start, whole, piece) as at, self.for_range(*lines) as line:
            self.code.store(splat(vector(piece, type_), fill), place(line, at))
        with self.for_range(whole.most(along[0]), along[1]) as at, self.for_range(*lines) as line:
            self.code.store(splat(vector(1, type_), fill), place(line, at))

    # --- single elements ---------------------------------------------------------------------------------------------

    def element(self, holder: Tile | Tensor, offset: Number) -> Value:
        """Host address of an element of the raw storage; requires that it lies in its memory."""
        at, width = self.scalar(offset), holder.dtype.nbytes
        if isinstance(holder, Tile):
            start = holder.addr + at * width
            self.require(start >= 0, start + width <= frames.capacity(holder.type.space))
            return self.code.at(holder.memory, start.value)
        address = self.code.at(holder.base, (at * width).value)
        place, low, high = (
            Scalar(self.code, self.code.b.ptrtoint(p, I64)) for p in (address, holder.low, holder.high)
        )
        self.require(place >= low, place + width <= high)
        return address

    def _atomic(self, to: End, of: End, i: Scalar, j: Scalar, change: Change | None) -> None:
        """to[i, j] += of[i, j] as one atomic step: floats round to nearest even, INT8 saturates, others wrap."""
        code, b, dtype = self.code, self.code.b, to.dtype
        address = code.at(to.base, (self._offset(to, i, j) * dtype.nbytes).value)
        stored = of.dtype if change is not None else dtype
        source = self.load(code.at(of.base, (self._offset(of, i, j) * of.dtype.nbytes).value), stored, 1)
        added = change(source, j).rounded(dtype) if change is not None else source
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
    if dtype is not D.DT_INT8:
        return exits.one_nan(old + new)
    wide = old.to(D.DT_INT16) + new.to(D.DT_INT16)
    low = (wide < -128).select(-128, wide)
    return (low > 127).select(127, low).to(D.DT_INT8)


def _halved(extent: Extent, axis: int) -> Extent:
    rows, cols = extent
    return (rows // 2, cols) if axis == ROW else (rows, cols // 2)
