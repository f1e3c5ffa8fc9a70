"""Tiles picked from a group outside the pipeline loop and passed to a stage: their slot number travels instead."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from pypto_pro.frontend.groups import ACCESSORS
from pypto_pro.frontend.pipeline.bindings import Bindings, statements
from pypto_pro.frontend.pipeline.probe import Probe
from pypto_pro.frontend.pipeline.site import PREFIX, Site
from pypto_pro.frontend.pipeline.structure import Structure
from pypto_pro.frontend.values import GroupValue


@dataclass(frozen=True, eq=False)
class Picked:
    """A variable of the kernel that holds a slot of a group of two slots or more."""

    variable: str
    group: str
    slots: int

    @property
    def index(self) -> str:
        """The variable that holds the slot's number."""
        return f"{PREFIX}idx_{self.group}_{self.variable}"


@dataclass(frozen=True, eq=False)
class Picks:
    """What is picked, and the statements to put in the place of each pick, as text by the statement's identity."""

    variables: dict[str, Picked]
    rewritten: dict[int, list[str]]

    def start(self) -> list[str]:
        """The cursors as they are before the first pick."""
        groups = {p.group: p.slots for p in self.variables.values()}
        return [f"{PREFIX}idx_{group} = {slots - 1}" for group, slots in sorted(groups.items())]


def find(site: Site, probe: Probe, structure: Structure, bindings: Bindings) -> Picks:
    """The picks outside the pipeline loop whose variables a stage receives.

    Other picks of such a group outside the loop are rewritten with them, so that all move one cursor. PipelineError
    for a group without mutex ids.
    """
    passed: dict[str, GroupValue] = {}
    where: dict[str, ast.expr] = {}
    picked = _picked(structure.body)
    groups: dict[str, GroupValue] = {}
    for stage in structure.stages:
        names = probe.calls[id(stage.call)].names
        groups.update({n: v for n, v in names.items() if isinstance(v, GroupValue)})
        for arg in stage.call.args:
            if not isinstance(arg, ast.Name) or arg.id in bindings.inner:
                continue
            owners = {owner for _, owner, _ in picked.get(arg.id, ())}
            owner = owners.pop() if len(owners) == 1 else None
            group = names.get(owner) if owner is not None else None
            if isinstance(group, GroupValue) and owner is not None:
                passed[owner], where[arg.id] = group, arg
    for name, node in where.items():
        owner = picked[name][0][1]
        if owner is not None and not passed[owner].decl.mutex_ids:
            raise site.error(
                f"`{name}` is a slot of tile group `{owner}` picked outside the pipeline loop, expected a group with "
                "`mutex_ids`, found none", node, labels=(passed[owner].decl.span.labelled("the group"),),
                hint="pass the group and pick the slot inside the stage, or give the group mutex ids",
            )  # fmt: skip
    variables, rewritten = {}, {}
    inner = {id(s) for s in statements([structure.loop])}
    for name, made in picked.items():
        for stmt, owner, how in made:
            if owner not in passed or passed[owner].depth == 1 or id(stmt) in inner:
                continue
            variables[name] = Picked(name, owner, passed[owner].depth)
            rewritten[id(stmt)] = _steps(variables[name], how)
    return Picks(variables, rewritten)


def _picked(body: Iterable[ast.stmt]) -> dict[str, list[tuple[ast.stmt, str | None, str]]]:
    """Every assignment to one plain name: (statement, group name or None for no pick, accessor or index text)."""
    found: dict[str, list[tuple[ast.stmt, str | None, str]]] = {}
    for stmt in statements(body):
        match stmt:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                owner, how = _pick(value)
                found.setdefault(name, []).append((stmt, owner, how))
    return found


def _pick(value: ast.expr) -> tuple[str | None, str]:
    match value:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=how), args=[], keywords=[]) if how in ACCESSORS:
            return owner, how
        case ast.Subscript(value=ast.Name(id=owner), slice=index) if not isinstance(index, ast.Slice | ast.Tuple):
            return owner, f"[{ast.unparse(index)}]"
    return None, ""


def _steps(picked: Picked, how: str) -> list[str]:
    """One pick as steps of the cursor; only `next()` moves it."""
    cursor, slots = f"{PREFIX}idx_{picked.group}", picked.slots
    match how:
        case "next":
            steps = [f"{cursor} = ({cursor} + 1) % {slots}", f"{picked.index} = {cursor}"]
        case "current":
            steps = [f"{picked.index} = {cursor}"]
        case "previous":
            steps = [f"{picked.index} = ({cursor} + {slots - 1}) % {slots}"]
        case _:
            steps = [f"{picked.index} = {how[1:-1]}"]
    return [*steps, f"{picked.variable} = {picked.group}[{picked.index}]"]
