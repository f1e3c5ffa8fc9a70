"""Distributions of register loads and stores (vector-function 7.1 - 7.3): bytes moved, alignment, which lane gets what.

Widths: B is the element width a distribution works on, by its suffix or by the dtype of the register.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pypto_pro.enums import LoadDist, StoreDist
from pypto_pro.hw.a5 import REGISTER_BYTES

ALIGNMENT = 32
BLOCK = 32

L, S = LoadDist, StoreDist

_FAMILY = {
    L.NORM: "NORM", L.BRC: "BRC", L.US: "US", L.DS: "DS", L.UNPK: "UNPK", L.UNPK4: "UNPK4", L.BLK: "BLK", L.E2B: "E2B",
    L.BRC_B8: "BRC", L.BRC_B16: "BRC", L.BRC_B32: "BRC", L.US_B8: "US", L.US_B16: "US", L.DS_B8: "DS",
    L.DS_B16: "DS", L.UNPK_B8: "UNPK", L.UNPK_B16: "UNPK", L.UNPK_B32: "UNPK", L.E2B_B16: "E2B", L.E2B_B32: "E2B",
    L.DINTLV_B8: "DINTLV", L.DINTLV_B16: "DINTLV", L.DINTLV_B32: "DINTLV",
}  # fmt: skip
_GENERIC = {"BRC": (1, 2, 4), "US": (1, 2), "DS": (1, 2), "UNPK": (1, 2, 4), "E2B": (2, 4), "DINTLV": (1, 2, 4)}
"""Widths a generic name resolves to: the dtype's own, else the last."""
GENERIC_NAMES = (L.BRC, L.US, L.DS, L.UNPK, L.E2B)


@dataclass(frozen=True)
class LoadLayout:
    """`source[i]` is the unit result unit i comes from, -1 for zero; units are `width` bytes, `size` bytes are read."""

    size: int
    align: int
    width: int
    source: tuple[int, ...]
    second: tuple[int, ...] = ()
    """The same for the second register of a de-interleaving load."""


def family(dist: LoadDist) -> str:
    """The distribution without its width."""
    return _FAMILY[dist]


def load_layout(dist: LoadDist | None, lane_bytes: int, targets: int = 1) -> LoadLayout:
    """How a load fills registers of `lane_bytes` lanes; two targets de-interleave."""
    name = "DINTLV" if targets == 2 else family(dist or L.NORM)
    suffix = dist.name.rsplit("_B", 1)[-1] if dist is not None and "_B" in dist.name else ""
    if suffix:
        width = int(suffix) // 8
    else:
        widths = _GENERIC.get(name, (1,))
        width = lane_bytes if lane_bytes in widths else widths[-1]
    count = REGISTER_BYTES // width
    every = range(count)
    match name:
        case "BRC":
            return LoadLayout(width, width, width, (0,) * count)
        case "US":
            return LoadLayout(128, ALIGNMENT, width, tuple(i // 2 for i in every))
        case "DS":
            return LoadLayout(512, ALIGNMENT, width, tuple(2 * i for i in every))
        case "UNPK":
            return LoadLayout(128, ALIGNMENT, width, tuple(i // 2 if i % 2 == 0 else -1 for i in every))
        case "UNPK4":
            return LoadLayout(64, ALIGNMENT, 1, tuple(i // 4 if i % 4 == 0 else -1 for i in range(REGISTER_BYTES)))
        case "BLK":
            return LoadLayout(BLOCK, ALIGNMENT, 4, tuple(i % (BLOCK // 4) for i in range(REGISTER_BYTES // 4)))
        case "E2B":
            return LoadLayout(8 * width, 8 * width, width, tuple(i * width // BLOCK for i in every))
        case "DINTLV":
            even, odd = tuple(2 * i for i in every), tuple(2 * i + 1 for i in every)
            return LoadLayout(512, ALIGNMENT, width, even, odd)
    return LoadLayout(REGISTER_BYTES, ALIGNMENT, 8, tuple(range(REGISTER_BYTES // 8)))


def picked(raw: NDArray[np.uint8], width: int, source: Sequence[int]) -> NDArray[np.uint8]:
    """The register bytes a layout makes of the bytes read."""
    units = np.append(raw.view(f"u{width}"), np.zeros(1, f"u{width}"))  # -1 picks the zero
    found: NDArray[np.uint8] = units[np.asarray(source)].view(np.uint8)
    return found


@dataclass(frozen=True)
class StoreLayout:
    """What a store writes: unit i of the output is unit `source[i]` of `width` bytes of the register(s), one behind
    the other, where lane `lane[i]` of `lane_bytes` is active (None: always)."""

    width: int
    source: tuple[int, ...]
    lane_bytes: int
    lane: tuple[int, ...] | None
    align: int = ALIGNMENT


def store_layout(dist: StoreDist | None, lane_bytes: int) -> StoreLayout:
    """How a store writes a register of `lane_bytes` lanes (INTLV: two registers)."""
    count = REGISTER_BYTES // lane_bytes
    match dist or S.NORM:
        case S.NORM_B16:
            return StoreLayout(2, tuple(range(128)), 2, tuple(range(128)))
        case S.FIRST_ELEMENT:
            return StoreLayout(lane_bytes, (0,), lane_bytes, None, lane_bytes)
        case S.PACK:
            wide = max(2, lane_bytes)
            lanes = tuple(range(REGISTER_BYTES // wide))
            return StoreLayout(wide // 2, tuple(2 * i for i in lanes), wide, lanes)
        case S.PACK4:
            return StoreLayout(1, tuple(4 * i for i in range(64)), 4, tuple(range(64)))
        case S.INTLV | S.INTLV_B32:
            width = 4 if dist is S.INTLV_B32 else lane_bytes
            count = REGISTER_BYTES // width
            order = tuple(i // 2 + (i % 2) * count for i in range(2 * count))
            return StoreLayout(width, order, width, tuple(i // 2 for i in range(2 * count)))
    return StoreLayout(lane_bytes, tuple(range(count)), lane_bytes, tuple(range(count)))
