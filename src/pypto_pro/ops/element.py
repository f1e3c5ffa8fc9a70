"""Scalar access to one element: `getval`, `setval`, and what `t[i, j]` stands for.

The offset counts elements of the raw storage from the container's first byte; layouts and view strides are not applied,
so `t[i, j]`, a row-major number over the declared shape, means element (i, j) of ND tiles and contiguous tensors only.
Executed by S; GM accesses go through the core's data cache, which the executor models. No bounds checks on the device.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from pypto_pro.enums import MemorySpace, PipeType
from pypto_pro.ops.builder import Builder, NativeScalar, NativeTensor, NativeTile
from pypto_pro.ops.entry import Access, Bytes, Effect, Kind, Operand, Role, Section, defop
from pypto_pro.ops.operands import ScalarIn, ScalarInfo, TensorInfo, TileArg, TileInfo
from pypto_pro.ops.tensors import TensorArg
from pypto_pro.ops.vec_elementwise import element

_HOLDER = frozenset({Kind.TILE, Kind.TENSOR})
ReadHolder = Annotated["TileArg | TensorArg", Operand(_HOLDER, Role.IN, (MemorySpace.Vec,))]
WriteHolder = Annotated["TileArg | TensorArg", Operand(_HOLDER, Role.OUT, (MemorySpace.Vec,))]


def _section(container: Any, **_: Any) -> Section:
    return Section.VECTOR if hasattr(container.type, "target_memory") else Section.BOTH


def _check(container: TileInfo | TensorInfo, offset: ScalarInfo) -> None:
    if container.dtype.is_storage_only:
        raise TypeError(f"`{container.name}` is {container.dtype.name}, which has no scalar access")
    if not offset.type.dtype.is_int():
        raise TypeError(f"the offset must be an integer, found {offset.type.dtype.name}")


def _touched(container: Any, offset: Any, effect: Effect) -> list[Access]:
    width = container.dtype.nbytes
    return [Access("container", effect, Bytes(offset * width, width))]


def _bytes_of(container: TileArg | TensorArg, offset: int | float) -> slice | None:
    """Where the element lies in the container's memory; None outside it."""
    width = container.dtype.nbytes
    start = (container.addr if isinstance(container, TileArg) else container.base) + int(offset) * width
    return slice(start, start + width) if 0 <= start <= container.mem.size - width else None


@defop("pl.getval", pipe=PipeType.S, section=_section, family="scalar.access", results=1, type_errors=True)
def getval(container: ReadHolder, offset: ScalarIn) -> Any:
    """Element number `offset` of the raw storage, as a scalar of the element dtype."""
    place = _bytes_of(container, offset)
    if place is None:
        return np.zeros(1, container.dtype.bits_dtype).view(container.dtype.numpy)[0]
    return container.mem[place].copy().view(container.dtype.numpy)[0]


@getval.lower
def _(k: Builder, container: NativeTile | NativeTensor, offset: NativeScalar) -> Any:
    k.result(k.load_scalar(k.element(container, offset), container.dtype))


@getval.rules
def _(container: TileInfo | TensorInfo, offset: ScalarInfo) -> None:
    _check(container, offset)


@getval.regions
def _(container: TileArg | TensorArg, offset: Any) -> list[Access]:
    return _touched(container, offset, Effect.READ)


@defop("pl.setval", pipe=PipeType.S, section=_section, family="scalar.access", type_errors=True)
def setval(container: WriteHolder, offset: ScalarIn, value: ScalarIn) -> None:
    """Write a scalar, converted to the element dtype by C rules, as element number `offset` of the raw storage."""
    place = _bytes_of(container, offset)
    if place is not None:
        container.mem[place] = np.frombuffer(element(value, container.dtype).tobytes(), np.uint8)


@setval.lower
def _(k: Builder, container: NativeTile | NativeTensor, offset: NativeScalar, value: NativeScalar) -> Any:
    k.store_scalar(value.to(container.dtype), k.element(container, offset), container.dtype)


@setval.rules
def _(container: TileInfo | TensorInfo, offset: ScalarInfo, value: ScalarInfo) -> None:
    _check(container, offset)


@setval.regions
def _(container: TileArg | TensorArg, offset: Any, value: Any) -> list[Access]:
    return _touched(container, offset, Effect.WRITE)
