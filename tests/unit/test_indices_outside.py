"""Run-time indices outside what they index: undefined on the device, the last one on both executors, told by checks."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import pypto_pro
import pypto_pro.language as pl
from pypto_pro.diag import Severity
from pypto_pro.language import Vf as vf  # noqa: N813
from pypto_pro.ops.overrun import OutOfBoundsWarning


@pl.vector_function
def fill(cells, t, k):
    every = vf.create_mask(dtype=pl.DT_FP32)
    r = vf.full(cells[k].w, every, dtype=pl.DT_FP32)
    vf.store_align(t, r, every)


@pl.jit
def chosen(x: pl.Tensor[[16, 64], pl.DT_FP32], out: pl.Tensor[[8], pl.DT_INT64], n: pl.DT_INT64):
    with pl.section_vector():
        t = pl.TileType(shape=[16, 64], dtype=pl.DT_FP32, valid_shape=[-1, -1])
        g = pl.make_tile_group(type=t, addrs=0, mutex_ids=[0, 1, 2])
        s = pl.struct_array(3, "S", v=0, a=[5, 6, 7], w=0.0)
        for i in pl.range(3):
            pl.set_validshape(g[i], [i + 1, 64])
            s[i].v = i + 10
            s[i].w = 0.5 + i
        out[0] = g[n].valid_shape[0]
        out[1] = s[n].v
        out[2] = s[1].a[n]
        out[3] = (7, 8, 9)[n]
        s[n].v = 77
        out[4] = s[2].v
        pair = (g[0], g[1], g[2])
        for i in pl.range(2):
            out[5 + i] = pair[i + n - 1].valid_shape[0]
        fill(s, g[0], n)
        pl.store(x, g[0], [0, 0])


def launched(executor: str, n: int) -> tuple[list[int], float]:
    x, out = np.zeros((16, 64), np.float32), np.zeros(8, np.int64)
    with pypto_pro.options(executor=executor):
        chosen(x, out, n)
    return out[:7].tolist(), float(x[0, 0])


@pytest.mark.parametrize("n", [-1, 3, 2**40, -(2**63), 2**63 - 1])
def test_both_executors_take_the_last_one(n: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutOfBoundsWarning)
        simulated, native = launched("interp", n), launched("native", n)
    assert simulated == native
    assert simulated[0][:5] == [3, 12, 7, 9, 77]
    assert simulated[1] == 2.5


def test_inside_nothing_is_told() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for executor in ("interp", "native"):
            assert launched(executor, 1) == ([2, 11, 6, 8, 12, 1, 2], 1.5)


def test_the_simulator_warns_once_a_line() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        launched("interp", 3)
    assert str(told[0].message) == "index 3 is outside group `g` of 3; the last one, 2, was taken"
    lines = [warning.lineno for warning in told]
    assert len(lines) == len(set(lines)) == 7
    assert {warning.filename for warning in told} == {__file__}


def test_a_check_finds_each_place() -> None:
    def found(n: int) -> list[Any]:
        x, out = np.zeros((16, 64), np.float32), np.zeros(8, np.int64)
        return [f for f in pypto_pro.check(chosen, x, out, n).findings if f.kind == "out_of_bounds"]

    assert found(1) == []
    findings = found(3)
    whose = [f.message.partition("outside ")[2].partition(" of ")[0] for f in findings]
    assert sorted(whose) == sorted(
        ["group `g`", "struct array `s`", "array `s.a`", "a tuple", "struct array `s`", "a tuple", "struct array `s`"]
    )
    assert all(f.severity is Severity.ERROR and "index % 3" in (f.help or "") for f in findings)
    loop = next(f for f in findings if "pair[" in f.spans[0].source_line())
    assert loop.spans[0].label == "indices are 0..2; at i=1"
    assert loop.count == 1
