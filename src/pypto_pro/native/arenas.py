"""On-chip memories of blocks, kept from one launch to the next: their pages have appeared already."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pypto_pro.native.frames import ARENA_BYTES, WORD

Words = NDArray[np.int64]
MOST = 64
_free: list[Words] = []


def take() -> Words:
    """The memory of one block, from the free ones or new (pages appear when touched)."""
    try:
        return _free.pop()
    except IndexError:
        return np.zeros(ARENA_BYTES // WORD, np.int64)


def give(used: Sequence[Words]) -> None:
    """Back to the free ones, up to `MOST`."""
    _free.extend(used[: max(0, MOST - len(_free))])
