"""Variables that may be read before anything gave them a value: a loop that runs zero times, a branch not taken.

A copy passes on whether there is a value, it does not need one. Declarations of tiles and groups are made at compile
time and hold from the start.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pypto_pro.ir import walk
from pypto_pro.ir.nodes import (
    Assign,
    Block,
    Break,
    Const,
    Continue,
    Convert,
    CopyStruct,
    CopyTensor,
    CopyTile,
    Expr,
    For,
    GroupDecl,
    If,
    Local,
    Return,
    SimtLaunch,
    Stmt,
    TileDecl,
    Var,
    VfCall,
    While,
)

Bound = frozenset[Var] | None
"""Variables with a value; None where the program never comes."""


@dataclass(frozen=True, slots=True)
class Unsure:
    """What a body may read before the program gave it a value."""

    variables: dict[str, Var]
    """By name."""
    declarations: tuple[TileDecl | GroupDecl, ...]
    """Of tiles and groups that are read on ways that do not pass them."""


def unsure(body: Block, bound: Iterable[Var]) -> Unsure:
    """What a body may read without a value; `bound` have values at its start.

    Calls of vector and SIMT functions count as readers of what they capture; their own variables are theirs.
    """
    given = frozenset(bound)
    own = {var for call in walk.statements(body) if isinstance(call, VfCall | SimtLaunch)
           for stmt in walk.statements(call.body) for var in walk.bound_vars(stmt)} - _bound_outside(body)  # fmt: skip
    declared = {var: stmt for stmt in walk.statements(body) if isinstance(stmt, TileDecl | GroupDecl)
                for var in walk.bound_vars(stmt)}  # fmt: skip
    found = _found(body, given.union(declared)) - own
    late = _found(body, given).intersection(declared)
    return Unsure(
        {var.name: var for var in sorted(found, key=lambda v: v.name)},
        tuple(dict.fromkeys(stmt for var, stmt in declared.items() if var in late)),
    )


def _found(body: Block, bound: frozenset[Var]) -> set[Var]:
    visit = _Visit()
    visit.block(body, bound)
    return visit.found


def copied(stmt: Stmt) -> tuple[Var, Var] | None:
    """(target, source) of a statement that gives a variable the value of another one and does nothing else."""
    match stmt:
        case Assign(var=var, value=value) | CopyTile(var=var, source=value):
            source = _plain(value)
            return None if source is None else (var, source)
        case CopyTensor(var=var, source=source):
            return var, source
        case CopyStruct(target=target, source=origin) if not target.path and not origin.path:
            whole = target.index is None and origin.index is None
            return (target.var, origin.var) if whole else None
    return None


def _plain(value: Expr) -> Var | None:
    while isinstance(value, Convert):
        value = value.operand
    return value.var if isinstance(value, Local) else None


def _bound_outside(body: Block) -> set[Var]:
    found: set[Var] = set()
    for stmt in body:
        found.update(walk.bound_vars(stmt))
        if not isinstance(stmt, VfCall | SimtLaunch):
            for inner in walk.blocks(stmt):
                found |= _bound_outside(inner)
    return found


def _join(*ways: Bound) -> Bound:
    known = [way for way in ways if way is not None]
    return frozenset.intersection(*known) if known else None


class _Visit:
    """One pass over a body; loops are repeated until nothing changes."""

    def __init__(self) -> None:
        self.found: set[Var] = set()
        self.breaks: list[list[Bound]] = []
        self.repeats: list[list[Bound]] = []

    def block(self, body: Block, bound: Bound) -> Bound:
        for stmt in body:
            if bound is None:
                break
            bound = self.statement(stmt, bound)
        return bound

    def statement(self, stmt: Stmt, bound: frozenset[Var]) -> Bound:
        self.found.update(var for var in walk.reads(stmt) if var not in bound)
        match stmt:
            case If(then=then, orelse=orelse):
                return _join(self.block(then, bound), self.block(orelse, bound))
            case For() | While():
                return self.loop(stmt, bound)
            case Break():
                self.breaks[-1].append(bound)
                return None
            case Continue():
                self.repeats[-1].append(bound)
                return None
            case Return():
                return None
            case VfCall(body=body) | SimtLaunch(body=body):
                inner = {var for s in walk.statements(body) for var in walk.reads(s)}
                self.found.update(inner - bound)
                return bound
        copy = copied(stmt)
        if copy is not None and copy[1] not in bound:
            return bound - {copy[0]}
        return bound.union(walk.bound_vars(stmt), () if copy is None else copy[:1])

    def loop(self, stmt: For | While, before: frozenset[Var]) -> Bound:
        """What holds behind a loop; `while` loops end at a `break` only."""
        head: Bound = before
        while True:
            assert head is not None
            self.breaks.append([])
            self.repeats.append([])
            start = head | {stmt.var} if isinstance(stmt, For) else head
            end = self.block(stmt.body, start)
            left, around = self.breaks.pop(), _join(end, *self.repeats.pop())
            again = _join(head, around)
            if again == head:
                break
            head = again
        if isinstance(stmt, While):
            return _join(*left)
        return _join(around, *left) if _runs(stmt) else _join(head, *left)


def _runs(loop: For) -> bool:
    """Whether a loop surely runs once."""
    match loop.start, loop.stop, loop.step:
        case Const(value=start), Const(value=stop), Const(value=step):
            return step != 0 and len(range(int(start), int(stop), int(step))) > 0
    return False
