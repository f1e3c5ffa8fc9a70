"""Launches with ordinary torch tensors, without the stand-in: what is refused, and torch.compile around a launch."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import pypto_pro.language as pl
from pypto_pro.diag.errors import ArgumentError, ArgumentKindError


@pl.jit
def triple(x: pl.Tensor[[16, 64], pl.DT_FP32], y: pl.Ptr[pl.DT_FP32]):
    tile = pl.TileType(shape=[16, 64], dtype=pl.DT_FP32)
    with pl.section_vector():
        t = pl.make_tile_group(type=tile, addrs=0, mutex_ids=[0]).current()
        pl.load(t, x, [0, 0])
        pl.mul(t, t, 3.0)
        pl.store(pl.make_tensor(y, [16, 64], [64, 1], dtype=pl.DT_FP32), t, [0, 0])


def pair() -> tuple[Any, Any]:
    return torch.ones(16, 64), torch.zeros(16, 64)


def test_autograd_cannot_see_a_kernel_write() -> None:
    x, y = pair()
    with pytest.raises(ArgumentError, match="`y` is written by the kernel, found a tensor that requires grad"):
        triple(x, y.requires_grad_())
    with torch.no_grad():
        triple(x, y)
    assert torch.equal(y, 3 * x)
    triple(x.requires_grad_(), y.detach())  # what is only read may require grad


@pytest.mark.parametrize("make", [lambda x: x.to("meta"), lambda x: x.to_sparse()])
def test_other_memory_is_refused(make: Any) -> None:
    x, y = pair()
    with pytest.raises(ArgumentKindError, match=r"kernels run on dense CPU tensors here"):
        triple(x, make(y))


def test_tracing_tensors_are_refused() -> None:
    with torch._subclasses.FakeTensorMode(), pytest.raises(ArgumentKindError, match="is a FakeTensor without memory"):
        triple(*pair())


def test_compile_breaks_its_graph_at_a_launch() -> None:
    def step(x: Any, y: Any) -> Any:
        a = x + 1
        triple[None, 1](a, y)
        return y * 2

    x, y = pair()
    counters = torch._dynamo.utils.counters
    counters.clear()
    compiled = torch.compile(step, backend="eager")
    for _ in range(2):
        assert torch.equal(compiled(x, y), torch.full((16, 64), 12.0))
    assert counters["stats"]["unique_graphs"] == 2  # before and after the launch; nothing of the package is traced
    with pytest.raises(torch._dynamo.exc.Unsupported, match="a kernel launch"):
        torch.compile(lambda x, y: step(x, y), backend="eager", fullgraph=True)(x, y)
