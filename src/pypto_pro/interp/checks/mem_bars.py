"""Inside a vector function: accesses to the vector buffer that meet without a suitable `vf.mem_bar` between them.

Registers order what they carry: a store of a value made from a load comes after that load, and accesses of the same
register keep their order. Everything else that touches the same bytes needs a barrier that puts the class of the
earlier access before the class of the later one. Looked at once for each call's trace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pypto_pro.analysis.dependence import operands, sources
from pypto_pro.diag import Diagnostic, Severity
from pypto_pro.enums import MemBarMode, MemorySpace
from pypto_pro.hw.a5 import SPACES
from pypto_pro.interp.calls import CallPlan, MemBar, RegisterAccess
from pypto_pro.interp.checks import words
from pypto_pro.interp.checks.book import Book, make
from pypto_pro.ir import walk
from pypto_pro.ir.nodes import Op, VfCall
from pypto_pro.ir.types import RegType
from pypto_pro.ops.entry import Effect

if TYPE_CHECKING:
    from pypto_pro.interp.checks.touched import Touched
    from pypto_pro.interp.machine import Instr

LOAD, STORE = "VLD", "VST"
ORDERS = {
    MemBarMode.VST_VLD: {(STORE, LOAD)},
    MemBarMode.VLD_VST: {(LOAD, STORE)},
    MemBarMode.VST_VST: {(STORE, STORE)},
    MemBarMode.VV_ALL: {(STORE, LOAD), (LOAD, STORE), (STORE, STORE)},
}
"""Pairs of access classes that a barrier orders."""


class MemBars:
    """Findings of kind mem_bar."""

    def __init__(self, book: Book) -> None:
        self.book = book
        self.derived: dict[VfCall, dict[str, set[str]]] = {}

    def completed(self, instr: Instr, plan: CallPlan, touched: Touched) -> None:
        """A call has run; its trace is looked at the first time."""
        node = instr.site.node
        if touched.examined or not isinstance(node, VfCall):
            return
        touched.examined = True
        accesses = [e for e in plan.trace if isinstance(e, RegisterAccess) and _is_inside(e)]
        if not any(a.effect is Effect.WRITE for a in accesses):
            return
        last = max(a.address + a.size for a in accesses)
        loads, stores = np.zeros(last, np.int32), np.zeros(last, np.int32)
        barriers = dict.fromkeys(((STORE, LOAD), (LOAD, STORE), (STORE, STORE)), 0)
        latest_barrier = 0
        for number, event in enumerate(plan.trace, 1):
            if isinstance(event, MemBar):
                latest_barrier = number
                for pair in ORDERS.get(event.mode, ()):
                    barriers[pair] = number
                continue
            if not _is_inside(event):
                continue
            where = _bytes(event)
            if event.effect is Effect.WRITE:
                self._meet(instr, plan, event, loads[where], barriers[LOAD, STORE], latest_barrier)
                self._meet(instr, plan, event, stores[where], barriers[STORE, STORE], latest_barrier, loads[where])
                stores[where] = number
            else:
                self._meet(instr, plan, event, stores[where], barriers[STORE, LOAD], latest_barrier)
                loads[where] = number

    def _meet(
        self, instr: Instr, plan: CallPlan, later: RegisterAccess, numbers: NDArray[np.int32], ordered: int,
        barrier: int, loads: NDArray[np.int32] | None = None,
    ) -> None:  # fmt: skip
        """Earlier accesses of the same bytes, by their place in the trace; those up to `ordered` are in order.

        A store is also in order behind an earlier one whose bytes were loaded in between (which needed a barrier of its
        own) into what the later store writes: `loads` are the latest loads of the bytes.
        """
        if not numbers.size or int(numbers.max()) <= ordered:
            return
        for number in np.unique(numbers[numbers > ordered]).tolist():
            earlier: Any = plan.trace[number - 1]
            between = [] if loads is None else np.unique(loads[numbers == number]).tolist()
            if between and between[0] > number and all(
                self._by_registers(instr, plan.trace[load - 1], later) for load in between
            ):
                continue
            if not self._by_registers(instr, earlier, later):
                self._report(instr, earlier, later, unsuitable=number < barrier)

    def _by_registers(self, instr: Instr, earlier: RegisterAccess, later: RegisterAccess) -> bool:
        """Whether registers order two accesses."""
        first, second = earlier.site.node, later.site.node
        node = instr.site.node
        assert isinstance(node, VfCall)
        if not (isinstance(first, Op) and isinstance(second, Op)):
            return True
        made = {v.name for v in first.results} | ({*operands(first)} if earlier.effect is Effect.WRITE else set())
        used = operands(second) | {v.name for v in second.results}
        if earlier.effect is Effect.WRITE:
            return bool(made & used & self._registers(node))
        if node not in self.derived:
            self.derived[node] = sources(node.body)
        derived = self.derived[node]
        return any(made & derived.get(name, {name}) for name in used)

    @staticmethod
    def _registers(node: VfCall) -> set[str]:
        """Variables of the call that are results of register ops."""
        return {v.name for s in walk.statements(node.body) if isinstance(s, Op) for v in s.results if _is_data(v)}

    def _report(self, instr: Instr, earlier: RegisterAccess, later: RegisterAccess, *, unsuitable: bool) -> None:
        key = frozenset((earlier.site.span, later.site.span))

        def describe() -> Diagnostic:
            kinds = (_kind(earlier), _kind(later))
            name = f"`{later.operand}`" if later.operand else "the vector buffer"
            did = "stored" if earlier.effect is Effect.WRITE else "loaded"
            does = "stored" if later.effect is Effect.WRITE else "loaded"
            mode = f"{kinds[0]}_{kinds[1]}"
            low, high = max(earlier.address, later.address), min(
                earlier.address + earlier.size, later.address + later.size
            )
            found = "the barrier between them is of another mode" if unsuitable else "no barrier lies between them"
            return make(
                "mem_bar",
                f"`{later.site.name}` may overtake the `{earlier.site.name}` before it, which touches the same bytes of"
                f" {name}",
                later.site.span.labelled(f"{does} here"), earlier.site.span.labelled(f"{did} here"),
                instr.site.span.labelled("called here"),
                notes=(f"{words.bytes_text(later.store, [(low, high)], ())}; {found}",),
                help=f"put vf.mem_bar(mode=pl.MemBarMode.{mode}) between line {earlier.site.span.line} and line"
                f" {later.site.span.line}",
                severity=Severity.WARNING if unsuitable else None,
                core=words.short(instr.core), pipes=(words.pipe(instr),),
            )  # fmt: skip

        self.book.add("mem_bar", key, describe)


def _kind(access: RegisterAccess) -> str:
    return STORE if access.effect is Effect.WRITE else LOAD


def _is_inside(access: RegisterAccess) -> bool:
    """Whether it stays in the vector buffer; what leaves it is reported as such."""
    return 0 <= access.address <= SPACES[MemorySpace.Vec].capacity - access.size


def _bytes(access: RegisterAccess) -> Any:
    """The touched bytes as an index."""
    if access.where is None:
        return slice(access.address, access.address + access.size)
    return access.where.nonzero()[0] + access.address


def _is_data(var: Any) -> bool:
    return isinstance(var.type, RegType)
