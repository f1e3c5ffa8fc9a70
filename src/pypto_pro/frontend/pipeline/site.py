"""Where the transform is: the kernel's source for spans of errors, and the names a kernel can see."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from pypto_pro.diag import Span
from pypto_pro.diag.errors import PipelineError
from pypto_pro.frontend import markers
from pypto_pro.frontend.source import Source

PREFIX = "_pl_"
"""How every name that the transform makes starts."""


@dataclass(frozen=True, eq=False)
class Site:
    """One kernel being transformed."""

    kernel: str
    source: Source
    names: Mapping[str, Any]  # everything visible from outside the function

    def span(self, node: ast.AST) -> Span:
        """The place of a node of the kernel; of a loop or section its head only."""
        if isinstance(node, ast.For):
            node = _head(node, node.iter)
        elif isinstance(node, ast.With):
            node = _head(node, node.items[0].context_expr)
        return self.source.span(node)

    def error(self, message: str, node: ast.AST | Span, **rest: Any) -> PipelineError:
        """The error of a kernel that cannot be transformed, at a node of the kernel or a span."""
        span = node if isinstance(node, Span) else self.span(node)
        return PipelineError(message, span, kernel=self.kernel, **rest)

    def stage_named(self, name: str) -> FunctionType | None:
        """The stage function a name stands for, None for any other name."""
        found = self.names.get(name)
        is_stage = isinstance(found, FunctionType) and markers.kind_of(found) == markers.STAGE
        return found if is_stage else None

    def stage_called(self, node: ast.AST) -> FunctionType | None:
        """The stage function that a call or a call statement calls by its bare name."""
        match node:
            case ast.Expr(value=ast.Call(func=ast.Name(id=name))) | ast.Call(func=ast.Name(id=name)):
                return self.stage_named(name)
        return None

    def callee(self, node: ast.AST) -> str:
        """The name of the stage that a call calls."""
        fn = self.stage_called(node)
        assert fn is not None
        return fn.__name__


def _head(node: ast.For | ast.With, last: ast.expr) -> ast.AST:
    """A node that spans from the start of a compound statement to the end of its head's last part."""
    return ast.Pass(
        lineno=node.lineno, col_offset=node.col_offset, end_lineno=last.end_lineno, end_col_offset=last.end_col_offset
    )
