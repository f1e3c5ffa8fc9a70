"""The same space as `search`, given to the CP-SAT solver of OR-tools (extra `plan`): a second opinion, and a closer for
spaces the bounded search leaves with a gap. One worker and a deterministic limit, so answers are reproducible."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from pypto_pro.memory.search import Found, Space, end_of

DETERMINISTIC_SECONDS = 4.0


class SolverMissingError(RuntimeError):
    """OR-tools is not installed."""


def solve(space: Space, start: Sequence[int], limit: float = DETERMINISTIC_SECONDS) -> Found:
    """The lowest highest end CP-SAT finds, starting from a placement. SolverMissingError without OR-tools."""
    try:
        cp_model: Any = import_module("ortools.sat.python.cp_model")
    except ImportError:
        raise SolverMissingError("the solver cp-sat needs OR-tools: pip install pypto-pro[plan]") from None
    model = cp_model.CpModel()
    ceiling = end_of(space, start)
    at = []
    for i, block in enumerate(space.blocks):
        if block.pinned is not None:
            at.append(model.new_constant(block.pinned))
            continue
        unit = model.new_int_var(0, max(0, ceiling - block.length) // block.alignment, f"unit{i}")
        at.append(unit * block.alignment)
        model.add_hint(unit, start[i] // block.alignment)
    highest = model.new_int_var(space.bound(), max(ceiling, space.bound()), "highest")
    for i, block in enumerate(space.blocks):
        model.add(at[i] + block.length <= highest)
        for j in space.rivals[i]:
            if i < j and not (block.pinned is not None and space.blocks[j].pinned is not None):
                below = model.new_bool_var(f"below{i}_{j}")
                model.add(at[i] + space.gap(i, j) <= at[j]).only_enforce_if(below)
                model.add(at[j] + space.gap(j, i) <= at[i]).only_enforce_if(~below)
    model.minimize(highest)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.max_deterministic_time = limit
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Found(tuple(start), ceiling, optimal=False, nodes=0)
    found = tuple(int(solver.value(a)) for a in at)
    return Found(found, end_of(space, found), status == cp_model.OPTIMAL, int(solver.num_branches))
