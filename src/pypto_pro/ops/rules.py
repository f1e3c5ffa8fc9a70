"""Static checks that many entries share. Each raises TypeError or ValueError; the front end adds the author's line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from pypto_pro.dtypes import DataType
from pypto_pro.enums import CompactMode, MemorySpace, TensorLayout
from pypto_pro.layouts import BLOCK_BYTES, LEGAL_FRACTALS, SCALE_FRACTAL, effective_layout, is_fractal
from pypto_pro.ops.entry import OpEntry, Requirement, Role
from pypto_pro.ops.operands import ScalarInfo, TensorInfo, TileInfo, tile_geometry

Info: TypeAlias = TileInfo | TensorInfo | ScalarInfo | None

D = DataType
INTS = (D.DT_INT8, D.DT_UINT8, D.DT_INT16, D.DT_UINT16, D.DT_INT32, D.DT_UINT32, D.DT_INT64, D.DT_UINT64)
FLOATS = (D.DT_FP16, D.DT_BF16, D.DT_FP32)
HALF_AND_SINGLE = (D.DT_FP16, D.DT_FP32)
UP_TO_32_BITS = INTS[:6]
NUMBERS = (*INTS, *FLOATS)
MOVABLE = (
    D.DT_FP8E4M3FN, D.DT_FP8E5M2, D.DT_FP8E8M0, D.DT_FP4E2M1, D.DT_FP4E1M2, D.DT_HF8, *FLOATS, *INTS,
)


def tiles(*operands: object) -> list[TileInfo]:
    """The tiles among mixed operands."""
    return [o for o in operands if isinstance(o, TileInfo)]


def names(dtypes: Iterable[DataType]) -> str:
    """`FP16, FP32` for a message."""
    return ", ".join(d.name.removeprefix("DT_") for d in dtypes)


def one_dtype(among: tuple[DataType, ...], *operands: object) -> None:
    """All tiles have one dtype, which is in `among`; TypeError otherwise."""
    first, *rest = tiles(*operands)
    if first.dtype not in among:
        raise TypeError(f"`{first.name}` is {names([first.dtype])}; accepted are {names(among)}")
    for other in rest:
        if other.dtype is not first.dtype:
            raise TypeError(
                f"`{other.name}` is {names([other.dtype])} and `{first.name}` is {names([first.dtype])}; "
                "tile operands must have one dtype"
            )


def layout_of(tile: TileInfo) -> TensorLayout:
    """The layout really used (one column: DN)."""
    return effective_layout(tile.type.layout, tile.type.cols)


def row_major(*operands: object) -> None:
    """All tiles are ND; ValueError otherwise, with the idiom for [R, 1] tiles."""
    for tile in tiles(*operands):
        found = layout_of(tile)
        if found is TensorLayout.ND:
            continue
        shape = list(tile.type.shape)
        what = f"`{tile.name}` is {found.name}, shape {shape}; a row-major (ND) tile is needed"
        if tile.type.cols == 1:
            what += f": use a [1, {tile.type.rows}] tile at the same address"
        raise ValueError(what)


def aligned_rows(*operands: object) -> None:
    """Rows (columns of DN) of Vec tiles fill whole 32-byte blocks; ValueError otherwise."""
    for tile in tiles(*operands):
        layout = layout_of(tile)
        if layout not in (TensorLayout.ND, TensorLayout.DN):
            continue
        along = tile.type.cols if layout is TensorLayout.ND else tile.type.rows
        size = along * tile.dtype.bits() // 8
        if size % BLOCK_BYTES == 0:
            continue
        fit = -(-size // BLOCK_BYTES) * BLOCK_BYTES * 8 // tile.dtype.bits()
        line, shape = ("row", [tile.type.rows, fit]) if layout is TensorLayout.ND else ("column", [fit, tile.type.cols])
        raise ValueError(
            f"a {line} of `{tile.name}` [{tile.type.rows}, {tile.type.cols}] {names([tile.dtype])} is {size} B, not a "
            f"multiple of {BLOCK_BYTES} B; declare {shape} and valid_shape [{tile.type.rows}, {tile.type.cols}]"
        )


def whole_boxes(*operands: object) -> None:
    """Declared shapes are made of whole boxes (fractal layouts) or 32-byte lines (ND, DN); ValueError otherwise.

    The rows of a one-row tile, of tiles in Vec and of MX scales need not fill boxes. `fractal` and `compact`, which a
    TileType takes as they come, must be values that transfers and the matrix unit know.
    """
    for tile in tiles(*operands):
        type_ = tile.type
        if type_.fractal not in (None, *LEGAL_FRACTALS):
            listed = ", ".join(map(str, LEGAL_FRACTALS))
            raise ValueError(f"`{tile.name}` has fractal {type_.fractal}, which must be one of {listed}")
        if type_.compact not in (None, *(mode.value for mode in CompactMode)):
            listed = ", ".join(f"{mode.value} ({mode.name})" for mode in CompactMode)
            raise ValueError(f"`{tile.name}` has compact {type_.compact}, which must be one of {listed}")
        geo = tile_geometry(type_)
        if not is_fractal(geo.layout):
            aligned_rows(tile)
            continue
        rows_free = type_.space is MemorySpace.Vec or type_.rows == 1 or type_.fractal == SCALE_FRACTAL
        if type_.cols % geo.box_cols or not (rows_free or type_.rows % geo.box_rows == 0):
            raise ValueError(
                f"`{tile.name}` [{type_.rows}, {type_.cols}] {names([type_.dtype])} in {type_.space.name} is made of "
                f"{geo.layout.name} boxes of {geo.box_rows} x {geo.box_cols}, which must fill its declared shape"
            )


def on_blocks(*operands: object) -> None:
    """Tiles start at 32-byte blocks, where that is known already; ValueError otherwise."""
    for tile in tiles(*operands):
        if tile.type.space is MemorySpace.Vec and tile.skew:
            raise ValueError(_inside_block(f"`{tile.name}`", tile.skew))


def block_facts(**operands: Any) -> list[Requirement]:
    """The same at issue, for tiles the run places; nothing while the kernel is read."""
    found = []
    for name, tile in operands.items():
        space = getattr(getattr(tile, "type", None), "target_memory", None)
        if space is MemorySpace.Vec and hasattr(tile, "addr"):
            skew = tile.addr % BLOCK_BYTES
            found.append(Requirement(skew == 0, _inside_block(f"`{getattr(tile, 'name', '') or name}`", skew)))
    return found


def _inside_block(tile: str, skew: Any) -> str:
    return (
        f"{tile} starts {skew} B into a {BLOCK_BYTES} B block; vector ops need tiles that start at one (transfers do "
        "not)"
    )


def refuse_split_blocks(entry: OpEntry) -> None:
    """Give a vector op both rules for all tiles it reads or writes; scratch tiles are not touched."""
    names = [p.name for p in entry.data_params if p.spec.role is not Role.SCRATCH]  # type: ignore[union-attr]
    own_rules, own_issue = entry.facets.get("rules"), entry.facets.get("issue")

    def rules(**named: Any) -> None:
        if own_rules is not None:
            own_rules(**named)
        on_blocks(*(named[name] for name in names))

    def issue(**named: Any) -> list[Any]:
        facts = list(own_issue(**named)) if own_issue is not None else []
        return facts + block_facts(**{name: named[name] for name in names})

    entry.facets["rules"], entry.facets["issue"] = rules, issue


def elementwise(among: tuple[DataType, ...], *operands: object) -> None:
    """The tiles share a dtype of `among`, are row-major and fill whole blocks."""
    one_dtype(among, *operands)
    row_major(*operands)
    aligned_rows(*operands)


def need_tile(operand: object, what: str) -> None:
    """TypeError when an operand that must be a tile is not."""
    if not isinstance(operand, TileInfo):
        raise TypeError(f"{what} must be a tile")


def has_dtype(tile: TileInfo, *among: DataType) -> None:
    """TypeError unless the tile's dtype is one of `among`."""
    if tile.dtype not in among:
        raise TypeError(f"`{tile.name}` is {names([tile.dtype])}; accepted are {names(among)}")


def known_valid(tile: TileInfo) -> tuple[int | None, int | None]:
    """Valid rows and columns where the type fixes them, None where `set_validshape` may."""
    rows, cols = (None if v < 0 else v for v in tile.type.valid_shape)
    return rows, cols


def agree(one: TileInfo, other: TileInfo, axis: int) -> None:
    """ValueError when both valid extents of an axis are fixed by the types and differ."""
    a, b = known_valid(one)[axis], known_valid(other)[axis]
    if a is not None and b is not None and a != b:
        what = ("rows", "columns")[axis]
        raise ValueError(f"`{one.name}` has {a} valid {what} and `{other.name}` {b}; they must agree")


def apart(one: TileInfo, other: TileInfo) -> None:
    """ValueError when two operands that must not share storage are one tile or start at one address."""
    if one.name == other.name or (one.addr is not None and one.addr == other.addr):
        raise ValueError(f"`{one.name}` and `{other.name}` must be different tiles: the op does not work in place")


def one_row(*operands: object) -> None:
    """ValueError for a tile that declares more than one row."""
    for tile in tiles(*operands):
        if tile.type.rows != 1:
            raise ValueError(f"`{tile.name}` [{tile.type.rows}, {tile.type.cols}] must have exactly one row")
