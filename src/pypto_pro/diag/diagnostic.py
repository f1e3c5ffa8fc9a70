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

    @property
    def rank(self) -> int:
        """0 for errors, 1 for warnings, 2 for notes: the order of a report."""
        return list(Severity).index(self)


@dataclass(frozen=True)
class Diagnostic:
    """One message: what is wrong, where (primary span first), what follows from it, how to mend it.

    `message` stands alone, lower case, without a full stop, the author's names in back-quotes; `help` is only
    given when it is certain. `count` is how often the same pair of lines was seen. `call_chain` holds the call
    sites of inlined helpers, innermost first, each labelled with the helper's name; when it is empty the
    `inlined_at` chain of the primary span serves.
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
    scope: str = ""  # which cores a conflict is between; findings of two scopes are never one
    title: str = ""  # the exception class an author catches, where there is one

    def with_notes(self, *notes: str) -> Diagnostic:
        """The same message with further notes."""
        return replace(self, notes=self.notes + notes)

    def with_title(self, title: str) -> Diagnostic:
        """The same message under the name of an exception class."""
        return replace(self, title=title)

    @property
    def calls(self) -> tuple[Span, ...]:
        """Call sites that led to the primary span, innermost first."""
        if self.call_chain or not self.spans:
            return self.call_chain
        sites, site = [], self.spans[0].inlined_at
        while site is not None:
            sites.append(site)
            site = site.inlined_at
        return tuple(sites)


Finding = Diagnostic
