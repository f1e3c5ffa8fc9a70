"""Placement that no run survives is refused at the first launch, with the rows of the table; overlaps never are."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pypto_pro
import pypto_pro.language as pl
from pypto_pro.diag.errors import ParserSyntaxError, PlacementError
from pypto_pro.hw.a5 import SPACES
from pypto_pro.memory.launch import certain_errors
from pypto_pro.runtime.inspect import find_kernel, kernel_ir, load_file

F32, F8, E8 = pl.DT_FP32, pl.DT_FP8E4M3FN, pl.DT_FP8E8M0
ROOT = Path(__file__).parents[2]
TOP = SPACES[pl.MemorySpace.Vec].capacity
SIZE = 8 * 64 * 4


def kernel_at(addrs: Any, ids: Any = (0, 1)) -> Any:
    """A kernel that copies through the first slot of a group."""
    addrs, ids = list(addrs) if isinstance(addrs, list) else addrs, list(ids)

    @pl.jit
    def copy(x: pl.Tensor[[8, 64], pl.DT_FP32], y: pl.Tensor[[8, 64], pl.DT_FP32]):
        with pl.section_vector():
            tiles = pl.make_tile_group(type=pl.TileType(shape=[8, 64], dtype=pl.DT_FP32), addrs=addrs, mutex_ids=ids)
            t = tiles.next()
            pl.load(t, x, [0, 0])
            pl.store(y, t, [0, 0])

    return copy


def run(kernel: Any, executor: str = "native") -> np.ndarray:
    x, y = np.arange(512, dtype=np.float32).reshape(8, 64), np.zeros((8, 64), np.float32)
    with pypto_pro.options(executor=executor):
        kernel[None, 1](x, y)
    return y


@pytest.mark.parametrize("executor", ["native", "interp"])
def test_over_capacity_is_refused_each_time(executor: str) -> None:
    kernel = kernel_at([0, TOP - SIZE + 32])
    for _ in range(2):
        with pytest.raises(PlacementError) as caught:
            run(kernel, executor)
        assert isinstance(caught.value, ValueError)
        found = caught.value.diagnostic
        assert (found.code, found.kind, found.kernel) == ("M103", "over_capacity", "copy")
        assert f"{TOP + 32} B), capacity {TOP} B: 32 B too many" in found.message
        assert any(n.startswith("row: Vec tiles[1] [0x3D820,0x3E020) 2048 B") for n in found.notes)
        assert "tiles = pl.make_tile_group" in found.spans[0].source_line()
        assert "[M103]" in str(caught.value)


def test_the_last_byte_of_a_space_is_usable() -> None:
    assert run(kernel_at([0, TOP - SIZE])).sum() == np.arange(512).sum()


def test_check_reports_it_and_still_runs() -> None:
    x, y = np.ones((8, 64), np.float32), np.zeros((8, 64), np.float32)
    report = pypto_pro.check(kernel_at([0, TOP])[None, 1], x, y)
    assert [f.kind for f in report.findings if str(f.severity) == "error"] == ["over_capacity"]
    assert y.all()


@pytest.mark.parametrize(("addrs", "row"), [
    ([0, 0x810], "row: Vec tiles[1] [0x00810,0x01010) 2048 B"),
    ([-32, 0], "row: Vec tiles[0] [-0x00020,0x007E0) 2048 B"),
])  # fmt: skip
def test_what_the_front_end_refuses_names_the_row(addrs: list[int], row: str) -> None:
    with pytest.raises(ParserSyntaxError) as caught:
        run(kernel_at(addrs))
    assert row in caught.value.diagnostic.notes


def test_overlaps_run() -> None:
    kernel = kernel_at([0, 0x400])
    assert run(kernel).sum() == np.arange(512).sum()
    assert run(kernel, "interp").sum() == np.arange(512).sum()


# --- MX scales of groups that turn -----------------------------------------------------------------------------------


def scaled(scales: list[int]) -> Any:
    """An MX product whose operands rotate: which slot is met shows at run time only."""

    @pl.jit
    def scaled_product(
        a: pl.Tensor[[32, 64], F8], b: pl.Tensor[[64, 32], F8], c: pl.Tensor[[32, 32], F32], n: pl.DT_INT32
    ):
        with pl.section_cube():
            left_type = pl.TileType(shape=[32, 64], dtype=F8, target_memory=pl.MemorySpace.Left)
            right_type = pl.TileType(shape=[64, 32], dtype=F8, target_memory=pl.MemorySpace.Right)
            sa_type = pl.TileType(shape=[32, 2], dtype=E8, target_memory=pl.MemorySpace.ScaleLeft)
            sb_type = pl.TileType(shape=[2, 32], dtype=E8, target_memory=pl.MemorySpace.ScaleRight)
            acc = pl.make_tile(pl.TileType(shape=[32, 32], dtype=F32, target_memory=pl.MemorySpace.Acc), addr=0)
            lefts = pl.make_tile_group(type=left_type, addrs=[0, 0x8000], mutex_ids=[0, 1])
            left_scales = pl.make_tile_group(type=sa_type, addrs=scales, mutex_ids=[0, 1])
            right = pl.make_tile(right_type, addr=0)
            right_scale = pl.make_tile(sb_type, addr=0)
            for _i in pl.range(n):
                pl.matmul_mx(acc, lefts.next(), right, left_scales.next(), right_scale)

    return scaled_product


def test_scales_at_no_data_address_are_refused() -> None:
    assert not certain_errors(kernel_ir(scaled([0, 0x800])))
    arrays = np.zeros((32, 64), np.uint8), np.zeros((64, 32), np.uint8), np.zeros((32, 32), np.float32)
    arrays = tuple(x.view(t.numpy) for x, t in zip(arrays, (F8, F8, F32), strict=True))
    with pytest.raises(PlacementError, match=r"left_scales\[1\]` is at 0x00400.*from 0x00800") as caught:
        scaled([0, 0x400])[None, 1](*arrays, 0)
    assert caught.value.diagnostic.code == "M104"
    assert any(n.startswith("row: ScaleLeft left_scales[1] [0x00400,0x00440)") for n in caught.value.diagnostic.notes)


def test_a_clean_kernel_has_no_certain_errors() -> None:
    kernel = kernel_ir(find_kernel(load_file(ROOT / "tests" / "kernels" / "good" / "k15_flash_attention.py")))
    assert certain_errors(kernel) == ()


def test_a_plain_launch_imports_no_report(tmp_path: Path) -> None:
    import subprocess

    script = tmp_path / "plain.py"
    script.write_text(
        "import sys, numpy as np\nimport pypto_pro.language as pl\n\n\n@pl.jit\n"
        "def copy(x: pl.Tensor[[8, 64], pl.DT_FP32], y: pl.Tensor[[8, 64], pl.DT_FP32]):\n"
        "    with pl.section_vector():\n"
        "        t = pl.make_tile_group(type=pl.TileType(shape=[8, 64], dtype=pl.DT_FP32), addrs=0, mutex_ids=[0])[0]\n"
        "        pl.load(t, x, [0, 0])\n        pl.store(y, t, [0, 0])\n\n\n"
        "copy[None, 1](np.ones((8, 64), np.float32), np.zeros((8, 64), np.float32))\n"
        "assert 'pypto_pro.memory.launch' in sys.modules\nassert 'pypto_pro.memory.check' not in sys.modules\n"
    )
    subprocess.run([sys.executable, script], check=True, timeout=120)
