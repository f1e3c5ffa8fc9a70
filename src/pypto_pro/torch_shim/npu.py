"""`torch.npu`, also `torch_npu.npu`: devices, streams, random numbers and memory of the stand-in."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace, TracebackType
from typing import Any

import torch

from pypto_pro.runtime.platform import get_platform_info
from pypto_pro.torch_shim import amp
from pypto_pro.torch_shim import current as _state
from pypto_pro.torch_shim.current import index_of
from pypto_pro.torch_shim.memory import (
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    memory_summary,
    reset_peak_memory_stats,
)
from pypto_pro.torch_shim.missing import missing_names
from pypto_pro.torch_shim.streams import (
    Event,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    set_stream,
)
from pypto_pro.torch_shim.tensors import TYPE

NAME = "Ascend950"
config = SimpleNamespace(allow_internal_format=True)
matmul = SimpleNamespace(allow_hf32=False)
conv = SimpleNamespace(allow_hf32=True)
"""Settings scripts write; none of them changes what a kernel computes: FP32 is FP32 here."""

stream = StreamContext
reset_max_memory_allocated = reset_peak_memory_stats


@dataclass(frozen=True)
class DeviceProperties:
    """What the device library says about a device. `total_memory` in bytes, of this machine."""

    name: str
    total_memory: int
    cube_core_num: int
    vector_core_num: int


def device_count() -> int:
    """How many device indices exist; all of them are this machine."""
    return _state.COUNT


def is_available() -> bool:
    """True: the stand-in needs nothing else."""
    return True


def is_initialized() -> bool:
    """True: there is nothing to set up."""
    return True


def init() -> None:
    """Set the device up: nothing to do."""


def current_device() -> int:
    """The index of this thread's current device."""
    return _state.current_index()


def set_device(device: Any) -> None:
    """Make a device (int, str or torch.device) the current one of this thread."""
    _state.set_current(device)


def synchronize(device: Any = None) -> None:
    """Wait for a device's work, which has ended when a launch returns."""
    index_of(device)


class device:  # noqa: N801  (the name scripts use)
    """`with torch.npu.device(1)`: the device is current inside. None changes nothing."""

    def __init__(self, device: Any) -> None:
        self.idx = None if device is None else index_of(device)
        self._before = 0

    def __enter__(self) -> None:
        self._before = current_device()
        if self.idx is not None:
            set_device(self.idx)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        set_device(self._before)


class device_of(device):  # noqa: N801
    """`with torch.npu.device_of(x)`: the device of a tensor is current inside; CPU tensors change nothing."""

    def __init__(self, tensor: Any) -> None:
        super().__init__(tensor.device if tensor.device.type == TYPE else None)


def get_device_name(device: Any = None) -> str:
    """The product this package models."""
    index_of(device)
    return NAME


def get_device_properties(device: Any = None) -> DeviceProperties:
    """Name, memory and core counts, those of `get_platform_info()`."""
    index_of(device)
    platform = get_platform_info()
    return DeviceProperties(NAME, mem_get_info()[1], platform.cube_core_num, platform.vector_core_num)


def is_bf16_supported() -> bool:
    """True on this product."""
    return True


def get_amp_supported_dtype() -> list[Any]:
    """What `torch.autocast` may run operators in."""
    return [torch.float16, torch.bfloat16]


def set_compile_mode(jit_compile: bool = False) -> None:
    """How the device library compiles its own operators, of which there are none here."""


def set_option(option: dict[str, Any]) -> None:
    """Settings of the device library, without effect."""


def is_current_stream_capturing() -> bool:
    """False: there is no graph capture."""
    return False


# --- random numbers ---------------------------------------------------------------------------------------------------


def manual_seed(seed: int) -> None:
    """Seed the current device's generator."""
    _state.npu_generator().manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all devices; `torch.manual_seed` calls it."""
    _state.seed_all(int(seed))


def seed() -> int:
    """Seed the current device's generator with a fresh number; the number."""
    return int(_state.npu_generator().seed())


def seed_all() -> None:
    """Seed the generators of all devices with one fresh number."""
    manual_seed_all(seed())


def initial_seed() -> int:
    """The number the current device's generator was seeded with."""
    return int(_state.npu_generator().initial_seed())


def get_rng_state(device: Any = None) -> Any:
    """The state of a device's generator, a CPU tensor of bytes."""
    return _state.npu_generator(index_of(device)).get_state()


def set_rng_state(new_state: Any, device: Any = None) -> None:
    """Put a device's generator into a state that `get_rng_state` gave."""
    _state.npu_generator(index_of(device)).set_state(new_state)


# --- what torch itself asks of a device module ------------------------------------------------------------------------


def _lazy_init() -> None:
    """Nothing to do."""


def _is_in_bad_fork() -> bool:
    return False


__all__ = [
    "DeviceProperties", "Event", "Stream", "StreamContext", "amp", "config", "conv", "current_device", "current_stream",
    "default_stream", "device", "device_count", "device_of", "empty_cache", "get_amp_supported_dtype",
    "get_device_name", "get_device_properties", "get_rng_state", "init", "initial_seed", "is_available",
    "is_bf16_supported", "is_current_stream_capturing", "is_initialized", "manual_seed", "manual_seed_all", "matmul",
    "max_memory_allocated", "max_memory_reserved", "mem_get_info", "memory_allocated", "memory_reserved",
    "memory_stats", "memory_summary", "reset_max_memory_allocated", "reset_peak_memory_stats", "seed", "seed_all",
    "set_compile_mode", "set_device", "set_option", "set_rng_state", "set_stream", "stream", "synchronize",
]  # fmt: skip
_GRAPHS = ("NPUGraph", "graph", "graph_pool_handle", "make_graphed_callables")

__getattr__ = missing_names(
    "torch.npu", __all__, dict.fromkeys(_GRAPHS, "graphs are not captured here: run the code itself")
)
