"""Names from outside a function: variant constants, captured locals, module globals; and what Python objects become."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import FunctionType, ModuleType
from typing import Any

from pypto_pro.dtypes import DataType
from pypto_pro.frontend import markers
from pypto_pro.frontend.values import Foreign, Function, Static, TupleValue, Value
from pypto_pro.ir import build

LANGUAGE = "pypto_pro.language"
BUILTINS = frozenset({"len", "max", "min", "abs", "sum", "round", "int", "float", "bool", "list", "tuple", "range",
                      "isinstance", "type"})  # fmt: skip
_MISSING = object()


@dataclass(eq=False)
class Captures:
    """What reading a kernel took from outside its text: module constants (name, printed value) as of the first look,
    every name that was looked for, and the Python functions that ran to give constants."""

    constants: dict[str, str] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    called: list[Any] = field(default_factory=list)


@dataclass(eq=False)
class Closure:
    """The scope of one function: tiling-key fields and dtype variables first, then its cells, then its globals."""

    constants: Mapping[str, Any]
    enclosing: Mapping[str, Any]
    module: Mapping[str, Any]
    captured: Captures = field(default_factory=Captures)

    def has(self, name: str) -> bool:
        """Whether the name is known (builtins do not count)."""
        self.captured.names.add(name)
        return any(name in where for where in (self.constants, self.enclosing, self.module))

    def find(self, name: str) -> Any:
        """The object of a name. KeyError when there is none. Constants of the module are noted as captured."""
        self.captured.names.add(name)
        for where in (self.constants, self.enclosing):
            if name in where:
                return where[name]
        value = self.module.get(name, _MISSING)
        if value is _MISSING:
            raise KeyError(name)
        if isinstance(value, bool | int | float | tuple | list | Enum):
            self.captured.constants.setdefault(name, repr(value))
        return value

    def names(self) -> Iterator[str]:
        """Every known name, for nearest-name help."""
        for where in (self.constants, self.enclosing, self.module):
            yield from (name for name in where if not name.startswith("__"))


def is_language(value: Any) -> bool:
    """Whether a Python object is the module of the language, under whatever name."""
    return isinstance(value, ModuleType) and (value.__name__ == LANGUAGE or value.__name__.startswith(LANGUAGE + "."))


def is_module(value: Any) -> bool:
    """Whether a Python object is a module."""
    return isinstance(value, ModuleType)


def is_kernel_object(value: Any) -> bool:
    """Whether a Python object is a decorated kernel."""
    return hasattr(type(value), "__getitem__") and hasattr(value, "tilingkey_schema")


def is_builtin(name: str) -> bool:
    """Whether Python itself defines the name."""
    return hasattr(builtins, name)


def is_stub(fn: FunctionType) -> bool:
    """Whether a function is the host declaration of an op of the language."""
    module = getattr(fn, "__module__", None) or ""
    return markers.is_stub(fn) or module == LANGUAGE or module.startswith(LANGUAGE + ".")


def from_python(value: Any) -> Value:
    """A Python object as a value: numbers, enum members, dtypes, (nested) lists and tuples, functions; else Foreign.

    OverflowError for an int of more than 64 bits.
    """
    if isinstance(value, DataType | Enum):
        return Static(value)
    if type(value) in (bool, int, float):
        return build.number(value)
    if isinstance(value, list | tuple):
        items = tuple(from_python(item) for item in value)
        fields = getattr(value, "_fields", None)
        return TupleValue(items, tuple(fields) if fields else None)
    if isinstance(value, FunctionType):
        return Function(value)
    return Foreign(value)
