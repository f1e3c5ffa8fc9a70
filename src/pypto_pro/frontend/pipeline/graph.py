"""Which access of which stage must wait for which other: lanes of slots, their edges, and cycles among them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pypto_pro.frontend.pipeline.accesses import Access
from pypto_pro.frontend.pipeline.buffers import Buffer, Region
from pypto_pro.frontend.pipeline.site import Site
from pypto_pro.frontend.pipeline.structure import Stage


@dataclass(frozen=True)
class Edge:
    """Access `after` of stage `consumer` waits for access `before` of stage `producer`.

    `task_off`: how many tasks later the consumer is; `dist`: how many beats. A forward edge hands a tile over, a
    backward one hands its slot back.
    """

    producer: int
    before: Access
    consumer: int
    after: Access
    task_off: int
    dist: int
    forward: bool

    @property
    def key(self) -> tuple[object, ...]:
        """What makes two edges one."""
        return (self.producer, self.before.buffer, self.before.pipe, self.consumer, self.after.buffer, self.after.pipe,
                self.task_off, self.forward)  # fmt: skip


@dataclass(frozen=True)
class _Event:
    """An access of one task: `at` orders the lane."""

    at: tuple[int, int, int]  # beat, stage, position in the stage
    stage: int
    task: int
    access: Access


class Lane:
    """One slot of one region over enough tasks for a steady state; the lanes of a region are alike."""

    def __init__(
        self, region: Region, stages: Sequence[Stage], accesses: Sequence[tuple[Access, ...]], delays: Sequence[int]
    ) -> None:
        self.region = region
        self.stages = stages
        self.delays = delays
        mine = {b.identity for b in region.buffers}
        rounds = 2 * (max(delays) + 2)
        self.middle = region.slots * (rounds // 2)
        self.events = sorted(
            (
                _Event((task + delays[k], k, i), k, task, access)
                for task in range(0, region.slots * rounds, region.slots)
                for k, own in enumerate(accesses) for i, access in enumerate(own) if access.buffer in mine
            ),
            key=lambda e: e.at,
        )  # fmt: skip

    def edges(self) -> Iterator[Edge]:
        """The edges that end at one task in the middle."""
        for event in self.events:
            if event.task != self.middle:
                continue
            if not event.access.writes:
                yield from self._forward(event)
            else:
                for buffer in self.region.buffers:
                    yield from self._backward(event, buffer)

    def _forward(self, read: _Event) -> Iterator[Edge]:
        """From the nearest write before a read of one buffer, when the other core makes it."""
        writes = [e for e in self._of(read.access.buffer) if e.access.writes and e.at < read.at]
        if writes and self._cross(writes[-1], read):
            yield self._edge(writes[-1], read, True)

    def _backward(self, write: _Event, buffer: Buffer) -> Iterator[Edge]:
        """From the last touches of the contents of a buffer that a write replaces."""
        batches = [e for e in self._of(buffer.identity) if e.access.writes and self._makes(e, buffer)]
        before = [e for e in batches if e.at < write.at and (e.stage, e.task) != (write.stage, write.task)]
        if not before:
            return
        batch = before[-1]
        last: dict[tuple[int, object], _Event] = {}
        for event in self._users(batch, buffer):
            last[event.stage, event.access.pipe] = event
        for event in last.values():
            if self._cross(event, write):
                yield self._edge(event, write, False)

    def _users(self, batch: _Event, buffer: Buffer) -> Iterator[_Event]:
        """Who touches what a batch wrote: for a channel its consumer in the same task, else whoever comes before the
        next batch."""
        events = self._of(buffer.identity)
        if buffer.is_channel:
            yield from (e for e in events if e.task == batch.task and e.stage != batch.stage)
            return
        later = [e for e in events if e.access.writes and (e.stage, e.task) != (batch.stage, batch.task)]
        end = next((e.at for e in later if e.at > batch.at), None)
        first = next(e.at for e in events if (e.stage, e.task) == (batch.stage, batch.task))
        yield from (e for e in events if e.at >= first and (end is None or e.at < end))

    def _makes(self, event: _Event, buffer: Buffer) -> bool:
        """Whether a write starts new contents: in a channel only its producer's do."""
        return not buffer.is_channel or event.stage == min(e.stage for e in self._of(buffer.identity))

    def _of(self, identity: str) -> list[_Event]:
        return [e for e in self.events if e.access.buffer == identity]

    def _cross(self, before: _Event, after: _Event) -> bool:
        return self.stages[before.stage].kind is not self.stages[after.stage].kind

    def _edge(self, before: _Event, after: _Event, forward: bool) -> Edge:
        off = after.task - before.task
        dist = off + self.delays[after.stage] - self.delays[before.stage]
        return Edge(before.stage, before.access, after.stage, after.access, off, dist, forward)


def edges_of(
    regions: Sequence[Region], stages: Sequence[Stage], accesses: Sequence[tuple[Access, ...]], delays: Sequence[int]
) -> tuple[Edge, ...]:
    """The edges of a pipeline, each once, in order of regions and of the accesses that wait."""
    found: dict[tuple[object, ...], Edge] = {}
    for region in regions:
        for edge in Lane(region, stages, accesses, delays).edges():
            found.setdefault(edge.key, edge)
    return tuple(found.values())


def check_order(
    site: Site, stages: Sequence[Stage], accesses: Sequence[tuple[Access, ...]], delays: Sequence[int],
    regions: Sequence[Region], preload: int,
) -> None:  # fmt: skip
    """PipelineError when a later user of a buffer lags less than an earlier one, or a stage would run ahead."""
    for stage, delay in zip(stages, delays, strict=True):
        if delay < 0:
            raise site.error(
                f"with preload={preload} stage `{stage.name}` would run {-delay} tasks ahead of the first stage, "
                f"expected a delay of 0 or more, found {delay}", stage.statement, hint="use preload=1 or more",
            )  # fmt: skip
    for buffer in (b for region in regions for b in region.buffers):
        users = [k for k, own in enumerate(accesses) if any(a.buffer == buffer.identity for a in own)]
        for a, b in pairwise(users):
            if delays[b] < delays[a]:
                raise site.error(
                    f"with preload={preload} stage `{stages[b].name}` runs before `{stages[a].name}`, whose tile group "
                    f"`{buffer.name}` it uses; expected a delay of {delays[a]} or more, found {delays[b]}",
                    stages[b].statement, labels=(buffer.span.labelled("the group"),), hint="use preload=1 or more",
                )  # fmt: skip


def check_cycles(
    site: Site, stages: Sequence[Stage], edges: Sequence[Edge], delays: Sequence[int], regions: Sequence[Region],
    preload: int,
) -> None:  # fmt: skip
    """PipelineError when stages wait for each other in a circle that no number of beats passes."""
    circle = _circle(len(stages), [*_program_order(stages), *((e.producer, e.consumer, e.dist) for e in edges)])
    if circle is None:
        return
    for region in regions:
        for buffer in region.buffers:
            forward = [e for e in edges if e.forward and e.after.buffer == buffer.identity and e.task_off < 0]
            if not forward:
                continue
            p, c = forward[0].producer, forward[0].consumer
            wanted = delays[c] - delays[p] + 1
            raise site.error(
                f"channel `{buffer.name}` has too few slots for preload={preload}: `{stages[c].name}` runs "
                f"{delays[c] - delays[p]} beats behind `{stages[p].name}`, expected {wanted} slots or more, found "
                f"{buffer.slots}", buffer.span,
                labels=(site.span(stages[p].statement).labelled("writes it"),
                        site.span(stages[c].statement).labelled("reads it")),
                hint="lower preload, or give the group more slots",
            )  # fmt: skip
    names = " -> ".join(f"`{stages[k].name}`" for k in circle)
    raise site.error(
        f"the stages wait for each other in a circle, {names}, with preload={preload}; expected one beat or more in "
        "every circle, found none", stages[circle[0]].statement,
        hint="lower preload, give the channels more slots, or stop sharing addresses",
    )  # fmt: skip


def _program_order(stages: Sequence[Stage]) -> Iterator[tuple[int, int, int]]:
    """Each core runs its stages of a beat in order, and the next beat behind them."""
    for kind in {stage.kind for stage in stages}:
        own = [stage.index for stage in stages if stage.kind is kind]
        yield from ((a, b, 0) for a, b in pairwise(own))
        yield own[-1], own[0], 1


def _circle(count: int, arcs: Sequence[tuple[int, int, int]]) -> list[int] | None:
    """A circle whose distances add up to 0 or less, as stages in order with the first repeated; None without one."""
    scale = count + 1  # a circle of at most `count` arcs: the -1 of each arc decides only where the sum is 0
    cost = [0] * count
    came: list[int | None] = [None] * count
    changed = None
    for _ in range(count + 1):
        changed = None
        for a, b, dist in arcs:
            if cost[a] + dist * scale - 1 < cost[b]:
                cost[b], came[b], changed = cost[a] + dist * scale - 1, a, b
        if changed is None:
            return None
    assert changed is not None
    at = changed
    for _ in range(count):
        step = came[at]
        assert step is not None
        at = step
    found = [at]
    while True:
        step = came[found[-1]]
        assert step is not None
        found.append(step)
        if step == at:
            return found[::-1]
