"""Host arrays of any library as address, size, shape and dtype: numpy, torch (CPU), DLPack, `__array_interface__`.

Nothing is copied. torch is only looked at when the author's program has imported it.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pypto_pro.diag.errors import ArgumentError, ArgumentKindError
from pypto_pro.dtypes import DataType
from pypto_pro.runtime.callsite import call_site


@dataclass(slots=True)
class HostArray:
    """Memory of the caller. `strides` in elements, None when contiguous row-major; `dtype` None: not the language's."""

    address: int
    size_bytes: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    dtype: DataType | None
    shown_dtype: str
    writeable: bool
    owner: Any
    """What keeps the memory alive."""
    why_read_only: str = "a read-only array"


HOST_DEVICES = {"cpu"}
"""Types of torch devices whose memory is this process's; the stand-in for the NPU adds its own."""

_GRAD = "a tensor that requires grad; autograd cannot see what a kernel writes: pass `.detach()` or use torch.no_grad()"
_C_CONTIGUOUS, _ALIGNED, _WRITEABLE = 0x1, 0x100, 0x400
_NUMPY: dict[Any, DataType | None] = {}
_TORCH: dict[Any, DataType | None] = {}


def host_array(value: Any, name: str = "the argument") -> HostArray | None:
    """What is behind an array-like object; None for an object that is no array.

    Raises ArgumentKindError for arrays whose memory cannot be reached (other devices, unsupported dtypes of DLPack)
    and ArgumentError for misaligned memory.
    """
    if isinstance(value, np.ndarray):
        return _from_numpy(value, name)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, getattr(torch, "Tensor", ())):
        return _from_torch(value, name)
    if isinstance(value, np.generic | type):
        return None
    if hasattr(value, "__dlpack__"):
        try:
            return _from_numpy(np.from_dlpack(value), name)
        except (BufferError, TypeError, ValueError, RuntimeError) as error:
            message = f"the memory of `{name}` cannot be reached through DLPack: {error}"
            raise ArgumentKindError(message, call_site()) from error
    if hasattr(value, "__array_interface__"):
        array = np.asarray(value)
        if array.__array_interface__["data"][0] != value.__array_interface__["data"][0]:
            message = f"the memory of `{name}` ({type(value).__name__}) cannot be used in place"
            raise ArgumentKindError(message, call_site())
        return _from_numpy(array, name)
    return None


_BEHAVED = _C_CONTIGUOUS | _ALIGNED | _WRITEABLE
Quick = Callable[[Any], "tuple[int, int, tuple[int, ...]] | None"]


def quick_reader(rank: int, fixed: Sequence[tuple[int, int]], dtype: DataType, max_dim: int) -> Quick:
    """A function giving (address, bytes, shape) of the usual argument: a plain writeable contiguous numpy array or CPU
    tensor of `dtype`, of `rank`, with the sizes `fixed` by axis. None for everything else, which `host_array` explains.
    """
    numpy_dtype, torch_name = dtype.numpy, dtype.torch_name or ""
    ndarray, from_buffer, addressof = np.ndarray, ctypes.c_char.from_buffer, ctypes.addressof
    modules = sys.modules

    whole = tuple(size for _, size in fixed) if len(fixed) == rank else None

    def fits(shape: tuple[int, ...]) -> bool:
        if whole is not None:
            return shape == whole
        if len(shape) != rank or 0 in shape or max(shape) >= max_dim:
            return False
        for axis, size in fixed:  # noqa: SIM110  (a generator would cost half a microsecond)
            if shape[axis] != size:
                return False
        return True

    def read(value: Any) -> tuple[int, int, tuple[int, ...]] | None:
        kind = type(value)
        if kind is ndarray:
            shape = value.shape
            if value.dtype is not numpy_dtype or value.flags.num & _BEHAVED != _BEHAVED or not fits(shape):
                return None
            try:
                address = addressof(from_buffer(value))
            except (TypeError, ValueError, BufferError):  # dtypes that the buffer protocol does not know
                address = value.__array_interface__["data"][0]
            return address, value.nbytes, shape
        torch = modules.get("torch")
        if torch is None or kind is not torch.Tensor or value.dtype is not getattr(torch, torch_name, None):
            return None
        shape = tuple(value.shape)
        if value.requires_grad or not (value.is_cpu or value.device.type in HOST_DEVICES):
            return None
        if not (value.layout is torch.strided and value.is_contiguous() and fits(shape)):
            return None
        size = value.nbytes
        if value.untyped_storage().nbytes() < size + value.storage_offset() * value.itemsize:
            return None
        return value.data_ptr(), size, shape

    return read


def _from_numpy(array: np.ndarray[Any, Any], name: str) -> HostArray:
    flags = array.flags.num
    if not flags & _ALIGNED:
        message = f"`{name}` starts at an address that is no multiple of its {array.itemsize}-byte elements"
        raise ArgumentError(message, call_site())
    strides = None
    size = array.nbytes
    if not flags & _C_CONTIGUOUS:
        strides = tuple(s // array.itemsize for s in array.strides)
        size = _extent(array.shape, strides) * array.itemsize
    dtype = array.dtype
    if dtype not in _NUMPY:
        _NUMPY[dtype] = DataType.from_numpy(dtype)
    writeable = bool(flags & _WRITEABLE)
    address = array.__array_interface__["data"][0]
    return HostArray(address, size, array.shape, strides, _NUMPY[dtype], str(dtype), writeable, array)


def _from_torch(tensor: Any, name: str) -> HostArray:
    if tensor.device.type not in HOST_DEVICES or not str(tensor.layout).endswith("strided"):
        raise ArgumentKindError(
            f"`{name}` is a {tensor.layout} tensor on device {tensor.device}; kernels run on dense CPU tensors here",
            call_site(),
        )
    dtype = tensor.dtype
    if dtype not in _TORCH:
        _TORCH[dtype] = DataType.from_torch_name(str(dtype))
    shape = tuple(tensor.shape)
    strides = None if tensor.is_contiguous() else tuple(tensor.stride())
    size = tensor.nbytes if strides is None else _extent(shape, strides) * tensor.element_size()
    writeable = not (tensor.requires_grad and sys.modules["torch"].is_grad_enabled())
    address = _torch_address(tensor, name)
    needed, held = size + tensor.storage_offset() * tensor.element_size(), tensor.untyped_storage().nbytes()
    if held < needed:
        raise ArgumentError(f"`{name}` reaches {needed} bytes into its storage, which was cut to {held}", call_site())
    return HostArray(address, size, shape, strides, _TORCH[dtype], str(dtype), writeable, tensor, _GRAD)


def _torch_address(tensor: Any, name: str) -> int:
    """Where the elements start. What torch traces with has shapes but no memory: ArgumentKindError."""
    fake = getattr(sys.modules.get("torch._subclasses.fake_tensor"), "FakeTensor", ())
    address = None
    if not isinstance(tensor, fake):
        try:
            address = tensor.data_ptr()
        except RuntimeError:
            address = None
    if address is not None and (address or tensor.untyped_storage().nbytes() < tensor.nbytes or tensor.nbytes == 0):
        return int(address)
    message = f"`{name}` is a {type(tensor).__name__} without memory, as torch uses them for tracing"
    hint = "wrap the launch in a torch.library.custom_op and register a fake for it"
    raise ArgumentKindError(message, call_site(), hint=hint)


def _extent(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Elements from the first to one past the farthest; negative strides count as nothing."""
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * max(stride, 0) for size, stride in zip(shape, strides, strict=True))
