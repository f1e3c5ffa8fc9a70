"""What the layout report is told: tiles, what touches them, in which order, and what the author declared about them.

A `Design` comes from a plan file (`plan_file`) or from the IR of one specialisation (`extract`); nothing below this
layer of the report knows which. A plan states a lifetime and two pipes a tile (`Declared`); a kernel gives programs:
trees of steps with loops and branches, one a core kind. All records are plain and frozen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from pypto_pro.diag import Span
from pypto_pro.enums import CoreKind, MemorySpace, PipeType
from pypto_pro.ir.types import TileType

BOTH_CORES = frozenset(CoreKind)


@dataclass(frozen=True)
class Declared:
    """What a plan says about the use of a tile: steps of the first write and the last read, and their pipes."""

    first: int
    last: int
    write_pipe: PipeType = PipeType.V
    read_pipe: PipeType = PipeType.V

    @property
    def pipes(self) -> frozenset[PipeType]:
        """Every pipe that touches the tile."""
        return frozenset({self.write_pipe, self.read_pipe})


@dataclass(frozen=True)
class TileRecord:
    """One `make_tile` or `make_tile_group`, as written; a wrong one is still a record, and a rule reports it.

    `addrs` is a base, one address a slot, or None (to be planned). `mutex_ids` holds the ids of each slot. `size`,
    in bytes, is only for tiles; text is an expression that is no compile-time number. `when` names the tiling choices
    under which the tile exists. `valid` is the largest valid shape the kernel sets, None when it is the declared one.
    `nz_filled`: a Vec NZ tile gets its data from the ND -> NZ move. `scratch` is what an op needs of a scratch tile;
    `only_scratch`: no op uses it for anything else.
    """

    name: str
    kind: Literal["tile", "group"]
    type: TileType
    addrs: int | tuple[int, ...] | None = None
    size: int | str | None = None
    depth: int | None = None
    mutex_ids: tuple[tuple[int, ...], ...] = ()
    cores: frozenset[CoreKind] = frozenset({CoreKind.VECTOR})
    declared: Declared | None = None
    scale_of: str | None = None
    scales_too: tuple[str, ...] = ()
    """Further data tiles that meet this scale tile in a matmul: one too many."""
    valid: tuple[int, int] | None = None
    nz_filled: bool = True
    scratch: int | None = None
    only_scratch: bool = False
    purpose: str = ""
    when: tuple[tuple[str, object], ...] = ()
    span: Span | None = None
    addrs_span: Span | None = None
    """Where the author wrote the address, when that is an argument of this tile alone, which an edit may replace."""

    @property
    def space(self) -> MemorySpace:
        """The memory space."""
        return self.type.target_memory

    @property
    def slots(self) -> int:
        """Number of physical slots; `depth` wins where the two sources of it disagree."""
        if self.kind == "tile":
            return 1
        return self.depth if self.depth is not None else len(self.mutex_ids)

    def ids(self, slot: int) -> frozenset[int]:
        """Mutex ids of one slot."""
        return frozenset(self.mutex_ids[slot]) if slot < len(self.mutex_ids) else frozenset()

    @property
    def line(self) -> int | None:
        """Line of the definition; of the outermost call when a helper makes the tile."""
        return self.span.outermost.line if self.span is not None else None


# --- programs --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Use:
    """One operand of a step.

    `slot` is the slot used, None when it is chosen at run time. `ref` tells references to a rotating group apart:
    equal ref, equal slot. `covers`: the write reaches every byte a later reader may see. `fresh`: it reads only what
    the step itself wrote before. `locked`: auto_mutex (or the author) holds the slot's ids around the step. `by_hand`
    are further ids held by explicit locks.
    """

    tile: str
    reads: bool
    writes: bool
    slot: int | None = 0
    ref: int = 0
    covers: bool = False
    fresh: bool = False
    locked: bool = False
    by_hand: frozenset[int] = frozenset()
    spans: tuple[tuple[int, int], ...] = ()
    """Bytes of an L1 slot that are touched, from its start; empty: nobody knows, any of them."""

    def slots(self, tile: TileRecord) -> range:
        """The slots it may mean of its tile."""
        return range(tile.slots) if self.slot is None else range(self.slot, self.slot + 1)


@dataclass(frozen=True)
class Step:
    """One instruction: its program point, op, pipe and tile operands. `detail` names the tensor it moves, if any."""

    point: int
    op: str
    pipe: PipeType
    uses: tuple[Use, ...]
    span: Span | None = None
    detail: str = ""

    @property
    def line(self) -> int | None:
        """Source line."""
        return self.span.line if self.span is not None else None


@dataclass(frozen=True)
class Loop:
    """A `for` or `while`; `label` is the loop variable."""

    label: str
    body: tuple[Node, ...]
    span: Span | None = None
    runs: bool = False
    """At least one trip is certain."""


@dataclass(frozen=True)
class Branch:
    """A run-time `if`: one of the arms is executed."""

    arms: tuple[tuple[Node, ...], ...]
    span: Span | None = None


@dataclass(frozen=True)
class Resize:
    """`set_validshape` on a tile: reads behind it may see more than writes before it covered."""

    tile: str
    slot: int | None
    ref: int = 0


@dataclass(frozen=True)
class Leave:
    """`break`, `continue` or `return`."""

    how: Literal["break", "continue", "return"]


@dataclass(frozen=True)
class Signal:
    """Set (`sets`) or wait of the flag (from_pipe, to_pipe, event).

    An event known only at run time is None; then equal `ref` means equal events in one turn of a loop.
    """

    sets: bool
    from_pipe: PipeType
    to_pipe: PipeType
    event: int | None
    span: Span | None = None
    ref: int = 0


@dataclass(frozen=True)
class Fence:
    """`bar_<pipe>` or `bar_all`."""

    pipe: PipeType
    span: Span | None = None


@dataclass(frozen=True)
class Cross:
    """Set or wait of a cross-core event; `mode` is the name of the synchronisation mode."""

    sets: bool
    pipe: PipeType
    event: int | None
    mode: str
    span: Span | None = None


Node: TypeAlias = Step | Loop | Branch | Resize | Leave | Signal | Fence | Cross


@dataclass(frozen=True)
class Program:
    """What one core kind executes; points of different programs never coincide."""

    core: CoreKind
    body: tuple[Node, ...]

    def steps(self) -> Iterator[Step]:
        """Every step, in source order."""
        return steps_of(self.body)


def nodes_of(body: tuple[Node, ...]) -> Iterator[Node]:
    """Every node of a block at any depth, parents first, in source order."""
    for node in body:
        yield node
        match node:
            case Loop(body=inner):
                yield from nodes_of(inner)
            case Branch(arms=arms):
                for arm in arms:
                    yield from nodes_of(arm)


def steps_of(body: tuple[Node, ...]) -> Iterator[Step]:
    """Every step of a block, in source order."""
    return (node for node in nodes_of(body) if isinstance(node, Step))


def placed_steps(body: tuple[Node, ...], around: Loop | None = None) -> Iterator[tuple[Step, Loop | None]]:
    """Every step of a block, in source order, with its innermost loop (`around`: outside those of the block)."""
    for node in body:
        match node:
            case Step():
                yield node, around
            case Loop(body=inner):
                yield from placed_steps(inner, node)
            case Branch(arms=arms):
                for arm in arms:
                    yield from placed_steps(arm, around)


# --- declarations beside the programs --------------------------------------------------------------------------------


@dataclass(frozen=True)
class OrderFact:
    """An ordering known from elsewhere: the last use of `a` on `from_pipe` is over before `b` starts on `to_pipe`.

    `trace` facts were observed in `runs` runs and prove nothing.
    """

    a: str
    b: str
    kind: Literal["flag", "barrier", "cross_core", "trace"]
    from_pipe: PipeType | None = None
    to_pipe: PipeType | None = None
    event_id: int | None = None
    runs: int = 0


@dataclass(frozen=True)
class Parallel:
    """Two accesses to L1 slots that the schedule may overlap. Ops are `read` or `write`; agents name who does it.

    `derived`: found in the programs, not named by the author; such pairs are reported once for two tiles. The spans
    are the bytes touched, from the start of the slot; empty: the whole slot.
    """

    a: str
    a_op: str
    b: str
    b_op: str
    a_agent: str = ""
    b_agent: str = ""
    derived: bool = False
    a_spans: tuple[tuple[int, int], ...] = ()
    b_spans: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Walk:
    """How an op walks a tile made of boxes: the pitch from one line of boxes to the next, and where it comes from."""

    op: str
    pipe: PipeType
    span: Span
    pitch: int
    why: str


@dataclass(frozen=True)
class Mismatch:
    """`reader` walks what `writer` wrote with another pitch; `tail`: the extent that has to be short for that."""

    tile: str
    axis: Literal["row", "column"]
    writer: Walk
    reader: Walk
    tail: Literal["", "rows", "columns"] = ""


@dataclass(frozen=True)
class Design:
    """Everything the report knows of one kernel in one specialisation.

    `views` are declared reinterpretations (writer, reader), `separate` pairs of slots wanted in different L1 banks.
    """

    tiles: tuple[TileRecord, ...]
    kernel: str = ""
    file: str = ""
    auto_mutex: bool = True
    specialisation: Mapping[str, object] = field(default_factory=dict)
    programs: tuple[Program, ...] = ()
    views: tuple[tuple[str, str], ...] = ()
    orders: tuple[OrderFact, ...] = ()
    parallel: tuple[Parallel, ...] = ()
    separate: tuple[tuple[str, str], ...] = ()
    mismatches: tuple[Mismatch, ...] = ()
    limits: tuple[str, ...] = ()

    def tile(self, name: str) -> TileRecord | None:
        """The record of a name."""
        return next((t for t in self.tiles if t.name == name), None)


def tile_name(reference: str) -> str:
    """The tile of `name#i`, or of a bare name."""
    return reference.partition("#")[0]


def slot_name(tile: TileRecord, slot: int) -> str:
    """`name#i` for a group, the bare name for a tile."""
    return tile.name if tile.kind == "tile" else f"{tile.name}#{slot}"
