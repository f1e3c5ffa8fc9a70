"""What the first reading of a kernel tells: constant conditions, what each stage call became, the groups made."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType

from pypto_pro.diag import Span
from pypto_pro.enums import CoreKind
from pypto_pro.frontend.source import Source
from pypto_pro.frontend.values import GroupValue, Value
from pypto_pro.ir import walk
from pypto_pro.ir.nodes import (
    Assign,
    Block,
    CopyTile,
    Expr,
    GroupDecl,
    Kernel,
    Local,
    Pick,
    Slot,
    Stmt,
    SubView,
    TilePlus,
    Var,
)
from pypto_pro.ir.types import TileType


@dataclass(frozen=True, eq=False)
class StageCall:
    """One call of a stage from the kernel's own body, as one core's program has it.

    `names`: what the kernel's names meant there; `statements`: the IR of the expanded body.
    """

    fn: FunctionType
    source: Source
    core: CoreKind
    arguments: tuple[Value, ...]
    names: Mapping[str, Value]
    statements: Sequence[Stmt]

    def parameters(self) -> dict[str, Value]:
        """What the stage's parameters were called with; defaults are left out."""
        names = [arg.arg for arg in self.source.tree.args.args]
        return dict(zip(names, self.arguments, strict=False))

    def kernel_names(self, identity: str) -> set[str]:
        """The names the kernel has for a group."""
        return {n for n, v in self.names.items() if isinstance(v, GroupValue) and v.decl.identity == identity}


@dataclass(eq=False)
class Probe:
    """Filled while the kernel is read; a body that is read again (loops do that) replaces what was noted before."""

    conditions: dict[tuple[CoreKind, int], bool | None] = field(default_factory=dict)
    calls: dict[int, StageCall] = field(default_factory=dict)
    groups: dict[str, GroupDecl] = field(default_factory=dict)
    programs: dict[CoreKind, Block] = field(default_factory=dict)

    # --- told by the front end ---

    def condition(self, core: CoreKind, stmt: ast.If, value: bool | None) -> None:
        """An `if` of the kernel's body was met; None: it is decided at run time."""
        self.conditions[core, id(stmt)] = value

    def stage(self, call: ast.Call, found: StageCall) -> None:
        """A stage was expanded."""
        self.calls[id(call)] = found

    def finish(self, kernel: Kernel) -> None:
        """The kernel as it was read."""
        for program in kernel.programs:
            self.programs[program.core] = program.body
            for stmt in walk.statements(program.body):
                if isinstance(stmt, GroupDecl):
                    self.groups.setdefault(stmt.identity, stmt)

    # --- asked by the transform ---

    def verdict(self, stmt: ast.If) -> bool | None:
        """The constant value of a condition, from whichever core knows it."""
        found = (self.conditions.get((core, id(stmt))) for core in CoreKind)
        return next((value for value in found if value is not None), None)

    def span_of(self, identity: str) -> Span:
        """Where a group is made."""
        return self.groups[identity].span


class Origins:
    """Which groups a tile of one core program may belong to, wherever in the program it is used."""

    def __init__(self, body: Block) -> None:
        self._groups: dict[Var, str] = {}
        self._sources: dict[Var, list[Expr]] = {}
        for stmt in walk.statements(body):
            match stmt:
                case GroupDecl(var=var, identity=identity):
                    self._groups[var] = identity
                case Assign(var=Var(type=TileType()) as var, value=source) | CopyTile(var=var, source=source) | SubView(
                    var=var, base=source
                ):
                    self._sources.setdefault(var, []).append(source)

    def of(self, tile: Expr) -> frozenset[str]:
        """Identities of the groups; empty for a tile made on its own."""
        return frozenset(self._of(tile, set()))

    def _of(self, tile: Expr, seen: set[Var]) -> Iterator[str]:
        match tile:
            case Slot(group, _):
                if group in self._groups:
                    yield self._groups[group]
            case Local(var) if var not in seen:
                seen.add(var)
                for source in self._sources.get(var, ()):
                    yield from self._of(source, seen)
            case Pick(_, options, _):
                for option in options:
                    yield from self._of(option, seen)
            case TilePlus(base, _, _):
                yield from self._of(base, seen)
