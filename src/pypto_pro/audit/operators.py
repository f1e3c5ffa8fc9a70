"""Operators, truth tests, text formatting and subscripts: legal on Python values, a finding on a tensor."""

from __future__ import annotations

import ast
from dataclasses import replace

from pypto_pro.audit.state import HeapObject
from pypto_pro.audit.tensors import TensorRules
from pypto_pro.audit.values import (
    ANY,
    BOOL,
    FLOAT,
    INT,
    NOTHING,
    OPAQUE,
    SIZE,
    STR,
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
    Ref,
    Scalar,
    Tensor,
    Torch,
    TorchObject,
    Tuple,
    Union,
    Value,
    element_of,
    join,
    join_all,
    options,
    tuple_of,
)

_OPERATOR_TEXT = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.MatMult: "@",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.BitOr: "|",
    ast.BitAnd: "&",
    ast.BitXor: "^",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.In: "in",
    ast.NotIn: "not in",
    ast.USub: "-",
    ast.UAdd: "+",
    ast.Invert: "~",
    ast.Not: "not",
}
_SPECIAL = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.MatMult: "matmul", ast.Div: "truediv",
    ast.FloorDiv: "floordiv", ast.Mod: "mod", ast.Pow: "pow", ast.LShift: "lshift", ast.RShift: "rshift",
    ast.BitOr: "or", ast.BitAnd: "and", ast.BitXor: "xor", ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt",
    ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "invert",
}  # fmt: skip


class Operators(TensorRules):
    """Everything written with an operator sign."""

    # -- binary and unary
    def binary(self, left: Value, op: ast.operator, right: Value, node: ast.AST) -> Value:
        """`left op right`."""
        if isinstance(op, ast.Mod) and self._is_text(left):
            return self.formatted(right, node)
        tensor = self.tensor_option(left) or self.tensor_option(right)
        if tensor is not None:
            self.hit(
                "W112",
                node,
                tensor,
                f": operator `{_OPERATOR_TEXT[type(op)]}` on `{tensor.label}`",
                _OPERATOR_TEXT[type(op)],
            )
            return self.derived(node, left, right)
        name = _SPECIAL[type(op)]
        own = self.special(left, f"__{name}__", node, right) or self.special(right, f"__r{name}__", node, left)
        if own is not None:
            return own
        if isinstance(op, ast.Add):
            joined = self._concatenated(left, right, node)
            if joined is not None:
                return joined
        if isinstance(op, ast.Mult):
            repeated = self._repeated(left, right) or self._repeated(right, left)
            if repeated is not None:
                return repeated
        return self._arithmetic(left, right, node)

    def _arithmetic(self, left: Value, right: Value, node: ast.AST) -> Value:
        """An operator on values that are no tensors, as far as anybody can tell."""
        opaque = next((v for side in (left, right) for v in options(side) if isinstance(v, Opaque)), None)
        if opaque is not None:
            return Opaque(self.sources_of(left, right))
        unknown = self.maybe_option(left) or self.maybe_option(right)
        if unknown is not None:
            self.unproven(node, unknown, f"`{unknown.key}` may be a tensor; annotate it, or give it a scalar default")
            roots = [option for side in (left, right) for option in options(side) if isinstance(option, Maybe)]
            keys = frozenset(o.key for o in roots) | frozenset().union(*(o.roots for o in roots))
            return Maybe("", keys - {""})
        kinds = {v.kind for side in (left, right) for v in options(side) if isinstance(v, Scalar)}
        return (
            INT if kinds <= {"int", "bool"} and kinds else FLOAT if kinds <= {"int", "float", "bool"} and kinds else ANY
        )

    def _is_text(self, value: Value) -> bool:
        return any(isinstance(v, Scalar) and v.kind == "str" for v in options(value))

    def formatted(self, value: Value, node: ast.AST) -> Value:
        """Turning a value into text reads the data of every tensor in it."""
        for name in ("__format__", "__str__", "__repr__"):
            self.special(value, name, node, *([STR] if name == "__format__" else []))
        tensor = self.tensor_in(value)
        if tensor is not None:
            self.hit("W110", node, tensor, f": `{tensor.label}` is formatted as text", "format")
        else:
            unknown = self.maybe_option(value)
            if unknown is not None:
                self.unproven(
                    node, unknown, f"formatting `{unknown.key}` as text would read its data if it is a tensor"
                )
        return STR

    def _concatenated(self, left: Value, right: Value, node: ast.AST) -> Value | None:
        """`left + right` on sequences, None when they are none."""
        first, second = self._sequence(left), self._sequence(right)
        if first is None or second is None:
            return None
        is_list = isinstance(left, Ref)
        if isinstance(first, Tuple) and isinstance(second, Tuple):
            items = first.items + second.items
            return self.allocate(node, HeapObject("list", items)) if is_list else tuple_of(list(items))
        return Many(
            join_all([v for part in (first, second) for v in self._elements(part)]), "list" if is_list else "tuple"
        )

    def _repeated(self, sequence: Value, times: Value) -> Value | None:
        """`sequence * times`."""
        parts = self._sequence(sequence)
        if parts is None or isinstance(sequence, Scalar):
            return None
        return Many(join_all(self._elements(parts)), "list" if isinstance(sequence, Ref) else "tuple")

    def _elements(self, parts: Value) -> list[Value]:
        return list(parts.items) if isinstance(parts, Tuple) else [element_of(parts)]

    def _sequence(self, value: Value) -> Tuple | Many | None:
        """A list or tuple as Tuple (positions known) or Many."""
        match value:
            case Tuple() | Many():
                return value
            case Scalar(kind="size"):
                return Many(INT, "tuple")
            case Ref() if (thing := self.object_at(value)).kind == "list":
                return Tuple(thing.items) if thing.items is not None else Many(thing.rest or ANY)
        return None

    def unary(self, op: ast.unaryop, value: Value, node: ast.AST) -> Value:
        """`-x`, `+x`, `~x`, `not x`."""
        if isinstance(op, ast.Not):
            self.truth(value, node)
            return BOOL
        tensor = self.tensor_option(value)
        if tensor is not None:
            sign = _OPERATOR_TEXT[type(op)]
            self.hit("W112", node, tensor, f": operator `{sign}` on `{tensor.label}`", sign)
            return self.derived(node, value)
        own = self.special(value, f"__{_SPECIAL[type(op)]}__", node)
        if own is not None:
            return own
        if (
            isinstance(value, Scalar)
            and value.kind == "int"
            and isinstance(op, ast.USub)
            and isinstance(value.const, int)
        ):
            return Scalar("int", -value.const)
        return self._arithmetic(value, INT, node)

    def truth(self, value: Value, node: ast.AST) -> None:
        """The value decides a branch: a tensor would be read."""
        tensor = self.tensor_option(value)
        if tensor is not None:
            self.hit("W110", node, tensor, f": the truth value of `{tensor.label}`", "__bool__")
            return
        if self.special(value, "__bool__", node) is None:
            self.special(value, "__len__", node)
        unknown = self.maybe_option(value)
        if unknown is not None and unknown.key:
            self.unproven(node, unknown, f"the truth value of `{unknown.key}` reads its data if it is a tensor")

    def compare(self, left: Value, op: ast.cmpop, right: Value, node: ast.AST) -> Value:
        """One comparison of a chain."""
        if isinstance(op, (ast.Is, ast.IsNot)):
            return BOOL
        tensor = self.tensor_option(left) or self.tensor_option(right)
        sign = _OPERATOR_TEXT[type(op)]
        if tensor is not None:
            contains = isinstance(op, (ast.In, ast.NotIn))
            self.hit(
                "W110" if contains else "W112",
                node,
                tensor,
                f": `{sign}` compares the elements of `{tensor.label}`",
                sign,
            )
            return BOOL
        if isinstance(op, (ast.In, ast.NotIn)):
            self.special(right, "__contains__", node, left)
            if isinstance(left, Maybe) and self.tensor_in(right) is None:
                return BOOL
            unknown = self.maybe_option(right)
        else:
            self.special(left, f"__{_SPECIAL[type(op)]}__", node, right)
            unknown = self.maybe_option(left) or self.maybe_option(right)
        if unknown is not None:
            self.unproven(node, unknown, f"`{sign}` computes with `{unknown.key or 'it'}` if it is a tensor")
        return BOOL

    # -- subscripts
    def subscript(self, owner: Value, index: Value, node: ast.Subscript) -> Value:
        """`owner[index]`, read."""
        return join_all([self._subscript_one(option, index, node) for option in options(owner)])

    def _subscript_one(self, owner: Value, index: Value, node: ast.Subscript) -> Value:
        match owner:
            case Tensor():
                text = self.source.expression(node.slice)
                self.hit("W106", node, owner, f": `{owner.label}` is indexed with [{text}]", "__getitem__")
                return self.derived(node, owner)
            case Kernel() | Func() | Method() | Partial() | DeviceFunction():
                return self.launch_options(owner, node)
            case Library(group="external"):
                return self.launch_options(owner, node)
            case Language() | Library() | Torch() | ClassValue():
                return owner
            case Scalar(kind="size"):
                return SIZE if isinstance(node.slice, ast.Slice) else INT
            case Scalar(kind="str"):
                return STR
            case Tuple(items=items):
                return self._pick(items, index, node)
            case Many(item=item):
                return owner if isinstance(node.slice, ast.Slice) else item
            case Ref():
                return self._subscript_object(owner, index, node)
            case Maybe():
                return self._subscript_unknown(owner, index, node)
            case Opaque() | TorchObject():
                return owner if isinstance(owner, Opaque) else OPAQUE
        return ANY

    def _subscript_unknown(self, owner: Maybe, index: Value, node: ast.Subscript) -> Value:
        if self.known.get(owner.key) != "object":
            self.unproven(
                node,
                owner,
                f"`{owner.key}[...]` reads tensor data unless `{owner.key}` is a Python sequence; annotate it",
            )
        return self.unknown(f"{owner.key}[]", node)

    def _subscript_object(self, owner: Ref, index: Value, node: ast.Subscript) -> Value:
        thing = self.object_at(owner)
        if thing.kind == "dict":
            if (
                isinstance(index, Scalar)
                and index.const is not NOTHING
                and thing.rest is None
                and index.const in thing.entries
            ):
                return thing.entries[index.const]
            return join_all(thing.elements())
        if thing.kind == "list":
            if thing.items is None:
                return Many(thing.rest or ANY) if isinstance(node.slice, ast.Slice) else thing.rest or ANY
            return self._pick(thing.items, index, node)
        return self.instance_subscript(owner, index, node)

    def instance_subscript(self, owner: Ref, index: Value, node: ast.Subscript) -> Value:
        """`instance[index]`: what its `__getitem__` returns."""
        raise NotImplementedError

    def _pick(self, items: tuple[Value, ...], index: Value, node: ast.Subscript) -> Value:
        """Element or slice of a sequence with known positions."""
        if isinstance(node.slice, ast.Slice):
            bounds = (node.slice.lower, node.slice.upper, node.slice.step)
            if all(b is None or (isinstance(b, ast.Constant) and isinstance(b.value, int)) for b in bounds):
                low, high, step = (int(str(b.value)) if isinstance(b, ast.Constant) else None for b in bounds)
                return tuple_of(list(items[low : high : step or None]))
            return Many(join_all(items), "tuple")
        if isinstance(index, Scalar) and isinstance(index.const, int) and -len(items) <= index.const < len(items):
            return items[index.const]
        return join_all(items)

    def launch_options(self, owner: Value, node: ast.Subscript) -> Value:
        """`k[...]`: launch options, evaluated like any other expression."""
        return Launcher(owner, self._form(node), self._block_dim(node))

    def _form(self, node: ast.Subscript) -> str:
        parts = len(node.slice.elts) if isinstance(node.slice, ast.Tuple) else 1
        return {1: "k[n](...)", 2: "k[stream, n](...)", 3: "k[stream, n, key](...)"}.get(
            parts, "k[stream, n, key, datatype](...)"
        )

    def _block_dim(self, node: ast.Subscript) -> str:
        if isinstance(node.slice, ast.Tuple):
            return self.source.expression(node.slice.elts[1]) if len(node.slice.elts) > 1 else ""
        return self.source.expression(node.slice)

    # -- subscript and attribute targets
    def store_subscript(self, owner: Value, index: Value, value: Value, node: ast.Subscript) -> None:
        """`owner[index] = value`."""
        for option in options(owner):
            match option:
                case Tensor():
                    text = self.source.expression(node.slice)
                    self.hit(
                        "W113", node, option, f": elements [{text}] of `{option.label}` are assigned", "__setitem__"
                    )
                case Maybe() if self.known.get(option.key) != "object":
                    self.unproven(node, option, f"this writes tensor data unless `{option.key}` is a Python container")
                case Ref():
                    self._store_element(option, index, value)

    def _store_element(self, owner: Ref, index: Value, value: Value) -> None:
        thing = self.object_at(owner)
        const = index.const if isinstance(index, Scalar) else NOTHING
        if thing.kind == "dict" and const is not NOTHING:
            old = thing.entries.get(const)
            kept = value if old is None or not self.loops else join(old, value)
            self.state.heap[owner.key] = replace(thing, entries={**thing.entries, const: kept})
        elif (
            thing.kind == "list"
            and thing.items is not None
            and isinstance(const, int)
            and -len(thing.items) <= const < len(thing.items)
        ):
            items = list(thing.items)
            items[const] = value
            self.state.heap[owner.key] = replace(thing, items=tuple(items))
        else:
            self.add_element(owner, value)

    def add_element(self, owner: Ref, value: Value) -> None:
        """An element at an unknown position."""
        thing = self.object_at(owner).summarised()
        rest = value if thing.rest is None else join(thing.rest, value)
        self.state.heap[owner.key] = replace(thing, rest=rest)

    # -- iteration
    def iterate(self, value: Value, node: ast.AST, how: str = "iterating") -> Value:
        """What one element of `value` is; going through a tensor reads parts of it."""
        return join_all([self._iterate_one(option, node, how) for option in options(value)])

    def _iterate_one(self, value: Value, node: ast.AST, how: str) -> Value:
        match value:
            case Tensor():
                self.hit("W106", node, value, f": {how} `{value.label}` reads its parts one by one", "__iter__")
                return self.derived(node, value)
            case Maybe():
                if self.known.get(value.key) != "object" and value.key:
                    self.unproven(
                        node,
                        value,
                        f"{how} `{value.key}` reads tensor data unless it is a Python sequence; annotate it",
                    )
                return self.unknown(f"{value.key}[]", node)
            case Ref():
                thing = self.object_at(value)
                if thing.kind == "dict":
                    return join_all([Scalar("any", key) for key in thing.entries])
                if thing.kind == "instance":
                    return self._iterate_instance(value, node, how)
                return join_all(thing.elements())
        return element_of(value)

    def _iterate_instance(self, value: Ref, node: ast.AST, how: str) -> Value:
        """What `__iter__` (and `__next__`) of a class of the file yields."""
        source = self.special(value, "__iter__", node)
        if source is None:
            item = self.special(value, "__getitem__", node, INT)
        else:
            item = (
                self.special(source, "__next__", node) if isinstance(source, Ref) else self.iterate(source, node, how)
            )
        if item is not None:
            return item
        return join_all(self.object_at(value).elements()) if self.tensor_in(value) else ANY

    def unpacked(self, value: Value, count: int, node: ast.AST) -> list[Value]:
        """`count` values of `a, b = value`."""
        if not isinstance(value, Union):
            parts = self._sequence(value)
            if isinstance(parts, Tuple) and len(parts.items) == count:
                return list(parts.items)
        each = self.iterate(value, node, "unpacking")
        return [each] * count
