"""Which variables a value comes from, inside a block of IR: flow-insensitive, so it only ever says too much."""

from __future__ import annotations

from collections.abc import Iterable

from pypto_pro.ir import walk
from pypto_pro.ir.nodes import Block, Op, Stmt, Var


def variables_in(stmt: Stmt) -> set[str]:
    """Names of the variables a statement itself (not its blocks) reads."""
    return {n.name for root in walk.expressions(stmt) for n in walk.walk(root) if isinstance(n, Var)}


def sources(body: Block) -> dict[str, set[str]]:
    """Every variable that may have gone into each variable's value, itself included."""
    found: dict[str, set[str]] = {}
    for stmt in walk.statements(body):
        for bound in walk.bound_vars(stmt):
            found.setdefault(bound.name, {bound.name}).update(variables_in(stmt))
    changed = True
    while changed:
        changed = False
        for names in found.values():
            more = set().union(*(found.get(name, set()) for name in names))
            if not more <= names:
                names |= more
                changed = True
    return found


def operands(op: Op) -> set[str]:
    """Variables an op reads."""
    return variables_in(op)


def tainted(body: Block, seeds: Iterable[str]) -> set[str]:
    """Variables whose value may depend on some others."""
    wanted = set(seeds)
    return {name for name, names in sources(body).items() if names & wanted} | wanted
