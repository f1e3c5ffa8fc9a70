"""`make_tensor`, `make_ptr`, `addptr`, `set_stride`."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from pypto_pro.diag.errors import ParserSyntaxError, ParserTypeError
from pypto_pro.dtypes import DataType
from pypto_pro.frontend import arguments, opcalls, operators, order
from pypto_pro.frontend.context import Context
from pypto_pro.frontend.handlers import handles
from pypto_pro.frontend.values import NONE, TupleValue, Value, const_int, describe, is_ptr, is_tensor, tensor_var
from pypto_pro.ir import build
from pypto_pro.ir.nodes import Expr, Local, PtrCast, PtrOf, SetStride, TensorDecl
from pypto_pro.ir.types import INDEX, PtrType, TensorType

MAKE_TENSOR = arguments.formals("ptr, shape, stride=, dtype=")
MAKE_PTR = arguments.formals("ptr, dtype=")
ADDPTR = arguments.formals("ptr, offset")
SET_STRIDE = arguments.formals("tensor, stride")


def _pointer(ctx: Context, value: Value, node: ast.AST, owner: str) -> Expr:
    """The base address behind a pointer or a tensor. ParserTypeError for anything else."""
    if is_ptr(value):
        return value
    if is_tensor(value):
        type_ = value.type
        assert isinstance(type_, TensorType)
        return PtrOf(tensor_var(value), PtrType(type_.dtype))
    raise ctx.error(ParserTypeError, f"{owner} takes a pointer or a tensor, found {describe(value)}", node)


def _dtype(ctx: Context, node: ast.expr | None) -> DataType | None:
    if node is None or ctx.evaluate(node) == NONE:
        return None
    return arguments.enum_member(ctx, node, DataType, "`dtype`")


def _as_type(ptr: Expr, dtype: DataType | None) -> Expr:
    assert isinstance(ptr.type, PtrType)
    return ptr if dtype is None or ptr.type.dtype is dtype else PtrCast(ptr, PtrType(dtype))


def _pointee(ptr: Expr) -> DataType:
    assert isinstance(ptr.type, PtrType)
    return ptr.type.dtype


def _integers(ctx: Context, value: Value, node: ast.AST, what: str) -> tuple[Expr, ...]:
    if not isinstance(value, TupleValue):
        raise ctx.error(ParserTypeError, f"{what} is a list of integers, found {describe(value)}", node)
    entry = f"an entry of {what}"
    return tuple(build.convert(operators.integer(ctx, item, node, entry), INDEX) for item in value.items)


def _optional_list(ctx: Context, node: ast.expr | None) -> list[ast.expr]:
    return [] if node is None else [node]


@handles("make_tensor")
def make_tensor(ctx: Context, node: ast.Call, hint: str | None) -> Value:
    """`pl.make_tensor(ptr_or_tensor, shape, stride=None, dtype=None)`."""
    opcalls.check_scope(ctx, "pl.make_tensor", node)
    bound = arguments.bind(ctx, node, "pl.make_tensor", MAKE_TENSOR)
    values = order.evaluate_spread(ctx, [bound["ptr"], bound["shape"], *_optional_list(ctx, bound.get("stride"))])
    base = _pointer(ctx, values[0], bound["ptr"], "pl.make_tensor")
    ptr = _as_type(base, _dtype(ctx, bound.get("dtype")))
    dims = _integers(ctx, values[1], bound["shape"], "`shape`")
    if not dims:
        raise ValueError("a tensor view has at least one axis")
    strides = None
    if len(values) > 2 and values[2] != NONE:
        strides = _integers(ctx, values[2], bound["stride"], "`stride`")
        if len(strides) != len(dims):
            raise ValueError(f"`stride` has {len(strides)} entries, `shape` has {len(dims)}")
    known = tuple(const_int(dim) for dim in dims)
    _check_dims(known)
    var = ctx.fresh(ctx.declared(node, hint or "_view"), TensorType(_pointee(ptr), known))
    ctx.emit(TensorDecl(var, ptr, dims, strides, span=ctx.span(node)))
    ctx.stable.add(var)
    if strides is not None:
        ctx.strides[var] = tuple(const_int(stride) for stride in strides)
    return Local(var)


def _check_dims(known: Sequence[int | None]) -> None:
    for axis, dim in enumerate(known):
        if dim is not None and dim <= 0:
            raise ValueError(f"axis {axis} of the view is {dim}; sizes are positive")


@handles("make_ptr")
def make_ptr(ctx: Context, node: ast.Call, hint: str | None) -> Value:
    """`pl.make_ptr(tensor_or_ptr, dtype=None)`: the same address, reinterpreted."""
    bound = arguments.bind(ctx, node, "pl.make_ptr", MAKE_PTR)
    value = ctx.evaluate(bound["ptr"])
    return _as_type(_pointer(ctx, value, bound["ptr"], "pl.make_ptr"), _dtype(ctx, bound.get("dtype")))


@handles("addptr")
def addptr(ctx: Context, node: ast.Call, hint: str | None) -> Value:
    """`pl.addptr(ptr, offset)`, which is `ptr + offset`."""
    bound = arguments.bind(ctx, node, "pl.addptr", ADDPTR)
    ptr, offset = order.evaluate_all(ctx, [bound["ptr"], bound["offset"]])
    if not is_ptr(ptr):
        raise ctx.error(ParserTypeError, f"pl.addptr takes a pointer, found {describe(ptr)}", bound["ptr"])
    if _pointee(ptr).is_sub_byte:
        raise ValueError(f"a pointer to {_pointee(ptr).to_string()} has no arithmetic: elements share bytes")
    return operators.pointer_plus(ctx, ptr, offset, node)


@handles("set_stride")
def set_stride(ctx: Context, node: ast.Call, hint: str | None) -> None:
    """`pl.set_stride(tensor, [row, col])`."""
    opcalls.check_scope(ctx, "pl.set_stride", node)
    bound = arguments.bind(ctx, node, "pl.set_stride", SET_STRIDE)
    if not isinstance(bound["tensor"], ast.Name):
        raise ctx.error(ParserSyntaxError, "pl.set_stride takes the name of a tensor", bound["tensor"])
    tensor, stride = order.evaluate_spread(ctx, [bound["tensor"], bound["stride"]])
    if not is_tensor(tensor):
        raise ctx.error(ParserTypeError, f"pl.set_stride takes a tensor, found {describe(tensor)}", bound["tensor"])
    steps = _integers(ctx, stride, bound["stride"], "`stride`")
    if len(steps) != 2:
        raise ValueError(f"set_stride takes [row, col], found {len(steps)} entries")
    var = tensor_var(tensor)
    ctx.strides[var] = (None,) * len(var.type.dims)  # type: ignore[union-attr]  # transfers no longer use its own
    ctx.emit(SetStride(var, *steps, span=ctx.span(node)))
