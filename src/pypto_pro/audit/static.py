"""The static audit of one file: roles, interpretation of every wrapper, verdict. Pure: text in, report out."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

from pypto_pro.audit.delivery import check_delivery, check_design
from pypto_pro.audit.findings import findings_of_hits, unproven_uses
from pypto_pro.audit.interpreter import Interpretation, import_source, interpret
from pypto_pro.audit.launches import check_launches, exit_sites, launch_range, launch_sites, launch_span
from pypto_pro.audit.outputs import check_outputs, contract, empty_sites, trace_allocations
from pypto_pro.audit.report import (
    SCHEMA_VERSION,
    CallSite,
    DynamicReport,
    FunctionRole,
    MetadataSite,
    Report,
    UnprovenUse,
    WrapperReport,
)
from pypto_pro.audit.roles import Role, Selection, mode_of, op_of, select
from pypto_pro.audit.source import Source
from pypto_pro.audit.trace import Called, Entered, Event, Hit, Launch, MetadataRead, Unproven


class AuditUsageError(Exception):
    """No such wrapper, or a file that is no Python: the audit says nothing about it. Exit code 2."""


@dataclass(frozen=True)
class Options:
    """What the caller decided. `outputs` are kernel parameters the contract names; `mode` None means by location."""

    wrappers: tuple[str, ...] = ()
    drivers: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    mode: str | None = None
    all_launchers: bool = False
    allow_unproven: bool = False
    design: tuple[str, str] | None = None  # (file name, text)
    reference: tuple[str, str] | None = None  # the golden file beside a delivered one


def audit_source(text: str, *, filename: str, wrappers: list[str] | None = None, mode: str | None = "plain") -> Report:
    """Audit Python text. `wrappers` names functions to audit besides those a name or marker makes wrappers.

    `mode` is plain, delivery, staged, samples, or None for what the file's location says. Raises AuditUsageError when
    the text is no Python or a named wrapper does not exist. The text is parsed, never imported or executed.
    """
    return audit(text, filename, Options(wrappers=tuple(wrappers or ()), mode=mode))


def audit(text: str, filename: str, options: Options) -> Report:
    """As `audit_source`, with every option."""
    source = parse(text, filename)
    mode = mode_of(filename, options.mode)
    for name in options.wrappers:
        if name not in source.functions and not _assigned(source, name):
            raise AuditUsageError(f"{filename}: no function or assignment named `{name}`")
    selection = select(source, mode, options.wrappers, options.drivers, all_launchers=options.all_launchers)
    wrappers, limits = [], dict[str, None]()
    entered: set[str] = set()
    imported = import_source(source)
    for name in selection.wrappers:
        result = interpret(imported, name)
        wrappers.append(_wrapper_report(source, name, selection.roles[name], result, frozenset(options.outputs)))
        limits.update(dict.fromkeys(result.limits))
        entered |= _entered_names(source, result)
    found = []
    if mode in ("delivery", "staged"):
        reference = parse(options.reference[1], options.reference[0]) if options.reference else None
        found += check_delivery(source, op_of(filename, source), mode, selection.wrappers, reference)
    if options.design is not None:
        found += check_design(options.design[1], options.design[0])
    report = Report(
        SCHEMA_VERSION,
        "audit",
        filename,
        source.sha256,
        mode,
        "ok",
        None,
        tuple(limits),
        wrappers,
        tuple(sorted(found, key=lambda f: f.order)),
        _function_table(source, selection, entered),
        allow_unproven=options.allow_unproven,
        unaudited=() if wrappers or mode != "plain" else _unaudited(source, selection),
    )
    report.judge()
    return report


def _unaudited(source: Source, selection: Selection) -> tuple[UnprovenUse, ...]:
    """The functions that launch, of a file in which no function is taken for a wrapper: nothing is known of them."""
    found = []
    for name in (name for name, role in selection.roles.items() if role.role == "launcher"):
        node = source.functions[name]
        span = replace(source.span(node, "launches a kernel"), end_line=node.lineno, end_column=0)
        why = "it launches a kernel and was not audited, since no function of the file is taken for a wrapper"
        marks = "`# pypto: wrapper` or `# pypto: driver` on its line says what it is"
        advice = f"`--all-launchers` or `--wrapper {name}` audits it; {marks}"
        found.append(UnprovenUse(node.lineno, name, name, why, span, advice))
    return tuple(found)


def parse(text: str, filename: str) -> Source:
    """Parse, with every way Python refuses a text as one error."""
    try:
        return Source.parse(text, filename)
    except SyntaxError as error:
        raise AuditUsageError(f"{filename}:{error.lineno or 1}: syntax error: {error.msg}") from error
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        raise AuditUsageError(f"{filename}: cannot be parsed: {error}") from error


def _assigned(source: Source, name: str) -> bool:
    return any(
        isinstance(t, ast.Name) and t.id == name
        for s in source.tree.body
        if isinstance(s, (ast.Assign, ast.AnnAssign))
        for t in (s.targets if isinstance(s, ast.Assign) else [s.target])
    )


def _wrapper_report(
    source: Source, name: str, role: Role, result: Interpretation, named: frozenset[str]
) -> WrapperReport:
    """Everything the interpretation showed about one wrapper."""
    node = source.functions.get(name)
    events = result.events
    launches = [e for e in events if isinstance(e, Launch)]
    reached = trace_allocations(result, source)
    first = launch_span(source, launches[0]) if launches else None
    findings = [
        *findings_of_hits(source, [e for e in events if isinstance(e, Hit)], first),
        *check_launches(source, node, name, result),
        *check_outputs(source, result, reached, named),
    ]
    unproven = unproven_uses(source, [e for e in events if isinstance(e, Unproven)])
    if not result.finished or not result.resolved:
        why = "the audit stopped before the end" if result.resolved else "what the name holds cannot be followed"
        unproven.append(UnprovenUse(node.lineno if node else 0, name, name, why))
    kernels = list(dict.fromkeys(k for launch in launches for k in launch.kernels))
    report = WrapperReport(
        name=name,
        line=node.lineno if node else _line_of_assignment(source, name),
        end_line=(node.end_lineno or node.lineno) if node else _line_of_assignment(source, name),
        role_reason=role.reason,
        params=tuple({"name": p.name, "kind": p.kind, "evidence": p.evidence} for p in result.parameters),
        kernel={"name": kernels[0].node.name, "line": kernels[0].node.lineno} if kernels else None,
        contract=contract(result, reached, named),
        launches=launch_sites(source, launches),
        launch_count=launch_range(result.exits),
        exits=exit_sites(result.exits),
        metadata_reads=_metadata_reads(events),
        empties=empty_sites(reached, named),
        calls=_call_sites(events),
        findings=tuple(sorted(findings, key=lambda f: f.order)),
        unproven=tuple(unproven),
        dynamic=DynamicReport(),
        functions_interpreted=len(result.machine.functions_entered),
        call_depth=result.machine.deepest,
    )
    report.judge()
    return report


def _line_of_assignment(source: Source, name: str) -> int:
    for statement in source.tree.body:
        if isinstance(statement, (ast.Assign, ast.AnnAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            if any(isinstance(t, ast.Name) and t.id == name for t in targets):
                return statement.lineno
    return 0


def _metadata_reads(events: list[Event]) -> tuple[MetadataSite, ...]:
    rows = {
        MetadataSite(e.subject, e.member, getattr(e.node, "lineno", 0)): None
        for e in events
        if isinstance(e, MetadataRead)
    }
    return tuple(sorted(rows, key=lambda r: (r.line, r.tensor, r.member)))


def _call_sites(events: list[Event]) -> tuple[CallSite, ...]:
    rows = {
        (getattr(e.node, "lineno", 0), getattr(e.node, "col_offset", 0)): CallSite(
            getattr(e.node, "lineno", 0), e.callee, e.resolved, e.verdict, e.code
        )
        for e in events
        if isinstance(e, Called)
    }
    return tuple(rows[key] for key in sorted(rows))


def _entered_names(source: Source, result: Interpretation) -> set[str]:
    nodes = {id(e.node) for e in result.events if isinstance(e, Entered)}
    return {name for name, node in source.functions.items() if id(node) in nodes}


def _function_table(source: Source, selection: Selection, entered: set[str]) -> tuple[FunctionRole, ...]:
    """Every function with its role; what a wrapper reaches is a helper whatever its name."""
    rows = []
    for name, role in selection.roles.items():
        if name in entered and role.role not in ("wrapper", "kernel"):
            role = replace(
                role, role="helper", reason=f"reached from a wrapper (otherwise: {role.role}, {role.reason})"
            )
        node = source.functions.get(name)
        rows.append(
            FunctionRole(name, node.lineno if node else _line_of_assignment(source, name), role.role, role.reason)
        )
    return tuple(sorted(rows, key=lambda r: (r.line, r.name)))
