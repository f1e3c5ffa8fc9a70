"""What a space can hold: capacity with its source, and alignment. `Chip` is the A5 with the caller's overrides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from pypto_pro.enums import MemorySpace
from pypto_pro.hw.a5 import SPACES

SPACE_ORDER = (
    MemorySpace.Vec,
    MemorySpace.Mat,
    MemorySpace.Left,
    MemorySpace.Right,
    MemorySpace.Acc,
    MemorySpace.ScaleLeft,
    MemorySpace.ScaleRight,
    MemorySpace.Scaling,
    MemorySpace.Bias,
)
"""Order of the spaces in every output."""


class Source(StrEnum):
    """Where a capacity comes from."""

    PROBED = "probed"
    GIVEN = "given"
    SNAPSHOT = "snapshot"


@dataclass(frozen=True)
class Limits:
    """Capacity in bytes (None: unknown) with its source, and alignment in bytes (1: not enforced)."""

    capacity: int | None
    alignment: int
    source: Source


class Chip:
    """Limits of every space. `given` replaces capacities, in bytes; `probed` are those a device answered."""

    arch = "a5"

    def __init__(
        self, given: Mapping[MemorySpace, int] | None = None, probed: Mapping[MemorySpace, int] | None = None
    ) -> None:
        given, probed = given or {}, probed or {}
        self._limits: dict[MemorySpace, Limits] = {}
        for space in SPACE_ORDER:
            facts = SPACES[space]
            # the size of the fixpipe buffer is a fact of the product: the report never assumes the default
            known = None if space is MemorySpace.Scaling else facts.capacity
            if space in given:
                limits = Limits(given[space], facts.alignment, Source.GIVEN)
            elif space in probed:
                limits = Limits(probed[space], facts.alignment, Source.PROBED)
            else:
                limits = Limits(known, facts.alignment, Source.SNAPSHOT)
            self._limits[space] = limits

    def __getitem__(self, space: MemorySpace) -> Limits:
        return self._limits[space]
