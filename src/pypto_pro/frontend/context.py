"""The state of reading one kernel for one core kind: where statements go, what names mean, which frame is open."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from types import FunctionType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from pypto_pro.diag import CODES, Span
from pypto_pro.diag.errors import ParserError, ParserSyntaxError
from pypto_pro.enums import CoreKind
from pypto_pro.frontend.closure import Captures
from pypto_pro.frontend.naming import Wanted
from pypto_pro.frontend.scan import Liveness
from pypto_pro.frontend.source import Source
from pypto_pro.frontend.specialise import Reading
from pypto_pro.frontend.values import Value
from pypto_pro.ir.nodes import Assign, Block, Expr, Local, Place, Stmt, Var
from pypto_pro.ir.types import ScalarType, StructType, Type

if TYPE_CHECKING:
    from pypto_pro.frontend.pipeline.probe import Probe

E = TypeVar("E", bound=ParserError)
MAX_DEPTH = 100


class FrameKind(StrEnum):
    """What kind of function body is open."""

    KERNEL = "kernel"
    HELPER = "helper"
    VECTOR = "vector function"
    SIMT = "SIMT function"


@dataclass(eq=False)
class Edge:
    """A way out of a loop body: the statements leading there (the jump itself last) and what names mean then."""

    block: list[Stmt]
    names: dict[str, Value]


@dataclass(eq=False)
class Loop:
    """An open loop. `pinned`: scalars and pointers kept in one variable; `carried`: names copied at every edge."""

    pinned: dict[str, Var] = field(default_factory=dict)
    carried: dict[str, Value] = field(default_factory=dict)
    exits: list[Edge] = field(default_factory=list)
    repeats: list[Edge] = field(default_factory=list)
    is_left: bool = False  # a helper returns from inside it


@dataclass(eq=False)
class ReturnSite:
    """A `return` of an expanded helper: where its value must be stored (before the jump, if any), and the value."""

    block: list[Stmt]
    value: Value | None
    span: Span
    is_jump: bool


class Scope(Protocol):
    """Names outside the function: what `closure.Closure` offers."""

    def find(self, name: str) -> Any: ...

    def has(self, name: str) -> bool: ...

    def names(self) -> Iterator[str]: ...


@dataclass(eq=False)
class Frame:
    """One function body being read: the kernel or an expansion of a helper."""

    kind: FrameKind
    name: str
    source: Source
    scope: Scope
    live: Liveness
    inlined_at: Span | None = None
    names: dict[str, Value] = field(default_factory=dict)
    vars: dict[tuple[str, Type], Var] = field(default_factory=dict)
    loops: list[Loop] = field(default_factory=list)
    looped: frozenset[str] = frozenset()  # names assigned in an open loop: never compile-time constants there
    returns: list[ReturnSite] = field(default_factory=list)
    done: Var | None = None  # BOOL: this expansion has returned
    hint: str | None = None  # the name its value is about to be bound to
    wanted: dict[ast.Call, Wanted] = field(default_factory=dict)  # whole names of values made inside expressions


@dataclass(frozen=True)
class Mark:
    """A point to go back to when an expression or a loop has to be read again."""

    block: list[Stmt]
    length: int
    pool: dict[str, int]
    names: dict[str, Value]
    vars: dict[tuple[str, Type], Var]
    returns: int
    done: Var | None
    reached: frozenset[CoreKind]


class Hooks(Protocol):
    """The parts of the front end that call each other through the context."""

    def evaluate(self, ctx: Context, node: ast.expr, hint: str | None = None) -> Value: ...

    def execute(self, ctx: Context, body: list[ast.stmt]) -> bool: ...


@dataclass(eq=False)
class Context:
    """Everything the reader of one program carries along."""

    core: CoreKind
    kernel_name: str
    auto_mutex: bool
    hooks: Hooks
    constants: dict[str, Any]
    frames: list[Frame] = field(default_factory=list)
    block: list[Stmt] = field(default_factory=list)
    pool: dict[str, int] = field(default_factory=dict)
    section: CoreKind | None = None
    reached: set[CoreKind] = field(default_factory=set)
    expanding: list[FunctionType] = field(default_factory=list)
    structs: dict[str, StructType] = field(default_factory=dict)
    captured: Captures = field(default_factory=Captures)
    reading: Reading = field(default_factory=Reading)
    id_counts: dict[Var, int] = field(default_factory=dict)  # mutex ids carried by tile variables
    refs: dict[Var, Expr] = field(default_factory=dict)  # what a reference variable was bound to
    groups: dict[Var, Any] = field(default_factory=dict)
    tiles: dict[Var, Any] = field(default_factory=dict)  # TileDecl of a variable
    views: dict[Var, Any] = field(default_factory=dict)  # SubView of a variable
    strides: dict[Var, tuple[int | None, ...] | None] = field(default_factory=dict)
    temporaries: set[Var] = field(default_factory=set)  # assigned at one place only
    params: frozenset[Var] = frozenset()
    stable: set[Var] = field(default_factory=set)  # assigned once and for all: parameters, results of the front end
    owned: set[Var] = field(default_factory=set)  # structs made for merges
    pipelined: bool = False  # the kernel has the `pipeline` option
    probe: Probe | None = None  # listens to the first reading of a kernel with that option
    simt_base: int = 0  # open frames when a SIMT entry is the innermost, 0 outside
    depth: int = 0

    # --- where we are ---

    @property
    def frame(self) -> Frame:
        """The innermost open function body."""
        return self.frames[-1]

    @property
    def in_vector_function(self) -> bool:
        """Whether statements belong to a register scope."""
        return any(frame.kind is FrameKind.VECTOR for frame in self.frames)

    @property
    def in_simt(self) -> bool:
        """Whether statements belong to a SIMT thread."""
        return any(frame.kind is FrameKind.SIMT for frame in self.frames)

    def span(self, node: ast.AST) -> Span:
        """The place of a node, with the calls that led here."""
        return self.frame.source.span(node, self.frame.inlined_at)

    def error(self, kind: type[E], message: str, node: ast.AST | Span, **rest: Any) -> E:
        """An error of the language at a node."""
        span = node if isinstance(node, Span) else self.span(node)
        return kind(message, span, kernel=self.kernel_name, **rest)

    def wrap(self, error: Exception, node: ast.AST | Span, owner: str = "") -> ParserSyntaxError:
        """A foreign exception as an error of the language; the caller raises it from the original."""
        where = f"`{owner}`: " if owner else ""
        text = f"{where}{type(error).__name__}: {error} (in kernel `{self.kernel_name}`)"
        code = getattr(error, "code", None)  # a rule may name the code of the finding it stands for
        if code not in CODES:
            code = "P003" if isinstance(error, ValueError) else "P002" if isinstance(error, TypeError) else "P008"
        return self.error(ParserSyntaxError, text, node, code=code, note=getattr(error, "note", None))

    def identity(self, node: ast.AST) -> str:
        """The name of a declaration in both core programs: its place and the places of the calls that led to it."""
        span: Span | None = self.span(node)
        parts = []
        while span is not None:
            name = span.file.replace("\\", "/").rsplit("/", 1)[-1]
            parts.append(f"{name}:{span.line}:{span.column}")
            span = span.inlined_at
        return "@".join(parts) + "#0"

    # --- evaluation, through the hooks ---

    def evaluate(self, node: ast.expr, hint: str | None = None) -> Value:
        """The value of an expression; `hint` names the variable it is about to be bound to."""
        return self.hooks.evaluate(self, node, hint)

    def execute(self, body: list[ast.stmt]) -> bool:
        """Read statements; whether control goes on behind them."""
        return self.hooks.execute(self, body)

    # --- statements and variables ---

    def emit(self, stmt: Stmt) -> None:
        """Append a statement to the open block."""
        self.block.append(stmt)

    @contextmanager
    def into(self, block: list[Stmt]) -> Iterator[list[Stmt]]:
        """Append to another block meanwhile."""
        outer, self.block = self.block, block
        try:
            yield block
        finally:
            self.block = outer

    def fresh(self, name: str, type_: Type) -> Var:
        """A new variable named after `name`."""
        count = self.pool.get(name, 0) + 1
        self.pool[name] = count
        return Var(name if count == 1 else f"{name}${count}", type_)

    def variable(self, name: str, type_: Type) -> Var:
        """The variable of this function body that holds the author's `name` while it has that type."""
        key = (name, type_)
        if key not in self.frame.vars:
            self.frame.vars[key] = self.fresh(name, type_)
        return self.frame.vars[key]

    def declared(self, node: ast.AST, name: str) -> str:
        """A name for what a call declares: what its value is passed on as, else `name`, as `inside` has it."""
        wanted = self.frame.wanted.get(node) if isinstance(node, ast.Call) else None
        return wanted if isinstance(wanted, str) else self.inside(name)

    def pass_on(self, found: dict[ast.Call, Wanted]) -> None:
        """Note names of calls to come; what the caller of a helper wants goes before the helper's own names."""
        self.frame.wanted = found | self.frame.wanted

    def inside(self, name: str) -> str:
        """A local name as a whole one: inside a helper it starts with the name that the call's value gets."""
        hint = self.frame.hint
        return name if hint is None or name == "_" else f"{hint}_{name}".replace("__", "_")

    @property
    def in_loop(self) -> bool:
        """Whether the statements being read may run more than once."""
        return any(frame.loops for frame in self.frames)

    def bound(self, name: str, value: Expr, node: ast.AST | Span) -> Local:
        """A temporary holding the value now."""
        var = self.fresh(name, value.type)
        self.emit(Assign(var, value, span=node if isinstance(node, Span) else self.span(node)))
        self.note_reference(var, value)
        self.temporaries.add(var)
        return Local(var)

    def note_reference(self, var: Var, value: Expr) -> None:
        """Remember what a tile variable refers to."""
        if not isinstance(var.type, ScalarType):
            self.refs[var] = value

    # --- going back ---

    def mark(self) -> Mark:
        """The present state of reading."""
        frame = self.frame
        return Mark(
            self.block, len(self.block), dict(self.pool), dict(frame.names), dict(frame.vars), len(frame.returns),
            frame.done, frozenset(self.reached),
        )  # fmt: skip

    def go_back(self, mark: Mark) -> None:
        """Forget everything read since the mark."""
        self.block = mark.block
        del self.block[mark.length :]
        self.pool = dict(mark.pool)
        frame = self.frame
        frame.names, frame.vars, frame.done = dict(mark.names), dict(mark.vars), mark.done
        del frame.returns[mark.returns :]
        self.reached = set(mark.reached)


def deferred(block: list[Stmt]) -> Block:
    """A block that is still open: merges found later add copies to it. `close` makes tuples of all of them."""
    return cast(Block, block)


def whole(place_var: Var, type_: StructType) -> Place:
    """The place of a whole struct variable."""
    return Place(place_var, None, (), None, type_)
