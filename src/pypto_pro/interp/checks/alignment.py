"""Register accesses at addresses that their distribution does not allow (vector-function 7, README decision 70)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pypto_pro.diag import Diagnostic
from pypto_pro.interp.calls import CallPlan, RegisterAccess
from pypto_pro.interp.checks import words
from pypto_pro.interp.checks.book import Book, make
from pypto_pro.ops.entry import Effect

if TYPE_CHECKING:
    from pypto_pro.interp.machine import Instr


class Alignment:
    """Findings of kind misaligned_slot inside vector functions."""

    def __init__(self, book: Book) -> None:
        self.book = book

    def completed(self, instr: Instr, plan: CallPlan) -> None:
        """A call whose trace is new."""
        for event in plan.trace:
            if isinstance(event, RegisterAccess) and event.address % event.align:
                self._report(instr, event)

    def _report(self, instr: Instr, access: RegisterAccess) -> None:
        def describe() -> Diagnostic:
            does = "writes" if access.effect is Effect.WRITE else "reads"
            return make(
                "misaligned_slot",
                f"`{access.site.name}` {does} `{access.operand}` at address {access.address:#x}, which is not a"
                f" multiple of {access.align} (remainder {access.address % access.align})",
                access.site.span.labelled(f"{does} here"), instr.site.span.labelled("called here"),
                help="align the tile and its offset, or use the unaligned forms: vf.load, vf.store, vf.load_unalign"
                " and vf.store_unalign",
                core=words.short(instr.core), pipes=(words.pipe(instr),),
            )  # fmt: skip

        self.book.add("misaligned_slot", access.site.span, describe)
