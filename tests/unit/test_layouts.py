"""Layouts against the address formulas of types-and-memory 4, written out again element by element."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pypto_pro.dtypes import DataType
from pypto_pro.enums import MemorySpace, TensorLayout
from pypto_pro.layouts import (
    TRANSPOSED,
    Geometry,
    Region,
    box,
    byte_offset,
    compact_extent,
    effective_fractal,
    effective_layout,
    elements_per_block,
    footprint_bytes,
    geometry,
    is_fractal,
    nz_tensor_geometry,
    offset,
    read,
    regions,
    slot_size,
    write,
)

D, L = DataType, TensorLayout
DTYPES = (D.DT_FP4E2M1, D.DT_INT8, D.DT_FP16, D.DT_FP32, D.DT_INT64)
FRACTALS = (32, 512, 1024)


def formula(layout: L, h: int, w: int, Rs: int, Cs: int, i: int, j: int) -> int:
    """The table of 4.2, as printed there."""
    return {
        L.ND: lambda: i * Cs + j,
        L.DN: lambda: j * Rs + i,
        L.NZ: lambda: (j // w) * Rs * w + (i // h) * h * w + (i % h) * w + (j % w),
        L.ZN: lambda: (i // h) * Cs * h + (j // w) * h * w + (j % w) * h + (i % h),
        L.ZZ: lambda: (i // h) * Cs * h + (j // w) * h * w + (i % h) * w + (j % w),
        L.NN: lambda: (j // w) * Rs * w + (i // h) * h * w + (j % w) * h + (i % h),
    }[layout]()


def spec_box(layout: L, fractal: int, dtype: DataType) -> tuple[int, int]:
    """The table of 4.1."""
    c0 = {4: 64, 8: 32, 16: 16, 32: 8, 64: 4}[dtype.bits()]
    row_major = {512: (16, c0), 1024: (16, 16), 32: (16, 2)}[fractal]
    col_major = {512: (c0, 16), 1024: (16, 16), 32: (2, 16)}[fractal]
    return row_major if layout in (L.NZ, L.ZZ) else col_major


@st.composite
def tiles(draw: st.DrawFn) -> tuple[Geometry, int, int]:
    """A geometry with its declared rows and columns, whole boxes both ways; some with a pitch of one row more."""
    layout = draw(st.sampled_from(list(L)))
    dtype = draw(st.sampled_from(DTYPES))
    if not is_fractal(layout):
        rows, cols = draw(st.integers(1, 40)), 2 * draw(st.integers(1, 20))
        return geometry(layout, None, dtype, rows, cols), rows, cols
    fractal = draw(st.sampled_from(FRACTALS))
    h, w = spec_box(layout, fractal, dtype)
    rows, cols = h * draw(st.integers(1, 3)), w * draw(st.integers(1, 3))
    extra = draw(st.sampled_from((0, 1, 16)))
    pitched = {"row_extent": rows + extra} if layout in (L.NZ, L.NN) else {"col_extent": cols + extra}
    return geometry(layout, fractal, dtype, rows, cols, **pitched), rows, cols


@st.composite
def windows(draw: st.DrawFn) -> tuple[Geometry, int, int, int, int]:
    """A geometry and a window (r0, c0, rows, cols) in it, possibly empty, aligned about half of the time."""
    geo, R, C = draw(tiles())
    r0, c0 = draw(st.integers(0, R)), draw(st.integers(0, C))
    if draw(st.booleans()):
        r0, c0 = r0 // 16 * 16, c0 // 16 * 16
    return geo, r0, c0, draw(st.integers(0, R - r0)), draw(st.integers(0, C - c0))


def element(mem: np.ndarray, addr: int, geo: Geometry, i: int, j: int) -> int:
    """Bits of one element, from single bytes."""
    at = formula(geo.layout, geo.box_rows, geo.box_cols, geo.row_extent, geo.col_extent, i, j)
    if geo.dtype_bits == 4:
        return int(mem[addr + at // 2]) >> (4 * (at % 2)) & 15
    size = geo.dtype_bits // 8
    return int.from_bytes(mem[addr + at * size : addr + (at + 1) * size].tobytes(), "little")


def element_bytes(geo: Geometry, addr: int, i: int, j: int) -> range:
    """Addresses of the bytes one element touches."""
    at = formula(geo.layout, geo.box_rows, geo.box_cols, geo.row_extent, geo.col_extent, i, j)
    if geo.dtype_bits == 4:
        return range(addr + at // 2, addr + at // 2 + 1)
    size = geo.dtype_bits // 8
    return range(addr + at * size, addr + (at + 1) * size)


@pytest.mark.parametrize("layout", [x for x in L if is_fractal(x)])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("fractal", FRACTALS)
def test_box_table(layout: L, dtype: DataType, fractal: int) -> None:
    assert box(layout, fractal, dtype) == spec_box(layout, fractal, dtype)


@given(tiles())
def test_offset_is_the_printed_formula_and_is_injective(tile: tuple[Geometry, int, int]) -> None:
    geo, R, C = tile
    i, j = np.arange(R)[:, None], np.arange(C)[None, :]
    whole = np.broadcast_to(offset(geo, i, j), (R, C))
    expected = [
        [formula(geo.layout, geo.box_rows, geo.box_cols, geo.row_extent, geo.col_extent, a, b) for b in range(C)]
        for a in range(R)
    ]
    assert (whole == expected).all()
    assert len(np.unique(whole)) == R * C
    assert offset(geo, R - 1, C - 1) == whole[-1, -1]
    assert footprint_bytes(geo, R, C) == -(-(int(whole.max()) + 1) * geo.dtype_bits // 8)
    if (geo.row_extent, geo.col_extent) == (R, C):  # without a longer pitch the elements fill their bytes
        assert whole.max() == R * C - 1


@given(st.integers(1, 3), st.integers(1, 3), st.sampled_from(DTYPES), st.sampled_from((L.NZ, L.ZZ)))
def test_transposed_partners_are_byte_identical(a: int, b: int, dtype: DataType, layout: L) -> None:
    h, w = box(layout, 512, dtype)
    R, C = h * a, w * b
    here, there = geometry(layout, 512, dtype, R, C), geometry(TRANSPOSED[layout], 512, dtype, C, R)
    i, j = np.arange(R)[:, None], np.arange(C)[None, :]
    assert (offset(here, i, j) == offset(there, j, i)).all()


def test_short_forms_of_the_formulas() -> None:
    nz, zn = geometry(L.NZ, 512, D.DT_FP16, 48, 64), geometry(L.ZN, 512, D.DT_FP16, 48, 64)
    for i in range(48):
        for j in range(64):
            assert offset(nz, i, j) == (j // 16) * 48 * 16 + i * 16 + j % 16
            assert offset(zn, i, j) == (i // 16) * 64 * 16 + j * 16 + i % 16


def test_offset_works_on_any_arithmetic() -> None:
    class Text:
        def __init__(self, text: str) -> None:
            self.text = text

        def _op(sign: str):  # noqa: N805
            return lambda self, other: Text(f"({self.text}{sign}{getattr(other, 'text', other)})")

        __add__, __mul__, __floordiv__, __mod__ = _op("+"), _op("*"), _op("//"), _op("%")

    geo = geometry(L.ZN, 512, D.DT_FP16, 32, Text("Cs"), row_extent=32)
    expected = formula(L.ZN, 16, 16, 32, 48, 21, 35)
    assert eval(offset(geo, Text("i"), Text("j")).text, {"Cs": 48, "i": 21, "j": 35}) == expected


@given(windows(), st.sampled_from((0, 32, 7)), st.integers(0, 2**32 - 1))
@settings(max_examples=150)
def test_read_and_write_match_single_elements(window, addr: int, seed: int) -> None:
    geo, r0, c0, rows, cols = window
    random = np.random.default_rng(seed)
    size = addr + footprint_bytes(geo, r0 + rows, c0 + cols) + 64
    mem = random.integers(0, 256, size, np.uint8)
    got = read(mem, addr, geo, r0, c0, rows, cols)
    assert got.shape == (rows, cols)
    assert got.dtype == geo.bits_dtype
    expected = [[element(mem, addr, geo, r0 + i, c0 + j) for j in range(cols)] for i in range(rows)]
    assert got.tolist() == expected

    top = 1 << geo.dtype_bits if geo.dtype_bits < 64 else 2**63
    new = random.integers(0, top, (rows, cols), np.uint64).astype(geo.bits_dtype)
    before = mem.copy()
    write(mem, addr, geo, r0, c0, new)
    assert (read(mem, addr, geo, r0, c0, rows, cols) == new).all()
    touched = {b for i in range(rows) for j in range(cols) for b in element_bytes(geo, addr, r0 + i, c0 + j)}
    untouched = np.array([b not in touched for b in range(size)])
    assert (mem[untouched] == before[untouched]).all()
    write(mem, addr, geo, r0, c0, got)
    assert (mem == before).all()  # nibbles beside the window too


@pytest.mark.parametrize("layout", list(L))
def test_four_bit_windows_that_cut_bytes(layout: L) -> None:
    """Every small window around a box corner; each nibble of memory is its own number modulo 16."""
    geo = geometry(layout, 512, D.DT_FP4E2M1, 128, 128)
    random = np.random.default_rng(1)
    mem = random.integers(0, 256, 128 * 64, np.uint8)
    for r0, c0, rows, cols in itertools.product((14, 15, 62), (14, 63, 64), (1, 2, 4), (1, 2, 3)):
        got = read(mem, 0, geo, r0, c0, rows, cols)
        assert got.tolist() == [[element(mem, 0, geo, r0 + i, c0 + j) for j in range(cols)] for i in range(rows)]
        after = mem.copy()
        write(after, 0, geo, r0, c0, got ^ np.uint8(15))
        whole, changed = read(mem, 0, geo, 0, 0, 128, 128), read(after, 0, geo, 0, 0, 128, 128)
        whole[r0 : r0 + rows, c0 : c0 + cols] ^= 15
        assert (whole == changed).all()


@given(windows(), st.sampled_from((0, 96)))
@settings(max_examples=150)
def test_regions_cover_exactly_the_touched_bytes(window, addr: int) -> None:
    geo, r0, c0, rows, cols = window
    covered: list[int] = []
    for r in regions(geo, addr, r0, c0, rows, cols):
        for k in range(r.rows):
            covered += range(r.start + k * r.pitch, r.start + k * r.pitch + r.row_bytes)
    touched = {b for i in range(rows) for j in range(cols) for b in element_bytes(geo, addr, r0 + i, c0 + j)}
    assert set(covered) == touched
    if geo.dtype_bits >= 8:
        assert len(covered) == len(touched)  # disjoint


def test_regions_are_few() -> None:
    nd = geometry(L.ND, None, D.DT_FP32, 64, 128)
    assert regions(nd, 256, 0, 0, 64, 128) == [Region(256, 1, 64 * 512, 64 * 512)]
    assert regions(nd, 0, 2, 8, 5, 16) == [Region(2 * 512 + 32, 5, 64, 512)]
    nz = geometry(L.NZ, 512, D.DT_FP16, 64, 128)
    assert regions(nz, 0, 0, 0, 64, 128) == [Region(0, 1, 64 * 256, 64 * 256)]
    assert regions(nz, 0, 0, 0, 16, 128) == [Region(0, 8, 512, 64 * 32)]
    assert regions(geometry(L.ZN, 512, D.DT_FP16, 64, 128), 0, 0, 0, 64, 32) == [Region(0, 4, 1024, 4096)]
    fp4 = geometry(L.ND, None, D.DT_FP4E2M1, 4, 64)
    assert regions(fp4, 0, 1, 8, 2, 16) == [Region(32 + 4, 2, 8, 32)]
    assert regions(fp4, 0, 1, 1, 1, 2) == [Region(32, 1, 2, 2)]  # halves of two bytes


def test_acc_is_16x16_boxes_of_words_whatever_is_declared() -> None:
    for dtype, fractal in ((D.DT_FP32, None), (D.DT_FP32, 512), (D.DT_FP16, 512), (D.DT_INT32, 1024)):
        geo = geometry(L.NZ, fractal, dtype, 64, 48, space=MemorySpace.Acc)
        assert geo.dtype_bits == 32
        for i, j in ((0, 0), (15, 15), (17, 33), (63, 47)):
            assert byte_offset(geo, i, j) == ((j // 16) * 64 * 16 + i * 16 + j % 16) * 4


def test_mx_scale_boxes() -> None:
    G, M = 8, 64
    a = geometry(L.ZZ, None, D.DT_FP8E8M0, M, G, space=MemorySpace.ScaleLeft)
    b = geometry(L.NN, None, D.DT_FP8E8M0, G, M, space=MemorySpace.ScaleRight)
    for m in range(M):
        for g in range(G):
            expected = (m // 16) * (G * 16) + (g // 2) * 32 + (m % 16) * 2 + g % 2
            assert byte_offset(a, m, g) == byte_offset(b, g, m) == expected


def test_one_column_is_column_major() -> None:
    assert effective_layout(L.NZ, 1) is L.DN
    assert effective_layout(None, 1) is L.DN
    assert effective_layout(None, 2) is L.ND
    geo = geometry(L.NZ, 512, D.DT_FP16, 40, 1)
    assert [offset(geo, i, 0) for i in range(40)] == list(range(40))


def test_fractal_defaults() -> None:
    S = MemorySpace
    assert effective_fractal(S.Acc, D.DT_FP32, L.NZ, None) == 1024
    assert effective_fractal(S.Acc, D.DT_FP16, L.NZ, None) == 512
    assert effective_fractal(S.Mat, D.DT_FP8E8M0, L.ZZ, None) == 32
    assert effective_fractal(S.Mat, D.DT_FP8E8M0, L.NZ, None) == 512
    assert effective_fractal(S.ScaleRight, D.DT_FP8E8M0, L.NN, None) == 32
    assert effective_fractal(S.Mat, D.DT_FP16, L.NZ, 1024) == 1024
    with pytest.raises(ValueError, match="256"):
        geometry(L.NZ, 256, D.DT_FP16, 32, 32)


def test_nz_tensor_of_global_memory() -> None:
    for dtype, c0 in ((D.DT_INT8, 32), (D.DT_FP16, 16), (D.DT_FP32, 8), (D.DT_INT64, 4)):
        R, C = 32, 2 * c0
        physical = np.arange(R * C).reshape(C // c0, R // 16, 16, c0)
        geo = nz_tensor_geometry(dtype, R, C)
        assert elements_per_block(dtype) == c0
        for i in range(R):
            for j in range(C):
                assert offset(geo, i, j) == (j // c0) * R * c0 + i * c0 + j % c0
                assert offset(geo, i, j) == physical[j // c0, i // 16, i % 16, j % c0]
    with pytest.raises(ValueError, match="fp4e2m1"):
        nz_tensor_geometry(D.DT_FP4E2M1, 32, 64)


def test_sizes_and_compact_extents() -> None:
    assert slot_size((16, 64), D.DT_FP16) == 2048
    assert slot_size((16, 64), D.DT_FP4E2M1) == 1024  # a whole byte an element
    assert [compact_extent(64, 17, c) for c in (None, 0, 1, 2)] == [64, 64, 32, 33]
    assert footprint_bytes(geometry(L.ND, None, D.DT_FP32, 4, 8), 0, 8) == 0
    with pytest.raises(ValueError, match="compact"):
        compact_extent(64, 17, 3)
