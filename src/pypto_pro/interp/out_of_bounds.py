"""The warning an unchecked run gives, once a source line, when an operand leaves its tensor or memory space."""

from __future__ import annotations

import warnings

from pypto_pro.interp.sites import IndexSite, Site
from pypto_pro.ops.entry import Caution
from pypto_pro.ops.overrun import OutOfBoundsWarning, Overrun, warning_text


class Warner:
    """Remembers the lines it has warned about; one per run."""

    def __init__(self) -> None:
        self.seen: set[tuple[str, int, str]] = set()

    def warn(self, site: Site, overrun: Overrun) -> None:
        """Warn at the author's line, the first time it happens there."""
        self._once(site, overrun.operand, warning_text(site.name, overrun), OutOfBoundsWarning)

    def stray(self, site: IndexSite, index: int) -> None:
        """The same for an index outside what it counts."""
        self._once(site, site.of, index_text(site, index), OutOfBoundsWarning)

    def caution(self, site: Site, caution: Caution) -> None:
        """The same for something its author relied on in vain."""
        self._once(site, caution.kind, f"`{site.name}`: {caution.message}", RuntimeWarning)

    def _once(self, site: Site | IndexSite, what: str, text: str, category: type[Warning]) -> None:
        span = site.span
        key = (span.file, span.line, what)
        if key not in self.seen:
            self.seen.add(key)
            warnings.warn_explicit(text, category, span.file, max(span.line, 1), registry={})


def index_text(site: IndexSite, index: int) -> str:
    """What happened, as a sentence."""
    return f"index {index} is outside {site.of} of {site.count}; the last one, {site.count - 1}, was taken"
