"""Launches: which kernel, with which arguments, and what they prove about the wrapper's parameters."""

from __future__ import annotations

import ast

from pypto_pro.audit.expressions import Expressions
from pypto_pro.audit.kernels import KernelFacts, KernelParameter, WrittenParameters
from pypto_pro.audit.machine import Arguments
from pypto_pro.audit.source import FunctionNode, Source
from pypto_pro.audit.trace import Launch
from pypto_pro.audit.values import (
    ANY,
    NONE,
    ClassValue,
    Func,
    Kernel,
    Language,
    Launcher,
    Library,
    Opaque,
    Partial,
    Value,
    options,
)

DEVICE_DECORATORS = frozenset(("vector_function", "stage", "inline", "function", "program", "kernel"))


class Launching(Expressions):
    """`k(...)` and `k[...](...)`."""

    def __init__(self, source: Source, known: dict[str, str] | None = None) -> None:
        super().__init__(source, known)
        self.facts: dict[int, KernelFacts] = {}
        self._writers = WrittenParameters(self._device_function)

    def _device_function(self, name: str) -> FunctionNode | None:
        """The definition a kernel means by a bare name: the function of the file with that name."""
        if name in self.source.functions:
            return self.source.functions[name]
        return next((n for q, n in self.source.functions.items() if q.rsplit(".", 1)[-1] == name), None)

    def kernel_facts(self, kernel: Kernel) -> KernelFacts:
        """Signature and written parameters, worked out once a kernel."""
        node = kernel.node
        if id(node) not in self.facts:
            args = node.args
            frame, self.frame = self.frame, kernel.frame if kernel.frame in self.scopes else 0
            with self.aside():
                parameters = tuple(self._parameter(a) for a in (*args.posonlyargs, *args.args, *args.kwonlyargs))
            self.frame = frame
            self.facts[id(node)] = KernelFacts(node.name, node.lineno, parameters, self._writers.of(node))
        return self.facts[id(node)]

    def _parameter(self, arg: ast.arg) -> KernelParameter:
        """Kind of one parameter, from the value of its annotation (so aliases of `pl` and of dtypes do not matter)."""
        text = self.source.expression(arg.annotation) if arg.annotation is not None else ""
        value = self.annotation_value(arg.annotation)
        kind = "other"
        if isinstance(value, Language):
            last = value.qualname.rsplit(".", 1)[-1]
            kind = {"Tensor": "tensor", "Ptr": "ptr"}.get(last, "scalar" if last.startswith("DT_") else "other")
        elif not isinstance(value, ClassValue):
            kind = self._kind_of_text(text)
        return KernelParameter(arg.arg, kind, text)

    def _kind_of_text(self, text: str) -> str:
        """The kind of an annotation that could not be evaluated (a name of another module)."""
        head = text.split("[", 1)[0].split("(", 1)[0].rsplit(".", 1)[-1]
        return {"Tensor": "tensor", "Ptr": "ptr"}.get(head, "scalar" if head.startswith("DT_") else "other")

    def annotation_value(self, annotation: ast.expr | None) -> Value:
        """What an annotation denotes; a quoted one is parsed first."""
        if annotation is None:
            return ANY
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            try:
                annotation = ast.copy_location(ast.parse(annotation.value.strip(), mode="eval").body, annotation)
            except (SyntaxError, ValueError):
                return ANY
            ast.fix_missing_locations(annotation)
        return self.evaluate(annotation)

    def is_kernel(self, node: FunctionNode) -> bool:
        """Whether `@pl.jit` makes this function a kernel: some parameter has a tensor, pointer or dtype annotation."""
        args = node.args
        return any(
            self._parameter(a).kind in ("tensor", "ptr", "scalar")
            for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)
        )

    # -- launching
    def launch_value(self, target: Value, args: Arguments, node: ast.expr, form: str, block_dim: str) -> Value:
        """Call a kernel or what was given launch options."""
        kernels = tuple(v for v in options(target) if isinstance(v, Kernel))
        for other in (v for v in options(target) if not isinstance(v, (Kernel, Opaque))):
            self._not_a_kernel(other, node)
        for kernel in kernels:
            if not kernel.pro:
                self.hit("W124", node, None, f": `{kernel.node.name}` uses the non-Pro front end", kernel.node.name)
        arguments: list[tuple[str, Value]] = []
        for kernel in kernels:
            arguments += self._bound(self.kernel_facts(kernel), args)
        if not kernels:
            arguments = [("?", value) for value in args.all()]  # what the launched thing does with them is not seen
        loop = self.loops[-1] if self.loops else None
        self.note(Launch(node, self.chain, kernels, form, block_dim, loop, tuple(arguments)))
        self.called(node, node.func if isinstance(node, ast.Call) else node, "launch")
        self.state.count = self.state.count.plus_launch(in_loop=bool(self.loops))
        return NONE

    def _not_a_kernel(self, other: Value, node: ast.expr) -> None:
        if isinstance(other, Partial):
            return
        if isinstance(other, Library) and other.group == "external":
            self.hit("W116", node, None, f": `{other.qualname}` comes from outside this file", other.qualname)
            return
        name = other.node.name if isinstance(other, Func) and not isinstance(other.node, ast.Lambda) else ""
        self.hit("W124", node, None, f": `{name}` is a plain function" if name else "", name)

    def _bound(self, facts: KernelFacts, args: Arguments) -> list[tuple[str, Value]]:
        """Arguments by kernel parameter, and the evidence they give about values of unknown kind."""
        bound: list[tuple[str, Value]] = []
        for position, parameter in enumerate(facts.parameters):
            value = args.get(position, parameter.name)
            if value is None and args.star is not None and position >= len(args.positional):
                value = args.star
            if value is None:
                value = args.double_star
            if value is None:
                continue
            bound.append((parameter.name, value))
            if parameter.kind in ("tensor", "ptr"):
                self.learn(value, "tensor")
            elif parameter.kind == "scalar":
                self.learn(value, "scalar")
        return bound

    def launcher_call(self, launcher: Launcher, args: Arguments, node: ast.expr) -> Value:
        """`k[...](...)`."""
        return self.launch_value(launcher.target, args, node, launcher.form, launcher.block_dim)
