"""Why two slots may share bytes: every overlapping pair gets a proof or becomes an L104."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations

from pypto_pro.enums import CoreKind
from pypto_pro.memory.design import Design
from pypto_pro.memory.evidence import DeclaredEvidence, Edge, Evidence, ProgramEvidence, weakest
from pypto_pro.memory.finding import LayoutFinding, finding, interval
from pypto_pro.memory.lifetimes import Key, Life, find_lifetimes
from pypto_pro.memory.table import Row, in_table_order, row_note

REASONS = {
    "live": "both are in use at the same time",
    "unordered": "nothing orders the last access of the one before the first access of the other",
    "cross_core": "only the cross-core protocol orders the two core kinds; a mutex id is private to a core",
    "view_not_nested": "a view has to lie inside the tile it reinterprets",
}


@dataclass(frozen=True)
class Reuse:
    """One overlapping pair, `a` used first: bytes `[start, end)`, and the proof, or the reason there is none."""

    id: str
    a: Row
    b: Row
    kind: str
    proof: str | None
    edges: tuple[Edge, ...] = ()
    reason: str | None = None
    protection: str = "none"
    notes: tuple[str, ...] = ()
    observed: int = 0
    """Runs in which the order was seen, without a proof."""

    @property
    def start(self) -> int:
        """First shared byte."""
        return max(self.a.start, self.b.start)

    @property
    def end(self) -> int:
        """One past the last shared byte."""
        return min(self.a.end, self.b.end)

    @property
    def orderable(self) -> bool:
        """Whether only an order is missing, which a mutex id, a flag or a cross-core edge would bring."""
        return self.proof is None and self.kind == "reuse" and self.reason in ("unordered", "cross_core")

    @property
    def partial(self) -> bool:
        """Whether neither row lies inside the other."""
        inside = (self.start, self.end)
        return inside not in ((self.a.start, self.a.end), (self.b.start, self.b.end))


@dataclass(frozen=True)
class Judged:
    """Verdicts on all overlapping pairs, and the lifetimes they were reached with."""

    reuses: tuple[Reuse, ...]
    lives: Mapping[Key, Life]
    evidence: Evidence


def judge_overlaps(design: Design, rows: tuple[Row, ...]) -> Judged:
    """Every overlapping pair of rows with its verdict, in table order."""
    evidence: Evidence = ProgramEvidence(design, rows) if design.programs else DeclaredEvidence(design)
    ordered = in_table_order(rows)
    pairs = [(a, b) for a, b in combinations(ordered, 2) if a.shares(b)]
    judge = _Judge(design, evidence, find_lifetimes(design))
    views = {(a.key, b.key): v for a, b in pairs if (v := judge.view(*judge.in_use_order(a, b))) is not None}
    # the bytes of a view live while either name is read: pairs with third tiles are judged by that
    judge.lives = find_lifetimes(design, _storage(views.values()))
    found = []
    for a, b in pairs:
        verdict = views.get((a.key, b.key)) or judge.reuse(*judge.in_use_order(a, b))
        found.append(verdict)
    return Judged(tuple(replace(v, id=f"P{i}") for i, v in enumerate(found, 1)), judge.lives, evidence)


def unproved_pairs(design: Design, rows: tuple[Row, ...]) -> frozenset[frozenset[str]]:
    """Pairs of slots (by name) that could not be proved to share bytes wherever they lay.

    Found by putting every slot of a space at one address; views of each other are no such pairs.
    """
    stacked = tuple(replace(r, start=0) for r in rows)
    evidence: Evidence = ProgramEvidence(design, stacked) if design.programs else DeclaredEvidence(design)
    judge = _Judge(design, evidence, find_lifetimes(design))
    pairs = [(a, b) for a, b in combinations(stacked, 2) if a.space is b.space and a.tile is not b.tile]
    return frozenset(
        frozenset({a.name, b.name}) for a, b in pairs if judge.reuse(*judge.in_use_order(a, b)).proof is None
    )


def _storage(views: Iterable[Reuse]) -> dict[str, str]:
    """Names that stand for the same bytes, each with its representative."""
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while parent.get(name, name) != name:
            name = parent[name]
        return name

    for view in views:
        if view.proof is not None and (view.a.start, view.a.end) == (view.b.start, view.b.end):
            parent[root(view.b.tile.name)] = root(view.a.tile.name)
    return {name: root(name) for name in parent}


class _Judge:
    """Verdicts on single pairs."""

    def __init__(self, design: Design, evidence: Evidence, lives: Mapping[Key, Life]) -> None:
        self.design, self.evidence, self.lives = design, evidence, lives
        self.declaration = {t.name: i for i, t in enumerate(design.tiles)}

    def in_use_order(self, a: Row, b: Row) -> tuple[Row, Row]:
        """The pair with the tile used first in front; a tie goes by declaration."""
        a_first, b_first = self.lives[a.key].first, self.lives[b.key].first
        a_at = a_first.point if a_first else -1
        b_at = b_first.point if b_first else -1
        a_place = (a_at, self.declaration[a.tile.name], a.slot)
        b_place = (b_at, self.declaration[b.tile.name], b.slot)
        return (a, b) if a_place <= b_place else (b, a)

    # --- views -------------------------------------------------------------------------------------------------------

    def view(self, a: Row, b: Row) -> Reuse | None:
        """The verdict on a pair that is a view, None when it is not meant to be one."""
        declared = self._declared_view(a, b)
        if declared is not None:
            writer, reader = declared
            if not (writer.start <= reader.start and reader.end <= writer.end):
                return self._refused(a, b, "view", "view_not_nested")
            return self._ordered_view(a, b, writer, reader)
        if not self.evidence.complete or not self.lives[a.key].meets(self.lives[b.key]):
            return None
        if (a.start, a.end) == (b.start, b.end):
            mutual = self._whole_pair(a, b)
            if mutual is not None:
                proof, how = mutual
                return Reuse("", a, b, "view", proof, protection=f"view, ordered by {how}")
        for writer, reader in ((a, b), (b, a)):
            nested = writer.start <= reader.start and reader.end <= writer.end
            if nested and not self.evidence.writes(reader) and self.evidence.writes(writer):
                return self._ordered_view(a, b, writer, reader)
        return None

    def _declared_view(self, a: Row, b: Row) -> tuple[Row, Row] | None:
        for writer, reader in ((a, b), (b, a)):
            names = {(w, r) for w in (writer.name, writer.tile.name) for r in (reader.name, reader.tile.name)}
            if not names.isdisjoint(self.design.views):
                return writer, reader
        return None

    def _ordered_view(self, a: Row, b: Row, writer: Row, reader: Row) -> Reuse:
        whole = self._whole_pair(writer, reader)
        if whole is not None:
            proof, how = whole
            return Reuse("", a, b, "view", proof, protection=f"view, ordered by {how}")
        edges = self.evidence.edges(writer, reader, view=True)
        decisive = weakest(edges)
        if decisive is None or decisive.by is None:
            return self._refused(a, b, "view", "unordered", edges)
        return Reuse("", a, b, "view", decisive.by, edges, protection=f"view, ordered by {decisive.how}")

    def _whole_pair(self, a: Row, b: Row) -> tuple[str, str] | None:
        """A proof that covers every access of both slots at once: one in-order pipe, or a common mutex id."""
        if len(a.tile.cores | b.tile.cores) > 1:
            return None
        pipes = self.evidence.pipes(a) | self.evidence.pipes(b)
        if len(pipes) == 1 and all(e.by == "same_pipe" for e in self.evidence.edges(a, b, view=False)):
            return "same_pipe", f"same pipe {next(iter(pipes)).name}"
        shared = self.evidence.locks(a) & self.evidence.locks(b)
        # a mutex does not order its holders on one pipe: two transfers may still overtake each other
        overtaken = [e for e in self.evidence.edges(a, b, view=False) if e.by is None and e.from_pipe is e.to_pipe]
        return ("mutex", f"shared mutex {min(shared)}") if shared and not overtaken else None

    # --- reuse -------------------------------------------------------------------------------------------------------

    def reuse(self, a: Row, b: Row) -> Reuse:
        """The verdict on a pair that is not a view."""
        if self.evidence.complete:
            for row in (a, b):
                if not self.lives[row.key].accessed:
                    return Reuse("", a, b, "reuse", "exclusive", protection=f"`{row.shown}` is never used")
        if _exclusive(a, b):
            return Reuse("", a, b, "reuse", "exclusive", protection="never in one specialisation")
        crossing = len(a.tile.cores | b.tile.cores) > 1
        meet = self.lives[a.key].meets(self.lives[b.key])
        if meet and not (crossing and self.evidence.complete):
            return self._refused(a, b, "reuse", "live")
        if not crossing:
            whole = self._whole_pair(a, b)
            if whole is not None:
                proof, how = whole
                return Reuse("", a, b, "reuse", proof, self.evidence.edges(a, b, view=False), protection=how)
        edges = self.evidence.edges(a, b, view=False)
        decisive = weakest(edges)
        if decisive is not None and decisive.by is not None:
            if meet:
                return self._refused(a, b, "reuse", "live")
            return Reuse("", a, b, "reuse", decisive.by, edges, protection=decisive.how)
        protocol = crossing and all(e.crosses for e in edges if e.by is None)
        return self._refused(a, b, "reuse", "cross_core" if protocol else "unordered", edges)

    def _refused(self, a: Row, b: Row, kind: str, reason: str, edges: tuple[Edge, ...] = ()) -> Reuse:
        notes = [text for row in (a, b) if reason == "unordered" and (text := self.evidence.unlocked(row))]
        for edge in edges:
            if edge.by is None and edge.from_line is not None:
                backwards = edge.to_line is not None and edge.to_line <= edge.from_line
                turn = ", in the next trip of the loop" if backwards else ""
                notes.append(
                    f"line {edge.from_line} on {edge.from_pipe.name} is not ordered before line {edge.to_line}"
                    f" on {edge.to_pipe.name}{turn}"
                )
        return Reuse("", a, b, kind, None, edges, reason, notes=tuple(notes), observed=self._observed(a, b))

    def _observed(self, a: Row, b: Row) -> int:
        pairs = [{x.name, x.tile.name} for x in (a, b)]
        return max(
            (f.runs for f in self.design.orders if f.kind == "trace" and f.a in pairs[0] and f.b in pairs[1]), default=0
        )


def _exclusive(a: Row, b: Row) -> bool:
    """Whether the two tiles belong to different choices of one tiling key."""
    mine = dict(a.tile.when)
    return any(name in mine and mine[name] != value for name, value in b.tile.when)


# --- findings --------------------------------------------------------------------------------------------------------


def overlap_findings(design: Design, judged: Judged, rows: tuple[Row, ...]) -> Iterator[LayoutFinding]:
    """L104, L207, L208, L211 and L212."""
    for reuse in judged.reuses:
        if reuse.proof is None:
            yield _overlap(reuse, judged.lives, design.auto_mutex)
        elif design.auto_mutex and reuse.proof not in ("mutex", "exclusive"):
            ids = [sorted(row.tile.ids(row.slot)) for row in (reuse.a, reuse.b)]
            if all(ids) and not set(ids[0]) & set(ids[1]):
                message = (
                    f"`{reuse.a.shown}` and `{reuse.b.shown}` share bytes, ordered only by {reuse.protection}:"
                    f" their mutex ids {ids[0]} and {ids[1]} have none in common"
                )
                yield finding("L207", message, reuse.a.tile, reuse.b.tile,
                              help="give both slots a common mutex id", a=reuse.a.name, b=reuse.b.name)  # fmt: skip
        if reuse.partial:
            message = f"`{reuse.a.shown}` and `{reuse.b.shown}` overlap in part, {interval(reuse.start, reuse.end)}"
            yield finding("L211", message, reuse.a.tile, reuse.b.tile, a=reuse.a.name, b=reuse.b.name,
                          start=reuse.start, end=reuse.end)  # fmt: skip
    if design.auto_mutex:
        yield from _needless_sharing(design, rows)


def _overlap(reuse: Reuse, lives: Mapping[Key, Life], auto_mutex: bool) -> LayoutFinding:
    a, b, reason = reuse.a, reuse.b, reuse.reason or "unordered"
    message = f"{a.space.name}: `{a.shown}` and `{b.shown}` overlap in [{reuse.start},{reuse.end})"
    ids = a.tile.ids(a.slot), b.tile.ids(b.slot)
    if auto_mutex and all(ids) and ids[0].isdisjoint(ids[1]):
        message += " and share no mutex id"
    notes = (row_note(a, lives[a.key].kind), row_note(b, lives[b.key].kind), *reuse.notes)
    facts = {"a": a.name, "b": b.name, "start": reuse.start, "end": reuse.end, "reason": reason}
    if reuse.observed:
        message += f": an order was observed in {reuse.observed} runs, but nothing proves it"
        return finding("L212", message, a.tile, b.tile, notes=notes, facts=facts, runs=reuse.observed)
    return finding("L104", f"{message}: {REASONS[reason]}", a.tile, b.tile, notes=notes, facts=facts)


def _needless_sharing(design: Design, rows: tuple[Row, ...]) -> Iterator[LayoutFinding]:
    """L208: one report for each pair of slots of different tiles that share an id but no byte."""
    for a, b in combinations(rows, 2):
        if a.tile is b.tile or _is_scale_pair(a, b) or a.shares(b) or not _one_core(a, b):
            continue
        for mutex in sorted(a.tile.ids(a.slot) & b.tile.ids(b.slot)):
            message = (
                f"`{a.shown}` and `{b.shown}` share mutex id {mutex} but no bytes: each waits for the other in vain"
            )
            yield finding("L208", message, a.tile, b.tile, mutex_id=mutex, a=a.name, b=b.name)


def _is_scale_pair(a: Row, b: Row) -> bool:
    return a.tile.scale_of == b.tile.name or b.tile.scale_of == a.tile.name


def _one_core(a: Row, b: Row) -> frozenset[CoreKind]:
    return a.tile.cores & b.tile.cores
