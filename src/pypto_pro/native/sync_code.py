# long file: signals, queues and run-ahead share one record layout and are read together
"""Generated functions behind synchronisation statements: signals between cores, and run-ahead queues.

Normally a core executes in program order: an unsatisfied wait suspends its program and other cores take their turn.
When that leaves nobody able to go on, the block (or the launch) switches to run-ahead, as the hardware always does: the
wait is queued on its pipe, later instructions of that pipe queue up behind it, and the scalar unit goes on. Flags,
mutex tickets and unit flags are therefore counted from the start; in program order they are satisfied at once.

Every function here takes the core record first. `do` functions return i32 0 = go on, 1 = suspend and call again.
Queue entry, words: size, kind, a, b, c, site, then the operand record of an op.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llvmlite.ir as ir

from pypto_pro.enums import CrossCoreSyncMode, PipeType
from pypto_pro.hw.a5 import CROSS_CORE_COUNTER_MAX
from pypto_pro.native.emit import I8, I32, I64, PTR, VOID, Code, Value
from pypto_pro.native.frames import (
    ARENA_QUEUES,
    CORE,
    IDS,
    LAUNCH,
    N_PIPES,
    QUEUE_BYTES,
    RING,
    SIZE,
    UNIT,
    WORD,
)

(
    DO_OP, DO_WAIT, DO_SET, DO_FLAG_SET, DO_FLAG_WAIT, DO_LOCK, DO_UNLOCK, DO_UNIT_WAIT, DO_UNIT_SET, DO_MEET, WRAP,
) = range(11)  # fmt: skip
"""Kinds of instruction: run an op; wait for a counter; signal; set, await a flag; lock, unlock a mutex; await, set a
unit flag; take part in `sync_all`; filler at the end of the ring."""

ENTRY = 6 * WORD
GO, SUSPEND = 0, 1


def word(core: Value, field: str, code: Code, index: Value | int = 0, record: dict[str, int] = CORE) -> Value:
    """Address of a word of a record, or of element `index` of an array field."""
    base = code.at(core, record[field])
    if isinstance(index, int):
        return code.at(base, index * WORD)
    return code.at(base, code.b.mul(index, I64(WORD)))


def get(code: Code, record: Value, field: str, index: Value | int = 0, layout: dict[str, int] = CORE) -> Value:
    """Load a word field."""
    return code.load(I64, word(record, field, code, index, layout))


def put(code: Code, value: Value | int, record: Value, field: str, index: Value | int = 0,
        layout: dict[str, int] = CORE) -> None:
    """Store a word field."""
    code.store(I64(value) if isinstance(value, int) else value, word(record, field, code, index, layout))


def bump(code: Code, record: Value, field: str, index: Value | int = 0, by: int = 1) -> Value:
    """Add to a word field; gives the old value."""
    address = word(record, field, code, index)
    old = code.load(I64, address)
    code.store(code.b.add(old, I64(by)), address)
    return old


def function(module: Any, name: str, params: tuple[Any, ...], returns: Any = I32) -> tuple[Code, tuple[Value, ...]]:
    """A new function of the module: where its code goes, and its parameters."""
    made = ir.Function(module, ir.FunctionType(returns, params), name)
    return Code(made), tuple(made.args)


# --- signals ----------------------------------------------------------------------------------------------------------


def _available(code: Code, core: Value, index: Value) -> Value:
    """Credits of one counter of a core: direct ones, plus INTER_BLOCK rounds of its kind, minus those taken."""
    b = code.b
    direct = get(code, core, "direct", index)
    launch, kind = code.load(PTR, core, CORE["launch"]), get(code, core, "kind")
    at = b.add(b.mul(kind, I64(IDS)), b.and_(index, I64(IDS - 1)))
    rounds = code.load_atomic(word(launch, "rounds", code, at, LAUNCH))
    rounds = b.select(b.icmp_unsigned("<", index, I64(IDS)), rounds, I64(0))
    return b.sub(b.add(direct, rounds), get(code, core, "taken", index))


def emit_wait(module: Any) -> None:
    """`i32 sync_wait(core, counter)`: take a credit; 1 when there was one."""
    code, (core, index) = function(module, "sync_wait", (PTR, I64))
    with code.b.if_then(code.b.icmp_signed(">", _available(code, core, index), I64(0))):
        bump(code, core, "taken", index)
        code.b.ret(I32(1))
    code.b.ret(I32(0))


def emit_room(module: Any) -> None:
    """`i32 sync_room(core, counter)`: whether the counter can take another credit."""
    code, (core, index) = function(module, "sync_room", (PTR, I64))
    full = code.b.icmp_signed(">=", _available(code, core, index), I64(CROSS_CORE_COUNTER_MAX))
    code.b.ret(code.b.select(full, I32(0), I32(1)))


def emit_set(module: Any) -> None:
    """`i32 sync_set(core, event, mode)`: signal; 0 when a receiver's counter is full."""
    code, (core, event, mode) = function(module, "sync_set", (PTR, I64, I64))
    b = code.b
    unit = code.load(PTR, core, CORE["unit"])
    cases: dict[CrossCoreSyncMode, Callable[[], None]] = {
        CrossCoreSyncMode.INTER_BLOCK: lambda: _set_inter_block(code, core, event),
        CrossCoreSyncMode.INTER_SUBBLOCK: lambda: _set_pair(code, core, unit, event),
        CrossCoreSyncMode.INTRA_BLOCK: lambda: _set_direct(code, core, unit, event, both=True),
        CrossCoreSyncMode.UNICAST_BLOCK: lambda: _set_direct(code, core, unit, event, both=False),
    }
    otherwise = code.block("no_mode")
    choice = b.switch(mode, otherwise)
    for case, emit in cases.items():
        target = code.block(case.name)
        choice.add_case(I64(case.value), target)
        b.position_at_end(target)
        emit()
    b.position_at_end(otherwise)
    b.ret(I32(1))


def _core_of(code: Code, unit: Value, index: Any) -> Value:
    """The core record at a position of the unit: 0 cube, 1 and 2 vector, in mixed kernels."""
    offset = code.b.mul(index, I64(CORE[SIZE])) if not isinstance(index, int) else I64(index * CORE[SIZE])
    return code.at(code.at(unit, UNIT["cores"]), offset)


def _credit(code: Code, receiver: Value, index: Value) -> None:
    """One more credit, or return 0 from the function when the counter is full."""
    room = code.call("sync_room", I32, [receiver, index])
    with code.b.if_then(code.b.icmp_unsigned("==", room, I32(0))):
        code.b.ret(I32(0))
    bump(code, receiver, "direct", index)


def _set_direct(code: Code, core: Value, unit: Value, event: Value, *, both: bool) -> None:
    """INTRA_BLOCK and UNICAST_BLOCK: an AIV signals the AIC; the AIC both AIVs, or the one its id selects."""
    b = code.b
    cores = get(code, unit, "n_cores", layout=UNIT)
    with b.if_then(b.icmp_unsigned("<", cores, I64(3))):
        b.ret(I32(1))  # there is no partner: nobody can ever wait for it
    is_cube = b.icmp_unsigned("==", get(code, core, "kind"), I64(0))
    with b.if_then(b.not_(is_cube)):
        side = b.mul(get(code, core, "subblock"), I64(IDS))
        _credit(code, _core_of(code, unit, 0), b.add(b.and_(event, I64(IDS - 1)), side))
        b.ret(I32(1))
    index = b.and_(event, I64(IDS - 1))
    if both:
        receivers = [_core_of(code, unit, 1 + s) for s in (0, 1)]
        for receiver in receivers:
            room = code.call("sync_room", I32, [receiver, index])
            with b.if_then(b.icmp_unsigned("==", room, I32(0))):
                b.ret(I32(0))
        for receiver in receivers:
            bump(code, receiver, "direct", index)
    else:
        side = b.and_(b.lshr(event, I64(4)), I64(1))
        _credit(code, _core_of(code, unit, b.add(side, I64(1))), index)
    b.ret(I32(1))


def _set_pair(code: Code, core: Value, unit: Value, event: Value) -> None:
    """INTER_SUBBLOCK: both AIVs get a credit when both have arrived; a lone AIV at once."""
    b = code.b
    index = b.and_(event, I64(IDS - 1))
    with b.if_then(b.icmp_unsigned("<", get(code, unit, "n_cores", layout=UNIT), I64(3))):
        _credit(code, core, index)
        b.ret(I32(1))
    with b.if_then(b.icmp_unsigned("==", code.call("sync_room", I32, [core, index]), I32(0))):
        b.ret(I32(0))
    mine = b.add(bump(code, core, "pair_arrivals", index), I64(1))
    other = _core_of(code, unit, b.sub(I64(2), get(code, core, "subblock")))
    theirs = get(code, other, "pair_arrivals", index)
    with b.if_then(b.icmp_signed("<=", mine, theirs)):
        for receiver in (core, other):
            bump(code, receiver, "direct", index)
    b.ret(I32(1))


def _set_inter_block(code: Code, core: Value, event: Value) -> None:
    """INTER_BLOCK: the k-th arrivals of all cores of one kind complete round k."""
    b = code.b
    launch = code.load(PTR, core, CORE["launch"])
    kind, index = get(code, core, "kind"), b.and_(event, I64(IDS - 1))
    row = b.add(b.mul(kind, I64(IDS)), index)
    rounds = word(launch, "rounds", code, row, LAUNCH)
    arrived = get(code, core, "arrivals", index)
    ahead = b.sub(arrived, code.load_atomic(rounds))
    full = b.icmp_unsigned("==", code.call("sync_room", I32, [core, index]), I32(0))
    with b.if_then(b.or_(full, b.icmp_signed(">=", ahead, I64(RING - 1)))):
        b.ret(I32(0))
    bump(code, core, "arrivals", index)
    at = b.add(b.mul(row, I64(RING)), b.and_(arrived, I64(RING - 1)))
    slot = word(launch, "ring", code, at, LAUNCH)
    count = b.add(code.add_atomic(1, slot), I64(1))
    everybody = get(code, launch, "participants", kind, LAUNCH)
    with b.if_then(b.icmp_signed("==", count, everybody)):
        code.store_atomic(I64(0), slot)
        code.add_atomic(1, rounds)
        code.add_atomic(1, word(launch, "epoch", code, 0, LAUNCH))
    b.ret(I32(1))


def emit_meet(module: Any) -> None:
    """`i32 sync_meet(core, which, participants)`: one `sync_all`; arrives once, 1 when everybody has arrived.

    Counts arrivals without ever resetting: the k-th meeting is complete at k * participants.
    """
    code, (core, which, participants) = function(module, "sync_meet", (PTR, I64, I64))
    b = code.b
    launch = code.load(PTR, core, CORE["launch"])
    meeting = word(launch, "meetings", code, which, LAUNCH)
    target = get(code, core, "meeting_target", which)
    with b.if_then(b.icmp_signed("==", target, I64(0))):
        old = code.add_atomic(1, meeting)
        code.add_atomic(1, word(launch, "epoch", code, 0, LAUNCH))
        put(code, 1, core, "wrote")
        size = b.select(b.icmp_signed(">", participants, I64(0)), participants, I64(1))
        mine = b.mul(b.add(b.sdiv(old, size), I64(1)), size)
        put(code, mine, core, "meeting_target", which)
        put(code, 1, core, "moved")
    wanted = get(code, core, "meeting_target", which)
    complete = b.icmp_signed(">=", code.load_atomic(meeting), wanted)
    with b.if_then(complete):
        put(code, 0, core, "meeting_target", which)
        b.ret(I32(1))
    b.ret(I32(0))


# --- one instruction --------------------------------------------------------------------------------------------------


def emit_try(module: Any) -> None:
    """`i32 sync_try(core, kind, a, b, c)`: execute a synchronisation instruction; 0 when it must wait."""
    code, (core, kind, a, second, _third) = function(module, "sync_try", (PTR, I64, I64, I64, I64))
    b = code.b
    cases: dict[int, Callable[[], Value]] = {
        DO_WAIT: lambda: code.call("sync_wait", I32, [core, a]),
        DO_SET: lambda: code.call("sync_set", I32, [core, a, second]),
        DO_FLAG_SET: lambda: _flag(code, core, a, 1),
        DO_FLAG_WAIT: lambda: _flag(code, core, a, -1),
        DO_LOCK: lambda: b.zext(b.icmp_signed(">=", get(code, core, "released", a), second), I32),
        DO_UNLOCK: lambda: _unlock(code, core, a),
        DO_UNIT_WAIT: lambda: b.zext(b.icmp_signed("==", get(code, core, "unit_flags", a), second), I32),
        DO_UNIT_SET: lambda: _unit_set(code, core, a, second),
        DO_MEET: lambda: code.call("sync_meet", I32, [core, a, second]),
    }
    otherwise = code.block("otherwise")
    choice = b.switch(kind, otherwise)
    for number, emit in cases.items():
        target = code.block(f"kind{number}")
        choice.add_case(I64(number), target)
        b.position_at_end(target)
        b.ret(emit())
    b.position_at_end(otherwise)
    b.ret(I32(1))


def _seen_by_others(code: Code, core: Value, kind: Value) -> None:
    """Note for polling cores that signals moved, or that an op behind a queue ran."""
    b = code.b
    wide = [b.icmp_unsigned("==", kind, I64(k)) for k in (DO_OP, DO_WAIT, DO_SET, DO_MEET)]
    mark = b.or_(b.or_(wide[0], wide[1]), b.or_(wide[2], wide[3]))
    put(code, b.or_(get(code, core, "wrote"), b.zext(mark, I64)), core, "wrote")


def _flag(code: Code, core: Value, index: Value, change: int) -> Value:
    """Set or consume a flag. Pending sets are counted, so a program order that sets twice is never stuck by it."""
    address = code.at(code.at(core, CORE["flags"]), index)
    old = code.load(I8, address)
    allowed = code.b.icmp_unsigned("!=", old, I8(0 if change < 0 else 255))
    new = code.b.add(old, I8(change))
    code.store(code.b.select(allowed, new, old), address)
    return I32(1) if change > 0 else code.b.zext(allowed, I32)


def _unlock(code: Code, core: Value, mutex: Value) -> Value:
    bump(code, core, "released", mutex)
    return I32(1)


def _unit_set(code: Code, core: Value, index: Value, value: Value) -> Value:
    put(code, value, core, "unit_flags", index)
    return I32(1)


# --- queues -----------------------------------------------------------------------------------------------------------


def _queue(code: Code, core: Value, pipe: Value) -> Value:
    """Base address of the ring of one pipe of a core."""
    b = code.b
    number = b.add(b.mul(get(code, core, "slot"), I64(N_PIPES)), pipe)
    offset = b.add(b.mul(number, I64(QUEUE_BYTES)), I64(ARENA_QUEUES))
    return code.at(code.load(PTR, core, CORE["arena"]), offset)


def emit_enqueue(module: Any) -> None:
    """`i32 sync_enqueue(core, pipe, kind, a, b, c, site, record, bytes)`: append; 1 (suspend) when the ring is full."""
    code, args = function(module, "sync_enqueue", (PTR, I64, I64, I64, I64, I64, I64, PTR, I64))
    core, pipe, kind, a, second, third, site, record, size = args
    b = code.b
    need = b.and_(b.add(size, I64(ENTRY + 15)), I64(-16))
    head, tail = get(code, core, "head", pipe), get(code, core, "tail", pipe)
    at = b.and_(tail, I64(QUEUE_BYTES - 1))
    rest = b.sub(I64(QUEUE_BYTES), at)
    wraps = b.icmp_signed("<", rest, need)
    start = b.select(wraps, b.add(tail, rest), tail)
    end = b.add(start, need)
    with b.if_then(b.icmp_signed(">", b.sub(end, head), I64(QUEUE_BYTES))):
        b.ret(I32(SUSPEND))
    ring = _queue(code, core, pipe)
    with b.if_then(wraps):
        filler = code.at(ring, at)
        code.store(rest, filler)
        code.store(I64(WRAP), filler, WORD)
    entry = code.at(ring, b.and_(start, I64(QUEUE_BYTES - 1)))
    for k, value in enumerate((need, kind, a, second, third, site)):
        code.store(value, entry, k * WORD)
    with b.if_then(b.icmp_signed(">", size, I64(0))):
        code.copy_bytes(code.at(entry, ENTRY), record, size)
    put(code, end, core, "tail", pipe)
    bump(code, core, "queued")
    put(code, 1, core, "moved")
    b.ret(I32(GO))


def emit_drain(module: Any) -> None:
    """`void sync_drain(core)`: execute queued instructions until every queue is empty or its head must wait."""
    code, (core,) = function(module, "sync_drain", (PTR,), VOID)
    b = code.b
    progress = code.slot(I64)
    code.store(I64(1), progress)

    def sweep() -> None:
        code.store(I64(0), progress)
        with code.loop(0, N_PIPES) as pipe:
            done = code.call("sync_drain_pipe", I64, [core, pipe])
            code.store(b.or_(code.load(I64, progress), done), progress)

    code.while_(lambda: b.icmp_unsigned("!=", code.load(I64, progress), I64(0)), sweep)
    b.ret_void()


def emit_drain_pipe(module: Any) -> None:
    """`i64 sync_drain_pipe(core, pipe)`: the same for one pipe; 1 when anything was executed."""
    code, (core, pipe) = function(module, "sync_drain_pipe", (PTR, I64), I64)
    b = code.b
    executed = code.slot(I64)
    code.store(I64(0), executed)

    def waiting() -> Value:
        return b.icmp_signed("<", get(code, core, "head", pipe), get(code, core, "tail", pipe))

    def first() -> None:
        head = get(code, core, "head", pipe)
        entry = code.at(_queue(code, core, pipe), b.and_(head, I64(QUEUE_BYTES - 1)))
        size, kind, a, second, third = (code.load(I64, entry, k * WORD) for k in range(5))
        is_op = b.icmp_unsigned("==", kind, I64(DO_OP))
        with b.if_else(is_op) as (run, other):
            with run:
                code.call_address(b.inttoptr(a, PTR), VOID, [core, code.at(entry, ENTRY)])
            with other:
                done = code.call("sync_try", I32, [core, kind, a, second, third])
                with b.if_then(b.icmp_unsigned("==", done, I32(0))):
                    b.ret(code.load(I64, executed))
        _seen_by_others(code, core, kind)
        put(code, b.add(head, size), core, "head", pipe)
        counts = b.select(b.icmp_unsigned("==", kind, I64(WRAP)), I64(0), I64(1))
        put(code, b.sub(get(code, core, "queued"), counts), core, "queued")
        put(code, 1, core, "moved")
        code.store(I64(1), executed)

    code.while_(waiting, first)
    b.ret(code.load(I64, executed))


def emit_do(module: Any) -> None:
    """`i32 sync_do(core, pipe, kind, a, b, c, site)`: execute or queue a synchronisation instruction."""
    code, args = function(module, "sync_do", (PTR, I64, I64, I64, I64, I64, I64))
    core, pipe, kind, a, second, third, site = args
    b = code.b
    attempt = [core, kind, a, second, third]
    is_scalar = b.icmp_unsigned("==", pipe, I64(PipeType.S.value))
    empty = b.icmp_signed("==", get(code, core, "head", pipe), get(code, core, "tail", pipe))
    with b.if_then(empty):
        with b.if_then(b.icmp_unsigned("!=", code.call("sync_try", I32, attempt), I32(0))):
            _passed(code, core, kind)
        with b.if_then(is_scalar):
            code.call("sync_drain", VOID, [core])
            with b.if_then(b.icmp_unsigned("!=", code.call("sync_try", I32, attempt), I32(0))):
                _passed(code, core, kind)
            put(code, site, core, "site")
            b.ret(I32(SUSPEND))
        # the first visit gives way to other cores; only a block that cannot go on otherwise runs ahead
        first = b.icmp_signed("!=", get(code, core, "retry"), b.add(site, I64(1)))
        with b.if_then(b.or_(first, b.not_(_may_run_ahead(code, core)))):
            put(code, b.add(site, I64(1)), core, "retry")
            put(code, site, core, "site")
            b.ret(I32(SUSPEND))
    put(code, 0, core, "retry")
    null = ir.Constant(PTR, None)
    b.ret(code.call("sync_enqueue", I32, [core, pipe, kind, a, second, third, site, null, I64(0)]))


def _passed(code: Code, core: Value, kind: Value) -> None:
    _seen_by_others(code, core, kind)
    put(code, 0, core, "retry")
    put(code, 1, core, "moved")
    code.b.ret(I32(GO))


def _may_run_ahead(code: Code, core: Value) -> Value:
    launch, unit = code.load(PTR, core, CORE["launch"]), code.load(PTR, core, CORE["unit"])
    both = code.b.or_(get(code, launch, "run_ahead", layout=LAUNCH), get(code, unit, "run_ahead", layout=UNIT))
    return code.b.icmp_unsigned("!=", both, I64(0))


def emit_issue(module: Any) -> None:
    """`i32 sync_issue(core, pipe, function, record, bytes, site)`: call an op, or queue it behind its pipe."""
    code, (core, pipe, address, record, size, site) = function(module, "sync_issue", (PTR, I64, PTR, PTR, I64, I64))
    b = code.b
    empty = b.icmp_signed("==", get(code, core, "head", pipe), get(code, core, "tail", pipe))
    with b.if_then(empty):
        code.call_address(address, VOID, [core, record])
        b.ret(I32(GO))
    where = b.ptrtoint(address, I64)
    zero = I64(0)
    b.ret(code.call("sync_enqueue", I32, [core, pipe, I64(DO_OP), where, zero, zero, site, record, size]))


def emit_lock(module: Any) -> None:
    """`i32 sync_lock(core, pipe, mutex, site)`: take a ticket and wait for it on the pipe.

    A suspended lock keeps its ticket: it is taken on the first call only (`retry` tells).
    """
    code, (core, pipe, mutex, site) = function(module, "sync_lock", (PTR, I64, I64, I64))
    b = code.b
    index = b.and_(mutex, I64(31))
    again = b.icmp_signed("==", get(code, core, "retry"), b.add(site, I64(1)))
    next_ticket = get(code, core, "tickets", index)
    ticket = b.select(again, b.sub(next_ticket, I64(1)), next_ticket)
    put(code, b.add(ticket, I64(1)), core, "tickets", index)
    zero = I64(0)
    result = code.call("sync_do", I32, [core, pipe, I64(DO_LOCK), index, ticket, zero, site])
    with b.if_then(b.icmp_unsigned("!=", result, I32(GO))):
        put(code, b.add(site, I64(1)), core, "retry")  # also when a full queue suspended it
    b.ret(result)


def emit_barrier(module: Any) -> None:
    """`i32 sync_barrier(core)`: wait until every queue of the core is empty."""
    code, (core,) = function(module, "sync_barrier", (PTR,))
    b = code.b
    with b.if_then(b.icmp_signed(">", get(code, core, "queued"), I64(0))):
        code.call("sync_drain", VOID, [core])
        with b.if_then(b.icmp_signed(">", get(code, core, "queued"), I64(0))):
            put(code, -1, core, "site")
            b.ret(I32(SUSPEND))
    b.ret(I32(GO))


def emit_idle(module: Any) -> None:
    """`i32 sync_idle(core, pipe)`: wait until the queue of one pipe is empty."""
    code, (core, pipe) = function(module, "sync_idle", (PTR, I64))
    b = code.b

    def busy() -> Value:
        return b.icmp_signed("!=", get(code, core, "head", pipe), get(code, core, "tail", pipe))

    with b.if_then(busy()):
        code.call("sync_drain", VOID, [core])
        with b.if_then(busy()):
            put(code, -1, core, "site")
            b.ret(I32(SUSPEND))
    b.ret(I32(GO))


def emit_all(module: Any) -> None:
    """Every function of this file."""
    for emit in (
        emit_room, emit_wait, emit_set, emit_meet, emit_try, emit_enqueue, emit_drain_pipe, emit_drain, emit_do,
        emit_issue, emit_lock, emit_barrier, emit_idle,
    ):  # fmt: skip
        emit(module)


def flag_index(code: Code, set_pipe: PipeType, wait_pipe: PipeType, event: Value) -> Value:
    """Position of a flag in the core's table."""
    base = (set_pipe.value * N_PIPES + wait_pipe.value) * IDS
    return code.b.add(code.b.and_(event, I64(IDS - 1)), I64(base))


