"""A kernel -> Python source -> one generator function a core program, made once and kept.

The scalar unit's program is the generator itself: scalars are Python locals, instructions are handed to the engine
with their operands captured. It yields only where others must get a turn: after an access to GM, when S waits, and
once a trip of a `while` loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pypto_pro.diag import Span
from pypto_pro.enums import CoreKind
from pypto_pro.interp.call_bodies import ProgramWriter
from pypto_pro.interp.declare import NO_POINTER, group_of_slots, initial_reference, owned_tile, tensor_record
from pypto_pro.interp.expressions import Namespace
from pypto_pro.interp.memory import tensor_view
from pypto_pro.interp.sites import Site
from pypto_pro.interp.statements import Statements, update_descriptors
from pypto_pro.interp.structs import zeros
from pypto_pro.ir import walk
from pypto_pro.ir.binding import unsure
from pypto_pro.ir.nodes import (
    LAUNCH_QUERIES,
    CopyTensor,
    CopyTile,
    GroupDecl,
    Kernel,
    Program,
    Query,
    SimtLaunch,
    SubView,
    TensorDecl,
    TileDecl,
    Var,
    VfCall,
)
from pypto_pro.ir.types import PtrType, ScalarType, StructArrayType, StructType, TensorType, TileType


@dataclass(frozen=True, slots=True)
class Compiled:
    """A kernel's programs as generator functions `program(core, params)`, their source, and their `while` loops."""

    programs: dict[CoreKind, Callable[..., Any]]
    sources: dict[CoreKind, str]
    loops: dict[CoreKind, list[Span]]
    sites: list[Site]

    def forget(self) -> None:
        """After a run: nothing of it stays."""
        for site in self.sites:
            site.forget()


_COMPILED: dict[int, tuple[Kernel, Compiled]] = {}
_KEPT = 64


def compiled(kernel: Kernel) -> Compiled:
    """The compiled form, kept by kernel object; the oldest go when there are many."""
    found = _COMPILED.get(id(kernel))
    if found is None or found[0] is not kernel:
        while len(_COMPILED) >= _KEPT:
            _COMPILED.pop(next(iter(_COMPILED)))
        found = _COMPILED[id(kernel)] = (kernel, _compile(kernel))
    return found[1]


def _compile(kernel: Kernel) -> Compiled:
    made = Compiled({}, {}, {}, [])
    for program in kernel.programs:
        namespace = Namespace()
        text, loops = source_of(kernel, program, namespace)
        exec(compile(text, f"<{kernel.name} on {program.core.value}>", "exec"), namespace.globals)
        made.programs[program.core] = namespace.globals["program"]
        made.sources[program.core] = text
        made.loops[program.core] = loops
        made.sites.extend(namespace.sites)
    return made


def source_of(kernel: Kernel, program: Program, namespace: Namespace) -> tuple[str, list[Span]]:
    """Python text of one core program, its vector and SIMT functions first; and where its `while` loops stand."""
    namespace.globals |= {
        "tensor_view": tensor_view, "update_descriptors": update_descriptors, "owned_tile": owned_tile,
        "group_of_slots": group_of_slots, "initial_reference": initial_reference, "tensor_record": tensor_record,
        "no_pointer": NO_POINTER,
    }  # fmt: skip
    writer = ProgramWriter(namespace, variables(kernel, program))
    writer.depth = 1
    doubtful = unsure(program.body, kernel.params)
    for line in writer.watch(program, doubtful.variables):
        writer.emit(line)
    for declaration in doubtful.declarations:
        writer.statement(declaration)
    writer.block(program.body)
    head = ["def program(core, params):", "    issue, wait, scalar = core.issue, core.wait, core.scalar"]
    head += [f"    {line}" for line in _prologue(kernel, program, writer)]
    return "\n".join([*writer.functions, *head, *writer.lines, "    if 0: yield 0", ""]), writer.while_spans


def variables(kernel: Kernel, program: Program) -> dict[str, Var]:
    """Every variable of the scalar unit's program by name; those bound only inside calls are private to the call."""
    found = {p.name: p for p in kernel.params}
    pending = list(program.body)
    while pending:
        stmt = pending.pop()
        found.update({var.name: var for var in walk.bound_vars(stmt)})
        if not isinstance(stmt, SimtLaunch | VfCall):
            pending += [inner for block in walk.blocks(stmt) for inner in block]
    return found


def _prologue(kernel: Kernel, program: Program, writer: Statements) -> list[str]:
    """Parameters, launch coordinates, descriptors that variables own, and what the others hold at first."""
    params = "".join(f"{writer.text.var(p)}, " for p in kernel.params)
    lines = [f"({params}) = params"] if kernel.params else []
    queries = {q.name for stmt in walk.statements(program.body) for q in walk.walk(stmt) if isinstance(q, Query)}
    lines += [f"q_{name} = core.{name}" for name in sorted(queries) if name in LAUNCH_QUERIES]
    done = {p.name for p in kernel.params}
    for stmt in walk.statements(program.body):
        if isinstance(stmt, OWNING) and stmt.var.name not in done:
            done.add(stmt.var.name)
            lines.append(_declaration(stmt, writer))
    for name, var in variables(kernel, program).items():
        if name not in done:
            lines.append(f"{writer.text.var(var)} = {_initial(var, writer)}")
    return lines


OWNING = TileDecl | GroupDecl | SubView | CopyTile | TensorDecl | CopyTensor
"""Statements whose variable owns a descriptor."""


def _declaration(stmt: Any, writer: Statements) -> str:
    """The descriptor a declaring statement's variable owns, for the whole run of the program."""
    target, node = writer.text.var(stmt.var), writer.text.space.bind(stmt, "decl")
    match stmt:
        case TileDecl() | SubView() | CopyTile():
            return f"{target} = owned_tile(core, {node})"
        case GroupDecl():
            return f"{target} = group_of_slots(core, {node})"
    return f"{target} = tensor_record({node})"


def _initial(var: Var, writer: Statements) -> str:
    match var.type:
        case ScalarType(dtype):
            return "0.0" if dtype.is_float() else "0"
        case StructType() as struct:
            return f"{zeros(struct)}"
        case StructArrayType(struct, length):
            return f"{zeros(struct)} * {length}"
        case PtrType():
            return "no_pointer"
        case TileType() | TensorType():
            return f"initial_reference(core, {writer.text.space.bind(var, 'var')})"
    return "None"

