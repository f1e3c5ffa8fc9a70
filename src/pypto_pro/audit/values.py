"""What the auditor knows about a value: small immutable descriptions, joined where control flow meets.

A description says what kind of thing a name holds, never its contents. Mutable Python objects (lists, dicts,
instances) live in
the heap of `state.py`; here they are references.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any

MAX_OPTIONS = 12
MAX_DEPTH = 5
NOTHING = object()  # "no constant is known": None is a constant


@dataclass(frozen=True)
class Value:
    """Base of every description."""


@dataclass(frozen=True)
class Tensor(Value):
    """A tensor. `origin` is param, empty (the result of one `torch.empty`), derived or global.

    `sources` are the allocation sites and parameters whose bytes it may show; an `empty` tensor has just its own site.
    """

    origin: str
    label: str
    sources: frozenset[str] = frozenset()
    node: ast.AST | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Scalar(Value):
    """A Python value that is no tensor: kind is int, float, str, bool, none, size, dtype, device, layout, any."""

    kind: str
    const: Any = NOTHING


@dataclass(frozen=True)
class Torch(Value):
    """Something under the name `torch` or `torch_npu`; dtypes and layouts too (see `names.torch_names`)."""

    qualname: str


@dataclass(frozen=True)
class Library(Value):
    """Something of another module: `group` is std, array or external."""

    group: str
    qualname: str


@dataclass(frozen=True)
class Language(Value):
    """Something of `pypto_pro` (or of the non-Pro front end, `pro` false)."""

    qualname: str
    pro: bool = True


@dataclass(frozen=True)
class TorchObject(Value):
    """The non-tensor result of a torch call that is already reported: a stream, an event, a context, a decorator."""

    qualname: str


@dataclass(frozen=True)
class Bound(Value):
    """A method of a tensor that was read but not called. `reported`: the read was already a finding."""

    owner: Value
    member: str
    reported: bool


@dataclass(frozen=True)
class Kernel(Value):
    """A function under `@pl.jit`; identity is its definition, so all products of one factory are one kernel."""

    node: ast.FunctionDef | ast.AsyncFunctionDef
    frame: int
    pro: bool = True


@dataclass(frozen=True)
class DeviceFunction(Value):
    """A function only a kernel may call (`@pl.vector_function`, a pipeline stage, a simt function)."""

    name: str


@dataclass(frozen=True)
class Launcher(Value):
    """`k[...]`: a kernel (or what stands in its place) with launch options, not yet called."""

    target: Value
    form: str
    block_dim: str


@dataclass(frozen=True)
class Func(Value):
    """A Python function or lambda of the file. `frame` is the scope it was defined in."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    frame: int
    defaults: tuple[tuple[str, Value], ...] = ()
    flavour: str = ""  # static, class, property, cached
    owner: Value | None = None  # the class it stands in


@dataclass(frozen=True)
class Method(Value):
    """A function bound to an instance or class."""

    func: Func
    receiver: Value


@dataclass(frozen=True)
class ClassValue(Value):
    """A class of the file; its attributes are the names of scope `frame`."""

    node: ast.ClassDef
    frame: int
    bases: tuple[Value, ...]


@dataclass(frozen=True)
class Ref(Value):
    """A list, dict, set or instance in the heap."""

    key: int


@dataclass(frozen=True)
class Tuple(Value):
    """A tuple of known length."""

    items: tuple[Value, ...]


@dataclass(frozen=True)
class Many(Value):
    """A sequence, iterator or mapping of unknown length whose elements are all described by `item`."""

    item: Value
    kind: str = "list"


@dataclass(frozen=True)
class Partial(Value):
    """`functools.partial(func, *args, **keywords)`."""

    func: Value
    args: tuple[Value, ...]
    keywords: tuple[tuple[str, Value], ...]


@dataclass(frozen=True)
class Builtin(Value):
    """A builtin function, type or exception."""

    name: str


@dataclass(frozen=True)
class MethodOf(Value):
    """A method of a list, dict, string or other plain Python value, not yet called."""

    owner: Value
    name: str


@dataclass(frozen=True)
class Maybe(Value):
    """A value of unknown kind. `key` is how the author reaches it (`x`, `cfg.weight`, `args[]`); evidence is gathered
    per key.

    `roots` are the keys it was computed from: what proves the result a scalar proves them scalars.
    """

    key: str
    roots: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Opaque(Value):
    """The result of something already reported; everything done with it is silent. `sources` as for a tensor."""

    sources: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Union(Value):
    """One of several descriptions, in the order they were met."""

    options: tuple[Value, ...]


INT, FLOAT, STR, BOOL, ANY = Scalar("int"), Scalar("float"), Scalar("str"), Scalar("bool"), Scalar("any")
NONE, SIZE = Scalar("none", None), Scalar("size")
DTYPE, DEVICE, LAYOUT = Scalar("dtype"), Scalar("device"), Scalar("layout")
OPAQUE = Opaque()


def options(value: Value) -> tuple[Value, ...]:
    """The alternatives of a value, itself if it has none."""
    return value.options if isinstance(value, Union) else (value,)


def join(first: Value, second: Value) -> Value:
    """The description of a value that is one of the two. Keeps the order of `first`, so repeated joins come to rest."""
    if first is second or first == second:
        return first
    merged = list(options(first))
    for new in options(second):
        _merge_into(merged, new)
    if len(merged) > MAX_OPTIONS:
        merged = _thin(merged)
    return merged[0] if len(merged) == 1 else Union(tuple(merged))


def join_all(values: list[Value] | tuple[Value, ...], empty: Value = ANY) -> Value:
    """The join of any number of values; `empty` for none."""
    if not values:
        return empty
    result = values[0]
    for value in values[1:]:
        result = join(result, value)
    return result


def _merge_into(merged: list[Value], new: Value) -> None:
    """Add one description to a list of alternatives, folding it into a similar one."""
    if new in merged:
        return
    for position, old in enumerate(merged):
        folded = _fold(old, new)
        if folded is not None:
            merged[position] = folded
            return
    merged.append(new)


def _fold(old: Value, new: Value) -> Value | None:
    """One description for two of the same form, or None when they stay apart."""
    match old, new:
        case Scalar(kind=a), Scalar(kind=b) if a == b:
            return Scalar(a)
        case Scalar(kind="any"), Scalar(kind=kind) if kind != "none":
            return old
        case Opaque(sources=a), Opaque(sources=b):
            return Opaque(a | b)
        case Tuple(items=a), Tuple(items=b) if len(a) == len(b):
            return Tuple(tuple(join(x, y) for x, y in zip(a, b, strict=True)))
        case Tuple(items=a), Tuple(items=b):
            return Many(join_all(a + b), "tuple")
        case Many(item=a, kind=kind), Many(item=b):
            return Many(join(a, b), kind)
        case Many(item=a, kind=kind), Tuple(items=b):
            return Many(join_all((a, *b)), kind)
        case Tensor(origin="derived", label=label), Tensor(origin="derived") if old.label == new.label:
            return Tensor("derived", label, old.sources | new.sources, old.node)
        case Maybe(key=a, roots=r), Maybe(key=b, roots=s) if a == b:
            return Maybe(a, r | s)
    return None


def _thin(merged: list[Value]) -> list[Value]:
    """Too many alternatives: all tensors become one derived tensor, everything else an unremarkable scalar or stays."""
    tensors = [v for v in merged if isinstance(v, Tensor)]
    callables = [v for v in merged if isinstance(v, (Kernel, Launcher, Func, Method))][: MAX_OPTIONS // 2]
    kept: list[Value] = []
    if tensors:
        sources = frozenset[str]().union(*(t.sources for t in tensors))
        kept.append(Tensor("derived", tensors[0].label, sources, tensors[0].node))
    kept += callables
    if any(isinstance(v, Maybe) for v in merged):
        kept.append(next(v for v in merged if isinstance(v, Maybe)))
    kept.append(ANY)
    return kept


def tuple_of(items: list[Value]) -> Value:
    """A tuple value; one that is nested too deep or too long is summarised, so that loops come to rest."""
    if len(items) > 64 or max((_depth(v) for v in items), default=0) >= MAX_DEPTH:
        return Many(join_all([_flat(v) for v in items]), "tuple")
    return Tuple(tuple(items))


def _depth(value: Value) -> int:
    match value:
        case Tuple(items=items):
            return 1 + max((_depth(v) for v in items), default=0)
        case Many(item=item):
            return 1 + _depth(item)
        case Union(options=choices):
            return max(_depth(v) for v in choices)
        case Partial(func=func, args=args):
            return 1 + max([_depth(func), *(_depth(v) for v in args)])
        case Method(receiver=receiver):
            return 1 + _depth(receiver)
        case Bound(owner=owner) | MethodOf(owner=owner):
            return 1 + _depth(owner)
    return 0


def _flat(value: Value) -> Value:
    """The leaves of a nested sequence as one description."""
    match value:
        case Tuple(items=items):
            return join_all([_flat(v) for v in items])
        case Many(item=item):
            return _flat(item)
        case Union(options=choices):
            return join_all([_flat(v) for v in choices])
    return value if _depth(value) < MAX_DEPTH else OPAQUE


def element_of(value: Value) -> Value:
    """What iterating a non-heap, non-tensor value yields."""
    match value:
        case Tuple(items=items):
            return join_all(items)
        case Many(item=item):
            return item
        case Scalar(kind="size"):
            return INT
        case Scalar(kind="str"):
            return STR
        case Opaque():
            return value
    return ANY
