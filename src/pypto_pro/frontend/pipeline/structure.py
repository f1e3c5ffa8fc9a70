"""The pipeline loop of a kernel and the stages in it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import FunctionType

from pypto_pro.enums import CoreKind
from pypto_pro.frontend import scan
from pypto_pro.frontend.conditions import is_range
from pypto_pro.frontend.pipeline.site import Site
from pypto_pro.frontend.source import source_of


@dataclass(frozen=True, eq=False)
class Stage:
    """One stage call of the pipeline loop; `pre` and `post` are the author's other statements of its section."""

    index: int
    fn: FunctionType
    kind: CoreKind
    section: ast.With
    call: ast.Call
    statement: ast.Expr
    pre: tuple[ast.stmt, ...]
    post: tuple[ast.stmt, ...]

    @property
    def name(self) -> str:
        """The stage function's name."""
        return self.fn.__name__


@dataclass(frozen=True, eq=False)
class Structure:
    """A kernel body whose `loop`, inside `outermost` or the same, calls the stages. `language`: the module's name."""

    body: list[ast.stmt]
    outermost: ast.For
    loops: tuple[ast.For, ...]  # from the outermost to the pipeline loop
    stages: tuple[Stage, ...]
    language: str

    @property
    def loop(self) -> ast.For:
        """The pipeline loop."""
        return self.loops[-1]

    @property
    def end(self) -> ast.expr:
        """The end bound of the pipeline loop."""
        assert isinstance(self.loop.iter, ast.Call)
        return self.loop.iter.args[0 if len(self.loop.iter.args) == 1 else 1]


def find(site: Site, body: list[ast.stmt]) -> Structure:
    """Loop and stages of a kernel body without constant branches. PipelineError for what is no pipeline."""
    require_stages(site)
    _check_branches(site, body)
    loops = next(_pipeline_loops(site, body, ()), None)
    if loops is None:
        raise site.error(
            f"no pipeline loop, expected a `for` with sections that call stages, found {_found(site, body)}",
            site.source.tree,
        )  # fmt: skip
    _check_statements(site, body)
    stages = tuple(_stages(site, loops[-1]))
    _check_chain(site, stages)
    _check_bounds(site, loops[-1])
    for stage in stages:
        _check_no_value(stage, site)
    section = stages[0].section.items[0].context_expr
    assert isinstance(section, ast.Call)
    assert isinstance(section.func, ast.Attribute)
    return Structure(body, loops[0], loops, stages, ast.unparse(section.func.value))


def has_loop(site: Site, body: list[ast.stmt]) -> bool:
    """Whether a loop outside run-time branches calls stages directly."""
    return any(True for _ in _pipeline_loops(site, body, ()))


def require_stages(site: Site) -> None:
    """PipelineError when no stage function is visible to the kernel."""
    if not any(site.stage_named(name) for name in site.names):
        raise site.error(
            "`pipeline` is set and no stage function is visible to the kernel, expected at least one, found none",
            site.source.tree, hint="mark the functions that the loop calls with @pl.pipeline.stage",
        )  # fmt: skip


def _found(site: Site, body: list[ast.stmt]) -> str:
    calls = [ast.unparse(n.func) for s in body for n in ast.walk(s) if isinstance(n, ast.Call) and site.stage_called(n)]
    return f"calls of {', '.join(f'`{name}`' for name in dict.fromkeys(calls))} elsewhere" if calls else "no stage call"


def _pipeline_loops(site: Site, body: list[ast.stmt], outer: tuple[ast.For, ...]) -> Iterator[tuple[ast.For, ...]]:
    """The loops that call stages directly, each with the loops around it, in source order."""
    for stmt in body:
        match stmt:
            case ast.For(body=inner):
                if any(_calls_directly(site, s) for s in inner):
                    yield (*outer, stmt)
                yield from _pipeline_loops(site, inner, (*outer, stmt))
            case ast.With(body=inner):
                yield from _pipeline_loops(site, inner, outer)


def _calls_directly(site: Site, stmt: ast.stmt) -> bool:
    inner = stmt.body if isinstance(stmt, ast.With) else [stmt]
    return any(site.stage_called(s) for s in inner)


def _under_branches(site: Site, body: list[ast.stmt]) -> Iterator[tuple[ast.AST, ast.If]]:
    """Stage calls below an `if`."""
    for branch in (n for s in body for n in ast.walk(s) if isinstance(n, ast.If)):
        for node in (n for s in [*branch.body, *branch.orelse] for n in ast.walk(s)):
            if site.stage_called(node) is not None:
                yield node, branch


def has_open_branch(site: Site, body: list[ast.stmt]) -> bool:
    """Whether a stage is called below an `if` that was not taken out."""
    return any(True for _ in _under_branches(site, body))


def _check_branches(site: Site, body: list[ast.stmt]) -> None:
    """No stage call under a condition that is decided at run time."""
    for node, branch in _under_branches(site, body):
        raise site.error(
            f"stage `{site.callee(node)}` is called under a run-time condition, expected a call in every trip of the "
            f"loop, found `if {ast.unparse(branch.test)}`", node, hint="put the condition inside the stage",
        )  # fmt: skip


def _check_statements(site: Site, body: list[ast.stmt]) -> None:
    """A stage is called as a statement of its own."""
    statements = {id(s.value) for t in body for s in ast.walk(t) if isinstance(s, ast.Expr)}
    for node in (n for s in body for n in ast.walk(s) if isinstance(n, ast.Call)):
        fn = site.stage_called(node)
        if fn is None:
            continue
        if id(node) not in statements:
            raise site.error(
                f"stage `{fn.__name__}` is called inside an expression, expected a statement, found a value", node,
                hint=f"write `{fn.__name__}(...)` on a line of its own",
            )  # fmt: skip
        if node.keywords or any(isinstance(arg, ast.Starred) for arg in node.args):
            raise site.error(
                f"stage `{fn.__name__}` takes positional arguments, found `{ast.unparse(node)}`", node
            )


def _stages(site: Site, loop: ast.For) -> Iterator[Stage]:
    index = 0
    for stmt in loop.body:
        fn = site.stage_called(stmt)
        if fn is not None:
            raise site.error(
                f"stage `{fn.__name__}` is called outside a section, expected it inside `with pl.section_cube()` or "
                "`with pl.section_vector()`, found it directly in the loop", stmt,
            )  # fmt: skip
        if isinstance(stmt, ast.With):
            yield _stage(site, stmt, index)
            index += 1


def _stage(site: Site, block: ast.With, index: int) -> Stage:
    calls = [s for s in block.body if isinstance(s, ast.Expr) and site.stage_called(s)]
    kind = scan.section_of(block)
    if kind is None:
        head = ast.unparse(block.items[0].context_expr)
        called = f"stage `{site.callee(calls[0])}` is called inside" if calls else "the pipeline loop has"
        raise site.error(f"{called} a `with` that is no section, expected pl.section_cube() or pl.section_vector(), "
                         f"found `{head}`", calls[0] if calls else block)  # fmt: skip
    if not calls:
        raise site.error(
            f"a {kind.value} section of the pipeline loop calls no stage directly, expected one stage call, found none",
            block, hint="move its statements into a stage, or into the section of a neighbouring one",
        )  # fmt: skip
    if len(calls) > 1:
        names = " and ".join(f"`{site.callee(call)}`" for call in calls)
        raise site.error(f"one section calls {len(calls)} stages, expected one stage call, found {names}", calls[1])
    fn = site.stage_called(calls[0])
    assert fn is not None
    assert isinstance(calls[0].value, ast.Call)
    at = block.body.index(calls[0])
    return Stage(index, fn, kind, block, calls[0].value, calls[0], tuple(block.body[:at]), tuple(block.body[at + 1 :]))


def _check_chain(site: Site, stages: Sequence[Stage]) -> None:
    """Core kinds alternate; each function stands once in the chain."""
    for before, after in pairwise(stages):
        if before.kind is after.kind:
            raise site.error(
                f"stages `{before.name}` and `{after.name}` follow each other on the {after.kind.value} core, expected "
                f"cube and vector stages in turn, found {' '.join(s.kind.value for s in stages)}", after.statement,
                labels=(site.span(before.statement).labelled("the stage before"),),
                hint="make one stage of the two",
            )  # fmt: skip
    seen: dict[FunctionType, Stage] = {}
    for stage in stages:
        first = seen.setdefault(stage.fn, stage)
        if first is not stage:
            raise site.error(
                f"stage `{stage.name}` stands twice in the chain, expected each stage function once, found stages "
                f"{first.index} and {stage.index}", stage.statement,
                labels=(site.span(first.statement).labelled("called here first"),),
                hint="write a second function that calls a common helper",
            )  # fmt: skip


def _check_bounds(site: Site, loop: ast.For) -> None:
    if not isinstance(loop.target, ast.Name):
        raise site.error(
            f"the variable of the pipeline loop is one plain name, found `{ast.unparse(loop.target)}`", loop.target
        )
    call = loop.iter
    if (
        not isinstance(call, ast.Call) or not is_range(call) or not 1 <= len(call.args) <= 3 or call.keywords
        or any(isinstance(arg, ast.Starred) for arg in call.args)
    ):  # fmt: skip
        raise site.error(
            "the pipeline loop has no end bound, expected pl.range(end) or pl.range(start, end[, step]), found "
            f"`{ast.unparse(call)}`", call,
        )  # fmt: skip
    if len(call.args) < 3:
        return
    step = call.args[2]
    match step:
        case ast.Constant(value=int() as value) if value <= 0:
            pass
        case ast.UnaryOp(op=ast.USub()):
            pass
        case _:
            return
    raise site.error(f"the step of the pipeline loop is above 0, found `{ast.unparse(step)}`", step)


def _check_no_value(stage: Stage, site: Site) -> None:
    source = source_of(stage.fn)
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Return) or node.value is None:
            continue
        if isinstance(node.value, ast.Constant) and node.value.value is None:
            continue
        raise site.error(
            f"stage `{stage.name}` returns a value, expected a bare `return` or none, found `{ast.unparse(node)}`",
            source.span(node), labels=(site.span(stage.statement).labelled("called here"),),
        )  # fmt: skip
