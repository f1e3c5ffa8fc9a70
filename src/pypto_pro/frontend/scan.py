"""What a piece of syntax assigns, reads and leaves: the facts that loops, branches and returns are built from.

Sections of the other core kind do not exist for the program being read and are skipped.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from pypto_pro.enums import CoreKind

SECTIONS = {"section_cube": CoreKind.CUBE, "section_vector": CoreKind.VECTOR}
EMPTY: frozenset[str] = frozenset()


def section_of(stmt: ast.With) -> CoreKind | None:
    """The core kind of a well-formed section, None for any other `with`."""
    if len(stmt.items) != 1:
        return None
    call = stmt.items[0].context_expr
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
        return SECTIONS.get(call.func.attr)
    return None


def is_elsewhere(stmt: ast.stmt, core: CoreKind) -> bool:
    """Whether the statement is a section of the other core kind."""
    return isinstance(stmt, ast.With) and section_of(stmt) not in (None, core)


def bodies(stmt: ast.stmt) -> tuple[list[ast.stmt], ...]:
    """The statement lists nested directly in a statement."""
    match stmt:
        case ast.If(body=body, orelse=orelse) | ast.For(body=body, orelse=orelse) | ast.While(body=body, orelse=orelse):
            return body, orelse
        case ast.With(body=body):
            return (body,)
    return ()


def statements(body: Iterable[ast.stmt], core: CoreKind) -> Iterator[ast.stmt]:
    """Every statement at any depth that the program of `core` has, parents first."""
    for stmt in body:
        if is_elsewhere(stmt, core):
            continue
        yield stmt
        for inner in bodies(stmt):
            yield from statements(inner, core)


def targets(stmt: ast.stmt) -> frozenset[str]:
    """Names a statement binds itself, nested statements not included."""
    match stmt:
        case ast.Assign(targets=many):
            found = many
        case ast.AnnAssign(target=one, value=value):
            found = [one] if value is not None else []
        case ast.AugAssign(target=one) | ast.For(target=one):
            found = [one]
        case _:
            return EMPTY
    return frozenset(n.id for t in found for n in ast.walk(t) if isinstance(n, ast.Name) and _binds(n))


def _binds(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def assigned(body: Iterable[ast.stmt], core: CoreKind) -> frozenset[str]:
    """Names bound anywhere in the statements."""
    return frozenset().union(*(targets(stmt) for stmt in statements(body, core)))


def has_return(body: Iterable[ast.stmt], core: CoreKind) -> bool:
    """Whether a return stands anywhere in the statements."""
    return any(isinstance(stmt, ast.Return) for stmt in statements(body, core))


def reads(node: ast.AST | None) -> frozenset[str]:
    """Names an expression reads."""
    if node is None:
        return EMPTY
    return frozenset(n.id for n in ast.walk(node) if isinstance(n, ast.Name) and not _binds(n))


def is_register_op(stmt: ast.stmt) -> bool:
    """`name = vf.op(...)`: the register behind the name may be an operand, and says what the result is."""
    match stmt:
        case ast.Assign(value=ast.Call(func=ast.Attribute(value=ast.Name(id="vf")))):
            return True
    return False


class Liveness:
    """Names that may be read after each statement of a function body, and at the head of each loop.

    A branch that the compiler folds away counts as readable: too many names, never too few.
    """

    def __init__(self, body: list[ast.stmt], core: CoreKind) -> None:
        self.core = core
        self._facts: dict[int, tuple[frozenset[str], frozenset[str]]] = {}
        self._after: dict[int, frozenset[str]] = {}
        self._head: dict[int, frozenset[str]] = {}
        self._block(body, EMPTY, EMPTY, EMPTY)

    def after(self, stmt: ast.stmt) -> frozenset[str]:
        """Names that may be read once the statement is done."""
        return self._after.get(id(stmt), EMPTY)

    def head(self, loop: ast.stmt) -> frozenset[str]:
        """Names that a trip of the loop may read before binding them."""
        return self._head.get(id(loop), EMPTY)

    def _block(
        self, body: list[ast.stmt], live: frozenset[str], on_break: frozenset[str], on_continue: frozenset[str]
    ) -> frozenset[str]:
        """Live names before the statements, given those after them and at the targets of break and continue."""
        for stmt in reversed(body):
            self._after[id(stmt)] = self._after.get(id(stmt), EMPTY) | live
            live = self._before(stmt, live, on_break, on_continue)
        return live

    def _before(
        self, stmt: ast.stmt, live: frozenset[str], on_break: frozenset[str], on_continue: frozenset[str]
    ) -> frozenset[str]:
        if is_elsewhere(stmt, self.core):
            return live
        match stmt:
            case ast.Break():
                return on_break
            case ast.Continue():
                return on_continue
            case ast.Return(value=value):
                return reads(value)
            case ast.If(test=test, body=then, orelse=orelse):
                paths = (self._block(branch, live, on_break, on_continue) for branch in (then, orelse))
                return reads(test).union(*paths)
            case ast.With(body=body):
                return self._block(body, live, on_break, on_continue)
            case ast.For(iter=source) | ast.While(test=source):
                return self._loop(stmt, source, live)
        read, bound = self._read_and_bound(stmt)
        return (live - bound) | read

    def _read_and_bound(self, stmt: ast.stmt) -> tuple[frozenset[str], frozenset[str]]:
        facts = self._facts.get(id(stmt))
        if facts is None:
            bound = targets(stmt)
            updates = isinstance(stmt, ast.AugAssign) or is_register_op(stmt)
            facts = (reads(stmt) | bound if updates else reads(stmt), bound)
            self._facts[id(stmt)] = facts
        return facts

    def _loop(self, stmt: ast.For | ast.While, source: ast.expr, live: frozenset[str]) -> frozenset[str]:
        test = reads(source) if isinstance(stmt, ast.While) else EMPTY
        bound = targets(stmt)
        head = live | test
        while True:
            entry = self._block(stmt.body, head, live, head)
            grown = head | (entry - bound)
            if grown == head:
                break
            head = grown
        self._head[id(stmt)] = entry | test
        return head | reads(source)
