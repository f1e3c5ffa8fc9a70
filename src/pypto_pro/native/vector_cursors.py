"""Post-update cursors of a vector-function call (vector-function 7.5): one for each tile object and byte offset.

Most tile expressions are known when the function is compiled (`t`, `t + 64`, `p = t + 64`): their cursors are stack
words. Where the offset, or which tile it is, is only known at run time, a table of the call is searched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import llvmlite.ir as ir

from pypto_pro.ir import nodes as n
from pypto_pro.ir.types import TileType
from pypto_pro.ir.walk import bound_vars, statements
from pypto_pro.native.emit import I8, I64, PTR, VOID, Code, Value
from pypto_pro.native.frames import WORD
from pypto_pro.native.vector_values import UbTile

_UNKNOWN = -1
_TABLE_BYTES = 3 * WORD
"""Entries used, entries allocated, address of the entries (root, offset, cursor)."""
ENTRY_BYTES = 3 * WORD


@dataclass(frozen=True)
class _Origin:
    """A tile expression as (tile object, byte offset): `root` None when the object is only known at run time."""

    root: n.Expr | None
    shift: int | None


class Cursors:
    """Finds the memory word of a tile expression's cursor."""

    def __init__(self, code: Code, body: n.Block, address_of: Callable[[n.Expr], Value]) -> None:
        """`address_of` gives the address (i64) of a tile expression at the current position."""
        self.code = code
        self._address_of = address_of
        self._slots: dict[_Origin, Value] = {}
        self._roots: list[n.Expr] = []
        self._table: Value | None = None
        self._assigned = _assignments(body)

    def slot(self, tile: UbTile) -> Value:
        """Where the cursor stands (i64, bytes)."""
        origin = self._origin(tile.expr)
        if origin.root is not None and origin.shift is not None:
            if origin not in self._slots:
                self._slots[origin] = self._word()
            return self._slots[origin]
        return self._searched(tile, origin)

    def finish(self) -> None:
        """Give the table back; at the end of the function."""
        if self._table is not None:
            self.code.call("free", VOID, [self.code.load(PTR, self._table, 2 * WORD)])

    def _word(self) -> Value:
        word = self.code.slot(I64)
        self.code.slots.position_before(self.code.slots.block.terminator)
        self.code.slots.store(I64(0), word)
        return word

    def _origin(self, expr: n.Expr) -> _Origin:
        match expr:
            case n.TilePlus(tile=tile, offset=offset, type=type_):
                inner = self._origin(tile)
                if not isinstance(offset, n.Const) or inner.shift is None:
                    return _Origin(inner.root, None)
                return _Origin(inner.root, inner.shift + _bytes(offset, type_))
            case n.Local(var=var) if var.name in self._assigned:
                sources = self._assigned[var.name]
                if len(sources) == 1 and isinstance(sources[0], n.Local | n.TilePlus):
                    return self._origin(sources[0])
                return _Origin(None, None)
            case n.Local() | n.Slot(index=n.Const()):
                return _Origin(expr, 0)
            case n.Slot(index=n.Local(var=var)) if var.name not in self._assigned:
                return _Origin(expr, 0)
        return _Origin(None, None)

    def _searched(self, tile: UbTile, origin: _Origin) -> Value:
        """The entry of the call's table: by object and offset, or by address where the object is not known."""
        code = self.code
        if self._table is None:
            self._table = code.slot(ir.ArrayType(I64, _TABLE_BYTES // WORD))
            code.slots.position_before(code.slots.block.terminator)
            for k in range(_TABLE_BYTES // WORD):
                place = code.slots.gep(self._table, [I64(k * WORD)], source_etype=I8)
                code.slots.store(I64(0), place, align=8)
        number, shift = _UNKNOWN, tile.addr.value
        if origin.root is not None:
            if origin.root not in self._roots:
                self._roots.append(origin.root)
            number = self._roots.index(origin.root)
            shift = code.b.sub(shift, self._address_of(origin.root))
        return code.call("vf_cursor", PTR, [self._table, I64(number), shift])


def _bytes(offset: n.Const, type_: Any) -> int:
    assert isinstance(type_, TileType)
    return int(offset.value) * type_.dtype.bits() // 8


def _assignments(body: n.Block) -> dict[str, list[n.Expr | None]]:
    """What the statements of a body give to each variable; None where that is no plain expression."""
    found: dict[str, list[n.Expr | None]] = {}
    for stmt in statements(body):
        for var in bound_vars(stmt):
            value: n.Expr | None = None
            match stmt:
                case n.Assign(value=assigned):
                    value = assigned
                case n.CopyTile(source=source):
                    value = source
            found.setdefault(var.name, []).append(value)
    return found
