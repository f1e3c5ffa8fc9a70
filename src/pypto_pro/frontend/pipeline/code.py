"""Pieces of generated syntax, each at the place of the author's node that it belongs to."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterable, Mapping, Sequence

from pypto_pro.enums import CoreKind
from pypto_pro.frontend.pipeline.events import Signal, SyncPlan
from pypto_pro.frontend.pipeline.structure import Stage, Structure


def placed(node: ast.AST, at: ast.AST) -> ast.AST:
    """The node and all below it, at the place of another one; of a loop or section its head."""
    last = at.iter if isinstance(at, ast.For) else at.items[0].context_expr if isinstance(at, ast.With) else at
    for inner in ast.walk(node):
        if "lineno" in inner._attributes:
            ast.copy_location(inner, at)
            inner.end_lineno = last.end_lineno  # type: ignore[attr-defined]
            inner.end_col_offset = last.end_col_offset  # type: ignore[attr-defined]
    return node


def code(text: str, at: ast.AST) -> list[ast.stmt]:
    """Statements written as text."""
    parsed = ast.parse(text)
    placed(parsed, at)
    return parsed.body


def expression(text: str, at: ast.AST) -> ast.expr:
    """An expression written as text."""
    parsed = ast.parse(text, mode="eval").body
    placed(parsed, at)
    return parsed


def section(language: str, kind: CoreKind, body: list[ast.stmt], at: ast.AST) -> ast.stmt:
    """`with pl.section_...():` around statements."""
    (made,) = code(f"with {language}.section_{kind.value}(): pass", at)
    assert isinstance(made, ast.With)
    made.body = body
    return made


def with_body(block: ast.With, body: list[ast.stmt]) -> ast.With:
    """A section with another body, at its own place."""
    return ast.copy_location(ast.With(items=block.items, body=body), block)


def loop_with(loop: ast.For, body: list[ast.stmt]) -> ast.For:
    """A loop with another body, at its own place."""
    return ast.copy_location(ast.For(target=loop.target, iter=loop.iter, body=body, orelse=loop.orelse), loop)


def copied(body: Iterable[ast.stmt]) -> list[ast.stmt]:
    """The statements as new objects at the same places."""
    return [copy.deepcopy(stmt) for stmt in body]


def rebuilt(
    body: Sequence[ast.stmt], structure: Structure, inner: Callable[[ast.For], list[ast.stmt]],
    around: tuple[list[ast.stmt], list[ast.stmt]], replaced: Mapping[int, list[ast.stmt]],
) -> list[ast.stmt]:  # fmt: skip
    """A kernel body with a new body for the pipeline loop, statements `around` the outermost one, and others replaced.

    `inner` makes the new body of the loop whose statements are rebuilt already.
    """
    found: list[ast.stmt] = []
    for stmt in body:
        if id(stmt) in replaced:
            found += replaced[id(stmt)]
            continue
        made = stmt
        if stmt is structure.loop:
            made = loop_with(structure.loop, inner(structure.loop))
        elif isinstance(stmt, ast.For | ast.While | ast.With | ast.If):
            made = copy.copy(stmt)
            made.body = rebuilt(stmt.body, structure, inner, around, replaced)
            if isinstance(made, ast.If) and isinstance(stmt, ast.If):
                made.orelse = rebuilt(stmt.orelse, structure, inner, around, replaced)
        found += [*around[0], made, *around[1]] if stmt is structure.outermost else [made]
    return found


class SyncCode:
    """The synchronisation of a plan as statements."""

    def __init__(self, structure: Structure, plan: SyncPlan) -> None:
        self.language = structure.language
        self.stages = structure.stages
        self.plan = plan

    def lists(self, at: ast.AST) -> list[ast.stmt]:
        """The variables that hold the event ids."""
        return [stmt for ids in self.plan.lists for stmt in code(f"{ids.variable} = {list(ids.ids)}", at)]

    def ahead(self) -> list[ast.stmt]:
        """Before the outermost loop: the credits for slots that are free from the start."""
        return [
            section(self.language, self.stages[s.producer].kind, self._counted("set", s), self._at(s.producer))
            for s in self.plan.signals if s.ahead
        ]  # fmt: skip

    def behind(self) -> list[ast.stmt]:
        """After the outermost loop: the same credits taken back."""
        return [
            section(self.language, self.stages[s.consumer].kind, self._counted("wait", s), self._at(s.consumer))
            for s in self.plan.signals if s.ahead
        ]  # fmt: skip

    def _counted(self, word: str, signal: Signal) -> list[ast.stmt]:
        stage = signal.producer if word == "set" else signal.consumer
        return [
            stmt for i in range(signal.ahead)
            for stmt in self._call(word, signal, str(i % len(signal.ids.ids)), self._at(stage))
        ]  # fmt: skip

    def waits(self, stage: Stage, task: str) -> list[ast.stmt]:
        """Before a stage's call; `task` is the expression of the number of its task."""
        return [
            stmt for s in self.plan.signals if s.consumer == stage.index
            for stmt in self._call("wait", s, self._turn(s, task), stage.statement)
        ]  # fmt: skip

    def sets(self, stage: Stage, task: str) -> list[ast.stmt]:
        """Behind a stage's call."""
        return [
            stmt for s in self.plan.signals if s.producer == stage.index
            for stmt in self._call("set", s, self._turn(s, task), stage.statement)
        ]  # fmt: skip

    def _at(self, stage: int) -> ast.AST:
        return self.stages[stage].statement

    @staticmethod
    def _turn(signal: Signal, task: str) -> str:
        length = len(signal.ids.ids)
        return f"{task} % {length}" if length > 1 else "0"

    def _call(self, word: str, signal: Signal, index: str, at: ast.AST) -> list[ast.stmt]:
        pipe = signal.set_pipe if word == "set" else signal.wait_pipe
        event = f"{signal.ids.variable}[{index}]"
        return code(
            f"{self.language}.system.{word}_cross_core(pipe={self.language}.PipeType.{pipe.name}, event_id={event})", at
        )
