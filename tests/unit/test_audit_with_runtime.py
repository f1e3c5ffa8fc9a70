"""The recorder on a kernel that really runs: what the executor does with the tensors is not the wrapper's doing."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

import pypto_pro

torch = pytest.importorskip("torch")

TEXT = """\
import torch
import pypto_pro.language as pl


@pl.jit(auto_mutex=True)
def twice_kernel(x: pl.Tensor[[pl.DYNAMIC, 64], pl.DT_FP32], y: pl.Tensor[[pl.DYNAMIC, 64], pl.DT_FP32]):
    kind = pl.TileType(shape=[16, 64], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec)
    with pl.section_vector():
        tiles = pl.make_tile_group(type=kind, addrs=0, mutex_ids=[0, 1])
        for r in pl.range(pl.get_block_idx() * 16, y.shape[0], pl.get_block_num() * 16):
            t = tiles.next()
            pl.load(t, x, [r, 0])
            pl.add(t, t, t)
            pl.store(y, t, [r, 0])


def twice_wrapper(x):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    twice_kernel[None, 2](x, y)
    return y


def careless_wrapper(x):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    twice_kernel[None, 2](x.float(), y)
    return y.half()
"""


@pytest.fixture
def wrappers(tmp_path: Path) -> ModuleType:
    path = tmp_path / "twice.py"
    path.write_text(TEXT, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("twice", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_legal_wrapper_is_clean(wrappers: ModuleType) -> None:
    x = torch.arange(48 * 64, dtype=torch.float32).reshape(48, 64)
    result = pypto_pro.record_wrapper(wrappers.twice_wrapper, x)
    assert result.clean, result.render()
    assert result.record.kernels == ["twice_kernel"]
    assert [op.name for op in result.record.ops if op.level == "dispatch"] == ["aten::empty.memory_format"]
    assert result.record.outputs_matched == [{"var": "y", "kernel_param": "y"}]
    assert torch.equal(wrappers.twice_wrapper(x), 2 * x)


def test_a_careless_wrapper_is_seen_before_and_after_the_launch(wrappers: ModuleType) -> None:
    result = pypto_pro.record_wrapper(wrappers.careless_wrapper, torch.ones(16, 64))
    assert not result.clean
    assert [(op.code, op.phase) for op in result.record.violations] == [("W101", "before"), ("W101", "after")]
    assert result.static is not None
    assert [(f.code, f.dynamic) for f in result.static.findings] == [("W101", "confirmed")] * 2
    assert result.disagreements == ()
