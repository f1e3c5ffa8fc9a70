"""Memory queries of `torch.npu`: the bytes that tensors of the stand-in really hold, in this machine's memory."""

from __future__ import annotations

import os
from typing import Any

from pypto_pro.torch_shim.current import index_of
from pypto_pro.torch_shim.tensors import Usage, usage


def _of(device: Any) -> Usage:
    return usage.setdefault(index_of(device), Usage())


def memory_allocated(device: Any = None) -> int:
    """Bytes of the live tensors of a device."""
    return _of(device).live


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that tensors of a device held since the start or the last reset."""
    return _of(device).peak


def memory_reserved(device: Any = None) -> int:
    """Bytes taken from the system: those of live tensors, since nothing is kept for later."""
    return _of(device).live


def max_memory_reserved(device: Any = None) -> int:
    """As `max_memory_allocated`."""
    return _of(device).peak


def reset_peak_memory_stats(device: Any = None) -> None:
    """Start the peak anew from what is held now."""
    used = _of(device)
    used.peak = used.live


def empty_cache() -> None:
    """Give unused memory back: none is kept."""


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """(free, total) bytes of this machine's memory."""
    index_of(device)
    page = os.sysconf("SC_PAGE_SIZE")
    return os.sysconf("SC_AVPHYS_PAGES") * page, os.sysconf("SC_PHYS_PAGES") * page


def memory_stats(device: Any = None) -> dict[str, int]:
    """The counts there are, under the keys of the device library."""
    used = _of(device)
    return {
        "allocated_bytes.all.current": used.live,
        "allocated_bytes.all.peak": used.peak,
        "allocation.all.current": used.count,
        "reserved_bytes.all.current": used.live,
        "reserved_bytes.all.peak": used.peak,
    }


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """`memory_stats` as text, a line each."""
    return "\n".join(f"{name:32} {value:>16}" for name, value in memory_stats(device).items())
