"""Whole vector functions: run-time scalars, control flow, nesting, special registers, and what the checks see."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto_pro
import pypto_pro.language as pl
from pypto_pro.language import Vf as vf  # noqa: N813

ROWS, COLS = 8, 64
EXECUTORS = ("native", "interp")


def run(kernel: Any, *args: Any, executor: str) -> None:
    with pypto_pro.options(executor=executor, check=False):
        kernel[None, 1](*args)


def both(kernel: Any, *args: Any) -> None:
    """Every array ends up with the same bytes on both executors; they keep what native wrote."""
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    run(kernel, *copies, executor="interp")
    run(kernel, *args, executor="native")
    for native, interp in zip(args, copies, strict=True):
        if isinstance(native, np.ndarray):
            np.testing.assert_array_equal(native, interp)


# --- scalars and control flow ----------------------------------------------------------------------------------------


@pl.vector_function
def scalars(src, dst, n: pl.DT_INT64, factor: pl.DT_FP32, shift: pl.DT_INT32):
    on = vf.create_mask(dtype=pl.DT_FP32)
    live = vf.update_mask(n, dtype=pl.DT_FP32)
    x = vf.load_align(src, [shift, 0])
    y = vf.muls(x, factor, live)
    y = vf.adds(y, n, on)
    y = vf.maxs(y, factor - 1.0, on)
    k = vf.arange(n, dtype=pl.DT_INT32)
    k = vf.shift_left(k, shift, on)
    k = vf.adds(k, shift * n, on)
    z = vf.full(n, on, dtype=pl.DT_FP32)
    m = vf.gt(x, factor, on)
    z = vf.select(y, z, m)
    vf.store_align(dst, y, on)
    vf.store_align(dst, k, on, [1, 0])
    vf.store_align(dst, z, live, [shift, 0])
    for i in pl.range(0, n):
        if i % 3 == 1:
            continue
        if i > 6:
            break
        a = vf.create_addr_reg(i, 8, dtype=pl.DT_FP32)
        w = vf.load_align(src, a)
        vf.store_align(dst + (4 * COLS), w, on, a)
    steps = 0
    while steps < 3:
        v = vf.full(steps, on, dtype=pl.DT_FP32)
        vf.store_align(dst + (7 * COLS), v, on, steps * 8)
        steps = steps + 1


def kernel_of(function: Any) -> Any:
    """A launch that loads x and y, runs the function on both and stores y."""

    @pl.jit(auto_mutex=True)
    def kernel(
        x: pl.Tensor[[ROWS, COLS], pl.DT_FP32], y: pl.Tensor[[ROWS, COLS], pl.DT_FP32], n: pl.DT_INT32,
        factor: pl.DT_FP32, shift: pl.DT_INT32,
    ):
        tile = pl.TileType(shape=[ROWS, COLS], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec)
        ins = pl.make_tile_group(type=tile, addrs=0, mutex_ids=[0])
        outs = pl.make_tile_group(type=tile, addrs=0x4000, mutex_ids=[1])
        with pl.section_vector():
            a = ins.current()
            b = outs.current()
            pl.load(a, x, [0, 0])
            pl.load(b, y, [0, 0])
            function(a, b, n, factor, shift)
            pl.store(y, b, [0, 0])

    return kernel


@pytest.mark.parametrize(("n", "factor", "shift"), [(10, 0.75, 2), (0, -3.5, 3), (64, 1e-3, 5)])
def test_run_time_scalars_and_control_flow(n: int, factor: float, shift: int) -> None:
    x = np.random.default_rng(n).standard_normal((ROWS, COLS)).astype(np.float32)
    y = np.zeros_like(x)
    both(kernel_of(scalars), x, y, n, factor, shift)
    f = np.float32(factor)
    live = np.arange(COLS) < n
    first = np.maximum(np.where(live, x[shift] * f, np.float32(0)) + np.float32(n), f - np.float32(1))
    np.testing.assert_array_equal(y[0], first)
    np.testing.assert_array_equal(y[1].view(np.int32), (np.arange(COLS) + n << shift) + shift * n)


@pl.vector_function
def innermost(t, r, on):
    vf.store_align(t, r, on, COLS, post_update=True)


@pl.vector_function
def inner(p, q, value):
    on = vf.create_mask(dtype=pl.DT_FP32)
    r = vf.full(value, on, dtype=pl.DT_FP32)
    innermost(p, r, on)
    innermost(q, r, on)


@pl.vector_function
def nested(src, dst, n: pl.DT_INT64, factor: pl.DT_FP32, shift: pl.DT_INT32, extra=2.5):
    far = dst + 4 * COLS
    inner(dst, far, 1.0)
    inner(dst, dst + 4 * COLS, extra)
    for _ in pl.range(0, 2):
        inner(dst, far, factor)


def test_nested_functions_share_cursors() -> None:
    """A tile under several names has one cursor, and so has `dst + 4 * COLS`, bound to a name or not."""
    x, y = np.zeros((ROWS, COLS), np.float32), np.full((ROWS, COLS), -1, np.float32)
    both(kernel_of(nested), x, y, 0, 7.0, 0)
    np.testing.assert_array_equal(y[:, 0], [1, 2.5, 7, 7, 1, 2.5, 7, 7])


def test_registers_of_one_name_cannot_be_passed_between_calls() -> None:
    """Each call starts with fresh registers and cursors."""

    @pl.vector_function
    def once(src, dst, n: pl.DT_INT64, factor: pl.DT_FP32, shift: pl.DT_INT32):
        inner(dst, dst + COLS, factor)

    x, y = np.zeros((ROWS, COLS), np.float32), np.zeros((ROWS, COLS), np.float32)
    kernel = kernel_of(once)
    both(kernel, x, y, 0, 3.0, 0)
    both(kernel, x, y, 0, 4.0, 0)
    np.testing.assert_array_equal(y[:3, 5], [4, 4, 0])


# --- special registers -----------------------------------------------------------------------------------------------


@pl.vector_function
def masks_of_special_register(dst):
    narrow = vf.get_mask_spr(width=pl.MaskWidth.B32)
    wide = vf.get_mask_spr(width=pl.MaskWidth.B16)
    vf.store_align(dst, narrow)
    vf.store_align(dst + 32, wide)


@pl.jit(auto_mutex=True)
def mask_registers(y: pl.Tensor[[4, 64], pl.DT_UINT8], high: pl.DT_INT64, low: pl.DT_INT64, count: pl.DT_INT64):
    tile = pl.TileType(shape=[1, 64], dtype=pl.DT_UINT8, target_memory=pl.MemorySpace.Vec)
    group = pl.make_tile_group(type=tile, addrs=0, mutex_ids=[0, 1, 2])
    with pl.section_vector():
        a = group.next()
        masks_of_special_register(a)
        pl.store(y, a, [0, 0])
        pl.set_mask_norm()
        pl.set_vec_mask(high, low)
        b = group.next()
        masks_of_special_register(b)
        pl.store(y, b, [1, 0])
        pl.set_mask_count()
        pl.set_vec_mask(0, count)
        c = group.next()
        masks_of_special_register(c)
        pl.store(y, c, [2, 0])
        pl.set_mask_norm()
        pl.reset_mask()


def test_mask_special_register() -> None:
    high, low, count = 0x0123456789ABCDEF, 0x7EDCBA9876543211, 37
    y = np.zeros((4, 64), np.uint8)
    both(mask_registers, y, high, low, count)
    bits = [(low | high << 64) >> k & 1 for k in range(128)]
    want = {
        0: [1] * 512,
        1: [b for b in bits[:64] for _ in range(4)] + [b for b in bits for _ in range(2)],
        2: [int(k < count) for k in range(64) for _ in range(4)]
        + [int(k < count) for k in range(128) for _ in range(2)],
    }
    for row, expected in want.items():
        np.testing.assert_array_equal(np.unpackbits(y[row], bitorder="little"), expected, err_msg=str(row))


@pl.vector_function
def positive(src, dst):
    on = vf.create_mask(dtype=pl.DT_FP32)
    u = vf.unalign_reg_for_store()
    vf.clear_spr()
    for r in pl.range(0, ROWS):
        x = vf.load_align(src, [r, 0])
        m = vf.gt(x, 0.0, on)
        kept = vf.squeeze(x, m, gather_mode=pl.SqueezeMode.STORE_REG)
        vf.store_unalign(dst, kept, u)
    vf.store_unalign_post(dst, u)


@pl.vector_function
def count_bytes(src):
    on = vf.create_mask(dtype=pl.DT_FP32)
    x = vf.load_align(src, 0)
    m = vf.gt(x, 0.0, on)
    z = vf.squeeze(x, m)
    z = vf.squeeze(z, on, gather_mode=pl.SqueezeMode.NO_STORE_REG)


@pl.jit(auto_mutex=True)
def compress(
    x: pl.Tensor[[ROWS, COLS], pl.DT_FP32], y: pl.Tensor[[ROWS, COLS], pl.DT_FP32], n: pl.Tensor[[1, 8], pl.DT_INT64]
):
    tile = pl.TileType(shape=[ROWS, COLS], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec)
    ins = pl.make_tile_group(type=tile, addrs=0, mutex_ids=[0])
    outs = pl.make_tile_group(type=tile, addrs=0x4000, mutex_ids=[1])
    with pl.section_vector():
        a = ins.current()
        b = outs.current()
        pl.load(a, x, [0, 0])
        pl.expands(b, -1.0)
        positive(a, b)
        pl.store(y, b, [0, 0])
        count_bytes(a)
        pl.setval(n, 3, pl.get_spr())


def test_squeezed_stream_and_ar() -> None:
    x = np.random.default_rng(3).standard_normal((ROWS, COLS)).astype(np.float32)
    y, n = np.zeros_like(x), np.zeros((1, 8), np.int64)
    both(compress, x, y, n)
    kept = x[x > 0]
    np.testing.assert_array_equal(y.reshape(-1)[: kept.size], kept)
    assert (y.reshape(-1)[kept.size :] == -1).all()
    assert n[0, 3] == 4 * int((x[0] > 0).sum())


@pl.jit()
def run_ahead(
    x: pl.Tensor[[1, COLS], pl.DT_FP32], n: pl.Tensor[[2, 8], pl.DT_INT64], y: pl.Tensor[[2, 64], pl.DT_UINT8]
):
    tile = pl.TileType(shape=[1, COLS], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec)
    row = pl.TileType(shape=[1, 64], dtype=pl.DT_UINT8, target_memory=pl.MemorySpace.Vec)
    with pl.section_cube():
        pl.system.wait_cross_core(pipe=pl.PipeType.MTE2, event_id=1)
        pl.system.set_cross_core(pipe=pl.PipeType.MTE2, event_id=0)
    with pl.section_vector():
        a = pl.make_tile(tile, addr=0, size=4 * COLS)
        b = pl.make_tile(row, addr=4 * COLS, size=64)
        pl.load(a, x, [0, 0])
        pl.system.sync_src(set_pipe=pl.PipeType.MTE2, wait_pipe=pl.PipeType.V, event_id=0)
        pl.system.sync_dst(set_pipe=pl.PipeType.MTE2, wait_pipe=pl.PipeType.V, event_id=0)
        pl.system.wait_cross_core(pipe=pl.PipeType.V, event_id=0)
        pl.set_vec_mask(0, 5)
        count_bytes(a)
        masks_of_special_register(b)
        pl.reset_mask()
        pl.system.set_cross_core(pipe=pl.PipeType.MTE3, event_id=1)
        pl.setval(n, 8 * pl.get_subblock_idx(), pl.get_spr())
        pl.system.sync_src(set_pipe=pl.PipeType.V, wait_pipe=pl.PipeType.MTE3, event_id=0)
        pl.system.sync_dst(set_pipe=pl.PipeType.V, wait_pipe=pl.PipeType.MTE3, event_id=0)
        pl.store(y, b, [pl.get_subblock_idx(), 0])


def test_calls_that_wait_see_the_state_of_their_issue() -> None:
    """V waits for the cube core, which waits for what this core signals later: the scalar unit runs ahead of V."""
    x = np.random.default_rng(6).standard_normal((1, COLS)).astype(np.float32)
    n, y = np.zeros((2, 8), np.int64), np.zeros((2, 64), np.uint8)
    both(run_ahead, x, n, y)
    assert (n[:, 0] == 4 * int((x > 0).sum())).all()
    lanes = np.unpackbits(y[0, :32], bitorder="little").reshape(64, 4)
    np.testing.assert_array_equal(lanes.any(axis=1).nonzero()[0], [0, 2])


# --- checks ----------------------------------------------------------------------------------------------------------


def findings(kernel: Any, *args: Any) -> set[tuple[str, str]]:
    """(kind, severity) of what a check reports, notes left out."""
    report = pypto_pro.check(kernel[None, 1], *args)
    return {(str(f.kind), str(f.severity)) for f in report.findings if str(f.severity) != "note"}


def checked(body: Any) -> set[tuple[str, str]]:
    x = np.ones((ROWS, COLS), np.float32)
    return findings(tail_kernel(body), x, np.zeros_like(x), 40)


def tail_kernel(function: Any) -> Any:
    """Only `n` columns of a are loaded."""

    @pl.jit(auto_mutex=True)
    def kernel(
        x: pl.Tensor[[ROWS, COLS], pl.DT_FP32], y: pl.Tensor[[ROWS, COLS], pl.DT_FP32], n: pl.DT_INT32
    ):
        tile = pl.TileType(
            shape=[ROWS, COLS], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec, valid_shape=[-1, -1]
        )
        ins = pl.make_tile_group(type=tile, addrs=0, mutex_ids=[0])
        outs = pl.make_tile_group(type=tile, addrs=0x4000, mutex_ids=[1])
        with pl.section_vector():
            a = ins.current()
            b = outs.current()
            pl.set_validshape(a, [ROWS, n])
            pl.set_validshape(b, [ROWS, n])
            pl.load(a, x, [0, 0])
            function(a, b, n)
            pl.store(y, b, [0, 0])

    return kernel


@pl.vector_function
def masked_tail(a, b, n: pl.DT_INT64):
    live = vf.update_mask(n, dtype=pl.DT_FP32)
    on = vf.create_mask(dtype=pl.DT_FP32)
    for r in pl.range(0, ROWS):
        x = vf.load_align(a, [r, 0])
        w = vf.full(x, on)
        h = vf.astype(x, live, dtype=pl.DT_FP16)
        y = vf.astype(h, on, dtype=pl.DT_FP32)
        s = vf.reduce_sum(x, live)
        y = vf.add(y, w, on)
        y = vf.add(y, x, live, mode=pl.MergeMode.MERGING)
        y = vf.add(y, s, live)
        vf.store_align(b, y, live, [r, 0])


@pl.vector_function
def whole_row(a, b, n: pl.DT_INT64):
    on = vf.create_mask(dtype=pl.DT_FP32)
    for r in pl.range(0, ROWS):
        x = vf.load_align(a, [r, 0])
        y = vf.adds(x, 1.0, on)
        vf.store_align(b, y, on, [r, 0])


@pl.vector_function
def last_lane(a, b, n: pl.DT_INT64):
    on = vf.create_mask(dtype=pl.DT_FP32)
    for r in pl.range(0, ROWS):
        x = vf.load_align(a, [r, 0])
        x = vf.full(x, on, pos=pl.DuplicatePos.HIGHEST)
        vf.store_align(b, x, on, [r, 0])


@pl.vector_function
def fresh_sum(a, b, n: pl.DT_INT64):
    live = vf.update_mask(n, dtype=pl.DT_FP32)
    x = vf.load_align(a, 0)
    for r in pl.range(0, ROWS):
        acc = vf.mul_add_dst(x, x, live)
        vf.store_align(b, acc, live, [r, 0])


@pl.vector_function
def undefined_indices(a, b, n: pl.DT_INT64):
    live = vf.update_mask(n, dtype=pl.DT_FP32)
    x = vf.load_align(a, 0, dtype=pl.DT_UINT32)
    k = vf.load_align(a, 0, dtype=pl.DT_UINT32)
    k = vf.and_(k, k, live)
    y = vf.gather(x, k)
    z = vf.gather(y, x)
    for r in pl.range(0, ROWS):
        vf.store_align(b, z, live, [r, 0])


def test_lanes_that_are_not_used_may_be_undefined() -> None:
    assert checked(masked_tail) == set()


@pytest.mark.parametrize("function", [whole_row, last_lane, fresh_sum, undefined_indices])
def test_use_of_undefined_lanes_is_found(function: Any) -> None:
    assert ("uninitialised_read", "error") in checked(function)


@pl.vector_function
def misaligned(a, b, n: pl.DT_INT64):
    live = vf.update_mask(n, dtype=pl.DT_FP32)
    for r in pl.range(0, ROWS):
        x = vf.load_align(a, r * COLS + 1)
        vf.store_align(b, x, live, [r, 0])


@pl.vector_function
def unaligned_is_fine(a, b, n: pl.DT_INT64):
    live = vf.update_mask(n - 1, dtype=pl.DT_FP32)
    last = vf.update_mask(n, dtype=pl.DT_FP32)
    for r in pl.range(0, ROWS):
        x = vf.load(a + (r * COLS + 1))
        vf.store_align(b, x, live, [r, 0])
        z = vf.full(0.0, last, dtype=pl.DT_FP32)
        z = vf.move(x, live)
        vf.store_align(b, z, last, [r, 0])


def test_alignment_is_checked() -> None:
    assert ("misaligned_slot", "error") in checked(misaligned)
    assert "misaligned_slot" not in {kind for kind, _ in checked(unaligned_is_fine)}


@pl.vector_function
def where_positive(a, b, n: pl.DT_INT64):
    on = vf.create_mask(dtype=pl.DT_FP32)
    x = vf.load_align(a, 0)
    m = vf.gt(x, 0.0, on)
    vf.store_align(b, x, m)


@pl.jit()
def twice_where_positive(x: pl.Tensor[[2, COLS], pl.DT_FP32], y: pl.Tensor[[2, COLS], pl.DT_FP32]):
    tile = pl.TileType(shape=[1, COLS], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec)
    with pl.section_vector():
        a = pl.make_tile(tile, addr=0, size=COLS * 4)
        b = pl.make_tile(tile, addr=0x400, size=COLS * 4)
        for i in pl.range(0, 2):
            pl.load(a, x, [i, 0])
            pl.system.sync_src(set_pipe=pl.PipeType.MTE2, wait_pipe=pl.PipeType.V, event_id=0)
            pl.system.sync_dst(set_pipe=pl.PipeType.MTE2, wait_pipe=pl.PipeType.V, event_id=0)
            where_positive(a, b, 1)
            pl.system.sync_src(set_pipe=pl.PipeType.V, wait_pipe=pl.PipeType.MTE3, event_id=0)
            pl.system.sync_dst(set_pipe=pl.PipeType.V, wait_pipe=pl.PipeType.MTE3, event_id=0)
            pl.store(y, b, [i, 0])
            pl.system.bar_all()


def test_stores_under_masks_made_from_data_are_not_replayed() -> None:
    """The second call writes lanes that the first did not: what is undefined afterwards follows the data."""
    x = np.ones((2, COLS), np.float32)
    assert findings(twice_where_positive, x, np.zeros_like(x)) == set()
    x[1, 5] = -1
    assert findings(twice_where_positive, x, np.zeros_like(x)) == set()  # lane 5 keeps what the first call wrote
    x[0, 5] = -1
    assert ("uninitialised_read", "error") in findings(twice_where_positive, x, np.zeros_like(x))
    x[1, 5] = 1
    assert ("uninitialised_read", "error") in findings(twice_where_positive, x, np.zeros_like(x))
