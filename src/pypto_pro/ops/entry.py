"""The form of an op table entry, and `defop`, which makes one from a plain function.

One op, one record. The decorated function is the op's meaning (numpy on run-time operands); its annotations are the
signature; further facets follow directly below it:

    @defop("pl.add", pipe=PipeType.V, section=VECTOR, family="tile.elementwise", aliases=("pl.adds",))
    def add(out: VecOut, lhs: VecIn, rhs: VecOrScalar) -> None:
        '''out = lhs + rhs over the valid shape of `out`. ...'''

    @add.rules                 # static checks; raise TypeError or ValueError, the front end adds the author's line
    def _(out: TileInfo, lhs: TileInfo, rhs: TileInfo | ScalarInfo) -> None: ...

    @add.regions               # bytes touched, as boxes over ints that may be abstract; default: from the roles
    def _(out: TileLike, lhs: TileLike, rhs: object) -> list[Access]: ...

    @add.issue                 # descriptor updates the scalar unit makes before the op is issued, and what must hold
    def _(dst, src, **attrs) -> list[DescriptorUpdate | Requirement | Caution]: ...

    @add.lower                 # native code; absent = the meaning runs through a callback
    def _(k: Builder, out: NativeTile, lhs: NativeTile, rhs: object) -> None: ...

Every facet is called with the data parameters by name, then the compile-time keywords by name. A facet that does not
need a keyword takes `**_`. `ops/` imports no back end: `lower` and `cost` are handed their builder and machine.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from functools import cached_property
from typing import Any

from pypto_pro.dtypes import DataType
from pypto_pro.enums import MemorySpace, PipeType


class Role(StrEnum):
    """What an op does with an operand."""

    IN = "in"
    OUT = "out"
    INOUT = "inout"
    SCRATCH = "scratch"  # a tmp operand: neither read nor written, contents unspecified afterwards


class Kind(StrEnum):
    """What an operand is. A parameter may allow several."""

    TILE = "tile"
    TENSOR = "tensor"
    SCALAR = "scalar"
    PTR = "ptr"
    OFFSETS = "offsets"  # a sequence of integer scalars
    STRUCT = "struct"
    REG = "reg"
    MASK = "mask"
    ADDR_REG = "addr_reg"
    UNALIGN_REG = "unalign_reg"


class Section(StrEnum):
    """Where an op may stand."""

    VECTOR = "vector"
    CUBE = "cube"
    BOTH = "both"


class Service(StrEnum):
    """What an op has the scalar unit do to state of its own, moving no operand bytes; each executor has code for it."""

    CLEAN_CACHE = "clean_cache"
    STORE_SSBUF = "store_ssbuf"
    LOAD_SSBUF = "load_ssbuf"
    COUNT_MASK = "count_mask"
    NORMAL_MASK = "normal_mask"
    SET_MASK = "set_mask"
    RESET_MASK = "reset_mask"
    ORDER_READ_OUT = "order_read_out"


REQUIRED: Any = inspect.Parameter.empty


@dataclass(frozen=True)
class Operand:
    """Annotation of a data parameter: `Annotated[TileArg, Operand({Kind.TILE}, Role.IN, spaces)]`.

    `const_dtype`: a compile-time number given here becomes a constant of that dtype (an int 2 for FP32 means 2.0).
    `selects`: a register whose values say which elements move, so that a copy of undefined bytes still uses them.
    """

    kinds: frozenset[Kind]
    role: Role = Role.IN
    spaces: tuple[MemorySpace, ...] = ()
    const_dtype: DataType | None = None
    selects: bool = False
    by_position: bool = False  # never by keyword


@dataclass(frozen=True)
class Keyword:
    """Annotation of a compile-time parameter: an enum class (plain numbers are then refused), or plain constants.

    `types` are the accepted Python types of the constant; enum classes come with `enum`. None is accepted when it is
    the default.
    """

    types: tuple[type, ...] = ()
    enum: type[Enum] | None = None


@dataclass(frozen=True)
class Param:
    """One parameter of an op, read from the function's annotations."""

    name: str
    spec: Operand | Keyword
    default: Any
    keyword_only: bool

    @property
    def is_data(self) -> bool:
        """A run-time operand (an `Op.args` position); otherwise a compile-time keyword (`Op.attrs`)."""
        return isinstance(self.spec, Operand)

    @property
    def positional_only(self) -> bool:
        """Whether its name is no keyword."""
        return isinstance(self.spec, Operand) and self.spec.by_position

    @property
    def required(self) -> bool:
        """Whether a call must give it."""
        return self.default is REQUIRED


@dataclass(frozen=True)
class Box:
    """Elements of a tile: rows [r0, r0 + rows) and columns [c0, c0 + cols), any of them an abstract integer.

    `row_extent`/`col_extent` replace the declared R/C as the pitch of fractal layouts (types-and-memory 4.4).
    """

    r0: Any
    c0: Any
    rows: Any
    cols: Any
    row_extent: Any = None
    col_extent: Any = None


@dataclass(frozen=True)
class Window:
    """Elements of a tensor: `rows` along axis `axes[0]`, `cols` along `axes[1]` (None: one row), from `offsets`."""

    offsets: tuple[Any, ...]
    axes: tuple[int | None, int | None]
    rows: Any
    cols: Any


@dataclass(frozen=True)
class Bytes:
    """A byte range of the operand's storage, relative to its address."""

    start: Any
    size: Any


class Effect(StrEnum):
    """How bytes are touched.

    A clobber leaves them unspecified (box round-ups, scratch). The MAY effects are for ops whose data decide which
    bytes they touch: some are read; some are written and then hold results, the others keep what they held.
    """

    READ = "read"
    WRITE = "write"
    CLOBBER = "clobber"
    MAY_READ = "may_read"
    MAY_WRITE = "may_write"
    ATOMIC = "atomic"  # read-modify-write that commutes with others of its kind

    @property
    def changes(self) -> bool:
        """Whether memory may be different afterwards."""
        return self not in (Effect.READ, Effect.MAY_READ)


@dataclass(frozen=True)
class Access:
    """One operand's touched elements. `sub` picks AIV0 or AIV1 for a Vec tile named by the cube core."""

    operand: str
    effect: Effect
    where: Box | Window | Bytes
    sub: int | None = None
    within_tile: bool = False  # what lies past the end of the tile's own bytes is left out, and reported


@dataclass(frozen=True)
class DescriptorUpdate:
    """A valid shape the scalar unit leaves behind in a tile operand."""

    operand: str
    rows: Any
    cols: Any


@dataclass(frozen=True)
class Requirement:
    """What must hold when the scalar unit issues the op, over extents that may be abstract; else a ValueError there."""

    holds: Any
    message: str


@dataclass(frozen=True)
class Caution:
    """What should hold when the op is issued: where it does not, the op runs as it says and the author is told.

    `kind`: of the finding, a kind of `diag.codes`.
    """

    holds: Any
    kind: str
    message: str


@dataclass(frozen=True)
class Tolerance:
    """How far native may differ from the meaning: `rule` as a formula, `rtol`/`atol` for comparisons, and why."""

    rule: str
    rtol: float
    atol: float
    reason: str


Facet = Callable[..., Any]
PipeRule = PipeType | Callable[..., PipeType]


@dataclass(eq=False)
class OpEntry:
    """All facts about one op."""

    name: str
    params: tuple[Param, ...]
    meaning: Facet | None
    pipe: PipeRule | None
    section: Section | Callable[..., Section]
    family: str
    kind: str = "op"  # op | construct | query
    aliases: tuple[str, ...] = ()
    doc: str = ""
    copies: bool = False  # moves bits unchanged: undefined bytes travel instead of being reported
    tolerance: Tolerance | None = None
    results: int = 0  # how many values it returns (element reads, registers)
    more_results: int = 0  # register ops: how many values more they give where more targets are named
    service: Service | None = None  # ops of the scalar unit on its own state; their meaning does nothing
    type_errors: bool = False  # a wrong kind or number of operands is a ParserTypeError, no wrapped TypeError
    reads_target: bool = False  # register ops: what the target held before is an operand
    any_width: bool = False  # 64-bit tiles of any number of columns, where no operand is a scalar
    node: str | None = None  # constructs and sync: the IR node that represents it
    facets: dict[str, Facet] = field(default_factory=dict)

    @property
    def origin(self) -> tuple[str, int]:
        """Where it is defined: the module and line of its meaning."""
        if self.meaning is None:
            return self.family, 0
        return self.meaning.__module__, self.meaning.__code__.co_firstlineno

    def _facet(self, name: str) -> Callable[[Facet], OpEntry]:
        def add(body: Facet) -> OpEntry:
            if name in self.facets:
                raise ValueError(f"{self.name} has two {name} facets")
            self.facets[name] = body
            return self

        return add

    def rules(self, body: Facet) -> OpEntry:
        """Static checks over TileInfo, TensorInfo, ScalarInfo; raises TypeError or ValueError."""
        return self._facet("rules")(body)

    def regions(self, body: Facet) -> OpEntry:
        """Touched elements: returns a list of Access."""
        return self._facet("regions")(body)

    def issue(self, body: Facet) -> OpEntry:
        """What the scalar unit does before issue: returns a list of DescriptorUpdate, Requirement and Caution."""
        return self._facet("issue")(body)

    def expects(self, body: Facet) -> OpEntry:
        """What should hold of operands but stops no run: returns a list of Caution, which only the checks look at."""
        return self._facet("expects")(body)

    def result_type(self, body: Facet) -> OpEntry:
        """Types of the results; register ops are asked with `targets`, the types their target names have now."""
        return self._facet("result_type")(body)

    def consumes(self, body: Facet) -> OpEntry:
        """Register ops: the register bytes whose values are used, {operand: 256 bools}; default: active lanes."""
        return self._facet("consumes")(body)

    def nestable(self, body: Facet) -> OpEntry:
        """Marks a register op whose result may be an operand of another one; never called."""
        return self._facet("nestable")(body)

    def rewrite(self, body: Facet) -> OpEntry:
        """An op that is another op with other operands: returns (name, {parameter: value}) over symbolic operands."""
        return self._facet("rewrite")(body)

    def lower(self, body: Facet) -> OpEntry:
        """Native code, emitted through the builder handed in first."""
        return self._facet("lower")(body)

    def cost(self, body: Facet) -> OpEntry:
        """Cycles on the machine handed in first; the family's default applies when absent."""
        return self._facet("cost")(body)

    @property
    def leaf(self) -> str:
        """The last part of the dotted name, as IR text prints it."""
        return self.name.rsplit(".", 1)[-1]

    @property
    def key(self) -> str:
        """The dotted name without the module alias: `add`, `system.bar_all`, `vf.add`, `simt.launch`."""
        return self.name.removeprefix("pl.")

    @cached_property
    def data_params(self) -> tuple[Param, ...]:
        """The run-time operands, in the order of `Op.args`."""
        return tuple(p for p in self.params if p.is_data)

    @cached_property
    def keywords(self) -> tuple[Param, ...]:
        """The compile-time keywords, in the order of `Op.attrs`."""
        return tuple(p for p in self.params if not p.is_data)

    @property
    def native(self) -> str:
        """How the native executor runs it: lowered, callback, or none (no run-time part at all)."""
        if self.kind != "op" or "lower" in self.facets or "rewrite" in self.facets:
            return "lowered"
        return "callback" if self.meaning is not None else "none"

    def bind(self, args: Sequence[Any], attrs: Sequence[tuple[str, Any]] = ()) -> dict[str, Any]:
        """Operands and keywords by name, as every facet takes them."""
        named = {p.name: a for p, a in zip(self.data_params, args, strict=True)}
        named.update(attrs)
        return named

    def unmet(self, named: Mapping[str, Any]) -> str | None:
        """The message of the first requirement that concrete operands and keywords fail, None when all hold."""
        return next((f.message for f in self._facts(named) if isinstance(f, Requirement) and not f.holds), None)

    def doubts(self, named: Mapping[str, Any]) -> list[Caution]:
        """The cautions that concrete operands and keywords fail."""
        return [f for f in self._facts(named) if isinstance(f, Caution) and not f.holds]

    def disappointed(self, named: Mapping[str, Any]) -> list[Caution]:
        """The expectations that concrete operands and keywords fail."""
        return [f for f in self.facets["expects"](**named) if not f.holds] if "expects" in self.facets else []

    def _facts(self, named: Mapping[str, Any]) -> Sequence[Any]:
        return self.facets["issue"](**named) if "issue" in self.facets else ()

    def pipe_of(self, **operands: Any) -> PipeType | None:
        """The pipe for given operands (anything with a `.type`)."""
        return self.pipe(**operands) if callable(self.pipe) else self.pipe


def read_params(body: Facet, skip: int = 0) -> tuple[Param, ...]:
    """The parameters of a function annotated `Annotated[T, Operand | Keyword]`, without the first `skip` ones."""
    code, params = body.__code__, []  # by hand: `inspect` and `typing` take most of the time of importing the table
    by_position, count = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    defaults = dict(zip(reversed(code.co_varnames[:by_position]), reversed(body.__defaults__ or ()), strict=False))
    defaults |= body.__kwdefaults__ or {}
    for position, name in enumerate(code.co_varnames[:count]):
        if position >= skip:
            hint = body.__annotations__[name]
            if isinstance(hint, str):
                hint = body.__globals__[hint] if hint in body.__globals__ else eval(hint, body.__globals__)
            spec = next(m for m in hint.__metadata__ if isinstance(m, Operand | Keyword))
            params.append(Param(name, spec, defaults.get(name, REQUIRED), position >= by_position))
    return tuple(params)


_TABLE: dict[str, OpEntry] = {}


def register(entry: OpEntry) -> OpEntry:
    """Put an entry into the table under its name and its aliases.

    A family whose import was interrupted is imported anew, and its entries take the places of the ones before.
    """
    for name in (entry.name, *entry.aliases):
        if name in _TABLE and _TABLE[name].origin != entry.origin:
            raise ValueError(f"{name} is defined twice")
        _TABLE[name] = entry
    return entry


def registered() -> dict[str, OpEntry]:
    """Entries by public dotted name, aliases included; complete once `ops.table` was imported."""
    return _TABLE


def defop(
    name: str,
    *,
    pipe: PipeRule | None,
    section: Section | Callable[..., Section] = Section.VECTOR,
    family: str,
    aliases: tuple[str, ...] = (),
    copies: bool = False,
    tolerance: Tolerance | None = None,
    results: int = 0,
    service: Service | None = None,
    type_errors: bool = False,
) -> Callable[[Facet], OpEntry]:
    """Register the decorated function as the meaning of op `name`; its docstring is the op's documentation."""

    def make(body: Facet) -> OpEntry:
        return register(
            OpEntry(
                name, read_params(body), body, pipe, section, family, "op", aliases, inspect.getdoc(body) or "",
                copies, tolerance, results, service=service, type_errors=type_errors,
            )
        )

    return make


def construct(
    name: str, *, family: str, doc: str, node: str | None = None, kind: str = "construct",
    section: Section = Section.BOTH, pipe: PipeType | None = None, aliases: tuple[str, ...] = (),
) -> OpEntry:
    """Register compile-time vocabulary, a query or a sync statement: no meaning here, the IR node `node` has it."""
    return register(OpEntry(name, (), None, pipe, section, family, kind, aliases, doc, node=node))
