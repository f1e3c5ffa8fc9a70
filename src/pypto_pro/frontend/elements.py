"""Scalar access `t[i, j]` to tiles and tensors, which is `getval`/`setval` at a row-major offset."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from pypto_pro.diag.errors import ParserSyntaxError, ParserTypeError, UnsupportedFeatureError
from pypto_pro.frontend import opcalls, operators, order
from pypto_pro.frontend.context import Context
from pypto_pro.frontend.values import Value, is_tensor, is_tile, tensor_var
from pypto_pro.ir import build
from pypto_pro.ir.build import Sym
from pypto_pro.ir.nodes import Dim, Expr
from pypto_pro.ir.types import TensorType, TileType
from pypto_pro.ops.table import entry_of

READ, WRITE = "getval", "setval"


def read_element(ctx: Context, owner: Expr, node: ast.Subscript, hint: str | None) -> Value:
    """`t[i, j]`."""
    offset = _offset(ctx, owner, order.evaluate_all(ctx, _indices(node)), node)
    found = opcalls.emit(ctx, entry_of(READ), {"container": owner, "offset": offset}, {}, node, hint)
    assert found is not None
    return found


def write_element(ctx: Context, owner: Expr, node: ast.Subscript, value: Value) -> None:
    """`t[i, j] = value`."""
    offset = _offset(ctx, owner, order.evaluate_all(ctx, _indices(node)), node)
    opcalls.emit(ctx, entry_of(WRITE), {"container": owner, "offset": offset, "value": value}, {}, node, None)


def _indices(node: ast.Subscript) -> list[ast.expr]:
    return list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]


def _extents(owner: Expr) -> list[Sym]:
    type_ = owner.type
    if isinstance(type_, TileType):
        return [build.sym(extent) for extent in type_.shape]
    assert isinstance(type_, TensorType)
    var = tensor_var(owner)
    return [build.sym(Dim(var, axis) if dim is None else dim) for axis, dim in enumerate(type_.dims)]


def _offset(ctx: Context, owner: Expr, indices: Sequence[Value], node: ast.Subscript) -> Expr:
    """The row-major linear offset over the declared shape; checks the number of indices."""
    extents = _extents(owner)
    what = "tile" if is_tile(owner) else "tensor"
    if ctx.in_vector_function and is_tile(owner):
        raise ctx.error(
            ParserSyntaxError if len(indices) == 1 else UnsupportedFeatureError,
            "elements of a tile cannot be accessed in a vector function", node,
            hint="load a register; `tile + n` moves the base address",
        )  # fmt: skip
    if len(indices) != len(extents):
        kind = ParserSyntaxError if len(indices) == 1 else ParserTypeError
        text = f"a {what} of rank {len(extents)} takes {len(extents)} indices, found {len(indices)}"
        raise ctx.error(kind, text, node)
    assert is_tile(owner) or is_tensor(owner)
    total = build.sym(0)
    for extent, index in zip(extents, indices, strict=True):
        total = total * extent + build.sym(operators.integer(ctx, index, node.slice, "an index"))
    return total.expr
