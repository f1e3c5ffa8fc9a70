"""Event ids of the edges, and what is set and waited for around each stage."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pypto_pro.diag import Span
from pypto_pro.enums import CoreKind, PipeType, SyncAllMode
from pypto_pro.frontend.pipeline.buffers import Buffer, Region
from pypto_pro.frontend.pipeline.graph import Edge
from pypto_pro.frontend.pipeline.probe import Probe
from pypto_pro.frontend.pipeline.site import PREFIX, Site
from pypto_pro.frontend.pipeline.structure import Stage
from pypto_pro.hw.a5 import CROSS_CORE_COUNTER_MAX, CROSS_CORE_IDS, SYNC_ALL_RESERVED_IDS
from pypto_pro.ir import walk
from pypto_pro.ir.nodes import Const, SetCross, SyncAll, WaitCross


@dataclass(frozen=True)
class IdList:
    """Event ids under the name of the variable that holds them in the transformed kernel."""

    variable: str
    ids: tuple[int, ...]


@dataclass(frozen=True)
class Signal:
    """An edge that is emitted: stage `producer` sets on `set_pipe`, stage `consumer` waits on `wait_pipe`.

    `ahead`: how many credits are handed out before the loop and taken back behind it.
    """

    producer: int
    set_pipe: PipeType
    consumer: int
    wait_pipe: PipeType
    ids: IdList
    ahead: int


@dataclass(frozen=True)
class SyncPlan:
    """All synchronisation of a pipeline."""

    signals: tuple[Signal, ...]

    @property
    def lists(self) -> tuple[IdList, ...]:
        """The id lists in order of first use."""
        return tuple(dict.fromkeys(s.ids for s in self.signals))

    @property
    def used(self) -> frozenset[int]:
        """Every id."""
        return frozenset(i for ids in self.lists for i in ids.ids)


def plan(
    site: Site, probe: Probe, stages: Sequence[Stage], regions: Sequence[Region], edges: Sequence[Edge]
) -> SyncPlan:
    """The signals of a pipeline. PipelineError for edges that no ids can serve and for ids used otherwise, too."""
    buffers = {b.identity: b for region in regions for b in region.buffers}
    names = _variables(buffers.values())
    signals: dict[Edge, Signal] = {}
    shared: list[Edge] = []
    for edge in edges:
        if not edge.forward and edge.before.buffer != edge.after.buffer:
            owner = _single_owner(edge, edges, buffers)
            if owner is None:
                shared.append(edge)
                continue
            ids, kind = owner.decl.bwd_ids, "bwd"
        else:
            owner = buffers[edge.after.buffer]
            ids, kind = (owner.decl.fwd_ids, "fwd") if edge.forward else (owner.decl.bwd_ids, "bwd")
        if ids:
            signals[edge] = _signal(edge, IdList(f"{PREFIX}{kind}_ids_{names[owner.identity]}", ids))
    needed = [edge for edge in shared if not _implied(edge, signals, len(stages))]
    for edge in [*signals, *needed]:
        _check_tasks(site, stages, buffers, edge)
    taken = {i for b in buffers.values() for i in (*b.decl.fwd_ids, *b.decl.bwd_ids)}
    allocated = _allocate(site, stages, buffers, needed, taken)
    found = {**signals, **{e: _signal(e, allocated[_group_key(e)]) for e in needed}}
    for edge, signal in found.items():
        _check_length(site, stages, buffers, edge, signal)
    made = SyncPlan(tuple(found[e] for e in edges if e in found))
    _check_credits(site, stages, made.signals)
    _check_by_hand(site, probe, made)
    return made


def _variables(buffers: Iterable[Buffer]) -> dict[str, str]:
    """A name for every buffer, numbered where two have the same."""
    found: dict[str, str] = {}
    for buffer in buffers:
        name, count = buffer.name, 1
        while name in found.values():
            count += 1
            name = f"{buffer.name}_{count}"
        found[buffer.identity] = name
    return found


def _signal(edge: Edge, ids: IdList) -> Signal:
    return Signal(edge.producer, edge.before.pipe, edge.consumer, edge.after.pipe, ids, max(edge.task_off, 0))


def _single_owner(edge: Edge, edges: Sequence[Edge], buffers: Mapping[str, Buffer]) -> Buffer | None:
    """The only buffer with backward ids among those that the same write replaces as many tasks later."""
    sources = {
        e.before.buffer for e in edges
        if not e.forward and (e.consumer, e.after, e.task_off) == (edge.consumer, edge.after, edge.task_off)
    }  # fmt: skip
    owners = [buffers[identity] for identity in sorted(sources) if buffers[identity].decl.bwd_ids]
    return owners[0] if len(owners) == 1 else None


def _implied(edge: Edge, signals: Mapping[Edge, Signal], count: int) -> bool:
    """Whether a chain of forward signals leads from one end of the edge to the other in as many tasks or fewer."""
    nearest = {edge.producer: 0}
    for _ in range(count):
        for e in signals:
            if e.forward and e.producer in nearest:
                off = nearest[e.producer] + e.task_off
                nearest[e.consumer] = min(off, nearest.get(e.consumer, off))
    return edge.consumer in nearest and nearest[edge.consumer] <= edge.task_off


# --- ids for buffers that share addresses ----------------------------------------------------------------------------


def _group_key(edge: Edge) -> tuple[object, ...]:
    return edge.producer, edge.before.buffer, edge.consumer, edge.after.buffer, edge.task_off


def _allocate(
    site: Site, stages: Sequence[Stage], buffers: Mapping[str, Buffer], edges: Sequence[Edge], taken: set[int]
) -> dict[tuple[object, ...], IdList]:
    """Ids for each group of edges: one a slot in ascending order; where these run out, one for a whole group."""
    groups = {_group_key(e): e for e in edges}
    sizes = {key: buffers[e.after.buffer].slots for key, e in groups.items()}
    free = [i for i in CROSS_CORE_IDS if i not in taken]
    reduced: list[Buffer] = []
    for key in sorted(groups, key=lambda k: sizes[k]):
        if sum(sizes.values()) <= len(free):
            break
        if sizes[key] > 1:
            sizes[key] = 1
            reduced.append(buffers[groups[key].after.buffer])
    if sum(sizes.values()) > len(free):
        edge = next(iter(groups.values()))
        raise site.error(
            f"groups that share addresses need {sum(sizes.values())} more event ids, expected {len(sizes)} or more of "
            f"{len(CROSS_CORE_IDS)} left by `fwd_ids` and `bwd_ids`, found {len(free)}",
            stages[edge.consumer].statement,
            hint="give the channels fewer ids, or addresses of their own",
        )  # fmt: skip
    for buffer in reduced:
        text = f"`{site.kernel}`: event ids are short, the slots of `{buffer.name}` share one"
        warnings.warn_explicit(text, RuntimeWarning, buffer.span.file, buffer.span.line)
    numbers = iter(free)
    return {
        key: IdList(f"{PREFIX}overlap_ids_{n}", tuple(next(numbers) for _ in range(sizes[key])))
        for n, key in enumerate(groups)
    }  # fmt: skip


# --- checks ----------------------------------------------------------------------------------------------------------


def _labels(site: Site, stages: Sequence[Stage], edge: Edge) -> tuple[Span, ...]:
    return (
        site.span(stages[edge.producer].statement).labelled(f"`{stages[edge.producer].name}` is waited for"),
        site.span(stages[edge.consumer].statement).labelled(f"`{stages[edge.consumer].name}` waits"),
    )


def _check_tasks(site: Site, stages: Sequence[Stage], buffers: Mapping[str, Buffer], edge: Edge) -> None:
    producer, consumer = stages[edge.producer], stages[edge.consumer]
    old, new = buffers[edge.before.buffer], buffers[edge.after.buffer]
    if edge.task_off < 0:
        raise site.error(
            f"`{consumer.name}` would wait for a future task: before it uses `{new.name}` stage `{producer.name}` must "
            f"be done with `{old.name}` of a task {-edge.task_off} later, expected 0 or more tasks back, found "
            f"{edge.task_off}", new.span, labels=_labels(site, stages, edge),
            hint="lower preload, stop sharing the address, or reorder the stages",
        )  # fmt: skip
    if edge.task_off == 0 and edge.producer > edge.consumer:
        raise site.error(
            f"`{consumer.name}` reuses the slot of `{old.name}` in the same task before `{producer.name}` is done with "
            f"it, expected `{producer.name}` earlier in the chain, found it later", new.span,
            labels=_labels(site, stages, edge), hint="stop sharing the address, or reorder the stages",
        )  # fmt: skip


def _check_length(
    site: Site, stages: Sequence[Stage], buffers: Mapping[str, Buffer], edge: Edge, signal: Signal
) -> None:
    length = len(signal.ids.ids)
    if edge.task_off % length:
        new = buffers[edge.after.buffer]
        raise site.error(
            f"`{new.name}` hands slots back {edge.task_off} tasks later, expected a number of event ids that divides "
            f"{edge.task_off}, found {length} ids ({', '.join(map(str, signal.ids.ids))})", new.span,
            labels=_labels(site, stages, edge), hint=f"list {edge.task_off} ids, or one for all slots",
        )  # fmt: skip


def _check_credits(site: Site, stages: Sequence[Stage], signals: Sequence[Signal]) -> None:
    """At most 15 credits of one id are handed out before the loop."""
    ahead: dict[tuple[CoreKind, int], int] = {}
    for signal in signals:
        receiver = stages[signal.consumer].kind
        for i in range(signal.ahead):
            key = receiver, signal.ids.ids[i % len(signal.ids.ids)]
            ahead[key] = ahead.get(key, 0) + 1
            if ahead[key] > CROSS_CORE_COUNTER_MAX:
                raise site.error(
                    f"event id {key[1]} is set too often before the loop, expected {CROSS_CORE_COUNTER_MAX} credits "
                    f"or fewer on one counter, found {signal.ahead} slots on {len(signal.ids.ids)} ids",
                    stages[signal.consumer].statement, hint="list one id a slot",
                )  # fmt: skip


def _check_by_hand(site: Site, probe: Probe, made: SyncPlan) -> None:
    """The pipeline's ids are nobody else's: no set or wait of the author's, no HARD sync_all."""
    for what, ids, span in _by_hand(probe):
        common = sorted(made.used & ids)
        if common:
            text = ", ".join(map(str, common))
            owner = next(lst for lst in made.lists if common[0] in lst.ids)
            raise site.error(
                f"`{what}` uses event id {text}, which the automatic pipeline uses itself, expected ids outside "
                f"{', '.join(map(str, sorted(made.used)))}, found {text}", span, code="S110",
                note=f"{common[0]} is one of `{owner.variable.removeprefix(PREFIX)}`",
                hint="use other ids" if what != "sync_all" else "keep `fwd_ids` and `bwd_ids` off 11 to 14, or use "
                "sync_all in mode SOFT",
            )  # fmt: skip


def _by_hand(probe: Probe) -> Iterator[tuple[str, frozenset[int], Span]]:
    for body in probe.programs.values():
        for stmt in walk.statements(body):
            match stmt:
                case SetCross(event=Const(value=int() as event), span=span):
                    yield "set_cross_core", frozenset({event % len(CROSS_CORE_IDS)}), span
                case WaitCross(event=Const(value=int() as event), span=span):
                    yield "wait_cross_core", frozenset({event % len(CROSS_CORE_IDS)}), span
                case SyncAll(mode=SyncAllMode.HARD, span=span):
                    yield "sync_all", SYNC_ALL_RESERVED_IDS, span
