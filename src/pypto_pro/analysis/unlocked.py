"""Ops of an `auto_mutex` kernel that got no lock although they touch tiles, and why.

Follows the ids as the pass does, over the kernel as it is behind the pass; automatic locks in it are skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pypto_pro.diag import Span
from pypto_pro.enums import PipeType
from pypto_pro.ir import walk
from pypto_pro.ir.nodes import Expr, GroupDecl, Kernel, Op, Stmt
from pypto_pro.ir.types import TileType
from pypto_pro.ops.table import lookup
from pypto_pro.passes.auto_mutex import Inserter, Ref


@dataclass(frozen=True)
class Unlocked:
    """An op without a lock: its name and place, the names of tiles without ids, and whether others carry some."""

    op: str
    span: Span
    bare: tuple[str, ...]
    partly: bool


def find_unlocked(kernel: Kernel) -> list[Unlocked]:
    """Transfers and scalar accesses without a lock, each line once.

    Ops on V are named only when one of their tiles carries ids: without ids, V alone orders its own ops.
    """
    if not kernel.auto_mutex:
        return []
    found: dict[Span, Unlocked] = {}
    for program in kernel.programs:
        recorder = _Recorder(kernel.name, program.body)
        recorder.run()
        for unlocked in recorder.found:
            found.setdefault(unlocked.span, unlocked)
    return list(found.values())


def has_ids(kernel: Kernel) -> bool:
    """Whether any tile group of a kernel carries mutex ids."""
    return any(
        isinstance(stmt, GroupDecl) and stmt.mutex_ids
        for program in kernel.programs
        for stmt in walk.statements(program.body)
    )


class _Recorder(Inserter):
    """The pass once more, noting what it leaves alone."""

    def __init__(self, kernel: str, body: tuple[Stmt, ...]) -> None:
        super().__init__(kernel, body)
        self.found: list[Unlocked] = []

    def op_refs(self, op: Op, env: object) -> tuple[list[Ref], PipeType | None]:
        refs, pipe = super().op_refs(op, env)  # type: ignore[arg-type]
        if not refs:
            self._note(op, env)
        return refs, pipe

    def locked(self, stmt: Stmt, refs: Sequence[Ref], pipe: PipeType | None) -> Iterable[Stmt]:
        return (stmt,)

    def _note(self, op: Op, env: object) -> None:
        entry = lookup(op.name)
        if entry is None or entry.service is not None or dict(op.attrs).get("phase") is not None:
            return
        tiles = [a for a in op.args if walk.is_expr(a) and isinstance(a.type, TileType)]
        if not tiles:
            return
        carrying = {ref.tile for ref in self.refs(tiles, env, op.span)}  # type: ignore[arg-type]
        bare = tuple(dict.fromkeys(name_of(t) for t in tiles if t not in carrying))
        if entry.pipe_of(**entry.bind(op.args, op.attrs)) is PipeType.V and not carrying:
            return
        self.found.append(Unlocked(entry.leaf, op.span, bare, bool(carrying)))


def name_of(tile: Expr) -> str:
    """How the source calls a tile."""
    var = getattr(tile, "var", None) or getattr(tile, "group", None)
    return str(getattr(var, "name", "a tile"))
