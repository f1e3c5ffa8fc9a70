"""What an observer is told: which calls, in which order, matched with what."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from machine_runs import EVERY_SCHEDULE, STORE, kernel_text, run_text, run_vector

from pypto_pro.interp import Observer
from pypto_pro.interp.compile import compiled
from pypto_pro.interp.observer import Calls
from pypto_pro.ir.parser import parse_kernel

T = "T0 = TileType([4, 32], fp32, Vec)"
X = "x: Tensor([16, 32], fp32)"


class Log(Observer):
    """Every call as a line; instructions by their number."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def issued(self, instr: Any) -> None:
        self.lines.append(f"issued {instr.number} {instr.site.name} {instr.trips}")

    def started(self, instr: Any) -> None:
        self.lines.append(f"started {instr.number}")

    def completed(self, instr: Any) -> None:
        touched = [f"{f.effect} {f.store.name}" for f in instr.plan.footprints]
        self.lines.append(f"completed {instr.number}: {', '.join(touched)}")

    def flag_set(self, instr: Any, flag: Any, index: int) -> None:
        self.lines.append(f"set {instr.number}: {flag.name} #{index}")

    def flag_waited(self, instr: Any, flag: Any, index: int, setter: Any) -> None:
        self.lines.append(f"waited {instr.number}: {flag.name} #{index} of {setter.number}")

    def core_ended(self, core: Any) -> None:
        self.lines.append(f"end of {core.name}")


BODY = """
t: T0 = make_tile(0, None, 't')
for i in range(1):
    load(t, x, (i * 4, 0), order=None)
sync_src(MTE2, V, 0)
sync_dst(MTE2, V, 0)
mul(t, t, 2.0)
sync_src(V, S, 1)
sync_dst(V, S, 1)
v: fp32 = getval(t, 0)
"""


def test_calls_in_order() -> None:
    log = Log()
    run_vector(X, BODY, np.zeros((16, 32), np.float32), types=T, observer=log)
    assert log.lines == [
        "issued 1 load (0,)", "started 1", "completed 1: read GM, write UB of AIV, block 0",
        "issued 2 sync_src ()", "set 2: flag MTE2->V 0 #0",
        "issued 3 sync_dst ()", "waited 3: flag MTE2->V 0 #0 of 2",
        "issued 4 mul ()", "started 4", "completed 4: write UB of AIV, block 0, read UB of AIV, block 0",
        "issued 5 sync_src ()", "set 5: flag V->S 1 #0",
        "issued 6 sync_dst ()", "waited 6: flag V->S 1 #0 of 5",
        "issued 7 getval ()", "started 7", "completed 7: read UB of AIV, block 0",
        "end of AIV, block 0",
    ]  # fmt: skip


class Pairs(Observer):
    """Who is matched with whom."""

    def __init__(self) -> None:
        self.found: set[tuple[str, tuple[int, ...], Any]] = set()

    def note(self, kind: str, instr: Any, other: Any) -> None:
        senders = other if isinstance(other, tuple) else () if other is None else (other,)
        where = tuple((i.core.name, i.site.name, i.trips) for i in senders)
        self.found.add((f"{kind} {instr.core.name} {instr.site.name}", instr.trips, where))

    def flag_waited(self, instr: Any, flag: Any, index: int, setter: Any) -> None:
        self.note("flag", instr, setter)

    def locked(self, instr: Any, mutex: Any, ticket: int, releaser: Any) -> None:
        self.note(f"mutex {ticket}", instr, releaser)

    def cross_waited(self, instr: Any, credit: Any) -> None:
        self.note(f"credit {credit.index} {credit.mode.name}", instr, credit.senders)

    def met(self, arrivals: tuple[Any, ...]) -> None:
        self.note("met", arrivals[0], arrivals)


CROSSED = f"""
t: T0 = make_tile(0, None, 't')
for i in range(3):
    mutex_lock(MTE2, 2, (2,))
    load(t, x, (i * 4, 0), order=None)
    mutex_unlock(MTE2, 2, (2,))
    mutex_lock(MTE3, 2, (2,))
    store(y, t, (i * 4, 0), None, {STORE})
    mutex_unlock(MTE3, 2, (2,))
    set_cross_core(MTE3, 1, INTER_BLOCK)
    wait_cross_core(MTE2, 1, INTER_BLOCK)
    sync_src(MTE2, V, 0)
    sync_dst(MTE2, V, 0)
    sync_all(AIV_ONLY, HARD, (), None)
"""


def test_matching_does_not_depend_on_the_schedule() -> None:
    """What happens-before is built from is the same under every schedule."""
    seen = []
    for schedule, seed in EVERY_SCHEDULE:
        pairs = Pairs()
        x, y = np.zeros((16, 32), np.float32), np.zeros((16, 32), np.float32)
        text = kernel_text(f"{X}, y: Tensor([16, 32], fp32)", vector=CROSSED, types=T)
        assert run_text(text, x, y, blocks=2, schedule=schedule, seed=seed, observer=pairs).result.finished
        seen.append({item for item in pairs.found if not item[0].startswith("met")})
        assert sum(item[0].startswith("met") for item in pairs.found) == 3
    assert all(found == seen[0] for found in seen)
    assert len(seen[0]) == 2 * 3 * (1 + 2 + 1)


def test_methods_that_are_not_overridden_cost_nothing() -> None:
    calls = Calls(Log())
    assert calls.locked is None
    assert calls.flag_set is not None
    assert Calls(None).issued is None


def test_nothing_of_a_run_stays() -> None:
    text = kernel_text(f"{X}, y: Tensor([16, 32], fp32)", vector=CROSSED, types=T)
    kernel = parse_kernel(text)
    x, y = np.zeros((16, 32), np.float32), np.zeros((16, 32), np.float32)
    from machine_runs import argument

    from pypto_pro import interp
    from pypto_pro.ir.launch import Launch

    interp.run(kernel, Launch((argument(x), argument(y)), 1))
    code = compiled(kernel)
    assert code.sites
    assert not any(getattr(site, "plans", None) for site in code.sites)


@pytest.mark.parametrize(("schedule", "seed"), EVERY_SCHEDULE)
def test_started_comes_before_completed_and_order_holds_on_v(schedule: str, seed: int) -> None:
    log = Log()
    body = BODY + "mul(t, t, 3.0)\nmul(t, t, 4.0)\n"
    run_vector(X, body, np.zeros((16, 32), np.float32), types=T, schedule=schedule, seed=seed, observer=log)
    order = [line.split(":")[0] for line in log.lines if line.startswith(("started", "completed"))]
    for number in (1, 4, 8, 9):
        assert order.index(f"started {number}") < order.index(f"completed {number}")
    assert order.index("completed 8") < order.index("started 9")
