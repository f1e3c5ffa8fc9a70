"""Backend `hccl` of torch.distributed: collectives of tensors of the stand-in, between processes of this machine.

`gloo` carries the bytes. A process group of one process needs nothing else; for several, let the launcher start each
under `pypto-pro run`: `torchrun --nproc-per-node 2 --no-python pypto-pro run SCRIPT`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from pypto_pro.torch_shim.missing import unsupported
from pypto_pro.torch_shim.operators import KEY, HostCall
from pypto_pro.torch_shim.tensors import TYPE

NAME = "hccl"


def register() -> tuple[Any, ...]:
    """Make `hccl` the backend of device npu where torch has gloo. The returned libraries must be kept."""
    if not (dist.is_available() and dist.is_gloo_available()):
        return ()
    # for the CPU too: that is where the collectives of the stand-in end up
    dist.Backend.register_backend(NAME, _create, devices=["cpu", TYPE])
    dist.is_hccl_available = dist.is_gloo_available
    ops = torch.library.Library("c10d", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that torch's kernels, which want a C++ backend, are replaced
        for name in torch._C._dispatch_get_registrations_for_dispatch_key(KEY):
            space, _, op = name.partition("::")
            if space == "c10d":
                ops.impl(op, _collective(getattr(torch.ops.c10d, op).default), KEY, allow_override=True)
    return (ops,)


def _create(store: Any, rank: int, size: int, timeout: timedelta) -> Any:
    return dist.ProcessGroupGloo(store, rank, size, timeout)


def _collective(op: Any) -> Callable[..., Any]:
    """The kernel that runs a collective on the same bytes as CPU tensors."""

    def kernel(*args: Any) -> Any:
        call = HostCall(op)
        host_args = [call.to_host(value) for value in args]
        call.check_devices()
        if call.has_packed:
            raise unsupported("a tensor in FRACTAL_NZ format cannot take part in a collective")
        for value, seen in call.pairs:  # the transfer may outlive the call
            seen.untyped_storage().source = value
        return call.to_device(op(*host_args))

    return kernel
