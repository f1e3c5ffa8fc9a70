"""IR as text that reads like the kernel and is Python syntax; `ir.parser` reads it back to an equal kernel.

Node classes are written by their fields: statements as calls under the author's word, expressions as Python operators
where the operator says everything and as a call of the class name otherwise. Spans are not part of the text.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from enum import Enum
from typing import Any

from pypto_pro.dtypes import DataType
from pypto_pro.enums import CoreKind
from pypto_pro.ir import text, walk
from pypto_pro.ir.nodes import (
    COMPARISONS,
    Assign,
    Binary,
    Block,
    Break,
    Choose,
    Const,
    Continue,
    Convert,
    Dim,
    Expr,
    Field,
    For,
    If,
    IsNull,
    Kernel,
    Local,
    Op,
    Pick,
    Place,
    PtrOf,
    PtrPlus,
    Query,
    Return,
    SetField,
    Slot,
    Stmt,
    TileAttr,
    TilePlus,
    Unary,
    Var,
    While,
)
from pypto_pro.ir.text import Kind
from pypto_pro.ir.types import BOOL, FP32, INDEX, PtrType, ScalarType, StructType, TensorType, TileType

_INDENT = "    "
_TERNARY, _COMPARE, _SUM, _UNARY, _ATOM = 0, 4, 9, 11, 12
_LEVEL = {
    "or": 1, "and": 2, "not": 3, "|": 5, "^": 6, "&": 7, "<<": 8, ">>": 8, "+": 9, "-": 9,
    "*": 10, "/": 10, "//": 10, "%": 10, "~": 11, **dict.fromkeys(COMPARISONS, _COMPARE),
}  # fmt: skip
_PLAIN_ATTRIBUTES = ("vr", "vc", "addr")


def print_kernel(kernel: Kernel, core: CoreKind | None = None, *, lines: bool = False) -> str:
    """The text of a kernel, or of its program for one core kind. `lines` adds the source line of every statement."""
    printer = _Printer(lines)
    params = ", ".join(f"{printer.name(p)}: {printer.type_text(p.type)}" for p in kernel.params)
    body: list[str] = []
    for program in kernel.programs:
        if core is None or program.core is core:
            printer.begin(kernel.params)
            body += [f"{_INDENT}with {program.core.value}:", *printer.block(program.body, 2)]
    head = [f"{alias} = {written}" for alias, written in printer.aliases.values()]
    head += [""] if head else []
    head += [f"@kernel(auto_mutex={kernel.auto_mutex})", f"def {kernel.name}({params}):"]
    return "\n".join([*head, *(body or [f"{_INDENT}pass"]), ""])


def print_block(block: Block) -> str:
    """The text of a few statements, for messages and tests; type aliases are written out."""
    return "\n".join(_Printer(False, alias=False).block(block, 0))


def print_expr(expr: Expr) -> str:
    """The text of one expression, for messages."""
    return _Printer(False, alias=False).expr(expr)


def print_type(kind: Any) -> str:
    """The text of one type, for messages."""
    return _Printer(False, alias=False).type_text(kind)


class _Printer:
    def __init__(self, lines: bool, alias: bool = True) -> None:
        self.lines = lines
        self.alias = alias
        self.aliases: dict[TileType | StructType, tuple[str, str]] = {}
        self.seen: set[Var] = set()

    def begin(self, params: Iterable[Var]) -> None:
        """A new program: only the parameters are known."""
        self.seen = set(params)

    # --- types and literals ---

    def type_text(self, kind: Any) -> str:
        """A type, long ones by alias."""
        match kind:
            case ScalarType(dtype):
                return dtype.to_string()
            case TileType() | StructType() if self.alias:
                if kind not in self.aliases:
                    written = self._type_call(kind)  # inner structs first
                    self.aliases[kind] = (f"T{len(self.aliases)}", written)
                return self.aliases[kind][0]
        return self._type_call(kind)

    def _type_call(self, kind: Any) -> str:
        match kind:
            case TileType():
                return _tile_type(kind)
            case StructType(name, fields, is_tiling):
                inner = ", ".join(f"{field!r}: {self.type_text(of)}" for field, of in fields)
                return f"Struct({name!r}, {{{inner}}}{', is_tiling=True' if is_tiling else ''})"
            case TensorType(dtype, dims, layout):
                plain = layout.name == "ND"
                return f"Tensor({list(dims)}, {dtype.to_string()}{'' if plain else f', {layout.name}'})"
        values = [getattr(kind, field.name) for field in dataclasses.fields(kind)]
        args = ", ".join(self.type_text(v) if dataclasses.is_dataclass(v) else _literal(v) for v in values)
        return f"{text.TYPE_NAMES[type(kind)]}({args})"

    def name(self, var: Var) -> str:
        """A variable as it stands in text."""
        return text.encode_name(var.name) or f"local[{var.name!r}]"

    # --- statements ---

    def block(self, block: Block, depth: int) -> list[str]:
        """The lines of a block, indented."""
        out: list[str] = []
        for stmt in block:
            for var in self._undeclared(stmt):
                out.append(f"{_INDENT * depth}{self.name(var)}: {self.type_text(var.type)}")
                self.seen.add(var)
            first = len(out)
            out += self._stmt(stmt, depth)
            if self.lines and stmt.span.line:
                out[first] += f"  # line {stmt.span.line}"
        return out or [_INDENT * depth + "pass"]

    def _undeclared(self, stmt: Stmt) -> list[Var]:
        """Variables the statement mentions first and whose type its own text does not give."""
        own = self._declares(stmt)
        return [var for var in _own_vars(stmt) if var not in self.seen and var is not own and var.type != INDEX]

    def _declares(self, stmt: Stmt) -> Var | None:
        """The variable whose type the statement's own text gives."""
        match stmt:
            case For():
                return None
            case Op(results=results):
                return results[0] if len(results) == 1 and _plain_op(stmt) else None
        return getattr(stmt, "var", None)

    def _target(self, var: Var) -> str:
        if var in self.seen or var.type == INDEX:
            return self.name(var)
        self.seen.add(var)
        return f"{self.name(var)}: {self.type_text(var.type)}"

    def _stmt(self, stmt: Stmt, depth: int) -> list[str]:
        pad = _INDENT * depth
        match stmt:
            case If():
                return self._if(stmt, depth, "if")
            case For(var, start, stop, step, body):
                bounds = [start, stop, step]
                if step == Const(1):
                    bounds = [stop] if start == Const(0) else [start, stop]
                written = ", ".join(map(self.expr, bounds))
                return [f"{pad}for {self.name(var)} in range({written}):", *self.block(body, depth + 1)]
            case While(body):
                return [f"{pad}while True:", *self.block(body, depth + 1)]
            case Break() | Continue() | Return():
                return [pad + text.STMT_NAMES[type(stmt)]]
            case Assign(var, value):
                target = self._target(var)
                return [f"{pad}{target} = {self.expr(value)}"]
            case SetField(place, value):
                target_place = self._pretty_place(place)
                if target_place is not None:
                    return [f"{pad}{target_place} = {self.expr(value)}"]
            case Op() if _plain_op(stmt):
                return [pad + self._op(stmt)]
        return self._generic(stmt, depth)

    def _if(self, stmt: If, depth: int, word: str) -> list[str]:
        out = [f"{_INDENT * depth}{word} {self.expr(stmt.cond)}:", *self.block(stmt.then, depth + 1)]
        match stmt.orelse:
            case (If() as inner,) if not self._undeclared(inner):
                return out + self._if(inner, depth, "elif")
            case ():
                return out
        return [*out, f"{_INDENT * depth}else:", *self.block(stmt.orelse, depth + 1)]

    def _op(self, op: Op) -> str:
        args = [self._arg(arg) for arg in op.args] + self._attrs(op.attrs)
        call = f"{op.name}({', '.join(args)})"
        match op.results:
            case ():
                return call
            case (var,):
                return f"{self._target(var)} = {call}"
        self.seen |= set(op.results)
        return f"{', '.join(map(self.name, op.results))} = {call}"

    def _generic(self, stmt: Any, depth: int) -> list[str]:
        """A call under the statement's word; `var` becomes the target, a body the block of a `with`."""
        target, body, args, late = "", None, [], False
        for field in text.fields_of(walk.class_of(stmt)):
            value = getattr(stmt, field.name)
            if field.kind is Kind.BLOCK:
                body = value
            elif field.name == "var":
                target = self._target(value) + " = "
            elif field.kind is Kind.ATTRS:
                args += self._attrs(value)
                late = True
            elif field.default is not dataclasses.MISSING and value == field.default:
                late = True
            else:
                written = self._field(field, value)
                args.append(f"{field.name}={written}" if late else written)
        line = f"{_INDENT * depth}{target}{text.STMT_NAMES[type(stmt)]}({', '.join(args)})"
        if body is None:
            return [line]
        return [line.replace(text.STMT_NAMES[type(stmt)], f"with {text.STMT_NAMES[type(stmt)]}", 1) + ":",
                *self.block(body, depth + 1)]  # fmt: skip

    def _attrs(self, attrs: tuple[tuple[str, Any], ...]) -> list[str]:
        return [f"{name}={_literal(value)}" for name, value in attrs]

    def _arg(self, arg: Any) -> str:
        match arg:
            case None:
                return "None"
            case tuple():
                return _tuple(map(self.expr, arg))
        return self.expr(arg)

    def _field(self, field: text.FieldInfo, value: Any) -> str:
        if value is None:
            return "None"
        match field.kind:
            case Kind.EXPR:
                return self.expr(value)
            case Kind.EXPRS | Kind.ARGS:
                return _tuple(map(self._arg, value))
            case Kind.VAR:
                return self.name(value)
            case Kind.VARS:
                return _tuple(map(self.name, value))
            case Kind.PLACE:
                return self._place(value)
            case Kind.TYPE:
                return self.type_text(value)
        return str(value.name) if field.enum is not None else _literal(value)

    # --- expressions ---

    def expr(self, expr: Expr, level: int = _TERNARY) -> str:
        """An expression, in parentheses when it binds less than `level`."""
        pretty = self._pretty(expr)
        if pretty is None:
            fields = text.fields_of(walk.class_of(expr))
            args = (self._field(field, getattr(expr, field.name)) for field in fields)
            return f"{type(expr).__name__}({', '.join(args)})"
        written, own = pretty
        return written if own >= level else f"({written})"

    def _pretty(self, expr: Expr) -> tuple[str, int] | None:
        """Text and binding level, None when operators would not say everything."""
        match expr:
            case Const():
                return _const(expr)
            case Local(var):
                return self.name(var), _ATOM
            case Binary():
                return self._binary(expr)
            case Unary(op, operand, kind):
                return self._unary(op, operand, kind)
            case Convert(operand, kind):
                return f"{kind.dtype.to_string()}({self.expr(operand)})", _ATOM
            case Choose(cond, then, other, kind) if kind == then.type:
                return f"{self.expr(then, 1)} if {self.expr(cond, 1)} else {self.expr(other)}", _TERNARY
            case Query(name, kind) if kind == text.QUERY_TYPE and name.isidentifier():
                return f"{text.QUERY_PREFIX}{name}()", _ATOM
            case IsNull(ptr):
                return f"{self.expr(ptr, _COMPARE + 1)} is None", _COMPARE
            case TilePlus(base, offset, kind) | PtrPlus(base, offset, kind) if kind == base.type:
                return f"{self.expr(base, _SUM)} + {self.expr(offset, _SUM + 1)}", _SUM
        written = self._access(expr)
        return None if written is None else (written, _ATOM)

    def _access(self, expr: Expr) -> str | None:
        """Attributes and subscripts."""
        match expr:
            case Dim(tensor, axis):
                return f"{self.name(tensor)}.shape[{axis}]"
            case TileAttr(tile, what, 0) if what in _PLAIN_ATTRIBUTES:
                return f"{self.expr(tile, _ATOM)}.{what}"
            case TileAttr(tile, "mutex", index):
                return f"{self.expr(tile, _ATOM)}.mutex[{index}]"
            case Slot(group, index):
                return f"{self.name(group)}[{self.expr(index)}]"
            case Pick(index, options, kind) if options and kind == options[0].type:
                return f"{_tuple(map(self.expr, options))}[{self.expr(index)}]"
            case PtrOf(Var(type=TensorType(dtype=dtype)) as tensor, PtrType(pointee)) if dtype is pointee:
                return f"{self.name(tensor)}.ptr"
            case Field(place):
                return self._pretty_place(place)
        return None

    def _binary(self, expr: Binary) -> tuple[str, int] | None:
        op, lhs = expr.op, expr.lhs
        if not isinstance(lhs.type, ScalarType) or expr.type != text.binary_type(op, lhs.type):
            return None
        if op in text.CALLED:
            return f"{op}({self.expr(lhs)}, {self.expr(expr.rhs)})", _ATOM
        level = _LEVEL[op]
        # Python chains comparisons and flattens `and`/`or`: a nested one keeps its parentheses
        left = level if level > _COMPARE else level + 1
        return f"{self.expr(lhs, left)} {op} {self.expr(expr.rhs, level + 1)}", level

    def _unary(self, op: str, operand: Expr, kind: ScalarType) -> tuple[str, int] | None:
        if op == "not":
            is_plain = kind == BOOL and isinstance(operand.type, ScalarType)
            return (f"not {self.expr(operand, 3)}", 3) if is_plain else None
        if kind != operand.type or not isinstance(kind, ScalarType):
            return None
        if op == "-" and isinstance(operand, Const):  # `-5` is the constant
            return f"neg({self.expr(operand)})", _ATOM
        return f"{op}{self.expr(operand, _UNARY)}", _UNARY

    def _pretty_place(self, place: Place) -> str | None:
        derived = text.place_type(place.var, place.index is not None, place.path, place.element is not None)
        if derived is None or derived != place.type or not all(name.isidentifier() for name in place.path):
            return None
        index = "" if place.index is None else f"[{self.expr(place.index)}]"
        element = "" if place.element is None else f"[{self.expr(place.element)}]"
        return "".join([self.name(place.var), index, *(f".{name}" for name in place.path), element])

    def _place(self, place: Place) -> str:
        written = self._pretty_place(place)
        if written is not None:
            return written
        fields = text.fields_of(Place)
        return f"Place({', '.join(self._field(field, getattr(place, field.name)) for field in fields)})"


def _own_vars(stmt: Stmt) -> list[Var]:
    """Variables in the statement itself, without its nested blocks, in order of mention."""
    inner = {id(child) for block in walk.blocks(stmt) for child in block}
    stack = [child for child in walk.children(stmt) if id(child) not in inner]
    found: dict[Var, None] = {}
    for child in stack:
        for node in walk.walk(child):
            if isinstance(node, Var):
                found.setdefault(node)
    return list(found)


def _plain_op(op: Op) -> bool:
    """Whether `name(args, attr=...)` reads back as this op and nothing else."""
    parts = op.name.split(".")
    if not all(part.isidentifier() for part in parts) or not all(name.isidentifier() for name, _ in op.attrs):
        return False
    if len(parts) > 1:
        return True
    is_query = bool(op.results) and not op.args and not op.attrs and op.name.startswith(text.QUERY_PREFIX)
    return op.name not in text.STMT_CLASSES and op.name not in text.EXPR_CALLS and not is_query


def _const(const: Const) -> tuple[str, int]:
    value, kind = const.value, const.type
    is_plain = (
        (kind == BOOL and isinstance(value, bool))
        or (kind == INDEX and isinstance(value, int) and not isinstance(value, bool))
        or (kind == FP32 and isinstance(value, float) and math.isfinite(value))
    )
    if not is_plain:
        return f"const({_literal(value)}, {kind.dtype.to_string()})", _ATOM
    written = repr(value)
    return written, _UNARY if written.startswith("-") else _ATOM


def _literal(value: Any) -> str:
    match value:
        case DataType():
            return value.to_string()
        case Enum():
            return f"{type(value).__name__}.{value.name}"
        case None | bool() | int() | str():
            return repr(value)
        case float():
            return repr(value) if math.isfinite(value) else f'float("{value}")'
        case tuple():
            return _tuple(map(_literal, value))
    raise TypeError(f"IR text has no form for a {type(value).__name__}")


def _tuple(items: Iterable[str]) -> str:
    written = list(items)
    return f"({written[0]},)" if len(written) == 1 else f"({', '.join(written)})"


def _tile_type(kind: TileType) -> str:
    plain = TileType(kind.shape, kind.dtype, kind.target_memory, layout=kind.layout if kind.explicit_layout else None)
    extra = []
    if kind.valid_shape != plain.valid_shape:
        extra.append(f"valid_shape={list(kind.valid_shape)}")
    if kind.explicit_layout and kind.layout is not None:
        extra.append(f"layout={kind.layout.name}")
    for name in ("fractal", "pad", "compact"):
        value = getattr(kind, name)
        if value != getattr(plain, name):
            extra.append(f"{name}={value}")
    return f"TileType({', '.join([str(list(kind.shape)), kind.dtype.to_string(), kind.target_memory.name, *extra])})"
