"""The exceptions an author catches. Each wraps one `Diagnostic`; `str(error)` is its plain rendering."""

from __future__ import annotations

import linecache
from collections.abc import Iterable
from typing import Any, ClassVar

from pypto_pro.diag.codes import CODES
from pypto_pro.diag.diagnostic import Diagnostic
from pypto_pro.diag.span import NOWHERE, Span

ERROR_CODE_BASE = 0xF00000
UNKNOWN, INVALID_TYPE, INVALID_VAL, NAME_ERROR, NOT_IMPLEMENTED_ERROR, INVALID_OPERATION = range(6)


class DiagnosticError(Exception):
    """An exception made of one diagnostic.

    `message` stands alone; `span` may be a `Span` or absent; `hint` becomes the diagnostic's help, `note` its first
    note; `labels` are the other spans of the excerpt; `calls` the call sites of inlined helpers, innermost first,
    each labelled with the helper's name; `code` a code of `diag.codes` when the class's usual one does not fit.
    """

    default_code: ClassVar[str] = "P003"
    diagnostic: Diagnostic

    def __init__(
        self,
        message: str,
        span: Span | None = None,
        *,
        hint: str | None = None,
        note: str | None = None,
        labels: Iterable[Span] = (),
        calls: Iterable[Span] = (),
        code: str | None = None,
        kernel: str | None = None,
    ) -> None:
        super().__init__(message)
        entry = CODES[code or self.default_code]
        self.diagnostic = Diagnostic(
            entry.code,
            entry.kind,
            entry.severity,
            message,
            spans=(() if span is None else (span,)) + tuple(labels),
            notes=() if note is None else (note,),
            help=hint,
            kernel=kernel,
            call_chain=tuple(calls),
            title=type(self).__name__,
        )

    def __str__(self) -> str:
        from pypto_pro.diag.render_text import render  # only a printed error pays for the renderer

        return render([self.diagnostic], color=False)


class ParserError(DiagnosticError):
    """Base of everything the front end rejects.

    Attributes of the language: `message`, `span` (dict or None), `hint`, `note`, `source_lines`, `error_code`.
    """

    default_code = "P006"
    constant: ClassVar[int] = UNKNOWN

    @property
    def error_code(self) -> int:
        """The numeric code of the class, 0xF00000 | constant."""
        return ERROR_CODE_BASE | self.constant

    @property
    def message(self) -> str:
        """What is wrong, without place or hint."""
        return self.diagnostic.message

    @property
    def hint(self) -> str | None:
        """How to mend it, when that is certain."""
        return self.diagnostic.help

    @property
    def note(self) -> str | None:
        """The first remark on the message."""
        return self.diagnostic.notes[0] if self.diagnostic.notes else None

    @property
    def span(self) -> dict[str, Any] | None:
        """The primary place as a plain dict (1-based lines, 0-based columns), None when there is none."""
        spans = self.diagnostic.spans
        if not spans or spans[0] == NOWHERE:
            return None
        place = spans[0]
        return {
            "filename": place.file,
            "file": place.file,
            "line": place.line,
            "column": place.column,
            "begin_line": place.line,
            "begin_column": place.column,
            "end_line": place.end_line or place.line,
            "end_column": place.end_column,
        }

    @property
    def source_lines(self) -> list[str] | None:
        """All lines of the file of the primary span, None when it cannot be read."""
        spans = self.diagnostic.spans
        return (linecache.getlines(spans[0].file) or None) if spans else None


class ParserSyntaxError(ParserError):
    """Grammar that is not allowed here, a wrong form of an argument, or a wrapped foreign exception."""

    default_code = "P001"
    constant = INVALID_VAL


class ParserTypeError(ParserError):
    """A missing or unsupported annotation, a type or arity mismatch, an unsupported closure value."""

    default_code = "P002"
    constant = INVALID_TYPE


class FinalRejectionError(ParserTypeError):
    """A constant or an enum member is required; the expression is not retried as Python."""

    default_code = "P007"


class UndefinedVariableError(ParserError):
    """An unknown name or program function."""

    default_code = "P004"
    constant = NAME_ERROR


class UnsupportedFeatureError(ParserError):
    """A Python feature outside the subset, or an attribute that is not available."""

    default_code = "P005"
    constant = NOT_IMPLEMENTED_ERROR


class InvalidOperationError(ParserError):
    """An operation used in a way it does not support."""

    default_code = "P006"
    constant = INVALID_OPERATION


class SSAViolationError(InvalidOperationError):
    """A name bound twice where single assignment was asked for; `previous` is the first binding's span."""

    def __init__(self, message: str, span: Span | None = None, *, previous: Span | None = None, **rest: Any) -> None:
        labels = () if previous is None else (previous if previous.label else previous.labelled("first bound here"),)
        super().__init__(message, span, labels=(*labels, *rest.pop("labels", ())), **rest)
        self.previous = previous


class ScopeIsolationError(InvalidOperationError):
    """A name used outside the scope that owns it."""


class LoweringError(ParserTypeError, RuntimeError):
    """A dtype, arity or enum combination that a register operation does not have, found when the kernel is built."""


class PlacementError(ParserSyntaxError, ValueError):
    """Tiles that cannot lie where the kernel puts them, found when it is built; `findings` holds all of them."""

    default_code = "M103"
    findings: tuple[Diagnostic, ...] = ()

    @classmethod
    def from_findings(cls, findings: Iterable[Diagnostic]) -> PlacementError:
        """The error for findings of severity error, by the first of them. Raises ValueError when there are none."""
        found = tuple(findings)
        if not found:
            raise ValueError("a PlacementError needs at least one finding")
        error = cls(found[0].message, code=found[0].code)
        error.diagnostic = found[0].with_title(cls.__name__)
        error.findings = found
        return error

    def __str__(self) -> str:
        from pypto_pro.diag.render_text import render

        return render([self.diagnostic, *self.findings[1:]], color=False)


class PipelineError(ParserSyntaxError, ValueError):
    """A kernel that the automatic pipeline (`pipeline=`) cannot transform."""

    default_code = "P009"


class PipelineKindError(ParserTypeError, TypeError):
    """A field of the pipeline's configuration of the wrong type."""


class ArgumentKindError(DiagnosticError, TypeError):
    """A launch argument of the wrong kind or dtype."""

    default_code = "P020"


class ArgumentError(DiagnosticError, TypeError, ValueError):
    """A launch argument of the wrong rank, shape, size or strides."""

    default_code = "P021"


class StuckError(DiagnosticError, RuntimeError):
    """A native launch in which no core can go on; outputs are partial."""

    default_code = "S102"


class CheckError(DiagnosticError):
    """A checked launch with findings of severity error; `findings` holds all of the launch, worst first."""

    default_code = "S101"

    def __init__(self, message: str, span: Span | None = None, *, findings: Iterable[Diagnostic] = (), **rest: Any):
        super().__init__(message, span, **rest)
        self.findings: tuple[Diagnostic, ...] = tuple(findings)

    @classmethod
    def from_findings(cls, findings: Iterable[Diagnostic]) -> CheckError:
        """The error for the findings of one launch. Raises ValueError when there are none."""
        ordered = sorted(findings, key=lambda finding: finding.severity.rank)
        if not ordered:
            raise ValueError("a CheckError needs at least one finding")
        error = cls(ordered[0].message, code=ordered[0].code, findings=ordered)
        error.diagnostic = ordered[0]
        return error

    def __str__(self) -> str:
        from pypto_pro.diag.render_text import render, summary

        if not self.findings:
            return super().__str__()
        return f"{summary(self.findings)}\n\n{render(self.findings, color=False)}"
