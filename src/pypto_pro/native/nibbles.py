"""Copies of 4-bit elements: as bytes where both ends hold pairs of neighbours, in squares, else one by one.

A byte holds two neighbours along the run axis of its end, the first in its low half. Starts, pitches and extents that
are odd cut bytes in half: the elements concerned are written one by one, the other half of their byte stays.
"""

from __future__ import annotations

from typing import Any

import llvmlite.ir as ir

from pypto_pro.native.emit import I8, splat, vector
from pypto_pro.native.ends import COL, End, is_multiple, packed
from pypto_pro.native.moves import SQUARE, Moves, indices, transpose
from pypto_pro.native.scalars import Scalar


class Nibbles(Moves):
    """Copy patterns of the builder, 4-bit elements."""

    def _copy_nibbles(self, to: End, of: End, rows: Scalar, cols: Scalar, runs: Scalar) -> None:
        """to[i, j] = of[i, j] for i < rows, j < cols; row after row unless `runs`."""
        whole = runs & self._pairs(to) & self._pairs(of)
        if to.run_axis != of.run_axis:
            self._nibble_squares(to, of, rows, cols, whole)
        elif to.run_axis == COL:
            pairs = whole.choose(cols // 2, 0)
            self._copy(packed(to), packed(of), rows, pairs, None)
            self._each_nibble(to, of, (0, rows), (pairs * 2, cols))
        else:
            pairs = whole.choose(rows // 2, 0)
            self._copy(packed(to), packed(of), pairs, cols, None)
            self._each_nibble(to, of, (pairs * 2, rows), (0, cols))

    def _pairs(self, end: End) -> Scalar:
        """Whether every line of the box starts at a whole byte and goes on in whole bytes."""
        along, across = end.axes[end.run_axis], end.axes[1 - end.run_axis]
        evens = [end.start[end.run_axis], across.inner, along.block, along.outer]
        if across.block:
            evens.append(across.outer)
        holds: Scalar = self.scalar(along.inner) == 1
        for value in evens:
            if not is_multiple(value, 2):
                holds = holds & (self.scalar(value) % 2 == 0)
        return holds

    def _nibble_squares(self, to: End, of: End, rows: Scalar, cols: Scalar, whole: Scalar) -> None:
        """Pairs along different axes: squares where lines are whole bytes and squares stay inside boxes."""
        for start in (*to.start, *of.start):
            if not is_multiple(start, SQUARE):
                whole = whole & (self.scalar(start) % SQUARE == 0)
        down, across = whole.choose(rows // SQUARE * SQUARE, 0), cols // SQUARE * SQUARE
        with self.for_range(0, down, SQUARE) as i, self.for_range(0, across, SQUARE) as j:
            self._nibble_square(to, of, i, j)
        self._each_nibble(to, of, (0, down), (across, cols))
        self._each_nibble(to, of, (down, rows), (0, cols))

    def _nibble_square(self, to: End, of: End, i: Scalar, j: Scalar) -> None:
        """One square of 4-bit elements, unpacked to bytes, transposed, and packed again."""
        code, b = self.code, self.code.b
        half = SQUARE // 2
        lines = []
        for line in range(SQUARE):
            at = self._offset(of, i + line, j) if of.run_axis == COL else self._offset(of, i, j + line)
            pairs = code.load(vector(half, I8), code.at(of.base, (at // 2).value))
            low, high = b.and_(pairs, splat(pairs.type, 15)), b.lshr(pairs, splat(pairs.type, 4))
            lines.append(b.shuffle_vector(low, high, indices(k // 2 + k % 2 * half for k in range(SQUARE))))
        for line, codes in enumerate(transpose(code, lines)):
            undefined = ir.Constant(codes.type, ir.Undefined)
            low, high = (
                b.shuffle_vector(codes, undefined, indices(range(first, SQUARE, 2))) for first in (0, 1)
            )
            at = self._offset(to, i + line, j) if to.run_axis == COL else self._offset(to, i, j + line)
            code.store(b.or_(low, b.shl(high, splat(high.type, 4))), code.at(to.base, (at // 2).value))

    def _each_nibble(self, to: End, of: End, rows: tuple[Any, Any], cols: tuple[Any, Any]) -> None:
        """The elements of [rows) x [cols) one by one."""
        with self.if_(self.scalar(cols[0]) < cols[1]), self.for_range(*rows) as i, self.for_range(*cols) as j:
            self._nibble(to, of, i, j)

    def _nibble(self, to: End, of: End, i: Scalar, j: Scalar) -> None:
        """to[i, j] = of[i, j], the other half of the byte kept."""
        code, b = self.code, self.code.b
        source, target = self._offset(of, i, j), self._offset(to, i, j)
        byte = code.load(I8, code.at(of.base, (source // 2).value))
        bits = b.and_(b.lshr(byte, b.trunc((source % 2 * 4).value, I8)), I8(15))
        place, shift = code.at(to.base, (target // 2).value), b.trunc((target % 2 * 4).value, I8)
        kept = b.and_(code.load(I8, place), b.not_(b.shl(I8(15), shift)))
        code.store(b.or_(kept, b.shl(bits, shift)), place)
