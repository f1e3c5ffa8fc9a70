"""Where the names of a kernel are bound: outside sections, in a section, or around the call of a stage."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from pypto_pro.enums import CoreKind
from pypto_pro.frontend import scan
from pypto_pro.frontend.pipeline.structure import Stage, Structure


@dataclass(eq=False)
class Bindings:
    """The places that give names their values, over the whole body of a kernel."""

    parameters: frozenset[str]
    outside: set[str]  # both core kinds see these
    sections: dict[CoreKind, set[str]] = field(default_factory=lambda: {core: set() for core in CoreKind})
    before: dict[int, set[str]] = field(default_factory=dict)  # by stage: changed in its section ahead of the call
    behind: dict[int, set[str]] = field(default_factory=dict)
    loop: set[str] = field(default_factory=set)  # bound anywhere in the loops, their variables included
    inner: set[str] = field(default_factory=set)  # bound in the pipeline loop itself

    @classmethod
    def of(cls, structure: Structure, parameters: Sequence[str]) -> Bindings:
        """The bindings of a kernel with these parameters."""
        made = cls(frozenset(parameters), set(parameters))
        sections = {id(stage.section): stage for stage in structure.stages}
        made._note(structure.body, None, sections)
        made.loop = bound_in([structure.outermost])
        made.inner = bound_in([structure.loop])
        return made

    def _note(self, body: Iterable[ast.stmt], core: CoreKind | None, stages: dict[int, Stage]) -> None:
        for stmt in body:
            stage = stages.get(id(stmt))
            if stage is not None:
                self.before[stage.index] = changed_in(stage.pre)
                self.behind[stage.index] = changed_in(stage.post)
                continue
            own = self.outside if core is None else self.sections[core]
            own |= scan.targets(stmt)
            inside = scan.section_of(stmt) if isinstance(stmt, ast.With) else None
            for inner in scan.bodies(stmt):
                self._note(inner, inside or core, stages)

    def seen_outside(self, names: Iterable[str]) -> bool:
        """Whether both core kinds have all the names."""
        return all(name in self.outside for name in names)

    def seen_before_loop(self, names: Iterable[str], core: CoreKind) -> bool:
        """Whether one core kind has all the names without what stands around the stage calls."""
        return all(name in self.outside or name in self.sections[core] for name in names)


def statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Every statement at any depth, for both core kinds, parents first."""
    for stmt in body:
        yield stmt
        for inner in scan.bodies(stmt):
            yield from statements(inner)


def bound_in(body: Iterable[ast.stmt]) -> set[str]:
    """Names bound anywhere in the statements."""
    return set().union(*(scan.targets(stmt) for stmt in statements(body)))


def changed_in(body: Iterable[ast.stmt]) -> set[str]:
    """Names bound anywhere in the statements, and names of structs of which a field is written there."""
    found: set[str] = set()
    for stmt in statements(body):
        found |= scan.targets(stmt)
        for target in stmt.targets if isinstance(stmt, ast.Assign) else [getattr(stmt, "target", None)]:
            while isinstance(target, ast.Attribute | ast.Subscript):
                target = target.value
            if isinstance(target, ast.Name):
                found.add(target.id)
    return found


def read_in(stmt: ast.stmt) -> set[str]:
    """Names read anywhere in a statement."""
    return {n.id for n in ast.walk(stmt) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)} | {
        s.target.id for s in ast.walk(stmt) if isinstance(s, ast.AugAssign) and isinstance(s.target, ast.Name)
    }


def split(pre: Iterable[ast.stmt], wanted: Iterable[str]) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """(statements that names depend on, the others), each in order."""
    needed = set(wanted)
    moved: list[ast.stmt] = []
    kept: list[ast.stmt] = []
    for stmt in reversed(list(pre)):
        if changed_in([stmt]) & needed:
            moved.append(stmt)
            needed |= read_in(stmt)
        else:
            kept.append(stmt)
    return moved[::-1], kept[::-1]
