"""Sub-views `tile[r0:r1, c0:c1]`."""

from __future__ import annotations

import ast

from pypto_pro import layouts
from pypto_pro.diag.errors import ParserSyntaxError, ParserTypeError, UnsupportedFeatureError
from pypto_pro.enums import CoreKind, MemorySpace, TensorLayout
from pypto_pro.frontend import merge, operators, order
from pypto_pro.frontend.context import Context
from pypto_pro.frontend.values import GroupValue, Static, TupleValue, Value, describe, is_tensor, is_tile
from pypto_pro.ir import build
from pypto_pro.ir.build import Sym
from pypto_pro.ir.nodes import Expr, Local, SubView, TileAttr
from pypto_pro.ir.types import TileType

AXES = ("row", "column")


def slice_tile(ctx: Context, node: ast.Subscript, hint: str | None) -> Value:
    """The view of a Vec tile (ND or DN) that two slices select."""
    owner = ctx.evaluate(node.value)
    if isinstance(owner, GroupValue):
        raise ctx.error(UnsupportedFeatureError, "a tile group cannot be sliced", node)
    if is_tensor(owner):
        help_ = "transfers take offsets; pl.make_tensor makes a view"
        raise ctx.error(ParserSyntaxError, "a tensor cannot be sliced", node, hint=help_)
    if not is_tile(owner):
        constant = isinstance(owner, TupleValue | Static)  # constant tuples are sliced by Python
        kind = ParserTypeError if constant else ParserSyntaxError
        raise ctx.error(kind, f"{describe(owner)} cannot be sliced in a kernel", node)
    type_ = owner.type
    assert isinstance(type_, TileType)
    slices = _check(ctx, type_, node)
    bounds = order.evaluate_all(ctx, [b for s in slices for b in (s.lower, s.upper) if b is not None])
    windows = []
    for axis, part in enumerate(slices):
        low = _bound(ctx, bounds.pop(0), part) if part.lower is not None else build.sym(0)
        high = _bound(ctx, bounds.pop(0), part) if part.upper is not None else build.sym(type_.shape[axis])
        windows.append(_window(ctx, owner, type_, axis, low, high, part))
    var = merge.own_tile(ctx, hint or "_view", owner, merge.id_count(ctx, owner))
    (row, rows), (col, cols) = windows
    view = SubView(var, owner, row, col, rows, cols, span=ctx.span(node))
    ctx.views[var] = view
    ctx.emit(view)
    ctx.stable.add(var)
    return Local(var)


def _check(ctx: Context, type_: TileType, node: ast.Subscript) -> list[ast.Slice]:
    if ctx.in_simt:
        raise ctx.error(UnsupportedFeatureError, "tiles cannot be sliced in a SIMT function", node)
    if ctx.in_vector_function:
        raise ctx.error(
            ParserSyntaxError, "tiles cannot be sliced in a vector function", node,
            hint="use the [row, col] offset of the load or store, or `tile + n`",
        )  # fmt: skip
    parts = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    slices = [part for part in parts if isinstance(part, ast.Slice)]
    if len(slices) != len(parts) or len(parts) == 1:
        hint = "write `t[r0:r1, c0:c1]`"
        raise ctx.error(ParserSyntaxError, "a sub-view takes a slice on both axes", node, hint=hint)
    if len(parts) != len(type_.shape):
        raise ctx.error(ParserTypeError, f"a tile of rank {len(type_.shape)} takes {len(type_.shape)} slices", node)
    for part in slices:
        if part.step is not None:
            raise ctx.error(ParserSyntaxError, "a slice of a tile has no step", part.step)
    layout = layouts.effective_layout(type_.layout, type_.cols)
    if type_.space is not MemorySpace.Vec or layout not in (TensorLayout.ND, TensorLayout.DN):
        found = f"{type_.space.name} {layout.name}"
        raise ctx.error(ParserSyntaxError, f"only Vec tiles in ND or DN can be sliced, found {found}", node)
    if type_.dtype.is_sub_byte:
        dtype = type_.dtype.to_string()
        raise ctx.error(ParserSyntaxError, f"a {dtype} tile cannot be sliced: its elements share bytes", node)
    if ctx.core is CoreKind.CUBE:
        raise ctx.error(ParserSyntaxError, "a Vec tile is sliced inside `with pl.section_vector():`", node)
    return slices


def _bound(ctx: Context, value: Value, node: ast.AST) -> Sym:
    return build.sym(operators.integer(ctx, value, node, "a slice bound"))


def _window(
    ctx: Context, owner: Expr, type_: TileType, axis: int, low: Sym, high: Sym, node: ast.Slice
) -> tuple[Expr, Expr]:
    """(start, size) along one axis, clamped to the declared and to the valid extent."""
    extent, valid = type_.shape[axis], type_.valid_shape[axis]
    if (low.value is not None and low.value < 0) or (high.value is not None and high.value < 0):
        raise ctx.error(ParserSyntaxError, "slice bounds of a tile are not negative", node)
    if low.value is not None and low.value > extent:
        raise ctx.error(ParserSyntaxError, f"{AXES[axis]} {low.value} is past the extent {extent} of the tile", node)
    if high.value is not None and high.value > extent:
        high = build.sym(extent)
    if low.value is not None and high.value is not None and high.value < low.value:
        text = f"the {AXES[axis]} slice {low.value}:{high.value} ends before it starts"
        raise ctx.error(ParserSyntaxError, text, node)
    size = high - low
    if low.value != 0 and size.value is None:
        size = size.most(0)  # a run-time window may end before it starts, too: nothing is in it
    if valid >= 0:
        if low.value is not None and low.value > valid:
            raise ctx.error(ParserSyntaxError, f"{AXES[axis]} {low.value} is past the valid extent {valid}", node)
        size = size.least(build.sym(valid) - low)
    else:
        current = build.sym(TileAttr(owner, "vr" if axis == 0 else "vc"))
        size = size.least(current if low.value == 0 else (current - low).most(0))
    if size.value is not None and size.value <= 0:
        raise ctx.error(ParserSyntaxError, f"the {AXES[axis]} slice is empty", node)
    return low.expr, size.expr
