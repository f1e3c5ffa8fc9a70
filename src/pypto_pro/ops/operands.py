"""What an op's facets are handed: run-time operands over byte memory (meaning), static facts (rules).

The annotations below are the signature vocabulary of the table: `VecOut`, `VecIn`, `VecOrScalar`, `Gm...`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pypto_pro import layouts
from pypto_pro.dtypes import DataType
from pypto_pro.enums import MemorySpace
from pypto_pro.ir.types import ScalarType, TensorType, TileType
from pypto_pro.ops.entry import Keyword, Kind, Operand, Role

Array: TypeAlias = NDArray[Any]


@dataclass(slots=True)
class TileArg:
    """A tile at run time: type, byte memory of its space, address, valid rows and columns at issue."""

    type: TileType
    mem: NDArray[np.uint8]
    addr: int
    vr: int
    vc: int

    @property
    def dtype(self) -> DataType:
        """Element dtype."""
        return self.type.dtype

    def bits(
        self, rows: int | None = None, cols: int | None = None, r0: int = 0, c0: int = 0,
        *, row_extent: int | None = None, col_extent: int | None = None,
    ) -> Array:
        """Raw element bits of a rectangle (default: the valid one), shape (rows, cols)."""
        geo = layouts.tile_geometry(self.type, row_extent, col_extent)
        shape = (self.vr if rows is None else rows, self.vc if cols is None else cols)
        return layouts.read(self.mem, self.addr, geo, r0, c0, *shape)

    def put_bits(
        self, bits: Array, r0: int = 0, c0: int = 0, *, row_extent: int | None = None, col_extent: int | None = None,
    ) -> None:
        """Write raw element bits, shape (rows, cols), at (r0, c0)."""
        geo = layouts.tile_geometry(self.type, row_extent, col_extent)
        layouts.write(self.mem, self.addr, geo, r0, c0, bits)

    def get(self, rows: int | None = None, cols: int | None = None, r0: int = 0, c0: int = 0) -> Array:
        """Values of a rectangle in `dtype.numpy` (the valid one by default)."""
        return self.bits(rows, cols, r0, c0).view(self.dtype.numpy)

    def over(self, governing: TileArg) -> Array:
        """Values over the valid shape of another tile: sources are read over the domain of the destination."""
        return self.get(governing.vr, governing.vc)

    def put(self, values: Array, r0: int = 0, c0: int = 0) -> None:
        """Write values already in `dtype.numpy` (no conversion here; conversions are the op's business)."""
        self.put_bits(np.ascontiguousarray(values, self.dtype.numpy).view(self.dtype.bits_dtype), r0, c0)


@dataclass(slots=True)
class TensorArg:
    """A GM tensor or view at run time: the caller's buffer as bytes, base byte, extents and strides in elements.

    `transfer` are the two strides of `set_stride`, which replace those of the transferred axes but never the start.
    Reads past the buffer give zero bytes, writes there are dropped (decision 28); the executor reports them.
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

    def element_index(self, offsets: tuple[int, ...], axes: tuple[int | None, int], rows: int, cols: int) -> Array:
        """Byte positions, shape (rows, cols), of the window at `offsets` walking `axes` = (row axis, column axis)."""
        return layouts.tensor_window(self, offsets, axes, rows, cols)

    def bits(self, offsets: tuple[int, ...], axes: tuple[int | None, int], rows: int, cols: int) -> Array:
        """Raw element bits of a window, zero where it leaves the buffer."""
        return layouts.read_window(self, offsets, axes, rows, cols)

    def put_bits(self, bits: Array, offsets: tuple[int, ...], axes: tuple[int | None, int]) -> None:
        """Write raw element bits to a window, dropped where it leaves the buffer."""
        layouts.write_window(self, bits, offsets, axes)


@dataclass(frozen=True, slots=True)
class TileInfo:
    """A tile as `rules` sees it; `addr` is None when chosen at run time."""

    type: TileType
    name: str
    addr: int | None = None

    @property
    def dtype(self) -> DataType:
        """Element dtype."""
        return self.type.dtype


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor as `rules` sees it; strides only where they are known."""

    type: TensorType
    name: str
    strides: tuple[int | None, ...] | None = None

    @property
    def dtype(self) -> DataType:
        """Element dtype."""
        return self.type.dtype


@dataclass(frozen=True, slots=True)
class ScalarInfo:
    """A scalar as `rules` sees it; `value` is None when only known at run time."""

    type: ScalarType
    value: bool | int | float | None = None
    name: str = ""


_SCALAR = frozenset({Kind.SCALAR})
_TILE = frozenset({Kind.TILE})
_TENSOR = frozenset({Kind.TENSOR})


def tile(role: Role, *spaces: MemorySpace) -> Operand:
    """A tile operand restricted to memory spaces (none: any)."""
    return Operand(_TILE, role, spaces)


VecOut: TypeAlias = Annotated[TileArg, tile(Role.OUT, MemorySpace.Vec)]
VecIn: TypeAlias = Annotated[TileArg, tile(Role.IN, MemorySpace.Vec)]
VecInOut: TypeAlias = Annotated[TileArg, tile(Role.INOUT, MemorySpace.Vec)]
VecScratch: TypeAlias = Annotated[TileArg, tile(Role.SCRATCH, MemorySpace.Vec)]
VecOrScalar: TypeAlias = Annotated[
    "TileArg | int | float", Operand(frozenset({Kind.TILE, Kind.SCALAR}), Role.IN, (MemorySpace.Vec,))
]
ScalarIn: TypeAlias = Annotated["int | float", Operand(_SCALAR)]
TensorIn: TypeAlias = Annotated[TensorArg, Operand(_TENSOR, Role.IN)]
TensorOut: TypeAlias = Annotated[TensorArg, Operand(_TENSOR, Role.OUT)]
Offsets: TypeAlias = Annotated["tuple[int, ...]", Operand(frozenset({Kind.OFFSETS}))]
IntAttr: TypeAlias = Annotated[int, Keyword((int,))]
BoolAttr: TypeAlias = Annotated[bool, Keyword((bool,))]
AxesAttr: TypeAlias = Annotated["tuple[int, ...] | None", Keyword((tuple,))]
