"""Accesses past the end of a tensor or of a memory on chip."""

from __future__ import annotations

from pypto_pro.diag import Diagnostic
from pypto_pro.interp.checks import words
from pypto_pro.interp.checks.blame import Blame
from pypto_pro.interp.checks.book import Book, make
from pypto_pro.interp.machine import Instr
from pypto_pro.interp.memory import SimTile
from pypto_pro.interp.out_of_bounds import describe
from pypto_pro.interp.sites import Overrun, Site


class Bounds:
    """Findings of kind out_of_bounds."""

    def __init__(self, book: Book, blame: Blame) -> None:
        self.book = book
        self.blame = blame

    def overrun(self, instr: Instr, overrun: Overrun, site: Site) -> None:
        """An operand of `site` (the instruction's own op, or one inside a call) leaves its memory."""
        entry = self.book.add(
            "out_of_bounds", (site.span, overrun.operand), lambda: self._describe(instr, overrun, site)
        )
        cause = self.blame.of_operands(instr)
        if cause is not None and entry.cause is None:
            entry.cause = cause

    def _describe(self, instr: Instr, overrun: Overrun, site: Site) -> Diagnostic:
        changes = overrun.effect.changes
        beyond = max(overrun.high - overrun.limit, 0) + max(-overrun.low, 0)
        rounds = f" of {words.trips(instr)}" if words.trips(instr) else ""
        spans = [site.span.labelled(words.party("written" if changes else "read", instr))]
        if site is not instr.site:
            spans.append(instr.site.span.labelled("called here"))
        notes = [f"{beyond} bytes outside; " + ("on the device they overwrite foreign memory, here they are dropped"
                                                if changes else "the device reads foreign memory, here they read as 0")]
        mend = "limit the valid shape with pl.set_validshape before the last, shorter step"
        tile = next((a for a in instr.args if isinstance(a, SimTile)), None)
        in_gm = overrun.space == "GM"
        if tile is not None and in_gm:
            notes.append(f"the valid shape of `{tile.name}`, {tile.vr} x {tile.vc}, decides how much is moved")
        return make(
            "out_of_bounds", f"`{site.name}`{rounds} {describe(overrun)}", *spans, notes=tuple(notes),
            help=mend if tile and in_gm else None,
            core=words.short(instr.core), pipes=(words.pipe(instr),),
        )  # fmt: skip
