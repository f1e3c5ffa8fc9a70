"""What one op of the IR does to its tile operands: reads, writes, and whether a write covers the whole valid region.

The op table answers, asked with stand-ins: every tile full, every tensor large. Scalars known only at run time are
tried with two values; where the touched bytes differ, the write is not taken to cover anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from pypto_pro import layouts
from pypto_pro.analysis.accesses import Touch, accesses_of, bounds, touches
from pypto_pro.enums import PipeType
from pypto_pro.ir import walk
from pypto_pro.ir.nodes import Const, Expr, Local, Op
from pypto_pro.ir.types import PtrType, ScalarType, TensorType, TileType
from pypto_pro.layouts import Region
from pypto_pro.memory.capacity import merge
from pypto_pro.ops.entry import Access, Effect, Kind, OpEntry, Operand, Role
from pypto_pro.ops.operands import TileArg, tile_geometry
from pypto_pro.ops.table import lookup
from pypto_pro.ops.tensors import TensorArg

T = TypeVar("T")

UNKNOWN_SCALARS = (0, 32)
UNKNOWN_DIMENSION = 1 << 16
NO_BYTES = np.empty(0, np.uint8)
READS = (Effect.READ, Effect.MAY_READ, Effect.ATOMIC)


@dataclass(frozen=True)
class OperandUse:
    """One tile operand of an op: its expression and what happens to it."""

    tile: Expr
    reads: bool
    writes: bool
    covers: bool
    scratch: bool
    scratch_bytes: int = 0
    """Bytes a scratch operand really needs, from its start; 0 when the device does not touch it."""
    spans: tuple[tuple[int, int], ...] = ()
    """Bytes touched, from the tile's start, where they do not depend on the run; empty: any of the tile."""


@dataclass(frozen=True)
class OpUse:
    """An op as the report sees it: its pipe, tile operands, and the tensors it moves from or to."""

    pipe: PipeType
    operands: tuple[OperandUse, ...]
    sources: tuple[str, ...]
    targets: tuple[str, ...]


@dataclass(frozen=True)
class Asked:
    """An op with stand-ins for its operands and keywords (`named`), as the facets of its entry take them."""

    entry: OpEntry
    pipe: PipeType
    tiles: Mapping[str, Expr]
    named: Mapping[str, Any]

    def touches(self) -> tuple[Touch, ...] | None:
        """The accesses; None where the table cannot say so early."""
        return self._answer(touches)

    def accesses(self) -> list[tuple[Access, Any]] | None:
        """The same as elements of each operand, before they become bytes."""
        return self._answer(accesses_of)

    def _answer(self, facet: Callable[[OpEntry, Mapping[str, Any]], T]) -> T | None:
        for param in self.entry.data_params:
            offsets = isinstance(param.spec, Operand) and Kind.OFFSETS in param.spec.kinds
            if offsets and self.named[param.name] is not None and not isinstance(self.named[param.name], tuple):
                return None
        try:
            return facet(self.entry, self.named)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, AssertionError, ZeroDivisionError):
            return None  # the stand-ins make no sense for this op


def full_tile(tile: Expr) -> TileArg:
    """The stand-in of a tile whose whole extent is valid."""
    type_ = tile.type
    assert isinstance(type_, TileType)
    return TileArg(type_, NO_BYTES, 0, type_.rows, type_.cols)


def ask(op: Op, tile_of: Callable[[Expr], TileArg] = full_tile, scalar: int = 0) -> Asked | None:
    """An op with stand-ins: tiles from `tile_of`, large tensors, `scalar` for numbers only the run knows.

    None when the op touches no tile.
    """
    entry = lookup(op.name)
    if entry is None:
        return None
    named = _by_name(entry, op)
    tiles = {n: a for n, a in named.items() if walk.is_expr(a) and isinstance(a.type, TileType)}
    if not tiles:
        return None
    pipe = entry.pipe_of(**entry.bind(op.args, op.attrs)) or PipeType.V
    stand_ins = {name: _stand_in(argument, tile_of, scalar) for name, argument in named.items()}
    return Asked(entry, pipe, tiles, {**stand_ins, **dict(op.attrs)})


def use_of(op: Op) -> OpUse | None:
    """The uses of an op, None when it touches no tile."""
    asked = [ask(op, scalar=scalar) for scalar in UNKNOWN_SCALARS]
    first = asked[0]
    if first is None:
        return None
    roles = {p.name: p.spec.role for p in first.entry.params if isinstance(p.spec, Operand)}
    touched = [a.touches() for a in asked if a is not None]
    operands = tuple(_operand(name, tile, roles[name], touched) for name, tile in first.tiles.items())
    tensors = [
        (roles[n], a.var.name)
        for n, a in _by_name(first.entry, op).items()
        if isinstance(a, Local) and isinstance(a.type, TensorType)
    ]
    sources = tuple(name for role, name in tensors if role is Role.IN)
    targets = tuple(name for role, name in tensors if role is not Role.IN)
    return OpUse(first.pipe, operands, sources, targets)


def _by_name(entry: OpEntry, op: Op) -> dict[str, Any]:
    return dict(zip((p.name for p in entry.data_params), op.args, strict=True))


def _operand(name: str, tile: Expr, role: Role, touched: list[tuple[Touch, ...] | None]) -> OperandUse:
    """One operand, from the bytes it touches, or from its role where the table cannot tell."""
    by_role = OperandUse(
        tile, role in (Role.IN, Role.INOUT), role is not Role.IN, role is Role.OUT, role is Role.SCRATCH
    )
    if any(t is None for t in touched):
        return by_role
    mine = [[t for t in found or () if t.operand == name] for found in touched]
    effects = {t.effect for found in mine for t in found}
    if not effects:  # neither read nor written: a temporary, whose contents nobody knows afterwards
        return OperandUse(tile, False, True, False, True)
    writes = any(e.changes for e in effects)
    assert isinstance(tile.type, TileType)
    covers = all(_covers(tile.type, found) for found in mine) and mine[0] == mine[1]
    scratch = role is Role.SCRATCH
    needed = max(bounds(t.regions)[1] for found in mine for t in found) if scratch else 0
    spans = tuple(merge([s for t in mine[0] for s in _spans(t.regions)])) if mine[0] == mine[1] else ()
    return OperandUse(tile, any(e in READS for e in effects), writes, covers, scratch, needed, spans)


def _covers(type_: TileType, found: list[Touch]) -> bool:
    """Whether some AIV's writes reach every byte of the full valid region."""
    whole = layouts.regions(tile_geometry(type_), 0, 0, 0, *type_.shape)
    wanted = merge(list(_spans(whole)))
    for sub in {t.sub for t in found}:
        regions = [r for t in found if t.sub == sub and t.effect is Effect.WRITE for r in t.regions]
        written = merge(list(_spans(regions)))
        if all(any(a <= start and end <= b for a, b in written) for start, end in wanted):
            return True
    return False


def _spans(regions: Iterable[Region]) -> Iterator[tuple[int, int]]:
    for r in regions:
        for k in range(r.rows):
            yield r.start + k * r.pitch, r.start + k * r.pitch + r.row_bytes


# --- stand-ins -------------------------------------------------------------------------------------------------------


def _stand_in(argument: Any, tile_of: Callable[[Expr], TileArg], scalar: int) -> Any:
    if isinstance(argument, tuple):
        return tuple(_stand_in(a, tile_of, scalar) for a in argument)
    if isinstance(argument, Const):
        return argument.value
    if not walk.is_expr(argument):
        return argument
    match argument.type:
        case TileType():
            return tile_of(argument)
        case TensorType() as t:
            dims = tuple(UNKNOWN_DIMENSION if d is None else d for d in t.dims)
            strides = tuple(int(np.prod(dims[k + 1 :], dtype=np.int64)) for k in range(len(dims)))
            return TensorArg(t, NO_BYTES, 0, dims, strides)
        case ScalarType() | PtrType():
            return scalar
    return argument
