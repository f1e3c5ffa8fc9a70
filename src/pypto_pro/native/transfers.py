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
from pypto_pro.native.calls import Tensor, Tile
from pypto_pro.native.emit import I64, Value, splat, vector
from pypto_pro.native.exits import Change
from pypto_pro.native.lanes import Lanes
from pypto_pro.native.moves import COL, ROW, End, Moves, bits_type, packed
from pypto_pro.native.scalars import Scalar
from pypto_pro.ops.entry import Box
from pypto_pro.ops.fixpipe import Exit

D = DataType
Axes = tuple[int | None, int]
Extent = tuple[Scalar, Scalar]
STREAM_BYTES = 16 << 20
BOX = 16


class Transfers(Moves):
    """Transfer patterns of the builder."""

    def _window_end(self, tensor: Tensor, offsets: Sequence[Number], axes: Axes, tile: Tile) -> End:
        """A window as an end. Its runs are contiguous only where the stride along `run_axis` is 1 at run time."""
        if tensor.type.layout is TensorLayout.NZ:
            geo = layouts.nz_tensor_geometry(tensor.dtype, *tensor.dims)
            return End(tensor.base, geo.axes, (offsets[0], offsets[1]), tensor.dtype, COL)
        start = self.scalar(0)
        for offset, stride in zip(offsets, tensor.strides, strict=True):
            start = start + self.scalar(offset) * stride
        row, col = tensor.steps(axes)
        base = self.code.at(tensor.base, (start * tensor.dtype.nbytes).value)
        last = len(offsets) - 1
        run = COL if axes[1] == last else ROW if axes[0] == last else None
        run = ROW if tile.type.cols == 1 else run
        return End(base, (Axis(0, 0, row), Axis(0, 0, col)), (0, 0), tensor.dtype, run)

    def _too_big_to_keep(self, tensor: Tensor) -> Value:
        """i1: the tensor's buffer is larger than caches usually are."""
        low, high = (self.code.b.ptrtoint(p, I64) for p in (tensor.low, tensor.high))
        return self.code.b.icmp_unsigned(">=", self.code.b.sub(high, low), I64(STREAM_BYTES))

    def _window_fits(self, tensor: Tensor, end: End, rows: Scalar, cols: Scalar) -> Scalar:
        """Whether a window of at least one element lies inside the buffer and walks upwards."""
        width = end.dtype.nbytes
        base, low, high = (
            Scalar(self.code, self.code.b.ptrtoint(p, I64)) for p in (end.base, tensor.low, tensor.high)
        )
        first, last = self._offset(end, 0, 0), self._offset(end, rows - 1, cols - 1)
        inside: Scalar = (base + first * width >= low) & (base + last * width + width <= high)
        for axis in end.axes:
            inside = inside & (self.scalar(axis.inner) >= 0)
        return inside & (rows <= MANY_ROWS) & (cols <= MANY_ROWS)

    def _unit(self, end: End) -> tuple[End, Scalar]:
        """The end with its run axis as a literal 1, and whether that is so at run time."""
        assert end.run_axis is not None
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
        with self.if_((area[0] > 0) & (area[1] > 0)):
            self.require(self._box_fits(dst, to, *filled))
            if dst.dtype.is_sub_byte:
                to, of, area, filled = self._in_bytes(to, of, area, filled)
                fill *= 17
            self.require(self._window_fits(src, of, *area))
            self._pad(to, *area, *filled, fill)
            self._window_copy(to, of, *area, None, window=of)
        return None

    def _in_bytes(self, tile: End, window: End, *extents: Extent) -> tuple[Any, ...]:
        """Ends and extents of 4-bit elements as those of bytes: the window has to pack pairs as the tile does."""
        axis = tile.run_axis
        assert axis is not None
        inner, other = (self.scalar(window.axes[k].inner) for k in (axis, 1 - axis))
        self.require(inner == 1, other % 2 == 0, *(extent[axis] % 2 == 0 for extent in extents))
        window = packed(replace(window, run_axis=axis), axis)
        return packed(tile, axis), window, *(_halved(extent, axis) for extent in extents)

    def load_scales(
        self, dst: Tile, src: Tensor, offsets: Sequence[Number], axes: Axes, *, fill_rows: Number, fill_cols: Number
    ) -> Any:
        """MX scales from a tensor whose last axis holds two groups, zeros up to fill_rows x fill_cols.

        The two groups are neighbours at both ends, so pairs move as 16-bit elements: a ZZ tile is then [m, group / 2]
        with 16 rows to a box, an NN tile its transpose.
        """
        area = (dst.vr, dst.vc)
        filled = (self.scalar(fill_rows), self.scalar(fill_cols))
        pairs = COL if dst.type.layout is TensorLayout.ZZ else ROW
        lines = Axis(BOX, self.scalar(dst.type.shape[pairs]) // 2 * BOX, 1)
        groups = Axis(0, 0, BOX)
        axes_of_dst = (lines, groups) if pairs == COL else (groups, lines)
        to = End(self.pointer(dst), axes_of_dst, (0, 0), D.DT_UINT16, 1 - pairs)
        start = self.scalar(0)
        for offset, stride in zip(offsets[:-1], src.strides, strict=False):
            start = start + self.scalar(offset) * stride
        steps = src.steps(axes)
        window = tuple(Axis(0, 0, step // 2) for step in steps)
        run = COL if axes[1] == len(offsets) - 2 else ROW if axes[0] == len(offsets) - 2 else None
        of = End(self.code.at(src.base, start.value), window, (0, 0), D.DT_UINT16, run)  # type: ignore[arg-type]
        with self.if_((area[0] > 0) & (area[1] > 0)):
            self.require(src.strides[-1] == 1, steps[0] % 2 == 0, steps[1] % 2 == 0, area[pairs] % 2 == 0)
            halves = [_halved(extent, pairs) for extent in (area, filled)]
            self.require(self._box_fits(dst, to, *halves[1]), self._window_fits(src, of, *halves[0]))
            self._pad(to, *halves[0], *halves[1], 0)
            self._window_copy(to, of, *halves[0], None, window=of)
        return None

    def store_window(
        self, dst: Tensor, offsets: Sequence[Number], axes: Axes, src: Tile, source: Box, *, add: bool = False,
        way_out: Exit | None = None,
    ) -> Any:
        """window of `dst` = box of `src`; `add`: atomic addition. `way_out`: what happens to accumulator values."""
        area = (self.scalar(source.rows), self.scalar(source.cols))
        to = replace(self._window_end(dst, offsets, axes, src), streams=self._too_big_to_keep(dst))
        of = self._box_end(src, source)
        with self.if_((area[0] > 0) & (area[1] > 0)):
            self.require(self._box_fits(src, of, *area))
            if src.dtype.is_sub_byte:
                of, to, area = self._in_bytes(of, to, area)
            self.require(self._window_fits(dst, to, *area))
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
        """Runs; a window whose inner axis is not contiguous takes the meaning, unless it is one column of elements."""
        if window.run_axis is None or (to if window is of else of).is_column:
            self._elements(to, of, rows, cols, change)
            return
        unit = window
        if isinstance(window.axes[window.run_axis].inner, Scalar):  # else boxes, or pairs of 4-bit elements
            unit, contiguous = self._unit(window)
            self.require(contiguous)
        self._copy(unit if window is to else to, unit if window is of else of, rows, cols, change)

    def _pad(self, to: End, rows: Scalar, cols: Scalar, fill_rows: Scalar, fill_cols: Scalar, fill: int) -> None:
        """Bits `fill` in the part of fill_rows x fill_cols outside rows x cols."""
        value = splat(vector(1, bits_type(to.dtype)), fill)
        for first, last, low, high in (
            (self.scalar(0), rows, cols, fill_cols), (rows, fill_rows, self.scalar(0), fill_cols)
        ):
            with self.for_range(first, last) as i, self.for_range(low, high) as j:
                self._store(to, self._offset(to, i, j), value, None)

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
        return old + new
    wide = old.to(D.DT_INT16) + new.to(D.DT_INT16)
    low = (wide < -128).select(-128, wide)
    return (low > 127).select(127, low).to(D.DT_INT8)


def _halved(extent: Extent, axis: int) -> Extent:
    rows, cols = extent
    return (rows // 2, cols) if axis == ROW else (rows, cols // 2)
