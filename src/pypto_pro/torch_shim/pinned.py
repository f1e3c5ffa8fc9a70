"""Pinned host memory: a mark on CPU tensors, since the stand-in reads any memory of the host.

torch asks a C++ device for the allocation of `torch.empty(..., pin_memory=True)`; the functions that make tensors are
replaced by ones that allocate plainly and mark the result.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch.utils import _device

_MAKERS = ("empty", "empty_strided", "zeros", "ones", "full", "rand", "randn", "randint", "arange", "tensor",
           "empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like")  # fmt: skip
_marked: set[int] = set()
"""Addresses of the storages that were pinned."""


def register() -> tuple[Any, ...]:
    """Replace what pins. The returned libraries must be kept."""
    some = torch.library.Library("aten", "IMPL")
    some.impl("_pin_memory", _pin_memory, "CPU")
    some.impl("is_pinned", _is_pinned, "CPU")
    _device._device_constructors()  # `with torch.device(...)` knows the makers by identity: before they are replaced
    for name in _MAKERS:
        setattr(torch, name, _pinning(getattr(torch, name)))
    return (some,)


def _pinning(make: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(make)
    def maker(*args: Any, pin_memory: bool | None = False, **kwargs: Any) -> Any:
        if not pin_memory:
            return make(*args, **kwargs)
        needs_grad = kwargs.pop("requires_grad", False)
        return make(*args, **kwargs).pin_memory().requires_grad_(needs_grad)

    return maker


def _pin_memory(tensor: Any, device: Any = None) -> Any:
    made = tensor.clone()
    storage = made.untyped_storage()
    address = storage.data_ptr()
    if address:
        _marked.add(address)
        weakref.finalize(storage, _marked.discard, address).atexit = False
    return made


def _is_pinned(tensor: Any, device: Any = None) -> bool:
    return tensor.untyped_storage().data_ptr() in _marked
