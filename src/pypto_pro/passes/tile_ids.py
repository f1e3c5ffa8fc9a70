"""Which mutex ids the tiles of a program may carry, statement by statement: a forward data-flow over references.

A tile expression has one of: no ids (`PLAIN`), a known number of ids (`TileIds`), or, where control flow merged tiles
with different numbers of ids, `MIXED`. Variables not assigned yet are absent.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from pypto_pro.ir import walk
from pypto_pro.ir.nodes import (
    Assign,
    Block,
    Break,
    Const,
    Continue,
    CopyTile,
    Expr,
    For,
    GroupDecl,
    If,
    Local,
    Pick,
    Return,
    Slot,
    Stmt,
    SubView,
    TilePlus,
    Var,
    While,
)
from pypto_pro.ir.types import TileType


@dataclass(frozen=True, slots=True)
class TileIds:
    """`known` are the ids when they are the same on every path, else None; `candidates` all ids, first seen first."""

    count: int
    candidates: tuple[int, ...]
    known: tuple[int, ...] | None


PLAIN = TileIds(0, (), ())
MIXED = TileIds(-1, (), None)
Env: TypeAlias = dict[Var, TileIds]


def join_ids(a: TileIds, b: TileIds) -> TileIds:
    """What holds where either may have come."""
    if a == b:
        return a
    if a.count != b.count or a is MIXED:
        return MIXED
    return TileIds(a.count, tuple(dict.fromkeys(a.candidates + b.candidates)), a.known if a.known == b.known else None)


def join(a: Env | None, b: Env | None) -> Env | None:
    """The environment behind two ways that meet; None stands for a way nobody comes."""
    if a is None or b is None:
        return b if a is None else a
    return {var: join_ids(a.get(var, ids), b.get(var, ids)) for var, ids in (b | a).items()}


class TileIdFlow:
    """The environments of one program."""

    def __init__(self, body: Block) -> None:
        self._groups = {s.var: s for s in walk.statements(body) if isinstance(s, GroupDecl)}
        self._breaks: list[Env | None] = [None]  # one entry an open loop, above one for loops opened by the caller
        self._continues: list[Env | None] = [None]

    def ids_of(self, tile: Expr, env: Env) -> TileIds:
        """The ids of a tile expression."""
        match tile:
            case Local(var):
                return env.get(var, PLAIN)
            case Slot(group, index):
                return _slot_ids(self._groups.get(group), index)
            case Pick(_, options, _):
                return self._joined(options, env)
            case TilePlus(base, _, _):
                return self.ids_of(base, env)
        return PLAIN

    def _joined(self, options: Iterable[Expr], env: Env) -> TileIds:
        first, *rest = (self.ids_of(option, env) for option in options)
        for ids in rest:
            first = join_ids(first, ids)
        return first

    def step(self, stmt: Stmt, env: Env) -> Env | None:
        """The environment behind a statement, None when control never gets there."""
        match stmt:
            case Assign(var=Var(type=TileType()) as var, value=value) | CopyTile(var=var, source=value) | SubView(
                var=var, base=value
            ):
                return {**env, var: self.ids_of(value, env)}
            case If(then=then, orelse=orelse):
                return join(self.block(then, env), self.block(orelse, env))
            case For(body=body):
                head, exits = self.loop(body, env)
                return join(head, exits)
            case While(body=body):
                return self.loop(body, env)[1]
            case Break():
                self._breaks[-1] = join(self._breaks[-1], env)
                return None
            case Continue():
                self._continues[-1] = join(self._continues[-1], env)
                return None
            case Return():
                return None
        return env

    def block(self, body: Block, env: Env | None) -> Env | None:
        """The environment behind a block."""
        for stmt in body:
            if env is None:
                return None
            env = self.step(stmt, env)
        return env

    def loop(self, body: Block, env: Env) -> tuple[Env, Env | None]:
        """(environment at the head of every trip, environment of the breaks) of a loop."""
        head = env
        while True:
            self._breaks.append(None)
            self._continues.append(None)
            end = self.block(body, head)
            exits, again = self._breaks.pop(), self._continues.pop()
            joined = join(head, join(end, again))
            assert joined is not None
            if joined == head:
                return head, exits
            head = joined


def _slot_ids(group: GroupDecl | None, index: Expr) -> TileIds:
    if group is None or not group.mutex_ids:
        return PLAIN
    slots = group.mutex_ids
    if isinstance(index, Const) and 0 <= int(index.value) < len(slots):
        slots = (slots[int(index.value)],)
    candidates = tuple(dict.fromkeys(i for ids in slots for i in ids))
    known = slots[0] if all(ids == slots[0] for ids in slots) else None
    return TileIds(len(slots[0]), candidates, known)
