"""Tiles of boxes that one op writes with one pitch and another reads with another: a forward walk over valid shapes.

Valid extents known only at run time are tried full, and small on each axis, since a kernel that sets them means tails.
Limits: a tile chosen by control flow counts as every tile it may be, jumps fall through, and a loop is walked twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from pypto_pro.enums import MemorySpace, PipeType, TensorLayout
from pypto_pro.ir import nodes, walk
from pypto_pro.ir.types import GroupType, TileType
from pypto_pro.layouts import box, effective_layout, is_fractal
from pypto_pro.memory.design import Design, Mismatch, Walk
from pypto_pro.memory.finding import LayoutFinding, finding
from pypto_pro.memory.machine import SPACE_ORDER
from pypto_pro.memory.op_uses import NO_BYTES, Asked, ask
from pypto_pro.memory.references import Env, References
from pypto_pro.ops.entry import Access, Box, Effect
from pypto_pro.ops.operands import TileArg, tile_geometry

Key: TypeAlias = tuple[str, int | None, int]
Extents: TypeAlias = tuple[int | None, int | None]
Tail: TypeAlias = Literal["", "rows", "columns"]
TAILS: tuple[Tail, ...] = ("", "rows", "columns")
TRIPS = 2


@dataclass
class _State:
    valid: dict[Key, Extents] = field(default_factory=dict)
    walks: dict[Key, frozenset[Walk]] = field(default_factory=dict)

    def copy(self) -> _State:
        return _State(dict(self.valid), dict(self.walks))

    def join(self, other: _State, declared: Mapping[str, Extents]) -> _State:
        """What may hold on either path; extents that differ are not known, those never set are the `declared` ones."""
        valid = {}
        for key in self.valid.keys() | other.valid.keys():
            a, b = (state.valid.get(key, declared[key[0]]) for state in (self, other))
            valid[key] = (a[0] if a[0] == b[0] else None, a[1] if a[1] == b[1] else None)
        walks = {k: self.walks.get(k, frozenset()) | other.walks.get(k, frozenset())
                 for k in self.walks.keys() | other.walks.keys()}  # fmt: skip
        return _State(valid, walks)


def find_mismatches(program: nodes.Program, names: Mapping[str, str]) -> tuple[Mismatch, ...]:
    """Every mismatch of one program, each pair of ops once; `names` of tiles by identity."""
    declared = [s.var.type for s in walk.statements(program.body) if isinstance(s, nodes.TileDecl | nodes.GroupDecl)]
    if not any(_is_boxed(t.tile if isinstance(t, GroupType) else t) for t in declared):
        return ()
    found: dict[tuple[object, ...], Mismatch] = {}
    for tail in TAILS:
        for mismatch in _Walker(program, names, tail).run():
            found.setdefault((mismatch.tile, mismatch.writer.span, mismatch.reader.span), mismatch)
    return tuple(found.values())


def _is_boxed(type_: Any) -> bool:
    return (
        isinstance(type_, TileType) and len(type_.shape) == 2 and is_fractal(effective_layout(type_.layout, type_.cols))
    )


class _Walker:
    """One walk over a program; `tail` says which extents known only at run time are short."""

    def __init__(self, program: nodes.Program, names: Mapping[str, str], tail: Tail) -> None:
        self.program, self.names, self.tail = program, names, tail
        self.references = References(program.body)
        self.declared = {s.identity: _declared(s.var.type) for s in walk.statements(program.body)
                         if isinstance(s, nodes.TileDecl | nodes.GroupDecl)}  # fmt: skip
        self.found: list[Mismatch] = []

    def run(self) -> list[Mismatch]:
        self.block(self.program.body, {}, _State())
        return self.found

    def block(self, body: nodes.Block, env: Env, state: _State) -> _State:
        for stmt in body:
            state = self.stmt(stmt, env, state)
            env = self.references.step(stmt, env)
        return state

    def stmt(self, stmt: nodes.Stmt, env: Env, state: _State) -> _State:
        match stmt:
            case nodes.If(then=then, orelse=orelse):
                ends = [self.block(arm, env, state.copy()) for arm in (then, orelse)]
                return ends[0].join(ends[1], self.declared)
            case nodes.For() | nodes.While():
                head = self.references.head(stmt, env)
                for _ in range(TRIPS):
                    state = state.join(self.block(stmt.body, head, state.copy()), self.declared)
            case nodes.SetValid(tile=tile, rows=rows, cols=cols):
                keys = [(t.identity, t.slot, t.ref) for t in self.references.targets(tile, env) if t.whole]
                sure = len(keys) == 1 or isinstance(tile.type, GroupType)
                extents = (self.number(rows, env, state), self.number(cols, env, state)) if sure else (None, None)
                state.valid |= dict.fromkeys(keys, extents)
            case nodes.Op():
                self.op(stmt, env, state)
        return state

    # --- one op ------------------------------------------------------------------------------------------------------

    def op(self, op: nodes.Op, env: Env, state: _State) -> None:
        if not any(walk.is_expr(a) and _is_boxed(a.type) for a in op.args):
            return
        asked = ask(op, lambda tile: self.stand_in(tile, env, state))
        if asked is None:
            return
        for access, tile, expr in _boxes(asked):
            walked = self.walked(op, asked, access, tile)
            if walked is None:
                continue
            axis, step = walked
            for target in self.references.targets(expr, env):
                key = target.identity, target.slot, target.ref
                if access.effect is Effect.WRITE:
                    state.walks[key] = frozenset({step}) if target.whole else state.walks.get(key, frozenset()) | {step}
                else:
                    self.compare(target.identity, axis, state.walks.get(key, frozenset()), step)

    def compare(self, identity: str, axis: Literal["row", "column"], writers: frozenset[Walk], reader: Walk) -> None:
        for writer in sorted(writers, key=lambda w: (w.span.line, w.span.column)):
            if writer.pitch != reader.pitch:
                self.found.append(Mismatch(self.names[identity], axis, writer, reader, self.tail))

    def walked(
        self, op: nodes.Op, asked: Asked, access: Access, tile: TileArg
    ) -> tuple[Literal["row", "column"], Walk] | None:
        """The pitch of one access, None when it stays inside one line of boxes."""
        where = access.where
        assert isinstance(where, Box)
        geo = tile_geometry(tile.type, where.row_extent, where.col_extent)
        by_rows = geo.layout in (TensorLayout.NZ, TensorLayout.NN)  # the strides of the others are made of columns
        axis, start, count = (geo.axes[1], where.c0, where.cols) if by_rows else (geo.axes[0], where.r0, where.rows)
        if count <= 0 or start // axis.block == (start + count - 1) // axis.block:
            return None
        extent = int(geo.row_extent if by_rows else geo.col_extent)
        why = _reason(tile.type, extent, by_rows, asked.pipe)
        return ("row" if by_rows else "column"), Walk(op.name.removeprefix("pl."), asked.pipe, op.span, extent, why)

    # --- stand-ins ---------------------------------------------------------------------------------------------------

    def stand_in(self, tile: nodes.Expr, env: Env, state: _State) -> TileArg:
        type_ = tile.type
        assert isinstance(type_, TileType)
        rows, cols = self.valid(tile, env, state)
        h, w = (
            box(effective_layout(type_.layout, type_.cols), type_.fractal, type_.dtype) if _is_boxed(type_) else (1, 1)
        )
        if rows is None:
            rows = min(h, type_.rows) if self.tail == "rows" else type_.rows
        if cols is None:
            cols = min(w, type_.cols) if self.tail == "columns" else type_.cols
        return TileArg(type_, NO_BYTES, 0, rows, cols)

    def valid(self, tile: nodes.Expr, env: Env, state: _State) -> Extents:
        """The valid extents of a tile now; None where only the run knows."""
        type_ = tile.type
        assert isinstance(type_, TileType)
        declared = _declared(type_)
        targets = self.references.targets(tile, env)
        if len(targets) != 1 or not (target := next(iter(targets))).whole:
            return (None, None) if type_.is_dynamic else declared
        key = target.identity, target.slot, target.ref
        return state.valid.get(key, declared)

    def number(self, expr: nodes.Expr, env: Env, state: _State) -> int | None:
        """An extent as far as it shows."""
        match expr:
            case nodes.Const(value=value):
                return int(value)
            case nodes.Convert(operand=operand):
                return self.number(operand, env, state)
            case nodes.TileAttr(tile=tile, what="vr" | "vc" as name):
                return self.valid(tile, env, state)[name == "vc"]
            case nodes.Binary(op=op, lhs=lhs, rhs=rhs):
                return _computed(op, self.number(lhs, env, state), self.number(rhs, env, state))
        return None


def _declared(type_: Any) -> Extents:
    """Valid rows and columns of a tile, or of the slots of a group, before anything sets them."""
    tile = type_.tile if isinstance(type_, GroupType) else type_
    if len(tile.shape) != 2:
        return None, None
    rows, cols = (size if v == -1 else v for v, size in zip(tile.valid_shape, tile.shape, strict=True))
    return rows, cols


def _reason(type_: TileType, extent: int, by_rows: bool, pipe: PipeType) -> str:
    """Where a pitch comes from."""
    what = "rows" if by_rows else "columns"
    if pipe is PipeType.M:  # the matrix unit goes by the valid shapes of its operands
        right = type_.space in (MemorySpace.Right, MemorySpace.ScaleRight)
        return f"valid {what} of {MemorySpace.Right.name if right else MemorySpace.Left.name}"
    declared = type_.rows if by_rows else type_.cols
    return f"{'declared' if extent == declared else f'valid {what}'}, compact={int(type_.compact or 0)}"


def _computed(op: str, a: int | None, b: int | None) -> int | None:
    if a is None or b is None:
        return None
    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "//" if b:
            return a // b
        case "%" if b:
            return a % b
        case "min" | "max":
            return min(a, b) if op == "min" else max(a, b)
    return None


def _boxes(asked: Asked) -> Iterator[tuple[Access, TileArg, nodes.Expr]]:
    """Accesses of boxed tiles, writes last: an op reads before it writes."""
    found = []
    for access, tile in asked.accesses() or ():
        expr = asked.tiles.get(access.operand)
        boxed = isinstance(tile, TileArg) and _is_boxed(tile.type) and isinstance(access.where, Box)
        if boxed and expr is not None and access.effect in (Effect.READ, Effect.WRITE):
            found.append((access, tile, expr))
    yield from sorted(found, key=lambda f: f[0].effect is Effect.WRITE)


# --- findings --------------------------------------------------------------------------------------------------------


def pitch_findings(design: Design) -> Iterator[LayoutFinding]:
    """L214: one report for a tile and who reads it; the operands of the op that wrote it are told along with it."""
    ordered = sorted(design.mismatches, key=lambda m: (m.writer.pipe is not PipeType.M, m.reader.span.line))
    told: set[Mismatch] = set()
    for found in ordered:
        if found in told:
            continue
        same = [m for m in ordered if (m.tile, m.reader.span, m.tail) == (found.tile, found.reader.span, found.tail)]
        writers = {m.writer.span for m in same}
        kin = [m for m in ordered if m.reader.span in writers and (m.axis, m.tail) == (found.axis, found.tail)]
        told |= {*same, *kin}
        yield _mismatch(design, found, [m for m in same if m is not found], kin)


def _mismatch(design: Design, found: Mismatch, others: list[Mismatch], kin: list[Mismatch]) -> LayoutFinding:
    tiles = [t for m in (found, *kin) if (t := design.tile(m.tile)) is not None]
    short = min(found.writer.pitch, found.reader.pitch)
    notes = [f"so for a tail: at most {short} valid {found.tail}"] if found.tail else []
    notes += [f"the same holds for what {m.writer.op} writes at line {m.writer.span.line}" for m in others]
    notes += [f"likewise {_words(design, m)}" for m in kin if m.reader.span == found.writer.span]
    loose = {t.space for t in tiles if not t.type.compact}
    packed = [space.name for space in SPACE_ORDER if space in loose]
    spans = (
        found.reader.span.labelled(f"read here with {found.reader.pitch}"),
        found.writer.span.labelled(f"written here with {found.writer.pitch}"),
    )
    return finding(
        "L214", _words(design, found), *dict.fromkeys(tiles), spans=spans, notes=tuple(notes),
        help=f"set compact=1 on {' and '.join(packed)}" if packed else None,
        written=found.writer.pitch, read=found.reader.pitch,
    )  # fmt: skip


def _words(design: Design, found: Mismatch) -> str:
    tile = design.tile(found.tile)
    space = tile.space.name if tile is not None else found.tile
    writer, reader = found.writer, found.reader
    return (
        f"{writer.op} writes {space} with {found.axis} pitch {writer.pitch} ({writer.why}),"
        f" {reader.op} reads it with {reader.pitch} ({reader.why})"
    )
