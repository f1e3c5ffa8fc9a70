"""Delays, slots and event ids of the automatic pipeline: the tables of the specification, and groups that overlap."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest
from kernel_text import module
from pipeline_kernels import Chain

import pypto_pro
from pypto_pro.diag.errors import PipelineError
from pypto_pro.enums import CoreKind
from pypto_pro.frontend.closure import Captures
from pypto_pro.frontend.pipeline.schedule import delays

CORES = {"C": CoreKind.CUBE, "V": CoreKind.VECTOR}


@pytest.mark.parametrize(("chain", "preload", "wanted"), [
    ("CV", 1, (0, 1)), ("CV", 2, (0, 1)), ("CV", 5, (0, 1)), ("CV", 0, (0, 1)), ("CV", -3, (0, 1)),
    ("VC", 2, (0, 1)), ("C", 2, (0,)), ("V", 0, (0,)),
    ("CVC", 1, (0, 1, 1)), ("CVC", 2, (0, 1, 2)), ("CVC", 4, (0, 1, 4)),
    ("CVCV", 1, (0, 1, 1, 2)), ("CVCV", 2, (0, 1, 2, 3)), ("CVCV", 4, (0, 1, 4, 5)),
    ("VCVC", 3, (0, 1, 3, 4)), ("CVCVC", 2, (0, 1, 2, 3, 4)),
])  # fmt: skip
def test_delays(chain: str, preload: int, wanted: tuple[int, ...]) -> None:
    assert delays([CORES[kind] for kind in chain], preload) == wanted


def transformed(chain: Chain) -> str:
    """The transformed kernel as text."""
    captures = Captures()
    chain.kernel().compile((), None, (), captures=captures)
    return captures.transformed


def config(preload: int) -> str:
    return f"pl.pipeline.PipelineConfig(preload={preload})"


@pytest.mark.parametrize(("kinds", "preload", "slots", "is_legal"), [
    ("CVCV", 1, 2, True), ("CVCV", 2, 2, True), ("CVCV", 3, 2, False), ("CVCV", 3, 3, True), ("CVCV", 4, 3, False),
    ("CVCV", 4, 4, True), ("CVC", 3, 2, False), ("CVC", 2, 2, True), ("CV", 9, 2, True), ("CV", 1, 1, False),
])  # fmt: skip
def test_slots_for_a_preload(kinds: str, preload: int, slots: int, is_legal: bool) -> None:
    chain = Chain(kinds, config=config(preload), slots=(slots,) * (len(kinds) - 1))
    if is_legal:
        assert transformed(chain)
        return
    with pytest.raises(PipelineError, match=rf"too few slots for preload={preload}.*slots or more, found {slots}"):
        transformed(chain)


def test_one_slot_is_enough_for_the_serial_loop() -> None:
    assert transformed(Chain("CVCV", config="pl.pipeline.PipelineConfig(sync_only=True)", slots=(1, 1, 1)))


@pytest.mark.parametrize(("ids", "sets", "waits"), [
    (("[0, 1]", "None"), 1, 2), (("None", "[2, 3]"), 4, 3), (("[0, 1]", "[2, 3]"), 5, 5), (("[0]", "[2]"), 5, 5),
])  # fmt: skip
def test_an_edge_without_ids_is_not_emitted(ids: tuple[str, str], sets: int, waits: int) -> None:
    text = transformed(Chain("CV", ids=(ids,)))
    assert (text.count("set_cross_core"), text.count("wait_cross_core")) == (sets, waits)


@pytest.mark.parametrize("preload", [0, -1, -4])
def test_a_preload_below_1(preload: int) -> None:
    assert transformed(Chain("CV", config=config(preload)))
    assert transformed(Chain("V", config=config(preload)))
    with pytest.raises(PipelineError, match=f"with preload={preload} stage `s2`.*expected a delay.*found"):
        transformed(Chain("CVC", config=config(preload)))


# --- groups that share addresses -------------------------------------------------------------------------------------


def shared(preload: int, slots: int, ids: tuple[tuple[str, str], ...]) -> Chain:
    return Chain("CVCV", config=config(preload), slots=(slots,) * 3, ids=ids, together=True)


OWN = (("[0, 1]", "[2, 3]"), ("[4]", "[5]"), ("[6]", "[7]"))
FOUR = (("[0, 1, 2, 3]", "[4, 5, 6, 7]"), ("[8, 9, 10, 11]", "[12]"), ("[13]", "[14]"))
ONE_OWNER = (("[0, 1]", "[2, 3]"), ("[4]", "[5]"), ("[6]", "None"))


def results(chain: Chain, tasks: int = 5) -> None:
    """The kernel gives numpy's numbers and is clean."""
    kernel = chain.kernel()
    x, w = chain.inputs(tasks)
    y = np.full((x.shape[0], 32), -1.0, np.float32)
    report = pypto_pro.check(kernel[None, 1], x, w, y, 1, tasks)
    assert report.clean, report.render()
    assert np.array_equal(y, chain.expected(x, w, tasks))


def test_overlap_with_ids_of_its_own() -> None:
    chain = shared(1, 2, OWN)
    text = transformed(chain)
    assert "_pl_overlap_ids_0 = [8, 9]" in text  # ascending, none of the channels'
    assert re.findall(r"set_cross_core\(pipe=pl.PipeType.V, event_id=_pl_overlap_ids_0", text)
    results(chain)


def test_overlap_served_by_the_only_backward_ids() -> None:
    chain = shared(1, 2, ONE_OWNER)
    text = transformed(chain)
    assert "overlap_ids" not in text
    assert text.count("wait_cross_core(pipe=pl.PipeType.FIX, event_id=_pl_bwd_ids_ch0[_pl_ctx_0._pl_task_id % 2])") == 2


@pytest.mark.parametrize("config", ["preload=2", "sync_only=True"])
def test_scratch_in_the_addresses_of_a_channel(config: str) -> None:
    """The next product may come only when the scratch tile over the slot has been stored, too."""
    chain = Chain("CV")
    text = chain.source().replace("PipelineConfig()", f"PipelineConfig({config})")
    text = text.replace("addrs=0x22000, mutex_ids=[18, 19]", "addrs=0, mutex_ids=[0, 1]")
    kernel = module(text)["kernel"]
    captures = Captures()
    kernel.compile((), None, (), captures=captures)
    assert "set_cross_core(pipe=pl.PipeType.MTE3, event_id=_pl_bwd_ids_ch0" in captures.transformed
    x, w = chain.inputs(5)
    y = np.zeros((160, 32), np.float32)
    report = pypto_pro.check(kernel[None, 1], x, w, y, 1, 5)
    assert report.clean, report.render()
    assert np.array_equal(y, chain.expected(x, w, 5))


def test_overlap_of_a_larger_ring() -> None:
    results(shared(2, 4, (("[0]", "[1]"), ("[2]", "[3]"), ("[4]", "[5]"))), tasks=9)


def test_overlap_short_of_ids() -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        text = transformed(shared(2, 4, FOUR))
    assert "_pl_overlap_ids_0 = [15]" in text
    assert any("event ids are short" in str(w.message) for w in said)


def test_overlap_without_ids() -> None:
    full = (*FOUR[:2], ("[13, 15]", "[14]"))
    with pytest.raises(PipelineError, match=r"more event ids, expected .* found 0"):
        transformed(shared(2, 4, full))


def test_overlap_that_would_wait_for_a_future_task() -> None:
    far = Chain("CVCV", slots=(2, 3, 2), ids=OWN, together=True)
    with pytest.raises(PipelineError, match=r"wait for a future task.*expected 0 or more tasks back, found -2"):
        transformed(far)


def test_overlap_in_a_circle() -> None:
    with pytest.raises(PipelineError, match=r"`s1` -> `s2` -> `s1`, with preload=2; expected one beat .* found none"):
        transformed(shared(2, 2, OWN))


def test_reuse_in_the_same_task_against_the_order() -> None:
    """A cube stage writes over a channel that a later vector stage of the same task still reads."""
    text = Chain("CV", config="pl.pipeline.PipelineConfig(sync_only=True)").source()
    extra = """
@pl.pipeline.stage
def early(u_g):
    u = u_g.next()
    pl.expands(u, 1.0)

@pl.pipeline.stage
def over(ac_g, z_g):
    z = z_g.next()
    ac = ac_g.current()
    pl.move(z, ac, acc_to_vec_mode=pl.AccToVecMode.DualModeSplitM)

@pl.jit"""
    call = "        with pl.section_vector():\n            s1("
    text = text.replace("@pl.jit", extra).replace(call, (
        "        with pl.section_vector():\n            early(u_g)\n"
        "        with pl.section_cube():\n            over(ac_g, z_g)\n" + call
    ))  # fmt: skip
    channel = "    ch0 = pl.make_tile_group(type=half, addrs=0x0, mutex_ids=[0, 1]"
    group = "    z_g = pl.make_tile_group(type=half, addrs={}, mutex_ids=[0, 1])\n" + channel
    legal, wrong = (text.replace(channel, group.format(address)) for address in ("0x10000", "0"))

    def read(source: str) -> Any:
        return module(source)["kernel"].compile((), None, ())

    assert read(legal)
    with pytest.raises(PipelineError, match="expected `s1` earlier in the chain, found it later"):
        read(wrong)
