"""Which tracked buffers a stage touches, in order, with role and pipe: read off the IR that its call became."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pypto_pro.diag import Span
from pypto_pro.enums import PipeType
from pypto_pro.frontend.pipeline import channel_use
from pypto_pro.frontend.pipeline.buffers import Buffer, Region
from pypto_pro.frontend.pipeline.probe import Origins, Probe, StageCall
from pypto_pro.frontend.pipeline.site import Site
from pypto_pro.frontend.pipeline.structure import Stage
from pypto_pro.frontend.values import GroupValue
from pypto_pro.ir import walk
from pypto_pro.ir.nodes import Expr, Op, SimtLaunch, Stmt, VfCall
from pypto_pro.ir.types import TileType
from pypto_pro.ops.entry import OpEntry, Role
from pypto_pro.ops.table import lookup


@dataclass(frozen=True)
class Access:
    """One stage reads or writes one buffer on one pipe. `span`: the first place where it does."""

    buffer: str  # identity
    writes: bool
    pipe: PipeType
    span: Span


def of_stages(
    site: Site, probe: Probe, stages: Sequence[Stage], regions: Sequence[Region]
) -> tuple[tuple[Access, ...], ...]:
    """The accesses of every stage, in program order, each (buffer, role, pipe) once.

    Branches inside a stage are ignored. PipelineError for a channel used in a form that device compilers do not
    follow, and for a channel that is not handed from one stage to another one of the other core kind.
    """
    tracked = {b.identity: b for region in regions for b in region.buffers}
    origins = {core: Origins(body) for core, body in probe.programs.items()}
    found = []
    for stage in stages:
        call = probe.calls[id(stage.call)]
        channel_use.check_forms(site, call, frozenset(i for i, b in tracked.items() if b.is_channel))
        own = list(_accesses(call.statements, origins[stage.kind]))
        _check_resolved(site, probe, stage, call, origins[stage.kind], tracked)
        found.append(_merged(a for a in own if a.buffer in tracked))
    for buffer in tracked.values():
        if buffer.is_channel:
            _check_users(site, stages, found, buffer)
    return tuple(found)


def _merged(accesses: Iterable[Access]) -> tuple[Access, ...]:
    first: dict[tuple[str, bool, PipeType], Access] = {}
    for access in accesses:
        first.setdefault((access.buffer, access.writes, access.pipe), access)
    return tuple(first.values())


def _accesses(statements: Iterable[Stmt], origins: Origins) -> Iterator[Access]:
    """Every touch of a group's tile, reads of one instruction before its writes."""
    for stmt in statements:
        match stmt:
            case Op():
                yield from _of_op(stmt, origins, None)
            case VfCall(body=body):
                inner = [s for s in walk.statements(body) if isinstance(s, Op)]
                touched = [a for op in inner for a in _of_op(op, origins, PipeType.V)]
                yield from sorted(touched, key=lambda a: a.writes)  # one instruction: loads, then stores
            case SimtLaunch(args=args, span=span):
                for writes in (False, True):
                    yield from _of_tiles([a for a in args if _is_tile(a)], origins, writes, PipeType.V, span)
            case _:
                for block in walk.blocks(stmt):
                    yield from _accesses(block, origins)


def _of_op(op: Op, origins: Origins, pipe: PipeType | None) -> Iterator[Access]:
    entry = lookup(op.name)
    if entry is None:
        return
    pipe = pipe or entry.pipe_of(**entry.bind(op.args, op.attrs))
    if pipe is None:
        return
    for writes in (False, True):
        for role, tile in _tiles(entry, op):
            wanted = (Role.OUT, Role.INOUT, Role.SCRATCH) if writes else (Role.IN, Role.INOUT)
            if role in wanted:
                yield from _of_tiles([tile], origins, writes, pipe, op.span)


def _of_tiles(
    tiles: Iterable[Expr], origins: Origins, writes: bool, pipe: PipeType, span: Span
) -> Iterator[Access]:
    for tile in tiles:
        for identity in sorted(origins.of(tile)):
            yield Access(identity, writes, pipe, span)


def _tiles(entry: OpEntry, op: Op) -> Iterator[tuple[Role, Expr]]:
    for param, arg in zip(entry.data_params, op.args, strict=True):
        for item in arg if isinstance(arg, tuple) else (arg,):
            if item is not None and _is_tile(item):
                yield param.spec.role, item  # type: ignore[union-attr]


def _is_tile(value: object) -> bool:
    return walk.is_expr(value) and isinstance(value.type, TileType)


# --- checks ----------------------------------------------------------------------------------------------------------


def _check_resolved(
    site: Site, probe: Probe, stage: Stage, call: StageCall, origins: Origins, tracked: Mapping[str, Buffer]
) -> None:
    """A transfer whose pipe follows from its tiles (move, store) takes them from groups of the kernel."""
    passed = {
        value.decl.identity: name for name, value in call.parameters().items() if isinstance(value, GroupValue)
    }  # fmt: skip
    called = site.span(stage.statement).labelled(f"`{stage.name}` is called here")
    for op in walk.statements(tuple(call.statements)):
        entry = lookup(op.name) if isinstance(op, Op) else None
        if not isinstance(op, Op) or entry is None or not callable(entry.pipe):
            continue
        for _, tile in _tiles(entry, op):
            groups = origins.of(tile)
            if not groups:
                raise site.error(
                    f"the pipe of `{entry.name}` follows from its tiles, expected tiles of groups that the kernel "
                    "declares, found one made by pl.make_tile", op.span, labels=(called,),
                    hint="make the tile with pl.make_tile_group and pass the group",
                )  # fmt: skip
            for identity in groups - tracked.keys():
                names, own = call.kernel_names(identity), passed.get(identity)
                if own is not None and own not in names:
                    shown = " or ".join(f"`{n}`" for n in sorted(names)) or "a plain name"
                    raise site.error(
                        f"parameter `{own}` of stage `{stage.name}` is a tile group that is no channel, expected the "
                        f"name the kernel has for it, {shown}, found `{own}`", op.span,
                        labels=(called, probe.span_of(identity).labelled("made here")),
                        note=f"the pipe of `{entry.name}` follows from the group, which is looked up by name",
                    )  # fmt: skip


def _check_users(
    site: Site, stages: Sequence[Stage], accesses: Sequence[tuple[Access, ...]], buffer: Buffer
) -> None:
    """A channel is written by one stage and read by a later one of the other core kind."""
    users = [s for s, own in zip(stages, accesses, strict=True) if any(a.buffer == buffer.identity for a in own)]
    labels = tuple(site.span(s.statement).labelled(f"`{s.name}`, {s.kind.value}") for s in users)
    names = ", ".join(f"`{s.name}`" for s in users) or "none"
    if len(users) != 2:
        raise site.error(
            f"channel `{buffer.name}` is used by {len(users)} stages, expected two, a producer and a consumer, found "
            f"{names}", buffer.span, labels=labels,
        )  # fmt: skip
    if users[0].kind is users[1].kind:
        raise site.error(
            f"both stages of channel `{buffer.name}` run on the {users[0].kind.value} core, expected one cube and one "
            f"vector stage, found {names}", buffer.span, labels=labels,
            hint="a group used by one core needs no event ids; its mutex ids are enough",
        )  # fmt: skip
