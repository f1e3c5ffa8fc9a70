"""What transfers share: which tensor axes a tile walks, offsets, NZ tensors, and the runs a transfer is made of.

A DMA moves runs of neighbouring elements. The run lies along the tile's columns, or along its rows for DN tiles and
for a Mat tile filled in descending order; along that axis the tensor's stride must be 1. The exception is a tile with
one column: its elements are taken at the stride the tensor has, and the author is told that the device does not.
"""

from __future__ import annotations

from typing import Any

from pypto_pro.enums import MemorySpace, TensorLayout
from pypto_pro.layouts import effective_layout, is_fractal, nz_tensor_geometry
from pypto_pro.ops import rules
from pypto_pro.ops.entry import Caution, Requirement
from pypto_pro.ops.operands import ScalarInfo, TensorInfo, TileInfo

Order = tuple[int, ...] | None
ROWS, COLS = 0, 1


def tensor_axes(rank: int, order: Order) -> tuple[int, int]:
    """(tensor axis of tile rows, of tile columns); None = the last two. Rows of a rank-1 tensor start one apart."""
    if rank == 1:
        return 0, 0
    return (order[0], order[1]) if order else (rank - 2, rank - 1)


def scaled(offsets: tuple[Any, ...], order: Order, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Tile offsets -> element offsets: the smaller selected axis counts in shape[0], the larger in shape[1].

    ValueError for an order that names no such axes.
    """
    if order is not None and (len(order) != 2 or not all(0 <= axis < len(offsets) for axis in order)):
        raise ValueError(f"order {list(order)} must name two different axes from 0 to {len(offsets) - 1}")
    out = list(offsets)
    if len(out) == 1:
        out[0] = out[0] * shape[1]
        return tuple(out)
    low, high = sorted(tensor_axes(len(out), order))
    out[low] = out[low] * shape[0]
    out[high] = out[high] * shape[1]
    return tuple(out)


def packed_facts(op: str, tile: Any, offsets: tuple[Any, ...], order: Order) -> list[Caution]:
    """Tile offsets count the packed axis of a 4-bit tensor in elements, though it is declared in bytes: 0 is right."""
    if not tile.type.dtype.is_sub_byte:
        return []
    axis = max(tensor_axes(len(offsets), order))
    text = (f"{op}_tile counts axis {axis} in the {tile.type.cols} elements of the tile's rows, but 4-bit tensors are "
            f"declared and placed in bytes: use `{op}` with an offset in bytes")
    return [Caution(offsets[axis] == 0, "stride_mismatch", text)]


# --- static rules ----------------------------------------------------------------------------------------------------


def check_window(tensor: TensorInfo, offsets: tuple[ScalarInfo, ...], order: Order) -> None:
    """Offsets and axis order against the tensor; ValueError."""
    dims = tensor.type.dims
    if len(offsets) != len(dims):
        raise ValueError(f"`{tensor.name}` has {len(dims)} axes, found {len(offsets)} offsets")
    for axis, (offset, dim) in enumerate(zip(offsets, dims, strict=True)):
        if offset.value is None:
            continue
        if offset.value < 0:
            raise ValueError(f"offset {axis} of `{tensor.name}` is {offset.value}; offsets are not negative")
        if dim is not None and offset.value >= dim:
            raise ValueError(f"offset {axis} of `{tensor.name}` is {offset.value}, but that axis has size {dim}")
    if order is None:
        return
    if len(order) != 2:
        raise ValueError(f"order names two tensor axes, found {len(order)}")
    if order[0] == order[1] or not all(0 <= axis < len(dims) for axis in order):
        raise ValueError(f"order {list(order)} must name two different axes from 0 to {len(dims) - 1}")


def check_ends(tile: TileInfo, tensor: TensorInfo) -> None:
    """Dtypes of both ends may be moved, the tile's shape is made of whole boxes or blocks; ValueError."""
    for end in (tile, tensor):
        if end.dtype not in rules.MOVABLE:
            raise ValueError(f"`{end.name}` is {rules.names([end.dtype])}, which transfers do not move")
    rules.whole_boxes(tile)


def same_width(tile: TileInfo, tensor: TensorInfo) -> None:
    """A transfer copies bits, so both ends need elements of one width; ValueError."""
    if tile.dtype.bits() != tensor.dtype.bits():
        raise ValueError(
            f"`{tile.name}` is {rules.names([tile.dtype])} and `{tensor.name}` is {rules.names([tensor.dtype])}; "
            "a transfer copies bits and needs one width"
        )


def is_nz(tensor: Any) -> bool:
    """Whether a tensor lies in GM as NZ boxes."""
    return bool(tensor.type.layout is TensorLayout.NZ)


def check_nz_tensor(tensor: TensorInfo, order: Order) -> None:
    """An NZ tensor has two compile-time axes of whole boxes and is walked in its own order; ValueError."""
    dims = tensor.type.dims
    if len(dims) != 2 or None in dims:
        found = [d if d is not None else "DYNAMIC" for d in dims]
        raise ValueError(f"the NZ tensor `{tensor.name}` needs two axes known at compile time, found {found}")
    geo = nz_tensor_geometry(tensor.dtype, *dims)
    if dims[0] % geo.box_rows or dims[1] % geo.box_cols:  # type: ignore[operator]
        raise ValueError(f"the NZ tensor `{tensor.name}` {list(dims)} must be made of boxes of {geo.box_rows} x "
                         f"{geo.box_cols}")
    if order not in (None, (0, 1)):
        raise ValueError(f"the NZ tensor `{tensor.name}` is walked in its own order, found {list(order)}")


# --- runs ------------------------------------------------------------------------------------------------------------


def run_along(tile: Any, axes: tuple[int, int]) -> int:
    """The tile axis the runs of a transfer lie along."""
    type_ = tile.type
    if type_.space is MemorySpace.Acc:
        return COLS
    layout = effective_layout(type_.layout, type_.cols)
    if is_fractal(layout):
        return ROWS if axes[0] > axes[1] else COLS
    return ROWS if layout is TensorLayout.DN else COLS


def check_runs(tile: TileInfo, tensor: TensorInfo, order: Order) -> None:
    """ValueError when the stride along the runs is known and not 1."""
    axes = tensor_axes(len(tensor.type.dims), order)
    along = run_along(tile, axes)
    if tensor.strides is None or is_nz(tensor) or tile.type.cols == 1:
        return
    stride = tensor.strides[axes[along]]
    if stride in (None, 1) or 1 in (tile.type.shape[along], tile.type.valid_shape[along]):
        return
    raise ValueError(
        f"`{tensor.name}` has stride {stride} along axis {axes[along]}, which the {('rows', 'columns')[along]} of "
        f"`{tile.name}` walk: a transfer moves runs of neighbouring elements, so that stride must be 1"
    )


def run_facts(tile: Any, tensor: Any, what: str, offsets: tuple[Any, ...], order: Order) -> list[Any]:
    """The same at issue, for strides only the run knows; nothing while the kernel is read. `what`: the parameter."""
    if not hasattr(tensor, "steps") or is_nz(tensor):
        return []
    axes = tensor_axes(len(offsets), order)
    along = run_along(tile, axes)
    holds = (tensor.steps(axes)[along] == 1) | ((tile.vr, tile.vc)[along] <= 1)
    if tile.type.cols == 1:
        return [Caution(holds, "stride_mismatch", f"the column tile walks `{what}` at a stride other than 1: here its "
                        "elements are taken at that stride, the device takes neighbouring ones")]
    where = f"along axis {axes[along]} of `{what}`"
    return [Requirement(holds, f"the stride {where} is not 1: a transfer moves runs of neighbouring elements")]
