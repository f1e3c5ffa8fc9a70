"""Vector functions and SIMT launches on the simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from machine_runs import EVERY_SCHEDULE, STORE, run_vector

from pypto_pro.interp import Observer
from pypto_pro.interp.calls import CallPlan, MemBar, RegisterAccess, as_regions, merged_runs
from pypto_pro.layouts import Region
from pypto_pro.ops.entry import Effect
from pypto_pro.ops.overrun import OutOfBoundsWarning

T = "T0 = TileType([4, 64], fp32, Vec)"
X = "x: Tensor([4, 64], fp32)"
Y = "y: Tensor([4, 64], fp32)"
LOAD = "vf.load_align(t, {0}, dtype=None, dist=None, post_update={1})"
STORE_REG = "vf.store_align(u, {0}, {1}, {2}, None, dist=None, post_update=False)"
HEAD = """
t: T0 = make_tile(0, None, 't')
u: T0 = make_tile(1024, None, 'u')
set_validshape(t, 4, cols)
load(t, x, (0, 0), order=None)
sync_src(MTE2, V, 0)
sync_dst(MTE2, V, 0)
"""
TAIL = f"""
sync_src(V, MTE3, 0)
sync_dst(V, MTE3, 0)
store(y, u, (0, 0), None, {STORE})
"""
ADD_ROWS = f"""
with vf_call('add_rows', (t, u)):
    m: Mask(fp32) = vf.update_mask(cols, dtype=fp32)
    for i in range(4):
        r: Reg(fp32) = {LOAD.format('(i, 0)', False)}
        r = vf.add(r, r, m, mode=None)
        {STORE_REG.format('r', 'm', '(i, 0)')}
"""


def arrays() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    x = np.arange(256, dtype=np.float32).reshape(4, 64)
    return x, np.full_like(x, np.nan)


def run_call(body: str, x: Any, y: Any, cols: int = 64, **how: Any) -> Any:
    return run_vector(f"{X}, {Y}, cols: index", HEAD + body + TAIL, x, y, cols, types=T, **how)


class Watch(Observer):
    """Keeps the plans of calls and what was reported about undefined lanes."""

    def __init__(self, defined: set[int] | None = None) -> None:
        self.plans: list[Any] = []
        self.used: list[tuple[str, int]] = []
        self.defined = defined

    def completed(self, instr: Any) -> None:
        if isinstance(instr.plan, CallPlan):
            self.plans.append(instr.plan)


class Tracking(Watch):
    """Bytes outside `defined` are undefined."""

    def undefined_bytes(self, instr: Any, address: int, size: int) -> Any:
        assert self.defined is not None
        found = np.array([b not in self.defined for b in range(address, address + size)])
        return found if found.any() else None

    def undefined_used(self, instr: Any, site: Any, lanes: int) -> None:
        self.used.append((site.name, lanes))


@pytest.mark.parametrize(("schedule", "seed"), EVERY_SCHEDULE)
def test_call_is_one_instruction_of_v(schedule: str, seed: int) -> None:
    x, y = arrays()
    assert run_call(ADD_ROWS, x, y, schedule=schedule, seed=seed).result.finished
    np.testing.assert_array_equal(y, 2 * x)


def test_scalars_are_captured_at_issue_and_assignments_stay_private() -> None:
    x, y = arrays()
    body = "n = 1\nsync_dst(MTE3, V, 4)\n" + ADD_ROWS.replace("vf.update_mask(cols", "vf.update_mask(n").replace(
        "    for i", "    n = n + 100\n    for i"
    ) + "n = n + 7\ndebug('printf', (n,), format='%d', loc=False)\nsync_src(MTE3, V, 4)\n"
    outcome = run_call(body, x, y)
    assert outcome.printed == "8"
    assert (y[:, 0] == 2 * x[:, 0]).all()
    assert np.isnan(y[:, 1:]).all()  # one lane was active: n was 1 at issue


def test_trace_and_footprints_of_a_call() -> None:
    x, y = arrays()
    watch = Watch()
    run_call(ADD_ROWS + "with vf_call('f', (t,)):\n    vf.mem_bar(mode=MemBarMode.VV_ALL)\n", x, y, 40, observer=watch)
    plan, bar = watch.plans
    reads = [e for e in plan.trace if isinstance(e, RegisterAccess) and e.effect is Effect.READ]
    assert [(e.address, e.size, e.align) for e in reads] == [(k * 256, 256, 32) for k in range(4)]
    found = {str(f.effect): f.regions for f in plan.footprints}
    assert found == {"read": (Region(0, 1, 1024, 1024),), "write": (Region(1024, 4, 160, 256),)}
    assert [type(e) for e in bar.trace] == [MemBar]


def test_equal_calls_share_one_plan() -> None:
    x, y = arrays()
    watch = Watch()
    run_call(f"for k in range(3):\n{''.join(f'    {line}' + chr(10) for line in ADD_ROWS.strip().splitlines())}", x, y,
             observer=watch)
    assert len(watch.plans) == 3
    assert len(set(map(id, watch.plans))) == 1


def test_cursors_belong_to_tile_expressions() -> None:
    """t and t + 64 each have a cursor; plain accesses use neither; a new call starts afresh."""
    x, y = arrays()
    body = f"""
with vf_call('f', (t, u)):
    m: Mask(fp32) = vf.create_mask(pattern=None, dtype=fp32)
    a: Reg(fp32) = {LOAD.format(64, True)}
    b: Reg(fp32) = {LOAD.format(64, True)}
    c: Reg(fp32) = vf.load_align(t + 64, 64, dtype=None, dist=None, post_update=True)
    d: Reg(fp32) = {LOAD.format(0, False)}
    {STORE_REG.format('a', 'm', 0)}
    {STORE_REG.format('b', 'm', 64)}
    {STORE_REG.format('c', 'm', '(2, 0)')}
    {STORE_REG.format('d', 'm', '(3, 0)')}
"""
    run_call(body, x, y)
    np.testing.assert_array_equal(y, x[[0, 1, 1, 0]])


def test_undefined_lanes_travel_and_only_active_ones_count() -> None:
    x, y = arrays()
    loaded = {row * 256 + b for row in range(4) for b in range(40 * 4)}
    fine = Tracking(loaded)
    run_call(ADD_ROWS, x, y, 40, observer=fine)
    assert fine.used == []
    wide = Tracking(loaded)
    run_call(ADD_ROWS.replace("update_mask(cols", "update_mask(cols + 2"), x, y, 40, observer=wide)
    assert set(wide.used) == {("add", 2)}
    copied = Tracking(loaded)
    body = ADD_ROWS.replace("r = vf.add(r, r, m, mode=None)", "m = vf.create_mask(pattern=None, dtype=fp32)")
    run_call(body, x, y, 40, observer=copied)
    assert {name for name, _ in copied.used} == {"store_align"}


def test_register_accesses_outside_ub() -> None:
    x, y = arrays()
    body = ADD_ROWS.replace("(i, 0), dtype", "(i + 1000000, 0), dtype")
    with pytest.warns(OutOfBoundsWarning, match="load_align"):
        assert run_call(body, x, y).result.finished


def test_endless_loop_in_a_call_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pypto_pro.interp.vector_unit.TRIP_LIMIT", 100)
    x, y = arrays()
    body = "with vf_call('f', (t,)):\n    n = 0\n    while True:\n        n = n + 1\n"
    outcome = run_call(body, x, y)
    assert not outcome.result.finished
    assert [s.proven for s in outcome.result.spinning] == [False]


def test_runs_become_regions() -> None:
    assert merged_runs([(8, 12), (0, 4), (4, 6), (8, 10)]) == [(0, 6), (8, 12)]
    assert as_regions([(0, 4), (16, 20), (32, 36), (40, 48)]) == [Region(0, 3, 4, 16), Region(40, 1, 8, 8)]


# --- SIMT -----------------------------------------------------------------------------------------------------------

THREADS = """
with simt_launch('f', (8, 4), (x, t, cols), 64):
    k = Convert(Query('linear_thread_idx', uint32), index)
    v: fp32 = getval(x, k)
    if k % 3 == 0:
        v = v + 1000.0
    else:
        while True:
            if v < 5.0:
                break
            v = v - 5.0
    setval(t, k, v)
"""


@pytest.mark.parametrize(("schedule", "seed"), EVERY_SCHEDULE)
def test_threads_run_on_gm_and_ub(schedule: str, seed: int) -> None:
    x, y = arrays()
    body = THREADS + "sync_src(V, S, 3)\nsync_dst(V, S, 3)\nfor i in range(32):\n    w: fp32 = getval(t, i)\n" + (
        "    debug('printf', (w,), format='%.0f ', loc=False)\n"
    )
    outcome = run_call(body, x, y, schedule=schedule, seed=seed)
    want = [k + 1000 if k % 3 == 0 else k % 5 for k in range(32)]
    assert [int(word) for word in outcome.printed.split()] == want


def test_thread_accesses_are_recorded_by_thread() -> None:
    x, y = arrays()
    watch = Watch()
    run_call(THREADS, x, y, observer=watch)
    (plan,) = watch.plans
    reads = [e for e in plan.trace if e.effect is Effect.READ]
    assert [e.thread for e in reads] == list(range(32))
    assert [e.address - x.ctypes.data for e in reads] == [4 * k for k in range(32)]
    assert {f.store.name for f in plan.footprints} == {"GM", "UB of AIV, block 0"}
