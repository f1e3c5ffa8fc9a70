"""The words and numbers of a layout row, as every form of the report prints them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pypto_pro.enums import MemorySpace, PipeType
from pypto_pro.memory.advice import Advice
from pypto_pro.memory.banks import crosses_halves, groups_text
from pypto_pro.memory.capacity import Totals
from pypto_pro.memory.check import LayoutReport
from pypto_pro.memory.design import Step, TileRecord, Use
from pypto_pro.memory.evidence import weakest
from pypto_pro.memory.finding import hexa
from pypto_pro.memory.machine import Source
from pypto_pro.memory.proofs import REASONS, Reuse
from pypto_pro.memory.table import Row

DASH = "—"
ROLES = {
    MemorySpace.Left: "left operand",
    MemorySpace.Right: "right operand",
    MemorySpace.Acc: "accumulator",
    MemorySpace.ScaleLeft: "scales of the left operand",
    MemorySpace.ScaleRight: "scales of the right operand",
    MemorySpace.Scaling: "scales of the output",
    MemorySpace.Bias: "bias of a matmul",
}
SOURCES = {
    Source.PROBED: "probed on the device",
    Source.GIVEN: "given by the caller",
    Source.SNAPSHOT: "of the A5 snapshot, not of the product at hand",
}


def specialisation(report: LayoutReport) -> str:
    """The choices that the report holds for: `Mode = 1, x = 2x3`; empty where there are none."""
    return ", ".join(f"{name} = {value}" for name, value in report.design.specialisation.items())


def slot_cell(row: Row) -> str:
    """Group index, also for depth 1; a dash for a `make_tile`."""
    return DASH if row.index is None else str(row.index)


def shape_cell(tile: TileRecord) -> str:
    """`[32,128]`."""
    return "[" + ",".join(map(str, tile.type.shape)) + "]"


def dtype_cell(tile: TileRecord) -> str:
    """`FP32`."""
    return tile.type.dtype.name.removeprefix("DT_")


def layout_cell(tile: TileRecord) -> str:
    """The layout if the author gave one; a dash means the default of the space, not that there is none."""
    explicit = tile.type.explicit_layout and tile.type.layout is not None
    return tile.type.layout.name if explicit and tile.type.layout else DASH


def purpose(tile: TileRecord) -> str:
    """What the tile is for: the author's words, what the kernel does with it, or the role of its space."""
    if tile.space in ROLES and (not tile.purpose or tile.purpose.startswith("result of")):
        return ROLES[tile.space]  # that a matmul makes an accumulator needs no saying
    if tile.purpose:
        return tile.purpose
    if tile.declared is None:
        return DASH
    if tile.declared.write_pipe is PipeType.MTE2:
        return "loaded"
    return "stored" if tile.declared.read_pipe is PipeType.MTE3 else "scratch"


def basis(report: LayoutReport, row: Row) -> str:
    """Lifetime, and every row that shares bytes, with the reference of its proof."""
    parts = [report.lives[row.key].kind]
    for reuse in report.reuses_of(row):
        other = reuse.b if reuse.a.key == row.key else reuse.a
        parts.append(f"{_verb(report, reuse)} `{other.shown}` ({reuse.id})")
    if crosses_halves(row):
        parts.append("in both bank halves")
    return "; ".join(parts)


def _verb(report: LayoutReport, reuse: Reuse) -> str:
    if reuse.proof is not None:
        return "same bytes as" if reuse.kind == "view" else "shares with"
    return "shares, once ordered, with" if report.to_be_ordered(reuse) else "collides with"


@dataclass(frozen=True)
class BankLine:
    """Pairs of L1 slots of two tiles that meet in the same way; agents may be empty."""

    a: tuple[Row, ...]
    a_op: str
    a_agent: str
    b: tuple[Row, ...]
    b_op: str
    b_agent: str
    groups: str
    result: str


def bank_lines(report: LayoutReport) -> list[BankLine]:
    """The bank pairs with the slots of one tile gathered, conflicts first."""
    found: dict[BankLine, tuple[dict[Row, None], dict[Row, None]]] = {}
    for p in report.banks:
        result = "conflict" if p.conflict else "free"
        groups = groups_text(p.same_bank or p.same_group) or DASH
        firsts = tuple(next(r for r in report.rows if r.tile is row.tile) for row in (p.a, p.b))
        key = BankLine(firsts[:1], p.use.a_op, p.use.a_agent, firsts[1:], p.use.b_op, p.use.b_agent, groups, result)
        a, b = found.setdefault(key, ({}, {}))
        a[p.a], b[p.b] = None, None
    lines = [replace(key, a=tuple(a), b=tuple(b)) for key, (a, b) in found.items()]
    return sorted(lines, key=lambda line: line.result)


def by_agent(op: str, agent: str) -> str:
    """`read, move on MTE1`."""
    return f"{op}, {agent}" if agent else op


def slots_text(rows: tuple[Row, ...]) -> str:
    """`w[0]`, or `w[0, 1]` for several slots of a tile."""
    if len(rows) == 1:
        return rows[0].shown
    return f"{rows[0].tile.name}[{', '.join(str(slot) for slot in sorted(r.slot for r in rows))}]"


def totals_line(t: Totals) -> str:
    """`Vec: effective 34816 B; highest end 34816 B / capacity 253952 B = 13.7 %`."""
    capacity = "unknown" if t.capacity is None else f"{t.capacity} B = {t.percent:.1f} %"
    holes = "".join(f" {hole_text(a, b)}," for a, b in t.holes)
    tail = f"; holes{holes.rstrip(',')} ({t.hole_bytes} B)" if t.holes else ""
    return f"{t.space.name}: effective {t.effective} B; highest end {t.highest} B / capacity {capacity}{tail}"


def hole_text(start: int, end: int) -> str:
    """`0x02000-0x04000`."""
    return f"{hexa(start)}-{hexa(end)}"


def source_line(report: LayoutReport) -> str:
    """Where the capacities come from, once."""
    by_source: dict[Source, list[str]] = {}
    for t in report.totals:
        if t.capacity is not None:
            by_source.setdefault(t.source, []).append(t.space.name)
    return "; ".join(f"capacity of {', '.join(names)} is {SOURCES[source]}" for source, names in by_source.items())


def conclusion(report: LayoutReport, reuse: Reuse) -> str:
    """`may be reused`, or why not."""
    if reuse.proof is not None:
        return "may be reused"
    if report.to_be_ordered(reuse):
        return "may be reused once ordered (L122)"
    if reuse.observed:
        return f"observed in {reuse.observed} runs, not proved"
    return f"must not be reused: {REASONS[reuse.reason or 'unordered']}"


def moment_cell(report: LayoutReport, reuse: Reuse) -> tuple[str, str]:
    """Last read of A and first write of B with their pipes: those of the weakest order of such a pair, if any."""
    edge = weakest(tuple(e for e in reuse.edges if e.hands_over))
    if edge is not None:
        return f"l.{edge.from_line} {edge.from_pipe.name}", f"l.{edge.to_line} {edge.to_pipe.name}"
    if report.design.programs:
        reads = [s for s, use in _uses(report, reuse.a) if use.reads]
        writes = [s for s, use in _uses(report, reuse.b) if use.writes]
        written = next((f"only written, {_at(s)}" for s, _ in reversed(_uses(report, reuse.a))), "never used")
        read = next((f"only read, {_at(s)}" for s, _ in _uses(report, reuse.b)), "never used")
        return _at(reads[-1]) if reads else written, _at(writes[0]) if writes else read
    last, first = report.lives[reuse.a.key].last, report.lives[reuse.b.key].first
    ends = reuse.edges[0] if reuse.edges else None
    a_text = (last.label if last else DASH) + (f" {ends.from_pipe.name}" if ends else "")
    b_text = (first.label if first else DASH) + (f" {ends.to_pipe.name}" if ends else "")
    return a_text, b_text


def _at(step: Step) -> str:
    return f"l.{step.line} {step.pipe.name}"


def _uses(report: LayoutReport, row: Row) -> list[tuple[Step, Use]]:
    """What touches a slot, in program order."""
    return [(step, use) for program in report.design.programs for step in program.steps() for use in step.uses
            if use.tile == row.tile.name and use.slot in (None, row.slot)]  # fmt: skip


def plan_rows(advice: Advice) -> list[tuple[str, str, str, str, str]]:
    """Of every planned space: name, highest end before and planned, lower bound, and how good the plan is."""
    return [
        (plan.space.name, DASH if before is None else str(before), str(plan.highest), str(plan.lower_bound),
         "optimal" if plan.optimal else f"gap {plan.gap} B")
        for plan, before in advice.ends()
    ]  # fmt: skip


def moved_rows(advice: Advice) -> list[tuple[str, str, str, str]]:
    """Of every definition to edit: tile, line, addresses before, and the argument to write."""
    return [
        (c.tile.name, str(c.tile.line or DASH), ", ".join(map(hexa, c.before)) if c.before else DASH, c.text)
        for c in advice.changes if c.moves
    ]  # fmt: skip


def needs_line(advice: Advice) -> str:
    """That a plan rests on orders still to be added, empty when it does not."""
    count = len(advice.assumed)
    if not count:
        return ""
    orders = "an order" if count == 1 else f"{count} orders"
    return f"This plan needs {orders} that the kernel does not have (L122); `--proved` plans with those it has."


def checklist(report: LayoutReport) -> list[tuple[str, bool]]:
    """The items a reviewer signs, each with whether it holds."""
    codes = {f.code for f in report.findings}
    spaces = report.totals
    placed = {r.tile.name for r in report.rows}
    unproved = [r.id for r in report.reuses if r.proof is None]
    open_ = f" (open: {', '.join(unproved)})" if unproved else ""
    return [
        ("all tiles and slots are listed", all(t.name in placed for t in report.design.tiles)),
        ("all addresses and sizes are compile-time numbers", not codes & {"L105", "L106", "L107", "L114"}),
        ("every slot is aligned and not negative", not codes & {"L101", "L102"}),
        ("footprints (fractal, RowPlusOne, explicit size, sub-byte) lie inside their reservations",
         "L112" not in codes),
        (f"every overlap is proved{open_}", not unproved),
        ("the highest end of every space fits its capacity", all(t.capacity is None or t.highest <= t.capacity
                                                                 for t in spaces)),
        ("MX scales sit at data address >> 4, slot by slot", not codes & {"L111", "L115", "L116"}),
        ("parallel L1 tiles were checked for bank conflicts",
         report.ok or not any(r.space is MemorySpace.Mat for r in report.rows)),
        ("mutex ids are in range and order only inside a core", not codes & {"L108", "L109", "L110"}
         and not any(f.code == "L104" and f.facts.get("reason") == "cross_core" for f in report.findings)),
    ]  # fmt: skip
