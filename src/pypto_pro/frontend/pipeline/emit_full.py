"""The full pipeline: a ring of contexts, every stage on the task its delay says, and beats that drain it."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Sequence

from pypto_pro.diag.names import counted
from pypto_pro.enums import CoreKind
from pypto_pro.frontend.pipeline import jumps
from pypto_pro.frontend.pipeline.bindings import Bindings, bound_in, read_in, split
from pypto_pro.frontend.pipeline.code import SyncCode, code, copied, expression, rebuilt, section, with_body
from pypto_pro.frontend.pipeline.contexts import Contexts, Field
from pypto_pro.frontend.pipeline.events import SyncPlan
from pypto_pro.frontend.pipeline.picks import Picks
from pypto_pro.frontend.pipeline.site import PREFIX, Site
from pypto_pro.frontend.pipeline.structure import Stage, Structure

RING, TASK, NOW, DRAIN = f"{PREFIX}ctx_arr", f"{PREFIX}task_id", f"{PREFIX}ctx_0", f"{PREFIX}drain"
VALID = f"{PREFIX}is_valid"
STRUCT = "PipeCtx"


class FullPipeline:
    """The transformed body of a kernel."""

    def __init__(
        self, site: Site, structure: Structure, delays: Sequence[int], plan: SyncPlan, contexts: Contexts,
        bindings: Bindings, picks: Picks,
    ) -> None:  # fmt: skip
        self.site = site
        self.structure = structure
        self.delays = delays
        self.depth = max(delays) + 1
        self.sync = SyncCode(structure, plan)
        self.contexts = contexts
        self.bindings = bindings
        self.picks = picks

    def names(self) -> set[str]:
        """The names that the transformed kernel binds."""
        picks = {p.index for p in self.picks.variables.values()} | {s.split(" ")[0] for s in self.picks.start()}
        rings = {RING, TASK, NOW, DRAIN, *map(self._context, self.structure.stages)}
        return rings | picks | {ids.variable for ids in self.sync.plan.lists}

    def body(self) -> list[ast.stmt]:
        """The statements. PipelineError where a section's own statements cannot run in the drain beats."""
        top = self.structure.outermost
        before = [*self._declarations(top), *self.sync.lists(top), *self.sync.ahead()]
        behind = [*self._drain(top), *self.sync.behind()]
        replaced = {
            key: [s for line in self.picks.rewritten[key] for s in code(line, stmt)]
            for key, stmt in _by_identity(self.structure.body).items() if key in self.picks.rewritten
        }  # fmt: skip
        start = [s for line in self.picks.start() for s in code(line, top)]
        return [*start, *rebuilt(self.structure.body, self.structure, self._beat, (before, behind), replaced)]

    # --- around the loop ---

    def _declarations(self, at: ast.AST) -> list[ast.stmt]:
        fields = [self.contexts.fields[name] for name in sorted(self.contexts.fields)]
        given = [f"{VALID}=False", *(f"{f.name}={f.initial(self.structure.language)}" for f in fields), f"{TASK}=0"]
        ring = f'{RING} = {self.structure.language}.struct_array({self.depth}, "{STRUCT}", {", ".join(given)})'
        return code(f"{ring}\n{TASK} = 0", at)

    def _drain(self, at: ast.AST) -> list[ast.stmt]:
        """`depth - 1` beats without a new task."""
        if self.depth == 1:
            return []
        (loop,) = code(f"for {DRAIN} in {self.structure.language}.range(0, {self.depth - 1}): pass", at)
        assert isinstance(loop, ast.For)
        loop.body = code(f"{self._here(0, NOW)}\n{NOW}.{VALID} = False\n{NOW}.{TASK} = {TASK}", at)
        seen: set[int] = set()
        for stage, delay in zip(self.structure.stages, self.delays, strict=True):
            if delay:
                loop.body += self._enter(delay, seen, stage)
                loop.body.append(with_body(stage.section, [self._guarded(stage, is_drain=True)]))
        loop.body += code(f"{TASK} = {TASK} + 1", at)
        return [loop]

    # --- one beat ---

    def _beat(self, loop: ast.For) -> list[ast.stmt]:
        assert isinstance(loop.target, ast.Name)
        valid = f"{loop.target.id} < {ast.unparse(self.structure.end)}" if self._is_settled() else "True"
        made = code(f"{self._here(0, NOW)}\n{NOW}.{VALID} = {valid}", loop)
        stages = {id(stage.section): stage for stage in self.structure.stages}
        seen: set[int] = {0}
        count, left = f"{TASK} = {TASK} + 1", len(stages)
        for stmt in loop.body:
            stage = stages.get(id(stmt))
            if stage is None:
                made += [stmt] if left else jumps.counted(stmt, count)
                continue
            left -= 1
            if stage.index == 0:
                made += self._snapshot(stage)
            made += self._enter(self.delays[stage.index], seen, stage)
            made.append(with_body(stage.section, self._block(stage)))
        return [*made, *code(count, loop)]

    def _is_settled(self) -> bool:
        """Whether the loop's end reads the same in every trip."""
        end = self.structure.end
        return isinstance(end, ast.Constant) or (isinstance(end, ast.Name) and end.id not in self.bindings.inner)

    def _here(self, delay: int, name: str) -> str:
        turn = TASK if delay == 0 else f"({TASK} + {self.depth - delay})"
        return f"{name} = {RING}[{turn} % {self.depth}]"

    def _context(self, stage: Stage) -> str:
        delay = self.delays[stage.index]
        return f"{PREFIX}ctx_neg{delay}" if delay else NOW

    def _enter(self, delay: int, seen: set[int], stage: Stage) -> list[ast.stmt]:
        """The context of a delay, where this beat has not chosen it yet."""
        if delay in seen:
            return []
        seen.add(delay)
        return code(self._here(delay, self._context(stage)), stage.statement)

    def _snapshot(self, first: Stage) -> list[ast.stmt]:
        """The new task's context, filled with what the names mean ahead of its first stage."""
        at = first.statement
        fields = [self.contexts.fields[name] for name in sorted(self.contexts.fields)]
        common = [f for f in fields if self.bindings.seen_outside(f.reads)]
        made = self._fill(common, NOW, at)
        for core in CoreKind:
            own = [
                f for f in self.contexts.used_by(core)
                if f not in common and self.bindings.seen_before_loop(f.reads, core)
            ]  # fmt: skip
            if own:
                made.append(section(self.structure.language, core, self._fill(own, NOW, at), at))
        return [*made, *code(f"{NOW}.{TASK} = {TASK}", at)]

    @staticmethod
    def _fill(fields: Iterable[Field], context: str, at: ast.AST) -> list[ast.stmt]:
        return [s for f in fields for s in code(f"{context}.{f.name} = {f.value}", at)]

    def _changed(self, stage: Stage, names: set[str]) -> list[Field]:
        return [f for f in self.contexts.used_by(stage.kind) if f.reads & names]

    def _block(self, stage: Stage) -> list[ast.stmt]:
        """A section of the pipeline loop: what arguments depend on for the new task, then the guarded stage."""
        if self.delays[stage.index] == 0:
            return [self._guarded(stage, is_drain=False)]
        fields = self._changed(stage, self.bindings.before[stage.index])
        moved, _ = self._split(stage)
        return [*moved, *self._fill(fields, NOW, stage.statement), self._guarded(stage, is_drain=False)]

    def _split(self, stage: Stage) -> tuple[list[ast.stmt], list[ast.stmt]]:
        """The statements ahead of a stage's call: those that arguments depend on, which run for the new task; others,
        which run with the stage."""
        fields = self._changed(stage, self.bindings.before[stage.index])
        return split(stage.pre, {name for f in fields for name in f.reads})

    def _guarded(self, stage: Stage, *, is_drain: bool) -> ast.stmt:
        """The stage and its signals, for a task that exists."""
        context, at = self._context(stage), stage.statement
        (guard,) = code(f"if {context}.{VALID}: pass", at)
        assert isinstance(guard, ast.If)
        behind = self._fill(self._changed(stage, self.bindings.behind[stage.index]), context, at)
        if self.delays[stage.index] == 0:
            own = self._fill(self._changed(stage, self.bindings.before[stage.index]), context, at)
            before = [*stage.pre, *own]
        else:
            _, before = self._split(stage)
            self._check_steady(stage, [*before, *stage.post])
        task = f"{context}.{TASK}"
        around = [*self.sync.waits(stage, task), self._call(stage, context), *self.sync.sets(stage, task)]
        post = list(stage.post)
        if is_drain:
            before, post = copied(before), copied(post)
        guard.body = [*before, *around, *post, *behind]
        return guard

    def _call(self, stage: Stage, context: str) -> ast.stmt:
        args = [
            expression(made.format(ctx=context), arg) if isinstance(made, str) else copy.deepcopy(arg)
            for made, arg in zip(self.contexts.arguments[stage.index], stage.call.args, strict=True)
        ]  # fmt: skip
        call = ast.copy_location(ast.Call(func=stage.call.func, args=args, keywords=[]), stage.call)
        return ast.copy_location(ast.Expr(call), stage.statement)

    def _check_steady(self, stage: Stage, kept: Sequence[ast.stmt]) -> None:
        """What runs with a delayed stage sees the newest task's names; in the drain beats there is none."""
        varying = self.bindings.loop - bound_in(kept)
        for stmt in kept:
            found = sorted(read_in(stmt) & varying)
            if found:
                raise self.site.error(
                    f"`{ast.unparse(stmt).splitlines()[0]}` stands beside the call of `{stage.name}`, which runs "
                    f"{counted(self.delays[stage.index], 'task')} late, expected names that do not change in the loop, "
                    f"found `{found[0]}`", stmt, hint="do it inside the stage, and pass what it needs as arguments",
                )  # fmt: skip


def _by_identity(body: Iterable[ast.stmt]) -> dict[int, ast.stmt]:
    return {id(node): node for stmt in body for node in ast.walk(stmt) if isinstance(node, ast.stmt)}
