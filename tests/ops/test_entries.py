"""Every entry is complete: documented, and each facet takes exactly the parameters it will be called with."""

import inspect

import pytest

from pypto_pro.ops.entry import OpEntry, Param
from pypto_pro.ops.table import all_ops, lookup

LEADING = {"rules": 0, "regions": 0, "issue": 0, "rewrite": 0, "lower": 1, "cost": 1}
"""Facets that take the operands, and how many things they are handed first: the builder, the machine."""
OPS = [e for e in all_ops() if e.kind == "op"]


@pytest.mark.parametrize("entry", OPS, ids=lambda e: e.key)
def test_facets_take_the_operands_and_keywords(entry: OpEntry) -> None:
    wanted = {p.name for p in entry.params}
    for name in LEADING.keys() & entry.facets.keys():
        parameters = list(inspect.signature(entry.facets[name]).parameters.values())[LEADING[name] :]
        takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)
        named = {p.name for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}
        named -= {"targets"} if entry.key.startswith("vf.") else set()  # the registers a call assigns
        assert named <= wanted, f"{name} of {entry.key} takes {sorted(named - wanted)}, which it is not given"
        assert takes_any or named == wanted, f"{name} of {entry.key} does not take {sorted(wanted - named)}"


@pytest.mark.parametrize("entry", OPS, ids=lambda e: e.key)
def test_entry_is_documented_and_ordered(entry: OpEntry) -> None:
    assert len(entry.doc) > 10, f"{entry.key} has no documentation"
    assert entry.doc.strip() == entry.doc
    assert entry.tolerance is None or entry.tolerance.reason
    order = [p.required for p in entry.params if not p.keyword_only]
    assert order == sorted(order, reverse=True), "optional operands come last"


@pytest.mark.parametrize("entry", [e for e in OPS if e.family.startswith("tile.")], ids=lambda e: e.key)
def test_tile_ops_are_native(entry: OpEntry) -> None:
    assert entry.native == "lowered"


def test_rewrites_end_at_an_op() -> None:
    """What a legacy name stands for is in the table and is no legacy name itself."""
    for entry in OPS:
        if "rewrite" not in entry.facets or entry.family != "tile.legacy":
            continue
        operands = {p.name: _operand(p) for p in entry.params}
        name, given = entry.facets["rewrite"](**operands)
        target = lookup(name)
        assert target is not None, name
        assert "rewrite" not in target.facets
        assert set(given) <= {p.name for p in target.params}
        missing = {p.name for p in target.params if p.required} - set(given)
        assert not missing, f"{entry.key} gives {target.key} no {missing}"


def _operand(param: Param) -> object:
    return 0 if not param.is_data else param.name
