"""The text of `printf`, `pto_assert` and `dump_data` (frontend 13; tile-vector.yaml, `pl.dump_data`).

Shared by the executors: `debug_text` takes the IR statement and its operands at run time, pointers as addresses.
A `Debug` node holds: printf: args = values, attrs `format`, `loc`; pto_assert: args = (condition, *values), attrs
`format` (or None), `source`, `loc`; dump_data: args = (data, *offsets, *shapes, workspace?), attrs `window` (number of
axes of the window, 0 for none), `loc`, `flag`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from pypto_pro import numerics
from pypto_pro.diag import Span
from pypto_pro.dtypes import DataType
from pypto_pro.enums import MemorySpace, TensorLayout
from pypto_pro.ir.nodes import Debug
from pypto_pro.ops.operands import Array, TileArg, tile_geometry
from pypto_pro.ops.tensors import TensorArg

_SPEC = re.compile(r"%([-+ #0]*)(\d*)(?:\.(\d+))?([diuxfp])")
_NAMES = {
    DataType.DT_FP16: "float16", DataType.DT_FP32: "float32", DataType.DT_BF16: "bfloat16",
}  # fmt: skip


def debug_text(node: Debug, operands: tuple[Any, ...]) -> str:
    """What the statement prints, empty for nothing."""
    attrs = dict(node.attrs)
    match node.what:
        case "printf":
            return location(node.span, attrs) + formatted(attrs["format"], operands)
        case "pto_assert":
            if operands[0]:
                return ""
            head = f"{location(node.span, attrs)}Assertion failed: {attrs['source']}\n"
            return head + (formatted(attrs["format"], operands[1:]) if attrs["format"] is not None else "")
        case "dump_data":
            return _dump(node, attrs, operands)
    return ""


def location(span: Span, attrs: dict[str, Any]) -> str:
    """`[file.py:12] ` when asked for."""
    return f"[{Path(span.file).name}:{span.line}] " if attrs.get("loc") else ""


def formatted(text: str, values: tuple[Any, ...]) -> str:
    """C formatting: the format was checked when the kernel was read."""
    left = list(values)

    def one(match: re.Match[str]) -> str:
        flags, width, precision, kind = match.groups()
        value = left.pop(0) if left else 0
        if kind == "p":
            return f"{value:#x}".rjust(int(width or 0))
        if kind == "u":
            kind = "d"
        dot = "" if precision is None else f".{precision}"
        return str(f"%{flags}{width}{dot}{kind}" % value)

    return _SPEC.sub(one, text)


# --- dump_data ------------------------------------------------------------------------------------------------------


def _dump(node: Debug, attrs: dict[str, Any], operands: tuple[Any, ...]) -> str:
    data, rest = operands[0], operands[1:]
    axes = int(attrs.get("window") or 0)
    offsets = tuple(int(v) for v in rest[:axes])
    shape = tuple(max(int(v), 0) for v in rest[axes : 2 * axes])
    is_tile = isinstance(data, TileArg)
    lines = [f"{location(node.span, attrs)}dump_{'tile' if is_tile else 'tensor'}"] if attrs.get("loc") else []
    if attrs.get("flag"):
        lines.append(f"=== [flag] {attrs['flag']} ===")
    if isinstance(data, TileArg):
        if data.type.space is MemorySpace.Acc:
            lines += acc_dump(data, offsets, shape, rest[-1] if len(rest) > 2 * axes else None)
        else:
            lines += tile_window_dump(data, offsets, shape) if axes else tile_dump(data)
    else:
        lines += tensor_dump(data, offsets, shape)
    return "\n".join([*lines, ""])


def dtype_name(dtype: DataType) -> str:
    """As the dump headers print it."""
    if dtype.is_int():
        return ("int" if dtype.is_signed_int() else "uint") + str(dtype.bits())
    return _NAMES.get(dtype, dtype.name.removeprefix("DT_").lower())


def cells(bits: Array, dtype: DataType) -> list[list[str]]:
    """Printed values of raw element bits, shape (rows, cols)."""
    if dtype in _NAMES:
        return [[f"{float(v):8.4f}" for v in row] for row in numerics.decode(bits, dtype)]
    if dtype.is_float():
        return [[f"{int(v):8d}" for v in row] for row in bits]
    return [[f"{int(v):8d}" for v in row] for row in bits.view(dtype.numpy)]


def _rows(bits: Array, dtype: DataType) -> list[str]:
    return [" ".join(row) for row in cells(bits, dtype)]


def tile_dump(tile: TileArg) -> list[str]:
    """The whole physical tile with marks around its valid region."""
    rows, cols = tile.type.shape
    layout = tile_geometry(tile.type).layout.name
    lines = [
        f"=== [TPRINT Tile] Data Type: {dtype_name(tile.dtype)}, Layout: {layout}, TileType: Vec ===",
        f"  Shape: [{rows}, {cols}], Valid Shape: [{tile.vr}, {tile.vc}]",
    ]

    def marked(row: list[str]) -> str:
        if not 0 < tile.vc < cols:
            return " ".join(row)
        return f"{' '.join(row[: tile.vc])}| {' '.join(row[tile.vc :])}"  # the mark takes no separator's place

    for k, row in enumerate(cells(tile.bits(rows, cols), tile.dtype)):
        if k == tile.vr and tile.vr < rows:
            lines.append(marked(["--------"] * cols))
        lines.append(marked(row))
    return lines


def _window_line(tile: TileArg, offsets: tuple[int, ...], asked: tuple[int, ...], got: tuple[int, ...]) -> str:
    return (
        f"  Source Shape: {list(tile.type.shape)}, Window Offsets: {list(offsets)}, Requested Shape: {list(asked)}, "
        f"Valid Shape: {list(got)}"
    )


def _clip(offsets: tuple[int, ...], asked: tuple[int, ...], *limits: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(
        max(0, min(a, *(limit[k] - o for limit in limits))) for k, (o, a) in enumerate(zip(offsets, asked, strict=True))
    )


def tile_window_dump(tile: TileArg, offsets: tuple[int, ...], asked: tuple[int, ...]) -> list[str]:
    """A window of a Vec tile, clipped to its valid region."""
    got = _clip(offsets, asked, (tile.vr, tile.vc), tile.type.shape)
    layout = tile_geometry(tile.type).layout.name
    head = f"=== [TPRINT Tile Window] Data Type: {dtype_name(tile.dtype)}, Layout: {layout}, TileType: Vec ==="
    bits = tile.bits(*got, *offsets) if 0 not in got else np.zeros(got, tile.dtype.bits_dtype)
    return [head, _window_line(tile, offsets, asked, got), *_rows(bits, tile.dtype)]


def acc_dump(
    tile: TileArg, offsets: tuple[int, ...], asked: tuple[int, ...], workspace: TensorArg | None
) -> list[str]:
    """A window of an accumulator (default: all of it); the whole tile is copied to the workspace first."""
    whole = tile.type.shape
    offsets, asked = offsets or (0, 0), asked or whole
    bits = tile.bits(*whole)
    if workspace is not None:
        raw = np.ascontiguousarray(bits).view(np.uint8).ravel()[: max(workspace.mem.size - workspace.base, 0)]
        workspace.mem[workspace.base : workspace.base + raw.size] = raw
    got = _clip(offsets, asked, whole)
    head = f"=== [TPRINT Acc Tile Window] Data Type: {dtype_name(tile.dtype)}, Layout: NZ, TileType: Acc ==="
    window = bits[offsets[0] : offsets[0] + got[0], offsets[1] : offsets[1] + got[1]]
    return [head, _window_line(tile, offsets, asked, got), *_rows(window, tile.dtype)]


def tensor_dump(tensor: TensorArg, offsets: tuple[int, ...], asked: tuple[int, ...]) -> list[str]:
    """A tensor, or a window of it walked with its strides."""
    dims = tensor.dims
    offsets, asked = offsets or (0,) * len(dims), asked or dims
    column = len(dims) == 2 and tensor.type.dims[-1] == 1
    layout = "DN" if column and tensor.type.layout is TensorLayout.ND else tensor.type.layout.name
    lines = [f"=== [TPRINT GlobalTensor] Data Type: {dtype_name(tensor.dtype)}, Layout: {layout} ==="]
    if tensor.type.layout is TensorLayout.NZ:
        lines.append(f"  Logical Shape: {list(asked)}")
        return lines + _rows(tensor.bits(offsets, (0, 1), *asked), tensor.dtype)
    padded = (1,) * (5 - len(asked)) + asked
    lines.append(f"  Shape: {list(padded)}")
    rank = len(dims)
    for batch in np.ndindex(*padded[:3]):
        lines.append(f"  Batch {list(batch)}:")
        at = list(offsets)
        for axis in range(rank - 2):
            at[axis] += batch[3 - (rank - 2) + axis]
        axes = (rank - 2, rank - 1) if rank > 1 else (None, 0)
        lines += _rows(tensor.bits(tuple(at), axes, *padded[3:]), tensor.dtype)
    return lines
