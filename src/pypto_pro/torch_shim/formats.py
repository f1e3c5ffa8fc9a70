"""`torch_npu.npu_format_cast`: weights in FRACTAL_NZ, the order in which kernels with NZ tensors read global memory.

Element (i, j) of an [R, C] matrix lies at (j // c0) * R * c0 + i * c0 + j % c0, with c0 = 32 bytes of elements. Such
tensors keep their logical shape; torch operators read them in row-major order, kernels get the packed bytes.
"""

from __future__ import annotations

from enum import IntEnum
from functools import partial
from typing import Any

import torch

from pypto_pro.torch_shim.missing import unsupported
from pypto_pro.torch_shim.tensors import TYPE, Packed, host_view, mark_packed, packed_of, place

_BLOCK_ROWS, _BLOCK_BYTES = 16, 32


class Format(IntEnum):
    """Memory formats of the device library that mean something here."""

    ND = 2
    FRACTAL_NZ = 29


def npu_format_cast(self: Any, acl_format: int) -> Any:
    """The tensor in another memory format (`Format` or its number), a new one unless it has that format already.

    UnsupportedError for other formats, and for FRACTAL_NZ of sizes that are no whole blocks of 16 rows and 32 bytes.
    """
    if not isinstance(self, torch.Tensor) or self.device.type != TYPE:
        found = self.device if isinstance(self, torch.Tensor) else type(self).__name__
        raise ValueError(f"npu_format_cast takes a tensor on device {TYPE}, found {found}")
    if acl_format == get_npu_format(self):
        return self
    match acl_format:
        case Format.ND:
            return place(host_view(self).contiguous(), self.device.index)
        case Format.FRACTAL_NZ:
            return _packed(self)
    names = ", ".join(f"{entry.value} ({entry.name})" for entry in Format)
    raise unsupported(f"npu_format_cast to format {acl_format!r} is not available; there are {names}")


def get_npu_format(self: Any) -> int:
    """The format number of a tensor: 29 for those that `npu_format_cast` packed, else 2."""
    return int(Format.ND if packed_of(self) is None else Format.FRACTAL_NZ)


def _packed(tensor: Any) -> Any:
    columns = _BLOCK_BYTES // tensor.element_size()
    shape = tuple(tensor.shape)
    if len(shape) < 2 or shape[-2] % _BLOCK_ROWS or shape[-1] % columns:
        raise unsupported(
            f"FRACTAL_NZ of shape {list(shape)}: the last two sizes must be multiples of {_BLOCK_ROWS} and {columns} "
            f"for {tensor.dtype}"
        )
    blocks = (*shape[:-1], shape[-1] // columns, columns)
    packed = host_view(tensor).reshape(blocks).movedim(-2, -3).contiguous()
    made = place(packed.view(shape), tensor.device.index)
    mark_packed(made, Packed(shape, tensor.dtype, partial(_unpack, blocks, shape)))
    return made


def _unpack(blocks: tuple[int, ...], shape: tuple[int, ...], flat: Any) -> Any:
    stored = (*blocks[:-3], blocks[-2], blocks[-3], blocks[-1])
    return flat.view(stored).movedim(-3, -2).reshape(shape)
