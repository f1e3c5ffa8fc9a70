"""Findings while a launch is checked: one entry a mistake and pair of places, counted, with what follows from it.

An entry that turns out to follow from another one is not reported by itself: its message goes to the cause.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, replace

from pypto_pro.diag import BY_KIND, CODES, Diagnostic, Severity, Span


@dataclass(eq=False, slots=True)
class Entry:
    """A finding, how often it was seen, and its cause, if another entry explains it."""

    diagnostic: Diagnostic
    count: int = 1
    cause: Entry | None = None
    effects: list[str] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """The finding's kind."""
        return self.diagnostic.kind

    def root(self) -> Entry:
        """The entry that explains this one, itself when nothing does."""
        entry, seen = self, {id(self)}
        while entry.cause is not None and id(entry.cause) not in seen:
            entry = entry.cause
            seen.add(id(entry))
        return entry


class Book:
    """The entries of one launch, by kind and key."""

    def __init__(self, kernel: str) -> None:
        self.kernel = kernel
        self.entries: dict[tuple[str, Hashable], Entry] = {}

    def add(self, kind: str, key: Hashable, describe: Callable[[], Diagnostic]) -> Entry:
        """Count a mistake; `describe` is called the first time it is seen."""
        entry = self.entries.get((kind, key))
        if entry is None:
            made = describe()
            if made.kernel is None:
                made = replace(made, kernel=self.kernel)
            entry = self.entries[kind, key] = Entry(made)
        else:
            entry.count += 1
        return entry

    def of(self, *kinds: str) -> list[Entry]:
        """Entries of some kinds, in the order they were found."""
        return [entry for (kind, _), entry in self.entries.items() if kind in kinds]

    def drop(self, *kinds: str) -> None:
        """Forget all entries of some kinds."""
        for key in [key for key in self.entries if key[0] in kinds]:
            del self.entries[key]

    def findings(self) -> list[Diagnostic]:
        """Root causes, worst first and in source order, with their counts and consequences."""
        for entry in self.entries.values():
            root = entry.root()
            if root is not entry:
                text = consequence(entry)
                if text not in root.effects:
                    root.effects.append(text)
        return sorted(self._roots(), key=in_report_order)

    def _roots(self) -> Iterator[Diagnostic]:
        for entry in self.entries.values():
            if entry.root() is entry:
                said = entry.diagnostic
                yield replace(said, count=entry.count, consequences=(*said.consequences, *entry.effects))


def consequence(entry: Entry) -> str:
    """An entry as one line under its cause."""
    said = entry.diagnostic
    place = f"line {said.spans[0].line}: " if said.spans else ""
    times = f" ({entry.count} times)" if entry.count > 1 else ""
    return f"{place}{said.message}{times}"


def in_report_order(found: Diagnostic) -> tuple[int, str, int, str]:
    """Errors first, then by place."""
    span = found.spans[0] if found.spans else None
    return found.severity.rank, span.file if span else "", span.line if span else 0, found.code


def make(
    kind: str, message: str, *spans: Span, notes: tuple[str, ...] = (), help: str | None = None,
    severity: Severity | None = None, core: str | None = None, pipes: tuple[str, ...] = (), scope: str = "",
) -> Diagnostic:  # fmt: skip
    """A finding of a kind, with the code and severity of the table unless another severity is given."""
    code = CODES[BY_KIND[kind].code]
    return Diagnostic(
        code.code, kind, severity or code.severity, message, spans, notes=notes, help=help, core=core, pipes=pipes,
        scope=scope,
    )
