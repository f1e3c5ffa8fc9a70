"""Generated functions of vector functions: unaligned streams, and the search for a post-update cursor."""

from __future__ import annotations

from typing import Any

import llvmlite.ir as ir

from pypto_pro.enums import MemorySpace
from pypto_pro.native.emit import I64, PTR, VOID, Code, Value
from pypto_pro.native.frames import WORD, capacity
from pypto_pro.native.sync_code import function
from pypto_pro.native.vector_cursors import ENTRY_BYTES

UB_BYTES = capacity(MemorySpace.Vec)
BLOCK = 32
COUNT, BYTES = WORD, 2 * WORD  # of a staging register: address, number of bytes, bytes


def _place(code: Code, space: Value, address: Value) -> Value:
    """Host address in UB; past its end lie reserved bytes that nobody looks at."""
    return code.at(space, code.intrinsic("umin", address, I64(UB_BYTES)))


def emit_append(module: Any) -> None:
    """`void vf_append(ub, address, data, size, staging)`: whole 32-byte blocks to UB, the rest into the register.

    Bytes that wait for another address are dropped: their stream was not flushed.
    """
    code, (space, address, data, size, staging) = function(module, "vf_append", (PTR, I64, PTR, I64, PTR), VOID)
    b = code.b
    held = code.load(I64, staging, COUNT)
    continues = b.icmp_signed("==", b.add(code.load(I64, staging), held), address)
    waiting = b.select(continues, held, I64(0))
    begin = b.sub(address, waiting)
    end = b.add(address, size)
    boundary = b.and_(end, I64(-BLOCK))
    reaches = b.icmp_signed(">", boundary, begin)
    start = b.select(reaches, boundary, begin)  # of what waits afterwards
    with b.if_then(reaches):
        code.copy_bytes(_place(code, space, begin), code.at(staging, BYTES), waiting)
        taken = b.sub(boundary, address)
        code.copy_bytes(_place(code, space, address), data, taken)
    used = b.select(reaches, b.sub(boundary, address), I64(0))
    kept = b.select(reaches, I64(0), waiting)
    code.copy_bytes(code.at(code.at(staging, BYTES), kept), code.at(data, used), b.sub(size, used))
    code.store(start, staging)
    code.store(b.sub(end, start), staging, COUNT)
    b.ret_void()


def emit_flush(module: Any) -> None:
    """`void vf_flush(ub, staging)`: the waiting bytes to UB."""
    code, (space, staging) = function(module, "vf_flush", (PTR, PTR), VOID)
    place = _place(code, space, code.load(I64, staging))
    code.copy_bytes(place, code.at(staging, BYTES), code.load(I64, staging, COUNT))
    code.store(I64(0), staging, COUNT)
    code.b.ret_void()


def emit_cursor(module: Any) -> None:
    """`ptr vf_cursor(table, root, shift)`: the cursor of a tile expression, made when first asked for."""
    code, (table, root, shift) = function(module, "vf_cursor", (PTR, I64, I64), PTR)
    b = code.b
    count = code.load(I64, table)
    entries = code.load(PTR, table, 2 * WORD)
    with code.loop(0, count) as k:
        entry = code.at(entries, b.mul(b.sub(b.sub(count, I64(1)), k), I64(ENTRY_BYTES)))  # the newest first
        same = b.and_(
            b.icmp_signed("==", code.load(I64, entry), root), b.icmp_signed("==", code.load(I64, entry, WORD), shift)
        )
        with b.if_then(same):
            b.ret(code.at(entry, 2 * WORD))
    full = b.icmp_signed("==", count, code.load(I64, table, WORD))
    with b.if_then(full):
        room = b.add(b.mul(count, I64(2)), I64(16))
        grown = code.call("realloc", PTR, [entries, b.mul(room, I64(ENTRY_BYTES))])
        code.store(room, table, WORD)
        code.store(grown, table, 2 * WORD)
    entry = code.at(code.load(PTR, table, 2 * WORD), b.mul(count, I64(ENTRY_BYTES)))
    for at, word in ((0, root), (WORD, shift), (2 * WORD, I64(0))):
        code.store(word, entry, at)
    code.store(b.add(count, I64(1)), table)
    b.ret(code.at(entry, 2 * WORD))


def emit_all(module: ir.Module) -> None:
    """Every function."""
    for emit in (emit_append, emit_flush, emit_cursor):
        emit(module)


NAMES = ("vf_append", "vf_flush", "vf_cursor")
