"""Stores of a vector function that go through a cursor or a staging register: bytes that never arrive, and places
that are stored to twice because a cursor stood still.

Looked at while a call's trace is recorded; equal operands give the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from pypto_pro.ops.vf_operands import UnalignArg

if TYPE_CHECKING:
    from pypto_pro.interp.vector_unit import RegisterSite

Cursor: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Left:
    """`size` bytes that `site` left in a staging register; `by` dropped them, None: the call ended."""

    site: RegisterSite
    size: int
    operand: str
    by: RegisterSite | None = None


@dataclass(frozen=True, slots=True)
class Again:
    """`second` stores where `first` did: the cursor of the tile did not move."""

    first: RegisterSite
    second: RegisterSite
    operand: str


@dataclass(slots=True, eq=False)
class Streams:
    """What one call did with its cursors and staging registers."""

    stood: dict[Cursor, RegisterSite] = field(default_factory=dict)
    """Cursors that stand where they were stored through."""
    waiting: dict[int, tuple[UnalignArg, RegisterSite, str]] = field(default_factory=dict)
    """Staging registers that hold bytes."""
    again: list[Again] = field(default_factory=list)
    dropped: list[Left] = field(default_factory=list)

    def stored(self, site: RegisterSite, args: tuple[Any, ...], cursor: Cursor | None, *, moved: bool) -> None:
        """An op stored to its tile, through `cursor` (None: at a place of its own), which then moved or not."""
        name = args[site.stored].name
        if cursor is not None:
            first = self.stood.pop(cursor, None)
            if not moved:
                self.stood[cursor] = site
                if first is not None:
                    self.again.append(Again(first, site, name))
        if site.staging >= 0:
            self._staged(site, args[site.staging], name)

    def _staged(self, site: RegisterSite, staging: UnalignArg, name: str) -> None:
        before = self.waiting.pop(id(staging), None)
        if staging.lost and before is not None:
            self.dropped.append(Left(before[1], staging.lost, before[2], site))
        staging.lost = 0
        if staging.pending.size:
            self.waiting[id(staging)] = (staging, site, name)

    def left(self) -> list[Left]:
        """Bytes that never reached UB, once the call has ended."""
        ended = [Left(site, int(staging.pending.size), name) for staging, site, name in self.waiting.values()]
        return [*self.dropped, *ended]
