"""Native: signals between cores, run-ahead, rendezvous, stuck launches, interruption."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import pypto_pro.language as pl
from pypto_pro import options
from pypto_pro.diag.errors import StuckError

N = 32
FULL = [N, N]


@pytest.fixture(autouse=True)
def on_native():
    """Every launch here runs on native."""
    with options(executor="native", check=False):
        yield


def vec(addr, ids, dtype=pl.DT_FP32):
    return pl.make_tile_group(
        type=pl.TileType(shape=FULL, dtype=dtype, target_memory=pl.MemorySpace.Vec), addrs=addr, mutex_ids=ids
    )


class Alarm(Exception):
    """What a signal handler of the author raises."""


@pl.jit
def forever(y: pl.Tensor[[16], pl.DT_INT32], steps: pl.DT_INT64):
    with pl.section_vector():
        n = 0
        for i in pl.range(steps):
            n = n + i
        y[0] = n


@pytest.mark.parametrize("blocks", [1, 3])
def test_one_signal_is_enough_whenever_it_comes(blocks: int) -> None:
    def ring(*_: object) -> None:
        raise Alarm

    y = np.zeros(16, np.int32)
    before = signal.signal(signal.SIGALRM, ring)
    with options(executor="native"):
        forever[None, blocks](y, 3)
        try:
            for k in range(25):
                signal.setitimer(signal.ITIMER_REAL, 0.02 + 0.001 * k)
                with pytest.raises(Alarm):
                    forever[None, blocks](y, 1 << 60)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        forever[None, blocks](y, 4)
    assert y[0] == 6


@pl.jit(auto_mutex=True)
def crossed_waits(x: pl.Tensor[FULL, pl.DT_FP16], y: pl.Tensor[FULL, pl.DT_FP32], out: pl.Tensor[FULL, pl.DT_FP32]):
    """Legal on the device, where only the waiting pipe stops; in program order both cores wait for each other."""
    with pl.section_cube():
        l1 = pl.make_tile_group(
            type=pl.TileType(shape=FULL, dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Mat), addrs=0, mutex_ids=[0]
        ).current()
        left = pl.make_tile_group(
            type=pl.TileType(shape=FULL, dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Left), addrs=0, mutex_ids=[1]
        ).current()
        right = pl.make_tile_group(
            type=pl.TileType(shape=FULL, dtype=pl.DT_FP16, target_memory=pl.MemorySpace.Right), addrs=0, mutex_ids=[2]
        ).current()
        acc = pl.make_tile_group(
            type=pl.TileType(shape=FULL, dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Acc), addrs=0, mutex_ids=[3]
        ).current()
        for i in pl.range(0, 3):
            pl.load(l1, x, [0, 0])
            pl.system.wait_cross_core(pipe=pl.PipeType.MTE1, event_id=0)
            pl.move(left, l1)  # queued behind the wait, as are the product and the store
            pl.move(right, l1)
            pl.matmul(acc, left, right)
            pl.store(y, acc, [0, 0])
            pl.system.set_cross_core(pipe=pl.PipeType.MTE2, event_id=1)
    with pl.section_vector():
        t = vec(0, [4]).current()
        u = vec(0x2000, [5]).current()
        if pl.get_subblock_idx() == 0:
            pl.expands(u, 0.0)
        for i in pl.range(0, 3):
            pl.system.wait_cross_core(pipe=pl.PipeType.V, event_id=1)
            pl.expands(t, 1.0)
            pl.add(u, u, t)
            pl.system.set_cross_core(pipe=pl.PipeType.MTE3, event_id=0)
        if pl.get_subblock_idx() == 0:
            pl.store(out, u, [0, 0])


def test_waiting_pipe_alone_stops():
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, FULL).astype(np.float16)
    y, out = np.zeros(FULL, np.float32), np.zeros(FULL, np.float32)
    for blocks in (1, 2):
        y[:] = 0
        crossed_waits[None, blocks](x, y, out)
        np.testing.assert_allclose(y, x.astype(np.float32) @ x.astype(np.float32), rtol=1e-5, atol=1e-5)
        assert (out == 3).all()


@pl.jit(auto_mutex=True)
def meets(ws: pl.Tensor[[pl.DYNAMIC, N], pl.DT_FP32], y: pl.Tensor[[pl.DYNAMIC, N], pl.DT_FP32], rounds: pl.DT_INT32):
    """Every block adds up the rows of all blocks, again and again, with sync_all in between."""
    line = pl.TileType(shape=[1, N], dtype=pl.DT_FP32, target_memory=pl.MemorySpace.Vec)
    with pl.section_vector():
        mine = pl.make_tile_group(type=line, addrs=0, mutex_ids=[0]).current()
        other = pl.make_tile_group(type=line, addrs=0x100, mutex_ids=[1]).current()
        b = pl.get_block_idx()
        pl.expands(mine, 1.0)
        for r in pl.range(0, rounds):
            pl.store(ws, mine, [b, 0])
            pl.system.sync_all(core_type=pl.SyncCoreType.AIV_ONLY)
            pl.expands(mine, 0.0)
            for k in pl.range(0, pl.get_block_num()):
                pl.load(other, ws, [k, 0])
                pl.add(mine, mine, other)
            pl.system.sync_all(core_type=pl.SyncCoreType.AIV_ONLY)
        pl.store(y, mine, [b, 0])


@pytest.mark.parametrize("blocks", [1, 2, 7, 40])
def test_sync_all_with_more_blocks_than_workers(blocks: int):
    ws, y = np.zeros((blocks, N), np.float32), np.zeros((blocks, N), np.float32)
    meets[None, blocks](ws, y, 3)
    assert (y == float(blocks) ** 3).all()


@pl.jit(auto_mutex=True)
def polling(flag: pl.Tensor[[16], pl.DT_INT32], y: pl.Tensor[[16], pl.DT_INT32]):
    """Block 0 waits in a loop for what the last block writes."""
    with pl.section_vector():
        if pl.get_block_idx() == 0:
            seen = flag[0]
            while seen == 0:
                pl.system.dcci(flag)
                seen = flag[0]
            y[0] = seen
        if pl.get_block_idx() == pl.get_block_num() - 1:
            flag[0] = 7


@pytest.mark.parametrize("blocks", [2, 9])
def test_polling_gives_way_to_other_blocks(blocks: int):
    flag, y = np.zeros(16, np.int32), np.zeros(16, np.int32)
    polling[None, blocks](flag, y)
    assert y[0] == 7


def test_polling_for_what_nobody_writes_is_stuck():
    @pl.jit(auto_mutex=True)
    def endless(flag: pl.Tensor[[16], pl.DT_INT32]):
        with pl.section_vector():
            while flag[0] == 0:
                pl.system.dcci(flag)

    before = time.process_time()
    with pytest.raises(StuckError):
        endless[None, 3](np.zeros(16, np.int32))
    assert time.process_time() - before < 3


@pl.jit(auto_mutex=True)
def never_signalled(y: pl.Tensor[FULL, pl.DT_FP32]):
    with pl.section_cube():
        pl.system.wait_cross_core(pipe=pl.PipeType.S, event_id=3)  # nobody
    with pl.section_vector():
        t = vec(0, [0]).current()
        pl.expands(t, 2.0)
        pl.store(y, t, [0, 0])
        pl.system.wait_cross_core(pipe=pl.PipeType.V, event_id=2)  # nobody either


def test_a_stuck_launch_names_every_wait():
    y = np.zeros(FULL, np.float32)
    with pytest.raises(StuckError) as caught:
        never_signalled[None, 2](y)
    text = str(caught.value)
    first = never_signalled_line("event_id=3")
    assert f":{first}" in text
    assert str(never_signalled_line("event_id=2")) in text
    assert "partial" in text
    assert "check" in text
    assert (y == 2).all()


def never_signalled_line(text: str) -> int:
    with open(__file__, encoding="utf-8") as file:
        return next(k for k, line in enumerate(file, 1) if text in line and "nobody" in line)


@pl.jit(auto_mutex=True)
def missing_block(y: pl.Tensor[[16], pl.DT_INT32]):
    with pl.section_vector():
        if pl.get_block_idx() != 1:
            pl.system.sync_all(core_type=pl.SyncCoreType.AIV_ONLY)
        y[pl.get_block_idx()] = 1


@pytest.mark.parametrize("blocks", [3, 12])
def test_a_missing_participant_is_found_without_a_time_out(blocks: int):
    before = time.process_time()
    with pytest.raises(StuckError):
        missing_block[None, blocks](np.zeros(16, np.int32))
    assert time.process_time() - before < 3


@pl.jit(auto_mutex=True)
def unbounded(y: pl.Tensor[FULL, pl.DT_FP32], count: pl.DT_INT32):
    """More than 15 signals without a wait in between: the sixteenth is held until one is taken."""
    with pl.section_cube():
        for i in pl.range(0, count):
            pl.system.set_cross_core(pipe=pl.PipeType.FIX, event_id=4)
    with pl.section_vector():
        t = vec(0, [0]).current()
        pl.expands(t, 0.0)
        for i in pl.range(0, count):
            pl.system.wait_cross_core(pipe=pl.PipeType.V, event_id=4)
            pl.add(t, t, 1.0)
        pl.store(y, t, [0, 0])


def test_signals_beyond_the_counter_are_held():
    y = np.zeros(FULL, np.float32)
    unbounded[None, 2](y, 100)
    assert (y == 100).all()


def test_launches_from_several_threads_overlap():
    ys = [np.zeros((5, N), np.float32) for _ in range(6)]

    def launch(y):
        with options(executor="native", check=False):
            meets[None, 5](np.zeros((5, N), np.float32), y, 2)

    threads = [threading.Thread(target=launch, args=(y,)) for y in ys]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((y == 25).all() for y in ys)


ENDLESS = """
    import numpy as np
    import pypto_pro.language as pl

    @pl.jit(auto_mutex=True)
    def endless(y: pl.Tensor[[16], pl.DT_INT32]):
        with pl.section_vector():
            n = 0
            while n < 10:
                n = n + 1
                if n == 9:
                    n = 0
            y[0] = n

    print("ready", flush=True)
    try:
        endless[None, {blocks}](np.zeros(16, np.int32))
    except KeyboardInterrupt:
        print("interrupted")
"""


@pytest.mark.parametrize("blocks", [1, 3])
def test_ctrl_c_ends_an_endless_loop(tmp_path, blocks: int):
    script = tmp_path / "endless.py"
    script.write_text(textwrap.dedent(ENDLESS.format(blocks=blocks)))
    child = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYPTO_PRO_CHECK": "0"}
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        for _ in range(100):  # the first ones may come while the kernel is still compiled
            time.sleep(0.2)
            child.send_signal(signal.SIGINT)
            if child.poll() is not None:
                break
        assert child.communicate(timeout=10)[0].endswith("interrupted\n")
    finally:
        child.kill()


@pl.jit(auto_mutex=True)
def chain(x: pl.Tensor[FULL, pl.DT_FP32], y: pl.Tensor[[pl.DYNAMIC, N], pl.DT_FP32], steps: pl.DT_INT32):
    """Vector cores and cube core pass a turn around: UNICAST both ways, then a pair signal."""
    with pl.section_vector():
        t = vec(0, [0]).current()
        pl.load(t, x, [0, 0])
        for i in pl.range(0, steps):
            pl.system.set_cross_core(
                pipe=pl.PipeType.MTE3, event_id=i % 8, sync_mode=pl.CrossCoreSyncMode.UNICAST_BLOCK
            )
            pl.system.wait_cross_core(
                pipe=pl.PipeType.V, event_id=i % 8, sync_mode=pl.CrossCoreSyncMode.UNICAST_BLOCK
            )
            pl.add(t, t, 1.0)
            pl.system.set_cross_core(
                pipe=pl.PipeType.V, event_id=9, sync_mode=pl.CrossCoreSyncMode.INTER_SUBBLOCK
            )
            pl.system.wait_cross_core(
                pipe=pl.PipeType.V, event_id=9, sync_mode=pl.CrossCoreSyncMode.INTER_SUBBLOCK
            )
        pl.store(y, t, [(pl.get_block_idx()) * N, 0])
    with pl.section_cube():
        for i in pl.range(0, steps):
            for s in pl.range(0, 2):
                pl.system.wait_cross_core(
                    pipe=pl.PipeType.S, event_id=i % 8 + 16 * s, sync_mode=pl.CrossCoreSyncMode.UNICAST_BLOCK
                )
                pl.system.set_cross_core(
                    pipe=pl.PipeType.S, event_id=i % 8 + 16 * s, sync_mode=pl.CrossCoreSyncMode.UNICAST_BLOCK
                )


def test_random_block_counts_never_hang():
    rng = np.random.default_rng(9)
    x = rng.standard_normal(FULL).astype(np.float32)
    for _ in range(60):
        blocks, steps = int(rng.integers(1, 12)), int(rng.integers(0, 20))
        y = np.zeros((2 * blocks * N, N), np.float32)
        chain[None, blocks](x, y, steps)
        want = x.copy()
        for _ in range(steps):
            want = want + np.float32(1)
        np.testing.assert_array_equal(y.reshape(2 * blocks, N, N), np.broadcast_to(want, (2 * blocks, N, N)))


