"""`sync_only`: the kernel's own serial loop with the synchronisation of its stages."""

from __future__ import annotations

import ast

from pypto_pro.frontend.pipeline import jumps
from pypto_pro.frontend.pipeline.code import SyncCode, code, rebuilt, with_body
from pypto_pro.frontend.pipeline.events import SyncPlan
from pypto_pro.frontend.pipeline.site import PREFIX
from pypto_pro.frontend.pipeline.structure import Structure

COUNTER = f"{PREFIX}sync_id"


def names(plan: SyncPlan) -> set[str]:
    """The names that the transformed kernel binds."""
    return {COUNTER, *(ids.variable for ids in plan.lists)}


def body(structure: Structure, plan: SyncPlan) -> list[ast.stmt]:
    """The transformed body of the kernel."""
    sync = SyncCode(structure, plan)
    top = structure.outermost
    before = [*sync.lists(top), *sync.ahead(), *code(f"{COUNTER} = 0", top)]

    def inner(loop: ast.For) -> list[ast.stmt]:
        stages = {id(stage.section): stage for stage in structure.stages}
        made: list[ast.stmt] = []
        count, left = f"{COUNTER} = {COUNTER} + 1", len(stages)
        for stmt in loop.body:
            stage = stages.get(id(stmt))
            if stage is None:
                made += [stmt] if left else jumps.counted(stmt, count)
                continue
            left -= 1
            around = [*sync.waits(stage, COUNTER), stage.statement, *sync.sets(stage, COUNTER)]
            made.append(with_body(stage.section, [*stage.pre, *around, *stage.post]))
        return [*made, *code(count, loop)]

    return rebuilt(structure.body, structure, inner, (before, sync.behind()), {})
