"""The valid shape a tile has where a vector function is called, and numbers to run its body with where only the run
knows an extent.

A loop over the valid rows covers the tile however many there are; it is tried with all rows, one less, and one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product

from pypto_pro.ir import nodes, walk
from pypto_pro.ir.nodes import Expr, Var
from pypto_pro.ir.types import TileType
from pypto_pro.memory.references import Env, References

MOST_UNKNOWN = 2
Extent = int | Var


@dataclass(frozen=True)
class Trial:
    """Numbers to assume, and the valid shapes (rows, columns) that tiles have then."""

    known: Mapping[Var, int]
    shapes: Mapping[Expr, tuple[int, int]]


def trials(tiles: Iterable[Expr], before: nodes.Block, env: Env, references: References) -> tuple[Trial, ...]:
    """Ways to run a call on `tiles` that stands behind the statements `before` of its block."""
    shapes: dict[Expr, tuple[Extent, Extent]] = {}
    largest: dict[Var, int] = {}
    for tile in tiles:
        type_ = tile.type
        if not isinstance(type_, TileType) or len(type_.shape) != 2:
            continue
        shapes[tile] = rows, cols = _valid_shape(tile, type_, before, env, references)
        for extent, size in ((rows, type_.rows), (cols, type_.cols)):
            if isinstance(extent, Var):
                largest[extent] = min(size, largest.get(extent, size))
    if len(largest) > MOST_UNKNOWN:
        return (Trial({}, {}),)
    tried = [sorted({size, max(size - 1, 1), 1}) for size in largest.values()]
    found = []
    for numbers in product(*tried):
        known = dict(zip(largest, numbers, strict=True))
        found.append(Trial(known, {tile: _with(shape, known) for tile, shape in shapes.items()}))
    return tuple(found)


def _with(shape: tuple[Extent, Extent], known: Mapping[Var, int]) -> tuple[int, int]:
    rows, cols = (known[e] if isinstance(e, Var) else e for e in shape)
    return rows, cols


def _valid_shape(
    tile: Expr, type_: TileType, before: nodes.Block, env: Env, references: References
) -> tuple[Extent, Extent]:
    """The declared extents where they are fixed, those that were set last where that shows, else the whole shape."""
    rows, cols = (size if valid == -1 else valid for valid, size in zip(type_.valid_shape, type_.shape, strict=True))
    found = _last_set(tile, before, env, references) if type_.is_dynamic else None
    if found is None:
        return rows, cols
    first, second = (_extent(e) for e in (found.rows, found.cols))
    return rows if first is None else first, cols if second is None else second


def _extent(expr: Expr) -> Extent | None:
    match expr:
        case nodes.Const(value=value):
            return int(value)
        case nodes.Local(var=var):
            return var
        case nodes.Convert(operand=operand):
            return _extent(operand)
    return None


def _last_set(tile: Expr, before: nodes.Block, env: Env, references: References) -> nodes.SetValid | None:
    """The statement that set the valid shape of `tile`, if nothing behind it can have changed what it says."""
    mine = {t.identity for t in references.targets(tile, env)}
    changed: set[Var] = set()
    for stmt in reversed(before):
        inner = list(walk.statements((stmt,)))
        for change in inner:
            if not isinstance(change, nodes.SetValid):
                continue
            same = changed.isdisjoint(n for n in walk.walk(change) if isinstance(n, Var))
            if change is stmt and change.tile == tile and same:
                return change
            if not same or mine & {t.identity for t in references.targets(change.tile, env)}:
                return None
        changed |= {var for s in inner for var in walk.bound_vars(s)}
    return None
