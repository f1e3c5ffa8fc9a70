"""Operands of ops: kinds and memory spaces, the static facts rules see, the symbolic ones `issue` and `rewrite` see."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from pypto_pro.diag.errors import ParserTypeError
from pypto_pro.dtypes import DataType
from pypto_pro.enums import TensorLayout
from pypto_pro.frontend import operators
from pypto_pro.frontend.context import Context
from pypto_pro.frontend.values import (
    NONE,
    GroupValue,
    StructValue,
    TupleValue,
    Value,
    describe,
    is_expr,
    is_scalar,
    is_tensor,
    is_tile,
    tensor_var,
)
from pypto_pro.ir import build
from pypto_pro.ir.build import Sym
from pypto_pro.ir.nodes import Arg, Const, Expr, Field, GroupDecl, Local, Slot, SubView, TileAttr, TileDecl
from pypto_pro.ir.types import (
    INDEX,
    AddrRegType,
    MaskType,
    PtrType,
    RegType,
    ScalarType,
    TensorType,
    TileType,
    UnalignRegType,
)
from pypto_pro.layouts import BLOCK_BYTES, effective_layout
from pypto_pro.ops.entry import Kind, OpEntry, Operand, Param
from pypto_pro.ops.operands import ScalarInfo, TensorInfo, TileInfo

_KIND_OF: dict[type, Kind] = {
    TileType: Kind.TILE, TensorType: Kind.TENSOR, ScalarType: Kind.SCALAR, PtrType: Kind.PTR, RegType: Kind.REG,
    MaskType: Kind.MASK, AddrRegType: Kind.ADDR_REG, UnalignRegType: Kind.UNALIGN_REG,
}  # fmt: skip
_WORDS = {
    Kind.TILE: "a tile", Kind.TENSOR: "a tensor", Kind.SCALAR: "a scalar", Kind.PTR: "a pointer",
    Kind.OFFSETS: "a list of integers", Kind.STRUCT: "a struct", Kind.REG: "a register", Kind.MASK: "a mask",
    Kind.ADDR_REG: "an address register", Kind.UNALIGN_REG: "an unaligned register",
}  # fmt: skip


def kind_of(value: Value) -> Kind | None:
    """The operand kind of a value."""
    match value:
        case TupleValue():
            return Kind.OFFSETS
        case StructValue():
            return Kind.STRUCT
    return _KIND_OF.get(type(value.type)) if is_expr(value) else None


def argument(ctx: Context, entry: OpEntry, param: Param, value: Value, node: ast.AST) -> Arg:
    """The IR operand of a parameter. TypeError (ParserTypeError where the entry says so) or ValueError when kind or
    memory space do not fit.
    """
    spec = param.spec
    assert isinstance(spec, Operand)
    if value == NONE and not param.required and param.default is None:
        return None
    kind = kind_of(value)
    if kind not in spec.kinds:
        wanted = " or ".join(_WORDS[k] for k in Kind if k in spec.kinds)
        more = "; take a slot with .next(), .current() or [i]" if isinstance(value, GroupValue) else ""
        text = f"{param.name} must be {wanted}, found {describe(value)}{more}"
        if entry.type_errors and Kind.SCALAR not in spec.kinds:
            raise ctx.error(ParserTypeError, f"`{entry.name}`: {text}", node)
        raise TypeError(text)
    if Kind.OFFSETS in spec.kinds and is_scalar(value) and build.kind_of(value).is_float():
        raise TypeError(f"{param.name} is an integer or a list of integers, found {describe(value)}")
    if is_tile(value):
        type_ = value.type
        assert isinstance(type_, TileType)
        if len(type_.shape) != 2:
            raise ValueError(f"{param.name} tile must be 2D, found shape {list(type_.shape)}")
        if spec.spaces and type_.space not in spec.spaces:
            wanted = " or ".join(space.name for space in spec.spaces)
            raise ValueError(f"`{param.name}` of {entry.key} is a tile in {wanted}, found one in {type_.space.name}")
    match value:
        case TupleValue(items):
            if len(items) != 2 and entry.key.startswith("vf."):
                raise ValueError(f"`{param.name}` of {entry.key} is a number or [row, col], found {len(items)} items")
            what = f"an item of `{param.name}`"
            return tuple(build.convert(operators.integer(ctx, item, node, what), INDEX) for item in items)
        case StructValue(place):
            return Field(place)
        case Const(number) if spec.const_dtype is not None:
            return build.number(number, spec.const_dtype)
    assert is_expr(value)
    return value


# --- static facts ----------------------------------------------------------------------------------------------------


def info(ctx: Context, arg: Arg, name: str) -> Any:
    """What `rules` sees of an operand: TileInfo, TensorInfo, ScalarInfo, tuples of those; registers by their type."""
    match arg:
        case None:
            return None
        case tuple():
            return tuple(info(ctx, item, name) for item in arg)
    type_ = arg.type
    match type_:
        case TileType():
            return TileInfo(type_, name, const_address(ctx, arg), skew(ctx, arg))
        case TensorType():
            return TensorInfo(type_, name, tensor_strides(ctx, arg))
        case ScalarType():
            return ScalarInfo(type_, arg.value if isinstance(arg, Const) else None, name)
    return RegisterInfo(type_, name)


@dataclass(frozen=True, slots=True)
class RegisterInfo:
    """A register, mask, pointer or struct operand as `rules` sees it."""

    type: Any
    name: str

    @property
    def dtype(self) -> DataType:
        """Element dtype (of a mask: its tag)."""
        found = self.type.dtype
        assert isinstance(found, DataType)
        return found


def const_address(ctx: Context, tile: Expr) -> int | None:
    """The byte address of a tile when it is known."""
    match tile:
        case Local(var):
            if var in ctx.tiles:
                decl = ctx.tiles[var]
                assert isinstance(decl, TileDecl)
                return decl.addr
            return const_address(ctx, ctx.refs[var]) if var in ctx.refs else None
        case Slot(group, Const(index)):
            owner = ctx.groups[group]
            assert isinstance(owner, GroupDecl)
            return owner.addrs[int(index)]
        case Slot(group):
            owner = ctx.groups[group]
            return owner.addrs[0] if len(set(owner.addrs)) == 1 else None
    return None


def skew(ctx: Context, tile: Expr) -> int | None:
    """Bytes from a 32-byte boundary to the start of a tile in Vec; None when the run decides."""
    match tile:
        case Slot():
            return 0  # every slot is aligned
        case Local(var) if var in ctx.tiles:
            return 0
        case Local(var) if var in ctx.refs:
            return skew(ctx, ctx.refs[var])
        case Local(var) if var in ctx.views:
            view = ctx.views[var]
            assert isinstance(view, SubView)
            before, type_ = skew(ctx, view.base), var.type
            assert isinstance(type_, TileType)
            elements = [_along(index, step, type_.dtype.nbytes) for index, step in _places(view, type_)]
            if before is None or None in elements:
                return None
            return (before + sum(e for e in elements if e is not None)) % BLOCK_BYTES
    return None


def _places(view: SubView, type_: TileType) -> tuple[tuple[Expr, int], tuple[Expr, int]]:
    """(index, elements it counts in) of both axes of a sub-view."""
    if effective_layout(type_.layout, type_.cols) is TensorLayout.DN:
        return (view.row, 1), (view.col, type_.rows)
    return (view.row, type_.cols), (view.col, 1)


def _along(index: Expr, step: int, width: int) -> int | None:
    """Bytes an index moves the start, modulo a block; None when the run decides."""
    if step * width % BLOCK_BYTES == 0:
        return 0
    return int(index.value) * step * width if isinstance(index, Const) else None


def tensor_strides(ctx: Context, tensor: Expr) -> tuple[int | None, ...] | None:
    """Strides in elements where known: as declared, or contiguous."""
    if not is_tensor(tensor):
        return None
    var = tensor_var(tensor)
    if var in ctx.strides:
        return ctx.strides[var]
    type_ = var.type
    assert isinstance(type_, TensorType)
    strides: list[int | None] = []
    step: int | None = 1
    for dim in reversed(type_.dims):
        strides.append(step)
        step = None if step is None or dim is None else step * dim
    return tuple(reversed(strides))


# --- symbolic operands -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SymTile:
    """A tile whose valid extents are symbolic numbers."""

    type: TileType
    expr: Expr

    @property
    def dtype(self) -> DataType:
        """Element dtype."""
        return self.type.dtype

    @property
    def vr(self) -> Sym:
        """Valid rows now."""
        return self._extent(0)

    @property
    def vc(self) -> Sym:
        """Valid columns now."""
        return self._extent(1)

    def _extent(self, axis: int) -> Sym:
        fixed = self.type.valid_shape[axis]
        return build.sym(fixed if fixed >= 0 else TileAttr(self.expr, "vr" if axis == 0 else "vc"))


@dataclass(frozen=True, slots=True)
class SymOther:
    """A tensor, pointer, register or float operand, passed through."""

    type: Any
    expr: Expr


def symbolic(arg: Arg) -> Any:
    """What `issue` and `rewrite` compute with: SymTile, Sym for integers, tuples of Sym, SymOther."""
    match arg:
        case None:
            return None
        case tuple():
            return tuple(symbolic(item) for item in arg)
    type_ = arg.type
    if isinstance(type_, TileType):
        return SymTile(type_, arg)
    if isinstance(type_, ScalarType) and type_.dtype.is_int():
        return build.sym(arg)
    return SymOther(type_, arg)


def concrete(value: Any) -> Any:
    """The IR operand behind a symbolic one; keywords pass unchanged."""
    match value:
        case Sym(expr):
            return expr
        case SymTile(expr=expr) | SymOther(expr=expr):
            return expr
        case bool():
            return value
        case tuple() if any(isinstance(item, Sym) for item in value):
            return tuple(build.expr_of(item) for item in value)
    return value


def is_known(value: Any) -> bool:
    """Whether a symbolic condition is known when the kernel is read."""
    return not isinstance(value, Sym) or value.value is not None
