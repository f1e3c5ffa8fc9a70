"""`get_block_idx()` in vector code of a mixed kernel, where it counts two cores a block: is it used for the block's?

Divided by `get_subblock_num()` it is the block's number. A loop that begins at the undivided index, or ends at it, runs
different rounds on the two vector cores of a block, which their matrix core cannot follow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pypto_pro.enums import CoreKind, CrossCoreSyncMode
from pypto_pro.interp.machine import Instr, Machine
from pypto_pro.ir import walk
from pypto_pro.ir.nodes import (
    COMPARISONS,
    Assign,
    Binary,
    Block,
    Break,
    Choose,
    Convert,
    For,
    If,
    Local,
    Query,
    SetCross,
    Unary,
    Var,
    WaitCross,
    While,
)

COUNTED = (
    "on the vector cores of a mixed kernel pl.get_block_idx() counts two cores a block, pl.get_block_num() only blocks"
)
PAIRED = (CrossCoreSyncMode.INTRA_BLOCK, CrossCoreSyncMode.INTER_SUBBLOCK)
"""Modes in which both vector cores of a block have to signal equally often."""
REDUCING = ("//", "%", ">>", "&")


class Flattened:
    """Where the vector program of a machine uses the index of a vector core as it is."""

    def __init__(self, machine: Machine) -> None:
        program = machine.kernel.program(CoreKind.VECTOR) if machine.kind == "mixed" else None
        self.body: Block = program.body if program is not None else ()
        self.vars: set[Var] = set()
        given = [s for s in walk.statements(self.body) if isinstance(s, Assign)]
        known = -1
        while known < len(self.vars):
            known = len(self.vars)
            self.vars |= {s.var for s in given if self.holds(s.value)}

    def holds(self, expr: Any) -> bool:
        """Whether a scalar moves along with the index: undivided, no remainder, no comparison of it."""
        match expr:
            case Query(name="block_idx"):
                return True
            case Local(var=var):
                return var in self.vars
            case Binary(op=op) if op in REDUCING or op in COMPARISONS:
                return False
            case Binary(lhs=lhs, rhs=rhs) | Choose(then=lhs, other=rhs):
                return self.holds(lhs) or self.holds(rhs)
            case Unary(operand=operand) | Convert(operand=operand):
                return self.holds(operand)
        return False

    def is_used(self) -> bool:
        """Whether a statement other than an assignment uses it."""
        used = (e for s in walk.statements(self.body) if not isinstance(s, Assign) for e in walk.expressions(s))
        return any(self.holds(node) for expr in used for node in walk.walk(expr))

    def loops(self) -> Iterator[For | While]:
        """Loops whose number of rounds depends on it."""
        for stmt in walk.statements(self.body):
            match stmt:
                case For(start=start, stop=stop) if self.holds(start) is not self.holds(stop):
                    yield stmt
                case While(body=body) if any(self._ends(s) for s in body):
                    yield stmt

    def _ends(self, stmt: Any) -> bool:
        """Whether a statement leaves its loop by a comparison with the index."""
        if not isinstance(stmt, If) or not any(isinstance(s, Break) for s in stmt.then):
            return False
        compared = (n for n in walk.walk(stmt.cond) if isinstance(n, Binary) and n.op in COMPARISONS)
        return any(self.holds(n.lhs) is not self.holds(n.rhs) for n in compared)


def uneven_loop(machine: Machine) -> int | None:
    """The line of a loop with signals of both vector cores that each of the two runs for rounds of its own."""
    for loop in Flattened(machine).loops():
        inside = walk.statements(loop.body)
        if any(isinstance(s, SetCross | WaitCross) and s.mode in PAIRED for s in inside):
            return loop.span.outermost.line
    return None


def uneven_note(line: int) -> str:
    """What such a loop does."""
    return f"{COUNTED}: the loop of line {line} runs different rounds on the two vector cores of a block"


def uneven_help(line: int) -> str:
    """How all cores of a block go through the same rounds."""
    return (
        f"give the loop of line {line} the number of the block, pl.get_block_idx() // pl.get_subblock_num(): it is the"
        " same on both vector cores and on their matrix core"
    )


def work_help(machine: Machine) -> str | None:
    """The mend of cores of two blocks that do the same work, when a loop over it begins or ends at the index."""
    loop = next(Flattened(machine).loops(), None)
    return uneven_help(loop.span.outermost.line) if loop is not None else None


def same_work(first: Instr, second: Instr) -> tuple[str, ...]:
    """How vector cores of a mixed kernel are counted, when those of two blocks do the same work."""
    a, b = first.core, second.core
    blocks = a.kind is b.kind is CoreKind.VECTOR and a.block != b.block
    return (COUNTED,) if blocks and first.site is second.site and Flattened(a.machine).is_used() else ()
