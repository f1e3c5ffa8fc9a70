"""Variables whose loop ran zero times: zero on both executors, a finding under the checks."""

import numpy as np
import pytest

import pypto_pro
import pypto_pro.language as pl
from pypto_pro.language import Vf as vf  # noqa: N813  as kernels import it


@pl.jit
def scalars(y: pl.Tensor[[1, 64], pl.DT_INT32], n: pl.DT_INT32):
    with pl.section_vector():
        for i in pl.range(n):
            pair = pl.struct("Pair", a=5, b=2.0)
            pairs = pl.struct_array(2, "Pairs", a=6, b=7)
            k = i + 3
        y[0, 0] = k
        y[0, 1] = pair.a
        y[0, 2] = pairs[1].b
        y[0, 3] = i


@pl.jit
def tiles(y: pl.Tensor[[1, 64], pl.DT_INT32], n: pl.DT_INT32):
    t = pl.TileType(shape=[1, 64], dtype=pl.DT_INT32)
    g = pl.make_tile_group(type=t, addrs=[0, 256], mutex_ids=[0, 1])
    with pl.section_vector():
        for i in pl.range(n):
            if i < 1:
                tile = g[0]
            else:
                tile = g[1]
            view = y
        pl.expands(tile, 9)
        pl.store(view, tile, [0, 0])


@pl.jit
def declared_inside(y: pl.Tensor[[1, 64], pl.DT_INT32], n: pl.DT_INT32):
    with pl.section_vector():
        for _ in pl.range(n):
            t = pl.TileType(shape=[1, 64], dtype=pl.DT_INT32)
            g = pl.make_tile_group(type=t, addrs=[0, 256], mutex_ids=[0, 1])
        tile = g.next()
        pl.expands(tile, 4)
        pl.store(y, tile, [0, 0])


@pl.vector_function
def last_plus(out, n: pl.DT_INT32):
    for i in pl.range(n):
        last = i + 7
    mask = vf.create_mask(dtype=pl.DT_INT32)
    filled = vf.full(last, mask, dtype=pl.DT_INT32)
    vf.store_align(out, filled, mask, 0)


@pl.jit
def in_a_vector_function(y: pl.Tensor[[1, 64], pl.DT_INT32], n: pl.DT_INT32):
    t = pl.TileType(shape=[1, 64], dtype=pl.DT_INT32)
    out = pl.make_tile_group(type=t, addrs=[0], mutex_ids=[0])
    with pl.section_vector():
        tile = out.current()
        last_plus(tile, n)
        pl.store(y, tile, [0, 0])


@pl.jit
def copied_only(y: pl.Tensor[[1, 64], pl.DT_INT32], n: pl.DT_INT32):
    with pl.section_vector():
        for i in pl.range(n):
            k = i
        again = k
        y[0, 0] = n
        if n > 0:
            y[0, 1] = again


def outcome(kernel, n, executor):
    y = np.full((1, 64), -1, np.int32)
    with pypto_pro.options(executor=executor):
        for _ in range(3):  # frames and stacks that were used before
            kernel[None, 1](y, n)
    return y[0, :6].tolist()


CASES = [
    (scalars, 2, [4, 5, 7, 1, -1, -1]), (scalars, 0, [0, 0, 0, 0, -1, -1]),
    (tiles, 2, [9] * 6), (tiles, 1, [9] * 6), (tiles, 0, [-1] * 6),
    (declared_inside, 1, [4] * 6), (declared_inside, 0, [4] * 6),
    (in_a_vector_function, 3, [9] * 6), (in_a_vector_function, 0, [0] * 6),
    (copied_only, 2, [2, 1, -1, -1, -1, -1]), (copied_only, 0, [0, -1, -1, -1, -1, -1]),
]  # fmt: skip


@pytest.mark.parametrize("executor", ["native", "interp"])
@pytest.mark.parametrize(("kernel", "n", "wanted"), CASES)
def test_zero_stands_for_no_value(kernel, n, wanted, executor):
    assert outcome(kernel, n, executor) == wanted


@pytest.mark.parametrize(
    ("kernel", "names"), [(scalars, ["i", "k", "pair", "pairs"]), (tiles, ["tile"])], ids=["scalars", "tiles"]
)
def test_a_use_without_a_value_is_found(kernel, names):
    y = np.zeros((1, 64), np.int32)
    findings = [f for f in pypto_pro.check(kernel[None, 1], y, 0).findings if f.kind == "uninitialised_read"]
    assert sorted(f.message.split("`")[1] for f in findings) == names
    assert all("given a value here" in f.spans[1].label for f in findings)
    assert pypto_pro.check(kernel[None, 1], y, 2).clean


@pytest.mark.parametrize("kernel", [declared_inside, copied_only], ids=lambda k: k.source.name)
@pytest.mark.parametrize("n", [0, 1, 4])
def test_values_that_are_there_or_not_used_are_fine(kernel, n):
    report = pypto_pro.check(kernel[None, 1], np.zeros((1, 64), np.int32), n)
    assert not [f for f in report.findings if f.kind == "uninitialised_read"]
