"""`TensorArg`: a GM tensor or view at run time, and the windows of it that transfers move."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pypto_pro import layouts
from pypto_pro.dtypes import DataType
from pypto_pro.enums import TensorLayout
from pypto_pro.ir.types import TensorType

Array: TypeAlias = NDArray[Any]
Axes: TypeAlias = tuple[int | None, int]


@dataclass(slots=True)
class TensorArg:
    """A GM tensor or view: the caller's buffer as bytes, first byte, extents and strides in elements.

    `transfer` are the two strides of `set_stride` (tile row, tile column); they replace those of the transferred
    axes, never the start address. Reads past the buffer give zero bytes, writes there are dropped (decision 28).
    4-bit tensors are declared in bytes: the start address counts bytes, but a transfer steps in 4-bit elements.
    """

    type: TensorType
    mem: NDArray[np.uint8]
    base: int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    transfer: tuple[int, int] | None = None

    @property
    def dtype(self) -> DataType:
        """Element dtype."""
        return self.type.dtype

    def steps(self, axes: Axes) -> tuple[int, int]:
        """(elements from tile row to tile row, from tile column to tile column) of a transfer.

        `axes` = (tensor axis of the tile rows or None for a one-row transfer, tensor axis of the tile columns).
        """
        if self.transfer is not None:
            return self.transfer
        row_axis, col_axis = axes
        return 0 if row_axis is None else self.strides[row_axis], self.strides[col_axis]

    def first_byte(self, offsets: tuple[int, ...]) -> int:
        """Position in `mem` of the element at `offsets`."""
        return self.base + self.dtype.nbytes * sum(o * s for o, s in zip(offsets, self.strides, strict=True))

    def window(self, offsets: tuple[int, ...], axes: Axes) -> tuple[int, int, int]:
        """(first byte, bytes from tile row to row, bytes from tile column to column) of a transfer at `offsets`.

        Not for 4-bit dtypes, whose columns share bytes: see `nibbles`.
        """
        row, col = self.steps(axes)
        return self.first_byte(offsets), row * self.dtype.nbytes, col * self.dtype.nbytes

    def nibbles(self, offsets: tuple[int, ...], axes: Axes, rows: int, cols: int) -> Array:
        """Positions of 4-bit elements, counted from `mem`, shape (rows, cols); may lie outside the buffer."""
        row, col = self.steps(axes)
        first = 2 * self.first_byte(offsets)
        return np.asarray(first + row * np.arange(rows)[:, None] + col * np.arange(cols)[None, :])

    def byte_index(self, offsets: tuple[int, ...], axes: Axes, rows: int, cols: int) -> Array:
        """Position in `mem` of the first byte of every element, shape (rows, cols); may lie outside the buffer."""
        if self.type.layout is TensorLayout.NZ:
            geo = layouts.nz_tensor_geometry(self.dtype, *self.dims)
            i = offsets[0] + np.arange(rows)[:, None]
            j = offsets[1] + np.arange(cols)[None, :]
            return np.asarray(self.base + layouts.offset(geo, i, j) * self.dtype.nbytes)
        start, row, col = self.window(offsets, axes)
        return np.asarray(start + row * np.arange(rows)[:, None] + col * np.arange(cols)[None, :])

    def bits(self, offsets: tuple[int, ...], axes: Axes, rows: int, cols: int) -> Array:
        """Raw element bits of a window, shape (rows, cols), zero where it leaves the buffer."""
        if self.dtype.bits() == 4:
            return self._get_nibbles(offsets, axes, rows, cols)
        view = self._view(offsets, axes, rows, cols)
        if view is not None:
            return view.copy()
        index = self.byte_index(offsets, axes, rows, cols)
        width = self.dtype.nbytes
        inside = (index >= 0) & (index + width <= self.mem.size)
        taken = np.zeros((rows, cols, width), np.uint8)
        taken[inside] = self.mem[index[inside][:, None] + np.arange(width)]
        return np.ascontiguousarray(taken).view(self.dtype.bits_dtype)[..., 0]

    def put_bits(self, bits: Array, offsets: tuple[int, ...], axes: Axes) -> None:
        """Write raw element bits to a window, dropped where it leaves the buffer.

        Of elements that meet at one place the last one stays, row after row.
        """
        rows, cols = bits.shape
        if self.dtype.bits() == 4:
            self._put_nibbles(bits, offsets, axes)
            return
        view = self._view(offsets, axes, rows, cols)
        if view is not None and _is_apart(view):
            view[...] = bits
            return
        index = self.byte_index(offsets, axes, rows, cols)
        width = self.dtype.nbytes
        inside = (index >= 0) & (index + width <= self.mem.size)
        spread = index[inside][:, None] + np.arange(width)
        self.mem[spread] = np.ascontiguousarray(bits[inside]).view(np.uint8).reshape(-1, width)

    def _view(self, offsets: tuple[int, ...], axes: Axes, rows: int, cols: int) -> Array | None:
        """The window as a strided view of the buffer, None when it is not one or leaves the buffer."""
        if self.type.layout is TensorLayout.NZ or rows == 0 or cols == 0:
            return None
        start, row, col = self.window(offsets, axes)
        width = self.dtype.nbytes
        last = start + row * (rows - 1) + col * (cols - 1)
        if min(start, last) < 0 or max(start, last) + width > self.mem.size or row < 0 or col < 0:
            return None
        return np.ndarray((rows, cols), self.dtype.bits_dtype, self.mem.data, start, (row, col))

    def _get_nibbles(self, offsets: tuple[int, ...], axes: Axes, rows: int, cols: int) -> Array:
        at = self.nibbles(offsets, axes, rows, cols)
        inside = (at >= 0) & (at < 2 * self.mem.size)
        stored = self.mem[np.where(inside, at, 0) // 2] if self.mem.size else np.zeros(at.shape, np.uint8)
        return np.where(inside, stored >> (at % 2 * 4).astype(np.uint8) & 15, 0).astype(np.uint8)

    def _put_nibbles(self, bits: Array, offsets: tuple[int, ...], axes: Axes) -> None:
        at = self.nibbles(offsets, axes, *bits.shape)
        inside = (at >= 0) & (at < 2 * self.mem.size)
        for half in (0, 1):  # the two halves of one byte must not be written by one fancy assignment
            mine = inside & (at % 2 == half)
            where = at[mine] // 2
            self.mem[where] = self.mem[where] & (0xF0 >> 4 * half) | (bits[mine] & 15) << 4 * half


def _is_apart(view: Array) -> bool:
    """Whether no two elements of a view [rows, cols] with steps of at least 0 share bytes."""
    (rows, cols), (row, col) = view.shape, view.strides
    size = view.itemsize
    return bool(row >= size + col * (cols - 1) >= size * cols or col >= size + row * (rows - 1) >= size * rows)
