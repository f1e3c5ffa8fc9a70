"""The variants of one kernel object: compile signature, cache, and what is compiled once a variant."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from pypto_pro.diag.names import did_you_mean
from pypto_pro.dtypes import DataType
from pypto_pro.ir import walk
from pypto_pro.ir.nodes import CopyTensor, Kernel, Op, Program, SetField, TensorDecl, Var
from pypto_pro.ir.types import PtrType, TensorType
from pypto_pro.runtime.binding import StaticDims
from pypto_pro.runtime.callsite import warn_at_caller

if TYPE_CHECKING:
    from pypto_pro.runtime.stored import Stored
    from pypto_pro.runtime.watch import Watched


class Signature(NamedTuple):
    """What one variant is compiled for: STATIC sizes, packed tiling key, dtype of each dtype variable."""

    static: StaticDims = ()
    key: int | None = None
    datatypes: tuple[tuple[str, DataType], ...] = ()


@dataclass(frozen=True)
class DatatypeSchema:
    """`datatype={parameter: variable}` of a kernel: dtypes chosen at each launch."""

    variables: Mapping[str, str]

    @classmethod
    def of(cls, schema: Any, parameters: Iterable[str], key_fields: Iterable[str]) -> DatatypeSchema:
        """The checked schema. ValueError for anything the rules of the language reject."""
        if not isinstance(schema, dict) or not schema:
            raise ValueError("datatype must be a non-empty dict {parameter: dtype variable}")
        names, fields = list(parameters), set(key_fields)
        for parameter, variable in schema.items():
            if not isinstance(parameter, str) or parameter not in names:
                hint = did_you_mean(str(parameter), names)
                raise ValueError(f"datatype names `{parameter}`, which is no parameter" + (f"; {hint}" if hint else ""))
            if not isinstance(variable, str) or not variable.isidentifier():
                raise ValueError(f"the dtype variable of `{parameter}` must be an identifier, found {variable!r}")
            if variable in names or variable in fields:
                raise ValueError(f"dtype variable `{variable}` has the name of a parameter or a tiling key field")
        return cls(dict(schema))

    def check(self, given: Any) -> tuple[tuple[str, DataType], ...]:
        """(variable, dtype) pairs of a launch. ValueError for wrong keys or disagreement, TypeError for no dtypes."""
        if not isinstance(given, dict):
            raise ValueError(f"the datatype of a launch is a dict of {', '.join(self.variables)}, found {given!r}")
        if set(given) != set(self.variables):
            found = ", ".join(map(str, given)) or "none"
            raise ValueError(f"the datatype of a launch names {', '.join(self.variables)}, found {found}")
        chosen: dict[str, DataType] = {}
        for parameter, variable in self.variables.items():
            dtype = given[parameter]
            if not isinstance(dtype, DataType):
                raise TypeError(f"the datatype of `{parameter}` must be a pl.DT_..., found {dtype!r}")
            if chosen.setdefault(variable, dtype) is not dtype:
                raise ValueError(f"`{variable}` is both {chosen[variable].name} and, by `{parameter}`, {dtype.name}")
        return tuple(chosen.items())


@dataclass(eq=False)
class Variant:
    """One compiled specialisation. `compiled` holds what each executor made of it, by executor name.

    `watched` are the constants from outside that it was compiled with; `key` names its place in the disk cache, None
    when it has none or is there already; `stored` is what was found there. `seconds_left` bounds the native compile.
    """

    read: Callable[[], Kernel]
    written: frozenset[int]
    watched: tuple[Watched, ...] = ()
    key: str | None = None
    stored: Stored | None = None
    seconds_left: float = math.inf
    compiled: dict[str, Any] = field(default_factory=dict)
    told: set[tuple[str, str]] = field(default_factory=set)

    @classmethod
    def of(cls, kernel: Kernel, watched: Iterable[Watched] = (), key: str | None = None) -> Variant:
        """The variant of IR that all passes have run over."""
        written = frozenset(i for i, p in enumerate(kernel.params) if p in written_params(kernel))
        return cls(lambda: kernel, written, tuple(watched), key)

    @cached_property
    def kernel(self) -> Kernel:
        """The IR after all passes."""
        return self.read()

    def warn_stale(self, name: str) -> None:
        """RuntimeWarning at the caller's line for constants that changed after the compile, once a change."""
        for constant in self.watched:
            now = constant.changed()
            if now is not None and (constant.text, now) not in self.told:
                self.told.add((constant.text, now))
                warn_at_caller(
                    f"{constant} is {now} now; `{name}` was compiled with {constant.printed} and keeps "
                    "that to the end of this process, as on the device"
                )


def written_params(kernel: Kernel) -> frozenset[Var]:
    """Tensor and pointer parameters that some operation may write, through views and pointers of them too."""
    return frozenset().union(*(_written_in(program) & set(kernel.params) for program in kernel.programs))


def _written_in(program: Program) -> set[Var]:
    """Variables written in a program, closed over where their addresses come from."""
    from pypto_pro.ops.entry import Role
    from pypto_pro.ops.table import lookup  # the whole table: not before the first compile

    sources: dict[Var, set[Var]] = {}
    written: set[Var] = set()
    for stmt in walk.statements(program.body):
        match stmt:
            case Op(name=name, args=args):
                entry = lookup(name)
                params = entry.data_params if entry is not None else ()
                for param, arg in zip(params, args, strict=False):
                    if getattr(param.spec, "role", Role.INOUT) is not Role.IN:
                        written |= _memory_vars(arg)
            case SetField():
                continue
            case TensorDecl() | CopyTensor():
                used = [var for child in walk.children(stmt) for var in _memory_vars(child)]
                sources.setdefault(stmt.var, set()).update(used)
            case _:
                for bound in walk.bound_vars(stmt):
                    if isinstance(bound.type, TensorType | PtrType):
                        used = [var for expr in walk.expressions(stmt) for var in _memory_vars(expr)]
                        sources.setdefault(bound, set()).update(used)
    pending = list(written)
    while pending:
        new = sources.get(pending.pop(), set()) - written
        written |= new
        pending += new
    return written


def _memory_vars(arg: Any) -> set[Var]:
    """Tensor and pointer variables an operand mentions."""
    if arg is None or isinstance(arg, tuple):
        return set()
    return {n for n in walk.walk(arg) if isinstance(n, Var) and isinstance(n.type, TensorType | PtrType)}


making = threading.RLock()
"""Held by whoever compiles, so that a fork finds nothing half made. A signal handler may compile inside a compile."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=making.acquire, after_in_parent=making.release, after_in_child=making.release)


class VariantCache:
    """The variants of one kernel object. Failed compiles are not kept; threads compile a signature once."""

    def __init__(self) -> None:
        self._variants: dict[Signature, Variant] = {}

    def get(self, signature: Signature) -> Variant | None:
        """The variant if it exists."""
        return self._variants.get(signature)

    def get_or_make(self, signature: Signature, make: Any) -> Variant:
        """The variant, made by `make(signature) -> Variant` when it does not exist yet."""
        with making:
            found = self._variants.get(signature)
            if found is None:
                found = self._variants[signature] = make(signature)
            return found

    def __len__(self) -> int:
        return len(self._variants)

    def __iter__(self) -> Iterator[Variant]:
        return iter([*self._variants.values()])


