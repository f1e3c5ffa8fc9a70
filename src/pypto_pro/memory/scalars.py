"""Numbers of a program that are known while compiling, by following assignments; `Unknown` for all others."""

from __future__ import annotations

import operator
from collections.abc import Callable

from pypto_pro.ir import nodes, walk
from pypto_pro.ir.nodes import Expr, Var

Number = int | float
LIMIT = 1 << 31  # results beyond wrap by dtype, which nobody needs here

ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "min": min, "max": max, "&": operator.and_,
    "|": operator.or_, "^": operator.xor, "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge, "and": lambda a, b: int(bool(a and b)), "or": lambda a, b: int(bool(a or b)),
}  # fmt: skip


class Unknown(Exception):
    """A number that only the run knows."""


class Numbers:
    """Values of variables at one place of a straight walk."""

    def __init__(self) -> None:
        self.known: dict[Var, int] = {}

    def step(self, stmt: nodes.Stmt) -> None:
        """Follow an assignment; what else a statement binds is unknown from here on."""
        match stmt:
            case nodes.Assign(var=var, value=value):
                found = self.maybe(value)
                self.known.pop(var, None)
                if found is not None:
                    self.known[var] = found
            case _:
                for var in walk.bound_vars(stmt):
                    self.known.pop(var, None)

    def maybe(self, expr: Expr) -> int | None:
        """The integer, None when it is not known."""
        try:
            found = self.value(expr)
        except Unknown:
            return None
        return found if isinstance(found, int) else None

    def value(self, expr: Expr) -> Number:
        """The number of an expression: an integer, or a constant float. Unknown for all else."""
        match expr:
            case nodes.Const(value=value):
                return value
            case nodes.Local(var=var) if var in self.known:
                return self.known[var]
            case nodes.Convert(operand=operand, type=type_) if not type_.dtype.is_float():
                return self.integer(operand)
            case nodes.Unary(op="-", operand=operand):
                return -self.integer(operand)
            case nodes.Unary(op="not", operand=operand):
                return int(not self.integer(operand))
            case nodes.Choose(cond=cond, then=then, other=other):
                return self.value(then if self.integer(cond) else other)
            case nodes.Binary(op=op, lhs=lhs, rhs=rhs):
                return self.binary(op, self.integer(lhs), self.integer(rhs))
        raise Unknown

    def integer(self, expr: Expr) -> int:
        found = self.value(expr)
        if not isinstance(found, int):
            raise Unknown
        return int(found)

    @staticmethod
    def binary(op: str, a: int, b: int) -> int:
        if op in ("//", "%") and b:  # run-time division truncates
            quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
            found = quotient if op == "//" else a - quotient * b
        elif op in ARITHMETIC:
            found = int(ARITHMETIC[op](a, b))
        else:
            raise Unknown
        if not -LIMIT <= found < LIMIT:
            raise Unknown
        return found
