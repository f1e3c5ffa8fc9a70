# long file: the grammar of the IR stands on one page, so that a reader can hold all of it at once
"""The whole IR on one page: typed mutable locals, pure expression trees, structured statements.

Rules a reader needs:
- A `Var` is unique by name inside one program. Scalars, pointers, registers and tile *references* are assigned with
  `Assign`. A tile or tensor variable that is the target of `TileDecl`, `SubView`, `CopyTile`, `TensorDecl` or
  `CopyTensor` owns a descriptor; one bound by `Assign` refers to somebody else's.
- A tile descriptor is {address, valid rows, valid columns, mutex ids}; `Slot` and `Pick` choose one and never copy it.
  A merge over control flow copies the chosen tile into a descriptor of its own (`CopyTile`).
- Expressions have no effects and read only locals, descriptors and struct fields. Everything that touches memory is a
  statement.
- `SetValid`, `SetStride`, struct fields, cursors and scalars belong to the scalar unit and happen at issue.
- `identity` names a declaration across the two core programs of a kernel: equal identity, same object.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pypto_pro.diag import NOWHERE, Span
from pypto_pro.dtypes import DataType
from pypto_pro.enums import CoreKind, CrossCoreSyncMode, PipeType, SyncAllMode, SyncCoreType
from pypto_pro.ir.types import (
    BOOL,
    INDEX,
    GroupType,
    PtrType,
    ScalarType,
    StructType,
    TileType,
    Type,
)


@dataclass(frozen=True, slots=True)
class Var:
    """A typed mutable local. Names are unique within a program; `x$2` is the second version of the author's `x`."""

    name: str
    type: Type


# --- expressions -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Const:
    """A known number: bool, int or float of `type`."""

    value: bool | int | float
    type: ScalarType = INDEX


@dataclass(frozen=True, slots=True)
class Local:
    """The current value of a variable."""

    var: Var

    @property
    def type(self) -> Type:
        """The variable's type."""
        return self.var.type


COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
"""Operators of `Binary` whose result is BOOL whatever they compare."""


@dataclass(frozen=True, slots=True)
class Binary:
    """`lhs op rhs` on operands already of one type.

    op: + - * / // % & | ^ << >> min max, the comparisons == != < <= > >= (type BOOL) and `and`, `or` (both sides are
    evaluated, type BOOL). Integers wrap in `type`; // and % truncate (C); floats round to nearest even in `type`.
    """

    op: str
    lhs: Expr
    rhs: Expr
    type: ScalarType


@dataclass(frozen=True, slots=True)
class Unary:
    """`-`, `~` or `not` (zero test, type BOOL) of one scalar."""

    op: str
    operand: Expr
    type: ScalarType


@dataclass(frozen=True, slots=True)
class Convert:
    """C conversion of a scalar to `type`: floats to ints truncate, ints wrap, non-zero is true."""

    operand: Expr
    type: ScalarType


@dataclass(frozen=True, slots=True)
class Choose:
    """`then if cond else other`; both sides pure and of one type (scalars and pointers only)."""

    cond: Expr
    then: Expr
    other: Expr
    type: Type


LAUNCH_QUERIES = ("block_idx", "block_num", "subblock_idx", "subblock_num")
"""Names of `Query` that a core knows from the start of its program to the end."""


@dataclass(frozen=True, slots=True)
class Query:
    """A launch coordinate: block_idx, block_num, subblock_idx, subblock_num, spr; in SIMT code thread_idx.x ..."""

    name: str
    type: ScalarType


@dataclass(frozen=True, slots=True)
class Dim:
    """A run-time dimension of a tensor variable."""

    tensor: Var
    axis: int

    @property
    def type(self) -> ScalarType:
        """INDEX."""
        return INDEX


@dataclass(frozen=True, slots=True)
class TileAttr:
    """A number from a tile's descriptor: `vr`, `vc` (valid extents), `addr` (bytes), or its k-th `mutex` id."""

    tile: Expr
    what: str
    index: int = 0

    @property
    def type(self) -> ScalarType:
        """INDEX."""
        return INDEX


@dataclass(frozen=True, slots=True)
class Slot:
    """The tile in slot `index` (0 <= index < depth) of a group: a reference to the slot's descriptor."""

    group: Var
    index: Expr

    @property
    def type(self) -> TileType:
        """The group's tile type."""
        assert isinstance(self.group.type, GroupType)
        return self.group.type.tile


@dataclass(frozen=True, slots=True)
class Pick:
    """The `index`-th of several values of one type (a tuple indexed at run time); for tiles a reference."""

    index: Expr
    options: tuple[Expr, ...]
    type: Type


@dataclass(frozen=True, slots=True)
class TilePlus:
    """`tile + offset` inside a vector function: the same tile moved by `offset` elements."""

    tile: Expr
    offset: Expr
    type: TileType


@dataclass(frozen=True, slots=True)
class PtrPlus:
    """`ptr + offset`, counted in elements of the pointer's dtype."""

    ptr: Expr
    offset: Expr
    type: PtrType


@dataclass(frozen=True, slots=True)
class PtrCast:
    """The same address with another pointee dtype."""

    ptr: Expr
    type: PtrType


@dataclass(frozen=True, slots=True)
class PtrOf:
    """The base address of a tensor variable."""

    tensor: Var
    type: PtrType


@dataclass(frozen=True, slots=True)
class IsNull:
    """Whether a pointer is null."""

    ptr: Expr

    @property
    def type(self) -> ScalarType:
        """BOOL."""
        return BOOL


@dataclass(frozen=True, slots=True)
class Place:
    """A spot in a struct: `var[index].path[0].path[1][element]`; the index only for struct arrays."""

    var: Var
    index: Expr | None
    path: tuple[str, ...]
    element: Expr | None
    type: ScalarType | StructType  # StructType: the whole (sub-)struct

    def member(self, name: str, type_: ScalarType | StructType, element: Expr | None = None) -> Place:
        """The member of this struct called `name`, or an element of it when it is an array; `type_` is its type."""
        return Place(self.var, self.index, (*self.path, name), element, type_)


@dataclass(frozen=True, slots=True)
class Field:
    """The value of one scalar in a struct."""

    place: Place

    @property
    def type(self) -> ScalarType | StructType:
        """The scalar's type."""
        return self.place.type


Expr: TypeAlias = (
    Const | Local | Binary | Unary | Convert | Choose | Query | Dim | TileAttr | Slot | Pick | TilePlus | PtrPlus
    | PtrCast | PtrOf | IsNull | Field
)


def _span() -> Any:
    """The span field every statement ends with; not part of equality, so that printed IR parses back equal."""
    return field(default=NOWHERE, compare=False)


# --- declarations ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TileDecl:
    """`var = make_tile(type, addr, size)`; `size` in bytes, None = the slot size. Valid shape starts full."""

    var: Var
    addr: int
    size: int | None
    identity: str
    span: Span = _span()


@dataclass(frozen=True)
class GroupDecl:
    """`var = make_tile_group(...)`: slot addresses, mutex ids a slot (empty: none), cursor starts at depth - 1."""

    var: Var
    addrs: tuple[int, ...]
    mutex_ids: tuple[tuple[int, ...], ...]
    cursor: Var | None  # None when the depth is 1
    identity: str
    fwd_ids: tuple[int, ...] = ()
    bwd_ids: tuple[int, ...] = ()
    span: Span = _span()


@dataclass(frozen=True)
class SubView:
    """A window of `base` with a descriptor of its own; keeps the base's type (pitch) and mutex ids.

    The address moves to element (row, col); the valid shape becomes (rows, cols), later bounded by the base's extent.
    """

    var: Var
    base: Expr
    row: Expr
    col: Expr
    rows: Expr
    cols: Expr
    span: Span = _span()


@dataclass(frozen=True)
class CopyTile:
    """`var`'s own descriptor becomes a copy of the one `source` refers to (a merge over control flow)."""

    var: Var
    source: Expr
    span: Span = _span()


@dataclass(frozen=True)
class TensorDecl:
    """`var = make_tensor(ptr, dims, strides)`, strides in elements, None = contiguous row-major."""

    var: Var
    ptr: Expr
    dims: tuple[Expr, ...]
    strides: tuple[Expr, ...] | None
    span: Span = _span()


@dataclass(frozen=True)
class CopyTensor:
    """`var`'s own view record becomes a copy of `source`'s (alias kept apart, or a merge)."""

    var: Var
    source: Var
    span: Span = _span()


@dataclass(frozen=True)
class StructDecl:
    """`var` (struct or struct array), every scalar initialised: one expression a scalar leaf in declaration order.

    For a struct array every struct gets the same values.
    """

    var: Var
    init: tuple[Expr, ...]
    span: Span = _span()


# --- scalar unit -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Assign:
    """`var = value`; for tiles and tensors-as-references a re-binding of the reference."""

    var: Var
    value: Expr
    span: Span = _span()


@dataclass(frozen=True)
class SetField:
    """`place = value`."""

    place: Place
    value: Expr
    span: Span = _span()


@dataclass(frozen=True)
class CopyStruct:
    """Every scalar of `target` becomes that of `source`; both name whole structs of one type."""

    target: Place
    source: Place
    span: Span = _span()


@dataclass(frozen=True)
class SetValid:
    """`set_validshape`: on a tile expression, or on all slots when `tile` is a group variable."""

    tile: Expr
    rows: Expr
    cols: Expr
    span: Span = _span()


@dataclass(frozen=True)
class SetStride:
    """`set_stride`: the two transfer strides (tile row, tile column; elements) of a tensor variable's view."""

    tensor: Var
    row: Expr
    col: Expr
    span: Span = _span()


@dataclass(frozen=True)
class Debug:
    """`printf`, `pto_assert`, `trap` or `dump_data`; text and options in `attrs`."""

    what: str
    args: tuple[Expr, ...]
    attrs: tuple[tuple[str, Any], ...] = ()
    span: Span = _span()


# --- control flow ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class If:
    """Run-time branch."""

    cond: Expr
    then: Block
    orelse: Block = ()
    span: Span = _span()


@dataclass(frozen=True)
class For:
    """`for var in range(start, stop, step)`; bounds evaluated once; assigning `var` in the body changes no trip."""

    var: Var
    start: Expr
    stop: Expr
    step: Expr
    body: Block
    span: Span = _span()


@dataclass(frozen=True)
class While:
    """`while True`; the condition is an `If(not cond, (Break(),))` at the head of the body, after its reads."""

    body: Block
    span: Span = _span()


@dataclass(frozen=True)
class Break:
    """Leave the innermost loop."""

    span: Span = _span()


@dataclass(frozen=True)
class Continue:
    """Next trip of the innermost loop."""

    span: Span = _span()


@dataclass(frozen=True)
class Return:
    """End this core's program; what was issued still drains."""

    span: Span = _span()


# --- instructions ----------------------------------------------------------------------------------------------------

Arg: TypeAlias = "Expr | tuple[Expr, ...] | None"


@dataclass(frozen=True)
class Op:
    """One entry of the op table applied to operands.

    `args` stand in the order of the entry's data parameters (tile, tensor, scalar, sequence of scalars; None for an
    absent optional one); `attrs` are its compile-time keywords by name, defaults filled in; `results` the variables
    that receive values (element reads, registers, masks).
    """

    name: str
    args: tuple[Arg, ...]
    attrs: tuple[tuple[str, Any], ...] = ()
    results: tuple[Var, ...] = ()
    span: Span = _span()

    def attr(self, name: str) -> Any:
        """The value of one compile-time keyword."""
        return dict(self.attrs)[name]


@dataclass(frozen=True)
class VfCall:
    """A vector function expanded in place: one V instruction. `tiles` are its tile arguments (for locks and accesses).

    The body holds scalar statements, loops, branches and `vf.*` ops on register variables. Scalars of the caller that
    it reads are those at issue; what it assigns is private to the call.
    """

    name: str
    tiles: tuple[Expr, ...]
    body: Block
    span: Span = _span()


@dataclass(frozen=True)
class SimtLaunch:
    """A SIMT function over threads (x, y, z): one V instruction; the body runs once a thread, locals private to it."""

    name: str
    threads: tuple[Expr, ...]
    args: tuple[Expr, ...]
    body: Block
    max_threads: int
    span: Span = _span()


# --- synchronisation -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SetFlag:
    """`sync_src`: an instruction of `set_pipe` that sets the flag (set_pipe, wait_pipe, event)."""

    set_pipe: PipeType
    wait_pipe: PipeType
    event: Expr
    span: Span = _span()


@dataclass(frozen=True)
class WaitFlag:
    """`sync_dst`: an instruction of `wait_pipe` that waits for the flag and clears it."""

    set_pipe: PipeType
    wait_pipe: PipeType
    event: Expr
    span: Span = _span()


@dataclass(frozen=True)
class Barrier:
    """`bar_<pipe>`, or `bar_all` when the pipe is ALL."""

    pipe: PipeType
    span: Span = _span()


@dataclass(frozen=True)
class Lock:
    """`mutex_lock`: granted in issue order. Skipped when `mutex` equals one of `unless` (already taken by this op).

    `candidates` are the ids it may name at run time. `automatic` marks locks made by auto_mutex.
    """

    pipe: PipeType
    mutex: Expr
    candidates: tuple[int, ...]
    unless: tuple[Expr, ...] = ()
    automatic: bool = False
    span: Span = _span()


@dataclass(frozen=True)
class Unlock:
    """`mutex_unlock`, with the same test as its lock."""

    pipe: PipeType
    mutex: Expr
    candidates: tuple[int, ...]
    unless: tuple[Expr, ...] = ()
    automatic: bool = False
    span: Span = _span()


@dataclass(frozen=True)
class SetCross:
    """`set_cross_core`."""

    pipe: PipeType
    event: Expr
    mode: CrossCoreSyncMode
    span: Span = _span()


@dataclass(frozen=True)
class WaitCross:
    """`wait_cross_core`."""

    pipe: PipeType
    event: Expr
    mode: CrossCoreSyncMode
    span: Span = _span()


@dataclass(frozen=True)
class SyncAll:
    """`sync_all`: barrier of this core, then a rendezvous of the selected cores of the launch."""

    core_type: SyncCoreType
    mode: SyncAllMode
    workspaces: tuple[Expr, ...] = ()
    used_cores: Expr | None = None
    span: Span = _span()


Stmt: TypeAlias = (
    TileDecl | GroupDecl | SubView | CopyTile | TensorDecl | CopyTensor | StructDecl | Assign | SetField | CopyStruct
    | SetValid | SetStride | Debug | If | For | While | Break | Continue | Return | Op | VfCall | SimtLaunch | SetFlag
    | WaitFlag | Barrier | Lock | Unlock | SetCross | WaitCross | SyncAll
)
Block: TypeAlias = tuple[Stmt, ...]


# --- whole kernels ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Program:
    """What one core kind executes."""

    core: CoreKind
    body: Block


@dataclass(frozen=True)
class Kernel:
    """One specialisation of a kernel: parameters in signature order and one program per core kind that has a section.

    Parameters are tensor, pointer, scalar or (last) tiling-struct variables. `captured` lists the module constants the
    source read, as (name, printed value), so that a later change can be noticed.
    """

    name: str
    params: tuple[Var, ...]
    programs: tuple[Program, ...]
    auto_mutex: bool = True
    captured: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    span: Span = _span()

    def program(self, core: CoreKind) -> Program | None:
        """The program of one core kind, None when the kernel has no section of it."""
        return next((p for p in self.programs if p.core is core), None)

    @property
    def kind(self) -> str:
        """`vector` (1 AIV a block), `cube` (1 AIC) or `mixed` (1 AIC and 2 AIV)."""
        return self.programs[0].core.value if len(self.programs) == 1 else "mixed"


def const(value: int) -> Const:
    """An INDEX constant."""
    return Const(value, INDEX)


def scalar_dtype(expr: Expr) -> DataType:
    """The dtype of a scalar expression."""
    assert isinstance(expr.type, ScalarType), expr
    return expr.type.dtype


