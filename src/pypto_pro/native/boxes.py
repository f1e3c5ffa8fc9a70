"""Copies between boxes of tiles. Windows of tensors: `transfers`."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from pypto_pro.native import exits
from pypto_pro.native.calls import Tensor, Tile
from pypto_pro.native.exits import Change
from pypto_pro.native.nibbles import Nibbles
from pypto_pro.ops.entry import Box
from pypto_pro.ops.fixpipe import Exit
from pypto_pro.ops.operands import tile_geometry


class Boxes(Nibbles):
    """Box copies of the builder."""

    def copy_box(
        self, dst: Tile, target: Box, src: Tile, source: Box, *, transposed: bool = False, way_out: Exit | None = None
    ) -> Any:
        """Copy elements between boxes of tiles of any layout; differing float dtypes convert, nearest even.

        transposed: target[j, i] = source[i, j]. `way_out`: what happens to accumulator values on the way. Boxes may
        overlap: everything is read before anything is written.
        """
        rows, cols = self.scalar(source.rows), self.scalar(source.cols)
        to, of = self._box_end(dst, target), self._box_end(src, source)
        to = to.exchanged() if transposed else to
        with self._unless_empty(rows, cols):
            self.require(self._box_fits(dst, to, rows, cols), self._box_fits(src, of, rows, cols))
            if way_out is not None:
                self.require(*exits.guards(self, way_out, cols))
            if src.type.space is dst.type.space:
                same = tile_geometry(src.type) == tile_geometry(dst.type) and _is_one(target, source) and not transposed
                of = self._beside(dst, to, src, of, rows, cols, same=same)
            if src.dtype.is_sub_byte:
                self._copy_nibbles(to, of, rows, cols, self.scalar(0) == 0)
            else:
                self._copy(to, of, rows, cols, self._conversion(src, dst, way_out))
        return None

    def _conversion(self, src: Tile, dst: Tile | Tensor, way_out: Exit | None) -> Change | None:
        """What happens to elements on the way: None for bits as they are."""
        if way_out is not None:
            return exits.change(self, src.dtype, dst.dtype, way_out)
        if src.dtype is dst.dtype or isinstance(dst, Tensor):
            return None
        return lambda lanes, _: exits.one_nan(lanes)  # to the bias table: floats become FP32


def _is_one(target: Box, source: Box) -> bool:
    """Whether two boxes are known to be equal."""
    pairs = ((getattr(target, f.name), getattr(source, f.name)) for f in fields(Box))
    return all(a is b or (isinstance(a, int) and isinstance(b, int) and a == b) for a, b in pairs)
