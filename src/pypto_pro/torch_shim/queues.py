"""A queue of backward work for every device index. torch's engine makes one for devices written in Python, so that
gradients would exist on npu:0 only.

The engine asks every device type, once, how many devices it has. While it does, an unused type answers as many as the
stand-in has. Its C++ object has nothing but a table of virtual functions, all of them one that returns that number:
asked for its type it names one that is no host, told to set a device it does nothing.
"""

from __future__ import annotations

import ctypes
import threading
from pathlib import Path

import torch

from pypto_pro.torch_shim.current import COUNT

_REGISTRY = "_ZN3c104impl26device_guard_impl_registryE"
_UNUSED = 7  # FPGA; the registry has more entries in every version
_VIRTUALS = 64  # more than the interface has
_once = threading.Lock()
_kept: list[object] = []
_count = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(lambda this: COUNT)
_backward = torch.autograd.backward


def start() -> None:
    """Let the engine make its queues, once; where torch does not show its registry, nothing happens."""
    with _once:
        if _kept:
            return
        table = (ctypes.c_void_p * _VIRTUALS)(*[ctypes.cast(_count, ctypes.c_void_p).value] * _VIRTUALS)
        answering = ctypes.c_void_p(ctypes.addressof(table))
        _kept.extend((table, answering))
        try:
            library = ctypes.CDLL(str(Path(torch.__file__).with_name("lib") / "libc10.so"))
            registry = (ctypes.c_void_p * (_UNUSED + 1)).in_dll(library, _REGISTRY)
        except (OSError, ValueError):
            return
        if registry[_UNUSED] is None:
            registry[_UNUSED] = ctypes.addressof(answering)
            _backward(torch.zeros(1, requires_grad=True).sum())
            registry[_UNUSED] = None
