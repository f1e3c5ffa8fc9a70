"""No data movement and no product goes through Python: every form of `transfer_forms`, run natively, against meanings.

Native code hands an op to its numpy meaning where it has none, or where something is wrong at the line. The latter are
the only ones left: `TOLD` says which, and why.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np
import pytest

from ops import transfer_forms
from ops.test_movement_store import parameter_words, values_for
from ops.transfer_bench import Call, Memories, T, compare, fresh, meaning, native, signature_of
from ops.transfer_forms import FAMILIES, WORDS, is_legal
from pypto_pro.enums import MemorySpace as S
from pypto_pro.ops.entry import registered
from pypto_pro.ops.table import lookup

TOLD = {
    "reads there give zero, writes are dropped": "bytes outside a buffer, a space or a tile: an out_of_bounds finding",
}
"""What a callback must have said, and why the meaning does it: a mistake is reported, whose result need not be fast."""
QUICK = 11
"""Of so many signatures the quick test takes one."""
MOVING = ("move.gm_in", "move.gm_out", "move.onchip", "cube.matmul", "scalar.access", "tile.layout", "tile.pad")


def memories(call: Call) -> Memories:
    """Random bytes; in accumulators ties, infinities and NaN among them, in parameter buffers scales."""
    m = fresh(call)
    for tile in (spec for spec in call.operands.values() if isinstance(spec, T)):
        if tile.space is S.Acc:
            held = values_for(tile.dtype, 4096)
            m.spaces[S.Acc][:] = np.tile(held, m.spaces[S.Acc].size // held.nbytes).view(np.uint8)
        if tile == WORDS:
            m.spaces[S.Scaling][tile.addr :][: 64 * 8] = parameter_words(64).view(np.uint8)
    return m


def check(calls: Iterable[Call]) -> Counter[str]:
    """They run natively and leave what their meanings leave, but for reasons of `TOLD`; how often each came up."""
    told: Counter[str] = Counter()
    for call in calls:
        start = memories(call)
        meant, made = start.copy(), start.copy()
        outcome = native(call, made)
        if outcome.refused:  # an error at the line: no form the op has
            continue
        if outcome.called_back:
            reasons = [reason for reason in TOLD if any(reason in w for w in outcome.warnings)]
            assert reasons, f"{call} went through Python: {outcome.warnings}"
            told.update(reasons)
            continue
        meaning(call, meant)
        if "matmul" in call.op:  # sums in another order: `test_cube_matmul`
            continue
        compare(call, meant, made, "natively")
    return told


def legal(family: str, level: int) -> Iterator[Call]:
    return (call for call in FAMILIES[family](level) if is_legal(call))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_sample_of_all_forms(family: str) -> None:
    seen: dict[str, int] = {}
    calls = (c for c in legal(family, 0) if seen.setdefault(signature_of(c).text, len(seen)) % QUICK == 0)
    assert not check(calls)
    assert len(seen) > QUICK


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_all_forms(family: str) -> None:
    assert not check(legal(family, 1))


def test_every_entry_has_forms() -> None:
    ops = {call.op for family in FAMILIES for call in legal(family, 0)}
    wanted = {e.leaf for e in registered().values() if e.family in MOVING and "rewrite" not in e.facets}
    assert ops == wanted
    for op in ops:
        entry = lookup(op)
        assert entry is not None
        assert entry.native == "lowered"


def test_what_goes_through_python_says_why() -> None:
    calls = list(transfer_forms.reported())
    assert all(is_legal(call) for call in calls)
    told = check(calls)
    assert sum(told.values()) == len(calls)
    assert set(told) == set(TOLD)
