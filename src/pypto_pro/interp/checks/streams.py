"""Stores inside vector functions that do not arrive where their author thinks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pypto_pro.diag import Diagnostic
from pypto_pro.interp.calls import CallPlan
from pypto_pro.interp.checks import words
from pypto_pro.interp.checks.book import Book, make
from pypto_pro.interp.streams import Again, Left

if TYPE_CHECKING:
    from pypto_pro.interp.machine import Instr


class StoreStreams:
    """Findings of kinds unflushed_store and repeated_store."""

    def __init__(self, book: Book) -> None:
        self.book = book

    def completed(self, instr: Instr, plan: CallPlan) -> None:
        """A call has run."""
        if plan.streams is None:
            return
        for left in plan.streams.left():
            key = (left.site.span, left.by.span if left.by is not None else None)
            self.book.add("unflushed_store", key, lambda left=left: self._left(instr, left))  # type: ignore[misc]
        for again in plan.streams.again:
            key = (again.first.span, again.second.span)
            self.book.add("repeated_store", key, lambda again=again: self._again(instr, again))  # type: ignore[misc]

    @staticmethod
    def _left(instr: Instr, left: Left) -> Diagnostic:
        lost = f"the last {left.size} bytes of a stream into `{left.operand}`"
        wait = left.site.span.labelled("they wait in its staging register")
        called = instr.site.span.labelled(words.party("called", instr))
        mend = "end the stream with vf.store_unalign_post on the same tile and staging register"
        notes = ("whole 32-byte blocks reach the vector buffer at once, the rest only by store_unalign_post",)
        if left.by is None:
            message = f"{lost} never reach it: nothing flushes them after this `{left.site.name}`"
            spans = [wait, called]
        else:
            message = f"{lost} are lost: `{left.by.name}` goes on at another address before they are flushed"
            spans = [left.by.span.labelled("goes on elsewhere"), wait, called]
            mend += " before that"
        return make(
            "unflushed_store", message, *spans, notes=notes, help=mend, core=words.short(instr.core),
            pipes=(words.pipe(instr),),
        )  # fmt: skip

    @staticmethod
    def _again(instr: Instr, again: Again) -> Diagnostic:
        one = again.first is again.second
        before = "it stored in the round before" if one else f"the `{again.first.name}` before it did"
        spans = [again.second.span.labelled("stored here again")]
        if not one:
            spans.append(again.first.span.labelled("stored here"))
        return make(
            "repeated_store", f"`{again.second.name}` stores to `{again.operand}` where {before}",
            *spans, instr.site.span.labelled(words.party("called", instr)),
            notes=("only post_update=True moves the cursor of a tile; the device is documented so too, but its compiler"
                   " moves the cursor of a plain store as well, so there the second may land behind the first",),
            help="post_update=True on every store of a stream; for a place of its own `tile + k` or store_align",
            core=words.short(instr.core), pipes=(words.pipe(instr),),
        )  # fmt: skip
