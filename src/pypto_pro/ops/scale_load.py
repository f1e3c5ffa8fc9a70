"""The scale form of `load`: an E8M0 tensor with a trailing phase axis of 2 into a Mat tile of 16x2 (2x16) boxes.

Two groups of K stand side by side on the phase axis: group g lies at index g // 2 with phase g % 2. In a ZZ tile
(scales of A) the groups are columns, in an NN tile (scales of B) they are rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pypto_pro.dtypes import DataType
from pypto_pro.enums import MemorySpace, TensorLayout
from pypto_pro.layouts import SCALE_FRACTAL
from pypto_pro.ops.entry import Access, Effect, Window
from pypto_pro.ops.operands import Array, TensorInfo, TileArg, TileInfo
from pypto_pro.ops.tensors import TensorArg

PHASES = 2
WHOLE_PAIRS = "both phases are loaded, the offset along their axis is 0"


def is_scale_load(dst: Any, src: Any) -> bool:
    """Whether a load is of this form: decided by the types of both ends."""
    scales = dst.type.dtype is DataType.DT_FP8E8M0 and src.type.dtype is DataType.DT_FP8E8M0
    boxed = dst.type.layout in (TensorLayout.ZZ, TensorLayout.NN) and dst.type.fractal == SCALE_FRACTAL
    return bool(scales and boxed and dst.type.space is MemorySpace.Mat)


def scale_axes(rank: int, order: tuple[int, ...] | None) -> tuple[int, int]:
    """(tensor axis of the tile rows, of the tile columns); the default leaves the phase axis out."""
    return (order[0], order[1]) if order else (rank - 3, rank - 2)


def windows(dst: Any, offsets: tuple[Any, ...], order: tuple[int, ...] | None) -> list[Window]:
    """The elements of each phase, over concrete or abstract extents."""
    axes = scale_axes(len(offsets), order)
    found = []
    for phase in range(PHASES):
        at = (*offsets[:-1], phase)
        share = PHASES - 1 - phase
        if dst.type.layout is TensorLayout.ZZ:
            found.append(Window(at, axes, dst.vr, (dst.vc + share) // PHASES))
        else:
            found.append(Window(at, axes, (dst.vr + share) // PHASES, dst.vc))
    return found


def read(dst: TileArg, src: TensorArg, offsets: tuple[int, ...], order: tuple[int, ...] | None) -> Array:
    """The tile's valid rows and columns as raw scale codes."""
    bits = np.zeros((dst.vr, dst.vc), np.uint8)
    for phase, window in enumerate(windows(dst, offsets, order)):
        part = src.bits(window.offsets, scale_axes(len(offsets), order), window.rows, window.cols)
        if dst.type.layout is TensorLayout.ZZ:
            bits[:, phase::PHASES] = part
        else:
            bits[phase::PHASES] = part
    return bits


def accesses(dst: Any, offsets: tuple[Any, ...], order: tuple[int, ...] | None) -> list[Access]:
    """What is read of the tensor."""
    return [Access("src_tensor", Effect.READ, w) for w in windows(dst, offsets, order)]


def check(dst: TileInfo, src: TensorInfo, order: tuple[int, ...] | None) -> None:
    """Rank, the phase axis, and that `order` leaves it alone; ValueError."""
    dims = src.type.dims
    if len(dims) < 3 or dims[-1] != PHASES:
        raise ValueError(
            f"`{dst.name}` takes MX scales: `{src.name}` needs at least 3 axes, the last of size {PHASES} at compile "
            f"time; found {[d if d is not None else 'DYNAMIC' for d in dims]}"
        )
    if order is not None and len(dims) - 1 in order:
        raise ValueError(f"order {list(order)} names the phase axis {len(dims) - 1} of `{src.name}`")
    if src.strides is not None and src.strides[-1] not in (None, 1):
        raise ValueError(f"`{src.name}` has stride {src.strides[-1]} along its phase axis, which must be 1")
