"""Ops of the scalar unit that act on its own state instead of operand bytes: caches, SSBUF, special registers.

As functions (program code, operands by name) that emit inline code. Native memory is coherent between cores, so cache
maintenance is nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pypto_pro.dtypes import DataType
from pypto_pro.hw.a5 import SSBUF_BYTES
from pypto_pro.ir.structs import layout_of
from pypto_pro.native.emit import I64, PTR, Value
from pypto_pro.native.frames import ARENA_SSBUF, CORE
from pypto_pro.ops.entry import Service

if TYPE_CHECKING:
    from pypto_pro.native.program import CoreProgram

Emit = Callable[["CoreProgram", dict[str, Any]], None]


def _nothing(program: CoreProgram, given: dict[str, Any]) -> None:
    """No effect that native code could show."""


def _mode(value: int) -> Emit:
    def emit(program: CoreProgram, given: dict[str, Any]) -> None:
        program.code.store(I64(value), program.core, CORE["mask_count_mode"])

    return emit


def _set_vec_mask(program: CoreProgram, given: dict[str, Any]) -> None:
    """Both halves of the mask register."""
    for name in ("mask_high", "mask_low"):
        program.code.store(given[name].to(DataType.DT_INDEX).value, program.core, CORE[name])


def _reset_mask(program: CoreProgram, given: dict[str, Any]) -> None:
    """All ones; the mode stays."""
    for name in ("mask_high", "mask_low"):
        program.code.store(I64(-1), program.core, CORE[name])


def _ssbuf(program: CoreProgram, given: dict[str, Any], store: bool) -> None:
    """Whole words of a struct to or from the block's SSBUF; outside the buffer nothing is moved."""
    code, struct = program.code, given["struct_var"]
    size = layout_of(struct.type).size // 4 * 4
    offset: Value = given["offset"].to(DataType.DT_INDEX).value
    arena = code.load(PTR, program.core, CORE["arena"])
    inside = code.b.icmp_unsigned("<=", offset, I64(max(0, SSBUF_BYTES - size)))
    if size > SSBUF_BYTES:
        return
    with code.b.if_then(inside):
        place = code.at(code.at(arena, ARENA_SSBUF), offset)
        target, source = (place, struct.address) if store else (struct.address, place)
        code.copy_bytes(target, source, size)
    if store:
        program.mark_writes(wrote=True)


SERVICES: dict[Service, Emit] = {
    Service.CLEAN_CACHE: _nothing,
    Service.STORE_SSBUF: lambda program, given: _ssbuf(program, given, store=True),
    Service.LOAD_SSBUF: lambda program, given: _ssbuf(program, given, store=False),
    Service.COUNT_MASK: _mode(1),
    Service.NORMAL_MASK: _mode(0),
    Service.SET_MASK: _set_vec_mask,
    Service.RESET_MASK: _reset_mask,
    Service.ORDER_READ_OUT: _nothing,
}
