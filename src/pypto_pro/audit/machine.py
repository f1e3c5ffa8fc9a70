"""The part of the interpreter the others stand on: state, scopes, look-up of names, and writing down what was
observed.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from pypto_pro.audit.names import star_names
from pypto_pro.audit.rules import RULES
from pypto_pro.audit.source import Source
from pypto_pro.audit.state import Count, Flow, HeapObject, State
from pypto_pro.audit.trace import Called, Chain, Event, Hit, Unproven
from pypto_pro.audit.values import (
    OPAQUE,
    Builtin,
    ClassValue,
    Library,
    Many,
    Maybe,
    MethodOf,
    Opaque,
    Partial,
    Ref,
    Scalar,
    Tensor,
    Torch,
    Tuple,
    Union,
    Value,
    options,
)

BUDGET = 100_000  # syntax nodes interpreted for one wrapper; beyond it the rest is unproven
IMPORT_BUDGET = 20_000  # for one module-level statement; beyond it the names it binds are of unknown kind
DEEPEST_CALL = 24
_BUILTIN_NAMES = frozenset(dir(builtins))
_RANK = {"scalar": 1, "tensor": 2, "object": 3}


class PathEnds(Exception):  # control flow of the interpreter, not an error
    """The current path does not continue: it raised, or called something that never returns."""


class BudgetExceeded(Exception):
    """Too much work for one wrapper."""


@dataclass(frozen=True)
class Arguments:
    """Evaluated call arguments. `star` describes positional values of unknown number, which follow `positional`."""

    positional: tuple[Value, ...] = ()
    keywords: dict[str, Value] = field(default_factory=dict)
    star: Value | None = None
    double_star: Value | None = None
    nodes: tuple[ast.expr, ...] = ()
    keyword_nodes: dict[str, ast.expr] = field(default_factory=dict)

    def all(self) -> list[Value]:
        """Every value handed over."""
        extra = [v for v in (self.star, self.double_star) if v is not None]
        return [*self.positional, *self.keywords.values(), *extra]

    def prepend(self, *values: Value) -> Arguments:
        """The same arguments with others in front: a receiver, or what a partial holds."""
        return replace(self, positional=(*values, *self.positional), nodes=())

    def get(self, position: int, name: str) -> Value | None:
        """An argument by position or keyword."""
        if position < len(self.positional):
            return self.positional[position]
        return self.keywords.get(name)


@dataclass
class Scope:
    """Static facts of one open scope: how names in it resolve."""

    kind: str  # module, function, class
    parent: int | None
    assigned: frozenset[str] = frozenset()
    global_names: frozenset[str] = frozenset()
    nonlocal_names: frozenset[str] = frozenset()


class Machine:
    """State of one interpretation. The mix-ins in the neighbouring modules give it its abilities."""

    def __init__(self, source: Source, known: dict[str, str] | None = None) -> None:
        self.source = source
        self.state = State()
        self.trace: list[Event] = []
        self.chain: Chain = ()
        self.loops: list[ast.AST] = []
        self.guards: list[str] = []
        self.collectors: list[list[State] | None] = []
        self.known = known or {}
        self.evidence: dict[str, str] = {}
        self.limits: dict[str, None] = {}
        self.steps = 0
        self.importing = True
        self.call = ""  # told apart in the names of allocation sites when a wrapper is called a second time
        self.launched_before = False  # in a caller of the function being interpreted
        self.deferred: dict[str, list[Event]] = {}
        self.scopes: dict[int, Scope] = {0: Scope("module", None)}
        self.frame = 0
        self.star_torch = False
        self.captured: set[int] = set()  # frames a closure refers to
        self.deepest = 0
        self.functions_entered: set[int] = set()
        self.site_names: dict[str, str] = {}  # the variable that first held the result of an allocation site
        self._keys: dict[tuple[object, ...], int] = {}
        self.state.open_frame(0)

    # -- supplied by the mix-ins
    def evaluate(self, node: ast.expr) -> Value:
        """The description of an expression; observations go to the trace."""
        raise NotImplementedError

    def execute(self, body: list[ast.stmt]) -> Flow:
        """Run a block from the current state."""
        raise NotImplementedError

    def call_value(self, callee: Value, args: Arguments, node: ast.expr) -> Value:
        """The result of calling a value."""
        raise NotImplementedError

    def special(self, value: Value, name: str, node: ast.AST, *args: Value) -> Value | None:
        """What a special method of an instance of the file returns; None when no alternative has one."""
        raise NotImplementedError

    def spend(self, steps: int) -> None:
        """Count work against the budget of one wrapper."""
        self.steps += steps
        if self.steps > (IMPORT_BUDGET if self.importing else BUDGET):
            raise BudgetExceeded

    # -- scopes
    def stable_key(self, *parts: object) -> int:
        """A number for one site reached by one chain of calls: the same on every round of a loop."""
        return self._keys.setdefault((*parts, self.chain), len(self._keys) + 1)

    def lookup(self, name: str, line: int = 0) -> Value:
        """What a name holds here. `line` is where it is read."""
        frame: int | None = self.frame
        scope = self.scopes[self.frame]
        if name in scope.global_names:
            frame = 0
        elif name in scope.nonlocal_names:
            frame = scope.parent
        while frame is not None:
            scope = self.scopes[frame]
            names = self.state.frames.get(frame, {})
            if name in names and not (scope.kind == "class" and frame != self.frame):
                if frame == 0:
                    self._use_of_module_value(name, line)
                return names[name]
            if scope.kind == "function" and name in scope.assigned and frame == self.frame:
                return OPAQUE  # not bound yet: Python raises
            frame = scope.parent
        return self._outside_name(name)

    def _outside_name(self, name: str) -> Value:
        if self.star_torch and name in star_names():
            return Torch(f"torch.{name}")
        if name in _BUILTIN_NAMES:
            return Builtin(name)
        if name in ("__name__", "__file__", "__doc__", "__qualname__"):
            return Scalar("str")
        return Library("external", name)

    def bind(self, name: str, value: Value) -> None:
        """`name = value` in the scope Python would choose."""
        scope = self.scopes[self.frame]
        frame: int | None = self.frame
        if name in scope.global_names:
            frame = 0
        elif name in scope.nonlocal_names:
            frame = scope.parent
            while frame is not None and name not in self.state.frames.get(frame, {}):
                frame = self.scopes[frame].parent
        self.state.bind(0 if frame is None else frame, name, value)

    # -- observations
    def note(self, event: Event) -> None:
        """Write down one observation."""
        self.trace.append(event)

    def hit(self, code: str, node: ast.AST, value: Value | None = None, detail: str = "", member: str = "") -> None:
        """Write down that `node` breaks a rule. `value` is the tensor concerned, `detail` ends the sentence."""
        subject, origin = "", None
        if isinstance(value, Tensor):
            subject, origin = value.label, value.node
        elif isinstance(value, Maybe):
            subject = value.key
        message = f"`{self.source.expression(node)}` {RULES[code].phrase}{detail}"
        after = self.launched_before or self.state.count.high > 0
        self.note(Hit(code, node, self.chain, subject, message, member, origin, after))

    def unproven(self, node: ast.AST, value: Value, why: str) -> None:
        """Write down that an operator met a value of unknown kind."""
        subject = value.key if isinstance(value, Maybe) else self.source.expression(node)
        self.note(Unproven(node, self.chain, subject, why))

    def called(
        self, node: ast.AST, callee: ast.AST, verdict: str, code: str | None = None, *, resolved: bool = True
    ) -> None:
        """Write down how a call was classified."""
        self.note(Called(node, self.source.expression(callee), resolved, verdict, code))

    def limit(self, text: str) -> None:
        """Say once where the audit stopped looking."""
        self.limits.setdefault(text)

    @contextmanager
    def aside(self) -> Iterator[list[Event]]:
        """Collect observations apart from the main trace."""
        kept, self.trace = self.trace, []
        try:
            yield self.trace
        finally:
            self.trace = kept

    def _use_of_module_value(self, name: str, line: int) -> None:
        """Report what evaluating a module-level value broke, now that the wrapper uses it."""
        for event in self.deferred.get(name, ()):
            if isinstance(event, Hit):
                self.note(replace(event, chain=self.chain, used_at=line or event.used_at))
            elif isinstance(event, Unproven):
                self.note(replace(event, chain=self.chain))

    # -- values of unknown kind
    def unknown(self, key: str, node: ast.AST | None = None) -> Value:
        """The value the author reaches by `key`, with the kind that evidence of the previous round gave it."""
        kind = self.known.get(key)
        if kind == "tensor":
            return Tensor("param", key, frozenset((f"param:{key}",)), node)
        return Scalar("any") if kind == "scalar" else Maybe(key)

    def learn(self, value: Value, kind: str) -> None:
        """Evidence that a value of unknown kind is a `tensor`, a `scalar` or an `object` of another class."""
        for option in options(value):
            if isinstance(option, Maybe):
                keys = {option.key} | (option.roots if kind == "scalar" else frozenset())
                for key in keys - {""}:
                    if _RANK[kind] > _RANK.get(self.evidence.get(key, ""), 0):
                        self.evidence[key] = kind

    # -- heap and containers
    def allocate(self, site: object, thing: HeapObject) -> Ref:
        """A new mutable object. On a second round of a loop it is joined with the object of the first."""
        key = self.stable_key("heap", site)
        old = self.state.heap.get(key)
        self.state.heap[key] = thing if old is None or not self.loops else old.join(thing)
        return Ref(key)

    def object_at(self, ref: Ref) -> HeapObject:
        """The object behind a reference."""
        return self.state.heap.get(ref.key) or HeapObject("instance")

    def inside(self, value: Value, depth: int = 4) -> Iterator[Value]:
        """The value and everything it holds, a few levels deep."""
        yield value
        if depth == 0:
            return
        held: tuple[Value, ...] | list[Value] = ()
        match value:
            case Union(options=choices):
                held = choices
            case Tuple(items=items):
                held = items
            case Many(item=item):
                held = (item,)
            case Ref():
                held = self.object_at(value).elements()
            case Partial(args=args, keywords=keywords):
                held = [*args, *(v for _, v in keywords)]
            case MethodOf(owner=owner):
                held = (owner,)
        for part in held:
            yield from self.inside(part, depth - 1)

    def tensor_in(self, value: Value, *, deep: bool = True) -> Tensor | None:
        """A tensor the value is, or (deep) holds."""
        for part in self.inside(value, 4 if deep else 1):
            if isinstance(part, Tensor):
                return part
        return None

    def tensor_option(self, value: Value) -> Tensor | None:
        """The tensor among the alternatives of a value."""
        return next((v for v in options(value) if isinstance(v, Tensor)), None)

    def maybe_option(self, value: Value) -> Maybe | None:
        """The value of unknown kind among the alternatives."""
        return next((v for v in options(value) if isinstance(v, Maybe)), None)

    def sources_of(self, *values: Value) -> frozenset[str]:
        """Allocation sites and parameters whose bytes the values may show."""
        found: set[str] = set()
        for value in values:
            for part in self.inside(value):
                if isinstance(part, (Tensor, Opaque)):
                    found |= part.sources
        return frozenset(found)

    def derived(self, node: ast.AST, *values: Value) -> Tensor:
        """The tensor an operation makes of others."""
        return Tensor("derived", self.source.expression(node), self.sources_of(*values), node)

    # -- branches
    def either(self, choices: list[Callable[[], Value]]) -> list[Value]:
        """Run alternatives from the same state; afterwards the state is their join. Raises PathEnds when none
        continues.
        """
        start, results, ends = self.state, [], []
        for choice in choices:
            self.state = start.fork()
            try:
                results.append(choice())
            except PathEnds:
                continue
            ends.append(self.state)
        if not ends:
            self.state = start
            raise PathEnds
        met = ends[0]
        for state in ends[1:]:
            met = met.join(state)
        self.state = met
        return results

    @contextmanager
    def looping(self, loop: ast.AST) -> Iterator[None]:
        """Inside a host loop: every launch is one launch too many. Afterwards the loop may also not have run."""
        before = self.state.fork()
        self.loops.append(loop)
        try:
            yield
        finally:
            self.loops.pop()
        met = before.join(self.state)
        met.count = after_loop(before.count, met.count)
        self.state = met


def after_loop(before: Count, met: Count) -> Count:
    """The launch count behind a loop: a launch inside it is reported there and not again as a path without one."""
    return replace(met, reached=max(met.reached, min(2, before.reached + 1))) if met.high > before.high else met


def class_chain(cls: ClassValue) -> Iterator[Value]:
    """A class and its bases, nearest first."""
    yield cls
    for base in cls.bases:
        if isinstance(base, ClassValue):
            yield from class_chain(base)
        else:
            yield base


def torch_base(cls: ClassValue) -> str:
    """`function` for a subclass of `torch.autograd.Function`, `module` for one of `torch.nn.Module`, else nothing."""
    for part in class_chain(cls):
        if isinstance(part, Torch):
            return (
                "function"
                if part.qualname.startswith("torch.autograd")
                else "module"
                if part.qualname.startswith("torch.nn")
                else ""
            )
    return ""
