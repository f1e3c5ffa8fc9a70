"""Walking and rewriting IR, generic over the fields of the node dataclasses: a new node needs no code here.

Blocks are tuples of statements; a statement's nested blocks are found by looking, as are its expressions and variables.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from types import SimpleNamespace
from typing import Any, TypeAlias, TypeGuard

from pypto_pro.ir import nodes
from pypto_pro.ir.nodes import Block, Expr, Place, Stmt, Var

EXPRS: tuple[type, ...] = typing.get_args(Expr)
STMTS: tuple[type, ...] = typing.get_args(Stmt)
NODES: tuple[type, ...] = (*EXPRS, *STMTS, Place, Var)
Node: TypeAlias = Any
"""One of `NODES`."""

_LEAF_FIELDS = frozenset({"span", "attrs"})


@cache
def child_fields(kind: Any) -> tuple[str, ...]:
    """Names of the fields of a node class that may hold nodes, in declaration order."""
    return tuple(
        field.name
        for field in dataclasses.fields(kind)
        if field.name not in _LEAF_FIELDS and _may_hold_node(hint_of(field))
    )


def hint_of(field: Any) -> Any:
    """What the annotation of a node's field says; `typing.get_type_hints` takes ten times as long."""
    return _meaning(field.type) if isinstance(field.type, str) else field.type


@cache
def _meaning(written: str) -> Any:
    found = eval(written, vars(nodes))
    if _is_finished(found):
        return found
    return typing.get_type_hints(SimpleNamespace(__annotations__={"field": written}), vars(nodes))["field"]


def _is_finished(hint: Any) -> bool:
    """Whether no part of a hint is still a text."""
    return not isinstance(hint, str | typing.ForwardRef) and all(map(_is_finished, typing.get_args(hint)))


def _may_hold_node(hint: Any) -> bool:
    return hint in NODES or any(_may_hold_node(part) for part in typing.get_args(hint))


def is_expr(value: Any) -> TypeGuard[Expr]:
    """Whether a value is an expression node."""
    return isinstance(value, EXPRS)


def class_of(node: Any) -> Any:
    """The class of a node, as the key of a table by class."""
    return type(node)


def children(node: Node) -> Iterator[Node]:
    """The nodes standing directly in a node's fields, in order; nested blocks' statements and variables included."""
    for name in child_fields(class_of(node)):
        yield from _flat(getattr(node, name))


def _flat(value: Any) -> Iterator[Node]:
    if isinstance(value, tuple):
        for item in value:
            yield from _flat(item)
    elif isinstance(value, NODES):
        yield value


def walk(node: Node | Block) -> Iterator[Node]:
    """A node (or every node of a block) and everything below it, parents first, in program order."""
    stack: list[Node] = [node] if not isinstance(node, tuple) else [*reversed(node)]
    while stack:
        top = stack.pop()
        yield top
        stack.extend(reversed([*children(top)]))


def statements(block: Block) -> Iterator[Stmt]:
    """Every statement of a block at any depth, parents first, in program order."""
    for stmt in block:
        yield stmt
        for inner in blocks(stmt):
            yield from statements(inner)


@cache
def block_fields(kind: Any) -> tuple[str, ...]:
    """Names of the statement-list fields of a node class."""
    return tuple(field.name for field in dataclasses.fields(kind) if hint_of(field) == Block)


def blocks(stmt: Stmt) -> Iterator[Block]:
    """The blocks nested directly in a statement."""
    for name in block_fields(class_of(stmt)):
        yield getattr(stmt, name)


def expressions(stmt: Stmt) -> Iterator[Expr]:
    """The outermost expressions of a statement; those of nested blocks are not included."""
    inner = block_fields(class_of(stmt))
    for name in child_fields(class_of(stmt)):
        if name not in inner:
            for child in _flat(getattr(stmt, name)):
                yield from _expressions_in(child)


def _expressions_in(node: Node) -> Iterator[Expr]:
    if is_expr(node):
        yield node
    elif isinstance(node, Place):
        for child in children(node):
            yield from _expressions_in(child)


def map_children(node: Any, change: Callable[[Any], Any]) -> Any:
    """The node with `change` applied to each node directly below it; the same object when nothing changed."""
    changed = {}
    for name in child_fields(class_of(node)):
        old = getattr(node, name)
        new = _map_value(old, change)
        if new is not old:
            changed[name] = new
    return dataclasses.replace(node, **changed) if changed else node


def _map_value(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, tuple):
        new = tuple(_map_value(item, change) for item in value)
        return value if all(a is b for a, b in zip(new, value, strict=True)) else new
    return change(value) if isinstance(value, NODES) else value


def rewrite(node: Any, change: Callable[[Any], Any]) -> Any:
    """The node with every node below it and then itself replaced by `change(node)` (bottom-up)."""
    return change(map_children(node, lambda child: rewrite(child, change)))


def rewrite_block(block: Block, change: Callable[[Stmt], Iterable[Stmt]]) -> Block:
    """The block with every statement replaced by any number of statements; nested blocks first."""
    done: list[Any] = []
    for stmt in block:
        inner = {name: rewrite_block(getattr(stmt, name), change) for name in block_fields(class_of(stmt))}
        changed: dict[str, Any] = {name: new for name, new in inner.items() if new is not getattr(stmt, name)}
        done += change(dataclasses.replace(stmt, **changed) if changed else stmt)
    return tuple(done)


def bound_vars(stmt: Stmt) -> tuple[Var, ...]:
    """The variables a statement gives a value to, nested blocks not included."""
    match stmt:
        case nodes.GroupDecl(var=var, cursor=cursor):
            return (var,) if cursor is None else (var, cursor)
        case nodes.Op(results=results):
            return results
    bound: Any = getattr(stmt, "var", None)
    return (bound,) if isinstance(bound, Var) else ()


def reads(stmt: Stmt) -> Iterator[Var]:
    """Variables whose value a statement itself needs: those of its expressions and places, the sources of copies."""
    for expr in expressions(stmt):
        yield from (node for node in walk(expr) if isinstance(node, Var))
    match stmt:
        case nodes.CopyTensor(source=source):
            yield source
        case nodes.SetStride(tensor=tensor):
            yield tensor
        case nodes.SetField(place=place):
            yield place.var
        case nodes.CopyStruct(target=target, source=origin):
            yield origin.var
            if target.path or target.index is not None:
                yield target.var
