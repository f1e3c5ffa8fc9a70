"""Functions and classes of the file: followed with the values they really get, remembered where that is sound."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from functools import lru_cache

from pypto_pro.audit.calls import Calls
from pypto_pro.audit.machine import DEEPEST_CALL, Arguments, PathEnds, Scope, after_loop, torch_base
from pypto_pro.audit.state import Count, Exit, HeapObject, join_states
from pypto_pro.audit.trace import Allocation, Entered, Event, Hit, Launch, Unproven
from pypto_pro.audit.values import (
    ANY,
    NONE,
    OPAQUE,
    ClassValue,
    Func,
    Many,
    Ref,
    Value,
    join,
    join_all,
    options,
    tuple_of,
)

FunctionLike = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True)
class Remembered:
    """The effect of one call of a function that allocates nothing and writes no outer name."""

    value: Value
    count: Count
    events: tuple[Event, ...]


class Functions(Calls):
    """Following calls into the file."""

    memory: dict[tuple[object, ...], Remembered]
    active: list[FunctionLike]

    # -- functions of the file
    def call_function(self, func: Func, args: Arguments, node: ast.expr) -> Value:
        """Interpret the body of a function with these arguments, or recall what it did with equal ones."""
        if func.flavour == "cached" and any(self.tensor_in(v) is not None for v in args.all()):
            self.hit("W116", node, None, ": a cache keeps the tensors it is given alive and hashes them", "lru_cache")
        if any(active is func.node for active in self.active):
            return self._recursive_call(func, node)
        if len(self.chain) >= DEEPEST_CALL:
            self.limit(f"calls nested deeper than {DEEPEST_CALL} are not followed")
            self.unproven(node, OPAQUE, "the call chain is too deep to follow")
            return OPAQUE
        if self.chain:
            self.called(node, node.func if isinstance(node, ast.Call) else node, "local")
        key = self._memory_key(func, args)
        remembered = self.memory.get(key) if key is not None else None
        if remembered is not None:
            return self._replay(remembered, func, node)
        return self._interpret(func, args, node, key)

    def _memory_key(self, func: Func, args: Arguments) -> tuple[object, ...] | None:
        """Equal keys mean equal effects: same function, same values, same closure, same loop context. None: do not
        remember.
        """
        if any(isinstance(part, Ref) for value in args.all() for part in self.inside(value)):
            return None
        if func.frame != 0:
            return None
        keywords = tuple(sorted(args.keywords.items()))
        in_loop = bool(self.loops)
        after = self.launched_before or self.state.count.high > 0
        return (func.node, args.positional, keywords, args.star, args.double_star, in_loop, after, self.importing)

    def _replay(self, remembered: Remembered, func: Func, node: ast.expr) -> Value:
        """Report once more what a call with equal arguments did, under this chain of calls."""
        entry = (*self.chain, (function_name(func.node), getattr(node, "lineno", 0)))
        depth = len(entry)
        for event in remembered.events:
            if isinstance(event, (Hit, Launch, Unproven)):
                event = replace(event, chain=(*entry, *event.chain[depth:]))
            self.note(event)
        self.state.count = self.state.count.plus(remembered.count)
        return remembered.value

    def _interpret(self, func: Func, args: Arguments, node: ast.expr, key: tuple[object, ...] | None) -> Value:
        """Run a function body in a scope of its own; the launch count continues, exits meet behind the call."""
        name = function_name(func.node)
        self.spend(len(self.state.heap))
        caller_chain, caller_frame = self.chain, self.frame
        self.chain = (*caller_chain, (name, getattr(node, "lineno", 0)))
        self.deepest = max(self.deepest, len(self.chain))
        self.functions_entered.add(id(func.node))
        self.note(Entered(func.node, name))
        frame = self.open_scope(func)
        self.state.share()
        heap_before, outer_before = dict(self.state.heap), self._outer(frame)
        count, launched = self.state.count, self.launched_before
        self.launched_before = launched or count.high > 0
        self.state.count = Count()
        mark = len(self.trace)
        self.bind_parameters(func, args, frame)
        self.frame = frame
        self.active.append(func.node)
        try:
            value = self._body_value(func)
        finally:
            self.active.pop()
            self.chain, self.frame = caller_chain, caller_frame
            self.launched_before = launched
            inner, self.state.count = self.state.count, count.plus(self.state.count)
        self._judge_recursion(func, inner)
        pure = self.state.heap == heap_before and self._outer(frame) == outer_before and frame not in self.captured
        if frame not in self.captured:
            self.state.close_frame(frame)
        if key is not None and pure and not self._allocates(mark):
            self.memory[key] = Remembered(value, inner, tuple(self.trace[mark:]))
        return value

    def _allocates(self, mark: int) -> bool:
        return any(isinstance(event, Allocation) for event in self.trace[mark:])

    def _outer(self, frame: int) -> dict[int, dict[str, Value]]:
        return {k: v for k, v in self.state.frames.items() if k != frame}

    def open_scope(self, func: Func) -> int:
        """A scope for one activation of a function."""
        frame = self.stable_key("frame", func.node)
        self.scopes[frame] = function_scope(func.node, func.frame)
        self.state.open_frame(frame)
        return frame

    def _body_value(self, func: Func) -> Value:
        """What the body returns, joined over its normal exits; a generator returns what it yields."""
        if isinstance(func.node, ast.Lambda):
            value = self.evaluate(func.node.body)
            self._keep_root_exits([Exit(self.state, value, func.node.body, "return", "")])
            return value
        generator = is_generator(func.node)
        kept, self.yielded = getattr(self, "yielded", []), []
        guards, self.guards = self.guards, []
        self.collectors.append(None)
        start = self.state.count
        if generator:
            self.loops.append(func.node)
        try:
            flow = self.execute(func.node.body)
        finally:
            if generator:
                self.loops.pop()
            self.collectors.pop()
            made, self.yielded = self.yielded, kept
            self.guards = guards
        exits = list(flow.exits)
        if flow.normal is not None:
            exits.append(Exit(flow.normal, NONE, func.node, "fallthrough", ""))
        if generator:
            exits = [replace(e, value=Many(join_all([*made, e.value]), "iterator")) for e in exits]
        self._keep_root_exits(exits)
        met = join_states([e.state for e in exits])
        if met is None:
            raise PathEnds
        self.state = met
        if generator:
            met.count = after_loop(start, met.count)
        return join_all([e.value for e in exits])

    def _keep_root_exits(self, exits: list[Exit]) -> None:
        """The ways out of the wrapper itself are judged one by one."""
        if len(self.active) == 1:
            self.root_exits += exits

    root_exits: list[Exit]

    def _recursive_call(self, func: Func, node: ast.expr) -> Value:
        """A call of a function that is being interpreted: judged when that function is done."""
        self.recursions.append((func.node, node))
        return OPAQUE

    def _judge_recursion(self, func: Func, inner: Count) -> None:
        """A function that launches and calls itself launches in a loop."""
        own = [node for target, node in self.recursions if target is func.node]
        self.recursions = [(target, node) for target, node in self.recursions if target is not func.node]
        if inner.high > 0:
            for node in own:
                self.hit("W122", node, None, f": `{function_name(func.node)}` launches and calls itself", "recursion")

    recursions: list[tuple[FunctionLike, ast.expr]]

    def bind_parameters(self, func: Func, args: Arguments, frame: int) -> None:
        """Give every parameter the description of its argument."""
        spec, defaults = func.node.args, dict(func.defaults)
        named = [*spec.posonlyargs, *spec.args]
        for position, arg in enumerate(named):
            value = args.get(position, arg.arg)
            if value is None and args.star is not None and position >= len(args.positional):
                value = join(args.star, defaults[arg.arg]) if arg.arg in defaults else args.star
            self.state.bind(frame, arg.arg, self._given(value, arg.arg, args, defaults))
        if spec.vararg is not None:
            extra = list(args.positional[len(named) :])
            rest = Many(join_all([*extra, args.star]), "tuple") if args.star is not None else tuple_of(extra)
            self.state.bind(frame, spec.vararg.arg, rest)
        for arg in spec.kwonlyargs:
            self.state.bind(frame, arg.arg, self._given(args.keywords.get(arg.arg), arg.arg, args, defaults))
        if spec.kwarg is not None:
            known = {a.arg for a in (*named, *spec.kwonlyargs)}
            entries: dict[object, Value] = {k: v for k, v in args.keywords.items() if k not in known}
            self.state.bind(
                frame, spec.kwarg.arg, self.allocate(spec.kwarg, HeapObject("dict", None, args.double_star, entries))
            )

    def _given(self, value: Value | None, name: str, args: Arguments, defaults: dict[str, Value]) -> Value:
        if value is not None:
            return value
        if args.double_star is not None:
            return join(args.double_star, defaults[name]) if name in defaults else args.double_star
        return defaults.get(name, OPAQUE)

    def call_property(self, func: Func, owner: Ref, node: ast.expr) -> Value:
        """Reading a property runs its getter."""
        return self.call_function(func, Arguments((owner,)), node)

    # -- classes of the file
    def construct(self, cls: ClassValue, args: Arguments, node: ast.expr) -> Value:
        """`Class(...)`: run `__init__`, or keep the arguments by field as a dataclass or named tuple does."""
        instance = self.allocate(node, HeapObject("instance", None, None, {}, cls))
        init = self.class_attribute(cls, "__init__")
        if isinstance(init, Func):
            self.call_function(init, args.prepend(instance), node)
            return instance
        fields = [s.target.id for s in cls.node.body if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)]
        entries: dict[object, Value] = dict(zip(fields, args.positional, strict=False))
        entries.update(args.keywords)
        extra = [*args.positional[len(fields) :], *(v for v in (args.star, args.double_star) if v is not None)]
        self.state.heap[instance.key] = HeapObject("instance", None, join_all(extra) if extra else None, entries, cls)
        self.special(instance, "__post_init__", node)
        return instance

    def call_instance(self, owner: Ref, args: Arguments, node: ast.expr) -> Value:
        """`instance(...)`: `__call__`, or the forward of a torch module."""
        thing = self.object_at(owner)
        if thing.cls is None:
            return self._call_unknown(ANY, args, node)
        call = self.class_attribute(thing.cls, "__call__")
        if isinstance(call, Func):
            return self.call_function(call, args.prepend(owner), node)
        if torch_base(thing.cls) == "module":
            self.hit("W118", node, None, f": `{thing.cls.node.name}` is a torch module", thing.cls.node.name)
            forward = self.class_attribute(thing.cls, "forward")
            if isinstance(forward, Func):
                return self.call_function(forward, args.prepend(owner), node)
            return OPAQUE
        return self._call_unknown(ANY, args, node)

    def special(self, value: Value, name: str, node: ast.AST, *args: Value) -> Value | None:
        """`__add__`, `__bool__`, ...: operators on instances of the file's own classes run the author's code."""
        results = []
        for option in options(value):
            thing = self.object_at(option) if isinstance(option, Ref) else None
            method = self.class_attribute(thing.cls, name) if thing is not None and thing.cls is not None else None
            if isinstance(method, Func):
                place = ast.copy_location(ast.Name(name, ast.Load()), node)
                results.append(self.call_function(method, Arguments((option, *args)), place))
        return join_all(results) if results else None

    def instance_subscript(self, owner: Ref, index: Value, node: ast.Subscript) -> Value:
        """`instance[index]`."""
        thing = self.object_at(owner)
        getter = self.class_attribute(thing.cls, "__getitem__") if thing.cls is not None else None
        if isinstance(getter, Func):
            return self.call_function(getter, Arguments((owner, index)), node)
        return join_all(thing.elements()) if thing.kind == "instance" else ANY


def function_name(node: FunctionLike) -> str:
    """The author's name of a function."""
    return "<lambda>" if isinstance(node, ast.Lambda) else node.name


@lru_cache(maxsize=4096)
def is_generator(node: FunctionLike) -> bool:
    """Whether calling the function makes a generator."""
    pending: list[ast.AST] = list(ast.iter_child_nodes(node))
    while pending:
        part = pending.pop()
        if isinstance(part, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            pending += ast.iter_child_nodes(part)
    return False


def function_scope(node: FunctionLike, parent: int) -> Scope:
    """The scope of one activation of a function."""
    assigned, outer, enclosing = name_sets(node)
    return Scope("function", parent, assigned - outer - enclosing, outer, enclosing)


@lru_cache(maxsize=4096)
def name_sets(node: FunctionLike) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """Names a function body binds, and those it declares `global` and `nonlocal`."""
    assigned, outer, enclosing = set[str](), set[str](), set[str]()
    pending: list[ast.AST] = [node.body] if isinstance(node, ast.Lambda) else list(node.body)
    while pending:
        part = pending.pop()
        match part:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                assigned.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                assigned.add(name)
                pending += part.decorator_list
                continue
            case ast.Lambda():
                continue
            case ast.Global(names=names):
                outer.update(names)
            case ast.Nonlocal(names=names):
                enclosing.update(names)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                assigned.update((a.asname or a.name).split(".")[0] for a in aliases)
            case (
                ast.ExceptHandler(name=str() as name)
                | ast.MatchAs(name=str() as name)
                | ast.MatchStar(name=str() as name)
            ):
                assigned.add(name)
        pending += ast.iter_child_nodes(part)
    return frozenset(assigned), frozenset(outer), frozenset(enclosing)
