"""Launches without checks: bytes outside a buffer are warned of once a line, in the same words on both executors."""

import warnings

import numpy as np
import pytest

import pypto_pro
import pypto_pro.language as pl
from pypto_pro.language import Vf as vf  # noqa: N813
from pypto_pro.ops.overrun import OutOfBoundsWarning


@pl.jit
def stores(y: pl.Tensor[[pl.DYNAMIC, 64], pl.DT_FP32]):
    t = pl.TileType(shape=[8, 64], dtype=pl.DT_FP32)
    tiles = pl.make_tile_group(type=t, addrs=0, mutex_ids=[0])
    with pl.section_vector():
        tile = tiles.current()
        pl.expands(tile, 1.0)
        pl.store(y, tile, [pl.get_block_idx() * 8, 0])


@pl.jit
def scalar_write(y: pl.Tensor[[pl.DYNAMIC, 64], pl.DT_FP32]):
    with pl.section_vector():
        y[pl.get_block_idx() * 8, 0] = 1.0


@pl.jit
def scalar_read(y: pl.Tensor[[pl.DYNAMIC, 64], pl.DT_FP32]):
    with pl.section_vector():
        if pl.get_block_idx() > 0:
            y[0, 0] = y[pl.get_block_idx() * 8, 0]


def told(kernel, executor):
    y = np.zeros((12, 64), np.float32)
    guard = y[:8]
    with warnings.catch_warnings(record=True) as caught, pypto_pro.options(executor=executor):
        warnings.simplefilter("always")
        kernel[None, 4](guard)
    assert not y[8:].any()
    assert {w.category for w in caught} == {OutOfBoundsWarning}
    assert {w.filename for w in caught} == {__file__}
    return [str(w.message) for w in caught]


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (stores, "`store` writes bytes 2048..4096 of `y`, past the end of its memory (0..2048)"),
        (scalar_write, "`setval` writes bytes 2048..2052 of `y`, past the end of its memory (0..2048)"),
        (scalar_read, "`getval` reads bytes 2048..2052 of `y`, past the end of its memory (0..2048)"),
    ],
    ids=["store", "setval", "getval"],
)
@pytest.mark.parametrize("executor", ["native", "interp"])
def test_one_warning_a_line_in_the_same_words(kernel, words, executor, monkeypatch):
    monkeypatch.setenv("PYPTO_PRO_THREADS", "1")  # the first block to leave the buffer is then the same
    assert told(kernel, executor) == [f"{words}; reads there give zero, writes are dropped"]


@pl.jit
def wide_cast(y: pl.Tensor[[512, 512], pl.DT_FP32]):
    narrow = pl.TileType(shape=[512, 512], dtype=pl.DT_FP16)
    wide = pl.TileType(shape=[16, 512], dtype=pl.DT_FP32)
    with pl.section_vector():
        source = pl.make_tile(narrow, addr=0, size=1024)
        target = pl.make_tile(wide, addr=1 << 16)
        pl.set_validshape(source, [512, 512])
        pl.set_validshape(target, [16, 512])
        pl.cast(target, source)
        pl.cast(source, target)


def test_checks_of_an_op_that_leaves_its_memory_are_findings():
    report = pypto_pro.check(wide_cast[None, 1], np.zeros((512, 512), np.float32))
    assert any(f.kind in ("over_capacity", "out_of_bounds") for f in report.findings)


@pl.vector_function
def store_far(tile, n: pl.DT_INT64):
    mask = vf.create_mask(dtype=pl.DT_FP32)
    row = vf.load_align(tile, [0, 0])
    vf.store_align(tile, row, mask, [n * 100000000000, 0])


@pl.jit
def far(y: pl.Tensor[[16, 64], pl.DT_FP32], n: pl.DT_INT64):
    t = pl.TileType(shape=[16, 64], dtype=pl.DT_FP32)
    tiles = pl.make_tile_group(type=t, addrs=0, mutex_ids=[0, 1])
    with pl.section_vector():
        tile = tiles.next()
        pl.load(tile, y, [0, 0])
        store_far(tile, n)
        pl.store(y, tile, [0, 0])


def test_checks_of_a_register_access_far_away_are_findings():
    y = np.zeros((16, 64), np.float32)
    report = pypto_pro.check(far[None, 1], y, 5)
    assert any(f.kind == "out_of_bounds" for f in report.findings)
    assert pypto_pro.check(far[None, 1], y, 0).clean
