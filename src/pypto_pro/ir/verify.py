"""What IR is allowed to look like, as a list of small rules; what they find is a mistake of the compiler.

A rule takes one program with its context and yields messages. The op table is handed in: `ir` lies below `ops`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pypto_pro.diag import CODES, Diagnostic, Severity, Span
from pypto_pro.ir import text, walk
from pypto_pro.ir.nodes import (
    Assign,
    Binary,
    Block,
    Break,
    Choose,
    Continue,
    CopyStruct,
    CopyTensor,
    CopyTile,
    Dim,
    Expr,
    For,
    GroupDecl,
    If,
    Kernel,
    Lock,
    Op,
    Pick,
    Place,
    Program,
    PtrOf,
    SetCross,
    SetField,
    SetFlag,
    SetStride,
    SetValid,
    SimtLaunch,
    Slot,
    Stmt,
    StructDecl,
    SubView,
    SyncAll,
    TensorDecl,
    TileAttr,
    TileDecl,
    TilePlus,
    Unlock,
    Var,
    VfCall,
    WaitCross,
    WaitFlag,
    While,
)
from pypto_pro.ir.printer import print_expr, print_type
from pypto_pro.ir.structs import leaf_count
from pypto_pro.ir.types import (
    GroupType,
    PtrType,
    ScalarType,
    StructArrayType,
    StructType,
    TensorType,
    TileType,
    Type,
)

Lookup = Callable[[str], Any]
"""The op table's look-up by name: an entry with `data_params`, `keywords`, `results`, `more_results`, or None."""


@dataclass(frozen=True)
class Scene:
    """One program with the kernel around it and the op table."""

    kernel: Kernel
    program: Program
    lookup: Lookup


Complaint = tuple[Span, str]
Rule = Callable[[Scene], Iterable[Complaint]]


def check(kernel: Kernel, lookup: Lookup) -> list[Diagnostic]:
    """Every rule over every program; empty when the IR is well formed."""
    entry = CODES["P008"]
    return [
        Diagnostic(
            entry.code, entry.kind, Severity.ERROR, message, (span,), kernel=kernel.name, core=program.core.value
        )
        for program in kernel.programs
        for rule in RULES
        for span, message in rule(Scene(kernel, program, lookup))
    ]


def one_type_a_name(scene: Scene) -> Iterator[Complaint]:
    """A name stands for one variable."""
    seen = {p.name: p for p in scene.kernel.params}
    for stmt in walk.statements(scene.program.body):
        for var in _vars(stmt):
            if seen.setdefault(var.name, var) != var:
                before = print_type(seen[var.name].type)
                yield stmt.span, f"`{var.name}` is {print_type(var.type)} here, {before} before"


def bound_before_use(scene: Scene) -> Iterator[Complaint]:
    """A variable has a value on some way here before it is read."""
    yield from _unbound(scene.program.body, set(scene.kernel.params))


def _unbound(body: Block, bound: set[Var]) -> Iterator[Complaint]:
    for stmt in body:
        for var in walk.reads(stmt):
            if var not in bound:
                yield stmt.span, f"`{var.name}` is read before anything gave it a value"
        bound |= {*walk.bound_vars(stmt)}
        for inner in walk.blocks(stmt):
            yield from _unbound(inner, bound)


def jumps_inside_loops(scene: Scene) -> Iterator[Complaint]:
    """`break` and `continue` stand in a loop of the same body; vector functions and threads are bodies of their own."""

    def visit(body: Block, inside: bool) -> Iterator[Complaint]:
        for stmt in body:
            if isinstance(stmt, Break | Continue) and not inside:
                yield stmt.span, f"{text.STMT_NAMES[type(stmt)]} outside a loop"
            is_loop, is_body = isinstance(stmt, For | While), isinstance(stmt, VfCall | SimtLaunch)
            for inner in walk.blocks(stmt):
                yield from visit(inner, is_loop or (inside and not is_body))

    yield from visit(scene.program.body, False)


def operand_types(scene: Scene) -> Iterator[Complaint]:
    """Expressions are put together from operands of the types their node says."""
    for stmt in walk.statements(scene.program.body):
        for root in walk.expressions(stmt):
            for node in walk.walk(root):
                reason = _wrong_expr(node)
                if reason is not None:
                    yield stmt.span, f"{print_expr(node) if walk.is_expr(node) else node}: {reason}"


def _wrong_expr(node: Any) -> str | None:
    match node:
        case Binary(op, lhs, rhs, kind):
            if lhs.type != rhs.type and op not in ("and", "or", "<<", ">>"):
                return f"operands are {print_type(lhs.type)} and {print_type(rhs.type)}"
            if isinstance(lhs.type, ScalarType) and kind != text.binary_type(op, lhs.type):
                return f"the result is called {print_type(kind)}"
        case Choose(cond, then, other, kind):
            if not isinstance(cond.type, ScalarType):
                return "the condition is no scalar"
            if not then.type == other.type == kind:
                return "the sides differ in type"
        case Dim(tensor, axis):
            if not isinstance(tensor.type, TensorType) or not 0 <= axis < tensor.type.rank:
                return "no such axis"
        case TileAttr(tile, _, _):
            if not isinstance(tile.type, TileType):
                return "not a tile"
        case Slot(group, index):
            if not isinstance(group.type, GroupType) or not _is_int(index):
                return "a slot needs a group and an int"
        case Pick(index, options, kind):
            if not options or not _is_int(index) or any(option.type != kind for option in options):
                return "the options differ in type, or the index is no int"
        case TilePlus(tile, _, kind):
            if tile.type != kind:
                return "moving a tile keeps its type"
        case PtrOf(tensor, _):
            if not isinstance(tensor.type, TensorType):
                return "not a tensor"
        case Place():
            return _wrong_place(node)
    return None


def _wrong_place(place: Place) -> str | None:
    derived = text.place_type(place.var, place.index is not None, place.path, place.element is not None)
    return None if derived == place.type else f"no place of type {print_type(place.type)}"


def statement_operands(scene: Scene) -> Iterator[Complaint]:
    """Statements take the kinds of operand their node says."""
    for stmt in walk.statements(scene.program.body):
        for expr, ok, wanted in _expected(stmt):
            if not ok(expr):
                yield stmt.span, f"{text.STMT_NAMES[type(stmt)]} takes {wanted}, found {print_expr(expr)}"


Expected = tuple[Expr, Callable[[Expr], bool], str]


def _is_int(expr: Expr) -> bool:
    return isinstance(expr.type, ScalarType) and not expr.type.dtype.is_float()


def _is_scalar(expr: Expr) -> bool:
    return isinstance(expr.type, ScalarType)


def _is_tile(expr: Expr) -> bool:
    return isinstance(expr.type, TileType)


def _is_tile_or_group(expr: Expr) -> bool:
    return isinstance(expr.type, TileType | GroupType)


def _is_ptr(expr: Expr) -> bool:
    return isinstance(expr.type, PtrType)


def _expected(stmt: Stmt) -> Iterator[Expected]:
    """Operands of a statement with the test each must pass and what that test asks for in words."""
    ints: Iterable[Expr] = ()
    match stmt:
        case SubView(base=base):
            yield base, _is_tile, "a tile"
            ints = (stmt.row, stmt.col, stmt.rows, stmt.cols)
        case CopyTile(source=source):
            yield source, _is_tile, "a tile"
        case TensorDecl(ptr=ptr, dims=dims, strides=strides):
            yield ptr, _is_ptr, "a pointer"
            ints = (*dims, *(strides or ()))
        case SetValid(tile=tile):
            yield tile, _is_tile_or_group, "a tile or a group"
            ints = (stmt.rows, stmt.cols)
        case SetStride():
            ints = (stmt.row, stmt.col)
        case If(cond=cond):
            yield cond, _is_scalar, "a scalar condition"
        case For(start=start, stop=stop, step=step):
            ints = (start, stop, step)
        case VfCall(tiles=tiles):
            yield from ((tile, _is_tile, "tiles") for tile in tiles)
        case SetFlag() | WaitFlag() | SetCross() | WaitCross():
            ints = (stmt.event,)
        case Lock(mutex=mutex, unless=unless) | Unlock(mutex=mutex, unless=unless):
            ints = (mutex, *unless)
        case SyncAll(used_cores=used) if used is not None:
            ints = (used,)
    yield from ((expr, _is_int, "ints") for expr in ints)


def owners_and_references(scene: Scene) -> Iterator[Complaint]:
    """A tile or tensor variable owns a descriptor or refers to somebody else's, never both; declarations own."""
    owners: dict[Var, Stmt] = {}
    references: dict[Var, Stmt] = {}
    for stmt in walk.statements(scene.program.body):
        match stmt:
            case TileDecl(var=var) | SubView(var=var) | CopyTile(var=var) | TensorDecl(var=var) | CopyTensor(var=var):
                owners.setdefault(var, stmt)
            case Assign(var=Var(type=TileType() | TensorType()) as var):
                references.setdefault(var, stmt)
            case Assign(var=Var(type=StructType() | GroupType()) as var):
                yield stmt.span, f"`{var.name}` cannot be assigned as a whole"
    for var in owners.keys() & references.keys():
        yield references[var].span, f"`{var.name}` owns a descriptor and is also bound to another's"


def _takes(target: Any, source: Any) -> bool:
    """Whether a view variable can hold another view: dims that it does not know may be anything."""
    if not isinstance(target, TensorType) or not isinstance(source, TensorType):
        return False
    same = (target.dtype, target.layout, target.rank) == (source.dtype, source.layout, source.rank)
    return same and all(a is None or a == b for a, b in zip(target.dims, source.dims, strict=True))


def assigned_types(scene: Scene) -> Iterator[Complaint]:
    """What a variable or field receives has its type."""
    for stmt in walk.statements(scene.program.body):
        match stmt:
            case Assign(var=var, value=value) | CopyTile(var=var, source=value) if var.type != value.type:
                yield stmt.span, f"`{var.name}` is {print_type(var.type)} and receives {print_type(value.type)}"
            case SubView(var=var, base=base) if var.type != base.type:
                yield stmt.span, f"`{var.name}` is no {print_type(base.type)}"
            case CopyTensor(var=var, source=source) if not _takes(var.type, source.type):
                yield stmt.span, f"`{var.name}` is {print_type(var.type)} and receives {print_type(source.type)}"
            case SetField(place=place, value=value) if place.type != value.type:
                yield stmt.span, f"a {print_type(place.type)} field receives {print_type(value.type)}"
            case CopyStruct(target=target, source=source) if target.type != source.type:
                yield stmt.span, "the structs differ in type"
            case StructDecl(var=var, init=init) if len(init) != _leaves(var.type):
                yield stmt.span, f"`{var.name}` has {_leaves(var.type)} scalars, found {len(init)} values"


def _leaves(kind: Type) -> int:
    struct = kind.struct if isinstance(kind, StructArrayType) else kind
    return leaf_count(struct) if isinstance(struct, StructType) else 0


def groups_are_whole(scene: Scene) -> Iterator[Complaint]:
    """A group has an address, and ids or none at all, for each slot; a cursor when there is a choice."""
    for stmt in walk.statements(scene.program.body):
        if isinstance(stmt, GroupDecl):
            assert isinstance(stmt.var.type, GroupType)
            depth, each = stmt.var.type.depth, stmt.var.type.ids_per_slot
            if len(stmt.addrs) != depth or (stmt.mutex_ids and len(stmt.mutex_ids) != depth):
                yield stmt.span, f"`{stmt.var.name}` has {depth} slots, found {len(stmt.addrs)} addresses"
            if any(len(ids) != each for ids in stmt.mutex_ids):
                yield stmt.span, f"`{stmt.var.name}` has {each} mutex ids a slot, found {stmt.mutex_ids}"
            if (stmt.cursor is None) != (depth == 1):
                yield stmt.span, f"`{stmt.var.name}` has {depth} slots and the cursor {stmt.cursor}"


def ops_match_the_table(scene: Scene) -> Iterator[Complaint]:
    """An op exists, with as many operands, the keywords and the results its entry says."""
    for stmt in walk.statements(scene.program.body):
        if not isinstance(stmt, Op):
            continue
        entry = scene.lookup(stmt.name)
        if entry is None:
            yield stmt.span, f"there is no op `{stmt.name}`"
            continue
        if len(stmt.args) != len(entry.data_params):
            yield stmt.span, f"`{stmt.name}` has {len(entry.data_params)} operands, found {len(stmt.args)}"
        names, wanted = {name for name, _ in stmt.attrs}, {p.name for p in entry.keywords}
        if names != wanted:
            yield stmt.span, f"`{stmt.name}` has the keywords {sorted(wanted)}, found {sorted(names)}"
        if stmt.results and not 0 <= len(stmt.results) - entry.results <= entry.more_results:
            yield stmt.span, f"`{stmt.name}` gives {entry.results} values, found {len(stmt.results)}"


RULES: tuple[Rule, ...] = (
    one_type_a_name,
    bound_before_use,
    jumps_inside_loops,
    operand_types,
    statement_operands,
    owners_and_references,
    assigned_types,
    groups_are_whole,
    ops_match_the_table,
)


def _vars(stmt: Stmt) -> Iterator[Var]:
    """Variables a statement itself mentions, nested blocks excluded."""
    nested = {id(inner) for block in walk.blocks(stmt) for inner in block}
    for child in walk.children(stmt):
        if id(child) not in nested:
            yield from (node for node in walk.walk(child) if isinstance(node, Var))
