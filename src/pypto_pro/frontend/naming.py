"""What the author calls a value that is made in the middle of an expression, or in a helper that returns it.

Everything here is about names in messages and tables; what a kernel means never depends on it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

Wanted: TypeAlias = "str | tuple[str, ...]"
"""A name, or the names a tuple is unpacked to."""


def wanted_in(value: ast.expr, name: Wanted) -> dict[ast.Call, Wanted]:
    """The calls whose value `value` passes on, each with its name: `make(...).current()`, `make(...)[0]`, displays."""
    return _single(_passed_on(value, name, {}))


def wanted_in_helper(body: Iterable[ast.stmt], name: Wanted) -> dict[ast.Call, Wanted]:
    """The same for what a function body returns, also through a local name that is assigned once."""
    inner = [node for stmt in body for node in ast.walk(stmt)]
    targets = [n.id for n in inner if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    once = {
        n.targets[0].id: n.value for n in inner
        if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name) and targets.count(n.targets[0].id) == 1
    }  # fmt: skip
    returns = [n.value for n in inner if isinstance(n, ast.Return) and n.value is not None]
    return _single(pair for value in returns for pair in _passed_on(value, name, once))


def _single(pairs: Iterable[tuple[ast.Call, Wanted]]) -> dict[ast.Call, Wanted]:
    """Calls with one name; what goes by two keeps the name it has."""
    found: dict[ast.Call, set[Wanted]] = {}
    for call, name in pairs:
        found.setdefault(call, set()).add(name)
    return {call: names.pop() for call, names in found.items() if len(names) == 1}


def _passed_on(value: ast.expr, name: Wanted, local: Mapping[str, ast.expr]) -> Iterator[tuple[ast.Call, Wanted]]:
    match value, name:
        case _, "_":
            return
        case ast.Name(id=known), _ if known in local:
            rest = {k: v for k, v in local.items() if k != known}
            yield from _passed_on(local[known], name, rest)
        case ast.Call(func=ast.Attribute(value=owner), args=[], keywords=[]), str():  # an accessor of a group
            yield from _passed_on(owner, name, local)
        case ast.Call(keywords=fields), _:
            yield value, name
            if isinstance(name, str):
                for field in fields:
                    yield from _passed_on(field.value, f"{name}_{field.arg}", local)
        case ast.Subscript(value=owner), str():
            yield from _passed_on(owner, name, local)
        case ast.IfExp(body=then, orelse=other), _:
            yield from _passed_on(then, name, local)
            yield from _passed_on(other, name, local)
        case ast.Tuple(elts=items) | ast.List(elts=items), tuple() if len(items) == len(name):
            for item, own in zip(items, name, strict=True):
                yield from _passed_on(item, own, local)
        case ast.Tuple(elts=items) | ast.List(elts=items), str():
            for i, item in enumerate(items):
                yield from _passed_on(item, f"{name}_{i}", local)
