"""A plan as advice to the author: the improved design, checked like any other, and the lines to change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pypto_pro.layouts import slot_size
from pypto_pro.memory.check import LayoutReport, check_layout
from pypto_pro.memory.design import Design, TileRecord, slot_name, tile_name
from pypto_pro.memory.finding import LayoutFinding, finding, hexa
from pypto_pro.memory.machine import Chip
from pypto_pro.memory.planner import Solver, plan_layout
from pypto_pro.memory.problem import Placement, Problem, SpacePlan, Wishes, problem_of
from pypto_pro.memory.proofs import Reuse
from pypto_pro.memory.table import slot_addresses


@dataclass(frozen=True)
class Change:
    """One definition to edit: addresses before (None: there were none) and after, and the text to paste."""

    tile: TileRecord
    before: tuple[int, ...] | None
    after: tuple[int, ...]

    @property
    def argument(self) -> str:
        """The value to write: one address, a base when the slots follow each other, else a list."""
        step = slot_size(self.tile.type.shape, self.tile.type.dtype)
        base = self.after[0]
        if all(at == base + i * step for i, at in enumerate(self.after)):
            return hexa(base)
        return "[" + ", ".join(hexa(at) for at in self.after) + "]"

    @property
    def text(self) -> str:
        """`addrs=0x04000`, as it stands in a kernel."""
        return f"{'addr' if self.tile.kind == 'tile' else 'addrs'}={self.argument}"

    @property
    def moves(self) -> bool:
        """Whether any address differs."""
        return self.before != self.after


@dataclass(frozen=True)
class Advice:
    """The answer of the planner: `report` is that of the planned design, `before` that of the author's if placed."""

    problem: Problem
    placement: Placement
    design: Design
    report: LayoutReport
    before: LayoutReport | None
    changes: tuple[Change, ...]
    findings: tuple[LayoutFinding, ...]

    @property
    def assumed(self) -> tuple[LayoutFinding, ...]:
        """L122: what the plan takes for ordered and the kernel does not order yet."""
        return tuple(f for f in self.findings if f.code == "L122")

    def ends(self) -> Iterator[tuple[SpacePlan, int | None]]:
        """Each planned space with the highest end the author's addresses reach."""
        old = {t.space: t.highest for t in self.before.totals} if self.before else {}
        for plan in self.placement.spaces:
            yield plan, old.get(plan.space)


def advise(design: Design, chip: Chip | None = None, wishes: Wishes | None = None, solver: Solver = "auto") -> Advice:
    """Plan a design and check the result. What cannot be planned is a finding; SolverMissingError as `plan_layout`."""
    chip = chip or Chip()
    placed = all(t.addrs is not None for t in design.tiles)
    before = check_layout(design, chip) if placed else None
    problem, unplaceable = problem_of(design, chip, wishes, before.reuses if before else ())
    placement = plan_layout(problem, solver)
    planned = _with_addresses(design, placement)
    report = check_layout(planned, chip, planned=True)
    findings = [*unplaceable, *_plan_findings(problem, placement, design)]
    findings += [_assumed(reuse, design) for reuse in report.reuses if reuse.orderable]
    findings += [f for f in report.findings if not _said_already(f) and f.code not in {u.code for u in unplaceable}]
    changes = tuple(_change(old, new) for old, new in zip(design.tiles, planned.tiles, strict=True) if new is not old)
    ordered = tuple(sorted(findings, key=lambda f: (f.line or 0, f.code)))
    return Advice(problem, placement, planned, report, before, changes, ordered)


def _said_already(found: LayoutFinding) -> bool:
    """Whether L120 says it in the words of a plan."""
    return found.code == "L103"


def _with_addresses(design: Design, placement: Placement) -> Design:
    return replace(design, tiles=tuple(_at(t, placement) for t in design.tiles))


def _at(tile: TileRecord, placement: Placement) -> TileRecord:
    if slot_name(tile, 0) not in placement.addresses:
        return tile
    found = tuple(placement.addresses[slot_name(tile, i)] for i in range(tile.slots))
    return replace(tile, addrs=found if tile.kind == "group" else found[0])


def _change(old: TileRecord, new: TileRecord) -> Change:
    return Change(old, slot_addresses(old) if old.addrs is not None else None, slot_addresses(new))


# --- findings --------------------------------------------------------------------------------------------------------


def _plan_findings(problem: Problem, placement: Placement, design: Design) -> Iterator[LayoutFinding]:
    """L120 and L121."""
    for plan in placement.spaces:
        capacity = problem.capacity[plan.space]
        if capacity is not None and plan.highest > capacity:
            yield _infeasible(problem, plan, capacity)
        for a, b in plan.violated:
            message = f"`{a}` and `{b}` stay in common L1 banks: no placement found keeps every separation"
            yield finding("L121", message, *_tiles(design, a, b), a=a, b=b)


def _tiles(design: Design, *slots: str) -> list[TileRecord]:
    found = [design.tile(tile_name(name)) for name in slots]
    return [t for t in dict.fromkeys(found) if t is not None]


def _infeasible(problem: Problem, plan: SpacePlan, capacity: int) -> LayoutFinding:
    impossible = plan.lower_bound > capacity
    over = (plan.lower_bound if impossible else plan.highest) - capacity
    mine = [s for s in problem.slots if s.space is plan.space]
    points = sorted({p for s in mine for p in s.live})
    crowded = max(points, key=lambda p: (sum(s.size for s in mine if p in s.live), -p))
    items = sorted((s for s in mine if crowded in s.live), key=lambda s: (-s.size, s.name))
    shown = ", ".join(f"{s.name} {s.size} B" for s in items)
    how = "the bytes in use at one time exceed it" if impossible else "the best placement found exceeds it"
    message = f"no placement fits {plan.space.name}: {how} by {over} B (capacity {capacity} B)"
    notes = (f"most is in use at point {crowded}: {shown}", f"lower bound {plan.lower_bound} B, best {plan.highest} B")
    return finding("L120", message, space=plan.space, notes=notes, capacity=capacity, lower_bound=plan.lower_bound,
                   highest=plan.highest, over=over)  # fmt: skip


def _assumed(reuse: Reuse, design: Design) -> LayoutFinding:
    """L122: a reuse of the plan that nothing orders yet, and what would."""
    a, b = reuse.a, reuse.b
    if reuse.reason == "cross_core":
        add = "a cross-core edge in each direction (set after the last access, wait before the first)"
    elif design.auto_mutex and a.tile.kind == b.tile.kind == "group":
        add = f"a common mutex id for `{a.shown}` and `{b.shown}`"
    else:
        edges = [e for e in reuse.edges if e.by is None]
        flags = ", ".join(dict.fromkeys(f"{e.from_pipe.name}->{e.to_pipe.name}" for e in edges))
        add = f"a flag {flags}" if flags else "a flag from the last access to the next write, in both directions"
    message = f"the plan lets `{a.shown}` and `{b.shown}` share bytes, which needs {add}"
    return finding("L122", message, a.tile, b.tile, a=a.name, b=b.name, needs=add)
