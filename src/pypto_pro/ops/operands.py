"""What an op's facets are handed: run-time operands over byte memory (meaning), static facts (rules).

The annotations below are the signature vocabulary of the table: `VecOut`, `VecIn`, `VecOrScalar`, `Gm...`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pypto_pro import layouts, numerics
from pypto_pro.dtypes import DataType
from pypto_pro.enums import MemorySpace
from pypto_pro.ir.types import ScalarType, TensorType, TileType
from pypto_pro.ops.entry import Keyword, Kind, Operand, Role
from pypto_pro.ops.tensors import TensorArg

Array: TypeAlias = NDArray[Any]


@lru_cache(maxsize=4096)
def tile_geometry(
    type_: TileType, row_extent: int | None = None, col_extent: int | None = None
) -> layouts.Geometry:
    """The byte order of a tile type; the extents replace declared R/C as strides (types-and-memory 4.4)."""
    return layouts.geometry(
        type_.layout, type_.fractal, type_.dtype, type_.rows, type_.cols, space=type_.space,
        row_extent=row_extent, col_extent=col_extent,
    )


@dataclass(slots=True)
class TileArg:
    """A tile at run time: type, byte memory of its space, address, valid rows and columns at issue.

    `peers`: for a Vec tile named by the cube core, the Vec memories of AIV0 and AIV1 (`mem` is then that of AIV0).
    """

    type: TileType
    mem: NDArray[np.uint8]
    addr: int
    vr: int
    vc: int
    peers: tuple[NDArray[np.uint8], ...] = ()

    def on(self, sub: int) -> TileArg:
        """The same tile in the Vec memory of AIV `sub`."""
        return replace(self, mem=self.peers[sub])

    def values(self, rows: int, cols: int, r0: int = 0, c0: int = 0, **extents: int | None) -> Array:
        """Decoded float32 (floats) or int64 (ints) values of a rectangle; see `bits` for the extents."""
        return numerics.decode(self.bits(rows, cols, r0, c0, **extents), self.dtype)

    @property
    def dtype(self) -> DataType:
        """Element dtype."""
        return self.type.dtype

    def bits(
        self, rows: int | None = None, cols: int | None = None, r0: int = 0, c0: int = 0,
        *, row_extent: int | None = None, col_extent: int | None = None,
    ) -> Array:
        """Raw element bits of a rectangle (default: the valid one), shape (rows, cols)."""
        geo = tile_geometry(self.type, row_extent, col_extent)
        shape = (self.vr if rows is None else rows, self.vc if cols is None else cols)
        return layouts.read(self.mem, self.addr, geo, r0, c0, *shape)

    def put_bits(
        self, bits: Array, r0: int = 0, c0: int = 0, *, row_extent: int | None = None, col_extent: int | None = None,
    ) -> None:
        """Write raw element bits, shape (rows, cols), at (r0, c0)."""
        geo = tile_geometry(self.type, row_extent, col_extent)
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


@dataclass(frozen=True, slots=True)
class TileInfo:
    """A tile as `rules` sees it; `addr` is None when chosen at run time.

    `skew`: bytes from a 32-byte boundary to its start, None when only the run knows.
    """

    type: TileType
    name: str
    addr: int | None = None
    skew: int | None = 0

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
