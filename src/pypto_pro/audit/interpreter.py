"""One audit of one wrapper: import the module in the abstract, call the wrapper, go round until the evidence is
complete.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from pypto_pro.audit.machine import Arguments, BudgetExceeded, PathEnds
from pypto_pro.audit.parameters import ParameterKind, Parameters
from pypto_pro.audit.source import Source
from pypto_pro.audit.state import Count, Exit, join_states
from pypto_pro.audit.trace import Allocation, Event, Launch
from pypto_pro.audit.values import OPAQUE, ClassValue, Func, Method, Partial, Value, options

_ROUNDS = 5  # evidence about parameters: each round can decide at least one more


@dataclass
class Interpretation:
    """Everything one wrapper's abstract execution showed."""

    machine: Interpreter
    events: list[Event]
    exits: list[Exit]
    parameters: list[ParameterKind]
    finished: bool = True  # false when the budget ran out
    resolved: bool = True  # false when the name holds nothing that can be followed
    limits: list[str] = field(default_factory=list)
    kept: frozenset[str] = frozenset()
    """Allocation sites whose tensor of one call is what a later call launches on."""


class Interpreter(Parameters):
    """The complete machine."""

    def __init__(self, source: Source, known: dict[str, str] | None = None) -> None:
        super().__init__(source, known)
        self.memory = {}
        self.active = []
        self.yielded = []
        self.recursions = []
        self.root_exits = []

    def import_module(self) -> None:
        """Evaluate the module body; what it breaks is kept for the wrappers that use the names it binds."""
        try:
            flow = self.execute(self.source.tree.body)
            if flow.normal is not None:
                self.state = flow.normal
        except (BudgetExceeded, RecursionError):
            self.limit("a module-level loop or branch is too large to evaluate completely")
        self.chain, self.frame = (), 0

    def call_round(self, known: dict[str, str]) -> Interpreter:
        """A machine in the state after the import, ready to call a wrapper with what is known about its parameters."""
        machine = Interpreter(self.source, known)
        machine.importing = False
        machine.state = self.state.fork()
        machine.deferred, machine.facts, machine.star_torch = self.deferred, self.facts, self.star_torch
        machine.scopes, machine.captured = dict(self.scopes), set(self.captured)
        machine._keys = dict(self._keys)
        machine.limits = dict(self.limits)
        return machine

    def run_wrapper(self, name: str) -> Interpretation:
        """Call the wrapper `name` (or `Class.method`) with unknown arguments of the kinds known so far."""
        owner, _, member = name.rpartition(".")
        parameters: list[ParameterKind] = []
        finished, resolved = True, True
        try:
            value = self.lookup(name if not owner else owner.split(".")[0])
            value, args, parameters = self._entry(value, member if owner else "")
            resolved = value is not OPAQUE
            if resolved:
                node = self.source.functions.get(name)
                place = node if node is not None else self.source.tree.body[0]
                self.call_value(value, args, _anchor(place))
        except PathEnds:
            pass
        except BudgetExceeded:
            finished = False
            self.limit("the wrapper is too large: the audit stopped before its end")
        except RecursionError:
            finished = False
            self.limit("an expression is nested too deeply: the audit stopped there")
        return Interpretation(self, self.trace, self.root_exits, parameters, finished, resolved, list(self.limits))

    def _entry(self, value: Value, member: str) -> tuple[Value, Arguments, list[ParameterKind]]:
        """The callable behind a wrapper's name, and arguments for it."""
        for option in options(value):
            if member and isinstance(option, ClassValue):
                method = self.class_attribute(option, member)
                if isinstance(method, Func):
                    option = method
            func = option
            while isinstance(func, (Partial, Method)):
                func = func.func
            if isinstance(func, Func):
                args, parameters = self.parameter_values(func)
                return option, args, parameters
        found = next((v for v in options(value) if not isinstance(v, type(OPAQUE))), OPAQUE)
        return found, Arguments(), []


def import_source(source: Source) -> Interpreter:
    """The file, imported in the abstract: every wrapper starts from here."""
    machine = Interpreter(source)
    machine.import_module()
    return machine


def interpret(imported: Interpreter, wrapper: str) -> Interpretation:
    """Interpret `wrapper` until its parameters' kinds stop changing."""
    known: dict[str, str] = {}
    for _ in range(_ROUNDS):
        machine = imported.call_round(known)
        result = machine.run_wrapper(wrapper)
        merged = {**known, **{k: v for k, v in machine.evidence.items() if k not in known or known[k] != "object"}}
        if merged == known or not result.finished:
            break
        known = merged
    result.kept = _kept_for_later(imported, wrapper, known, result)
    return result


def _kept_for_later(
    imported: Interpreter, wrapper: str, known: dict[str, str], first: Interpretation
) -> frozenset[str]:
    """What a second call launches on of the first call's allocations: those left where they outlive it."""
    made = {e.site for e in first.events if isinstance(e, Allocation)}
    left = join_states([leave.state for leave in first.exits])
    if not made or left is None or not first.finished:
        return frozenset()
    machine, older = first.machine, imported.state
    machine.state = left
    names = [value for frame in older.frames for value in left.frames.get(frame, {}).values()]
    objects = [value for key in older.heap if key in left.heap for value in left.heap[key].elements()]
    if made.isdisjoint(machine.sources_of(*names, *objects)):
        return frozenset()
    again = imported.call_round(known)
    again.state, again._keys, again.call = left.fork(), dict(machine._keys), "again:"
    again.state.count = Count()
    second = again.run_wrapper(wrapper)
    launches = [e for e in second.events if isinstance(e, Launch)]
    return again.sources_of(*(value for launch in launches for _, value in launch.arguments)) & made


def _anchor(node: ast.AST) -> ast.expr:
    """An expression standing at the head of the wrapper's definition, as the place of the outermost call."""
    head = ""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        head = f"{'async def' if isinstance(node, ast.AsyncFunctionDef) else 'def'} {node.name}"
    line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
    place = {"lineno": line, "col_offset": column, "end_lineno": line, "end_col_offset": column + len(head)}
    return ast.Name("wrapper", ast.Load(), **place)
