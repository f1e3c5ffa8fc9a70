"""`auto_mutex`: a lock before and an unlock behind every op that touches a tile with mutex ids.

The rules are section 6 of the execution model: positional tile operands only; destination first, as written; ids that
may be equal are compared at run time, so that each is taken once; locks that only V ever takes are left out (5.2).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pypto_pro.diag import Span
from pypto_pro.diag.errors import ParserTypeError
from pypto_pro.enums import AccPhase, MemorySpace, PipeType, STPhase
from pypto_pro.ir import walk
from pypto_pro.ir.nodes import (
    Block,
    Const,
    Expr,
    For,
    If,
    Kernel,
    Lock,
    Op,
    Program,
    SimtLaunch,
    Stmt,
    TileAttr,
    Unlock,
    VfCall,
    While,
    const,
)
from pypto_pro.ir.types import TileType
from pypto_pro.ops.table import lookup
from pypto_pro.passes.tile_ids import MIXED, Env, TileIdFlow, TileIds

_HANDSHAKES = (AccPhase.Partial, AccPhase.Final, STPhase.Partial, STPhase.Final)


def insert_mutexes(kernel: Kernel) -> Kernel:
    """The kernel with locks, or as it is with `auto_mutex=False`.

    Raises ParserTypeError where an op uses a tile that control flow merged from tiles with different numbers of ids.
    """
    if not kernel.auto_mutex:
        return kernel
    programs = tuple(Program(p.core, elide_v_only(Inserter(kernel.name, p.body).run())) for p in kernel.programs)
    return dataclasses.replace(kernel, programs=programs)


@dataclass(frozen=True, slots=True)
class Ref:
    """A tile operand with the ids it carries."""

    tile: Expr
    ids: TileIds

    @property
    def space(self) -> MemorySpace:
        """Where the tile lives."""
        assert isinstance(self.tile.type, TileType)
        return self.tile.type.space

    def id(self, k: int) -> Expr:
        """The k-th id: a constant where it is known."""
        return TileAttr(self.tile, "mutex", k) if self.ids.known is None else const(self.ids.known[k])

    def id_candidates(self, k: int) -> tuple[int, ...]:
        """What the k-th id may be."""
        return self.ids.candidates if self.ids.known is None else (self.ids.known[k],)


class Inserter:
    """Locks for one core program. `locked` sees every op and call with what it locks."""

    def __init__(self, kernel: str, body: Block) -> None:
        self.kernel = kernel
        self.body = body
        self.flow = TileIdFlow(body)

    def run(self) -> Block:
        """The program's body with locks."""
        return self.block(self.body, {})

    def block(self, body: Block, env: Env) -> Block:
        """A block entered with `env`; behind a jump, where nobody comes, the last environment serves."""
        out: list[Stmt] = []
        for stmt in body:
            out += self.stmt(stmt, env)
            after = self.flow.step(stmt, env)
            env = env if after is None else after
        return tuple(out)

    def stmt(self, stmt: Stmt, env: Env) -> Iterable[Stmt]:
        """A statement with its locks around it."""
        match stmt:
            case If(then=then, orelse=orelse):
                return (dataclasses.replace(stmt, then=self.block(then, env), orelse=self.block(orelse, env)),)
            case For(body=body) | While(body=body):
                head, _ = self.flow.loop(body, env)
                return (dataclasses.replace(stmt, body=self.block(body, head)),)
            case Op():
                return self.locked(stmt, *self.op_refs(stmt, env))
            case VfCall(tiles=tiles) | SimtLaunch(args=tiles):
                return self.locked(stmt, self.refs(tiles, env, stmt.span), PipeType.V)
        return (stmt,)

    def refs(self, args: Iterable[object], env: Env, span: Span) -> list[Ref]:
        """The tile operands that carry ids, each tile once."""
        found: dict[Expr, Ref] = {}
        for arg in args:
            if walk.is_expr(arg) and isinstance(arg.type, TileType):
                ids = self.flow.ids_of(arg, env)
                if ids is MIXED:
                    raise ParserTypeError(
                        "a tile used here was merged from tiles with different numbers of mutex ids", span,
                        kernel=self.kernel,
                    )
                if ids.count:
                    found.setdefault(arg, Ref(arg, ids))
        return list(found.values())

    def op_refs(self, op: Op, env: Env) -> tuple[list[Ref], PipeType | None]:
        """The operands of an op to lock, and on which pipe."""
        entry = lookup(op.name)
        if entry is None or entry.service is not None:
            return [], None
        pairs = [(p, a) for p, a in zip(entry.data_params, op.args, strict=True) if not p.keyword_only]
        tiles = {a for _, a in pairs if walk.is_expr(a) and isinstance(a.type, TileType)}
        refs = self.refs((a for _, a in pairs), env, op.span)
        if callable(entry.pipe) and len(refs) < len(tiles):
            return [], None  # a transfer whose pipe follows from its tiles (move, store) locks all of them or none
        if dict(op.attrs).get("phase") in _HANDSHAKES:
            refs = [ref for ref in refs if ref.space is not MemorySpace.Acc]  # the unit flag replaces the lock
        return refs, entry.pipe_of(**entry.bind(op.args, op.attrs)) if refs else None

    def locked(self, stmt: Stmt, refs: Sequence[Ref], pipe: PipeType | None) -> Iterable[Stmt]:
        """The statement between its locks and unlocks, both in argument order within groups of related tiles."""
        if pipe is None or not refs:
            return (stmt,)
        takes = [take for group in components(refs) for take in _takes(group)]
        locks = [Lock(pipe, take.id, take.candidates, take.unless, True, stmt.span) for take in takes]
        unlocks = [Unlock(pipe, take.id, take.candidates, take.unless, True, stmt.span) for take in takes]
        return (*locks, stmt, *unlocks)


def components(refs: Sequence[Ref]) -> list[list[Ref]]:
    """Operands grouped by "may have an id in common", transitively; groups and members in argument order."""
    groups: list[list[Ref]] = []
    for ref in refs:
        touching = [g for g in groups if any(set(ref.ids.candidates) & set(o.ids.candidates) for o in g)]
        merged = [*(o for g in touching for o in g), ref]
        at = next((i for i, g in enumerate(groups) if g in touching), len(groups))
        groups = [g for g in groups if g not in touching]
        groups.insert(at, merged)
    return [[ref for ref in refs if ref in group] for group in groups]


@dataclass(frozen=True, slots=True)
class _Take:
    """One id of a group of operands, taken unless it equals one of `unless`."""

    id: Expr
    candidates: tuple[int, ...]
    unless: tuple[Expr, ...]


def _takes(group: Sequence[Ref]) -> list[_Take]:
    """Every id of the operands once: equal constants are dropped here, what may be equal is compared at run time."""
    takes: list[_Take] = []
    for position, ref in enumerate(group):
        earlier = [(other.id(k), other.id_candidates(k)) for other in group[:position] for k in range(other.ids.count)]
        for k in range(ref.ids.count):
            own, candidates = ref.id(k), ref.id_candidates(k)
            if isinstance(own, Const) and any(own == other for other, _ in earlier):
                continue
            may_equal = dict.fromkeys(other for other, ids in earlier if set(ids) & set(candidates))
            takes.append(_Take(own, candidates, tuple(may_equal)))
    return takes


def elide_v_only(body: Block) -> Block:
    """The block without automatic locks on V whose ids no other pipe ever names: V is in order anyway."""
    pipes: dict[int, set[PipeType]] = {}
    for stmt in walk.statements(body):
        if isinstance(stmt, Lock | Unlock):
            for mutex in stmt.candidates:
                pipes.setdefault(mutex, set()).add(stmt.pipe)

    def keep(stmt: Stmt) -> Iterable[Stmt]:
        match stmt:
            case Lock(PipeType.V, automatic=True) | Unlock(PipeType.V, automatic=True) if all(
                pipes[mutex] == {PipeType.V} for mutex in stmt.candidates
            ):
                return ()
        return (stmt,)

    return walk.rewrite_block(body, keep)
