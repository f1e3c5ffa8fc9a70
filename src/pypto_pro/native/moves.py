"""Copies between ends of equal extents, whatever their layouts: runs of neighbours, squares of registers, elements.

Where both ends have their neighbours along one axis, runs are copied as vectors. Otherwise squares are transposed in
registers, and elements go one by one where neither fits. 4-bit elements: `nibbles`.
"""

from __future__ import annotations

from typing import Any

import llvmlite.ir as ir

from pypto_pro.native import codecs
from pypto_pro.native.emit import VOID, Value, vector
from pypto_pro.native.ends import COL, ROW, End, Ends, bits_type, is_multiple
from pypto_pro.native.exits import Change
from pypto_pro.native.lanes import Lanes
from pypto_pro.native.scalars import Scalar

SQUARE = 16
LONG_LINE = 1024


class Moves(Ends):
    """Copy patterns of the builder, elements of whole bytes."""

    def _copy(
        self, to: End, of: End, rows: Scalar, cols: Scalar, change: Change | None,
    ) -> None:
        """Copy rows x cols elements; runs where both ends have their neighbours along one axis."""
        if to.run_axis == of.run_axis:
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
        starts = [self.scalar(e.start[axis]) % run == 0 for e in (to, of) if not is_multiple(e.start[axis], run)]
        if not starts:
            self._pieces(to, of, across, along, run, change, axis)
            return
        with self.code.b.if_else(self.code.all_of(*(s.value for s in starts))) as (yes, no):
            with yes:
                self._pieces(to, of, across, along, run, change, axis)
            with no:
                self._elements(to, of, rows, cols, change)

    def _pieces(
        self, to: End, of: End, across: Scalar, along: Scalar, run: int, change: Any, axis: int
    ) -> None:
        """Lines of pieces of `run` elements, which stay inside a box, and what is over."""
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
        """Neighbours along different axes: squares of 16 x 16 elements through registers, the rest one by one.

        Along an axis without boxes the last square begins where it ends with the extent, so that nothing is over.
        """
        aligned = self.scalar(1) == 1
        for end in (to, of):
            for axis in (ROW, COL):
                if end.axes[axis].block and not is_multiple(end.start[axis], SQUARE):
                    aligned = aligned & (self.scalar(end.start[axis]) % SQUARE == 0)
        free = [not (to.axes[axis].block or of.axes[axis].block) for axis in (ROW, COL)]
        whole_rows, whole_cols = (
            (extent >= SQUARE).choose(extent, 0) if is_free else extent // SQUARE * SQUARE
            for extent, is_free in zip((rows, cols), free, strict=True)
        )
        whole_rows = aligned.choose(whole_rows, 0)
        with self.for_range(0, whole_rows, SQUARE) as i, self.for_range(0, whole_cols, SQUARE) as j:
            row = i.least(rows - SQUARE) if free[ROW] else i
            col = j.least(cols - SQUARE) if free[COL] else j
            self._square(to, of, row, col, change)
        with self.if_(whole_cols < cols), self.for_range(0, whole_rows) as i, self.for_range(whole_cols, cols) as j:
            self._element(to, of, i, j, change)
        with self.for_range(whole_rows, rows) as i, self.for_range(0, cols) as j:
            self._element(to, of, i, j, change)

    def _square(self, to: End, of: End, i: Scalar, j: Scalar, change: Change | None) -> None:
        """One square: 16 runs in, transposed in registers, 16 runs out. Runs may be shorter than the square."""
        code = self.code

        def position(end: End, line: int, at: int) -> Scalar:
            return self._offset(end, i + line, j + at) if end.run_axis == COL else self._offset(end, i + at, j + line)

        piece_in, piece_out = (min(e.axes[e.run_axis].block or SQUARE, SQUARE) for e in (of, to))
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


def _squares(to: End, of: End) -> bool:
    return to.dtype.nbytes in (1, 2, 4) and not to.dtype.is_sub_byte


def _concatenate(code: Any, a: Value, b: Value) -> Value:
    count = a.type.count + b.type.count
    return code.b.shuffle_vector(a, b, indices(range(count)))


def _slice(code: Any, value: Value, start: int, count: int) -> Value:
    if count == value.type.count:
        return value
    return code.b.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), indices(range(start, start + count)))


def indices(numbers: Any) -> Any:
    """Constant lane numbers for a shuffle."""
    listed = list(numbers)
    return ir.Constant(vector(len(listed), ir.IntType(32)), [ir.IntType(32)(k) for k in listed])


def transpose(code: Any, lines: list[Value]) -> list[Value]:
    """n vectors of n elements transposed: log2(n) rounds of interleaving."""
    n = len(lines)
    low = indices([k // 2 + (k % 2) * n for k in range(n)])
    high = indices([n // 2 + k // 2 + (k % 2) * n for k in range(n)])
    for _ in range(n.bit_length() - 1):
        pairs = [(lines[k], lines[k + n // 2]) for k in range(n // 2)]
        lines = [code.b.shuffle_vector(a, b, mask) for a, b in pairs for mask in (low, high)]
    return lines

