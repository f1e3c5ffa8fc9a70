"""Upper bounds of integer expressions, as far as they show without a run: what a kernel may set a valid shape to."""

from __future__ import annotations

from pypto_pro.ir import walk
from pypto_pro.ir.nodes import Assign, Binary, Block, Choose, Const, Convert, Expr, For, Local, Var

DEPTH = 24  # expressions of kernels are shallow; a deeper chain is not worth following


class Bounds:
    """Upper bounds over one program."""

    def __init__(self, body: Block) -> None:
        self._values: dict[Var, list[Expr]] = {}
        self._loops: dict[Var, For] = {}
        for stmt in walk.statements(body):
            match stmt:
                case Assign(var=var, value=value):
                    self._values.setdefault(var, []).append(value)
                case For(var=var):
                    self._loops[var] = stmt
                case _:
                    for var in walk.bound_vars(stmt):
                        self._values.setdefault(var, []).append(Local(var))  # known to nobody

    def upper(self, expr: Expr, depth: int = 0) -> int | None:
        """The largest value, None when it does not show."""
        if depth > DEPTH:
            return None
        match expr:
            case Const(value=value):
                return int(value)
            case Local(var=var):
                return self._of_var(var, depth + 1)
            case Convert(operand=operand):
                return self.upper(operand, depth + 1)
            case Choose(then=then, other=other):
                return _largest([self.upper(then, depth + 1), self.upper(other, depth + 1)])
            case Binary(op=op, lhs=lhs, rhs=rhs):
                return self._binary(op, lhs, rhs, depth + 1)
        return None

    def _of_var(self, var: Var, depth: int) -> int | None:
        if var in self._loops and var not in self._values:
            stop = self.upper(self._loops[var].stop, depth)
            return None if stop is None else stop - 1
        values = self._values.get(var)
        return _largest([self.upper(v, depth) for v in values]) if values else None

    def _binary(self, op: str, lhs: Expr, rhs: Expr, depth: int) -> int | None:
        a, b = self.upper(lhs, depth), self.upper(rhs, depth)
        match op:
            case "min":
                known = [v for v in (a, b) if v is not None]
                return min(known, default=None)
            case "max":
                return _largest([a, b])
            case "+" if a is not None and b is not None:
                return a + b
            case "-" if a is not None and isinstance(rhs, Const):
                return a - int(rhs.value)
            case "*" if a is not None and b is not None and a >= 0 and b >= 0:
                return a * b
            case "//" if a is not None and isinstance(rhs, Const) and rhs.value > 0:
                return a // int(rhs.value)
            case "%" if isinstance(rhs, Const) and rhs.value > 0:
                return int(rhs.value) - 1
        return None


def _largest(values: list[int | None]) -> int | None:
    known = [v for v in values if v is not None]
    return max(known) if known and len(known) == len(values) else None
