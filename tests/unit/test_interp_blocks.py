"""Memories of many blocks: made at first use, used again by later blocks, kept while a block still runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from machine_runs import EVERY_SCHEDULE

import pypto_pro
import pypto_pro.language as pl
from pypto_pro.enums import MemorySpace
from pypto_pro.interp import memory
from pypto_pro.interp.memory import POISON, Pool, Storage

F32 = pl.DT_FP32
AIV = pl.SyncCoreType.AIV_ONLY


@pl.jit
def rows(x: pl.Tensor[[pl.DYNAMIC, 64], F32], y: pl.Tensor[[pl.DYNAMIC, 64], F32], meets: pl.DT_INT32):
    with pl.section_vector():
        kind = pl.TileType(shape=[1, 64], dtype=F32)
        a = pl.make_tile_group(type=kind, addrs=0, mutex_ids=[0]).current()
        b = pl.make_tile_group(type=kind, addrs=0x200, mutex_ids=[1]).current()
        r = pl.get_block_idx()
        pl.load(a, x, [r, 0])
        if meets == 1:
            pl.system.sync_all(core_type=AIV)
        pl.add(b, a, 1.0)
        pl.store(y, b, [r, 0])


@pl.jit
def stores_unwritten(y: pl.Tensor[[pl.DYNAMIC, 64], F32]):
    with pl.section_vector():
        kind = pl.TileType(shape=[1, 64], dtype=F32)
        a = pl.make_tile_group(type=kind, addrs=0, mutex_ids=[0]).current()
        b = pl.make_tile_group(type=kind, addrs=0x200, mutex_ids=[1]).current()
        r = pl.get_block_idx()
        if r % 2 == 0:
            pl.expands(a, 1.0)
        pl.add(b, a, 1.0)
        pl.store(y, b, [r, 0])


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the arrays that pools made anew."""
    made: list[int] = []

    class Counting(Pool):
        def take(self, size: int) -> Any:
            if not self.spare.get(size):
                made.append(size)
            return super().take(size)

    monkeypatch.setattr(memory, "Pool", Counting)
    monkeypatch.setattr("pypto_pro.interp.machine.Pool", Counting)
    monkeypatch.setattr("pypto_pro.interp.checks.touched.Pool", Counting)
    return made


def run(blocks: int, meets: int, **how: Any) -> None:
    x = np.random.default_rng(4).random((blocks, 64), np.float32)
    y = np.zeros_like(x)
    with pypto_pro.options(executor="interp", **how):
        rows[None, blocks](x, y, meets)
    np.testing.assert_array_equal(y, x + np.float32(1))


def test_blocks_that_need_nobody_share_one_memory(taken: list[int]) -> None:
    run(40, 0)
    assert len(taken) == 1
    run(40, 0, check=True)
    assert len(taken) == 3  # the vector buffer, and which of its bytes hold something


def test_blocks_that_meet_have_one_each(taken: list[int]) -> None:
    run(8, 1)
    assert len(taken) == 8


@pytest.mark.parametrize(("schedule", "seed"), EVERY_SCHEDULE)
@pytest.mark.parametrize("meets", [0, 1])
def test_every_schedule(schedule: str, seed: int, meets: int) -> None:
    run(12, meets, schedule=schedule, seed=seed)


def test_a_memory_used_again_holds_nothing() -> None:
    y = np.zeros((6, 64), np.float32)
    found = [f for f in pypto_pro.check(stores_unwritten[None, 6], y).findings if f.kind == "uninitialised_read"]
    assert [f.count for f in found] == [3]
    np.testing.assert_array_equal(y[::2], 2.0)
    assert np.isnan(y[1::2]).all()


def test_storage_is_made_at_first_use_and_given_back() -> None:
    pool = Pool(POISON)
    first, second = (Storage(name, MemorySpace.Vec, 64, pool) for name in "ab")
    assert pool.spare == {}
    first.mem[:] = 1
    kept = first.mem
    first.release()
    assert second.mem is kept
    assert (second.mem == POISON).all()
    assert first.mem is not kept
