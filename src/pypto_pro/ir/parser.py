"""Reads IR text back: the inverse of `ir.printer`, by way of Python's `ast`.

Anything that is not IR text raises `IRSyntaxError`, a SyntaxError with the line. Spans point into the text.
"""

from __future__ import annotations

import ast
import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Any

from pypto_pro.diag import NOWHERE, Span
from pypto_pro.enums import CoreKind, MemorySpace, TensorLayout
from pypto_pro.ir import nodes, text, types
from pypto_pro.ir.nodes import Block, Const, Expr, Kernel, Place, Program, Stmt, Var
from pypto_pro.ir.text import Kind
from pypto_pro.ir.types import BOOL, FP32, INDEX, PtrType, ScalarType, TensorType, TileType

_BINARY: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.BitAnd: "&",
    ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>", ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<",
    ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.And: "and", ast.Or: "or",
}  # fmt: skip
_UNARY: dict[type[ast.AST], str] = {ast.USub: "-", ast.Invert: "~", ast.Not: "not"}


class IRSyntaxError(SyntaxError):
    """Text that is not IR."""


def parse_kernel(source: str, filename: str = "<ir>") -> Kernel:
    """The kernel a text describes. Raises IRSyntaxError (SyntaxError)."""
    parser = _Parser(filename)
    kernel: Kernel | None = None
    for node in ast.parse(source, filename).body:
        match node:
            case ast.Assign(targets=[ast.Name(id=alias)], value=value):
                parser.aliases[alias] = parser.read_type(value)
            case ast.FunctionDef():
                kernel = parser.kernel(node)
            case _:
                raise parser.error(node)
    if kernel is None:
        raise IRSyntaxError("no kernel in the text")
    return kernel


class _Parser:
    def __init__(self, filename: str) -> None:
        self.filename = filename
        self.aliases: dict[str, Any] = {}
        self.vars: dict[str, Var] = {}

    def error(self, node: ast.AST, reason: str = "this is not IR text") -> IRSyntaxError:
        """The rejection of a node."""
        line, column = getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
        return IRSyntaxError(f"{reason}: {ast.unparse(node)[:80]}", (self.filename, line, column + 1, None))

    def kernel(self, node: ast.FunctionDef) -> Kernel:
        """The decorated function."""
        auto_mutex = True
        for decorator in node.decorator_list:
            match decorator:
                case ast.Call(func=ast.Name(id="kernel"), keywords=[ast.keyword(arg="auto_mutex", value=value)]):
                    auto_mutex = bool(self.literal(value))
                case _:
                    raise self.error(decorator)
        params = []
        for arg in node.args.args:
            kind = self.read_type(arg.annotation) if arg.annotation is not None else INDEX
            params.append(Var(text.decode_name(arg.arg), kind))
        programs = []
        for section in node.body:
            match section:
                case ast.With(items=[ast.withitem(context_expr=ast.Name(id=core))], body=body):
                    self.vars = {var.name: var for var in params}
                    programs.append(Program(CoreKind(core), self.block(body)))
                case ast.Pass():
                    pass
                case _:
                    raise self.error(section)
        return Kernel(node.name, tuple(params), tuple(programs), auto_mutex, span=self.span(node))

    def span(self, node: ast.stmt) -> Span:
        """Where a statement stands in the text."""
        return Span(self.filename, node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0)

    # --- types and literals ---

    def read_type(self, node: ast.AST) -> Any:
        """A type."""
        match node:
            case ast.Name(id=name) if name in text.DTYPES:
                return ScalarType(text.DTYPES[name])
            case ast.Name(id=name) if name in self.aliases:
                return self.aliases[name]
            case ast.Call(func=ast.Name(id="TileType"), args=[shape, dtype, space], keywords=keywords):
                return self._tile_type(shape, dtype, space, keywords)
            case ast.Call(func=ast.Name(id="Struct"), args=[name, ast.Dict(keys=keys, values=values)]):
                fields = tuple((self.literal(k), self.read_type(v)) for k, v in zip(keys, values, strict=True) if k)
                return types.StructType(self.literal(name), fields, bool(node.keywords))
            case ast.Call(func=ast.Name(id="Tensor"), args=[dims, dtype, *layout]):
                return TensorType(
                    self.literal(dtype), self.literal(dims), *(TensorLayout[self._word(part)] for part in layout)
                )
            case ast.Call(func=ast.Name(id=name), args=args) if name in text.TYPE_CLASSES:
                kind = text.TYPE_CLASSES[name]
                hints = [str(field.type) for field in dataclasses.fields(kind)]
                return kind(*(self._type_part(arg, hint) for arg, hint in zip(args, hints, strict=True)))
        raise self.error(node, "unknown type")

    def _type_part(self, node: ast.AST, hint: str) -> Any:
        return self.read_type(node) if hint.endswith("Type") and hint != "DataType" else self.literal(node)

    def _tile_type(self, shape: ast.AST, dtype: ast.AST, space: ast.AST, keywords: list[ast.keyword]) -> TileType:
        extra: dict[str, Any] = {
            str(k.arg): TensorLayout[self._word(k.value)] if k.arg == "layout" else self.literal(k.value)
            for k in keywords
        }
        return TileType(self.literal(shape), self.literal(dtype), MemorySpace[self._word(space)], **extra)

    def _word(self, node: ast.AST) -> str:
        if isinstance(node, ast.Name):
            return node.id
        raise self.error(node)

    def literal(self, node: ast.AST) -> Any:
        """A compile-time value: numbers, strings, None, tuples, dtypes and enum members."""
        match node:
            case ast.Constant(value=value):
                return value
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
                return -value
            case ast.Tuple(elts=elts) | ast.List(elts=elts):
                return tuple(self.literal(elt) for elt in elts)
            case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value=str() as value)]):
                return math.nan if value == "nan" else float(value)
            case ast.Name(id=name) if name in text.DTYPES:
                return text.DTYPES[name]
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner in text.ENUMS:
                return text.ENUMS[owner][name]
        raise self.error(node, "unknown constant")

    # --- variables ---

    def declare(self, node: ast.AST, kind: Any) -> Var:
        """A variable of known type."""
        name = self._var_name(node)
        self.vars[name] = Var(name, kind)
        return self.vars[name]

    def var(self, node: ast.AST) -> Var:
        """A variable; the first mention without a type makes it an index."""
        name = self._var_name(node)
        return self.vars.setdefault(name, Var(name, INDEX))

    def _var_name(self, node: ast.AST) -> str:
        match node:
            case ast.Name(id=name):
                return text.decode_name(name)
            case ast.Subscript(value=ast.Name(id="local"), slice=ast.Constant(value=str() as name)):
                return name
        raise self.error(node, "not a variable")

    def _is_var(self, node: ast.AST) -> bool:
        match node:
            case ast.Name() | ast.Subscript(value=ast.Name(id="local"), slice=ast.Constant(value=str())):
                return True
        return False

    # --- statements ---

    def block(self, body: Sequence[ast.stmt]) -> Block:
        """The statements of a block; `pass` and plain declarations leave none."""
        return tuple(stmt for node in body for stmt in self._stmt(node))

    def _stmt(self, node: ast.stmt) -> Iterable[Stmt]:
        span = self.span(node)
        match node:
            case ast.Pass():
                return ()
            case ast.AnnAssign(target=target, annotation=annotation, value=value):
                var = self.declare(target, self.read_type(annotation))
                return () if value is None else (self._binding(var, value, span),)
            case ast.Assign(targets=[ast.Tuple(elts=elts)], value=ast.Call() as call):
                return (self._op(call, tuple(self.var(elt) for elt in elts), span),)
            case ast.Assign(targets=[target], value=value) if self._is_var(target):
                return (self._binding(self.var(target), value, span),)
            case ast.Assign(targets=[target], value=value):
                return (nodes.SetField(self.place(target), self.expr(value), span),)
            case ast.Expr(value=ast.Call() as call):
                return (self._call(call, span),)
            case ast.With(items=[ast.withitem(context_expr=ast.Call() as call)], body=body):
                return (self._call(call, span, body),)
        return (self._control(node, span),)

    def _control(self, node: ast.stmt, span: Span) -> Stmt:
        match node:
            case ast.If(test=test, body=body, orelse=orelse):
                return nodes.If(self.expr(test), self.block(body), self.block(orelse), span)
            case ast.For(target=target, iter=ast.Call(func=ast.Name(id="range"), args=args), body=body):
                var = self.var(target)
                bounds = [self.expr(arg) for arg in args]
                start, stop = ([Const(0), *bounds] if len(bounds) == 1 else bounds)[:2]
                step = bounds[2] if len(bounds) == 3 else Const(1)
                return nodes.For(var, start, stop, step, self.block(body), span)
            case ast.While(body=body):
                return nodes.While(self.block(body), span)
            case ast.Break():
                return nodes.Break(span)
            case ast.Continue():
                return nodes.Continue(span)
            case ast.Return(value=None):
                return nodes.Return(span)
        raise self.error(node)

    def _binding(self, var: Var, value: ast.expr, span: Span) -> Any:
        match value:
            case ast.Call(func=ast.Name(id=name)) if name in text.STMT_CLASSES:
                return self._generic(text.STMT_CLASSES[name], value, span, var=var)
            case ast.Call(func=ast.Name(id=name)) if name not in text.EXPR_CALLS and not _is_query(value):
                return self._op(value, (var,), span)
            case ast.Call(func=ast.Attribute()):
                return self._op(value, (var,), span)
        return nodes.Assign(var, self.expr(value), span)

    def _call(self, call: ast.Call, span: Span, body: list[ast.stmt] | None = None) -> Any:
        if isinstance(call.func, ast.Name) and call.func.id in text.STMT_CLASSES:
            return self._generic(text.STMT_CLASSES[call.func.id], call, span, body=body)
        return self._op(call, (), span)

    def _op(self, call: ast.Call, results: tuple[Var, ...], span: Span) -> Stmt:
        args = tuple(self._arg(arg) for arg in call.args)
        return nodes.Op(ast.unparse(call.func), args, self._attrs(call.keywords), results, span)

    def _attrs(self, keywords: Iterable[ast.keyword]) -> tuple[tuple[str, Any], ...]:
        return tuple((str(keyword.arg), self.literal(keyword.value)) for keyword in keywords)

    def _arg(self, node: ast.AST) -> Any:
        match node:
            case ast.Constant(value=None):
                return None
            case ast.Tuple(elts=elts):
                return tuple(self.expr(elt) for elt in elts)
        return self.expr(node)

    def _generic(
        self, kind: Any, call: ast.Call, span: Span, var: Var | None = None, body: list[ast.stmt] | None = None
    ) -> Any:
        """A node by its fields: arguments in order, then by keyword; defaults for the rest."""
        positional, named = list(call.args), {str(k.arg): k for k in call.keywords}
        values: dict[str, Any] = {}
        late: list[text.FieldInfo] = []
        for field in text.fields_of(kind):
            if field.kind is Kind.BLOCK:
                late.append(field)
            elif field.name == "var" and var is not None:
                values["var"] = var
            elif positional:
                values[field.name] = self._field(field, positional.pop(0))
            elif field.name in named and field.kind is not Kind.ATTRS:
                values[field.name] = self._field(field, named.pop(field.name).value)
            elif field.kind is Kind.ATTRS:
                behind = {"results"}  # the one field that may stand behind attributes
                values[field.name] = self._attrs(k for name, k in named.items() if name not in behind)
                named = {name: k for name, k in named.items() if name in behind}
            elif field.default is dataclasses.MISSING:
                raise self.error(call, f"`{field.name}` is missing")
        if positional or named:
            raise self.error(call, "too many arguments")
        values.update({field.name: self.block(body or []) for field in late})
        return kind(**values, span=span) if kind in text.STMT_NAMES else kind(**values)

    def _field(self, field: text.FieldInfo, node: ast.AST) -> Any:
        match field.kind, node:
            case _, ast.Constant(value=None):
                return None
            case Kind.EXPR, _:
                return self.expr(node)
            case (Kind.EXPRS | Kind.ARGS), ast.Tuple(elts=elts):
                return tuple(self._arg(elt) for elt in elts)
            case Kind.VAR, _:
                return self.var(node)
            case Kind.VARS, ast.Tuple(elts=elts):
                return tuple(self.var(elt) for elt in elts)
            case Kind.PLACE, _:
                return self.place(node)
            case Kind.TYPE, _:
                return self.read_type(node)
            case Kind.LITERAL, ast.Name(id=name) if field.enum is not None:
                return field.enum[name]
            case Kind.LITERAL, _:
                return self.literal(node)
        raise self.error(node)

    # --- expressions ---

    def expr(self, node: ast.AST) -> Expr:
        """An expression."""
        match node:
            case ast.Constant(value=bool() as value):
                return Const(value, BOOL)
            case ast.Constant(value=int() as value):
                return Const(value)
            case ast.Constant(value=float() as value):
                return Const(value, FP32)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
                return Const(-value, INDEX if isinstance(value, int) else FP32)
            case ast.UnaryOp(op=op, operand=operand):
                return self._unary(_UNARY[type(op)], self.expr(operand))
            case ast.BinOp(left=lhs, op=op, right=rhs):
                return self._binary(_BINARY[type(op)], self.expr(lhs), self.expr(rhs), node)
            case ast.BoolOp(op=op, values=[lhs, rhs]):
                return self._binary(_BINARY[type(op)], self.expr(lhs), self.expr(rhs), node)
            case ast.Compare(left=lhs, ops=[ast.Is()], comparators=[ast.Constant(value=None)]):
                return nodes.IsNull(self.expr(lhs))
            case ast.Compare(left=lhs, ops=[op], comparators=[rhs]) if type(op) in _BINARY:
                return self._binary(_BINARY[type(op)], self.expr(lhs), self.expr(rhs), node)
            case ast.IfExp(test=test, body=then, orelse=other):
                chosen = self.expr(then)
                return nodes.Choose(self.expr(test), chosen, self.expr(other), chosen.type)
            case ast.Call(func=ast.Name(id=name)):
                return self._call_expr(name, node)
        if self._is_var(node):
            return nodes.Local(self.var(node))
        return self._access(node)

    def _unary(self, op: str, operand: Expr) -> Expr:
        assert isinstance(operand.type, ScalarType)
        return nodes.Unary(op, operand, BOOL if op == "not" else operand.type)

    def _binary(self, op: str, lhs: Expr, rhs: Expr, node: ast.AST) -> Expr:
        match lhs.type:
            case ScalarType():
                return nodes.Binary(op, lhs, rhs, text.binary_type(op, lhs.type))
            case PtrType() if op == "+":
                return nodes.PtrPlus(lhs, rhs, lhs.type)
            case TileType() if op == "+":
                return nodes.TilePlus(lhs, rhs, lhs.type)
        raise self.error(node, "these operands have no such operator")

    def _call_expr(self, name: str, call: ast.Call) -> Expr:
        match name, call.args:
            case ("min" | "max"), [lhs, rhs]:
                return self._binary(name, self.expr(lhs), self.expr(rhs), call)
            case "neg", [operand]:
                return self._unary("-", self.expr(operand))
            case "const", [value, dtype]:
                return Const(self.literal(value), ScalarType(self.literal(dtype)))
            case _, [operand] if name in text.DTYPES:
                return nodes.Convert(self.expr(operand), ScalarType(text.DTYPES[name]))
            case _, [] if _is_query(call):
                return nodes.Query(name.removeprefix(text.QUERY_PREFIX), text.QUERY_TYPE)
            case _ if name in text.EXPR_CLASSES:
                return self._generic(text.EXPR_CLASSES[name], call, NOWHERE)  # type: ignore[no-any-return]
        raise self.error(call, "unknown expression")

    def _access(self, node: ast.AST) -> Expr:
        match node:
            case ast.Subscript(value=ast.Tuple(elts=elts), slice=index):
                options = tuple(self.expr(elt) for elt in elts)
                return nodes.Pick(self.expr(index), options, options[0].type)
            case ast.Subscript(value=ast.Attribute(value=owner, attr="shape"), slice=axis) if self._holds(
                owner, TensorType
            ):
                return nodes.Dim(self.var(owner), self.literal(axis))
            case ast.Subscript(value=ast.Attribute(value=tile, attr="mutex"), slice=index) if not self._in_struct(tile):
                return nodes.TileAttr(self.expr(tile), "mutex", self.literal(index))
            case ast.Subscript(value=owner, slice=index) if self._holds(owner, types.GroupType):
                return nodes.Slot(self.var(owner), self.expr(index))
            case ast.Attribute(value=owner, attr="ptr") if self._holds(owner, TensorType):
                tensor = self.var(owner)
                assert isinstance(tensor.type, TensorType)
                return nodes.PtrOf(tensor, PtrType(tensor.type.dtype))
            case ast.Attribute(value=owner, attr=what) if not self._in_struct(owner):
                return nodes.TileAttr(self.expr(owner), what)
        return nodes.Field(self.place(node))

    def _holds(self, node: ast.AST, kind: type) -> bool:
        return self._is_var(node) and isinstance(self.var(node).type, kind)

    def _in_struct(self, node: ast.AST) -> bool:
        """Whether a chain of attributes and subscripts starts at a struct or struct array variable."""
        while not self._is_var(node) and isinstance(node, ast.Attribute | ast.Subscript):
            node = node.value
        return self._holds(node, types.StructType) or self._holds(node, types.StructArrayType)

    def place(self, node: ast.AST) -> Place:
        """`var[index].path[element]`."""
        if isinstance(node, ast.Call):
            return self._generic(Place, node, NOWHERE)  # type: ignore[no-any-return]
        whole, element = node, None
        path: list[str] = []
        index = None
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute):
            element, node = self.expr(node.slice), node.value
        while isinstance(node, ast.Attribute):
            path.insert(0, node.attr)
            node = node.value
        if isinstance(node, ast.Subscript) and not self._is_var(node):
            index, node = self.expr(node.slice), node.value
        var = self.var(node)
        kind = text.place_type(var, index is not None, tuple(path), element is not None)
        if kind is None:
            raise self.error(whole, "no such place")
        return Place(var, index, tuple(path), element, kind)


def _is_query(call: ast.Call) -> bool:
    is_get = isinstance(call.func, ast.Name) and call.func.id.startswith(text.QUERY_PREFIX)
    return is_get and not call.args and not call.keywords



