"""Channels and what shares their addresses: the tracked groups of a kernel, in regions of common slots."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pypto_pro import layouts
from pypto_pro.diag import Span
from pypto_pro.diag.errors import PipelineError
from pypto_pro.enums import MemorySpace
from pypto_pro.frontend.context import Context
from pypto_pro.frontend.pipeline.site import Site
from pypto_pro.frontend.values import TupleValue, const_int, describe
from pypto_pro.hw.a5 import CROSS_CORE_IDS
from pypto_pro.ir.nodes import GroupDecl
from pypto_pro.ir.types import GroupType


@dataclass(frozen=True, eq=False)
class Buffer:
    """A tracked tile group. A channel has ids of its own, other groups lie where one does."""

    name: str
    decl: GroupDecl

    @property
    def identity(self) -> str:
        """The declaration's name in both core programs."""
        return self.decl.identity

    @property
    def is_channel(self) -> bool:
        """Whether it hands tiles from one core kind to the other."""
        return bool(self.decl.fwd_ids or self.decl.bwd_ids)

    @property
    def slots(self) -> int:
        """How many tiles it has."""
        return len(self.decl.addrs)

    @property
    def span(self) -> Span:
        """Where it is made."""
        return self.decl.span

    @property
    def space(self) -> MemorySpace:
        """Where its tiles lie."""
        assert isinstance(self.decl.var.type, GroupType)
        return self.decl.var.type.tile.space

    def interval(self, slot: int) -> tuple[int, int]:
        """Start and end address of a slot."""
        type_ = self.decl.var.type
        assert isinstance(type_, GroupType)
        start = self.decl.addrs[slot]
        return start, start + layouts.slot_size(type_.tile.shape, type_.tile.dtype)


@dataclass(frozen=True, eq=False)
class Region:
    """Buffers that share addresses slot by slot; most regions are one channel alone."""

    buffers: tuple[Buffer, ...]

    @property
    def slots(self) -> int:
        """Slots of each buffer."""
        return self.buffers[0].slots


def regions(site: Site, groups: Mapping[str, GroupDecl]) -> tuple[Region, ...]:
    """The channels of a kernel, each with the group that shares its addresses. PipelineError for illegal sharing."""
    buffers = [Buffer(_plain(decl.var.name), decl) for decl in groups.values()]
    channels = [b for b in buffers if b.is_channel]
    partners: dict[str, list[Buffer]] = {}
    for channel in channels:
        for other in buffers:
            if other is not channel and other.space is channel.space and _overlap(channel, other):
                _check_sharing(site, channel, other)
                for one, two in ((channel, other), (other, channel)):
                    if two not in partners.setdefault(one.identity, []):
                        partners[one.identity].append(two)
    for identity, others in partners.items():
        if len(others) > 1:
            names = ", ".join(f"`{b.name}`" for b in others)
            owner = next(b for b in buffers if b.identity == identity)
            raise site.error(
                f"tile group `{owner.name}` overlaps {len(others)} others, expected one at most, found {names}",
                owner.span, labels=tuple(b.span.labelled(f"`{b.name}`") for b in others),
            )  # fmt: skip
    found: list[Region] = []
    seen: set[str] = set()
    for channel in channels:
        if channel.identity not in seen:
            members = [channel, *partners.get(channel.identity, [])]
            seen |= {b.identity for b in members}
            found.append(Region(tuple(members)))
    return tuple(found)


def _plain(name: str) -> str:
    return re.sub(r"\W", "_", name)


def _overlap(a: Buffer, b: Buffer) -> bool:
    return any(_meet(a.interval(i), b.interval(k)) for i in range(a.slots) for k in range(b.slots))


def _meet(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return a[0] < b[1] and b[0] < a[1]


def _check_sharing(site: Site, channel: Buffer, other: Buffer) -> None:
    """Groups that share addresses do so slot by slot, under the same mutex ids."""
    labels = (channel.span.labelled(f"channel `{channel.name}`"),)
    if channel.slots != other.slots:
        raise site.error(
            f"`{other.name}` overlaps channel `{channel.name}`, expected as many slots, found {other.slots} and "
            f"{channel.slots}", other.span, labels=labels,
        )  # fmt: skip
    if channel.decl.mutex_ids != other.decl.mutex_ids:
        shown = [[list(ids) for ids in b.decl.mutex_ids] for b in (other, channel)]
        raise site.error(
            f"`{other.name}` overlaps channel `{channel.name}`, expected equal mutex ids, found {shown[0]} and "
            f"{shown[1]}", other.span, labels=labels,
        )  # fmt: skip
    for i in range(other.slots):
        for k in range(channel.slots):
            if i != k and _meet(other.interval(i), channel.interval(k)):
                raise site.error(
                    f"`{other.name}` overlaps channel `{channel.name}`, expected slots of one number at one address, "
                    f"found slot {i} at slot {k}", other.span, labels=labels,
                )  # fmt: skip


# --- what a channel's declaration must look like, told while it is read ----------------------------------------------


def event_ids(ctx: Context, node: ast.expr | None, name: str) -> tuple[int, ...]:
    """`fwd_ids` or `bwd_ids` of a group: empty without it and where the kernel has no pipeline.

    A literal list, or a name from outside the kernel bound to one; PipelineError otherwise.
    """
    if not ctx.pipelined or node is None or (isinstance(node, ast.Constant) and node.value is None):
        return ()
    if not isinstance(node, ast.List | ast.Tuple) and not (
        isinstance(node, ast.Name) and node.id not in ctx.frame.names and ctx.frame.scope.has(node.id)
    ):
        raise ctx.error(
            PipelineError, f"`{name}` is a list written out or a name of the module bound to one, found "
            f"`{ast.unparse(node)}`", node,
        )  # fmt: skip
    value = ctx.evaluate(node)
    if not isinstance(value, TupleValue):
        raise ctx.error(PipelineError, f"`{name}` is a list of event ids, found {describe(value)}", node)
    ids = [const_int(item) for item in value.items]
    last = CROSS_CORE_IDS[-1]
    if not ids:
        raise ctx.error(PipelineError, f"`{name}` lists one event id or more, found none", node)
    if any(i not in CROSS_CORE_IDS for i in ids):
        shown = ", ".join(describe(item) if i is None else str(i) for i, item in zip(ids, value.items, strict=True))
        raise ctx.error(PipelineError, f"`{name}` lists event ids from 0 to {last}, found {shown}", node)
    return tuple(i for i in ids if i is not None)


def check_space(ctx: Context, type_node: ast.expr) -> None:
    """PipelineError unless the memory space of a channel's tile type is written `pl.MemorySpace.X`."""
    for made in _type_calls(ctx, type_node):
        keyword = next((k.value for k in made.keywords if k.arg == "target_memory"), None)
        if keyword is not None and not _is_member(keyword):
            raise ctx.error(
                PipelineError, "the `target_memory` of a channel is written as pl.MemorySpace.<name>, found "
                f"`{ast.unparse(keyword)}`", keyword,
            )  # fmt: skip


def _type_calls(ctx: Context, node: ast.expr) -> Iterable[ast.Call]:
    """The calls of pl.TileType that an expression stands for in this function."""
    if isinstance(node, ast.Call):
        return [node]
    if isinstance(node, ast.Name):
        made = [
            stmt.value for stmt in ast.walk(ctx.frame.source.tree)
            if isinstance(stmt, ast.Assign) and any(isinstance(t, ast.Name) and t.id == node.id for t in stmt.targets)
            and isinstance(stmt.value, ast.Call)
        ]  # fmt: skip
        if made:
            return [call for call in made if isinstance(call, ast.Call)]
    raise ctx.error(
        PipelineError, "the tile type of a channel is a pl.TileType(...) of the same function, whose `target_memory` "
        f"is a literal, found `{ast.unparse(node)}`", node,
    )  # fmt: skip


def _is_member(node: ast.expr) -> bool:
    match node:
        case ast.Attribute(value=ast.Attribute(attr="MemorySpace")):
            return True
    return False
