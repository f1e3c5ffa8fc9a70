"""Generated code that runs blocks: one module for every kernel, compiled once.

`run(launch, unit, worker)` is what a worker thread calls with the GIL released. Blocks that never wait for other blocks
are claimed one after the other and run in the worker's own unit. In a `parking` launch every block has a unit: a block
that can only go on when others do is parked together with the launch's epoch, and looked at again when the epoch moved.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import llvmlite.ir as ir

from pypto_pro.native import engine, polling, sync_code, vector_stream
from pypto_pro.native.emit import I1, I32, I64, PTR, VOID, Code, Value, vector
from pypto_pro.native.engine import host
from pypto_pro.native.frames import (
    BLOCK_DONE,
    BLOCK_NEW,
    BLOCK_PARKED,
    BLOCK_READY,
    BLOCK_RUNNING,
    BUDGET,
    BUDGET_OF_A_BLOCK,
    CORE,
    LAUNCH,
    RUN_CANCELLED,
    RUN_FINISHED,
    RUN_IDLE,
    RUN_STUCK,
    RUN_WAKE,
    SIZE,
    STATE_BYTES,
    STEP_CANCEL,
    STEP_DONE,
    STEP_ENDLESS,
    STEP_POLL,
    STEP_YIELD,
    UNIT,
    WORD,
)
from pypto_pro.native.sync_code import function, get, put, word

END, PROGRESS, POLLED, STUCK, CANCELLED = range(5)
"""What one turn of a block ends with: finished, moved, only polled, cannot go on, launch cancelled."""

TURNS = 256
"""Turns of a block before other blocks get theirs, in a launch whose blocks may wait for each other."""

DEFAULT_MXCSR = 0x1F80  # round to nearest even, exceptions masked, no flush to zero


def emit_callback(module: Any) -> None:
    """`void op_callback(core, record)`: run an op's numpy meaning through Python."""
    code, (core, record) = function(module, "op_callback", (PTR, PTR), VOID)
    launch = code.load(PTR, core, CORE["launch"])
    code.call_address(code.load(PTR, launch, LAUNCH["callback"]), VOID, [core, record])
    code.b.ret_void()


def emit_tick(module: Any) -> None:
    """`i32 run_tick(core)`: 1 when the launch is cancelled; on the main thread lets Python look at its signals."""
    code, (core,) = function(module, "run_tick", (PTR,))
    b = code.b
    put(code, BUDGET, core, "budget")
    launch = code.load(PTR, core, CORE["launch"])
    cancel = word(launch, "cancel", code, 0, LAUNCH)
    with b.if_then(b.icmp_unsigned("!=", code.load_atomic(cancel), I64(0))):
        b.ret(I32(1))
    look = code.load(PTR, core, CORE["tick"])
    with b.if_then(b.icmp_unsigned("==", look, ir.Constant(PTR, None))):
        b.ret(I32(0))
    b.ret(code.call_address(look, I32, [launch]))


def emit_stream_copy(module: Any) -> None:
    """`void stream_copy(target, source, size)`: a copy that passes the caches by, ordered before what follows."""
    code, (target, source, size) = function(module, "stream_copy", (PTR, PTR, I64), VOID)
    b, step = code.b, 4 * host().fp32_lanes
    lanes = vector(step // 4, I32)
    start = b.and_(b.neg(b.ptrtoint(target, I64)), I64(step - 1))
    head = code.minimum(start, size)
    code.copy_bytes(target, source, head)
    whole = b.add(head, b.and_(b.sub(size, head), I64(-step)))
    hint = module.add_metadata([I32(1)])
    with code.loop(head, whole, step) as k:
        stored = b.store(code.load(lanes, code.at(source, k)), code.at(target, k), align=step)
        stored.set_metadata("nontemporal", hint)
    code.copy_bytes(code.at(target, whole), code.at(source, whole), b.sub(size, whole))
    b.fence("seq_cst")
    b.ret_void()


def emit_cores(code: Code, unit: Value, each: Any) -> None:
    """Loop over the core records of a unit."""
    with code.loop(0, get(code, unit, "n_cores", layout=UNIT), name="core") as k:
        each(code.at(code.at(unit, UNIT["cores"]), code.b.mul(k, I64(CORE[SIZE]))))


def emit_begin(module: Any) -> None:
    """`void run_begin(launch, unit, block)`: reset a unit for a block and clear the tiles of its arena."""
    code, (launch, unit, block) = function(module, "run_begin", (PTR, PTR, I64), VOID)
    b = code.b
    put(code, block, unit, "block", layout=UNIT)
    put(code, 0, unit, "run_ahead", layout=UNIT)
    put(code, STEP_YIELD, unit, "status", layout=UNIT)

    def reset(core: Value) -> None:
        subblocks = get(code, core, "subblock_num")
        index = b.add(b.mul(block, subblocks), get(code, core, "subblock"))
        put(code, index, core, "block_idx")
        for name, value in (
            ("resume", 0), ("moved", 0), ("wrote", 0), ("status", STEP_YIELD), ("site", -1), ("touched", 0),
            ("ref_stamp", -1), ("cycle_stamp", -1),
            ("spr", 0), ("retry", 0), ("queued", 0), ("mask_count_mode", 0), ("mask_high", -1), ("mask_low", -1),
        ):
            put(code, value, core, name)
        code.fill_bytes(code.at(core, CORE["direct"]), 0, CORE[SIZE] - CORE["direct"])

    emit_cores(code, unit, reset)
    arena, areas = code.load(PTR, unit, UNIT["arena"]), code.load(PTR, launch, LAUNCH["zero_list"])
    with code.loop(0, get(code, launch, "n_zero", layout=LAUNCH)) as k:
        area = code.at(areas, b.mul(k, I64(2 * WORD)))
        code.fill_bytes(code.at(arena, code.load(I64, area)), 0, code.load(I64, area, WORD))
    b.ret_void()


def emit_turn(module: Any) -> None:
    """`i32 run_turn(unit)`: give every unfinished core of a block one step."""
    code, (unit,) = function(module, "run_turn", (PTR,))
    b = code.b
    alive, moved, polled = (code.slot(I64) for _ in range(3))
    for flag in (alive, moved, polled):
        code.store(I64(0), flag)

    def step(core: Value) -> None:
        before = get(code, core, "status")
        with b.if_then(b.icmp_unsigned("==", before, I64(STEP_ENDLESS))):
            code.store(I64(1), alive)
        gone = b.or_(b.icmp_unsigned("==", before, I64(STEP_DONE)), b.icmp_unsigned("==", before, I64(STEP_ENDLESS)))
        with b.if_then(b.not_(gone)):
            _step(code, core, alive, moved, polled)

    emit_cores(code, unit, step)
    results = ((alive, END, "=="), (moved, PROGRESS, "!="), (polled, POLLED, "!="))
    for flag, result, test in results:
        with b.if_then(b.icmp_unsigned(test, code.load(I64, flag), I64(0))):
            b.ret(I32(result))
    b.ret(I32(STUCK))


def _step(code: Code, core: Value, alive: Value, moved: Value, polled: Value) -> None:
    """One step of one core. A core that only repeats itself did not move, see `polling`."""
    b = code.b
    put(code, 0, core, "moved")
    launch = code.load(PTR, core, CORE["launch"])
    with b.if_then(b.icmp_signed(">", get(code, core, "queued"), I64(0))):
        code.call_address(code.load(PTR, launch, LAUNCH["drain"]), VOID, [core])
    status = code.call_address(code.load(PTR, core, CORE["step"]), I32, [core])
    put(code, b.zext(status, I64), core, "status")
    with b.if_then(b.icmp_unsigned("==", status, I32(STEP_CANCEL))):
        b.ret(I32(CANCELLED))
    epoch = polling.emit_heard(code, launch, core)
    done = b.icmp_unsigned("==", status, I32(STEP_DONE))
    counts = b.icmp_unsigned("!=", get(code, core, "moved"), I64(0))
    changed = b.and_(counts, b.not_(polling.emit_cycling(code, core, epoch)))
    polls = b.icmp_unsigned("==", status, I32(STEP_POLL))
    went_on = b.or_(done, b.and_(changed, b.not_(polls)))
    for flag, value in ((alive, b.not_(done)), (moved, went_on), (polled, b.and_(changed, polls))):
        code.store(b.or_(code.load(I64, flag), b.zext(value, I64)), flag)


def emit_block(module: Any) -> None:
    """`i32 run_block(launch, unit)`: turns until the block ends, only polls, or cannot go on even running ahead.

    In a parking launch running ahead is for the whole launch to decide, since other blocks may still help, and others
    get a turn after a while.
    """
    code, (launch, unit) = function(module, "run_block", (PTR, PTR))
    b = code.b
    parking = b.icmp_unsigned("!=", get(code, launch, "parking", layout=LAUNCH), I64(0))
    turns = code.slot(I64)
    code.store(I64(TURNS), turns)
    again = code.block("turn")
    b.branch(again)
    b.position_at_end(again)
    result = code.call("run_turn", I32, [unit])
    left = b.sub(code.load(I64, turns), I64(1))
    code.store(left, turns)
    with b.if_then(b.icmp_unsigned("==", result, I32(PROGRESS))):
        with b.if_then(b.and_(parking, b.icmp_signed("<", left, I64(0)))):
            b.ret(I32(POLLED))
        b.branch(again)
    with b.if_then(b.and_(b.icmp_unsigned("==", result, I32(POLLED)), b.not_(parking))):
        b.branch(again)
    ahead = b.icmp_unsigned("!=", get(code, unit, "run_ahead", layout=UNIT), I64(0))
    tries = b.and_(b.icmp_unsigned("==", result, I32(STUCK)), b.not_(b.or_(parking, ahead)))
    with b.if_then(tries):
        put(code, 1, unit, "run_ahead", layout=UNIT)
        b.branch(again)
    b.ret(result)


def cycles(code: Code) -> Value:
    """A counter that advances with time, readable in user mode."""
    name = "llvm.readcyclecounter" if engine.host().arch in ("x86_64", "i686") else "llvm.readsteadycounter"
    return code.call(name, I64, [])


def _cancelled(code: Code, launch: Value, core: Value) -> Value:
    """i1: the launch is cancelled; between blocks, where Python is asked only now and then."""
    b = code.b
    result = code.slot(I1)
    flag = code.load_atomic(word(launch, "cancel", code, 0, LAUNCH))
    code.store(b.icmp_unsigned("!=", flag, I64(0)), result)
    budget = b.sub(get(code, core, "budget"), I64(BUDGET_OF_A_BLOCK))
    put(code, budget, core, "budget")
    with b.if_then(b.icmp_signed("<", budget, I64(0))):
        stop = b.icmp_unsigned("!=", code.call("run_tick", I32, [core]), I32(0))
        code.store(b.or_(stop, code.load(I1, result)), result)
    return code.load(I1, result)


def emit_claiming(module: Any) -> None:
    """`i32 run_claiming(launch, unit)`: run unclaimed blocks until there are none."""
    code, (launch, unit) = function(module, "run_claiming", (PTR, PTR))
    b = code.b
    began = cycles(code)
    first_core = code.at(unit, UNIT["cores"])
    again = code.block("next")
    b.branch(again)
    b.position_at_end(again)
    with b.if_then(_cancelled(code, launch, first_core)):
        b.ret(I32(RUN_CANCELLED))
    block = code.add_atomic(1, word(launch, "next_block", code, 0, LAUNCH))
    total = get(code, launch, "block_dim", layout=LAUNCH)
    with b.if_then(b.icmp_signed(">=", block, total)):
        b.ret(I32(RUN_FINISHED))
    code.call("run_begin", VOID, [launch, unit, block])
    result = code.call("run_block", I32, [launch, unit])
    with b.if_then(b.icmp_unsigned("==", result, I32(CANCELLED))):
        b.ret(I32(RUN_CANCELLED))
    with b.if_then(b.icmp_unsigned("!=", result, I32(END))):
        put(code, b.ptrtoint(unit, I64), launch, "stuck_unit", layout=LAUNCH)
        put(code, 1, launch, "cancel", layout=LAUNCH)
        b.ret(I32(RUN_STUCK))
    limit = get(code, launch, "slow_cycles", layout=LAUNCH)
    slow = b.icmp_signed(">", b.sub(cycles(code), began), limit)
    more = b.icmp_signed("<", b.add(block, I64(1)), total)
    with b.if_then(code.all_of(b.icmp_signed(">", limit, I64(0)), slow, more)):
        b.ret(I32(RUN_WAKE))
    b.branch(again)


def _take(code: Code, launch: Value, state: Value, epoch: Value) -> Value:
    """i1: this worker now owns the block behind `state`."""
    b = code.b
    old = code.load_atomic(state)
    parked_at = code.load(I64, state, WORD)
    waits = b.and_(b.icmp_unsigned("==", old, I64(BLOCK_PARKED)), b.icmp_unsigned("!=", parked_at, epoch))
    free = b.or_(b.icmp_unsigned("==", old, I64(BLOCK_NEW)), b.icmp_unsigned("==", old, I64(BLOCK_READY)))
    taken = code.slot(ir.IntType(1))
    code.store(ir.IntType(1)(0), taken)
    with b.if_then(b.or_(waits, free)):
        swapped = b.cmpxchg(state, old, I64(BLOCK_RUNNING), "seq_cst", "seq_cst")
        code.store(b.extract_value(swapped, 1), taken)
    return b.and_(code.load(ir.IntType(1), taken), b.or_(waits, free))


def emit_parking(module: Any) -> None:
    """`i32 run_parking(launch, worker)`: give turns to blocks that can go on; RUN_IDLE when there are none now."""
    code, (launch, worker) = function(module, "run_parking", (PTR, I64))
    b = code.b
    total = get(code, launch, "n_states", layout=LAUNCH)
    epoch_at = word(launch, "epoch", code, 0, LAUNCH)
    found = code.slot(I64)
    again = code.block("scan")
    b.branch(again)
    b.position_at_end(again)
    code.store(I64(0), found)
    with code.loop(0, total) as k:
        number = b.urem(b.add(k, worker), total)
        state = code.at(code.load(PTR, launch, LAUNCH["states"]), b.mul(number, I64(STATE_BYTES)))
        epoch = code.load_atomic(epoch_at)
        fresh = b.icmp_unsigned("==", code.load_atomic(state), I64(BLOCK_NEW))
        with b.if_then(_take(code, launch, state, epoch)):
            code.store(I64(1), found)
            _block_turn(code, launch, state, number, epoch, fresh)
    with b.if_then(b.icmp_unsigned("!=", code.load(I64, found), I64(0))):
        b.branch(again)
    done = code.load_atomic(word(launch, "done_blocks", code, 0, LAUNCH))
    b.ret(b.select(b.icmp_signed(">=", done, total), I32(RUN_FINISHED), I32(RUN_IDLE)))


def _block_turn(code: Code, launch: Value, state: Value, number: Value, epoch: Value, fresh: Value) -> None:
    """Run an owned block, then put it down again in its new state."""
    b = code.b
    offset = b.mul(number, get(code, launch, "unit_bytes", layout=LAUNCH))
    unit = code.at(code.load(PTR, launch, LAUNCH["units"]), offset)
    with b.if_then(fresh):
        code.call("run_begin", VOID, [launch, unit, number])
    with b.if_then(_cancelled(code, launch, code.at(unit, UNIT["cores"]))):
        b.ret(I32(RUN_CANCELLED))
    result = code.call("run_block", I32, [launch, unit])
    with b.if_then(b.icmp_unsigned("==", result, I32(CANCELLED))):
        b.ret(I32(RUN_CANCELLED))
    stuck = b.icmp_unsigned("==", result, I32(STUCK))
    ended = b.icmp_unsigned("==", result, I32(END))
    code.store(epoch, state, WORD)
    unfinished = b.select(stuck, I64(BLOCK_PARKED), I64(BLOCK_READY))
    code.store_atomic(b.select(ended, I64(BLOCK_DONE), unfinished), state)
    one = b.zext(ended, I64)
    code.add_atomic(one, word(launch, "done_blocks", code, 0, LAUNCH))
    epoch_at = word(launch, "epoch", code, 0, LAUNCH)
    sleeping = code.load_atomic(word(launch, "idle_workers", code, 0, LAUNCH))
    moved = b.icmp_unsigned("!=", code.load_atomic(epoch_at), get(code, launch, "wake_epoch",
                                                                                      layout=LAUNCH))
    done = code.load_atomic(word(launch, "done_blocks", code, 0, LAUNCH))
    over = b.icmp_signed(">=", done, get(code, launch, "n_states", layout=LAUNCH))
    with b.if_then(b.and_(b.icmp_signed(">", sleeping, I64(0)), b.or_(moved, over))):
        b.ret(I32(RUN_WAKE))


def emit_run(module: Any, parking: bool) -> None:
    """`i32 run(launch, unit, worker)`, or `run_parked`: a loop under the language's floating-point control word."""
    name = "run_parked" if parking else "run"
    code, (launch, unit, worker) = function(module, name, (PTR, PTR, I64))
    saved = _save_rounding(code)
    if parking:
        result = code.call("run_parking", I32, [launch, worker])
    else:
        result = code.call("run_claiming", I32, [launch, unit])
    _restore_rounding(code, saved)
    code.b.ret(result)


def _save_rounding(code: Code) -> Value:
    """Keep the host's control word and set nearest-even, subnormals kept."""
    arch, b = engine.host().arch, code.b
    if arch in ("x86_64", "i686"):
        saved, ours = code.slot(I32), code.slot(I32)
        code.store(I32(DEFAULT_MXCSR), ours)
        code.call("llvm.x86.sse.stmxcsr", VOID, [saved])
        code.call("llvm.x86.sse.ldmxcsr", VOID, [ours])
        return saved
    if arch in ("aarch64", "arm64"):
        old = b.asm(ir.FunctionType(I64, []), "mrs $0, fpcr", "=r", [], True)
        b.asm(ir.FunctionType(VOID, [I64]), "msr fpcr, $0", "r", [I64(0)], True)
        return old
    return None


def _restore_rounding(code: Code, saved: Value) -> None:
    arch = engine.host().arch
    if arch in ("x86_64", "i686"):
        code.call("llvm.x86.sse.ldmxcsr", VOID, [saved])
    elif saved is not None:
        code.b.asm(ir.FunctionType(VOID, [I64]), "msr fpcr, $0", "r", [saved], True)


BASE = ("run", "run_tick", "run_begin", "run_turn", "run_block", "op_callback")
COPIES = ("stream_copy",)
SYNC = ("run_parked", "sync_drain", "sync_do", "sync_issue", "sync_lock", "sync_barrier", "sync_idle", "sync_poll",
        "sync_endless")


_making = threading.RLock()


def _once(make: Callable[[], dict[str, int]]) -> Callable[[], dict[str, int]]:
    """`cache` for what takes a while: a second thread waits for the first one."""
    kept = cache(make)

    def get() -> dict[str, int]:
        with _making:
            return kept()

    return get


@_once
def functions() -> dict[str, int]:
    """Addresses of the functions every kernel needs; a block runs through them once, so they are compiled quickly."""
    module = ir.Module("runner")
    for emit in (emit_callback, emit_tick, emit_begin, emit_turn, emit_block, emit_claiming):
        emit(module)
    emit_run(module, parking=False)
    return engine.link(engine.compile_module(str(module), quick=True), BASE, {})


@_once
def copy_functions() -> dict[str, int]:
    """Addresses of what only large transfers need."""
    module = ir.Module("copies")
    emit_stream_copy(module)
    return engine.link(engine.compile_module(str(module)), COPIES, {})


@_once
def sync_functions() -> dict[str, int]:
    """Addresses of what only kernels with resumable programs need."""
    module = ir.Module("sync")
    sync_code.emit_all(module)
    polling.emit_all(module)
    emit_parking(module)
    emit_run(module, parking=True)
    return engine.link(engine.compile_module(str(module)), SYNC, functions())


@_once
def stream_functions() -> dict[str, int]:
    """Addresses of what only vector functions need."""
    module = ir.Module("vector_stream")
    vector_stream.emit_all(module)
    return engine.link(engine.compile_module(str(module)), vector_stream.NAMES, {})


def helpers(code: bytes) -> dict[str, int]:
    """Addresses of the functions object code mentions."""
    found = dict(functions())
    if COPIES[0].encode() in code:
        found.update(copy_functions())
    if b"sync_" in code:
        found.update(sync_functions())
    if any(name.encode() in code for name in vector_stream.NAMES):
        found.update(stream_functions())
    return found
