"""Ways out of the pipeline loop: what counts the task it leaves behind, and what would leave stages or credits behind.

Ahead of the first stage `break` and `continue` leave no task behind, behind the last one they leave a whole one, which
must be counted as at the loop's end. `return` in the loops would pass by the drain beats.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

from pypto_pro.frontend.pipeline.code import code
from pypto_pro.frontend.pipeline.site import Site
from pypto_pro.frontend.pipeline.structure import Structure


def check(site: Site, structure: Structure) -> None:
    """PipelineError for jumps that part the stages of a task, and for stages called outside the pipeline loop."""
    for leaving in (n for n in ast.walk(structure.outermost) if isinstance(n, ast.Return)):
        raise site.error(
            "`return` in the loops of a pipeline leaves its last tasks and its credits behind, expected the loops to "
            "end, found `return`", leaving, hint="use `break`, or an `if` inside the stages",
        )  # fmt: skip
    body = structure.loop.body
    sections = [body.index(stage.section) for stage in structure.stages]
    for stage, place in zip(structure.stages, sections, strict=True):
        for jump in _jumps([body[place]]):
            raise _parting(site, jump, f"in the section of stage `{stage.name}`")
    for stmt in body[sections[0] : sections[-1]]:
        for jump in _jumps([stmt]):
            names = f"`{structure.stages[0].name}` and `{structure.stages[-1].name}`"
            raise _parting(site, jump, f"between the stages {names}")
    own = {id(stage.call) for stage in structure.stages}
    for node in (n for stmt in structure.body for n in ast.walk(stmt) if isinstance(n, ast.Call)):
        fn = site.stage_called(node)
        if fn is not None and id(node) not in own:
            raise site.error(
                f"stage `{fn.__name__}` is called outside the pipeline loop, where nothing orders it with the stages "
                f"of other cores, expected every stage call in one loop, found another one", node,
                labels=(site.span(structure.loop).labelled("the pipeline loop"),),
                hint="take it into the loop, or call a helper without @pl.pipeline.stage",
            )  # fmt: skip


def counted(stmt: ast.stmt, line: str) -> list[ast.stmt]:
    """A statement behind the last stage, with `line` ahead of each of its jumps out of the loop's trip."""
    match stmt:
        case ast.Break() | ast.Continue():
            return [*code(line, stmt), stmt]
        case ast.If() | ast.With():
            made = copy.copy(stmt)
            made.body = [new for old in stmt.body for new in counted(old, line)]
            if isinstance(made, ast.If) and isinstance(stmt, ast.If):
                made.orelse = [new for old in stmt.orelse for new in counted(old, line)]
            return [made]
    return [stmt]


def _parting(site: Site, jump: ast.stmt, where: str) -> Exception:
    word = "break" if isinstance(jump, ast.Break) else "continue"
    return site.error(
        f"`{word}` {where} parts the stages of a task, expected it ahead of the first stage or behind the last, "
        f"found it {where}", jump, hint="put the condition inside the stages",
    )  # fmt: skip


def _jumps(body: list[ast.stmt]) -> Iterator[ast.Break | ast.Continue]:
    """Jumps of the loop that `body` stands in; inner loops have their own."""
    for stmt in body:
        match stmt:
            case ast.Break() | ast.Continue():
                yield stmt
            case ast.If(body=then, orelse=other):
                yield from _jumps(then)
                yield from _jumps(other)
            case ast.With(body=inner):
                yield from _jumps(inner)
