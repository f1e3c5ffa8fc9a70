"""What a wrapper's parameters may hold: by annotation, by default, else by the evidence of the previous round."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from pypto_pro.audit.definitions import Definitions
from pypto_pro.audit.machine import Arguments
from pypto_pro.audit.state import HeapObject
from pypto_pro.audit.values import (
    ANY,
    DEVICE,
    DTYPE,
    LAYOUT,
    NONE,
    SIZE,
    Builtin,
    ClassValue,
    Func,
    Language,
    Library,
    Many,
    Maybe,
    Opaque,
    Scalar,
    Tensor,
    Torch,
    Value,
    join,
    join_all,
    options,
)

_SEQUENCES = frozenset(
    (
        "list",
        "List",
        "tuple",
        "Tuple",
        "Sequence",
        "Iterable",
        "Iterator",
        "Collection",
        "set",
        "Set",
        "frozenset",
        "MutableSequence",
    )
)
_MAPPINGS = frozenset(("dict", "Dict", "Mapping", "MutableMapping", "OrderedDict"))
_SCALARS = frozenset(("int", "float", "bool", "str", "complex", "bytes"))
_TORCH_KINDS: dict[str, Value] = {
    "torch.dtype": DTYPE,
    "torch.device": DEVICE,
    "torch.Size": SIZE,
    "torch.layout": LAYOUT,
}


@dataclass(frozen=True)
class ParameterKind:
    """What the report says about one parameter: kind tensor, tensor_list, scalar or maybe, and why."""

    name: str
    kind: str
    evidence: str


class Parameters(Definitions):
    """The first scope of an audit."""

    def parameter_values(self, func: Func) -> tuple[Arguments, list[ParameterKind]]:
        """Arguments for a call of a wrapper by somebody unknown, and how each was decided."""
        spec, defaults = func.node.args, dict(func.defaults)
        described: list[ParameterKind] = []
        values: dict[str, Value] = {}
        for arg in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs):
            values[arg.arg], why = self._parameter_value(arg, defaults.get(arg.arg))
            described.append(ParameterKind(arg.arg, self._kind(values[arg.arg]), why))
        star = double = None
        if spec.vararg is not None:
            star, why = self._variadic(spec.vararg)
            described.append(ParameterKind(f"*{spec.vararg.arg}", self._kind(Many(star)), why))
        if spec.kwarg is not None:
            double, why = self._variadic(spec.kwarg)
            described.append(ParameterKind(f"**{spec.kwarg.arg}", self._kind(Many(double)), why))
        positional = tuple(values[a.arg] for a in (*spec.posonlyargs, *spec.args))
        keywords = {a.arg: values[a.arg] for a in spec.kwonlyargs}
        return Arguments(positional, keywords, star, double), described

    def _variadic(self, arg: ast.arg) -> tuple[Value, str]:
        declared = self.declared(arg.annotation, f"{arg.arg}[]", arg)
        if declared is not None:
            return declared, f"annotation {self.source.expression(arg.annotation)}" if arg.annotation else ""
        return self.unknown(f"{arg.arg}[]", arg), self._evidence_text(f"{arg.arg}[]")

    def _parameter_value(self, arg: ast.arg, default: Value | None) -> tuple[Value, str]:
        declared = self.declared(arg.annotation, arg.arg, arg)
        if declared is not None:
            value = join(declared, NONE) if default == NONE else declared
            return value, f"annotation {self.source.expression(arg.annotation)}" if arg.annotation else ""
        if default is None:
            return self.unknown(arg.arg, arg), self._evidence_text(arg.arg)
        if default == NONE:
            return join(self.unknown(arg.arg, arg), NONE), self._evidence_text(arg.arg)
        if isinstance(default, Scalar):
            return Scalar(default.kind), "scalar default"
        if self.tensor_option(default) is not None:
            return Tensor("param", arg.arg, frozenset((f"param:{arg.arg}",)), arg), "tensor default"
        if isinstance(default, (Maybe, Opaque)):
            return self.unknown(arg.arg, arg), self._evidence_text(arg.arg)
        return default, "default"

    def _evidence_text(self, key: str) -> str:
        words = {
            "tensor": "used as a tensor: a metadata member is read, or it reaches a tensor parameter of the kernel",
            "scalar": "used as a scalar: it reaches a scalar parameter, a size or an index",
            "object": "used as an object of another class",
        }
        return words.get(self.known.get(key, ""), "nothing in the file decides")

    def _kind(self, value: Value) -> str:
        alternatives = [v for v in options(value) if v != NONE]
        if any(isinstance(v, Tensor) for v in alternatives):
            return "tensor"
        if any(not isinstance(v, Maybe) and self.tensor_in(v) is not None for v in alternatives):
            return "tensor_list"
        if any(isinstance(part, Maybe) for v in alternatives for part in self.inside(v)):
            return "maybe"
        return "scalar"

    # -- annotations
    def declared(self, annotation: ast.expr | None, key: str, node: ast.AST, depth: int = 4) -> Value | None:
        """The value an annotation promises; None when it says nothing."""
        if annotation is None or depth == 0:
            return None
        match annotation:
            case ast.Constant(value=None):
                return NONE
            case ast.Constant(value=str() as text):
                parsed = _parsed(text, annotation)
                return self.declared(parsed, key, node, depth - 1)
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return self._one_of([left, right], key, node, depth)
            case ast.Subscript(value=head, slice=inner):
                return self._generic(head, inner, key, node, depth)
            case ast.Name() | ast.Attribute():
                return self._named_type(annotation, key, node, depth)
        return None

    def _one_of(self, parts: list[ast.expr], key: str, node: ast.AST, depth: int) -> Value | None:
        found = [self.declared(part, key, node, depth - 1) for part in parts]
        return None if any(v is None for v in found) else join_all([v for v in found if v is not None])

    def _generic(self, head: ast.expr, inner: ast.expr, key: str, node: ast.AST, depth: int) -> Value | None:
        """`list[Tensor]`, `Optional[Tensor]`, `Union[...]`, `Annotated[...]`, `Literal[...]`."""
        name = self._type_name(head)
        parts = list(inner.elts) if isinstance(inner, ast.Tuple) else [inner]
        parts = [p for p in parts if not (isinstance(p, ast.Constant) and p.value is Ellipsis)]
        if name == "Optional":
            return self._one_of([*parts, ast.Constant(None)], key, node, depth)
        if name == "Union":
            return self._one_of(parts, key, node, depth)
        if name in ("Annotated", "Final", "Required", "NotRequired", "ClassVar"):
            return self.declared(parts[0], key, node, depth - 1) if parts else None
        if name == "Literal":
            return join_all([Scalar(type(p.value).__name__) for p in parts if isinstance(p, ast.Constant)])
        if name in _SEQUENCES | _MAPPINGS:
            items = [
                self.declared(p, f"{key}[]", node, depth - 1) for p in (parts[-1:] if name in _MAPPINGS else parts)
            ]
            item = join_all([v if v is not None else self.unknown(f"{key}[]", node) for v in items])
            return Many(item, "dict" if name in _MAPPINGS else "list")
        return None

    def _type_name(self, head: ast.expr) -> str:
        with self.aside():
            value = self.evaluate(head)
        match value:
            case Builtin(name=name):
                return name
            case Library(qualname=qualname):
                return qualname.rsplit(".", 1)[-1]
        return head.attr if isinstance(head, ast.Attribute) else head.id if isinstance(head, ast.Name) else ""

    def _named_type(self, annotation: ast.expr, key: str, node: ast.AST, depth: int) -> Value | None:
        with self.aside():
            value = self.evaluate(annotation)
        match value:
            case Torch(qualname=qualname) if qualname in _TORCH_KINDS:
                return _TORCH_KINDS[qualname]
            case Torch(qualname=qualname) if qualname.endswith(("Tensor", ".Parameter")):
                return Tensor("param", key, frozenset((f"param:{key}",)), node)
            case Library(group="array", qualname=qualname) if qualname.endswith("ndarray"):
                return Tensor("param", key, frozenset((f"param:{key}",)), node)
            case Builtin(name=name) if name in _SCALARS:
                return Scalar(name)
            case Builtin(name=name) if name in _SEQUENCES | _MAPPINGS:
                return Many(self.unknown(f"{key}[]", node), "dict" if name in _MAPPINGS else "list")
            case Library(group="std", qualname=qualname) if qualname.rsplit(".", 1)[-1] in _SEQUENCES | _MAPPINGS:
                return Many(self.unknown(f"{key}[]", node))
            case Language():
                return ANY
            case ClassValue():
                return self._instance_of(value, key, node, depth)
        if isinstance(annotation, ast.Name):
            return self._alias(annotation.id, key, node, depth)
        return None

    def _instance_of(self, cls: ClassValue, key: str, node: ast.AST, depth: int) -> Value:
        """An instance of a class of the file: its annotated fields hold what they say."""
        entries: dict[object, Value] = {}
        for statement in cls.node.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                field = f"{key}.{statement.target.id}"
                declared = self.declared(statement.annotation, field, node, depth - 1)
                entries[statement.target.id] = declared if declared is not None else self.unknown(field, node)
        return self.allocate(f"parameter {key}", HeapObject("instance", None, None, entries, cls))

    def _alias(self, name: str, key: str, node: ast.AST, depth: int) -> Value | None:
        """`Tensors = list[torch.Tensor]` at module level."""
        for statement in self.source.tree.body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=bound)], value=value) if bound == name:
                    return self.declared(value, key, node, depth - 1)
                case ast.AnnAssign(target=ast.Name(id=bound), value=value) if bound == name:
                    return self.declared(value, key, node, depth - 1)
        return None


def _parsed(text: str, place: ast.AST) -> ast.expr | None:
    """A quoted annotation as an expression, standing where the string stands."""
    try:
        body = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return None
    for part in ast.walk(body):
        ast.copy_location(part, place)
    return body
