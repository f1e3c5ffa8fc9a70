"""Signal handlers that raise at any moment of a launch: it ends, nothing runs on, and the next launch is right."""

import random
import signal
import threading
import time

import numpy as np
import pytest

import pypto_pro
import pypto_pro.language as pl
from pypto_pro.native import background
from pypto_pro.ops import entry

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")


class Interruption(KeyboardInterrupt):
    """What the handler raises."""


@pytest.fixture
def alarms():
    def interrupt(*_):
        raise Interruption

    before = signal.signal(signal.SIGALRM, interrupt)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pl.jit
def doubled(x: pl.Tensor[[pl.DYNAMIC, 64], pl.DT_FP32], y: pl.Tensor[[pl.DYNAMIC, 64], pl.DT_FP32]):
    t = pl.TileType(shape=[8, 64], dtype=pl.DT_FP32)
    tiles = pl.make_tile_group(type=t, addrs=0, mutex_ids=[0, 1])
    with pl.section_vector():
        for r in pl.range(pl.get_block_idx(), x.shape[0] // 8, pl.get_block_num()):
            tile = tiles.next()
            pl.load(tile, x, [r * 8, 0])
            pl.add(tile, tile, tile)
            pl.store(y, tile, [r * 8, 0])


@pl.jit
def met(x: pl.Tensor[[pl.DYNAMIC, 64], pl.DT_FP32], y: pl.Tensor[[pl.DYNAMIC, 64], pl.DT_FP32]):
    t = pl.TileType(shape=[8, 64], dtype=pl.DT_FP32)
    tiles = pl.make_tile_group(type=t, addrs=0, mutex_ids=[0, 1])
    with pl.section_vector():
        for r in pl.range(pl.get_block_idx(), x.shape[0] // 8, pl.get_block_num()):
            tile = tiles.next()
            pl.load(tile, x, [r * 8, 0])
            pl.add(tile, tile, tile)
            pl.store(y, tile, [r * 8, 0])
            pl.system.sync_all(core_type=pl.SyncCoreType.AIV_ONLY)


@pytest.mark.parametrize("kernel", [doubled, met], ids=["blocks alone", "blocks that meet"])
def test_a_launch_may_be_interrupted_anywhere(kernel, alarms, monkeypatch):
    monkeypatch.setenv("PYPTO_PRO_THREADS", "2")
    rng, cut = random.Random(5), 0
    rows = 8 * 64
    x = np.arange(rows * 64, dtype=np.float32).reshape(rows, 64)
    with pypto_pro.options(executor="native"):
        kernel[None, 2](x, np.zeros_like(x))
        for _ in range(400):
            blocks = rng.choice([1, 2, 4, 8, 16])  # more than before: a launch then prepares more memory
            y = np.zeros_like(x)
            try:
                try:
                    alarms(rng.random() * rng.choice([1e-4, 1e-3, 4e-3]) + 1e-6)
                    kernel[None, blocks](x, y)
                finally:
                    alarms(0)
            except Interruption:
                cut += 1
                seen = y.copy()
                time.sleep(0.0005)
                assert (seen == y).all()  # nobody writes any more
            else:
                assert (y == 2 * x).all()
    assert 20 < cut < 400


def test_a_task_belongs_to_one_side_however_often_it_is_asked():
    done = threading.Event()
    task = background.Task(done.set)
    assert task.call_off()
    assert task.call_off()
    background.submit(task)
    begun = background.Task(done.set)
    background.submit(begun)
    assert done.wait(5)
    assert begun.wait() is None
    assert begun.wait() is None
    assert not begun.call_off()


def test_a_family_imported_anew_takes_its_places():
    add = entry.registered()["pl.add"]
    assert entry.register(add) is add
    twin = type(add)("pl.add", (), lambda: None, None, add.section, add.family)
    with pytest.raises(ValueError, match="defined twice"):
        entry.register(twin)
