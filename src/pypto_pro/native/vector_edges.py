"""Generated functions for register accesses that reach past UB: bytes outside read as zero and are not written."""

from __future__ import annotations

from typing import Any

from pypto_pro.enums import MemorySpace
from pypto_pro.native.emit import I8, I64, PTR, VOID, Code, Value
from pypto_pro.native.frames import CORE, capacity
from pypto_pro.native.sync_code import function

UB_BYTES = capacity(MemorySpace.Vec)


def _each_byte_inside(code: Code, address: Value, size: Value, body: Any) -> None:
    """`body(index, address of the byte)` for the bytes inside UB."""
    with code.loop(0, size) as k:
        place = code.b.add(address, k)
        with code.b.if_then(code.b.icmp_unsigned("<", place, I64(UB_BYTES))):
            body(k, place)


def emit_edge_load(module: Any) -> None:
    """`void vf_edge_load(core, address, size, target)`."""
    code, (core, address, size, target) = function(module, "vf_edge_load", (PTR, I64, I64, PTR), VOID)
    space = code.load(PTR, core, CORE["ub"])
    code.fill_bytes(target, 0, size)
    _each_byte_inside(
        code, address, size, lambda k, place: code.store(code.load(I8, code.at(space, place)), code.at(target, k))
    )
    code.b.ret_void()


def emit_edge_store(module: Any) -> None:
    """`void vf_edge_store(core, address, size, bytes, mask)`: the bytes whose mask byte is not 0."""
    code, (core, address, size, source, mask) = function(module, "vf_edge_store", (PTR, I64, I64, PTR, PTR), VOID)
    space = code.load(PTR, core, CORE["ub"])

    def put(k: Value, place: Value) -> None:
        active = code.b.icmp_unsigned("!=", code.load(I8, code.at(mask, k)), I8(0))
        with code.b.if_then(active):
            code.store(code.load(I8, code.at(source, k)), code.at(space, place))

    _each_byte_inside(code, address, size, put)
    code.b.ret_void()
