"""Loads against the reference's text: layouts, orders, ranks, strides, padding, tails, 4-bit tensors, MX scales."""

from typing import Any

import numpy as np
import pytest

from ops.transfer_bench import Call, G, Memories, T, check, fresh, native
from ops.transfer_model import PAD_BITS, box_of, c0, get, gm_get, gm_place, grid, layout_of, put, up
from pypto_pro.dtypes import DataType as D
from pypto_pro.enums import CoreKind
from pypto_pro.enums import MemorySpace as S
from pypto_pro.enums import TensorLayout as L
from pypto_pro.ops import rules

BYTES = [d for d in rules.MOVABLE if not d.is_sub_byte]
WIDTHS = (D.DT_INT8, D.DT_BF16, D.DT_FP32, D.DT_INT64)
FP4 = (D.DT_FP4E2M1, D.DT_FP4E1M2)
Order = tuple[int, int] | None


def core_of(tile: T) -> CoreKind:
    return CoreKind.VECTOR if tile.space is S.Vec else CoreKind.CUBE


def golden_load(m: Memories, tile: T, tensor: G, offsets: tuple[int, ...], order: Order) -> None:
    """dst[i, j] = G(src, offsets + (i, j)); pads and box tails."""
    rows, cols = tile.extents
    if not rows or not cols:
        return
    i, j = grid(rows, cols)
    put(m, tile, i, j, gm_get(m, "src_tensor", tensor, gm_place(tensor, offsets, order, i, j)))
    layout, (h, w) = layout_of(tile), box_of(tile)
    if tile.space is S.Mat and layout not in (L.ND, L.DN):  # the rest of the last boxes is zero
        down = up(rows, h) if tile.shape[0] >= h else rows
        across = up(cols, w) if tile.shape[1] >= w else cols
        i, j = grid(down, across)
        rest = (i >= rows) | (j >= cols)
        put(m, tile, i[rest], j[rest], 0)
    elif tile.space is S.Vec and tile.pad and tile.shape[1] > 1:
        block = c0(tile.dtype)
        i, j = grid(rows, up(cols, block)) if layout is L.ND else grid(up(rows, block), cols)
        rest = (i >= rows) | (j >= cols)
        put(m, tile, i[rest], j[rest], PAD_BITS[tile.dtype][tile.pad - 1])


def check_load(tile: T, tensor: G, offsets: tuple[int, ...], order: Order = None) -> None:
    call = Call("load", {"dst_tile": tile, "src_tensor": tensor, "offsets": offsets}, {"order": order}, core_of(tile))
    check(call, lambda m: golden_load(m, tile, tensor, offsets, order))


TAILS = ((16, 64), (7, 64), (16, 37), (9, 1), (1, 33), (0, 5), (5, 0))


@pytest.mark.parametrize("dtype", BYTES, ids=lambda d: d.name)
def test_vec_rows(dtype: D) -> None:
    cols = 256 // dtype.nbytes
    for rows, valid in ((16, cols), (7, cols), (16, cols // 2 + 3), (1, 1), (0, 4)):
        check_load(T((16, cols), dtype, addr=0x40, valid=(rows, valid)), G((30, cols + 5), dtype), (3, 4))


@pytest.mark.parametrize("dtype", WIDTHS, ids=lambda d: d.name)
def test_columns(dtype: D) -> None:
    """DN tiles and tiles of one column walk the axis of their rows."""
    rows = 32 // dtype.nbytes * 4
    for valid in (rows, rows - 3, 1):
        check_load(T((rows, 1), dtype, valid=(valid, 1)), G((rows + 9, 1), dtype), (5, 0))
        check_load(T((rows, 1), dtype, valid=(valid, 1), layout=L.NZ, pad=2), G((rows + 9, 1), dtype), (5, 0))
        check_load(T((rows, 6), dtype, valid=(valid, 5), layout=L.DN), G((9, rows + 3), dtype), (1, 2), (1, 0))
        check_load(T((rows, 1), dtype, valid=(valid, 1)), G((rows + 40,), dtype), (7,))  # rank 1: rows one apart


@pytest.mark.parametrize("pad", [0, 1, 2, 3])
@pytest.mark.parametrize("dtype", PAD_BITS, ids=lambda d: d.name)
def test_padding_fills_the_last_block_of_each_line(dtype: D, pad: int) -> None:
    if dtype.bits() == 64 and pad > 1:
        return
    block = c0(dtype)
    for valid in ((6, 2 * block - 1), (6, block), (6, 1)):
        check_load(T((8, 3 * block), dtype, valid=valid, pad=pad), G((20, 4 * block), dtype), (1, 2))
    for rows in (2 * block - 1, block, 1):
        tile = T((3 * block, 5), dtype, valid=(rows, 4), pad=pad, layout=L.DN)
        check_load(tile, G((7, 4 * block), dtype), (1, 2), (1, 0))


@pytest.mark.parametrize("dtype", [d for d in BYTES if d.bits() < 64 and d is not D.DT_FP8E8M0], ids=lambda d: d.name)
def test_mat_boxes(dtype: D) -> None:
    w = c0(dtype)
    for rows, cols in ((32, 3 * w), (17, 3 * w), (32, 2 * w + 1), (5, 3)):
        check_load(T((32, 3 * w), dtype, S.Mat, 0x200, (rows, cols)), G((50, 4 * w), dtype), (3, 5))
        check_load(T((32, 3 * w), dtype, S.Mat, valid=(rows, cols)), G((4 * w, 50), dtype), (5, 3), (1, 0))
        check_load(T((3 * w, 32), dtype, S.Mat, valid=(cols, rows), layout=L.ZN), G((50, 4 * w), dtype), (3, 5), (1, 0))
    check_load(T((1, 3 * w), dtype, S.Mat, valid=(1, 2 * w + 1)), G((9, 4 * w), dtype), (3, 5))


def test_raw_words_into_mat() -> None:
    for dtype in (D.DT_INT64, D.DT_UINT64):
        check_load(T((4, 16), dtype, S.Mat, valid=(3, 13), layout=L.ND), G((7, 30), dtype), (1, 2))


@pytest.mark.parametrize("dtype", WIDTHS, ids=lambda d: d.name)
def test_nz_tensors(dtype: D) -> None:
    w = c0(dtype)
    tensor = G((32, 4 * w), dtype, layout=L.NZ)
    for valid in ((32, 4 * w), (20, 3 * w - 1)):
        check_load(T((32, 4 * w), dtype, valid=valid, layout=L.NZ), tensor, (0, 0))
        if dtype.bits() < 64:
            check_load(T((32, 4 * w), dtype, S.Mat, valid=valid), tensor, (0, 0))
    for offset in ((16, w), (3, w), (5, 3)):
        check_load(T((16, 2 * w), dtype, valid=(16, 2 * w), layout=L.NZ), tensor, offset)
        check_load(T((16, 2 * w), dtype, valid=(9, w + 1), layout=L.NZ), tensor, offset)


@pytest.mark.parametrize("dtype", WIDTHS, ids=lambda d: d.name)
def test_ranks_strides_and_orders(dtype: D) -> None:
    tile = T((8, 64), dtype, valid=(5, 41))
    check_load(T((1, 64), dtype, valid=(1, 41)), G((90,), dtype), (7,))
    check_load(tile, G((4, 9, 50), dtype), (2, 1, 3))
    check_load(tile, G((7, 4, 3, 50), dtype), (1, 2, 1, 3), (0, 3))
    check_load(tile, G((2, 6, 2, 2, 60), dtype), (1, 1, 0, 1, 5), (1, 4))
    check_load(tile, G((9, 60), dtype, (77, 1)), (2, 3))  # a view with a pitch
    check_load(tile, G((2, 9, 60), dtype, (900, 77, 1)), (1, 2, 3))
    check_load(tile, G((40, 60), dtype, transfer=(120, 1)), (2, 3))  # set_stride: every second row
    check_load(T((64, 8), dtype, valid=(41, 5), layout=L.DN), G((40, 60), dtype, transfer=(1, 120)), (2, 3), (1, 0))
    check_load(tile, G((3, 4, 30), dtype), (0, 2, 2))  # rows walk on into the next outer index
    check_load(tile, G((9, 60, 1), dtype), (2, 3, 0), (0, 1))  # runs along an axis that is not the last
    check_load(tile, G((60, 9), dtype, (1, 70)), (3, 2), (1, 0))  # a transposed view, walked back
    check_load(T((8, 64), dtype, valid=(5, 1)), G((40, 60), dtype, (66, 2)), (2, 3))  # runs of one element
    check_load(T((64, 8), dtype, valid=(41, 1), layout=L.DN), G((60, 9), dtype, (1, 70)), (3, 2))


def test_a_tile_of_one_column_takes_strided_elements_and_says_so() -> None:
    tile, tensor = T((16, 1), valid=(13, 1)), G((20, 9))
    call = Call("load", {"dst_tile": tile, "src_tensor": tensor, "offsets": (2, 3)}, {"order": None})
    start = fresh(call)
    wanted = start.copy()
    golden_load(wanted, tile, tensor, (2, 3), None)
    outcome = native(call, start)
    assert not outcome.called_back
    assert "stride other than 1" in outcome.warnings[0]
    assert (outcome.memories.spaces[S.Vec] == wanted.spaces[S.Vec]).all()


@pytest.mark.parametrize(("strides", "transfer"), [((60, 2), None), ((60, 1), (30, 2))])
def test_runs_must_be_contiguous(strides: tuple[int, int], transfer: tuple[int, int] | None) -> None:
    tensor = G((9, 25), strides=strides, transfer=transfer)
    tile = T((8, 64), valid=(3, 5))
    call = Call("load", {"dst_tile": tile, "src_tensor": tensor, "offsets": (2, 3)}, {"order": None})
    assert "runs of neighbouring elements" in native(call, fresh(call)).refused


@pytest.mark.parametrize("dtype", [D.DT_FP32, D.DT_INT8], ids=lambda d: d.name)
def test_past_the_buffer_reads_zero(dtype: D) -> None:
    tile, tensor = T((8, 64), dtype, valid=(8, 64)), G((6, 64), dtype)
    call = Call("load", {"dst_tile": tile, "src_tensor": tensor, "offsets": (3, 0)}, {"order": None})
    start = fresh(call)
    wanted = start.copy()
    golden_load(wanted, tile, tensor, (3, 0), None)
    outcome = native(call, start)
    assert outcome.warnings
    assert (outcome.memories.spaces[S.Vec] == wanted.spaces[S.Vec]).all()


# --- 4-bit elements --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FP4, ids=lambda d: d.name)
def test_four_bit_rows(dtype: D) -> None:
    """Declared in bytes, moved in elements: `set_stride` gives the pitch in elements."""
    tensor = G((40, 70), dtype, transfer=(140, 1))
    for valid in ((32, 128), (17, 64), (5, 66), (3, 2)):
        check_load(T((32, 128), dtype, S.Mat, valid=valid), tensor, (2, 3))
        check_load(T((32, 128), dtype, valid=valid), tensor, (2, 3))
    check_load(T((128, 32), dtype, S.Mat, valid=(100, 17), layout=L.ZN), G((40, 70), dtype, transfer=(1, 140)), (2, 3),
               (1, 0))


@pytest.mark.parametrize("dtype", FP4, ids=lambda d: d.name)
def test_four_bit_odd_tails_and_pitches(dtype: D) -> None:
    odd, even = G((40, 70), dtype, transfer=(141, 1)), G((40, 70), dtype, transfer=(140, 1))
    plain = G((40, 75), dtype)  # without set_stride: the byte pitch as elements
    for tensor in (odd, even, plain):
        for valid in ((9, 63), (16, 128), (1, 1), (9, 64), (0, 5), (5, 0)):
            check_load(T((16, 128), dtype, S.Mat, valid=valid), tensor, (2, 3))
            check_load(T((16, 128), dtype, valid=valid, addr=0x40), tensor, (2, 3))
            check_load(T((16, 128), dtype, valid=valid, pad=1), tensor, (2, 3))
    for pitch in (140, 141):
        turned = G((70, 70), dtype, transfer=(1, pitch))
        for valid in ((63, 9), (128, 17), (1, 1), (64, 32)):
            check_load(T((128, 32), dtype, S.Mat, valid=valid, layout=L.ZN), turned, (2, 3), (1, 0))
            check_load(T((128, 32), dtype, valid=valid, layout=L.DN), turned, (2, 3), (1, 0))


# --- MX scales -------------------------------------------------------------------------------------------------------


def golden_scales(m: Memories, tile: T, tensor: G, offsets: tuple[int, ...], order: Order) -> None:
    rows, cols = tile.extents
    if not rows or not cols:
        return
    a0, a1 = order or (len(tensor.dims) - 3, len(tensor.dims) - 2)
    i, j = grid(rows, cols)
    groups = j if tile.layout is L.ZZ else i
    down, across = (i, j // 2) if tile.layout is L.ZZ else (i // 2, j)
    start = sum(o * s for o, s in zip(offsets[:-1], tensor.steps, strict=False))
    at = start + down * tensor.steps[a0] + across * tensor.steps[a1] + groups % 2
    values = gm_get(m, "src_tensor", tensor, at)
    h, w = box_of(tile)
    zero = grid(up(rows, h) if tile.shape[0] >= h else rows, up(cols, w) if tile.shape[1] >= w else cols)
    put(m, tile, *zero, 0)
    put(m, tile, i, j, values)


def scale_cases() -> list[Any]:
    zz = T((32, 8), D.DT_FP8E8M0, S.Mat, 0x100, layout=L.ZZ)
    nn = T((8, 32), D.DT_FP8E8M0, S.Mat, 0x100, layout=L.NN)
    return [
        (zz, G((40, 6, 2), D.DT_FP8E8M0), (3, 1, 0), None),
        (zz, G((3, 40, 6, 2), D.DT_FP8E8M0), (2, 3, 1, 0), (1, 2)),
        (zz, G((6, 40, 2), D.DT_FP8E8M0), (1, 3, 0), (1, 0)),
        (T((32, 8), D.DT_FP8E8M0, S.Mat, valid=(19, 6), layout=L.ZZ), G((40, 6, 2), D.DT_FP8E8M0), (3, 1, 0), None),
        (nn, G((6, 40, 2), D.DT_FP8E8M0), (1, 3, 0), None),
        (nn, G((40, 6, 2), D.DT_FP8E8M0), (3, 1, 0), (1, 0)),
        (T((8, 32), D.DT_FP8E8M0, S.Mat, valid=(4, 21), layout=L.NN), G((6, 40, 2), D.DT_FP8E8M0), (1, 3, 0), None),
        # odd groups, odd pitches, and phases further apart than their groups
        (T((32, 8), D.DT_FP8E8M0, S.Mat, valid=(19, 5), layout=L.ZZ), G((40, 6, 2), D.DT_FP8E8M0), (3, 1, 0), None),
        (T((8, 32), D.DT_FP8E8M0, S.Mat, valid=(3, 21), layout=L.NN), G((6, 40, 2), D.DT_FP8E8M0), (1, 3, 0), None),
        (zz, G((40, 6, 2), D.DT_FP8E8M0, (13, 2, 1)), (3, 1, 0), None),
        (nn, G((6, 40, 2), D.DT_FP8E8M0, (121, 3, 1)), (1, 3, 0), None),
        (T((32, 8), D.DT_FP8E8M0, S.Mat, valid=(9, 0), layout=L.ZZ), G((40, 6, 2), D.DT_FP8E8M0), (3, 1, 0), None),
    ]


@pytest.mark.parametrize("case", scale_cases(), ids=lambda c: f"{c[0].layout.name}-{c[0].valid}-{c[3]}")
def test_mx_scales(case: Any) -> None:
    tile, tensor, offsets, order = case
    call = Call("load", {"dst_tile": tile, "src_tensor": tensor, "offsets": offsets}, {"order": order}, CoreKind.CUBE)
    check(call, lambda m: golden_scales(m, tile, tensor, offsets, order))


def test_scales_come_in_pairs() -> None:
    tile, tensor, _, order = scale_cases()[0]
    call = Call("load", {"dst_tile": tile, "src_tensor": tensor, "offsets": (3, 1, 1)}, {"order": order}, CoreKind.CUBE)
    assert "both phases" in native(call, fresh(call)).refused


def test_reading_is_not_writing() -> None:
    """The model itself: an NZ tile and the transposed ZN tile are equal bytes (types-and-memory 4.2)."""
    nz, zn = T((32, 48), D.DT_FP16, layout=L.NZ), T((48, 32), D.DT_FP16, layout=L.ZN)
    m = fresh(Call("load", {"dst_tile": nz}))
    i, j = grid(32, 48)
    assert np.array_equal(get(m, nz, i, j), get(m, zn, j, i))
