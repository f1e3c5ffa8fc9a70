"""Cross-core signals and `sync_all`: who receives a SET, who meets whom, and the steps of both.

A counter holds at most 15 credits; a SET that would exceed that waits until a WAIT takes one. Modes 2 and 3 go from
one core to counters of the others in its block, modes 0 and 1 give everybody a credit when the last one arrives.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pypto_pro.enums import CoreKind, CrossCoreSyncMode, SyncAllMode, SyncCoreType
from pypto_pro.hw.a5 import CROSS_CORE_COUNTER_MAX, UNICAST_AIV1_STEP
from pypto_pro.interp.memory import SimTensor
from pypto_pro.interp.scalars import wrap
from pypto_pro.interp.sync import Counter, Credit, Rendezvous, Waitable
from pypto_pro.ir.nodes import SetCross, SyncAll, WaitCross

if TYPE_CHECKING:
    from pypto_pro.interp.machine import Core, Instr

MODE = CrossCoreSyncMode


def set_cross(instr: Instr) -> Waitable | None:
    """`set_cross_core`: one credit on each counter it addresses, or an arrival at a rendezvous."""
    node = instr.site.node
    assert isinstance(node, SetCross)
    core = instr.core
    event = instr.args[0]
    group = meeting(core, node.mode, event)
    if group is not None:
        return _arrive(instr, group, node.mode, event)
    targets = receivers(core, node.mode, event)
    return _held(instr, targets) or _give(instr, node.mode, [(t, (instr,)) for t in targets])


def receivers(core: Core, mode: CrossCoreSyncMode, event: int) -> list[Counter]:
    """Counters a SET of mode 2 or 3 adds to; empty when the block has no such core."""
    cores = core.machine.block_core
    if core.kind is CoreKind.VECTOR:
        aic = cores(core.block, CoreKind.CUBE)
        return [] if aic is None else [aic.counter(event + UNICAST_AIV1_STEP * core.sub)]
    if mode is MODE.INTRA_BLOCK:
        aivs = [cores(core.block, CoreKind.VECTOR, s) for s in (0, 1)]
        return [aiv.counter(event) for aiv in aivs if aiv is not None]
    if mode is MODE.UNICAST_BLOCK:
        sub, number = divmod(event, UNICAST_AIV1_STEP)
        aiv = cores(core.block, CoreKind.VECTOR, sub)
        return [] if aiv is None else [aiv.counter(number)]
    return []


def meeting(core: Core, mode: CrossCoreSyncMode, event: int) -> Rendezvous | None:
    """The rendezvous of a mode 0 or 1 signal; None for the other modes, and for an AIC in mode 1."""
    machine = core.machine
    if mode is MODE.INTER_BLOCK:
        key: object = (mode, core.kind, event)
        members = tuple(c for c in machine.cores if c.kind is core.kind)
        label = f"INTER_BLOCK id {event} among all {'AICs' if core.kind is CoreKind.CUBE else 'AIVs'}"
    elif mode is MODE.INTER_SUBBLOCK and core.kind is CoreKind.VECTOR:
        key = (mode, core.block, event)
        members = tuple(c for c in machine.block_cores(core.block) if c.kind is CoreKind.VECTOR)
        label = f"INTER_SUBBLOCK id {event} of block {core.block}"
    else:
        return None
    found = machine.rendezvous.get(key)
    if found is None:
        found = machine.rendezvous[key] = Rendezvous(core, label, members)
    return found


def _arrive(instr: Instr, group: Rendezvous, mode: CrossCoreSyncMode, event: int) -> Waitable | None:
    """Counts this arrival; the last one of a round gives every participant a credit."""
    completes = group.missing == (instr.core,)
    counters = [c.counter(event) for c in group.participants or ()] if completes else []
    full = _held(instr, counters)
    if full is not None:
        return full
    group.arrivals[instr.core.index].append(instr)
    if not completes:
        return _give(instr, mode, [])
    senders = tuple(group.arrivals[c.index].popleft() for c in group.participants or ())
    group.rounds += 1
    return _give(instr, mode, [(counter, senders) for counter in counters])


def _held(instr: Instr, targets: list[Counter]) -> Waitable | None:
    """The first full counter, if any: the SET waits for it."""
    full = next((t for t in targets if len(t.credits) >= CROSS_CORE_COUNTER_MAX), None)
    if full is not None and instr.stage == 0:
        instr.stage = 1
        calls = instr.core.machine.calls
        if calls.cross_held is not None:
            calls.cross_held(instr, full)
    return full


def _give(
    instr: Instr, mode: CrossCoreSyncMode, gifts: list[tuple[Counter, tuple[Instr, ...]]]
) -> Waitable | None:
    """Adds the credits and wakes who waits for them."""
    machine = instr.core.machine
    made = []
    for counter, senders in gifts:
        credit = Credit(counter, mode, senders, counter.given)
        counter.given += 1
        counter.credits.append(credit)
        made.append(credit)
    if machine.calls.cross_set is not None:
        machine.calls.cross_set(instr, tuple(made))
    for credit in made:
        if credit.counter.waiters:
            machine.engine.wake(credit.counter)
    return None


def wait_cross(instr: Instr) -> Waitable | None:
    """`wait_cross_core`: takes a credit; an AIC in mode 2 takes one of each vector core, AIV0's first."""
    node = instr.site.node
    assert isinstance(node, WaitCross)
    core = instr.core
    event = instr.args[0]
    both = core.kind is CoreKind.CUBE and node.mode is MODE.INTRA_BLOCK
    numbers = (event, event + UNICAST_AIV1_STEP) if both else (event,)
    while instr.stage < len(numbers):
        counter = core.counter(numbers[instr.stage])
        if not counter.credits:
            return counter
        credit = counter.credits.popleft()
        counter.taken += 1
        instr.stage += 1
        machine = core.machine
        if machine.calls.cross_waited is not None:
            machine.calls.cross_waited(instr, credit)
        if counter.waiters:
            machine.engine.wake(counter)
    return None


# --- sync_all -------------------------------------------------------------------------------------------------------

_KINDS = {
    SyncCoreType.AIV_ONLY: (CoreKind.VECTOR,),
    SyncCoreType.AIC_ONLY: (CoreKind.CUBE,),
    SyncCoreType.MIX: (CoreKind.CUBE, CoreKind.VECTOR),
}


def sync_all(instr: Instr) -> Waitable | None:
    """Barrier of this core, then the rendezvous of the selected cores. `args`: captured workspaces, used cores."""
    node = instr.site.node
    assert isinstance(node, SyncAll)
    core = instr.core
    if not core.is_idle:
        return core.idle
    if instr.stage == 0 and core.machine.calls.barrier is not None:
        core.machine.calls.barrier(instr)
    if core.kind not in _KINDS[node.core_type]:
        return None
    if node.mode is SyncAllMode.SOFT:
        return _soft(instr, node)
    group = _all_cores(core, node.core_type)
    if instr.stage == 0:
        instr.stage = 1
        instr.ticket = group.rounds
        if group.participants is None:
            return group
        waiting = group.arrivals[core.index]
        waiting.append(instr)
        if not group.missing:
            _meet(group)
    return None if group.rounds > instr.ticket else group


def _all_cores(core: Core, core_type: SyncCoreType) -> Rendezvous:
    machine = core.machine
    key = ("sync_all", core_type)
    found = machine.rendezvous.get(key)
    if found is None:
        kinds = _KINDS[core_type]
        members = tuple(c for c in machine.cores if c.kind in kinds)
        complete = {c.kind for c in members} == set(kinds)
        found = Rendezvous(core, f"sync_all of {core_type.name}", members if complete else None)
        machine.rendezvous[key] = found
    return found


def _meet(group: Rendezvous) -> None:
    """Everybody has arrived: the round is complete."""
    machine = group.core.machine
    arrivals = tuple(group.arrivals[c.index].popleft() for c in group.participants or ())
    group.rounds += 1
    if machine.calls.met is not None:
        machine.calls.met(arrivals)
    machine.engine.wake(group)


def _soft(instr: Instr, node: SyncAll) -> Waitable | None:
    """The counter in GM: one is added on arrival, and S goes on when the round's target is reached."""
    core = instr.core
    workspaces, used = instr.args
    counter = _counter_word(core, workspaces)
    key = ("soft", counter.ctypes.data)
    group = core.machine.rendezvous.get(key)
    if group is None:
        group = core.machine.rendezvous[key] = Rendezvous(core, "sync_all through its workspace", ())
    if instr.stage == 0:
        per_block = 3 if node.core_type is SyncCoreType.MIX else 1
        cores = max(used or core.block_num * per_block, 1)
        old = int(counter[0])
        counter[0] = wrap(old + 1, 32, signed=True)
        instr.stage = 1
        instr.ticket = (old // cores + 1) * cores
        group.arrivals.setdefault(instr.ticket, _new_round()).append(instr)
        if old + 1 >= instr.ticket:
            arrivals = tuple(group.arrivals.pop(instr.ticket))
            if core.machine.calls.met is not None:
                core.machine.calls.met(arrivals)
            core.machine.engine.wake(group)
    return None if int(counter[0]) >= instr.ticket else group


def _new_round() -> deque[Instr]:
    return deque()


def _counter_word(core: Core, workspaces: tuple[object, ...]) -> NDArray[np.int32]:
    """The INT32 counter: element 0 of the workspace tensor, or one of our own when that lies outside its buffer."""
    tensor = next(w for w in workspaces if isinstance(w, SimTensor))
    word = tensor.mem[max(tensor.base, 0) :][:4]
    return word.view(np.int32) if word.size == 4 else core.machine.spare_counter
