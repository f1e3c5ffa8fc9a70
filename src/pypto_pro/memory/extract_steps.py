"""One core's program as steps: walks the IR with the references and the locks that hold at each place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from pypto_pro.diag import Span
from pypto_pro.enums import CoreKind, MemorySpace, PipeType, TensorLayout
from pypto_pro.hw.a5 import SCALE_OF
from pypto_pro.ir import nodes, walk
from pypto_pro.ir.types import TileType
from pypto_pro.layouts import effective_layout, is_fractal
from pypto_pro.memory.call_effects import effects_of
from pypto_pro.memory.design import Branch, Cross, Fence, Leave, Loop, Node, Resize, Signal, Step, Use
from pypto_pro.memory.extents import Bounds
from pypto_pro.memory.op_uses import OperandUse, OpUse, use_of
from pypto_pro.memory.references import Env, References, Target
from pypto_pro.memory.valid_shapes import trials

Surely = dict[tuple[str, int | None, int], tuple[bool, bool]]
"""By tile, slot and reference: whether a call covers it, and whether it reads only what it wrote itself."""


@dataclass
class TileFacts:
    """What the programs say about one tile, collected while they are read."""

    cores: set[CoreKind] = field(default_factory=set)
    loaded_from: list[str] = field(default_factory=list)
    stored_to: list[str] = field(default_factory=list)
    scratch_of: list[str] = field(default_factory=list)
    made_by: list[str] = field(default_factory=list)
    read_by: list[str] = field(default_factory=list)
    data_tiles: set[str] = field(default_factory=set)
    nz_filled: bool = False
    used_otherwise: bool = False
    scratch_bytes: int = 0
    extents: list[tuple[int | None, int | None]] = field(default_factory=list)

    @property
    def only_scratch(self) -> bool:
        """Whether it serves ops as scratch and nothing else."""
        return bool(self.scratch_of) and not self.used_otherwise

    def purpose(self) -> str:
        """In words, empty when nothing is known."""
        made = [] if self.loaded_from else self.made_by
        scratch = self.scratch_of if self.only_scratch else []
        kinds = (("loaded from", self.loaded_from), ("result of", made), ("scratch of", scratch),
                 ("stored to", self.stored_to))  # fmt: skip
        said = ", ".join(f"{verb} {_listed(names)}" for verb, names in kinds if names)
        return said or (f"read by {_listed(self.read_by)}" if self.read_by else "")

    def valid(self, type_: TileType) -> tuple[int, int] | None:
        """The largest valid shape the kernel sets, None when it never does or the bound does not show."""
        if len(type_.shape) != 2 or not self.extents or not type_.is_dynamic:
            return None
        rows, cols = type_.shape
        if any(r is None for r, _ in self.extents):
            return None
        largest = max(r for r, _ in self.extents if r is not None)
        return min(rows, largest), cols


class Reader:
    """Reads the program of one core kind; `point` is the next free program point."""

    def __init__(
        self, program: nodes.Program, names: Mapping[str, str], ids: Mapping[str, tuple[tuple[int, ...], ...]],
        facts: Mapping[str, TileFacts], point: int, *, auto_mutex: bool,
    ) -> None:  # fmt: skip
        self.program, self.names, self.ids, self.facts = program, names, ids, facts
        self.point = point
        self.auto_mutex = auto_mutex
        self.references = References(program.body)
        self.bounds = Bounds(program.body)
        self.held: list[nodes.Lock] = []
        self.locked_ids = {
            c for s in walk.statements(program.body) if isinstance(s, nodes.Lock) for c in s.candidates
        }  # fmt: skip
        self.copies = {s.var for s in walk.statements(program.body) if isinstance(s, nodes.CopyTile)}

    def read(self) -> tuple[Node, ...]:
        """The steps of the whole program."""
        return self.block(self.program.body, {})

    def block(self, body: nodes.Block, env: Env) -> tuple[Node, ...]:
        found: list[Node] = []
        for at, stmt in enumerate(body):
            found += self.stmt(stmt, env, body[:at])
            env = self.references.step(stmt, env)
        return tuple(found)

    def stmt(self, stmt: nodes.Stmt, env: Env, before: nodes.Block) -> Iterable[Node]:
        """The nodes of one statement, in the environment behind the statements `before` it in its block."""
        match stmt:
            case nodes.Op():
                return self.op(stmt, env)
            case nodes.VfCall(tiles=tiles, name=name):
                return self.call(stmt, name, tiles, env, self.surely(stmt, env, before))
            case nodes.SimtLaunch(args=tiles, name=name):
                return self.call(stmt, name, tiles, env, {})
            case nodes.If(then=then, orelse=orelse):
                return (Branch((self.block(then, env), self.block(orelse, env)), stmt.span),)
            case nodes.For() | nodes.While():
                return (self.loop(stmt, env),)
            case nodes.Break():
                return (Leave("break"),)
            case nodes.Continue():
                return (Leave("continue"),)
            case nodes.Return():
                return (Leave("return"),)
            case nodes.SetValid():
                return self.resize(stmt, env)
        return self.synchronisation(stmt, env)

    def loop(self, stmt: nodes.For | nodes.While, env: Env) -> Loop:
        body = self.block(stmt.body, self.references.head(stmt, env))
        if isinstance(stmt, nodes.While):
            return Loop("while", body, stmt.span)
        start, stop, step = (self.constant(e) for e in (stmt.start, stmt.stop, stmt.step))
        runs = start is not None and stop is not None and step is not None and bool(range(start, stop, step or 1))
        return Loop(stmt.var.name.partition("$")[0], body, stmt.span, runs)

    def synchronisation(self, stmt: nodes.Stmt, env: Env) -> Iterable[Node]:
        match stmt:
            case nodes.Lock():
                self.held.append(stmt)
            case nodes.Unlock(pipe=pipe, mutex=mutex):
                self.held = [k for k in self.held if (k.pipe, k.mutex) != (pipe, mutex)]
            case nodes.SetFlag(set_pipe=a, wait_pipe=b, event=event):
                return (Signal(True, a, b, self.constant(event), stmt.span, self.references.choice(event, env)),)
            case nodes.WaitFlag(set_pipe=a, wait_pipe=b, event=event):
                return (Signal(False, a, b, self.constant(event), stmt.span, self.references.choice(event, env)),)
            case nodes.Barrier(pipe=pipe):
                return (Fence(pipe, stmt.span),)
            case nodes.SyncAll():
                return (Fence(PipeType.ALL, stmt.span),)
            case nodes.SetCross(pipe=pipe, event=event, mode=mode):
                return (Cross(True, pipe, self.constant(event), mode.name, stmt.span),)
            case nodes.WaitCross(pipe=pipe, event=event, mode=mode):
                return (Cross(False, pipe, self.constant(event), mode.name, stmt.span),)
        return ()

    @staticmethod
    def constant(expr: nodes.Expr) -> int | None:
        return int(expr.value) if isinstance(expr, nodes.Const) else None

    # --- instructions ------------------------------------------------------------------------------------------------

    def op(self, op: nodes.Op, env: Env) -> Iterable[Node]:
        found = use_of(op)
        if found is None:
            return ()
        uses: list[Use] = []
        for operand in found.operands:
            targets = self.references.targets(operand.tile, env)
            uses += self.uses(operand, targets, found.pipe)
            for target in targets:
                self.note(op, operand, target, found)
        self.pair_scales(found.operands, env)
        detail = ", ".join((*found.sources, *found.targets))
        return (self.step(op.name.removeprefix("pl."), found.pipe, uses, op.span, detail),)

    def step(self, name: str, pipe: PipeType, uses: list[Use], span: Span, detail: str = "") -> Step:
        self.point += 1
        return Step(self.point - 1, name, pipe, tuple(uses), span, detail)

    def uses(self, operand: OperandUse, targets: frozenset[Target], pipe: PipeType) -> Iterable[Use]:
        in_l1 = isinstance(operand.tile.type, TileType) and operand.tile.type.space is MemorySpace.Mat
        for target in sorted(targets, key=lambda t: (t.identity, t.slot is None, t.slot or 0, t.ref)):
            name = self.names[target.identity]
            self.facts[name].cores.add(self.program.core)
            sure = target.whole and len(targets) == 1
            yield Use(
                name, operand.reads, operand.writes, target.slot, target.ref,
                covers=operand.covers and sure,
                locked=self.is_locked(operand.tile, name, target.slot, pipe),
                by_hand=self.by_hand(pipe),
                spans=operand.spans if target.whole and in_l1 else (),
            )  # fmt: skip

    def is_locked(self, tile: nodes.Expr, name: str, slot: int | None, pipe: PipeType) -> bool:
        """Whether auto_mutex holds every id of the slot around the current op."""
        slots = self.ids[name]
        if not slots or not self.auto_mutex:
            return False
        if not {i for ids in slots for i in ids} & self.locked_ids:
            return pipe is PipeType.V  # ids that only V takes need no lock and get none
        automatic = [k for k in self.held if k.automatic and k.pipe is pipe]
        constants = {int(k.mutex.value) for k in automatic if isinstance(k.mutex, nodes.Const)}
        chosen = {
            (k.mutex.tile, k.mutex.index) for k in automatic if isinstance(k.mutex, nodes.TileAttr)
        }  # fmt: skip
        candidates = slots if slot is None else (slots[slot],)
        return all(
            (tile, k) in chosen or all(ids[k] in constants for ids in candidates) for k in range(len(candidates[0]))
        )

    def by_hand(self, pipe: PipeType) -> frozenset[int]:
        """Ids that explicit locks of the author hold on a pipe."""
        manual = [k.mutex for k in self.held if not k.automatic and k.pipe is pipe]
        return frozenset(int(m.value) for m in manual if isinstance(m, nodes.Const))

    def call(
        self, stmt: nodes.VfCall | nodes.SimtLaunch, name: str, args: tuple[nodes.Expr, ...], env: Env, sure: Surely
    ) -> Iterable[Node]:
        """A vector or SIMT function: one step on V that does what its body does to the tiles."""
        inner = self.body_uses(stmt.body, env)
        uses: dict[tuple[str, int | None, int], Use] = {}
        tiles = [a for a in args if isinstance(a.type, TileType)]
        for operand, targets in inner:
            for use in self.uses(operand, targets, PipeType.V):
                key = (use.tile, use.slot, use.ref)
                old = uses.get(key)
                locked = any(self.is_locked(a, use.tile, use.slot, PipeType.V) for a in tiles)
                covers, fresh = sure.get(key, (False, False))
                uses[key] = replace(
                    use, reads=use.reads or bool(old and old.reads), writes=use.writes or bool(old and old.writes),
                    covers=covers, fresh=fresh, locked=use.locked or locked,
                )  # fmt: skip
        for use in uses.values():
            (self.facts[use.tile].made_by if use.writes else self.facts[use.tile].read_by).append(name)
        return (self.step(name, PipeType.V, list(uses.values()), stmt.span),)

    def surely(self, call: nodes.VfCall, env: Env, before: nodes.Block) -> Surely:
        """What holds in every trial of a vector function."""
        own = [t for t in call.tiles if not (isinstance(t, nodes.Local) and t.var in self.copies)]
        found: Surely = {}
        for trial in trials(own, before, env, self.references):
            tried: Surely = {}
            for tile, effect in effects_of(call, trial.known).items():
                targets = self.references.targets(tile, env)
                if not targets:  # named inside the call: it may be any tile
                    return {}
                assert isinstance(tile.type, TileType)
                whole = len(targets) == 1 and all(t.whole for t in targets)
                mine = whole and effect.covers(tile.type, trial.shapes.get(tile))
                for t in targets:
                    key = self.names[t.identity], t.slot, t.ref
                    covers, fresh = tried.get(key, (False, True))
                    tried[key] = covers or mine, fresh and effect.fresh and whole
            found = {k: (c and found.get(k, (c, f))[0], f and found.get(k, (c, f))[1]) for k, (c, f) in tried.items()}
        return found

    def body_uses(self, body: nodes.Block, env: Env) -> list[tuple[OperandUse, frozenset[Target]]]:
        """Tile operands of every op of a function body, with what they name there."""
        found: list[tuple[OperandUse, frozenset[Target]]] = []
        for stmt in body:
            if isinstance(stmt, nodes.Op):
                use = use_of(stmt)
                for operand in use.operands if use else ():
                    found.append((operand, self.references.targets(operand.tile, env)))
            inner = self.references.head(stmt, env) if isinstance(stmt, nodes.For | nodes.While) else env
            for block in walk.blocks(stmt):
                found += self.body_uses(block, inner)
            env = self.references.step(stmt, env)
        return found

    # --- facts -------------------------------------------------------------------------------------------------------

    def resize(self, stmt: nodes.SetValid, env: Env) -> Iterable[Node]:
        for target in sorted(self.references.targets(stmt.tile, env), key=lambda t: (t.identity, t.slot or 0, t.ref)):
            name = self.names[target.identity]
            if target.whole:
                self.facts[name].extents.append((self.bounds.upper(stmt.rows), self.bounds.upper(stmt.cols)))
                yield Resize(name, target.slot, target.ref)

    def note(self, op: nodes.Op, operand: OperandUse, target: Target, found: OpUse) -> None:
        """Remember what the tile is for."""
        facts = self.facts[self.names[target.identity]]
        facts.used_otherwise |= not operand.scratch
        facts.scratch_bytes = max(facts.scratch_bytes, operand.scratch_bytes)
        if operand.scratch:
            facts.scratch_of.append(op.name.removeprefix("pl."))
        elif operand.writes:
            facts.loaded_from += found.sources
            if not found.sources:
                facts.made_by.append(op.name.removeprefix("pl."))
            facts.nz_filled |= _packs(operand, found.operands)
        elif operand.reads:
            facts.stored_to += found.targets
            facts.read_by.append(op.name.removeprefix("pl."))

    def pair_scales(self, operands: tuple[OperandUse, ...], env: Env) -> None:
        """Data and scale tiles that meet in one matmul."""
        by_space: dict[MemorySpace, frozenset[Target]] = {}
        for operand in operands:
            if isinstance(operand.tile.type, TileType):
                by_space[operand.tile.type.space] = self.references.targets(operand.tile, env)
        for data, scale in SCALE_OF.items():
            for target in by_space.get(scale, ()):
                names = {self.names[t.identity] for t in by_space.get(data, ())}
                self.facts[self.names[target.identity]].data_tiles |= names


def _listed(names: list[str], most: int = 3) -> str:
    return ", ".join(f"`{n}`" for n in list(dict.fromkeys(names))[:most])


def _packs(operand: OperandUse, others: Iterable[OperandUse]) -> bool:
    """Whether this is an NZ tile of Vec written from an ND one."""
    mine = operand.tile.type
    if not isinstance(mine, TileType) or mine.space is not MemorySpace.Vec or mine.layout is not TensorLayout.NZ:
        return False
    sources = [o.tile.type for o in others if o is not operand and isinstance(o.tile.type, TileType)]
    return any(not is_fractal(effective_layout(s.layout, s.cols)) for s in sources)
