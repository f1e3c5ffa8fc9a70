"""The forms in which a stage may take a tile out of a channel: to a name of its own, nothing else."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from pypto_pro.frontend.groups import ACCESSORS
from pypto_pro.frontend.pipeline.probe import StageCall
from pypto_pro.frontend.pipeline.site import Site
from pypto_pro.frontend.values import GroupValue, TupleValue, Value


def check_forms(site: Site, call: StageCall, channels: frozenset[str]) -> None:
    """PipelineError for an accessor of a channel that is not `name = channel.next()` or `name = channel[i]`.

    Names are followed from the parameters through plain aliases and `group = aggregate.field`.
    """
    tree = call.source.tree
    names = dict(call.parameters())
    plain = {id(value) for _, value in _assignments(tree)}
    for target, value in _assignments(tree):
        found = _value(names, value)
        if found is not None:
            names[target] = found
    _check_once(site, call, channels, names)
    for node in ast.walk(tree):
        owner = _owner(node)
        if owner is None or not _is_channel(_value(names, owner), channels):
            continue
        if id(node) in plain and isinstance(owner, ast.Name):
            continue
        raise site.error(
            f"stage `{call.fn.__name__}` picks a slot of channel `{ast.unparse(owner)}`, expected `name = "
            f"{_last(owner)}.next()` or the like on a line of its own, found `{ast.unparse(node)}`",
            call.source.span(node), labels=(site.source.span(_call_node(site, call)).labelled("called here"),),
        )  # fmt: skip


def _check_once(site: Site, call: StageCall, channels: frozenset[str], names: dict[str, Value]) -> None:
    """A stage moves the cursor of a channel once a task, since the slot of task t is t modulo the number of slots."""
    taken: dict[str, ast.AST] = {}
    for node, repeats in _unconditional(call.source.tree.body, False):
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr="next")):
                value = _value(names, owner)
            case _:
                continue
        if not isinstance(value, GroupValue) or value.decl.identity not in channels:
            continue
        if repeats or value.decl.identity in taken:
            found = "one in each trip of a loop" if repeats else "another one"
            raise site.error(
                f"stage `{call.fn.__name__}` takes several slots of channel `{_last(owner)}` a task, expected one "
                f"`{_last(owner)}.next()`, found {found}", call.source.span(node),
                labels=(site.source.span(_call_node(site, call)).labelled("called here"),),
                hint="make the tile of the channel larger, or use two channels",
            )  # fmt: skip
        taken[value.decl.identity] = node


def _unconditional(body: list[ast.stmt], repeats: bool) -> Iterator[tuple[ast.AST, bool]]:
    """Nodes of a body outside its branches, and whether a loop repeats them."""
    for stmt in body:
        match stmt:
            case ast.If():
                continue
            case ast.For(body=inner) | ast.While(body=inner):
                yield from _unconditional(inner, True)
            case ast.With(body=inner):
                yield from _unconditional(inner, repeats)
            case _:
                yield from ((node, repeats) for node in ast.walk(stmt))


def _call_node(site: Site, call: StageCall) -> ast.AST:
    found = (n for n in ast.walk(site.source.tree) if isinstance(n, ast.Call) and site.stage_called(n) is call.fn)
    return next(found, site.source.tree)


def _assignments(tree: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """(name, value) of every assignment to one plain name."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value


def _owner(node: ast.AST) -> ast.expr | None:
    """What an accessor picks from: `x` of `x.next()` and `x[i]`."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in ACCESSORS:
            return owner
        case ast.Subscript(value=owner):
            return owner
    return None


def _value(names: dict[str, Value], node: ast.expr) -> Value | None:
    """What a name, or a field of a named tuple, was called with."""
    match node:
        case ast.Name(id=name):
            return names.get(name)
        case ast.Attribute(value=owner, attr=field):
            aggregate = _value(names, owner)
            if isinstance(aggregate, TupleValue) and aggregate.names and field in aggregate.names:
                return aggregate.items[aggregate.names.index(field)]
    return None


def _is_channel(value: Value | None, channels: frozenset[str]) -> bool:
    return isinstance(value, GroupValue) and value.decl.identity in channels


def _last(owner: ast.expr) -> str:
    return owner.attr if isinstance(owner, ast.Attribute) else ast.unparse(owner)
