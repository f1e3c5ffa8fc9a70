"""Where inside a vector function the first NaN or infinity is born that reaches the vector buffer.

A call is looked at from outside: only when it leaves something behind that is not finite, its body runs a second time
on the bytes it began with, register by register.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pypto_pro.diag import Diagnostic
from pypto_pro.dtypes import DataType
from pypto_pro.interp.calls import CallPlan, CallSite
from pypto_pro.interp.checks import words
from pypto_pro.interp.checks.book import make
from pypto_pro.interp.checks.values import FINITE, INFINITE, NAN, Values, set_status, written_status
from pypto_pro.interp.memory import SimTile
from pypto_pro.interp.vector_unit import RegisterSite, VectorUnit
from pypto_pro.ir.nodes import VfCall
from pypto_pro.ops.vf_operands import Array, Bits, RegArg

if TYPE_CHECKING:
    from pypto_pro.analysis.region_map import Cell
    from pypto_pro.interp.checks.touched import Touched
    from pypto_pro.interp.machine import Instr

D = DataType
FLOATS = (D.DT_FP32, D.DT_FP16, D.DT_BF16)
LANE_BY_LANE = ("vf.arith", "vf.composite", "vf.convert")
"""Families of register ops whose lanes come from the same lanes of their sources."""
LOOKS = 4
"""How often one call of the text is looked into."""


@dataclass(slots=True)
class Birth:
    """An op of the body whose result is not finite although its sources are, in `lanes` of a register."""

    site: RegisterSite
    status: int
    lanes: int
    stored: int = 0
    """Lanes of it that reached the vector buffer."""
    operand: str = ""


class CallValues:
    """Notes of kind nan_born inside vector functions."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.looks: dict[CallSite, int] = {}

    def before(self, instr: Instr, site: CallSite) -> NDArray[np.uint8] | None:
        """The vector buffer as a call finds it, while its site is still of interest."""
        if not isinstance(site.node, VfCall) or self.looks.get(site, 0) >= LOOKS:
            return None
        unit = site.unit_of(instr.core)
        copy: NDArray[np.uint8] = unit.ub.mem.copy()
        return copy

    def completed(
        self, instr: Instr, site: CallSite, plan: CallPlan, touched: Touched, before: NDArray[np.uint8] | None
    ) -> None:
        """A call has run: what it leaves behind, and where that was born."""
        if not isinstance(site.node, VfCall):
            set_status(touched, None)
            return
        tiles = float_tiles(instr.args)
        known = [(cell, _status(cell, tiles)) for cell in touched.writes]
        if any(status is None for _, status in known):
            set_status(touched, None)
            return
        for cell, status in known:
            cell.facts = status
        if before is None or all(status == FINITE for _, status in known):
            return
        self.looks[site] = self.looks.get(site, 0) + 1
        again = Replay(instr, before)
        site.body(again, *instr.args)
        instr.core.vector_state.ar = again.saved_ar
        for birth in again.births.values():
            if birth.stored:
                key = (instr.site.span, birth.site.span)
                born = self.values.book.add("nan_born", key, lambda birth=birth: describe(instr, birth))  # type: ignore[misc]
                self.values.last_birth = born


def describe(instr: Instr, birth: Birth) -> Diagnostic:
    """One birth."""
    what = "NaN" if birth.status == NAN else "infinite values"
    rounds = f" of {words.trips(instr)}" if words.trips(instr) else ""
    into = f" that reach `{birth.operand}`" if birth.operand else ""
    return make(
        "nan_born", f"`{birth.site.name}` in `{instr.site.name}`{rounds} makes {birth.lanes} {what}{into}",
        birth.site.span.labelled("born here"), instr.site.span.labelled(words.party("called", instr)),
        notes=("the registers it reads hold none",),
        core=words.short(instr.core), pipes=(words.pipe(instr),),
    )  # fmt: skip


def float_tiles(args: tuple[Any, ...]) -> list[SimTile]:
    """Float tiles among captured operands, groups included."""
    flat = [t for a in args for t in (a if isinstance(a, tuple) else (a,))]
    return [t for t in flat if isinstance(t, SimTile) and t.dtype in FLOATS]


def _status(cell: Cell, tiles: list[SimTile]) -> int | None:
    """What a written region holds; None when no float tile says how to read it."""
    region = cell.region
    for tile in tiles:
        low, high = tile.reserved
        width = tile.dtype.nbytes
        if low <= region.start < high and not (region.start % width or region.row_bytes % width):
            return written_status(cell, tile.dtype)
    return None


class Replay(VectorUnit):
    """A vector unit over a copy of the buffer that looks at every register and reports nothing."""

    def __init__(self, instr: Instr, mem: NDArray[np.uint8]) -> None:
        super().__init__(instr.core)
        self.ub = self.ub.over(mem)
        self.tracks = False
        self.saved_ar = instr.core.vector_state.ar
        self.origins: dict[int, tuple[RegArg, Birth]] = {}
        """The births that registers carry, by register; the register is kept so that its number stays its own."""
        self.births: dict[tuple[RegisterSite, int], Birth] = {}
        self.sources_now: list[RegArg] = []
        self.begin(instr, recording=False)

    def op(self, site: RegisterSite, args: tuple[Any, ...], old: tuple[Any, ...]) -> Any:
        self.sources_now = [a for a in args if isinstance(a, RegArg)]
        made = super().op(site, args, old)
        for value in made if isinstance(made, tuple) else (made,):
            if isinstance(value, RegArg) and value.dtype in FLOATS:
                self._look(site, value)
        return made

    def _look(self, site: RegisterSite, made: RegArg) -> None:
        """A result: born here, or handed on."""
        status = worst(made.lanes)
        if status == FINITE or not self.sources_now:  # constants and loads give birth to nothing
            return
        floats = [r for r in self.sources_now if r.dtype in FLOATS]
        fresh = _kind(made.lanes, status)
        for source in floats:
            if site.entry.family in LANE_BY_LANE and source.lanes.size == made.lanes.size:
                fresh = fresh & ~(_kind(source.lanes, NAN) | _kind(source.lanes, status))
            elif worst(source.lanes) >= status:
                fresh = np.zeros_like(fresh)
        if fresh.any() and not site.entry.copies:
            birth = self.births.setdefault((site, status), Birth(site, status, 0))
            birth.lanes += int(fresh.sum())
            self.origins[id(made)] = (made, birth)
            return
        handed = next((self.origins[id(r)][1] for r in floats if id(r) in self.origins), None)
        if handed is not None:
            self.origins[id(made)] = (made, handed)

    def store(self, tile: SimTile, start: int, data: Array, where: Bits | None = None, align: int = 1) -> None:
        self._reaches(tile, np.ascontiguousarray(data).view(np.uint8), where)
        super().store(tile, start, data, where, align)

    def scatter(self, tile: SimTile, starts: Array, data: Array) -> None:
        self._reaches(tile, np.ascontiguousarray(data).view(np.uint8).reshape(-1), None)
        super().scatter(tile, starts, data)

    def _reaches(self, tile: SimTile, raw: Array, where: Bits | None) -> None:
        """Bytes of some registers go to a tile."""
        for source in self.sources_now:
            if id(source) in self.origins and tile.dtype in FLOATS and raw.size % tile.dtype.nbytes == 0:
                birth = self.origins[id(source)][1]
                found = _kind(raw.view(tile.dtype.numpy), birth.status)
                if where is not None:
                    found = found & where[:: tile.dtype.nbytes]
                birth.stored += int(found.sum())
                birth.operand = tile.name

    def _outside(self, *_: Any) -> None:
        """Told the first time."""


def worst(lanes: Array) -> int:
    """Whether lanes hold infinities or NaN."""
    finite = np.isfinite(lanes)
    if bool(finite.all()):
        return FINITE
    return NAN if bool(np.isnan(lanes).any()) else INFINITE


def _kind(lanes: Array, status: int) -> Bits:
    found: Bits = np.isnan(lanes) if status == NAN else np.isinf(lanes)
    return found
