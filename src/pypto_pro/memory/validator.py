"""Checks a placement against its problem. Short, slow, and without a line of the planner: every answer passes here."""

from __future__ import annotations

from itertools import combinations, pairwise

from pypto_pro.diag import CODES, Diagnostic
from pypto_pro.enums import MemorySpace
from pypto_pro.hw.a5 import l1_banks, scale_address
from pypto_pro.memory.problem import Placement, Problem, SlotSpec


def validate(problem: Problem, placement: Placement) -> list[Diagnostic]:
    """Everything a placement breaks, except the capacity (a placement over capacity is an honest answer: see L120)."""
    missing = [s.name for s in problem.slots if s.name not in placement.addresses]
    if missing:
        return [_broken("L104", f"`{missing[0]}` has no address")]
    return [
        *_single_slots(problem, placement),
        *_pairs(problem, placement),
        *_groups(problem, placement),
        *_relations(problem, placement),
        *_claims(problem, placement),
    ]


def _broken(code: str, message: str) -> Diagnostic:
    entry = CODES[code]
    return Diagnostic(code, entry.kind, entry.severity, message)


def _single_slots(problem: Problem, placement: Placement) -> list[Diagnostic]:
    found = []
    for slot in problem.slots:
        at = placement.addresses[slot.name]
        if at < 0 and slot.pinned is None:
            found.append(_broken("L102", f"`{slot.name}` is at {at}"))
        if slot.pinned is not None and at != slot.pinned:
            found.append(_broken("L104", f"`{slot.name}` is pinned to {slot.pinned}, placed at {at}"))
        if slot.pinned is None and at % slot.alignment:
            found.append(_broken("L101", f"`{slot.name}` at {at} is no multiple of {slot.alignment}"))
    return found


def _pairs(problem: Problem, placement: Placement) -> list[Diagnostic]:
    """Two slots of a space share bytes only as a view, or when reuse is allowed and nobody needs both at once."""
    families = _families(problem)
    found = []
    for a, b in combinations(problem.slots, 2):
        if a.space is not b.space or (a.pinned is not None and b.pinned is not None):
            continue
        x, y = placement.addresses[a.name], placement.addresses[b.name]
        share = x < y + b.size and y < x + a.size
        if share and families[a.name] != families[b.name] and not _may_share(problem, a, b):
            found.append(_broken("L104", f"`{a.name}` at {x} and `{b.name}` at {y} share bytes"))
    return found


def _families(problem: Problem) -> dict[str, int]:
    """A number for every slot; equal for slots joined by views."""
    family = {s.name: i for i, s in enumerate(problem.slots)}
    for _ in problem.views:  # as often as a chain of views can be long
        for view in problem.views:
            if view.writer in family and view.reader in family:
                family[view.writer] = family[view.reader] = min(family[view.writer], family[view.reader])
    return family


def _may_share(problem: Problem, a: SlotSpec, b: SlotSpec) -> bool:
    for name, value in a.when:
        for other, other_value in b.when:
            if name == other and value != other_value:
                return True
    if not problem.reuse or a.live & b.live or {a.name, b.name} in problem.unproved:
        return False
    one_core = len(a.cores) == 1 and a.cores == b.cores
    return one_core or frozenset({a.tile, b.tile}) in problem.crossing


def _groups(problem: Problem, placement: Placement) -> list[Diagnostic]:
    found = []
    for tile in sorted(problem.rigid):
        at = [placement.addresses[s.name] for s in problem.slots if s.tile == tile]
        steps = {b - a for a, b in pairwise(at)}
        if len(steps) > 1:
            found.append(_broken("L104", f"the slots of `{tile}` do not keep one step: {at}"))
    return found


def _relations(problem: Problem, placement: Placement) -> list[Diagnostic]:
    at = placement.addresses
    found = []
    for view in problem.views:
        if view.writer in at and view.reader in at and at[view.reader] - at[view.writer] != view.offset:
            found.append(_broken("L104", f"`{view.reader}` has left `{view.writer}`, which it is a view of"))
    for data, scale in problem.scales:
        if at[scale] != scale_address(at[data]):
            found.append(_broken("L111", f"`{scale}` at {at[scale]} is not at `{data}` ({at[data]}) >> 4"))
    return found


def _claims(problem: Problem, placement: Placement) -> list[Diagnostic]:
    """The numbers a placement claims: highest ends and broken separations."""
    found = []
    used = {s.space for s in problem.slots}
    if used != {p.space for p in placement.spaces}:
        found.append(_broken("L103", "the placement does not list the spaces it uses"))
    sizes = {s.name: s for s in problem.slots}
    for plan in placement.spaces:
        highest = max(placement.addresses[s.name] + s.size for s in problem.slots if s.space is plan.space)
        if highest != plan.highest:
            found.append(_broken("L103", f"{plan.space.name} ends at {highest}, the plan says {plan.highest}"))
        if plan.space is MemorySpace.Mat:
            broken = {
                (a, b) for a, b in problem.separate
                if a in sizes and b in sizes
                and l1_banks(placement.addresses[a], sizes[a].size) & l1_banks(placement.addresses[b], sizes[b].size)
            }  # fmt: skip
            if broken != set(plan.violated):
                found.append(_broken("L203", f"broken separations are {broken}, the plan says {plan.violated}"))
    return found
