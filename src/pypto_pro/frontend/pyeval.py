"""Constant expressions as plain Python: the second try for what has no IR form (`cfg["m"]`, `2 ** 10`, `len(SHAPE)`).

A small evaluator over the syntax tree; names come from the kernel's constants and its closure, calls reach the listed
builtins, methods and plain functions with constant arguments. Sizes and steps are bounded.
"""

from __future__ import annotations

import ast
import builtins
import operator
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

from pypto_pro.frontend.closure import BUILTINS, is_stub
from pypto_pro.frontend.context import Context
from pypto_pro.frontend.source import plain_function
from pypto_pro.frontend.values import Foreign, Function, Static, TupleValue, Value
from pypto_pro.ir.nodes import Const

MAX_BITS, MAX_ITEMS, MAX_STEPS = 1 << 16, 1 << 20, 1 << 20


class NotConstant(Exception):
    """The expression is not a constant Python expression; the first error stands."""


def evaluate(ctx: Context, node: ast.expr) -> Any:
    """The Python object of a constant expression. NotConstant when it reads run-time values or fails."""
    try:
        return _Evaluator(ctx).eval(node)
    except NotConstant:
        raise
    except Exception as error:  # whatever the author's own Python raises: the first error is the useful one
        raise NotConstant from error


def to_python(value: Value) -> Any:
    """The Python object behind a compile-time value. NotConstant for run-time ones."""
    match value:
        case Const(number):
            return number
        case Static(inner) | Foreign(inner):
            return inner
        case Function(fn):
            return fn
        case TupleValue(items):
            return tuple(to_python(item) for item in items)
    raise NotConstant


_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.LShift: operator.lshift,
    ast.RShift: operator.rshift, ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor,
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert, ast.Not: operator.not_,
}  # fmt: skip


class _Evaluator:
    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.bound: list[dict[str, Any]] = []  # comprehension variables
        self.keys: dict[ast.Subscript, Any] = {}  # evaluated indices
        self.steps = 0

    def eval(self, node: ast.expr) -> Any:
        self._step()
        match node:
            case ast.Constant(value=bool() | int() | float() | str() | None as value):
                return value
            case ast.Name(id=name):
                return self._name(name)
            case ast.Attribute() | ast.Subscript():
                return self._part(node)
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(op, self.eval(left), self.eval(right))
            case ast.UnaryOp(op=op, operand=operand):
                return _UNARY[type(op)](self.eval(operand))
            case ast.BoolOp(op=op, values=values):
                return self._bool(op, values)
            case ast.Compare():
                return self._compare(node)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self.eval(body if self.eval(test) else orelse)
            case ast.Call():
                return self._call(node)
        return self._display(node)

    def _display(self, node: ast.expr) -> Any:
        match node:
            case ast.List(elts=items):
                return [self.eval(item) for item in items]
            case ast.Tuple(elts=items):
                return tuple(self.eval(item) for item in items)
            case ast.Set(elts=items):
                return {self.eval(item) for item in items}
            case ast.Dict(keys=keys, values=values):
                return {self._key(k): self.eval(v) for k, v in zip(keys, values, strict=True)}
            case ast.ListComp(elt=item, generators=loops) | ast.GeneratorExp(elt=item, generators=loops):
                return [self.eval(item) for _ in self._loops(loops)]
            case ast.SetComp(elt=item, generators=loops):
                return {self.eval(item) for _ in self._loops(loops)}
            case ast.DictComp(key=key, value=value, generators=loops):
                return {self.eval(key): self.eval(value) for _ in self._loops(loops)}
        raise NotConstant

    def _step(self) -> None:
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise NotConstant

    def _key(self, key: ast.expr | None) -> Any:
        if key is None:
            raise NotConstant
        return self.eval(key)

    def _name(self, name: str) -> Any:
        for scope in reversed(self.bound):
            if name in scope:
                return scope[name]
        frame = self.ctx.frame
        if name in frame.names:
            return to_python(frame.names[name])
        if frame.scope.has(name):
            return frame.scope.find(name)
        if name in BUILTINS:
            return getattr(builtins, name)
        raise NotConstant

    def _part(self, node: ast.Attribute | ast.Subscript) -> Any:
        owner = self.eval(node.value)
        if isinstance(node, ast.Subscript):
            key = self.keys[node] = self._index(node.slice)
            found = owner[key]
        elif node.attr.startswith("__"):
            raise NotConstant
        else:
            found = getattr(owner, node.attr)
        self.ctx.captured.note_part(owner, found, lambda: self._path(node))
        return found

    def _path(self, node: ast.expr) -> str | None:
        """How a name outside the function leads to an evaluated object: `cfg.x['k'][2]`. None when none does."""
        step: str | None
        match node:
            case ast.Name(id=name):
                is_inside = name in self.ctx.frame.names or any(name in scope for scope in self.bound)
                return None if is_inside else name
            case ast.Attribute(value=base, attr=attr):
                before, step = self._path(base), f".{attr}"
            case ast.Subscript(value=base):
                key = self.keys.get(node)
                before, step = self._path(base), f"[{key!r}]" if type(key) in (bool, int, str) else None
            case _:
                return None
        return None if before is None or step is None else before + step

    def _index(self, index: ast.expr) -> Any:
        if isinstance(index, ast.Slice):
            parts = (index.lower, index.upper, index.step)
            return slice(*(None if part is None else self.eval(part) for part in parts))
        return self.eval(index)

    def _binary(self, op: ast.operator, left: Any, right: Any) -> Any:
        match op:
            case ast.Pow() if isinstance(left, int) and isinstance(right, int):
                if abs(right) * max(abs(left), 1).bit_length() > MAX_BITS:
                    raise NotConstant
            case ast.LShift() if not isinstance(right, int) or right > MAX_BITS:
                raise NotConstant
            case ast.Mult() if isinstance(left, list | tuple | str) or isinstance(right, list | tuple | str):
                many, count = (left, right) if isinstance(right, int) else (right, left)
                if len(many) * max(count, 0) > MAX_ITEMS:
                    raise NotConstant
        return _BINARY[type(op)](left, right)

    def _bool(self, op: ast.boolop, values: list[ast.expr]) -> Any:
        stops_on = isinstance(op, ast.Or)
        result: Any = None
        for value in values:
            result = self.eval(value)
            if bool(result) is stops_on:
                break
        return result

    def _compare(self, node: ast.Compare) -> bool:
        left = self.eval(node.left)
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.eval(right_node)
            if not _COMPARE[type(op)](left, right):
                return False
            left = right
        return True

    def _call(self, node: ast.Call) -> Any:
        function = self.eval(node.func)
        args = [self.eval(arg) for arg in node.args if not isinstance(arg, ast.Starred)]
        if len(args) != len(node.args) or any(k.arg is None for k in node.keywords):
            raise NotConstant
        keywords = {k.arg: self.eval(k.value) for k in node.keywords if k.arg is not None}
        if not self._may_call(function):
            raise NotConstant
        self.ctx.captured.ran(function)
        if function is range:
            return self._bounded(range(*args))
        if function in (list, tuple, sum):
            args = [list(self._bounded(args[0])), *args[1:]]
        return function(*args, **keywords)

    @staticmethod
    def _may_call(function: Any) -> bool:
        """Listed builtins, plain functions, methods of constants; classes and the language itself are left out."""
        if isinstance(function, type):
            return function.__name__ in BUILTINS and getattr(builtins, function.__name__, None) is function
        if isinstance(function, FunctionType):
            return not is_stub(function)
        return isinstance(function, BuiltinFunctionType | MethodType) or plain_function(function) is not None

    def _bounded(self, items: Any) -> Any:
        if hasattr(items, "__len__") and len(items) > MAX_ITEMS:
            raise NotConstant
        return items

    def _loops(self, loops: list[ast.comprehension]) -> Iterator[None]:
        if not loops:
            yield
            return
        first, *rest = loops
        if first.is_async:
            raise NotConstant
        for item in self._bounded(self.eval(first.iter)):
            self._step()
            self.bound.append(self._unpack(first.target, item))
            try:
                if all(self.eval(test) for test in first.ifs):
                    yield from self._loops(rest)
            finally:
                self.bound.pop()

    def _unpack(self, target: ast.expr, item: Any) -> dict[str, Any]:
        match target:
            case ast.Name(id=name):
                return {name: item}
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                items = list(item)
                if len(items) != len(parts):
                    raise NotConstant
                found: dict[str, Any] = {}
                for part, value in zip(parts, items, strict=True):
                    found |= self._unpack(part, value)
                return found
        raise NotConstant
