"""Operations on 64-bit tiles that the device carries out on the first 64 columns of a row only."""

from __future__ import annotations

from pypto_pro.diag import Diagnostic
from pypto_pro.interp.checks import words
from pypto_pro.interp.checks.book import Book, make
from pypto_pro.interp.machine import Instr
from pypto_pro.interp.memory import SimTile
from pypto_pro.interp.sites import OpSite
from pypto_pro.ops.entry import Kind, OpEntry, Operand

COLUMNS = 64
_FAMILIES = frozenset(
    f"tile.{name}" for name in (
        "bitwise", "broadcast", "compare", "elementwise", "elementwise+reduce", "fill", "fused", "gather", "legacy",
        "part", "reduce", "select", "unary",
    )
)  # fmt: skip


def look(book: Book, instr: Instr, site: OpSite) -> None:
    """Note an op of one 64-lane pass a row whose 64-bit tiles have more valid columns; once for each of its lines."""
    tiles = [a for a in instr.args if isinstance(a, SimTile) and a.type.dtype.bits() == 64 and a.vc > COLUMNS]
    if tiles and site.entry.family in _FAMILIES and not _loops(site.entry, site, instr):
        book.add("narrow_form", site.span, lambda: _told(instr, tiles[0]))


def _loops(entry: OpEntry, site: OpSite, instr: Instr) -> bool:
    """Whether the device goes on to further columns: the tile-tile forms of a few ops."""
    kinds = [p.spec.kinds for p in entry.data_params if isinstance(p.spec, Operand)]
    wholly_tiles = all(Kind.TILE not in k or isinstance(a, SimTile) for k, a in zip(kinds, instr.args, strict=True))
    return entry.any_width and wholly_tiles and site.attrs.get("dim") is None


def _told(instr: Instr, tile: SimTile) -> Diagnostic:
    return make(
        "narrow_form", f"`{instr.site.name}` on the 64-bit tile `{tile.name}` of {tile.vc} valid columns",
        instr.site.span.labelled(words.party("issued", instr)),
        notes=(f"the device computes {COLUMNS} columns a row in this form; here all {tile.vc} were",),
        help=f"work on sub-views of {COLUMNS} columns", core=words.short(instr.core), pipes=(words.pipe(instr),),
    )  # fmt: skip
