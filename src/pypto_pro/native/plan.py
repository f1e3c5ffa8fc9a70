"""How a kernel's programs have to be run: plain functions or resumable, and whether blocks may need each other."""

from __future__ import annotations

from typing import Any

from pypto_pro.enums import CoreKind, CrossCoreSyncMode, PipeType, SyncCoreType
from pypto_pro.ir import nodes as n
from pypto_pro.ir.types import TensorType, TileType
from pypto_pro.ir.walk import statements
from pypto_pro.layouts import footprint_bytes
from pypto_pro.native import frames
from pypto_pro.native.executable import Plan
from pypto_pro.ops.operands import tile_geometry


def make_plan(kernel: n.Kernel) -> Plan:
    """The plan of a kernel."""
    everything = [s for p in kernel.programs for s in statements(p.body)]
    mixed = len(kernel.programs) == 2
    waits = [s for s in everything if isinstance(s, n.WaitCross)]
    meets = [s for s in everything if isinstance(s, n.SyncAll)]
    polls = any(isinstance(s, n.For | n.While) and polls_memory(s, mixed) for s in everything)
    inter_block = any(w.mode is CrossCoreSyncMode.INTER_BLOCK for w in waits)
    return Plan(
        kinds=tuple(p.core for p in kernel.programs),
        resumable=mixed or polls or bool(waits) or bool(meets),
        queues=any(w.pipe is not PipeType.S for w in waits),
        parking=inter_block or bool(meets) or polls,
        polls=polls,
    )


def polls_memory(loop: n.For | n.While, mixed: bool) -> bool:
    """Whether a loop reads memory another core can write and may leave early depending on it.

    In vector-only and cube-only kernels others can only reach GM: directly, or through a load into a tile.
    """
    inside = list(statements(loop.body))
    if not any(isinstance(s, n.Break | n.Return) for s in inside):
        return False
    reads = [s for s in inside if isinstance(s, n.Op) and s.results]
    if not reads:
        return False
    return mixed or any(_has_type(s, TensorType) for s in inside if isinstance(s, n.Op))


def _has_type(op: n.Op, kind: Any) -> bool:
    return any(isinstance(getattr(arg, "type", None), kind) for arg in op.args)


def reads_tensor(op: n.Op) -> bool:
    """Whether a tensor is among the operands: the op reads or writes GM."""
    return _has_type(op, TensorType)


def participants(plan: Plan, which: SyncCoreType, blocks: Any) -> Any:
    """How many cores meet in `sync_all`, from the number of blocks; cores that do not exist count, as on the device."""
    match which:
        case SyncCoreType.AIC_ONLY:
            return blocks
        case SyncCoreType.AIV_ONLY:
            return blocks * (2 if plan.mixed else 1)
    return blocks * 3


def takes_part(kind: CoreKind, which: SyncCoreType) -> bool:
    """Whether a core of a kind meets the others in `sync_all`."""
    return which is SyncCoreType.MIX or (which is SyncCoreType.AIC_ONLY) == (kind is CoreKind.CUBE)


def used_memory(kernel: n.Kernel) -> list[tuple[int, int]]:
    """(offset in the arena, bytes) of the areas tiles are declared in, one a space, cleared before a block starts."""
    ends: dict[tuple[Any, int], tuple[int, int]] = {}
    for program in kernel.programs:
        for stmt in statements(program.body):
            for type_, addr in _declared(stmt):
                low, high = ends.get((type_.space, 0), (addr, addr))
                size = max(footprint_bytes(tile_geometry(type_), type_.rows, type_.cols), 0)
                ends[(type_.space, 0)] = min(low, addr), max(high, addr + size)
    areas = []
    for (space, _), (low, high) in ends.items():
        low, high = max(low, 0), min(high, frames.capacity(space))
        if low < high:
            copies = 2 if space.name == "Vec" and len(kernel.programs) == 2 else 1
            areas += [(frames.ARENA[space] + low + k * frames.UB_STEP, high - low) for k in range(copies)]
    return areas


def _declared(stmt: n.Stmt) -> list[tuple[TileType, int]]:
    match stmt:
        case n.TileDecl(var=var, addr=addr) if isinstance(var.type, TileType) and len(var.type.shape) == 2:
            return [(var.type, addr)]
        case n.GroupDecl(var=var, addrs=addrs) if len(var.type.tile.shape) == 2:  # type: ignore[union-attr]
            return [(var.type.tile, addr) for addr in addrs]  # type: ignore[union-attr]
    return []
