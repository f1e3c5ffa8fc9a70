"""What authors write in annotations: `Tensor[[dims], dtype]`, `Ptr[dtype]`, `Tile[[R, C], dtype]`, DYNAMIC, STATIC.

`Tensor[...]` and its kin give small records that `signature` reads; nothing here is ever instantiated in a kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from types import EllipsisType
from typing import Any, ClassVar, TypeAlias

from pypto_pro.dtypes import DataType
from pypto_pro.enums import MemorySpace, TensorLayout


class DimPolicy(Enum):
    """How a dimension is known: DYNAMIC at run time (no recompilation), STATIC as a constant of its own variant."""

    DYNAMIC = "DYNAMIC"
    STATIC = "STATIC"

    def __repr__(self) -> str:
        return f"pl.{self.name}"


DYNAMIC = DimPolicy.DYNAMIC
STATIC = DimPolicy.STATIC
Dim: TypeAlias = int | DimPolicy


@dataclass(frozen=True)
class MemRef:
    """An explicit memory reference in an annotation; accepted and kept, decides nothing."""

    space: MemorySpace = MemorySpace.DDR
    address: int = 0
    size: int = 0
    id: int = 0


@dataclass(frozen=True)
class TensorAnnotation:
    """`pl.Tensor[...]`: explicit dims, whether `...` follows them, dtype, layout (None: not written)."""

    dims: tuple[Dim, ...]
    open_ended: bool
    dtype: DataType
    layout: TensorLayout | None = None
    memref: MemRef | None = None

    @property
    def is_special(self) -> bool:
        """Whether a helper's parameter of it is matched by dtype and rank too."""
        return self.open_ended or any(isinstance(d, DimPolicy) for d in self.dims)


@dataclass(frozen=True)
class PtrAnnotation:
    """`pl.Ptr[dtype]`."""

    dtype: DataType


@dataclass(frozen=True)
class TileAnnotation:
    """`pl.Tile[[R, C], dtype]`."""

    shape: tuple[int, ...]
    dtype: DataType
    memref: MemRef | None = None


@dataclass(frozen=True)
class ScalarAnnotation:
    """`pl.Scalar[dtype]`, which kernels do not accept."""

    dtype: Any


Annotation: TypeAlias = TensorAnnotation | PtrAnnotation | TileAnnotation | ScalarAnnotation

_TENSOR_LAYOUTS = (TensorLayout.ND, TensorLayout.DN, TensorLayout.NZ)


class Tensor:
    """`pl.Tensor[[dims], dtype]`, with a layout and/or a MemRef behind; `pl.Tensor([dims], dtype)` means the same."""

    __slots__ = ()

    def __class_getitem__(cls, items: Any) -> TensorAnnotation:
        parts = items if isinstance(items, tuple) else (items,)
        if not 2 <= len(parts) <= 4:
            raise TypeError(f"pl.Tensor takes [shape, dtype], a layout and a memref; found {len(parts)} items")
        dims, dtype, *rest = parts
        layout: TensorLayout | None = None
        memref: MemRef | None = None
        if rest and not isinstance(rest[0], MemRef):
            layout = _layout(rest.pop(0))
        if rest:
            memref = _memref(rest.pop(0), "Tensor")
        if rest:
            raise TypeError("pl.Tensor takes nothing after a memref")
        return TensorAnnotation(*read_dims(dims), _dtype(dtype, "Tensor"), layout, memref)

    def __new__(cls, dims: Any, dtype: Any) -> Any:
        """The legacy call form of the annotation."""
        return TensorAnnotation(*read_dims(dims), _dtype(dtype, "Tensor"))


class Ptr:
    """`pl.Ptr[dtype]`: a raw address in global memory."""

    def __class_getitem__(cls, dtype: Any) -> PtrAnnotation:
        return PtrAnnotation(_dtype(dtype, "Ptr"))


class Tile:
    """`pl.Tile[[R, C], dtype]`: annotation of helper parameters and locals."""

    def __class_getitem__(cls, items: Any) -> TileAnnotation:
        parts = items if isinstance(items, tuple) else (items,)
        if not 2 <= len(parts) <= 3:
            raise TypeError(f"pl.Tile takes [shape, dtype] and a memref behind; found {len(parts)} items")
        dims, open_ended = read_dims(parts[0])
        if open_ended or not all(isinstance(d, int) for d in dims):
            raise TypeError("the shape of pl.Tile is a list of positive ints")
        memref = _memref(parts[2], "Tile") if len(parts) == 3 else None
        return TileAnnotation(tuple(int(d) for d in dims if isinstance(d, int)), _dtype(parts[1], "Tile"), memref)


class Scalar:
    """Not a constructor of kernels: scalars are annotated `pl.DT_x`, typed constants are `pl.const(value, dtype)`."""

    __hash__: ClassVar[Any] = None

    def __class_getitem__(cls, dtype: Any) -> ScalarAnnotation:
        return ScalarAnnotation(dtype)


def read_dims(dims: Any) -> tuple[tuple[Dim, ...], bool]:
    """(explicit dims, whether `...` follows) of a written shape. TypeError for anything else in it."""
    if not isinstance(dims, list | tuple):
        raise TypeError(f"a shape is a list of dims, found {_written(dims)}")
    open_ended = bool(dims) and isinstance(dims[-1], EllipsisType)
    explicit = dims[:-1] if open_ended else dims
    for dim in explicit:
        if isinstance(dim, EllipsisType):
            raise TypeError("`...` may only be the last dim, and only once")
        if not isinstance(dim, DimPolicy) and (isinstance(dim, bool) or not isinstance(dim, int) or dim <= 0):
            raise TypeError(f"a dim is a positive int, pl.DYNAMIC or pl.STATIC, found {_written(dim)}")
    return tuple(explicit), open_ended


def _written(value: Any) -> str:
    return f"{value!r} ({type(value).__name__})"


def _dtype(value: Any, owner: str) -> DataType:
    if not isinstance(value, DataType):
        raise TypeError(f"pl.{owner} takes a dtype (pl.DT_...), found {_written(value)}")
    return value


def _layout(value: Any) -> TensorLayout:
    if not isinstance(value, TensorLayout) or value not in _TENSOR_LAYOUTS:
        raise TypeError(f"the layout of a pl.Tensor is pl.ND, pl.DN or pl.NZ, found {_written(value)}")
    return value


def _memref(value: Any, owner: str) -> MemRef:
    if not isinstance(value, MemRef):
        raise TypeError(f"the last item of pl.{owner} is a pl.MemRef, found {_written(value)}")
    return value
