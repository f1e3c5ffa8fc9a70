"""`TileType`, `make_tile`, `make_tile_group`, `set_validshape`."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from pypto_pro import layouts
from pypto_pro.diag.errors import FinalRejectionError, ParserTypeError
from pypto_pro.dtypes import DataType
from pypto_pro.enums import CompactMode, MemorySpace, TensorLayout, TilePad
from pypto_pro.frontend import arguments, opcalls, order
from pypto_pro.frontend.context import Context
from pypto_pro.frontend.handlers import handles
from pypto_pro.frontend.pipeline import buffers
from pypto_pro.frontend.values import (
    NONE,
    GroupValue,
    Static,
    TupleValue,
    Value,
    const_int,
    describe,
    is_scalar,
    is_tile,
)
from pypto_pro.hw.a5 import MUTEX_IDS, SPACES
from pypto_pro.ir import build
from pypto_pro.ir.nodes import Expr, GroupDecl, Local, SetValid, TileDecl
from pypto_pro.ir.types import INDEX, GroupType, TileType
from pypto_pro.ops.entry import Section

TILE_TYPE = arguments.formals("*, shape, dtype, target_memory=, valid_shape=, layout=, fractal=, pad=, compact=")
MAKE_TILE = arguments.formals("tile_type, *, addr, size=")
MAKE_GROUP = arguments.formals("*, type, addrs, mutex_ids=, depth=, fwd_ids=, bwd_ids=")
SET_VALID = arguments.formals("tile, shape")


@handles("TileType")
def tile_type(ctx: Context, node: ast.Call, hint: str | None) -> Value:
    """`pl.TileType(shape=..., dtype=...)`: a compile-time object."""
    bound = arguments.bind(ctx, node, "pl.TileType", TILE_TYPE)
    given: dict[str, Any] = {
        "shape": arguments.constant_ints(ctx, bound["shape"], "`shape`"),
        "dtype": arguments.enum_member(ctx, bound["dtype"], DataType, "`dtype`"),
    }
    if "target_memory" in bound:
        given["target_memory"] = arguments.enum_member(ctx, bound["target_memory"], MemorySpace, "`target_memory`")
    if "valid_shape" in bound and arguments.optional(ctx, bound, "valid_shape") != NONE:
        given["valid_shape"] = _valid_shape(ctx, bound["valid_shape"], given["shape"])
    if "layout" in bound and arguments.optional(ctx, bound, "layout") != NONE:
        given["layout"] = arguments.enum_member(ctx, bound["layout"], TensorLayout, "`layout`")
    for name in ("fractal", "pad", "compact"):
        value = arguments.optional(ctx, bound, name)
        if value != NONE:
            given[name] = _number_or_member(ctx, value, bound[name], name)
    return Static(TileType(**given))


def _valid_shape(ctx: Context, node: ast.expr, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The declared valid shape: each entry -1 (run time) or 1..extent; ValueError otherwise."""
    valid = arguments.constant_ints(ctx, node, "`valid_shape`")
    if len(valid) != len(shape):
        raise ValueError(f"valid_shape has {len(valid)} entries, shape has {len(shape)}")
    for extent, size in zip(valid, shape, strict=True):
        if extent != -1 and not 1 <= extent <= size:
            raise ValueError(f"a valid extent is -1 or from 1 to {size}, found {extent}")
    return valid


def _number_or_member(ctx: Context, value: Value, node: ast.expr, name: str) -> Any:
    kinds = {"pad": TilePad, "compact": CompactMode}
    if isinstance(value, Static) and name in kinds:
        return arguments.as_enum_member(ctx, value, node, kinds[name], f"`{name}`")
    return arguments.as_constant_int(ctx, value, node, f"`{name}`")


def _as_tile_type(ctx: Context, value: Value, node: ast.AST, owner: str) -> TileType:
    if isinstance(value, Static) and isinstance(value.value, TileType):
        return value.value
    raise ctx.error(ParserTypeError, f"{owner} takes a pl.TileType, found {describe(value)}", node)


class Misplaced(ValueError):
    """A slot that no address of its space allows; `note` is its row of the address table."""

    def __init__(self, message: str, note: str) -> None:
        super().__init__(message)
        self.note = note


class Misaligned(Misplaced):
    """A slot off the alignment of its space."""

    code = "M102"


def slot_size(type_: TileType) -> int:
    """Bytes one tile of the type reserves. ValueError for extents that are not positive."""
    if not type_.shape or any(extent <= 0 for extent in type_.shape):
        raise ValueError(f"tile extents are positive, one at least, found {list(type_.shape)}")
    return layouts.slot_size(type_.shape, type_.dtype)


def _check_address(addr: int, type_: TileType, name: str, step: str = "") -> None:
    """Misplaced or Misaligned for a slot called `name`; `step` says how the address was computed."""
    space, size = type_.space.name, slot_size(type_)
    sign = "-" if addr < 0 else ""
    row = f"row: {space} {name} [{sign}0x{abs(addr):05X},0x{max(addr + size, 0):05X}) {size} B"
    if addr < 0:
        raise Misplaced(f"the address {addr} of `{name}` is negative{step}", row)
    alignment = SPACES[type_.space].alignment
    if addr % alignment:
        text = f"the address {addr:#x} of `{name}` is not a multiple of {alignment}, which {space} needs"
        raise Misaligned(f"{text} (remainder {addr % alignment}){step}", row)


def _check_rank(type_: TileType) -> None:
    if any(extent <= 0 for extent in type_.shape):
        raise ValueError(f"tile extents are positive, found {list(type_.shape)}")


@handles("make_tile")
def make_tile(ctx: Context, node: ast.Call, hint: str | None) -> Value:
    """`pl.make_tile(tile_type, addr=..., size=...)`."""
    opcalls.check_scope(ctx, "pl.make_tile", node)
    bound = _bound(ctx, node, "pl.make_tile", MAKE_TILE, positional=1)
    type_ = _as_tile_type(ctx, ctx.evaluate(bound["tile_type"]), node, "pl.make_tile")
    addr = arguments.constant_int(ctx, bound["addr"], "`addr`")
    size = None
    if arguments.optional(ctx, bound, "size") != NONE:
        size = arguments.constant_int(ctx, bound["size"], "`size`")
        if size <= 0:
            raise ctx.error(ParserTypeError, f"`size` is positive, found {size}", bound["size"])
    _check_rank(type_)
    var = ctx.fresh(ctx.declared(node, hint or "_tile"), type_)
    _check_address(addr, type_, var.name)
    decl = TileDecl(var, addr, size, ctx.identity(node), span=ctx.span(node))
    ctx.tiles[var] = decl
    ctx.emit(decl)
    return Local(var)


def _bound(
    ctx: Context, node: ast.Call, name: str, params: tuple[arguments.Formal, ...], positional: int
) -> dict[str, ast.expr]:
    """Bound arguments; what is missing or too much is a ParserTypeError here."""
    if len(node.args) > positional:
        raise ctx.error(ParserTypeError, f"`{name}` takes {positional} positional argument", node)
    given = {k.arg for k in node.keywords} | {p.name for p in params[: len(node.args)]}
    missing = [p.name for p in params if p.required and p.name not in given]
    if missing and given <= {p.name for p in params}:  # a wrong name is told first: it is why one is missing
        raise ctx.error(ParserTypeError, f"`{name}` needs `{missing[0]}`", node)
    return arguments.bind(ctx, node, name, params)


@handles("make_tile_group")
def make_tile_group(ctx: Context, node: ast.Call, hint: str | None) -> Value:
    """`pl.make_tile_group(type=..., addrs=..., mutex_ids=...)`."""
    opcalls.check_scope(ctx, "pl.make_tile_group", node)
    given = {k.arg for k in node.keywords}
    for name in ("type", "addrs"):
        if not node.args and name not in given and given <= {p.name for p in MAKE_GROUP}:
            raise ctx.error(ParserTypeError, f"`pl.make_tile_group` needs `{name}`", node)
    bound = arguments.bind(ctx, node, "pl.make_tile_group", MAKE_GROUP)
    type_ = _as_tile_type(ctx, ctx.evaluate(bound["type"]), bound["type"], "`type`")
    ids = _mutex_ids(ctx, bound)
    depth = _depth(ctx, bound, ids, node)
    _check_rank(type_)
    addrs = _addresses(ctx, bound["addrs"], type_, depth)
    var = ctx.fresh(ctx.declared(node, hint or "_group"), GroupType(type_, depth, len(ids[0]) if ids else 0))
    for i, addr in enumerate(addrs):
        _check_address(addr, type_, f"{var.name}[{i}]", _computed(addrs, i, type_))
    cursor = ctx.fresh(f"{var.name}_cursor", INDEX) if depth > 1 else None
    fwd_ids, bwd_ids = (buffers.event_ids(ctx, bound.get(name), name) for name in ("fwd_ids", "bwd_ids"))
    if fwd_ids or bwd_ids:
        buffers.check_space(ctx, bound["type"])
    decl = GroupDecl(var, addrs, ids, cursor, ctx.identity(node), fwd_ids, bwd_ids, span=ctx.span(node))
    ctx.groups[var] = decl
    ctx.emit(decl)
    return GroupValue(decl)


def _mutex_ids(ctx: Context, bound: Mapping[str, ast.expr]) -> tuple[tuple[int, ...], ...]:
    """The ids of every slot; empty without any."""
    value = arguments.optional(ctx, bound, "mutex_ids")
    if value == NONE or value == TupleValue(()):
        return ()
    node = bound["mutex_ids"]
    if not isinstance(value, TupleValue):
        raise ctx.error(ParserTypeError, f"`mutex_ids` is a list, found {describe(value)}", node)
    slots = tuple(_slot_ids(ctx, item, node) for item in value.items)
    if len({len(ids) for ids in slots}) > 1:
        raise ctx.error(ParserTypeError, "every tile of a group has equally many mutex ids", node)
    return slots


def _slot_ids(ctx: Context, item: Value, node: ast.expr) -> tuple[int, ...]:
    items = item.items if isinstance(item, TupleValue) else (item,)
    ids = tuple(arguments.as_constant_int(ctx, i, node, "a mutex id") for i in items)
    if not ids or len(set(ids)) != len(ids):
        raise ctx.error(ParserTypeError, f"a tile has one or more different mutex ids, found {list(ids)}", node)
    for mutex in ids:
        if mutex not in MUTEX_IDS:
            raise ctx.error(ParserTypeError, f"a mutex id is from 0 to {MUTEX_IDS[-1]}, found {mutex}", node)
    return ids


def _depth(
    ctx: Context, bound: Mapping[str, ast.expr], ids: tuple[tuple[int, ...], ...], node: ast.Call
) -> int:
    if arguments.optional(ctx, bound, "depth") == NONE:
        if not ids:
            raise ctx.error(ParserTypeError, "a tile group needs `mutex_ids` or `depth`", node)
        return len(ids)
    depth = arguments.constant_int(ctx, bound["depth"], "`depth`")
    if depth <= 0:
        raise ctx.error(ParserTypeError, f"`depth` is positive, found {depth}", bound["depth"])
    if ids and depth != len(ids):
        raise ctx.error(ParserTypeError, f"`depth` is {depth}, but there are ids for {len(ids)} tiles", bound["depth"])
    return depth


def _addresses(ctx: Context, node: ast.expr, type_: TileType, depth: int) -> tuple[int, ...]:
    value = ctx.evaluate(node)
    if isinstance(value, TupleValue):
        addrs = arguments.int_list(ctx, value, node, "`addrs`")
        if len(addrs) != depth:
            raise ctx.error(ParserTypeError, f"`addrs` lists {len(addrs)} addresses for {depth} tiles", node)
        return addrs
    base = arguments.as_constant_int(ctx, value, node, "`addrs`")
    step = slot_size(type_)
    return tuple(base + i * step for i in range(depth))


def _computed(addrs: tuple[int, ...], slot: int, type_: TileType) -> str:
    """How the address of a later slot comes from the base, where it does."""
    step, alignment = slot_size(type_), SPACES[type_.space].alignment
    if slot == 0 or addrs[slot] != addrs[0] + slot * step:
        return ""
    fits = "a" if step % alignment == 0 else "no"
    return f"; it is {addrs[0]:#x} + {slot} * {step}, and the step is {fits} multiple of {alignment}"


# --- set_validshape --------------------------------------------------------------------------------------------------


@handles("set_validshape")
def set_validshape(ctx: Context, node: ast.Call, hint: str | None) -> None:
    """`pl.set_validshape(tile_or_group, [rows, cols])`."""
    opcalls.check_core(ctx, "pl.set_validshape", Section.BOTH, node)
    opcalls.check_scope(ctx, "pl.set_validshape", node)
    bound = arguments.bind(ctx, node, "pl.set_validshape", SET_VALID)
    tile_node, shape_node = bound["tile"], bound["shape"]
    tile, shape = order.evaluate_spread(ctx, [tile_node, shape_node])
    extents = shape.items if isinstance(shape, TupleValue) else (shape,)
    if len(extents) != 2:
        raise ValueError(f"set_validshape takes [rows, cols], found a list of {len(extents)}")
    target, type_ = _target(ctx, tile, tile_node)
    _check_dynamic(ctx, type_, tile_node)
    rows, cols = (_extent(ctx, value, type_.shape[axis], shape_node) for axis, value in enumerate(extents))
    ctx.emit(SetValid(target, rows, cols, span=ctx.span(node)))


def _target(ctx: Context, tile: Value, node: ast.AST) -> tuple[Expr, TileType]:
    if isinstance(tile, GroupValue):
        return Local(tile.var), tile.decl.var.type.tile  # type: ignore[union-attr]
    if is_tile(tile):
        type_ = tile.type
        assert isinstance(type_, TileType)
        return tile, type_
    raise TypeError(f"set_validshape takes a tile or a tile group, found {describe(tile)}")


def _check_dynamic(ctx: Context, type_: TileType, node: ast.AST) -> None:
    if not type_.is_dynamic:
        fixed = list(type_.valid_shape)
        raise ValueError(f"the valid shape {fixed} of this tile is fixed; set_validshape needs valid_shape=[-1, -1]")


def _extent(ctx: Context, value: Value, most: int, node: ast.AST) -> Expr:
    if not is_scalar(value) or build.kind_of(value).is_float():
        raise ctx.error(FinalRejectionError, f"a valid extent is an integer, found {describe(value)}", node)
    known = const_int(value)
    if known is not None and not 1 <= known <= most:
        raise ValueError(f"a constant valid extent is from 1 to {most}, found {known}")
    return build.convert(value, INDEX)
