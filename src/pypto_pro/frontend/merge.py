"""Where paths meet: one value for a name that different paths gave different values.

Scalars and pointers get a variable that each path assigns; tiles, tensors and structs get an object of their own,
initialised from the chosen one, so that later writes to it never reach the source.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from pypto_pro.diag import Span
from pypto_pro.diag.errors import ParserTypeError
from pypto_pro.dtypes import DataType
from pypto_pro.frontend import order
from pypto_pro.frontend.context import Context, whole
from pypto_pro.frontend.values import (
    NONE,
    Poison,
    StructValue,
    TupleValue,
    Value,
    describe,
    expr_type,
    is_ptr,
    is_register,
    is_scalar,
    is_tensor,
    is_tile,
    tensor_var,
)
from pypto_pro.ir import build
from pypto_pro.ir.nodes import (
    Assign,
    Const,
    CopyStruct,
    CopyTensor,
    CopyTile,
    Expr,
    GroupDecl,
    Local,
    Pick,
    Slot,
    Stmt,
    StructDecl,
    TilePlus,
    Var,
)
from pypto_pro.ir.printer import print_type
from pypto_pro.ir.structs import layout_of
from pypto_pro.ir.types import ScalarType, StructType, TensorType, TileType, Type


@dataclass(eq=False)
class Path:
    """One way to a meeting point: the statements that lead there, whether the last is a jump, and the value."""

    block: list[Stmt]
    value: Value
    ends_in_jump: bool = False

    def put(self, stmts: Sequence[Stmt]) -> None:
        """Add statements at the end of the path, before its jump."""
        at = len(self.block) - 1 if self.ends_in_jump else len(self.block)
        self.block[at:at] = stmts


def mixed(ctx: Context, name: str, values: Sequence[Value], node: ast.AST | Span) -> Poison:
    """The value of a name that cannot be merged: reading it is an error that names both kinds."""
    kinds = list(dict.fromkeys(describe(v) for v in values))
    if len(kinds) == 1:
        kinds = list(dict.fromkeys(typed(v) for v in values))
    text = f"{kinds[0]} on one path and {kinds[-1]} on another"
    span = node if isinstance(node, Span) else ctx.span(node)
    whose = "the value" if name.startswith("_") else f"`{name}`"
    return Poison(ParserTypeError, f"{whose} is {text}", span.labelled("the paths meet here"))


def typed(value: Value) -> str:
    """What a value is, with its type: for two that are described alike."""
    if isinstance(value, TupleValue):
        return f"({', '.join(map(typed, value.items))})"
    kind = expr_type(value)
    return f"{describe(value)} {print_type(kind)}" if isinstance(kind, TensorType | TileType) else describe(value)


def merge(ctx: Context, name: str, paths: Sequence[Path], node: ast.AST | Span, *, var: bool = True) -> Value:
    """The value after the meeting point. `var`: scalars may use the author's own variable `name`.

    Declarations that all paths share are emitted into the open block, which must come before them.
    """
    first = paths[0].value
    values = [path.value for path in paths]
    for value in values:
        if isinstance(value, Poison):
            return value
    if all(value == first for value in values) and not isinstance(first, Const):
        return first
    some = [path for path in paths if path.value != NONE]
    if not some:
        return NONE
    lead = some[0].value
    if all(is_scalar(path.value) for path in some):
        return _scalars(ctx, name, some, node, var)
    if all(is_ptr(path.value) and _type(path.value) == _type(lead) for path in some):
        return _pointers(ctx, name, some, node, var)
    if all(is_tile(path.value) and _type(path.value) == _type(lead) for path in some):
        return _tiles(ctx, name, some, node)
    if all(is_tensor(path.value) for path in some):
        return _tensors(ctx, name, some, node)
    if all(isinstance(path.value, StructValue) and path.value.type == _struct(lead) for path in some):
        return _structs(ctx, name, some, node)
    if all(isinstance(path.value, TupleValue) and same_shape(path.value, lead) for path in some):
        return _tuples(ctx, name, some, node, var)
    return mixed(ctx, name, [path.value for path in some], node)


def _type(value: Value) -> object:
    return value.type if is_tile(value) or is_ptr(value) else None


def alike(one: Type, other: Type) -> bool:
    """Whether two types are the same; INDEX and INT64 are."""
    if isinstance(one, ScalarType) and isinstance(other, ScalarType):
        return _plain(one.dtype) is _plain(other.dtype)
    return one == other


def _plain(dtype: DataType) -> DataType:
    return DataType.DT_INT64 if dtype is DataType.DT_INDEX else dtype


def _struct(value: Value) -> StructType | None:
    return value.type if isinstance(value, StructValue) else None


def same_shape(value: TupleValue, other: Value) -> bool:
    """Whether two tuples have the same number of items and the same names."""
    return isinstance(other, TupleValue) and len(value.items) == len(other.items) and value.names == other.names


def _span(ctx: Context, node: ast.AST | Span) -> Span:
    return node if isinstance(node, Span) else ctx.span(node)


def scalar_dtype(values: Sequence[Value]) -> ScalarType | None:
    """The common type of scalars from several paths, None when ints meet floats or bools."""
    found = None
    for value in values:
        assert is_scalar(value)
        kind = build.kind_of(value)
        found = kind if found is None else build.merged(found, kind)
        if found is None:
            return None
    return None if found is None else ScalarType(found)


def _scalars(ctx: Context, name: str, paths: Sequence[Path], node: ast.AST | Span, var: bool) -> Value:
    type_ = scalar_dtype([path.value for path in paths])
    if type_ is None:
        return mixed(ctx, name, [path.value for path in paths], node)
    target = ctx.variable(name, type_) if var else ctx.fresh(name, type_)
    store_scalars(ctx, target, paths, node)
    return Local(target)


def store_scalars(ctx: Context, target: Var, paths: Sequence[Path], node: ast.AST | Span) -> None:
    """Assign the scalar or pointer of each path to one variable, converted by C rules."""
    for path in paths:
        value = path.value
        assert is_scalar(value) or is_ptr(value)
        if isinstance(target.type, ScalarType):
            value = build.convert(value, target.type)
        if value != Local(target):
            path.put([Assign(target, value, span=_span(ctx, node))])


def _pointers(ctx: Context, name: str, paths: Sequence[Path], node: ast.AST | Span, var: bool) -> Value:
    lead = paths[0].value
    assert is_ptr(lead)
    target = ctx.variable(name, lead.type) if var else ctx.fresh(name, lead.type)
    store_scalars(ctx, target, paths, node)
    return Local(target)


def id_count(ctx: Context, tile: Expr) -> int:
    """How many mutex ids the slot behind a tile expression carries."""
    match tile:
        case Slot(group):
            decl = ctx.groups[group]
            assert isinstance(decl, GroupDecl)
            return len(decl.mutex_ids[0]) if decl.mutex_ids else 0
        case Pick(options=options):
            return id_count(ctx, options[0])
        case TilePlus(tile=base):
            return id_count(ctx, base)
        case Local(var):
            if var in ctx.id_counts:
                return ctx.id_counts[var]
            return id_count(ctx, ctx.refs[var]) if var in ctx.refs else 0
    return 0


def own_tile(ctx: Context, name: str, sample: Expr, count: int) -> Var:
    """A tile variable with a descriptor of its own, of the type of `sample`, carrying `count` ids."""
    var = ctx.fresh(name, sample.type)
    ctx.id_counts[var] = count
    return var


def _tiles(ctx: Context, name: str, paths: Sequence[Path], node: ast.AST | Span) -> Value:
    values = [path.value for path in paths if is_tile(path.value)]
    counts = {id_count(ctx, value) for value in values}
    if len(counts) > 1:
        found = " and ".join(str(c) for c in sorted(counts))
        text = f"`{name}` carries {found} mutex ids on different paths; the counts must be equal"
        return Poison(ParserTypeError, text, _span(ctx, node).labelled("the paths meet here"))
    target = own_tile(ctx, name, values[0], counts.pop())
    for path, value in zip(paths, values, strict=True):
        path.put([CopyTile(target, value, span=_span(ctx, node))])
    return Local(target)


def tensor_type(values: Sequence[Value]) -> TensorType | None:
    """The type of a view that may be any of the tensors, None when dtype, rank or layout differ."""
    types = [value.type for value in values if is_tensor(value)]
    first = types[0]
    assert isinstance(first, TensorType)
    dims = list(first.dims)
    for other in types[1:]:
        assert isinstance(other, TensorType)
        if (other.dtype, other.rank, other.layout) != (first.dtype, first.rank, first.layout):
            return None
        dims = [a if a == b else None for a, b in zip(dims, other.dims, strict=True)]
    return TensorType(first.dtype, tuple(dims), first.layout)


def _tensors(ctx: Context, name: str, paths: Sequence[Path], node: ast.AST | Span) -> Value:
    type_ = tensor_type([path.value for path in paths])
    if type_ is None:
        return mixed(ctx, name, [path.value for path in paths], node)
    target = ctx.fresh(name, type_)
    for path in paths:
        path.put([CopyTensor(target, tensor_var(path.value), span=_span(ctx, node))])
    return Local(target)


def own_struct(ctx: Context, name: str, type_: StructType, node: ast.AST | Span) -> StructValue:
    """A zeroed struct declared in the open block."""
    var = ctx.fresh(name, type_)
    init = tuple(build.number(0, dtype) for _, dtype in layout_of(type_).leaves)
    ctx.emit(StructDecl(var, init, span=_span(ctx, node)))
    ctx.owned.add(var)
    return StructValue(whole(var, type_))


def _structs(ctx: Context, name: str, paths: Sequence[Path], node: ast.AST | Span) -> Value:
    lead = paths[0].value
    assert isinstance(lead, StructValue)
    target = own_struct(ctx, name, lead.type, node)
    for path in paths:
        assert isinstance(path.value, StructValue)
        path.put([CopyStruct(target.place, path.value.place, span=_span(ctx, node))])
    return target


def _tuples(ctx: Context, name: str, paths: Sequence[Path], node: ast.AST | Span, var: bool) -> Value:
    lead = paths[0].value
    assert isinstance(lead, TupleValue)
    merged = []
    for i in range(len(lead.items)):
        parts = [Path(p.block, p.value.items[i], p.ends_in_jump) for p in paths if isinstance(p.value, TupleValue)]
        if all(part.value == parts[0].value for part in parts):
            merged.append(parts[0].value)
        else:
            merged.append(merge(ctx, f"{name}.{lead.names[i] if lead.names else i}", parts, node, var=False))
        item = merged[-1]
        if isinstance(item, Poison):
            return item
    return TupleValue(tuple(merged), lead.names)


def copies(ctx: Context, pairs: Sequence[tuple[Value, Value]], node: ast.AST | Span) -> list[Stmt]:
    """Statements that store each value (second) in its carrier (first), as if all at once."""
    leaves_: list[tuple[Value, Value]] = [leaf for pair in pairs for leaf in _leaf_pairs(*pair)]
    todo = [(target, value) for target, value in leaves_ if target != value]
    span = _span(ctx, node)
    if len(todo) < 2 or not _overlap(ctx, todo):
        return [_copy(target, value, span) for target, value in todo]
    first: list[Stmt] = []
    then: list[Stmt] = []
    for target, value in todo:
        between = _like(ctx, target)
        first += [_copy(between, value, span)]
        then += [_copy(target, between, span)]
    return first + then


def _leaf_pairs(target: Value, value: Value) -> list[tuple[Value, Value]]:
    if isinstance(target, TupleValue) and isinstance(value, TupleValue):
        items = zip(target.items, value.items, strict=True)
        return [leaf for pair in items for leaf in _leaf_pairs(*pair)]
    return [] if value == NONE else [(target, value)]


def _overlap(ctx: Context, todo: Sequence[tuple[Value, Value]]) -> bool:
    """Whether a value to be stored reads a carrier that another store of the same edge overwrites."""
    targets = {target.var for target, _ in todo if isinstance(target, Local)}
    for target, value in todo:
        if is_tile(value):
            read = order.roots(ctx, value)
        elif isinstance(value, Local):
            read = {value.var}
        else:
            read = set()
        if read & (targets - ({target.var} if isinstance(target, Local) else set())):
            return True
    return any(isinstance(target, StructValue) for target, _ in todo)


def _like(ctx: Context, target: Value) -> Value:
    """A temporary of the kind of a carrier."""
    if isinstance(target, StructValue):
        return StructValue(whole(ctx.fresh("_t", target.type), target.type))
    assert isinstance(target, Local)
    var = ctx.fresh("_t", target.var.type)
    if isinstance(var.type, TileType):
        ctx.id_counts[var] = id_count(ctx, target)
    return Local(var)


def _copy(target: Value, value: Value, span: Span) -> Stmt:
    if isinstance(target, StructValue):
        assert isinstance(value, StructValue)
        return CopyStruct(target.place, value.place, span=span)
    assert isinstance(target, Local)
    var = target.var
    if isinstance(var.type, TensorType):
        return CopyTensor(var, tensor_var(value), span=span)
    if isinstance(var.type, TileType):
        assert is_tile(value)
        return CopyTile(var, value, span=span)
    assert is_scalar(value) or is_ptr(value) or is_register(value)
    return Assign(var, build.convert(value, var.type) if isinstance(var.type, ScalarType) else value, span=span)
