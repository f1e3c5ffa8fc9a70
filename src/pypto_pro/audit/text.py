"""The audit as text for a terminal: diagnostics, one block a wrapper, the roles, and how far the audit looked."""

from __future__ import annotations

from pypto_pro.audit.findings import to_diagnostic, unproven_diagnostic
from pypto_pro.audit.report import Report, WrapperReport
from pypto_pro.diag import Diagnostic
from pypto_pro.diag.names import counted
from pypto_pro.diag.render_text import render


def diagnostics(report: Report) -> list[Diagnostic]:
    """Every finding of the report, then what could not be decided, then the findings of the knowledge record."""
    found = [to_diagnostic(finding) for finding in report.all_findings()]
    found += [unproven_diagnostic(use) for use in report.all_unproven()]
    if report.kb_usage is not None:
        found += report.kb_usage.diagnostics()
    return found


def render_report(report: Report, *, color: bool | None = None) -> str:
    """The whole report of one file, without a trailing newline."""
    parts = []
    shown = diagnostics(report)
    if shown:
        parts.append(render(shown, color=color))
    parts += ["\n".join(_wrapper_block(report, wrapper)) for wrapper in report.wrappers]
    if not report.wrappers:
        launchers = ", ".join(f"`{use.subject}`" for use in report.unaudited)
        which = f"; {launchers} launch{'es' if len(report.unaudited) == 1 else ''} a kernel" if launchers else ""
        ways = "audit what launches with `--all-launchers`, name one with `--wrapper`, or mark it `# pypto: wrapper`"
        parts.append(f"{report.file}: no wrapper found{which}; {ways}")
    if report.kb_usage is not None:
        parts.append("\n".join(_record_block(report)))
    if report.functions:
        parts.append("\n".join(_role_table(report)))
    parts.append("\n".join(_how_far(report)))
    return "\n\n".join(parts)


def _wrapper_block(report: Report, wrapper: WrapperReport) -> list[str]:
    count = wrapper.launch_count
    kernel = f"`{wrapper.kernel['name']}` (line {wrapper.kernel['line']})" if wrapper.kernel else "none"
    lines = [
        f"{report.file}:{wrapper.line}: wrapper `{wrapper.name}`: {wrapper.verdict}",
        f"  kernel    {kernel}",
        f"  launches  {launch_text(count['min'], count['max'])}"
        + (f", in line {', '.join(str(site.line) for site in wrapper.launches)}" if wrapper.launches else ""),
        f"  outputs   {outputs_text(wrapper)}",
    ]
    lines += [f"  parameter {p['name']}: {p['kind']} ({p['evidence']})" for p in wrapper.params]
    if wrapper.dynamic.ran:
        lines.append(f"  recorded  {_recorded_text(wrapper)}")
    lines += [f"  disagree  {text}" for text in wrapper.dynamic.disagreements]
    return lines


def _recorded_text(wrapper: WrapperReport) -> str:
    """`2 calls, 1 of 3 findings confirmed`, and what kept a call from its end."""
    dynamic = wrapper.dynamic
    confirmed = sum(f.dynamic == "confirmed" for f in wrapper.findings)
    parts = [counted(len(dynamic.cases), "call")]
    if wrapper.findings:
        parts.append(f"{confirmed} of {counted(len(wrapper.findings), 'finding')} confirmed")
    if dynamic.reason != "recorded":
        parts.append(dynamic.reason)
    return ", ".join(parts)


def launch_text(low: int, high: int) -> str:
    """`exactly 1`, `0 to 2 or more`."""
    if low == high:
        return f"exactly {low}" if low < 2 else "2 or more"
    return f"{low} to {high}" if high < 2 else f"{low} to 2 or more"


def outputs_text(wrapper: WrapperReport) -> str:
    """The contract in one line."""
    words = []
    for output in wrapper.contract.outputs:
        origin = "given by the caller" if output.given_by_caller else f"allocated in line {output.allocated_line}"
        if output.allocated_line is None and not output.given_by_caller:
            origin = "of unknown origin"
        returned = ", returned" if output.returned else ""
        words.append(f"`{output.kernel_param or output.var}` = `{output.var}` ({origin}{returned})")
    return "; ".join(words) or "none"


def _record_block(report: Report) -> list[str]:
    record = report.kb_usage
    return [
        f"{record.file}: knowledge record: {record.verdict}",
        f"  references {record.references_covered} of {record.references_selected} covered by {record.entries} entries",
        *(f"  ignored    {claim}" for claim in record.claims_ignored),
    ]


def _role_table(report: Report) -> list[str]:
    rows = [("function", "role", "why"), *((f.name, f.role, f.reason) for f in report.functions)]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    return [f"{name:<{widths[0]}}  {role:<{widths[1]}}  {why}" for name, role, why in rows]


def _how_far(report: Report) -> list[str]:
    found, open_uses = len(report.all_findings()), len(report.all_unproven())
    verdict = report.verdict if report.wrappers or found or report.unaudited else "nothing to audit"
    summary = f"{report.file}: {verdict} ({report.mode} mode): {counted(found, 'finding')}"
    summary += f", {open_uses} unproven" if open_uses else ""
    summary += f", main class {report.main_category}" if report.main_category else ""
    return [summary, f"looked at: {looked_at(report)}", *(f"limit: {text}" for text in report.limits)]


def looked_at(report: Report) -> str:
    """Functions interpreted, call depth, and what ran."""
    functions = sum(w.functions_interpreted for w in report.wrappers)
    depth = max((w.call_depth for w in report.wrappers), default=0)
    ran = [w for w in report.wrappers if w.dynamic.ran]
    dynamic = "static only"
    if ran:
        lines = sum(len(w.dynamic.lines_run) for w in ran)
        missed = sum(len(w.dynamic.lines_not_run) for w in ran)
        calls = counted(sum(len(w.dynamic.cases) for w in ran), "recorded call")
        dynamic = f"{calls}, {lines} of {lines + missed} lines run"
    elif report.wrappers and report.wrappers[0].dynamic.reason != "not asked for":
        dynamic = f"static only ({report.wrappers[0].dynamic.reason})"
    return f"{counted(functions, 'function')} interpreted, call depth {depth}, {dynamic}"
