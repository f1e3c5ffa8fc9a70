"""One finding of the layout report: a `Diagnostic` together with the rows and the numbers it is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pypto_pro.diag import CODES, Diagnostic, Severity, Span
from pypto_pro.enums import MemorySpace
from pypto_pro.memory.design import TileRecord


@dataclass(frozen=True)
class LayoutFinding:
    """`facts` holds the numbers of the message by name (bytes, addresses and ids as ints; slots as `name#i`)."""

    diagnostic: Diagnostic
    space: MemorySpace | None = None
    tiles: tuple[str, ...] = ()
    facts: Mapping[str, object] = field(default_factory=dict)

    @property
    def code(self) -> str:
        """`L104`."""
        return self.diagnostic.code

    @property
    def severity(self) -> Severity:
        """Error, warning or note."""
        return self.diagnostic.severity

    @property
    def line(self) -> int | None:
        """Line of the primary span."""
        return self.diagnostic.spans[0].line if self.diagnostic.spans else None


def finding(
    code: str,
    message: str,
    *tiles: TileRecord,
    space: MemorySpace | None = None,
    notes: tuple[str, ...] = (),
    help: str | None = None,
    spans: tuple[Span, ...] = (),
    facts: Mapping[str, object] | None = None,
    **more_facts: object,
) -> LayoutFinding:
    """A finding of a registered code; kind and severity come from the table, spans from the tiles' definitions."""
    entry = CODES[code]
    definitions = tuple(t.span.outermost.labelled(f"`{t.name}` is placed here") for t in tiles if t.span is not None)
    if space is None and tiles:
        space = tiles[0].space
    diagnostic = Diagnostic(entry.code, entry.kind, entry.severity, message, spans or definitions, notes, help)
    return LayoutFinding(diagnostic, space, tuple(t.name for t in tiles), {**(facts or {}), **more_facts})


def hexa(address: int) -> str:
    """An address as the report prints it: `0x0A000`, five upper-case digits."""
    return f"-0x{-address:05X}" if address < 0 else f"0x{address:05X}"


def interval(start: int, end: int) -> str:
    """A half-open byte range as the report prints it."""
    return f"[{hexa(start)},{hexa(end)})"
