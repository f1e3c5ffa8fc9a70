"""What the `lower` facets of tile vector ops share: the rarer pieces of the builder, and loops over rectangles.

A facet that writes in several steps asks for everything it needs first (`guard`): where an operand leaves its space, or
operands overlap so that streaming differs from reading everything first, the whole op runs its meaning instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeGuard

import numpy as np
from numpy.typing import NDArray

from pypto_pro.dtypes import DataType
from pypto_pro.enums import TensorLayout
from pypto_pro.ir.types import TileType
from pypto_pro.ops.builder import Builder, Lanes, NativeScalar, NativeTile, Number
from pypto_pro.ops.operands import tile_geometry

D = DataType
RAW = {1: D.DT_UINT8, 2: D.DT_UINT16, 4: D.DT_UINT32, 8: D.DT_UINT64}
"""The integers that hold the bits of an element of so many bytes."""
SIGNED = {1: D.DT_INT8, 2: D.DT_INT16, 4: D.DT_INT32, 8: D.DT_INT64}


class Variable(Protocol):
    """A number or lanes that change in the course of a loop."""

    def get(self) -> Any:
        """Its value now."""

    def set(self, value: Any) -> None:
        """Assign a value of its own dtype."""


class VectorBuilder(Builder, Protocol):
    """The builder with the pieces that only tile vector ops use."""

    def variable(self, initial: Any) -> Variable:
        """A variable that starts as `initial` (a scalar, lanes, or an int)."""

    def iota(self, count: int, dtype: DataType) -> Lanes:
        """Lanes 0, 1, 2, ..."""

    def disjoint(self, one: NativeTile, one_bytes: Number, other: NativeTile, other_bytes: Number) -> NativeScalar:
        """Whether the first bytes of two tiles have none in common."""

    def apart(self, out: NativeTile, source: NativeTile, rows: Number, cols: Number) -> NativeScalar:
        """Whether streaming `source` into `out` over [rows, cols) is the same as reading everything first."""

    def covers(self, tile: NativeTile, size: Number) -> NativeScalar:
        """Whether the first `size` bytes of a tile lie inside its space."""

    def fill_bytes(self, address: Any, byte: int, size: Number) -> None:
        """Set `size` bytes."""

    def copy_bytes(self, target: Any, source: Any, size: Number) -> None:
        """Copy bytes between areas that do not overlap."""

    def byte(self, tile: NativeTile, offset: Number) -> Any:
        """Host address of the byte `offset` bytes behind the tile's address."""

    def bits_of(self, number: Any, dtype: DataType) -> NativeScalar:
        """A number as the bits of one element of `dtype`."""

    def store_flags(self, flags: Lanes, address: Any) -> None:
        """BOOL lanes as packed bits, lane 0 lowest; a multiple of 8 lanes."""

    def load_flags(self, address: Any, count: int) -> Lanes:
        """`count` packed bits as BOOL lanes."""

    def count_true(self, flags: Lanes) -> NativeScalar:
        """How many BOOL lanes are true."""

    def first(self, count: int, left: Any) -> Lanes:
        """BOOL lanes: lane number < left (from `vectors`)."""

    def table(self, values: NDArray[Any]) -> Any:
        """Address of a constant array."""

    def lookup(self, table: Any, index: Lanes, dtype: DataType) -> Lanes:
        """table[index] lane by lane, raw elements of `dtype` decoded."""


# --- views of operands ------------------------------------------------------------------------------------------------


def retyped(tile: NativeTile, dtype: DataType, shape: tuple[int, int] | None = None,
            layout: TensorLayout | None = None) -> NativeTile:
    """The same storage as a tile of another dtype of equal width, and perhaps another shape and layout."""
    t = tile.type
    kept = layout or (t.layout if t.explicit_layout else None)
    type_ = TileType(shape or t.shape, dtype, t.space, (-1, -1), kept, t.fractal, t.pad, t.compact)
    return replace(tile, type=type_)  # type: ignore[type-var]


def raw(tile: NativeTile) -> NativeTile:
    """The same storage as unsigned integers: lanes are bits."""
    return retyped(tile, RAW[tile.dtype.nbytes])


def is_tile(operand: Any) -> TypeGuard[NativeTile]:
    """Whether a tile-or-scalar operand is a tile."""
    return isinstance(getattr(operand, "type", None), TileType)


def is_linear(*tiles: NativeTile) -> bool:
    """Whether all tiles are ND."""
    return all(tile_geometry(t.type).layout is TensorLayout.ND for t in tiles)


def column_step(tile: NativeTile) -> int:
    """Elements from row to row in column 0 of an ND or DN tile."""
    return 1 if tile_geometry(tile.type).layout is TensorLayout.DN else tile.type.cols


def bytes_of(tile: NativeTile, rows: Any, cols: Any) -> Any:
    """Bytes from the address of an ND tile to the end of element (rows - 1, cols - 1); no more than that when empty."""
    return ((rows - 1) * tile.type.cols + cols) * tile.dtype.nbytes


# --- guards and loops -------------------------------------------------------------------------------------------------


def guard(k: VectorBuilder, out: NativeTile, sources: Sequence[NativeTile], rows: Number, cols: Number) -> None:
    """Everything an element-wise step over [rows, cols) of ND tiles needs."""
    k.require(*(k.fits(t, rows, cols) for t in (out, *sources)))
    if sources:
        k.require(*(k.apart(out, t, rows, cols) for t in sources))


def at(k: VectorBuilder, tile: NativeTile, row: Number, col: Number = 0) -> Any:
    """Host address of element (row, col) of an ND tile."""
    return k.pointer(tile, k.scalar(row) * tile.type.cols + k.scalar(col))


Step = Callable[[NativeScalar, NativeScalar, Any], None]


def rectangle(k: VectorBuilder, count: int, rows: Number, cols: Number, step: Step) -> None:
    """step(row, first column, left) for every vector of `count` columns of [rows, cols)."""
    with k.for_range(0, rows) as row:
        k.vectors(count, k.scalar(cols), lambda first, left: step(row, first, left))


def map_rectangle(
    k: VectorBuilder, out: NativeTile, sources: Sequence[NativeTile], compute: Callable[..., Lanes],
    r0: Number, c0: Number, rows: Number, cols: Number,
) -> None:
    """out = compute(sources) over the rows x cols elements at (r0, c0); guarded by the caller."""
    count = k.lane_count(out.dtype, *(s.dtype for s in sources))

    def step(row: NativeScalar, first: NativeScalar, left: Any) -> None:
        i, j = row + r0, first + c0
        values = (k.load(at(k, s, i, j), s.dtype, count, left) for s in sources)
        k.store(compute(*values), at(k, out, i, j), out.dtype, left)

    rectangle(k, count, rows, cols, step)


def fill_rectangle(
    k: VectorBuilder, out: NativeTile, bits: Number, r0: Number, c0: Number, rows: Number, cols: Number
) -> None:
    """The rows x cols elements at (r0, c0) of an ND tile of raw elements = `bits`."""
    count = k.lane_count(out.dtype)
    lanes = k.lanes_of(bits, out.dtype, count)

    def step(row: NativeScalar, first: NativeScalar, left: Any) -> None:
        k.store(lanes, at(k, out, row + r0, first + c0), out.dtype, left)

    rectangle(k, count, rows, cols, step)


def raw_codes(dtype: DataType) -> NDArray[np.unsignedinteger]:
    """Every bit pattern of a dtype of at most 16 bits."""
    return np.arange(1 << dtype.bits(), dtype=dtype.bits_dtype)
