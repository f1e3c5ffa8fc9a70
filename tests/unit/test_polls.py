"""Loops that poll: those that cannot end are stuck, with their line; those that somebody or something ends go on.

Every kernel runs on both executors, the simulator under every schedule.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import pypto_pro
import pypto_pro.language as pl
from pypto_pro import options
from pypto_pro.diag.errors import StuckError

FLAG = [1, 16]
RUNS = [("native", "in_order"), ("interp", "in_order"), ("interp", "latest"), ("interp", "random")]


class TooLong(Exception):
    """A launch that should have ended, or been found stuck, did neither."""


@pytest.fixture(autouse=True, params=RUNS, ids=lambda run: "-".join(run))
def on_each(request: pytest.FixtureRequest) -> Iterator[None]:
    """One executor and schedule, for at most half a minute."""
    executor, schedule = request.param

    def ring(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 30)
    try:
        with options(executor=executor, schedule=schedule, check=False):
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def slots(addrs, ids):
    return pl.make_tile_group(
        type=pl.TileType(shape=FLAG, dtype=pl.DT_INT32, target_memory=pl.MemorySpace.Vec), addrs=addrs, mutex_ids=ids
    )


def fetched(tile, source):
    """Element 0 of a tensor by way of UB."""
    pl.load(tile, source, [0, 0])
    pl.system.sync_src(set_pipe=pl.PipeType.MTE2, wait_pipe=pl.PipeType.S, event_id=0)
    pl.system.sync_dst(set_pipe=pl.PipeType.MTE2, wait_pipe=pl.PipeType.S, event_id=0)
    return tile[0, 0]


# --- waiting for a block that comes, or does not ----------------------------------------------------------------------
@pl.jit(auto_mutex=True)
def load_poll(flag: pl.Tensor[FLAG, pl.DT_INT32], y: pl.Tensor[[16], pl.DT_INT32], writer: pl.DT_INT32):
    """All blocks but `writer` load the flag until it is set; it sets it after some work of its own."""
    with pl.section_vector():
        t = slots(0, [0]).current()
        me = pl.get_block_idx()
        if me == writer:
            n = 0
            while n < 300:
                n = n + 1
            pl.expands(t, n)
            pl.store(flag, t, [0, 0])
        else:
            v = fetched(t, flag)
            while v == 0:  # the poll
                v = fetched(t, flag)
            y[me] = v


@pl.jit(auto_mutex=True)
def toggling_poll(flag: pl.Tensor[FLAG, pl.DT_INT32], y: pl.Tensor[[16], pl.DT_INT32], writer: pl.DT_INT32):
    """The same by turns into two slots, so that the program's state needs two trips to come back."""
    with pl.section_vector():
        group = slots([0, 64], [0, 1])
        me = pl.get_block_idx()
        if me == writer:
            pl.expands(group.current(), 300)
            pl.store(flag, group.current(), [0, 0])
        else:
            v = 0
            while True:  # the poll
                v = fetched(group.next(), flag)
                if v != 0:
                    break
            y[me] = v


@pl.jit(auto_mutex=True)
def getval_poll(flag: pl.Tensor[FLAG, pl.DT_INT32], y: pl.Tensor[[16], pl.DT_INT32], writer: pl.DT_INT32):
    """Scalar reads of GM."""
    with pl.section_vector():
        me = pl.get_block_idx()
        if me == writer:
            flag[0, 0] = 300
            pl.system.dcci(flag)
        else:
            while flag[0, 0] == 0:  # the poll
                pl.system.dcci(flag)
            y[me] = flag[0, 0]


def line_of(kernel: Any, text: str) -> int:
    """Line of this file that has `text`, in the kernel's own source."""
    first = kernel.__wrapped__.__code__.co_firstlineno
    with open(__file__, encoding="utf-8") as file:
        return next(k for k, line in enumerate(file, 1) if k >= first and text in line)


POLLS = [load_poll, toggling_poll, getval_poll]


@pytest.mark.parametrize("kernel", POLLS, ids=lambda k: k.__name__)
@pytest.mark.parametrize("blocks", [2, 5])
def test_a_poll_another_block_ends(kernel: Any, blocks: int) -> None:
    for writer in (0, blocks - 1):
        flag, y = np.zeros(FLAG, np.int32), np.zeros(16, np.int32)
        kernel[None, blocks](flag, y, writer)
        assert (y[:blocks] == [0 if k == writer else 300 for k in range(blocks)]).all()


@pytest.mark.parametrize("kernel", POLLS, ids=lambda k: k.__name__)
@pytest.mark.parametrize("blocks", [1, 4])
def test_a_poll_nobody_ends(kernel: Any, blocks: int) -> None:
    with pytest.raises(StuckError) as caught:
        kernel[None, blocks](np.zeros(FLAG, np.int32), np.zeros(16, np.int32), -1)
    assert f"test_polls.py:{line_of(kernel, '# the poll')}:" in str(caught.value)
    assert "polls for ever" in str(caught.value)


# --- what ends a poll from inside -------------------------------------------------------------------------------------
@pl.jit(auto_mutex=True)
def counts_in_a_scalar(flag: pl.Tensor[FLAG, pl.DT_INT32], y: pl.Tensor[[16], pl.DT_INT32]):
    with pl.section_vector():
        group = slots([0, 64], [0, 1])
        n = 0
        while True:
            n = n + 1
            if fetched(group.next(), flag) != 0 or n == 300:
                break
        y[0] = n


@pl.jit(auto_mutex=True)
def counts_in_a_tile(flag: pl.Tensor[FLAG, pl.DT_INT32], y: pl.Tensor[[16], pl.DT_INT32]):
    """Only UB knows how often the loop went round."""
    with pl.section_vector():
        t, counter = slots(0, [0]).current(), slots(64, [1]).current()
        pl.expands(counter, 0)
        pl.system.bar_all()
        while fetched(t, flag) + counter[0, 0] // 300 == 0:
            pl.add(counter, counter, 1)
            pl.system.bar_all()
        y[0] = counter[0, 0]


@pl.jit(auto_mutex=True)
def counts_in_a_struct(flag: pl.Tensor[FLAG, pl.DT_INT32], y: pl.Tensor[[16], pl.DT_INT32]):
    with pl.section_vector():
        held = pl.struct("held", n=0)
        while flag[0, 0] == 0 and held.n < 300:
            held.n = held.n + 1
            pl.system.dcci(flag)
        y[0] = held.n


@pl.jit(auto_mutex=True)
def counts_in_a_shape(flag: pl.Tensor[FLAG, pl.DT_INT32], y: pl.Tensor[[16], pl.DT_INT32]):
    """The valid extents of a tile know it."""
    with pl.section_vector():
        kind = pl.TileType(
            shape=[1, 512], dtype=pl.DT_INT32, target_memory=pl.MemorySpace.Vec, valid_shape=[-1, -1]
        )
        t = pl.make_tile(kind, addr=0, size=2048)
        pl.set_validshape(t, [1, 1])
        while flag[0, 0] == 0 and t.valid_shape[1] < 300:
            pl.set_validshape(t, [1, t.valid_shape[1] + 1])
            pl.system.dcci(flag)
        y[0] = t.valid_shape[1]


@pl.jit(auto_mutex=True)
def counts_in_a_hidden_place(flag: pl.Tensor[FLAG, pl.DT_INT32], y: pl.Tensor[[16], pl.DT_INT32]):
    """A `for` whose variable is overwritten: no variable of the author tells its trips apart."""
    with pl.section_vector():
        for i in pl.range(300):
            i = 0
            while flag[0, i] != 0:
                i = 0
        y[0] = 300


COUNTS = [counts_in_a_scalar, counts_in_a_tile, counts_in_a_struct, counts_in_a_shape, counts_in_a_hidden_place]


@pytest.mark.parametrize("kernel", COUNTS, ids=lambda k: k.__name__)
def test_a_poll_that_counts_to_a_limit(kernel: Any) -> None:
    y = np.zeros(16, np.int32)
    kernel[None, 2](np.zeros(FLAG, np.int32), y)
    assert y[0] == 300


# --- cores and blocks that hand over to each other --------------------------------------------------------------------
@pl.jit(auto_mutex=True)
def handover(turn: pl.Tensor[FLAG, pl.DT_INT32], y: pl.Tensor[[16], pl.DT_INT32], first: pl.DT_INT32):
    """Two blocks take turns through GM; block 0 wants `first` of them, block 1 twenty."""
    with pl.section_vector():
        group = slots([0, 64], [0, 1])
        me = pl.get_block_idx()
        wanted = first
        if me == 1:
            wanted = 20
        n = 0
        while n < wanted:  # the poll
            t = group.next()
            if fetched(t, turn) % 2 == me:
                pl.add(t, t, 1)
                pl.store(turn, t, [0, 0])
                pl.system.bar_all()
                n = n + 1
        y[me] = n


def test_blocks_that_hand_over() -> None:
    y = np.zeros(16, np.int32)
    handover[None, 2](np.zeros(FLAG, np.int32), y, 20)
    assert (y[:2] == 20).all()


def test_blocks_of_which_one_stops_handing_over() -> None:
    with pytest.raises(StuckError) as caught:
        handover[None, 2](np.zeros(FLAG, np.int32), np.zeros(16, np.int32), 22)
    assert "block 0" in str(caught.value)
    assert "block 1" not in str(caught.value)


@pl.jit
def message(y: pl.Tensor[[16], pl.DT_INT32], sender: pl.DT_INT32):
    """The AIC polls SSBUF for what one AIV sends."""
    note = pl.struct("note", a=0, b=0)
    with pl.section_cube():
        while note.a == 0:  # the poll
            pl.ssbuf_load(note, 0)
        y[1] = note.a
    with pl.section_vector():
        n = 0
        while n < 200:
            n = n + 1
        if pl.get_subblock_idx() == sender:
            note.a = n
            pl.ssbuf_store(note, 0)


def test_a_message_that_comes_and_one_that_does_not() -> None:
    y = np.zeros(16, np.int32)
    message[None, 2](y, 1)
    assert y[1] == 200
    with pytest.raises(StuckError) as caught:
        message[None, 2](y, 2)
    assert f"test_polls.py:{line_of(message, '# the poll')}:" in str(caught.value)


@pl.jit(auto_mutex=True)
def waits_for_a_poller(flag: pl.Tensor[FLAG, pl.DT_INT32], y: pl.Tensor[[16], pl.DT_INT32]):
    """The AIC waits for signals that the AIVs send after their polls."""
    with pl.section_cube():
        pl.system.wait_cross_core(pipe=pl.PipeType.S, event_id=1)  # the wait
        y[1] = 5
    with pl.section_vector():
        t = slots(0, [0]).current()
        while fetched(t, flag) == 0:  # the poll
            n = 0
            while n < 5:
                n = n + 1
        pl.system.set_cross_core(pipe=pl.PipeType.S, event_id=1)


def test_a_core_that_waits_for_a_poller() -> None:
    y = np.zeros(16, np.int32)
    waits_for_a_poller[None, 2](np.ones(FLAG, np.int32), y)
    assert y[1] == 5
    with pytest.raises(StuckError) as caught:
        waits_for_a_poller[None, 2](np.zeros(FLAG, np.int32), y)
    places = {(s.line) for s in caught.value.diagnostic.spans}
    assert places >= {line_of(waits_for_a_poller, text) for text in ("# the wait", "# the poll")}


# --- loops that read nothing others write -----------------------------------------------------------------------------
@pl.jit
def scalars(y: pl.Tensor[[16], pl.DT_INT32], step: pl.DT_INT32):
    with pl.section_vector():
        k = 0
        s = 0
        while k < 300:  # the poll
            s = (s + 1) % 3
            for j in pl.range(2):
                s = (s + j + 1) % 3
            if s == 0:
                k = k + step
        y[0] = k


@pl.jit
def own_tile(y: pl.Tensor[[16], pl.DT_INT32], step: pl.DT_INT32):
    with pl.section_vector():
        t = slots(0, [0]).current()
        pl.expands(t, 0)
        pl.system.bar_all()
        while t[0, 0] < 300:  # the poll
            pl.add(t, t, step)
            pl.system.bar_all()
        y[0] = t[0, 0]


@pl.jit
def registers(y: pl.Tensor[[16], pl.DT_INT32], step: pl.DT_INT32):
    with pl.section_vector():
        n = 0
        while pl.get_spr() == 0 and n < 300:  # the poll
            n = n + step
            pl.system.bar_all()
        y[0] = n


@pytest.mark.parametrize("kernel", [scalars, own_tile, registers], ids=lambda k: k.__name__)
def test_a_loop_that_nothing_from_outside_can_end(kernel: Any) -> None:
    y = np.zeros(16, np.int32)
    kernel[None, 1](y, 1)
    assert y[0] == 300
    with pytest.raises(StuckError) as caught:
        kernel[None, 3](y, 0)
    assert f"test_polls.py:{line_of(kernel, '# the poll')}:" in str(caught.value)


def test_the_checks_call_it_a_livelock() -> None:
    kernels: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
        (load_poll[None, 2], (np.zeros(FLAG, np.int32), np.zeros(16, np.int32), -1)),
        (own_tile[None, 1], (np.zeros(16, np.int32), 0)),
    ]
    for launcher, args in kernels:
        report = pypto_pro.check(launcher, *args)
        assert "livelock" in {f.kind for f in report.findings}
