"""`OpBuilder`: what the `lower` facet of an op entry is handed. The protocol it fulfils is `ops.builder.Builder`.

A facet describes whole-tile work (`elementwise`, `reduce_rows`, ...) by a function over `Lanes`; the builder makes the
loops: rows at the tile's pitch, whole vectors, a masked tail, one long row where valid columns fill the pitch. Every
pattern first requires that what it touches lies inside its space; what does not runs the op's meaning instead, which
gives zeros and drops writes there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pypto_pro.dtypes import DataType
from pypto_pro.enums import TensorLayout
from pypto_pro.native.blocks import Number, Source
from pypto_pro.native.calls import Tile
from pypto_pro.native.emit import Value
from pypto_pro.native.lanes import Lanes
from pypto_pro.native.matrix import MatrixEngine
from pypto_pro.native.pieces import Pieces
from pypto_pro.native.scalars import Scalar
from pypto_pro.native.transfers import Transfers
from pypto_pro.ops.operands import tile_geometry

Combine = Callable[[Lanes, Lanes], Lanes]
BLOCK_BYTES = 256
"""What the vector unit reduces at a time."""


class OpBuilder(Transfers, Pieces, MatrixEngine):
    """Whole-tile patterns."""

    def elementwise(
        self, out: Tile, sources: Sequence[Source], compute: Callable[..., Lanes | None], *,
        rows: Number | None = None, cols: Number | None = None, scalar_dtype: DataType | None = None,
    ) -> Any:
        """out[i, j] = compute(sources[i, j]...) over the valid shape of `out` (or `rows` x `cols`).

        Tiles become lanes of their dtype; numbers are converted to `scalar_dtype` (default: that of `out`). The result
        is stored as the dtype of `out`. Returns NotImplemented for operands it has no code for, or when `compute`
        returns None.
        """
        if not self.handles(out, *sources):
            return NotImplemented
        rows, cols = out.vr if rows is None else rows, out.vc if cols is None else cols
        tiles = [s for s in sources if isinstance(s, Tile)]
        self.require(*(self.fits(t, rows, cols) for t in (out, *tiles)))
        if tiles:
            self.require(*(self.apart(out, t, rows, cols) for t in tiles))
        count = self.stream_count(out.dtype, *(t.dtype for t in tiles))
        outer, inner = self._joined([out, *tiles], rows, cols)
        numbers = {
            k: self.lanes_of(s, scalar_dtype or out.dtype, count)
            for k, s in enumerate(sources) if not isinstance(s, Tile)
        }
        supported = True
        with self.for_range(0, outer) as line:

            def step(at: Scalar, left: Value | None) -> None:
                nonlocal supported
                values = [
                    self.load(self._spot(s, line, at), s.dtype, count, left) if isinstance(s, Tile) else numbers[k]
                    for k, s in enumerate(sources)
                ]
                result = compute(*values)
                if result is None:
                    supported = False
                else:
                    self.store(result, self._spot(out, line, at), out.dtype, left)

            self.vectors(count, inner, step)
        return None if supported else NotImplemented

    def _spot(self, tile: Tile, line: Number, at: Number) -> Value:
        """Host address of element `at` of a line of an ND or DN tile."""
        pitch = self.lines(tile, 0, 0)[2]
        return self.pointer(tile, self.scalar(line) * pitch + self.scalar(at))

    def _joined(self, tiles: list[Tile], rows: Number, cols: Number) -> tuple[Scalar, Scalar]:
        """Number of lines and elements of one; one long line when lines are full and all pitches are equal."""
        lines, elements, pitch = self.lines(tiles[0], rows, cols)
        outer, inner = self.scalar(lines), self.scalar(elements)
        if any(self.lines(t, rows, cols)[2] != pitch for t in tiles):
            return outer, inner
        full = inner == pitch
        return full.choose(1, outer), full.choose(outer * inner, inner)

    # --- reductions --------------------------------------------------------------------------------------------------

    def reduce_rows(self, out: Tile, src: Tile, start: float | int, combine: Combine, *, tree: bool = False) -> Any:
        """out[i, 0] = all valid elements of row i of `src` combined; nothing for an empty `src`.

        tree: in the order of the vector unit, a tree of halves inside each 256-byte block (short blocks filled with
        `start`), blocks from left to right, rounding to the dtype each time. Otherwise in any order.
        """
        if not self.handles(src) or tile_geometry(src.type).layout is not TensorLayout.ND or not self._columns_of(out):
            return NotImplemented
        step = self._columns_of(out)
        rows, cols = src.vr, src.vc
        inside = out.addr + ((rows - 1) * step + 1) * out.dtype.nbytes
        self.require(self.fits(src, rows, cols), out.addr >= 0, inside <= self.capacity(out))
        self.require(self._disjoint(out, inside, src, rows, cols))
        body = self._tree_row if tree else self._wide_row
        with self.if_(cols > 0), self.for_range(0, rows) as row:
            total = body(src, row, cols, start, combine)
            self.store_scalar(total, self.pointer(out, row * step), out.dtype)
        return None

    def _columns_of(self, tile: Tile) -> int:
        """Elements from row to row of column 0 of a linear tile; 0 for layouts made of boxes."""
        geo = tile_geometry(tile.type)
        return {TensorLayout.ND: tile.type.cols, TensorLayout.DN: 1}.get(geo.layout, 0)

    def _disjoint(self, out: Tile, out_end: Scalar, src: Tile, rows: Number, cols: Number) -> Scalar:
        return (out_end <= src.addr) | (self._end(src, rows, cols) <= out.addr)

    def _tree_row(self, src: Tile, row: Scalar, cols: Scalar, start: float | int, combine: Combine) -> Scalar:
        code, dtype = self.code, src.dtype
        count = BLOCK_BYTES // dtype.nbytes

        def rounded(a: Lanes, b: Lanes) -> Lanes:
            return combine(a, b).rounded(dtype)

        total = code.slot(self.lanes_of(start, dtype, 1).lane(0).value.type)
        code.store(self.lanes_of(start, dtype, 1).lane(0).value, total)

        def block(at: Scalar, left: Value | None) -> None:
            lanes = self.load(self._spot(src, row, at), dtype, count, left, fill=start)
            before = Scalar(code, code.load(lanes.value.type.element, total), lanes.dtype)
            one = rounded(self._single(before), self._single(lanes.halved(rounded)))
            code.store(one.lane(0).value, total)

        self.vectors(count, cols, block)
        lane_dtype = self.lanes_of(0, dtype, 1).dtype
        return Scalar(code, code.load(self.lanes_of(0, dtype, 1).value.type.element, total), lane_dtype)

    def _wide_row(self, src: Tile, row: Scalar, cols: Scalar, start: float | int, combine: Combine) -> Scalar:
        code, dtype = self.code, src.dtype
        count = 2 * self.lane_count(dtype)  # enough sums side by side to hide the latency of one
        initial = self.lanes_of(start, dtype, count)
        total = code.slot(initial.value.type)
        code.store(initial.value, total)

        def block(at: Scalar, left: Value | None) -> None:
            lanes = self.load(self._spot(src, row, at), dtype, count, left)
            before = lanes.new(code.load(lanes.value.type, total))
            after = combine(before, lanes)
            if left is not None:
                after = self.first(count, left).select(after, before)
            code.store(after.value, total)

        self.vectors(count, cols, block)
        return initial.new(code.load(initial.value.type, total)).halved(combine)

    def _single(self, value: Scalar) -> Lanes:
        """A scalar as one lane."""
        return Lanes(self.code, self.spread(value.value, 1), value.dtype)

    def reduce_cols(self, out: Tile, src: Tile, combine: Combine, *, paired: bool = False) -> Any:
        """out[0, j] = all valid elements of column j of `src` combined; nothing for an empty `src`.

        paired: row 0, then rows 1 + 2, rows 3 + 4 and so on, as the vector unit adds, rounding to the dtype each time.
        """
        if not self.handles(out, src) or tile_geometry(src.type).layout is not TensorLayout.ND:
            return NotImplemented
        rows, cols, dtype = src.vr, src.vc, src.dtype
        end = out.addr + cols * dtype.nbytes
        self.require(self.fits(src, rows, cols), self.fits(out, 1, cols), self._disjoint(out, end, src, rows, cols))
        count = self.lane_count(dtype)

        def rounded(a: Lanes, b: Lanes) -> Lanes:
            return combine(a, b).rounded(dtype)

        def columns(at: Scalar, left: Value | None) -> None:
            def row(index: Number) -> Lanes:
                return self.load(self._spot(src, index, at), dtype, count, left)

            total = self._fold_rows(rows, row, rounded, 2 if paired else 1)
            self.store(total, self._spot(out, 0, at), dtype, left)

        with self.if_(rows > 0):
            self.vectors(count, cols, columns)
        return None

    def _fold_rows(self, rows: Scalar, row: Callable[[Number], Lanes], combine: Combine, group: int) -> Lanes:
        """Row 0 combined with the later rows, taken singly or in pairs."""
        code = self.code
        first = row(0)
        total = code.slot(first.value.type)
        code.store(first.value, total)

        def take(lanes: Lanes) -> None:
            code.store(combine(first.new(code.load(first.value.type, total)), lanes).value, total)

        if group == 1:
            with self.for_range(1, rows) as r:
                take(row(r))
        else:
            with self.for_range(1, rows - 1, 2) as r:
                take(combine(row(r), row(r + 1)))
            with self.if_((rows > 1) & (rows % 2 == 0)):
                take(row(rows - 1))
        return first.new(code.load(first.value.type, total))

    # --- broadcasts --------------------------------------------------------------------------------------------------

    def broadcast(
        self, out: Tile, full: Tile, part: Tile, dim: int, compute: Callable[[Lanes, Lanes], Lanes]
    ) -> Any:
        """out[i, j] = compute(full[i, j], part[i, 0]) for dim 0, compute(full[i, j], part[0, j]) for dim 1."""
        step = self._columns_of(part)
        if not self.handles(out, full) or not step or tile_geometry(out.type).layout is not TensorLayout.ND:
            return NotImplemented
        if dim == 1 and tile_geometry(part.type).layout is not TensorLayout.ND:
            return NotImplemented
        rows, cols = out.vr, out.vc
        end = part.addr + ((rows - 1) * step + 1 if dim == 0 else cols) * part.dtype.nbytes
        self.require(
            self.fits(out, rows, cols), self.fits(full, rows, cols), self.apart(out, full, rows, cols),
            part.addr >= 0, end <= self.capacity(part), self._disjoint(part, end, out, rows, cols),
        )  # fmt: skip
        count = self.stream_count(out.dtype, full.dtype)
        with self.for_range(0, rows) as row:
            if dim == 0:
                single = self.load(self.pointer(part, row * step), part.dtype, 1).lane(0)
                spread = Lanes(self.code, self.spread(single.value, count), single.dtype)

            def columns(at: Scalar, left: Value | None) -> None:
                lanes = self.load(self._spot(full, row, at), full.dtype, count, left)
                other = spread if dim == 0 else self.load(self._spot(part, 0, at), part.dtype, count, left)
                self.store(compute(lanes, other), self._spot(out, row, at), out.dtype, left)

            self.vectors(count, cols, columns)
        return None

