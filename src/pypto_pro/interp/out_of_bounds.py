"""The warning an unchecked run gives, once a source line, when an operand leaves its tensor or memory space."""

from __future__ import annotations

import warnings

from pypto_pro.interp.sites import Overrun, Site


class OutOfBoundsWarning(RuntimeWarning):
    """Bytes past a tensor or an on-chip memory: reads gave zero, writes were dropped, or the op was left out."""


class Warner:
    """Remembers the lines it has warned about; one per run."""

    def __init__(self) -> None:
        self.seen: set[tuple[str, int, str]] = set()

    def warn(self, site: Site, overrun: Overrun) -> None:
        """Warn at the author's line, the first time it happens there."""
        span = site.span
        key = (span.file, span.line, overrun.operand)
        if key not in self.seen:
            self.seen.add(key)
            text = f"`{site.name}` {describe(overrun)}"
            warnings.warn_explicit(text, OutOfBoundsWarning, span.file, max(span.line, 1), registry={})


def describe(overrun: Overrun) -> str:
    """What happened, as a clause that follows the op's name."""
    verb = "writes" if overrun.effect.changes else "reads"
    of = f" of `{overrun.name}`" if overrun.name else ""
    where = "its memory" if overrun.space == "GM" else overrun.space
    return f"{verb} bytes {overrun.low}..{overrun.high}{of}, past the end of {where} (0..{overrun.limit})"
