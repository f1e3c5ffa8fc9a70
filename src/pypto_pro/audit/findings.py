"""From observations to findings: one report a code, tensor and line, with spans, chain of calls and help."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from pypto_pro.audit.report import Finding, UnprovenUse
from pypto_pro.audit.rules import GATE, RULES, help_for
from pypto_pro.audit.source import Source
from pypto_pro.audit.trace import Chain, Hit, Unproven
from pypto_pro.diag import Diagnostic, Severity, Span
from pypto_pro.diag.codes import CODES


def make_finding(
    source: Source,
    code: str,
    node: ast.AST,
    message: str,
    *,
    chain: Chain = (),
    subject: str = "",
    label: str = "",
    others: Iterable[Span] = (),
    notes: tuple[str, ...] = (),
    help_text: str | None = None,
    count: int = 1,
) -> Finding:
    """A finding at `node`. `others` are the labelled spans behind the primary one."""
    rule = RULES[code]
    span = source.span(node, label)
    steps = tuple({"function": name, "line": line} for name, line in chain)
    sites = tuple(Span(source.filename, line, label=name) for name, line in reversed(chain[1:]))
    return Finding(
        code=code,
        category=rule.category,
        severity="error",
        message=message,
        line=span.line,
        col=span.column,
        end_line=max(span.end_line, span.line),
        end_col=span.end_column,
        subject=subject,
        expression=source.expression(node),
        chain=steps,
        help=help_text if help_text is not None else rule.help,
        gate=GATE if rule.gated else None,
        count=count,
        spans=(span, *others),
        calls=sites,
        notes=(*notes, rule.item),
    )


def findings_of_hits(source: Source, hits: list[Hit], launch: Span | None) -> list[Finding]:
    """Findings of the expressions that broke a rule. Equal code, tensor and line are one finding with a count."""
    groups: dict[tuple[str, str, int, int], list[Hit]] = {}
    for hit in hits:
        subject = hit.subject or hit.message
        line = getattr(hit.node, "lineno", 0)
        column = 0 if hit.subject else getattr(hit.node, "col_offset", 0)
        groups.setdefault((hit.code, subject, line, column), []).append(hit)
    return [_finding_of_group(source, group, launch) for group in groups.values()]


def _finding_of_group(source: Source, group: list[Hit], launch: Span | None) -> Finding:
    first = group[0]
    places = {(getattr(h.node, "col_offset", 0), h.chain) for h in group}
    others: list[Span] = []
    origin_line = getattr(first.origin, "lineno", None)
    if first.origin is not None and origin_line and origin_line != getattr(first.node, "lineno", 0):
        others.append(_first_line(source.span(first.origin, f"`{first.subject}` comes from here")))
    if launch is not None and launch.line != getattr(first.node, "lineno", 0):
        others.append(launch)
    notes: tuple[str, ...] = ()
    if first.used_at and first.used_at != getattr(first.node, "lineno", 0):
        notes = (f"evaluated at import, used by the wrapper in line {first.used_at}",)
    return make_finding(
        source,
        first.code,
        first.node,
        first.message,
        chain=first.chain,
        subject=first.subject,
        label=_label(first),
        others=others,
        notes=notes,
        help_text=help_for(first.code, first.member, after_launch=first.after_launch),
        count=len(places),
    )


def _label(hit: Hit) -> str:
    """The words under the excerpt: short, the message says the rest."""
    return f"on `{hit.subject}`" if hit.subject.isidentifier() else f"`{hit.member}`" if hit.member else "here"


def _first_line(span: Span) -> Span:
    """A long definition is pointed at by its first line."""
    return span if span.end_line == span.line else Span(span.file, span.line, span.column, span.line, 0, span.label)


def unproven_uses(source: Source, events: list[Unproven]) -> list[UnprovenUse]:
    """Operators on values of unknown kind, each place once."""
    seen: dict[tuple[int, str, str], UnprovenUse] = {}
    for event in events:
        span = source.span(event.node, "of unknown kind")
        key = (span.line, event.subject, event.why)
        seen.setdefault(key, UnprovenUse(span.line, source.expression(event.node), event.subject, event.why, span))
    return sorted(seen.values(), key=lambda u: (u.line, u.expression))


def to_diagnostic(finding: Finding) -> Diagnostic:
    """The finding as every renderer of the package takes it."""
    notes = (*finding.notes, f"platform gate: {finding.gate}") if finding.gate else finding.notes
    if finding.dynamic != "not_run":
        notes = (*notes, f"dynamic evidence: {finding.dynamic.replace('_', ' ')}")
    return Diagnostic(
        code=finding.code,
        kind=CODES[finding.code].kind,
        severity=Severity(finding.severity),
        message=finding.message,
        spans=finding.spans,
        notes=notes,
        help=finding.help,
        count=finding.count,
        call_chain=finding.calls,
    )


def unproven_diagnostic(use: UnprovenUse) -> Diagnostic:
    """What could not be decided, as a warning."""
    return Diagnostic(
        code="W119",
        kind=CODES["W119"].kind,
        severity=Severity.WARNING,
        message=f"`{use.expression}` cannot be decided: {use.why}",
        spans=(use.span,) if use.span else (),
        help=use.help
        or (f"annotate `{use.subject}` (torch.Tensor, int, ...), or settle it with `--run`" if use.subject else None),
    )
