"""`torch.npu.amp`, also `torch_npu.npu.amp`: automatic mixed precision, torch's own with the device filled in."""

from __future__ import annotations

from typing import Any

import torch

from pypto_pro.torch_shim.missing import missing_names
from pypto_pro.torch_shim.tensors import TYPE


class autocast(torch.amp.autocast):  # type: ignore[misc]  # noqa: N801  (the name scripts use)
    """`torch.autocast("npu")`, FP16 unless `dtype` says BF16."""

    def __init__(self, enabled: bool = True, dtype: Any = torch.float16, cache_enabled: bool = True) -> None:
        super().__init__(TYPE, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(torch.amp.GradScaler):  # type: ignore[misc]
    """`torch.amp.GradScaler("npu")`."""

    def __init__(
        self, init_scale: float = 2.0**16, growth_factor: float = 2.0, backoff_factor: float = 0.5,
        growth_interval: int = 2000, enabled: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(TYPE, init_scale, growth_factor, backoff_factor, growth_interval, enabled)


__all__ = ["GradScaler", "autocast"]
__getattr__ = missing_names("torch.npu.amp", __all__)
