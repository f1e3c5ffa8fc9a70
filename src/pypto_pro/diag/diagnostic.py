"""The one record behind every message a user sees. Only renderers turn it into text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from pypto_pro.diag.span import Span


class Severity(StrEnum):
    """How much a message weighs: errors and warnings make a report unclean, notes never do."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True)
class Diagnostic:
    """One message: what is wrong, where (primary span first), what follows from it, how to mend it.

    `message` stands alone, lower case, without a full stop, the author's names in back-quotes; `help` is only
    given when it is certain. `count` is how often the same pair of lines was seen.
    """

    code: str
    kind: str
    severity: Severity
    message: str
    spans: tuple[Span, ...] = ()
    notes: tuple[str, ...] = ()
    help: str | None = None
    count: int = 1
    kernel: str | None = None
    core: str | None = None
    pipes: tuple[str, ...] = ()
    consequences: tuple[str, ...] = ()
    call_chain: tuple[Span, ...] = ()
    title: str = ""  # the exception class an author catches, where there is one

    def with_notes(self, *notes: str) -> Diagnostic:
        """The same message with further notes."""
        return replace(self, notes=self.notes + notes)


Finding = Diagnostic
