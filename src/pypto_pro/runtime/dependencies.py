"""What compiling a kernel depends on outside the package: the text of its files, and the objects its names stand for.

`describe(kernel function)` follows every identifier in the text and the code of the kernel and of the functions it
leads to, and hashes what each stands for now: numbers, texts, containers, enum members, plain objects, classes,
functions (by code and file). An object that cannot be described (an open file, a foreign library's handle) makes its
name opaque: a result is independent of it only if compiling never looked that name up.

Most of these names are attributes, parameters and words of comments; globals that happen to be called the same say
nothing about the kernel. Once it is known which names a compile looks up, `describe(..., only=names)` tells just them.
"""

from __future__ import annotations

import builtins
import contextlib
import hashlib
import itertools
import linecache
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from types import BuiltinFunctionType, CodeType, FunctionType, MappingProxyType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

OWN = "pypto_pro"
MAX_OBJECTS = 20_000
MAX_ARRAY_BYTES = 1 << 20
ATOMS = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), type(NotImplemented))
PURE_MODULES = frozenset({"math", "operator", "_operator", "itertools", "functools", "_functools"})
PURE_BUILTINS = frozenset(
    fn.__name__ for fn in (
        abs, all, any, bool, bytes, complex, dict, divmod, enumerate, filter, float, format, frozenset, int, isinstance,
        issubclass, iter, len, list, map, max, min, next, object, pow, range, repr, reversed, round, set, slice, sorted,
        str, sum, tuple, type, zip,
    )
)  # fmt: skip
_NAME = re.compile(r"[^\W\d]\w*")
_IMPORTS = frozenset(f"IMPORT_{what}" for what in ("NAME", "FROM", "STAR"))
_HIDDEN = frozenset({"__dict__", "__weakref__", "__doc__", "__module__", "__firstlineno__", "__static_attributes__",
                     "__dataclass_fields__", "__dataclass_params__", "__match_args__", "__annotations__",
                     "__abstractmethods__", "_abc_impl", "__parameters__", "__orig_bases__"})  # fmt: skip


class _Opaque(Exception):
    """An object whose state cannot be told."""


@dataclass(frozen=True)
class Dependencies:
    """The description of everything a compile may look at. `digest` differs when anything of it does."""

    digest: str
    names: frozenset[str]
    opaque: frozenset[str]
    functions: tuple[FunctionType, ...]

    def cover(self, names: Iterable[str]) -> bool:
        """Whether the digest tells all that looking up these names can give."""
        looked = set(names)
        return looked <= self.names and not looked & self.opaque

    def scopes(self, enclosing: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """Where the names of the functions are: the locals around the kernel, cells, modules."""
        modules = {id(fn.__globals__): fn.__globals__ for fn in self.functions}
        return [enclosing, *(dict(_cells(fn)) for fn in self.functions if fn.__closure__), *modules.values()]


def describe(
    fn: FunctionType, enclosing: Mapping[str, Any] | None = None, only: frozenset[str] | None = None
) -> Dependencies | None:
    """The dependencies of a function whose decorating scope held `enclosing`; None when there are too many objects.

    `only`: the names of functions' scopes to look at; attributes of modules are told all the same.
    """
    describer = _Describer(only)
    try:
        describer.start(fn, enclosing or {})
    except _TooMany:
        return None
    return describer.result()


def names_read_by(called: Any) -> set[str]:
    """Every name that a Python function, and those it leads to, may look up when it runs."""
    fn = called.__func__ if isinstance(called, MethodType) else called
    found = describe(fn) if isinstance(fn, FunctionType) else None
    codes = [code for function in found.functions for code in _codes(function.__code__)] if found is not None else []
    return {name for code in codes for name in (*code.co_names, *code.co_freevars)}


def is_repeatable(called: Any) -> bool:
    """Whether a Python function gives equal results for equal arguments as long as its description is the same."""
    match called:
        case type():
            return called.__module__ == "builtins"
        case FunctionType():
            found = describe(called)
            return found is not None and not found.opaque and not any(map(_imports, found.functions))
        case MethodType():
            return is_repeatable(called.__func__)
        case BuiltinFunctionType():
            owner = called.__self__
            if isinstance(owner, ModuleType):
                name = owner.__name__
                return name in PURE_MODULES or (name == "builtins" and called.__name__ in PURE_BUILTINS)
            return isinstance(owner, (*ATOMS, tuple, list, dict, set, frozenset))
    return False


def _imports(fn: FunctionType) -> bool:
    import dis

    wanted = {dis.opmap[name] for name in _IMPORTS if name in dis.opmap}
    return any(wanted & set(code.co_code[::2]) for code in _codes(fn.__code__))


class _TooMany(Exception):
    """More objects than a description is worth."""


class _Describer:
    def __init__(self, only: frozenset[str] | None) -> None:
        self.only = only
        self.tokens: list[str] = []
        self.numbers: dict[int, int | None] = {}  # by id: order of the first visit, None for opaque objects
        self.held: list[Any] = []  # objects with numbers stay alive, so that ids stay theirs
        self.files: dict[str, None] = {}
        self.functions: list[FunctionType] = []
        self.pending: list[tuple[Mapping[str, Any], str]] = []
        self.spaces: dict[tuple[int, str], None] = {}
        self.modules: dict[int, ModuleType] = {}
        self.words: dict[str, None] = {}
        self.opaque: set[str] = set()

    # --- the walk over names ---

    def start(self, fn: FunctionType, enclosing: Mapping[str, Any]) -> None:
        """Describe a function and all that its names lead to."""
        self._function(fn)
        for name in self._chosen(self.words):
            if name in enclosing:
                self._name(enclosing, name)
        done = 0
        while self.pending or done < len(self.words) * len(self.modules):
            while self.pending:
                self._name(*self.pending.pop())
            done = len(self.words) * len(self.modules)
            for module, word in itertools.product([*self.modules.values()], sorted(self.words)):
                if word in vars(module):
                    self._queue(vars(module), (word,))

    def result(self) -> Dependencies:
        """What was found."""
        seen = hashlib.sha256("\n".join(self.tokens).encode("utf-8", "surrogatepass"))
        for file in self.files:
            seen.update("".join([file, *linecache.getlines(file)]).encode("utf-8", "surrogatepass"))
        return Dependencies(seen.hexdigest(), frozenset(self.words), frozenset(self.opaque), tuple(self.functions))

    def _chosen(self, names: Iterable[str]) -> list[str]:
        return sorted(name for name in names if self.only is None or name in self.only)

    def _queue(self, space: Mapping[str, Any], names: Iterable[str]) -> None:
        for name in names:
            if (id(space), name) not in self.spaces:
                self.spaces[id(space), name] = None
                self.held.append(space)
                self.pending.append((space, name))

    def _name(self, space: Mapping[str, Any], name: str) -> None:
        """One name of a scope: its object's description, or the name is opaque."""
        if name not in space:
            if hasattr(builtins, name) and name not in PURE_BUILTINS and not _is_exception(getattr(builtins, name)):
                self.opaque.add(name)
            self.tokens.append(f"{name} absent")
            return
        value = space[name]
        first, length = len(self.held), len(self.tokens)
        try:
            self.tokens.append(f"{name} =")
            self._value(value)
        except _TooMany:
            raise
        except Exception:  # _Opaque, or what a foreign object raises when it is looked at, or too deep a nesting
            del self.tokens[length:]
            self.tokens.append(f"{name} opaque")
            self.opaque.add(name)
            for visited in self.held[first:]:  # what was completed may refer to what was not
                self.numbers[id(visited)] = None

    # --- objects ---

    def _value(self, value: Any) -> None:
        kind = type(value)
        if kind in ATOMS:
            self.tokens.append(f"{kind.__name__} {value!r}")
            return
        if id(value) in self.numbers:
            number = self.numbers[id(value)]
            if number is None:
                raise _Opaque
            self.tokens.append(f"#{number}")
            return
        if len(self.held) > MAX_OBJECTS:
            raise _TooMany
        self.numbers[id(value)] = len(self.held)
        self.held.append(value)
        self.tokens.append(_named(kind))
        self._parts(value)

    def _parts(self, value: Any) -> None:
        match value:
            case Enum():
                self.tokens.append(f"{value.name} {value.value!r}")
            case FunctionType():
                self._function(value)
            case MethodType():
                self._all((value.__func__, value.__self__))
            case staticmethod() | classmethod():
                self._value(value.__func__)
            case property():
                self._all((value.fget, value.fset, value.fdel))
            case type():
                self._class(value)
            case ModuleType():
                self._module(value)
            case BuiltinFunctionType():
                self._builtin(value)
            case np.ndarray() if value.nbytes <= MAX_ARRAY_BYTES and not value.dtype.hasobject:
                self.tokens.append(f"{value.dtype.str} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}")
            case np.generic() | np.dtype():
                self.tokens.append(f"{value!r}")
            case _:
                self._container(value)

    def _container(self, value: Any) -> None:
        match value:
            case list() | tuple():
                self._all(value)
            case dict() | MappingProxyType():
                self._all(itertools.chain.from_iterable(value.items()))
            case set() | frozenset():
                if not all(isinstance(item, ATOMS) for item in value):
                    raise _Opaque
                self.tokens.append(repr(sorted(map(repr, value))))
            case range() | slice():
                self.tokens.append(repr(value))
            case _:
                self._state(value)
                return
        if type(value) not in (list, tuple, dict, MappingProxyType, set, frozenset):
            self._value(type(value))
            self._all(sorted(vars(value).items()) if hasattr(value, "__dict__") else ())

    def _all(self, items: Iterable[Any]) -> None:
        self.tokens.append("(")
        for item in items:
            self._value(item)
        self.tokens.append(")")

    def _state(self, value: Any) -> None:
        """An instance of a class written in Python: its class and its attributes."""
        kind = type(value)
        if _is_own(_module_of(kind)):
            if not is_dataclass(value):
                raise _Opaque
            self._all(getattr(value, field.name) for field in fields(value))
            return
        if kind is not SimpleNamespace:
            bases = [base for base in kind.__mro__ if not base.__flags__ & _HEAP]
            if bases != [object] or _is_library(_module_of(kind)):
                raise _Opaque
            self._value(kind)
        self._all(itertools.chain.from_iterable(_held(value).items()))

    def _class(self, kind: type) -> None:
        self.tokens.append(f"class {_named(kind)}")
        if _is_own(_module_of(kind)) or _is_library(_module_of(kind)) or not kind.__flags__ & _HEAP:
            return
        if issubclass(kind, Enum):
            self._all(itertools.chain.from_iterable((name, m.value) for name, m in kind.__members__.items()))
            return
        for name, member in sorted(vars(kind).items()):
            if name not in _HIDDEN and not type(member).__name__.endswith(("descriptor", "_tuplegetter")):
                self.tokens.append(name)
                if not _is_library(_module_of(getattr(member, "__func__", member))):
                    self._value(member)
        self._all(base for base in kind.__bases__ if base is not object)

    def _module(self, module: ModuleType) -> None:
        self.tokens.append(module.__name__)
        if not _is_own(module.__name__):
            self.modules[id(module)] = module

    def _builtin(self, function: Any) -> None:
        self.tokens.append(f"{function.__module__}.{function.__qualname__}")
        if not is_repeatable(function):
            raise _Opaque

    # --- functions ---

    def _function(self, fn: FunctionType) -> None:
        """A function's code and attributes; its names are looked at later, each for itself."""
        self.tokens.append(_named(fn))
        if _is_own(_module_of(fn)):
            return
        if _is_library(_module_of(fn)) and fn.__module__ not in PURE_MODULES:
            raise _Opaque
        self.functions.append(fn)
        self.files[fn.__code__.co_filename] = None
        words: dict[str, None] = {}
        for code in _codes(fn.__code__):
            self.tokens.append(f"{code.co_name} {code.co_firstlineno} {code.co_flags} {code.co_varnames}")
            self.tokens += [code.co_code.hex(), repr([_printed(c) for c in code.co_consts])]
            words |= dict.fromkeys((*code.co_names, *code.co_freevars, *code.co_cellvars))
        words |= dict.fromkeys(_NAME.findall(_text(fn.__code__)))
        self.words |= words
        cells = dict(_cells(fn))
        self._queue(cells, self._chosen(cells))
        self._queue(fn.__globals__, self._chosen(words.keys() - cells.keys()))
        self._all((fn.__defaults__, fn.__kwdefaults__))
        self._all(itertools.chain.from_iterable(sorted(vars(fn).items())))


_HEAP = 1 << 9


def _named(what: Any) -> str:
    """Name of a class or function; an author's module counts by its file, since `__main__` is another name for it."""
    module = _module_of(what)
    return f"{module}.{what.__qualname__}" if _is_own(module) or _is_library(module) else str(what.__qualname__)


def _module_of(what: Any) -> str | None:
    """The module a class or function says it is from; a class may define `__module__` anew, as any object."""
    module = getattr(what, "__module__", None)
    return module if isinstance(module, str) else None


def _is_exception(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)


def _is_own(module: str | None) -> bool:
    return module is not None and (module == OWN or module.startswith(OWN + "."))


def _is_library(module: str | None) -> bool:
    """Whether a module belongs to Python itself."""
    root = (module or "").partition(".")[0]
    if root in sys.stdlib_module_names:
        return root != "__main__"
    file = getattr(sys.modules.get(root), "__file__", None) or ""
    return bool(file) and file.startswith(_STDLIB) and "site-packages" not in file


_STDLIB = os.path.dirname(os.__file__) + os.sep


def _held(value: Any) -> dict[str, Any]:
    """What an instance stores, read past any `__getattr__` of its class, which may answer to every name."""
    held = {}
    for base in type(value).__mro__:
        for name in _names_of(vars(base).get("__slots__", ())):
            private = name.startswith("__") and not name.endswith("__")
            stored = f"_{base.__name__.lstrip('_')}{name}" if private else name
            with contextlib.suppress(AttributeError):  # declared, never assigned
                held[stored] = object.__getattribute__(value, stored)
    with contextlib.suppress(AttributeError):
        held |= object.__getattribute__(value, "__dict__")
    return held


def _names_of(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _codes(inner)


def _printed(constant: Any) -> Any:
    """A constant of a code object, printed the same way in every process."""
    match constant:
        case CodeType():
            return "code"
        case frozenset():
            return sorted(map(repr, constant))
    return constant


def _text(code: CodeType) -> str:
    """The lines a function stands on, decorators included; empty when the file is not known."""
    lines = linecache.getlines(code.co_filename)
    ends = [line for inner in _codes(code) for _, _, line in inner.co_lines() if line is not None]
    return "".join(lines[code.co_firstlineno - 1 : max(ends, default=0)])


def _cells(fn: FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not assigned yet
            continue
