"""Valid shapes of operands that do not fit together: reductions into a tile of other extents, sources that are read
beyond their valid shape because the destination decides how far an op goes.
"""

from __future__ import annotations

from collections.abc import Iterator

from pypto_pro.diag import Diagnostic, Severity, Span
from pypto_pro.interp.checks import words
from pypto_pro.interp.checks.book import Book, make
from pypto_pro.interp.machine import Instr
from pypto_pro.interp.memory import SimTile
from pypto_pro.interp.sites import OpSite, ShapeSite
from pypto_pro.ops.entry import Caution, Operand, Role


class Extents:
    """Findings of kind shape_mismatch; `issued` is asked once for each combination of operands."""

    def __init__(self, book: Book) -> None:
        self.book = book

    def issued(self, instr: Instr, site: OpSite) -> None:
        """An op was issued with operands it was not looked at with before."""
        for caution in site.entry.disappointed(site.named(instr.args)):
            self.book.add("shape_mismatch", site.span, lambda caution=caution: self._told(instr, caution))  # type: ignore[misc]
        narrow = next(self._narrow(instr, site), None)
        if narrow is not None:
            key = (site.span, narrow[1].name)
            self.book.add("shape_mismatch", key, lambda: self._beyond(instr, *narrow))

    @staticmethod
    def _told(instr: Instr, caution: Caution) -> Diagnostic:
        return make(
            "shape_mismatch", f"`{instr.site.name}` into `{words.tile_names(instr.args)[0]}`: {caution.message}",
            instr.site.span.labelled(words.party("issued", instr)), *set_here(instr),
            help="give both the same extent with pl.set_validshape",
            core=words.short(instr.core), pipes=(words.pipe(instr),),
        )  # fmt: skip

    @staticmethod
    def _narrow(instr: Instr, site: OpSite) -> Iterator[tuple[SimTile, SimTile]]:
        """The destination and a source with a smaller valid shape, of an op that works on that of its destination."""
        entry = site.entry
        if "regions" in entry.facets or "rewrite" in entry.facets:
            return
        roles = [(a, p.spec.role) for a, p in zip(instr.args, entry.data_params, strict=True)
                 if isinstance(a, SimTile) and isinstance(p.spec, Operand)]  # fmt: skip
        target = next((tile for tile, role in roles if role in (Role.OUT, Role.INOUT)), None)
        for tile, role in roles:
            if target is not None and role is Role.IN and (tile.vr < target.vr or tile.vc < target.vc):
                yield target, tile

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


def set_here(instr: Instr) -> list[Span]:
    """Where the valid shapes of the tiles of an instruction that was just issued were set."""
    found: dict[Span, None] = {}
    for tile in (a for a in instr.args if isinstance(a, SimTile)):
        place = tile.owner.set_at if tile.owner is not None else None
        if place is not None and isinstance(place[0], ShapeSite):
            found[place[0].span.labelled(f"`{tile.name}` is {tile.vr} x {tile.vc} from here on")] = None
    return list(found)
