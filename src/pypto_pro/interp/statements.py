"""IR statements -> lines of the generated program, with a site for each instruction."""

from __future__ import annotations

from typing import Any, TypeGuard

from pypto_pro.diag import Span
from pypto_pro.diag.errors import ArgumentError
from pypto_pro.diag.span import NOWHERE
from pypto_pro.enums import PipeType
from pypto_pro.interp.debug import DebugSite
from pypto_pro.interp.expressions import Expressions, Namespace
from pypto_pro.interp.memory import Tile
from pypto_pro.interp.services import SERVICES, ServiceSite
from pypto_pro.interp.sites import ROUND, Kind, NameSite, OpSite, ShapeSite, Site
from pypto_pro.ir import walk
from pypto_pro.ir.binding import copied
from pypto_pro.ir.nodes import (
    Arg,
    Assign,
    Barrier,
    Block,
    Break,
    Choose,
    Continue,
    CopyStruct,
    CopyTensor,
    CopyTile,
    Debug,
    Expr,
    For,
    GroupDecl,
    If,
    Lock,
    Op,
    Program,
    Query,
    Return,
    SetCross,
    SetField,
    SetFlag,
    SetStride,
    SetValid,
    SimtLaunch,
    Stmt,
    StructDecl,
    SubView,
    SyncAll,
    TensorDecl,
    TileDecl,
    Unlock,
    Var,
    VfCall,
    WaitCross,
    WaitFlag,
    While,
)
from pypto_pro.ir.text import STMT_NAMES
from pypto_pro.ir.types import INDEX, GroupType, ScalarType, StructArrayType, TensorType, TileType
from pypto_pro.ops.entry import DescriptorUpdate
from pypto_pro.ops.table import entry_of

FIRST_LOOP = 2
"""The `while` loops of a program yield numbers from here; below are TURN and BLOCKED."""

COUNTERS = "v_round_40_"
"""How their Python locals begin: no variable of an author does."""

_SYNC = {
    SetFlag: Kind.SET_FLAG, WaitFlag: Kind.WAIT_FLAG, Lock: Kind.LOCK, Unlock: Kind.UNLOCK,
    SetCross: Kind.SET_CROSS, WaitCross: Kind.WAIT_CROSS,
}  # fmt: skip


def update_descriptors(site: OpSite, operands: dict[str, Tile], args: tuple[Any, ...]) -> None:
    """What the scalar unit leaves behind in an op's tile operands before issuing it; ArgumentError when it must not."""
    updates = site.updates.get(args)
    if updates is None:
        if len(site.updates) > 8192:
            site.updates.clear()
        named = site.named(args)
        unmet = site.entry.unmet(named)
        if unmet is not None:
            raise ArgumentError(unmet, site.span)
        found = [u for u in site.entry.facets["issue"](**named) if isinstance(u, DescriptorUpdate)]
        updates = site.updates[args] = tuple((u.operand, int(u.rows), int(u.cols)) for u in found)
    for operand, rows, cols in updates:
        operands[operand].set_valid(rows, cols)


class Statements:
    """Writes the body of a core program. `functions` are the texts of its vector and SIMT functions."""

    def __init__(self, namespace: Namespace, outside: dict[str, Var], captured: bool = False) -> None:
        self.text = Expressions(namespace, captured)
        self.text.before = self.emit
        self.outside = outside
        self.lines: list[str] = []
        self.functions: list[str] = []
        self.while_spans: list[Span] = []
        self.depth = 0
        self.loops: tuple[Var, ...] = ()
        self.watched: dict[str, Var] = {}
        """Variables that may be used without a value; `has_<name>` says whether one was given."""
        self.givers: dict[str, tuple[Span, ...]] = {}
        self.drain_vector = Site(Kind.DRAIN, Return(), "get_spr", PipeType.S)

    # --- lines ----------------------------------------------------------------------------------------------------

    def emit(self, line: str) -> None:
        """One line at the current depth."""
        self.lines.append("    " * self.depth + line)

    def block(self, body: Block, loops: tuple[Var, ...] | None = None) -> None:
        """A nested block, never empty."""
        outer, self.loops = self.loops, self.loops if loops is None else loops
        before = len(self.lines)
        for stmt in body:
            self.statement(stmt)
        if len(self.lines) == before:
            self.emit("pass")
        self.loops = outer

    def nested(self, head: str, body: Block, loops: tuple[Var, ...] | None = None) -> None:
        """A head and its block."""
        self.emit(head)
        self.depth += 1
        self.block(body, loops)
        self.depth -= 1

    @property
    def trips(self) -> str:
        """The current values of the enclosing loop variables."""
        return f"({''.join(f'{self.text.var(v)}, ' for v in self.loops)})"

    @property
    def loop_names(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(v.name for v in self.loops)

    def site(self, site: Site) -> str:
        """A global for a site."""
        self.text.space.sites.append(site)
        return self.text.space.bind(site, "S")

    def statement(self, stmt: Stmt) -> None:
        """Any statement."""
        self.text.where, self.text.loops = stmt.span or NOWHERE, self.loops
        if self.reads_spr(stmt):
            self.wait(self.drain_vector, f"({self.text.space.bind(PipeType.V, 'pipe')},)")
            self.emit("q_spr = core.vector_state.ar")
        if self.watched:
            self.expect_values(stmt)
        match stmt:
            case Op():
                self.op(stmt)
            case VfCall() | SimtLaunch():
                self.call(stmt)
            case If() | For() | While() | Break() | Continue() | Return():
                self.control(stmt)
            case SetFlag() | WaitFlag() | Barrier() | Lock() | Unlock() | SetCross() | WaitCross() | SyncAll():
                self.synchronise(stmt)
            case _:
                self.scalar(stmt)
        if self.watched and not isinstance(stmt, For):
            self.note_values(stmt)

    # --- variables without a value --------------------------------------------------------------------------------

    def watch(self, program: Program, doubtful: dict[str, Var]) -> list[str]:
        """Follow whether variables have a value; the lines the program starts with."""
        self.watched = doubtful
        for stmt in walk.statements(program.body) if doubtful else ():
            for var in walk.bound_vars(stmt):
                if var.name in doubtful and copied(stmt) is None:
                    self.givers[var.name] = (*self.givers.get(var.name, ()), stmt.span)
        return [f"has_{self.text.var(var)} = False" for var in doubtful.values()]

    def expect_values(self, stmt: Stmt) -> None:
        """Tell of watched variables that `stmt` uses without a value; a copy is no use, nor is a side of a choice."""
        if copied(stmt) is not None:
            return
        used = set(walk.reads(stmt))
        if isinstance(stmt, VfCall | SimtLaunch):
            used.update(var for inner in walk.statements(stmt.body) for var in walk.reads(inner))
        choices = (c for root in walk.expressions(stmt) for c in walk.walk(root) if isinstance(c, Choose))
        sides = {node for c in choices for side in (c.then, c.other) for node in walk.walk(side)}
        for var in sorted(used - sides, key=lambda v: v.name):
            if var.name in self.watched:
                name = var.name.split("$", 1)[0]
                site = NameSite(stmt.span, self.loop_names, name, self.givers.get(var.name, ()))
                told = f"core.machine.engine.valueless(core, {self.text.space.bind(site, 'N')}, {self.trips})"
                self.emit(f"if not has_{self.text.var(var)}: {told}")

    def note_values(self, stmt: Stmt) -> None:
        """Watched variables that `stmt` gave a value; a copy has one when its source has."""
        copy = copied(stmt)
        for var in walk.bound_vars(stmt) if copy is None else copy[:1]:
            if var.name in self.watched:
                source = None if copy is None else self.watched.get(copy[1].name)
                has = "True" if source is None else f"has_{self.text.var(source)}"
                self.emit(f"has_{self.text.var(var)} = {has}")

    def call(self, stmt: VfCall | SimtLaunch) -> None:
        """A vector function or SIMT launch; calls do not nest."""
        raise NotImplementedError

    def reads_spr(self, stmt: Stmt) -> bool:
        """Whether a statement itself (not its blocks) asks for AR, which V must have finished writing."""
        roots = [] if isinstance(stmt, VfCall | SimtLaunch) else walk.expressions(stmt)
        return any(isinstance(node, Query) and node.name == "spr" for root in roots for node in walk.walk(root))

    # --- control flow ---------------------------------------------------------------------------------------------

    def control(self, stmt: Stmt) -> None:
        """Branches and loops."""
        match stmt:
            case If(cond, then, orelse):
                self.nested(f"if {self.text.truth(cond)}:", then)
                if orelse:
                    self.nested("else:", orelse)
            case For(var, start, stop, step, body):
                bounds = ", ".join(self.text.expr(e) for e in (start, stop, step))
                self.emit(self.for_head(self.text.var(var), bounds, body))
                self.depth += 1
                self.note_values(stmt)
                self.block(body, (*self.loops, var))
                self.depth -= 1
            case While(body):
                counter = self.counter(stmt)
                if counter is not None:
                    self.emit(f"{self.text.var(counter)} = -1")
                self.emit("while True:")
                self.depth += 1
                self.emit(self.back_edge(stmt))
                if counter is not None:
                    self.emit(f"{self.text.var(counter)} += 1")
                self.block(body, self.loops if counter is None else (*self.loops, counter))
                self.depth -= 1
            case Break():
                self.emit("break")
            case Continue():
                self.emit("continue")
            case Return():
                self.emit("return")

    def counter(self, stmt: While) -> Var | None:
        """The variable that counts the trips of a `while` loop, so that instructions know their round."""
        return Var(f"{ROUND}{stmt.span.line}", INDEX)

    def for_head(self, var: str, bounds: str, body: Block) -> str:
        """The head of a counted loop. Local variables say where the loop is, which `polling` relies on."""
        trips = f"range_{self.depth}"
        self.emit(f"{trips} = range_({bounds})")
        reassigned = any(self.text.var(v) == var for s in walk.statements(body) for v in walk.bound_vars(s))
        return f"for {var} in {trips}:" if not reassigned else f"for at_{self.depth}, {var} in enumerate({trips}):"

    def back_edge(self, stmt: While) -> str:
        """A trip of a `while` loop begins: others get a turn, and may learn which loop it is."""
        self.while_spans.append(stmt.span)
        return f"yield {FIRST_LOOP + len(self.while_spans) - 1}"

    # --- instructions ---------------------------------------------------------------------------------------------

    def op(self, stmt: Op) -> None:
        """An op of the table: issued to its pipe, or carried out by S."""
        entry = entry_of(stmt.name)
        args = self.text.operand(stmt.args)
        if entry.service is not None:
            names = tuple(p.name for p in entry.data_params)
            service = ServiceSite(
                Kind.OP, stmt, entry.leaf, PipeType.S, self.loop_names, service=SERVICES[entry.service], names=names,
                attrs=dict(stmt.attrs),
            )
            self.emit(f"scalar({self.site(service)}, {args}, {self.trips})")
            self.emit("yield 0")
            return
        pipe = entry.pipe_of(**entry.bind(stmt.args, stmt.attrs))
        assert pipe is not None, stmt.name
        site = OpSite(Kind.OP, stmt, entry.leaf, pipe, self.loop_names, entry=entry, attrs=dict(stmt.attrs))
        name = self.site(site)
        if "issue" in entry.facets:
            named = zip(entry.data_params, stmt.args, strict=True)
            refs = ", ".join(f"{p.name!r}: {self.text.expr(a)}" for p, a in named if is_tile(a))
            self.emit(f"update_descriptors({name}, {{{refs}}}, {args})")
        if pipe is PipeType.S:
            self.result(stmt, f"scalar({name}, {args}, {self.trips})")
        else:
            self.emit(f"issue({name}, {args}, {self.trips})")
        if any(isinstance(getattr(a, "type", None), TensorType) for a in stmt.args):
            self.emit("yield 0")

    def result(self, stmt: Op, call: str) -> None:
        """Assign what S read as a Python number."""
        if not stmt.results:
            self.emit(call)
            return
        (var,) = stmt.results
        assert isinstance(var.type, ScalarType)
        kind = "float" if var.type.dtype.is_float() else "bool" if var.type.dtype.to_string() == "bool" else "int"
        self.emit(f"{self.text.var(var)} = {kind}({call})")

    def wait(self, site: Site, args: str) -> None:
        """A synchronisation instruction of S."""
        self.emit(f"if not wait({self.site(site)}, {args}, {self.trips}): yield 1")

    def to_pipe(self, site: Site, args: str) -> None:
        """A synchronisation instruction of any pipe."""
        if site.pipe is PipeType.S:
            self.wait(site, args)
        else:
            self.emit(f"issue({self.site(site)}, {args}, {self.trips})")

    def synchronise(self, stmt: Stmt) -> None:
        """Flags, barriers, mutexes, cross-core signals."""
        match stmt:
            case SetFlag(set_pipe=pipe, event=event) | WaitFlag(wait_pipe=pipe, event=event):
                self.to_pipe(self.sync_site(stmt, pipe), self.text.operand((event,)))
            case SetCross(pipe=pipe, event=event) | WaitCross(pipe=pipe, event=event):
                self.to_pipe(self.sync_site(stmt, pipe), self.text.operand((event,)))
            case Lock(pipe=pipe, mutex=mutex, unless=unless) | Unlock(pipe=pipe, mutex=mutex, unless=unless):
                if unless:
                    taken = ", ".join(self.text.expr(e) for e in unless)
                    self.emit(f"if {self.text.expr(mutex)} not in ({taken},):")
                    self.depth += 1
                self.to_pipe(self.sync_site(stmt, pipe), self.text.operand((mutex,)))
                self.depth -= bool(unless)
            case Barrier(pipe=PipeType.ALL):
                self.wait(Site(Kind.DRAIN, stmt, "bar_all", PipeType.S, self.loop_names), "()")
            case Barrier(pipe=pipe):
                name = f"bar_{pipe.name.lower()}"
                self.to_pipe(Site(Kind.BARRIER, stmt, name, pipe, self.loop_names), "()")
            case SyncAll(workspaces=spaces, used_cores=used):
                site = Site(Kind.SYNC_ALL, stmt, "sync_all", PipeType.S, self.loop_names)
                self.wait(site, f"({self.text.operand(spaces)}, {self.text.operand(used)})")

    def sync_site(self, stmt: Any, pipe: PipeType) -> Site:
        """The site of a flag, mutex or counter instruction."""
        return Site(_SYNC[type(stmt)], stmt, STMT_NAMES[type(stmt)], pipe, self.loop_names)

    # --- what S does at issue time --------------------------------------------------------------------------------

    def scalar(self, stmt: Stmt) -> None:
        """Declarations, assignments, descriptors, structs, debug output."""
        text = self.text
        match stmt:
            case TileDecl(var):
                self.emit(f"{text.var(var)}.reset()")
            case GroupDecl(var=var, cursor=cursor):
                self.emit(f"for slot in {text.var(var)}: slot.reset()")
                if cursor is not None:
                    assert isinstance(var.type, GroupType)
                    self.emit(f"{text.var(cursor)} = {var.type.depth - 1}")
            case SubView(var, base, row, col, rows, cols):
                window = ", ".join(text.expr(e) for e in (row, col, rows, cols))
                self.emit(f"{text.var(var)}.view({text.expr(base)}, {window})")
            case CopyTile(var, source):
                self.copy_tile(var, source)
            case TensorDecl(var, ptr, dims, strides):
                self.tensor(var, ptr, dims, strides)
            case CopyTensor(var, source):
                self.emit(f"{text.var(var)}.arg = {text.var(source)}.arg")
            case Assign(var, value):
                self.emit(f"{text.var(var)} = {text.expr(value)}")
            case SetValid(tile, rows, cols):
                place = text.space.bind(ShapeSite(stmt.span, self.loop_names), "V")
                self.set_valid(tile, f"{text.expr(rows)}, {text.expr(cols)}, {place}, {self.trips}")
            case SetStride(tensor, row, col):
                self.emit(f"{text.var(tensor)}.set_stride({text.expr(row)}, {text.expr(col)})")
            case Debug():
                self.debug(stmt)
            case _:
                self.struct(stmt)

    def copy_tile(self, var: Var, source: Expr) -> None:
        """A merged tile becomes a copy."""
        self.emit(f"{self.text.var(var)}.copy({self.text.expr(source)})")

    def tensor(self, var: Var, ptr: Expr, dims: tuple[Expr, ...], strides: tuple[Expr, ...] | None) -> None:
        """A view record from a pointer."""
        given = "None" if strides is None else self.text.operand(strides)
        type_ = self.text.space.bind(var.type, "T")
        record = f"tensor_view({type_}, {self.text.expr(ptr)}, {self.text.operand(dims)}, {given}, {var.name!r})"
        self.emit(f"{self.text.var(var)}.arg = {record}")

    def set_valid(self, tile: Expr, extents: str) -> None:
        """On one descriptor, or on all slots of a group."""
        if isinstance(tile.type, GroupType):
            self.emit(f"for slot in {self.text.expr(tile)}: slot.set_valid({extents})")
        else:
            self.emit(f"{self.text.expr(tile)}.set_valid({extents})")

    def struct(self, stmt: Stmt) -> None:
        """Structs are flat lists."""
        text = self.text
        match stmt:
            case StructDecl(var, init):
                values = f"[{', '.join(text.expr(e) for e in init)}]"
                copies = f" * {var.type.length}" if isinstance(var.type, StructArrayType) else ""
                self.emit(f"{text.var(var)} = {values}{copies}")
            case SetField(place, value):
                values, at, _ = text.place(place)
                self.emit(f"{values}[{at}] = {text.expr(value)}")
            case CopyStruct(target, source):
                to, to_at, count = text.place(target)
                of, of_at, _ = text.place(source)
                self.emit(f"{to}[{to_at} : {to_at} + {count}] = {of}[{of_at} : {of_at} + {count}]")
            case _:
                raise TypeError(f"not a statement of the scalar unit: {stmt!r}")

    def debug(self, stmt: Debug) -> None:
        """Output of S in program order; `trap` ends the core's program."""
        if stmt.what == "trap":
            self.emit("return")
            return
        site = DebugSite(Kind.OP, stmt, stmt.what, PipeType.S, self.loop_names)
        if stmt.what == "dump_data":
            self.wait(Site(Kind.DRAIN, stmt, stmt.what, PipeType.S, self.loop_names), "()")
        self.emit(f"scalar({self.site(site)}, {self.text.operand(stmt.args)}, {self.trips})")


def is_tile(arg: Arg) -> TypeGuard[Expr]:
    """Whether an operand is a tile expression."""
    return isinstance(getattr(arg, "type", None), TileType)

