"""Names from outside a function: variant constants, captured locals, module globals; and what Python objects become."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import FunctionType, MethodType, ModuleType
from typing import Any

from pypto_pro.dtypes import DataType
from pypto_pro.frontend import markers
from pypto_pro.frontend.source import plain_function
from pypto_pro.frontend.values import Foreign, Function, Static, TupleValue, Value
from pypto_pro.ir import build

LANGUAGE = "pypto_pro.language"
BUILTINS = frozenset({"len", "max", "min", "abs", "sum", "round", "int", "float", "bool", "list", "tuple", "range",
                      "isinstance", "type"})  # fmt: skip
_SCALARS = (bool, int, float, Enum)
_MISSING = object()


@dataclass(eq=False)
class Captures:
    """What reading a kernel took from outside its text: constants that may change later (how they are reached, printed
    value) as of the first look, every name that was looked for, and the Python functions that ran to give constants.
    `transformed`: the kernel as Python text after the `pipeline` option, empty without it."""

    constants: dict[str, str] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    called: list[Any] = field(default_factory=list)
    transformed: str = ""

    def note(self, text: str, value: Any) -> None:
        """Note a constant under the text that reaches it: `BLOCK`, `cfg.x`, `TABLE['k']`."""
        if text not in self.constants and is_constant(value):
            self.constants[text] = repr(value)

    def note_part(self, owner: Any, value: Any, text: Callable[[], str | None]) -> None:
        """Note a constant taken out of an object that is none itself and may hold another one later."""
        if is_constant(value) and not is_constant(owner) and not _is_settled(owner):
            found = text()
            if found is not None:
                self.note(found, value)

    def ran(self, function: Any) -> None:
        """Note a Python function that gave a constant, with the module constants it reads."""
        self.called.append(function)
        fn = function.__func__ if isinstance(function, MethodType) else function
        if isinstance(fn, FunctionType):
            for name in fn.__code__.co_names:
                self.note(name, fn.__globals__.get(name))


def is_constant(value: Any) -> bool:
    """Whether a Python object is a compile-time constant: a number, an enum member, a list or tuple of constants."""
    return isinstance(value, _SCALARS) or (isinstance(value, list | tuple) and all(map(is_constant, value)))


def _is_settled(owner: Any) -> bool:
    """Whether the members of an object are what they are for good: the language, enumerations."""
    return is_language(owner) or (isinstance(owner, type) and issubclass(owner, Enum))


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
        if name in self.constants:
            return self.constants[name]
        if name in self.enclosing:
            if isinstance(self.enclosing[name], list):  # the name stays what it was; its items may change
                self.captured.note(name, self.enclosing[name])
            return self.enclosing[name]
        value = self.module.get(name, _MISSING)
        if value is _MISSING:
            raise KeyError(name)
        self.captured.note(name, value)
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
        return TupleValue(items, tuple(fields) if fields else None, is_captured=True)
    fn = plain_function(value)
    return Foreign(value) if fn is None else Function(fn)
