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
    4-bit tensors are declared in bytes: offsets and strides count bytes, transfer strides count 4-bit elements.
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

    def window(self, offsets: tuple[int, ...], axes: Axes) -> tuple[int, int, int]:
        """(first byte, bytes from tile row to row, bytes from tile column to column) of a transfer at `offsets`.

        `axes` = (tensor axis of the tile rows or None for a one-row transfer, tensor axis of the tile columns).
        For 4-bit dtypes the column step is meaningless: elements are packed, two a byte.
        """
        es = self.dtype.nbytes
        start = self.base + es * sum(o * s for o, s in zip(offsets, self.strides, strict=True))
        row_axis, col_axis = axes
        row = 0 if row_axis is None else self.strides[row_axis]
        col = self.strides[col_axis]
        if self.transfer is not None:
            row, col = self.transfer
            if self.dtype.bits() == 4:
                row //= 2
        return start, row * es, col * es

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
            return self._nibbles(offsets, axes, rows, cols)
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
        """Write raw element bits to a window, dropped where it leaves the buffer."""
        rows, cols = bits.shape
        if self.dtype.bits() == 4:
            self._put_nibbles(bits, offsets, axes)
            return
        view = self._view(offsets, axes, rows, cols)
        if view is not None:
            view[...] = bits
            return
        index = self.byte_index(offsets, axes, rows, cols)
        width = self.dtype.nbytes
        inside = (index >= 0) & (index + width <= self.mem.size)
        spread = index[inside][:, None] + np.arange(width)
        self.mem[spread] = np.ascontiguousarray(bits[inside]).view(np.uint8).reshape(-1, width)

    def leaves_buffer(self, offsets: tuple[int, ...], axes: Axes, rows: int, cols: int) -> bool:
        """Whether any byte of the window lies outside the caller's buffer."""
        if rows == 0 or cols == 0:
            return False
        index = self.byte_index(offsets, axes, rows, cols)[[0, 0, -1, -1], [0, -1, 0, -1]]
        return bool(index.min() < 0 or index.max() + self.dtype.nbytes > self.mem.size)

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

    def _packed_rows(self, offsets: tuple[int, ...], axes: Axes, rows: int, cols: int) -> Array:
        """Byte positions of packed 4-bit rows, shape (rows, ceil(cols / 2))."""
        start, row, _ = self.window(offsets, axes)
        return np.asarray(start + row * np.arange(rows)[:, None] + np.arange((cols + 1) // 2)[None, :])

    def _nibbles(self, offsets: tuple[int, ...], axes: Axes, rows: int, cols: int) -> Array:
        index = self._packed_rows(offsets, axes, rows, cols)
        inside = (index >= 0) & (index < self.mem.size)
        packed = np.where(inside, self.mem[np.where(inside, index, 0)], 0).astype(np.uint8)
        return np.stack((packed & 15, packed >> 4), axis=-1).reshape(rows, -1)[:, :cols]

    def _put_nibbles(self, bits: Array, offsets: tuple[int, ...], axes: Axes) -> None:
        rows, cols = bits.shape
        index = self._packed_rows(offsets, axes, rows, cols)
        inside = (index >= 0) & (index < self.mem.size)
        even = cols + cols % 2
        wide = np.zeros((rows, even), np.uint8)
        wide[:, :cols] = bits
        packed = wide[:, 0::2] | (wide[:, 1::2] << 4)
        if cols % 2:  # the high half of the last byte keeps its element
            old = np.where(inside[:, -1], self.mem[np.where(inside[:, -1], index[:, -1], 0)], 0)
            packed[:, -1] |= old & 0xF0
        self.mem[index[inside]] = packed[inside]
