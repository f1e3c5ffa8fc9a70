"""What a core program starts with: its parameters and the descriptors its variables own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pypto_pro import layouts
from pypto_pro.enums import MemorySpace
from pypto_pro.hw.a5 import MUTEX_IDS
from pypto_pro.interp.memory import (
    Buffer,
    GmPtr,
    SimTensor,
    Storage,
    Tensor,
    Tile,
    declared_tile,
    null_buffer,
    tensor_view,
)
from pypto_pro.interp.scalars import typed
from pypto_pro.interp.structs import unpack
from pypto_pro.ir.launch import BufferValue, Launch, TilingValue
from pypto_pro.ir.nodes import CopyTensor, CopyTile, GroupDecl, Kernel, SubView, TensorDecl, TileDecl, Var
from pypto_pro.ir.types import GroupType, PtrType, ScalarType, StructType, TensorType, TileType

if TYPE_CHECKING:
    from pypto_pro.interp.machine import Core

_NO_BUFFER = null_buffer("")
NO_POINTER = GmPtr(_NO_BUFFER, 0)


def buffers_of(kernel: Kernel, launch: Launch) -> list[Buffer | None]:
    """Host memory of each argument, None for scalars and structs."""
    return [
        Buffer.of(param.name, value, _row_bytes(param.type, value)) if isinstance(value, BufferValue) else None
        for param, value in zip(kernel.params, launch.args, strict=True)
    ]


def _row_bytes(type_: Any, value: BufferValue) -> int:
    dims = value.dims or ()
    two_dimensional = isinstance(type_, TensorType) and len(dims) == 2 and dims[0] > 1 and not type_.dtype.is_sub_byte
    return dims[1] * type_.dtype.nbytes if two_dimensional else 0


def parameters(kernel: Kernel, launch: Launch, buffers: list[Buffer | None]) -> tuple[Any, ...]:
    """Values of the parameters for one core; each core has its own view records and structs."""
    found: list[Any] = []
    for param, value, buffer in zip(kernel.params, launch.args, buffers, strict=True):
        match param.type, value:
            case TensorType() as type_, BufferValue(dims=dims):
                assert buffer is not None
                extents = dims or (0,) * type_.rank
                found.append(Tensor(tensor_view(type_, GmPtr(buffer, 0), extents, None, param.name)))
            case PtrType(), _:
                assert buffer is not None
                found.append(GmPtr(buffer, 0))
            case StructType() as struct, TilingValue(data):
                found.append(unpack(struct, data))
            case ScalarType(dtype), bool() | int() | float():
                found.append(typed(value, dtype))
            case _:
                raise TypeError(f"argument {param.name} does not fit its parameter")
    return tuple(found)


def stores_of(core: Core, space: MemorySpace) -> tuple[Storage, ...]:
    """The memories a tile of a space lies in, as this core sees it.

    Code outside the sections declares tiles on both core kinds; a core that has no such memory in its block gets an
    empty one, so that an access is out of bounds.
    """
    found = core.stores.get(space)
    if found is None:
        found = core.stores[space] = (Storage.on_chip(f"{space.name} (absent)", space, 0),)
    return found


def owned_tile(core: Core, decl: TileDecl | SubView | CopyTile) -> Tile:
    """The descriptor of a declared tile; a window or a merged copy starts as nothing."""
    if not isinstance(decl, TileDecl):
        return no_tile(core, decl.var)
    type_ = decl.var.type
    assert isinstance(type_, TileType)
    size = layouts.slot_size(type_.shape, type_.dtype) if decl.size is None else decl.size
    return Tile(declared_tile(type_, decl.addr, size, stores_of(core, type_.space), shown(decl.var)))


def group_of_slots(core: Core, decl: GroupDecl) -> tuple[Tile, ...]:
    """A descriptor for each slot."""
    type_ = decl.var.type
    assert isinstance(type_, GroupType)
    size = layouts.slot_size(type_.tile.shape, type_.tile.dtype)
    ids = decl.mutex_ids or ((),) * type_.depth
    stores = stores_of(core, type_.tile.space)
    return tuple(
        Tile(declared_tile(type_.tile, addr, size, stores, f"{shown(decl.var)}[{k}]"), ids[k])
        for k, addr in enumerate(decl.addrs)
    )


def tensor_record(decl: TensorDecl | CopyTensor) -> Tensor:
    """An empty view record, filled when the declaration is executed."""
    return Tensor(_empty_view(decl.var))


def initial_reference(core: Core, var: Var) -> Tile | Tensor:
    """What a reference variable refers to before its first assignment: nothing, with extents 0."""
    return no_tile(core, var) if isinstance(var.type, TileType) else Tensor(_empty_view(var))


def no_tile(core: Core, var: Var) -> Tile:
    """No rows, no columns, mutex id 0 wherever an id is asked for: the zeros a native descriptor starts with."""
    assert isinstance(var.type, TileType)
    tile = Tile(declared_tile(var.type, 0, 0, stores_of(core, var.type.space), shown(var)), (0,) * len(MUTEX_IDS))
    tile.set_valid(0, 0)
    return tile


def _empty_view(var: Var) -> SimTensor:
    assert isinstance(var.type, TensorType)
    return tensor_view(var.type, NO_POINTER, (0,) * var.type.rank, None, shown(var))


def shown(var: Var) -> str:
    """The author's name of a variable: versions are counted after a `$`."""
    return var.name.split("$", 1)[0]
