"""Vector ops through whole kernels: front end, both executors, all schedules; the operators in examples/."""

import importlib.util
import pathlib
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import pypto_pro
import pypto_pro.language as pl

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
OPERATORS = ["gelu", "log_softmax", "one_hot", "quantise", "rmsnorm", "topk"]
RUNS = [{"executor": "native"}, {"executor": "interp"}, {"executor": "interp", "schedule": "latest"}]


def example(name: str) -> ModuleType:
    """A module of examples/, freshly executed."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("run", RUNS, ids=lambda r: "-".join(r.values()))
@pytest.mark.parametrize("name", OPERATORS)
def test_operator(name: str, run: dict[str, str]) -> None:
    """`main` of an example compares with numpy itself."""
    with pypto_pro.options(**run):
        example(name).main()


R, C = 4, 64
SIZE = R * C * 4
VALID = [3, 37]


@pl.jit
def many(
    x: pl.Tensor[[R, C], pl.DT_FP32], y: pl.Tensor[[R, C], pl.DT_FP32], n: pl.Tensor[[R, C], pl.DT_INT32],
    out: pl.Tensor[[12, R, C], pl.DT_FP32],
):
    """Legacy names and forms that only the front end tells apart, one result a plane of `out`."""
    tile = pl.TileType(shape=[R, C], dtype=pl.DT_FP32, valid_shape=[-1, -1])
    ints = pl.TileType(shape=[R, C], dtype=pl.DT_INT32, valid_shape=[-1, -1])
    bits = pl.TileType(shape=[R, C], dtype=pl.DT_UINT8)
    column = pl.TileType(shape=[8, 1], dtype=pl.DT_FP32, layout=pl.DN, valid_shape=[-1, -1])
    line = pl.TileType(shape=[1, C], dtype=pl.DT_FP32, valid_shape=[-1, -1])
    with pl.section_vector():
        a = pl.make_tile_group(type=tile, addrs=0, mutex_ids=[0]).current()
        b = pl.make_tile_group(type=tile, addrs=SIZE, mutex_ids=[1]).current()
        c = pl.make_tile_group(type=tile, addrs=2 * SIZE, mutex_ids=[2]).current()
        k = pl.make_tile_group(type=ints, addrs=3 * SIZE, mutex_ids=[3]).current()
        m = pl.make_tile_group(type=bits, addrs=4 * SIZE, mutex_ids=[4]).current()
        v = pl.make_tile_group(type=column, addrs=5 * SIZE, mutex_ids=[5]).current()
        h = pl.make_tile_group(type=line, addrs=6 * SIZE, mutex_ids=[6]).current()
        pl.load(a, x, [0, 0])
        pl.load(b, y, [0, 0])
        pl.load(k, n, [0, 0])
        pl.set_validshape(v, [R, 1])
        pl.adds(c, a, 2)
        pl.store(out, c, [0, 0, 0])
        pl.muls(c, a, 0.5)
        pl.store(out, c, [1, 0, 0])
        pl.row_max(v, a, c)
        pl.row_expand_sub(c, a, v)
        pl.store(out, c, [2, 0, 0])
        pl.col_sum(h, a, c)
        pl.col_expand_add(c, b, h)
        pl.store(out, c, [3, 0, 0])
        pl.cmps(m, a, 0.25, cmp_mode=4)
        pl.sel(c, m, a, b, m)
        pl.store(out, c, [4, 0, 0])
        pl.cmp(m, a, b, cmp_mode=2)
        pl.sels(c, m, a, m, -1)
        pl.store(out, c, [5, 0, 0])
        pl.rems(c, a, 0.75)
        pl.store(out, c, [6, 0, 0])
        pl.ands(k, k, 255)
        pl.shls(k, k, 3)
        pl.cast(c, k)
        pl.store(out, c, [7, 0, 0])
        pl.row_expand(c, v)
        pl.store(out, c, [8, 0, 0])
        pl.full(c, 7)
        pl.addsc(c, a, 1.5, b)
        pl.store(out, c, [9, 0, 0])
        pl.ub_copy(c, b)
        pl.store(out, c, [10, 0, 0])
        pl.set_mask_count()
        pl.set_vec_mask(0, 64)
        pl.mins(c, a, 0.0)
        pl.reset_mask()
        pl.set_mask_norm()
        pl.store(out, c, [11, 0, 0])


@pytest.mark.parametrize("run", RUNS, ids=lambda r: "-".join(r.values()))
def test_legacy_names(run: dict[str, str]) -> None:
    rng = np.random.default_rng(1)
    x, y = (rng.normal(0, 2, (R, C)).astype(np.float32) for _ in range(2))
    n = rng.integers(-1000, 1000, (R, C)).astype(np.int32)
    out = np.zeros((12, R, C), np.float32)
    with pypto_pro.options(**run):
        many[None, 1](x, y, n, out)
    top = x.max(axis=1, keepdims=True)
    total = x[0] + (x[1] + x[2]) + x[3]
    rest = x - np.floor(x / np.float32(0.75)) * np.float32(0.75)
    wanted = [
        x + 2, x * np.float32(0.5), x - top, y + total, np.where(x > 0.25, x, y), np.where(x < y, x, np.float32(-1)),
        rest, ((n & 255) << 3).astype(np.float32), np.broadcast_to(top, x.shape), x + np.float32(1.5) + y, y,
        np.minimum(x, 0),
    ]
    for plane, (found, want) in enumerate(zip(out, wanted, strict=True)):
        assert (found == want).all(), f"plane {plane}"


@pl.jit
def empty_row_sum(x: pl.Tensor[[R, C], pl.DT_FP32], columns: pl.DT_INT32):
    tile = pl.TileType(shape=[R, C], dtype=pl.DT_FP32, valid_shape=[-1, -1])
    column = pl.TileType(shape=[8, 1], dtype=pl.DT_FP32, layout=pl.DN, valid_shape=[-1, -1])
    with pl.section_vector():
        a = pl.make_tile_group(type=tile, addrs=0, mutex_ids=[0]).current()
        v = pl.make_tile_group(type=column, addrs=SIZE, mutex_ids=[1]).current()
        pl.set_validshape(a, [R, columns])
        pl.sum(v, a, a, dim=0)


@pl.jit
def ragged_sort(x: pl.Tensor[[1, C], pl.DT_FP32], columns: pl.DT_INT32):
    line = pl.TileType(shape=[1, C], dtype=pl.DT_FP32, valid_shape=[-1, -1])
    numbers = pl.TileType(shape=[1, C], dtype=pl.DT_UINT32)
    records = pl.TileType(shape=[1, 2 * C], dtype=pl.DT_FP32)
    with pl.section_vector():
        a = pl.make_tile_group(type=line, addrs=0, mutex_ids=[0]).current()
        i = pl.make_tile_group(type=numbers, addrs=SIZE, mutex_ids=[1]).current()
        r = pl.make_tile_group(type=records, addrs=2 * SIZE, mutex_ids=[2]).current()
        pl.load(a, x, [0, 0])
        pl.fill_index(i, 0)
        pl.set_validshape(a, [1, columns])
        pl.sort32(r, a, i)


@pytest.mark.parametrize("run", RUNS, ids=lambda r: "-".join(r.values()))
@pytest.mark.parametrize(("kernel", "shape", "legal", "illegal", "text"), [
    (empty_row_sum, (R, C), 5, 0, "at least one valid column"),
    (ragged_sort, (1, C), 32, 33, "needs a scratch tile"),
])
def test_run_time_requirements(
    kernel: Any, shape: tuple[int, int], legal: int, illegal: int, text: str, run: dict[str, str]
) -> None:
    """A valid shape set at run time that the op cannot take is an error at the author's line, when it is reached."""
    x = np.ones(shape, np.float32)
    with pypto_pro.options(**run):
        kernel[None, 1](x, legal)
        with pytest.raises(ValueError, match=text) as raised:
            kernel[None, 1](x, illegal)
    (span, *_) = raised.value.diagnostic.spans  # type: ignore[attr-defined]
    assert span.file == __file__
