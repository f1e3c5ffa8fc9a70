"""Evaluation of expressions to descriptions. Every kind of node Python parses is handled; unknown ones yield a plain
value.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import ClassVar

from pypto_pro.audit.machine import PathEnds, class_chain
from pypto_pro.audit.names import member_code, torch_names
from pypto_pro.audit.operators import Operators
from pypto_pro.audit.state import HeapObject
from pypto_pro.audit.values import (
    ANY,
    BOOL,
    FLOAT,
    INT,
    NONE,
    OPAQUE,
    STR,
    Bound,
    ClassValue,
    Func,
    Kernel,
    Language,
    Launcher,
    Library,
    Many,
    Maybe,
    Method,
    Opaque,
    Partial,
    Ref,
    Scalar,
    Tensor,
    Torch,
    TorchObject,
    Tuple,
    Union,
    Value,
    join_all,
    options,
    tuple_of,
)

Comprehension = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp


class Expressions(Operators):
    """`evaluate` and one method a kind of expression."""

    _methods: ClassVar[dict[type, Callable[..., Value]]] = {}  # filled as kinds of expressions are met

    def evaluate(self, node: ast.expr) -> Value:
        """The description of an expression. Raises PathEnds when evaluating it never finishes."""
        self.spend(1)
        kind = type(node)
        if kind not in self._methods:
            self._methods[kind] = getattr(type(self), f"eval_{kind.__name__}", type(self).eval_other)
        return self._methods[kind](self, node)

    def eval_other(self, node: ast.expr) -> Value:
        """A kind of expression this version does not know: its parts are looked at all the same."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.evaluate(child)
        return ANY

    # -- atoms
    def eval_Constant(self, node: ast.Constant) -> Value:  # noqa: N802
        value = node.value
        match value:
            case None:
                return NONE
            case bool():
                return Scalar("bool", value)
            case int():
                return Scalar("int", value)
            case str():
                return Scalar("str", value)
            case float():
                return FLOAT
        return ANY

    def eval_Name(self, node: ast.Name) -> Value:  # noqa: N802
        return self.lookup(node.id, node.lineno)

    def eval_NamedExpr(self, node: ast.NamedExpr) -> Value:  # noqa: N802
        value = self.evaluate(node.value)
        self.assign(node.target, value)
        return value

    def assign(self, target: ast.expr, value: Value) -> None:
        """Bind a target; supplied by the statements."""
        raise NotImplementedError

    # -- attributes
    def eval_Attribute(self, node: ast.Attribute) -> Value:  # noqa: N802
        return self.attribute(self.evaluate(node.value), node.attr, node)

    def attribute(self, owner: Value, name: str, node: ast.expr) -> Value:
        """`owner.name`, read and not called."""
        choices = [v for v in options(owner) if v != NONE] or [ANY]
        return join_all([self._attribute_one(option, name, node) for option in choices])

    def _attribute_one(self, owner: Value, name: str, node: ast.expr) -> Value:
        match owner:
            case Tensor():
                return self.tensor_attribute(owner, name, node)
            case Maybe():
                return self.maybe_attribute(owner, name, node)
            case Torch(qualname=qualname):
                return self._torch_attribute(qualname, name)
            case Library(group=group, qualname=qualname):
                return Library(group, f"{qualname}.{name}")
            case Language(qualname=qualname, pro=pro):
                return Language(f"{qualname}.{name}", pro)
            case Ref() | ClassValue():
                return self._object_attribute(owner, name, node)
            case TorchObject(qualname=qualname):
                return TorchObject(f"{qualname}.{name}")
            case Opaque():
                return owner
            case Bound(owner=tensor) | Method(receiver=tensor) if name == "__self__":
                return tensor
            case Func() | Method() | Kernel() | Launcher() | Partial() | Bound() if name == "__call__":
                return owner
        return self.method_value(owner, name)

    def _torch_attribute(self, qualname: str, name: str) -> Value:
        full = f"{qualname}.{name}"
        if qualname == "torch" and name in torch_names().constants:
            return ANY
        return Torch(full)

    def _object_attribute(self, owner: Ref | ClassValue, name: str, node: ast.expr) -> Value:
        """An attribute of an instance or class of the file, or a method of a builtin container."""
        cls = owner
        if isinstance(owner, Ref):
            thing = self.object_at(owner)
            if thing.kind != "instance":
                return self.method_value(owner, name)
            if name in thing.entries:
                return thing.entries[name]
            if thing.cls is None:
                return ANY
            cls = thing.cls
        assert isinstance(cls, ClassValue)
        found = self.class_attribute(cls, name)
        if isinstance(found, Func) and found.flavour == "property" and isinstance(owner, Ref):
            return self.call_property(found, owner, node)
        if isinstance(found, Func) and (isinstance(owner, Ref) or found.flavour == "class"):
            return found if found.flavour == "static" else Method(found, owner)
        if found is not None:
            return found
        dynamic = self.special(owner, "__getattr__", node, Scalar("str", name))
        return dynamic if dynamic is not None else self.outside_attribute(cls, name)

    def call_property(self, func: Func, owner: Ref, node: ast.expr) -> Value:
        """A property is read; supplied by the calls."""
        raise NotImplementedError

    def class_attribute(self, cls: ClassValue, name: str) -> Value | None:
        """A name in the body of the class or of a base in this file."""
        for part in class_chain(cls):
            if isinstance(part, ClassValue):
                names = self.state.frames.get(part.frame, {})
                if name in names:
                    return names[name]
        return None

    def outside_attribute(self, cls: ClassValue, name: str) -> Value:
        """An attribute that no class of the file defines: it comes from a base elsewhere."""
        for part in class_chain(cls):
            if isinstance(part, Torch):
                return TorchObject(f"{part.qualname}.{name}")
            if isinstance(part, Library) and part.group == "external":
                return Library("external", f"{part.qualname}.{name}")
        return ANY

    def eval_Subscript(self, node: ast.Subscript) -> Value:  # noqa: N802
        owner = self.evaluate(node.value)
        index = self.evaluate(node.slice)
        if isinstance(owner, Scalar) and owner.kind == "size":
            self.learn(index, "scalar")
        return self.subscript(owner, index, node)

    def eval_Slice(self, node: ast.Slice) -> Value:  # noqa: N802
        for part in (node.lower, node.upper, node.step):
            if part is not None:
                self.evaluate(part)
        return ANY

    def eval_Starred(self, node: ast.Starred) -> Value:  # noqa: N802
        return Many(self.iterate(self.evaluate(node.value), node, "unpacking"))

    # -- operators
    def eval_BinOp(self, node: ast.BinOp) -> Value:  # noqa: N802
        left = self.evaluate(node.left)
        return self.binary(left, node.op, self.evaluate(node.right), node)

    def eval_UnaryOp(self, node: ast.UnaryOp) -> Value:  # noqa: N802
        return self.unary(node.op, self.evaluate(node.operand), node)

    def eval_Compare(self, node: ast.Compare) -> Value:  # noqa: N802
        left = self.evaluate(node.left)
        for op, operand in zip(node.ops, node.comparators, strict=True):
            right = self.evaluate(operand)
            self.compare(left, op, right, node)
            left = right
        return BOOL

    def eval_BoolOp(self, node: ast.BoolOp) -> Value:  # noqa: N802
        """Every operand but the last is tested; what follows may not be evaluated."""
        value = self.evaluate(node.values[0])
        results = [value]
        goes_on = isinstance(node.op, ast.And)
        for part, following in zip(node.values, node.values[1:], strict=False):
            self.truth(value, part)

            def rest(part: ast.expr = part, following: ast.expr = following) -> Value:
                self.assume(part, goes_on)
                return self.evaluate(following)

            kept = self.state
            try:
                value = join_all(self.either([rest]))
            except PathEnds:
                self.state = kept
                break
            self.state = kept.join(self.state)
            results.append(value)
        return join_all(results)

    def eval_IfExp(self, node: ast.IfExp) -> Value:  # noqa: N802
        self.truth(self.evaluate(node.test), node.test)
        decided = constant_truth(node.test)

        def branch(part: ast.expr, truth: bool) -> Callable[[], Value]:
            def run() -> Value:
                self.assume(node.test, truth)
                return self.evaluate(part)

            return run

        both = [branch(node.body, True), branch(node.orelse, False)]
        if decided is not None:
            both = [both[0] if decided else both[1]]
        return join_all(self.either(both))

    def assume(self, test: ast.expr, truth: bool) -> None:
        """Narrow names by the outcome of `x is None`, `isinstance(x, torch.Tensor)`, `not ...`, `a and b`."""
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                self.assume(inner, not truth)
            case ast.BoolOp(op=op, values=values) if isinstance(op, ast.And) == truth:
                for part in values:
                    self.assume(part, truth)
            case ast.Compare(
                left=ast.Name(id=name), ops=[ast.Is() | ast.IsNot() as op], comparators=[ast.Constant(value=None)]
            ):
                self._narrow(name, lambda v: v == NONE, isinstance(op, ast.Is) == truth, NONE)
            case ast.Call(func=ast.Name(id="isinstance"), args=[ast.Name(id=name), kind]):
                with self.aside():
                    wanted = options(self.evaluate(kind))
                if wanted == (Torch("torch.Tensor"),):
                    self._narrow(name, lambda v: isinstance(v, Tensor), truth, None if truth else ANY)

    def _narrow(self, name: str, fits: Callable[[Value], bool], keep: bool, certain: Value | None) -> None:
        """Keep only the alternatives of a local name that agree with a test."""
        value = self.state.frames.get(self.frame, {}).get(name)
        if value is None:
            return
        left = [v for v in options(value) if fits(v) == keep]
        if not left and certain is not None and (self.maybe_option(value) if keep else self.tensor_option(value)):
            left = [certain]
        if left and len(left) < len(options(value)):
            self.state.bind(self.frame, name, left[0] if len(left) == 1 else Union(tuple(left)))
        elif left and certain is not None and left == [certain]:
            self.state.bind(self.frame, name, certain)

    # -- displays
    def _items(self, nodes: list[ast.expr]) -> tuple[list[Value], bool]:
        """Elements of a display, and whether their number is known."""
        items: list[Value] = []
        exact = True
        for node in nodes:
            if isinstance(node, ast.Starred):
                inner = self.evaluate(node.value)
                parts = None if isinstance(inner, Union) else self._sequence(inner)
                if isinstance(parts, Tuple):
                    items += parts.items
                else:
                    items.append(self.iterate(inner, node, "unpacking"))
                    exact = False
            else:
                items.append(self.evaluate(node))
        return items, exact

    def eval_Tuple(self, node: ast.Tuple) -> Value:  # noqa: N802
        items, exact = self._items(node.elts)
        return tuple_of(items) if exact else Many(join_all(items), "tuple")

    def eval_List(self, node: ast.List) -> Value:  # noqa: N802
        items, exact = self._items(node.elts)
        thing = (
            HeapObject("list", tuple(items))
            if exact and len(items) <= 64
            else HeapObject("list", None, join_all(items))
        )
        return self.allocate(node, thing)

    def eval_Set(self, node: ast.Set) -> Value:  # noqa: N802
        items, _ = self._items(node.elts)
        return self.allocate(node, HeapObject("set", None, join_all(items)))

    def eval_Dict(self, node: ast.Dict) -> Value:  # noqa: N802
        entries: dict[object, Value] = {}
        rest: list[Value] = []
        for key, item in zip(node.keys, node.values, strict=True):
            if key is None:
                rest.append(join_all(self._mapping_values(self.evaluate(item), item)))
                continue
            name, value = self.evaluate(key), self.evaluate(item)
            if isinstance(name, Scalar) and isinstance(name.const, (str, int)) and len(entries) < 64:
                entries[name.const] = value
            else:
                rest.append(value)
        return self.allocate(node, HeapObject("dict", None, join_all(rest) if rest else None, entries))

    def _mapping_values(self, value: Value, node: ast.AST) -> list[Value]:
        if isinstance(value, Ref):
            return self.object_at(value).elements()
        return [self.iterate(value, node, "unpacking")]

    # -- text
    def eval_JoinedStr(self, node: ast.JoinedStr) -> Value:  # noqa: N802
        for part in node.values:
            self.evaluate(part)
        return STR

    def eval_FormattedValue(self, node: ast.FormattedValue) -> Value:  # noqa: N802
        self.formatted(self.evaluate(node.value), node.value)
        if node.format_spec is not None:
            self.evaluate(node.format_spec)
        return STR

    # -- comprehensions
    def eval_ListComp(self, node: ast.ListComp) -> Value:  # noqa: N802
        return Many(self._comprehend(node, [node.elt]), "list")

    def eval_SetComp(self, node: ast.SetComp) -> Value:  # noqa: N802
        return Many(self._comprehend(node, [node.elt]), "set")

    def eval_GeneratorExp(self, node: ast.GeneratorExp) -> Value:  # noqa: N802
        return Many(self._comprehend(node, [node.elt]), "iterator")

    def eval_DictComp(self, node: ast.DictComp) -> Value:  # noqa: N802
        value = self._comprehend(node, [node.key, node.value])
        return self.allocate(node, HeapObject("dict", None, value))

    def _comprehend(self, node: Comprehension, results: list[ast.expr]) -> Value:
        """The last of `results`, evaluated as in a loop; the loop variables do not outlive it."""
        names = {n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
        hidden = {n: self.state.frames.get(self.frame, {}).get(n) for n in names}
        first = self.iterate(self.evaluate(node.generators[0].iter), node.generators[0].iter)
        with self.looping(node):
            for position, generator in enumerate(node.generators):
                item = first if position == 0 else self.iterate(self.evaluate(generator.iter), generator.iter)
                self.bind_local(generator.target, item)
                for test in generator.ifs:
                    self.truth(self.evaluate(test), test)
                    self.assume(test, True)
            made = [self.evaluate(part) for part in results]
        for name, value in hidden.items():
            if value is None:
                self.state.unbind(self.frame, name)
            else:
                self.state.bind(self.frame, name, value)
        return made[-1]

    def bind_local(self, target: ast.expr, value: Value) -> None:
        """Bind the variable of a comprehension, which is always local."""
        if isinstance(target, ast.Name):
            self.state.bind(self.frame, target.id, value)
        elif isinstance(target, (ast.Tuple, ast.List)) and not any(isinstance(e, ast.Starred) for e in target.elts):
            for part, item in zip(target.elts, self.unpacked(value, len(target.elts), target), strict=True):
                self.bind_local(part, item)
        else:
            self.assign(target, value)

    # -- functions and coroutines
    def eval_Lambda(self, node: ast.Lambda) -> Value:  # noqa: N802
        self.captured.add(self.frame)
        return Func(node, self.frame, self.default_values(node.args))

    def default_values(self, args: ast.arguments) -> tuple[tuple[str, Value], ...]:
        """Defaults of parameters, evaluated where the function is defined."""
        positional = [*args.posonlyargs, *args.args]
        named = list(zip(positional[len(positional) - len(args.defaults) :], args.defaults, strict=True))
        named += [(a, d) for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True) if d is not None]
        return tuple((arg.arg, self.evaluate(default)) for arg, default in named)

    def eval_Await(self, node: ast.Await) -> Value:  # noqa: N802
        return self.evaluate(node.value)

    def eval_Yield(self, node: ast.Yield) -> Value:  # noqa: N802
        self.yielded.append(self.evaluate(node.value) if node.value is not None else NONE)
        return ANY

    def eval_YieldFrom(self, node: ast.YieldFrom) -> Value:  # noqa: N802
        self.yielded.append(self.iterate(self.evaluate(node.value), node))
        return ANY

    yielded: list[Value]


def constant_truth(test: ast.expr) -> bool | None:
    """The outcome of a literal condition or of `TYPE_CHECKING`; None for every other."""
    match test:
        case ast.Constant(value=value):
            return bool(value)
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            outcome = constant_truth(inner)
            return None if outcome is None else not outcome
        case ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"):
            return False
    return None


__all__ = ["INT", "OPAQUE", "Expressions", "constant_truth", "member_code"]
