"""Operators on tensors of the stand-in: torch's CPU kernels on the same bytes, the results given the device back."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import torch

from pypto_pro.torch_shim.current import index_of, npu_generator
from pypto_pro.torch_shim.missing import unsupported
from pypto_pro.torch_shim.tensors import CPU, TYPE, adopt, host_view, native, packed_of, place

_aten = torch.ops.aten
KEY = "PrivateUse1"
_HOST_NAMESPACES = ("aten", "prims")
_METADATA_ONLY = (
    _aten.as_strided.default, _aten.view.default, _aten._reshape_alias.default, _aten.unfold.default,
    _aten.view_as_real.default, _aten.view_as_complex.default,
    _aten.set_.source_Storage, _aten.set_.source_Storage_storage_offset, _aten.set_.source_Tensor,
)  # fmt: skip
_WITHOUT_OUT = (_aten.mse_loss.default, _aten.smooth_l1_loss.default)
"""Operators whose variant with `out`, which torch would choose, warns about the result it has made itself."""
_MAY_MIX = ("index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index", "_unsafe_index_put")
"""Operators whose index tensors may be on the CPU."""


def register() -> tuple[Any, ...]:
    """Register all operators. The returned libraries must be kept: their end is the end of the registration."""
    every = torch.library.Library("_", "IMPL")
    every.fallback(run_on_host, KEY)
    some = torch.library.Library("aten", "IMPL")
    for op in _METADATA_ONLY:
        some.impl(op, _metadata_kernel(op), KEY)
    some.impl("_copy_from", _copy_from, KEY)
    for lazy in ("Conjugate", "Negative"):  # torch would resolve these by a copy, for ever
        some.impl("_copy_from", torch.library.fallthrough_kernel, lazy)
    some.impl("resize_", _resize, KEY)
    for op in _WITHOUT_OUT:
        some.impl(op, partial(run_on_host, op), KEY)
    # what torch calls on devices whose convolution it does not know
    some.impl("convolution_overrideable", _convolution, KEY)
    some.impl("convolution_backward_overrideable", _convolution_backward, KEY)
    return every, some


def run_on_host(op: Any, *args: Any, **kwargs: Any) -> Any:
    """An operator on tensors of the stand-in, run by torch's CPU kernel.

    NotImplementedError for custom operators without a kernel for the device; RuntimeError for mixed devices.
    """
    if op.namespace not in _HOST_NAMESPACES:
        name = f"{op.namespace}::{op._opname}"
        raise unsupported(
            f"`{name}` has no kernel for device {TYPE}",
            hint=f'register one: torch.library.impl("{name}", "{TYPE}"), or custom_op(..., device_types="{TYPE}")',
        )
    call = HostCall(op)
    host_args = [call.to_host(value) for value in args]
    host_kwargs = {name: call.to_host(value) for name, value in kwargs.items()}
    call.check_devices()
    if call.has_packed:
        _refuse_writes(op, args, kwargs)
    at = _generator_position(op)
    if at is not None and len(args) <= at and kwargs.get("generator") is None:
        host_kwargs["generator"] = npu_generator(call.index)
    run = op.overloadpacket if _has_number_for_tensor(op, host_args) else op
    return call.to_device(run(*host_args, **host_kwargs))


class HostCall:
    """The tensors of one operator call, on both sides."""

    def __init__(self, op: Any) -> None:
        self.op = op
        self.pairs: list[tuple[Any, Any]] = []
        """(tensor of the stand-in, CPU tensor that the kernel sees)."""
        self.on_cpu: Any = None
        self.has_packed = False
        self._index: int | None = None

    @property
    def index(self) -> int:
        """The device index of results."""
        return index_of() if self._index is None else self._index

    def to_host(self, value: Any) -> Any:
        """An argument as the CPU kernel takes it."""
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, torch.device):
            if value.type != TYPE:
                return value
            self._index = index_of(value)
            return CPU
        if isinstance(value, list | tuple):
            return [self.to_host(item) for item in value]
        return value

    def _tensor(self, value: Any) -> Any:
        if value.device.type != TYPE:
            if value.device.type == "cpu" and value.dim() > 0:
                self.on_cpu = value
            return value
        if self._index is None:
            self._index = value.device.index
        self.has_packed = self.has_packed or packed_of(value) is not None
        # an empty tensor may be a result that the kernel is to resize: borrowed memory cannot grow, new memory can
        has_memory = value.untyped_storage().nbytes() > 0
        seen = host_view(value) if has_memory else torch.empty(value.shape, dtype=value.dtype)
        self.pairs.append((value, seen))
        return seen

    def check_devices(self) -> None:
        """RuntimeError for CPU tensors among tensors of the stand-in, or tensors of several devices."""
        devices = {str(value.device) for value, _ in self.pairs}
        if self.pairs and self.on_cpu is not None and self.op._opname not in _MAY_MIX:
            devices.add("cpu")
        if len(devices) > 1:
            names = " and ".join(sorted(devices, reverse=True))
            message = f"Expected all tensors to be on the same device, but found at least two devices, {names}!"
            raise RuntimeError(message)

    def to_device(self, result: Any) -> Any:
        """A result of the CPU kernel, its tensors on the device: arguments themselves, views of arguments, or new."""
        if isinstance(result, torch.Tensor):
            return self._placed(result)
        if isinstance(result, list | tuple):
            return type(result)(self.to_device(item) for item in result)
        return result

    def _placed(self, result: Any) -> Any:
        address = result.untyped_storage().data_ptr()
        for value, seen in self.pairs:
            if result is seen:
                return _updated(value, seen)
            if address and address == seen.untyped_storage().data_ptr():
                if result.dtype != value.dtype:
                    raise unsupported(f"the view that {self.op} makes does not exist on device {TYPE}")
                return native(_aten.as_strided.default, value, result.size(), result.stride(), result.storage_offset())
        return place(result, self.index) if result.device.type == "cpu" else result


def _updated(value: Any, seen: Any) -> Any:
    """An argument that the kernel wrote, with the size and memory that it gave it."""
    storage = value.untyped_storage()
    grown = seen.numel() and seen.untyped_storage().data_ptr() != storage.data_ptr()
    if grown:
        storage = place(seen, value.device.index).untyped_storage()
    if grown or (seen.size(), seen.stride()) != (value.size(), value.stride()):
        adopt(value, storage, seen)
    return value


@cache
def _generator_position(op: Any) -> int | None:
    names = [argument.name for argument in op._schema.arguments]
    return names.index("generator") if "generator" in names else None


@cache
def _tensor_positions(op: Any) -> tuple[int, ...]:
    return tuple(i for i, argument in enumerate(op._schema.arguments) if str(argument.type) == "Tensor")


def _has_number_for_tensor(op: Any, args: list[Any]) -> bool:
    """Whether torch turned a number among the operands, which it had made a tensor, back into a number for us.

    The overload itself would refuse it; the one for scalars, which the packet finds, has the same meaning.
    """
    return any(i < len(args) and isinstance(args[i], bool | int | float | complex) for i in _tensor_positions(op))


def _refuse_writes(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """UnsupportedError when the operator writes a tensor whose bytes are packed: its kernel saw a copy."""
    for position, argument in enumerate(op._schema.arguments):
        value = kwargs.get(argument.name, args[position] if position < len(args) else None)
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        for tensor in value if isinstance(value, list | tuple) else (value,):
            _refuse_packed(tensor)


def _refuse_packed(target: Any) -> None:
    if isinstance(target, torch.Tensor) and target.device.type == TYPE and packed_of(target) is not None:
        raise unsupported("a tensor in FRACTAL_NZ format cannot be written by torch operators")


def _metadata_kernel(op: Any) -> Any:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        return native(op, *args, **kwargs)

    return kernel


def _host(tensor: Any) -> Any:
    """The CPU tensor over the same bytes, lazily conjugated and negated as the tensor is."""
    if tensor.device.type != TYPE:
        return tensor
    view = host_view(tensor)
    view = view.conj() if tensor.is_conj() else view
    return torch._neg_view(view) if tensor.is_neg() else view


def _copy_from(source: Any, target: Any, non_blocking: bool = False) -> Any:
    """Every copy between devices, or between dtypes and strides on one device."""
    _refuse_packed(target)
    _host(target).copy_(_host(source))
    return target


def _resize(tensor: Any, size: Any, *, memory_format: Any = None) -> Any:
    count = 1
    for extent in size:
        count *= extent
    needed = (tensor.storage_offset() + count) * tensor.element_size()
    storage = tensor.untyped_storage()
    if needed > storage.nbytes():
        grown = torch.empty(needed, dtype=torch.uint8)
        if storage.nbytes():
            old = torch._C._construct_storage_from_data_pointer(storage.data_ptr(), CPU, storage.nbytes())
            grown[: storage.nbytes()].copy_(torch.empty(0, dtype=torch.uint8).set_(old))
        adopt(tensor, place(grown, tensor.device.index).untyped_storage(), tensor)
    return native(_aten.resize_.default, tensor, size, memory_format=memory_format)


def _convolution(*args: Any) -> Any:
    return run_on_host(_aten.convolution.default, *args)


def _convolution_backward(grad: Any, image: Any, weight: Any, *rest: Any) -> Any:
    bias_sizes = [weight.shape[1] * rest[5] if rest[3] else weight.shape[0]]
    return run_on_host(_aten.convolution_backward.default, grad, image, weight, bias_sizes, *rest)
