"""Bodies of vector functions and SIMT launches as functions of what they capture.

A body sees tiles and tensors as captured operands, scalars as they were at issue, and keeps what it assigns to itself.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from pypto_pro.enums import PipeType
from pypto_pro.interp.calls import CallSite
from pypto_pro.interp.expressions import Namespace
from pypto_pro.interp.simt import ElementSite, ThreadUnit, run_threads
from pypto_pro.interp.sites import Kind
from pypto_pro.interp.statements import Statements
from pypto_pro.interp.vector_unit import RegisterSite, VectorUnit, undefined_value
from pypto_pro.ir import walk
from pypto_pro.ir.nodes import (
    LAUNCH_QUERIES,
    Const,
    CopyStruct,
    CopyTensor,
    Expr,
    Op,
    Query,
    SetField,
    SimtLaunch,
    Stmt,
    Var,
    VfCall,
    While,
)
from pypto_pro.ir.types import (
    AddrRegType,
    GroupType,
    MaskType,
    RegType,
    ScalarType,
    StructArrayType,
    StructType,
    TensorType,
    TileType,
    UnalignRegType,
)
from pypto_pro.ops.table import entry_of

if TYPE_CHECKING:
    from pypto_pro.interp.machine import Core

_REGISTERS = RegType | MaskType | AddrRegType | UnalignRegType


def _unit(kind: type[VectorUnit | ThreadUnit], core: Core) -> Any:
    """What a core's calls of one kind work on, made when first needed."""
    if kind not in core.units:
        core.units[kind] = kind(core)
    return core.units[kind]


class ProgramWriter(Statements):
    """Writes a core program, calls included."""

    def call(self, stmt: VfCall | SimtLaunch) -> None:
        if isinstance(stmt, VfCall):
            self.vector_function(stmt)
        else:
            self.simt_launch(stmt)

    def vector_function(self, stmt: VfCall) -> None:
        """Issue the call with what its body captures and the mask register."""
        body = VectorBody(self.text.space, self.outside, captured=True)
        name, captured = self._function(body, stmt, "vf, mask", ["vf.mask = mask"])
        site = CallSite(
            Kind.CALL, stmt, stmt.name, PipeType.V, self.loop_names, body=_Late(body.text.space, name),
            unit_of=partial(_unit, VectorUnit),
        )
        mask = "core.vector_state.mask, "
        self.emit(f"issue({self.site(site)}, ({mask}{self._arguments(captured)}), {self.trips})")

    def simt_launch(self, stmt: SimtLaunch) -> None:
        """Issue the launch; the body is a function of one thread."""
        body = ThreadBody(self.text.space, self.outside, captured=True)
        counts = [int(t.value) if isinstance(t, Const) else 1 for t in stmt.threads]
        nx, ny, nz = (*counts, 1, 1, 1)[:3]
        head = [f"q_block_dim_x, q_block_dim_y, q_block_dim_z = {nx}, {ny}, {nz}",
                "q_grid_dim_x, q_grid_dim_y, q_grid_dim_z = q_core.block_num * q_core.subblock_num, 1, 1",
                "q_block_idx_x, q_block_idx_y, q_block_idx_z = q_core.block_idx, 0, 0",
                f"q_linear_thread_idx = x + y * {nx} + z * {nx * ny}",
                "q_warp_size = 32"]  # fmt: skip
        head += [f"q_thread_idx_{axis} = {axis}" for axis in "xyz"]
        name, captured = self._function(body, stmt, "vf, x, y, z", ["q_core = vf.core", *head])
        site = CallSite(
            Kind.CALL, stmt, stmt.name, PipeType.V, self.loop_names,
            body=run_threads((nx, ny, nz), _Late(body.text.space, name)),
            unit_of=partial(_unit, ThreadUnit), touches_gm=True,
        )
        self.emit(f"issue({self.site(site)}, ({self._arguments(captured)}), {self.trips})")

    def _function(
        self, body: Statements, stmt: VfCall | SimtLaunch, first: str, head: list[str]
    ) -> tuple[str, list[Var]]:
        """Write the function; its name and the outer variables it captures, by name."""
        used: dict[str, Var] = {}
        for inner in walk.statements(stmt.body):
            for node in _mentioned(inner):
                used.setdefault(node.name, node)
        captured = [var for name, var in sorted(used.items()) if name in self.outside]
        private = [var for name, var in sorted(used.items()) if name not in self.outside]
        name = self.text.space.bind(None, "call")
        body.depth = 1
        for line in head:
            body.emit(line)
        for query in sorted({q.name for s in walk.statements(stmt.body) for q in walk.walk(s) if isinstance(q, Query)}):
            if query in LAUNCH_QUERIES:
                body.emit(f"q_{query} = vf.core.{query}")
        for var in captured:
            if isinstance(var.type, StructType | StructArrayType):
                body.emit(f"{body.text.var(var)} = list({body.text.var(var)})")
        for var in private:
            body.emit(f"{body.text.var(var)} = {self._initial(var)}")
        body.emit("op = vf.op" if isinstance(stmt, VfCall) else "access = vf.access")
        body.block(stmt.body)
        params = ", ".join((first, *(body.text.var(v) for v in captured)))
        self.functions += [f"def {name}({params}):", *body.lines, ""]
        return name, captured

    def _initial(self, var: Var) -> str:
        if isinstance(var.type, _REGISTERS):
            return self.text.space.bind(undefined_value(var.type), "R")
        if isinstance(var.type, ScalarType):
            return "0.0" if var.type.dtype.is_float() else "0"
        return "None"

    def _arguments(self, captured: list[Var]) -> str:
        """What the call captures at issue: operands, tuples of them for groups, copies of structs."""
        parts = []
        for var in captured:
            name = self.text.var(var)
            if isinstance(var.type, TileType | TensorType):
                parts.append(f"{name}.arg")
            elif isinstance(var.type, GroupType):
                parts.append(f"tuple([slot.arg for slot in {name}])")
            elif isinstance(var.type, StructType | StructArrayType):
                parts.append(f"tuple({name})")
            else:
                parts.append(name)
        return "".join(f"{p}, " for p in parts)


class _Late:
    """A function of the generated module, looked up when first called: it exists once the module was executed."""

    def __init__(self, space: Namespace, name: str) -> None:
        self.globals = space.globals
        self.name = name

    def __call__(self, *args: Any) -> Any:
        return self.globals[self.name](*args)


def _mentioned(stmt: Stmt) -> list[Var]:
    """Variables a statement reads or binds itself."""
    found = list(walk.bound_vars(stmt))
    for root in walk.expressions(stmt):
        found += [node for node in walk.walk(root) if isinstance(node, Var)]
    match stmt:
        case SetField(place=place):
            found.append(place.var)
        case CopyStruct(target=target, source=source):
            found += [target.var, source.var]
        case CopyTensor(source=source_var):
            found.append(source_var)
    return found


class _Body(Statements):
    """A call's body: tiles and tensors are captured operands, `while` loops are counted."""

    def back_edge(self, stmt: While) -> str:
        return "vf.trip()"

    def counter(self, stmt: While) -> Var | None:
        return None

    def copy_tile(self, var: Var, source: Expr) -> None:
        self.emit(f"{self.text.var(var)} = {self.text.expr(source)}")


class VectorBody(_Body):
    """The body of a vector function."""

    def op(self, stmt: Op) -> None:
        entry = entry_of(stmt.name)
        targets: Any = tuple(var.type for var in stmt.results)
        site = RegisterSite(
            Kind.OP, stmt, entry.leaf, PipeType.V, entry=entry, attrs=dict(stmt.attrs), targets=targets,
            sources=tuple(getattr(arg, "type", None) for arg in stmt.args),
        )
        names = "".join(f"{self.text.var(v)}, " for v in stmt.results)
        target = f"{names.removesuffix(', ')} = " if names else ""
        self.emit(f"{target}op({self.site(site)}, {self.text.operand(stmt.args)}, ({names}))")


class ThreadBody(_Body):
    """The body of a SIMT function, one thread of it."""

    def op(self, stmt: Op) -> None:
        entry = entry_of(stmt.name)
        site = ElementSite(Kind.OP, stmt, entry.leaf, PipeType.V, entry=entry)
        self.result(stmt, f"access({self.site(site)}, {self.text.operand(stmt.args)})")
