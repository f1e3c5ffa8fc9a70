"""Values and extents under the checks: births inside vector functions, valid shapes that do not fit, lost streams."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from checked import check, of_kind

import pypto_pro.language as pl
from pypto_pro.diag import Diagnostic
from pypto_pro.language import Vf as vf  # noqa: N813
from pypto_pro.runtime.checking import Report

F32, F16 = pl.DT_FP32, pl.DT_FP16
X = pl.Tensor[[16, 64], F32]


def line_of(function: Any, text: str) -> int:
    """The line of this file on which a kernel or vector function says `text`."""
    source = open(__file__, encoding="utf-8").read().splitlines()
    start = next(k for k, line in enumerate(source) if f"def {function}(" in line)
    return next(k for k, line in enumerate(source[start:], start + 1) if text in line)


def group(addr, mutex_id, valid=None, cols=64):
    kind = pl.TileType(shape=[16, cols], dtype=F32, valid_shape=valid)
    return pl.make_tile_group(type=kind, addrs=addr, mutex_ids=[mutex_id]).current()


# --- births inside vector functions -----------------------------------------------------------------------------------


@pl.vector_function
def shifted_exp(src, dst, rows: pl.DT_INT32):
    on = vf.create_mask(dtype=F32)
    live = vf.update_mask(40, dtype=F32)
    for i in pl.range(0, rows):
        r = vf.load_align(src, [i, 0])
        top = vf.reduce_max(r, live)
        top = vf.full(top, on)
        d = vf.sub(r, top, live)
        e = vf.exp(d, live)
        vf.store_align(dst, e, live, [i, 0])


@pl.jit
def softmax_part(x: X, y: X):
    with pl.section_vector():
        a = group(0, 0)
        b = group(0x1000, 1)
        pl.load(a, x, [0, 0])
        pl.expands(b, 0.0)
        shifted_exp(a, b, 16)
        pl.exp(b, b)
        pl.store(y, b, [0, 0])


def births(x: np.ndarray) -> list[Diagnostic]:
    return of_kind(check(softmax_part, x, np.zeros_like(x)), "nan_born")


def test_a_nan_born_in_a_vector_function() -> None:
    x = np.random.default_rng(1).random((16, 64), np.float32)
    assert births(x) == []
    x[3] = -np.inf
    (found,) = births(x)
    assert found.message == "`sub` in `shifted_exp` makes 40 NaN that reach `b[0]`"
    assert found.spans[0].line == line_of("shifted_exp", "vf.sub")
    assert found.spans[1].line == line_of("softmax_part", "shifted_exp(a, b, 16)")


def test_lanes_that_reach_nothing_give_birth_to_nothing() -> None:
    x = np.ones((16, 64), np.float32)
    x[5, 40:] = -np.inf  # beyond the mask
    assert births(x) == []


def test_a_nan_that_came_in_is_not_born() -> None:
    x = np.ones((16, 64), np.float32)
    x[2, 3] = np.nan
    assert births(x) == []


@pl.vector_function
def squares(src, dst):
    on = vf.create_mask(dtype=F32)
    r = vf.load_align(src, 0)
    r = vf.mul(r, r, on)
    vf.store_align(dst, r, on, 0)


@pl.jit
def squared(x: X, y: X):
    with pl.section_vector():
        a = group(0, 0)
        b = group(0x1000, 1)
        pl.load(a, x, [0, 0])
        pl.expands(b, 0.0)
        squares(a, b)
        pl.store(y, b, [0, 0])


def test_an_infinity_born_in_a_vector_function() -> None:
    x = np.full((16, 64), 1e30, np.float32)
    (found,) = of_kind(check(squared, x, np.zeros_like(x)), "nan_born")
    assert found.message == "`mul` in `squares` makes 64 infinite values that reach `b[0]`"
    assert of_kind(check(squared, x * 1e-30, np.zeros_like(x)), "nan_born") == []


@pl.jit
def starts_low(x: X, y: X):
    with pl.section_vector():
        a = group(0, 0)
        b = group(0x1000, 1)
        pl.load(a, x, [0, 0])
        pl.expands(b, -float("inf"))
        pl.maximum(b, b, a)
        pl.store(y, b, [0, 0])


def test_an_infinity_its_author_wrote_is_not_born() -> None:
    x = np.ones((16, 64), np.float32)
    assert of_kind(check(starts_low, x, np.zeros_like(x)), "nan_born") == []


# --- valid shapes -----------------------------------------------------------------------------------------------------


@pl.jit
def row_sums(x: X, y: pl.Tensor[[16, 1], F32], source: pl.DT_INT32, target: pl.DT_INT32):
    with pl.section_vector():
        a = group(0, 0, [-1, -1])
        t = group(0x1000, 1, [-1, -1])
        total = group(0x2000, 2, [-1, -1], 1)
        pl.expands(total, 0.0)
        pl.set_validshape(a, [source, 64])
        pl.load(a, x, [0, 0])
        pl.set_validshape(total, [target, 1])
        pl.sum(total, a, t, dim=0)
        pl.store(y, total, [0, 0])


@pl.jit
def column_peaks(x: X, y: pl.Tensor[[1, 64], F32], source: pl.DT_INT32, target: pl.DT_INT32):
    with pl.section_vector():
        a = group(0, 0, [-1, -1])
        t = group(0x1000, 1, [-1, -1])
        kind = pl.TileType(shape=[1, 64], dtype=F32, valid_shape=[-1, -1])
        peak = pl.make_tile_group(type=kind, addrs=0x2000, mutex_ids=[2]).current()
        pl.expands(peak, 0.0)
        pl.set_validshape(a, [16, source])
        pl.load(a, x, [0, 0])
        pl.set_validshape(peak, [1, target])
        pl.maximum(peak, a, t, dim=1)
        pl.store(y, peak, [0, 0])


@pytest.mark.parametrize(("source", "target", "end"), [(12, 16, "keep what they held"), (16, 12, "written past them")])
def test_a_row_reduction_into_other_rows(source: int, target: int, end: str) -> None:
    x, y = np.ones((16, 64), np.float32), np.zeros((16, 1), np.float32)
    (found,) = of_kind(check(row_sums, x, y, source, target), "shape_mismatch")
    assert (found.code, str(found.severity)) == ("D112", "error")
    assert f"the target has {target} valid rows and the source {source}" in found.message
    assert end in found.message
    assert found.spans[1].line == line_of("row_sums", "pl.set_validshape(total")


@pytest.mark.parametrize("rows", [12, 16, 0])
def test_a_row_reduction_into_equal_rows(rows: int) -> None:
    x, y = np.ones((16, 64), np.float32), np.zeros((16, 1), np.float32)
    assert of_kind(check(row_sums, x, y, rows, rows), "shape_mismatch") == []


def test_a_column_reduction_into_other_columns() -> None:
    x, y = np.ones((16, 64), np.float32), np.zeros((1, 64), np.float32)
    (found,) = of_kind(check(column_peaks, x, y, 40, 64), "shape_mismatch")
    assert "64 valid columns and the source 40" in found.message
    assert of_kind(check(column_peaks, x, y, 40, 40), "shape_mismatch") == []


@pl.jit
def adds(x: X, y: X, rows: pl.DT_INT32):
    with pl.section_vector():
        a = group(0, 0, [-1, -1])
        b = group(0x1000, 1)
        pl.load(a, x, [0, 0])
        pl.load(b, x, [0, 0])
        pl.set_validshape(a, [rows, 64])
        pl.add(b, b, a)
        pl.store(y, b, [0, 0])


def test_a_source_narrower_than_the_destination() -> None:
    x = np.ones((16, 64), np.float32)
    (found,) = of_kind(check(adds, x, np.zeros_like(x), 12), "shape_mismatch")
    assert str(found.severity) == "warning"
    assert found.message == "`add` reads 16 x 64 of `a[0]`, of which 12 x 64 are valid"
    assert check(adds, x, np.zeros_like(x), 16).clean


# --- streams of unaligned stores --------------------------------------------------------------------------------------


@pl.vector_function
def heads(src, dst, flush: pl.DT_INT32, jump: pl.DT_INT32):
    u = vf.unalign_reg_for_store()
    for i in pl.range(0, 5):
        r = vf.load_align(src, [i, 0])
        vf.store_unalign(dst, r, u, 10, post_update=True)
    if jump == 1:
        r = vf.load_align(src, [5, 0])
        vf.store_unalign(dst + 512, r, u, 8, post_update=True)
    if flush == 1:
        vf.store_unalign_post(dst, u, 0, post_update=True)


@pl.jit
def gathers_heads(x: X, y: X, cols: pl.DT_INT32, flush: pl.DT_INT32, jump: pl.DT_INT32):
    with pl.section_vector():
        a = group(0, 0, [-1, -1])
        b = group(0x1000, 1)
        pl.set_validshape(a, [16, cols])
        pl.load(a, x, [0, 0])
        pl.expands(b, 0.0)
        heads(a, b, flush, jump)
        pl.store(y, b, [0, 0])


def stream(cols: int, flush: int, jump: int = 0) -> tuple[Report, np.ndarray, np.ndarray]:
    x = np.random.default_rng(2).random((16, 64), np.float32)
    y = np.zeros_like(x)
    return check(gathers_heads, x, y, cols, flush, jump), x, y


def test_a_stream_nobody_flushes() -> None:
    report, x, y = stream(64, 0)
    (found,) = of_kind(report, "unflushed_store")
    assert (found.code, str(found.severity)) == ("D113", "error")
    assert "the last 8 bytes of a stream into `b[0]` never reach it" in found.message
    np.testing.assert_array_equal(y.reshape(-1)[:50], np.append(x[:5, :10].reshape(-1)[:48], [0, 0]))


@pytest.mark.parametrize("cols", [64, 10])
def test_a_flushed_stream(cols: int) -> None:
    report, x, y = stream(cols, 1)
    assert report.clean, str(report)
    np.testing.assert_array_equal(y.reshape(-1)[:50], x[:5, :10].reshape(-1))


def test_a_stream_that_goes_on_elsewhere() -> None:
    (found,) = of_kind(stream(64, 1, 1)[0], "unflushed_store")
    assert "goes on at another address" in found.message
    assert found.spans[0].line == line_of("heads", "dst + 512")


def test_undefined_bytes_of_a_stream_are_told() -> None:
    (found,) = of_kind(stream(6, 1)[0], "uninitialised_read")
    assert found.spans[0].line == line_of("heads", "vf.store_unalign(dst, r")


@pl.vector_function
def places(src, dst, how: pl.DT_INT32):
    for i in pl.range(0, 3):
        r = vf.load_align(src, [i, 0])
        if how == 0:
            vf.store(dst, r, 10)
        elif how == 1:
            vf.store(dst, r, 10, post_update=True)
        else:
            vf.store(dst + i * 64, r, 10)
    if how == 3:
        vf.store(dst, r, 4)


@pl.jit
def stores_places(x: X, y: X, how: pl.DT_INT32):
    with pl.section_vector():
        a = group(0, 0)
        b = group(0x1000, 1)
        pl.load(a, x, [0, 0])
        pl.expands(b, 0.0)
        places(a, b, how)
        pl.store(y, b, [0, 0])


@pytest.mark.parametrize(("how", "count"), [(0, 1), (1, 0), (2, 0)])
def test_plain_stores_to_one_place(how: int, count: int) -> None:
    x = np.ones((16, 64), np.float32)
    report = check(stores_places, x, np.zeros_like(x), how)
    found = of_kind(report, "repeated_store")
    assert len(found) == count
    assert report.clean is (count == 0)
    for finding in found:
        assert (finding.code, str(finding.severity), finding.count) == ("D114", "warning", 2)
        assert finding.spans[0].line == line_of("places", "vf.store(dst, r, 10)")
