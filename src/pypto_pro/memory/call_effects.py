"""Which bytes of its tiles a vector function surely writes, and whether it reads any that it has not written before.

The body is run on what is known while compiling, or assumed: scalars, loop counts, masks made from them. Register
contents are not followed. What hangs on anything else counts as not written, and its reads as reads of older bytes; so
do squeezed and unaligned streams, gathers, scatters, and what comes after a loop of unknown length has moved a cursor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from pypto_pro import layouts
from pypto_pro.analysis.footprints import union, without
from pypto_pro.ir import nodes, walk
from pypto_pro.ir.nodes import Expr, Var
from pypto_pro.ir.types import AddrRegType, MaskType, RegType, TileType, UnalignRegType
from pypto_pro.memory.op_uses import NO_BYTES
from pypto_pro.memory.scalars import Numbers, Unknown
from pypto_pro.ops.entry import OpEntry, Role
from pypto_pro.ops.operands import TileArg, tile_geometry
from pypto_pro.ops.table import lookup
from pypto_pro.ops.vf_operands import AddrArg, MaskArg, RegArg

Span = tuple[int, int]
MOST_OPS = 20_000
"""Register ops run before a call is taken as it looks from outside."""
FAILURES = (Unknown, ValueError, TypeError, KeyError, IndexError, AttributeError, AssertionError, OverflowError)


@dataclass
class TileEffect:
    """Bytes of one tile expression, from its address: those surely written; `fresh`: no older byte is read."""

    written: list[Span] = field(default_factory=list)
    fresh: bool = True

    def covers(self, type_: TileType, valid: tuple[int, int] | None = None) -> bool:
        """Whether every byte of the valid region, by default the whole tile, is written."""
        if len(type_.shape) != 2:
            return False
        regions = layouts.regions(tile_geometry(type_), 0, 0, 0, *(valid or type_.shape))
        wanted = [(r.start + k * r.pitch, r.start + k * r.pitch + r.row_bytes) for r in regions for k in range(r.rows)]
        return not without(wanted, self.written)


def effects_of(call: nodes.VfCall, known: Mapping[Var, int] | None = None) -> Mapping[Expr, TileEffect]:
    """The effect on every tile the body names, by the expression without offsets, for some `known` scalars."""
    run = _Run()
    run.numbers.known.update(known or {})
    try:
        run.block(call.body)
    except (_Leave, Unknown):
        run.spoil(call.body)  # how far it gets is not known; what was written so far, was
    return run.effects


class _Leave(Exception):
    """A jump in the body, or too many ops: the rest is not followed."""


class _Run:
    """The vector unit as the meanings of register ops see it, over numbers that are known."""

    def __init__(self) -> None:
        self.numbers = Numbers()
        self.effects: dict[Expr, TileEffect] = {}
        self.registers: dict[Var, Any] = {}
        self.cursors: dict[tuple[Expr, int], int] = {}
        self.cursors_known = True
        self.left = MOST_OPS
        self.places: dict[int, tuple[Expr, int]] = {}
        """Expression and shift of the tile operands of the op being run, by identity."""
        self.old: tuple[Any, ...] = ()
        self.targets: tuple[Any, ...] = ()
        self.sources: tuple[Any, ...] = ()

    # --- statements --------------------------------------------------------------------------------------------------

    def block(self, body: nodes.Block) -> None:
        for stmt in body:
            self.stmt(stmt)

    def stmt(self, stmt: nodes.Stmt) -> None:
        match stmt:
            case nodes.Op():
                self.op(stmt)
            case nodes.For():
                self.loop(stmt)
            case nodes.If(cond=cond, then=then, orelse=orelse):
                taken = self.numbers.maybe(cond)
                if taken is None:
                    self.forget(stmt)
                else:
                    self.block(then if taken else orelse)
            case nodes.While():
                self.forget(stmt)
            case nodes.Break() | nodes.Continue() | nodes.Return():
                raise _Leave
            case _:
                self.numbers.step(stmt)

    def loop(self, loop: nodes.For) -> None:
        bounds = [self.numbers.maybe(e) for e in (loop.start, loop.stop, loop.step)]
        if any(b is None for b in bounds) or not bounds[2]:
            self.forget(loop)
            return
        for value in range(*(int(b) for b in bounds if b is not None)):
            self.numbers.known[loop.var] = value
            self.block(loop.body)

    def forget(self, stmt: nodes.Stmt) -> None:
        """A statement that may run any number of times."""
        inner = [s for block in walk.blocks(stmt) for s in walk.statements(block)]
        if any(isinstance(s, nodes.Break | nodes.Continue | nodes.Return) for s in inner):
            raise _Leave
        self.spoil((stmt,))

    def spoil(self, body: nodes.Block) -> None:
        """Behind a block nobody knows what it assigned and where its cursors are; what it reads may be old."""
        for stmt in walk.statements(body):
            for var in walk.bound_vars(stmt):
                self.numbers.known.pop(var, None)
                self.registers.pop(var, None)
            if isinstance(stmt, nodes.Op):
                self.doubt(stmt)

    def doubt(self, op: nodes.Op) -> None:
        """An op of which only the tiles are known."""
        entry = lookup(op.name)
        params = entry.data_params if entry is not None else (None,) * len(op.args)
        for param, arg in zip(params, op.args, strict=True):
            if walk.is_expr(arg) and isinstance(arg.type, TileType):
                effect = self.effect(_base(arg))
                effect.fresh = effect.fresh and getattr(param and param.spec, "role", Role.INOUT) is Role.OUT
        self.cursors_known = self.cursors_known and not dict(op.attrs).get("post_update", False)

    # --- ops ---------------------------------------------------------------------------------------------------------

    def op(self, op: nodes.Op) -> None:
        self.left -= 1
        if self.left < 0:
            raise _Leave
        entry = lookup(op.name)
        results = op.results
        made: Any = None
        try:
            made = self.meaning(entry, op) if entry is not None and self.matters(op) else None
        except FAILURES:
            self.doubt(op)
        values = made if isinstance(made, tuple) else (made,) * len(results)
        for var, value in zip(results, values, strict=False):
            if value is None or isinstance(var.type, RegType | UnalignRegType):
                self.registers.pop(var, None)
            else:
                self.registers[var] = MaskArg(value) if isinstance(value, np.ndarray) else value

    def matters(self, op: nodes.Op) -> bool:
        """Whether the op touches UB, or makes a mask or an address from what is known."""
        if any(walk.is_expr(a) and isinstance(a.type, TileType) for a in op.args):
            return True
        makes = all(isinstance(v.type, MaskType | AddrRegType) for v in op.results) and op.results
        return bool(makes) and not any(walk.is_expr(a) and isinstance(a.type, RegType) for a in op.args)

    def meaning(self, entry: OpEntry, op: nodes.Op) -> Any:
        self.places = {}
        args = tuple(self.operand(a) for a in op.args)
        self.targets = tuple(v.type for v in op.results)
        self.sources = tuple(a.type if walk.is_expr(a) else None for a in op.args)
        self.old = tuple(self.registers.get(v, _undefined(v)) for v in op.results)
        assert entry.meaning is not None
        found = entry.meaning(self, *args, **dict(op.attrs))
        # what comes out of memory is data, whatever it becomes
        return None if self.places else found

    def operand(self, arg: Any) -> Any:
        if arg is None:
            return None
        if isinstance(arg, tuple):
            return tuple(self.operand(a) for a in arg)
        match arg.type:
            case TileType() as type_:
                tile = TileArg(type_, NO_BYTES, 0, type_.shape[0], type_.shape[-1])
                self.places[id(tile)] = _base(arg), self.shift(arg)
                return tile
            case RegType(dtype):
                return RegArg(dtype, np.zeros(256 // dtype.nbytes, dtype.numpy))
            case MaskType() | AddrRegType():
                if not isinstance(arg, nodes.Local) or arg.var not in self.registers:
                    raise Unknown
                return self.registers[arg.var]
            case UnalignRegType():
                raise Unknown
        return self.numbers.value(arg)

    def shift(self, tile: Expr) -> int:
        """Bytes that `tile + n` lies behind its tile."""
        shift = 0
        while isinstance(tile, nodes.TilePlus):
            assert isinstance(tile.type, TileType)
            shift += int(self.numbers.value(tile.offset)) * tile.type.dtype.bits() // 8
            tile = tile.tile
        return shift

    def effect(self, tile: Expr) -> TileEffect:
        return self.effects.setdefault(tile, TileEffect())

    # --- what meanings call ------------------------------------------------------------------------------------------

    @property
    def ar(self) -> int:
        raise Unknown

    @ar.setter
    def ar(self, count: int) -> None:
        pass

    def mask_spr(self) -> NoReturn:
        raise Unknown

    def depends_on_data(self) -> NoReturn:
        raise Unknown

    def gather(self, tile: TileArg, starts: Any, size: int) -> NoReturn:
        raise Unknown

    def scatter(self, tile: TileArg, starts: Any, data: Any) -> NoReturn:
        raise Unknown

    def barrier(self, mode: Any) -> None:
        pass

    def cursor(self, tile: TileArg) -> int:
        if not self.cursors_known:
            raise Unknown
        return self.cursors.get(self.places[id(tile)], 0)

    def advance(self, tile: TileArg, count: int) -> None:
        place = self.places[id(tile)]
        self.cursors[place] = self.cursors.get(place, 0) + count

    def load(self, tile: TileArg, start: int, size: int, align: int = 1) -> NDArray[np.uint8]:
        base, shift = self.places[id(tile)]
        effect, type_ = self.effect(base), tile.type
        end = int(np.prod(type_.shape)) * type_.dtype.bits() // 8
        wanted = [(max(shift + start, 0), min(shift + start + size, end))]  # lanes past the tile are nobody's data
        effect.fresh = effect.fresh and not without(wanted, effect.written)
        return np.zeros(size, np.uint8)

    def store(self, tile: TileArg, start: int, data: Any, where: Any = None, align: int = 1) -> None:
        base, shift = self.places[id(tile)]
        raw = np.ascontiguousarray(data).view(np.uint8)
        active = np.ones(raw.size, np.bool_) if where is None else np.asarray(where, np.bool_).reshape(-1)
        edges = np.flatnonzero(np.diff(np.concatenate(([0], active.astype(np.int8), [0]))))
        runs = [(shift + start + int(a), shift + start + int(b)) for a, b in edges.reshape(-1, 2)]
        effect = self.effect(base)
        effect.written = union([*effect.written, *runs])


def _base(tile: Expr) -> Expr:
    """The tile of `tile + n`."""
    while isinstance(tile, nodes.TilePlus):
        tile = tile.tile
    return tile


class _Nothing:
    """A mask nobody here knows."""

    def __getattr__(self, name: str) -> NoReturn:
        raise Unknown


def _undefined(var: Var) -> Any:
    """What a register holds as far as anybody here knows."""
    match var.type:
        case RegType(dtype):
            return RegArg(dtype, np.zeros(256 // dtype.nbytes, dtype.numpy))
        case AddrRegType(dtype):
            return AddrArg(dtype, 0)
    return _Nothing()
