"""Operands that leave their memory, in words: the executors warn alike."""

from __future__ import annotations

from dataclasses import dataclass

from pypto_pro.ops.entry import Effect
from pypto_pro.ops.operands import TileArg

FARTHEST = 1 << 28
"""Bytes from the start of a memory space up to which an op that leaves it is still carried out, on a longer copy."""
OUTSIDE = "; reads there give zero, writes are dropped"


class OutOfBoundsWarning(RuntimeWarning):
    """Bytes past a tensor or an on-chip memory: reads gave zero, writes were dropped, or the op was left out."""


@dataclass(frozen=True, slots=True)
class Overrun:
    """An operand that leaves its memory: bytes `[low, high)` of `[0, limit)`, counted from the buffer or space."""

    operand: str
    name: str
    effect: Effect
    low: int
    high: int
    limit: int
    space: str


def too_large(operand: str, name: str, tile: TileArg, limit: int, space: str) -> Overrun | None:
    """What there is to say of a tile whose valid extents no memory of `limit` bytes could hold."""
    size = tile.vr * tile.vc * tile.type.dtype.bits() // 8
    if size <= limit:
        return None
    return Overrun(operand, name, Effect.READ, tile.addr, tile.addr + size, limit, space)


def describe(overrun: Overrun) -> str:
    """What happened, as a clause that follows the op's name."""
    verb = "writes" if overrun.effect.changes else "reads"
    of = f" of `{overrun.name}`" if overrun.name else ""
    where = "its memory" if overrun.space == "GM" else overrun.space
    return f"{verb} bytes {overrun.low}..{overrun.high}{of}, past the end of {where} (0..{overrun.limit})"


def warning_text(op: str, overrun: Overrun) -> str:
    """What a run without checks says of it."""
    return f"`{op}` {describe(overrun)}{OUTSIDE}"
