"""Parts of a kernel that a run never reached: branches not taken, loops that ran zero times."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pypto_pro.diag import Span
from pypto_pro.ir import walk
from pypto_pro.ir.nodes import (
    Barrier,
    Block,
    For,
    If,
    Kernel,
    Lock,
    Op,
    SetCross,
    SetFlag,
    SimtLaunch,
    Stmt,
    SyncAll,
    Unlock,
    VfCall,
    WaitCross,
    WaitFlag,
    While,
)

INSTRUCTIONS = (
    Op, VfCall, SimtLaunch, SetFlag, WaitFlag, Barrier, Lock, Unlock, SetCross, WaitCross, SyncAll,
)  # fmt: skip


def find_unreached(kernel: Kernel, ran: Callable[[Stmt], bool]) -> list[str]:
    """What no core reached, one clause a place, in source order. `ran(stmt)`: whether an instruction was issued.

    Only blocks that hold instructions can be judged. A place that one of the two core programs reached counts as
    reached.
    """
    reached: dict[tuple[Span, str], bool] = {}
    for program in kernel.programs:
        for span, what, happened in _blocks(program.body, ran):
            reached[span, what] = reached.get((span, what), False) or happened
    missed = [(span, what) for (span, what), happened in reached.items() if not happened]
    return [f"{what} at line {span.line}" for span, what in sorted(missed, key=lambda m: (m[0].file, m[0].line))]


def _blocks(body: Block, ran: Callable[[Stmt], bool]) -> Iterator[tuple[Span, str, bool]]:
    """Outermost blocks with instructions: place, what it means when they did not run, and whether they did."""
    for stmt in body:
        match stmt:
            case If(then=then, orelse=orelse):
                parts = [(then, "the branch was never taken"), (orelse, "the else branch was never taken")]
            case For(body=inner) | While(body=inner):
                parts = [(inner, "the loop ran zero times")]
            case _:
                continue
        for block, what in parts:
            instructions = [s for s in walk.statements(block) if isinstance(s, INSTRUCTIONS)]
            if not instructions:
                continue
            happened = any(ran(s) for s in instructions)
            span = stmt.span
            assert isinstance(span, Span)
            yield span, what, happened
            if happened:
                yield from _blocks(block, ran)
