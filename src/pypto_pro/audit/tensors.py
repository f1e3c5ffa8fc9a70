"""Rules of attributes and methods of a tensor, and of values that may turn out to be one."""

from __future__ import annotations

import ast

from pypto_pro.audit.machine import Arguments, Machine
from pypto_pro.audit.names import SCALAR_MEMBERS, SYNC_NAMES, member_code, torch_names
from pypto_pro.audit.trace import MetadataRead
from pypto_pro.audit.values import (
    ANY,
    DEVICE,
    DTYPE,
    INT,
    LAYOUT,
    OPAQUE,
    SIZE,
    STR,
    Bound,
    Many,
    Maybe,
    MethodOf,
    Opaque,
    Scalar,
    Tensor,
    Torch,
    Value,
    options,
)

_ATTRIBUTE_KIND: dict[str, Value] = {"shape": SIZE, "ndim": INT, "dtype": DTYPE, "device": DEVICE, "layout": LAYOUT}
# Read without a call these hold a value; every other listed name is a method.
_PROPERTIES = frozenset(("T", "mT", "H", "mH", "data", "real", "imag"))
_UNMISTAKABLE = frozenset(("T", "mT", "H", "mH"))  # no other object of a wrapper has these


def is_dtype(value: Value) -> bool:
    """Whether the value is a dtype object of torch."""
    if isinstance(value, Torch):
        return value.qualname.removeprefix("torch.") in torch_names().dtypes
    return isinstance(value, Scalar) and value.kind == "dtype"


def is_device(value: Value) -> bool:
    """Whether the value can only name a device."""
    return isinstance(value, Scalar) and value.kind in ("device", "str", "int")


class TensorRules(Machine):
    """What happens when the author touches a tensor."""

    # -- attribute reads
    def tensor_attribute(self, owner: Tensor, name: str, node: ast.expr) -> Value:
        """`x.name` that is not called on the spot."""
        names = torch_names()
        if name in names.metadata_attributes:
            self.note(MetadataRead(owner.label, name, node))
            return _ATTRIBUTE_KIND[name]
        if name in names.metadata_methods:
            self.note(MetadataRead(owner.label, name, node))
            return Bound(owner, name, reported=False)
        code = member_code(name)
        if code is None:
            self.hit("W116", node, owner, f": a tensor has no `{name}`", name)
            return Opaque(owner.sources)
        self.hit(code, node, owner, self._detail(code, name, None, owner), name)
        if name in _PROPERTIES:
            return self.derived(node, owner)
        if code == "W114":
            return Opaque(owner.sources)
        return Bound(owner, name, reported=True)

    def maybe_attribute(self, owner: Maybe, name: str, node: ast.expr) -> Value:
        """`x.name` on a value of unknown kind: a listed member proves a tensor, a member only other classes have an
        object.
        """
        names = torch_names()
        if self.known.get(owner.key) == "object":
            return self.unknown(f"{owner.key}.{name}", node)
        if name in names.metadata_attributes | names.metadata_methods or name in _UNMISTAKABLE:
            self.learn(owner, "tensor")
            return self.tensor_attribute(self._as_tensor(owner, node), name, node)
        if name in SCALAR_MEMBERS:
            if name in names.members:
                self.unproven(node, owner, f"`{owner.key}` may be a tensor, whose `{name}` is outside the boundary")
            return ANY
        if member_code(name) is None:
            self.learn(owner, "object")
        return self.unknown(f"{owner.key}.{name}", node)

    def _as_tensor(self, owner: Maybe, node: ast.AST) -> Tensor:
        return Tensor("param", owner.key, frozenset((f"param:{owner.key}",)), node)

    # -- method calls
    def tensor_call(self, owner: Tensor, name: str, args: Arguments, node: ast.expr) -> Value:
        """`x.name(...)`."""
        if name in torch_names().metadata_methods:
            self.note(MetadataRead(owner.label, name, node))
            self.indices_are_scalars(args)
            return SIZE if name in ("size", "stride") and not args.all() else INT
        code = self.method_code(name, args)
        if code is None:
            self.hit("W116", node, owner, f": a tensor has no `{name}`", name)
            return Opaque(owner.sources)
        self.hit(code, node, owner, self._detail(code, name, args, owner), name)
        return self.tensor_result(code, name, node, owner, *args.all())

    def maybe_call(self, owner: Maybe, name: str, args: Arguments, node: ast.expr) -> Value:
        """`x.name(...)` on a value of unknown kind. A method that no scalar type has proves a tensor."""
        names = torch_names()
        if name in SYNC_NAMES:
            self.hit("W111", node, owner, member=name)
            return ANY
        known_member = name in names.members or (name.endswith("_") and name[:-1] in names.members)
        if self.known.get(owner.key) != "object":
            if name in names.metadata_methods or (known_member and name not in SCALAR_MEMBERS):
                self.learn(owner, "tensor")
                return self.tensor_call(self._as_tensor(owner, node), name, args, node)
            if name in SCALAR_MEMBERS:
                if known_member:
                    self.unproven(node, owner, f"`{owner.key}` may be a tensor, whose `{name}` is outside the boundary")
                return self.plain_method(owner, name, args, node)
            self.learn(owner, "object")
        self.hit("W116", node, owner, f": `{owner.key}` comes from outside this file", name)
        self.called(node, node.func if isinstance(node, ast.Call) else node, "finding", "W116", resolved=False)
        return OPAQUE

    def bound_call(self, bound: Bound, args: Arguments, node: ast.expr) -> Value:
        """A method that was read earlier is called now: the read has decided the verdict."""
        if not bound.reported:
            self.indices_are_scalars(args)
            return SIZE if bound.member in ("size", "stride") and not args.all() else INT
        code = self.method_code(bound.member, args) or "W116"
        return self.tensor_result(code, bound.member, node, bound.owner, *args.all())

    def method_code(self, name: str, args: Arguments) -> str | None:
        """The code of calling method `name`; `to` and `view` depend on what they are given."""
        if name == "to":
            return self._code_of_to(args)
        if name == "view" and any(is_dtype(v) for arg in args.all() for v in options(arg)):
            return "W103"
        return member_code(name)

    def _code_of_to(self, args: Arguments) -> str:
        """`to` moves when every argument is device-like; it casts when one is, or may be, a dtype."""
        if "dtype" in args.keywords:
            return "W101"
        targets = [*args.positional[:2], *(v for k, v in args.keywords.items() if k == "device")]
        unknown = args.star is not None or args.double_star is not None
        moves = bool(targets) and all(is_device(v) for arg in targets[:1] for v in options(arg))
        second = targets[1:2] and isinstance(targets[1], Scalar) and targets[1].kind in ("bool", "device", "none")
        return "W105" if moves and not unknown and (len(targets) == 1 or second) else "W101"

    def tensor_result(self, code: str, name: str, node: ast.AST, *values: Value) -> Value:
        """The description of what an operation outside the boundary yields: one expression is reported once."""
        sources = self.sources_of(*values)
        if code in ("W110", "W114", "W111"):
            return ANY
        if code in ("W115", "W116", "W117"):
            return Opaque(sources)
        if name in torch_names().sequences:
            made = self.derived(node, *values)
            return Many(made, "tuple") if code == "W106" else Opaque(sources)
        if code == "W113" or name.endswith("_"):
            first = next((v for v in values if isinstance(v, Tensor)), None)
            return first if first is not None else self.derived(node, *values)
        return self.derived(node, *values)

    def indices_are_scalars(self, args: Arguments) -> None:
        """Arguments of `size` and `stride` are axis numbers."""
        for value in args.all():
            self.learn(value, "scalar")

    # -- words
    def _detail(self, code: str, name: str, args: Arguments | None, owner: Tensor) -> str:
        """The end of the message: what becomes of which tensor."""
        texts = [self.source.expression(n) for n in args.nodes] if args else []
        texts += [f"{k}={self.source.expression(n)}" for k, n in args.keyword_nodes.items()] if args else []
        given = ", ".join(texts)
        if code == "W101":
            target = f"the dtype of {given}" if name == "type_as" else given if name in ("to", "type") else name
            return f": `{owner.label}` becomes {target or 'another dtype'}"
        if code == "W104":
            return (
                f": the axes of `{owner.label}` change by `{name}({given})`"
                if args
                else f": `{name}` of `{owner.label}`"
            )
        if code == "W105":
            moves = name in ("to", "cpu", "cuda", "npu", "xpu", "ipu", "mtia", "pin_memory", "share_memory_")
            where = given if name == "to" else name
            return f": it moves `{owner.label}` to {where}" if moves else f": it copies `{owner.label}`"
        if code == "W106":
            return f": `{name}` of `{owner.label}`" + (f" at {given}" if given else "")
        return f": `{name}` of `{owner.label}`"

    # -- plain Python objects
    def plain_method(self, owner: Value, name: str, args: Arguments, node: ast.expr) -> Value:
        """A method of a string, number or other value that is no tensor; formatting a tensor into text reads its
        data.
        """
        tensor = next((t for t in map(self.tensor_in, args.all()) if t is not None), None)
        if tensor is not None:
            self.hit("W110", node, tensor, f": `{tensor.label}` ends up as text or a number", name)
        if isinstance(owner, Scalar) and owner.kind == "str":
            return STR
        return (
            INT if isinstance(owner, Scalar) and owner.kind == "size" and name in ("numel", "index", "count") else ANY
        )

    def method_value(self, owner: Value, name: str) -> Value:
        """A method of a plain value that is not called on the spot."""
        if isinstance(owner, Scalar) and owner.kind in ("dtype", "device", "layout"):
            return ANY
        return MethodOf(owner, name)
