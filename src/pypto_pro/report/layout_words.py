"""The words and numbers of a layout row, as every form of the report prints them."""

from __future__ import annotations

from pypto_pro.enums import MemorySpace, PipeType
from pypto_pro.memory.banks import crosses_halves
from pypto_pro.memory.capacity import Totals
from pypto_pro.memory.check import LayoutReport
from pypto_pro.memory.design import TileRecord
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


def slot_cell(row: Row) -> str:
    """Group index, also for depth 1; a dash for a `make_tile`."""
    return DASH if row.tile.kind == "tile" else str(row.slot)


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
        verb = "collides with" if reuse.proof is None else "same bytes as" if reuse.kind == "view" else "shares with"
        parts.append(f"{verb} `{other.shown}` ({reuse.id})")
    if crosses_halves(row):
        parts.append("in both bank halves")
    return "; ".join(parts)


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


def conclusion(reuse: Reuse) -> str:
    """`may be reused`, or why not."""
    if reuse.proof is not None:
        return "may be reused"
    if reuse.observed:
        return f"observed in {reuse.observed} runs, not proved"
    return f"must not be reused: {REASONS[reuse.reason or 'unordered']}"


def moment_cell(report: LayoutReport, reuse: Reuse) -> tuple[str, str]:
    """Last read of A and first write of B, with their pipes where an edge of the proof names them."""
    edge = next((e for e in reuse.edges if e.from_line is not None), None)
    if edge is not None:
        return f"l.{edge.from_line} {edge.from_pipe.name}", f"l.{edge.to_line} {edge.to_pipe.name}"
    last, first = report.lives[reuse.a.key].last, report.lives[reuse.b.key].first
    ends = reuse.edges[0] if reuse.edges else None
    a_text = (last.label if last else DASH) + (f" {ends.from_pipe.name}" if ends else "")
    b_text = (first.label if first else DASH) + (f" {ends.to_pipe.name}" if ends else "")
    return a_text, b_text


def checklist(report: LayoutReport) -> list[tuple[str, bool]]:
    """The items a reviewer signs, each with whether it holds."""
    codes = {f.code for f in report.findings}
    spaces = report.totals
    placed = {r.tile.name for r in report.rows}
    return [
        ("all tiles and slots are listed", all(t.name in placed for t in report.design.tiles)),
        ("all addresses and sizes are compile-time numbers", not codes & {"L105", "L106", "L107", "L114"}),
        ("every slot is aligned and not negative", not codes & {"L101", "L102"}),
        ("footprints (fractal, RowPlusOne, explicit size, sub-byte) lie inside their reservations",
         "L112" not in codes),
        ("every overlap is proved", all(r.proof is not None for r in report.reuses)),
        ("the highest end of every space fits its capacity", all(t.capacity is None or t.highest <= t.capacity
                                                                 for t in spaces)),
        ("MX scales sit at data address >> 4, slot by slot", not codes & {"L111", "L115", "L116"}),
        ("parallel L1 tiles were checked for bank conflicts", report.ok),
        ("mutex ids are in range and order only inside a core", not codes & {"L108", "L109", "L110"}
         and not any(f.code == "L104" and f.facts.get("reason") == "cross_core" for f in report.findings)),
    ]  # fmt: skip
