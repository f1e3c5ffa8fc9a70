"""Facts about values: where the first NaN or infinity is born, casts that wrap, casts that round exact ties away.

A region remembers whether its last write left anything that is not finite, so that inputs need no second look. What
was written by something else than an op on one float tile is unknown, and nothing is said about it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pypto_pro import numerics
from pypto_pro.analysis.region_map import Cell
from pypto_pro.diag import Diagnostic
from pypto_pro.dtypes import DataType
from pypto_pro.enums import MemorySpace, RoundMode
from pypto_pro.interp.checks import words
from pypto_pro.interp.checks.book import Book, Entry, make
from pypto_pro.interp.memory import SimTile
from pypto_pro.interp.sites import OpSite
from pypto_pro.ops.entry import Operand, Role

if TYPE_CHECKING:
    from pypto_pro.interp.checks.touched import Memory, Touched
    from pypto_pro.interp.machine import Instr

D = DataType
FINITE, INFINITE, NAN = 0, 1, 2
EXPONENT = {D.DT_FP16: 0x7C00, D.DT_BF16: 0x7F80}
"""Exponent bits of the 16-bit floats: all set in what is not finite."""
HALF = {(D.DT_FP32, D.DT_FP16): (0x1FFF, 0x1000), (D.DT_FP32, D.DT_BF16): (0xFFFF, 0x8000)}
"""Bits that a conversion drops, and their value in a tie (subnormal results apart)."""
LOOKS = 64
"""How often a cast is searched for ties when no bit test tells."""


@dataclass(slots=True)
class Watched:
    """What is looked at in one op of the text: the position of its float result, and whether it is a cast."""

    out: int
    dtype: DataType
    source: int = -1
    mode: RoundMode | None = None
    looks: int = 0


class Values:
    """Notes about values."""

    def __init__(self, book: Book) -> None:
        self.book = book
        self.watched: dict[OpSite, Watched | None] = {}
        self.last_birth: Entry | None = None
        """The last birth of a NaN, to tell who hides it."""

    def watch(self, instr: Instr, site: OpSite) -> Watched | None:
        """What there is to look at in an op; None for most, and for one with operands outside their memories."""
        if instr.plan is not None and (instr.plan.spills or not instr.plan.runs):
            return None
        if site not in self.watched:
            self.watched[site] = classify(site, instr.args)
        return self.watched[site]

    # --- casts --------------------------------------------------------------------------------------------------------

    def started(self, instr: Instr, watched: Watched) -> None:
        """Take the source of a cast, as the instruction's mark: its result may lie on top of it."""
        if watched.source < 0:
            return
        out, source = instr.args[watched.out], instr.args[watched.source]
        instr.mark = source.bits(out.vr, out.vc)

    def _cast(self, instr: Instr, watched: Watched, out: SimTile, bits: NDArray[Any]) -> None:
        source = instr.args[watched.source].dtype
        if not bits.size:
            return
        if numerics.TILE_CASTS[source, out.dtype].wraps:
            clamped = numerics.convert(bits, source, out.dtype, watched.mode, saturate=True)
            wrapped = int((clamped != out.bits()).sum())
            if wrapped:
                self._wrapped(instr, bits.size, wrapped, source, out)
        if watched.mode is RoundMode.CAST_ROUND and self._may_tie(bits, source, out.dtype, watched):
            even = numerics.convert(bits, source, out.dtype, RoundMode.CAST_RINT)
            ties = int((even != out.bits()).sum())
            if ties:
                self._ties(instr, bits.size, ties, out)

    @staticmethod
    def _may_tie(bits: NDArray[Any], source: DataType, target: DataType, watched: Watched) -> bool:
        known = HALF.get((source, target))
        if known is not None:
            mask, tie = known
            if bool(((bits & bits.dtype.type(mask)) == tie).any()):
                return True
        watched.looks += 1
        return watched.looks <= LOOKS

    def _wrapped(self, instr: Instr, size: int, count: int, source: DataType, out: SimTile) -> None:
        target = out.dtype.to_string()
        self.book.add("wrapped_cast", instr.site.span, lambda: make(
            "wrapped_cast",
            f"{count} of {size} values do not fit {target} and are wrapped by this `{instr.site.name}`",
            instr.site.span.labelled(words.party(f"{source.to_string()} to {target}", instr)),
            notes=("casts between these two types keep the low bits instead of saturating",),
            core=words.short(instr.core), pipes=(words.pipe(instr),),
        ))  # fmt: skip

    def _ties(self, instr: Instr, size: int, count: int, out: SimTile) -> None:
        self.book.add("tie_rounding", instr.site.span, lambda: make(
            "tie_rounding",
            f"{count} of {size} elements are exact ties that this `{instr.site.name}` rounds away from zero",
            instr.site.span.labelled(words.party("rounded", instr)),
            notes=("numpy and torch round ties to even and give the neighbouring value",),
            help="mode=pl.RoundMode.CAST_RINT would equal torch",
            core=words.short(instr.core), pipes=(words.pipe(instr),),
        ))  # fmt: skip

    # --- NaN and infinity ---------------------------------------------------------------------------------------------

    def completed(self, instr: Instr, watched: Watched, touched: Touched) -> None:
        """An op with a float result or source has finished."""
        out = instr.args[watched.out]
        before = status_of(touched)
        if watched.source >= 0:
            bits: NDArray[Any] = instr.mark
            self._cast(instr, watched, out, bits)
            if before == NAN:
                self._hidden(instr, bits, instr.args[watched.source].dtype, out)
        if not watched.dtype.is_float() or watched.dtype not in (D.DT_FP32, *EXPONENT):
            set_status(touched, None)
            return
        after = max((written_status(cell, watched.dtype) for cell in touched.writes), default=FINITE)
        set_status(touched, after)
        computed = not touched.is_load and bool(touched.reads)  # constants are what their author wrote
        if after != FINITE and before is not None and after > before and computed:
            self._born(instr, out, after, before)

    def _born(self, instr: Instr, out: SimTile, after: int, before: int) -> None:
        def describe() -> Diagnostic:
            values = out.get().astype(np.float32)
            test = np.isnan(values) if after == NAN else np.isinf(values)
            count = int(test.sum())
            what = "NaN" if after == NAN else "infinite values"
            rows = np.flatnonzero(test.any(axis=1)).tolist()
            where = f"row {rows[0]}" if len(rows) == 1 else f"rows {rows[0]} to {rows[-1]}" if rows else "the tile"
            sources = "hold infinities but no NaN" if before == INFINITE else "are finite"
            rounds = f" of {words.trips(instr)}" if words.trips(instr) else ""
            return make(
                "nan_born", f"`{instr.site.name}`{rounds} makes {count} {what} in {where} of `{out.name}`",
                instr.site.span.labelled(words.party("born", instr)),
                notes=(f"its sources {sources}" + ("; -inf - -inf is NaN" if before == INFINITE else ""),),
                core=words.short(instr.core), pipes=(words.pipe(instr),),
            )  # fmt: skip

        self.last_birth = self.book.add("nan_born", instr.site.span, describe)

    def _hidden(self, instr: Instr, bits: NDArray[Any], source: DataType, out: SimTile) -> None:
        """A cast whose source holds NaN and whose result does not."""
        were = np.isnan(numerics.decode(bits, source))
        left = np.isnan(out.get().astype(np.float32)) if out.dtype.is_float() else np.zeros_like(were)
        count = int((were & ~left).sum())
        if count and self.last_birth is not None:
            place = f"line {instr.site.span.line}"
            text = f"{place}: `{instr.site.name}` turns {count} NaN into 0"
            if not any(e.startswith(f"{place}: `{instr.site.name}` turns") for e in self.last_birth.effects):
                self.last_birth.effects.append(text)

    # --- other ops ----------------------------------------------------------------------------------------------------

    @staticmethod
    def copied(touched: Touched) -> None:
        """Bits were moved: what is known of the source holds for the result."""
        if touched.is_load:
            set_status(touched, None)
        else:
            set_status(touched, status_of(touched))


def classify(site: OpSite, args: tuple[Any, ...]) -> Watched | None:
    """What to look at in an op: its first tile result, and its source when it converts between element types."""
    specs = [p.spec for p in site.entry.data_params]
    tiles = [(k, a, s.role) for k, (a, s) in enumerate(zip(args, specs, strict=True))
             if isinstance(a, SimTile) and isinstance(s, Operand)]  # fmt: skip
    outs = [(k, a) for k, a, role in tiles if role in (Role.OUT, Role.INOUT)]
    sources = [(k, a) for k, a, role in tiles if role is Role.IN]
    if len(outs) != 1:
        return None
    k, out = outs[0]
    mode = site.attrs.get("mode")
    if isinstance(mode, RoundMode) and len(sources) == 1 and (sources[0][1].dtype, out.dtype) in numerics.TILE_CASTS:
        return Watched(k, out.dtype, sources[0][0], mode)
    if site.entry.copies and any(not isinstance(a, SimTile) and hasattr(a, "strides") for a in args):
        return Watched(k, out.dtype) if out.dtype in (D.DT_FP32, *EXPONENT) else None
    if out.dtype not in (D.DT_FP32, *EXPONENT) or out.type.space not in (MemorySpace.Vec, MemorySpace.Acc):
        return None
    return None if site.entry.copies else Watched(k, out.dtype)


def status_of(touched: Touched) -> int | None:
    """The worst that is known of what an op reads; None when something is not known."""
    worst = FINITE
    for cell in touched.reads:
        for known in (cell, *cell.live):
            if known.writer is not None or known is cell:
                if known.facts is None:
                    return None
                worst = max(worst, known.facts)
    return worst


def set_status(touched: Touched, status: int | None) -> None:
    """Record it for what an op wrote."""
    for cell in touched.writes:
        cell.facts = status


def written_status(cell: Cell, dtype: DataType) -> int:
    """Whether a region holds infinities or NaN now."""
    memory: Memory = cell.store
    region = cell.region
    view = np.ndarray((region.rows, region.row_bytes), np.uint8, memory.store.mem.data, region.start, (region.pitch, 1))
    if dtype is D.DT_FP32:
        values = view.view(np.float32)
        if math.isfinite(float(np.add.reduce(values, axis=None))):
            return FINITE
        return NAN if bool(np.isnan(values).any()) else INFINITE if bool(np.isinf(values).any()) else FINITE
    mask = np.uint16(EXPONENT[dtype])
    bits = view.view(np.uint16)
    special = (bits & mask) == mask
    if not special.any():
        return FINITE
    return NAN if bool((bits[special] & ~mask & np.uint16(0x7FFF)).any()) else INFINITE
