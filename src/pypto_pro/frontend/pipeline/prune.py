"""Constant branches taken out of a kernel's body."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable

from pypto_pro.frontend.pipeline.probe import Probe


def prune(body: Iterable[ast.stmt], probe: Probe) -> list[ast.stmt]:
    """The statements with every `if` of a known condition replaced by the side taken, at any depth.

    Statements that stay are the same objects unless something inside them changed, and simple ones always: what the
    probe noted by identity still holds. A section left empty is removed.
    """
    kept: list[ast.stmt] = []
    for stmt in body:
        match stmt:
            case ast.If(body=then, orelse=orelse):
                verdict = probe.verdict(stmt)
                if verdict is not None:
                    kept += prune(then if verdict else orelse, probe)
                else:
                    kept.append(_with_bodies(stmt, prune(then, probe) or [_nothing(stmt)], prune(orelse, probe)))
            case ast.For(body=inner, orelse=orelse) | ast.While(body=inner, orelse=orelse):
                kept.append(_with_bodies(stmt, prune(inner, probe) or [_nothing(stmt)], orelse))
            case ast.With(body=inner):
                left = prune(inner, probe)
                if left:
                    kept.append(_with_bodies(stmt, left, []))
            case _:
                kept.append(stmt)
    return kept


def _with_bodies(stmt: ast.stmt, body: list[ast.stmt], orelse: list[ast.stmt]) -> ast.stmt:
    changed = copy.copy(stmt)
    changed.body = body  # type: ignore[attr-defined]
    if not isinstance(stmt, ast.With):
        changed.orelse = orelse  # type: ignore[attr-defined]
    return changed


def _nothing(stmt: ast.stmt) -> ast.stmt:
    return ast.copy_location(ast.Pass(), stmt)
