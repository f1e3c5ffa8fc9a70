"""The current device and the random generators, one per device index."""

from __future__ import annotations

import threading
from typing import Any

import torch

from pypto_pro.torch_shim.tensors import TYPE

COUNT = 8
"""Device indices that exist, as on a server; an index is only a name here. Scripts often carry one."""


class _Current(threading.local):
    index = 0


_current = _Current()
_generators: dict[int, Any] = {}
_seed: int | None = None


def current_index() -> int:
    """The index of this thread's current device."""
    return _current.index


def set_current(device: Any) -> int:
    """Make a device the current one of this thread; its index."""
    _current.index = index_of(device)
    return _current.index


def index_of(device: Any = None) -> int:
    """The index that None (the current device), an int, "npu", "npu:3" or a torch.device stands for.

    RuntimeError for an index that does not exist, ValueError for devices of another type.
    """
    if device is None:
        return _current.index
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if device.type != TYPE:
            raise ValueError(f"expected a device of type {TYPE}, found {device}")
        # where a script says `npu`, torch itself fills in index 0, whatever the current device is
        device = device.index or _current.index
    if not isinstance(device, int) or isinstance(device, bool):
        raise TypeError(f"a device is an int, a str or a torch.device, found {type(device).__name__}")
    if not 0 <= device < COUNT:
        raise RuntimeError(f"invalid device index {device}: there are {COUNT} devices, {TYPE}:0 to {TYPE}:{COUNT - 1}")
    return device


def npu_generator(index: int | None = None) -> Any:
    """The default random generator of a device: its own, so that the CPU's numbers do not depend on the device's."""
    index = _current.index if index is None else index
    if index not in _generators:
        _generators[index] = torch.Generator().manual_seed(torch.initial_seed() if _seed is None else _seed)
    return _generators[index]


def seed_all(seed: int) -> None:
    """Seed the generators of all devices, those used later included."""
    global _seed
    _seed = seed
    for generator in _generators.values():
        generator.manual_seed(seed)
