"""Which tile and slot an expression names at each place of a program: a forward data-flow over references.

A target is a slot known while compiling, or "the slot chosen at a certain place": two uses with equal `ref` mean the
same physical slot in the same trip of a loop. What is carried into the next trip gets another ref there.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from pypto_pro.ir import walk
from pypto_pro.ir.nodes import (
    LAUNCH_QUERIES,
    Assign,
    Binary,
    Block,
    Choose,
    Const,
    Convert,
    CopyTile,
    Dim,
    Expr,
    For,
    GroupDecl,
    If,
    Local,
    Op,
    Pick,
    Query,
    Slot,
    Stmt,
    SubView,
    TileDecl,
    TilePlus,
    Unary,
    Var,
    While,
)
from pypto_pro.ir.types import TileType


@dataclass(frozen=True)
class Target:
    """A slot of a declared tile; `whole` is false for a window of it."""

    identity: str
    slot: int | None
    ref: int = 0
    whole: bool = True


Value: TypeAlias = "frozenset[Target] | Hashable"
Env: TypeAlias = dict[Var, Value]


class References:
    """The environments of one program."""

    def __init__(self, body: Block) -> None:
        self._decls: dict[Var, TileDecl | GroupDecl] = {
            s.var: s for s in walk.statements(body) if isinstance(s, TileDecl | GroupDecl)
        }
        self._numbers: dict[Hashable, int] = {}

    def number(self, key: Hashable) -> int:
        """A small number for a key, the same each time."""
        return self._numbers.setdefault(key, len(self._numbers) + 1)

    # --- expressions -------------------------------------------------------------------------------------------------

    def targets(self, tile: Expr, env: Env) -> frozenset[Target]:
        """Every slot a tile expression may name."""
        match tile:
            case Local(var):
                return self._of_var(var, env)
            case Slot(group, index):
                decl = self._decls.get(group)
                if not isinstance(decl, GroupDecl):
                    return frozenset()
                if len(decl.addrs) == 1:
                    return frozenset({Target(decl.identity, 0)})
                if isinstance(index, Const):
                    return frozenset({Target(decl.identity, int(index.value))})
                return frozenset({Target(decl.identity, None, self.number((group, self._key(index, env))))})
            case Pick(_, options, _):
                return frozenset().union(*(self.targets(option, env) for option in options))
            case TilePlus(base, _, _):
                return _windows(self.targets(base, env))
        return frozenset()

    def _of_var(self, var: Var, env: Env) -> frozenset[Target]:
        decl = self._decls.get(var)
        if isinstance(decl, TileDecl):
            return frozenset({Target(decl.identity, 0)})
        if isinstance(decl, GroupDecl):  # the group itself, as `set_validshape` takes it
            return frozenset(Target(decl.identity, i) for i in range(len(decl.addrs)))
        value = env.get(var, frozenset())
        return value if isinstance(value, frozenset) else frozenset()

    def choice(self, expr: Expr, env: Env) -> int:
        """A number for the value of an expression: equal numbers mean equal values in one turn of a loop."""
        return self.number(("choice", self._key(expr, env)))

    def _key(self, expr: Expr, env: Env) -> Hashable:
        """The value of an expression as a key: variables stand for the place they were last assigned at."""
        match expr:
            case Local(var):
                return ("var", var.name, env.get(var))
            case Const(value=value):
                return ("const", value)
            case Query(name=name) if name in LAUNCH_QUERIES:
                return ("query", name)
            case Dim(tensor=tensor, axis=axis):
                return ("dim", tensor.name, axis)
            case Binary() | Unary() | Convert() | Choose():
                parts = tuple(self._key(c, env) for c in walk.children(expr) if walk.is_expr(c))
                return (type(expr).__name__, getattr(expr, "op", ""), parts)
        return ("read", self.number(id(expr)))  # of memory, a field or a descriptor: it may change from read to read

    # --- statements --------------------------------------------------------------------------------------------------

    def step(self, stmt: Stmt, env: Env) -> Env:
        """The environment behind a statement; jumps are treated as if they fell through, which only adds targets."""
        match stmt:
            case Assign(var=var, value=value) if isinstance(var.type, TileType):
                return {**env, var: self.targets(value, env)}
            case CopyTile(var=var, source=value):
                return {**env, var: self.targets(value, env)}
            case SubView(var=var, base=base):
                return {**env, var: _windows(self.targets(base, env))}
            case Assign(var=var):
                return {**env, var: ("at", self.number(id(stmt)))}
            case Op(results=results) if results:
                return {**env, **{var: ("at", self.number((id(stmt), var.name))) for var in results}}
            case If(then=then, orelse=orelse):
                return self._join(self.block(then, env), self.block(orelse, env), id(stmt))
            case For(body=body) | While(body=body):
                head = self.head(stmt, env)
                return self._join(env, self.block(body, head), id(stmt))
        return env

    def block(self, body: Block, env: Env) -> Env:
        """The environment behind a block."""
        for stmt in body:
            env = self.step(stmt, env)
        return env

    def head(self, loop: For | While, env: Env) -> Env:
        """The environment at the start of any trip."""
        changed = {v for s in walk.statements(loop.body) for v in walk.bound_vars(s)}
        if isinstance(loop, For):
            changed.add(loop.var)
        scalars: Env = {v: ("trip", self.number(id(loop)), v.name) for v in changed if not isinstance(v.type, TileType)}
        start: Env = {**env, **scalars}
        current = start
        while True:
            end = self.block(loop.body, current)
            carried = {v: self._carried(end[v], loop, v) for v in changed if isinstance(v.type, TileType) and v in end}
            joined = {**start, **{v: _union(start.get(v), value) for v, value in carried.items()}}
            if joined == current:
                return current
            current = joined

    def _carried(self, value: Value, loop: For | While, var: Var) -> frozenset[Target]:
        """What a variable assigned in a loop names at the start of the next trip: not the choice of that trip."""
        if not isinstance(value, frozenset):
            return frozenset()
        return frozenset(
            t if t.slot is not None
            else Target(t.identity, None, self.number(("carried", id(loop), var.name, t.identity)), t.whole)
            for t in value
        )  # fmt: skip

    def _join(self, a: Env, b: Env, place: int) -> Env:
        joined: Env = {}
        for var in a.keys() | b.keys():
            x, y = a.get(var), b.get(var)
            if isinstance(x, frozenset) or isinstance(y, frozenset):
                joined[var] = _union(x, y)
            else:
                joined[var] = x if x == y else ("joined", self.number(place), var.name)
        return joined


def _union(a: Value | None, b: Value | None) -> frozenset[Target]:
    sets: Iterable[frozenset[Target]] = (v for v in (a, b) if isinstance(v, frozenset))
    return frozenset().union(*sets)


def _windows(targets: frozenset[Target]) -> frozenset[Target]:
    return frozenset(Target(t.identity, t.slot, t.ref, whole=False) for t in targets)
