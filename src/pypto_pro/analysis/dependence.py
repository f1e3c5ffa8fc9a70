"""Which variables a value comes from, inside a block of IR: flow-insensitive, so it only ever says too much."""

from __future__ import annotations

from collections.abc import Iterator

from pypto_pro.diag import Span
from pypto_pro.ir import walk
from pypto_pro.ir.nodes import (
    Block,
    Field,
    For,
    If,
    Lock,
    Op,
    SetCross,
    SetField,
    SetFlag,
    SimtLaunch,
    Stmt,
    Unlock,
    Var,
    VfCall,
    WaitCross,
    WaitFlag,
)
from pypto_pro.ops.entry import Operand, Role
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


def reads_deciding(body: Block, kinds: tuple[type, ...] = CONTROL) -> list[Span]:
    """Where the scalar unit reads memory whose value may decide statements of some kinds (branches, loops and signals
    unless others are given); in source order.

    Values inside vector and SIMT functions decide nothing outside them.
    """
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
    for stmt in scalar_statements(body):
        if isinstance(stmt, kinds):
            for used in variables_in(stmt):
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
