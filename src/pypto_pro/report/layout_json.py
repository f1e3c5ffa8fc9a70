"""The layout report as JSON; the schema is docs/layout-report.schema.json. Addresses are integers, order is fixed."""

from __future__ import annotations

from typing import Any

from pypto_pro.memory.advice import Advice
from pypto_pro.memory.capacity import Totals
from pypto_pro.memory.check import LayoutReport
from pypto_pro.memory.finding import LayoutFinding
from pypto_pro.memory.lifetimes import Life, Moment
from pypto_pro.memory.proofs import Reuse
from pypto_pro.memory.rules import footprint
from pypto_pro.memory.table import Row
from pypto_pro.report import layout_words as words

SCHEMA_VERSION = 1


def layout_document(report: LayoutReport, advice: Advice | None = None) -> dict[str, Any]:
    """The report as plain data."""
    findings = advice.findings if advice is not None else report.findings
    bad = any(f.severity == "error" for f in findings)
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": "layout",
        "kernel": report.design.kernel,
        "specialisation": {k: _plain(v) for k, v in report.design.specialisation.items()},
        "arch": report.chip.arch,
        "verdict": "violation" if bad else "ok",
        "limits": list(report.design.limits),
        "rows": [_row(report, r) for r in report.rows],
        "spaces": {t.space.name: _totals(t) for t in report.totals},
        "reuse": [_reuse(r) for r in report.reuses],
        "mx": [
            {"data": p.data.name, "scale": p.scale.name, "slot": p.data.slot, "data_addr": p.data.start,
             "scale_addr": p.scale.start, "want": p.want, "ok": p.ok}
            for p in report.scales
        ],
        "banks": [
            {"a": p.a.name, "a_op": p.use.a_op, "a_agent": p.use.a_agent, "b": p.b.name, "b_op": p.use.b_op,
             "b_agent": p.use.b_agent, "same_bank_groups": list(p.same_bank),
             "same_group_groups": list(p.same_group), "conflict": p.conflict}
            for p in report.banks
        ],
        "findings": [_finding(f) for f in findings],
        "plan": None if advice is None else _plan(advice),
    }  # fmt: skip


def _plain(value: object) -> object:
    return value if isinstance(value, bool | int | float | str | None) else str(value)


def _row(report: LayoutReport, row: Row) -> dict[str, Any]:
    tile = row.tile
    natural = isinstance(tile.size, int) and tile.size == row.size
    return {
        "space": row.space.name,
        "variable": tile.name,
        "slot": row.index,
        "purpose": words.purpose(tile),
        "shape": list(tile.type.shape),
        "dtype": words.dtype_cell(tile),
        "layout": tile.type.layout.name if tile.type.layout is not None else None,
        "layout_explicit": tile.type.explicit_layout,
        "start": row.start,
        "size": row.size,
        "end": row.end,
        "reserved_by": "size" if natural else "shape",
        "footprint": footprint(tile)[0],
        "alignment": report.chip[row.space].alignment,
        "live": _life(report.lives[row.key]),
        "reuse": [r.id for r in report.reuses_of(row)],
        "line": tile.line,
    }


def _life(life: Life) -> dict[str, Any]:
    return {"first": _moment(life.first), "last": _moment(life.last), "class": life.kind}


def _moment(moment: Moment | None) -> dict[str, Any] | None:
    return None if moment is None else {"line": moment.line, "label": moment.label}


def _totals(t: Totals) -> dict[str, Any]:
    return {
        "effective": t.effective,
        "highest": t.highest,
        "holes": [list(h) for h in t.holes],
        "capacity": t.capacity,
        "capacity_source": str(t.source) if t.capacity is not None else None,
        "percent": None if t.percent is None else float(f"{t.percent:.1f}"),
        "peak_live": t.peak_live,
        "passes": t.passes,
    }


def _reuse(r: Reuse) -> dict[str, Any]:
    return {
        "id": r.id,
        "space": r.a.space.name,
        "start": r.start,
        "end": r.end,
        "a": r.a.name,
        "b": r.b.name,
        "kind": r.kind,
        "proof": r.proof,
        "protection": r.protection,
        "edges": [
            {"from": {"line": e.from_line, "pipe": e.from_pipe.name}, "to": {"line": e.to_line, "pipe": e.to_pipe.name},
             "by": e.by}
            for e in r.edges
        ],
        "reason": r.reason,
        "partial": r.partial,
    }  # fmt: skip


def _finding(f: LayoutFinding) -> dict[str, Any]:
    d = f.diagnostic
    return {
        "code": f.code,
        "severity": str(f.severity),
        "message": d.message,
        "space": f.space.name if f.space is not None else None,
        "tiles": list(f.tiles),
        "line": f.line,
        "notes": list(d.notes),
        "help": d.help,
    }


def _plan(advice: Advice) -> dict[str, Any]:
    return {
        "items": [
            {"variable": c.tile.name, "before": list(c.before) if c.before is not None else None,
             "after": list(c.after), "text": c.text, "line": c.tile.line, "moves": c.moves}
            for c in advice.changes
        ],
        "spaces": {
            plan.space.name: {
                "before": before, "highest": plan.highest, "capacity": advice.problem.capacity[plan.space],
                "lower_bound": plan.lower_bound, "optimal": plan.optimal, "gap": plan.gap,
                "separations_violated": [list(pair) for pair in plan.violated],
            }
            for plan, before in advice.ends()
        },
        "required_changes": [f.facts["needs"] for f in advice.assumed],
        "feasible": not any(f.code == "L120" for f in advice.findings),
    }  # fmt: skip
