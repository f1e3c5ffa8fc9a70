"""The words of a report: who an instruction is, where and in which round it ran, which bytes are meant."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pypto_pro.analysis.footprints import shared, union
from pypto_pro.diag import Span
from pypto_pro.interp.calls import CallPlan, RegisterAccess, active_runs
from pypto_pro.interp.machine import Core, Instr
from pypto_pro.interp.memory import GM, Buffer, SimTensor, SimTile, Storage
from pypto_pro.interp.sites import ROUND, OpSite
from pypto_pro.layouts import Region
from pypto_pro.ops.entry import Effect

MAX_RUNS = 3


def trips(instr: Instr) -> str:
    """The loop variables when it was issued: `i=1, j=0`; empty outside loops."""
    return rounds(instr.site.loops, instr.trips)


def rounds(loops: Iterable[str], values: Iterable[int]) -> str:
    """Loop variables with their values; a `while` loop has none of its own, so its rounds are counted from 0."""
    return ", ".join(
        f"round {value} of the while loop at line {name.removeprefix(ROUND)}" if name.startswith(ROUND)
        else f"{name}={value}"
        for name, value in zip(loops, values, strict=False)
    )  # fmt: skip


def pipe(instr: Instr) -> str:
    """The pipe's name."""
    return instr.site.pipe.name


def short(core: Core) -> str:
    """A core in a launch of one block, with its block otherwise."""
    return core.name.split(",")[0] if core.machine.launch.block_dim == 1 else core.name


def party(verb: str, instr: Instr, other: Core | None = None) -> str:
    """The label under a line: what it does there, on which pipe, of which core, in which round."""
    where = f" of {short(instr.core)}" if other is not instr.core or len(instr.core.machine.cores) > 1 else ""
    rounds = trips(instr)
    return f"{verb} here on {pipe(instr)}{where}" + (f", {rounds}" if rounds else "")


def name_of(instr: Instr, store: Storage, region: Region) -> str:
    """The tile or tensor an instruction touches there, in back-quotes; the memory's name when there is none."""
    plan, site = instr.plan, instr.site
    if isinstance(plan, CallPlan):
        access = first_access(plan, store, region)
        return f"`{access.operand}`" if access is not None and access.operand else store.name
    if plan is not None and isinstance(site, OpSite):
        named = site.named(instr.args)
        for footprint in plan.footprints:
            if footprint.store is store and any(_touch(r, region) for r in footprint.regions):
                name = getattr(named.get(footprint.operand), "name", "")
                if name:
                    return f"`{name}`"
    return store.name


def first_access(plan: CallPlan, store: Storage, region: Region, effect: Effect | None = None) -> RegisterAccess | None:
    """The first access inside a call to some bytes."""
    for event in plan.trace:
        if isinstance(event, RegisterAccess) and event.store is store and effect in (None, event.effect):
            for start, end in active_runs(event):
                if _touch(Region(start, 1, end - start, end - start), region):
                    return event
    return None


def _touch(a: Region, b: Region) -> bool:
    return next(shared(a, b), None) is not None


def inner_span(instr: Instr, store: Storage, region: Region, writes: bool) -> Span | None:
    """Where inside a vector function or SIMT launch the bytes are touched."""
    if not isinstance(instr.plan, CallPlan):
        return None
    access = first_access(instr.plan, store, region, Effect.WRITE if writes else Effect.READ)
    return access.site.span if access is not None else None


# --- bytes ------------------------------------------------------------------------------------------------------------


def bytes_text(store: Storage, ranges: Iterable[tuple[int, int]], buffers: Iterable[Buffer]) -> str:
    """`UB of AIV0, block 0, bytes 0x800..0x1000`; for GM the tensor and offsets into it."""
    merged = union(ranges)
    if store is GM:
        owner = next((b for b in buffers if b.address <= merged[0][0] < b.address + max(b.mem.size, 1)), None)
        origin = owner.address if owner else 0
        name = f"`{owner.name}`" if owner else "GM"
        places = [(a - origin, b - origin) for a, b in merged]
        rows = f" ({rows_text(places[0][0], places[-1][1], owner.row_bytes)})" if owner and owner.row_bytes else ""
        return f"bytes {listed(places)} of {name}{rows}"
    return f"{store.name}, bytes {listed(merged)}"


def rows_text(start: int, end: int, row_bytes: int) -> str:
    """The rows of a tensor that hold a byte range: `rows 8..16`."""
    first, last = start // row_bytes, -(-end // row_bytes)
    return f"row {first}" if last - first == 1 else f"rows {first}..{last}"


def listed(ranges: Iterable[tuple[int, int]]) -> str:
    """Half-open byte ranges, the first few of them."""
    found = list(ranges)
    text = ", ".join(f"{a:#x}..{b:#x}" for a, b in found[:MAX_RUNS])
    more = len(found) - MAX_RUNS
    return text + (f" and {more} more runs" if more > 0 else "")


def overlap(a: Region, b: Region, limit: int = 64) -> list[tuple[int, int]]:
    """Common byte ranges, at most `limit` of them before merging."""
    found = []
    for piece in shared(a, b):
        found.append(piece)
        if len(found) >= limit:
            break
    return found


def tensor_of(instr: Instr) -> SimTensor | None:
    """The GM tensor among the operands."""
    return next((a for a in instr.args if isinstance(a, SimTensor)), None)


def tile_names(args: Iterable[Any]) -> list[str]:
    """Names of the tiles among some operands."""
    return [a.name for a in args if isinstance(a, SimTile) and a.name]


def cores_text(cores: Iterable[Core]) -> str:
    """Some cores by name, the first few of them."""
    names = [short(c) for c in cores]
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return ", ".join(names[:4]) + more
