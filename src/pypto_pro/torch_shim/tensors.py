"""Tensors of the stand-in: a device and a storage of their own, in host memory. Nothing is copied to look at them.

`place` makes one from a CPU tensor, `host_view` gives the CPU tensor over the same bytes. The live bytes of each device
are counted for the memory queries of `torch.npu`.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from dataclasses import dataclass
from typing import Any

import torch

from pypto_pro.torch_shim.missing import unsupported

TYPE = "npu"
CPU = torch.device("cpu")
_EXTERNAL_DEVICE = 12  # DLPack's number for devices outside of its list: torch maps it to PrivateUse1
_DEVICE_AT = 8  # offset of {device_type, device_id}, two int32, in a DLTensor
_ON_HOST = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


@dataclass
class Usage:
    """Bytes of live storages of one device, and the most there were."""

    live: int = 0
    peak: int = 0
    count: int = 0


@dataclass(frozen=True)
class Packed:
    """A storage whose bytes are not row-major: the logical tensor it holds, and how to read it."""

    shape: tuple[int, ...]
    dtype: Any
    unpack: Any
    """(bytes as a 1-D CPU tensor of `dtype`) -> the logical CPU tensor, contiguous."""


usage: dict[int, Usage] = {}
_counting = threading.RLock()  # a storage may be freed, by the garbage collector, while another is counted
_storages: dict[int, weakref.ref[Any]] = {}
_packed: dict[int, Packed] = {}  # by address of the storage


def place(tensor: Any, index: int) -> Any:
    """The tensor of device `npu:index` over the memory of a CPU tensor, which it keeps alive."""
    try:
        capsule = torch._C._to_dlpack(tensor)
    except (BufferError, RuntimeError):  # dtypes that DLPack does not know: bits, quantised
        raise unsupported(f"tensors of {tensor.dtype} cannot be on device {TYPE}") from None
    address = _capsule_pointer(capsule, b"dltensor")
    device = (ctypes.c_int32 * 2).from_address(address + _DEVICE_AT)
    device[0], device[1] = _EXTERNAL_DEVICE, index
    placed = torch._C._from_dlpack(capsule)
    _count(placed.untyped_storage(), index)
    return placed


def host_view(tensor: Any) -> Any:
    """The CPU tensor over the bytes of a tensor of the stand-in; a copy in row-major order when these are packed.

    The view does not keep the memory alive: use it within the call.
    """
    storage = tensor.untyped_storage()
    address = storage.data_ptr()
    if _packed and address in _packed:
        return _unpacked(tensor, _packed[address])
    view = torch._C._construct_storage_from_data_pointer(address, CPU, storage.nbytes())
    made = torch.empty(0, dtype=tensor.dtype)
    return made.set_(view, tensor.storage_offset(), tensor.size(), tensor.stride())


def native(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Run torch's CPU kernel of an operator that only touches metadata on tensors of the stand-in themselves."""
    return op.redispatch(_ON_HOST, *args, **kwargs)


def adopt(tensor: Any, storage: Any, layout: Any) -> Any:
    """Let `tensor` have `storage` with the offset, size and strides of the tensor `layout`."""
    change = torch.ops.aten.set_.source_Storage_storage_offset
    return native(change, tensor, storage, layout.storage_offset(), layout.size(), layout.stride())


def mark_packed(tensor: Any, packed: Packed) -> None:
    """Remember that the storage of `tensor` holds its elements in another order."""
    _packed[tensor.untyped_storage().data_ptr()] = packed


def packed_of(tensor: Any) -> Packed | None:
    """How the storage of `tensor` is packed; None for row-major storages."""
    return _packed.get(tensor.untyped_storage().data_ptr()) if _packed else None


def _unpacked(tensor: Any, packed: Packed) -> Any:
    whole = tensor.storage_offset() == 0 and tensor.is_contiguous() and tuple(tensor.shape) == packed.shape
    if not whole or tensor.dtype != packed.dtype:
        raise unsupported(
            "a view of a tensor in FRACTAL_NZ format has no row-major meaning",
            hint="take the view first, or convert back with torch_npu.npu_format_cast(x, 2)",
        )
    storage = tensor.untyped_storage()
    view = torch._C._construct_storage_from_data_pointer(storage.data_ptr(), CPU, storage.nbytes())
    flat = torch.empty(0, dtype=tensor.dtype).set_(view)
    return packed.unpack(flat)


def _count(storage: Any, index: int) -> None:
    address, size = storage.data_ptr(), storage.nbytes()
    if size == 0:
        return
    with _counting:
        used = usage.setdefault(index, Usage())
        used.live += size
        used.count += 1
        used.peak = max(used.peak, used.live)

    def freed(_: Any) -> None:
        with _counting:
            used.live -= size
            used.count -= 1
        if _storages.get(address) is reference:
            del _storages[address]
            _packed.pop(address, None)

    reference = weakref.ref(storage, freed)
    _storages[address] = reference
