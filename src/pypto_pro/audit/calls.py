"""Calls: resolving the callee and following functions of the file with the values they really get."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from pypto_pro.audit.launching import Launching
from pypto_pro.audit.machine import Arguments
from pypto_pro.audit.values import (
    ANY,
    NONE,
    OPAQUE,
    Bound,
    Builtin,
    ClassValue,
    DeviceFunction,
    Func,
    Kernel,
    Language,
    Launcher,
    Library,
    Maybe,
    Method,
    MethodOf,
    Opaque,
    Partial,
    Ref,
    Tensor,
    Torch,
    TorchObject,
    Tuple,
    Union,
    Value,
    join,
    join_all,
    options,
)

FunctionLike = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Calls(Launching):
    """`f(...)` for everything `f` may be."""

    def eval_Call(self, node: ast.Call) -> Value:  # noqa: N802
        """A call. Methods are looked at with their receiver: `x.view(n)` and `x.view(dtype)` differ."""
        if isinstance(node.func, ast.Attribute):
            owner, name = self.evaluate(node.func.value), node.func.attr
            args = self.arguments(node)
            owners = [v for v in options(owner) if v != NONE] or [ANY]
            return self._each(owners, lambda v: self._method_call(v, name, args, node))
        callee = self.evaluate(node.func)
        args = self.arguments(node)
        if isinstance(node.func, ast.Subscript) and any(
            isinstance(v, (Func, Method, Partial)) for v in options(callee)
        ):
            self.hit("W116", node, None, ": the function is taken from a container", "[]")
        return self.call_value(callee, args, node)

    def _each(self, choices: Sequence[Value], act: Callable[[Value], Value]) -> Value:
        """Apply `act` to every alternative on its own path."""
        if len(choices) == 1:
            return act(choices[0])
        return join_all(self.either([partial(act, choice) for choice in choices]))

    def arguments(self, node: ast.Call) -> Arguments:
        """Evaluated arguments. A starred sequence of known length is spread out."""
        positional: list[Value] = []
        nodes: list[ast.expr] = []
        star: Value | None = None
        for arg in node.args:
            if isinstance(arg, ast.Starred):
                inner = self.evaluate(arg.value)
                parts = None if isinstance(inner, Union) else self._sequence(inner)
                if isinstance(parts, Tuple) and star is None:
                    positional += parts.items
                    nodes += [arg] * len(parts.items)
                else:
                    each = self.iterate(inner, arg, "unpacking")
                    star = each if star is None else join(star, each)
            elif star is None:
                positional.append(self.evaluate(arg))
                nodes.append(arg)
            else:
                star = join(star, self.evaluate(arg))
        keywords: dict[str, Value] = {}
        double: Value | None = None
        for keyword in node.keywords:
            value = self.evaluate(keyword.value)
            if keyword.arg is not None:
                keywords[keyword.arg] = value
            else:
                double = self._spread_mapping(value, keywords, double, keyword.value)
        return Arguments(
            tuple(positional),
            keywords,
            star,
            double,
            tuple(nodes),
            {k.arg: k.value for k in node.keywords if k.arg is not None},
        )

    def _spread_mapping(
        self, value: Value, keywords: dict[str, Value], double: Value | None, node: ast.expr
    ) -> Value | None:
        """`**value`: known keys become keywords, the rest describes the unknown ones."""
        if isinstance(value, Ref) and self.object_at(value).kind == "dict":
            thing = self.object_at(value)
            keywords.update({k: v for k, v in thing.entries.items() if isinstance(k, str)})
            rest = thing.rest
        else:
            rest = (
                self.unknown(f"{value.key}[]", node)
                if isinstance(value, Maybe)
                else self.iterate(value, node, "unpacking")
            )
        if rest is None:
            return double
        return rest if double is None else join(double, rest)

    # -- dispatch
    def _method_call(self, owner: Value, name: str, args: Arguments, node: ast.Call) -> Value:
        match owner:
            case Tensor():
                value = self.tensor_call(owner, name, args, node)
                self.called(node, node.func, *self._verdict_of_member(name, args))
                return value
            case Maybe():
                return self.maybe_call(owner, name, args, node)
            case TorchObject(qualname=qualname):
                if name in ("synchronize", "wait", "wait_stream", "wait_event"):
                    self.hit("W111", node, None, f": `{qualname}`", name)
                return OPAQUE
        return self.call_value(self.attribute(owner, name, node.func), args, node)

    def _verdict_of_member(self, name: str, args: Arguments) -> tuple[str, str | None]:
        code = (
            None
            if name in ("dim", "size", "stride", "numel", "storage_offset")
            else self.method_code(name, args) or "W116"
        )
        return ("finding", code) if code else ("allowed", None)

    def call_value(self, callee: Value, args: Arguments, node: ast.expr) -> Value:
        """The result of calling `callee`; every alternative is followed on its own path, kernels together."""
        choices = options(callee)
        kernels = [v for v in choices if isinstance(v, Kernel)]
        if len(kernels) > 1:
            choices = (Union(tuple(kernels)), *(v for v in choices if not isinstance(v, Kernel)))
        launchers = [v for v in choices if isinstance(v, Launcher)]
        if len(launchers) > 1:
            target = join_all([v.target for v in launchers])
            choices = (replace(launchers[0], target=target), *(v for v in choices if not isinstance(v, Launcher)))
        callables = [v for v in choices if v != NONE] or [ANY]
        return self._each(callables, lambda v: self._call_one(v, args, node))

    def _call_one(self, callee: Value, args: Arguments, node: ast.expr) -> Value:
        match callee:
            case Kernel() | Union():
                return self.launch_value(callee, args, node, "k(...)", "1")
            case Launcher():
                return self.launcher_call(callee, args, node)
            case Func():
                return self.call_function(callee, args, node)
            case Method(func=func, receiver=receiver):
                return self.call_function(func, args.prepend(receiver), node)
            case Partial(func=func, args=held, keywords=keywords):
                merged = replace(args.prepend(*held), keywords={**dict(keywords), **args.keywords})
                return self.call_value(func, merged, node)
            case ClassValue():
                return self.construct(callee, args, node)
            case Ref():
                return self.call_instance(callee, args, node)
            case Bound():
                return self.bound_call(callee, args, node)
            case Builtin(name=name):
                return self.call_builtin(name, args, node)
            case MethodOf(owner=owner, name=name):
                return self.call_container_method(owner, name, args, node)
            case Torch(qualname=qualname):
                return self.call_torch(qualname, args, node)
            case Library():
                return self.call_library(callee, args, node)
            case Language():
                return self.call_language(callee, args, node)
        return self._call_unknown(callee, args, node)

    def _call_unknown(self, callee: Value, args: Arguments, node: ast.expr) -> Value:
        """Calling something the audit cannot follow."""
        func = node.func if isinstance(node, ast.Call) else node
        match callee:
            case TorchObject(qualname=qualname) if qualname.rsplit(".", 1)[-1] in (
                "synchronize",
                "wait",
                "wait_stream",
                "wait_event",
            ):
                self.hit("W111", node, None, f": `{qualname}`", qualname.rsplit(".", 1)[-1])
            case TorchObject() | Opaque():
                passed = [v for v in args.all() if isinstance(v, (Func, Kernel, Method, ClassValue))]
                return passed[0] if len(passed) == 1 else Opaque(self.sources_of(*args.all()))
            case DeviceFunction(name=name):
                self.hit("W116", node, None, f": `{name}` is device code and is called by kernels only", name)
            case _:
                key = callee.key if isinstance(callee, Maybe) else self.source.expression(func)
                self.hit("W116", node, None, f": what `{key}` is cannot be resolved", key)
                self.called(node, func, "finding", "W116", resolved=False)
        return Opaque(self.sources_of(*args.all()))

    # -- supplied by the library rules
    def call_builtin(self, name: str, args: Arguments, node: ast.expr) -> Value:
        """A builtin function or type."""
        raise NotImplementedError

    def call_torch(self, qualname: str, args: Arguments, node: ast.expr) -> Value:
        """A function of torch."""
        raise NotImplementedError

    def call_library(self, callee: Library, args: Arguments, node: ast.expr) -> Value:
        """A function of another module."""
        raise NotImplementedError

    def call_language(self, callee: Language, args: Arguments, node: ast.expr) -> Value:
        """A function of pypto_pro."""
        raise NotImplementedError

    def call_container_method(self, owner: Value, name: str, args: Arguments, node: ast.expr) -> Value:
        """A method of a list, dict, set, string or number."""
        raise NotImplementedError

    # -- supplied by the functions
    def call_function(self, func: Func, args: Arguments, node: ast.expr) -> Value:
        """A function of the file."""
        raise NotImplementedError

    def construct(self, cls: ClassValue, args: Arguments, node: ast.expr) -> Value:
        """A class of the file."""
        raise NotImplementedError

    def call_instance(self, owner: Ref, args: Arguments, node: ast.expr) -> Value:
        """An instance of a class of the file."""
        raise NotImplementedError
