"""Scalar access to one element: `getval`, `setval`, and what `t[i, j]` stands for.

The offset is a row-major linear element offset over the logical shape (view strides are ignored). Executed by S; GM
accesses go through the core's data cache, which the executor models. No bounds checks on the device.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from pypto_pro.enums import MemorySpace, PipeType
from pypto_pro.ops.builder import Builder, NativeScalar, NativeTensor, NativeTile
from pypto_pro.ops.entry import Access, Box, Bytes, Effect, Kind, Operand, Role, Section, defop
from pypto_pro.ops.operands import ScalarIn, ScalarInfo, TensorInfo, TileArg, TileInfo
from pypto_pro.ops.tensors import TensorArg
from pypto_pro.ops.vec_elementwise import element

_HOLDER = frozenset({Kind.TILE, Kind.TENSOR})
ReadHolder = Annotated["TileArg | TensorArg", Operand(_HOLDER, Role.IN, (MemorySpace.Vec,))]
WriteHolder = Annotated["TileArg | TensorArg", Operand(_HOLDER, Role.OUT, (MemorySpace.Vec,))]


def _section(target: Any, **_: Any) -> Section:
    return Section.VECTOR if hasattr(target.type, "target_memory") else Section.BOTH


def _check(target: TileInfo | TensorInfo, offset: ScalarInfo) -> None:
    if target.dtype.is_storage_only:
        raise TypeError(f"`{target.name}` is {target.dtype.name}, which has no scalar access")
    if not offset.type.dtype.is_int():
        raise TypeError(f"the offset must be an integer, found {offset.type.dtype.name}")


def _touched(target: Any, offset: Any, effect: Effect) -> list[Access]:
    if hasattr(target.type, "target_memory"):
        cols = target.type.cols
        return [Access("target", effect, Box(offset // cols, offset % cols, 1, 1))]
    width = target.dtype.nbytes
    return [Access("target", effect, Bytes(offset * width, width))]


@defop("pl.getval", pipe=PipeType.S, section=_section, family="scalar.access", results=1)
def getval(target: ReadHolder, offset: ScalarIn) -> Any:
    """The element at a row-major linear offset, as a scalar of the element dtype."""
    if isinstance(target, TileArg):
        row, col = divmod(int(offset), target.type.cols)
        return target.get(1, 1, row, col)[0, 0]
    width = target.dtype.nbytes
    start = target.base + int(offset) * width
    if not 0 <= start <= target.mem.size - width:
        return np.zeros(1, target.dtype.bits_dtype).view(target.dtype.numpy)[0]
    return target.mem[start : start + width].copy().view(target.dtype.numpy)[0]


@getval.lower
def _(k: Builder, target: NativeTile | NativeTensor, offset: NativeScalar) -> Any:
    k.result(k.load_scalar(k.element(target, offset), target.dtype))


@getval.rules
def _(target: TileInfo | TensorInfo, offset: ScalarInfo) -> None:
    _check(target, offset)


@getval.regions
def _(target: TileArg | TensorArg, offset: Any) -> list[Access]:
    return _touched(target, offset, Effect.READ)


@defop("pl.setval", pipe=PipeType.S, section=_section, family="scalar.access")
def setval(target: WriteHolder, offset: ScalarIn, value: ScalarIn) -> None:
    """Write a scalar, converted to the element dtype by C rules, at a row-major linear offset."""
    new = element(value, target.dtype)
    if isinstance(target, TileArg):
        row, col = divmod(int(offset), target.type.cols)
        target.put(new.reshape(1, 1), row, col)
        return
    width = target.dtype.nbytes
    start = target.base + int(offset) * width
    if 0 <= start <= target.mem.size - width:
        target.mem[start : start + width] = np.frombuffer(new.tobytes(), np.uint8)


@setval.lower
def _(k: Builder, target: NativeTile | NativeTensor, offset: NativeScalar, value: NativeScalar) -> Any:
    k.store_scalar(value.to(target.dtype), k.element(target, offset), target.dtype)


@setval.rules
def _(target: TileInfo | TensorInfo, offset: ScalarInfo, value: ScalarInfo) -> None:
    _check(target, offset)


@setval.regions
def _(target: TileArg | TensorArg, offset: Any, value: Any) -> list[Access]:
    return _touched(target, offset, Effect.WRITE)
