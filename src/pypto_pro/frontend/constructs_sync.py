"""`pl.system.*`: flags, barriers, mutexes, cross-core signals and rendezvous as IR statements."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from pypto_pro.enums import CrossCoreSyncMode, MemorySpace, PipeType, SyncAllMode, SyncCoreType
from pypto_pro.frontend import arguments, opcalls, operators
from pypto_pro.frontend.context import Context
from pypto_pro.frontend.handlers import handles
from pypto_pro.frontend.values import NONE, TupleValue, Value, const_int, describe, is_scalar, is_tensor, is_tile
from pypto_pro.hw.a5 import A5, CROSS_CORE_IDS, FLAG_IDS, MUTEX_IDS
from pypto_pro.ir import build
from pypto_pro.ir.nodes import Barrier, Expr, Lock, SetCross, SetFlag, SyncAll, Unlock, WaitCross, WaitFlag
from pypto_pro.ir.types import INDEX, TileType

FLAG = arguments.formals("*, set_pipe, wait_pipe, event_id")
MUTEX = arguments.formals("*, pipe, mutex_id, mode=, max_mutex_id=, mutex_ids=")
CROSS = arguments.formals("*, pipe, event_id, sync_mode=")
SYNC_ALL = arguments.formals("workspaces=, *, core_type=, mode=")
BARRIERS = {
    "system.bar_m": PipeType.M,
    "system.bar_mte1": PipeType.MTE1,
    "system.bar_mte2": PipeType.MTE2,
    "system.bar_mte3": PipeType.MTE3,
    "system.bar_fix": PipeType.FIX,
    "system.bar_all": PipeType.ALL,
}
DEFAULT_CANDIDATES = 2


def _name(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else ""


def _bind(ctx: Context, node: ast.Call, params: tuple[arguments.Formal, ...]) -> tuple[str, dict[str, ast.expr]]:
    name = f"pl.system.{_name(node)}"
    opcalls.check_scope(ctx, name, node)
    return name, arguments.bind(ctx, node, name, params)


def _pipe(ctx: Context, node: ast.expr, what: str) -> PipeType:
    """A concrete pipe that the core has; ValueError otherwise."""
    pipe = arguments.enum_member(ctx, node, PipeType, what)
    if pipe is PipeType.ALL:
        raise ValueError(f"{what} names one pipe, not ALL")
    if pipe not in A5.pipes[ctx.core]:
        raise ValueError(f"the {ctx.core.value} core has no pipe {pipe.name}")
    return pipe


def _event(ctx: Context, node: ast.expr, ids: range, what: str) -> Expr:
    """An id, constants checked against their range (ValueError)."""
    value = operators.integer(ctx, ctx.evaluate(node), node, what)
    known = const_int(value)
    if known is not None and known not in ids:
        raise ValueError(f"{what} is from {ids[0]} to {ids[-1]}, found {known}")
    return build.convert(value, INDEX)


@handles("system.sync_src", "system.sync_dst")
def flag(ctx: Context, node: ast.Call, hint: str | None) -> None:
    """`sync_src` sets a flag, `sync_dst` waits for it and clears it."""
    _, bound = _bind(ctx, node, FLAG)
    set_pipe = _pipe(ctx, bound["set_pipe"], "`set_pipe`")
    wait_pipe = _pipe(ctx, bound["wait_pipe"], "`wait_pipe`")
    if set_pipe is wait_pipe:
        raise ValueError(f"a flag goes from one pipe to another, both are {set_pipe.name}")
    event = _event(ctx, bound["event_id"], FLAG_IDS, "`event_id`")
    kind = SetFlag if _name(node) == "sync_src" else WaitFlag
    ctx.emit(kind(set_pipe, wait_pipe, event, span=ctx.span(node)))


@handles(*BARRIERS)
def barrier(ctx: Context, node: ast.Call, hint: str | None) -> None:
    """`bar_<pipe>()`; one for a pipe that the core does not have does nothing."""
    name, _ = _bind(ctx, node, ())
    pipe = BARRIERS[name.removeprefix("pl.")]
    if pipe is PipeType.ALL or pipe in A5.pipes[ctx.core]:
        ctx.emit(Barrier(pipe, span=ctx.span(node)))


@handles("system.mutex_lock", "system.mutex_unlock", "mutex.mutex_lock", "mutex.mutex_unlock")
def mutex(ctx: Context, node: ast.Call, hint: str | None) -> None:
    """`mutex_lock` and `mutex_unlock`."""
    _, bound = _bind(ctx, node, MUTEX)
    pipe = _pipe(ctx, bound["pipe"], "`pipe`")
    which = _event(ctx, bound["mutex_id"], MUTEX_IDS, "`mutex_id`")
    if "mode" in bound and arguments.constant_int(ctx, bound["mode"], "`mode`") != 0:
        raise ValueError("the `mode` of a mutex is 0")
    kind = Lock if _name(node) == "mutex_lock" else Unlock
    ctx.emit(kind(pipe, which, _candidates(ctx, bound, which), span=ctx.span(node)))


def _candidates(ctx: Context, bound: Mapping[str, ast.expr], which: Expr) -> tuple[int, ...]:
    """The ids that a lock may name: its own when constant, else those listed or the first few."""
    known = const_int(which)
    if known is not None:
        return (known,)
    listed = arguments.optional(ctx, bound, "mutex_ids")
    if listed != NONE:
        ids = arguments.int_list(ctx, listed, bound["mutex_ids"], "`mutex_ids`")
        if not ids or any(i not in MUTEX_IDS for i in ids):
            raise ValueError(f"`mutex_ids` lists ids from 0 to {MUTEX_IDS[-1]}, found {list(ids)}")
        return ids
    count = DEFAULT_CANDIDATES
    if "max_mutex_id" in bound:
        count = arguments.constant_int(ctx, bound["max_mutex_id"], "`max_mutex_id`")
        if not 1 <= count <= len(MUTEX_IDS):
            raise ValueError(f"`max_mutex_id` is from 1 to {len(MUTEX_IDS)}, found {count}")
    return tuple(range(count))


@handles("system.set_cross_core", "system.wait_cross_core")
def cross_core(ctx: Context, node: ast.Call, hint: str | None) -> None:
    """`set_cross_core` and `wait_cross_core`."""
    _, bound = _bind(ctx, node, CROSS)
    pipe = _pipe(ctx, bound["pipe"], "`pipe`")
    event = _event(ctx, bound["event_id"], CROSS_CORE_IDS, "a constant `event_id`")
    mode = CrossCoreSyncMode.INTRA_BLOCK
    if "sync_mode" in bound:
        mode = arguments.enum_member(ctx, bound["sync_mode"], CrossCoreSyncMode, "`sync_mode`")
    kind = SetCross if _name(node) == "set_cross_core" else WaitCross
    ctx.emit(kind(pipe, event, mode, span=ctx.span(node)))


# --- sync_all --------------------------------------------------------------------------------------------------------

_WORKSPACES = {
    SyncCoreType.AIV_ONLY: frozenset({"tensor", MemorySpace.Vec}),
    SyncCoreType.AIC_ONLY: frozenset({"tensor", MemorySpace.Mat}),
    SyncCoreType.MIX: frozenset({"tensor", MemorySpace.Vec, MemorySpace.Mat}),
}


@handles("system.sync_all")
def sync_all(ctx: Context, node: ast.Call, hint: str | None) -> None:
    """`sync_all`: HARD without workspaces, SOFT with a GM tensor and scratch tiles."""
    _, bound = _bind(ctx, node, SYNC_ALL)
    core_type, mode = SyncCoreType.MIX, SyncAllMode.HARD
    if "core_type" in bound:
        core_type = arguments.enum_member(ctx, bound["core_type"], SyncCoreType, "`core_type`")
    if "mode" in bound:
        mode = arguments.enum_member(ctx, bound["mode"], SyncAllMode, "`mode`")
    given = arguments.optional(ctx, bound, "workspaces")
    items: tuple[Value, ...] = ()
    if given != NONE:
        if not isinstance(given, TupleValue):
            raise TypeError(f"`workspaces` is a list, found {describe(given)}")
        items = given.items
    if mode is SyncAllMode.HARD:
        if items:
            raise ValueError("a HARD sync_all takes no workspaces")
        ctx.emit(SyncAll(core_type, mode, span=ctx.span(node)))
        return
    spaces, cores = _soft(ctx, items, core_type, node)
    ctx.emit(SyncAll(core_type, mode, spaces, cores, span=ctx.span(node)))


def _soft(
    ctx: Context, items: tuple[Value, ...], core_type: SyncCoreType, node: ast.AST
) -> tuple[tuple[Expr, ...], Expr | None]:
    """(tensor and tiles, used_cores) of a SOFT rendezvous; each kind at most once."""
    if not items:
        raise ValueError("a SOFT sync_all needs workspaces")
    found: dict[object, Expr] = {}
    cores: Expr | None = None
    for item in items:
        key: object
        if is_tensor(item):
            key = "tensor"
        elif is_tile(item):
            type_ = item.type
            assert isinstance(type_, TileType)
            key = type_.space
        elif is_scalar(item) and build.kind_of(item).is_int():
            if cores is not None:
                raise ValueError("`used_cores` is given twice")
            cores = build.convert(item, INDEX)
            continue
        else:
            raise TypeError(f"a workspace is a tensor, a tile or the number of cores, found {describe(item)}")
        if key in found:
            raise ValueError("a kind of workspace is given twice")
        found[key] = item
    wanted = _WORKSPACES[core_type]
    if set(found) != wanted:
        names = ["a GM tensor"] + [f"a {s.name} tile" for s in (MemorySpace.Vec, MemorySpace.Mat) if s in wanted]
        raise ValueError(f"a SOFT sync_all of {core_type.name} takes {' and '.join(names)}")
    return tuple(found.values()), cores
