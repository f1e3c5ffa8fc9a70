"""What a launch hands an executor: one value a kernel parameter, and the number of blocks.

Both executors take `Launch`; who makes it has checked it against the kernel's parameters (dtype, rank, shape, strides).
Buffers belong to the caller and stay alive for the call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class BufferValue:
    """A tensor or pointer argument: host address and size in bytes of the memory behind it, extents in elements.

    `dims` is empty for pointers. Address 0 is the null pointer (`None`), with size 0 and zero extents.
    """

    address: int
    size_bytes: int
    dims: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TilingValue:
    """A serialised TilingData argument, laid out as C lays out the struct."""

    data: bytes


ArgValue: TypeAlias = BufferValue | TilingValue | bool | int | float


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of a kernel: arguments in parameter order."""

    args: tuple[ArgValue, ...]
    block_dim: int = 1
