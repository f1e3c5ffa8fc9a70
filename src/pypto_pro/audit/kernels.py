"""What the audit knows about a kernel from its text alone: the kinds of its parameters, and which of them it writes.

The body is never interpreted. The written set follows aliases, views (`make_tensor`, `addptr`, `make_ptr`, `ptr + n`)
and helpers of the file without regard to control flow; a parameter handed to a function of another file counts as
written, because nothing shows the contrary.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass

from pypto_pro.audit.source import FunctionNode

_WRITES = frozenset(("store", "store_tile", "store_atomic", "setval"))
_VIEWS = frozenset(("make_tensor", "addptr", "make_ptr"))
_DESTINATION_KEYWORDS = frozenset(("dst_tensor", "container", "workspace"))


@dataclass(frozen=True)
class KernelParameter:
    """One parameter: kind is tensor, ptr, scalar or other (a tiling instance)."""

    name: str
    kind: str
    annotation: str


@dataclass(frozen=True)
class KernelFacts:
    """Signature and written parameters of one kernel."""

    name: str
    line: int
    parameters: tuple[KernelParameter, ...]
    written: frozenset[str]


class WrittenParameters:
    """Finds which parameters a device function writes. `find` gives the definition a name refers to, if the file has
    it.
    """

    def __init__(self, find: Callable[[str], FunctionNode | None]) -> None:
        self._find = find
        self._known: dict[int, frozenset[str]] = {}

    def of(self, node: FunctionNode) -> frozenset[str]:
        """Names of the parameters `node` writes, directly or through a helper."""
        if id(node) not in self._known:
            self._known[id(node)] = frozenset()  # recursion: the language has none, an answer is needed all the same
            self._known[id(node)] = self._written(node)
        return self._known[id(node)]

    def _written(self, node: FunctionNode) -> frozenset[str]:
        parameters = parameter_names(node)
        views: dict[str, frozenset[str]] = {name: frozenset((name,)) for name in parameters}
        statements = list(ast.walk(node))
        for _ in range(4):  # aliases of aliases, in any order
            before = dict(views)
            for part in statements:
                self._follow_alias(part, views)
            if views == before:
                break
        written: set[str] = set()
        for part in statements:
            written |= self._written_by(part, views)
        return frozenset(written) & frozenset(parameters)

    def _follow_alias(self, part: ast.AST, views: dict[str, frozenset[str]]) -> None:
        match part:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._alias(target, value, views)
            case ast.AnnAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value) if (
                value is not None
            ):
                self._alias(target, value, views)

    def _alias(self, target: ast.expr, value: ast.expr, views: dict[str, frozenset[str]]) -> None:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            for part, item in zip(target.elts, value.elts, strict=True):
                self._alias(part, item, views)
            return
        roots = self._roots(value, views)
        for name in (n.id for n in ast.walk(target) if isinstance(n, ast.Name)) if roots else ():
            views[name] = views.get(name, frozenset()) | roots

    def _roots(self, value: ast.expr, views: dict[str, frozenset[str]]) -> frozenset[str]:
        """Parameters whose memory an expression denotes."""
        match value:
            case ast.Name(id=name):
                return views.get(name, frozenset())
            case ast.Call(func=func, args=args, keywords=keywords) if last_name(func) in _VIEWS:
                first = args[:1] or [k.value for k in keywords if k.arg == "ptr"]
                return self._roots(first[0], views) if first else frozenset()
            case ast.Call(func=ast.Name(), args=args):
                return frozenset[str]().union(*(self._roots(a, views) for a in args))
            case ast.BinOp(left=left, right=right):
                return self._roots(left, views) | self._roots(right, views)
            case ast.IfExp(body=body, orelse=orelse):
                return self._roots(body, views) | self._roots(orelse, views)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return frozenset[str]().union(*(self._roots(p, views) for p in parts))
            case ast.Attribute(value=inner) if not isinstance(inner, ast.Name):
                return self._roots(inner, views)
            case ast.Subscript(value=inner) if not isinstance(inner, ast.Name) or inner.id not in views:
                return self._roots(inner, views)
        return frozenset()

    def _written_by(self, part: ast.AST, views: dict[str, frozenset[str]]) -> frozenset[str]:
        match part:
            case ast.Assign(targets=targets):
                return frozenset[str]().union(*(self._stored(t, views) for t in targets))
            case ast.AugAssign(target=target):
                return self._stored(target, views)
            case ast.Call():
                return self._written_by_call(part, views)
        return frozenset()

    def _stored(self, target: ast.expr, views: dict[str, frozenset[str]]) -> frozenset[str]:
        """`tensor[i, j] = value`."""
        return self._roots(target.value, views) if isinstance(target, ast.Subscript) else frozenset()

    def _written_by_call(self, call: ast.Call, views: dict[str, frozenset[str]]) -> frozenset[str]:
        name = last_name(call.func)
        found = frozenset[str]().union(
            *(self._roots(k.value, views) for k in call.keywords if k.arg in _DESTINATION_KEYWORDS)
        )
        if name in _WRITES:
            return found | (self._roots(call.args[0], views) if call.args else frozenset())
        if name == "launch":
            return found | self._written_by_simt(call, views)
        if isinstance(call.func, ast.Name):
            return found | self._written_by_helper(call.func.id, call.args, call.keywords, views)
        return found

    def _written_by_simt(self, call: ast.Call, views: dict[str, frozenset[str]]) -> frozenset[str]:
        """`pl.simt.launch(f, threads=n, args=(...))`."""
        callee = call.args[0] if call.args else None
        given = next((k.value for k in call.keywords if k.arg == "args"), None)
        if isinstance(callee, ast.Name) and isinstance(given, (ast.Tuple, ast.List)):
            return self._written_by_helper(callee.id, given.elts, [], views)
        return frozenset()

    def _written_by_helper(
        self, name: str, args: list[ast.expr], keywords: list[ast.keyword], views: dict[str, frozenset[str]]
    ) -> frozenset[str]:
        node = self._find(name)
        given = [self._roots(a, views) for a in args]
        if node is None:
            return (
                frozenset[str]().union(*given)
                if name not in ("len", "range", "min", "max", "abs", "int")
                else frozenset()
            )
        written = self.of(node)
        names = parameter_names(node)
        hit = [roots for parameter, roots in zip(names, given, strict=False) if parameter in written]
        hit += [self._roots(k.value, views) for k in keywords if k.arg in written]
        return frozenset[str]().union(*hit)


def parameter_names(node: FunctionNode | ast.Lambda) -> list[str]:
    """Every named parameter, positional first."""
    args = node.args
    return [a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)]


def last_name(node: ast.expr) -> str:
    """`store` of `pl.store` and of `store`."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
