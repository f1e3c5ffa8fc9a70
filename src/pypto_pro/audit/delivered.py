"""The audit of a file on disk: its text, the golden file beside it, and its knowledge record."""

from __future__ import annotations

import tokenize
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from pypto_pro.audit.knowledge import Evidence, RecordReport, check_record, selected_references
from pypto_pro.audit.knowledge_files import (
    defined_symbols,
    read_json,
    reference_hashes,
    reference_titles,
    verification_claims,
)
from pypto_pro.audit.report import Report
from pypto_pro.audit.roles import mode_of, op_of
from pypto_pro.audit.static import AuditUsageError, Options, audit, parse


@dataclass(frozen=True)
class Knowledge:
    """Where the knowledge record, its selection and the knowledge base are."""

    usage: Path
    selection: Path
    root: Path | None = None
    strict_binding: bool = False


def read_source(path: Path) -> str:
    """The text of a Python file in the encoding it declares. Raises AuditUsageError."""
    try:
        with tokenize.open(path) as stream:
            return stream.read()
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        raise AuditUsageError(f"{path}: cannot be read: {error}") from error


def audit_file(
    path: Path,
    options: Options,
    knowledge: Knowledge | None = None,
    before_record: Callable[[Report], None] | None = None,
) -> Report:
    """Audit one file. `before_record` may add dynamic evidence; the record is read last, when the wrapper is judged."""
    text = read_source(path)
    if mode_of(str(path), options.mode) in ("delivery", "staged"):
        options = replace(options, reference=_golden_beside(path))
    report = audit(text, str(path), options)
    if before_record is not None:
        before_record(report)
    if knowledge is not None:
        report.kb_usage = _record_report(report, path, text, knowledge)
        report.judge()
    return report


def _golden_beside(path: Path) -> tuple[str, str] | None:
    """`<op>_golden.py` in the directory of a delivered file."""
    op = path.stem.removeprefix("test_")
    golden = path.with_name(f"{op}_golden.py")
    return (str(golden), read_source(golden)) if golden.is_file() else None


def _record_report(report: Report, path: Path, text: str, knowledge: Knowledge) -> RecordReport:
    """The knowledge record against the delivered file and the verdict of its wrappers."""
    selection = read_json(knowledge.selection)
    if not isinstance(selection, dict):
        raise AuditUsageError(f"{knowledge.selection}: {selection or 'no such file'}")
    source = parse(text, str(path))
    root = knowledge.root
    references = list(selected_references(selection))
    staged = report.mode == "staged"
    evidence = Evidence(
        wrapper_symbols=tuple(w.name for w in report.wrappers),
        wrapper_verdict=report.verdict,
        delivered={path.name: defined_symbols(source)},
        kb_files=reference_hashes(root) if root is not None else None,
        titles=reference_titles(root, references) if root is not None else {},
        claims=verification_claims(source),
        expected_file=path.name if staged or op_of(path.name, source) is None else None,
        strict_binding=knowledge.strict_binding,
    )
    usage = read_json(knowledge.usage)
    record = knowledge.usage.read_text(encoding="utf-8", errors="replace") if knowledge.usage.is_file() else ""
    return check_record(usage, selection, evidence, file=str(knowledge.usage), text=record)
