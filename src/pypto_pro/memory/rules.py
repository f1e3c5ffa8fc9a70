"""Checks that look at one tile at a time: address, ids, footprint and shape (layout rules L101-L112, L201-L213)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from pypto_pro.enums import CompactMode, MemorySpace, TensorLayout
from pypto_pro.hw.a5 import MUTEX_IDS
from pypto_pro.layouts import box, effective_layout, is_fractal, slot_size
from pypto_pro.memory.design import TileRecord
from pypto_pro.memory.finding import LayoutFinding, finding, hexa
from pypto_pro.memory.machine import Chip
from pypto_pro.memory.search import align_up
from pypto_pro.memory.table import Row, reserved_bytes

BLOCK_BITS = 256  # a row of any tile is made of 32-byte blocks


def check_rows(tile: TileRecord, rows: list[Row], chip: Chip) -> Iterator[LayoutFinding]:
    """All findings about one placed tile; `rows` are its slots in order."""
    row_rule = list(check_shape(tile))
    for row in rows:
        yield from _check_address(row, rows, chip, bool(row_rule))
    yield from check_tile(tile, row_rule)


def check_tile(tile: TileRecord, row_rule: list[LayoutFinding] | None = None) -> Iterator[LayoutFinding]:
    """The findings that do not depend on an address; `row_rule` are those of `check_shape` if already known."""
    yield from _check_ids(tile)
    yield from _check_reservation(tile)
    yield from check_shape(tile) if row_rule is None else row_rule
    yield from _check_space(tile)


# --- addresses and ids -----------------------------------------------------------------------------------------------


def _check_address(row: Row, rows: list[Row], chip: Chip, row_rule: bool) -> Iterator[LayoutFinding]:
    tile, align = row.tile, chip[row.space].alignment
    if row.start < 0:
        yield finding("L102", f"`{row.shown}` starts at {hexa(row.start)}, before the space", tile,
                      slot=row.index, addr=row.start)  # fmt: skip
    remainder = row.start % align
    if not remainder:
        return
    notes = []
    if isinstance(tile.addrs, int) and row.slot > 0:
        fits = "a" if row.size % align == 0 else "no"
        notes.append(f"base {hexa(tile.addrs)} + {row.slot} * {row.size} B; the step is {fits} multiple of {align}")
        if row_rule:
            notes.append("the shape also breaks the row rule (L206), which is what makes the step odd")
    message = (
        f"`{row.shown}` starts at {hexa(row.start)}; {row.space.name} addresses are multiples of {align}"
        f" (remainder {remainder})"
    )
    yield finding("L101", message, tile, notes=tuple(notes),
                  slot=row.index, addr=row.start, align=align, remainder=remainder)  # fmt: skip


def _check_ids(tile: TileRecord) -> Iterator[LayoutFinding]:
    for slot, ids in enumerate(tile.mutex_ids):
        name = f"`{tile.name}[{slot}]`"
        for wrong in ids:
            if wrong not in MUTEX_IDS:
                last = MUTEX_IDS.stop - 1
                yield finding("L108", f"{name} has mutex id {wrong}; ids are 0..{last}", tile,
                              slot=slot, mutex_id=wrong)  # fmt: skip
        for twice, count in Counter(ids).items():
            if count > 1:
                yield finding("L109", f"{name} names mutex id {twice} twice", tile, slot=slot, mutex_id=twice)
    counts = [len(ids) for ids in tile.mutex_ids]
    if len(set(counts)) > 1:
        yield finding("L110", f"the slots of `{tile.name}` have {counts} mutex ids; every slot needs as many", tile,
                      counts=tuple(counts))  # fmt: skip


# --- reservation -----------------------------------------------------------------------------------------------------


def footprint(tile: TileRecord) -> tuple[int, str]:
    """Bytes the accesses of one slot reach, from its start, and the attribute that decides it ("" = the shape)."""
    t = tile.type
    natural = slot_size(t.shape, t.dtype)
    if tile.scratch is not None:
        return tile.scratch, "scratch operand"
    if len(t.shape) != 2:
        return natural, ""
    rows, cols = t.shape
    layout = effective_layout(t.layout, cols)
    plain = rows * cols * t.dtype.bits() // 8
    if is_fractal(layout) and rows == 1:
        return natural, ""
    vr, vc = _largest_valid(tile)
    match t.target_memory, layout:
        case MemorySpace.Vec, TensorLayout.NZ if tile.nz_filled:
            extra = 1 if t.compact == CompactMode.row_plus_one else 0
            return (align_up(vr, 16) + extra) * cols * t.dtype.bits() // 8, "compact=2" if extra else "NZ rows"
        case (MemorySpace.Left, TensorLayout.NZ) | (MemorySpace.Acc, _):
            return align_up(vr, 16) * cols * t.dtype.bits() // 8, "NZ rows"
        case MemorySpace.Right, TensorLayout.ZN:
            return rows * align_up(vc, 16) * t.dtype.bits() // 8, "ZN columns"
        case MemorySpace.Mat, TensorLayout.NZ | TensorLayout.ZN:
            h, w = box(layout, t.fractal, t.dtype)
            return align_up(rows, h) * align_up(cols, w) * t.dtype.bits() // 8, f"{layout.name} box {h}x{w}"
    return plain, ""


def _largest_valid(tile: TileRecord) -> tuple[int, int]:
    """The largest valid rows and columns the kernel may set."""
    if tile.valid is not None:
        return tile.valid
    (rows, cols), (vr, vc) = tile.type.shape, tile.type.valid_shape
    if tile.type.compact == CompactMode.row_plus_one and vr == -1:
        rows -= 1  # one declared row is the extra one, never data
    return (rows if vr == -1 else vr), (cols if vc == -1 else vc)


def _check_reservation(tile: TileRecord) -> Iterator[LayoutFinding]:
    t = tile.type
    natural, reserved = slot_size(t.shape, t.dtype), reserved_bytes(tile)
    if isinstance(tile.size, int) and tile.size < natural:
        message = f"`{tile.name}` gives size {tile.size} B, its shape needs {natural} B, which is what it takes"
        yield finding("L201", message, tile, help=f"leave `size` out, or give size={natural}", size=tile.size,
                      slot_size=natural)  # fmt: skip
    needed, cause = footprint(tile)
    if needed > reserved:
        short = needed - reserved
        yield finding(
            "L112", f"accesses of `{tile.name}` reach {needed} B, it reserves {reserved} B: {short} B too few",
            tile, notes=(f"the extra bytes come from {cause}",), help=_that_would_fit(tile, needed),
            footprint=needed, reserved=reserved, short=short,
        )  # fmt: skip
    if t.dtype.is_sub_byte:
        packed = natural * t.dtype.bits() // 8
        yield finding("L205", f"`{tile.name}` reserves {natural} B a slot for {packed} B of packed 4-bit data", tile,
                      reserved=natural, packed=packed)  # fmt: skip


def _that_would_fit(tile: TileRecord, needed: int) -> str:
    if tile.kind == "tile":
        return f"reserve size={needed}"
    rows, cols = tile.type.shape
    columns = tile.type.layout is TensorLayout.ZN
    unit = max(1, (rows if columns else cols) * tile.type.dtype.nbytes)
    extent = -(-needed // unit)
    return f"declare shape {[rows, extent] if columns else [extent, cols]}"


# --- shape and space -------------------------------------------------------------------------------------------------


def check_shape(tile: TileRecord) -> Iterator[LayoutFinding]:
    """L206: extents the first load, store, move or matmul on the tile will reject."""
    t = tile.type
    if len(t.shape) != 2:
        return
    rows, cols = t.shape
    layout, bits = effective_layout(t.layout, cols), t.dtype.bits()
    block = BLOCK_BITS // bits
    match layout:
        case TensorLayout.ND:
            checks = [("row", cols, block, "columns")]
        case TensorLayout.DN:
            checks = [("column", rows, block, "rows")]
        case _:
            h, w = box(layout, t.fractal, t.dtype)
            checks = [("fractal_columns", cols, w, "columns")]
            if tile.space is not MemorySpace.Vec and t.fractal != 32 and rows != 1:
                checks.append(("fractal_rows", rows, h, "rows"))
    for rule, extent, unit, what in checks:
        if extent % unit:
            nearest = align_up(extent, unit)
            message = (
                f"`{tile.name}` has {extent} {what}; {layout.name} in {t.dtype.to_string()} needs a multiple of {unit},"
                " so the first transfer or matmul on it is rejected"
            )
            yield finding("L206", message, tile, notes=(f"the nearest legal extent is {nearest}",),
                          rule=rule, nearest=nearest)  # fmt: skip


def _check_space(tile: TileRecord) -> Iterator[LayoutFinding]:
    if tile.space is MemorySpace.Scaling:
        message = (
            f"alignment and capacity of Scaling are not checked for `{tile.name}`;"
            " look up the size of the fixpipe buffer on the platform or on the page of the op"
        )
        yield finding("L204", message, tile)
    if tile.space is MemorySpace.Bias:
        message = f"`{tile.name}` is a Bias tile: legal, but the published placement rules do not cover the bias table"
        yield finding("L213", message, tile)
