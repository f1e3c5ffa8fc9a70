"""Ends of copies: boxes of tiles and windows of tensors as base address and two axis functions.

In every layout exactly one axis has neighbouring elements at neighbouring addresses, inside a block or along a whole
line: the run axis. 4-bit elements may be seen as bytes (`packed`) where pairs lie along it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import llvmlite.ir as ir

from pypto_pro import layouts
from pypto_pro.dtypes import DataType
from pypto_pro.layouts import Axis
from pypto_pro.native import frames
from pypto_pro.native.blocks import MANY_ROWS, Emitter
from pypto_pro.native.calls import Tile
from pypto_pro.native.emit import Value
from pypto_pro.native.frames import CORE
from pypto_pro.native.scalars import Scalar
from pypto_pro.ops.entry import Box
from pypto_pro.ops.operands import tile_geometry

ROW, COL = 0, 1


@dataclass(frozen=True)
class End:
    """One end of a copy: host address of element (0, 0), its two axes (elements), and where the box starts."""

    base: Value
    axes: tuple[Axis, Axis]
    start: tuple[Any, Any]
    dtype: DataType
    run_axis: int
    """The axis whose neighbours are neighbours in memory, inside a block of `axes[run_axis].block` (0: everywhere)."""
    streams: Value | None = None
    """i1: what is written here is too much to keep in the caches, so writes should pass them by."""

    def exchanged(self) -> End:
        """The end of the transposed box."""
        return End(self.base, self.axes[::-1], self.start[::-1], self.dtype, 1 - self.run_axis)


class Ends(Emitter):
    """The builder's part for ends."""

    @contextmanager
    def _unless_empty(self, rows: Scalar, cols: Scalar) -> Iterator[None]:
        """What is done for at least one element; the meaning refuses negative extents."""
        with self.if_((rows != 0) & (cols != 0)):
            self.require(rows > 0, cols > 0)  # a branch of its own: what it says of the extents shapes the loops
            yield

    def _box_end(self, tile: Tile, box: Box) -> End:
        geo = tile_geometry(tile.type, box.row_extent, box.col_extent) if _static(box) else _geometry(tile, box)
        axes = geo.axes
        run = next(k for k in (COL, ROW) if isinstance(axes[k].inner, int) and axes[k].inner == 1)
        return End(self.pointer(tile), axes, (box.r0, box.c0), tile.dtype, run)

    def _offset(self, end: End, i: Any, j: Any) -> Scalar:
        """Elements from the base to element (i, j) of the box."""
        row, col = end.axes
        return self.scalar(row.at(self.scalar(end.start[0]) + i)) + self.scalar(col.at(self.scalar(end.start[1]) + j))

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

    def _beside(self, dst: Tile, to: End, src: Tile, of: End, rows: Scalar, cols: Scalar, *, same: bool) -> End:
        """The source, or where its bytes and those of the destination overlap a copy of it: all is read first.

        same: both boxes are one where the addresses are equal, and a copy onto itself is none.
        """
        code, spans = self.code, []
        for tile, end in ((dst, to), (src, of)):
            bits = tile_geometry(tile.type).dtype_bits
            last = self._offset(end, (rows - 1).most(0), (cols - 1).most(0))
            spans.append((tile.addr + self._offset(end, 0, 0) * bits // 8, tile.addr + (last * bits + bits + 7) // 8))
        (low, high), (source, source_end) = spans
        apart = (high <= source) | (source_end <= low)
        apart = apart | (dst.addr == src.addr) if same else apart
        scratch = code.at(code.load(ir.PointerType(), self.core, CORE["arena"]), frames.ARENA_SCRATCH)
        with code.b.if_then(code.b.not_(apart.value)):
            code.copy_bytes(scratch, code.at(src.memory, source.value), (source_end - source).value)
        moved = code.at(scratch, (src.addr - source).value)
        return replace(of, base=code.b.select(apart.value, of.base, moved))


def _static(box: Box) -> bool:
    return all(e is None or isinstance(e, int) for e in (box.row_extent, box.col_extent))


def _geometry(tile: Tile, box: Box) -> layouts.Geometry:
    t = tile.type
    return layouts.geometry(
        t.layout, t.fractal, t.dtype, t.rows, t.cols, space=t.space, row_extent=box.row_extent,
        col_extent=box.col_extent,
    )


def packed(end: End) -> End:
    """An end of 4-bit elements as one of bytes; pairs lie along its run axis."""
    axis = end.run_axis

    def halved(value: Any) -> Any:
        return value // 2

    def along(which: int, old: Axis) -> Axis:
        inner = old.inner if which == axis else halved(old.inner)
        return Axis(halved(old.block) if which == axis else old.block, halved(old.outer), inner)

    start = (halved(end.start[0]), end.start[1]) if axis == ROW else (end.start[0], halved(end.start[1]))
    axes = (along(ROW, end.axes[ROW]), along(COL, end.axes[COL]))
    return replace(end, axes=axes, start=start, dtype=DataType.DT_UINT8)


def bits_type(dtype: DataType) -> Any:
    """LLVM integer of one stored element."""
    return ir.IntType(dtype.nbytes * 8)


def is_multiple(value: Any, of: int) -> bool:
    """Whether a number is known to be a multiple."""
    return isinstance(value, int) and value % of == 0
