"""Builtin functions and methods of Python containers: which of them read a tensor, and what they yield."""

from __future__ import annotations

import ast
import builtins
from dataclasses import replace
from typing import Any

from pypto_pro.audit.functions import Functions
from pypto_pro.audit.machine import Arguments, PathEnds
from pypto_pro.audit.state import HeapObject
from pypto_pro.audit.values import (
    ANY,
    BOOL,
    FLOAT,
    INT,
    NONE,
    OPAQUE,
    STR,
    ClassValue,
    Func,
    Library,
    Many,
    Maybe,
    Opaque,
    Ref,
    Scalar,
    Tensor,
    Torch,
    Tuple,
    Union,
    Value,
    join_all,
    options,
    tuple_of,
)

_READS = {
    "int": INT,
    "float": FLOAT,
    "bool": BOOL,
    "complex": ANY,
    "range": Many(INT, "iterator"),
    "chr": STR,
    "bin": STR,
    "hex": STR,
    "oct": STR,
}
_TEXT = frozenset(("str", "repr", "ascii", "format", "print"))
_COMPUTES = frozenset(("abs", "round", "divmod", "pow", "sum", "min", "max", "sorted"))
_ITERATES = {
    "list": "list",
    "tuple": "tuple",
    "set": "set",
    "frozenset": "set",
    "iter": "iterator",
    "reversed": "iterator",
}
_NOT_ALLOWED = frozenset(
    ("eval", "exec", "compile", "__import__", "open", "input", "breakpoint", "globals", "locals", "memoryview")
)
_LEAVES = frozenset(("exit", "quit"))
_ARITHMETIC_RESULT = {"abs": INT, "round": INT, "sum": INT, "pow": INT, "divmod": Tuple((INT, INT))}


class BuiltinCalls(Functions):
    """`len(x)`, `zip(a, b)`, `names.append(x)`."""

    def call_builtin(self, name: str, args: Arguments, node: ast.expr) -> Value:
        """A builtin by name."""
        if name in _LEAVES:
            raise PathEnds
        if name in _NOT_ALLOWED:
            return self._not_provable(name, node)
        handler = getattr(self, f"builtin_{name}", None)
        if handler is not None:
            result = handler(args, node)
            assert isinstance(result, Value)
            return result
        if name in _READS:
            return self._reads(name, args, node)
        if name in _TEXT:
            for value in args.all():
                self.formatted(value, node)
            return NONE if name == "print" else STR
        if name in _COMPUTES:
            return self._computes(name, args, node)
        if name in _ITERATES:
            return self._copy(name, args, node)
        if isinstance(getattr(builtins, name, None), type) and issubclass(getattr(builtins, name), BaseException):
            for value in args.all():
                self.formatted(value, node)
            return ANY
        return ANY

    def _not_provable(self, name: str, node: ast.expr) -> Value:
        self.hit("W116", node, None, f": `{name}`", name)
        return OPAQUE

    def _reads(self, name: str, args: Arguments, node: ast.expr) -> Value:
        for value in args.all():
            tensor = self.tensor_option(value)
            unknown = self.maybe_option(value)
            if tensor is not None:
                self.hit("W110", node, tensor, f": `{name}()` reads the data of `{tensor.label}`", name)
            elif unknown is not None and unknown.key:
                self.unproven(node, unknown, f"`{name}()` reads the data of `{unknown.key}` if it is a tensor")
        first = args.positional[0] if args.positional else None
        return first if isinstance(first, Scalar) and first.kind == name else _READS[name]

    def _computes(self, name: str, args: Arguments, node: ast.expr) -> Value:
        """`min`, `max`, `sum`, ...: arithmetic or comparison of the arguments, or of the elements of the only one."""
        key = args.keywords.get("key")
        values = list(args.positional) if args.star is None else [*args.positional, args.star]
        single = len(values) == 1 and name in ("sum", "min", "max", "sorted")
        concerned = values
        if single and self.tensor_option(values[0]) is None:
            concerned = [self.iterate(values[0], node, f"`{name}()` of")]
        elif name == "sum" and values and self.tensor_option(values[0]) is None:
            concerned = [self.iterate(values[0], node, "`sum()` of"), *values[1:]]
        if key is not None and key != NONE:
            with self.looping(node):
                self.call_value(key, Arguments((join_all(concerned),)), node)
        else:
            tensor = next((t for t in map(self.tensor_option, concerned) if t is not None), None)
            unknown = next((m for m in map(self.maybe_option, concerned) if m is not None and m.key), None)
            if tensor is not None:
                self.hit("W112", node, tensor, f": `{name}()` computes with `{tensor.label}`", name)
                return self.derived(node, *concerned)
            if unknown is not None:
                self.unproven(node, unknown, f"`{name}()` computes with `{unknown.key}` if it is a tensor")
        if name == "sorted":
            return Many(join_all(concerned), "list")
        if name in ("min", "max"):
            defaults = [args.keywords["default"]] if "default" in args.keywords else []
            return join_all([_without_const(v) for v in (*concerned, *defaults)])
        return _ARITHMETIC_RESULT[name] if all(isinstance(v, Scalar) for v in concerned) else join_all(concerned)

    def _copy(self, name: str, args: Arguments, node: ast.expr) -> Value:
        """`list(x)` and its relatives: a new sequence of the same elements."""
        kind = _ITERATES[name]
        if not args.positional:
            if args.star is not None:
                return Many(self.iterate(args.star, node, f"`{name}()` of"), kind)
            return (
                Tuple(())
                if kind == "tuple"
                else self.allocate(node, HeapObject("set" if kind == "set" else "list", () if kind == "list" else None))
            )
        value = args.positional[0]
        parts = None if isinstance(value, Union) else self._sequence(value)
        if isinstance(parts, Tuple) and kind in ("list", "tuple"):
            return (
                tuple_of(list(parts.items)) if kind == "tuple" else self.allocate(node, HeapObject("list", parts.items))
            )
        item = self.iterate(value, node, f"`{name}()` of")
        if kind == "list":
            return self.allocate(node, HeapObject("list", None, item))
        return Many(item, kind)

    # -- builtins with rules of their own
    def builtin_len(self, args: Arguments, node: ast.expr) -> Value:
        """A size, but not a listed one."""
        for value in args.all():
            tensor = self.tensor_option(value)
            if tensor is not None:
                self.hit("W114", node, tensor, f": `len()` of `{tensor.label}`", "len")
            elif isinstance(value, Maybe) and self.known.get(value.key) != "object":
                self.unproven(node, value, f"`len()` is not on the list if `{value.key}` is a tensor; annotate it")
        return INT

    def builtin_hash(self, args: Arguments, node: ast.expr) -> Value:
        """Not listed."""
        for tensor in filter(None, map(self.tensor_in, args.all())):
            self.hit("W114", node, tensor, f": `hash()` of `{tensor.label}`", "__hash__")
        return INT

    def builtin_any(self, args: Arguments, node: ast.expr) -> Value:
        """The truth value of every element."""
        for value in args.positional:
            tensor = self.tensor_option(value)
            if tensor is not None:
                self.hit("W110", node, tensor, f": the truth value of the elements of `{tensor.label}`", "__bool__")
            else:
                self.truth(self.iterate(value, node), node)
        return BOOL

    builtin_all = builtin_any

    def builtin_isinstance(self, args: Arguments, node: ast.expr) -> Value:
        """A type test: what is tested against tensor is a tensor, against a number a scalar (as evidence goes)."""
        if len(args.positional) == 2:
            kinds = [k for part in self.inside(args.positional[1]) for k in options(part)]
            torch_kinds = [k for k in kinds if isinstance(k, Torch)]
            if torch_kinds and all(k.qualname == "torch.Tensor" for k in torch_kinds):
                self.learn(args.positional[0], "tensor")
            elif any(getattr(k, "name", "") in ("int", "float", "bool", "str") for k in kinds) and not torch_kinds:
                self.learn(args.positional[0], "scalar")
        return BOOL

    def builtin_enumerate(self, args: Arguments, node: ast.expr) -> Value:
        """Pairs of index and element."""
        return Many(Tuple((INT, self._first_elements(args, node, "enumerate"))), "iterator")

    def builtin_zip(self, args: Arguments, node: ast.expr) -> Value:
        """Tuples of elements."""
        items = [self.iterate(v, node, "`zip()` of") for v in args.positional]
        if args.star is not None:
            return Many(Many(self.iterate(args.star, node, "`zip()` of"), "tuple"), "iterator")
        return Many(tuple_of(items), "iterator")

    def builtin_map(self, args: Arguments, node: ast.expr) -> Value:
        """A function applied to every element: a loop."""
        if not args.positional:
            return ANY
        items = tuple(self.iterate(v, node, "`map()` of") for v in args.positional[1:])
        with self.looping(node):
            value = self.call_value(args.positional[0], Arguments(items), node)
        return Many(value, "iterator")

    def builtin_filter(self, args: Arguments, node: ast.expr) -> Value:
        """A test applied to every element: a loop."""
        if len(args.positional) < 2:
            return ANY
        item = self.iterate(args.positional[1], node, "`filter()` of")
        if args.positional[0] == NONE:
            self.truth(item, node)
        else:
            with self.looping(node):
                self.truth(self.call_value(args.positional[0], Arguments((item,)), node), node)
        return Many(item, "iterator")

    def builtin_next(self, args: Arguments, node: ast.expr) -> Value:
        """One element of an iterator."""
        item = self._first_elements(args, node, "next")
        return join_all([item, *args.positional[1:]])

    def _first_elements(self, args: Arguments, node: ast.expr, name: str) -> Value:
        first = args.positional[0] if args.positional else args.star
        return ANY if first is None else self.iterate(first, node, f"`{name}()` of")

    def builtin_dict(self, args: Arguments, node: ast.expr) -> Value:
        """A new mapping."""
        entries: dict[Any, Value] = dict(args.keywords)
        rest = [v for v in (args.star, args.double_star) if v is not None]
        for value in args.positional:
            if isinstance(value, Ref) and self.object_at(value).kind == "dict":
                entries.update({k: v for k, v in self.object_at(value).entries.items() if k not in entries})
                rest += [self.object_at(value).rest or ANY] if self.object_at(value).rest is not None else []
            else:
                pair = self.iterate(value, node, "`dict()` of")
                rest.append(
                    pair.items[1] if isinstance(pair, Tuple) and len(pair.items) == 2 else self.iterate(pair, node)
                )
        return self.allocate(node, HeapObject("dict", None, join_all(rest) if rest else None, entries))

    def builtin_getattr(self, args: Arguments, node: ast.expr) -> Value:
        """An attribute read, as far as the name is constant."""
        if len(args.positional) < 2:
            return ANY
        owner, name = args.positional[0], args.positional[1]
        if isinstance(name, Scalar) and isinstance(name.const, str):
            value = self.attribute(owner, name.const, node)
            return join_all([value, *args.positional[2:3]])
        if all(isinstance(v, Opaque) for v in options(owner)):
            return OPAQUE
        subject = self.tensor_option(owner) or self.maybe_option(owner)
        self.hit("W116", node, subject, ": the name of the attribute is not constant", "getattr")
        return OPAQUE

    def builtin_hasattr(self, args: Arguments, node: ast.expr) -> Value:
        """Reads the attribute to see whether it is there."""
        self.builtin_getattr(args, node)
        return BOOL

    def builtin_setattr(self, args: Arguments, node: ast.expr) -> Value:
        """An attribute assignment."""
        if len(args.positional) == 3:
            owner, name, value = args.positional
            text = name.const if isinstance(name, Scalar) and isinstance(name.const, str) else "?"
            self.store_attribute(owner, text, value, node)
        return NONE

    def builtin_delattr(self, args: Arguments, node: ast.expr) -> Value:
        """A write as well."""
        for tensor in filter(None, map(self.tensor_option, args.positional[:1])):
            self.hit("W113", node, tensor, f": an attribute of `{tensor.label}` is deleted", "__delattr__")
        return NONE

    def store_attribute(self, owner: Value, name: str, value: Value, node: ast.AST) -> None:
        """`owner.name = value`."""
        for option in options(owner):
            if isinstance(option, Tensor):
                self.hit("W113", node, option, f": attribute `{name}` of `{option.label}` is assigned", "__setattr__")
            elif isinstance(option, Ref):
                thing = self.object_at(option)
                self.state.heap[option.key] = replace(thing, entries={**thing.entries, name: value})
            elif isinstance(option, ClassValue):
                self.state.bind(option.frame, name, value)
            elif isinstance(option, Maybe):
                self.learn(option, "object")
            elif isinstance(option, (Func, Library)) and (kept := self.tensor_in(value)) is not None:
                detail = f": `{kept.label}` becomes an attribute, which outlives the call and is not followed"
                self.hit("W116", node, kept, detail, "__setattr__")

    def builtin_vars(self, args: Arguments, node: ast.expr) -> Value:
        """Looks into an object."""
        for tensor in filter(None, map(self.tensor_option, args.positional)):
            self.hit("W114", node, tensor, f": attributes of `{tensor.label}`", "__dict__")
        return ANY

    builtin_dir = builtin_vars

    def builtin_super(self, args: Arguments, node: ast.expr) -> Value:
        """Calls into a base class are followed no further."""
        return OPAQUE

    def builtin_staticmethod(self, args: Arguments, node: ast.expr) -> Value:
        """Marks a method."""
        return self._flavoured(args, "static")

    def builtin_classmethod(self, args: Arguments, node: ast.expr) -> Value:
        """Marks a method."""
        return self._flavoured(args, "class")

    def builtin_property(self, args: Arguments, node: ast.expr) -> Value:
        """Marks a getter."""
        return self._flavoured(args, "property")

    def _flavoured(self, args: Arguments, flavour: str) -> Value:
        first = args.positional[0] if args.positional else ANY
        return replace(first, flavour=flavour) if isinstance(first, Func) else first

    # -- methods of containers, strings and numbers
    def call_container_method(self, owner: Value, name: str, args: Arguments, node: ast.expr) -> Value:
        """`owner.name(...)` where the owner is no tensor."""
        if name == "sort" and isinstance(owner, (Ref, Many)):
            self._computes("sorted", args.prepend(owner), node)
        if isinstance(owner, Ref):
            return self._object_method(owner, name, args, node)
        if isinstance(owner, (Many, Tuple)):
            if name in ("items", "values", "keys", "pop", "get", "popleft", "__next__", "__getitem__"):
                return self._mapping_view(name, owner, args, node)
            if name == "copy":
                return owner
            return INT if name in ("index", "count", "__len__") else NONE
        return self.plain_method(owner, name, args, node)

    def _object_method(self, owner: Ref, name: str, args: Arguments, node: ast.expr) -> Value:
        thing = self.object_at(owner)
        given = list(args.positional)
        match name:
            case "append" if (
                thing.kind == "list" and thing.items is not None and given and not self.loops and len(thing.items) < 64
            ):
                self.state.heap[owner.key] = replace(thing, items=(*thing.items, given[0]))
                return NONE
            case "append" | "add" | "appendleft" if given:
                self.add_element(owner, given[0])
                return NONE
            case "insert" if len(given) > 1:
                self.add_element(owner, given[1])
                return NONE
            case "extend" | "update" if given and thing.kind != "dict":
                self.add_element(owner, self.iterate(given[0], node, f"`{name}()` of"))
                return NONE
            case "update" | "setdefault":
                for value in [*given[-1:], *args.keywords.values()]:
                    for part in self.object_at(value).elements() if isinstance(value, Ref) else [value]:
                        self.add_element(owner, part)
                return join_all(self.object_at(owner).elements()) if name == "setdefault" else NONE
            case "copy":
                return self.allocate(node, thing)
            case "clear" | "sort" | "reverse" | "remove" | "discard":
                self.state.heap[owner.key] = thing.summarised()
                return NONE
        return self._mapping_view(name, owner, args, node)

    def _mapping_view(self, name: str, owner: Value, args: Arguments, node: ast.expr) -> Value:
        thing = self.object_at(owner) if isinstance(owner, Ref) else None
        inside = join_all(thing.elements()) if thing is not None else self.iterate(owner, node)
        match name:
            case "items":
                return Many(Tuple((ANY, inside)), "iterator")
            case "values":
                return Many(inside, "iterator")
            case "keys":
                return Many(ANY, "iterator")
            case "get":
                key = args.positional[0] if args.positional else ANY
                fallback = args.positional[1] if len(args.positional) > 1 else NONE
                if (
                    thing is not None
                    and isinstance(key, Scalar)
                    and thing.rest is None
                    and isinstance(key.const, (str, int))
                ):
                    return thing.entries.get(key.const, fallback)
                return join_all([inside, fallback])
            case "pop" | "popitem" | "popleft" | "__next__" | "__getitem__":
                if thing is not None and isinstance(owner, Ref):
                    self.state.heap[owner.key] = thing.summarised()
                return join_all([inside, *args.positional[1:2]])
        return ANY


def _without_const(value: Value) -> Value:
    return Scalar(value.kind) if isinstance(value, Scalar) and value.kind != "none" else value
