"""Run-time indices outside the group, tuple or array they index."""

from __future__ import annotations

from pypto_pro.interp.checks import words
from pypto_pro.interp.checks.book import Book, make
from pypto_pro.interp.machine import Core
from pypto_pro.interp.out_of_bounds import index_text
from pypto_pro.interp.sites import IndexSite


def stray(book: Book, core: Core, site: IndexSite, index: int, trips: tuple[int, ...]) -> None:
    """Note one, once a line; `trips` are the values of the loops around it."""
    rounds = ", ".join(f"{name}={value}" for name, value in zip(site.loops, trips, strict=False))
    book.add(
        "out_of_bounds", (site.span, site.of),
        lambda: make(
            "out_of_bounds", index_text(site, index),
            site.span.labelled(f"indices are 0..{site.count - 1}" + (f"; at {rounds}" if rounds else "")),
            notes=("the device does not check it and takes whatever lies there",),
            help=f"keep it inside: `index % {site.count}`, or a branch", core=words.short(core), pipes=("S",),
        ),
    )  # fmt: skip
