"""Memories of the simulator: bounds, windows, views, the scalar data cache, schedules that race."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from machine_runs import EVERY_SCHEDULE, STORE, kernel_text, run_text, run_vector

from pypto_pro.analysis.accesses import bounds, touches, window_regions
from pypto_pro.dtypes import DataType
from pypto_pro.enums import MemorySpace, TensorLayout
from pypto_pro.interp import Observer
from pypto_pro.interp.memory import Storage, Tile, declared_tile
from pypto_pro.ir.types import TensorType, TileType
from pypto_pro.layouts import Region
from pypto_pro.ops.overrun import OutOfBoundsWarning
from pypto_pro.ops.table import lookup
from pypto_pro.ops.tensors import TensorArg

T = "T0 = TileType([4, 32], fp32, Vec)"
X = "x: Tensor([16, 32], fp32)"
Y = "y: Tensor([16, 32], fp32)"
SYNC = "sync_src({0}, {1}, 0)\nsync_dst({0}, {1}, 0)\n"


def arrays() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    x = np.arange(16 * 32, dtype=np.float32).reshape(16, 32)
    return x, np.full_like(x, np.nan)


def copy_rows(read: str, write: str) -> str:
    return (
        f"t: T0 = make_tile(0, None, 't')\nload(t, x, ({read}, 0), order=None)\n" + SYNC.format("MTE2", "MTE3")
        + f"store(y, t, ({write}, 0), None, {STORE})"
    )


def test_access_past_a_tensor_warns_once_a_line_and_touches_nothing_outside() -> None:
    x, _ = arrays()
    guarded = np.full((18, 32), 7, np.float32)
    inner = guarded[:16]
    with pytest.warns(OutOfBoundsWarning, match="past the end of its memory") as caught:
        assert run_vector(f"{X}, {Y}", copy_rows("14", "13"), x, inner, types=T).result.finished
    assert len(caught) == 2  # the load and the store
    np.testing.assert_array_equal(inner[13:15], x[14:])
    np.testing.assert_array_equal(inner[15], 0)  # what lies past the end reads as zero
    assert (guarded[16:] == 7).all()


def test_observer_hears_of_overruns_instead() -> None:
    class Watch(Observer):
        def __init__(self) -> None:
            self.seen: list[tuple[str, str, int, int]] = []

        def out_of_bounds(self, instr: Any, overrun: Any, site: Any) -> None:
            self.seen.append((site.name, overrun.name, overrun.high, overrun.limit))

    x, y = arrays()
    watch = Watch()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run_vector(f"{X}, {Y}", copy_rows("14", "0"), x, y, types=T, observer=watch)
    assert watch.seen == [("load", "x", 18 * 128, 16 * 128)]


def test_null_tensor_reads_zero() -> None:
    _, y = arrays()
    with pytest.warns(OutOfBoundsWarning):
        run_vector(f"{X}, {Y}", copy_rows("0", "0"), None, y, types=T)
    np.testing.assert_array_equal(y[:4], 0)


def test_op_past_its_memory_space_is_clipped() -> None:
    for schedule, seed in EVERY_SCHEDULE:
        x, y = arrays()
        body = copy_rows("0", "0").replace("make_tile(0", "make_tile(253696")  # two of four rows fit
        with pytest.warns(OutOfBoundsWarning, match="UB of AIV"):
            outcome = run_vector(f"{X}, {Y}", body, x, y, types=T, schedule=schedule, seed=seed)
        assert outcome.result.finished
        np.testing.assert_array_equal(y[:2], x[:2])
        np.testing.assert_array_equal(y[2:4], 0)


def test_extents_no_memory_could_hold_leave_the_op_out() -> None:
    x, y = arrays()
    body = copy_rows("0", "0").replace("load(", "set_validshape(t, 1000000000, 1000000000)\nload(")
    with pytest.warns(OutOfBoundsWarning):
        assert run_vector(f"{X}, {Y}", body, x, y, types=T).result.finished
    assert np.isnan(y).all()


def test_window_of_a_tile_has_its_own_descriptor() -> None:
    x, y = arrays()
    body = f"""
    t: T0 = make_tile(0, None, 't')
    load(t, x, (0, 0), order=None)
    {SYNC.format("MTE2", "MTE3").replace(chr(10), chr(10) + '    ')}
    w: T0 = sub_view(t, 1, 8, 2, 8)
    store(y, w, (0, 0), None, {STORE})
    set_validshape(w, 1, 4)
    store(y, w, (4, 0), None, {STORE})
    store(y, t, (8, 0), None, {STORE})
    """
    run_vector(f"{X}, {Y}", body, x, y, types=T)
    np.testing.assert_array_equal(y[:2, :8], x[1:3, 8:16])
    np.testing.assert_array_equal(y[4, :4], x[1, 8:12])
    assert np.isnan(y[4, 4:]).all()
    np.testing.assert_array_equal(y[8:12], x[:4])


def test_operands_are_captured_at_issue() -> None:
    """A valid shape set after a blocked store was issued does not reach it."""
    x, y = arrays()
    body = f"""
    t: T0 = make_tile(0, None, 't')
    load(t, x, (0, 0), order=None)
    sync_dst(V, MTE3, 1)
    store(y, t, (0, 0), None, {STORE})
    set_validshape(t, 1, 1)
    sync_src(MTE2, V, 0)
    sync_dst(MTE2, V, 0)
    sync_src(V, MTE3, 1)
    """
    for schedule, seed in EVERY_SCHEDULE:
        y[:] = np.nan
        run_vector(f"{X}, {Y}", body, x, y, types=T, schedule=schedule, seed=seed)
        np.testing.assert_array_equal(y[:4], x[:4])


def test_views_from_pointers_and_transfer_strides() -> None:
    x, y = arrays()
    body = f"""
    t: T0 = make_tile(0, None, 't')
    v: Tensor([None, None], fp32) = make_tensor(p + 32, (8, 32), (64, 1))
    load(t, v, (1, 0), order=None)
    {SYNC.format("MTE2", "MTE3").replace(chr(10), chr(10) + '    ')}
    set_stride(y, 128, 1)
    store(y, t, (0, 0), None, {STORE})
    """
    run_vector(f"p: Ptr(fp32), {Y}", body, x, y, types=T)
    np.testing.assert_array_equal(y[0::4], x[3:11:2])


# --- the scalar data cache ------------------------------------------------------------------------------------------


def test_cache_serves_stale_bytes_until_kernel_end() -> None:
    """S reads a line, DMA overwrites it, S still sees the old value; its own dirty bytes arrive at the end."""
    x, y = arrays()
    body = f"""
    t: T0 = make_tile(0, None, 't')
    a: fp32 = getval(x, 0)
    expands(t, 5.0)
    {SYNC.format("V", "MTE3").replace(chr(10), chr(10) + '    ')}
    store(x, t, (0, 0), None, {STORE})
    bar(ALL)
    b: fp32 = getval(x, 0)
    c: fp32 = getval(x, 16)
    setval(x, 1, 9.0)
    debug('printf', (a, b, c), format='%.0f %.0f %.0f', loc=False)
    """
    printed = run_vector(f"{X}, {Y}", body, x, y, types=T).printed
    assert printed == "0 0 5"  # element 16 lies in the next 64-byte line
    assert x[0, :4].tolist() == [5, 9, 5, 5]  # only the dirty element came back


def test_two_cores_write_elements_of_one_line() -> None:
    x, _ = arrays()
    body = """
    b = Convert(Query('block_idx', int32), index)
    setval(x, b, 100.0)
    """
    run_vector(X, body, x, blocks=4)
    assert x[0, :5].tolist() == [100, 100, 100, 100, 4]


@pytest.mark.parametrize(("schedule", "seed"), [("in_order", 0), ("latest", 0)])
def test_vector_cores_of_a_block_take_turns_at_gm(schedule: str, seed: int) -> None:
    """Published kernels: both AIVs do y = y + 1 in place; both loads come before both stores."""
    x, _ = arrays()
    body = f"""
    t: T0 = make_tile(0, None, 't')
    load(t, x, (0, 0), order=None)
    {SYNC.format("MTE2", "V").replace(chr(10), chr(10) + '    ')}
    add(t, t, 1.0)
    {SYNC.format("V", "MTE3").replace(chr(10), chr(10) + '    ')}
    store(x, t, (0, 0), None, {STORE})
    """
    want = x[:4] + 1
    run_text(kernel_text(X, cube="n = 0", vector=body, types=T), x, schedule=schedule, seed=seed)
    np.testing.assert_array_equal(x[:4], want)


def test_runs_are_repeatable_and_seeds_differ() -> None:
    """An unsynchronised pair of stores: each seed always gives the same result, not all seeds the same one."""
    body = f"""
    t: T0 = make_tile(0, None, 't')
    u: T0 = make_tile(512, None, 'u')
    load(t, x, (0, 0), order=None)
    expands(u, 1.0)
    store(y, t, (0, 0), None, {STORE})
    store(y, u, (4, 0), None, {STORE})
    """
    seen = set()
    for seed in range(12):
        runs = []
        for _ in range(2):
            x, y = arrays()
            run_vector(f"{X}, {Y}", body, x, y, types=T, schedule="random", seed=seed)
            runs.append(y.tobytes())
        assert runs[0] == runs[1]
        seen.add(runs[0])
    assert len(seen) > 1


# --- accesses -------------------------------------------------------------------------------------------------------


def ub_tile(addr: int, rows: int, cols: int, **type_: Any) -> Any:
    store = Storage.on_chip("UB", MemorySpace.Vec, 1 << 16)
    tile_type = TileType([rows, cols], DataType.DT_FP32, **type_)
    return Tile(declared_tile(tile_type, addr, rows * cols * 4, (store,), "t"))


def test_role_default_reads_sources_over_the_destination() -> None:
    out, lhs = ub_tile(0, 4, 32), ub_tile(512, 4, 64)
    out.set_valid(2, 8)
    entry = lookup("add")
    assert entry is not None
    found = {(t.operand, str(t.effect)): t.regions for t in touches(entry, entry.bind((out.arg, lhs.arg, 1.0)))}
    assert found == {
        ("out", "write"): (Region(0, 2, 32, 128),),
        ("lhs", "read"): (Region(512, 2, 32, 256),),
    }


@pytest.mark.parametrize(
    ("axes", "transfer", "want"),
    [
        ((0, 1), None, (Region(8, 3, 20, 128),)),
        ((1, 0), None, (Region(8, 5, 12, 128),)),
        ((0, 1), (32, 2), None),
        ((None, 1), None, (Region(8, 1, 20, 20),)),
    ],
)
def test_tensor_windows(axes: Any, transfer: Any, want: Any) -> None:
    type_ = TensorType(DataType.DT_FP32, (16, 32), TensorLayout.ND)
    tensor = TensorArg(type_, np.zeros(2048, np.uint8), 0, (16, 32), (32, 1), transfer)
    rows, cols = (1, 5) if axes[0] is None else (3, 5)
    found = window_regions(tensor, (0, 2), axes, rows, cols)
    assert want is None or found == want
    index = tensor.byte_index((0, 2), axes, rows, cols)
    assert covered(found) == {int(b) + k for b in index.ravel() for k in range(4)}


def covered(regions: tuple[Region, ...]) -> set[int]:
    return {r.start + k * r.pitch + b for r in regions for k in range(r.rows) for b in range(r.row_bytes)}


def test_bounds_of_no_regions() -> None:
    assert bounds(()) == (0, 0)
    assert bounds((Region(64, 2, 4, 16), Region(8, 1, 4, 4))) == (8, 84)
