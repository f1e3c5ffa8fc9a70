"""Giving torch the device: its name, module and operators, and the few entry points that ask for a C++ device."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch.utils import backend_registration

from pypto_pro.runtime import arrays
from pypto_pro.torch_shim import amp, autocast, distributed, npu, operators, pinned, queues, recurrent
from pypto_pro.torch_shim.current import COUNT, index_of
from pypto_pro.torch_shim.missing import unsupported
from pypto_pro.torch_shim.tensors import TYPE, place

_kept: list[Any] = []


def register() -> None:
    """Once in a process: rename torch's free device key and register everything behind it."""
    backend_registration._setup_privateuseone_for_python_backend(TYPE, npu)
    for part in (operators, recurrent, autocast, distributed, pinned):
        _kept.extend(part.register())
    sys.modules["torch.npu.amp"] = amp
    arrays.HOST_DEVICES.add(TYPE)
    torch.Generator = Generator
    torch.UntypedStorage.__new__ = _new_storage
    torch.accelerator.synchronize = npu.synchronize
    torch.accelerator.current_device_index = npu.current_device
    torch.accelerator.set_device_index = npu.set_device
    torch.compile = _compile
    torch.autograd.backward, torch.autograd.grad = map(_on_any_index, (torch.autograd.backward, torch.autograd.grad))


class _AnyGenerator(type(torch.Generator)):  # type: ignore[misc]
    """`isinstance(g, torch.Generator)` holds for torch's own generators too."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, torch._C.Generator)


class Generator(torch._C.Generator, metaclass=_AnyGenerator):  # type: ignore[misc]
    """`torch.Generator` that also takes the device of the stand-in, where it makes the numbers of the CPU's."""

    def __new__(cls, device: Any = "cpu") -> Generator:
        """As torch's own: `device` a str or a torch.device."""
        asked = torch.device(device)
        made: Generator = super().__new__(cls, "cpu" if asked.type == TYPE else asked)
        made.asked = torch.device(TYPE, index_of(asked)) if asked.type == TYPE else asked
        return made

    @property
    def device(self) -> Any:
        """The device that was asked for."""
        return self.asked


_plain_new_storage = torch.UntypedStorage.__new__
_plain_compile = torch.compile


def _new_storage(cls: type, *args: Any, device: Any = None, **kwargs: Any) -> Any:
    """Storage of the stand-in by size; torch would look for an allocator written in C++."""
    if device is None:
        return _plain_new_storage(cls, *args, **kwargs)
    if torch.device(device).type != TYPE:
        return _plain_new_storage(cls, *args, device=device, **kwargs)
    return place(torch.empty(args[0] if args else 0, dtype=torch.uint8), index_of(device)).untyped_storage()


def _compile(model: Any = None, *, backend: Any = "inductor", **kwargs: Any) -> Any:
    """`torch.compile`; graphs with tensors of the stand-in run as captured, for no code generator knows the device."""
    if backend != "inductor":
        return _plain_compile(model, backend=backend, **kwargs)
    choice = torch._TorchCompileInductorWrapper(
        kwargs.pop("mode", None), kwargs.pop("options", None), kwargs.get("dynamic")
    )

    def generate(graph: Any, inputs: Any, **_: Any) -> Any:
        if any(isinstance(value, torch.Tensor) and value.device.type == TYPE for value in inputs):
            return graph.forward
        return choice(graph, inputs)

    return _plain_compile(model, backend=generate, **kwargs)


def _on_any_index(run: Callable[..., Any]) -> Callable[..., Any]:
    """A function of autograd, on every device index where torch lets us."""

    @wraps(run)
    def checked(*args: Any, **kwargs: Any) -> Any:
        queues.start()
        try:
            return run(*args, **kwargs)
        except RuntimeError as error:
            if "device_ready_queues_" not in str(error):
                raise
            what = f"this torch has no gradients on {TYPE}:1 to {TYPE}:{COUNT - 1}"
            raise unsupported(what, f"use {TYPE}:0: an index is only a name here") from None

    return checked
