"""What the scalar unit does besides arithmetic: SSBUF, cache maintenance, special registers, debug output."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from machine_runs import EVERY_SCHEDULE, STORE, kernel_text, run_text, run_vector

from pypto_pro.interp import services as simulated
from pypto_pro.native import services as compiled
from pypto_pro.ops.entry import Service
from pypto_pro.ops.overrun import OutOfBoundsWarning
from pypto_pro.ops.table import all_ops

T = "T0 = TileType([4, 32], fp32, Vec)"
MESSAGE = "T1 = Struct('Msg', {'n': index, 'flag': bool, 'f': fp32})"
X = "x: Tensor([16, 32], fp32)"
LINE = "cache_line=CacheLine.SINGLE_CACHE_LINE, dst=DcciDst.AUTO"
WHOLE = "cache_line=CacheLine.ENTIRE_DATA_CACHE, dst=DcciDst.AUTO"


def test_every_service_has_an_op_and_code_in_both_executors() -> None:
    asked = [entry.service for entry in all_ops() if entry.service is not None]
    assert sorted(asked) == sorted(Service)
    assert set(simulated.SERVICES) == set(compiled.SERVICES) == set(Service)


@pytest.mark.parametrize(("schedule", "seed"), EVERY_SCHEDULE)
def test_ssbuf_carries_structs_between_cores(schedule: str, seed: int) -> None:
    cube = "m: T1 = struct((-5, True, 2.5))\nssbuf_store(m, 8)\nset_cross_core(S, 1, INTRA_BLOCK)"
    vector = """
    m: T1 = struct((0, False, 0.0))
    wait_cross_core(S, 1, INTRA_BLOCK)
    ssbuf_load(m, 8)
    debug('printf', (m.n, m.flag, m.f), format='%d %d %.1f;', loc=False)
    """
    text = kernel_text("n: index", cube=cube, vector=vector, types=MESSAGE)
    assert run_text(text, 0, schedule=schedule, seed=seed).printed == "-5 1 2.5;-5 1 2.5;"


def test_ssbuf_outside_the_buffer_moves_nothing() -> None:
    body = "m: T1 = struct((7, True, 2.5))\nssbuf_load(m, 248)\ndebug('printf', (m.n,), format='%d', loc=False)"
    with pytest.warns(OutOfBoundsWarning, match="SSBUF"):
        assert run_vector("n: index", body, 0, types=MESSAGE).printed == "7"


@pytest.mark.parametrize(
    ("clean", "want"), [(f"system.dcci(x, (0, 0), {LINE})", "5 0"), (f"system.dcci(x, None, {WHOLE})", "5 5")]
)
def test_dcci_drops_a_line_or_everything(clean: str, want: str) -> None:
    """Lines of elements 0 and 16 are cached, then DMA overwrites both."""
    x = np.zeros((16, 32), np.float32)
    body = f"""
    t: T0 = make_tile(0, None, 't')
    a: fp32 = getval(x, 0)
    b: fp32 = getval(x, 16)
    expands(t, 5.0)
    bar(ALL)
    store(x, t, (0, 0), None, {STORE})
    bar(ALL)
    {clean}
    a = getval(x, 0)
    b = getval(x, 16)
    debug('printf', (a, b), format='%.0f %.0f', loc=False)
    """
    assert run_vector(X, body, x, types=T).printed == want


def test_dcci_writes_dirty_bytes_back_before_another_core_reads() -> None:
    x = np.zeros((16, 32), np.float32)
    body = f"""
    b = Convert(Query('block_idx', int32), index)
    if b == 0:
        setval(x, 3, 8.0)
        system.dcci(x, 3, {LINE})
    set_cross_core(S, 1, INTER_BLOCK)
    wait_cross_core(S, 1, INTER_BLOCK)
    v: fp32 = getval(x, 3)
    debug('printf', (v,), format='%.0f ', loc=False)
    """
    assert run_vector(X, body, x, blocks=2).printed == "8 8 "


def test_trap_stops_its_core_and_lets_issued_work_drain() -> None:
    x = np.zeros((16, 32), np.float32)
    body = f"""
    t: T0 = make_tile(0, None, 't')
    b = Convert(Query('block_idx', int32), index)
    expands(t, 1.0)
    sync_src(V, MTE3, 0)
    sync_dst(V, MTE3, 0)
    store(x, t, (b * 4, 0), None, {STORE})
    if b == 0:
        debug('trap', ())
    bar(ALL)
    setval(x, b * 128 + 1, 9.0)
    """
    assert run_vector(X, body, x, types=T, blocks=2, schedule="latest").result.finished
    assert x[:5, :2].tolist() == [[1, 1]] * 4 + [[1, 9]]


def printed(*lines: str, args: Any = (0,), params: str = "n: index", types: str = "") -> str:
    return run_vector(params, "\n".join(lines), *args, types=types).printed


def test_printf_conversions() -> None:
    form = "%d|%5d|%-5d|%05d|%+d|%u|%x|%#x|%8.3f"
    values = "(n, n, n, n, n, n, n, n, 1.5)"
    assert printed(f"debug('printf', {values}, format={form!r}, loc=False)", args=(42,)) == (
        "42|   42|42   |00042|+42|42|2a|0x2a|   1.500"
    )


def test_assert_prints_when_false_and_goes_on() -> None:
    line = "debug('pto_assert', (n > {0}, n), format='n=%d', source='n > {0}', loc=False)"
    assert printed(line.format(1), line.format(9), args=(5,)) == "Assertion failed: n > 9\nn=5"


def test_dump_of_a_tile_marks_its_valid_region() -> None:
    out = printed(
        "t: T2 = make_tile(0, None, 't')", "expands(t, 3.0)", "set_validshape(t, 1, 2)",
        "debug('dump_data', (t,), window=0, loc=False, flag='mark')",
        "debug('dump_data', (t, 0, 1, 2, 8), window=2, loc=False, flag=None)",
        types="T2 = TileType([2, 8], int32, Vec)",
    )
    row = " ".join(["       3"] * 2) + "| " + " ".join(["       3"] * 6)
    dashes = " ".join(["--------"] * 2) + "| " + " ".join(["--------"] * 6)
    assert out.splitlines() == [
        "=== [flag] mark ===", "=== [TPRINT Tile] Data Type: int32, Layout: ND, TileType: Vec ===",
        "  Shape: [2, 8], Valid Shape: [1, 2]", row, dashes, row,
        "=== [TPRINT Tile Window] Data Type: int32, Layout: ND, TileType: Vec ===",
        "  Source Shape: [2, 8], Window Offsets: [0, 1], Requested Shape: [2, 8], Valid Shape: [1, 1]", "       3",
    ]  # fmt: skip


def test_dump_of_a_tensor_window_walks_its_strides() -> None:
    x = np.arange(24, dtype=np.float16).reshape(2, 3, 4)
    out = printed(
        "debug('dump_data', (x, 0, 1, 1, 2, 2, 2), window=3, loc=False, flag=None)",
        params="x: Tensor([2, 3, 4], fp16)", args=(x,),
    )
    assert out.splitlines() == [
        "=== [TPRINT GlobalTensor] Data Type: float16, Layout: ND ===", "  Shape: [1, 1, 2, 2, 2]",
        "  Batch [0, 0, 0]:", "  5.0000   6.0000", "  9.0000  10.0000",
        "  Batch [0, 0, 1]:", " 17.0000  18.0000", " 21.0000  22.0000",
    ]  # fmt: skip


def test_ar_is_read_after_the_vector_unit_has_drained() -> None:
    """A query of AR waits for V; nothing squeezed here, so it is 0."""
    body = """
    t: T0 = make_tile(0, None, 't')
    expands(t, 1.0)
    n = Convert(Query('spr', int64), index)
    v: fp32 = getval(t, 0)
    debug('printf', (n, v), format='%d %.0f', loc=False)
    """
    for schedule, seed in EVERY_SCHEDULE:
        outcome = run_vector("n: index", body, 4, types=T, schedule=schedule, seed=seed)
        assert outcome.printed == "0 1"
