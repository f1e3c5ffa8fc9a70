"""Ops of the scalar unit that act on its own state instead of operand bytes: caches, SSBUF, special registers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pypto_pro.enums import CacheLine
from pypto_pro.hw.a5 import SSBUF_BYTES
from pypto_pro.interp.memory import SimTensor
from pypto_pro.interp.sites import Site
from pypto_pro.interp.structs import StructRef
from pypto_pro.ops.entry import Effect, Service
from pypto_pro.ops.overrun import Overrun

if TYPE_CHECKING:
    from pypto_pro.interp.machine import Instr

_ALL_ONES = (1 << 64) - 1


@dataclass(slots=True, eq=False)
class ServiceSite(Site):
    """A use of a service; `names` are its operands', `attrs` its keywords."""

    service: Callable[[Instr, dict[str, Any]], Any] = field(kw_only=True)
    names: tuple[str, ...] = field(kw_only=True)
    attrs: dict[str, Any] = field(kw_only=True)

    def serve(self, instr: Instr) -> Any:
        """Carry it out."""
        return self.service(instr, {**dict(zip(self.names, instr.args, strict=True)), **self.attrs})


def dcci(instr: Instr, given: dict[str, Any]) -> None:
    """Write back and drop one line or the whole data cache. UB is not cached, so a tile needs nothing."""
    target, offset = given["target"], given.get("offset")
    if not isinstance(target, SimTensor):
        return
    if given.get("cache_line") is not CacheLine.SINGLE_CACHE_LINE:
        instr.core.cache.clean(instr, target, None)
        return
    if isinstance(offset, tuple):
        element = sum(o * s for o, s in zip(offset, target.strides, strict=True))
    else:
        element = offset or 0
    instr.core.cache.clean(instr, target, target.base + element * target.type.dtype.nbytes)


def _ssbuf_range(instr: Instr, given: dict[str, Any], effect: Effect) -> tuple[StructRef, int, int]:
    """The struct, the buffer offset, and how many bytes of whole words fit."""
    struct, offset = given["struct_var"], given["offset"]
    size = len(struct.pack()) // 4 * 4
    if not 0 <= offset <= SSBUF_BYTES - size:
        overrun = Overrun("struct_var", struct.type.name, effect, offset, offset + size, SSBUF_BYTES, "SSBUF")
        instr.core.machine.engine.overran(instr, overrun, instr.site)
        return struct, 0, 0
    return struct, offset, size


def ssbuf_store(instr: Instr, given: dict[str, Any]) -> None:
    """Words of a struct into the block's SSBUF."""
    struct, offset, size = _ssbuf_range(instr, given, Effect.WRITE)
    instr.core.ssbuf[offset : offset + size] = struct.pack()[:size]
    instr.core.machine.engine.changes += 1
    instr.core.machine.engine.heard += 1


def ssbuf_load(instr: Instr, given: dict[str, Any]) -> None:
    """Words of the block's SSBUF into a struct; bytes past the last whole word stay."""
    struct, offset, size = _ssbuf_range(instr, given, Effect.READ)
    struct.unpack(bytes(instr.core.ssbuf[offset : offset + size]) + struct.pack()[size:])


def set_mask_count(instr: Instr, given: dict[str, Any]) -> None:
    """The mask register holds an element count."""
    instr.core.vector_state.count_mode = True


def set_mask_norm(instr: Instr, given: dict[str, Any]) -> None:
    """The mask register holds one bit an element."""
    instr.core.vector_state.count_mode = False


def set_vec_mask(instr: Instr, given: dict[str, Any]) -> None:
    """Both halves of the mask register, the high one first."""
    state = instr.core.vector_state
    state.mask_high, state.mask_low = given["mask_high"] & _ALL_ONES, given["mask_low"] & _ALL_ONES


def reset_mask(instr: Instr, given: dict[str, Any]) -> None:
    """All ones; the mode stays."""
    state = instr.core.vector_state
    state.mask_high = state.mask_low = _ALL_ONES


def set_mm_layout_transform(instr: Instr, given: dict[str, Any]) -> None:
    """The order in which the accumulator is read out; never changes values."""


SERVICES: dict[Service, Callable[[Instr, dict[str, Any]], Any]] = {
    Service.CLEAN_CACHE: dcci,
    Service.STORE_SSBUF: ssbuf_store,
    Service.LOAD_SSBUF: ssbuf_load,
    Service.COUNT_MASK: set_mask_count,
    Service.NORMAL_MASK: set_mask_norm,
    Service.SET_MASK: set_vec_mask,
    Service.RESET_MASK: reset_mask,
    Service.ORDER_READ_OUT: set_mm_layout_transform,
}
