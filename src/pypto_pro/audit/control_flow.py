"""Loops, `with` and `try`: which paths they add, and which launches every path passes."""

from __future__ import annotations

import ast
from collections.abc import Callable

from pypto_pro.audit.expressions import constant_truth
from pypto_pro.audit.machine import Arguments, PathEnds, after_loop
from pypto_pro.audit.state import Exit, Flow, State, join_states
from pypto_pro.audit.statements import Statements
from pypto_pro.audit.values import (
    ANY,
    NONE,
    OPAQUE,
    Func,
    Library,
    Many,
    Maybe,
    Opaque,
    Ref,
    Scalar,
    Tensor,
    TorchObject,
    Value,
    join_all,
    options,
)

_ROUNDS = 4  # of a loop body; kinds come to rest after two, launch options in containers may need a third
Try = ast.Try | ast.TryStar


class ControlFlow(Statements):
    """Statements that repeat, suppress or redirect."""

    # -- loops
    def exec_For(self, node: ast.For | ast.AsyncFor) -> Flow:  # noqa: N802
        item = self.iterate(self.evaluate(node.iter), node.iter)

        def head() -> None:
            self.assign(node.target, item)

        return self._loop(node, head, may_skip=True)

    exec_AsyncFor = exec_For  # noqa: N815

    def exec_While(self, node: ast.While) -> Flow:  # noqa: N802
        decided = constant_truth(node.test)
        if decided is False:
            return self.execute(node.orelse)

        def head() -> None:
            self.truth(self.evaluate(node.test), node.test)
            self.assume(node.test, True)

        return self._loop(node, head, may_skip=decided is None)

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, head: Callable[[], None], *, may_skip: bool) -> Flow:
        """Go round until nothing new is learnt. `may_skip`: the loop may end by its own head."""
        before, entry, flow = self.state, self.state.fork(), Flow()
        flow_breaks: list[State] = []
        done_exits: list[Exit] = []
        for _ in range(_ROUNDS):
            self.state = entry.fork()
            self.loops.append(node)
            try:
                head()
                flow = self.execute(node.body)
            except PathEnds:
                flow = Flow()
            finally:
                self.loops.pop()
            flow_breaks, done_exits = flow.breaks, flow.exits
            back = join_states([s for s in (flow.normal, *flow.continues) if s is not None])
            if back is None:
                break
            merged = entry.join(back)
            if merged.same_as(entry):
                break
            entry = merged
        return self._behind_loop(node, before, entry, flow_breaks, done_exits, may_skip=may_skip)

    def _behind_loop(
        self,
        node: ast.For | ast.AsyncFor | ast.While,
        before: State,
        entry: State,
        breaks: list[State],
        exits: list[Exit],
        *,
        may_skip: bool,
    ) -> Flow:
        flow, ends = Flow(exits=exits), [s.fork() for s in breaks]
        if may_skip:
            self.state = entry.fork()
            done = self.execute(node.orelse)
            flow.absorb(done)
            ends += [done.normal] if done.normal is not None else []
        met = join_states(ends)
        if met is not None:
            met = met.fork()
            met.count = after_loop(before.count, met.count)
        flow.normal = met
        return flow

    # -- with
    def exec_With(self, node: ast.With | ast.AsyncWith) -> Flow:  # noqa: N802
        suppresses = False
        instances: list[Value] = []
        for item in node.items:
            value = self.evaluate(item.context_expr)
            suppresses = suppresses or _is_suppress(item.context_expr, value)
            entered = self._enter(value, item.context_expr)
            instances.append(value)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, entered)
        seen: list[State] = [self.state.fork()] if suppresses else []
        if suppresses:
            self.collectors.append(seen)
        flow = self.execute(node.body)
        if suppresses:
            self.collectors.pop()
            flow.normal = join_states([*seen, *([flow.normal] if flow.normal is not None else [])])
        if flow.normal is not None:
            self.state = flow.normal
            for value in reversed(instances):
                self._leave(value, node)
            flow.normal = self.state
        return flow

    exec_AsyncWith = exec_With  # noqa: N815

    def _enter(self, value: Value, node: ast.expr) -> Value:
        """`__enter__` of a context manager."""
        results: list[Value] = []
        for option in options(value):
            match option:
                case Tensor():
                    self.hit("W116", node, option, ": a tensor is no context manager", "with")
                    results.append(OPAQUE)
                case Ref() if (thing := self.object_at(option)).cls is not None:
                    enter = self.class_attribute(thing.cls, "__enter__") if thing.cls is not None else None
                    results.append(
                        self.call_function(enter, Arguments((option,)), node) if isinstance(enter, Func) else option
                    )
                case Many(item=item, kind="iterator"):
                    results.append(item)
                case Maybe():
                    self.unproven(node, option, "what entering it does cannot be seen")
                    results.append(OPAQUE)
                case _:
                    results.append(option if isinstance(option, (Opaque, TorchObject)) else ANY)
        return join_all(results)

    def _leave(self, value: Value, node: ast.AST) -> None:
        """`__exit__` of an instance of the file."""
        for option in options(value):
            if isinstance(option, Ref) and (thing := self.object_at(option)).cls is not None:
                leave = self.class_attribute(thing.cls, "__exit__") if thing.cls is not None else None
                if isinstance(leave, Func) and isinstance(node, (ast.With, ast.AsyncWith)):
                    self.call_function(leave, Arguments((option, NONE, NONE, NONE)), node.items[0].context_expr)

    # -- try
    def exec_Try(self, node: Try) -> Flow:  # noqa: N802
        seen: list[State] = [self.state.fork()]
        self.collectors.append(seen)
        try:
            flow = self.execute(node.body)
        finally:
            self.collectors.pop()
        at_handler = seen[0]
        if flow.normal is not None and node.orelse:
            self.state = flow.normal
            done = self.execute(node.orelse)
            flow.normal = None
            flow.absorb(done)
            flow.normal = done.normal
        ends = [flow.normal] if flow.normal is not None else []
        for handler in node.handlers:
            self.state = at_handler.fork()
            done = self._handle(handler)
            flow.absorb(done)
            ends += [done.normal] if done.normal is not None else []
        flow.normal = join_states(ends)
        self._remember_prefix(at_handler)
        return self._finally(node, flow, at_handler) if node.finalbody else flow

    exec_TryStar = exec_Try  # noqa: N815

    def _handle(self, handler: ast.ExceptHandler) -> Flow:
        if handler.name is not None:
            self.bind(handler.name, Scalar("any"))
        caught = self.source.expression(handler.type) if handler.type is not None else ""
        return self._guarded(handler.body, f"except {caught}".rstrip() + f", line {handler.lineno}")

    def _finally(self, node: Try, flow: Flow, at_handler: State) -> Flow:
        """The final block runs on every way out; what it launches is added to each of them."""
        result = Flow()
        if flow.normal is not None:
            self.state = flow.normal
            done = self.execute(node.finalbody)
            result.absorb(done)
            result.normal = done.normal
        for way, kept in ((flow.breaks, result.breaks), (flow.continues, result.continues)):
            for state in way:
                self.state = state.fork()
                done = self.execute(node.finalbody)
                kept += [done.normal] if done.normal is not None else []
        for leave in flow.exits:
            self.state = leave.state.fork()
            done = self.execute(node.finalbody)
            result.absorb(done)
            if done.normal is not None:
                result.exits.append(Exit(done.normal, leave.value, leave.node, leave.kind, leave.guard))
        if flow.normal is None and not flow.exits:
            self.state = at_handler.fork()
            result.absorb(self.execute(node.finalbody))
        return result


def _is_suppress(node: ast.expr, value: Value) -> bool:
    return isinstance(node, ast.Call) and isinstance(value, Library) and value.qualname == "contextlib.suppress()"
