"""Ops of the scalar unit on state of its own: data cache, SSBUF messages, the matrix unit's read-out order.

They move no operand bytes: the executors carry out their `Service`, so their meanings here do nothing.
"""

from __future__ import annotations

from typing import Annotated, Any

from pypto_pro.enums import CacheLine, DcciDst, MemorySpace, PipeType
from pypto_pro.hw.a5 import SSBUF_BYTES
from pypto_pro.ops.builder import Builder
from pypto_pro.ops.entry import Access, Keyword, Kind, Operand, Role, Section, Service, defop
from pypto_pro.ops.operands import ScalarIn, ScalarInfo, TensorInfo, TileArg, TileInfo
from pypto_pro.ops.tensors import TensorArg

CacheTarget = Annotated[
    TileArg | TensorArg, Operand(frozenset({Kind.TILE, Kind.TENSOR}), Role.IN, (MemorySpace.Vec,))
]
CacheOffset = Annotated[Any, Operand(frozenset({Kind.SCALAR, Kind.OFFSETS}), Role.IN)]
LineAttr = Annotated[CacheLine, Keyword(enum=CacheLine)]
TargetAttr = Annotated[DcciDst, Keyword(enum=DcciDst)]
StructIn = Annotated[Any, Operand(frozenset({Kind.STRUCT}), Role.IN)]
StructOut = Annotated[Any, Operand(frozenset({Kind.STRUCT}), Role.OUT)]
Enabled = Annotated[bool, Keyword((bool,))]


def _section(target: Any, **_: Any) -> Section:
    return Section.VECTOR if hasattr(target.type, "target_memory") else Section.BOTH


@defop(
    "pl.system.dcci", pipe=PipeType.S, section=_section, family="cache", service=Service.CLEAN_CACHE, type_errors=True
)
def dcci(
    target: CacheTarget, offset: CacheOffset = None, *, cache_line: LineAttr = CacheLine.ENTIRE_DATA_CACHE,
    dst: TargetAttr = DcciDst.AUTO,
) -> None:
    """Write back and drop scalar data cache lines: the 64-byte line holding target + offset, or the whole cache.

    `offset`: linear in elements, or one per tensor axis. Needed between scalar accesses to GM and those of others.
    """


@dcci.rules
def _(target: TileInfo | TensorInfo, offset: Any, cache_line: CacheLine, dst: DcciDst) -> None:
    if isinstance(offset, tuple):
        if isinstance(target, TileInfo):
            raise TypeError(f"`{target.name}` is a tile, whose offset is one linear number")
        rank = len(target.type.dims)
        if len(offset) != rank:
            raise ValueError(f"`{target.name}` has {rank} axes, found {len(offset)} offsets")
    for number in offset if isinstance(offset, tuple) else (offset,):
        if isinstance(number, ScalarInfo) and number.type.dtype.is_float():
            raise TypeError(f"an offset is an integer, found {number.type.dtype.name}")


@dcci.regions
def _(target: Any, **_: Any) -> list[Access]:
    return []


@defop(
    "pl.ssbuf_store", pipe=PipeType.S, section=Section.BOTH, family="move.ssbuf", service=Service.STORE_SSBUF,
    type_errors=True,
)  # fmt: skip
def ssbuf_store(struct_var: StructIn, offset: ScalarIn) -> None:
    """Copy the whole 32-bit words of a struct to byte `offset` of the block's shared scalar buffer."""


@defop(
    "pl.ssbuf_load", pipe=PipeType.S, section=Section.BOTH, family="move.ssbuf", service=Service.LOAD_SSBUF,
    type_errors=True,
)  # fmt: skip
def ssbuf_load(struct_var: StructOut, offset: ScalarIn) -> None:
    """Fill the whole 32-bit words of a struct from byte `offset` of the block's shared scalar buffer."""


def _check_place(struct_var: Any, offset: ScalarInfo) -> None:
    """A known offset is a multiple of 4 inside the buffer: ValueError, IndexError."""
    if not offset.type.dtype.is_int():
        raise TypeError(f"the SSBUF offset is an integer of bytes, found {offset.type.dtype.name}")
    at = offset.value
    if at is None:
        return
    if at % 4:
        raise ValueError(f"SSBUF holds 32-bit words: the offset {at} is not a multiple of 4")
    if not 0 <= at < SSBUF_BYTES:
        raise IndexError(f"the SSBUF offset {at} is outside 0..{SSBUF_BYTES}")


ssbuf_store.rules(_check_place)
ssbuf_load.rules(_check_place)


@defop(
    "pl.system.set_mm_layout_transform", pipe=PipeType.S, section=Section.CUBE, family="cube.mode",
    service=Service.ORDER_READ_OUT,
)  # fmt: skip
def set_mm_layout_transform(*, enabled: Enabled) -> None:
    """Whether the matrix unit produces, and the exit drains, Acc along N. Never changes a value or an address."""


for _entry in (dcci, ssbuf_store, ssbuf_load, set_mm_layout_transform):

    @_entry.lower
    def _(k: Builder, **_: Any) -> None:
        """The executor's inline code does it."""
