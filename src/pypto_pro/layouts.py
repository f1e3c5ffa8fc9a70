"""Element (i, j) -> byte, for ND DN NZ ZN ZZ NN: the only place that knows fractals.

Every layout is the sum of two independent axis functions, `offset(i, j) = row(i) + col(j)`, and each axis is either
linear or split into boxes: `axis(k) = (k // block) * outer + (k % block) * inner`. Offsets, windows as strided views
and byte footprints all follow from the two axes, so no code below asks which layout it has.

Units: offsets are in elements, `addr` and regions in bytes, bit patterns in `DataType.bits_dtype` with 4-bit elements
unpacked one per uint8 (memory holds element 2k in bits 3..0 and 2k+1 in bits 7..4 of a byte).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from pypto_pro.dtypes import DataType
from pypto_pro.enums import CompactMode, MemorySpace, TensorLayout

Bytes = npt.NDArray[np.uint8]
Bits = npt.NDArray[np.unsignedinteger]

BLOCK_BYTES = 32
LEGAL_FRACTALS = (32, 512, 1024)
SCALE_FRACTAL, DEFAULT_FRACTAL, ACC_FRACTAL = LEGAL_FRACTALS

TRANSPOSED = {
    TensorLayout.ND: TensorLayout.DN,
    TensorLayout.DN: TensorLayout.ND,
    TensorLayout.NZ: TensorLayout.ZN,
    TensorLayout.ZN: TensorLayout.NZ,
    TensorLayout.ZZ: TensorLayout.NN,
    TensorLayout.NN: TensorLayout.ZZ,
}
_ROW_MAJOR_BOXES = (TensorLayout.NZ, TensorLayout.ZZ)


def is_fractal(layout: TensorLayout) -> bool:
    """True for the layouts made of boxes."""
    return layout not in (TensorLayout.ND, TensorLayout.DN)


@dataclass(frozen=True, slots=True)
class Axis:
    """Contribution of one index to the offset: `(k // block) * outer + (k % block) * inner`; block 0 = `k * inner`."""

    block: int
    outer: Any
    inner: Any

    def at(self, k: Any) -> Any:
        """Offset in elements of index `k`: an int, a numpy array, or anything with + * // %."""
        if self.block == 0:
            return k * self.inner
        return (k // self.block) * self.outer + (k % self.block) * self.inner

    def pieces(self, start: int, count: int) -> Iterator[tuple[int, int, int]]:
        """Split `[start, start + count)` into at most three runs (first index, boxes, indices per box)."""
        end = start + count
        if self.block == 0 or start // self.block == (end - 1) // self.block:
            yield start, 1, count
            return
        first_full = -(-start // self.block) * self.block
        last_full = end // self.block * self.block
        if start < first_full:
            yield start, 1, first_full - start
        if first_full < last_full:
            yield first_full, (last_full - first_full) // self.block, self.block
        if last_full < end:
            yield last_full, 1, end - last_full


@dataclass(frozen=True)
class Geometry:
    """How a tile's elements are ordered. `row_extent`, `col_extent` are the extents its strides are made of
    (types-and-memory 4.4), not a bound on the indices; `box_rows`, `box_cols` are 1 for ND and DN."""

    layout: TensorLayout
    dtype_bits: int
    row_extent: Any
    col_extent: Any
    box_rows: int = 1
    box_cols: int = 1

    @cached_property
    def axes(self) -> tuple[Axis, Axis]:
        """The row axis and the column axis."""
        h, w, R, C = self.box_rows, self.box_cols, self.row_extent, self.col_extent
        match self.layout:
            case TensorLayout.ND:
                return Axis(0, 0, C), Axis(0, 0, 1)
            case TensorLayout.DN:
                return Axis(0, 0, 1), Axis(0, 0, R)
            case TensorLayout.NZ:  # boxes of one column follow each other, so rows are linear
                return Axis(0, 0, w), Axis(w, R * w, 1)
            case TensorLayout.ZN:
                return Axis(h, C * h, 1), Axis(0, 0, h)
            case TensorLayout.ZZ:
                return Axis(h, C * h, w), Axis(w, h * w, 1)
            case TensorLayout.NN:
                return Axis(h, h * w, 1), Axis(w, R * w, h)

    @property
    def bits_dtype(self) -> np.dtype[np.unsignedinteger]:
        """Unsigned numpy dtype `read` returns and `write` takes."""
        return np.dtype(f"u{max(1, self.dtype_bits // 8)}")


@dataclass(frozen=True, slots=True)
class Region:
    """Bytes `[start + k*pitch, start + k*pitch + row_bytes)` for k in 0..rows-1; one row has pitch == row_bytes."""

    start: int
    rows: int
    row_bytes: int
    pitch: int


# --- choosing the parameters --------------------------------------------------------------------------------------


def elements_per_block(dtype: DataType) -> int:
    """c0: elements per 32 bytes (64 for 4-bit types)."""
    return BLOCK_BYTES * 8 // dtype.bits()


def effective_layout(layout: TensorLayout | None, cols: int) -> TensorLayout:
    """The layout really used: one declared column makes any tile DN; none given (Vec, Bias) means ND."""
    if cols == 1:
        return TensorLayout.DN
    return TensorLayout.ND if layout is None else layout


def effective_fractal(
    space: MemorySpace | None, dtype: DataType, layout: TensorLayout | None, fractal: int | None
) -> int:
    """The fractal attribute after the defaults of `TileType` (types-and-memory 5, steps 2, 6, 7)."""
    if fractal is not None:
        return fractal
    if space in (MemorySpace.ScaleLeft, MemorySpace.ScaleRight):
        return SCALE_FRACTAL
    if space is MemorySpace.Acc and dtype in (DataType.DT_FP32, DataType.DT_INT32):
        return ACC_FRACTAL
    scale_layout = layout in (TensorLayout.ZZ, TensorLayout.NN)
    if space is MemorySpace.Mat and dtype is DataType.DT_FP8E8M0 and scale_layout:
        return SCALE_FRACTAL
    return DEFAULT_FRACTAL


def box(layout: TensorLayout, fractal: int, dtype: DataType) -> tuple[int, int]:
    """Rows and columns of one box (1, 1 for ND and DN). ValueError for a fractal the device does not have."""
    if not is_fractal(layout):
        return 1, 1
    if fractal == DEFAULT_FRACTAL:
        shape = (16, elements_per_block(dtype))
    elif fractal == ACC_FRACTAL:
        shape = (16, 16)
    elif fractal == SCALE_FRACTAL:
        shape = (16, 2)
    else:
        raise ValueError(f"fractal must be one of {', '.join(map(str, LEGAL_FRACTALS))}, not {fractal}")
    return shape if layout in _ROW_MAJOR_BOXES else (shape[1], shape[0])


def geometry(
    layout: TensorLayout | None,
    fractal: int | None,
    dtype: DataType,
    rows: Any,
    cols: Any,
    *,
    space: MemorySpace | None = None,
    row_extent: Any = None,
    col_extent: Any = None,
) -> Geometry:
    """Geometry of a tile declared `[rows, cols]`; `row_extent`, `col_extent` replace the declared stride extents.

    Acc is physically 16x16 boxes of 4-byte elements whatever dtype and fractal say. ValueError for an illegal fractal.
    """
    R = rows if row_extent is None else row_extent
    C = cols if col_extent is None else col_extent
    if space is MemorySpace.Acc:
        return Geometry(TensorLayout.NZ, 32, R, C, 16, 16)
    used = effective_layout(layout, cols)
    h, w = box(used, effective_fractal(space, dtype, used, fractal), dtype)
    return Geometry(used, dtype.bits(), R, C, h, w)


def nz_tensor_geometry(dtype: DataType, rows: Any, cols: Any) -> Geometry:
    """Geometry of an NZ tensor in global memory, physically [1, cols/c0, rows/16, 16, c0].

    ValueError for the 4-bit types, which have none.
    """
    if dtype.is_sub_byte:
        raise ValueError(f"an NZ tensor cannot hold {dtype.to_string()}")
    return Geometry(TensorLayout.NZ, dtype.bits(), rows, cols, *box(TensorLayout.NZ, DEFAULT_FRACTAL, dtype))


def compact_extent(declared: Any, valid: Any, compact: int | None) -> Any:
    """Stride extent of a fractal tile under `compact`: declared, valid rounded up to 16, or that plus one."""
    match compact:
        case None | CompactMode.null:
            return declared
        case CompactMode.normal:
            return (valid + 15) // 16 * 16
        case CompactMode.row_plus_one:
            return (valid + 15) // 16 * 16 + 1
    raise ValueError(f"compact must be 0, 1 or 2, not {compact}")


def slot_size(shape: Sequence[int], dtype: DataType) -> int:
    """Bytes `make_tile` and `make_tile_group` reserve: a sub-byte element is charged a whole byte."""
    return prod(shape) * dtype.nbytes


# --- addresses ----------------------------------------------------------------------------------------------------


def offset(geo: Geometry, i: Any, j: Any) -> Any:
    """Offset in elements of (i, j) from the tile address; ints, numpy arrays, or anything with + * // %."""
    row, col = geo.axes
    return row.at(i) + col.at(j)


def byte_offset(geo: Geometry, i: Any, j: Any) -> Any:
    """Offset in bytes of the byte that holds (i, j)."""
    return offset(geo, i, j) * geo.dtype_bits // 8


def footprint_bytes(geo: Geometry, rows: int, cols: int) -> int:
    """Bytes from the tile address to the end of the furthest element of `[0, rows) x [0, cols)`; 0 when empty."""
    if rows == 0 or cols == 0:
        return 0
    return int(-(-(offset(geo, rows - 1, cols - 1) + 1) * geo.dtype_bits // 8))


def regions(geo: Geometry, addr: int, r0: int, c0: int, rows: int, cols: int) -> list[Region]:
    """Bytes of the window of `rows` x `cols` elements at (r0, c0) as few disjoint strided blocks.

    Exact, except that a 4-bit run starting or ending inside a byte takes the whole byte.
    """
    if rows == 0 or cols == 0:
        return []
    return [Region(addr + r.start, r.rows, r.row_bytes, r.pitch) for r in _regions_at_zero(geo, r0, c0, rows, cols)]


@lru_cache(maxsize=8192)
def _regions_at_zero(geo: Geometry, r0: int, c0: int, rows: int, cols: int) -> tuple[Region, ...]:
    """`regions` for a tile at address 0, ascending by start."""
    found: list[Region] = []
    for start, dims in _strided_pieces(geo, r0, c0, rows, cols):
        run, outer = _coalesce(dims)
        found += _to_bytes(start, run, outer, geo.dtype_bits)
    return tuple(sorted(found, key=lambda r: r.start))


def _coalesce(dims: tuple[tuple[int, int], ...]) -> tuple[int, list[tuple[int, int]]]:
    """Merge (count, stride) dimensions: the contiguous run in elements, then the strided ones outside it."""
    run = 1
    outer: list[tuple[int, int]] = []
    for count, stride in sorted((d for d in dims if d[0] > 1), key=lambda d: d[1]):
        if not outer and stride == run:
            run *= count
        elif outer and stride == outer[-1][0] * outer[-1][1]:
            outer[-1] = (outer[-1][0] * count, outer[-1][1])
        else:
            outer.append((count, stride))
    return run, outer


def _to_bytes(start: int, run: int, outer: list[tuple[int, int]], bits: int) -> Iterator[Region]:
    """One region per combination of all strided dimensions but the longest, which becomes the region's rows."""
    rows, pitch = max(outer, default=(1, 0))
    rest = list(outer)
    if outer:
        rest.remove((rows, pitch))
    starts = [start]
    for count, stride in rest:
        starts = [s + k * stride for s in starts for k in range(count)]
    if bits >= 8:
        size = bits // 8
        for s in starts:
            yield Region(s * size, rows, run * size, (pitch if rows > 1 else run) * size)
    elif pitch % 2 == 0 and run % 2 == 0 and all(s % 2 == 0 for s in starts):
        for s in starts:
            yield Region(s // 2, rows, run // 2, (pitch if rows > 1 else run) // 2)
    else:  # rows cut bytes in half: each row on its own, rounded outwards
        for s in (s + k * pitch for s in starts for k in range(rows)):
            size = -(-(s + run) // 2) - s // 2
            yield Region(s // 2, 1, size, size)


# --- moving bits --------------------------------------------------------------------------------------------------


def read(mem: Bytes, addr: int, geo: Geometry, r0: int, c0: int, rows: int, cols: int) -> Bits:
    """Bit patterns of the window of `rows` x `cols` elements at (r0, c0), a fresh array of `geo.bits_dtype`.

    The window must lie inside `mem` (the caller checks its space); numpy raises where it does not.
    """
    out: Bits = np.empty((rows, cols), geo.bits_dtype)
    if geo.dtype_bits >= 8:
        for inside, stored in _views(mem, addr, geo, r0, c0, out):
            inside[...] = stored
    elif (pairs := _nibble_views(mem, addr, geo, r0, c0, out)) is not None:
        for low, high, stored in pairs:
            low[...] = stored & 15
            high[...] = stored >> 4
    else:
        at = offset(geo, np.arange(r0, r0 + rows)[:, None], np.arange(c0, c0 + cols)[None, :])
        out[...] = mem[addr + at // 2] >> (at % 2 * 4).astype(np.uint8) & 15
    return out


def window_view(mem: Bytes, addr: int, geo: Geometry, r0: int, c0: int, rows: int, cols: int) -> Bits | None:
    """The window as one view of `mem`, axes (row boxes, rows, column boxes, columns); None when it is not one.

    Windows that start or end inside a box of a fractal layout may take several views; 4-bit elements have none.
    """
    if geo.dtype_bits < 8 or rows == 0 or cols == 0:
        return None
    start, dims = next(pieces := _strided_pieces(geo, r0, c0, rows, cols))
    if next(pieces, None) is not None:
        return None
    size = geo.dtype_bits // 8
    shape, strides = zip(*dims, strict=True)
    return np.ndarray(shape, geo.bits_dtype, mem.data, addr + start * size, [s * size for s in strides])


def write(mem: Bytes, addr: int, geo: Geometry, r0: int, c0: int, bits: Bits) -> None:
    """Store bit patterns `[rows, cols]` of `geo.bits_dtype` at (r0, c0); other bytes and nibbles keep their value."""
    if geo.dtype_bits >= 8:
        for inside, stored in _views(mem, addr, geo, r0, c0, bits):
            stored[...] = inside
    elif (pairs := _nibble_views(mem, addr, geo, r0, c0, bits)) is not None:
        for low, high, stored in pairs:
            stored[...] = (low & 15) | (high << 4)
    else:
        rows, cols = bits.shape
        at = offset(geo, np.arange(r0, r0 + rows)[:, None], np.arange(c0, c0 + cols)[None, :])
        for half in (0, 1):  # the two nibbles of one byte must not be written by one fancy assignment
            mine = at % 2 == half
            where = addr + at[mine] // 2
            mem[where] = mem[where] & (15 << 4 * (1 - half)) | (bits[mine] & 15) << 4 * half


def _strided_pieces(
    geo: Geometry, r0: int, c0: int, rows: int, cols: int
) -> Iterator[tuple[int, tuple[tuple[int, int], ...]]]:
    """The window as (offset of its first element, four (count, stride) dimensions): boxes x rows x boxes x columns."""
    row, col = geo.axes
    col_pieces = [(col.at(at), (boxes, col.outer), (n, col.inner)) for at, boxes, n in col.pieces(c0, cols)]
    for at, boxes, n in row.pieces(r0, rows):
        start = row.at(at)
        for col_start, *col_dims in col_pieces:
            yield start + col_start, ((boxes, row.outer), (n, row.inner), *col_dims)


def _views(mem: Bytes, addr: int, geo: Geometry, r0: int, c0: int, window: Bits) -> Iterator[tuple[Bits, Bits]]:
    """Pairs of equal 4-D views, part of the dense window and the memory that holds it."""
    rows, cols = window.shape
    if rows == 0 or cols == 0:
        return
    size = geo.dtype_bits // 8
    dense = _dense_pieces(geo, r0, c0, window)
    for inside, (start, dims) in zip(dense, _strided_pieces(geo, r0, c0, rows, cols), strict=True):
        shape, strides = zip(*dims, strict=True)
        yield inside, np.ndarray(shape, geo.bits_dtype, mem.data, addr + start * size, [s * size for s in strides])


def _dense_pieces(geo: Geometry, r0: int, c0: int, window: Bits) -> Iterator[Bits]:
    """The parts of the dense window in the order, and the 4-D shape, of `_strided_pieces`."""
    rows, cols = window.shape
    row, col = geo.axes
    col_pieces = list(col.pieces(c0, cols))
    for r, row_boxes, nr in row.pieces(r0, rows):
        for c, col_boxes, nc in col_pieces:
            part = window[r - r0 : r - r0 + row_boxes * nr, c - c0 : c - c0 + col_boxes * nc]
            yield part.reshape(row_boxes, nr, col_boxes, nc)


def _nibble_views(
    mem: Bytes, addr: int, geo: Geometry, r0: int, c0: int, window: Bits
) -> list[tuple[Bits, Bits, Bytes]] | None:
    """As `_views` for 4-bit elements: (low nibbles, high nibbles, bytes), or None when a part cuts a byte in half."""
    rows, cols = window.shape
    if rows == 0 or cols == 0:
        return []
    pairs: list[tuple[Bits, Bits, Bytes]] = []
    paired = 3 if geo.axes[1].inner == 1 else 1  # the dimension whose neighbours share a byte
    dense = _dense_pieces(geo, r0, c0, window)
    for inside, (start, dims) in zip(dense, _strided_pieces(geo, r0, c0, rows, cols), strict=True):
        others = [d for k, d in enumerate(dims) if k != paired]
        if start % 2 or dims[paired][0] % 2 or any(stride % 2 for count, stride in others if count > 1):
            return None
        shape = [count // 2 if k == paired else count for k, (count, _) in enumerate(dims)]
        strides = [1 if k == paired else stride // 2 for k, (_, stride) in enumerate(dims)]
        stored: Bytes = np.ndarray(shape, np.uint8, mem.data, addr + start // 2, strides)
        even = (slice(None),) * paired + (slice(0, None, 2),)
        odd = (slice(None),) * paired + (slice(1, None, 2),)
        pairs.append((inside[even], inside[odd], stored))
    return pairs
