"""Which variables a value comes from, inside a block of IR: flow-insensitive, so it only ever says too much."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from pypto_pro.diag import Span
from pypto_pro.ir import walk
from pypto_pro.ir.nodes import (
    Arg,
    Block,
    Field,
    For,
    If,
    Lock,
    Op,
    SetCross,
    SetField,
    SetFlag,
    SetStride,
    SetValid,
    SimtLaunch,
    Stmt,
    SubView,
    TensorDecl,
    Unlock,
    Var,
    VfCall,
    WaitCross,
    WaitFlag,
)
from pypto_pro.ir.types import ScalarType
from pypto_pro.ops.entry import Operand, Param, Role
from pypto_pro.ops.table import lookup


def variables_in(stmt: Stmt) -> set[str]:
    """Names of the variables a statement itself (not its blocks) reads."""
    return {n.name for root in walk.expressions(stmt) for n in walk.walk(root) if isinstance(n, Var)}


def sources(body: Block) -> dict[str, set[str]]:
    """Every variable that may have gone into each variable's value, itself included."""
    found: dict[str, set[str]] = {}
    for stmt in walk.statements(body):
        for bound in walk.bound_vars(stmt):
            found.setdefault(bound.name, {bound.name}).update(variables_in(stmt))
    _close(found)
    return found


def _close(found: dict[str, set[str]]) -> None:
    """Sources of sources are sources."""
    changed = True
    while changed:
        changed = False
        for names in found.values():
            more: set[str] = set().union(*(found.get(name, set()) for name in names))
            if not more <= names:
                names |= more
                changed = True


def operands(op: Op) -> set[str]:
    """Variables an op reads."""
    return variables_in(op)


# --- control flow that depends on data --------------------------------------------------------------------------------

CONTROL = (If, For, SetFlag, WaitFlag, SetCross, WaitCross, Lock, Unlock)
"""Statements that decide what runs and what is signalled."""


def reads_deciding(body: Block) -> list[Span]:
    """Where the scalar unit reads memory whose value may decide branches, loops and signals; in source order.

    Values inside vector and SIMT functions decide nothing outside them.
    """
    return _reads_reaching(body, lambda: _controlling(body))


def reads_placing(body: Block) -> list[Span]:
    """Where the scalar unit reads memory whose value may move what some instruction touches; in source order.

    Offsets, strides, slots, windows and extents place an access; a scalar that is only computed with does not.
    """
    return _reads_reaching(body, lambda: _placing(body))


def _controlling(body: Block) -> Iterator[str]:
    for stmt in scalar_statements(body):
        if isinstance(stmt, CONTROL):
            yield from variables_in(stmt)


def _placing(body: Block) -> Iterator[str]:
    """Variables that go into an address."""
    for stmt in walk.statements(body):
        match stmt:
            case SubView() | TensorDecl() | SetStride() | SetValid():
                yield from variables_in(stmt)
            case Op(name=name, args=args):
                entry = lookup(name)
                params = entry.data_params if entry is not None else ()
                for param, arg in zip(params, args, strict=False):
                    if arg is not None and (_names_place(param) or not _is_scalar(arg)):
                        yield from _variables_of(arg)


PLACES = ("offset", "stride", "count", "index")
"""Words in the names of scalar operands that say where an access goes, or how far."""


def _names_place(param: Param) -> bool:
    return any(word in param.name for word in PLACES)


def _is_scalar(arg: object) -> bool:
    return isinstance(getattr(arg, "type", None), ScalarType)


def _variables_of(arg: Arg) -> set[str]:
    return {n.name for root in (arg if isinstance(arg, tuple) else (arg,)) for n in walk.walk(root)
            if isinstance(n, Var)}  # fmt: skip


def _reads_reaching(body: Block, wanted: Callable[[], Iterable[str]]) -> list[Span]:
    """Memory reads of the scalar unit from which some variables may come."""
    seeds = {name: stmt.span for stmt in scalar_statements(body) for name in read_into(stmt)}
    if not seeds:
        return []
    origin = sources(body)
    for stmt in scalar_statements(body):
        if isinstance(stmt, SetField):
            name = stmt.place.var.name
            origin.setdefault(name, {name}).update(variables_in(stmt))
    _close(origin)
    found: dict[Span, None] = {}
    for used in wanted():
        for name in origin.get(used, {used}) & seeds.keys():
            found[seeds[name]] = None
    return sorted(found, key=lambda span: (span.file, span.line))


def scalar_statements(body: Block) -> Iterator[Stmt]:
    """Statements of the scalar unit, without the bodies of vector and SIMT functions."""
    for stmt in body:
        yield stmt
        if not isinstance(stmt, VfCall | SimtLaunch):
            for block in walk.blocks(stmt):
                yield from scalar_statements(block)


def read_into(stmt: Stmt) -> set[str]:
    """Variables that receive what a statement reads from memory: results of element reads, structs filled by an op."""
    if not isinstance(stmt, Op):
        return set()
    entry = lookup(stmt.name)
    params = entry.data_params if entry is not None else ()
    filled = {
        arg.place.var.name
        for param, arg in zip(params, stmt.args, strict=False)
        if isinstance(arg, Field) and isinstance(param.spec, Operand) and param.spec.role is not Role.IN
    }
    return {var.name for var in stmt.results} | filled
