"""`if`: constant conditions choose, run-time ones read both sides and merge what they assigned."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from pypto_pro.diag.errors import ParserTypeError, UndefinedVariableError
from pypto_pro.frontend import conditions, merge, scan
from pypto_pro.frontend.context import Context, FrameKind, deferred
from pypto_pro.frontend.values import Poison, Value
from pypto_pro.ir import build
from pypto_pro.ir.nodes import Const, Expr, If, Local, Stmt


def run_if(ctx: Context, stmt: ast.If, rest: list[ast.stmt]) -> bool | None:
    """Read an `if`. None: the caller goes on with `rest`; else `rest` was read, and whether control goes on."""
    test = conditions.condition(ctx, stmt.test)
    if ctx.probe is not None and ctx.frame.kind is FrameKind.KERNEL:
        ctx.probe.condition(ctx.core, stmt, test if isinstance(test, bool) else None)
    returns = ctx.frame.kind is not FrameKind.KERNEL and scan.has_return([stmt], ctx.core)
    if isinstance(test, bool):
        chosen = stmt.body if test else stmt.orelse
        if returns and scan.has_return(chosen, ctx.core):
            return ctx.execute([*chosen, *rest])
        return None if ctx.execute(chosen) else False
    if not returns or ctx.frame.loops:
        return None if run_paths(ctx, stmt, test, stmt.body, stmt.orelse) else False
    if exits(stmt.body):
        return run_paths(ctx, stmt, test, stmt.body, [*stmt.orelse, *rest], rest)
    if exits(stmt.orelse):
        return run_paths(ctx, stmt, test, [*stmt.body, *rest], stmt.orelse, rest)
    return _guarded(ctx, stmt, test, rest)


def _guarded(ctx: Context, stmt: ast.If, test: Expr, rest: list[ast.stmt]) -> bool:
    """Some paths of either side return: the rest runs only where none did."""
    from pypto_pro.frontend.statements import done_flag

    done_flag(ctx, stmt)
    run_paths(ctx, stmt, test, stmt.body, stmt.orelse)
    return run_rest(ctx, stmt, rest)


def run_rest(ctx: Context, stmt: ast.stmt, rest: list[ast.stmt]) -> bool:
    """The statements behind one that may have returned, under the "has not returned" test."""
    assert ctx.frame.done is not None
    block: list[Stmt] = []
    with ctx.into(block):
        goes_on = ctx.execute(rest)
    if block:
        test = build.logical_not(Local(ctx.frame.done))
        ctx.emit(If(test, deferred(block), (), span=ctx.span(stmt)))
    return goes_on


def exits(body: list[ast.stmt]) -> bool:
    """Whether control certainly leaves the statements by a jump."""
    if not body:
        return False
    match body[-1]:
        case ast.Return() | ast.Break() | ast.Continue():
            return True
        case ast.If(body=then, orelse=orelse):
            return exits(then) and exits(orelse)
        case ast.With(body=inner):
            return exits(inner)
    return False


def run_paths(
    ctx: Context, stmt: ast.If, test: Expr, then: list[ast.stmt], orelse: list[ast.stmt],
    taken_in: Sequence[ast.stmt] = (),
) -> bool:  # fmt: skip
    """Read both sides from the same names, then merge. Whether control goes on behind.

    `taken_in`: statements behind the branch that one of the sides ends with.
    """
    frame = ctx.frame
    before = dict(frame.names)
    sides: list[tuple[list[Stmt], dict[str, Value], bool]] = []
    for body in (then, orelse):
        frame.names = dict(before)
        block: list[Stmt] = []
        with ctx.into(block):
            goes_on = ctx.execute(body)
        sides.append((block, frame.names, goes_on))
    changed = scan.assigned([*then, *orelse], ctx.core)
    open_sides = [(block, names) for block, names, goes_on in sides if goes_on]
    live = frame.live.after(taken_in[-1] if taken_in else stmt)
    if len(open_sides) == 2:
        frame.names = _merged(ctx, stmt, before, changed, live, open_sides)
    elif open_sides:
        block, names = open_sides[0]
        frame.names = _only(ctx, stmt, changed & live, block, names)
    blocks = [deferred(block) for block, _, _ in sides]
    ctx.emit(If(test, blocks[0], blocks[1], span=ctx.span(stmt)))
    return bool(open_sides)


def _merged(
    ctx: Context, stmt: ast.If, before: dict[str, Value], changed: frozenset[str], live: frozenset[str],
    sides: list[tuple[list[Stmt], dict[str, Value]]],
) -> dict[str, Value]:  # fmt: skip
    names = dict(before)
    for name in sorted(changed):
        values = [(block, side[name]) for block, side in sides if name in side]
        if not values:
            continue
        if name not in live:
            names[name] = Poison(ParserTypeError, f"`{name}` has no single value behind this branch", ctx.span(stmt))
        elif len(values) == 1:
            names[name] = _one_sided(ctx, name, stmt)
        else:
            names[name] = merge.merge(ctx, name, [merge.Path(b, v) for b, v in values], stmt)
    return names


def _one_sided(ctx: Context, name: str, stmt: ast.If) -> Poison:
    span = ctx.span(stmt).labelled("assigned on one path only")
    hint = f"give `{name}` a value before the branch"
    return Poison(UndefinedVariableError, f"`{name}` is not defined on every path", span, hint)


def _only(
    ctx: Context, stmt: ast.If, changed: frozenset[str], block: list[Stmt], names: dict[str, Value]
) -> dict[str, Value]:
    """The names behind a branch of which one side never comes back: what either side assigned is no constant now."""
    for name in sorted(changed):
        if isinstance(names.get(name), Const):
            names[name] = merge.merge(ctx, name, [merge.Path(block, names[name])], stmt)
    return names
