"""The audit as Markdown for a pull request: verdict first, findings as a table, details folded away."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pypto_pro.audit.report import Finding, Report, WrapperReport
from pypto_pro.audit.text import launch_text, looked_at, outputs_text

_SIGNS = {"ok": "✅", "violation": "❌", "unproven": "⚠️"}


def render_markdown(reports: Sequence[Report]) -> str:
    """One section a file, ready to be pasted; ends with a newline."""
    return "\n".join(line for report in reports for line in (*_file(report), ""))


def _file(report: Report) -> Iterable[str]:
    main = f", main class `{report.main_category}`" if report.main_category else ""
    yield f"### Host-wrapper audit of `{report.file}`: {_SIGNS[report.verdict]} {report.verdict}"
    yield ""
    yield f"{len(report.all_findings())} findings, {len(report.all_unproven())} unproven, {report.mode} mode{main}."
    yield ""
    yield from _table(
        ("wrapper", "verdict", "launches", "kernel", "outputs"), [_wrapper_row(w) for w in report.wrappers]
    )
    findings = report.all_findings()
    if findings:
        yield "#### Findings"
        yield ""
        yield from _table(("code", "line", "what", "instead"), [_finding_row(f) for f in findings])
    if report.all_unproven():
        yield "#### Not decided"
        yield ""
        yield from _table(
            ("line", "expression", "why"), [(str(u.line), _code(u.expression), u.why) for u in report.all_unproven()]
        )
    if report.kb_usage is not None:
        yield from _record(report)
    yield from _details(report)


def _wrapper_row(wrapper: WrapperReport) -> tuple[str, ...]:
    count = wrapper.launch_count
    kernel = _code(wrapper.kernel["name"]) if wrapper.kernel else "none"
    verdict = f"{_SIGNS[wrapper.verdict]} {wrapper.verdict}"
    launches = launch_text(count["min"], count["max"])
    return (f"{_code(wrapper.name)}, line {wrapper.line}", verdict, launches, kernel, outputs_text(wrapper))


def _finding_row(finding: Finding) -> tuple[str, ...]:
    chain = " → ".join(_code(step["function"]) for step in finding.chain) if len(finding.chain) > 1 else ""
    what = finding.message + (f" (through {chain})" if chain else "")
    what += f" ({finding.count} times)" if finding.count > 1 else ""
    instead = (finding.help or "") + (" *(platform-gated)*" if finding.gate else "")
    return (f"`{finding.code}`", str(finding.line), what, instead)


def _record(report: Report) -> Iterable[str]:
    record = report.kb_usage
    yield f"#### Knowledge record `{record.file}`: {_SIGNS.get(record.verdict, '')} {record.verdict}"
    yield ""
    rows = [(f"`{f.code}`", _code(f.reference) if f.reference else "", f.message) for f in record.findings]
    yield from _table(("code", "reference", "what"), rows)


def _details(report: Report) -> Iterable[str]:
    yield "<details><summary>Roles of the functions, and how far the audit looked</summary>"
    yield ""
    yield from _table(
        ("function", "line", "role", "why"), [(_code(f.name), str(f.line), f.role, f.reason) for f in report.functions]
    )
    yield f"Looked at: {looked_at(report)}."
    for text in report.limits:
        yield f"Limit: {text}."
    yield ""
    yield "</details>"


def _table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Iterable[str]:
    """A pipe table and the empty line behind it; nothing for no rows."""
    if not rows:
        return
    yield f"| {' | '.join(header)} |"
    yield f"|{' --- |' * len(header)}"
    for row in rows:
        yield f"| {' | '.join(_cell(cell) for cell in row)} |"
    yield ""


def _cell(text: str) -> str:
    """A cell may hold no line break and no bare pipe."""
    return text.replace("|", "\\|").replace("\n", " ")


def _code(text: str) -> str:
    """Inline code that survives back-quotes inside."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"
