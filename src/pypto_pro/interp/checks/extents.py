"""Valid shapes of operands that do not fit together: reductions into a tile of other extents, sources that are read
beyond their valid shape because the destination decides how far an op goes.
"""

from __future__ import annotations

from functools import partial
from typing import Any, TypeAlias

from pypto_pro.diag import Diagnostic, Severity, Span
from pypto_pro.interp.checks import words
from pypto_pro.interp.checks.book import Book, make
from pypto_pro.interp.machine import Instr
from pypto_pro.interp.memory import SimTile
from pypto_pro.interp.sites import OpSite, ShapeSite
from pypto_pro.ops.entry import Caution, Operand, Role

Followers: TypeAlias = tuple[int, tuple[int, ...]]


class Extents:
    """Findings of kind shape_mismatch; `issued` is asked once for each combination of operands."""

    def __init__(self, book: Book) -> None:
        self.book = book
        self.looked: dict[OpSite, Followers | None] = {}

    def issued(self, instr: Instr, site: OpSite) -> None:
        """An op was issued with operands it was not looked at with before."""
        if site not in self.looked:
            self.looked[site] = followers(site, instr.args)
        found = self.looked[site]
        if found is not None:
            target = instr.args[found[0]]
            for k in found[1]:
                source = instr.args[k]
                if source.vr < target.vr or source.vc < target.vc:
                    key = (site.span, source.name)
                    self.book.add("shape_mismatch", key, partial(self._beyond, instr, target, source))
        if "expects" not in site.entry.facets:
            return
        for caution in site.entry.disappointed(site.named(instr.args)):
            self.book.add("shape_mismatch", site.span, lambda caution=caution: self._told(instr, caution))  # type: ignore[misc]

    @staticmethod
    def _told(instr: Instr, caution: Caution) -> Diagnostic:
        return make(
            "shape_mismatch", f"`{instr.site.name}` into `{words.tile_names(instr.args)[0]}`: {caution.message}",
            instr.site.span.labelled(words.party("issued", instr)), *set_here(instr),
            help="give both the same extent with pl.set_validshape",
            core=words.short(instr.core), pipes=(words.pipe(instr),),
        )  # fmt: skip

    @staticmethod
    def _beyond(instr: Instr, target: SimTile, source: SimTile) -> Diagnostic:
        return make(
            "shape_mismatch",
            f"`{instr.site.name}` reads {target.vr} x {target.vc} of `{source.name}`, of which"
            f" {source.vr} x {source.vc} are valid",
            instr.site.span.labelled(words.party("read", instr)), *set_here(instr),
            notes=(f"the valid shape of its target, `{target.name}`, decides",),
            help=f"give `{target.name}` and `{source.name}` the same valid shape",
            severity=Severity.WARNING, core=words.short(instr.core), pipes=(words.pipe(instr),),
        )  # fmt: skip


def followers(site: OpSite, args: tuple[Any, ...]) -> Followers | None:
    """Positions of the destination and of its tile sources, in an op that works on the valid shape of the former."""
    entry = site.entry
    if "regions" in entry.facets or "rewrite" in entry.facets:
        return None
    roles = [(k, p.spec.role) for k, (a, p) in enumerate(zip(args, entry.data_params, strict=True))
             if isinstance(a, SimTile) and isinstance(p.spec, Operand)]  # fmt: skip
    target = next((k for k, role in roles if role in (Role.OUT, Role.INOUT)), None)
    sources = tuple(k for k, role in roles if role is Role.IN)
    return None if target is None or not sources else (target, sources)


def set_here(instr: Instr) -> list[Span]:
    """Where the valid shapes of the tiles of an instruction that was just issued were set."""
    found: dict[Span, None] = {}
    for tile in (a for a in instr.args if isinstance(a, SimTile)):
        place = tile.owner.set_at if tile.owner is not None else None
        if place is not None and isinstance(place[0], ShapeSite):
            found[place[0].span.labelled(f"`{tile.name}` is {tile.vr} x {tile.vc} from here on")] = None
    return list(found)
