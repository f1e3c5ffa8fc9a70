"""Calls into torch, the standard library, other modules and pypto_pro itself."""

from __future__ import annotations

import ast
from dataclasses import replace

from pypto_pro.audit.builtin_calls import BuiltinCalls
from pypto_pro.audit.launching import DEVICE_DECORATORS
from pypto_pro.audit.machine import Arguments, PathEnds, torch_base
from pypto_pro.audit.names import EMPTY_KEYWORDS, function_code, root_of
from pypto_pro.audit.state import HeapObject
from pypto_pro.audit.trace import Allocation
from pypto_pro.audit.values import (
    ANY,
    BOOL,
    DEVICE,
    NONE,
    OPAQUE,
    SIZE,
    ClassValue,
    DeviceFunction,
    Func,
    Kernel,
    Language,
    Launcher,
    Library,
    Many,
    Maybe,
    Method,
    Opaque,
    Partial,
    Scalar,
    Tensor,
    TorchObject,
    Tuple,
    Value,
    join_all,
    options,
    tuple_of,
)

_TYPING_IDENTITY = frozenset(("typing.cast", "typing.assert_type"))
_SAME_FUNCTION = frozenset(
    (
        "functools.wraps()",
        "functools.update_wrapper",
        "contextlib.contextmanager",
        "abc.abstractmethod",
        "typing.overload",
        "typing.final",
        "typing.no_type_check",
        "contextlib.asynccontextmanager",
        "functools.singledispatch",
        "atexit.register",
    )
)
_CACHES = frozenset(("functools.lru_cache", "functools.lru_cache()", "functools.cache"))
_CHAINS = frozenset(
    ("itertools.chain", "itertools.cycle", "itertools.islice", "itertools.tee", "itertools.chain.from_iterable")
)
_PAIRS = frozenset(
    (
        "itertools.zip_longest",
        "itertools.product",
        "itertools.combinations",
        "itertools.permutations",
        "itertools.pairwise",
    )
)
_CONTAINERS = {
    "collections.deque": "list",
    "collections.OrderedDict": "dict",
    "collections.defaultdict": "dict",
    "collections.Counter": "dict",
}
_READERS = frozenset(
    ("logging", "warnings", "pprint", "json", "pickle", "sys", "traceback", "textwrap", "reprlib", "string")
)
_NEVER_RETURN = frozenset(("sys.exit", "os._exit", "os.abort"))
# What a wrapper may call of pypto_pro to prepare a launch: it touches no tensor.
_HOST_CALLS = frozenset(("get_platform_info", "Tensor", "Ptr", "TilingKeyField", "PipelineConfig", "DataType"))


class LibraryCalls(BuiltinCalls):
    """Everything whose body is in another file."""

    # -- torch
    def call_torch(self, qualname: str, args: Arguments, node: ast.expr) -> Value:
        """`torch.empty` allocates; every other function of torch is a finding."""
        if qualname == "torch.empty" and not self.importing:
            return self._allocate_tensor(args, node)
        for value in args.positional:
            self.learn(value, "tensor")
        last = qualname.rsplit(".", 1)[-1]
        code = "W108" if qualname == "torch.empty" else function_code(qualname)
        if qualname.startswith("torch.Tensor.") and args.positional and isinstance(args.positional[0], Tensor):
            return self.tensor_call(
                args.positional[0], last, replace(args, positional=args.positional[1:], nodes=args.nodes[1:]), node
            )
        if (
            code == "W108"
            and last in ("as_tensor", "asarray")
            and args.get(1, "dtype") is not None
            and self.tensor_in(join_all(args.all()))
        ):
            code = "W101"
        tensor = next((t for t in map(self.tensor_in, args.all()) if t is not None), None)
        detail = f": `{qualname}`" + (f" on `{tensor.label}`" if tensor is not None else "")
        if self.importing and code == "W108":
            detail += ", at import time"
        self.hit(code, node, tensor, detail, last)
        self.called(node, node.func if isinstance(node, ast.Call) else node, "finding", code)
        return self._torch_result(code, qualname, args, node)

    def _torch_result(self, code: str, qualname: str, args: Arguments, node: ast.expr) -> Value:
        if code == "W115":
            special = {
                "torch.device": DEVICE,
                "torch.Size": SIZE,
                "torch.is_tensor": BOOL,
                "torch.numel": Scalar("int"),
            }.get(qualname)
            if special is not None:
                return special
        passed = [v for v in args.all() if isinstance(v, (Func, Kernel, Method, ClassValue))]
        if code in ("W115", "W118") and len(passed) == 1:
            return passed[0]  # torch.compile(f) and the like: the author's function goes on being audited
        if code in ("W115", "W118", "W111"):
            return (
                Opaque(self.sources_of(*args.all()))
                if self.tensor_in(join_all(args.all()))
                else TorchObject(f"{qualname}()")
            )
        if self.importing:
            return Tensor("global", self.source.expression(node), frozenset(), node)
        return self.tensor_result(code, qualname.rsplit(".", 1)[-1], node, *args.all())

    def _allocate_tensor(self, args: Arguments, node: ast.expr) -> Value:
        """The only allowed function: a new output buffer."""
        for name in [k for k in args.keywords if k not in EMPTY_KEYWORDS]:
            self.hit("W109", args.keyword_nodes.get(name, node), None, f": keyword `{name}` of `torch.empty`", name)
        sizes = [*args.positional, *(v for k, v in args.keywords.items() if k == "size")]
        for value in sizes:
            for part in self.inside(value):
                self.learn(part, "scalar")
            tensor = self.tensor_in(value)
            if tensor is not None:
                self.hit("W110", node, tensor, f": the data of `{tensor.label}` become a size", "__index__")
        site = f"empty:{self.call}{self.stable_key('empty', node)}"
        self.note(Allocation(node, self.chain, site))
        self.called(node, node.func if isinstance(node, ast.Call) else node, "allowed")
        return Tensor("empty", self.source.expression(node), frozenset((site,)), node)

    # -- pypto_pro
    def call_language(self, callee: Language, args: Arguments, node: ast.expr) -> Value:
        """Decorators make kernels and device functions; on the host only the platform query may be called."""
        qualname = callee.qualname.removesuffix("()")
        last = qualname.rsplit(".", 1)[-1]
        functions = [v for v in args.positional if isinstance(v, Func)]
        if last == "jit":
            return self._jit(functions[0], callee) if functions else Language(f"{qualname}()", callee.pro)
        if last in DEVICE_DECORATORS:
            if functions and not isinstance(functions[0].node, ast.Lambda):
                return DeviceFunction(functions[0].node.name)
            return Language(f"{qualname}()", callee.pro)
        tensor = self.tensor_in(join_all(args.all()))
        if tensor is None and (self.importing or last in _HOST_CALLS):
            return callee if last in ("Tensor", "Ptr") else ANY
        self.hit("W116", node, tensor, f": `{qualname}` is device code, not a host function", last)
        self.called(node, node.func if isinstance(node, ast.Call) else node, "finding", "W116")
        return OPAQUE

    def _jit(self, func: Func, callee: Language) -> Value:
        """A kernel, or the plain function when no parameter has a kernel annotation."""
        if isinstance(func.node, ast.Lambda) or (callee.pro and not self.is_kernel(func.node)):
            return func
        return Kernel(func.node, func.frame, callee.pro)

    # -- other modules
    def call_library(self, callee: Library, args: Arguments, node: ast.expr) -> Value:
        """Array libraries, the standard library, and files the audit does not see."""
        tensor = next((t for t in map(self.tensor_in, args.all()) if t is not None), None)
        if callee.group == "std":
            return self._call_std(callee.qualname, args, node, tensor)
        code = "W117" if callee.group == "array" and tensor is not None else "W116"
        detail = f": `{callee.qualname}`" + (f" on `{tensor.label}`" if tensor is not None else "")
        self.hit(
            code, node, tensor, detail if code == "W117" else f"{detail} is not part of this file", callee.qualname
        )
        resolved = callee.group == "array"
        self.called(node, node.func if isinstance(node, ast.Call) else node, "finding", code, resolved=resolved)
        passed = [v for v in args.all() if isinstance(v, (Func, Kernel, Method, ClassValue))]
        return (
            passed[0]
            if len(passed) == 1 and not callee.qualname.startswith("pytest")
            else Opaque(self.sources_of(*args.all()))
        )

    def _call_std(self, name: str, args: Arguments, node: ast.expr, tensor: Tensor | None) -> Value:
        if name in _NEVER_RETURN:
            raise PathEnds
        known = self._known_std(name, args, node)
        if known is not None:
            return known
        root = root_of(name)
        if root == "importlib":
            self.hit("W116", node, None, f": `{name}` imports at run time", name)
            return OPAQUE
        self._run_callbacks(args, node)
        if tensor is None:
            for value in (v for v in args.all() if isinstance(v, Maybe) and v.key and root != "logging"):
                self.unproven(node, value, f"`{name}` would read the data of `{value.key}` if it is a tensor")
            return (
                Library("std", f"{name}()") if root in ("logging", "threading", "time", "contextlib", "types") else ANY
            )
        code, text = self._std_code(name, root)
        self.hit(code, node, tensor, f": `{name}` on `{tensor.label}`{text}", name.rsplit(".", 1)[-1])
        if code == "W105":
            return self.derived(node, *args.all())
        return Opaque(self.sources_of(*args.all()))

    def _run_callbacks(self, args: Arguments, node: ast.expr) -> None:
        """Functions handed to the standard library are called there, nobody knows how often or with what."""
        for value in args.all():
            for option in options(value):
                if isinstance(option, (Func, Method, Partial, Launcher, Kernel)):
                    with self.looping(node):
                        self.call_value(option, Arguments(star=OPAQUE), node)

    def _std_code(self, name: str, root: str) -> tuple[str, str]:
        """The code of a standard function that is handed a tensor."""
        if root == "copy":
            return "W105", " copies it"
        if root in _READERS:
            return "W110", " turns its data into text or bytes"
        if root == "operator":
            return ("W106", "") if name.endswith("getitem") else ("W112", " computes with it")
        return "W116", ", which may read its data"

    def _known_std(self, name: str, args: Arguments, node: ast.expr) -> Value | None:
        """Standard functions that only pass values on. None: not one of them."""
        first = args.positional[0] if args.positional else None
        if name in _TYPING_IDENTITY:
            return args.positional[-1] if args.positional else ANY
        if name == "functools.partial" and first is not None:
            return Partial(first, args.positional[1:], tuple(args.keywords.items()))
        if name == "functools.reduce" and len(args.positional) > 1:
            return self._reduce(args, node)
        if name in ("functools.wraps", "functools.lru_cache") and not isinstance(first, Func):
            return Library("std", f"{name}()")
        if name == "functools.wraps":
            return Library("std", "functools.wraps()")
        if name in _SAME_FUNCTION and first is not None:
            return first
        if name in _CACHES and isinstance(first, Func):
            return replace(first, flavour="cached")
        if name in ("dataclasses.dataclass", "dataclasses.dataclass()", "functools.total_ordering"):
            return first if isinstance(first, ClassValue) else Library("std", "dataclasses.dataclass()")
        if name in ("functools.cached_property", "functools.singledispatchmethod") and isinstance(first, Func):
            return replace(first, flavour="property")
        return self._iterator_or_container(name, args, node)

    def _iterator_or_container(self, name: str, args: Arguments, node: ast.expr) -> Value | None:
        if name in _CHAINS:
            inner = [self.iterate(v, node, f"`{name}` of") for v in args.positional if not isinstance(v, Scalar)]
            if name.endswith("from_iterable"):
                inner = [self.iterate(v, node) for v in inner]
            return Many(join_all(inner), "iterator")
        if name in _PAIRS:
            items = [self.iterate(v, node, f"`{name}` of") for v in args.positional if not isinstance(v, Scalar)]
            return Many(tuple_of(items) if len(items) > 1 else Many(join_all(items), "tuple"), "iterator")
        if name == "itertools.repeat" and args.positional:
            return Many(args.positional[0], "iterator")
        if name in _CONTAINERS:
            inside = [self.iterate(v, node) for v in args.positional if not isinstance(v, (Scalar, Func, Library))]
            rest = join_all([*inside, *args.keywords.values()]) if inside or args.keywords else None
            return self.allocate(
                node, HeapObject(_CONTAINERS[name], () if rest is None and _CONTAINERS[name] == "list" else None, rest)
            )
        if name in ("types.SimpleNamespace", "argparse.Namespace"):
            return self.allocate(node, HeapObject("instance", None, args.double_star, dict(args.keywords)))
        return None

    def _reduce(self, args: Arguments, node: ast.expr) -> Value:
        """`functools.reduce(f, sequence, start)`: a loop around `f`."""
        item = self.iterate(args.positional[1], node, "`functools.reduce` of")
        start = args.positional[2] if len(args.positional) > 2 else item
        with self.looping(node):
            made = self.call_value(args.positional[0], Arguments((join_all([start, item]), item)), node)
        return join_all([start, made])

    # -- torch classes of the file
    def call_apply(self, cls: ClassValue, args: Arguments, node: ast.expr) -> Value:
        """`Function.apply(...)`: reported, then its forward is followed."""
        self.hit("W118", node, None, f": `{cls.node.name}` is an autograd function", "apply")
        forward = self.class_attribute(cls, "forward")
        if not isinstance(forward, Func):
            return OPAQUE
        return self.call_function(forward, args.prepend(OPAQUE), node)

    def _method_call(self, owner: Value, name: str, args: Arguments, node: ast.Call) -> Value:
        if isinstance(owner, ClassValue) and name == "apply" and torch_base(owner) == "function":
            return self.call_apply(owner, args, node)
        return super()._method_call(owner, name, args, node)


__all__ = ["NONE", "LibraryCalls", "Tuple", "options"]
