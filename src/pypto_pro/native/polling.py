"""When a polling core can be sure that it polls for ever: its state came back while nothing it could hear of changed.

A program that polls gives way at the back edge of its loop, where `sync_poll` looks. The core's state is its frame (all
variables), its special registers, flags, mutexes and queues, and its own memory spaces. The launch's epoch counts what
others could notice: stores to GM or to another core's memory, signals, meetings. When a state returns at an unchanged
epoch the same steps will follow again, whatever others do that does not move the epoch: such a core is `cycling`. It
counts as unable to go on until the epoch moves. A launch in which every core is finished, blocked or cycling is stuck,
exactly; a loop that counts never comes back to a state.

The reference a state is compared with moves at doubling distances (Brent), so that cycles of any length are met. Spaces
are compared with a copy only when the rest is equal and the core wrote to them.
"""

from __future__ import annotations

from typing import Any

from pypto_pro.enums import MemorySpace
from pypto_pro.hw.a5 import UB_PHYSICAL_BYTES
from pypto_pro.native.emit import I32, I64, PTR, VOID, Code, Value
from pypto_pro.native.frames import (
    ARENA,
    ARENA_SHADOW,
    ARENA_SSBUF,
    CORE,
    FLAG_WORDS,
    LAUNCH,
    MUTEXES,
    N_PIPES,
    N_UNIT_FLAGS,
    STATE_WORDS,
    WORD,
)
from pypto_pro.native.sync_code import function, get, put, word

REGISTERS = ("spr", "mask_count_mode", "mask_high", "mask_low")
LOOKS = 16
"""Trips of a scalar loop looked at one after the other: cycles of up to half as many trips are met."""


def emit_note(module: Any) -> None:
    """`void poll_note(core, state)`: write what else than frame and memory steers the program into an array.

    Only differences of mutex tickets matter, and of an empty queue only that it is empty.
    """
    code, (core, state) = function(module, "poll_note", (PTR, PTR), VOID)
    b = code.b
    for k, name in enumerate(REGISTERS):
        code.store(get(code, core, name), state, k * WORD)
    at = len(REGISTERS) * WORD
    code.copy_bytes(code.at(state, at), word(core, "flags", code), FLAG_WORDS * WORD)
    at += FLAG_WORDS * WORD
    with code.loop(0, MUTEXES) as k:
        held = b.sub(get(code, core, "tickets", k), get(code, core, "released", k))
        code.store(held, code.at(state, b.add(b.mul(k, I64(WORD)), I64(at))))
    at += MUTEXES * WORD
    code.copy_bytes(code.at(state, at), word(core, "unit_flags", code), N_UNIT_FLAGS * WORD)
    at += N_UNIT_FLAGS * WORD
    with code.loop(0, N_PIPES) as pipe:
        head, tail = get(code, core, "head", pipe), get(code, core, "tail", pipe)
        empty = b.icmp_signed("==", head, tail)
        place = code.at(state, b.add(b.mul(pipe, I64(2 * WORD)), I64(at)))
        code.store(b.select(empty, I64(0), head), place)
        code.store(b.select(empty, I64(0), tail), place, WORD)
    b.ret_void()


def _spaces(code: Code, core: Value) -> tuple[Value, Value, Value]:
    """(address, address of the copy, bytes) of the spaces only this core's programs write."""
    b = code.b
    arena, ub = code.load(PTR, core, CORE["arena"]), code.load(PTR, core, CORE["ub"])
    vector = b.icmp_unsigned("!=", get(code, core, "kind"), I64(0))
    first = ARENA[MemorySpace.Mat]
    start = b.select(vector, ub, code.at(arena, first))
    return start, code.at(start, ARENA_SHADOW), b.select(vector, I64(UB_PHYSICAL_BYTES), I64(ARENA_SSBUF - first))


def emit_take(module: Any) -> None:
    """`void poll_take(core, frame bytes)`: the core's present state becomes the reference."""
    code, (core, size) = function(module, "poll_take", (PTR, I64), VOID)
    b = code.b
    code.copy_bytes(code.load(PTR, core, CORE["snapshot"]), code.load(PTR, core, CORE["frame"]), size)
    code.call("poll_note", VOID, [core, word(core, "ref_state", code)])
    touched = get(code, core, "touched")
    with b.if_then(b.icmp_unsigned("!=", touched, I64(0))):
        start, copy, count = _spaces(code, core)
        code.copy_bytes(copy, start, count)
    put(code, touched, core, "copied")
    put(code, 0, core, "touched")
    put(code, 0, core, "rounds")
    b.ret_void()


def emit_same(module: Any) -> None:
    """`i32 poll_same(core, frame bytes)`: 1 when the state is the reference; 2 when memory had to be compared, but
    there is no copy of it."""
    code, (core, size) = function(module, "poll_same", (PTR, I64))
    b = code.b
    frame, old = code.load(PTR, core, CORE["frame"]), code.load(PTR, core, CORE["snapshot"])
    with b.if_then(b.icmp_unsigned("!=", code.call("memcmp", I32, [frame, old, size]), I32(0))):
        b.ret(I32(0))
    state, before = word(core, "state", code), word(core, "ref_state", code)
    code.call("poll_note", VOID, [core, state])
    differs = code.call("memcmp", I32, [state, before, I64(STATE_WORDS * WORD)])
    with b.if_then(b.icmp_unsigned("!=", differs, I32(0))):
        b.ret(I32(0))
    with b.if_then(b.icmp_unsigned("!=", get(code, core, "touched"), I64(0))):
        with b.if_then(b.icmp_unsigned("==", get(code, core, "copied"), I64(0))):
            b.ret(I32(2))
        start, copy, count = _spaces(code, core)
        differs = code.call("memcmp", I32, [start, copy, count])
        b.ret(b.zext(b.icmp_unsigned("==", differs, I32(0)), I32))
    b.ret(I32(1))


def emit_poll(module: Any) -> None:
    """`void sync_poll(core, frame bytes, site)`: called where a polling loop goes round; does it cycle?"""
    code, (core, size, site) = function(module, "sync_poll", (PTR, I64, I64), VOID)
    b = code.b
    put(code, site, core, "site")
    with b.if_then(b.icmp_unsigned("!=", get(code, core, "wrote"), I64(0))):
        put(code, -1, core, "ref_stamp")  # the epoch moves when this turn ends
        put(code, 1, core, "moved")
        b.ret_void()
    launch = code.load(PTR, core, CORE["launch"])
    epoch = code.load_atomic(word(launch, "epoch", code, 0, LAUNCH))
    with b.if_then(b.icmp_signed("!=", get(code, core, "ref_stamp"), epoch)):
        put(code, epoch, core, "ref_stamp")
        put(code, 1, core, "round_limit")
        _take(code, core, size)
    same = code.call("poll_same", I32, [core, size])
    with b.if_then(b.icmp_unsigned("==", same, I32(1))):
        put(code, epoch, core, "cycle_stamp")
        b.ret_void()
    with b.if_then(b.icmp_unsigned("==", same, I32(2))):
        _take(code, core, size)
    rounds, limit = b.add(get(code, core, "rounds"), I64(1)), get(code, core, "round_limit")
    put(code, rounds, core, "rounds")
    with b.if_then(b.icmp_signed(">=", rounds, limit)):
        put(code, b.mul(limit, I64(2)), core, "round_limit")
        _take(code, core, size)
    put(code, 1, core, "moved")
    b.ret_void()


def _take(code: Code, core: Value, size: Value) -> None:
    code.call("poll_take", VOID, [core, size])
    put(code, 1, core, "moved")
    code.b.ret_void()


def emit_endless(module: Any) -> None:
    """`i32 sync_endless(core, now, reference, bytes, looks*)`: 1 when the variables of a scalar loop came back.

    Called now and then at the back edge; asks to be called again at the next trip until it has looked often enough.
    """
    code, (core, now, reference, size, looks) = function(module, "sync_endless", (PTR, PTR, PTR, I64, PTR))
    b = code.b
    number = code.load(I64, looks)
    fresh = b.icmp_signed("==", number, I64(0))
    differs = b.icmp_unsigned("!=", code.call("memcmp", I32, [now, reference, size]), I32(0))
    with b.if_then(b.not_(b.or_(fresh, differs))):
        b.ret(I32(1))
    power = b.icmp_unsigned("==", b.and_(number, b.sub(number, I64(1))), I64(0))
    with b.if_then(power):
        code.copy_bytes(reference, now, size)
    again = b.icmp_signed("<", number, I64(LOOKS))
    code.store(b.select(again, b.add(number, I64(1)), I64(0)), looks)
    put(code, b.select(again, I64(0), get(code, core, "budget")), core, "budget")
    b.ret(I32(0))


def emit_cycling(code: Code, core: Value, epoch: Value) -> Value:
    """i1: nothing has happened since the core was found to repeat itself."""
    return code.b.icmp_signed("==", get(code, core, "cycle_stamp"), epoch)


def emit_heard(code: Code, launch: Value, core: Value) -> Value:
    """After a core's turn: when others poll, move the epoch if the core did something they may notice; the epoch."""
    b = code.b
    epoch = word(launch, "epoch", code, 0, LAUNCH)
    wrote = b.and_(get(code, core, "wrote"), get(code, launch, "polls", layout=LAUNCH))
    put(code, 0, core, "wrote")
    with b.if_then(b.icmp_unsigned("!=", wrote, I64(0))):
        code.add_atomic(1, epoch)
    return code.load_atomic(epoch)


def emit_all(module: Any) -> None:
    """Every function of this file."""
    for emit in (emit_note, emit_take, emit_same, emit_poll, emit_endless):
        emit(module)
