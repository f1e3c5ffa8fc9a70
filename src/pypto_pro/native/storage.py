"""Where the variables of a program live: stack slots of a plain function, or the heap frame of a resumable one.

Descriptors and records have the layouts of `frames`; structs have their C layout. A tile or tensor variable either owns
a descriptor or record (it is the target of a declaration) or holds a pointer to somebody else's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import llvmlite.ir as ir

from pypto_pro.dtypes import DataType
from pypto_pro.enums import CoreKind
from pypto_pro.ir import nodes as n
from pypto_pro.ir.structs import layout_of
from pypto_pro.ir.types import (
    GroupType,
    PtrType,
    ScalarType,
    StructArrayType,
    StructType,
    TensorType,
    TileType,
)
from pypto_pro.ir.walk import blocks, bound_vars, statements, walk
from pypto_pro.native import codecs, frames
from pypto_pro.native.emit import F64, I64, PTR, Code, Value
from pypto_pro.native.frames import PTR_BYTES, WORD, TensorRecord


def owners(body: n.Block, params: Iterable[n.Var]) -> frozenset[str]:
    """Names of tile and tensor variables that own their descriptor or record."""
    found = {p.name for p in params if isinstance(p.type, TensorType)}
    for stmt in statements(body):
        if isinstance(stmt, n.TileDecl | n.SubView | n.CopyTile | n.TensorDecl | n.CopyTensor):
            found.add(stmt.var.name)
    return frozenset(found)


def most_ids(body: n.Block) -> int:
    """The largest number of mutex ids a tile of the program carries."""
    return max((v.type.ids_per_slot for v in walk(body) if isinstance(v, n.Var) and isinstance(v.type, GroupType)),
               default=0)


class Storage:
    """Addresses of variables, allocated when first mentioned.

    With a `frame` pointer variables are words of that frame (its final size is `frame_bytes`), else stack slots.
    """

    def __init__(self, code: Code, owned: frozenset[str], max_ids: int, frame: Value | None = None) -> None:
        self.code = code
        self.owned = owned
        self.tile_bytes = frames.tile_bytes(max_ids)
        self.frame = frame
        self.frame_bytes = 0
        self._offsets: dict[str, int] = {}
        self._slots: dict[str, Value] = {}

    def place(self, name: str, pointer: Value) -> None:
        """Let a variable live at an address given from outside."""
        self._slots[name] = pointer

    def owns(self, var: n.Var) -> bool:
        """Whether the variable has a descriptor or record of its own."""
        return var.name in self.owned

    def address(self, var: n.Var) -> Value:
        """Host address of a variable."""
        if var.name in self._slots:
            return self._slots[var.name]
        if self.frame is not None:
            if var.name not in self._offsets:
                self._offsets[var.name] = self.reserve(self.size(var))
            return self.code.at(self.frame, self._offsets[var.name])
        self._slots[var.name] = self._new_slot(var)
        return self._slots[var.name]

    def reserve(self, size: int) -> int:
        """Offset of `size` fresh bytes of the frame."""
        start = self.frame_bytes
        self.frame_bytes += -(-size // WORD) * WORD
        return start

    def memory(self, size: int) -> Value:
        """`size` fresh bytes that live as long as the variables."""
        if self.frame is None:
            return self.code.bytes_slot(size)
        return self.code.at(self.frame, self.reserve(size))

    def temporary(self, name: str) -> Value:
        """A word that survives suspension: hidden loop counters and the like."""
        return self.address(n.Var(name, ScalarType(DataType.DT_INDEX)))

    def _new_slot(self, var: n.Var) -> Value:
        if isinstance(var.type, ScalarType):
            return self.code.slot(slot_type(var.type.dtype))
        if isinstance(var.type, TileType | TensorType) and not self.owns(var):
            return self.code.slot(PTR)
        return self.code.bytes_slot(self.size(var))

    def width(self, var: n.Var) -> int:
        """Bytes that hold the value of a variable, which may be fewer than it takes."""
        match var.type:
            case ScalarType(dtype=dtype):
                held = slot_type(dtype)
                return int(held.width) // 8 if isinstance(held, ir.IntType) else 8 if held is F64 else 4
        return self.size(var)

    def size(self, var: n.Var) -> int:
        """Bytes of a variable."""
        match var.type:
            case PtrType():
                return PTR_BYTES
            case TileType():
                return self.tile_bytes if self.owns(var) else WORD
            case TensorType(dims=dims):
                return TensorRecord(len(dims)).size if self.owns(var) else WORD
            case GroupType(depth=depth):
                return depth * self.tile_bytes
            case StructType(is_tiling=is_tiling):  # of launch data the address
                return WORD if is_tiling else layout_of(var.type).size
            case StructArrayType(struct=struct, length=length):
                return layout_of(struct).size * length
        return WORD


def slot_type(dtype: DataType) -> Any:
    """LLVM type of a scalar variable in memory: BOOL as a byte, narrow floats as FP32."""
    return codecs.memory_type(dtype) if dtype is DataType.DT_BOOL else codecs.value_type(dtype)


def load_variable(code: Code, dtype: DataType, address: Value) -> Value:
    """The value of a scalar variable."""
    value = code.load(slot_type(dtype), address)
    return codecs.decode(code, value, dtype) if dtype is DataType.DT_BOOL else value


def store_variable(code: Code, value: Value, dtype: DataType, address: Value) -> None:
    """Assign a scalar variable."""
    code.store(codecs.encode(code, value, dtype) if dtype is DataType.DT_BOOL else value, address)


def load_member(code: Code, dtype: DataType, address: Value) -> Value:
    """The value of a struct member."""
    return codecs.decode(code, code.load(codecs.memory_type(dtype), address), dtype)


def store_member(code: Code, value: Value, dtype: DataType, address: Value) -> None:
    """Assign a struct member."""
    code.store(codecs.encode(code, value, dtype), address)


def load_pointer(code: Code, address: Value) -> tuple[Value, Value, Value]:
    """A pointer value (address, low, high) from memory."""
    return code.load(I64, address), code.load(I64, address, WORD), code.load(I64, address, 2 * WORD)


def store_pointer(code: Code, value: tuple[Value, Value, Value], address: Value) -> None:
    """A pointer value to memory."""
    for k, word in enumerate(value):
        code.store(word, address, k * WORD)


def sides(core: CoreKind) -> int:
    """0 for the cube core, 1 for vector cores: the index of per-kind arrays."""
    return 0 if core is CoreKind.CUBE else 1


def binders(body: n.Block, owner: int = 0) -> dict[str, set[int]]:
    """For every variable the calls (by id of the statement, 0: none) in which it gets a value."""
    found: dict[str, set[int]] = {}
    for stmt in body:
        inside = owner or (id(stmt) if isinstance(stmt, n.VfCall | n.SimtLaunch) else 0)
        for var in bound_vars(stmt):
            found.setdefault(var.name, set()).add(owner)
        for name, where in _nested(stmt, inside).items():
            found.setdefault(name, set()).update(where)
    return found


def _nested(stmt: n.Stmt, owner: int) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for block in blocks(stmt):
        for name, where in binders(block, owner).items():
            found.setdefault(name, set()).update(where)
    return found

