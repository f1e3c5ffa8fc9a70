"""Static verdict and recorded calls side by side: what was confirmed, what was not seen, and where they disagree."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pypto_pro.audit.recorder import DynamicRecord, RecordedOp, audit_call, torch_available
from pypto_pro.audit.report import DynamicReport, Finding, Report, WrapperReport
from pypto_pro.audit.rules import GATE, RULES, help_for
from pypto_pro.audit.static import AuditUsageError, Options, audit
from pypto_pro.diag import Span

# Rules whose breach a recorder can see; the others are about source text, import time or what torch does not dispatch.
_VISIBLE = frozenset(("W101", "W102", "W103", "W104", "W105", "W106", "W107", "W110", "W111", "W112", "W113", "W117"))
_DISPATCH_CODES = {"create": "W108", "view": "W102", "copy": "W105", "cast": "W101", "read": "W110"}


@dataclass(frozen=True)
class WrapperRecord:
    """What `record_wrapper` returns: the recorded call, the static report of the wrapper when its source is known."""

    record: DynamicRecord
    static: WrapperReport | None
    disagreements: tuple[str, ...]

    @property
    def clean(self) -> bool:
        """No event outside the boundary, one launch of one kernel, and the static audit agrees."""
        one = self.record.launches == 1 and len(self.record.kernels) == 1
        seen = not self.record.violations and one and self.record.error is None
        return seen and (self.static is None or self.static.verdict == "ok")

    def render(self) -> str:
        """The record in a few lines."""
        record = self.record
        kernels = ", ".join(f"`{name}`" for name in record.kernels) or "none"
        lines = [
            f"{record.id}: {record.launches} launches of {kernels}, {record.empty_calls} torch.empty",
            *(f"  line {op.line}: {op.name} ({op.kind}, {op.phase} the launch)" for op in record.violations),
            *(f"  error: {record.error}" for _ in range(record.error is not None)),
            *(f"  static audit: {self.static.verdict}" for _ in range(self.static is not None) if self.static),
            *(f"  disagreement: {text}" for text in self.disagreements),
        ]
        return "\n".join(lines)


def record_wrapper(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> WrapperRecord:
    """Call a wrapper once under the recorder (after one warm-up call) and compare with the static audit of its file.

    Raises ModuleNotFoundError when torch is not installed. A failing call is no exception here: see `record.error`.
    """
    record = audit_call(fn, args, kwargs, case=getattr(fn, "__name__", "call"))
    report = _static_report(fn)
    if report is None:
        return WrapperRecord(record, None, ())
    apply_records(report, [record], inspect.getsourcefile(inspect.unwrap(fn)) or "")
    return WrapperRecord(record, report, report.dynamic.disagreements)


def _static_report(fn: Callable[..., Any]) -> WrapperReport | None:
    """The static audit of the wrapper, None when its source cannot be found."""
    plain = inspect.unwrap(fn)
    try:
        path = Path(inspect.getsourcefile(plain) or "")
        text = path.read_text(encoding="utf-8")
    except (TypeError, OSError, UnicodeDecodeError):
        return None
    name = getattr(plain, "__qualname__", "")
    try:
        report = audit(text, str(path), Options(wrappers=(name,), mode="plain"))
    except AuditUsageError:  # a nested function, or one that was made elsewhere
        return None
    return next((w for w in report.wrappers if w.name == name), None)


def not_run(report: Report, reason: str) -> None:
    """State in every wrapper's report why nothing was recorded."""
    for wrapper in report.wrappers:
        wrapper.dynamic = DynamicReport(False, reason)


def unavailable() -> str | None:
    """Why nothing can be recorded on this machine, None when it can."""
    return None if torch_available() else "torch is not installed"


def apply_records(wrapper: WrapperReport, records: Sequence[DynamicRecord], file: str) -> None:
    """Add recorded calls to a wrapper's report: confirm findings, settle open uses, add what only the recorder saw.

    `file` is the audited file as the report names it.
    """
    run = frozenset[int]().union(*(r.lines_run for r in records))
    seen = frozenset[int]().union(*(r.lines_seen for r in records))
    events = [op for record in records for op in record.violations]
    lines = {op.line for op in events}
    disagreements: list[str] = []
    names = {o.kernel_param: o.var for o in wrapper.contract.outputs}
    wrapper.findings = tuple(_with_status(f, run, lines, records) for f in wrapper.findings)
    for finding in wrapper.findings:
        if finding.code in _VISIBLE and finding.dynamic == "not_seen" and _completed(records):
            disagreements.append(
                f"line {finding.line}: {finding.code} found statically, the recorder saw nothing there"
            )
    extra = _only_recorded(wrapper, events, file)
    disagreements += [f"line {f.line}: {f.message}, the static audit found nothing there" for f in extra]
    disagreements += _launch_disagreements(wrapper, records)
    wrapper.findings = tuple(sorted((*wrapper.findings, *extra), key=lambda f: f.order))
    settled = {u for u in wrapper.unproven if u.line in run and u.line not in lines}
    wrapper.unproven = tuple(u for u in wrapper.unproven if u not in settled)
    for record in records:
        record.outputs_matched = [
            {"var": names.get(row["kernel_param"], row["var"]), "kernel_param": row["kernel_param"]}
            for row in record.outputs_matched
        ]
    wrapper.dynamic = DynamicReport(
        True,
        _reason(records),
        tuple(records),
        tuple(sorted(run & seen)),
        tuple(sorted(seen - run)),
        tuple(disagreements),
    )
    wrapper.judge()


def _reason(records: Sequence[DynamicRecord]) -> str:
    errors = [r.error for r in records if r.error]
    return f"incomplete: {errors[0]}" if errors else "recorded"


def _completed(records: Sequence[DynamicRecord]) -> bool:
    return all(record.error is None for record in records)


def _with_status(finding: Finding, run: frozenset[int], lines: set[int], records: Sequence[DynamicRecord]) -> Finding:
    """confirmed, not_seen or not_run for one static finding."""
    touched = set(range(finding.line, finding.end_line + 1))
    if finding.code in ("W120", "W121", "W122"):
        wrong = any(r.launches != 1 for r in records if r.error is None)
        return replace(finding, dynamic="confirmed" if wrong else "not_seen")
    if not touched & run and not touched & lines:
        return replace(finding, dynamic="not_run")
    return replace(finding, dynamic="confirmed" if touched & lines else "not_seen")


def _only_recorded(wrapper: WrapperReport, events: Sequence[RecordedOp], file: str) -> list[Finding]:
    """Findings of events on lines where the static audit has none."""
    known = {line for f in wrapper.findings for line in range(f.line, f.end_line + 1)}
    found: dict[tuple[int, str], Finding] = {}
    for op in events:
        code = op.code or _DISPATCH_CODES.get(op.kind, "W112")
        if op.line not in known:
            found.setdefault((op.line, op.name), _recorded_finding(op, code, file))
    return list(found.values())


def _recorded_finding(op: RecordedOp, code: str, file: str) -> Finding:
    """A finding that rests on the recorder alone."""
    rule, member = RULES[code], op.name.removesuffix(".__get__").rsplit(".", 1)[-1]
    return Finding(
        code=code,
        category=rule.category,
        severity="error",
        message=f"`{op.name}` ran in the wrapper",
        line=op.line,
        col=0,
        end_line=op.line,
        end_col=0,
        subject=op.name,
        expression=op.name,
        chain=(),
        help=help_for(code, member, after_launch=op.phase == "after"),
        gate=GATE if rule.gated else None,
        static=False,
        dynamic="confirmed",
        spans=(Span(file, op.line, label="ran here"),),
        notes=(rule.item, "seen by the recorder only"),
    )


def _launch_disagreements(wrapper: WrapperReport, records: Sequence[DynamicRecord]) -> list[str]:
    """Launch counts and returned values that contradict the static picture."""
    texts = []
    low, high = wrapper.launch_count["min"], wrapper.launch_count["max"]
    for record in (r for r in records if r.error is None):
        if record.launches < low or (high < 2 and record.launches > high):
            texts.append(f"{record.id}: {record.launches} launches recorded, {low} to {high} expected")
        written = {o.var for o in wrapper.contract.outputs if o.given_by_caller}
        if any(item["is"] == "input" for item in record.returned) and not written:
            texts.append(f"{record.id}: an input is returned that the kernel does not write")
    return texts
