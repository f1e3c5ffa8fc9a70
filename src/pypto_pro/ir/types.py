"""Types of the IR: what a scalar, tile, tensor, pointer, struct or register is. All frozen, hashable, comparable.

`TileType` is also the class authors construct (`pl.TileType`); its checks are those of the language.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from pypto_pro.dtypes import DataType
from pypto_pro.enums import CompactMode, MemorySpace, TensorLayout, TilePad
from pypto_pro.hw.a5 import SPACES


@dataclass(frozen=True, slots=True)
class ScalarType:
    """One number. `DT_INDEX` is the 64-bit signed type of int literals, loop variables and index arithmetic."""

    dtype: DataType


@dataclass(frozen=True, slots=True)
class PtrType:
    """A raw GM address with the dtype its arithmetic counts in."""

    dtype: DataType


@dataclass(frozen=True, slots=True)
class TensorType:
    """A GM tensor or view: element dtype, one entry a dimension (an int, or None when only known at run time)."""

    dtype: DataType
    dims: tuple[int | None, ...]
    layout: TensorLayout = TensorLayout.ND

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.dims)


@dataclass(frozen=True, init=False)
class TileType:
    """Shape, dtype, memory space and addressing of a tile; no address, no allocation.

    `shape` reserves and addresses (rows, columns, elements); `valid_shape` says what is computed or moved, -1 =
    set at run time, None = both at run time; `layout`, `fractal` default by memory space; `pad` fills the tail of
    the last 32-byte block; `compact` chooses the packed stride. Raises ValueError and TypeError in the order of the
    language's resolution rules (types-and-memory 5).
    """

    shape: tuple[int, ...]
    dtype: DataType
    target_memory: MemorySpace
    valid_shape: tuple[int, ...]
    layout: TensorLayout | None
    fractal: int
    pad: int | None
    compact: int
    explicit_layout: bool

    def __init__(
        self,
        shape: tuple[int, ...] | list[int],
        dtype: DataType,
        target_memory: MemorySpace = MemorySpace.Vec,
        valid_shape: tuple[int, ...] | list[int] | None = None,
        layout: TensorLayout | None = None,
        fractal: int | None = None,
        pad: TilePad | int | None = None,
        compact: CompactMode | int | None = None,
    ) -> None:
        set_ = object.__setattr__
        space = SPACES[target_memory]
        set_(self, "pad", _pad_value(pad))
        set_(self, "explicit_layout", layout is not None)
        layout = layout if layout is not None else space.default_layout
        _check_layout(target_memory, layout, dtype)
        set_(self, "shape", tuple(shape))
        set_(self, "dtype", dtype)
        set_(self, "target_memory", target_memory)
        set_(self, "valid_shape", tuple(valid_shape) if valid_shape is not None else (-1,) * len(self.shape))
        set_(self, "layout", layout)
        set_(self, "fractal", _fractal_value(fractal, target_memory, layout, dtype))
        set_(self, "compact", compact.value if isinstance(compact, CompactMode) else int(compact or 0))

    @cached_property
    def _hash(self) -> int:
        return hash((self.shape, self.dtype, self.target_memory, self.valid_shape, self.layout, self.fractal))

    def __hash__(self) -> int:
        """Computed once: variables are keys of many tables, and most of them are tiles."""
        return self._hash

    @property
    def space(self) -> MemorySpace:
        """The memory space, under the short name the compiler uses."""
        return self.target_memory

    @property
    def rows(self) -> int:
        """Declared rows R."""
        return self.shape[0]

    @property
    def cols(self) -> int:
        """Declared columns C."""
        return self.shape[1]

    @property
    def is_dynamic(self) -> bool:
        """Whether `set_validshape` may change it: both axes are -1."""
        return all(v == -1 for v in self.valid_shape)


def _pad_value(pad: TilePad | int | None) -> int | None:
    if pad is None:
        return None
    if isinstance(pad, TilePad):
        return int(pad.value)
    if isinstance(pad, bool) or not isinstance(pad, int):
        raise TypeError(f"pad must be a TilePad or an int from 0 to 3, found {type(pad).__name__}")
    if not 0 <= pad <= 3:
        raise ValueError(f"pad must be from 0 to 3, found {pad}")
    return pad


def _check_layout(space: MemorySpace, layout: TensorLayout | None, dtype: DataType) -> None:
    found = "none" if layout is None else layout.name
    near_cube = space in (MemorySpace.Left, MemorySpace.Right, MemorySpace.Acc)
    if near_cube and layout in (TensorLayout.ZZ, TensorLayout.NN):
        raise ValueError(f"a {space.name} tile cannot be {found} on A5; leave the layout out")
    if not SPACES[space].allows(layout, dtype):
        raise ValueError(f"layout {found} is not allowed for a {dtype.name} tile in {space.name}")


def _fractal_value(fractal: int | None, space: MemorySpace, layout: TensorLayout | None, dtype: DataType) -> int:
    if fractal is not None:
        return fractal
    if space in (MemorySpace.ScaleLeft, MemorySpace.ScaleRight):
        return 32
    if space is MemorySpace.Acc and dtype in (DataType.DT_FP32, DataType.DT_INT32):
        return 1024
    is_scale = dtype is DataType.DT_FP8E8M0 and layout in (TensorLayout.ZZ, TensorLayout.NN)
    return 32 if space is MemorySpace.Mat and is_scale else 512


@dataclass(frozen=True, slots=True)
class GroupType:
    """N tiles of one type behind a rotating cursor."""

    tile: TileType
    depth: int
    ids_per_slot: int


@dataclass(frozen=True, slots=True)
class ArrayType:
    """A fixed-length array of scalars inside a struct."""

    element: ScalarType
    length: int


@dataclass(frozen=True)
class StructType:
    """A C struct of scalars, arrays and structs, in declaration order. `is_tiling`: read-only launch data."""

    name: str
    fields: tuple[tuple[str, ScalarType | ArrayType | StructType], ...]
    is_tiling: bool = False

    def field(self, name: str) -> ScalarType | ArrayType | StructType | None:
        """The type of one field, None when there is none of that name."""
        return dict(self.fields).get(name)


@dataclass(frozen=True, slots=True)
class StructArrayType:
    """N structs of one type."""

    struct: StructType
    length: int


@dataclass(frozen=True, slots=True)
class RegType:
    """A 256-byte vector register of one dtype."""

    dtype: DataType


@dataclass(frozen=True, slots=True)
class MaskType:
    """A 256-bit predicate, one bit a register byte; `dtype` is the granularity tag used for inference only."""

    dtype: DataType


@dataclass(frozen=True, slots=True)
class AddrRegType:
    """An address register: an element offset per loop axis."""

    dtype: DataType


@dataclass(frozen=True, slots=True)
class UnalignRegType:
    """A 32-byte staging register of an unaligned stream; `is_store` tells the direction."""

    is_store: bool


Type: TypeAlias = (
    ScalarType | PtrType | TensorType | TileType | GroupType | StructType | StructArrayType
    | RegType | MaskType | AddrRegType | UnalignRegType
)

INDEX = ScalarType(DataType.DT_INDEX)
BOOL = ScalarType(DataType.DT_BOOL)
FP32 = ScalarType(DataType.DT_FP32)
