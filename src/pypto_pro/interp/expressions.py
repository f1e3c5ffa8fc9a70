"""IR expressions -> Python expression text over the locals of a generated program.

A tile or tensor variable holds its descriptor, so operands captured at issue read `.arg`. Groups are tuples of
descriptors, structs flat lists, pointers `GmPtr`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pypto_pro.diag.span import NOWHERE
from pypto_pro.dtypes import DataType
from pypto_pro.interp import scalars
from pypto_pro.interp.sites import IndexSite, Site
from pypto_pro.interp.structs import StructRef, leaf_index
from pypto_pro.ir.nodes import (
    COMPARISONS,
    Binary,
    Choose,
    Const,
    Convert,
    Dim,
    Expr,
    Field,
    IsNull,
    Local,
    Pick,
    Place,
    PtrCast,
    PtrOf,
    PtrPlus,
    Query,
    Slot,
    TileAttr,
    TilePlus,
    Unary,
    Var,
)
from pypto_pro.ir.structs import leaf_count
from pypto_pro.ir.types import (
    GroupType,
    ScalarType,
    StructArrayType,
    StructType,
    TensorType,
    TileType,
)

if TYPE_CHECKING:
    from pypto_pro.interp.machine import Core

MAX_DEPTH = 24
"""Levels of an expression written in place; Python takes 200 nested parentheses, and a level may open several."""


def outside(core: Core, site: IndexSite, index: int, trips: tuple[int, ...]) -> int:
    """An index the device does not check: told, and the last one stands for it, as natively."""
    core.machine.engine.strayed(core, site, index, trips)
    return site.count - 1


def range_(start: int, stop: int, step: int) -> range:
    """The trips of a `for`; a step of 0, which no device defines, makes none."""
    return range(start, stop, step) if step else range(0)


class Namespace:
    """Globals of the generated module: helper functions by name and objects bound to fresh names."""

    def __init__(self) -> None:
        self.sites: list[Site] = []
        self.globals: dict[str, Any] = {
            "inf": math.inf, "nan": math.nan, "outside": outside, "range_": range_, "StructRef": StructRef,
        }  # fmt: skip
        for name in ("wrap", "c_div", "c_mod", "shift_left", "shift_right", "f_div", "f_floor_div", "f_mod", "to_int"):
            self.globals[name] = getattr(scalars, name)
        self.globals["int_to_float"] = scalars.int_to_float
        for dtype, function in scalars.ROUND.items():
            self.globals[f"round_{dtype.to_string()}"] = function

    def bind(self, value: Any, stem: str) -> str:
        """A global name for an object."""
        name = f"{stem}{len(self.globals)}"
        self.globals[name] = value
        return name


class Expressions:
    """Writes expressions. `captured`: tile and tensor variables hold operands, not descriptors (inside calls)."""

    def __init__(self, namespace: Namespace, captured: bool = False) -> None:
        self.space = namespace
        self.captured = captured
        self.temporaries = 0
        self.level = 0
        self.where = NOWHERE
        """Where the statement being written stands."""
        self.loops: tuple[Var, ...] = ()
        """Its loops' variables."""
        self.before: Callable[[str], None] | None = None
        """Writes a line before the statement an expression belongs to; deep expressions are split there."""

    def temp(self) -> str:
        """A fresh local name."""
        self.temporaries += 1
        return f"t{self.temporaries}"

    def var(self, var: Var) -> str:
        """The Python local of a variable; other characters than letters become their code."""
        return "v_" + "".join(c if c.isascii() and c.isalnum() else f"_{ord(c):x}_" for c in var.name)

    # --- scalars ------------------------------------------------------------------------------------------------

    def expr(self, e: Expr) -> str:
        """Text of any expression; tiles, tensors, groups as descriptors."""
        self.level += 1
        text = self.written(e)
        self.level -= 1
        if self.level and self.level % MAX_DEPTH == 0 and self.before is not None:
            name = self.temp()
            self.before(f"{name} = {text}")
            return name
        return text

    def written(self, e: Expr) -> str:
        """The expression in place."""
        match e:
            case Const(value, type_):
                return repr(scalars.typed(value, type_.dtype))
            case Local(var):
                return self.var(var)
            case Binary():
                return self.binary(e)
            case Unary():
                return self.unary(e)
            case Convert(operand, type_):
                return self.convert(operand, type_.dtype)
            case Choose(cond, then, other):
                return f"({self.expr(then)} if {self.expr(cond)} else {self.expr(other)})"
            case Query(name):
                return self.query(name)
            case Dim(tensor, axis):
                return f"{self.operand(Local(tensor))}.dims[{axis}]"
            case TileAttr():
                return self.tile_attr(e)
            case Slot(group, index):
                chosen = self.index(index, group_depth(group), f"group `{group.name}`")
                return f"{self.var(group)}[{chosen}]"
            case Pick(index, options, _):
                return f"({', '.join(self.expr(o) for o in options)},)[{self.index(index, len(options), 'a tuple')}]"
            case Field(place):
                return self.field(place)
        return self.address(e)

    def address(self, e: Expr) -> str:
        """Pointers, and tiles moved inside vector functions."""
        match e:
            case TilePlus(tile, offset):
                return f"{self.operand(tile)}.moved({self.expr(offset)})"
            case PtrPlus(ptr, offset, type_):
                return f"{self.expr(ptr)}.plus({self.expr(offset)} * {type_.dtype.nbytes})"
            case PtrCast(ptr):
                return self.expr(ptr)
            case PtrOf(tensor):
                return f"{self.var(tensor)}.ptr"
            case IsNull(ptr):
                return f"{self.expr(ptr)}.is_null"
        raise TypeError(f"not an expression: {e!r}")

    def index(self, e: Expr, count: int, of: str) -> str:
        """An index into `count` things, named in words; checked unless it is a constant inside."""
        if isinstance(e, Const) and 0 <= e.value < count:
            return str(int(e.value))
        t = self.temp()
        site = self.space.bind(IndexSite(self.where, tuple(v.name for v in self.loops), of, count), "I")
        trips = "".join(f"{self.var(v)}, " for v in self.loops)
        core = "vf.core" if self.captured else "core"
        return f"({t} if 0 <= ({t} := {self.expr(e)}) < {count} else outside({core}, {site}, {t}, ({trips})))"

    def query(self, name: str) -> str:
        """A launch or thread coordinate: a local."""
        return f"q_{name.replace('.', '_')}"

    def tile_attr(self, e: TileAttr) -> str:
        """A number of a descriptor."""
        if e.what == "mutex":
            return f"{self.expr(e.tile)}.mutex[{e.index}]"
        return f"{self.operand(e.tile)}.{e.what}"

    def binary(self, e: Binary) -> str:
        """Arithmetic of one dtype, comparisons and logic."""
        lhs, rhs, op = self.expr(e.lhs), self.expr(e.rhs), e.op
        if op in COMPARISONS:
            return f"({lhs} {op} {rhs})"
        if op in ("and", "or"):
            return f"({self.truth(e.lhs)} {op} {self.truth(e.rhs)})"
        if op in ("min", "max"):
            a, b = self.temp(), self.temp()
            relation = "<" if op == "min" else ">"
            return f"({b} if ({b} := {rhs}) {relation} ({a} := {lhs}) else {a})"
        dtype = e.type.dtype
        if dtype.is_float():
            return self.float_binary(op, lhs, rhs, dtype)
        return self.int_binary(op, lhs, rhs, dtype, e.rhs)

    def float_binary(self, op: str, lhs: str, rhs: str, dtype: DataType) -> str:
        """One operation, one rounding."""
        calls = {"/": "f_div", "//": "f_floor_div", "%": "f_mod"}
        raw = f"{calls[op]}({lhs}, {rhs})" if op in calls else f"{lhs} {op} {rhs}"
        return f"round_{dtype.to_string()}({raw})"

    def int_binary(self, op: str, lhs: str, rhs: str, dtype: DataType, right: Expr) -> str:
        """Wrapping arithmetic; division by a positive constant is inlined."""
        bits = dtype.bits()
        known = right.value if isinstance(right, Const) else None
        match op:
            case "+" | "-" | "*":
                return self.wrapped(f"{lhs} {op} {rhs}", dtype)
            case "&" | "|" | "^":
                return f"({lhs} {op} {rhs})"
            case "//" | "%" if known is not None and known > 0:
                t = self.temp()
                return f"({t} {op} {rhs} if ({t} := {lhs}) >= 0 else -(-{t} {op} {rhs}))"
            case "//":
                return self.wrapped(f"c_div({lhs}, {rhs})", dtype)
            case "%":
                return f"c_mod({lhs}, {rhs})"
            case "<<" if known is not None and 0 <= known < bits:
                return self.wrapped(f"({lhs} << {rhs})", dtype)
            case "<<":
                return self.wrapped(f"shift_left({lhs}, {rhs}, {bits})", dtype)
            case ">>" if known is not None and 0 <= known < bits:
                return f"({lhs} >> {rhs})"
            case ">>":
                return f"shift_right({lhs}, {rhs}, {bits})"
        raise TypeError(f"no integer operator {op}")

    def wrapped(self, text: str, dtype: DataType) -> str:
        """`text` brought into the range of an integer dtype, at the price of two comparisons when it is inside."""
        t = self.temp()
        low, high = dtype.int_min, dtype.int_max
        signed = dtype.is_signed_int()
        return f"({t} if {low} <= ({t} := {text}) <= {high} else wrap({t}, {dtype.bits()}, {signed}))"

    def truth(self, e: Expr) -> str:
        """A condition as a Python bool."""
        text = self.expr(e)
        is_bool = isinstance(e.type, ScalarType) and e.type.dtype is DataType.DT_BOOL
        return text if is_bool else f"({text} != 0)"

    def unary(self, e: Unary) -> str:
        """Negation, complement, zero test."""
        text, dtype = self.expr(e.operand), e.type.dtype
        if e.op == "not":
            return f"(not {text})"
        if e.op == "~":
            return f"(~{text})" if dtype.is_signed_int() else f"({text} ^ {dtype.int_max})"
        return f"(-{text})" if dtype.is_float() else self.wrapped(f"-{text}", dtype)

    def convert(self, operand: Expr, to: DataType) -> str:
        """C conversion."""
        assert isinstance(operand.type, ScalarType)
        text, source = self.expr(operand), operand.type.dtype
        if to is DataType.DT_BOOL:
            return f"({text} != 0)"
        if source.is_float():
            if not to.is_float():
                return f"to_int({text}, {self.dtype(to)})"
            return text if _widens(source, to) else f"round_{to.to_string()}({text})"
        if to.is_float():
            return f"int_to_float({text}, {self.dtype(to)})"
        if source is DataType.DT_BOOL:
            return f"int({text})"
        inside = to.int_min <= source.int_min and source.int_max <= to.int_max
        return text if inside else self.wrapped(text, to)

    def dtype(self, dtype: DataType) -> str:
        """A dtype as a global."""
        name = f"D_{dtype.name}"
        self.space.globals[name] = dtype
        return name

    # --- structs ------------------------------------------------------------------------------------------------

    def place(self, place: Place) -> tuple[str, str, int]:
        """(list variable, index text of the first scalar, number of scalars)."""
        type_ = place.var.type
        struct = type_.struct if isinstance(type_, StructArrayType) else type_
        assert isinstance(struct, StructType)
        at, count = leaf_index(struct, place.path)
        text = str(at)
        if isinstance(type_, StructArrayType) and place.index is not None:
            chosen = self.index(place.index, type_.length, f"struct array `{place.var.name}`")
            text = f"{chosen} * {leaf_count(struct)} + {text}"
        if place.element is not None:
            name = ".".join((place.var.name, *place.path))
            text = f"{text} + {self.index(place.element, count, f'array `{name}`')}"
            count = 1
        return self.var(place.var), text, count

    def field(self, place: Place) -> str:
        """The value of a scalar, or a whole struct as an operand."""
        values, at, _ = self.place(place)
        if isinstance(place.type, StructType):
            return f"StructRef({self.space.bind(place.type, 'T')}, {values}, {at})"
        return f"{values}[{at}]"

    # --- operands -----------------------------------------------------------------------------------------------

    def operand(self, e: Expr | tuple[Any, ...] | None) -> str:
        """An operand as an instruction captures it at issue."""
        if e is None:
            return "None"
        if isinstance(e, tuple):
            return f"({''.join(f'{self.operand(x)}, ' for x in e)})"
        text = self.expr(e)
        if isinstance(e, Local) and isinstance(e.type, StructType):
            return f"StructRef({self.space.bind(e.type, 'T')}, {text}, 0)"
        return f"{text}.arg" if not self.captured and isinstance(e.type, TileType | TensorType) else text


def _widens(source: DataType, to: DataType) -> bool:
    return source is to or to is DataType.DT_FP32


def group_depth(group: Var) -> int:
    """Number of slots."""
    assert isinstance(group.type, GroupType)
    return group.type.depth

