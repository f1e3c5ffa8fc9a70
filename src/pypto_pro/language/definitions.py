"""Definitions for tooling that are read but never launched: `pl.kernel`, `pl.function`, `pl.program`, `pl.parse`."""

from __future__ import annotations

import ast
import itertools
import linecache
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any

from pypto_pro.diag.errors import ParserSyntaxError
from pypto_pro.enums import FunctionType as Purpose
from pypto_pro.frontend.pipeline.config import PipelineConfig
from pypto_pro.frontend.signature import read_signature
from pypto_pro.frontend.source import KernelSource, source_of
from pypto_pro.frontend.specialise import Reading
from pypto_pro.ir.nodes import Kernel
from pypto_pro.runtime.callsite import caller
from pypto_pro.runtime.jit import JitKernel, JitOptions

_METHOD_OF_CLASS = "__module__"
"""A name that only class bodies have among their locals."""


@dataclass(eq=False)
class KernelDef:
    """A kernel that was defined but not launched: its source and captured scope, read on request."""

    name: str
    source: KernelSource
    func_type: Purpose = Purpose.Opaque
    strict_ssa: bool = False
    meta_data: Any = None
    may_return: bool = False
    definition: JitKernel = field(repr=False, kw_only=True)

    @property
    def auto_mutex(self) -> bool:
        """Whether locks are inserted."""
        return self.definition.options.auto_mutex

    def ir(self, shapes: Mapping[str, tuple[int, ...]] | None = None, after: str | None = None) -> Kernel:
        """The IR for given shapes of the tensors with STATIC axes. Raises what the front end raises."""
        static = self.definition.binder.static_from_shapes(shapes or {})
        return self.definition.compile(static, None, (), after, reading=Reading(True, self.may_return, self.strict_ssa))

    @property
    def __name__(self) -> str:
        return self.name


def kernel(
    func: Callable[..., Any] | None = None,
    meta_data: Any = None,
    *,
    name: str | None = None,
    func_type: Purpose = Purpose.Opaque,
    strict_ssa: bool = False,
    auto_mutex: bool = True,
    pipeline: PipelineConfig | None = None,
) -> Any:
    """Define a kernel for tooling; gives a `KernelDef`, which is read later and cannot be launched."""
    scope = _scope()

    def define(fn: Callable[..., Any]) -> KernelDef:
        return _define(fn, scope, JitOptions(None, auto_mutex, name, pipeline), func_type, strict_ssa, meta_data)

    return define if func is None else define(func)


def function(
    fn: Callable[..., Any] | None = None, *, type: Purpose = Purpose.Opaque, strict_ssa: bool = False
) -> Any:
    """Define a function and read it at once; a method of a class is left to `pl.program`.

    Gives a `KernelDef`. Raises what the front end raises.
    """
    scope = _scope()

    def define(body: Callable[..., Any]) -> Any:
        if scope is not None and _METHOD_OF_CLASS in scope:
            return body
        made = _define(body, scope, JitOptions(), type, strict_ssa, None, may_return=True)
        made.ir()
        return made

    return define if fn is None else define(fn)


def program(cls: type | None = None, *, strict_ssa: bool = False) -> Any:
    """A class whose methods are the functions of one program; gives a namespace of `KernelDef`s.

    `self` is dropped and `self.m(...)` calls the method `m`. Functions that return nothing are read at once, others
    where they are called. Raises what the front end raises (UndefinedVariableError for an unknown method).
    """

    def define(owner: type) -> SimpleNamespace:
        found = {
            name: _define(fn, None, JitOptions(), Purpose.Opaque, strict_ssa, None, may_return=True)
            for name, fn in _functions_of(owner).items()
        }
        for made in found.values():
            if not _returns_value(source_of(made.source.fn).tree):
                made.ir()
        return SimpleNamespace(__name__=owner.__name__, **found)

    return define if cls is None else define(cls)


def _functions_of(owner: type) -> dict[str, Any]:
    """The methods of a class as plain functions that call each other by name, on lines as in the class's file."""
    plain_functions = [fn for fn in vars(owner).values() if isinstance(fn, FunctionType)]
    if not plain_functions:
        raise ValueError(f"program `{owner.__name__}` has no functions")
    methods = [node for node in _class_tree(owner, plain_functions[0]).body if isinstance(node, ast.FunctionDef)]
    text = ""
    for method in methods:
        method.decorator_list.clear()
        receiver = method.args.args.pop(0).arg if method.args.args else ""
        plain = ast.unparse(_WithoutReceiver(receiver).visit(method))
        text += "\n" * (method.lineno - 1 - text.count("\n")) + plain + "\n"
    namespace = dict(plain_functions[0].__globals__)
    _execute(text, f"<pl.program {owner.__name__} {next(_texts)}>", namespace)
    return {method.name: namespace[method.name] for method in methods}


def _class_tree(owner: type, method: FunctionType) -> ast.ClassDef:
    """The syntax of a class, out of the file that one of its methods says it is from."""
    code = method.__code__
    tree = ast.parse("".join(linecache.getlines(code.co_filename)))
    around = [
        node for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and node.name == owner.__name__
        and node.lineno <= code.co_firstlineno <= (node.end_lineno or 0)
    ]  # fmt: skip
    if not around:
        raise ParserSyntaxError(f"the source of program `{owner.__name__}` cannot be found")
    return around[-1]


class _WithoutReceiver(ast.NodeTransformer):
    def __init__(self, receiver: str) -> None:
        self.receiver = receiver

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """`self.m` as `m`."""
        self.generic_visit(node)
        is_own = isinstance(node.value, ast.Name) and node.value.id == self.receiver
        return ast.Name(node.attr, node.ctx) if is_own else node


def _returns_value(tree: ast.FunctionDef) -> bool:
    return any(isinstance(node, ast.Return) and node.value is not None for node in ast.walk(tree))


def _execute(text: str, shown: str, namespace: dict[str, Any]) -> None:
    """Run a text so that its functions' source can be found again."""
    compiled = compile(text, shown, "exec")
    linecache.cache[shown] = (len(text), None, text.splitlines(True), shown)
    exec(compiled, namespace)  # the author's own text


def _scope() -> Mapping[str, Any] | None:
    frame = caller()
    return None if frame is None or frame.f_locals is frame.f_globals else dict(frame.f_locals)


def _define(
    fn: Callable[..., Any], scope: Mapping[str, Any] | None, chosen: JitOptions, func_type: Purpose,
    strict_ssa: bool, meta_data: Any, may_return: bool = False,
) -> KernelDef:
    source = KernelSource.capture(fn, scope)
    made = JitKernel(source, read_signature(source.fn, source.environment()), chosen, None, None)
    return KernelDef(chosen.name or source.name, source, func_type, strict_ssa, meta_data, may_return, definition=made)


_texts = itertools.count(1)


def parse(code: str, filename: str = "<string>") -> Any:
    """The one function or program that a text defines; `pl` needs no import.

    ValueError when it defines none or several, SyntaxError when it is not Python; errors of the front end pass through.
    """
    shown = filename if filename != "<string>" else f"<pl.parse {next(_texts)}>"
    namespace: dict[str, Any] = {"__name__": shown, "pl": import_module(__package__)}
    _execute(code, shown, namespace)
    found = {id(v): v for v in namespace.values() if isinstance(v, KernelDef | JitKernel) or _is_program(v)}
    if len(found) != 1:
        raise ValueError(f"{shown} must define exactly one function or program, found {len(found)}")
    return next(iter(found.values()))


def _is_program(value: Any) -> bool:
    return isinstance(value, SimpleNamespace) and hasattr(value, "__name__")


def loads(path: str | Path) -> Any:
    """As `parse`, of a file."""
    return parse(Path(path).read_text(encoding="utf-8"), str(path))


def parse_program(code: str, filename: str = "<string>") -> Any:
    """As `parse`; ValueError when the text defines a function."""
    found = parse(code, filename)
    if not _is_program(found):
        raise ValueError(f"{filename} defines a function, a program is wanted")
    return found


def loads_program(path: str | Path) -> Any:
    """As `parse_program`, of a file."""
    return parse_program(Path(path).read_text(encoding="utf-8"), str(path))
