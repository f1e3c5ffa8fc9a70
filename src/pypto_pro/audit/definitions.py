"""Imports, functions and classes: what the names of a file stand for."""

from __future__ import annotations

import ast

from pypto_pro.audit.control_flow import ControlFlow
from pypto_pro.audit.machine import Arguments, Scope
from pypto_pro.audit.names import ARRAY_LIBRARIES, STDLIB, root_of
from pypto_pro.audit.values import (
    ANY,
    ClassValue,
    Func,
    Language,
    Library,
    Scalar,
    Torch,
    Value,
    join_all,
    options,
)


class Definitions(ControlFlow):
    """Statements that bind names to modules, functions and classes."""

    # -- imports
    def exec_Import(self, node: ast.Import) -> None:  # noqa: N802
        for alias in node.names:
            full = alias.name if alias.asname else alias.name.split(".")[0]
            self.bind(alias.asname or full, module_value(full))

    def exec_ImportFrom(self, node: ast.ImportFrom) -> None:  # noqa: N802
        module = "." * node.level + (node.module or "")
        for alias in node.names:
            if alias.name == "*":
                self.star_torch = self.star_torch or module == "torch"
                continue
            self.bind(alias.asname or alias.name, self._attribute_of_module(module, alias.name))

    def _attribute_of_module(self, module: str, name: str) -> Value:
        owner = module_value(module)
        if module == "typing" and name == "TYPE_CHECKING":
            return Scalar("bool", False)
        match owner:
            case Torch(qualname=qualname):
                return self._torch_attribute(qualname, name)
            case Language(qualname=qualname, pro=pro):
                return Language(f"{qualname}.{name}", pro)
            case Library(group=group, qualname=qualname):
                return Library(group, f"{qualname}.{name}")
        return ANY

    # -- definitions
    def exec_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:  # noqa: N802
        func: Value = Func(node, self.frame, self.default_values(node.args))
        self.captured.add(self.frame)
        for decorator in reversed(node.decorator_list):
            func = self.call_value(self.evaluate(decorator), Arguments((func,)), decorator)
        self.bind(node.name, func)

    exec_AsyncFunctionDef = exec_FunctionDef  # noqa: N815

    def exec_ClassDef(self, node: ast.ClassDef) -> None:  # noqa: N802
        bases = tuple(join_all(options(self.evaluate(base))[:1]) for base in node.bases)
        for keyword in node.keywords:
            self.evaluate(keyword.value)
        frame = self.stable_key("class", node)
        self.scopes[frame] = Scope("class", self.frame)
        self.state.open_frame(frame)
        self.captured.update((frame, self.frame))
        outer, self.frame = self.frame, frame
        try:
            flow = self.execute(node.body)
        finally:
            self.frame = outer
        if flow.normal is not None:
            self.state = flow.normal
        cls: Value = ClassValue(node, frame, bases)
        for decorator in reversed(node.decorator_list):
            cls = self.call_value(self.evaluate(decorator), Arguments((cls,)), decorator)
        self.bind(node.name, cls)


def module_value(name: str) -> Value:
    """What `import name` binds."""
    root = root_of(name)
    if name.startswith("."):
        return Library("external", name)
    if root in ("torch", "torch_npu"):
        return Torch(name)
    if root == "pypto_pro":
        return Language(name)
    if root == "pypto":
        return Language(name, pro=False)
    if root in ARRAY_LIBRARIES:
        return Library("array", name)
    return Library("std" if root in STDLIB else "external", name)
