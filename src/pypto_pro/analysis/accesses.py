"""Which bytes one application of an op touches: an entry's `regions` facet, or its roles, as byte regions.

Works on anything shaped like `TileArg` and `TensorArg`: `.type`, `.addr`, `.vr`, `.vc` for tiles, `.type`, `.base`,
`.dims`, `.strides`, `.transfer` for tensors. Regions of a tensor are relative to the buffer that holds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pypto_pro import layouts
from pypto_pro.enums import TensorLayout
from pypto_pro.ir.types import TensorType, TileType
from pypto_pro.layouts import Region
from pypto_pro.ops.entry import Access, Box, Bytes, Effect, OpEntry, Operand, Role, Window
from pypto_pro.ops.operands import tile_geometry
from pypto_pro.ops.table import entry_of


@dataclass(frozen=True, slots=True)
class Touch:
    """Bytes of one operand: `sub` picks AIV0 or AIV1 for a Vec tile named by the cube core (None: AIV0).

    `past`: one past the last byte the op asked for, where that is past the tile's own bytes, which end at `end`.
    `outside`: what is meant leaves the declared shape, in words.
    """

    operand: str
    effect: Effect
    sub: int | None
    regions: tuple[Region, ...]
    past: int = 0
    end: int = 0
    outside: str = ""


def touches(entry: OpEntry, named: Mapping[str, Any]) -> tuple[Touch, ...]:
    """Every byte the op touches, operand by operand; empty regions are left out.

    `named`: data operands and keywords by name, as `OpEntry.bind` gives them.
    """
    found = []
    for access, operand in accesses_of(entry, named):
        regions = regions_of(access, operand)
        if not regions:
            continue
        if access.within_tile:
            rows, cols = operand.type.shape
            end = operand.addr + rows * cols * operand.type.dtype.bits() // 8
            high = bounds(regions)[1]
            if high > end:
                found.append(Touch(access.operand, access.effect, access.sub, clipped(regions, end), high, end))
                continue
        found.append(Touch(access.operand, access.effect, access.sub, regions, outside=_outside(access, operand)))
    return tuple(found)


def _outside(access: Access, operand: Any) -> str:
    """How an access leaves the declared shape of its tile; empty inside, and for what is packed in an order of its own.

    Written boxes with a row pitch are packed, and so is whatever has a column pitch.
    """
    if not _is_tile(operand) or access.effect is Effect.CLOBBER:
        return ""
    height, width = operand.type.shape
    match access.where:
        case Box(r0, c0, rows, cols, pitch, None) if pitch is None or access.effect is Effect.READ:
            if r0 + rows > height or c0 + cols > width:
                area = f"{rows} x {cols} elements from [{r0}, {c0}]"
                return f"covers {area} of a tile declared [{height}, {width}]"
        case Bytes(start, size):
            end = height * width * operand.type.dtype.bits() // 8
            if not 0 <= start <= end - size:
                return f"covers bytes {start}..{start + size} of a tile of {end} bytes"
    return ""


def accesses_of(entry: OpEntry, named: Mapping[str, Any]) -> list[tuple[Access, Any]]:
    """Accesses with the operand each belongs to; an op that is another op is asked in that op's words."""
    while "regions" not in entry.facets and "rewrite" in entry.facets:
        name, others = entry.facets["rewrite"](**named)
        target = entry_of(name)
        entry, named = target, {**_defaults(target), **others}
    facet = entry.facets.get("regions")
    accesses = facet(**named) if facet is not None else role_accesses(entry, named)
    return [(access, named[access.operand]) for access in accesses]


def _defaults(entry: OpEntry) -> dict[str, Any]:
    return {p.name: p.default for p in entry.params if not p.required}


def role_accesses(entry: OpEntry, named: Mapping[str, Any]) -> list[Access]:
    """What the roles say: sources are read over the valid shape of the destination, destinations written over theirs.

    The destination is the first tile written; without one every tile has its own valid shape. Scratch is untouched.
    """
    operands = [(p.name, p.spec.role) for p in entry.params if isinstance(p.spec, Operand)]
    tiles = [(name, role) for name, role in operands if _is_tile(named[name])]
    governing = next((named[n] for n, role in tiles if role in (Role.OUT, Role.INOUT)), None)
    found: list[Access] = []
    for name, role in tiles:
        own = named[name]
        shape = own if governing is None or role in (Role.OUT, Role.INOUT) else governing
        found += [Access(name, effect, Box(0, 0, shape.vr, shape.vc)) for effect in _EFFECTS[role]]
    for name, role in operands:
        if isinstance(getattr(named[name], "type", None), TensorType):
            found += [Access(name, effect, Bytes(0, _tensor_bytes(named[name]))) for effect in _EFFECTS[role]]
    return found


_EFFECTS: dict[Role, tuple[Effect, ...]] = {
    Role.IN: (Effect.READ,),
    Role.OUT: (Effect.WRITE,),
    Role.INOUT: (Effect.READ, Effect.WRITE),
    Role.SCRATCH: (),
}


def _is_tile(operand: Any) -> bool:
    return isinstance(getattr(operand, "type", None), TileType)


def _tensor_bytes(tensor: Any) -> int:
    """Bytes from the tensor's base to the end of its last element."""
    if 0 in tensor.dims:
        return 0
    last = sum((d - 1) * s for d, s in zip(tensor.dims, tensor.strides, strict=True))
    return int(last + 1) * int(tensor.type.dtype.nbytes)


def regions_of(access: Access, operand: Any) -> tuple[Region, ...]:
    """One access as byte regions: absolute in a tile's memory space, relative to the buffer for a tensor."""
    match access.where:
        case Box(r0, c0, rows, cols, row_extent, col_extent):
            geo = tile_geometry(operand.type, row_extent, col_extent)
            return tuple(layouts.regions(geo, operand.addr, r0, c0, rows, cols))
        case Window(offsets, axes, rows, cols):
            return window_regions(operand, offsets, axes, rows, cols)
        case Bytes(start, size):
            base = operand.addr if isinstance(operand.type, TileType) else operand.base
            return (Region(base + start, 1, size, size),) if size > 0 else ()


def window_regions(
    tensor: Any, offsets: tuple[int, ...], axes: tuple[int | None, int | None], rows: int, cols: int
) -> tuple[Region, ...]:
    """Bytes of a tensor window of `rows` x `cols` elements (see `TensorArg.window`)."""
    if rows <= 0 or cols <= 0:
        return ()
    dtype = tensor.type.dtype
    if tensor.type.layout is TensorLayout.NZ:
        geo = layouts.nz_tensor_geometry(dtype, *tensor.dims)
        return tuple(layouts.regions(geo, tensor.base, offsets[0], offsets[1], rows, cols))
    if dtype.bits() == 4:
        return _runs(np.unique(tensor.nibbles(offsets, axes, rows, cols) // 2))
    start, row, col = tensor.window(offsets, axes)
    return _strided(start, (rows, row), (cols, col), dtype.nbytes)


def _runs(positions: NDArray[Any]) -> tuple[Region, ...]:
    """Ascending byte positions as regions: equal runs at equal distances are one."""
    breaks = np.flatnonzero(np.diff(positions) != 1) + 1
    starts, sizes = positions[[0, *breaks]], np.diff([0, *breaks, positions.size])
    steps = np.unique(np.diff(starts))
    if steps.size == 1 and np.unique(sizes).size == 1:
        return (Region(int(starts[0]), starts.size, int(sizes[0]), int(steps[0])),)
    return tuple(Region(int(s), 1, int(n), int(n)) for s, n in zip(starts, sizes, strict=True))


def _strided(start: int, outer: tuple[int, int], inner: tuple[int, int], width: int) -> tuple[Region, ...]:
    """Regions of outer x inner runs of `width` bytes; each dimension is (count, step in bytes)."""
    run = width
    dims: list[tuple[int, int]] = []
    for count, step in sorted((d for d in (outer, inner) if d[0] > 1), key=lambda d: abs(d[1])):
        if step < 0:
            start, step = start + step * (count - 1), -step
        if not dims and step <= run:  # touching or overlapping runs are one run
            run = step * (count - 1) + run
        else:
            dims.append((count, step))
    if not dims:
        return (Region(start, 1, run, run),)
    count, step = dims.pop(0)
    starts = [start] if not dims else [start + k * dims[0][1] for k in range(dims[0][0])]
    return tuple(Region(s, count, run, step) for s in starts)


def clipped(regions: Iterable[Region], limit: int) -> tuple[Region, ...]:
    """The bytes of `regions` inside `[0, limit)`."""
    found = []
    for r in regions:
        for k in range(r.rows):
            start = max(r.start + k * r.pitch, 0)
            end = min(r.start + k * r.pitch + r.row_bytes, limit)
            if start < end:
                found.append(Region(start, 1, end - start, end - start))
    return tuple(found)


def bounds(regions: Iterable[Region]) -> tuple[int, int]:
    """First byte and one past the last byte of some regions; (0, 0) for none."""
    low = high = 0
    for k, region in enumerate(regions):
        end = region.start + (region.rows - 1) * region.pitch + region.row_bytes
        low = region.start if k == 0 else min(low, region.start)
        high = end if k == 0 else max(high, end)
    return low, high
