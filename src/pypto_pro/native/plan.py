"""How a kernel's programs have to be run: plain functions or resumable, and whether blocks may need each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pypto_pro.enums import CoreKind, CrossCoreSyncMode, MemorySpace, PipeType, SyncCoreType
from pypto_pro.hw.a5 import SSBUF_BYTES
from pypto_pro.ir import nodes as n
from pypto_pro.ir.types import PtrType, TensorType, TileType
from pypto_pro.ir.walk import statements, walk
from pypto_pro.layouts import footprint_bytes
from pypto_pro.native import frames
from pypto_pro.native.executable import Plan
from pypto_pro.ops.entry import Operand, Role, Service
from pypto_pro.ops.operands import tile_geometry
from pypto_pro.ops.table import entry_of


def make_plan(kernel: n.Kernel) -> Plan:
    """The plan of a kernel."""
    everything = [s for p in kernel.programs for s in statements(p.body)]
    mixed = len(kernel.programs) == 2
    waits = [s for s in everything if isinstance(s, n.WaitCross)]
    meets = [s for s in everything if isinstance(s, n.SyncAll)]
    loops = [s for s in everything if isinstance(s, n.For | n.While) and polls_memory(s, mixed)]
    inter_block = any(w.mode is CrossCoreSyncMode.INTER_BLOCK for w in waits)
    return Plan(
        kinds=tuple(p.core for p in kernel.programs),
        resumable=mixed or bool(loops) or bool(waits) or bool(meets),
        queues=any(w.pipe is not PipeType.S for w in waits),
        parking=inter_block or bool(meets) or any(reaches_tensors(s) for s in loops),
        polls=bool(loops),
        peeks=any(_peeks(s, p.core) for p in kernel.programs for s in statements(p.body)),
    )


def polls_memory(loop: n.For | n.While, mixed: bool) -> bool:
    """Whether a loop reads memory or registers that change while it goes round, and may leave depending on it.

    In vector-only and cube-only kernels others can only reach GM; there a `for`, which ends anyway, matters only when
    it reads GM.
    """
    inside = list(statements(loop.body))
    if not any(isinstance(s, n.Break | n.Return) for s in inside) or not reads(loop):
        return False
    return mixed or isinstance(loop, n.While) or reaches_tensors(loop)


def reads(loop: n.For | n.While) -> bool:
    """Whether scalars of a loop get values from memory or from registers that ops change."""
    return any(_reads(node) for node in walk(loop.body))


def _reads(node: object) -> bool:
    match node:
        case n.Op():
            return bool(node.results) or entry_of(node.name).service is Service.LOAD_SSBUF
        case n.Query(name=name):
            return name == "spr"
    return False


def reaches_tensors(loop: n.For | n.While) -> bool:
    """Whether a loop reads or writes GM: directly, through a load into a tile, or in a SIMT launch."""
    return any(_has_type(s, TensorType) for s in statements(loop.body) if isinstance(s, n.Op | n.SimtLaunch))


def writes_shared(stmt: n.Op | n.VfCall | n.SimtLaunch, core: CoreKind, peeks: bool) -> bool:
    """Whether other cores can notice what a statement writes: GM, SSBUF, spaces of another kind of core.

    `peeks`: cores of this kernel read spaces of each other.
    """
    if isinstance(stmt, n.VfCall | n.SimtLaunch):
        return peeks or any(writes_shared(s, core, peeks) for s in statements(stmt.body) if isinstance(s, n.Op)
                            and (_has_type(s, TensorType) or _has_type(s, PtrType)))  # fmt: skip
    if entry_of(stmt.name).service is not None:
        return entry_of(stmt.name).service is Service.STORE_SSBUF
    targets = [arg for arg, role in _roles(stmt) if role is not Role.IN]
    return peeks or not targets or any(_is_shared(t, core) for t in targets)


def _roles(op: n.Op) -> Iterator[tuple[Any, Role]]:
    """Data operands of an op with their roles."""
    for arg, param in zip(op.args, entry_of(op.name).data_params, strict=False):
        if arg is not None and isinstance(param.spec, Operand):
            yield arg, param.spec.role


def _is_shared(operand: Any, core: CoreKind) -> bool:
    match getattr(operand, "type", None):
        case TileType(space=space):
            return (space is MemorySpace.Vec) != (core is CoreKind.VECTOR)
        case TensorType() | PtrType():
            return True
    return False


def _peeks(stmt: n.Stmt, core: CoreKind) -> bool:
    """Whether a statement reads a memory space that belongs to another core."""
    return isinstance(stmt, n.Op) and any(
        isinstance(arg.type, TileType) and _is_shared(arg, core) for arg, role in _roles(stmt)
        if role is not Role.OUT and hasattr(arg, "type")
    )  # fmt: skip


def _has_type(op: n.Op | n.SimtLaunch, kind: Any) -> bool:
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
    """(offset in the arena, bytes) of what is cleared before a block starts: the areas tiles are declared in, one a
    space, and SSBUF."""
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
    messages = (Service.LOAD_SSBUF, Service.STORE_SSBUF)
    everything = [s for p in kernel.programs for s in statements(p.body)]
    if any(isinstance(s, n.Op) and entry_of(s.name).service in messages for s in everything):
        areas.append((frames.ARENA_SSBUF, SSBUF_BYTES))
    return areas


def _declared(stmt: n.Stmt) -> list[tuple[TileType, int]]:
    match stmt:
        case n.TileDecl(var=var, addr=addr) if isinstance(var.type, TileType) and len(var.type.shape) == 2:
            return [(var.type, addr)]
        case n.GroupDecl(var=var, addrs=addrs) if len(var.type.tile.shape) == 2:  # type: ignore[union-attr]
            return [(var.type.tile, addr) for addr in addrs]  # type: ignore[union-attr]
    return []
