"""Execution of statements: which paths leave a block, and with what."""

from __future__ import annotations

import ast
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from pypto_pro.audit.expressions import constant_truth
from pypto_pro.audit.library_calls import LibraryCalls
from pypto_pro.audit.machine import BudgetExceeded, PathEnds
from pypto_pro.audit.state import Exit, Flow, State, join_states
from pypto_pro.audit.values import (
    ANY,
    NONE,
    OPAQUE,
    Many,
    Maybe,
    Tensor,
    Tuple,
    Union,
    Value,
    join_all,
    options,
)

_ROUNDS = 4  # of a loop body; kinds come to rest after two, launch options in containers may need a third
Try = ast.Try | ast.TryStar


class Statements(LibraryCalls):
    """`execute` and one method a kind of statement."""

    def execute(self, body: list[ast.stmt]) -> Flow:
        """Run a block from the current state. Statements behind the last path are not looked at."""
        flow = Flow()
        for statement in body:
            done = self._execute_one(statement)
            flow.absorb(done)
            if done.normal is None:
                return flow
            self.state = done.normal
            self._remember_prefix(self.state)
        flow.normal = self.state
        return flow

    def _execute_one(self, statement: ast.stmt) -> Flow:
        if self.importing and self.frame == 0:
            return self._execute_at_import(statement)
        self.spend(1)
        return self._execute_plain(statement)

    def _execute_at_import(self, statement: ast.stmt) -> Flow:
        """A module-level statement: its findings wait for a use; too much work makes the names it binds unknown."""
        self.steps = 0
        if isinstance(statement, _COMPOUND):
            return self._execute_plain(statement)
        before, depths = self.state.fork(), (len(self.loops), len(self.guards), len(self.collectors))
        with self.aside() as events:
            try:
                flow = self._execute_plain(statement)
            except (BudgetExceeded, RecursionError):
                self.limit(f"line {statement.lineno} does too much at import to be evaluated")
                self.state = before
                del self.loops[depths[0] :], self.guards[depths[1] :], self.collectors[depths[2] :]
                for name in bound_names(statement):
                    self.bind(name, Maybe(name))
                flow = Flow(self.state)
        for name in bound_names(statement) if events else ():
            self.deferred.setdefault(name, []).extend(events)
        return flow

    def _execute_plain(self, statement: ast.stmt) -> Flow:
        method: Callable[[ast.stmt], Flow | None] | None = getattr(self, f"exec_{type(statement).__name__}", None)
        try:
            flow = method(statement) if method is not None else None
        except PathEnds:
            self._remember_prefix(self.state)
            return Flow()
        return Flow(self.state) if flow is None else flow

    def _remember_prefix(self, state: State) -> None:
        """Inside a `try` every statement may be the last one before the handler."""
        if self.collectors and self.collectors[-1] is not None:
            seen = self.collectors[-1]
            seen[:] = [seen[0].join(state)] if seen else [state.fork()]

    # -- simple statements
    def exec_Expr(self, node: ast.Expr) -> None:  # noqa: N802
        self.evaluate(node.value)

    def exec_Assign(self, node: ast.Assign) -> None:  # noqa: N802
        value = self.evaluate(node.value)
        for target in node.targets:
            self.assign(target, value)

    def exec_AnnAssign(self, node: ast.AnnAssign) -> None:  # noqa: N802
        if node.value is not None:
            self.assign(node.target, self.evaluate(node.value))

    def exec_AugAssign(self, node: ast.AugAssign) -> None:  # noqa: N802
        load = _as_load(node.target)
        old = self.evaluate(load)
        value = self.binary(old, node.op, self.evaluate(node.value), node)
        tensor = self.tensor_option(old)
        if tensor is not None:
            self.bind_target_silently(node.target, value)
        else:
            self.assign(node.target, value)

    def bind_target_silently(self, target: ast.expr, value: Value) -> None:
        """The target of `x[...] += v` on a tensor: the operator has been reported, the write is part of it."""
        if isinstance(target, ast.Name):
            self.bind(target.id, value)

    def exec_Return(self, node: ast.Return) -> Flow:  # noqa: N802
        value = self.evaluate(node.value) if node.value is not None else NONE
        kind = "handler" if any(g.startswith("except") for g in self.guards) else "return"
        return Flow(exits=[Exit(self.state, value, node, kind, self.guards[-1] if self.guards else "")])

    def exec_Raise(self, node: ast.Raise) -> Flow:  # noqa: N802
        for part in (node.exc, node.cause):
            if part is not None:
                self.evaluate(part)
        self._remember_prefix(self.state)
        return Flow()

    def exec_Assert(self, node: ast.Assert) -> None:  # noqa: N802
        self.truth(self.evaluate(node.test), node.test)
        if node.msg is not None:
            kept = self.state.fork()
            with suppress(PathEnds):
                self.formatted(self.evaluate(node.msg), node.msg)
            self.state = kept
        self.assume(node.test, True)

    def exec_Delete(self, node: ast.Delete) -> None:  # noqa: N802
        for target in node.targets:
            match target:
                case ast.Name(id=name):
                    self.state.unbind(self.frame, name)
                case ast.Subscript(value=owner):
                    index = self.evaluate(target.slice)
                    held = self.evaluate(owner)
                    if self.tensor_option(held) is not None:
                        self.store_subscript(held, index, ANY, target)
                case ast.Attribute(value=owner, attr=name):
                    self.store_attribute(self.evaluate(owner), name, OPAQUE, target)

    def exec_Break(self, node: ast.Break) -> Flow:  # noqa: N802
        return Flow(breaks=[self.state])

    def exec_Continue(self, node: ast.Continue) -> Flow:  # noqa: N802
        return Flow(continues=[self.state])

    def exec_TypeAlias(self, node: ast.stmt) -> None:  # noqa: N802
        """A `type` statement binds a name nobody calls."""

    # -- targets
    def assign(self, target: ast.expr, value: Value) -> None:
        """`target = value` for every form a target may have."""
        match target:
            case ast.Name(id=name):
                self.bind(name, self._named(value, name))
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                self._unpack(parts, value, target)
            case ast.Starred(value=inner):
                self.assign(inner, value)
            case ast.Attribute(value=owner, attr=name):
                self.store_attribute(self.evaluate(owner), name, value, target)
            case ast.Subscript(value=owner):
                held = self.evaluate(owner)
                self.store_subscript(held, self.evaluate(target.slice), value, target)

    def _named(self, value: Value, name: str) -> Value:
        """A tensor that only an expression describes takes the name of the first variable that holds it."""
        if isinstance(value, Union):
            return Union(tuple(self._named(option, name) for option in value.options))
        if isinstance(value, Tensor) and not value.label.isidentifier():
            if value.origin == "empty":
                self.site_names.update(dict.fromkeys(value.sources, name))
            return replace(value, label=name)
        return value

    def _unpack(self, parts: list[ast.expr], value: Value, node: ast.expr) -> None:
        starred = [i for i, part in enumerate(parts) if isinstance(part, ast.Starred)]
        if not starred:
            for part, item in zip(parts, self.unpacked(value, len(parts), node), strict=True):
                self.assign(part, item)
            return
        sequence = self._sequence(value) if len(options(value)) == 1 else None
        if isinstance(sequence, Tuple) and len(sequence.items) >= len(parts) - 1:
            before, after = starred[0], len(parts) - starred[0] - 1
            items = list(sequence.items)
            middle = Many(join_all(items[before : len(items) - after]))
            spread = [*items[:before], middle, *(items[len(items) - after :] if after else [])]
        else:
            each = self.iterate(value, node, "unpacking")
            spread = [Many(each) if i in starred else each for i in range(len(parts))]
        for part, item in zip(parts, spread, strict=True):
            self.assign(part, item)

    # -- branches
    def exec_If(self, node: ast.If) -> Flow:  # noqa: N802
        if self.importing and self.frame == 0 and _is_main_guard(node.test):
            return Flow(self.state)
        self.truth(self.evaluate(node.test), node.test)
        decided = constant_truth(node.test)
        text = self.source.expression(node.test)
        arms: list[tuple[list[ast.stmt], bool, str]] = [
            (node.body, True, f"if {text}"),
            (node.orelse, False, f"if not ({text})"),
        ]
        if decided is not None:
            arms = [arms[0] if decided else arms[1]]
        start, flow, ends = self.state, Flow(), []
        for body, truth, guard in arms:
            self.state = start.fork()
            self.assume(node.test, truth)
            done = self._guarded(body, f"{guard}, line {node.lineno}")
            flow.absorb(done)
            ends += [done.normal] if done.normal is not None else []
        flow.normal = join_states(ends)
        return flow

    def _guarded(self, body: list[ast.stmt], guard: str) -> Flow:
        """Run a block of which an exit should say what leads into it."""
        self.guards.append(guard)
        try:
            return self.execute(body)
        finally:
            self.guards.pop()

    def exec_Match(self, node: ast.Match) -> Flow:  # noqa: N802
        subject = self.evaluate(node.subject)
        start, flow, ends, closed = self.state, Flow(), [], False
        for case in node.cases:
            self.state = start.fork()
            self._pattern(case.pattern, subject)
            if case.guard is not None:
                self.truth(self.evaluate(case.guard), case.guard)
            done = self._guarded(case.body, f"case {self.source.expression(case.pattern)}, line {case.pattern.lineno}")
            flow.absorb(done)
            ends += [done.normal] if done.normal is not None else []
            closed = closed or (
                case.guard is None and isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None
            )
        flow.normal = join_states(ends if closed else [*ends, start])
        return flow

    def _pattern(self, pattern: ast.pattern, subject: Value) -> None:
        """Bind the captures of a pattern; a value pattern compares."""
        match pattern:
            case ast.MatchAs(name=name, pattern=inner):
                if inner is not None:
                    self._pattern(inner, subject)
                if name is not None:
                    self.bind(name, subject)
            case ast.MatchValue(value=value):
                self.compare(subject, ast.Eq(), self.evaluate(value), pattern)
            case ast.MatchOr(patterns=parts):
                for part in parts:
                    self._pattern(part, subject)
            case ast.MatchStar(name=name):
                if name is not None:
                    self.bind(name, Many(subject))
            case ast.MatchSequence(patterns=parts):
                each = self.iterate(subject, pattern, "matching")
                for part in parts:
                    self._pattern(part, each)
            case ast.MatchMapping(patterns=parts, rest=rest):
                for part in parts:
                    self._pattern(part, OPAQUE)
                if rest is not None:
                    self.bind(rest, OPAQUE)
            case ast.MatchClass(patterns=parts, kwd_patterns=named):
                for part in (*parts, *named):
                    self._pattern(part, OPAQUE)


_COMPOUND = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.TryStar, ast.Match)


def bound_names(statement: ast.stmt) -> set[str]:
    """Names a module-level statement binds, or whose object it changes."""
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Assign(targets=targets):
            return {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}
        case ast.AnnAssign(target=target) | ast.AugAssign(target=target):
            return {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))):
            return {name}
    return set()


def _as_load(target: ast.expr) -> ast.expr:
    """The expression that reads an augmented target."""
    match target:
        case ast.Name(id=name):
            return ast.copy_location(ast.Name(name, ast.Load()), target)
        case ast.Attribute(value=value, attr=attr):
            return ast.copy_location(ast.Attribute(value, attr, ast.Load()), target)
        case ast.Subscript(value=value, slice=index):
            return ast.copy_location(ast.Subscript(value, index, ast.Load()), target)
    return target


def _is_main_guard(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"
