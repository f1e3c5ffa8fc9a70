"""Memories and what refers to them: storage instances, host buffers, tile and tensor descriptors, pointers.

A descriptor is mutable and belongs to the scalar unit; the operand an instruction captures at issue is a frozen
snapshot (`SimTile`, `SimTensor`). A descriptor makes a new snapshot only when it changes, so equal operands are
usually the same object and what depends on them can be cached by identity.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pypto_pro.enums import MemorySpace, TensorLayout
from pypto_pro.ir.launch import BufferValue
from pypto_pro.ir.types import TensorType, TileType
from pypto_pro.layouts import window_view
from pypto_pro.ops.operands import TileArg, tile_geometry
from pypto_pro.ops.tensors import TensorArg

POISON = 0xFF
"""Fresh on-chip bytes: NaN in every float format, -1 in the integers."""


class Pool:
    """Byte arrays to use again, by size. `fill` is what a taken one holds everywhere."""

    __slots__ = ("fill", "spare")

    def __init__(self, fill: int) -> None:
        self.fill = fill
        self.spare: dict[int, list[NDArray[np.uint8]]] = {}

    def take(self, size: int) -> NDArray[np.uint8]:
        """An array of `size` bytes."""
        spare = self.spare.get(size)
        if not spare:
            return np.full(size, self.fill, np.uint8)
        found = spare.pop()
        found.fill(self.fill)
        return found

    def give(self, used: NDArray[np.uint8]) -> None:
        """An array nobody uses any more."""
        self.spare.setdefault(used.size, []).append(used)


class Storage:
    """One memory instance. GM is one instance whose byte addresses are host addresses; others start at 0.

    `name` is as a report prints it: `UB of AIV0, block 3`, `GM`. `capacity`: bytes that may be addressed; 0 for GM,
    where every buffer has its own size. Its bytes are taken from a pool at first use and given back with `release`.
    """

    __slots__ = ("_mem", "capacity", "name", "pool", "space")

    def __init__(self, name: str, space: MemorySpace, capacity: int, pool: Pool) -> None:
        self.name = name
        self.space = space
        self.capacity = capacity
        self.pool = pool
        self._mem: NDArray[np.uint8] | None = None

    @classmethod
    def on_chip(cls, name: str, space: MemorySpace, capacity: int) -> Storage:
        """A poisoned memory outside any launch."""
        return cls(name, space, capacity, Pool(POISON))

    @property
    def mem(self) -> NDArray[np.uint8]:
        """Its bytes."""
        if self._mem is None:
            self._mem = self.pool.take(self.capacity)
        return self._mem

    def over(self, mem: NDArray[np.uint8]) -> Storage:
        """The same memory with other bytes."""
        twin = Storage(self.name, self.space, self.capacity, self.pool)
        twin._mem = mem
        return twin

    def release(self) -> None:
        """Nobody reads or writes it any more."""
        if self._mem is not None:
            self.pool.give(self._mem)
            self._mem = None


GM = Storage.on_chip("GM", MemorySpace.DDR, 0)


@dataclass(slots=True, eq=False)
class Buffer:
    """Host memory behind a tensor or pointer argument; address 0 with size 0 is the null pointer."""

    name: str
    address: int
    mem: NDArray[np.uint8]
    row_bytes: int = 0
    """Bytes of a row of a tensor of several rows, for reports; 0 for other arguments."""

    @classmethod
    def of(cls, name: str, value: BufferValue, row_bytes: int = 0) -> Buffer:
        """A view of the caller's bytes, never a copy."""
        if value.size_bytes == 0:
            return cls(name, value.address, np.zeros(0, np.uint8))
        raw = memoryview((ctypes.c_uint8 * value.size_bytes).from_address(value.address)).cast("B")
        return cls(name, value.address, np.frombuffer(raw, np.uint8), row_bytes)


@dataclass(frozen=True, slots=True)
class GmPtr:
    """A GM address: a buffer and a byte offset into it, which may lie outside."""

    buffer: Buffer
    offset: int

    def plus(self, count: int) -> GmPtr:
        """Moved by `count` bytes."""
        return GmPtr(self.buffer, self.offset + count)

    @property
    def is_null(self) -> bool:
        """Whether it is the null pointer."""
        return self.buffer.address + self.offset == 0

    @property
    def address(self) -> int:
        """The host address."""
        return self.buffer.address + self.offset


@dataclass(slots=True, eq=False)
class SimTile(TileArg):
    """A captured tile operand. `stores`: the memory instances `mem`, or `peers`, belong to.

    `reserved` are the bytes its declaration reserves; `root` and `shift` (bytes) say which tile a `tile + k` moves.
    """

    stores: tuple[Storage, ...] = ()
    name: str = ""
    reserved: tuple[int, int] = (0, 0)
    root: SimTile | None = None
    shift: int = 0
    views: dict[tuple[int | None, ...], NDArray[Any] | None] = field(default_factory=dict, init=False)
    """Views of `mem` by window; made once, since neither the descriptor nor the memory of a snapshot changes."""
    owner: Tile | None = field(default=None, init=False)
    """The descriptor that made the snapshot."""
    twins: dict[int, SimTile] = field(default_factory=dict, init=False)

    __eq__ = object.__eq__  # identity: what depends on an operand is kept by the operand object
    __hash__ = object.__hash__

    def bits(
        self, rows: int | None = None, cols: int | None = None, r0: int = 0, c0: int = 0,
        *, row_extent: int | None = None, col_extent: int | None = None,
    ) -> NDArray[Any]:
        rows = self.vr if rows is None else rows
        cols = self.vc if cols is None else cols
        view = self.view((rows, cols, r0, c0, row_extent, col_extent))
        if view is None:
            return TileArg.bits(self, rows, cols, r0, c0, row_extent=row_extent, col_extent=col_extent)
        return np.array(view).reshape(rows, cols)

    def put_bits(
        self, bits: NDArray[Any], r0: int = 0, c0: int = 0, *, row_extent: int | None = None,
        col_extent: int | None = None,
    ) -> None:
        view = self.view((*bits.shape, r0, c0, row_extent, col_extent))
        if view is None:
            TileArg.put_bits(self, bits, r0, c0, row_extent=row_extent, col_extent=col_extent)
        else:
            view[...] = bits.reshape(view.shape)

    def view(self, window: tuple[int | None, ...]) -> NDArray[Any] | None:
        """A window (rows, cols, r0, c0, row_extent, col_extent) as one view of the memory; None when it is not one."""
        if window not in self.views:
            if len(self.views) > 64:
                self.views.clear()
            rows, cols, r0, c0, row_extent, col_extent = window
            geo = tile_geometry(self.type, row_extent, col_extent)
            self.views[window] = window_view(self.mem, self.addr, geo, r0 or 0, c0 or 0, rows or 0, cols or 0)
        return self.views[window]

    def on(self, sub: int) -> SimTile:
        if not self.peers:  # a kernel without vector cores: the absent memory stands for both
            return self
        twin = self.twins.get(sub)
        if twin is None:
            twin = self.twins[sub] = replace(self, mem=self.peers[sub])
        return twin

    def like(self, addr: int, vr: int, vc: int) -> SimTile:
        """The same tile with another descriptor."""
        return SimTile(
            self.type, self.mem, addr, vr, vc, self.peers, self.stores, self.name, self.reserved, self.root, self.shift
        )

    def store_of(self, sub: int | None) -> Storage:
        """The memory of AIV `sub` for a Vec tile named by the cube core (None: AIV0), else the tile's own."""
        return self.stores[sub] if sub and sub < len(self.stores) else self.stores[0]

    def moved(self, elements: int) -> SimTile:
        """The same tile further on by `elements` (vector functions only)."""
        count = elements * self.type.dtype.bits() // 8
        tile = self.like(self.addr + count, self.vr, self.vc)
        tile.root = self.root or self
        tile.shift = self.shift + count
        return tile


@dataclass(slots=True, eq=False)
class SimTensor(TensorArg):
    """A captured tensor operand with the buffer it lies in."""

    buffer: Buffer | None = None
    name: str = ""

    __eq__ = object.__eq__
    __hash__ = object.__hash__


class Tile:
    """A tile descriptor of one core: the current snapshot and its mutex ids.

    Snapshots are kept by address and extents, so a loop that alternates between shapes makes each of them once.
    """

    __slots__ = ("_made", "arg", "mutex", "set_at")

    def __init__(self, arg: SimTile, mutex: tuple[int, ...] = ()) -> None:
        self.arg = arg
        self.set_at: tuple[Any, tuple[int, ...]] | None = None
        """The statement that set the valid shape and the loop variables then; None when declared so."""
        if arg.owner is None:
            arg.owner = self
        self.mutex = mutex
        self._made: dict[tuple[int, int, int, int], SimTile] = {}

    def set_valid(self, rows: int, cols: int, place: Any = None, trips: tuple[int, ...] = ()) -> None:
        """`set_validshape`; negative extents, which no device defines, count as 0. `place`, `trips`: see `set_at`."""
        self.set_at = None if place is None else (place, trips)
        old = self.arg
        if old.vr != rows or old.vc != cols:
            self.arg = self._snapshot(old, old.addr, rows, cols)

    def reset(self) -> None:
        """As declared: static valid extents, full where they are set at run time."""
        self.set_valid(*declared_extents(self.arg.type))

    def view(self, base: Tile, row: int, col: int, rows: int, cols: int) -> None:
        """Become the window of `base` at (row, col) with `rows` x `cols` valid elements."""
        whole = base.arg
        type_ = whole.type
        down = tile_geometry(type_).layout is TensorLayout.DN
        elements = col * type_.rows + row if down else row * type_.cols + col
        self.arg = self._snapshot(whole, whole.addr + elements * type_.dtype.bits() // 8, rows, cols)
        self.mutex = base.mutex

    def copy(self, source: Tile) -> None:
        """Become an independent copy of another descriptor."""
        self.arg = source.arg
        self.mutex = source.mutex
        self.set_at = source.set_at

    def _snapshot(self, like: SimTile, addr: int, rows: int, cols: int) -> SimTile:
        key = (addr, rows, cols, id(like.mem))
        made = self._made.get(key)
        if made is None or made.type is not like.type:
            if len(self._made) > 256:
                self._made.clear()
            made = self._made[key] = like.like(addr, max(rows, 0), max(cols, 0))
            made.owner = self
        return made


class Tensor:
    """A tensor variable's view record."""

    __slots__ = ("arg",)

    def __init__(self, arg: SimTensor) -> None:
        self.arg = arg

    def set_stride(self, row: int, col: int) -> None:
        """The transfer strides of later loads and stores (elements)."""
        old = self.arg
        self.arg = SimTensor(
            old.type, old.mem, old.base, old.dims, old.strides, (row, col), old.buffer, old.name
        )

    @property
    def ptr(self) -> GmPtr:
        """Its first element's address."""
        assert self.arg.buffer is not None
        return GmPtr(self.arg.buffer, self.arg.base)


def row_major(dims: tuple[int, ...]) -> tuple[int, ...]:
    """Contiguous strides in elements."""
    strides = [1] * len(dims)
    for axis in range(len(dims) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * dims[axis + 1]
    return tuple(strides)


def tensor_view(
    type_: TensorType, ptr: GmPtr, dims: tuple[int, ...], strides: tuple[int, ...] | None, name: str
) -> SimTensor:
    """The record of `make_tensor`, or of a parameter."""
    return SimTensor(
        type_, ptr.buffer.mem, ptr.offset, dims, row_major(dims) if strides is None else strides, None, ptr.buffer, name
    )


def declared_tile(type_: TileType, addr: int, size: int, stores: tuple[Storage, ...], name: str) -> SimTile:
    """A tile as declared, reserving `size` bytes.

    `stores`: one memory, or the Vec memories of both vector cores on the cube core.
    """
    peers = tuple(s.mem for s in stores) if len(stores) > 1 else ()
    return SimTile(
        type_, stores[0].mem, addr, *declared_extents(type_), peers, stores, name, (addr, addr + size)
    )


def declared_extents(type_: TileType) -> tuple[int, int]:
    """Valid rows and columns of a tile as made: static where declared so, else the full shape."""
    shape = [s if v == -1 else v for s, v in zip(type_.shape, type_.valid_shape, strict=True)]
    return (shape[0], shape[1]) if len(shape) == 2 else (1, shape[-1])


def null_buffer(name: str) -> Buffer:
    """What `None` stands for."""
    return Buffer(name, 0, np.zeros(0, np.uint8))
